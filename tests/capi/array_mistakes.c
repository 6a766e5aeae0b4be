/*
 * What a thread must not do with arrays: accesses beyond their ends, windows and
 * cursors, code for arrays that are cut otherwise. As in mistakes.c, each ends a
 * child with a message that names it.
 */
/* Indexes are checked, and polls inside of windows. */
#define GLEANER_DEBUG
#include "mistake.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

static void copies_beyond_the_end(struct stage *s)
{
    void *array = gleaner_allocate_array(s->m, s->list, 10, s->m->slot_bytes);

    gleaner_copy_elements(s->m, array, 0, array, 5, 6);
}

static void copies_no_array(struct stage *s)
{
    void *array = gleaner_allocate_array(s->m, s->list, 10, s->m->slot_bytes);
    void *node = gleaner_object(new_node(s, 1));

    gleaner_copy_elements(s->m, array, 0, node, 0, 1);
}

static void copies_from_nothing(struct stage *s)
{
    gleaner_copy_elements(s->m, NULL, 0,
                          gleaner_allocate_array(s->m, s->bytes, 10, 1), 0, 1);
}

static void copies_to_an_integer(struct stage *s)
{
    gleaner_copy_elements(s->m, gleaner_allocate_array(s->m, s->bytes, 10, 1),
                          0, (void *)(uintptr_t)gleaner_integer(3), 0, 1);
}

static void compares_with_nothing(struct stage *s)
{
    gleaner_compare_elements(s->m,
                             gleaner_allocate_array(s->m, s->bytes, 10, 1), 0,
                             NULL, 0, 1);
}

static void compares_an_object_of_the_stack(struct stage *s)
{
    uint64_t words[4] = { 0 };

    gleaner_compare_elements(s->m, words, 0,
                             gleaner_allocate_array(s->m, s->bytes, 10, 1), 0,
                             1);
}

static void asks_nothing_for_its_elements(struct stage *s)
{
    gleaner_pinned_elements(s->m, NULL);
}

static void compares_beyond_the_end(struct stage *s)
{
    void *array = gleaner_allocate_array(s->m, s->list, 10, s->m->slot_bytes);

    gleaner_compare_elements(s->m, array, 0, array, 8, 3);
}

static void compares_other_elements(struct stage *s)
{
    void *array = gleaner_allocate_array(s->m, s->bytes, 10, 1);

    gleaner_compare_elements(
        s->m, gleaner_allocate_array(s->m, s->list, 10, s->m->slot_bytes), 0,
        array, 0, 3);
}

static void loads_beyond_the_end(struct stage *s)
{
    gleaner_load_u8(s->m, gleaner_allocate_array(s->m, s->bytes, 10, 1), 10);
}

static void stores_beyond_the_end(struct stage *s)
{
    gleaner_store_element(
        s->m, gleaner_allocate_array(s->m, s->list, 10, s->m->slot_bytes),
        UINT32_MAX, 0);
}

static void begin_a_window(struct stage *s)
{
    struct gleaner_window window;

    gleaner_window_begin(&window, s->m,
                         gleaner_allocate_array(s->m, s->bytes, 10, 1), 0, 10,
                         1);
}

static void collects_in_a_window(struct stage *s)
{
    begin_a_window(s);
    gleaner_collect(s->m, false);
}

static void blocks_in_a_window(struct stage *s)
{
    begin_a_window(s);
    gleaner_blocking_begin(s->m);
}

static void gets_totals_in_a_window(struct stage *s)
{
    struct gleaner_totals totals;

    begin_a_window(s);
    gleaner_get_totals(s->m, &totals);
}

static void polls_in_a_window(struct stage *s)
{
    begin_a_window(s);
    gleaner_poll(s->m);
}

static void writes_in_a_window(struct stage *s)
{
    void *array = gleaner_allocate_array(s->m, s->bytes, 10, 1);
    struct gleaner_window one, other;

    gleaner_window_begin(&one, s->m, array, 0, 10, 1);
    gleaner_window_begin_writing(&other, s->m, array, 0, 10, 1);
}

static void loads_behind_a_cursor(struct stage *s)
{
    struct gleaner_cursor cursor;

    gleaner_cursor_begin(&cursor, s->m,
                         gleaner_allocate_array(s->m, s->list, 10,
                                                s->m->slot_bytes),
                         2, 1, s->m->slot_bytes);
    gleaner_cursor_load(&cursor, s->m);
    gleaner_cursor_load(&cursor, s->m);
}

