/* Allocation: every kind, every size, zeroing, uncollectable memory,
 * alignment. */
#include "harness.h"

#include <sched.h>

static void zero_size(void)
{
    GC_INIT();
    void *a = GC_malloc(0), *b = GC_malloc(0), *c = GC_malloc_atomic(0);
    CHECK(a != NULL && b != NULL && c != NULL);
    CHECK(a != b);
    CHECK_PTR(GC_base(a), a);
    CHECK(GC_malloc_uncollectable(0) != NULL);
}

/* Every size to 10000: base, size, alignment, zero, no overlap. */
static void every_size(void)
{
    enum { TOP = 10000 };
    static unsigned char *kept[TOP + 1];
    GC_INIT();
    for (size_t n = 0; n <= TOP; n++) {
        unsigned char *p = GC_malloc(n);
        REQUIRE(p != NULL);
        CHECK_EQ((uintptr_t)p % 16, 0);
        CHECK_PTR(GC_base(p), p);
        CHECK_GE(GC_size(p), n);
        if (!all_zero(p, n)) {
            CHECK_EQ(n, -1);
            break;
        }
        memset(p, (int)(n % 251), n);
        kept[n] = p;
    }
    GC_gcollect();
    churn(1 << 20, 48);
    for (size_t n = 0; n <= TOP; n++)
        for (size_t i = 0; i < n; i++)
            if (kept[n][i] != n % 251) {
                CHECK_EQ(n, -1);
                return;
            }
}

/* With interior pointers (the default) one byte is added, so that a pointer
 * just past the end keeps the object: GC_size is above the size asked. */
static void one_byte_more(void)
{
    GC_INIT();
    REQUIRE(GC_get_all_interior_pointers() == 1);
    for (size_t n = 1; n < 5000; n += 7)
        CHECK_OP(GC_size(GC_malloc(n)), >, n);
    CHECK_EQ(GC_size(GC_malloc(15)), 16);
    CHECK_EQ(GC_size(GC_malloc(16)), 32);
    /* Atomic objects too. */
    CHECK_EQ(GC_size(GC_malloc_atomic(16)), 32);
}

static void large_and_huge(void)
{
    GC_INIT();
    for (size_t n = 4096; n <= (size_t)64 << 20; n *= 2) {
        for (int d = -1; d <= 1; d++) {
            unsigned char *p = GC_malloc(n + (size_t)d);
            REQUIRE(p != NULL);
            CHECK(all_zero(p, n + (size_t)d));
            CHECK_PTR(GC_base(p + n / 2), p);
            CHECK_GE(GC_size(p), n + (size_t)d);
            memset(p, 0xa5, n + (size_t)d);
            GC_free(p);
        }
    }
}

typedef void *(*maker)(size_t);

static NOINLINE void dirty_and_drop(maker make, size_t size, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += size) {
        unsigned char *p = make(size);
        REQUIRE(p != NULL);
        memset(p, 0xff, size);
    }
}

/* Reused memory reads as zero: after a collection, and after GC_free. */
static void reused_is_zero(void)
{
    static const size_t sizes[] = {1,    8,    15,    16,    24,    100,
                                   500,  511,  512,   1000,  2000,  2048,
                                   4000, 8000, 20000, 70000, 300000};
    GC_INIT();
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t size = sizes[s], bytes = size < 16 ? 1 << 16 : 4 << 20;
        for (int round = 0; round < 3; round++) {
            dirty_and_drop(GC_malloc, size, bytes);
            dirty_and_drop(GC_malloc_atomic, size, bytes);
            collect();
            for (size_t done = 0; done < bytes; done += size) {
                unsigned char *p = GC_malloc(size);
                REQUIRE(p != NULL);
                if (!all_zero(p, size)) {
                    NOTE("size %zu round %d\n", size, round);
                    CHECK(!"zero after a collection");
                    return;
                }
                memset(p, 0xee, size);
                if (round == 1) {
                    GC_free(p);
                    p = GC_malloc(size);
                    if (!all_zero(p, size)) {
                        NOTE("size %zu\n", size);
                        CHECK(!"zero after GC_free");
                        return;
                    }
                }
            }
        }
    }
}

/* The whole cell, not only the bytes asked for, is zero: a conservative scan
 * reads all of it. */
