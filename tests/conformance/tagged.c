/* Finalizers and links of objects that the program knows by tagged pointers,
 * as ECL and other Lisps do: the address lies a few bytes inside. */
#include "harness.h"

enum { TAG = 3 };

typedef void (*registrar)(void *, GC_finalization_proc, void *,
                          GC_finalization_proc *, void **);

static void *volatile kept[MANY];
static GC_word links[MANY];
static int runs;

static void begin(void)
{
    GC_set_all_interior_pointers(0);
    GC_INIT();
    for (size_t tag = 1; tag < 8; tag++)
        GC_register_displacement(tag);
}

static void settle(void)
{
    for (int i = 0; i < 4; i++) {
        collect();
        GC_invoke_finalizers();
    }
}

/* Finalizers get the address that was registered, and the object whole. */
static void run(void *object, void *data)
{
    CHECK_EQ((uintptr_t)object % 16, TAG);
    CHECK_EQ(*(uintptr_t *)((char *)object - TAG), 0x1234567);
    CHECK_PTR(data, &runs);
    runs++;
}

static char *tagged(size_t bytes)
{
    char *object = GC_malloc(bytes);

    *(uintptr_t *)object = 0x1234567;
    return object + TAG;
}

static registrar reg;
static size_t bytes;

static NOINLINE void make_finalizable(void)
{
    for (int i = 0; i < MANY; i++) {
        char *object = tagged(bytes);

        reg(object, run, &runs, NULL, NULL);
        if (i % 2)
            kept[i] = object;
    }
}

static void finalized_when_dead(registrar by, size_t size)
{
    begin();
    reg = by, bytes = size;
    deep(make_finalizable);
    settle();
    CHECK_GE(runs, MOST(MANY / 2));
    CHECK_LE(runs, MANY / 2);
    memset((void *)kept, 0, sizeof kept);
    settle();
    CHECK_GE(runs, MOST(MANY));
}

static void no_order(void) { finalized_when_dead(GC_register_finalizer_no_order, 32); }
static void large(void) { finalized_when_dead(GC_register_finalizer_no_order, 9000); }
/* Stock scans such an object from the tagged address on. */
static void ordered(void) { finalized_when_dead(GC_register_finalizer, 32); }
static void ignore_self(void) { finalized_when_dead(GC_register_finalizer_ignore_self, 32); }
static void unreachable(void) { finalized_when_dead(GC_register_finalizer_unreachable, 32); }

static char first_ran[MANY];

static void run_first(void *object, void *number)
{
    CHECK_EQ((uintptr_t)object % 16, TAG);
    first_ran[(uintptr_t)number] = 1;
}

/* What the first refers to waits for it. */
static void run_second(void *object, void *number)
{
    CHECK_EQ(*(uintptr_t *)((char *)object - TAG), 0x1234567);
    CHECK_EQ(first_ran[(uintptr_t)number], 1);
    runs++;
}

static NOINLINE void make_pairs(void)
{
    for (uintptr_t i = 0; i < MANY; i++) {
        char *first = tagged(32), *second = tagged(32);

        *(char **)(first - TAG + 8) = second;
        GC_register_finalizer(second, run_second, (void *)i, NULL, NULL);
        GC_register_finalizer(first, run_first, (void *)i, NULL, NULL);
    }
}

static void ordered_pairs(void)
{
    begin();
    deep(make_pairs);
    settle();
    CHECK_GE(runs, MOST(MANY));
}

static void replaced_and_removed(void)
{
    GC_finalization_proc old;
    void *old_data;
    char *object;

    begin();
    object = tagged(32);
    GC_register_finalizer_no_order(object, run, &runs, &old, &old_data);
    CHECK(old == NULL);
    GC_register_finalizer_no_order(object, run, NULL, &old, &old_data);
    CHECK(old == run);
    CHECK_PTR(old_data, &runs);
    GC_register_finalizer_no_order(object, NULL, NULL, &old, &old_data);
    CHECK(old == run);
    CHECK_PTR(old_data, NULL);
}

static int (*reg_link)(void **, const void *);

static NOINLINE void make_linked(void)
{
    for (int i = 0; i < MANY; i++) {
        char *object = tagged(32);

        links[i] = GC_HIDE_POINTER(object);
        CHECK_EQ(reg_link((void **)&links[i], object), GC_SUCCESS);
        if (i % 2)
            kept[i] = object;
    }
}

static void linked(int (*by)(void **, const void *))
{
    int even = 0, odd = 0;

    begin();
    reg_link = by;
    deep(make_linked);
    settle();
    for (int i = 0; i < MANY; i++)
        *(i % 2 ? &odd : &even) += links[i] == 0;
    CHECK_EQ(odd, 0);
    CHECK_GE(even, MOST(MANY / 2));
}

static void short_links(void) { linked(GC_general_register_disappearing_link); }
static void long_links(void) { linked(GC_register_long_link); }

MAIN_BEGIN
    RUN(no_order);
    RUN(large);
    RUN(replaced_and_removed);
    RUN(short_links);
    RUN(long_links);
    RUN_GLEANER(ordered);
    RUN_GLEANER(ignore_self);
    RUN_GLEANER(unreachable);
    RUN_GLEANER(ordered_pairs);
MAIN_END
