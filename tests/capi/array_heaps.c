/*
 * Heaps under every way to cut arrays: which are refused, what a full one does,
 * what native code gets, threads, and reports.
 */
#include "cuts.h"

#include <pthread.h>

static void heaps_that_are_cut_otherwise_are_refused(bool compressed)
{
    size_t i;

    for (i = 0; i < CUTS; i++) {
        char message[300] = "";
        gleaner_heap *heap
            = cut_heap(cuts[i], "", 1 << 20, compressed, message, sizeof message);

        CHECK((heap != NULL) == is_for(cuts[i]));
        if (heap != NULL) {
            CHECK(message[0] == 0);
            CHECK(gleaner_heap_free(heap));
            continue;
        }
        if (strstr(cuts[i], "array-guard=on") != NULL)
            CHECK(strstr(message, "array-guard=off") != NULL);
        else
            CHECK(strstr(message, "arrays and first-n") != NULL);
#ifdef GLEANER_ARRAYS_WHOLE
        CHECK(strstr(message, "GLEANER_ARRAYS_WHOLE") != NULL);
        CHECK(strstr(message, "arrays=contiguous") != NULL);
#else
        CHECK(strstr(message, "GLEANER_FIRST_N") != NULL);
#endif
    }
}

/* A large array of numbers of which little is used: its arraylets fill the heap
   one by one. What finds no room stores nothing. */
