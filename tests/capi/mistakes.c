/*
 * What a thread must not do with gleaner.h: each mistake ends the process with
 * a message that names it. A child makes it; nothing hangs, nothing goes on.
 * Those with arrays are in array_mistakes.c.
 */
/* Polls inside of blocking regions are noticed. */
#define GLEANER_DEBUG
#include "mistake.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void attaches_twice(struct stage *s)
{
    s->m = gleaner_attach(s->heap);
}

static void ends_no_region(struct stage *s)
{
    gleaner_blocking_end(s->m);
}

static void allocates_in_a_region(struct stage *s)
{
    gleaner_blocking_begin(s->m);
    gleaner_allocate(s->m, s->node, s->node_bytes);
}

static void allocates_in_an_inner_region(struct stage *s)
{
    gleaner_blocking_begin(s->m);
    gleaner_blocking_begin(s->m);
    gleaner_blocking_end(s->m);
    gleaner_allocate_array(s->m, s->bytes, 100, 1);
}

static void collects_in_a_region(struct stage *s)
{
    gleaner_blocking_begin(s->m);
    gleaner_collect(s->m, true);
}

static void collect_there(void *place, void *object, size_t bytes)
{
    (void)object, (void)bytes;
    gleaner_collect(((struct stage *)place)->m, false);
}

static void collects_in_a_walk(struct stage *s)
{
    gleaner_walk(s->m, collect_there, s);
}

static void end_a_region_there(void *place, void *object, size_t bytes)
{
    (void)object, (void)bytes;
    gleaner_blocking_end(((struct stage *)place)->m);
}

static void ends_a_region_in_a_walk(struct stage *s)
{
    gleaner_walk(s->m, end_a_region_there, s);
}

static void begin_a_region_there(void *place, void *object, size_t bytes)
{
    (void)object, (void)bytes;
    gleaner_blocking_begin(((struct stage *)place)->m);
}

static void begins_a_region_in_a_walk(struct stage *s)
{
    gleaner_walk(s->m, begin_a_region_there, s);
}

static void get_totals_there(void *place, void *object, size_t bytes)
{
    struct gleaner_totals totals;

    (void)object, (void)bytes;
    gleaner_get_totals(((struct stage *)place)->m, &totals);
}

static void gets_totals_in_a_walk(struct stage *s)
{
    gleaner_walk(s->m, get_totals_there, s);
}

static void attach_there(void *place, void *object, size_t bytes)
{
    (void)object, (void)bytes;
    gleaner_attach(((struct stage *)place)->heap);
}

static void attaches_in_a_walk(struct stage *s)
{
    gleaner_walk(s->m, attach_there, s);
}

static void detach_there(void *place, void *object, size_t bytes)
{
    (void)object, (void)bytes;
    gleaner_detach(((struct stage *)place)->m);
}

static void detaches_in_a_walk(struct stage *s)
{
    gleaner_walk(s->m, detach_there, s);
}

static void visit_roots_there(void *place, void *object, size_t bytes)
{
    (void)object, (void)bytes;
    gleaner_set_root_visitor(((struct stage *)place)->heap, NULL, NULL);
}

static void sets_the_root_visitor_in_a_walk(struct stage *s)
{
    gleaner_walk(s->m, visit_roots_there, s);
}

/* A walk by one mutator, in a blocking region of another of the thread's. */
static void detaches_its_other_in_a_walk(struct stage *s)
{
    gleaner_mutator *second;

    gleaner_blocking_begin(s->m);
    second = gleaner_attach(s->heap);
    gleaner_walk(second, detach_there, s);
}

static void end_the_region_told(void *place, const struct gleaner_collection *of)
{
    (void)of;
    gleaner_blocking_end(((struct stage *)place)->m);
}

static void begin_a_region_told(void *place, const struct gleaner_collection *of)
{
    (void)of;
    gleaner_blocking_begin(((struct stage *)place)->m);
}

static void begins_a_region_in_a_listener(struct stage *s)
{
    gleaner_add_listener(s->heap, begin_a_region_told, s);
    gleaner_collect(s->m, false);
}

static void ends_a_region_in_a_listener(struct stage *s)
{
    gleaner_add_listener(s->heap, end_the_region_told, s);
    gleaner_collect(s->m, false);
}

static void detach_told(void *place, const struct gleaner_collection *of)
{
    (void)of;
    gleaner_detach(((struct stage *)place)->m);
}

static void detaches_in_a_listener(struct stage *s)
{
    gleaner_add_listener(s->heap, detach_told, s);
    gleaner_collect(s->m, false);
}

