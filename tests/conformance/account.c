/* What was allocated and freed, to the byte; and that explicit frees neither
 * put off collections nor bring them about. */
#include "harness.h"
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>

static const size_t sizes[] = {1, 16, 40, 64, 140, 500, 840, 2740, 6440, 30000, 200000};
#define SIZES (sizeof sizes / sizeof sizes[0])

/* ---- explicit frees ---- */

static void freed_bytes_are_exact(void)
{
    GC_INIT();
    for (int round = 0; round < 600; round++) /* more than a thread's list takes */
        for (size_t i = 0; i < SIZES; i++) {
            void *p = GC_malloc(sizes[i]);
            size_t size = GC_size(p), before = GC_get_expl_freed_bytes_since_gc();
            GC_free(p);
            CHECK_EQ(GC_get_expl_freed_bytes_since_gc() - before, size);
        }
}

static void freed_bytes_of_every_kind(void)
{
    GC_INIT();
    for (int kind = 0; kind < 4; kind++) {
        void *p = GC_generic_or_special_malloc(100, kind);
        size_t size = GC_size(p), before = GC_get_expl_freed_bytes_since_gc();
        GC_free(p);
        CHECK_EQ(GC_get_expl_freed_bytes_since_gc() - before, size);
    }
}

static void collections_reset_freed_bytes(void)
{
    GC_INIT();
    GC_free(GC_malloc(40));
    GC_gcollect();
    CHECK_EQ(GC_get_expl_freed_bytes_since_gc(), 0);
    GC_free(GC_malloc(40));
    CHECK_EQ(GC_get_expl_freed_bytes_since_gc(), 48);
}

/* What a thread frees others get while it lives, but for the little that it keeps for itself. */
static void **given_up;
static int number_given;
static pthread_barrier_t freed;

static void *freeing_thread(void *unused)
{
    (void)unused;
    for (int i = 0; i < number_given; i++)
        GC_free(given_up[i]);
    pthread_barrier_wait(&freed);
    pthread_barrier_wait(&freed); /* it lives until the others have allocated */
    return NULL;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t one = *(const uintptr_t *)a, other = *(const uintptr_t *)b;
    return one < other ? -1 : one > other;
}

static void others_get(int given, size_t bytes, int kept)
{
    pthread_t thread;
    GC_INIT();
    GC_disable();
    given_up = malloc(given * sizeof *given_up);
    number_given = given;
    for (int i = 0; i < given; i++)
        given_up[i] = GC_malloc(bytes);
    qsort(given_up, given, sizeof *given_up, by_address);
    pthread_barrier_init(&freed, NULL, 2);
    REQUIRE(pthread_create(&thread, NULL, freeing_thread, NULL) == 0);
    pthread_barrier_wait(&freed);
    int again = 0;
    for (int i = 0; i < given; i++) {
        void *p = GC_malloc(bytes);
        again += bsearch(&p, given_up, given, sizeof *given_up, by_address) != NULL;
    }
    CHECK_GE(again, given - kept);
    pthread_barrier_wait(&freed);
    pthread_join(thread, NULL);
    free(given_up);
}

static void others_get_what_a_thread_freed(void)
{
    others_get(40000, 48, 1000);
}

static void others_get_large_cells_that_a_thread_freed(void)
{
    others_get(1000, 4000, 30); /* a little over 100 KB is left */
}

/* What is more than a thread's list takes no magazine keeps. */
static void others_get_each_cell_at_once(void)
{
    add_options("freed-cells=shared");
    others_get(1000, 48, 128);
}

/* What a thread frees it gets again before the heap grows, and each cell once: from its list, from its magazine, and from what
   it gave to all. */
static void freed_cells_come_back_once(void)
{
    enum { COUNT = 3000 };
    static void *objects[COUNT];
    GC_INIT();
    GC_disable();
    for (size_t bytes = 16; bytes <= 2048; bytes *= 2) {
        for (int i = 0; i < COUNT; i++)
            objects[i] = GC_malloc_uncollectable(bytes);
        size_t heap = GC_get_heap_size();
        for (int round = 0; round < 5; round++) {
            for (int i = round; i < COUNT; i += 1 + round)
                GC_free(objects[i]);
            for (int i = round; i < COUNT; i += 1 + round) {
                objects[i] = GC_malloc_uncollectable(bytes);
                CHECK(all_zero(objects[i], bytes));
                *(void **)objects[i] = &objects[i];
            }
            for (int i = 0; i < COUNT; i++)
                CHECK(*(void **)objects[i] == &objects[i]);
        }
        CHECK_EQ(GC_get_heap_size(), heap);
        for (int i = 0; i < COUNT; i++)
            GC_free(objects[i]);
    }
}

