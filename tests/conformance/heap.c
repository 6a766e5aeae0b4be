/* The heap as a whole: limits, counters, switching collection off, asking
 * for a collection, incremental mode, dumps. */
#include "harness.h"
#include <gc/gc_mark.h>

static int oom_calls;
static size_t oom_size;
static void *on_oom(size_t n)
{
    oom_calls++;
    oom_size = n;
    return NULL;
}

/* A table, not a list: one stray word could keep a whole list. */
enum { SLOTS = 1 << 20 };
static void **table[SLOTS];
static size_t used;

/* Fills the heap with reachable memory until NULL. */
static NOINLINE size_t fill(size_t size, size_t most)
{
    size_t n = 0;
    while (n < most && used < SLOTS) {
        void **p = GC_malloc(size);
        if (p == NULL)
            break;
        CHECK(p[1] == NULL);
        p[1] = (void *)1;
        table[used++] = p;
        n += size;
    }
    return n;
}

static void let_go(void)
{
    memset(table, 0, used * sizeof *table);
    __asm__ volatile("" : : "r"(table) : "memory");
    used = 0;
}

static NOINLINE void check_filled(void)
{
    for (size_t i = 0; i < used; i++)
        CHECK(table[i][1] == (void *)1);
}

/* At the limit: the out-of-memory function, NULL; then, when memory is let go,
 * all works again. */
static void limit(size_t size)
{
    const size_t top = (size_t)16 << 20;
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    CHECK_NE(GC_get_oom_fn(), NULL);
    GC_set_oom_fn(on_oom);
    CHECK(GC_get_oom_fn() == on_oom);
    CHECK(GC_oom_fn == on_oom);
    GC_set_max_heap_size(top);
    for (int round = 0; round < 3; round++) {
        size_t n = fill(size, 2 * top);
        CHECK_OP(n, <, top);
        CHECK_OP(n, >, top / 8);
        CHECK_OP(oom_calls, >, round);
        CHECK_GE(oom_size, size);
        CHECK_LE(GC_get_heap_size(), top);
        /* Small ones may still fit or not; nothing is damaged. */
        check_filled();
        let_go();
        collect();
        void *p = GC_malloc(size);
        CHECK(p != NULL);
    }
    let_go();
    collect();
    check_alive();
}

static void limit_small(void) { limit(64); }
static void limit_medium(void) { limit(3000); }
static void limit_large(void) { limit(100000); }

static void one_too_large(void)
{
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    GC_set_oom_fn(on_oom);
    GC_set_max_heap_size(16 << 20);
    CHECK(GC_malloc(32 << 20) == NULL);
    CHECK_EQ(oom_calls, 1);
    CHECK(GC_malloc_atomic(32 << 20) == NULL);
    CHECK(GC_malloc_uncollectable(32 << 20) == NULL);
    void *p = GC_malloc(100);
    CHECK(GC_realloc(p, 32 << 20) == NULL);
    CHECK_PTR(GC_base(p), p); /* the old one is untouched */
    CHECK_GE(oom_calls, 4);
    check_alive();
}

static void limit_lifted(void)
{
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    GC_set_oom_fn(on_oom);
    GC_set_max_heap_size(8 << 20);
    CHECK(GC_malloc(32 << 20) == NULL);
    GC_set_max_heap_size(0);
    CHECK(GC_malloc(32 << 20) != NULL);
}

/* What the function returns is what the allocation returns. */
static void *spare;
static void *oom_with_spare(size_t n)
{
    (void)n;
    oom_calls++;
    return spare;
}

static void oom_gives_spare(void)
{
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    spare = GC_malloc(1000);
    GC_set_oom_fn(oom_with_spare);
    GC_set_max_heap_size(8 << 20);
    CHECK_PTR(GC_malloc(32 << 20), spare);
    CHECK_EQ(oom_calls, 1);
}

/* The function may collect and allocate. */
static void *oom_lets_go(size_t n)
{
    oom_calls++;
    if (oom_calls > 3)
        return NULL;
    let_go();
    GC_gcollect();
    return GC_malloc(n);
}

static void oom_recovers(void)
{
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    GC_set_oom_fn(oom_lets_go);
    GC_set_max_heap_size(16 << 20);
    fill(1000, 40 << 20);
    CHECK_OP(oom_calls, >, 0);
    check_alive();
}

