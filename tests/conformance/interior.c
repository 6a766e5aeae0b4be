/* What counts as a pointer: interior pointers in both modes, displacements,
 * pointers off the end, ignore_off_page. The mode is set before GC_INIT. */
#include "harness.h"
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>

static char *volatile *volatile holder; /* heap object that holds the pointers */
static size_t object_size, offset;
static void *(*make)(size_t);

static NOINLINE void make_in_heap(void)
{
    char **h = GC_malloc(MANY * sizeof *h);
    for (int i = 0; i < MANY; i++) {
        char *p = make(object_size);
        watch(i, p);
        h[i] = p + offset;
    }
    holder = h;
}

static int collected(size_t size, size_t at)
{
    make = make == NULL ? GC_malloc : make;
    object_size = size;
    offset = at;
    deep(make_in_heap);
    collect();
    int n = gone(MANY);
    for (int i = 0; i < MANY; i++)
        GC_unregister_disappearing_link((void **)&h_watched[i]);
    return n;
}

#define KEPT(size, at) CHECK_EQ(collected(size, at), 0)
#define LOST(size, at) CHECK_GE(collected(size, at), MOST(MANY))

static void interior_on(void)
{
    GC_INIT();
    CHECK_EQ(GC_get_all_interior_pointers(), 1);
    CHECK_EQ(GC_all_interior_pointers, 1);
    KEPT(40, 0);
    KEPT(40, 1);
    KEPT(40, 17);
    KEPT(40, 39);
    KEPT(3000, 2999);
    KEPT(10000, 0);
    KEPT(10000, 5000);
    KEPT(10000, 9999);
}

static void off_the_end_on(void)
{
    GC_INIT();
    KEPT(16, 16);
    KEPT(40, 40);
    KEPT(48, 48);
    KEPT(4096, 4096);
    KEPT(8192, 8192);
}

static void interior_off(void)
{
    GC_set_all_interior_pointers(0);
    GC_INIT();
    CHECK_EQ(GC_get_all_interior_pointers(), 0);
    CHECK_EQ(GC_all_interior_pointers, 0);
    KEPT(40, 0);
    LOST(40, 8);
    LOST(40, 1);
    LOST(40, 16);
    LOST(3000, 2000);
    LOST(10000, 5000);
    KEPT(10000, 0);
}

/* The variable itself is written by clients. */
static void interior_off_by_variable(void)
{
    GC_all_interior_pointers = 0;
    GC_INIT();
    CHECK_EQ(GC_get_all_interior_pointers(), 0);
    LOST(40, 8);
    KEPT(40, 0);
}

/* Without interior pointers no byte is added. (Above 384 bytes stock's size
 * classes are coarser.) */
static void exact_sizes_off(void)
{
    GC_set_all_interior_pointers(0);
    GC_INIT();
    for (size_t n = 16; n <= 384; n += 16)
        CHECK_EQ(GC_size(GC_malloc(n)), n);
}

static void displacements(void)
{
    GC_set_all_interior_pointers(0);
    GC_INIT();
    GC_register_displacement(3);
    GC_register_displacement(8);
    KEPT(40, 3);
    KEPT(40, 8);
    LOST(40, 4);
    LOST(40, 16);
    KEPT(5000, 3);
    KEPT(5000, 8);
    LOST(5000, 4);
    /* Later is allowed. Twice too. */
    GC_register_displacement(16);
    GC_register_displacement(16);
    KEPT(40, 16);
}

static void displacement_before_init(void)
{
    GC_set_all_interior_pointers(0);
    GC_register_displacement(5);
    GC_INIT();
    KEPT(64, 5);
    LOST(64, 6);
}

/* From a stack any interior pointer counts, whatever the mode. */
static NOINLINE int from_stack(size_t size, size_t at)
{
    char *volatile local[200];
    for (int i = 0; i < 200; i++) {
        char *p = GC_malloc(size);
        watch(i, p);
        local[i] = p + at;
    }
    collect();
    int n = gone(200);
    __asm__ volatile("" : : "r"(local) : "memory");
    for (int i = 0; i < 200; i++)
        CHECK(local[i] != NULL);
    return n;
}

static void stack_interior_off(void)
{
    GC_set_all_interior_pointers(0);
    GC_INIT();
    CHECK_EQ(from_stack(40, 13), 0);
    CHECK_EQ(from_stack(6000, 5500), 0);
}

/* "This applies to heap objects and static data": not to static data here. */
static char *volatile in_data[200];

static NOINLINE void fill_data(void)
{
    for (int i = 0; i < 200; i++) {
        char *p = GC_malloc(40);
        watch(i, p);
        in_data[i] = p + 9;
    }
}

static void data_interior_off(void)
{
    GC_set_all_interior_pointers(0);
    GC_INIT();
    deep(fill_data);
    collect();
    CHECK_GE(gone(200), MOST(200));
}

