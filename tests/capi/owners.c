/*
 * What is used by a thread that does not own it, or when it is gone: mutators,
 * handles and heaps; the heap in functions that a collection calls; and what is
 * no object of the heap where one is asked for. Each mistake ends the process with a message that names it. What looks like one
 * and is none goes on.
 */
/* Allocations, stores and polls ask whose the mutator is. */
#define GLEANER_DEBUG
#include "mistake.h"

#include <pthread.h>
#include <unistd.h>

/* ---- another thread's mutator -------------------------------------------- */

struct elsewhere {
    void (*make)(struct stage *s);
    struct stage *stage;
};

static void *make_elsewhere(void *place)
{
    struct elsewhere *of = (struct elsewhere *)place;

    of->make(of->stage);
    return NULL;
}

/* Makes a mistake on a thread that is no mutator. */
static void on_another_thread(struct stage *s, void (*make)(struct stage *s))
{
    struct elsewhere of = { make, s };
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, make_elsewhere, &of) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void collects(struct stage *s)
{
    gleaner_collect(s->m, false);
}

static void allocates(struct stage *s)
{
    gleaner_allocate(s->m, s->node, s->node_bytes);
}

static void allocates_an_array(struct stage *s)
{
    gleaner_allocate_array(s->m, s->bytes, 10, 1);
}

static void polls(struct stage *s)
{
    gleaner_poll(s->m);
}

static void makes_a_handle(struct stage *s)
{
    gleaner_handle_new(s->m, 0);
}

static void detaches(struct stage *s)
{
    gleaner_detach(s->m);
}

/* An object of the thread whose mutator it is. */
static void *object_of_the_owner;

static void stores(struct stage *s)
{
    gleaner_store(s->m, object_of_the_owner, 8, 0);
}

static void collects_elsewhere(struct stage *s)
{
    on_another_thread(s, collects);
}

static void allocates_elsewhere(struct stage *s)
{
    on_another_thread(s, allocates);
}

static void polls_elsewhere(struct stage *s)
{
    on_another_thread(s, polls);
}

static void makes_a_handle_elsewhere(struct stage *s)
{
    on_another_thread(s, makes_a_handle);
}

static void detaches_elsewhere(struct stage *s)
{
    on_another_thread(s, detaches);
}

static void stores_elsewhere(struct stage *s)
{
    object_of_the_owner = gleaner_object(new_node(s, 1));
    on_another_thread(s, stores);
}

static void swaps(struct stage *s)
{
    gleaner_value expected = 0;

    gleaner_swap(s->m, object_of_the_owner, 8, &expected, 0);
}

static void swaps_elsewhere(struct stage *s)
{
    object_of_the_owner = gleaner_object(new_node(s, 1));
    on_another_thread(s, swaps);
}

static void copies(struct stage *s)
{
    gleaner_copy_elements(s->m, object_of_the_owner, 0, object_of_the_owner, 2, 2);
}

static void compares(struct stage *s)
{
    gleaner_compare_elements(s->m, object_of_the_owner, 0, object_of_the_owner, 2, 2);
}

static void asks_for_pinned_elements(struct stage *s)
{
    gleaner_pinned_elements(s->m, object_of_the_owner);
}

static void with_an_array_elsewhere(struct stage *s, void (*make)(struct stage *s))
{
    object_of_the_owner = gleaner_allocate_array(s->m, s->bytes, 10, 1);
    CHECK(object_of_the_owner != NULL);
    on_another_thread(s, make);
}

static void copies_elsewhere(struct stage *s)
{
    with_an_array_elsewhere(s, copies);
}

static void compares_elsewhere(struct stage *s)
{
    with_an_array_elsewhere(s, compares);
}

static void asks_for_pinned_elements_elsewhere(struct stage *s)
{
    with_an_array_elsewhere(s, asks_for_pinned_elements);
}