/* A dead heap is reused: no growth without reason. */
static void garbage_does_not_grow_the_heap(void)
{
    size_t first = (size_t)(under_stress() ? 4 : 64) << 20;
    GC_INIT();
    churn(first, 100);
    size_t heap = GC_get_heap_size();
    churn(8 * first, 100);
    CHECK_LE(GC_get_heap_size(), 2 * heap + (8 << 20));
    CHECK_OP(GC_get_gc_no(), >, 0);
}

/* A few objects of each of many rounds stay for long: the heap stays near what
 * lives, since the cells between them are used again. */
static void lives_of_mixed_length(void)
{
    static void *volatile keep[4000];
    GC_INIT();
    for (int round = 0; round < (under_stress() ? 4 : 400); round++)
        for (int i = 0; i < 4000; i++) {
            void *p = GC_malloc(64);
            if (i % 3 == round % 3 && i / 3 % 2)
                keep[i] = p;
        }
    CHECK_OP(GC_get_gc_no(), >, 0);
    CHECK_LE(GC_get_heap_size(), 6 << 20); /* 128 KB live; 100 MB are allocated */
    CHECK(keep[1] == NULL || GC_base(keep[1]) == keep[1]);
}

/* ---- counters ---- */

static void *stats_locked(void *arg)
{
    struct GC_prof_stats_s *s = arg;
    CHECK_EQ(GC_get_prof_stats_unsafe(s, sizeof *s), sizeof *s);
    CHECK_EQ(s->heapsize_full, GC_get_heap_size() + GC_get_unmapped_bytes());
    CHECK_EQ(s->free_bytes_full, GC_get_free_bytes() + GC_get_unmapped_bytes());
    CHECK_EQ(s->unmapped_bytes, GC_get_unmapped_bytes());
    CHECK_EQ(s->bytes_allocd_since_gc, GC_get_bytes_since_gc());
    CHECK_EQ(s->allocd_bytes_before_gc,
             GC_get_total_bytes() - GC_get_bytes_since_gc());
    CHECK_EQ(s->non_gc_bytes, GC_get_non_gc_bytes());
    CHECK_EQ(s->gc_no, GC_get_gc_no());
    CHECK_EQ(s->expl_freed_bytes_since_gc, GC_get_expl_freed_bytes_since_gc());
    CHECK_EQ(s->obtained_from_os_bytes, GC_get_obtained_from_os_bytes());
    CHECK_EQ(s->markers_m1, GC_get_parallel());
    CHECK_EQ(GC_gc_no, GC_get_gc_no());
    CHECK_EQ(GC_non_gc_bytes, GC_get_non_gc_bytes());
    CHECK_EQ(GC_parallel, GC_get_parallel());
    return NULL;
}

static void counters_agree(void)
{
    struct GC_prof_stats_s s;
    GC_word heap, free_bytes, unmapped, since, total;
    GC_INIT();
    for (int r = 0; r < 5; r++) {
        churn(3 << 20, 64);
        GC_free(GC_malloc(5000));
        GC_call_with_alloc_lock(stats_locked, &s);
        GC_get_heap_usage_safe(&heap, &free_bytes, &unmapped, &since, &total);
        CHECK_EQ(heap, GC_get_heap_size());
        CHECK_EQ(free_bytes, GC_get_free_bytes());
        CHECK_EQ(unmapped, GC_get_unmapped_bytes());
        CHECK_EQ(since, GC_get_bytes_since_gc());
        CHECK_EQ(total, GC_get_total_bytes());
        CHECK_LE(free_bytes, heap);
        CHECK_LE(heap, GC_get_obtained_from_os_bytes());
        CHECK_OP(GC_get_memory_use(), >, 0);
        GC_get_heap_usage_safe(NULL, NULL, NULL, NULL, NULL);
        GC_gcollect();
    }
}