static void allocate_told(void *place, const struct gleaner_collection *of)
{
    (void)of;
    gleaner_allocate(((struct stage *)place)->m, ((struct stage *)place)->node,
                     ((struct stage *)place)->node_bytes);
}

static void allocates_in_a_listener(struct stage *s)
{
    gleaner_add_listener(s->heap, allocate_told, s);
    gleaner_collect(s->m, false);
}

static void fork_there(void *place, void *object, size_t bytes)
{
    (void)place, (void)object, (void)bytes;
    if (fork() == 0)
        _exit(0);
}

static void forks_in_a_walk(struct stage *s)
{
    gleaner_walk(s->m, fork_there, s);
}

static void polls_in_a_region(struct stage *s)
{
    gleaner_blocking_begin(s->m);
    gleaner_poll(s->m);
}

/* A closure: a code pointer, and then its variables. */
static gleaner_type closure(struct stage *s)
{
    const uint32_t first[] = { 0 };
    struct gleaner_tail tail;

    memset(&tail, 0, sizeof tail);
    tail.head = 24;
    tail.element = s->m->slot_bytes;
    tail.element_offsets = first;
    tail.element_count = 1;
    return gleaner_tailed(s->heap, &tail, NULL, 0);
}

static void allocates_a_closure_as_an_array(struct stage *s)
{
    gleaner_allocate_array(s->m, closure(s), 6, s->m->slot_bytes);
}

static void pins_a_closure_as_an_array(struct stage *s)
{
    gleaner_allocate_array_pinned(s->m, closure(s), 6, s->m->slot_bytes);
}

/* A word that is neither in the object of its base nor at its end. */
static void visit_beyond(void *data, size_t part, struct gleaner_visitor *visitor)
{
    gleaner_value *base = (gleaner_value *)data;
    void *const derived[] = { base + 1 };

    (void)part;
    visitor->visit_derived(visitor, base, derived, 1);
}

static void derives_beyond_the_object(struct stage *s)
{
    gleaner_value words[2];

    words[0] = new_node(s, 1);
    words[1] = words[0] + s->node_bytes + 1;
    gleaner_set_heap_root_visitor(s->m, 1, visit_beyond, words);
    gleaner_collect(s->m, false);
}

static void derives_before_the_object(struct stage *s)
{
    gleaner_value words[2];

    words[0] = new_node(s, 1);
    words[1] = words[0] - 1;
    gleaner_set_heap_root_visitor(s->m, 1, visit_beyond, words);
    gleaner_collect(s->m, true);
}

static void derives_in_a_trace_function(void *data, void *object,
                                        struct gleaner_visitor *visitor)
{
    visit_beyond(object, 0, visitor);
    (void)data;
}

static void traces_a_derived_pointer(struct stage *s)
{
    struct gleaner_traced traced;
    gleaner_type type;

    memset(&traced, 0, sizeof traced);
    traced.bytes = 24;
    traced.trace = derives_in_a_trace_function;
    type = gleaner_traced_type(s->heap, &traced, NULL, 0);
    GLEANER_FRAME(s->m, frame, 1);
    frame.values[0] = gleaner_reference(gleaner_allocate(s->m, type, 24));
    gleaner_collect(s->m, true);
    GLEANER_LEAVE(s->m, frame);
}

static void sets_a_handle_of_another_heap(struct stage *s)
{
    gleaner_handle *handle = gleaner_handle_new(s->m, 0);
    gleaner_mutator *other;

    gleaner_blocking_begin(s->m);
    other = gleaner_attach(new_heap(false, 1 << 20));
    gleaner_handle_set(other, handle, 0);
}

static void adds_a_root_range_in_a_region(struct stage *s)
{
    static gleaner_value value;

    gleaner_blocking_begin(s->m);
    gleaner_add_root_range(s->m, &value, 1, GLEANER_ROOT_VALUES, NULL, 0);
}

static void unregisters_a_type_twice(struct stage *s)
{
    gleaner_type type = gleaner_references(s->heap), again = type;

    gleaner_unregister_types(s->m, &type, 1);
    gleaner_unregister_types(s->m, &again, 1);
}

static void asks_for_data_of_no_type(struct stage *s)
{
    gleaner_type_data(s->heap, 0);
}

static void sets_data_of_an_unknown_type(struct stage *s)
{
    gleaner_set_type_data(s->heap, s->bytes + 100, NULL);
}

static void allocates_too_little(struct stage *s)
{
    gleaner_allocate(s->m, s->node, s->node_bytes - 8);
}

