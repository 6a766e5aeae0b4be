/*
 * gleaner.h as an embedder uses it on one thread; threads.c has more of them,
 * and weak.c what dies.
 */
#include "stage.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void lists_survive(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    struct gleaner_totals totals;
    uint64_t i;

    GLEANER_FRAME(s.m, frame, 2);
    for (i = 0; i < 200000; i++) {
        if (i % 1000 == 0)
            frame.values[0] = 0; /* drops a list of a thousand */
        frame.values[1] = new_node(&s, i);
        gleaner_store(s.m, gleaner_object(frame.values[1]), 8, frame.values[0]);
        frame.values[0] = frame.values[1];
    }
    while (i-- > 199000) {
        CHECK(*number_of(&s, frame.values[0]) == i);
        frame.values[0] = gleaner_load(s.m, gleaner_object(frame.values[0]), 8);
    }
    CHECK(frame.values[0] == 0);
    GLEANER_LEAVE(s.m, frame);
    gleaner_get_totals(s.m, &totals);
    CHECK(totals.scavenges > 3 && totals.stopped_ns > 0);
    CHECK(totals.longest_stopping_ns > 0
          && totals.stopping_ns >= totals.longest_stopping_ns
          && totals.stopped_ns >= totals.stopping_ns);
    tear_down(&s);
}