/* An older client passes a shorter structure, a newer one a longer. */
static void stats_of_other_sizes(void)
{
    struct {
        struct GC_prof_stats_s s;
        GC_word more[3];
    } longer;
    GC_INIT();
    memset(&longer, 7, sizeof longer);
    CHECK_EQ(GC_get_prof_stats(&longer.s, sizeof longer), sizeof longer.s);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(longer.more[i], ~(GC_word)0);
    memset(&longer, 7, sizeof longer);
    CHECK_EQ(GC_get_prof_stats(&longer.s, 3 * sizeof(GC_word)),
             3 * sizeof(GC_word));
    CHECK_EQ(longer.s.bytes_allocd_since_gc, 0x0707070707070707);
    CHECK_OP(longer.s.heapsize_full, >, 0);
    CHECK_EQ(GC_get_prof_stats(&longer.s, 0), 0);
}

static void counters_move(void)
{
    GC_INIT();
    GC_word no = GC_get_gc_no();
    size_t total = GC_get_total_bytes();
    GC_gcollect();
    CHECK_EQ(GC_get_gc_no(), no + 1);
    GC_gcollect();
    CHECK_EQ(GC_get_gc_no(), no + 2);
    GC_disable();
    size_t since = GC_get_bytes_since_gc();
    for (int i = 0; i < 100; i++)
        fill(10000, 1);
    CHECK_GE(GC_get_bytes_since_gc(), since + 1000000);
    CHECK_GE(GC_get_total_bytes(), total + 1000000);
    size_t freed = GC_get_expl_freed_bytes_since_gc();
    used--;
    GC_free(table[used]);
    table[used] = NULL;
    CHECK_GE(GC_get_expl_freed_bytes_since_gc(), freed + 10000);
    GC_enable();
    GC_gcollect();
    CHECK_OP(GC_get_bytes_since_gc(), <, 1000000);
    CHECK_EQ(GC_get_expl_freed_bytes_since_gc(), 0);
    CHECK_GE(GC_get_total_bytes(), total + 1000000); /* never decreases */
}

static void free_bytes_rise(void)
{
    GC_INIT();
    fill(100000, 20 << 20);
    size_t before = GC_get_free_bytes() + GC_get_unmapped_bytes();
    let_go();
    collect();
    CHECK_GE(GC_get_free_bytes() + GC_get_unmapped_bytes(),
             before + (10 << 20));
}

static void memory_use(void)
{
    GC_INIT();
    size_t before = GC_get_memory_use();
    fill(1000, 10 << 20);
    CHECK_GE(GC_get_memory_use(), before + (10 << 20));
}

static void expand(void)
{
    GC_INIT();
    size_t heap = GC_get_heap_size();
    CHECK_EQ(GC_expand_hp((size_t)50 << 20), 1);
    CHECK_GE(GC_get_heap_size(), heap + ((size_t)50 << 20));
    /* That much then fits without a collection. */
    GC_word no = GC_get_gc_no();
    fill(1000, 40 << 20);
    if (!under_stress())
        CHECK_EQ(GC_get_gc_no(), no);
}

static void expand_before_init(void)
{
    CHECK_EQ(GC_expand_hp(20 << 20), 1);
    CHECK(GC_is_init_called());
    CHECK_GE(GC_get_heap_size(), 20 << 20);
}

static void expand_past_limit(void)
{
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    GC_set_max_heap_size(8 << 20);
    CHECK_EQ(GC_expand_hp(64 << 20), 0);
    CHECK_EQ(GC_expand_hp(SIZE_MAX / 2), 0);
}

static void collect_and_unmap(void)
{
    GC_INIT();
    fill(100000, 40 << 20);
    let_go();
    scrub();
    size_t heap = GC_get_heap_size();
    /* Stock unmaps what was free at the collection before, so more than one
     * is needed. */
    for (int i = 0; i < 4; i++)
        GC_gcollect_and_unmap();
    CHECK_OP(GC_get_unmapped_bytes(), >, 0);
    CHECK_OP(GC_get_heap_size(), <, heap);
    /* What was given back comes again, as zero. */
    fill(100000, 40 << 20);
    let_go();
    CHECK_EQ(GC_get_force_unmap_on_gcollect(), 0);
    GC_set_force_unmap_on_gcollect(1);
    CHECK_EQ(GC_get_force_unmap_on_gcollect(), 1);
    for (int i = 0; i < 4; i++)
        collect();
    CHECK_OP(GC_get_unmapped_bytes(), >, 0);
    check_alive();
}