static void slack_is_zero(void)
{
    GC_INIT();
    for (size_t size = 1; size < 3000; size += 13) {
        dirty_and_drop(GC_malloc, size, 64 * 1024);
        collect();
        for (int i = 0; i < 20; i++) {
            unsigned char *p = GC_malloc(size);
            /* Up to the last word, which belongs to the added byte and is
             * never scanned. */
            size_t scanned = (GC_size(p) - 1) / 8 * 8;
            if (scanned > size && !all_zero(p, scanned)) {
                NOTE("size %zu cell %zu\n", size, GC_size(p));
                CHECK(!"slack is zero");
                return;
            }
        }
    }
}

static void *volatile in_object;

static NOINLINE void point_from(void **holder)
{
    for (int i = 0; i < MANY; i++) {
        holder[i] = GC_malloc(40);
        watch(i, holder[i]);
    }
}

static void make_in_atomic(void)
{
    in_object = GC_malloc_atomic(MANY * sizeof(void *));
    point_from(in_object);
}

static void make_in_normal(void)
{
    in_object = GC_malloc(MANY * sizeof(void *));
    point_from(in_object);
}

static void atomic_is_not_scanned(void)
{
    GC_INIT();
    deep(make_in_atomic);
    collect();
    CHECK_MOST_GONE(MANY);
}

static void normal_is_scanned(void)
{
    GC_INIT();
    deep(make_in_normal);
    collect();
    CHECK_NONE_GONE(MANY);
    in_object = NULL;
    collect();
    CHECK_MOST_GONE(MANY);
}

static GC_word hidden_holder;

static void make_uncollectable(void)
{
    void **holder = GC_malloc_uncollectable(MANY * sizeof(void *));
    hidden_holder = GC_HIDE_POINTER(holder);
    CHECK(all_zero(holder, MANY * sizeof(void *)));
    point_from(holder);
}

/* Kept and scanned without any pointer to it; GC_free ends that. */
static void uncollectable_is_a_root(void)
{
    GC_INIT();
    deep(make_uncollectable);
    collect();
    CHECK_NONE_GONE(MANY);
    CHECK(GC_base(GC_REVEAL_POINTER(hidden_holder)) != NULL);
    GC_free(GC_REVEAL_POINTER(hidden_holder));
    collect();
    CHECK_MOST_GONE(MANY);
}

/* Small ones are counted in GC_non_gc_bytes and GC_free takes them off. (For
 * large ones, and for a small one that finds its free list empty, stock 8.2.2
 * only subtracts, so the counter wraps below zero; that is not required of
 * anyone.) */
static void uncollectable_is_counted(void)
{
    GC_INIT();
    GC_malloc_uncollectable(100);
    GC_word before = GC_get_non_gc_bytes();
    void *p = GC_malloc_uncollectable(100);
    CHECK_EQ(GC_get_non_gc_bytes(), before + GC_size(p));
    GC_free(p);
    CHECK_EQ(GC_get_non_gc_bytes(), before);
}

/* The variable is near what the function says, which counts from what was set. */
static void the_count_of_uncollectable_bytes_may_be_set(void)
{
    GC_INIT();
    for (int i = 0; i < 1000; i++)
        GC_malloc_uncollectable(100);
    GC_word near = GC_non_gc_bytes, exact = GC_get_non_gc_bytes();
    CHECK_GE(exact, 1000 * 100);
    CHECK_LE(exact - near, 16 << 10);
    CHECK_EQ(GC_non_gc_bytes, exact);
    void *p = GC_malloc_uncollectable(100);
    GC_set_non_gc_bytes(5000);
    CHECK_EQ(GC_get_non_gc_bytes(), 5000);
    GC_free(p);
    CHECK_EQ(GC_get_non_gc_bytes(), 5000 - GC_size(p));
}

static GC_word hidden_small[MANY];

static void make_small_uncollectable(void)
{
    for (int i = 0; i < MANY; i++) {
        void **p = GC_malloc_uncollectable(24);
        p[0] = GC_malloc(24);
        p[1] = (void *)(uintptr_t)(2 * i + 1);
        watch(i, p[0]);
        hidden_small[i] = GC_HIDE_POINTER(p);
    }
}

