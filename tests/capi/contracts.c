/*
 * What the comments of gleaner.h promise and no other program of this directory
 * tests. The cases stand in the order of the header.
 */
#include "child.h"
#include "stage.h"

#include <pthread.h>
#include <signal.h>
#include <sched.h>

/* ---- heaps --------------------------------------------------------------- */

/* A heap that cannot be made, with and without room for the reason. */
static void a_refusal_needs_no_room_for_its_message(bool compressed)
{
    struct gleaner_options options;
    char message[3] = { 1, 1, 1 };

    memset(&options, 0, sizeof options);
    options.limit = 1000;
    options.compressed = compressed;
    options.outside_layout = GLEANER_LAYOUT_FOLLOWED;
    CHECK(gleaner_heap_new(&options, NULL, 0) == NULL);
    CHECK(gleaner_heap_new(&options, message, 1) == NULL);
    CHECK(message[0] == 0 && message[1] == 1);
    CHECK(gleaner_heap_new(&options, message, 2) == NULL);
    CHECK(message[0] != 0 && message[1] == 0 && message[2] == 1);
}

/* Fields are refused as the options of their names are. */
static void fields_accept_what_their_options_accept(bool compressed)
{
    struct gleaner_options options, ours;
    char message[400];

    memset(&options, 0, sizeof options);
    options.compressed = compressed;
    options.ignore_environment = true;
    ours = options, ours.limit = 4 << 20, ours.tlab = 1;
    CHECK(gleaner_heap_new(&ours, message, sizeof message) == NULL);
    CHECK(strstr(message, "option tlab: 1 ") != NULL);
    ours = options, ours.limit = 4 << 20, ours.workers = 100000;
    CHECK(gleaner_heap_new(&ours, message, sizeof message) == NULL);
    CHECK(strstr(message, "option workers: 100000 ") != NULL);
    ours = options, ours.limit = 4 << 20, ours.young = 8 << 20;
    CHECK(gleaner_heap_new(&ours, message, sizeof message) == NULL);
    CHECK(strstr(message, "young") != NULL);
}

/* A limit that is too large is refused, and the largest is named. */
static void the_largest_limit_is_named(bool compressed)
{
    static const struct {
        const char *list;
        size_t least; /* megabytes: what the header promises */
    } cases[] = { { "arrays=contiguous", 13 << 10 }, { "arrays=zray", 7 << 10 } };
    struct gleaner_options options;
    char message[400], *most;
    size_t i, megabytes;

    if (!compressed)
        return;
    for (i = 0; i < 2; i++) {
        gleaner_heap *heap;

        memset(&options, 0, sizeof options);
        options.compressed = options.ignore_environment = true;
        options.list = cases[i].list;
        options.limit = (size_t)15 << 30;
        CHECK(gleaner_heap_new_knowing(0, &options, message, sizeof message)
              == NULL);
        CHECK(strstr(message, "option heap-limit: ") != NULL);
        most = strstr(message, "a limit of at most ");
        CHECK(most != NULL);
        megabytes = strtoul(most + strlen("a limit of at most "), NULL, 10);
        CHECK(megabytes >= cases[i].least && megabytes < 15 << 10);
        options.limit = megabytes << 20;
        heap = gleaner_heap_new_knowing(0, &options, NULL, 0);
        CHECK(heap != NULL && gleaner_heap_free(heap));
        options.limit += (size_t)16 << 20;
        CHECK(gleaner_heap_new_knowing(0, &options, NULL, 0) == NULL);
    }
}

static void stress_collects_at_every_nth_allocation(bool compressed)
{
    struct stage s
        = set_up_in(stressed_heap(compressed, 2 << 20, 10), compressed);
    struct gleaner_totals before, after;
    uint64_t i;

    gleaner_get_totals(s.m, &before);
    for (i = 0; i < 1000; i++)
        new_node(&s, i);
    gleaner_get_totals(s.m, &after);
    CHECK(after.scavenges + after.full_collections
          >= before.scavenges + before.full_collections + 100);
    tear_down(&s);
}