static void stores_behind_a_cursor(struct stage *s)
{
    struct gleaner_cursor cursor;

    gleaner_cursor_begin_writing(&cursor, s->m,
                                 gleaner_allocate_array(s->m, s->list, 10,
                                                        s->m->slot_bytes),
                                 10, 0, s->m->slot_bytes);
    gleaner_cursor_store(&cursor, s->m, 0);
}

static void stores_through_a_cursor_that_reads(struct stage *s)
{
    struct gleaner_cursor cursor;

    gleaner_cursor_begin(&cursor, s->m,
                         gleaner_allocate_array(s->m, s->list, 10,
                                                s->m->slot_bytes),
                         2, 1, s->m->slot_bytes);
    gleaner_cursor_store(&cursor, s->m, 0);
}

static void loads_a_number_behind_a_cursor(struct stage *s)
{
    struct gleaner_cursor cursor;

    gleaner_cursor_begin(&cursor, s->m,
                         gleaner_allocate_array(s->m, s->bytes, 10, 1), 4, 0,
                         1);
    gleaner_cursor_load_u8(&cursor);
}

static void stores_a_number_behind_a_cursor(struct stage *s)
{
    struct gleaner_cursor cursor;

    gleaner_cursor_begin_writing(&cursor, s->m,
                                 gleaner_allocate_array(s->m, s->bytes, 10, 1),
                                 4, 0, 1);
    gleaner_cursor_store_u8(&cursor, 1);
}

static void lengthens_an_array(struct stage *s)
{
    gleaner_shrink(s->m, gleaner_allocate_array(s->m, s->bytes, 10, 1), 11);
}

static void shrinks_a_structure(struct stage *s)
{
    gleaner_shrink(s->m, gleaner_object(new_node(s, 1)), 0);
}

static void shrinks_in_a_window(struct stage *s)
{
    void *array = gleaner_allocate_array(s->m, s->bytes, 10, 1);

    begin_a_window(s);
    gleaner_shrink(s->m, array, 1);
}

/* A heap whose arrays are cut, in a blocking region of the other one. */
static gleaner_heap *other_heap(struct stage *s)
{
    struct gleaner_options options;

    gleaner_blocking_begin(s->m);
    memset(&options, 0, sizeof options);
    options.outside_layout = GLEANER_LAYOUT_FOLLOWED;
    options.limit = 2 << 20;
    options.ignore_environment = true;
    options.list = "arrays=zray,first-n=64,arraylet=256";
    return gleaner_heap_new(&options, NULL, 0);
}

static void stores_into_a_fresh_piece_in_a_window(struct stage *s)
{
    gleaner_heap *heap = other_heap(s);
    gleaner_mutator *m = gleaner_attach(heap);
    void *array
        = gleaner_allocate_array(m, gleaner_primitives(heap, 1), 1000, 1);
    struct gleaner_window window;

    gleaner_window_begin(&window, m, array, 0, 10, 1);
    gleaner_store_u8(m, array, 999, 1); /* what is in one piece */
    gleaner_store_u8(m, array, 100, 1);
}

static void attaches_with_code_for_other_arrays(struct stage *s)
{
    gleaner_attach_knowing(other_heap(s), 4096);
}

static void attaches_with_code_for_arrays_in_one_piece(struct stage *s)
{
    gleaner_attach_knowing(other_heap(s), SIZE_MAX);
}

static void accesses_with_code_for_other_arrays(struct stage *s)
{
    gleaner_mutator *m = gleaner_attach(other_heap(s));

    gleaner_cut_differently(m, 64); /* as they are */
    gleaner_cut_differently(m, 128);
}