/* ---- on and off ---- */

static NOINLINE void make_watched(void)
{
    for (int i = 0; i < MANY; i++)
        watch(i, GC_malloc(32));
}

static void disable_nests(void)
{
    GC_INIT();
    CHECK_EQ(GC_is_disabled(), 0);
    GC_disable();
    GC_disable();
    CHECK_NE(GC_is_disabled(), 0);
    CHECK_EQ(GC_dont_gc, 2);
    GC_word no = GC_get_gc_no();
    deep(make_watched);
    collect();
    churn(20 << 20, 100);
    CHECK_EQ(GC_get_gc_no(), no);
    CHECK_NONE_GONE(MANY);
    GC_enable();
    CHECK_NE(GC_is_disabled(), 0);
    collect();
    CHECK_EQ(GC_get_gc_no(), no);
    GC_enable();
    CHECK_EQ(GC_is_disabled(), 0);
    collect();
    CHECK_OP(GC_get_gc_no(), >, no);
    CHECK_MOST_GONE(MANY);
}

static void dont_gc_variable(void)
{
    GC_INIT();
    GC_word no = GC_get_gc_no();
    GC_dont_gc = 1;
    CHECK_NE(GC_is_disabled(), 0);
    collect();
    churn(20 << 20, 100);
    CHECK_EQ(GC_get_gc_no(), no);
    GC_dont_gc = 0;
    collect();
    CHECK_OP(GC_get_gc_no(), >, no);
}

static void disabled_before_init(void)
{
    GC_disable();
    GC_INIT();
    GC_word no = GC_get_gc_no();
    collect();
    CHECK_EQ(GC_get_gc_no(), no);
    GC_enable();
    collect();
    CHECK_OP(GC_get_gc_no(), >, no);
}

static void automatic_off(void)
{
    GC_INIT();
    CHECK_EQ(GC_get_disable_automatic_collection(), 0);
    GC_set_disable_automatic_collection(1);
    CHECK_EQ(GC_get_disable_automatic_collection(), 1);
    GC_word no = GC_get_gc_no();
    churn(64 << 20, 100);
    CHECK_EQ(GC_get_gc_no(), no);
    GC_gcollect();
    CHECK_EQ(GC_get_gc_no(), no + 1);
    GC_set_disable_automatic_collection(0);
    churn(256 << 20, 100);
    CHECK_OP(GC_get_gc_no(), >, no + 1);
}

/* ---- try_to_collect and the stop function ---- */

static int stop_calls, stop_after = -1;
static int stop(void)
{
    stop_calls++;
    return stop_after >= 0 && stop_calls > stop_after;
}

static void try_to_collect(void)
{
    GC_INIT();
    fill(64, 10 << 20);
    GC_word no = GC_get_gc_no();
    CHECK_EQ(GC_try_to_collect(stop), 1);
    CHECK_OP(stop_calls, >, 0);
    CHECK_EQ(GC_get_gc_no(), no + 1);
    stop_after = 0;
    stop_calls = 0;
    CHECK_EQ(GC_try_to_collect(stop), 0);
    stop_after = -1;
    CHECK_EQ(GC_try_to_collect(stop), 1);
    GC_disable();
    CHECK_EQ(GC_try_to_collect(stop), 0);
    GC_enable();
    check_filled();
}

/* Aborted at each of its first questions in turn: nothing is lost. */
static void aborted_collections(void)
{
    GC_INIT();
    fill(64, 5 << 20);
    for (stop_after = 0; stop_after < 30; stop_after++) {
        stop_calls = 0;
        GC_try_to_collect(stop);
        fill(64, 100000);
    }
    stop_after = -1;
    CHECK_EQ(GC_try_to_collect(stop), 1);
    check_filled();
    check_alive();
}

static void default_stop_func(void)
{
    GC_INIT();
    CHECK(GC_get_stop_func() != NULL);
    GC_stop_func old = GC_get_stop_func();
    GC_set_stop_func(stop);
    CHECK(GC_get_stop_func() == stop);
    GC_gcollect();
    CHECK_OP(stop_calls, >, 0);
    stop_after = 0;
    deep(make_watched);
    collect();
    CHECK_NONE_GONE(MANY); /* every one was aborted */
    GC_set_stop_func(old);
    collect();
    CHECK_MOST_GONE(MANY);
}