/* GC_malloc_many hands out freed cells, too. */
static void lists_have_freed_cells(void)
{
    GC_INIT();
    GC_disable();
    size_t heap = 0;
    for (int round = 0; round < 2000; round++) {
        void *next, *list = GC_malloc_many(48);
        for (void *p = list; p != NULL; p = next) {
            next = GC_NEXT(p);
            GC_NEXT(p) = NULL;
            CHECK(all_zero(p, 48));
            memset(p, 0xff, 48);
            GC_free(p);
        }
        if (round == 100)
            heap = GC_get_heap_size();
    }
    CHECK_LE(GC_get_heap_size(), heap + (1 << 20));
}

static void shared_cells_come_back_once(void)
{
    add_options("freed-cells=shared");
    freed_cells_come_back_once();
}

/* ---- allocation; stock counts a thread's whole lists ---- */

/* Allocates all sizes and returns the sum of what was got. */
static size_t allocate_some(int count)
{
    size_t sum = 0;
    for (size_t i = 0; i < SIZES; i++)
        for (int n = 0; n < (sizes[i] < 10000 ? count : 1); n++)
            sum += GC_size(sizes[i] % 2 ? GC_malloc_atomic(sizes[i]) : GC_malloc(sizes[i]));
    return sum;
}

static void totals_are_exact(void)
{
    GC_INIT();
    for (int count = 1; count < 2000; count = count * 3 + 1) {
        size_t total = GC_get_total_bytes();
        size_t sum = allocate_some(count);
        CHECK_EQ(GC_get_total_bytes() - total, sum);
        GC_gcollect(); /* the lists stay as they are */
        CHECK_EQ(GC_get_total_bytes() - total, sum);
        CHECK_EQ(GC_get_bytes_since_gc(), 0);
        GC_disable();
        size_t more = allocate_some(count);
        if (!under_stress())
            CHECK_EQ(GC_get_bytes_since_gc(), more);
        GC_enable();
        CHECK_EQ(GC_get_total_bytes() - total, sum + more);
    }
}

static void every_way_to_allocate_counts(void)
{
    GC_INIT();
    size_t total = GC_get_total_bytes(), sum = 0;
    for (int i = 0; i < 1000; i++) {
        sum += GC_size(GC_malloc_uncollectable(100));
        sum += GC_size(GC_memalign(256, 100));
        sum += GC_size(GC_malloc_explicitly_typed(48, GC_make_descriptor(NULL, 0)));
        sum += GC_size(GC_strdup("a word"));
        void *p = GC_malloc(50), *q = GC_realloc(p, 500);
        sum += 64 + GC_size(q); /* the first one is freed */
        CHECK_EQ(GC_get_total_bytes() - total, sum);
    }
    for (void *p = GC_malloc_many(64); p != NULL; p = GC_NEXT(p))
        sum += GC_size(p);
    CHECK_EQ(GC_get_total_bytes() - total, sum);
}

static void cells_freed_and_reused_count_again(void)
{
    void *held[1000];
    GC_INIT();
    size_t total = GC_get_total_bytes(), sum = 0;
    GC_disable();
    size_t freed = GC_get_expl_freed_bytes_since_gc(), sum_freed = 0;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 1000; i++)
            sum += GC_size(held[i] = GC_malloc(100));
        CHECK_EQ(GC_get_total_bytes() - total, sum);
        for (int i = 0; i < 1000; i++) {
            sum_freed += GC_size(held[i]);
            GC_free(held[i]);
        }
        CHECK_EQ(GC_get_total_bytes() - total, sum);
        CHECK_EQ(GC_get_expl_freed_bytes_since_gc() - freed, sum_freed);
    }
}

static pthread_barrier_t step;
static size_t by_thread;

static void *allocating_thread(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    by_thread = allocate_some(10);
    for (int i = 0; i < 300; i++) {
        void *p = GC_malloc(64);
        by_thread += GC_size(p);
        if (i % 3 == 0)
            GC_free(p);
    }
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    return NULL;
}

static void other_threads_count(void)
{
    pthread_t thread;
    GC_INIT();
    pthread_barrier_init(&step, NULL, 2);
    REQUIRE(pthread_create(&thread, NULL, allocating_thread, NULL) == 0);
    pthread_barrier_wait(&step);
    size_t total = GC_get_total_bytes();
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step); /* it has allocated, and waits */
    CHECK_EQ(GC_get_total_bytes() - total, by_thread);
    GC_gcollect();
    CHECK_EQ(GC_get_total_bytes() - total, by_thread);
    pthread_barrier_wait(&step);
    pthread_join(thread, NULL);
    CHECK_EQ(GC_get_total_bytes() - total, by_thread);
    GC_gcollect();
    CHECK_EQ(GC_get_total_bytes() - total, by_thread);
}

