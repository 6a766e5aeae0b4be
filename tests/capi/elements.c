/*
 * The elements of arrays through gleaner.h, one by one, in bulk, by cursors and in
 * windows.
 */
#include "stage.h"

static void copies_and_initialized_objects(bool compressed)
{
    struct stage s = set_up(compressed, 4 << 20);
    const uint32_t length = 3000;
    size_t slot = s.m->slot_bytes;
    uint8_t letters[8];
    uint32_t i, j;
    void *text;

    GLEANER_FRAME(s.m, frame, 2);
    frame.values[0] = gleaner_reference(
        gleaner_allocate_array(s.m, s.list, length, slot));
    gleaner_collect(s.m, true); /* it is old from now on */
    for (i = 0; i < length / 2; i++) {
        char *node = (char *)gleaner_allocate_initialized(s.m, s.node,
                                                          s.node_bytes);

        gleaner_initialize(s.m, node, 8, gleaner_integer(i));
        gleaner_initialize(s.m, node, 8 + slot, frame.values[0]);
        *(uint64_t *)(node + s.number) = i;
        CHECK(gleaner_store_element(s.m, gleaner_object(frame.values[0]), i,
                                    gleaner_reference(node)));
    }
    CHECK(gleaner_copy_elements(s.m, gleaner_object(frame.values[0]), 0,
                                gleaner_object(frame.values[0]), length / 2,
                                length / 2));
    CHECK(gleaner_fill_elements(s.m, gleaner_object(frame.values[0]), 0,
                                length / 2, 0));
    gleaner_collect(s.m, false);
    gleaner_collect(s.m, true);
    for (i = 0; i < length / 2; i++) {
        gleaner_value node
            = gleaner_load_element(s.m, gleaner_object(frame.values[0]),
                                   length / 2 + i);

        CHECK(*number_of(&s, node) == i);
        CHECK(gleaner_number(gleaner_load(s.m, gleaner_object(node), 8)) == i);
    }
    /* Freed memory is overwritten; bytes behind the last element are zero. */
    for (i = 1; i < 40; i++) {
        gleaner_collect(s.m, false);
        new_node(&s, i); /* from here on there is a buffer */
        text = gleaner_allocate_array_initialized(s.m, s.bytes, i, 1);
        gleaner_fill_u8(s.m, text, 0, i, 7);
        for (j = 16 + i; s.m->first_n >= i && j < gleaner_array_bytes(i, 1); j++)
            CHECK(((const uint8_t *)text)[j] == 0);
    }
    text = gleaner_allocate_array_initialized(s.m, s.bytes, 8, 1);
    gleaner_initialize_u8(s.m, text, 0, (const uint8_t *)"abcdefgh", 8);
    frame.values[1] = gleaner_reference(text);
    CHECK(gleaner_copy_elements(s.m, text, 0, text, 1, 7));
    gleaner_read_u8(s.m, gleaner_object(frame.values[1]), 0, letters, 8);
    CHECK(memcmp(letters, "aabcdefg", 8) == 0);
    text = gleaner_object(frame.values[1]);
    CHECK(gleaner_compare_elements(s.m, text, 0, text, 1, 7) == 1);
    CHECK(gleaner_compare_elements(s.m, text, 0, text, 0, 8) == 8);
    CHECK(gleaner_compare_elements(s.m, text, 8, text, 3, 0) == 0);
    CHECK(gleaner_compare_elements(s.m, gleaner_object(frame.values[0]), 0,
                                   gleaner_object(frame.values[0]), 1,
                                   length / 2)
          == length / 2 - 1);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

/* Old elements that refer to young objects alone, written in all ways. */
static void elements_in_all_ways(bool compressed)
{
    struct stage s = set_up(compressed, 4 << 20);
    size_t slot = s.m->slot_bytes;
    struct gleaner_cursor cursor;
    gleaner_value expected;
    uint32_t i;

    GLEANER_FRAME(s.m, frame, 2);
    frame.values[0] = gleaner_reference(
        gleaner_allocate_array(s.m, s.list, 2000, slot));
    gleaner_collect(s.m, true);
    frame.values[1] = new_node(&s, 1);
    CHECK(gleaner_fill_elements(s.m, gleaner_object(frame.values[0]), 400, 600,
                                frame.values[1]));
    frame.values[1] = new_node(&s, 2);
    /* On a card of its own, so that no other store makes it dirty. */
    expected = gleaner_integer(1);
    CHECK(gleaner_swap_element(s.m, gleaner_object(frame.values[0]), 100,
                               &expected, frame.values[1])
          == GLEANER_NOT_SWAPPED);
    CHECK(expected == 0);
    CHECK(gleaner_swap_element(s.m, gleaner_object(frame.values[0]), 100,
                               &expected, frame.values[1])
          == GLEANER_SWAPPED);
    expected = frame.values[1];
    CHECK(gleaner_swap_element(s.m, gleaner_object(frame.values[0]), 100,
                               &expected, expected)
          == GLEANER_SWAPPED);
    frame.values[1] = new_node(&s, 3);
    CHECK(gleaner_cursor_begin_writing(&cursor, s.m,
                                       gleaner_object(frame.values[0]), 1001,
                                       999, slot));
    while (gleaner_cursor_more(&cursor))
        gleaner_cursor_store(&cursor, s.m, frame.values[1]);
    frame.values[1] = 0;
    gleaner_collect(s.m, false);
    gleaner_collect(s.m, false);
    gleaner_cursor_begin(&cursor, s.m, gleaner_object(frame.values[0]), 0, 2000,
                         slot);
    for (i = 0; gleaner_cursor_more(&cursor); i++) {
        uint32_t index = cursor.index;
        gleaner_value element = gleaner_cursor_load(&cursor, s.m);

        CHECK(index == i);
        if ((i < 400 && i != 100) || i == 1000)
            CHECK(element == 0);
        else
            CHECK(*number_of(&s, element) == (i == 100   ? 2u
                                              : i < 1000 ? 1u
                                                         : 3u));
    }
    CHECK(i == 2000);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

#define ARRAY gleaner_object(frame.values[0])
#define PRIMITIVES_IN_ALL_WAYS(name, type)                                     \
    do {                                                                       \
        type buffer[20], expected = 7;                                         \
        const type *seen;                                                      \
        struct gleaner_cursor cursor;                                          \
        struct gleaner_window window;                                          \
        type *view;                                                            \
        uint32_t i;                                                            \
                                                                               \
        frame.values[0] = gleaner_reference(gleaner_allocate_array(            \
            s.m, gleaner_primitives(s.heap, sizeof(type)), 20, sizeof(type))); \
        CHECK(gleaner_fill_##name(s.m, ARRAY, 2, 17, 7));                      \
        CHECK(gleaner_store_##name(s.m, ARRAY, 3, 9));                         \
        CHECK(gleaner_swap_##name(s.m, ARRAY, 4, &expected, 11)                \
              == GLEANER_SWAPPED);                                             \
        CHECK(gleaner_swap_##name(s.m, ARRAY, 4, &expected, 12)                \
                  == GLEANER_NOT_SWAPPED                                       \
              && expected == 11);                                              \
        gleaner_read_##name(s.m, ARRAY, 1, buffer, 4);                         \
        CHECK(buffer[0] == 0 && buffer[1] == 7);                               \
        CHECK(buffer[2] == 9 && buffer[3] == 11);                              \
        CHECK(gleaner_load_##name(s.m, ARRAY, 18) == 7                         \
              && gleaner_load_##name(s.m, ARRAY, 19) == 0);                    \
        buffer[0] = 21, buffer[1] = 22;                                        \
        CHECK(gleaner_write_##name(s.m, ARRAY, 18, buffer, 2));                \
        view = (type *)gleaner_window_begin_writing(&window, s.m, ARRAY, 10,   \
                                                    2, sizeof(type));          \
        CHECK(view[0] == 7 && view[1] == 7);                                   \
        view[1] = 30;                                                          \
        gleaner_window_end(&window, s.m);                                      \
        seen = (const type *)gleaner_window_begin(&window, s.m, ARRAY, 11, 1,  \
                                                  sizeof(type));               \
        CHECK(*seen == 30);                                                    \
        gleaner_window_end(&window, s.m);                                      \
        CHECK(gleaner_cursor_begin_writing(&cursor, s.m, ARRAY, 0, 2,          \
                                           sizeof(type)));                     \
        while (gleaner_cursor_more(&cursor))                                   \
            gleaner_cursor_store_##name(&cursor, 40);                          \
        gleaner_cursor_begin(&cursor, s.m, ARRAY, 0, 20, sizeof(type));        \
        for (i = 0; gleaner_cursor_more(&cursor); i++)                         \
            CHECK(gleaner_cursor_load_##name(&cursor)                          \
                  == (i < 2     ? 40                                           \
                      : i == 3  ? 9                                            \
                      : i == 4  ? 11                                           \
                      : i == 11 ? 30                                           \
                      : i < 18  ? 7                                            \
                      : i == 18 ? 21                                           \
                                : 22));                                        \
        CHECK(i == 20 && s.m->windows == 0);                                   \
    } while (0)

static void primitives_in_all_ways(bool compressed)
{
    struct stage s = set_up(compressed, 4 << 20);

    GLEANER_FRAME(s.m, frame, 1);
    PRIMITIVES_IN_ALL_WAYS(u8, uint8_t);
    PRIMITIVES_IN_ALL_WAYS(u16, uint16_t);
    PRIMITIVES_IN_ALL_WAYS(u32, uint32_t);
    PRIMITIVES_IN_ALL_WAYS(u64, uint64_t);
    PRIMITIVES_IN_ALL_WAYS(f32, float);
    PRIMITIVES_IN_ALL_WAYS(f64, double);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

/* Long loops that poll: what a collection moves is found again. Immortal arrays,
   to which nobody refers, are there at the end. */
static void cursors_go_on_and_immortal_arrays_stay(bool compressed)
{
    struct stage s = set_up(compressed, 4 << 20);
    const uint32_t length = 60000;
    struct gleaner_cursor cursor;
    uint64_t sum = 0;
    uint32_t i = 0;
    gleaner_weak *weak;

    GLEANER_FRAME(s.m, frame, 1);
    frame.values[0] = gleaner_reference(
        gleaner_allocate_array_immortal(s.m, s.bytes, length, 1));
    CHECK(gleaner_cursor_begin_writing(&cursor, s.m,
                                       gleaner_object(frame.values[0]), 0,
                                       length, 1));
    while (gleaner_cursor_more(&cursor)) {
        gleaner_cursor_store_u8(&cursor, (uint8_t)(i & 63));
        if (++i % 1000 == 0) {
            gleaner_collect(s.m, i % 3000 == 0);
            CHECK(gleaner_cursor_resume_writing(
                &cursor, gleaner_object(frame.values[0])));
        }
    }
    CHECK(i == length && cursor.index == length);
    gleaner_cursor_begin(&cursor, s.m, gleaner_object(frame.values[0]), 100,
                         length - 100, 1);
    for (i = 100; gleaner_cursor_more(&cursor); i++) {
        CHECK(cursor.index == i);
        sum += gleaner_cursor_load_u8(&cursor);
        if (i % 777 == 0) {
            new_node(&s, i);
            gleaner_collect(s.m, i % 5 == 0);
            gleaner_cursor_resume(&cursor, gleaner_object(frame.values[0]));
        }
    }
    CHECK(i == length);
    for (i = 100; i < length; i++)
        sum -= i & 63;
    CHECK(sum == 0);
    /* A resumed cursor goes as far as the first one would have. */
    gleaner_cursor_begin(&cursor, s.m, gleaner_object(frame.values[0]), 0, 10, 1);
    for (i = 0; gleaner_cursor_more(&cursor); i++) {
        gleaner_cursor_load_u8(&cursor);
        gleaner_cursor_resume(&cursor, gleaner_object(frame.values[0]));
    }
    CHECK(i == 10);
    weak = gleaner_weak_new(s.m, gleaner_object(frame.values[0]));
    frame.values[0] = 0;
    gleaner_collect(s.m, true);
    gleaner_collect(s.m, true);
    CHECK(gleaner_length(gleaner_object(gleaner_weak_get(weak))) == length);
    gleaner_weak_free(weak);
    CHECK(gleaner_allocate_array_immortal(s.m, s.bytes, 5 << 20, 1) == NULL);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

int main(void)
{
    static const struct stage_case cases[] = {
        { "copies and initialized objects", copies_and_initialized_objects },
        { "elements in all ways", elements_in_all_ways },
        { "primitives in all ways", primitives_in_all_ways },
        { "cursors go on, and immortal arrays stay",
          cursors_go_on_and_immortal_arrays_stay },
    };

    return run_cases(cases, sizeof cases / sizeof *cases);
}