static void arrays_and_integers(bool compressed)
{
    struct stage s = set_up(compressed, 8 << 20);
    const uint32_t length = 50000;
    uint32_t i;
    void *text;

    GLEANER_FRAME(s.m, frame, 1);
    frame.values[0] = gleaner_reference(
        gleaner_allocate_array(s.m, s.list, length, s.m->slot_bytes));
    CHECK(gleaner_length(gleaner_object(frame.values[0])) == length);
    for (i = 0; i < length; i++) {
        gleaner_value element = i % 2 == 0 ? gleaner_integer(-(int64_t)i)
                                           : new_node(&s, i);

        CHECK(gleaner_store_element(s.m, gleaner_object(frame.values[0]), i,
                                    element));
    }
    gleaner_collect(s.m, false);
    gleaner_collect(s.m, true);
    for (i = 0; i < length; i++) {
        gleaner_value element
            = gleaner_load_element(s.m, gleaner_object(frame.values[0]), i);

        if (i % 2 == 0)
            CHECK(gleaner_is_integer(element)
                  && gleaner_number(element) == -(int64_t)i);
        else
            CHECK(*number_of(&s, element) == i);
    }
    text = gleaner_allocate_array(s.m, s.bytes, 3, 1);
    CHECK(text != NULL && gleaner_load_u8(s.m, text, 0) == 0);
    CHECK(gleaner_load_u8(s.m, text, 2) == 0);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

static void a_full_heap_returns_null(bool compressed)
{
    struct stage s = set_up(compressed, 1 << 20);
    void *object;
    size_t count = 0;

    GLEANER_FRAME(s.m, frame, 1);
    while ((object = gleaner_allocate(s.m, s.node, s.node_bytes)) != NULL) {
        gleaner_store(s.m, object, 8, frame.values[0]);
        frame.values[0] = gleaner_reference(object);
        count++;
    }
    CHECK(count * s.node_bytes > (1 << 20) / 2);
    CHECK(gleaner_allocate_array(s.m, s.bytes, UINT32_MAX, 1) == NULL);
    frame.values[0] = 0;
    CHECK(gleaner_allocate(s.m, s.node, s.node_bytes) != NULL);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

static void heaps_in_use_are_not_freed(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    gleaner_handle *handle;
    gleaner_weak *weak;
    gleaner_ephemeron *ephemeron;
    void *object;

    CHECK(!gleaner_heap_free(s.heap)); /* a mutator alone */
    object = gleaner_object(new_node(&s, 1));
    CHECK(object != NULL); /* and it goes on */
    handle = gleaner_handle_new(s.m, gleaner_reference(object));
    weak = gleaner_weak_new(s.m, object);
    object = gleaner_object(gleaner_handle_get(handle));
    ephemeron = gleaner_ephemeron_new(s.m, object, object);
    gleaner_detach(s.m);
    CHECK(!gleaner_heap_free(s.heap));
    gleaner_weak_free(weak);
    gleaner_ephemeron_free(ephemeron);
    CHECK(!gleaner_heap_free(s.heap)); /* a handle alone */
    CHECK(*number_of(&s, gleaner_handle_get(handle)) == 1);
    s.m = gleaner_attach(s.heap);
    weak = gleaner_weak_new(s.m, gleaner_object(gleaner_handle_get(handle)));
    gleaner_handle_free(handle);
    gleaner_detach(s.m);
    CHECK(!gleaner_heap_free(s.heap)); /* a weak reference alone */
    s.m = gleaner_attach(s.heap);
    object = gleaner_object(new_node(&s, 1));
    ephemeron = gleaner_ephemeron_new(s.m, object, object);
    gleaner_weak_free(weak);
    gleaner_detach(s.m);
    CHECK(!gleaner_heap_free(s.heap)); /* an ephemeron alone */
    gleaner_ephemeron_free(ephemeron);
    CHECK(gleaner_heap_free(s.heap));
}

static void bad_input_is_named(bool compressed)
{
    struct gleaner_options options;
    uint32_t wrong[1] = { 4 };
    char message[300] = "";
    gleaner_heap *heap;

    memset(&options, 0, sizeof options);
    options.compressed = compressed;
    options.limit = 1000;
    CHECK(gleaner_heap_new(&options, message, sizeof message) == NULL);
    CHECK(strstr(message, "option heap-limit: 1000 bytes") != NULL);
    heap = new_heap(compressed, 1 << 20);
    CHECK(gleaner_structure(heap, 24, wrong, 1, message, sizeof message) == 0);
    CHECK(strstr(message, "offset 4") != NULL);
    CHECK(gleaner_structure(heap, 24, wrong, 1, message, 5) == 0);
    CHECK(strlen(message) == 4);
    CHECK(gleaner_primitives(heap, 3) == 0 && gleaner_primitives(heap, 16) == 0);
    CHECK(gleaner_heap_free(heap));
    CHECK(gleaner_interface() == GLEANER_INTERFACE);
}

/* Code for slots of 8 bytes is wrong on slots of 4, also if a user asks. */
static void the_layout_is_the_programs(bool compressed)
{
    struct gleaner_options options;
    const char *given = getenv("GLEANER_OPTIONS");
    char *before = given == NULL ? NULL : strdup(given);
    char message[300] = "";
    gleaner_heap *heap;
    gleaner_mutator *m;
    int layout;

    setenv("GLEANER_OPTIONS", compressed ? "refs=wide" : "refs=compressed", 1);
    memset(&options, 0, sizeof options);
    options.limit = 1 << 20;
    options.compressed = compressed;
    CHECK(gleaner_heap_new(&options, message, sizeof message) == NULL);
    CHECK(strstr(message, compressed ? "refs=wide, which changes how"
                                     : "refs=compressed, which changes how")
          != NULL);
    for (layout = GLEANER_LAYOUT_LEFT_OUT; layout <= GLEANER_LAYOUT_FOLLOWED;
         layout++) {
        options.outside_layout = (enum gleaner_outside_layout)layout;
        heap = gleaner_heap_new(&options, message, sizeof message);
        CHECK(heap != NULL);
        m = gleaner_attach(heap);
        CHECK((m->slot_bytes == 4)
              == (compressed == (layout == GLEANER_LAYOUT_LEFT_OUT)));
        gleaner_detach(m);
        CHECK(gleaner_heap_free(heap));
    }
    options.outside_layout = (enum gleaner_outside_layout)3;
    CHECK(gleaner_heap_new(&options, message, sizeof message) == NULL);
    CHECK(strstr(message, "outside_layout is 3") != NULL);
    /* Without options of its own a program has the default layout. */
    setenv("GLEANER_OPTIONS", "refs=wide", 1);
    heap = gleaner_heap_new(NULL, message, sizeof message);
    CHECK(heap != NULL && gleaner_heap_free(heap));
    setenv("GLEANER_OPTIONS", "arrays=zray", 1);
    CHECK(gleaner_heap_new(NULL, message, sizeof message) == NULL);
    CHECK(strstr(message, "leave arrays out") != NULL);
    if (before == NULL)
        unsetenv("GLEANER_OPTIONS");
    else
        setenv("GLEANER_OPTIONS", before, 1);
    free(before);
}

static void options_by_name(bool compressed)
{
    struct gleaner_options options;
    char message[300] = "";
    gleaner_heap *heap;
    gleaner_mutator *m;

    memset(&options, 0, sizeof options);
    options.limit = 1000;
    options.outside_layout = GLEANER_LAYOUT_FOLLOWED;
    options.compressed = !compressed;
    options.list = compressed ? "heap-limit=2m,refs=compressed,workers=2"
                              : "heap-limit=2m,refs=wide,workers=2";
    heap = gleaner_heap_new(&options, message, sizeof message);
    CHECK(heap != NULL);
    m = gleaner_attach(heap);
    CHECK(m->slot_bytes == (compressed ? 4u : 8u));
    gleaner_detach(m);
    CHECK(gleaner_heap_free(heap));
    options.list = "heap-limt=2m";
    CHECK(gleaner_heap_new(&options, message, sizeof message) == NULL);
    CHECK(strstr(message, "the nearest is 'heap-limit'") != NULL);
    options.list = "sweep=eager";
    CHECK(gleaner_heap_new(&options, message, sizeof message) == NULL);
    CHECK(strstr(message, "does not serve the precise heap") != NULL);
}

struct seen {
    size_t objects, bytes;
    const void *wanted;
    bool found;
};

static void see(void *data, void *object, size_t bytes)
{
    struct seen *seen = (struct seen *)data;

    seen->objects++;
    seen->bytes += bytes;
    seen->found = seen->found || object == seen->wanted;
}

static void pinned_objects_and_walks(bool compressed)
{
    struct stage s = set_up(compressed, 4 << 20);
    struct seen seen = { 0, 0, NULL, false };
    void *array;
    char *buffer;
    int i;

    GLEANER_FRAME(s.m, frame, 2);
    array = gleaner_allocate_array_pinned(s.m, s.bytes, 100, 1);
    frame.values[0] = gleaner_reference(array);
    buffer = (char *)gleaner_pinned_elements(s.m, array);
    for (i = 0; i < 100; i++)
        CHECK(buffer[i] == 0);
    strcpy(buffer, "never moves");
    frame.values[1] = gleaner_reference(
        gleaner_allocate_pinned(s.m, s.node, s.node_bytes));
    for (i = 0; i < 100000; i++)
        CHECK(gleaner_allocate(s.m, s.node, s.node_bytes) != NULL);
    gleaner_store(s.m, gleaner_object(frame.values[1]), 8,
                  gleaner_reference(
                      gleaner_allocate(s.m, s.node, s.node_bytes)));
    gleaner_collect(s.m, false);
    gleaner_collect(s.m, true);
    CHECK(gleaner_object(frame.values[0]) == array);
    CHECK(strcmp(buffer, "never moves") == 0);
    CHECK(gleaner_load_u8(s.m, array, 1) == 'e');
    CHECK(gleaner_pinned_elements(s.m, gleaner_object(frame.values[1])) == NULL);
    seen.wanted = array;
    gleaner_walk(s.m, see, &seen);
    CHECK(seen.found && seen.objects == 3);
    CHECK(seen.bytes == 120 + 2 * s.node_bytes);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

static void sizes_that_no_heap_has_are_refused(bool compressed)
{
    static const size_t sizes[] = { SIZE_MAX,          SIZE_MAX - 3,
                                    SIZE_MAX - 7,      SIZE_MAX - 8,
                                    SIZE_MAX - 4095,   SIZE_MAX / 2 + 1,
                                    (size_t)1 << 32,   (size_t)1 << 60 };
    struct stage s = set_up(compressed, 4 << 20);
    size_t i;

    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK(gleaner_allocate(s.m, s.node, sizes[i]) == NULL);
        CHECK(gleaner_allocate_initialized(s.m, s.node, sizes[i]) == NULL);
        CHECK(gleaner_allocate_pinned(s.m, s.node, sizes[i]) == NULL);
        CHECK(gleaner_allocate_array(s.m, s.bytes, UINT32_MAX, sizes[i]) == NULL);
        /* Where 3 bytes are cut, their type says how many bytes they take. */
        CHECK(s.m->first_n < 3
              || gleaner_allocate_array_initialized(s.m, s.bytes, 3, sizes[i])
                     == NULL);
        CHECK(gleaner_allocate_array_pinned(s.m, s.bytes, UINT32_MAX, sizes[i])
              == NULL);
        CHECK(gleaner_allocate_tailed(s.m, s.bytes, UINT32_MAX, 16, sizes[i])
              == NULL);
        CHECK(s.m->first_n < 3
              || gleaner_allocate_tailed(s.m, s.bytes, 1, sizes[i], 1) == NULL);
    }
    CHECK(gleaner_allocate_array(s.m, s.bytes, UINT32_MAX, 1) == NULL);
    CHECK(gleaner_allocate(s.m, s.node, s.node_bytes) != NULL);
    tear_down(&s);
}

/* Two slots, the second of which counts only if the tag says so. */
struct tagged {
    uint64_t header;
    uint64_t tag;
    uint64_t first, second;
};

static void trace_tagged(void *data, void *object, struct gleaner_visitor *to)
{
    struct tagged *tagged = (struct tagged *)object;

    ++*(volatile int *)data;
    to->visit(to, &tagged->first);
    if (tagged->tag == 1)
        to->visit(to, &tagged->second);
}

/* So many bytes as its first field says, without slots. */
static size_t size_of_blob(void *data, const void *object)
{
    (void)data;
    return ((const size_t *)object)[1];
}
static void trace_nothing(void *data, void *object, struct gleaner_visitor *to)
{
    (void)data, (void)object, (void)to;
}

static void tails_and_trace_functions(bool compressed)
{
    struct stage s = set_up(compressed, 4 << 20);
    uint32_t next[1] = { 16 }, slots[1] = { 8 }, i, round;
    struct gleaner_tail tail;
    struct gleaner_traced traced;
    gleaner_type frame_type, tagged_type, blob_type;
    volatile int traces = 0;
    char message[300] = "";

    memset(&tail, 0, sizeof tail);
    tail.head = 24, tail.offsets = next, tail.count = 1;
    tail.element = 16, tail.element_offsets = slots, tail.element_count = 1;
    frame_type = gleaner_tailed(s.heap, &tail, message, sizeof message);
    memset(&traced, 0, sizeof traced);
    traced.bytes = sizeof(struct tagged), traced.trace = trace_tagged;
    traced.data = (void *)&traces;
    tagged_type = gleaner_traced_type(s.heap, &traced, message, sizeof message);
    memset(&traced, 0, sizeof traced);
    traced.size = size_of_blob, traced.trace = trace_nothing;
    blob_type = gleaner_traced_type(s.heap, &traced, message, sizeof message);
    CHECK(frame_type != 0 && tagged_type != 0 && blob_type != 0);
    {
        GLEANER_FRAME(s.m, frame, 3);
        for (round = 0; round < 2000; round++) {
            struct tagged *tagged;
            size_t *blob;
            char *tailed;

            frame.values[1] = gleaner_reference(
                gleaner_allocate(s.m, tagged_type, sizeof(struct tagged)));
            frame.values[2] = new_node(&s, round);
            tagged = (struct tagged *)gleaner_object(frame.values[1]);
            tagged->tag = round % 2;
            if (tagged->tag == 1)
                gleaner_store(s.m, tagged, 24, frame.values[2]);
            else
                tagged->second = 0x123456789abcdef0;
            blob = (size_t *)gleaner_allocate(s.m, blob_type, 16 + round % 100);
            blob[1] = 16 + round % 100;
            tailed = (char *)gleaner_allocate_tailed(s.m, frame_type, 5, 24, 16);
            for (i = 0; i < 5; i++)
                *(uint64_t *)(tailed + 24 + 16 * i) = 0x123456789abcdef0;
            gleaner_store(s.m, tailed, 24 + 16 * 4 + 8, frame.values[1]);
            gleaner_store(s.m, tailed, 16, frame.values[0]);
            frame.values[0] = gleaner_reference(tailed);
            if (round % 500 == 499)
                gleaner_collect(s.m, round % 1000 == 999);
        }
        while (round-- > 0) {
            char *tailed = (char *)gleaner_object(frame.values[0]);
            struct tagged *tagged = (struct tagged *)gleaner_object(
                gleaner_load(s.m, tailed, 24 + 16 * 4 + 8));

            CHECK(gleaner_length(tailed) == 5 && tagged->tag == round % 2);
            if (tagged->tag == 1)
                CHECK(*number_of(&s, gleaner_load(s.m, tagged, 24)) == round);
            else
                CHECK(tagged->second == 0x123456789abcdef0);
            frame.values[0] = gleaner_load(s.m, tailed, 16);
        }
        CHECK(frame.values[0] == 0 && traces > 2000);
        GLEANER_LEAVE(s.m, frame);
    }
    tail.element = 0;
    CHECK(gleaner_tailed(s.heap, &tail, message, sizeof message) == 0);
    CHECK(strstr(message, "elements of 0 bytes") != NULL);
    traced.trace = NULL;
    CHECK(gleaner_traced_type(s.heap, &traced, message, sizeof message) == 0);
    CHECK(strstr(message, "without a trace function") != NULL);
    tear_down(&s);
}

struct heard {
    uint64_t collections, full, stopped_ns, stopping_ns, copies, last;
    char reason[40];
};

static void listen(void *data, const struct gleaner_collection *collection)
{
    struct heard *heard = (struct heard *)data;
    size_t i;

    heard->collections++;
    heard->full += collection->everything;
    heard->stopped_ns += collection->stopped_ns;
    heard->stopping_ns += collection->stopping_ns;
    heard->last = collection->number;
    snprintf(heard->reason, sizeof heard->reason, "%s", collection->reason);
    for (i = 0; i < collection->event_count; i++) {
        const struct gleaner_event *event = &collection->events[i];

        CHECK(event->collection == collection->number);
        heard->copies += strcmp(event->phase, "copy") == 0;
    }
    CHECK(strcmp(collection->events[i - 1].phase, "end") == 0);
}

static void listeners_are_told(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    struct gleaner_totals totals;
    struct heard heard;
    int i;

    memset(&heard, 0, sizeof heard);
    gleaner_add_listener(s.heap, listen, &heard);
    for (i = 0; i < 100000; i++)
        new_node(&s, 1);
    gleaner_collect(s.m, true);
    gleaner_get_totals(s.m, &totals);
    CHECK(heard.full == totals.full_collections && heard.full > 0);
    CHECK(heard.copies == totals.scavenges && heard.copies > 0);
    CHECK(heard.stopped_ns == totals.stopped_ns);
    CHECK(heard.stopping_ns == totals.stopping_ns);
    CHECK(heard.last == heard.collections);
    CHECK(strcmp(heard.reason, "asked for") == 0);
    tear_down(&s);
}

/* A frame of compiled code; the program counter says how many of its values
   are references. */
struct compiled {
    struct compiled *caller;
    uintptr_t return_to;
    gleaner_value values[2];
};

static void visit_compiled(void *data, const gleaner_mutator *m,
                           struct gleaner_visitor *visitor)
{
    struct compiled *frame = (struct compiled *)m->anchor.frame_pointer;
    uintptr_t here = m->anchor.program_counter, i;

    CHECK(m->embedder == data);
    for (; frame != NULL; here = frame->return_to, frame = frame->caller)
        for (i = 0; i < here; i++)
            visitor->visit(visitor, &frame->values[i]);
}

/* gleaner_allocate and gleaner_store from the numbers of the record. */
static void *emitted_allocate(const struct gleaner_fast_paths *fast,
                              gleaner_mutator *m, gleaner_type type,
                              size_t bytes)
{
    uintptr_t *cursor = (uintptr_t *)((char *)m + fast->cursor_offset);
    uintptr_t limit = *(uintptr_t *)((char *)m + fast->limit_offset);
    uintptr_t object = *cursor;

    if (bytes > fast->large_bytes || limit - object < bytes)
        return gleaner_allocate_slowly(m, type, bytes);
    *cursor = object + bytes;
    if (!fast->fresh_is_zero)
        memset((void *)(object + 8), 0, bytes - 8);
    *(uint64_t *)object
        = fast->header_bits | (uint64_t)type << fast->type_shift;
    return (void *)object;
}

static void emitted_store(const struct gleaner_fast_paths *fast, void *slot,
                          gleaner_value value)
{
    if ((value & 1) == 0 && value != 0)
        value = (value - fast->slot_base) >> fast->slot_shift;
    if (fast->slot_bytes == 8)
        *(uint64_t *)slot = value;
    else
        *(uint32_t *)slot = (uint32_t)value;
    *(uint8_t *)(uintptr_t)(fast->card_base
                            + ((uintptr_t)slot >> fast->card_shift))
        = (uint8_t)fast->card_dirty;
}

static void a_compiler_emits_its_own_code(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    struct gleaner_fast_paths fast;
    struct compiled outer, inner;
    const char *given = getenv("GLEANER_OPTIONS");
    bool guarded = given != NULL && strstr(given, "array-guard=on") != NULL;
    char shorter[8];
    uint64_t i;

    gleaner_get_fast_paths(s.heap, &fast, sizeof fast);
    CHECK(fast.version == GLEANER_INTERFACE && fast.bytes == sizeof fast);
    CHECK(fast.barrier == GLEANER_BARRIER_CARDS);
    CHECK(fast.arrays
          == (s.m->first_n == UINTPTR_MAX ? GLEANER_ARRAYS_CONTIGUOUS
              : guarded                   ? GLEANER_ARRAYS_GUARDED
                                          : GLEANER_ARRAYS_ZRAY));
    CHECK(fast.first_n == s.m->first_n && fast.whole_bytes == s.m->whole_bytes);
    CHECK(fast.arraylet_shift == s.m->arraylet_shift);
    CHECK(guarded || fast.pointer_shift == s.m->pointer_shift);
    CHECK(fast.pointer_base == s.m->pointer_base);
    CHECK(fast.zero_pointer == s.m->zero_pointer);
    CHECK(fast.first_n_offset == offsetof(gleaner_mutator, first_n));
    CHECK(fast.whole_bytes_offset == offsetof(gleaner_mutator, whole_bytes));
    CHECK(fast.arraylet_shift_offset
          == offsetof(gleaner_mutator, arraylet_shift));
    CHECK(fast.pointer_shift_offset == offsetof(gleaner_mutator, pointer_shift));
    CHECK(fast.pointer_base_offset == offsetof(gleaner_mutator, pointer_base));
    CHECK(fast.anchor_offset == offsetof(gleaner_mutator, anchor));
    CHECK(fast.frames_offset == offsetof(gleaner_mutator, frames));
    CHECK(fast.embedder_offset == offsetof(gleaner_mutator, embedder));
    CHECK(fast.poll_offset == offsetof(gleaner_mutator, poll));
    gleaner_get_fast_paths(s.heap, (struct gleaner_fast_paths *)shorter, 8);
    CHECK(memcmp(shorter, &fast, 8) == 0);
    gleaner_detach(s.m); /* the visitor is set while nobody is a mutator */
    gleaner_set_root_visitor(s.heap, visit_compiled, &fast);
    s.m = gleaner_attach(s.heap);
    s.m->embedder = &fast;
    memset(&outer, 0, sizeof outer);
    memset(&inner, 0, sizeof inner);
    inner.caller = &outer, inner.return_to = 1;
    outer.values[1] = 0x123456789abcdef0; /* no reference */
    s.m->anchor.frame_pointer = (uintptr_t)&inner;
    s.m->anchor.program_counter = 2;
    for (i = 0; i < 100000; i++) {
        void *node = emitted_allocate(&fast, s.m, s.node, s.node_bytes);

        if (i % 1000 == 0)
            outer.values[0] = 0;
        inner.values[i % 2] = gleaner_reference(node);
        *number_of(&s, inner.values[i % 2]) = i;
        emitted_store(&fast, (char *)node + 8, outer.values[0]);
        outer.values[0] = inner.values[i % 2];
        gleaner_poll(s.m);
    }
    gleaner_collect(s.m, true);
    CHECK(*number_of(&s, inner.values[0]) == 99998);
    CHECK(*number_of(&s, inner.values[1]) == 99999);
    CHECK(outer.values[0] == inner.values[1]);
    CHECK(outer.values[1] == 0x123456789abcdef0);
    while (i-- > 99000) {
        CHECK(*number_of(&s, outer.values[0]) == i);
        outer.values[0] = gleaner_load(s.m, gleaner_object(outer.values[0]), 8);
    }
    CHECK(outer.values[0] == 0);
    memset(&s.m->anchor, 0, sizeof s.m->anchor);
    gleaner_collect(s.m, true);
    CHECK(gleaner_used(s.heap) == 0);
    tear_down(&s);
}

/* In a child, before this process has a heap. */
static void a_heap_without_a_key_says_so(bool compressed)
{
    struct gleaner_options options;
    char message[200] = "";
    pthread_key_t key;
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        while (pthread_key_create(&key, NULL) == 0)
            ;
        memset(&options, 0, sizeof options);
        options.limit = 1 << 20;
        options.compressed = compressed;
        if (gleaner_heap_new(&options, message, sizeof message) != NULL)
            _exit(1);
        _exit(strstr(message, "key for thread-specific data") == NULL);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

int main(void)
{
    static const struct stage_case cases[] = {
        { "a heap without a key says so", a_heap_without_a_key_says_so },
        { "lists survive", lists_survive },
        { "arrays and integers", arrays_and_integers },
        { "a full heap returns null", a_full_heap_returns_null },
        { "heaps in use are not freed", heaps_in_use_are_not_freed },
        { "bad input is named", bad_input_is_named },
        { "options by name", options_by_name },
        { "the layout is the program's", the_layout_is_the_programs },
        { "sizes that no heap has are refused",
          sizes_that_no_heap_has_are_refused },
        { "pinned objects and walks", pinned_objects_and_walks },
        { "tails and trace functions", tails_and_trace_functions },
        { "listeners are told", listeners_are_told },
        { "a compiler emits its own code", a_compiler_emits_its_own_code },
    };

    return run_cases(cases, sizeof cases / sizeof *cases);
}
