/*
 * Roots of a heap, derived pointers, handles that are set, compare-and-swap of
 * slots and data of types, through gleaner.h.
 */
#include "child.h"
#include "stage.h"

#include <sys/mman.h>
#include <unistd.h>

static void collect_in_all_ways(struct stage *s)
{
    int i;

    for (i = 0; i < 4; i++)
        gleaner_collect(s->m, i == 3);
}

static void globals_are_roots(bool compressed)
{
    enum { COUNT = 5000 };
    static gleaner_value values[COUNT];
    static uint64_t words[COUNT]; /* room for slots of either width */
    struct stage s = set_up(compressed, 8 << 20);
    char message[200] = "";
    uint32_t i;

    memset(values, 0, sizeof values);
    memset(words, 0, sizeof words);
    CHECK(gleaner_add_root_range(s.m, values, COUNT, GLEANER_ROOT_VALUES,
                                 message, sizeof message));
    CHECK(gleaner_add_root_range(s.m, words, COUNT, GLEANER_ROOT_SLOTS, NULL, 0));
    CHECK(message[0] == 0);
    for (i = 0; i < COUNT; i++) {
        values[i] = new_node(&s, i);
        gleaner_initialize(s.m, words, i * s.m->slot_bytes,
                           new_node(&s, COUNT + i));
    }
    collect_in_all_ways(&s);
    for (i = 0; i < COUNT; i++) {
        CHECK(*number_of(&s, values[i]) == i);
        CHECK(*number_of(&s, gleaner_load(s.m, words, i * s.m->slot_bytes))
              == COUNT + i);
    }
    CHECK(gleaner_remove_root_range(s.m, words));
    CHECK(!gleaner_remove_root_range(s.m, words));
    CHECK(gleaner_remove_root_range(s.m, values));
    gleaner_collect(s.m, true);
    CHECK(gleaner_used(s.heap) == 0);
    tear_down(&s);
}

static void wrong_ranges_are_named(bool compressed)
{
    static gleaner_value values[10];
    struct stage s = set_up(compressed, 2 << 20);
    char message[300];
    size_t i;
    void *object = gleaner_object(new_node(&s, 1));
    const struct {
        void *start;
        size_t slots;
        int width;
        const char *why;
    } wrong[] = {
        { NULL, 1, GLEANER_ROOT_VALUES, "not null and at least one slot" },
        { values + 9, 0, GLEANER_ROOT_VALUES, "at least one slot" },
        { values + 9, SIZE_MAX / 4, GLEANER_ROOT_VALUES, "ends at an address" },
        { (char *)(values + 8) + 4, 1, GLEANER_ROOT_VALUES,
          "a multiple of the 8 bytes" },
        { (char *)(values + 8) + 2, 1, GLEANER_ROOT_SLOTS,
          compressed ? "a multiple of the 4 bytes"
                     : "a multiple of the 8 bytes" },
        { values + 3, 1, GLEANER_ROOT_VALUES, "overlaps the one of 4 slots" },
        { values, 10, GLEANER_ROOT_VALUES, "overlaps the one of 4 slots" },
        { (char *)object + 8, 1, GLEANER_ROOT_SLOTS, "lies in the heap" },
        { values + 9, 1, 2, "the width of a root range is 2" },
    };

    CHECK(gleaner_add_root_range(s.m, values + 2, 4, GLEANER_ROOT_VALUES, NULL,
                                 0));
    for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(!gleaner_add_root_range(
            s.m, wrong[i].start, wrong[i].slots,
            (enum gleaner_root_width)wrong[i].width, message, sizeof message));
        if (strstr(message, wrong[i].why) == NULL) {
            printf("not '%s': %s\n", wrong[i].why, message);
            CHECK(!"the reason");
        }
    }
    CHECK(!gleaner_remove_root_range(s.m, values + 3));
    CHECK(gleaner_add_root_range(s.m, values + 6, 4, GLEANER_ROOT_VALUES, NULL,
                                 0));
    /* Those that remain end with the heap. */
    tear_down(&s);
}

