/* Lists of objects: GC_malloc_many, GC_generic_malloc_many, the macros of
 * gc_inline.h, and allocation by kind. Guile and Nix allocate this way. */
#include "harness.h"
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>

static void *volatile root;

static void check_list(void *list, size_t size, int zeroed, int kind)
{
    int n = 0;
    while (list != NULL) {
        void *next = GC_NEXT(list);
        n++;
        CHECK_PTR(GC_base(list), list);
        CHECK_GE(GC_size(list), size);
        CHECK_EQ(GC_get_kind_and_size(list, NULL), kind);
        if (zeroed && size > 8)
            CHECK(all_zero((char *)list + 8, size - 8));
        memset(list, 0xff, size);
        list = next;
    }
    CHECK_OP(n, >, 0);
}

static void malloc_many(void)
{
    GC_INIT();
    for (int round = 0; round < 3; round++) {
        for (size_t size = 8; size <= 3000; size += 8)
            check_list(GC_malloc_many(size), size, 1, 1);
        collect();
    }
    /* Large: a list of one. */
    check_list(GC_malloc_many(100000), 100000, 1, 1);
}

/* All are distinct, and none is handed out again while on the list. */
static void list_is_disjoint(void)
{
    GC_INIT();
    void *list = GC_malloc_many(32);
    root = list;
    for (void *p = list; p != NULL; p = GC_NEXT(p))
        ((uintptr_t *)p)[1] = (uintptr_t)p ^ 0x5555;
    for (int i = 0; i < 10000; i++)
        memset(GC_malloc(32), 0, 32);
    GC_gcollect();
    for (int i = 0; i < 10000; i++)
        memset(GC_malloc(32), 0, 32);
    for (void *p = list; p != NULL; p = GC_NEXT(p))
        CHECK_EQ(((uintptr_t *)p)[1], (uintptr_t)p ^ 0x5555);
}

static void generic_many(void)
{
    GC_INIT();
    for (int kind = 0; kind < 2; kind++)
        for (size_t size = 16; size <= 2048; size += 48) {
            void *list = NULL;
            GC_generic_malloc_many(size, kind, &list);
            check_list(list, size, kind == 1, kind);
        }
}

static void *volatile freelists[GC_TINY_FREELISTS];

static void *volatile cells;

static NOINLINE void cons_cells(void)
{
    for (int i = 0; i < 100000; i++) {
        void *cell;
        GC_CONS(cell, (uintptr_t)i * 2 + 1, cells, (void **)freelists);
        cells = cell;
    }
}

/* The macros add no byte at the end, and with interior pointers the collector
 * takes the last word for that byte's and does not trace it: stock loses the
 * second word of a cell then. So this is for the other mode. */
static void cons(void)
{
    GC_set_all_interior_pointers(0);
    GC_INIT();
    deep(cons_cells);
    GC_gcollect();
    churn(1 << 20, 16);
    for (int i = 99999; i >= 0; i--) {
        REQUIRE(cells != NULL);
        CHECK_EQ(((uintptr_t *)cells)[0], (uintptr_t)i * 2 + 1);
        cells = ((void **)cells)[1];
    }
    CHECK(cells == NULL);
}

static void words(void)
{
    static void *tiny[GC_TINY_FREELISTS], *tiny_atomic[GC_TINY_FREELISTS];
    GC_INIT();
    for (size_t n = 1; n < 100; n++)
        for (int i = 0; i < 200; i++) {
            void *p, *q;
            GC_MALLOC_WORDS(p, n, tiny);
            REQUIRE(p != NULL);
            CHECK(all_zero(p, n * 8));
            memset(p, 0xff, n * 8);
            GC_MALLOC_ATOMIC_WORDS(q, n, tiny_atomic);
            REQUIRE(q != NULL);
            memset(q, 0xff, n * 8);
            CHECK_EQ(GC_get_kind_and_size(p, NULL), GC_I_NORMAL);
            CHECK_EQ(GC_get_kind_and_size(q, NULL), GC_I_PTRFREE);
        }
}

/* The free list may begin as a counter: the first ones go the direct way. */
static void counted(void)
{
    static void *tiny[GC_TINY_FREELISTS];
    GC_INIT();
    for (size_t i = 0; i < GC_TINY_FREELISTS; i++)
        tiny[i] = (void *)1;
    for (int i = 0; i < 2000; i++) {
        void *p;
        size_t granules = (size_t)i % GC_TINY_FREELISTS;
        GC_FAST_MALLOC_GRANS(p, granules, tiny, 50, GC_I_NORMAL,
                             GC_malloc(granules * GC_GRANULE_BYTES),
                             *(void **)p = NULL);
        REQUIRE(p != NULL);
        CHECK(all_zero(p, granules * GC_GRANULE_BYTES));
        memset(p, 0xff, granules * GC_GRANULE_BYTES);
    }
}