static void pins_too_little(struct stage *s)
{
    gleaner_allocate_pinned(s->m, s->node, s->node_bytes - 8);
}

static void pins_an_unknown_type(struct stage *s)
{
    gleaner_allocate_pinned(s->m, s->bytes + 5000, 16);
}

static void pins_a_type_that_was_unregistered(struct stage *s)
{
    gleaner_type type = gleaner_references(s->heap), gone = type;

    CHECK(gleaner_unregister_types(s->m, &type, 1) == 1);
    gleaner_allocate_pinned(s->m, gone, 16);
}

/* Of a type that the heap has for itself. */
static void forges_a_finalizer(struct stage *s)
{
    void *node = gleaner_allocate(s->m, s->node, s->node_bytes);
    void *finalizer = gleaner_finalizer_new(s->m, node, 0, 0, true);

    gleaner_allocate_pinned(s->m, gleaner_type_of(finalizer),
                            8 + 3 * (size_t)s->m->slot_bytes);
}

static void allocates_a_constant_of_no_bytes(struct stage *s)
{
    gleaner_allocate_constant(s->m, s->node, 0);
}

static void allocates_a_constant_of_an_unknown_type(struct stage *s)
{
    gleaner_allocate_constant(s->m, s->bytes + 5000, 16);
}

static size_t any_size(void *data, const void *object)
{
    (void)data, (void)object;
    return 16;
}

static void trace_nothing(void *data, void *object,
                          struct gleaner_visitor *visitor)
{
    (void)data, (void)object, (void)visitor;
}

/* Its size is what the caller says, but no object is that small. */
static void allocates_a_constant_that_sizes_itself(struct stage *s)
{
    struct gleaner_traced traced;

    memset(&traced, 0, sizeof traced);
    traced.size = any_size;
    traced.trace = trace_nothing;
    gleaner_allocate_constant(
        s->m, gleaner_traced_type(s->heap, &traced, NULL, 0), 8);
}

static void allocates_a_weak_constant(struct stage *s)
{
    const uint32_t first[] = { 0 };
    struct gleaner_weak_layout layout;

    memset(&layout, 0, sizeof layout);
    layout.head = 16;
    layout.element = s->m->slot_bytes;
    layout.element_slots.weak = first;
    layout.element_slots.weak_count = 1;
    gleaner_allocate_array_constant(
        s->m, gleaner_weak_type(s->heap, &layout, NULL, 0), 10,
        s->m->slot_bytes);
}

static void asks_nothing_for_its_hash(struct stage *s)
{
    gleaner_identity_hash(s->m, NULL);
}

static void asks_an_integer_for_its_hash(struct stage *s)
{
    gleaner_identity_hash(s->m, (void *)(uintptr_t)gleaner_integer(3));
}

static void attaches_to_nothing(struct stage *s)
{
    (void)s;
    gleaner_attach(NULL);
}

static void registers_with_nothing(struct stage *s)
{
    (void)s;
    gleaner_references(NULL);
}

static void tells_nobody(struct stage *s)
{
    gleaner_add_listener(s->heap, NULL, NULL);
}

static void tells_nothing_of_bytes(struct stage *s)
{
    (void)s;
    gleaner_note_external(NULL, 1);
}

static void names_no_type(struct stage *s)
{
    gleaner_name_type(s->heap, 0, "none");
}

static void names_a_type_by_nothing(struct stage *s)
{
    gleaner_name_type(s->heap, s->node, NULL);
}

static void writes_nowhere(struct stage *s)
{
    gleaner_snapshot(s->m, NULL, NULL, 0);
}

static void counts_with_nothing(struct stage *s)
{
    gleaner_census(s->m, NULL, NULL);
}

static void trim_there(void *data, const struct gleaner_collection *of)
{
    (void)of;
    gleaner_trim(((struct stage *)data)->m);
}

static void trims_in_a_listener(struct stage *s)
{
    gleaner_add_listener(s->heap, trim_there, s);
    gleaner_collect(s->m, true);
}

static void walks_with_nothing(struct stage *s)
{
    gleaner_walk(s->m, NULL, NULL);
}