/* What a stack map says of a frame: a base, two words that were derived from it,
   a root of 8 bytes and one as wide as slots are. */
struct compiled_frame {
    gleaner_value base, root;
    uintptr_t derived[2];
    uint64_t slot;
};

static void visit_frame(struct compiled_frame *frame,
                        struct gleaner_visitor *visitor)
{
    void *const places[] = { &frame->derived[0], &frame->derived[1] };

    visitor->visit(visitor, &frame->root);
    visitor->visit_slot(visitor, &frame->slot);
    visitor->visit_derived(visitor, &frame->base, places, 2);
}

static void visit_frame_of(void *data, const gleaner_mutator *mutator,
                           struct gleaner_visitor *visitor)
{
    (void)data;
    if (mutator->anchor.frame_pointer != 0)
        visit_frame((struct compiled_frame *)mutator->anchor.frame_pointer,
                    visitor);
}

/* The frame is one that collections visit already. */
static void fill_frame(struct stage *s, struct compiled_frame *frame,
                       uint64_t number)
{
    frame->root = new_node(s, number);
    gleaner_initialize(s->m, &frame->slot, 0, new_node(s, number + 1));
    frame->base = new_node(s, number + 2);
    frame->derived[0] = (uintptr_t)frame->base + 9;
    frame->derived[1] = (uintptr_t)frame->base + s->node_bytes; /* the end */
}

static void check_frame(struct stage *s, const struct compiled_frame *frame,
                        uint64_t number)
{
    CHECK(*number_of(s, frame->root) == number);
    CHECK(*number_of(s, gleaner_load(s->m, &frame->slot, 0)) == number + 1);
    CHECK(*number_of(s, frame->base) == number + 2);
    CHECK(frame->derived[0] == (uintptr_t)frame->base + 9);
    CHECK(frame->derived[1] == (uintptr_t)frame->base + s->node_bytes);
}

static void compiled_frames_have_derived_pointers(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    struct compiled_frame frame;
    gleaner_value before;
    int i;

    memset(&frame, 0, sizeof frame);
    gleaner_detach(s.m); /* the visitor is set while nobody is a mutator */
    gleaner_set_root_visitor(s.heap, visit_frame_of, NULL);
    s.m = gleaner_attach(s.heap);
    s.m->anchor.frame_pointer = (uintptr_t)&frame;
    fill_frame(&s, &frame, 100);
    before = frame.base;
    for (i = 0; i < 4; i++) {
        gleaner_collect(s.m, i == 3);
        check_frame(&s, &frame, 100);
    }
    CHECK(frame.base != before);
    /* An integer has nothing that could move. */
    frame.base = gleaner_integer(7);
    frame.derived[0] = 12345;
    gleaner_collect(s.m, true);
    CHECK(frame.base == gleaner_integer(7) && frame.derived[0] == 12345);
    memset(&s.m->anchor, 0, sizeof s.m->anchor);
    tear_down(&s);
}

enum { PARTS = 64, FRAMES = 16 };
typedef struct compiled_frame frames_of_part[FRAMES];

static void visit_part(void *data, size_t part, struct gleaner_visitor *visitor)
{
    size_t i;

    for (i = 0; i < FRAMES; i++)
        visit_frame(&((frames_of_part *)data)[part][i], visitor);
}

static void a_heap_has_a_root_visitor(bool compressed)
{
    static frames_of_part parts[PARTS];
    struct stage s = set_up(compressed, 4 << 20);
    size_t i, j;

    memset(parts, 0, sizeof parts);
    gleaner_set_heap_root_visitor(s.m, PARTS, visit_part, parts);
    for (i = 0; i < PARTS; i++)
        for (j = 0; j < FRAMES; j++)
            fill_frame(&s, &parts[i][j], 10 * (i * FRAMES + j));
    collect_in_all_ways(&s);
    for (i = 0; i < PARTS; i++)
        for (j = 0; j < FRAMES; j++)
            check_frame(&s, &parts[i][j], 10 * (i * FRAMES + j));
    gleaner_set_heap_root_visitor(s.m, 0, NULL, NULL);
    gleaner_collect(s.m, true);
    CHECK(gleaner_used(s.heap) == 0);
    tear_down(&s);
}