static void by_kind(void)
{
    GC_INIT();
    for (size_t size = 1; size < 20000; size = size * 3 / 2 + 1)
        for (int kind = 0; kind < 4; kind++) {
            unsigned char *p = GC_malloc_kind(size, kind);
            unsigned char *q = GC_malloc_kind_global(size, kind);
            unsigned char *r = GC_generic_malloc(size, kind);
            REQUIRE(p != NULL && q != NULL && r != NULL);
            CHECK_EQ(GC_get_kind_and_size(p, NULL), kind);
            CHECK_EQ(GC_get_kind_and_size(q, NULL), kind);
            CHECK_EQ(GC_get_kind_and_size(r, NULL), kind);
            if (kind == 1) {
                CHECK(all_zero(p, size));
                CHECK(all_zero(q, size));
                CHECK(all_zero(r, size));
            }
            memset(p, 0xff, size);
            memset(q, 0xff, size);
            memset(r, 0xff, size);
        }
}

static void generic_variants(void)
{
    GC_INIT();
    for (size_t size = 1; size < 200000; size = size * 3 + 1) {
        CHECK_EQ(GC_get_kind_and_size(
                     GC_generic_malloc_ignore_off_page(size, 1), NULL), 1);
        CHECK_EQ(GC_get_kind_and_size(
                     GC_generic_malloc_ignore_off_page(size, 0), NULL), 0);
        void *u = GC_generic_malloc_uncollectable(size, 2);
        CHECK_EQ(GC_get_kind_and_size(u, NULL), 2);
        GC_free(u);
        u = GC_generic_malloc_uncollectable(size, 3);
        CHECK_EQ(GC_get_kind_and_size(u, NULL), 3);
        GC_free(u);
    }
}

static void print_free_list(void)
{
    GC_INIT();
    GC_malloc(32);
    GC_print_free_list(1, 2);
    GC_print_free_list(0, 3);
    check_alive();
}

/* These arrays of list heads are exported for old clients. */
extern void **const GC_objfreelist_ptr, **const GC_aobjfreelist_ptr,
    **const GC_uobjfreelist_ptr, **const GC_auobjfreelist_ptr;

static void old_list_heads(void)
{
    GC_INIT();
    CHECK(GC_objfreelist_ptr != NULL);
    CHECK(GC_aobjfreelist_ptr != NULL);
    CHECK(GC_uobjfreelist_ptr != NULL);
    CHECK(GC_auobjfreelist_ptr != NULL);
}

/* Accounting calls for clients that allocate and free by such lists. */
extern void GC_incr_bytes_allocd(size_t), GC_incr_bytes_freed(size_t);

static void accounting(void)
{
    GC_INIT();
    size_t a = GC_get_bytes_since_gc(), f = GC_get_expl_freed_bytes_since_gc();
    GC_incr_bytes_allocd(4096);
    CHECK_EQ(GC_get_bytes_since_gc(), a + 4096);
    GC_incr_bytes_freed(1024);
    CHECK_EQ(GC_get_expl_freed_bytes_since_gc(), f + 1024);
}

/* Threads that take lists at the same time never get the same object. */
static void *list_thread(void *arg)
{
    uintptr_t tag = (uintptr_t)arg;
    uintptr_t **mine = GC_malloc(20000 * sizeof *mine);
    int n = 0;
    while (n < 20000)
        for (void *p = GC_malloc_many(48), *next; p != NULL && n < 20000;
             p = next) {
            next = GC_NEXT(p);
            mine[n] = p;
            mine[n][0] = tag;
            mine[n][1] = (uintptr_t)n;
            n++;
        }
    for (int i = 0; i < n; i++)
        if (mine[i][0] != tag || mine[i][1] != (uintptr_t)i)
            return (void *)1;
    return NULL;
}

static void lists_in_threads(void)
{
    pthread_t t[8];
    GC_INIT();
    for (uintptr_t i = 0; i < 8; i++)
        REQUIRE(pthread_create(&t[i], NULL, list_thread,
                               (void *)(i * 2 + 1)) == 0);
    for (int i = 0; i < 8; i++) {
        void *r = NULL;
        pthread_join(t[i], &r);
        CHECK(r == NULL);
    }
}

MAIN_BEGIN
    RUN(malloc_many);
    RUN(list_is_disjoint);
    RUN(generic_many);
    RUN(cons);
    RUN(words);
    RUN(counted);
    RUN(by_kind);
    RUN(generic_variants);
    RUN(print_free_list);
    RUN(old_list_heads);
    RUN(accounting);
    RUN(lists_in_threads);
MAIN_END
