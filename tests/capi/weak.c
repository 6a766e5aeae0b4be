/*
 * Weak references, ephemerons and finalizers through gleaner.h: those that a
 * program has by handles, those in slots of objects, and how they go together.
 */
#include "stage.h"

static bool finalizes(struct stage *s, gleaner_value object)
{
    return gleaner_finalizer_new(s->m, gleaner_object(object), 0, 0, true) != NULL;
}

static void weak_things(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    gleaner_handle *handle;
    gleaner_weak *weak;
    gleaner_ephemeron *ephemeron;
    gleaner_value key, value;
    uint32_t hash;

    GLEANER_FRAME(s.m, frame, 2);
    frame.values[0] = new_node(&s, 1);
    frame.values[1] = new_node(&s, 2);
    handle = gleaner_handle_new(s.m, frame.values[0]);
    weak = gleaner_weak_new(s.m, gleaner_object(frame.values[0]));
    ephemeron = gleaner_ephemeron_new(s.m, gleaner_object(frame.values[0]),
                                      gleaner_object(frame.values[1]));
    hash = gleaner_identity_hash(s.m, gleaner_object(frame.values[0]));
    CHECK(finalizes(&s, frame.values[0]));
    frame.values[0] = frame.values[1] = 0;
    gleaner_collect(s.m, true);
    key = gleaner_handle_get(handle);
    CHECK(*number_of(&s, key) == 1 && gleaner_weak_get(weak) == key);
    CHECK(gleaner_ephemeron_key(ephemeron) == key);
    CHECK(*number_of(&s, gleaner_ephemeron_value(ephemeron)) == 2);
    CHECK(gleaner_identity_hash(s.m, gleaner_object(key)) == hash);
    CHECK(!gleaner_next_finalizer(s.m, &key, &value));
    CHECK(!gleaner_heap_free(s.heap));
    gleaner_handle_free(handle);
    gleaner_collect(s.m, true);
    CHECK(gleaner_weak_get(weak) == 0);
    CHECK(gleaner_next_finalizer(s.m, &key, &value) && value == 0);
    CHECK(key != 0 && *number_of(&s, key) == 1);
    CHECK(!gleaner_next_finalizer(s.m, &key, &value));
    gleaner_collect(s.m, true);
    CHECK(gleaner_ephemeron_key(ephemeron) == 0
          && gleaner_ephemeron_value(ephemeron) == 0);
    gleaner_weak_free(weak);
    gleaner_ephemeron_free(ephemeron);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

/* What becomes of references to a dead object A with a finalizer, and to K, which
   only it refers to, and which has one, too. */
static void finalizers_come_behind_weak_references(bool compressed)
{
    struct stage s = set_up(compressed, 4 << 20);
    int everything, i;
    GLEANER_FRAME(s.m, frame, 3);

    for (everything = 0; everything < 2; everything++) {
        gleaner_value *roots = frame.values;
        gleaner_weak *weak[2];
        gleaner_ephemeron *ephemeron;
        gleaner_value value;

        for (i = 0; i < 3; i++)
            roots[i] = new_node(&s, (uint64_t)1 << i);
        gleaner_store(s.m, gleaner_object(roots[0]), 8, roots[1]);
        for (i = 0; i < 2; i++) {
            weak[i] = gleaner_weak_new(s.m, gleaner_object(roots[i]));
            CHECK(finalizes(&s, roots[i]));
        }
        CHECK(finalizes(&s, roots[1]));
        ephemeron = gleaner_ephemeron_new(s.m, gleaner_object(roots[1]),
                                          gleaner_object(roots[2]));
        roots[0] = roots[1] = roots[2] = 0;
        gleaner_collect(s.m, everything != 0);
        /* Before they are handed out. */
        CHECK(gleaner_weak_get(weak[0]) == 0 && gleaner_weak_get(weak[1]) == 0);
        CHECK(*number_of(&s, gleaner_ephemeron_value(ephemeron)) == 4);
        /* Both at once, and K twice. */
        for (i = 0; i < 3; i++) {
            CHECK(gleaner_next_finalizer(s.m, &roots[0], &value));
            CHECK(*number_of(&s, roots[0]) == (i == 0 ? 1 : 2));
        }
        CHECK(!gleaner_next_finalizer(s.m, &roots[0], &value));
        roots[0] = 0;
        gleaner_collect(s.m, true);
        CHECK(gleaner_ephemeron_key(ephemeron) == 0);
        CHECK(!gleaner_next_finalizer(s.m, &roots[0], &value));
        gleaner_ephemeron_free(ephemeron);
        for (i = 0; i < 2; i++)
            gleaner_weak_free(weak[i]);
    }
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

/* A table of ephemerons and weak slots is one object: what it keeps, what it
   forgets, and that it does not keep itself. */
static void weak_tables(bool compressed)
{
    struct stage s = set_up(compressed, 4 << 20);
    size_t slot = s.m->slot_bytes;
    uint32_t first[1] = { 0 }, behind[1], outside[1];
    struct gleaner_weak_layout layout;
    gleaner_type table_type, weak_type;
    char message[300] = "";
    uint32_t i;

    behind[0] = (uint32_t)(2 * slot);
    memset(&layout, 0, sizeof layout);
    layout.head = 16, layout.element = 3 * slot;
    layout.element_slots.ephemerons = first;
    layout.element_slots.ephemeron_count = 1;
    layout.element_slots.weak = behind, layout.element_slots.weak_count = 1;
    table_type = gleaner_weak_type(s.heap, &layout, message, sizeof message);
    memset(&layout, 0, sizeof layout);
    outside[0] = 8;
    layout.head = 16, layout.slots.weak = outside, layout.slots.weak_count = 1;
    weak_type = gleaner_weak_type(s.heap, &layout, message, sizeof message);
    CHECK(table_type != 0 && weak_type != 0);
    {
        GLEANER_FRAME(s.m, frame, 4);
        /* Keys with an even number are kept in a list. */
        frame.values[0] = gleaner_reference(
            gleaner_allocate_tailed(s.m, table_type, 1000, 16, 3 * slot));
        for (i = 0; i < 1000; i++) {
            char *table;
            size_t at = 16 + i * 3 * slot;

            frame.values[1] = new_node(&s, i);
            frame.values[2] = new_node(&s, 10000 + i);
            table = (char *)gleaner_object(frame.values[0]);
            gleaner_store(s.m, table, at, frame.values[1]);
            gleaner_store(s.m, table, at + slot, frame.values[2]);
            gleaner_store(s.m, table, at + 2 * slot, frame.values[1]);
            /* The value refers to its key. */
            gleaner_store(s.m, gleaner_object(frame.values[2]), 8,
                          frame.values[1]);
            if (i % 2 == 0) {
                gleaner_store(s.m, gleaner_object(frame.values[1]), 8 + slot,
                              frame.values[3]);
                frame.values[3] = frame.values[1];
            }
            if (i % 300 == 299)
                gleaner_collect(s.m, i % 600 == 599);
        }
        frame.values[1] = frame.values[2] = 0;
        gleaner_collect(s.m, true);
        for (i = 0; i < 1000; i++) {
            char *table = (char *)gleaner_object(frame.values[0]);
            size_t at = 16 + i * 3 * slot;
            gleaner_value key = gleaner_load(s.m, table, at);
            gleaner_value value = gleaner_load(s.m, table, at + slot);

            CHECK(gleaner_load(s.m, table, at + 2 * slot) == key);
            if (i % 2 == 0)
                CHECK(*number_of(&s, key) == i
                      && *number_of(&s, value) == 10000 + i);
            else
                CHECK(key == 0 && value == 0);
        }
        /* The table as a key and a value of its own: only a weak reference is
           left of it. */
        gleaner_store(s.m, gleaner_object(frame.values[0]), 16,
                      frame.values[0]);
        gleaner_store(s.m, gleaner_object(frame.values[0]), 16 + slot,
                      frame.values[0]);
        frame.values[1]
            = gleaner_reference(gleaner_allocate(s.m, weak_type, 16));
        gleaner_store(s.m, gleaner_object(frame.values[1]), 8, frame.values[0]);
        gleaner_collect(s.m, true);
        CHECK(gleaner_load(s.m, gleaner_object(frame.values[1]), 8)
              == frame.values[0]);
        frame.values[0] = 0;
        gleaner_collect(s.m, true);
        CHECK(gleaner_load(s.m, gleaner_object(frame.values[1]), 8) == 0);
        GLEANER_LEAVE(s.m, frame);
    }
    /* The value of the ephemeron would lie outside. */
    outside[0] = (uint32_t)(24 - slot);
    memset(&layout, 0, sizeof layout);
    layout.head = 24;
    layout.slots.ephemerons = outside, layout.slots.ephemeron_count = 1;
    CHECK(gleaner_weak_type(s.heap, &layout, message, sizeof message) == 0);
    CHECK(strstr(message, "a reference at offset 24") != NULL);
    layout.slots.ephemerons = NULL;
    CHECK(gleaner_weak_type(s.heap, &layout, message, sizeof message) == 0);
    CHECK(strstr(message, "their offsets are NULL") != NULL);
    tear_down(&s);
}

static bool holds(struct stage *s, gleaner_value table, uint32_t index,
                  uint32_t number)
{
    gleaner_value node
        = gleaner_load(s->m, gleaner_object(table),
                       16 + index * (size_t)s->m->slot_bytes);

    return node != 0 && *number_of(s, node) == number;
}

/* A table that shrinks keeps what it keeps, and forgets what dies later: a small
   one and a large one, young and old. */
static void weak_tables_shrink(bool compressed)
{
    struct stage s = set_up(compressed, 4 << 20);
    const uint32_t first[1] = { 0 }, lengths[2] = { 500, 10000 };
    struct gleaner_weak_layout layout;
    gleaner_type type;
    uint32_t i, round;
    GLEANER_FRAME(s.m, frame, 3);

    memset(&layout, 0, sizeof layout);
    layout.head = 16, layout.element = s.m->slot_bytes;
    layout.element_slots.weak = first, layout.element_slots.weak_count = 1;
    type = gleaner_weak_type(s.heap, &layout, NULL, 0);
    CHECK(type != 0);
    for (round = 0; round < 4; round++) {
        uint32_t length = lengths[round / 2], left = length / 3;

        frame.values[0] = gleaner_reference(gleaner_allocate_tailed(
            s.m, type, length, 16, s.m->slot_bytes));
        frame.values[1] = new_node(&s, round);
        frame.values[2] = new_node(&s, 10 + round);
        for (i = 0; i < length; i++)
            gleaner_store(s.m, gleaner_object(frame.values[0]),
                          16 + i * (size_t)s.m->slot_bytes,
                          frame.values[1 + i % 2]);
        if (round % 2 != 0)
            gleaner_collect(s.m, true);
        gleaner_shrink(s.m, gleaner_object(frame.values[0]), left);
        for (i = 0; i < 3; i++) {
            CHECK(gleaner_length(gleaner_object(frame.values[0])) == left);
            CHECK(holds(&s, frame.values[0], 0, round));
            CHECK(holds(&s, frame.values[0], left - 1,
                        (left - 1) % 2 == 0 ? round : 10 + round));
            gleaner_collect(s.m, i == 1);
        }
        frame.values[1] = 0;
        gleaner_collect(s.m, true);
        CHECK(gleaner_load(s.m, gleaner_object(frame.values[0]), 16) == 0);
        CHECK(holds(&s, frame.values[0], 1, 10 + round));
        gleaner_shrink(s.m, gleaner_object(frame.values[0]), 0);
        gleaner_collect(s.m, true);
        CHECK(gleaner_length(gleaner_object(frame.values[0])) == 0);
    }
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

/* Finalizers, half of them without an object: in order, with their values,
   taken back, and counted. */
static void finalizers_keep_their_order(bool compressed)
{
    struct stage s = set_up(compressed, 4 << 20);
    gleaner_value object, value;
    uint32_t i;
    {
        GLEANER_FRAME(s.m, frame, 3);
        for (i = 0; i < 100; i++) {
            void *finalizer;

            frame.values[0] = new_node(&s, i);
            frame.values[1] = new_node(&s, 1000 + i);
            if (i % 2 == 1) {
                CHECK(gleaner_finalize(s.m, gleaner_object(frame.values[0]),
                                       frame.values[1], i % 4, i % 3 != 0));
                continue;
            }
            finalizer = gleaner_finalizer_new(
                s.m, gleaner_object(frame.values[0]), frame.values[1],
                i % 4, i % 3 != 0);
            CHECK(finalizer != NULL);
            if (i == 50)
                frame.values[2] = gleaner_reference(finalizer);
        }
        CHECK(gleaner_ready_finalizers(s.heap) == 0);
        frame.values[0] = frame.values[1] = 0;
        gleaner_collect(s.m, true);
        CHECK(gleaner_ready_finalizers(s.heap) == 100);
        CHECK(gleaner_take_back(s.m, gleaner_object(frame.values[2])));
        CHECK(!gleaner_take_back(s.m, gleaner_object(frame.values[2])));
        for (i = 0; i < 100; i++) {
            uint64_t number = i / 25 + i % 25 * 4;

            if (number == 50)
                continue;
            CHECK(gleaner_next_finalizer(s.m, &object, &value));
            CHECK(*number_of(&s, value) == 1000 + number);
            if (number % 3 != 0)
                CHECK(*number_of(&s, object) == number);
            else
                CHECK(object == 0);
        }
        CHECK(!gleaner_next_finalizer(s.m, &object, &value));
        CHECK(gleaner_ready_finalizers(s.heap) == 0);
        GLEANER_LEAVE(s.m, frame);
    }
    tear_down(&s);
}

int main(void)
{
    static const struct stage_case cases[] = {
        { "weak things", weak_things },
        { "finalizers come behind weak references",
          finalizers_come_behind_weak_references },
        { "weak tables", weak_tables },
        { "weak tables shrink", weak_tables_shrink },
        { "finalizers keep their order", finalizers_keep_their_order },
    };

    return run_cases(cases, sizeof cases / sizeof *cases);
}