static void copies_with_nothing(struct stage *s)
{
    void *array = gleaner_allocate_array(s->m, s->bytes, 10, 1);

    gleaner_copy_elements(NULL, array, 0, array, 2, 2);
}

/* ---- a mutator that is gone ---------------------------------------------- */

static void collects_detached(struct stage *s)
{
    gleaner_detach(s->m);
    collects(s);
}

static void allocates_detached(struct stage *s)
{
    gleaner_detach(s->m);
    allocates(s);
}

static void allocates_an_array_detached(struct stage *s)
{
    gleaner_detach(s->m);
    allocates_an_array(s);
}

static void stores_detached(struct stage *s)
{
    object_of_the_owner = gleaner_object(new_node(s, 1));
    gleaner_detach(s->m);
    stores(s);
}

static void collects_with_nothing(struct stage *s)
{
    (void)s;
    gleaner_collect(NULL, false);
}

static void detaches_in_a_frame(struct stage *s)
{
    GLEANER_FRAME(s->m, frame, 1);

    gleaner_detach(s->m);
}

/* Here GLEANER_DEBUG alone asks. */
static void detaches_in_a_frame_of_a_heap_without_checks(struct stage *s)
{
    struct gleaner_options options;
    gleaner_mutator *m;

    (void)s;
    memset(&options, 0, sizeof options);
    options.outside_layout = GLEANER_LAYOUT_FOLLOWED;
    options.limit = 2 << 20;
    m = gleaner_attach(gleaner_heap_new(&options, NULL, 0));
    GLEANER_FRAME(m, frame, 1);

    gleaner_detach(m);
}

static void ends_a_region_too_early(struct stage *s)
{
    gleaner_blocking_begin(s->m);
    gleaner_attach(s->heap);
    gleaner_blocking_end(s->m);
}

/* ---- stores in a blocking region ----------------------------------------- */

static void stores_in_a_region(struct stage *s)
{
    object_of_the_owner = gleaner_object(new_node(s, 1));
    gleaner_blocking_begin(s->m);
    stores(s);
}

static void initializes_in_a_region(struct stage *s)
{
    void *object = gleaner_object(new_node(s, 1));

    gleaner_blocking_begin(s->m);
    gleaner_initialize(s->m, object, 8, 0);
}

static void stores_an_element_in_a_region(struct stage *s)
{
    void *array
        = gleaner_allocate_array(s->m, s->list, 1000, s->m->slot_bytes);

    gleaner_blocking_begin(s->m);
    gleaner_store_element(s->m, array, 999, 0);
}

static void stores_a_number_in_a_region(struct stage *s)
{
    void *array = gleaner_allocate_array(s->m, s->bytes, 1000, 1);

    gleaner_blocking_begin(s->m);
    gleaner_store_u8(s->m, array, 999, 1);
}

/* ---- handles -------------------------------------------------------------- */

static void frees_a_handle_twice(struct stage *s)
{
    gleaner_handle *handle = gleaner_handle_new(s->m, 0);

    gleaner_handle_free(handle);
    gleaner_handle_free(handle);
}

static void reads_a_freed_handle(struct stage *s)
{
    gleaner_handle *handle = gleaner_handle_new(s->m, new_node(s, 1));

    gleaner_handle_free(handle);
    gleaner_handle_get(handle);
}

/* Other handles have taken all places that were free. */
static void reads_a_handle_whose_place_is_taken(struct stage *s)
{
    gleaner_handle *handle = gleaner_handle_new(s->m, new_node(s, 1));
    int i;

    gleaner_handle_free(handle);
    for (i = 0; i < 1000; i++)
        CHECK(gleaner_handle_new(s->m, 0) != NULL);
    gleaner_handle_get(handle);
}

/* So many handles come and go that each place was used as often as it can. */
static void reads_a_handle_after_very_many(struct stage *s)
{
    gleaner_handle *handle = gleaner_handle_new(s->m, new_node(s, 1));
    long i;

    gleaner_handle_free(handle);
    for (i = 0; i < 64L << 17; i++)
        gleaner_handle_free(gleaner_handle_new(s->m, 0));
    gleaner_handle_get(handle);
}