/* ---- in small steps ---- */

static void a_little(void)
{
    GC_INIT();
    deep(make_watched);
    GC_word no = GC_get_gc_no();
    scrub();
    int n = 0;
    while (GC_collect_a_little() != 0)
        REQUIRE(++n < 10000000);
    /* In the ordinary mode stock collects only if enough was allocated. */
    CHECK_GE(GC_get_gc_no(), no);
    for (int i = 0; i < 1000; i++)
        while (GC_collect_a_little() != 0)
            ;
    check_alive();
}

/* Accepted everywhere, whether or not it makes a difference. Stock stays in
 * the ordinary mode where its kernel interface is missing, so the mode is not
 * asserted. */
static void incremental(void)
{
    GC_enable_incremental();
    GC_INIT();
    NOTE("incremental mode: %d, needs %d\n", GC_is_incremental_mode(),
         GC_incremental_protection_needs());
    GC_set_full_freq(3);
    GC_set_time_limit(5);
    fill(64, 5 << 20);
    GC_start_incremental_collection();
    for (int i = 0; i < 200; i++) {
        GC_collect_a_little();
        churn(100000, 64);
    }
    check_filled();
    collect();
    check_alive();
}

static void incremental_after_init(void)
{
    GC_INIT();
    fill(64, 1 << 20);
    GC_enable_incremental();
    fill(64, 1 << 20);
    collect();
    check_filled();
    check_alive();
}

static void **volatile chain;

static void manual_vdb(void)
{
    GC_set_manual_vdb_allowed(1);
    CHECK_EQ(GC_get_manual_vdb_allowed(), 1);
    GC_enable_incremental();
    GC_INIT();
    for (int i = 0; i < 20000; i++) {
        void **p = GC_malloc(64);
        GC_ptr_store_and_dirty(p, (void *)chain);
        GC_ptr_store_and_dirty(p + 1, (void *)1);
        chain = p;
        GC_end_stubborn_change(p);
        GC_reachable_here(p);
        if (i % 1000 == 0)
            GC_collect_a_little();
    }
    int n = 0;
    for (void **p = (void **)chain; p != NULL; p = p[0])
        n++;
    CHECK_EQ(n, 20000);
}

static void not_incremental(void)
{
    GC_INIT();
    /* Unless it was chosen for the program. */
    const char *options = getenv("GLEANER_OPTIONS");
    if (options == NULL || strstr(options, "generations=") == NULL)
        CHECK_EQ(GC_is_incremental_mode(), 0);
    GC_start_incremental_collection(); /* does nothing */
    check_alive();
}

/* ---- time ---- */

static void measured(void)
{
    GC_start_performance_measurement();
    GC_INIT();
    fill(64, under_stress() ? 1 << 20 : 60 << 20);
    unsigned long before = GC_get_full_gc_total_time();
    for (int i = 0; i < 10; i++)
        GC_gcollect();
    CHECK_GE(GC_get_full_gc_total_time(), before);
}

/* ---- dumps: print and change nothing ---- */

static void *dump_locked(void *arg)
{
    GC_dump_named("locked");
    GC_dump_named(NULL);
    GC_dump_regions();
    return arg;
}

static void dumps(void)
{
    GC_INIT();
    fill(64, 1 << 20);
    GC_gcollect();
    GC_dump();
    GC_call_with_alloc_lock(dump_locked, NULL);
    check_filled();
    check_alive();
}

static void shutdown(void)
{
    GC_INIT();
    check_alive();
    GC_deinit();
    GC_deinit();
}

/* Several threads at the limit at once: in each round all hold what they got until the last has its share or NULL. Two
 * shares fit below the limit, three do not, so all other threads get NULL; and each goes on. */
enum { AT_LIMIT = 6, ROUNDS = 10, SHARE = 600 };
static pthread_barrier_t all_hold;