static void small_uncollectable(void)
{
    GC_INIT();
    deep(make_small_uncollectable);
    for (int r = 0; r < 3; r++) {
        collect();
        churn(1 << 20, 24);
    }
    CHECK_NONE_GONE(MANY);
    for (int i = 0; i < MANY; i++) {
        void **p = GC_REVEAL_POINTER(hidden_small[i]);
        CHECK_EQ((uintptr_t)p[1], 2 * i + 1);
    }
    for (int i = 0; i < MANY; i++)
        GC_free(GC_REVEAL_POINTER(hidden_small[i]));
    collect();
    CHECK_MOST_GONE(MANY);
}

static void make_atomic_uncollectable(void)
{
    void **holder = GC_malloc_atomic_uncollectable(MANY * sizeof(void *));
    hidden_holder = GC_HIDE_POINTER(holder);
    point_from(holder);
    memset(holder, 0x5a, MANY * sizeof(void *));
}

static void atomic_uncollectable(void)
{
    GC_INIT();
    deep(make_atomic_uncollectable);
    collect();
    CHECK_MOST_GONE(MANY);
    dirty_and_drop(GC_malloc_atomic, MANY * sizeof(void *), 4 << 20);
    unsigned char *p = GC_REVEAL_POINTER(hidden_holder);
    for (size_t i = 0; i < MANY * sizeof(void *); i++)
        if (p[i] != 0x5a) {
            CHECK(!"atomic uncollectable memory keeps its content");
            break;
        }
    GC_free(p);
}

static GC_word hidden_dead[MANY];
static void *kept_beside[MANY];

static void *visible[MANY];

static void make_half_dead(void)
{
    for (int i = 0; i < MANY; i++) {
        visible[i] = GC_malloc(64);
        kept_beside[i] = GC_malloc(64);
    }
    for (int i = 0; i < MANY; i++)
        hidden_dead[i] = GC_HIDE_POINTER(visible[i]);
    memset(visible, 0, sizeof visible);
}

static void free_hidden(int count)
{
    for (int i = 0; i < count; i++)
        GC_free(GC_REVEAL_POINTER(hidden_dead[i]));
}

/* So many a thread frees without the lock, which the collecting one has. */
#define FEW 100
static volatile int may_free, has_freed;
static void **of_thread[4 * FEW];

static void *frees_before_the_sweep(void *unused)
{
    while (!may_free)
        sched_yield();
    free_hidden(FEW);
    has_freed = 1;
    while (may_free)
        sched_yield();
    for (int i = 0; i < 4 * FEW; i++) {
        of_thread[i] = GC_malloc(64);
        of_thread[i][7] = &of_thread[i];
    }
    return unused;
}

static void GC_CALLBACK let_it_free(GC_EventType event)
{
    if (event != GC_EVENT_POST_START_WORLD || has_freed)
        return;
    may_free = 1;
    while (!has_freed)
        sched_yield();
}

static void each_has_its_own_memory(void)
{
    void ***all = GC_malloc(4 * MANY * sizeof(void *));
    for (int i = 0; i < 4 * MANY; i++) {
        all[i] = GC_malloc(64);
        CHECK(all_zero(all[i], 64));
        all[i][0] = all[i];
        all[i][7] = &all[i];
    }
    for (int i = 0; i < 4 * MANY; i++)
        if (all[i][0] != (void *)all[i] || all[i][7] != (void *)&all[i]) {
            CHECK(!"each object has its own memory");
            break;
        }
    CHECK(kept_beside[0] != NULL);
}

/* What a collection found dead is free already: freeing it as well, while its
 * block waits for the sweep, hands no memory out twice. (Stock 8.2.2 does.) */
static void freeing_the_dead(void)
{
    GC_INIT();
    deep(make_half_dead);
    collect();
    free_hidden(MANY);
    each_has_its_own_memory();
}

/* The same by another thread, before it is decided what becomes of the block. */
static void freeing_the_dead_before_the_sweep(void)
{
    pthread_t thread;
    GC_INIT();
    deep(make_half_dead);
    REQUIRE(pthread_create(&thread, NULL, frees_before_the_sweep, NULL) == 0);
    GC_set_on_collection_event(let_it_free);
    GC_gcollect();
    GC_set_on_collection_event(0);
    may_free = 0;
    pthread_join(thread, NULL);
    each_has_its_own_memory();
    for (int i = 0; i < 4 * FEW; i++)
        if (of_thread[i][7] != (void *)&of_thread[i]) {
            CHECK(!"what the thread allocates is its own");
            break;
        }
}