static void reads_no_handle(struct stage *s)
{
    (void)s;
    gleaner_handle_get(NULL);
}

static void reads_a_freed_weak_reference(struct stage *s)
{
    gleaner_weak *weak
        = gleaner_weak_new(s->m, gleaner_object(new_node(s, 1)));

    gleaner_weak_free(weak);
    gleaner_weak_get(weak);
}

static void frees_an_ephemeron_twice(struct stage *s)
{
    gleaner_ephemeron *ephemeron = gleaner_ephemeron_new(
        s->m, gleaner_object(new_node(s, 1)), NULL);

    gleaner_ephemeron_free(ephemeron);
    gleaner_ephemeron_free(ephemeron);
}

/* ---- heaps ---------------------------------------------------------------- */

static gleaner_heap *freed_heap(struct stage *s)
{
    gleaner_heap *heap;

    gleaner_blocking_begin(s->m);
    heap = new_heap(false, 2 << 20);
    CHECK(gleaner_heap_free(heap));
    return heap;
}

static void asks_a_freed_heap(struct stage *s)
{
    gleaner_used(freed_heap(s));
}

static void attaches_to_a_freed_heap(struct stage *s)
{
    gleaner_attach(freed_heap(s));
}

static void frees_a_heap_twice(struct stage *s)
{
    gleaner_heap *heap = freed_heap(s);

    CHECK(new_heap(false, 2 << 20) != heap);
    gleaner_heap_free(heap);
}

/* ---- functions that a collection calls ------------------------------------ */

static void allocate_for_roots(void *place, const gleaner_mutator *m,
                               struct gleaner_visitor *visitor)
{
    (void)m, (void)visitor;
    allocates((struct stage *)place);
}

static void allocates_in_a_root_visitor(struct stage *s)
{
    gleaner_blocking_begin(s->m);
    gleaner_set_root_visitor(s->heap, allocate_for_roots, s);
    gleaner_blocking_end(s->m);
    gleaner_collect(s->m, false);
}

static void collect_for_roots(void *place, const gleaner_mutator *m,
                              struct gleaner_visitor *visitor)
{
    (void)m, (void)visitor;
    collects((struct stage *)place);
}

static void collects_in_a_root_visitor(struct stage *s)
{
    gleaner_blocking_begin(s->m);
    gleaner_set_root_visitor(s->heap, collect_for_roots, s);
    gleaner_blocking_end(s->m);
    gleaner_collect(s->m, true);
}

/* Collects a frame that has an object whose slots `trace` visits. */
static void collect_traced(struct stage *s,
                           void (*trace)(void *data, void *object,
                                         struct gleaner_visitor *visitor))
{
    struct gleaner_traced traced;
    gleaner_type type;
    GLEANER_FRAME(s->m, frame, 1);

    memset(&traced, 0, sizeof traced);
    traced.bytes = 24;
    traced.trace = trace;
    traced.data = s;
    type = gleaner_traced_type(s->heap, &traced, NULL, 0);
    frame.values[0] = gleaner_reference(gleaner_allocate(s->m, type, 24));
    gleaner_collect(s->m, true);
    GLEANER_LEAVE(s->m, frame);
}

static void allocate_for_slots(void *data, void *object,
                               struct gleaner_visitor *visitor)
{
    (void)object, (void)visitor;
    allocates((struct stage *)data);
}

static void allocates_in_a_trace_function(struct stage *s)
{
    collect_traced(s, allocate_for_slots);
}

static void attach_for_slots(void *data, void *object,
                             struct gleaner_visitor *visitor)
{
    (void)object, (void)visitor;
    gleaner_attach(((struct stage *)data)->heap);
}

static void attaches_in_a_trace_function(struct stage *s)
{
    collect_traced(s, attach_for_slots);
}