static volatile int enough;

static void *restless_thread(void *arg)
{
    (void)arg;
    while (!enough)
        for (int i = 0; i < 100; i++) {
            void **p = GC_malloc(48);
            p[0] = p; /* what looks like a link */
            if (i % 2)
                GC_free(p);
        }
    return NULL;
}

/* The counter is read while others allocate: it neither crashes nor leaps. */
static void read_while_others_allocate(void)
{
    pthread_t thread[3];
    size_t last = 0;
    GC_INIT();
    for (int i = 0; i < 3; i++)
        REQUIRE(pthread_create(&thread[i], NULL, restless_thread, NULL) == 0);
    for (int i = 0; i < 20000; i++) {
        size_t now = GC_get_total_bytes();
        /* What a list holds may be missed while its thread changes it. */
        CHECK_OP(now + (4 << 20), >, last);
        CHECK_OP(now, <, (size_t)1 << 40);
        CHECK_OP(GC_get_bytes_since_gc(), <, (size_t)1 << 40);
        last = now;
    }
    enough = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
}

/* ---- the heap's size ---- */

static size_t drop_with_pairs(int rounds, int pairs)
{
    GC_word before = GC_get_gc_no();
    for (int i = 0; i < rounds; i++) {
        for (int j = 0; j < pairs; j++)
            GC_free(GC_malloc(64));
        GC_malloc(200);
    }
    return GC_get_gc_no() - before;
}

/* As much garbage brings about as many collections, in as large a heap,
 * whatever is allocated and freed explicitly beside it. */
static void pairs_do_not_put_off_collections(void)
{
    static void **list;
    int rounds = under_stress() ? 300 : 300000;
    GC_INIT();
    for (int i = 0; i < rounds / 3; i++) {
        void **p = GC_malloc(48);
        *p = list;
        list = p;
    }
    drop_with_pairs(rounds / 3, 0);
    size_t without = drop_with_pairs(rounds, 0), heap = GC_get_heap_size();
    size_t with = drop_with_pairs(rounds, 16);
    CHECK_GE(with * 2, without);
    CHECK_LE(GC_get_heap_size(), heap + heap / 2);
}

/* What was reclaimed is what was allocated, not freed, and does not live; cells
 * that are free already are not reclaimed again. */
static void reclaimed_bytes_fit(void)
{
    struct GC_prof_stats_s stats;
    size_t given;
    static void *kept[1000];

    GC_INIT();
    for (int i = 0; i < 1000; i++)
        kept[i] = GC_malloc(1000);
    for (int i = 0; i < 100000; i++)
        GC_malloc(48);
    for (int i = 0; i < 10000; i++)
        GC_free(GC_malloc(2000));
    for (int i = 0; i < 5; i++)
        GC_gcollect();
    CHECK_GE(GC_get_prof_stats(&stats, sizeof stats), sizeof stats);
    given = GC_get_total_bytes();
    CHECK_LE(stats.bytes_reclaimed_since_gc, given / 100);
    CHECK_GE(stats.reclaimed_bytes_before_gc + stats.bytes_reclaimed_since_gc, 4000000);
    CHECK_LE(stats.reclaimed_bytes_before_gc + stats.bytes_reclaimed_since_gc, 8000000);
    CHECK(kept[999] != NULL);
}

MAIN_BEGIN
    RUN(freed_bytes_are_exact);
    RUN(freed_bytes_of_every_kind);
    RUN(collections_reset_freed_bytes);
    RUN(others_get_what_a_thread_freed);
    RUN_GLEANER(others_get_large_cells_that_a_thread_freed);
    RUN_GLEANER(others_get_each_cell_at_once);
    RUN_GLEANER(freed_cells_come_back_once);
    RUN_GLEANER(shared_cells_come_back_once);
    RUN(lists_have_freed_cells);
    RUN_GLEANER(totals_are_exact);
    RUN_GLEANER(reclaimed_bytes_fit);
    RUN_GLEANER(every_way_to_allocate_counts);
    RUN_GLEANER(cells_freed_and_reused_count_again);
    RUN_GLEANER(other_threads_count);
    RUN_GLEANER(read_while_others_allocate);
    RUN(pairs_do_not_put_off_collections);
MAIN_END
