/* GC_realloc in all directions and kinds, GC_free, the string copies. */
#include "harness.h"
#include <gc/gc_mark.h>

static void fill(unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)(i * 7 + 3);
}

static int filled(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != (unsigned char)(i * 7 + 3))
            return 0;
    return 1;
}

static const size_t sizes[] = {1,    7,    16,   17,    33,    100,   255,
                               512,  1000, 2047, 2048,  2049,  4000,  4096,
                               5000, 8192, 9000, 20000, 65536, 200000, 1500000};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* From every size to every size, for each kind: the content stays, growth of
 * a scanned object reads as zero, the kind stays. */
static void directions(void *(*make)(size_t), int zeroed)
{
    for (int a = 0; a < SIZES; a++)
        for (int b = 0; b < SIZES; b++) {
            size_t from = sizes[a], to = sizes[b], both = from < to ? from : to;
            unsigned char *p = make(from);
            REQUIRE(p != NULL);
            fill(p, from);
            int kind = GC_get_kind_and_size(p, NULL);
            unsigned char *q = GC_realloc(p, to);
            REQUIRE(q != NULL);
            CHECK(filled(q, both));
            CHECK_GE(GC_size(q), to);
            CHECK_EQ(GC_get_kind_and_size(q, NULL), kind);
            if (zeroed && to > from && !all_zero(q + from, to - from)) {
                NOTE("from %zu to %zu\n", from, to);
                CHECK(!"growth is zero");
            }
            GC_free(q);
        }
}

static void normal_directions(void)
{
    GC_INIT();
    directions(GC_malloc, 1);
}

static void atomic_directions(void)
{
    GC_INIT();
    directions(GC_malloc_atomic, 0);
}

static void uncollectable_directions(void)
{
    GC_INIT();
    directions(GC_malloc_uncollectable, 1);
}

static void atomic_uncollectable_directions(void)
{
    GC_INIT();
    directions(GC_malloc_atomic_uncollectable, 0);
}

/* Shrinking then growing inside the same cell shows zero, not the old
 * content. */
static void regrow_is_zero(void)
{
    GC_INIT();
    for (size_t n = 32; n < 100000; n = n * 3 / 2) {
        unsigned char *p = GC_malloc(n);
        memset(p, 0xff, n);
        p = GC_realloc(p, n / 2 + 5);
        p = GC_realloc(p, n);
        CHECK(all_zero(p + n / 2 + 5, n - n / 2 - 5));
    }
}

static void from_null_and_to_zero(void)
{
    GC_INIT();
    unsigned char *p = GC_realloc(NULL, 100);
    REQUIRE(p != NULL);
    CHECK(all_zero(p, 100));
    CHECK(GC_realloc(p, 0) == NULL);
    /* From NULL the size does not matter: an object of size 0. */
    CHECK(GC_realloc(NULL, 0) != NULL);
}

static void *volatile root;

/* Pointers in an object that moves by realloc keep their targets. */
static NOINLINE void grow_holder(void)
{
    void **p = GC_malloc(8 * sizeof(void *));
    int filled_to = 0;
    for (size_t n = 8; filled_to < MANY; n *= 2) {
        p = GC_realloc(p, n * sizeof(void *));
        for (; filled_to < MANY && filled_to < (int)n; filled_to++) {
            p[filled_to] = GC_malloc(20);
            watch(filled_to, p[filled_to]);
        }
        root = p;
        GC_gcollect();
    }
}

static void holder_grows(void)
{
    GC_INIT();
    deep(grow_holder);
    collect();
    CHECK_NONE_GONE(MANY);
    root = NULL;
    collect();
    CHECK_MOST_GONE(MANY);
}

static void uncollectable_stays_so(void)
{
    GC_INIT();
    unsigned char *p = GC_malloc_uncollectable(50);
    fill(p, 50);
    p = GC_realloc(p, 5000);
    GC_word hidden = GC_HIDE_POINTER(p);
    p = NULL;
    for (int r = 0; r < 3; r++) {
        collect();
        churn(1 << 20, 5000);
    }
    p = GC_REVEAL_POINTER(hidden);
    CHECK(filled(p, 50));
    GC_free(p);
}

/* How often an object moves while it grows from 1 MB by 1000 steps. */
static int moves_of(void *(*make)(size_t), size_t step)
{
    size_t bytes = 1 << 20;
    int moves = 0;
    unsigned char *p = make(bytes);
    fill(p, bytes);
    for (int i = 0; i < 1000; i++, bytes += step) {
        unsigned char *q = GC_realloc(p, bytes + step);
        REQUIRE(q != NULL);
        moves += q != p;
        for (size_t at = bytes; make == GC_malloc && at < bytes + step; at++)
            REQUIRE(q[at] == 0);
        for (size_t at = bytes; at < bytes + step; at++)
            q[at] = (unsigned char)(at * 7 + 3);
        p = q;
    }
    CHECK(filled(p, bytes));
    CHECK_GE(GC_size(p), bytes);
    return moves;
}

/* What fits into the pages that the object has anyway is no move: 64 KB are 16. */
static void small_steps_stay_in_place(void)
{
    GC_INIT();
    CHECK_LE(moves_of(GC_malloc, 64), 20);
    CHECK_LE(moves_of(GC_malloc_atomic, 64), 20);
    CHECK_LE(moves_of(GC_malloc_uncollectable, 64), 20);
    check_alive();
}

