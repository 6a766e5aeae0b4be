/* Questions about addresses: GC_base, GC_size, GC_is_heap_ptr, kinds, the
 * pointer checks with their print procedures, mark bits, enumeration. */
#include "harness.h"
#include <gc/gc_mark.h>

static int in_data;

static void base_and_size(void)
{
    GC_INIT();
    for (size_t n = 1; n < 1000000; n = n * 5 / 3 + 1) {
        unsigned char *p = GC_malloc(n);
        for (size_t i = 0; i < n; i += n / 13 + 1)
            CHECK_PTR(GC_base(p + i), p);
        CHECK_PTR(GC_base(p + n - 1), p);
        CHECK_GE(GC_size(p), n);
    }
}

static void outside_the_heap(void)
{
    int on_stack = 0;
    GC_INIT();
    CHECK(GC_base(&in_data) == NULL);
    CHECK(GC_base(&on_stack) == NULL);
    CHECK(GC_base(NULL) == NULL);
    CHECK(GC_base((void *)1) == NULL);
    CHECK(GC_base((void *)~(uintptr_t)0) == NULL);
    CHECK(GC_base((void *)0x7fffffff0000) == NULL);
    CHECK(GC_base((void *)&outside_the_heap) == NULL);
    void *p = malloc(100);
    CHECK(GC_base(p) == NULL);
    CHECK(!GC_is_heap_ptr(p));
    free(p);
    CHECK(!GC_is_heap_ptr(NULL));
    CHECK(!GC_is_heap_ptr(&in_data));
    CHECK(!GC_is_heap_ptr(&on_stack));
}

static void heap_pointers(void)
{
    GC_INIT();
    for (size_t n = 1; n < 3000000; n = n * 2 + 1) {
        char *p = GC_malloc(n);
        CHECK(GC_is_heap_ptr(p));
        CHECK(GC_is_heap_ptr(p + n - 1));
        CHECK(GC_is_heap_ptr(p + n / 2));
    }
    CHECK(GC_is_heap_ptr(GC_malloc_atomic(10)));
    CHECK(GC_is_heap_ptr(GC_malloc_uncollectable(10)));
}

/* The kinds' numbers are part of the interface: gc_inline.h fixes 0 and 1. */
static void kinds(void)
{
    size_t size = 0;
    GC_INIT();
    CHECK_EQ(GC_get_kind_and_size(GC_malloc_atomic(100), &size), 0);
    CHECK_GE(size, 100);
    CHECK_EQ(GC_get_kind_and_size(GC_malloc(100), &size), 1);
    CHECK_GE(size, 100);
    void *u = GC_malloc_uncollectable(100);
    CHECK_EQ(GC_get_kind_and_size(u, NULL), 2);
    CHECK_EQ(GC_get_kind_and_size(GC_malloc(100000), &size), 1);
    CHECK_GE(size, 100000);
    CHECK_EQ(size, GC_size(GC_malloc(100000)));
    int k = GC_get_kind_and_size(GC_malloc_atomic_uncollectable(100), NULL);
    CHECK_EQ(k, 3);
    /* A kind fed back gives an object of that kind. */
    for (int kind = 0; kind < 4; kind++) {
        void *p = GC_generic_or_special_malloc(77, kind);
        CHECK_EQ(GC_get_kind_and_size(p, NULL), kind);
    }
}

static void size_map(void)
{
    GC_INIT();
    CHECK_EQ(GC_get_size_map_at(-1), (size_t)-1);
    CHECK_EQ(GC_get_size_map_at(1 << 20), (size_t)-1);
    /* Stock fills the table as sizes are asked for, and its thread-local lists
     * round in another way, so an entry need not be what GC_size says. */
    for (int i = 1; i < 500; i++) {
        GC_malloc((size_t)i);
        size_t mapped = GC_get_size_map_at(i);
        CHECK(mapped >= (size_t)i && mapped % 16 == 0);
    }
}

/* ---- the checking functions ---- */

static int complaints;
static void on_same(void *p, void *q) { (void)p; (void)q; complaints++; }
static void on_displacement(void *p) { (void)p; complaints++; }
static void on_visible(void *p) { (void)p; complaints++; }

static void same_obj(void)
{
    GC_INIT();
    GC_same_obj_print_proc = on_same;
    char *p = GC_malloc(100), *q = GC_malloc(100), *big = GC_malloc(100000);
    CHECK_PTR(GC_same_obj(p + 50, p), p + 50);
    CHECK_PTR(GC_same_obj(big + 90000, big + 3), big + 90000);
    CHECK_PTR(GC_same_obj(&in_data, &in_data), &in_data);
    CHECK_EQ(complaints, 0);
    CHECK_PTR(GC_same_obj(p, q), p);
    CHECK_EQ(complaints, 1);
    CHECK_PTR(GC_same_obj(p, big), p);
    CHECK_EQ(complaints, 2);
}