static void handles_are_set(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    gleaner_handle *handle = gleaner_handle_new(s.m, new_node(&s, 1));

    gleaner_handle_set(s.m, handle, new_node(&s, 2));
    collect_in_all_ways(&s);
    CHECK(*number_of(&s, gleaner_handle_get(handle)) == 2);
    gleaner_handle_set(s.m, handle, gleaner_integer(-3));
    gleaner_collect(s.m, true);
    CHECK(gleaner_handle_get(handle) == gleaner_integer(-3));
    CHECK(gleaner_used(s.heap) == 0);
    gleaner_handle_free(handle);
    tear_down(&s);
}

static void slots_are_swapped(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    gleaner_value expected = 0;

    GLEANER_FRAME(s.m, frame, 2);
    frame.values[0] = new_node(&s, 1);
    collect_in_all_ways(&s); /* old from now on */
    frame.values[1] = new_node(&s, 2);
    CHECK(gleaner_swap(s.m, gleaner_object(frame.values[0]), 8, &expected,
                       frame.values[1]));
    CHECK(expected == 0);
    frame.values[1] = 0;
    gleaner_collect(s.m, false); /* which looks at dirty cards alone */
    frame.values[1] = gleaner_load(s.m, gleaner_object(frame.values[0]), 8);
    CHECK(*number_of(&s, frame.values[1]) == 2);
    expected = 0;
    CHECK(!gleaner_swap(s.m, gleaner_object(frame.values[0]), 8, &expected,
                        gleaner_integer(5)));
    CHECK(expected == frame.values[1]);
    CHECK(gleaner_swap(s.m, gleaner_object(frame.values[0]), 8, &expected,
                       gleaner_integer(-5)));
    CHECK(!gleaner_swap(s.m, gleaner_object(frame.values[0]), 8, &expected, 0));
    CHECK(gleaner_number(expected) == -5);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

static void types_have_data(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    struct gleaner_fast_paths fast;
    static const char *const name = "node";
    void *object = gleaner_object(new_node(&s, 1));

    CHECK(gleaner_type_data(s.heap, s.node) == NULL);
    gleaner_set_type_data(s.heap, s.node, (void *)name);
    CHECK(gleaner_type_data(s.heap, gleaner_type_of(object)) == name);
    CHECK(gleaner_type_data(s.heap, s.list) == NULL);
    gleaner_get_fast_paths(s.heap, &fast, sizeof fast);
    CHECK(((const char **)(uintptr_t)fast.type_data)[s.node] == name);
    tear_down(&s);
}

/* Arrays of many lengths, young and old, lose elements; what is between them is
   walked by the verifier, and used again. */
static void arrays_shrink(bool compressed)
{
    enum { COUNT = 60 };
    struct stage s = set_up(compressed, 8 << 20);
    gleaner_type whole = gleaner_references_whole(s.heap);
    uint32_t i, j, lengths[COUNT];
    int round;

    GLEANER_FRAME(s.m, frame, COUNT);
    for (i = 0; i < COUNT; i++) {
        lengths[i] = i % 20 == 19 ? 4500 : 1 + i * 7;
        frame.values[i] = gleaner_reference(gleaner_allocate_array(
            s.m, whole, lengths[i], s.m->slot_bytes));
        for (j = 0; j < lengths[i]; j++) {
            gleaner_value node = new_node(&s, i * 100000 + j);

            gleaner_store_element(s.m, gleaner_object(frame.values[i]), j, node);
        }
    }
    for (round = 0; round < 6; round++) {
        size_t used = gleaner_used(s.heap);

        for (i = 0; i < COUNT; i++) {
            lengths[i] -= lengths[i] / 3;
            if (round == 4)
                lengths[i] = i % 2;
            gleaner_shrink(s.m, gleaner_object(frame.values[i]), lengths[i]);
        }
        CHECK(gleaner_used(s.heap) == used); /* it does not collect */
        gleaner_collect(s.m, round % 2 == 1);
        for (i = 0; i < COUNT; i++) {
            void *array = gleaner_object(frame.values[i]);

            CHECK(gleaner_length(array) == lengths[i]);
            for (j = 0; j < lengths[i]; j++)
                CHECK(*number_of(&s, gleaner_load_element(s.m, array, j))
                      == i * 100000 + j);
        }
    }
    for (i = 0; i < COUNT; i++) {
        /* What the mutator allocated last: where there are guards, the next
           allocation looks at the one behind it. */
        frame.values[0] = gleaner_reference(gleaner_allocate_array(
            s.m, whole, 1 + i, s.m->slot_bytes));
        gleaner_shrink(s.m, gleaner_object(frame.values[0]), i / 2);
        frame.values[1] = new_node(&s, i);
        CHECK(gleaner_length(gleaner_object(frame.values[0])) == i / 2);
    }
    for (i = 0; i < COUNT; i++)
        frame.values[i] = 0;
    gleaner_collect(s.m, true);
    CHECK(gleaner_used(s.heap) == 0);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

/* An array that may lie in pieces, young and old. A scavenge finds what it lost. */
static void long_arrays_shrink(bool compressed)
{
    enum { LENGTH = 300000, LEFT = 70001 };
    struct stage s = set_up(compressed, 4 << 20);
    bool in_pieces = s.m->first_n < LENGTH;
    uint64_t header;
    uint32_t i;
    int old;

    GLEANER_FRAME(s.m, frame, 1);
    for (old = 0; old < 2; old++) {
        void *array = gleaner_allocate_array(s.m, s.bytes, LENGTH, 1);
        size_t used;

        frame.values[0] = gleaner_reference(array);
        for (i = 0; i < LENGTH; i++)
            CHECK(gleaner_store_u8(s.m, gleaner_object(frame.values[0]), i,
                                   (uint8_t)(i % 251 + 1)));
        if (old)
            gleaner_collect(s.m, true);
        array = gleaner_object(frame.values[0]);
        header = *(uint64_t *)array;
        used = gleaner_used(s.heap);
        gleaner_shrink(s.m, array, LEFT);
        CHECK(gleaner_length(array) == LEFT && *(uint64_t *)array == header);
        gleaner_collect(s.m, false);
        array = gleaner_object(frame.values[0]);
        if (in_pieces)
            CHECK(gleaner_used(s.heap) + (LENGTH - LEFT) * 3 / 4 < used);
        for (i = 0; i < LEFT; i++)
            CHECK(gleaner_load_u8(s.m, array, i) == i % 251 + 1);
        gleaner_shrink(s.m, array, 10);
        gleaner_shrink(s.m, array, 0);
        CHECK(gleaner_length(array) == 0);
        frame.values[0] = 0;
        gleaner_collect(s.m, true);
        CHECK(gleaner_used(s.heap) == 0);
    }
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

static bool has_memory(char *start, size_t offset)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *first = (char *)((uintptr_t)(start + offset) / page * page);
    unsigned char resident = 0;

    CHECK(mincore(first, page, &resident) == 0);
    return (resident & 1) != 0;
}

static void what_a_large_array_loses_goes_back(bool compressed)
{
    enum { BYTES = 1 << 20 };
    struct stage s = set_up(compressed, 8 << 20);
    gleaner_type whole = gleaner_primitives_whole(s.heap, 1);
    char *array = (char *)gleaner_allocate_array(s.m, whole, BYTES, 1);

    gleaner_fill_u8(s.m, array, 0, BYTES, 1);
    CHECK(has_memory(array, BYTES / 2) && has_memory(array, BYTES / 4));
    gleaner_shrink(s.m, array, BYTES / 3);
    CHECK(!has_memory(array, BYTES / 2) && has_memory(array, BYTES / 4));
    CHECK(gleaner_load_u8(s.m, array, BYTES / 3 - 1) == 1);
    tear_down(&s);
}

static void count_modules(void *data, const struct gleaner_type_count *of)
{
    if (strcmp(of->name, "module") == 0)
        ++*(int *)data;
}

/* A program that loads code again and again has no more types than are in use. */
static void types_without_objects_are_unregistered(bool compressed)
{
    enum { TYPES = 50 };
    struct stage s = set_up(compressed, 4 << 20);
    gleaner_type types[TYPES], first = 0;
    uint32_t offset = 8;
    int round, i, named = 0;

    GLEANER_FRAME(s.m, frame, TYPES);
    for (round = 0; round < 3; round++) {
        for (i = 0; i < TYPES; i++) {
            types[i] = gleaner_structure(s.heap, s.node_bytes, &offset, 1, NULL, 0);
            CHECK(gleaner_type_data(s.heap, types[i]) == NULL);
            gleaner_set_type_data(s.heap, types[i], &types[i]);
            if (first == 0)
                first = types[i];
            CHECK(types[i] >= first && types[i] < first + TYPES);
            frame.values[i] = gleaner_reference(
                gleaner_allocate(s.m, types[i], s.node_bytes));
        }
        gleaner_census(s.m, count_modules, &named);
        CHECK(named == 0); /* nothing is left of those that had the numbers */
        for (i = 0; i < TYPES; i++)
            gleaner_name_type(s.heap, types[i], "module");
        for (i = 0; i < TYPES; i += 2)
            frame.values[i] = 0;
        CHECK(gleaner_unregister_types(s.m, types, TYPES) == TYPES / 2);
        for (i = 0; i < TYPES; i++) {
            CHECK((types[i] == 0) == (i % 2 == 0));
            if (i % 2 != 0)
                CHECK(gleaner_type_of(gleaner_object(frame.values[i]))
                      == types[i]);
        }
        for (i = 0; i < TYPES; i++)
            frame.values[i] = 0;
        for (i = 0; i < TYPES / 2; i++)
            types[i] = types[2 * i + 1];
        CHECK(gleaner_unregister_types(s.m, types, TYPES / 2) == TYPES / 2);
        CHECK(types[0] == 0 && types[TYPES / 2 - 1] == 0);
    }
    CHECK(gleaner_unregister_types(s.m, types, 0) == 0);
    *number_of(&s, new_node(&s, 1)) = 2; /* the others are as they were */
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

static void count_object(void *data, void *object, size_t bytes)
{
    (void)object, (void)bytes;
    ++*(size_t *)data;
}

/* A list of constants that only itself and an array of constants refer to. There
   are as many as there is room for, and then no more. */
static void constants_never_move(bool compressed)
{
    enum { MOST = 12000 };
    struct stage s = set_up(compressed, 2 << 20);
    void **nodes = (void **)malloc(MOST * sizeof *nodes), *before = NULL, *array;
    uint32_t i, count = 0;
    size_t objects = 0, left;
    gleaner_weak *weak;

    array = gleaner_allocate_array_constant(s.m, s.list, 10, s.m->slot_bytes);
    CHECK(array != NULL && gleaner_length(array) == 10);
    left = gleaner_constants_left(s.heap);
    while (count < MOST
           && (nodes[count] = gleaner_allocate_constant(s.m, s.node,
                                                        s.node_bytes))
                  != NULL) {
        CHECK(gleaner_type_of(nodes[count]) == s.node);
        *number_of(&s, gleaner_reference(nodes[count])) = count;
        gleaner_store(s.m, nodes[count], 8, gleaner_reference(before));
        before = nodes[count++];
    }
    CHECK(count == left / s.node_bytes && count > 5000);
    CHECK(gleaner_constants_left(s.heap) == left % s.node_bytes);
    CHECK(gleaner_store_element(s.m, array, 9, gleaner_reference(before)));
    weak = gleaner_weak_new(s.m, nodes[0]);
    GLEANER_FRAME(s.m, frame, 1);
    frame.values[0] = new_node(&s, 7);
    gleaner_store(s.m, gleaner_object(frame.values[0]), 8, gleaner_reference(array));
    collect_in_all_ways(&s);
    collect_in_all_ways(&s);
    CHECK(gleaner_load(s.m, gleaner_object(frame.values[0]), 8)
          == gleaner_reference(array));
    CHECK(gleaner_load_element(s.m, array, 9) == gleaner_reference(before));
    CHECK(gleaner_weak_get(weak) == gleaner_reference(nodes[0]));
    for (i = count; i-- > 0;) {
        CHECK(before == nodes[i]);
        CHECK(*number_of(&s, gleaner_reference(before)) == i);
        before = gleaner_object(gleaner_load(s.m, before, 8));
    }
    CHECK(before == NULL);
    gleaner_walk(s.m, count_object, &objects);
    CHECK(objects == count + 3); /* the array, a node, the weak reference */
    CHECK(gleaner_used(s.heap) >= count * s.node_bytes);
    /* An object that has no room there can still be allocated pinned. */
    CHECK(gleaner_allocate_pinned(s.m, s.node, s.node_bytes) != NULL);
    gleaner_weak_free(weak);
    free(nodes);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

static void store_what_moves(const void *of)
{
    struct stage s = *(const struct stage *)of;
    void *constant = gleaner_allocate_constant(s.m, s.node, s.node_bytes);

    gleaner_store(s.m, constant, 8, new_node(&s, 1));
    gleaner_collect(s.m, false);
}

static void a_constant_that_refers_to_what_moves_is_found(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    char said[16384];
    int status = said_by_child(store_what_moves, &s, said, sizeof said);

    CHECK(WIFSIGNALED(status));
    CHECK(strstr(said, "a constant refers only to objects that never move")
          != NULL);
    tear_down(&s);
}

/* The header promises this of compiled code while the world runs. */
static void a_header_is_as_promised(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    uint32_t hash;
    int i;

    GLEANER_FRAME(s.m, frame, 1);
    frame.values[0] = new_node(&s, 1);
    CHECK(gleaner_known_hash(gleaner_object(frame.values[0])) == 0);
    hash = gleaner_identity_hash(s.m, gleaner_object(frame.values[0]));
    for (i = 0; i < 5; i++) {
        const void *object = gleaner_object(frame.values[0]);

        CHECK(gleaner_type_of(object) == s.node);
        CHECK(gleaner_known_hash(object) == hash && hash != 0);
        gleaner_collect(s.m, i == 3);
    }
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

int main(void)
{
    static const struct stage_case cases[] = {
        { "globals are roots", globals_are_roots },
        { "wrong ranges are named", wrong_ranges_are_named },
        { "compiled frames have derived pointers",
          compiled_frames_have_derived_pointers },
        { "a heap has a root visitor", a_heap_has_a_root_visitor },
        { "handles are set", handles_are_set },
        { "slots are swapped", slots_are_swapped },
        { "types have data", types_have_data },
        { "types without objects are unregistered",
          types_without_objects_are_unregistered },
        { "constants never move", constants_never_move },
        { "a constant that refers to what moves is found",
          a_constant_that_refers_to_what_moves_is_found },
        { "arrays shrink", arrays_shrink },
        { "long arrays shrink", long_arrays_shrink },
        { "what a large array loses goes back",
          what_a_large_array_loses_goes_back },
        { "a header is as promised", a_header_is_as_promised },
    };

    return run_cases(cases, sizeof cases / sizeof *cases);
}
