/* The values of the Scheme: how they are made, told apart and shared. `()` is
   null, a small integer is itself, and everything else is an object. */
#define _GNU_SOURCE
#include "scheme.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Thread_local gleaner_mutator *m;
_Thread_local gleaner_value *roots;
_Thread_local struct catch *catching;
_Thread_local char *message;
_Thread_local struct text scratch;

static gleaner_type types[KINDS];
/* An array of what all threads share. */
static gleaner_handle *shared;

/* How many slots the objects of a kind have. */
static const size_t slot_counts[]
    = { [PAIR] = 2,        [SYMBOL] = 4,       [WIDE_INTEGER] = 0,
        [CLOSURE] = 3,     [PRIMITIVE] = 1,    [STACK_FRAME] = MOST_SLOTS,
        [CONTINUATION] = 1, [CONSTANT] = 1,    [THREAD] = 3,
        [WEAK_TABLE] = 1 };

/* ---- errors -------------------------------------------------------------- */

void begin_catch(struct catch *here)
{
    here->frames = m->frames;
    here->outer = catching;
    catching = here;
}

void end_catch(struct catch *here)
{
    m->frames = here->frames;
    catching = here->outer;
}

void fail(const char *format, ...)
{
    char *said;
    va_list parts;

    va_start(parts, format);
    if (vasprintf(&said, format, parts) < 0)
        abort();
    va_end(parts);
    free(message);
    message = said;
    m->frames = catching->frames;
    longjmp(catching->where, 1);
}

void check_depth(int depth)
{
    if (depth > DEEPEST)
        fail("lists are nested too deeply");
}

/* ---- objects ------------------------------------------------------------- */

static size_t slot_at(size_t slot)
{
    return 8 + slot * m->slot_bytes;
}

/* The bytes of an object: the least is 16. */
static size_t bytes_of(enum kind kind)
{
    size_t bytes = slot_at(slot_counts[kind]);

    return bytes < 16 ? 16 : bytes;
}

void make_types(gleaner_heap *heap)
{
    uint32_t offsets[MOST_SLOTS];
    size_t i;
    int kind;
    char said[200] = "no more types";

    for (i = 0; i < MOST_SLOTS; i++)
        offsets[i] = (uint32_t)slot_at(i);
    for (kind = PAIR; kind < STRING; kind++)
        types[kind] = gleaner_structure(heap, bytes_of((enum kind)kind), offsets,
                                        slot_counts[kind], said, sizeof said);
    types[STRING] = gleaner_primitives(heap, 1);
    types[VECTOR] = gleaner_references(heap);
    for (kind = 0; kind < KINDS; kind++)
        if (types[kind] == 0)
            fail("%s", said);
}

bool is(gleaner_value value, enum kind kind)
{
    void *object = gleaner_object(value);

    return object != NULL && gleaner_type_of(object) == types[kind];
}

gleaner_value get(gleaner_value object, size_t slot)
{
    return gleaner_load(m, gleaner_object(object), slot_at(slot));
}

void set(gleaner_value object, size_t slot, gleaner_value value)
{
    gleaner_store(m, gleaner_object(object), slot_at(slot), value);
}

gleaner_value make(enum kind kind, const gleaner_value *fields)
{
    size_t i, count = slot_counts[kind];
    void *object;

    GLEANER_FRAME(m, frame, MOST_SLOTS);
    for (i = 0; i < count; i++)
        frame.values[i] = fields[i];
    object = gleaner_allocate(m, types[kind], bytes_of(kind));
    if (object == NULL)
        fail("out of memory");
    for (i = 0; i < count; i++) /* fresh: no barrier */
        gleaner_initialize(m, object, slot_at(i), frame.values[i]);
    GLEANER_LEAVE(m, frame);
    return gleaner_reference(object);
}

gleaner_value make_array(enum kind kind, uint32_t length)
{
    size_t element = kind == STRING ? 1 : m->slot_bytes;
    void *made = gleaner_allocate_array(m, types[kind], length, element);

    if (made == NULL)
        fail("out of memory");
    return gleaner_reference(made);
}

/* ---- pairs --------------------------------------------------------------- */

gleaner_value cons(gleaner_value car, gleaner_value cdr)
{
    const gleaner_value fields[] = { car, cdr };

    return make(PAIR, fields);
}

gleaner_value car(gleaner_value pair)
{
    if (!is(pair, PAIR))
        fail("car of what is no pair");
    return get(pair, 0);
}

gleaner_value cdr(gleaner_value pair)
{
    if (!is(pair, PAIR))
        fail("cdr of what is no pair");
    return get(pair, 1);
}

bool take(gleaner_value *list, gleaner_value *first)
{
    if (!is(*list, PAIR))
        return false;
    *first = get(*list, 0);
    *list = get(*list, 1);
    return true;
}