static void stubborn(void)
{
    GC_INIT();
    void **p = GC_malloc_stubborn(64);
    CHECK(all_zero(p, 64));
    GC_change_stubborn(p);
    p[0] = GC_malloc(8);
    GC_end_stubborn_change(p);
    GC_ptr_store_and_dirty(p + 1, p);
    CHECK_PTR(p[1], p);
}

static void aligned(void)
{
    GC_INIT();
    for (size_t align = 8; align <= 4096; align *= 2)
        for (size_t size = 1; size < 20000; size = size * 3 + 1) {
            unsigned char *p = GC_memalign(align, size);
            REQUIRE(p != NULL);
            CHECK_EQ((uintptr_t)p % align, 0);
            CHECK(all_zero(p, size));
            memset(p, 1, size);
            CHECK(GC_base(p) != NULL);
            CHECK_PTR(GC_base(p), GC_base(p + size - 1));
        }
}

static void *aligned_keep[64];

static NOINLINE void fill_aligned(void)
{
    for (int i = 0; i < 64; i++) {
        aligned_keep[i] = GC_memalign(256, 400);
        memset(aligned_keep[i], i, 400);
    }
}

static void aligned_is_kept(void)
{
    GC_INIT();
    fill_aligned();
    collect();
    churn(4 << 20, 640);
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 400; j++)
            CHECK_EQ(((unsigned char *)aligned_keep[i])[j], i);
}

static void posix_aligned(void)
{
    GC_INIT();
    void *p = NULL;
    CHECK_EQ(GC_posix_memalign(&p, 64, 100), 0);
    CHECK(p != NULL && (uintptr_t)p % 64 == 0);
    /* Not a power of two, and not a multiple of a pointer. */
    CHECK_EQ(GC_posix_memalign(&p, 24, 100), EINVAL);
    CHECK_EQ(GC_posix_memalign(&p, 4, 100), EINVAL);
    CHECK_EQ(GC_posix_memalign(&p, 0, 100), EINVAL);
}

static GC_word hidden_big;

static void make_ignore_off_page(void)
{
    for (int i = 0; i < MANY; i++) {
        unsigned char *p = i % 2 ? GC_malloc_ignore_off_page(6000)
                                 : GC_malloc_atomic_ignore_off_page(6000);
        REQUIRE(p != NULL);
        if (i % 2)
            CHECK(all_zero(p, 6000));
        CHECK_GE(GC_size(p), 6000);
        watch(i, p);
        hidden_big = GC_HIDE_POINTER(p);
    }
}

static void ignore_off_page_allocates(void)
{
    GC_INIT();
    for (size_t n = 1; n < 300000; n = n * 2 + 1) {
        CHECK(all_zero(GC_malloc_ignore_off_page(n), n));
        CHECK(GC_malloc_atomic_ignore_off_page(n) != NULL);
    }
    deep(make_ignore_off_page);
    collect();
    CHECK_MOST_GONE(MANY);
}

/* The very first call into the library may be an allocation. */
static void without_init(void)
{
    void **p = GC_malloc(100);
    CHECK(p != NULL && GC_is_init_called());
    p[0] = GC_malloc_atomic(10);
    GC_gcollect();
    CHECK(GC_base(p[0]) == p[0]);
}

static void first_call_is_atomic(void)
{
    CHECK(GC_malloc_atomic(100) != NULL);
    check_alive();
}

static void first_call_is_strdup(void)
{
    CHECK(strcmp(GC_strdup("first"), "first") == 0);
}

static void init_twice(void)
{
    CHECK(!GC_is_init_called());
    GC_INIT();
    void *p = GC_malloc(10);
    GC_INIT();
    GC_init();
    CHECK(GC_is_init_called());
    CHECK_PTR(GC_base(p), p);
    check_alive();
}

static void version(void)
{
    /* What the clients' headers say they were built for. */
    unsigned v = GC_get_version();
    CHECK_EQ(v >> 16, 8);
    CHECK_EQ(v >> 8 & 0xff, 2);
    CHECK_GE(v & 0xff, 2);
}