static void attach_told(void *place, const struct gleaner_collection *of)
{
    (void)of;
    gleaner_attach(((struct stage *)place)->heap);
}

static void attaches_in_a_listener(struct stage *s)
{
    gleaner_add_listener(s->heap, attach_told, s);
    gleaner_collect(s->m, false);
}

/* The first part waits until a thread of the heap's has visited another. */
static void fork_on_a_helper(void *data, size_t part,
                             struct gleaner_visitor *visitor)
{
    const pthread_t *leader = (const pthread_t *)data;
    int round;

    (void)part, (void)visitor;
    if (!pthread_equal(*leader, pthread_self()))
        fork();
    for (round = 0; round < 5000; round++)
        usleep(1000);
}

static void forks_on_a_thread_of_the_heap(struct stage *s)
{
    struct gleaner_options options;
    static pthread_t leader;
    gleaner_mutator *m;

    gleaner_blocking_begin(s->m);
    memset(&options, 0, sizeof options);
    options.limit = 2 << 20;
    options.outside_layout = GLEANER_LAYOUT_FOLLOWED;
    options.list = "workers=2,crew=all";
    m = gleaner_attach(gleaner_heap_new(&options, NULL, 0));
    leader = pthread_self();
    gleaner_set_heap_root_visitor(m, 2, fork_on_a_helper, &leader);
    gleaner_collect(m, true);
}

/* ---- what is no object of the heap ---------------------------------------- */

static void *of_another_heap(struct stage *s)
{
    struct stage other;
    void *object;

    gleaner_blocking_begin(s->m);
    other = set_up(s->m->slot_bytes == 4, 2 << 20);
    object = gleaner_object(new_node(&other, 1));
    gleaner_blocking_begin(other.m);
    gleaner_blocking_end(s->m);
    return object;
}

static void refers_weakly_to_nothing(struct stage *s)
{
    gleaner_weak_new(s->m, NULL);
}

static void has_a_key_of_another_heap(struct stage *s)
{
    gleaner_ephemeron_new(s->m, of_another_heap(s), NULL);
}

static void has_a_value_of_another_heap(struct stage *s)
{
    void *value = of_another_heap(s);

    gleaner_ephemeron_new(s->m, gleaner_object(new_node(s, 1)), value);
}

static void finalizes_an_integer(struct stage *s)
{
    gleaner_finalizer_new(s->m, (void *)(uintptr_t)gleaner_integer(4), 0, 0,
                          true);
}

static void finalizes_what_another_heap_has(struct stage *s)
{
    gleaner_finalizer_new(s->m, of_another_heap(s), 0, 0, true);
}

static void keeps_what_another_heap_has(struct stage *s)
{
    void *value = of_another_heap(s);

    gleaner_finalizer_new(s->m, gleaner_object(new_node(s, 1)),
                          gleaner_reference(value), 0, true);
}

static void holds_what_another_heap_has(struct stage *s)
{
    gleaner_handle_new(s->m, gleaner_reference(of_another_heap(s)));
}

static void sets_a_handle_to_what_another_heap_has(struct stage *s)
{
    gleaner_handle *handle = gleaner_handle_new(s->m, 0);

    gleaner_handle_set(s->m, handle, gleaner_reference(of_another_heap(s)));
}

static void takes_nothing_back(struct stage *s)
{
    gleaner_take_back(s->m, NULL);
}

static void shrinks_nothing(struct stage *s)
{
    gleaner_shrink(s->m, NULL, 0);
}

static void takes_a_finalizer_to_nowhere(struct stage *s)
{
    gleaner_value object;

    gleaner_next_finalizer(s->m, &object, NULL);
}

static void orders_a_finalizer_too_high(struct stage *s)
{
    gleaner_finalizer_new(s->m, gleaner_object(new_node(s, 1)), 0, UINT32_MAX,
                          true);
}

static void visit_no_part(void *data, size_t part,
                          struct gleaner_visitor *visitor)
{
    (void)data, (void)part, (void)visitor;
}