/* Nor is what fits into the free memory behind it, whether that was used before or not. */
static void grows_into_free_memory(void)
{
    void *(*volatile make)(size_t) = GC_malloc;
    GC_INIT();
    unsigned char *p = make(100000), *behind = make(100000);
    REQUIRE(p < behind && behind - p < 200000);
    fill(p, 100000);
    fill(behind, 100000);
    size_t before = GC_get_heap_size() - GC_get_free_bytes();
    GC_free(behind);
    CHECK_PTR(GC_realloc(p, 150000), p);
    CHECK(filled(p, 100000));
    CHECK(all_zero(p + 100000, 50000));
    size_t used = GC_get_heap_size() - GC_get_free_bytes();
    CHECK_OP(used, <, before);
    CHECK_OP(used, >, before - 100000);
    CHECK_PTR(make(20000), p + 151552); /* the rest is free */
    CHECK_LE(moves_of(GC_malloc, 2000), 10);
    check_alive();
}

static void free_null(void)
{
    GC_free(NULL); /* before the first allocation, too */
    GC_INIT();
    GC_free(NULL);
    check_alive();
}

/* Freed memory is handed out again: the heap does not grow. */
static void free_is_reused(void)
{
    GC_INIT();
    GC_disable();
    void *first = GC_malloc(3 << 20);
    GC_free(first);
    size_t heap = 0;
    for (int i = 0; i < 2000; i++) {
        void *p = GC_malloc(3 << 20);
        REQUIRE(p != NULL);
        memset(p, 1, 100);
        GC_free(p);
        for (int j = 0; j < 100; j++) {
            void *q = GC_malloc(100 + (size_t)j * 20);
            GC_free(q);
        }
        if (i == 10)
            heap = GC_get_heap_size();
    }
    CHECK_LE(GC_get_heap_size(), heap + (16 << 20));
    CHECK_OP(GC_get_expl_freed_bytes_since_gc(), >, 0);
    GC_enable();
    check_alive();
}

static NOINLINE void link_and_free(void)
{
    for (int i = 0; i < MANY; i++) {
        void **p = GC_malloc(64);
        p[0] = GC_malloc(64);
        watch(i, p[0]);
        GC_free(p);
        GC_malloc_atomic(64);
    }
}

/* A freed object retains nothing. */
static void freed_retains_nothing(void)
{
    GC_INIT();
    deep(link_and_free);
    collect();
    CHECK_MOST_GONE(MANY);
}

static void many_frees_while_collecting(void)
{
    enum { N = 4000 };
    static void *slot[N];
    unsigned seed = 12345;
    GC_INIT();
    for (int i = 0; i < 200000; i++) {
        seed = seed * 1103515245 + 12345;
        int k = (int)(seed >> 8) % N;
        if (slot[k] != NULL) {
            CHECK_EQ(*(uintptr_t *)slot[k], (uintptr_t)k * 2 + 1);
            if (seed & 0x40000000) {
                GC_free(slot[k]);
                slot[k] = NULL;
                continue;
            }
        }
        slot[k] = (seed & 0x20000000 ? GC_malloc : GC_malloc_atomic)(
            8 + (seed >> 4) % 1500);
        *(uintptr_t *)slot[k] = (uintptr_t)k * 2 + 1;
    }
    GC_gcollect();
    for (int k = 0; k < N; k++)
        if (slot[k] != NULL)
            CHECK_EQ(*(uintptr_t *)slot[k], (uintptr_t)k * 2 + 1);
}

static void strings(void)
{
    GC_INIT();
    char *a = GC_strdup("hello");
    CHECK(strcmp(a, "hello") == 0);
    CHECK_PTR(GC_base(a), a);
    CHECK(strcmp(GC_strdup(""), "") == 0);
    char *b = GC_strndup("hello", 3);
    CHECK(strcmp(b, "hel") == 0);
    CHECK(strcmp(GC_strndup("hello", 50), "hello") == 0);
    CHECK(strcmp(GC_strndup("hello", 0), "") == 0);
    /* Reads no further than it may. */
    char unterminated[4] = {'a', 'b', 'c', 'd'};
    CHECK(strcmp(GC_strndup(unterminated, 4), "abcd") == 0);
    CHECK(GC_strdup(NULL) == NULL);
    /* Copies are pointer-free. */
    CHECK_EQ(GC_get_kind_and_size(a, NULL),
             GC_get_kind_and_size(GC_malloc_atomic(6), NULL));
}

/* gc.h declares these two for builds that have them; Debian's has not. */
#include <wchar.h>
static void wide_strings(void)
{
    GC_INIT();
    wchar_t *(*dup)(const wchar_t *) =
        (wchar_t * (*)(const wchar_t *)) dlsym(RTLD_DEFAULT, "GC_wcsdup");
    if (dup != NULL)
        CHECK(wcscmp(dup(L"wide"), L"wide") == 0);
    wchar_t *(*debug)(const wchar_t *, const char *, int) =
        (wchar_t * (*)(const wchar_t *, const char *, int))
            dlsym(RTLD_DEFAULT, "GC_debug_wcsdup");
    if (debug != NULL)
        CHECK(wcscmp(debug(L"wide", "file", 1), L"wide") == 0);
    NOTE("GC_wcsdup is %s\n", dup != NULL ? "there" : "not exported");
}

MAIN_BEGIN
    RUN(normal_directions);
    RUN(atomic_directions);
    RUN(uncollectable_directions);
    RUN(atomic_uncollectable_directions);
    RUN(regrow_is_zero);
    RUN(from_null_and_to_zero);
    RUN(holder_grows);
    RUN(uncollectable_stays_so);
    RUN(small_steps_stay_in_place);
    RUN_GLEANER(grows_into_free_memory);
    RUN(free_null);
    RUN(free_is_reused);
    RUN(freed_retains_nothing);
    RUN(many_frees_while_collecting);
    RUN(strings);
    RUN(wide_strings);
MAIN_END