static const struct mistake mistakes[] = {
    { "the heap is NULL", tells_nothing_of_bytes },
    { "0 is no type", names_no_type },
    { "the name is NULL", names_a_type_by_nothing },
    { "the path is NULL", writes_nowhere },
    { "the function that visits is NULL", counts_with_nothing },
    { "giving memory back by a listener", trims_in_a_listener },
    { "this thread is a mutator of this heap already", attaches_twice },
    { "the end of a blocking region that was not begun", ends_no_region },
    { "an allocation inside a blocking region", allocates_in_a_region },
    { "an allocation inside a blocking region", allocates_in_an_inner_region },
    { "a collection inside a blocking region", collects_in_a_region },
    { "a collection by a function that visits all objects", collects_in_a_walk },
    { "the end of a blocking region by a function that visits",
      ends_a_region_in_a_walk },
    { "a blocking region by a function that visits all objects",
      begins_a_region_in_a_walk },
    { "the end of a listener inside a blocking region that it began",
      begins_a_region_in_a_listener },
    { "totals are asked for by a function that visits all objects", gets_totals_in_a_walk },
    { "attaching by a function that visits all objects", attaches_in_a_walk },
    { "detaching by a function that visits all objects", detaches_in_a_walk },
    { "a root visitor is set by a function that visits all objects",
      sets_the_root_visitor_in_a_walk },
    { "detaching by a function that visits all objects",
      detaches_its_other_in_a_walk },
    { "the end of a blocking region by a listener",
      ends_a_region_in_a_listener },
    { "detaching by a listener", detaches_in_a_listener },
    { "an allocation by a listener", allocates_in_a_listener },
    { "a fork by a function that visits all objects", forks_in_a_walk },
    { "a poll inside a blocking region", polls_in_a_region },
    { "bytes with this length, and ", allocates_a_closure_as_an_array },
    { "bytes with this length, and ", pins_a_closure_as_an_array },
    { "bytes, and ", allocates_too_little },
    { "allocation of a pinned object: type ", pins_too_little },
    { "allocation of a pinned object: no type ", pins_an_unknown_type },
    { "allocation of a pinned object: no type ",
      pins_a_type_that_was_unregistered },
    { "allocation of a pinned object: no type ", forges_a_finalizer },
    { "bytes, and 0 were asked for", allocates_a_constant_of_no_bytes },
    { "allocation of a constant: no type ",
      allocates_a_constant_of_an_unknown_type },
    { "has 16 bytes, and 8 were asked for",
      allocates_a_constant_that_sizes_itself },
    { "has weak slots or ephemerons, and no collection looks at constants",
      allocates_a_weak_constant },
    { "an identity hash for 0x0, where no object of this heap lies",
      asks_nothing_for_its_hash },
    { "an identity hash for 0x7, where no object of this heap lies",
      asks_an_integer_for_its_hash },
    { "is not in the object of its base", derives_beyond_the_object },
    { "is not in the object of its base", derives_before_the_object },
    { "a trace function visits a derived pointer", traces_a_derived_pointer },
    { "a handle of another heap", sets_a_handle_of_another_heap },
    { "a root range is registered inside a blocking region",
      adds_a_root_range_in_a_region },
    { "a type is unregistered that this heap has not", unregisters_a_type_twice },
    { "the data of type 0, which this heap has not", asks_for_data_of_no_type },
    { "register the type first", sets_data_of_an_unknown_type },
    { "the heap is NULL: gleaner_heap_new failed", attaches_to_nothing },
    { "the heap is NULL: gleaner_heap_new failed", registers_with_nothing },
    { "the listener is NULL", tells_nobody },
    { "the function that visits is NULL", walks_with_nothing },
};

static void each_mistake_has_a_message(bool compressed)
{
    expect_messages(mistakes, sizeof mistakes / sizeof *mistakes, compressed);
}

/* Where the process may have no more addresses. */
static void attach_without_memory(const void *place)
{
    const struct stage *s = (const struct stage *)place;
    const struct rlimit none = { 1 << 20, 1 << 20 };

    gleaner_blocking_begin(s->m);
    CHECK(setrlimit(RLIMIT_AS, &none) == 0);
    _exit(gleaner_attach(s->heap) == NULL ? 0 : 1);
}

static void what_is_nothing_is_told(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    char message[200] = "";
    struct gleaner_tail tail;

    CHECK(gleaner_structure(s.heap, 32, NULL, 2, message, sizeof message) == 0);
    CHECK(strcmp(message, "2 slots, and their offsets are NULL") == 0);
    memset(&tail, 0, sizeof tail);
    tail.head = 16;
    tail.element = 8;
    tail.element_count = 1;
    CHECK(gleaner_tailed(s.heap, &tail, message, sizeof message) == 0);
    CHECK(strcmp(message, "1 slots, and their offsets are NULL") == 0);
    CHECK(gleaner_heap_free(NULL));
    tear_down(&s);
}