static void visits_roots_in_too_many_parts(struct stage *s)
{
    gleaner_set_heap_root_visitor(s->m, SIZE_MAX, visit_no_part, NULL);
}

#define BY_A_FUNCTION                                                          \
    " by a trace function, a size function or a root visitor: the heap is "    \
    "stopped there"
#define NO_OBJECT ", where no object of this heap lies"
#define DETACHED " by a mutator that was detached, or that never was one"

static const struct mistake mistakes[] = {
    { "a collection by thread ", collects_elsewhere },
    { "an allocation by thread ", allocates_elsewhere },
    { "a store by thread ", stores_elsewhere },
    { "a store by thread ", swaps_elsewhere },
    { "a copy of elements by thread ", copies_elsewhere },
    { "a comparison of elements by thread ", compares_elsewhere },
    { "the elements of a pinned array by thread ",
      asks_for_pinned_elements_elsewhere },
    { "a copy of elements by a mutator that is NULL", copies_with_nothing },
    { "a poll by thread ", polls_elsewhere },
    { "a handle is made by thread ", makes_a_handle_elsewhere },
    { "detaching by thread ", detaches_elsewhere },
    { "a collection" DETACHED, collects_detached },
    { "an allocation" DETACHED, allocates_detached },
    { "an allocation" DETACHED, allocates_an_array_detached },
    { "a store" DETACHED, stores_detached },
    { "a collection by a mutator that is NULL", collects_with_nothing },
    { "detaching inside an open frame", detaches_in_a_frame },
    { "detaching inside an open frame",
      detaches_in_a_frame_of_a_heap_without_checks },
    { "the end of a blocking region inside which this thread attached to the "
      "same heap again",
      ends_a_region_too_early },
    { "a store inside a blocking region", stores_in_a_region },
    { "a store inside a blocking region", initializes_in_a_region },
    { "a store inside a blocking region", stores_an_element_in_a_region },
    { "a store inside a blocking region", stores_a_number_in_a_region },
    { "a handle is freed that was freed already", frees_a_handle_twice },
    { "a handle is read that was freed already", reads_a_freed_handle },
    { "a handle is read that was freed already",
      reads_a_handle_whose_place_is_taken },
    { "a handle is read that was freed already",
      reads_a_handle_after_very_many },
    { "a handle is read that is NULL", reads_no_handle },
    { "a weak reference is read that was freed already",
      reads_a_freed_weak_reference },
    { "an ephemeron is freed that was freed already",
      frees_an_ephemeron_twice },
    { "the heap was freed already", asks_a_freed_heap },
    { "the heap was freed already", attaches_to_a_freed_heap },
    { "the heap was freed already", frees_a_heap_twice },
    { "an allocation" BY_A_FUNCTION, allocates_in_a_root_visitor },
    { "a collection" BY_A_FUNCTION, collects_in_a_root_visitor },
    { "an allocation" BY_A_FUNCTION, allocates_in_a_trace_function },
    { "attaching" BY_A_FUNCTION, attaches_in_a_trace_function },
    { "the end of a listener inside which this thread attached to the same "
      "heap again",
      attaches_in_a_listener },
    { "a fork" BY_A_FUNCTION, forks_on_a_thread_of_the_heap },
    { "a weak reference is made for 0x0" NO_OBJECT, refers_weakly_to_nothing },
    { "an ephemeron is made for 0x", has_a_key_of_another_heap },
    { NO_OBJECT, has_a_key_of_another_heap },
    { NO_OBJECT, has_a_value_of_another_heap },
    { "a finalizer is made for 0x9" NO_OBJECT, finalizes_an_integer },
    { "a finalizer is made for 0x", finalizes_what_another_heap_has },
    { NO_OBJECT, keeps_what_another_heap_has },
    { "a handle is made for 0x", holds_what_another_heap_has },
    { "a handle is set for 0x", sets_a_handle_to_what_another_heap_has },
    { "a finalizer is taken back for 0x0" NO_OBJECT, takes_nothing_back },
    { "an array shrinks for 0x0" NO_OBJECT, shrinks_nothing },
    { "the place for the object or for the value is NULL",
      takes_a_finalizer_to_nowhere },
    { "a finalizer of order 4294967295: orders are 0 to 7",
      orders_a_finalizer_too_high },
    { "a heap's root visitor has 18446744073709551615 parts",
      visits_roots_in_too_many_parts },
};