static void *at_the_limit(void *arg)
{
    int nulls = 0;
    void **mine[SHARE];
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
        for (; n < SHARE; n++) {
            mine[n] = GC_malloc(20000);
            if (mine[n] == NULL) {
                nulls++;
                break;
            }
            REQUIRE(mine[n][0] == NULL);
            mine[n][0] = arg;
        }
        pthread_barrier_wait(&all_hold);
        for (int i = 0; i < n; i++)
            REQUIRE(mine[i][0] == arg);
        memset(mine, 0, sizeof mine);
        __asm__ volatile("" : : "r"(mine) : "memory");
    }
    __atomic_fetch_add(&oom_calls, nulls, __ATOMIC_RELAXED);
    return arg;
}

static void *just_null(size_t n)
{
    (void)n;
    return NULL;
}

static void limit_in_threads(void)
{
    pthread_t t[AT_LIMIT];
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    GC_set_oom_fn(just_null);
    GC_set_max_heap_size(24 << 20);
    REQUIRE(pthread_barrier_init(&all_hold, NULL, AT_LIMIT) == 0);
    for (int i = 0; i < AT_LIMIT; i++)
        REQUIRE(pthread_create(&t[i], NULL, at_the_limit, &t[i]) == 0);
    for (int i = 0; i < AT_LIMIT; i++) {
        void *r = NULL;
        pthread_join(t[i], &r);
        CHECK_PTR(r, &t[i]);
    }
    CHECK_GE(oom_calls, (AT_LIMIT - 2) * ROUNDS);
    collect();
    check_alive();
}

/* Large objects without pointers that nobody writes take no memory. When they are gone, small ones are not to fill as
 * much as they were large before they are collected. */
enum { UNTOUCHED = 64 << 20 };

static NOINLINE void *untouched(int explicitly)
{
    void *volatile object = GC_MALLOC_ATOMIC(UNTOUCHED);
    if (explicitly)
        GC_FREE(object);
    object = NULL;
    return object;
}

static size_t most_small(void)
{
    size_t most = 0, from = GC_get_total_bytes();
    while (GC_get_total_bytes() - from < 3 * (size_t)UNTOUCHED) {
        for (int i = 0; i < 1000; i++)
            GC_MALLOC(100);
        /* What was there at first is collected once. */
        if (GC_get_total_bytes() - from > UNTOUCHED / 2 && GC_get_heap_size() > most)
            most = GC_get_heap_size();
    }
    return most;
}

/* What is dead is written over then. */
static int are_poisoned(void)
{
    const char *options = getenv("GLEANER_OPTIONS");
    return options != NULL && strstr(options, "poison=on") != NULL;
}

static void untouched_objects_leave_no_room(void)
{
    if (are_poisoned())
        return;
    for (int i = 0; i < 6; i++)
        untouched(0);
    CHECK_LE(most_small(), UNTOUCHED / 2);
}

static void untouched_objects_that_are_freed_leave_no_room(void)
{
    if (are_poisoned())
        return;
    for (int i = 0; i < 6; i++)
        untouched(1);
    CHECK_LE(most_small(), UNTOUCHED / 2);
}

MAIN_BEGIN
    RUN(limit_small);
    RUN(limit_medium);
    RUN(limit_large);
    RUN(one_too_large);
    RUN(limit_lifted);
    RUN(oom_gives_spare);
    RUN(oom_recovers);
    RUN(garbage_does_not_grow_the_heap);
    RUN(lives_of_mixed_length);
    RUN(counters_agree);
    RUN(stats_of_other_sizes);
    RUN(counters_move);
    RUN(free_bytes_rise);
    RUN(memory_use);
    RUN(expand);
    RUN(expand_before_init);
    RUN(expand_past_limit);
    RUN(collect_and_unmap);
    RUN(disable_nests);
    RUN(dont_gc_variable);
    RUN(disabled_before_init);
    RUN(automatic_off);
    RUN(try_to_collect);
    RUN(aborted_collections);
    RUN(default_stop_func);
    RUN(a_little);
    RUN(incremental);
    RUN(incremental_after_init);
    RUN(manual_vdb);
    RUN(not_incremental);
    RUN(measured);
    RUN(dumps);
    RUN(shutdown);
    RUN(limit_in_threads);
    RUN_GLEANER(untouched_objects_leave_no_room);
    RUN_GLEANER(untouched_objects_that_are_freed_leave_no_room);
MAIN_END
