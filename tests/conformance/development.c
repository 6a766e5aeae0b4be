/* What headers of libgc's development branch declare, and no release exports yet. */
#include "harness.h"
#include <dlfcn.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>

#define FIND(name, result, ...)                                     \
    result (*name)(__VA_ARGS__);                                    \
    *(void **)&name = dlsym(RTLD_DEFAULT, "GC_" #name);             \
    REQUIRE(name != NULL)

static void *is_locked(void *argument)
{
    *(int *)argument += 1;
    return argument;
}

static void readers_hold_the_lock(void)
{
    int calls = 0;
    FIND(call_with_reader_lock, void *, GC_fn_type, void *, int);
    GC_INIT();
    CHECK_PTR(call_with_reader_lock(is_locked, &calls, 0), &calls);
    CHECK_PTR(call_with_reader_lock(is_locked, &calls, 1), &calls);
    CHECK_EQ(calls, 2);
    check_alive();
}

static void stops_are_measured(void)
{
    FIND(get_stopped_mark_total_time, unsigned long, void);
    FIND(get_avg_stopped_mark_time_ns, unsigned long, void);
    GC_INIT();
    CHECK_EQ(get_stopped_mark_total_time(), 0);
    CHECK_EQ(get_avg_stopped_mark_time_ns(), 0);
    GC_start_performance_measurement();
    void **list = NULL;
    for (int i = 0; i < (under_stress() ? 2000 : 200000); i++) {
        void **cell = GC_malloc(32);
        cell[0] = list;
        list = cell;
    }
    for (int i = 0; i < 50; i++)
        GC_gcollect();
    CHECK_OP(get_stopped_mark_total_time(), >, 0);
    CHECK_OP(get_avg_stopped_mark_time_ns(), >, 0);
    CHECK_LE(get_stopped_mark_total_time(), GC_get_full_gc_total_time());
    CHECK(list != NULL);
}

static void blocks_and_pointers(void)
{
    FIND(get_hblk_size, size_t, void);
    FIND(noop1_ptr, void, void *);
    GC_INIT();
    CHECK_EQ(get_hblk_size(), 4096);
    noop1_ptr(&get_hblk_size);
}

/* Elements of three words, of which the second is a pointer. */
static void arrays_are_prepared_once(void)
{
    enum { COUNT = 1001 };
    struct { GC_word opaque[8]; } prepared;
    GC_word bitmap[1] = {2};
    GC_hidden_pointer word;
    FIND(calloc_prepare_explicitly_typed, int, void *, size_t, size_t, size_t, GC_descr);
    FIND(calloc_do_explicitly_typed, void *, const void *, size_t);
    GC_INIT();
    GC_descr element = GC_make_descriptor(bitmap, 3);
    CHECK_EQ(calloc_prepare_explicitly_typed(&prepared, sizeof prepared, COUNT, 3 * sizeof(void *), element), 1);
    void **first = calloc_do_explicitly_typed(&prepared, sizeof prepared);
    void **second = calloc_do_explicitly_typed(&prepared, sizeof prepared);
    REQUIRE(first != NULL && second != NULL && first != second);
    for (int i = 0; i < 3 * COUNT; i++)
        CHECK(second[i] == NULL);
    first[3 * (COUNT - 1) + 1] = GC_malloc_atomic(64);
    first[3 * (COUNT - 1)] = GC_malloc_atomic(64);
    word = GC_HIDE_POINTER(first[3 * (COUNT - 1)]);
    GC_general_register_disappearing_link((void **)&word, first[3 * (COUNT - 1)]);
    GC_hidden_pointer kept = GC_HIDE_POINTER(first[3 * (COUNT - 1) + 1]);
    GC_general_register_disappearing_link((void **)&kept, first[3 * (COUNT - 1) + 1]);
    GC_gcollect();
    CHECK(kept != 0);
    CHECK(word == 0);
    CHECK_EQ(calloc_prepare_explicitly_typed(&prepared, sizeof prepared, (size_t)-1, 16, element), 0);
    CHECK_PTR(calloc_do_explicitly_typed(&prepared, sizeof prepared), NULL);
    CHECK(first != NULL);
}

static void *no_memory(size_t bytes)
{
    (void)bytes;
    return NULL;
}

static void arrays_that_are_too_large(void)
{
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    GC_set_oom_fn(no_memory);
    arrays_are_prepared_once();
}

static void types_with_descriptors(void)
{
    FIND(init_gcj_malloc_mp, void, unsigned, GC_mark_proc, size_t);
    FIND(gcj_malloc, void *, size_t, void *);
    static size_t type[2] = {0, 32 | GC_DS_LENGTH};
    GC_INIT();
    init_gcj_malloc_mp(0, NULL, sizeof(void *));
    void **object = gcj_malloc(32, type);
    REQUIRE(object != NULL && object[0] == type);
    object[1] = GC_malloc(64);
    GC_hidden_pointer kept = GC_HIDE_POINTER(object[1]);
    GC_general_register_disappearing_link((void **)&kept, object[1]);
    GC_gcollect();
    CHECK(kept != 0 && object[1] != NULL);
}

MAIN_BEGIN
    RUN_GLEANER(readers_hold_the_lock);
    RUN_GLEANER(stops_are_measured);
    RUN_GLEANER(blocks_and_pointers);
    RUN_GLEANER(arrays_that_are_too_large);
    RUN_GLEANER(types_with_descriptors);
MAIN_END