static void each_mistake_has_a_message(bool compressed)
{
    expect_messages(mistakes, sizeof mistakes / sizeof *mistakes, compressed);
}

/* ---- what is no mistake --------------------------------------------------- */

enum { HANDLES = 20000 };

struct handles {
    gleaner_heap *heap;
    gleaner_handle *all[HANDLES];
};

static void *free_handles(void *place)
{
    struct handles *handles = (struct handles *)place;
    int i;

    for (i = 0; i < HANDLES; i += 2)
        gleaner_handle_free(handles->all[i]);
    return NULL;
}

/* Another thread, which is no mutator, frees every second handle while more are
   made: the others hold what they held. */
static void handles_are_freed_by_any_thread(bool compressed)
{
    struct stage s = set_up(compressed, 8 << 20);
    static struct handles handles;
    gleaner_handle *more[1000];
    pthread_t thread;
    int i;

    for (i = 0; i < HANDLES; i++)
        handles.all[i] = gleaner_handle_new(s.m, gleaner_integer(i));
    CHECK(pthread_create(&thread, NULL, free_handles, &handles) == 0);
    for (i = 0; i < 1000; i++)
        more[i] = gleaner_handle_new(s.m, gleaner_integer(-i));
    gleaner_blocking_begin(s.m);
    CHECK(pthread_join(thread, NULL) == 0);
    gleaner_blocking_end(s.m);
    for (i = 0; i < 1000; i++) {
        CHECK(gleaner_number(gleaner_handle_get(more[i])) == -i);
        gleaner_handle_free(more[i]);
    }
    for (i = 1; i < HANDLES; i += 2) {
        CHECK(gleaner_number(gleaner_handle_get(handles.all[i])) == i);
        gleaner_handle_free(handles.all[i]);
    }
    gleaner_handle_free(NULL);
    tear_down(&s);
}

/* A type that is not described is refused with a message. */
static void structs_that_are_null_are_told(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    char message[200] = "";

    CHECK(gleaner_tailed(s.heap, NULL, message, sizeof message) == 0);
    CHECK(strcmp(message, "the struct gleaner_tail is NULL") == 0);
    CHECK(gleaner_weak_type(s.heap, NULL, message, sizeof message) == 0);
    CHECK(strcmp(message, "the struct gleaner_weak_layout is NULL") == 0);
    CHECK(gleaner_traced_type(s.heap, NULL, message, sizeof message) == 0);
    CHECK(strcmp(message, "the struct gleaner_traced is NULL") == 0);
    CHECK(gleaner_weak_type(s.heap, NULL, NULL, 0) == 0);
    tear_down(&s);
}

/* To detach what was detached already does nothing, and a thread may attach
   again. */
static void a_mutator_is_detached_twice(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);

    gleaner_detach(s.m);
    gleaner_detach(s.m);
    s.m = gleaner_attach(s.heap);
    new_node(&s, 1);
    gleaner_collect(s.m, true);
    tear_down(&s);
}

int main(void)
{
    static const struct stage_case cases[] = {
        { "each mistake has a message", each_mistake_has_a_message },
        { "handles are freed by any thread", handles_are_freed_by_any_thread },
        { "structs that are NULL are told", structs_that_are_null_are_told },
        { "a mutator is detached twice", a_mutator_is_detached_twice },
    };

    return run_cases(cases, sizeof cases / sizeof *cases);
}