/* ---- types --------------------------------------------------------------- */

static void types_that_cannot_be_are_refused(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    const uint32_t slot = s.m->slot_bytes;
    const uint32_t falling[] = { 8 + slot, 8 }, twice[] = { 8, 8 },
                   beyond[] = { 8, 32 }, header[] = { 0 };
    const uint32_t *wrong[] = { falling, twice, beyond };
    struct gleaner_tail tail;
    char message[200];
    size_t i;

    for (i = 0; i < 3; i++) {
        message[0] = 0;
        CHECK(gleaner_structure(s.heap, 32, wrong[i], 2, message,
                                sizeof message)
              == 0);
        CHECK(message[0] != 0);
    }
    CHECK(gleaner_structure(s.heap, 32, header, 1, message, sizeof message)
          == 0);
    memset(&tail, 0, sizeof tail);
    tail.element = 8;
    tail.head = 8; /* no room for the length */
    message[0] = 0;
    CHECK(gleaner_tailed(s.heap, &tail, message, sizeof message) == 0);
    CHECK(message[0] != 0);
    tail.head = 16;
    CHECK(gleaner_tailed(s.heap, &tail, NULL, 0) != 0);
    tear_down(&s);
}

static void types_run_out(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    gleaner_type type, last = 0;
    size_t made = 0;

    while ((type = gleaner_structure(s.heap, 16, NULL, 0, NULL, 0)) != 0) {
        CHECK(type != last);
        last = type;
        made++;
    }
    CHECK(made > 10000 && gleaner_references(s.heap) == 0);
    CHECK(gleaner_primitives_whole(s.heap, 1) == 0);
    CHECK(gleaner_allocate(s.m, last, 16) != NULL);
    new_node(&s, 1); /* the first types are still there */
    gleaner_collect(s.m, true);
    tear_down(&s);
}

/* ---- values -------------------------------------------------------------- */

static void values_are_references_integers_or_null(bool compressed)
{
    const int64_t most = INT64_MAX >> 1, least = -most - 1;
    struct stage s = set_up(compressed, 2 << 20);
    void *node = gleaner_object(new_node(&s, 1));

    CHECK(gleaner_object(0) == NULL && gleaner_object(gleaner_integer(8)) == NULL);
    CHECK(gleaner_object(gleaner_reference(node)) == node);
    CHECK(gleaner_reference(NULL) == 0 && !gleaner_is_integer(0));
    CHECK(gleaner_is_integer(gleaner_integer(0)));
    CHECK(gleaner_number(gleaner_integer(most)) == most);
    CHECK(gleaner_number(gleaner_integer(least)) == least);
    gleaner_store(s.m, node, 8, gleaner_integer(least + 5));
    CHECK(gleaner_number(gleaner_load(s.m, node, 8))
          == (compressed ? 5 : least + 5)); /* 31 bits are kept */
    gleaner_store(s.m, node, 8, gleaner_integer(-((int64_t)1 << 30)));
    CHECK(gleaner_number(gleaner_load(s.m, node, 8)) == -((int64_t)1 << 30));
    tear_down(&s);
}

/* ---- mutators ------------------------------------------------------------ */

static void a_region_lets_its_thread_attach_again(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20), second = s;
    GLEANER_FRAME(s.m, frame, 1);

    frame.values[0] = new_node(&s, 5);
    gleaner_blocking_begin(s.m);
    second.m = gleaner_attach(s.heap);
    new_node(&second, 1);
    gleaner_collect(second.m, true); /* and the first does not hold it up */
    gleaner_detach(second.m);
    gleaner_blocking_end(s.m);
    CHECK(*number_of(&s, frame.values[0]) == 5);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