static void data_interior_on(void)
{
    GC_INIT();
    deep(fill_data);
    collect();
    CHECK_EQ(gone(200), 0);
}

/* ---- ignore_off_page: only the first page keeps the object ---- */

static void off_page_first(void)
{
    GC_INIT();
    make = GC_malloc_ignore_off_page;
    KEPT(20000, 0);
    KEPT(20000, 255);
}

static void off_page_later(void)
{
    GC_INIT();
    make = GC_malloc_ignore_off_page;
    LOST(20000, 9000);
    LOST(20000, 19999);
}

static void off_page_atomic(void)
{
    GC_INIT();
    make = GC_malloc_atomic_ignore_off_page;
    KEPT(20000, 0);
    LOST(20000, 9000);
}

static void *make_kind_off_page(size_t n)
{
    return GC_generic_malloc_ignore_off_page(n, 1);
}

static void off_page_generic(void)
{
    GC_INIT();
    make = make_kind_off_page;
    KEPT(20000, 0);
    LOST(20000, 9000);
}

static GC_descr descr;
static void *make_typed_off_page(size_t n)
{
    return GC_malloc_explicitly_typed_ignore_off_page(n, descr);
}

static void off_page_typed(void)
{
    GC_INIT();
    GC_word bitmap = 1;
    descr = GC_make_descriptor(&bitmap, 1);
    make = make_typed_off_page;
    KEPT(20000, 0);
    LOST(20000, 9000);
}

/* ---- where pointers may lie ---- */

/* Unaligned pointers do not count on this architecture. */
static NOINLINE void make_unaligned(void)
{
    char *h = GC_malloc(MANY * 16);
    for (int i = 0; i < MANY; i++) {
        void *p = GC_malloc(40);
        watch(i, p);
        memcpy(h + 16 * i + 3, &p, sizeof p);
    }
    holder = (void *)h;
}

static void unaligned_does_not_count(void)
{
    GC_INIT();
    deep(make_unaligned);
    collect();
    CHECK_MOST_GONE(MANY);
}

static NOINLINE void make_past_the_end(void)
{
    char **h = GC_malloc(MANY * sizeof *h);
    for (int i = 0; i < MANY; i++) {
        /* Two bytes past the end of the cell: the next object. */
        char *p = GC_malloc(47);
        watch(i, p);
        h[i] = (char *)~(uintptr_t)(p + 2);
    }
    holder = h;
}

static void hidden_does_not_count(void)
{
    GC_INIT();
    deep(make_past_the_end);
    collect();
    CHECK_MOST_GONE(MANY);
}

/* Large objects: any page of them, in both modes. */
enum { BIG = 20, BIG_SIZE = 3 << 20 };
static char *volatile big[BIG];

static NOINLINE void make_big(void)
{
    for (int i = 0; i < BIG; i++) {
        char *p = make(BIG_SIZE);
        watch(i, p);
        memset(p + BIG_SIZE - 100, i, 100);
        big[i] = p + offset;
    }
}

static int big_gone(void *(*how)(size_t), size_t at)
{
    make = how;
    offset = at;
    deep(make_big);
    for (int r = 0; r < 2; r++)
        collect();
    int n = gone(BIG);
    for (int i = 0; i < BIG; i++) {
        GC_unregister_disappearing_link((void **)&h_watched[i]);
        if (n == 0)
            CHECK_EQ(big[i][BIG_SIZE - 1 - at], i);
        big[i] = NULL;
    }
    return n;
}

static void large_interior_on(void)
{
    GC_INIT();
    CHECK_EQ(big_gone(GC_malloc, 0), 0);
    CHECK_EQ(big_gone(GC_malloc, BIG_SIZE / 2 + 3), 0);
    CHECK_EQ(big_gone(GC_malloc_atomic, BIG_SIZE - 1), 0);
    CHECK_GE(big_gone(GC_malloc_ignore_off_page, BIG_SIZE / 2), MOST(BIG));
    CHECK_EQ(big_gone(GC_malloc_ignore_off_page, 100), 0);
}

static void large_interior_off(void)
{
    GC_set_all_interior_pointers(0);
    GC_INIT();
    CHECK_EQ(big_gone(GC_malloc, 0), 0);
    CHECK_GE(big_gone(GC_malloc, BIG_SIZE / 2), MOST(BIG));
}

MAIN_BEGIN
    RUN(interior_on);
    RUN(off_the_end_on);
    RUN(interior_off);
    RUN(interior_off_by_variable);
    RUN(exact_sizes_off);
    RUN(displacements);
    RUN(displacement_before_init);
    RUN(stack_interior_off);
    RUN(data_interior_off);
    RUN(data_interior_on);
    RUN(off_page_first);
    RUN(off_page_later);
    RUN(off_page_atomic);
    RUN(off_page_generic);
    RUN(off_page_typed);
    RUN(unaligned_does_not_count);
    RUN(hidden_does_not_count);
    RUN(large_interior_on);
    RUN(large_interior_off);
MAIN_END