/* Totals may be asked for in a region, which goes on. */
static void totals_are_told_in_a_region(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    struct gleaner_totals totals;

    gleaner_collect(s.m, true);
    gleaner_blocking_begin(s.m);
    gleaner_get_totals(s.m, &totals);
    CHECK(totals.full_collections == 1);
    gleaner_blocking_end(s.m);
    new_node(&s, 1);
    tear_down(&s);
}

static void an_attachment_that_is_refused_says_why(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    char said[8192];
    int status = said_by_child(attach_without_memory, &s, said, sizeof said);

    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(strncmp(said, "gleaner: ", 9) == 0);
    CHECK(strstr(said, "(RLIMIT_AS): raise the limit with ulimit -v"));
    tear_down(&s);
}

/* Attaches in the last round of destructors, when nothing tells of the end of
   the thread any more: a collection finds that it is gone. */
static pthread_key_t round_key;
static struct stage *stage_of_last_round;
static int rounds;

static void last_round(void *place)
{
    if (++rounds < 4)
        CHECK(pthread_setspecific(round_key, place) == 0);
    else
        CHECK(gleaner_attach(stage_of_last_round->heap) != NULL);
}

static void *end_late(void *place)
{
    CHECK(pthread_setspecific(round_key, place) == 0);
    return NULL;
}

static void a_thread_that_attaches_at_its_very_end_is_found(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    static bool has_key;
    pthread_t thread;

    /* The library has its own key by now, so this one's turn is later. */
    if (!has_key)
        CHECK(pthread_key_create(&round_key, last_round) == 0);
    has_key = true;
    rounds = 0;
    stage_of_last_round = &s;
    CHECK(pthread_create(&thread, NULL, end_late, &s) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(rounds == 4);
    gleaner_collect(s.m, true);
    tear_down(&s);
}

static struct gleaner_totals told_totals;

static void ask_told(void *place, const struct gleaner_collection *of)
{
    struct stage *s = (struct stage *)place;
    gleaner_mutator *second;

    (void)of;
    gleaner_get_totals(s->m, &told_totals);
    gleaner_blocking_begin(s->m);
    gleaner_blocking_end(s->m);
    second = gleaner_attach(s->heap);
    CHECK(gleaner_allocate(second, s->node, s->node_bytes) != NULL);
    gleaner_detach(second);
}

/* It is called outside of the heap, where a thread may ask and attach. */
static void a_listener_may_ask_and_attach(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);

    gleaner_add_listener(s.heap, ask_told, &s);
    gleaner_collect(s.m, true);
    CHECK(told_totals.full_collections == 1);
    new_node(&s, 1);
    tear_down(&s);
}

static void count(void *place, void *object, size_t bytes)
{
    (void)object, (void)bytes;
    ++*(size_t *)place;
}

static void *collect_and_walk(void *place)
{
    struct stage s = *(struct stage *)place;
    int i;

    s.m = gleaner_attach(s.heap);
    for (i = 0; i < 300; i++) {
        size_t objects = 0;

        gleaner_collect(s.m, i % 2 == 0);
        gleaner_walk(s.m, count, &objects);
        CHECK(objects > 0);
    }
    gleaner_detach(s.m);
    return NULL;
}

/* A walk is a poll: roots are updated there like anywhere. */
static void what_is_in_roots_is_there_after_a_walk(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    pthread_t thread;
    int i;
    GLEANER_FRAME(s.m, frame, 1);

    frame.values[0] = new_node(&s, 0);
    CHECK(pthread_create(&thread, NULL, collect_and_walk, &s) == 0);
    for (i = 1; i < 300; i++) {
        size_t objects = 0;

        frame.values[0] = new_node(&s, (uint64_t)i);
        gleaner_walk(s.m, count, &objects);
        CHECK(*number_of(&s, frame.values[0]) == (uint64_t)i);
        CHECK(objects > 0);
    }
    gleaner_blocking_begin(s.m);
    CHECK(pthread_join(thread, NULL) == 0);
    gleaner_blocking_end(s.m);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

int main(void)
{
    static const struct stage_case cases[] = {
        { "each mistake has a message", each_mistake_has_a_message },
        { "an attachment that is refused says why",
          an_attachment_that_is_refused_says_why },
        { "what is nothing is told", what_is_nothing_is_told },
        { "totals are told in a region", totals_are_told_in_a_region },
        { "a listener may ask and attach", a_listener_may_ask_and_attach },
        { "a thread that attaches at its very end is found",
          a_thread_that_attaches_at_its_very_end_is_found },
        { "what is in roots is there after a walk",
          what_is_in_roots_is_there_after_a_walk },
    };

    return run_cases(cases, sizeof cases / sizeof *cases);
}