static const struct mistake mistakes[] = {
    { "a copy of 6 elements at 5 of an array of 10", copies_beyond_the_end },
    { "which is no array", copies_no_array },
    { "a copy of elements for 0x0, where no object", copies_from_nothing },
    { "a copy of elements for 0x7, where no object", copies_to_an_integer },
    { "a comparison of elements for 0x0, where no object",
      compares_with_nothing },
    { "a comparison of elements for 0x", compares_an_object_of_the_stack },
    { "the address of elements for 0x0, where no object",
      asks_nothing_for_its_elements },
    { "a comparison of 3 elements at 8 of an array of 10",
      compares_beyond_the_end },
    { "a comparison of an array of references with one of numbers of 1 byte",
      compares_other_elements },
    { "1 element at 10 of an array of 10", loads_beyond_the_end },
    { "1 element at 4294967295 of an array of 10", stores_beyond_the_end },
    { "a collection inside a window", collects_in_a_window },
    { "a window for writing inside a window", writes_in_a_window },
    { "a blocking region inside a window", blocks_in_a_window },
    { "a question for totals inside a window", gets_totals_in_a_window },
    { "a poll inside a window", polls_in_a_window },
    { "an array of 10 elements cannot shrink to 11", lengthens_an_array },
    { "an object shrinks that has no length", shrinks_a_structure },
    { "an array shrinks inside a window", shrinks_in_a_window },
    { "a cursor goes on behind its range, which ends at 3",
      loads_behind_a_cursor },
    { "a cursor goes on behind its range, which ends at 10",
      stores_behind_a_cursor },
    { "a cursor goes on behind its range, which ends at 4",
      loads_a_number_behind_a_cursor },
    { "a cursor goes on behind its range, which ends at 4",
      stores_a_number_behind_a_cursor },
    { "a store through a cursor that only reads",
      stores_through_a_cursor_that_reads },
    { "a store into an array inside a window",
      stores_into_a_fresh_piece_in_a_window },
    { "compiled with GLEANER_FIRST_N 4096: set first-n=4096",
      attaches_with_code_for_other_arrays },
    { "compiled with GLEANER_ARRAYS_WHOLE: set arrays=contiguous",
      attaches_with_code_for_arrays_in_one_piece },
    { "compiled with GLEANER_FIRST_N 128", accesses_with_code_for_other_arrays },
};

static void each_mistake_has_a_message(bool compressed)
{
    expect_messages(mistakes, sizeof mistakes / sizeof *mistakes, compressed);
}

static void *array_of_slots(struct stage *s)
{
    return gleaner_allocate_array(s->m, s->list, 1000, s->m->slot_bytes);
}

static void stores_too_much(struct stage *s)
{
    void *node = gleaner_object(new_node(s, 1));

    gleaner_store(s->m, node, 8, gleaner_integer((int64_t)1 << 30));
}

static void stores_too_much_into_an_array(struct stage *s)
{
    gleaner_store_element(s->m, array_of_slots(s), 999,
                          gleaner_integer((int64_t)1 << 40));
}

static void fills_too_much_into_an_array(struct stage *s)
{
    gleaner_fill_elements(s->m, array_of_slots(s), 0, 1000,
                          gleaner_integer(-((int64_t)1 << 30) - 1));
}

/* Slots of 4 bytes have 31 bits for an integer, those of 8 bytes more. */
static void integers_that_no_slot_has_room_for_are_noticed(bool compressed)
{
    static const struct mistake wide[] = {
        { "the integer 1073741824 needs more than the 31 bits",
          stores_too_much },
        { "the integer 1099511627776 needs more than the 31 bits",
          stores_too_much_into_an_array },
        { "the integer -1073741825 needs more than the 31 bits",
          fills_too_much_into_an_array },
    };
    struct stage s = set_up(compressed, 2 << 20);
    void *array = array_of_slots(&s);
    size_t i;

    CHECK(gleaner_store_element(s.m, array, 999,
                                gleaner_integer(((int64_t)1 << 30) - 1)));
    CHECK(gleaner_number(gleaner_load_element(s.m, array, 999))
          == ((int64_t)1 << 30) - 1);
    for (i = 0; i < sizeof wide / sizeof *wide; i++) {
        struct made of = { &wide[i], &s };
        char said[8192];
        int status = said_by_child(make, &of, said, sizeof said);

        if (compressed)
            CHECK(WIFSIGNALED(status) && strstr(said, wide[i].message) != NULL);
        else
            CHECK(WIFEXITED(status) && said[0] == 0);
    }
    tear_down(&s);
}

int main(void)
{
    static const struct stage_case cases[] = {
        { "each mistake has a message", each_mistake_has_a_message },
        { "integers that no slot has room for are noticed",
          integers_that_no_slot_has_room_for_are_noticed },
    };

    return run_cases(cases, sizeof cases / sizeof *cases);
}