gleaner_value reverse_onto(gleaner_value list, gleaner_value rest)
{
    gleaner_value first;

    GLEANER_FRAME(m, frame, 1);
    frame.values[0] = list;
    while (take(&frame.values[0], &first))
        rest = cons(first, rest);
    GLEANER_LEAVE(m, frame);
    return rest;
}

/* ---- numbers ------------------------------------------------------------- */

gleaner_value truth_of(bool holds)
{
    return roots[holds ? TRUTH : FALSITY];
}

/* Integers have 64 bits, whatever a slot of this heap holds. */
gleaner_value integer(int64_t number)
{
    gleaner_value made = gleaner_integer(number);
    bool fits = gleaner_number(made) == number
                && (m->slot_bytes == 8 || (int64_t)made == (int32_t)made);

    if (fits)
        return made;
    made = make(WIDE_INTEGER, NULL);
    memcpy((char *)gleaner_object(made) + 8, &number, sizeof number);
    return made;
}

bool as_integer(gleaner_value value, int64_t *number)
{
    if (is(value, WIDE_INTEGER)) {
        memcpy(number, (char *)gleaner_object(value) + 8, sizeof *number);
        return true;
    }
    *number = gleaner_number(value);
    return gleaner_is_integer(value);
}

/* ---- strings and symbols ------------------------------------------------- */

gleaner_value string_if_room(const char *text, size_t length)
{
    void *made = gleaner_allocate_array_initialized(m, types[STRING],
                                                    (uint32_t)length, 1);

    if (made != NULL)
        gleaner_initialize_u8(m, made, 0, (const uint8_t *)text,
                              (uint32_t)length);
    return gleaner_reference(made);
}

gleaner_value string(const char *text, size_t length)
{
    gleaner_value made = string_if_room(text, length);

    if (made == 0)
        fail("out of memory");
    return made;
}

bool is_spelled(gleaner_value characters, const char *text, size_t length)
{
    void *array = gleaner_object(characters);
    struct gleaner_window window;
    const void *bytes;
    bool same;

    if (gleaner_length(array) != length)
        return false;
    bytes = gleaner_window_begin(&window, m, array, 0, (uint32_t)length, 1);
    if (bytes == NULL)
        fail("out of memory");
    same = memcmp(bytes, text, length) == 0;
    gleaner_window_end(&window, m);
    return same;
}

#define BUCKETS 256

/* Each symbol is made once, also if two threads want it at the same time. */
gleaner_value intern(const char *name, size_t length)
{
    gleaner_value first, found;
    enum gleaner_swapped swapped;
    uint32_t bucket = 5381;
    size_t i;

    for (i = 0; i < length; i++)
        bucket = bucket * 33 ^ (unsigned char)name[i];
    bucket %= BUCKETS;
    do {
        first = gleaner_load_element(m, gleaner_object(roots[SYMBOLS]), bucket);
        for (found = first; found != 0; found = get(found, 2))
            if (is_spelled(get(found, 0), name, length))
                return found;
        {
            GLEANER_FRAME(m, frame, 1);
            frame.values[0] = first;
            found = string(name, length);
            found = make(SYMBOL,
                         (gleaner_value[]){ found, roots[UNBOUND],
                                            frame.values[0],
                                            gleaner_integer(0) });
            first = frame.values[0];
            frame.values[0] = found;
            /* If another thread was faster, the chain is searched again. */
            swapped = gleaner_swap_element(m, gleaner_object(roots[SYMBOLS]),
                                           bucket, &first, found);
            found = frame.values[0];
            GLEANER_LEAVE(m, frame);
        }
        if (swapped == GLEANER_SWAP_FULL)
            fail("out of memory");
    } while (swapped != GLEANER_SWAPPED);
    return found;
}

/* ---- what all threads share ---------------------------------------------- */

void make_shared(void)
{
    int i;
    gleaner_value array;

    for (i = TRUTH; i < SYMBOLS; i++)
        roots[i] = make(CONSTANT, (gleaner_value[]){ gleaner_integer(i) });
    roots[SYMBOLS] = make_array(VECTOR, BUCKETS);
    array = make_array(VECTOR, SHARED);
    {
        GLEANER_FRAME(m, frame, 1);
        frame.values[0] = array;
        for (i = 0; i < SHARED; i++)
            if (!gleaner_store_element(m, gleaner_object(frame.values[0]),
                                       (uint32_t)i, roots[i]))
                fail("out of memory");
        shared = gleaner_handle_new(m, frame.values[0]);
        GLEANER_LEAVE(m, frame);
    }
    if (shared == NULL)
        fail("no room for a handle");
}

void use_roots(gleaner_value *values)
{
    int i;
    void *array = shared == NULL ? NULL
                                 : gleaner_object(gleaner_handle_get(shared));

    roots = values;
    for (i = 0; array != NULL && i < SHARED; i++)
        roots[i] = gleaner_load_element(m, array, (uint32_t)i);
}

void free_shared(void)
{
    gleaner_handle_free(shared);
}
