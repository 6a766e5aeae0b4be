/* Texts, and the text of a value as `display` writes it. */
#include "scheme.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void show_at(gleaner_value value, int depth);

void text_clear(void)
{
    scratch.length = 0;
    text_add("", 0);
}

static char *text_room(size_t length)
{
    size_t needed = scratch.length + length + 1;

    if (scratch.room < needed) {
        scratch.room = 2 * needed;
        scratch.bytes = realloc(scratch.bytes, scratch.room);
        if (scratch.bytes == NULL)
            abort();
    }
    scratch.bytes[needed - 1] = 0;
    scratch.length += length;
    return scratch.bytes + needed - 1 - length;
}

void text_add(const char *bytes, size_t length)
{
    memcpy(text_room(length), bytes, length);
}

void text_add_characters(gleaner_value characters)
{
    void *array = gleaner_object(characters);
    uint32_t length = gleaner_length(array);

    gleaner_read_u8(m, array, 0, (uint8_t *)text_room(length), length);
}

static void say(const char *text)
{
    text_add(text, strlen(text));
}

/* Nothing here allocates in the heap: plain variables remain valid. */
static void show_list(gleaner_value list, int depth)
{
    const char *before = "(";
    gleaner_value part;

    while (take(&list, &part)) {
        say(before);
        show_at(part, depth + 1);
        before = " ";
    }
    if (list != 0) {
        say(" . ");
        show_at(list, depth + 1);
    }
    say(")");
}

static void show_vector(gleaner_value vector, int depth)
{
    void *array = gleaner_object(vector);
    uint32_t i;

    say("#(");
    for (i = 0; i < gleaner_length(array); i++) {
        if (i > 0)
            say(" ");
        show_at(gleaner_load_element(m, array, i), depth + 1);
    }
    say(")");
}

static void show_at(gleaner_value value, int depth)
{
    int64_t number;
    char digits[24];

    check_depth(depth);
    if (as_integer(value, &number)) {
        snprintf(digits, sizeof digits, "%" PRId64, number);
        say(digits);
    } else if (value == 0)
        say("()");
    else if (is(value, STRING))
        text_add_characters(value);
    else if (is(value, SYMBOL))
        text_add_characters(get(value, 0));
    else if (is(value, PAIR))
        show_list(value, depth);
    else if (is(value, VECTOR))
        show_vector(value, depth);
    else if (value == roots[TRUTH])
        say("#t");
    else if (value == roots[FALSITY])
        say("#f");
    else if (is(value, THREAD))
        say("#<thread>");
    else if (is(value, WEAK_TABLE))
        say("#<weak-table>");
    else
        say(is(value, CONSTANT) ? "#<unspecified>" : "#<procedure>");
}

void show(gleaner_value value)
{
    show_at(value, 0);
}