/* A collection under way all the time: a list survives many. */
static void long_list_survives(void)
{
    enum { LENGTH = 300000 };
    static void **list;
    GC_INIT();
    for (int i = 0; i < LENGTH; i++) {
        void **cell = GC_malloc(24);
        cell[0] = list;
        cell[1] = (void *)(uintptr_t)(2 * i + 1);
        list = cell;
        GC_malloc(64);
    }
    GC_gcollect();
    for (int i = LENGTH - 1; i >= 0; i--) {
        REQUIRE(list != NULL);
        CHECK_EQ((uintptr_t)list[1], 2 * i + 1);
        list = list[0];
    }
}

/* A very wide object and a deep tree: the mark stack has to overflow or
 * grow, nothing may be lost. */
static void **tree(int depth)
{
    void **node = GC_malloc(4 * sizeof(void *));
    node[3] = (void *)(uintptr_t)(depth * 2 + 1);
    for (int i = 0; depth > 0 && i < 3; i++)
        node[i] = tree(depth - 1);
    return node;
}

static long count_tree(void **node, int depth)
{
    long n = 1;
    if (node == NULL || node[3] != (void *)(uintptr_t)(depth * 2 + 1))
        return -1000000000L;
    for (int i = 0; depth > 0 && i < 3; i++)
        n += count_tree(node[i], depth - 1);
    return n;
}

static void wide_and_deep(void)
{
    static void **volatile wide;
    const int WIDE = under_stress() ? 20000 : 200000, DEEP = under_stress() ? 7 : 10;
    GC_INIT();
    wide = GC_malloc(WIDE * sizeof(void *));
    for (int i = 0; i < WIDE; i++) {
        wide[i] = GC_malloc(32);
        ((void **)wide[i])[0] = GC_malloc(16);
        ((uintptr_t **)wide[i])[0][0] = (uintptr_t)i * 2 + 1;
    }
    void **root = tree(DEEP);
    for (int r = 0; r < 3; r++)
        GC_gcollect();
    churn(under_stress() ? 100000 : 4 << 20, 32);
    churn(under_stress() ? 100000 : 4 << 20, 16);
    for (int i = 0; i < WIDE; i++)
        if (((uintptr_t **)wide[i])[0][0] != (uintptr_t)i * 2 + 1) {
            CHECK_EQ(i, -1);
            break;
        }
    CHECK_EQ(count_tree(root, DEEP), under_stress() ? 3280 : 88573);
}

/* A client that finds the library by dlopen (Nim's way) gets the same one. */
static void one_library_only(void)
{
    typedef void *(*function)(size_t);
    GC_INIT();
    void *lib = (dlopen)("libgc.so.1", RTLD_NOW);
    REQUIRE(lib != NULL);
    function f = (function)dlsym(lib, "GC_malloc");
    CHECK(f == GC_malloc);
    CHECK(GC_base(f(10)) != NULL);
    int (*flag)(void) = (int (*)(void))dlsym(lib, "GC_is_init_called");
    CHECK_NE(flag(), 0);
}

MAIN_BEGIN
    RUN(zero_size);
    RUN(every_size);
    RUN(one_byte_more);
    RUN(large_and_huge);
    RUN(reused_is_zero);
    RUN(slack_is_zero);
    RUN(atomic_is_not_scanned);
    RUN(normal_is_scanned);
    RUN(uncollectable_is_a_root);
    RUN(uncollectable_is_counted);
    RUN_GLEANER(the_count_of_uncollectable_bytes_may_be_set);
    RUN(small_uncollectable);
    RUN(atomic_uncollectable);
    RUN_GLEANER(freeing_the_dead);
    RUN_GLEANER(freeing_the_dead_before_the_sweep);
    RUN(stubborn);
    RUN(aligned);
    RUN(aligned_is_kept);
    RUN(posix_aligned);
    RUN(ignore_off_page_allocates);
    RUN(without_init);
    RUN(first_call_is_atomic);
    RUN(first_call_is_strdup);
    RUN(init_twice);
    RUN(version);
    RUN(long_list_survives);
    RUN(wide_and_deep);
    RUN(one_library_only);
MAIN_END