static void increments(void)
{
    GC_INIT();
    GC_same_obj_print_proc = on_same;
    char *base = GC_malloc(100), *p = base;
    CHECK_PTR(GC_pre_incr((void **)&p, 8), base + 8);
    CHECK_PTR(p, base + 8);
    CHECK_PTR(GC_post_incr((void **)&p, 16), base + 8);
    CHECK_PTR(p, base + 24);
    CHECK_PTR(GC_post_incr((void **)&p, -24), base + 24);
    CHECK_PTR(p, base);
    CHECK_EQ(complaints, 0);
    GC_pre_incr((void **)&p, 100000);
    CHECK_EQ(complaints, 1);
    p = base;
    GC_post_incr((void **)&p, -100000);
    CHECK_EQ(complaints, 2);
}

static void visible(void)
{
    GC_INIT();
    GC_is_visible_print_proc = on_visible;
    void **p = GC_malloc(100);
    CHECK_PTR(GC_is_visible(p), p);
    CHECK_PTR(GC_is_visible(p + 2), p + 2);
    static void *in_bss;
    CHECK_PTR(GC_is_visible(&in_bss), &in_bss);
    CHECK_EQ(complaints, 0);
    /* Pointer-free memory hides pointers. Stock does not notice that (a
     * zero-length descriptor is let through), and it does not look at all
     * once there are threads ("useless for multi-threaded worlds"), so no
     * complaint is required here; only that the argument comes back. */
    char *a = GC_malloc_atomic(100);
    CHECK_PTR(GC_is_visible(a), a);
}

static void displacement(void)
{
    GC_set_all_interior_pointers(0);
    GC_INIT();
    GC_is_valid_displacement_print_proc = on_displacement;
    char *p = GC_malloc(100);
    CHECK_PTR(GC_is_valid_displacement(p), p);
    CHECK_PTR(GC_is_valid_displacement(&in_data), &in_data);
    CHECK_EQ(complaints, 0);
    CHECK_PTR(GC_is_valid_displacement(p + 13), p + 13);
    CHECK_EQ(complaints, 1);
    GC_register_displacement(13);
    CHECK_PTR(GC_is_valid_displacement(p + 13), p + 13);
    CHECK_EQ(complaints, 1);
}

static void displacement_with_interior(void)
{
    GC_INIT();
    GC_is_valid_displacement_print_proc = on_displacement;
    char *p = GC_malloc(100);
    CHECK_PTR(GC_is_valid_displacement(p + 13), p + 13);
    CHECK_EQ(complaints, 0);
}

/* ---- mark bits and the walk over reachable objects ---- */

static void *mark_bits_locked(void *arg)
{
    void *p = arg;
    GC_clear_mark_bit(p);
    CHECK_EQ(GC_is_marked(p), 0);
    GC_set_mark_bit(p);
    CHECK_EQ(GC_is_marked(p), 1);
    GC_set_mark_bit(p);
    CHECK_EQ(GC_is_marked(p), 1);
    GC_clear_mark_bit(p);
    CHECK_EQ(GC_is_marked(p), 0);
    GC_clear_mark_bit(p);
    CHECK_EQ(GC_is_marked(p), 0);
    GC_set_mark_bit(p);
    return NULL;
}

static void *is_marked_locked(void *arg)
{
    return GC_is_marked(arg) ? arg : NULL;
}

static void mark_bits(void)
{
    GC_INIT();
    static void *volatile small, *volatile large;
    small = GC_malloc(100);
    large = GC_malloc(100000);
    GC_gcollect();
    CHECK_PTR(GC_call_with_alloc_lock(is_marked_locked, small), small);
    CHECK_PTR(GC_call_with_alloc_lock(is_marked_locked, large), large);
    GC_call_with_alloc_lock(mark_bits_locked, small);
    GC_call_with_alloc_lock(mark_bits_locked, large);
    GC_gcollect();
    check_alive();
}

static void *volatile chain;
static int seen;
static size_t seen_bytes;
static void *seen_data;

static void on_object(void *obj, size_t bytes, void *data)
{
    seen_data = data;
    seen_bytes += bytes;
    if (bytes >= 1000 && bytes < 1100 && *(uintptr_t *)obj == 0xabcde1)
        seen++;
}