static void a_full_heap_refuses_stores(bool compressed)
{
    const char *cut = "arrays=zray,first-n=4096,arraylet=1024";
    const uint32_t length = 8 << 20, step = 1024;
    struct gleaner_cursor cursor;
    struct gleaner_window window;
    static uint8_t buffer[1 << 22];
    struct stage s;
    uint8_t expected;
    uint32_t i, stored;

    if (!is_for(cut))
        return;
    s = set_up_in(cut_heap(cut, "", 2 << 20, compressed, NULL, 0), compressed);
    GLEANER_FRAME(s.m, frame, 1);
#define TABLE gleaner_object(frame.values[0])
    frame.values[0]
        = gleaner_reference(gleaner_allocate_array(s.m, s.bytes, length, 1));
    CHECK(TABLE != NULL);
    for (i = 0; i < length && gleaner_store_u8(s.m, TABLE, i, 7); i += step)
        ;
    stored = i;
    CHECK(stored > 200 * step && stored < length - 2 * step);
    memset(buffer, 1, sizeof buffer);
    expected = 0;
    CHECK(gleaner_swap_u8(s.m, TABLE, stored, &expected, 1)
          == GLEANER_SWAP_FULL);
    CHECK(!gleaner_fill_u8(s.m, TABLE, 0, length, 1));
    CHECK(!gleaner_write_u8(s.m, TABLE, length / 2, buffer, length / 2));
    CHECK(!gleaner_cursor_begin_writing(&cursor, s.m, TABLE, 0, length, 1));
    CHECK(!gleaner_cursor_more(&cursor));
    CHECK(gleaner_window_begin_writing(&window, s.m, TABLE, 0, length, 1)
          == NULL);
    CHECK(s.m->windows == 0);
    /* Zeros take no room, nor does what is there already. */
    CHECK(gleaner_store_u8(s.m, TABLE, length - 1, 0));
    CHECK(gleaner_fill_u8(s.m, TABLE, stored, length - stored, 0));
    CHECK(gleaner_store_u8(s.m, TABLE, stored - step + 1, 9));
    for (i = 0; i < length; i += step / 2)
        CHECK(gleaner_load_u8(s.m, TABLE, i)
              == (i < stored && i % step == 0 ? 7 : 0));
    CHECK(gleaner_load_u8(s.m, TABLE, stored - step + 1) == 9);
    frame.values[0] = 0;
    frame.values[0]
        = gleaner_reference(gleaner_allocate_array(s.m, s.bytes, length, 1));
    CHECK(TABLE != NULL && gleaner_store_u8(s.m, TABLE, length / 2, 5));
    CHECK(gleaner_load_u8(s.m, TABLE, length / 2) == 5);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

/* A cursor that cannot go on in a full heap goes on when there is room again. */
static void cursors_go_on_when_there_is_room_again(bool compressed)
{
    const char *cut = "arrays=zray,first-n=4096,arraylet=1024";
    const uint32_t length = 64 << 10;
    struct gleaner_cursor cursor;
    struct stage s;
    uint32_t i;
    void *node;

    if (!is_for(cut))
        return;
    s = set_up_in(cut_heap(cut, "", 2 << 20, compressed, NULL, 0), compressed);
    GLEANER_FRAME(s.m, frame, 2);
    frame.values[0]
        = gleaner_reference(gleaner_allocate_array(s.m, s.bytes, length, 1));
    CHECK(gleaner_cursor_begin_writing(&cursor, s.m, TABLE, 0, length, 1));
    for (i = 0; i < 10000; i++)
        gleaner_cursor_store_u8(&cursor, 7);
    /* A list that takes all there is; what the cursor had taken is given up. */
    while ((node = gleaner_allocate(s.m, s.node, s.node_bytes)) != NULL) {
        gleaner_store(s.m, node, 8, frame.values[1]);
        frame.values[1] = gleaner_reference(node);
    }
    for (i = 0; i < 2; i++) {
        CHECK(!gleaner_cursor_resume_writing(&cursor, TABLE));
        CHECK(cursor.index == 10000 && cursor.end == length);
    }
    frame.values[1] = 0;
    CHECK(gleaner_cursor_resume_writing(&cursor, TABLE));
    for (i = 10000; gleaner_cursor_more(&cursor); i++)
        gleaner_cursor_store_u8(&cursor, 7);
    CHECK(i == length);
    for (i = 0; i < length; i++)
        CHECK(gleaner_load_u8(s.m, TABLE, i) == 7);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

/* Of which types arrays lie in one piece, and which of these never move. */
static void arrays_for_native_code(bool compressed)
{
    size_t i;

    for (i = 0; i < CUTS; i++) {
        const uint32_t length = 30000;
        struct stage s;
        gleaner_type whole, list;
        uint8_t *first;
        uint32_t k;

        if (!is_for(cuts[i]))
            continue;
        s = set_up_in(cut_heap(cuts[i], "", 4 << 20, compressed, NULL, 0),
                      compressed);
        whole = gleaner_primitives_whole(s.heap, 1);
        list = gleaner_references_whole(s.heap);
        CHECK(whole != 0 && list != 0);
        CHECK(gleaner_primitives_whole(s.heap, 3) == 0);
        GLEANER_FRAME(s.m, frame, 4);
        frame.values[0] = gleaner_reference(
            gleaner_allocate_array(s.m, whole, length, 1));
        frame.values[1] = gleaner_reference(
            gleaner_allocate_array_pinned(s.m, s.bytes, 300, 1));
        frame.values[2] = gleaner_reference(
            gleaner_allocate_array(s.m, s.bytes, length, 1));
        frame.values[3] = gleaner_reference(
            gleaner_allocate_array(s.m, list, 3000, s.m->slot_bytes));
        first = (uint8_t *)gleaner_pinned_elements(
            s.m, gleaner_object(frame.values[1]));
        CHECK(first != NULL);
        first[299] = 3;
        CHECK(gleaner_load_u8(s.m, gleaner_object(frame.values[1]), 299) == 3);
        first = (uint8_t *)gleaner_pinned_elements(
            s.m, gleaner_object(frame.values[0]));
        CHECK(first != NULL);
        CHECK(gleaner_fill_u8(s.m, gleaner_object(frame.values[0]), 0, length,
                              8));
        for (k = 0; k < length; k++)
            CHECK(first[k] == 8);
        first = (uint8_t *)gleaner_pinned_elements(
            s.m, gleaner_object(frame.values[2]));
        CHECK((first != NULL)
              == (s.m->first_n == UINTPTR_MAX
                  || strstr(cuts[i], "=references") != NULL));
        for (k = 0; k < 3000; k++) {
            gleaner_value node = new_node(&s, k);

            CHECK(gleaner_store_element(s.m, gleaner_object(frame.values[3]), k,
                                        node));
        }
        gleaner_collect(s.m, true);
        for (k = 0; k < 3000; k++)
            CHECK(*number_of(&s, gleaner_load_element(
                                     s.m, gleaner_object(frame.values[3]), k))
                  == k);
        GLEANER_LEAVE(s.m, frame);
        tear_down(&s);
    }
}

/* The first two arrays have the same elements, and share what they can. */
static void fill_and_share(gleaner_mutator *m, const gleaner_value *arrays,
                           uint32_t length)
{
    CHECK(gleaner_fill_f64(m, gleaner_object(arrays[0]), 0, length, 1.0));
    CHECK(gleaner_copy_elements(m, gleaner_object(arrays[0]), 0,
                                gleaner_object(arrays[1]), 0, length));
}

/* An element that was read through a cursor that writes is then written through
   it, where two arrays share it, too, and where it is zero; a zero with a sign is
   a write. */
static void elements_change_in_place(bool compressed)
{
    const uint32_t length = 3000;
    const double minus_zero = -0.0;
    size_t i;

    for (i = 0; i < CUTS; i++) {
        struct gleaner_cursor cursor;
        struct stage s;
        gleaner_type doubles;
        uint32_t k;

        if (!is_for(cuts[i]))
            continue;
        s = set_up_in(cut_heap(cuts[i], "", 4 << 20, compressed, NULL, 0),
                      compressed);
        doubles = gleaner_primitives(s.heap, 8);
        GLEANER_FRAME(s.m, frame, 3);
#define ARRAY(number) gleaner_object(frame.values[number])
        for (k = 0; k < 3; k++)
            frame.values[k] = gleaner_reference(
                gleaner_allocate_array(s.m, doubles, length, 8));
        fill_and_share(s.m, frame.values, length);
        for (k = 0; k <= 2; k += 2) {
            CHECK(gleaner_cursor_begin_writing(&cursor, s.m, ARRAY(k), 0, length,
                                               8));
            while (gleaner_cursor_more(&cursor)) {
                double *place;
                double before;

                gleaner_cursor_read(&cursor);
                before = *(double *)cursor.next;
                if (gleaner_cursor_write(&cursor, false)) {
                    place = (double *)cursor.next;
                    CHECK(*place == before);
                    *place = before + 1;
                    gleaner_cursor_step(&cursor, 8);
                }
            }
        }
        for (k = 0; k < length; k++) {
            CHECK(gleaner_load_f64(s.m, ARRAY(0), k) == 2.0);
            CHECK(gleaner_load_f64(s.m, ARRAY(1), k) == 1.0);
            CHECK(gleaner_load_f64(s.m, ARRAY(2), k) == 1.0);
        }
        frame.values[2] = gleaner_reference(
            gleaner_allocate_array(s.m, doubles, length, 8));
        CHECK(gleaner_cursor_begin_writing(&cursor, s.m, ARRAY(2), 0, length, 8));
        for (k = 0; k < length; k++)
            gleaner_cursor_store_f64(&cursor, k % 2 ? 0.0 : -0.0);
        for (k = 0; k < length; k++) {
            double number = gleaner_load_f64(s.m, ARRAY(2), k);

            CHECK((memcmp(&number, &minus_zero, 8) == 0) == (k % 2 == 0));
        }
#undef ARRAY
        GLEANER_LEAVE(s.m, frame);
        tear_down(&s);
    }
}

/* An element behind one that was loaded is stored, and not into the array that
   shares it. */
static void elements_are_stored_behind_loaded_ones(bool compressed)
{
    const uint32_t length = 3000;
    size_t i;

    for (i = 0; i < CUTS; i++) {
        struct gleaner_cursor cursor;
        struct stage s;
        gleaner_type doubles;
        uint32_t k;

        if (!is_for(cuts[i]))
            continue;
        s = set_up_in(cut_heap(cuts[i], "", 4 << 20, compressed, NULL, 0),
                      compressed);
        doubles = gleaner_primitives(s.heap, 8);
        GLEANER_FRAME(s.m, frame, 2);
#define ARRAY(number) gleaner_object(frame.values[number])
        for (k = 0; k < 2; k++)
            frame.values[k] = gleaner_reference(
                gleaner_allocate_array(s.m, doubles, length, 8));
        fill_and_share(s.m, frame.values, length);
        CHECK(gleaner_cursor_begin_writing(&cursor, s.m, ARRAY(1), 0, length, 8));
        for (k = 0; gleaner_cursor_more(&cursor); k++) {
            if (k % 3 == 2)
                gleaner_cursor_store_f64(&cursor, 2.0);
            else
                CHECK(gleaner_cursor_load_f64(&cursor) == 1.0);
        }
        CHECK(k == length);
        for (k = 0; k < length; k++) {
            CHECK(gleaner_load_f64(s.m, ARRAY(0), k) == 1.0);
            CHECK(gleaner_load_f64(s.m, ARRAY(1), k) == (k % 3 == 2 ? 2.0 : 1.0));
        }
#undef ARRAY
        GLEANER_LEAVE(s.m, frame);
        tear_down(&s);
    }
}

/* A buffer for no elements may be NULL; and arrays of more than N bytes are cut,
   so that a window of one is a copy. */
static void buffers_of_nothing_and_windows_of_everything(bool compressed)
{
    size_t i;

    for (i = 0; i < CUTS; i++) {
        bool is_cut = strstr(cuts[i], "contiguous") == NULL
                      && strstr(cuts[i], "=references") == NULL;
        struct gleaner_window window;
        struct stage s;
        uint32_t length;

        if (!is_for(cuts[i]))
            continue;
        s = set_up_in(cut_heap(cuts[i], "", 4 << 20, compressed, NULL, 0),
                      compressed);
        length = s.m->first_n == UINTPTR_MAX ? 3000
                                             : (uint32_t)s.m->first_n + 3000;
        GLEANER_FRAME(s.m, frame, 1);
        /* The first one begins a buffer, out of which code that is inlined could
           take the second one whole. */
        CHECK(gleaner_allocate_array(s.m, s.bytes, 8, 1) != NULL);
        frame.values[0] = gleaner_reference(
            gleaner_allocate_array(s.m, s.bytes, length, 1));
#define BYTES gleaner_object(frame.values[0])
        gleaner_read_u8(s.m, BYTES, length, NULL, 0);
        CHECK(gleaner_write_u8(s.m, BYTES, length, NULL, 0));
        CHECK(gleaner_write_u8(s.m, BYTES, length - 1, NULL, 0));
        CHECK(gleaner_window_begin(&window, s.m, BYTES, 0, length, 1) != NULL);
        CHECK((window.copied != NULL) == is_cut);
        gleaner_window_end(&window, s.m);
#undef BYTES
        GLEANER_LEAVE(s.m, frame);
        tear_down(&s);
    }
}

/* Threads that write elements of one array, side by side in the same pieces. */
struct writer {
    gleaner_heap *heap;
    gleaner_handle *array;
    uint32_t number;
};
enum { WRITERS = 3, WRITTEN = 20000 };

static void *write_elements(void *place)
{
    const struct writer *writer = (struct writer *)place;
    gleaner_mutator *m = gleaner_attach(writer->heap);
    uint32_t i;

    for (i = writer->number; i < WRITTEN; i += WRITERS) {
        void *array = gleaner_object(gleaner_handle_get(writer->array));
        uint32_t expected = 0;

        if (i % 2 == 0)
            CHECK(gleaner_store_u32(m, array, i, i));
        else
            CHECK(gleaner_swap_u32(m, array, i, &expected, i)
                  == GLEANER_SWAPPED);
        gleaner_poll(m);
        if (i % 2000 == writer->number)
            gleaner_collect(m, i % 4000 < 2000);
    }
    gleaner_detach(m);
    return NULL;
}

static void threads_write_side_by_side(bool compressed)
{
    size_t i;

    for (i = 0; i < CUTS; i++) {
        struct writer writers[WRITERS];
        pthread_t threads[WRITERS];
        struct stage s;
        gleaner_handle *handle;
        uint32_t k;

        if (!is_for(cuts[i]))
            continue;
        s = set_up_in(cut_heap(cuts[i], "", 4 << 20, compressed, NULL, 0),
                      compressed);
        handle = gleaner_handle_new(
            s.m, gleaner_reference(gleaner_allocate_array(
                     s.m, gleaner_primitives(s.heap, 4), WRITTEN, 4)));
        gleaner_blocking_begin(s.m);
        for (k = 0; k < WRITERS; k++) {
            writers[k].heap = s.heap;
            writers[k].array = handle;
            writers[k].number = k;
            CHECK(pthread_create(&threads[k], NULL, write_elements, &writers[k])
                  == 0);
        }
        for (k = 0; k < WRITERS; k++)
            CHECK(pthread_join(threads[k], NULL) == 0);
        gleaner_blocking_end(s.m);
        for (k = 0; k < WRITTEN; k++)
            CHECK(gleaner_load_u32(s.m,
                                   gleaner_object(gleaner_handle_get(handle)), k)
                  == k);
        gleaner_handle_free(handle);
        tear_down(&s);
    }
}

/* Only a heap that was asked for a report has one. */
static void a_report_is_written_where_it_was_asked_for(bool compressed)
{
    static const char *const more[] = { "", ",array-report=64k" };
    size_t i, k;

    for (i = 0; i < CUTS; i++) {
        if (!is_for(cuts[i]))
            continue;
        for (k = 0; k < 2; k++) {
            struct stage s = set_up_in(
                cut_heap(cuts[i], more[k], 4 << 20, compressed, NULL, 0),
                compressed);

            CHECK(gleaner_allocate_array(s.m, s.bytes, 10000, 1) != NULL);
            CHECK(gleaner_print_array_report(s.m) == (k == 1));
            tear_down(&s);
        }
    }
}

int main(void)
{
    static const struct stage_case cases[] = {
        { "heaps that are cut otherwise are refused",
          heaps_that_are_cut_otherwise_are_refused },
        { "a full heap refuses stores", a_full_heap_refuses_stores },
        { "cursors go on when there is room again",
          cursors_go_on_when_there_is_room_again },
        { "arrays for native code", arrays_for_native_code },
        { "elements change in place", elements_change_in_place },
        { "elements are stored behind loaded ones",
          elements_are_stored_behind_loaded_ones },
        { "buffers of nothing, and windows of everything",
          buffers_of_nothing_and_windows_of_everything },
        { "threads write side by side", threads_write_side_by_side },
        { "a report is written where it was asked for",
          a_report_is_written_where_it_was_asked_for },
    };

    return run_cases(cases, sizeof cases / sizeof *cases);
}