static void a_thread_may_detach_in_a_region(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);

    gleaner_blocking_begin(s.m);
    gleaner_detach(s.m);
    s.m = gleaner_attach(s.heap);
    new_node(&s, 1);
    gleaner_collect(s.m, true);
    tear_down(&s);
}

/* The key is made behind the library's, so that its destructors run behind. */
static pthread_key_t attaching_key;

static void attach_and_stay(void *place)
{
    struct stage s = *(struct stage *)place;

    s.m = gleaner_attach(s.heap);
    CHECK(s.m != NULL);
    new_node(&s, 1);
}

static void *end_by_attaching(void *place)
{
    CHECK(pthread_setspecific(attaching_key, place) == 0);
    return NULL;
}

/* Nothing but the next round of destructors detaches it: there is no
   collection. */
static void what_attaches_in_a_destructor_is_detached(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    static bool has_key;
    pthread_t thread;

    if (!has_key)
        CHECK(pthread_key_create(&attaching_key, attach_and_stay) == 0);
    has_key = true;
    CHECK(pthread_create(&thread, NULL, end_by_attaching, &s) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    tear_down(&s);
}

static void walk_nowhere(void *data, void *object, size_t bytes)
{
    (void)data, (void)object, (void)bytes;
}

/* What a region refuses. The array is made before. */
static void walk(struct stage *s, void *array)
{
    (void)array;
    gleaner_walk(s->m, walk_nowhere, NULL);
}

static void copy_elements(struct stage *s, void *array)
{
    gleaner_copy_elements(s->m, array, 0, array, 1, 1);
}

static void make_a_handle(struct stage *s, void *array)
{
    gleaner_handle_new(s->m, gleaner_reference(array));
}

static void make_a_weak_reference(struct stage *s, void *array)
{
    gleaner_weak_new(s->m, array);
}

static void make_an_ephemeron(struct stage *s, void *array)
{
    gleaner_ephemeron_new(s->m, array, array);
}

static void *collect_for_ever(void *place)
{
    gleaner_mutator *m = gleaner_attach(((struct stage *)place)->heap);

    for (;;)
        gleaner_collect(m, true);
    return NULL;
}

/* Sooner or later a collection waits for this thread. */
static void poll_until_it_is_noticed(struct stage *s, void *array)
{
    pthread_t thread;

    (void)array;
    CHECK(pthread_create(&thread, NULL, collect_for_ever, s) == 0);
    for (;;)
        gleaner_poll(s->m);
}

static const struct refused {
    const char *message;
    void (*use)(struct stage *s, void *array);
} refused[] = {
    { "a walk inside a blocking region", walk },
    { "a copy of elements inside a blocking region", copy_elements },
    { "a handle is made inside a blocking region", make_a_handle },
    { "a weak reference is made inside a blocking region",
      make_a_weak_reference },
    { "an ephemeron is made inside a blocking region", make_an_ephemeron },
    { "a poll inside a blocking region", poll_until_it_is_noticed },
};

struct in_region {
    const struct refused *refused;
    struct stage *stage;
};

static void use_in_a_region(const void *of)
{
    const struct in_region *use = (const struct in_region *)of;
    struct stage *s = use->stage;
    void *array = gleaner_allocate_array(s->m, s->bytes, 10, 1);

    gleaner_blocking_begin(s->m);
    use->refused->use(s, array);
}

static void a_region_refuses_what_uses_the_heap(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    size_t i;

    unsetenv("RUST_BACKTRACE");
    for (i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct in_region use = { &refused[i], &s };
        char said[8192];
        int status = said_by_child(use_in_a_region, &use, said, sizeof said);

        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        if (strncmp(said, "gleaner: ", 9) != 0
            || strstr(said, refused[i].message) == NULL) {
            printf("not '%s': %s\n", refused[i].message, said);
            CHECK(!"the message");
        }
    }
    tear_down(&s);
}

static void leave_in_the_wrong_order(const void *of)
{
    gleaner_heap *heap = (gleaner_heap *)of;
    gleaner_mutator *m = gleaner_attach(heap);
    GLEANER_FRAME(m, outer, 1);
    GLEANER_FRAME(m, inner, 1);

    GLEANER_LEAVE(m, outer);
    GLEANER_LEAVE(m, inner); /* links the outer one again */
    gleaner_collect(m, true);
}

static void a_frame_that_was_left_is_noticed(bool compressed)
{
    struct gleaner_options options;
    gleaner_heap *heap;
    char said[8192];
    int status;

    memset(&options, 0, sizeof options); /* without a verifier */
    options.limit = 2 << 20;
    options.compressed = compressed;
    options.outside_layout = GLEANER_LAYOUT_FOLLOWED;
    heap = gleaner_heap_new(&options, NULL, 0);
    status = said_by_child(leave_in_the_wrong_order, heap, said, sizeof said);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK(strstr(said, "a frame that was left") != NULL);
    CHECK(gleaner_heap_free(heap));
}

/* ---- allocation ---------------------------------------------------------- */

static void room_is_given_up_to_a_limit(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    size_t bytes = gleaner_rounded(s.node_bytes);
    uintptr_t cursor, room;

    new_node(&s, 1); /* there is a buffer now */
    cursor = s.m->cursor;
    CHECK(gleaner_room(s.m, bytes, bytes - 8) == 0);
    CHECK(gleaner_room(s.m, s.m->limit - cursor + 8, SIZE_MAX) == 0);
    CHECK(s.m->cursor == cursor);
    room = gleaner_zero_room(s.m, bytes, bytes);
    CHECK(room == cursor && s.m->cursor == cursor + bytes);
    CHECK(*number_of(&s, gleaner_reference(gleaner_begin(room, s.node))) == 0);
    CHECK(gleaner_type_of((void *)room) == s.node);
    gleaner_collect(s.m, true);
    tear_down(&s);
}

static void large_objects_stay_where_they_are(bool compressed)
{
    struct stage s = set_up(compressed, 4 << 20);
    gleaner_type whole = gleaner_primitives_whole(s.heap, 1);
    gleaner_value large, small;
    int i;
    GLEANER_FRAME(s.m, frame, 2);

    small = frame.values[0] = new_node(&s, 1);
    large = frame.values[1] = gleaner_reference(
        gleaner_allocate_array(s.m, whole, GLEANER_LARGE, 1));
    for (i = 0; i < 4; i++) {
        new_node(&s, 2);
        gleaner_collect(s.m, i % 2 == 1);
    }
    CHECK(frame.values[0] != small); /* as small ones do not */
    CHECK(frame.values[1] == large);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

static void count(void *data, void *object, size_t bytes)
{
    (void)object, (void)bytes;
    ++*(size_t *)data;
}

static void immortal_arrays_need_no_reference(bool compressed)
{
    struct stage s = set_up(compressed, 1 << 20);
    size_t made, found = 0;

    for (made = 0; made < 10; made++)
        CHECK(gleaner_allocate_array_immortal(s.m, s.bytes, 20, 1) != NULL);
    new_node(&s, 1);
    gleaner_collect(s.m, true);
    gleaner_walk(s.m, count, &found);
    CHECK(found == made);
    while (gleaner_allocate_array_immortal(s.m, s.bytes, 20, 1) != NULL)
        made++;
    CHECK(made > 1000);
    tear_down(&s); /* which does not wait for them */
}

/* ---- objects ------------------------------------------------------------- */

static void hashes_are_small_and_stay(bool compressed)
{
    enum { COUNT = 100 };
    struct stage s = set_up(compressed, 2 << 20);
    uint32_t hashes[COUNT];
    int i, k, equal = 0;
    GLEANER_FRAME(s.m, frame, COUNT);

    for (i = 0; i < COUNT; i++) {
        frame.values[i] = new_node(&s, (uint64_t)i);
        hashes[i]
            = gleaner_identity_hash(s.m, gleaner_object(frame.values[i]));
        CHECK(hashes[i] >= 1 && hashes[i] < (1u << 28));
        for (k = 0; k < i; k++)
            equal += hashes[k] == hashes[i];
    }
    CHECK(equal < 3);
    gleaner_collect(s.m, false);
    gleaner_collect(s.m, true);
    for (i = 0; i < COUNT; i++)
        CHECK(gleaner_identity_hash(s.m, gleaner_object(frame.values[i]))
              == hashes[i]);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

/* ---- collections --------------------------------------------------------- */

static void collections_are_of_the_young_or_of_everything(bool compressed)
{
    struct stage s = set_up(compressed, 4 << 20);
    struct gleaner_totals totals;
    gleaner_ephemeron *ephemeron;
    GLEANER_FRAME(s.m, frame, 1);

    frame.values[0] = new_node(&s, 1);
    gleaner_collect(s.m, false);
    gleaner_get_totals(s.m, &totals);
    CHECK(totals.scavenges == 1 && totals.full_collections == 0);
    CHECK(totals.survived_bytes >= s.node_bytes);
    CHECK(totals.ephemeron_looks == 0);
    ephemeron = gleaner_ephemeron_new(s.m, gleaner_object(frame.values[0]),
                                      gleaner_object(frame.values[0]));
    gleaner_collect(s.m, true);
    gleaner_get_totals(s.m, &totals);
    CHECK(totals.scavenges == 1 && totals.full_collections == 1);
    CHECK(totals.ephemeron_looks > 0);
    CHECK(totals.stopped_ns >= totals.longest_stop_ns);
    CHECK(totals.longest_stop_ns > 0);
    gleaner_ephemeron_free(ephemeron);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

/* Mutators and threads of the collector zero: both are counted. */
static void zeroing_is_counted(bool compressed)
{
    static const char *const lists[] = { "zeroing=bulk", "zeroing=concurrent" };
    struct gleaner_options options;
    struct gleaner_totals totals;
    struct stage s;
    size_t way, i;

    for (way = 0; way < 2; way++) {
        memset(&options, 0, sizeof options);
        options.limit = 4 << 20;
        options.compressed = compressed;
        options.outside_layout = GLEANER_LAYOUT_FOLLOWED;
        options.list = lists[way];
        s = set_up_in(gleaner_heap_new(&options, NULL, 0), compressed);
        for (i = 0; i < 200000; i++)
            new_node(&s, i);
        gleaner_get_totals(s.m, &totals);
        CHECK(totals.zeroed_bytes + totals.zeroed_ahead_bytes > 0);
        CHECK(way == 1 || totals.zeroed_ahead_bytes == 0);
        tear_down(&s);
    }
}

/* What a mutator counts while it runs. */
static volatile uint64_t steps;
static volatile bool is_over;

static void *step_and_poll(void *place)
{
    gleaner_mutator *m = gleaner_attach(((struct stage *)place)->heap);

    while (!is_over) {
        steps++;
        gleaner_poll(m);
    }
    gleaner_detach(m);
    return NULL;
}

struct watch {
    uint64_t first;
    size_t objects;
    bool moved_on;
};

static void watch_steps(void *data, void *object, size_t bytes)
{
    struct watch *watch = (struct watch *)data;

    (void)object, (void)bytes;
    if (watch->objects++ == 0)
        watch->first = steps;
    sched_yield();
    watch->moved_on |= steps != watch->first;
}

static void a_walk_stops_the_others(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    struct watch watch;
    pthread_t thread;
    uint64_t before;
    int i;

    is_over = false;
    CHECK(pthread_create(&thread, NULL, step_and_poll, &s) == 0);
    for (i = 0; i < 500; i++)
        new_node(&s, 1);
    for (i = 0; i < 20; i++) {
        before = steps;
        while (steps == before)
            gleaner_poll(s.m);
        memset(&watch, 0, sizeof watch);
        gleaner_walk(s.m, watch_steps, &watch);
        CHECK(watch.objects > 0 && !watch.moved_on);
    }
    is_over = true;
    gleaner_blocking_begin(s.m);
    CHECK(pthread_join(thread, NULL) == 0);
    gleaner_blocking_end(s.m);
    tear_down(&s);
}

/* ---- for a compiler ------------------------------------------------------ */

static void later_fields_of_a_record_are_zero(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    struct {
        struct gleaner_fast_paths known;
        unsigned char later[64];
    } record;
    size_t i;

    memset(&record, 0xff, sizeof record);
    gleaner_get_fast_paths(s.heap, &record.known, sizeof record);
    CHECK(record.known.bytes == sizeof record.known);
    for (i = 0; i < sizeof record.later; i++)
        CHECK(record.later[i] == 0);
    tear_down(&s);
}

static void count_visits(void *data, const gleaner_mutator *m,
                         struct gleaner_visitor *visitor)
{
    (void)m, (void)visitor;
    __atomic_add_fetch((int *)data, 1, __ATOMIC_RELAXED);
}

static void a_root_visitor_is_removed(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    int visits = 0, then;

    gleaner_detach(s.m);
    gleaner_set_root_visitor(s.heap, count_visits, &visits);
    s.m = gleaner_attach(s.heap);
    gleaner_collect(s.m, true);
    CHECK(visits > 0);
    gleaner_detach(s.m);
    gleaner_set_root_visitor(s.heap, NULL, NULL);
    s.m = gleaner_attach(s.heap);
    then = visits;
    gleaner_collect(s.m, true);
    CHECK(visits == then);
    tear_down(&s);
}

/* ---- handles, weak references, ephemerons, finalizers -------------------- */

static void *free_a_handle(void *handle)
{
    gleaner_handle_free((gleaner_handle *)handle);
    return NULL;
}

static void handles_hold_any_value_and_are_freed_anywhere(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    gleaner_handle *number = gleaner_handle_new(s.m, gleaner_integer(-7));
    gleaner_handle *null = gleaner_handle_new(s.m, 0);
    gleaner_handle *node = gleaner_handle_new(s.m, new_node(&s, 9));
    pthread_t thread;

    gleaner_collect(s.m, true);
    CHECK(gleaner_number(gleaner_handle_get(number)) == -7);
    CHECK(gleaner_handle_get(null) == 0);
    CHECK(*number_of(&s, gleaner_handle_get(node)) == 9);
    /* By a thread that is no mutator. */
    CHECK(pthread_create(&thread, NULL, free_a_handle, node) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    gleaner_handle_free(number);
    gleaner_handle_free(null);
    gleaner_collect(s.m, true);
    CHECK(gleaner_used(s.heap) == 0);
    tear_down(&s);
}

/* A heap with as many handles, weak references or ephemerons as it has room for
   still works, and has room again when they are freed. Finalizers fill it. */
static void handles_run_out(bool compressed)
{
    enum { MOST = 1 << 20 };
    struct stage s = set_up(compressed, 1 << 20);
    void **made = (void **)calloc(MOST, sizeof *made);
    gleaner_value object, value;
    size_t i, kind, n;
    GLEANER_FRAME(s.m, frame, 1);

    frame.values[0] = new_node(&s, 3);
    for (kind = 0; kind < 3; kind++) {
        for (n = 0; n < MOST; n++) {
            void *node = gleaner_object(frame.values[0]);

            made[n] = kind == 0   ? (void *)gleaner_handle_new(
                                        s.m, frame.values[0])
                      : kind == 1 ? (void *)gleaner_weak_new(s.m, node)
                                  : (void *)gleaner_ephemeron_new(s.m, node,
                                                                  node);
            if (made[n] == NULL)
                break;
        }
        CHECK(n > 1000 && n < MOST);
        gleaner_collect(s.m, false);
        CHECK(*number_of(&s, frame.values[0]) == 3);
        for (i = 0; i < n; i++)
            if (kind == 0)
                gleaner_handle_free((gleaner_handle *)made[i]);
            else if (kind == 1)
                gleaner_weak_free((gleaner_weak *)made[i]);
            else
                gleaner_ephemeron_free((gleaner_ephemeron *)made[i]);
    }
    for (n = 0; n < MOST; n++)
        if (gleaner_finalizer_new(s.m, gleaner_object(frame.values[0]), 0, 0, true)
            == NULL)
            break;
    CHECK(n > 1000 && n < MOST);
    CHECK(!gleaner_next_finalizer(s.m, &object, &value));
    free(made);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

/* Only a collection of everything finds that an old object is dead. */
static void old_objects_die_in_collections_of_everything(bool compressed)
{
    struct stage s = set_up(compressed, 4 << 20);
    gleaner_weak *old, *young;
    GLEANER_FRAME(s.m, frame, 2);

    frame.values[0] = new_node(&s, 1);
    gleaner_collect(s.m, true);
    gleaner_collect(s.m, true);
    frame.values[1] = new_node(&s, 2);
    old = gleaner_weak_new(s.m, gleaner_object(frame.values[0]));
    young = gleaner_weak_new(s.m, gleaner_object(frame.values[1]));
    frame.values[0] = frame.values[1] = 0;
    gleaner_collect(s.m, false);
    CHECK(gleaner_weak_get(young) == 0);
    CHECK(*number_of(&s, gleaner_weak_get(old)) == 1);
    gleaner_collect(s.m, true);
    CHECK(gleaner_weak_get(old) == 0);
    gleaner_weak_free(old);
    gleaner_weak_free(young);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

int main(void)
{
    static const struct stage_case cases[] = {
        { "a refusal needs no room for its message",
          a_refusal_needs_no_room_for_its_message },
        { "fields accept what their options accept",
          fields_accept_what_their_options_accept },
        { "the largest limit is named", the_largest_limit_is_named },
        { "stress collects at every n-th allocation",
          stress_collects_at_every_nth_allocation },
        { "types that cannot be are refused",
          types_that_cannot_be_are_refused },
        { "types run out", types_run_out },
        { "values are references, integers or null",
          values_are_references_integers_or_null },
        { "a region lets its thread attach again",
          a_region_lets_its_thread_attach_again },
        { "a thread may detach in a region", a_thread_may_detach_in_a_region },
        { "what attaches in a destructor is detached",
          what_attaches_in_a_destructor_is_detached },
        { "a region refuses what uses the heap",
          a_region_refuses_what_uses_the_heap },
        { "a frame that was left is noticed", a_frame_that_was_left_is_noticed },
        { "room is given up to a limit", room_is_given_up_to_a_limit },
        { "large objects stay where they are",
          large_objects_stay_where_they_are },
        { "immortal arrays need no reference",
          immortal_arrays_need_no_reference },
        { "hashes are small and stay", hashes_are_small_and_stay },
        { "collections are of the young or of everything",
          collections_are_of_the_young_or_of_everything },
        { "zeroing is counted", zeroing_is_counted },
        { "a walk stops the others", a_walk_stops_the_others },
        { "later fields of a record are zero",
          later_fields_of_a_record_are_zero },
        { "a root visitor is removed", a_root_visitor_is_removed },
        { "handles hold any value and are freed anywhere",
          handles_hold_any_value_and_are_freed_anywhere },
        { "handles run out", handles_run_out },
        { "old objects die in collections of everything",
          old_objects_die_in_collections_of_everything },
    };

    return run_cases(cases, sizeof cases / sizeof *cases);
}