static void *enumerate_locked(void *arg)
{
    GC_enumerate_reachable_objects_inner(on_object, arg);
    return arg;
}

static NOINLINE void make_chain(void)
{
    for (int i = 0; i < 300; i++) {
        void **p = GC_malloc(1000);
        *(uintptr_t *)p = 0xabcde1;
        p[1] = chain;
        chain = p;
    }
}

static void enumerate(void)
{
    int token;
    GC_INIT();
    deep(make_chain);
    collect();
    GC_call_with_alloc_lock(enumerate_locked, &token);
    CHECK_EQ(seen, 300);
    CHECK_GE(seen_bytes, 300000);
    CHECK_PTR(seen_data, &token);
}

static uintptr_t freed[200];
static int freed_seen;

static void look_for_freed(void *obj, size_t bytes, void *data)
{
    (void)bytes, (void)data;
    for (int i = 0; i < 200; i++)
        freed_seen += freed[i] == ~(uintptr_t)obj;
}

static void *enumerate_freed(void *arg)
{
    GC_enumerate_reachable_objects_inner(look_for_freed, arg);
    return arg;
}

/* Whatever keeps them for the next allocation. */
static void freed_objects_are_not_enumerated(void)
{
    GC_INIT();
    for (int kind = 0; kind < 4; kind++) {
        for (int i = 0; i < 200; i++)
            freed[i] = (uintptr_t)GC_generic_or_special_malloc(1000, kind);
        for (int i = 0; i < 200; i++) {
            GC_free((void *)freed[i]);
            freed[i] = ~freed[i];
        }
        GC_gcollect();
        GC_call_with_alloc_lock(enumerate_freed, NULL);
    }
    CHECK_EQ(freed_seen, 0);
}

static void tmp_root(void)
{
    GC_INIT();
    /* Static data that is found anew at each collection is temporary: stock
     * says 1 here. Only the heap and the stack are certain. */
    int on_stack = 0;
    CHECK(GC_is_tmp_root(&in_data) == 0 || GC_is_tmp_root(&in_data) == 1);
    CHECK_EQ(GC_is_tmp_root(GC_malloc(8)), 0);
    CHECK_EQ(GC_is_tmp_root(&on_stack), 0);
}

/* Guile compiles this test into its own code: everything in the heap lies
 * between the two variables. */
static void plausible_addresses(void)
{
    GC_INIT();
    for (size_t n = 1; n < 50000000; n = n * 2 + 1) {
        char *p = GC_malloc(n);
        CHECK((char *)GC_least_plausible_heap_addr <= p);
        CHECK((char *)GC_greatest_plausible_heap_addr >= p + n);
    }
}

static void debug_header_size(void)
{
    GC_INIT();
    char *p = GC_debug_malloc(40, __FILE__, __LINE__);
    CHECK_PTR((char *)GC_base(p) + GC_get_debug_header_size(), p);
    CHECK_EQ(GC_debug_header_size, GC_get_debug_header_size());
}

enum { STALE_WORDS = 128 };
#define STALE 0x5741a1e5741a1eUL

/* Leaves its words on the stack. */
static NOINLINE void fill_below(void)
{
    volatile unsigned long words[256];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        words[i] = STALE;
}

/* How many of them are there still, of those that no frame has overwritten. */
static NOINLINE int left_below(void)
{
    const volatile unsigned long *end = (const unsigned long *)__builtin_frame_address(0) - 64;
    int left = 0;
    for (int i = 1; i <= STALE_WORDS; i++)
        left += end[-i] == STALE;
    return left;
}

static void clear_stack_returns_and_clears(void)
{
    int x;
    GC_INIT();
    for (int i = 0; i < 100; i++)
        CHECK_PTR(GC_clear_stack(&x), &x);
    CHECK(GC_clear_stack(NULL) == NULL);
    fill_below();
    CHECK_GE(left_below(), STALE_WORDS / 2);
    for (int i = 0; i < 20; i++) /* stock clears now and then */
        GC_clear_stack(NULL);
    CHECK_LE(left_below(), STALE_WORDS / 4);
}

MAIN_BEGIN
    RUN(base_and_size);
    RUN(outside_the_heap);
    RUN(heap_pointers);
    RUN(kinds);
    RUN(size_map);
    RUN(same_obj);
    RUN(increments);
    RUN(visible);
    RUN(displacement);
    RUN(displacement_with_interior);
    RUN(mark_bits);
    RUN(enumerate);
    RUN(freed_objects_are_not_enumerated);
    RUN(tmp_root);
    RUN(plausible_addresses);
    RUN(debug_header_size);
    RUN(clear_stack_returns_and_clears);
MAIN_END
