/* The procedures that the program finds defined. */
#include "scheme.h"

#include <stdio.h>
#include <string.h>

/* ---- arguments ----------------------------------------------------------- */

gleaner_value argument(size_t index)
{
    gleaner_value list = roots[ARGUMENTS];

    while (index-- > 0)
        list = get(list, 1);
    return get(list, 0);
}

size_t argument_count(void)
{
    gleaner_value list = roots[ARGUMENTS], first;
    size_t count = 0;

    while (take(&list, &first))
        count++;
    return count;
}

static int64_t number_of(gleaner_value value)
{
    int64_t number;

    if (!as_integer(value, &number))
        fail("arithmetic on what is no number");
    return number;
}

/* A number that is not negative, and less than `end`. */
static uint32_t index_of(gleaner_value value, uint64_t end)
{
    int64_t number = number_of(value);

    if (number < 0 || (uint64_t)number >= end)
        fail("an index is out of range");
    return (uint32_t)number;
}

static void *string_of(gleaner_value value)
{
    if (!is(value, STRING))
        fail("what should be a string is none");
    return gleaner_object(value);
}

static void *vector_of(gleaner_value value)
{
    if (!is(value, VECTOR))
        fail("what should be a vector is none");
    return gleaner_object(value);
}

/* ---- numbers ------------------------------------------------------------- */

static gleaner_value checked(bool overflows, int64_t number)
{
    if (overflows)
        fail("a number is too large");
    return integer(number);
}

static gleaner_value add(void)
{
    gleaner_value list = roots[ARGUMENTS], value;
    int64_t sum = 0;
    bool overflows = false;

    while (take(&list, &value))
        overflows |= __builtin_add_overflow(sum, number_of(value), &sum);
    return checked(overflows, sum);
}

static gleaner_value multiply(void)
{
    gleaner_value list = roots[ARGUMENTS], value;
    int64_t product = 1;
    bool overflows = false;

    while (take(&list, &value))
        overflows |= __builtin_mul_overflow(product, number_of(value), &product);
    return checked(overflows, product);
}

static gleaner_value subtract(void)
{
    bool is_negation = argument_count() == 1;
    int64_t first = number_of(argument(0)), difference;
    int64_t second = is_negation ? first : number_of(argument(1));
    bool overflows = __builtin_sub_overflow(is_negation ? 0 : first, second,
                                            &difference);

    return checked(overflows, difference);
}

/* The divisor of two numbers; INT64_MIN / -1 does not fit. */
static int64_t divisor(int64_t one)
{
    int64_t other = number_of(argument(1));

    if (other == 0)
        fail("a division by zero");
    if (one == INT64_MIN && other == -1)
        fail("a number is too large");
    return other;
}

static gleaner_value quotient(void)
{
    int64_t one = number_of(argument(0));

    return integer(one / divisor(one));
}

static gleaner_value modulo(void)
{
    int64_t one = number_of(argument(0));

    return integer(one % divisor(one));
}

static gleaner_value is_equal(void)
{
    int64_t one = number_of(argument(0));

    return truth_of(one == number_of(argument(1)));
}

static gleaner_value is_less(void)
{
    int64_t one = number_of(argument(0));

    return truth_of(one < number_of(argument(1)));
}

/* ---- pairs, and what a value is ------------------------------------------ */

static gleaner_value is_same(void)
{
    return truth_of(argument(0) == argument(1));
}

static gleaner_value new_pair(void)
{
    return cons(argument(0), argument(1));
}

static gleaner_value first(void)
{
    return car(argument(0));
}

static gleaner_value rest(void)
{
    return cdr(argument(0));
}

static gleaner_value is_null(void)
{
    return truth_of(argument(0) == 0);
}

static gleaner_value is_number(void)
{
    int64_t number;

    return truth_of(as_integer(argument(0), &number));
}

static gleaner_value is_pair(void)
{
    return truth_of(is(argument(0), PAIR));
}

static gleaner_value is_symbol(void)
{
    return truth_of(is(argument(0), SYMBOL));
}

static gleaner_value is_string(void)
{
    return truth_of(is(argument(0), STRING));
}

/* ---- strings ------------------------------------------------------------- */

/* Copies characters; the answer is where `to` is now, since a store may
   collect. */
static gleaner_value copy(gleaner_value from, uint32_t start, gleaner_value to,
                          uint32_t at, uint32_t count)
{
    bool is_done;

    GLEANER_FRAME(m, frame, 1);
    frame.values[0] = to;
    is_done = gleaner_copy_elements(m, gleaner_object(from), start,
                                    gleaner_object(to), at, count);
    to = frame.values[0];
    GLEANER_LEAVE(m, frame);
    if (!is_done)
        fail("out of memory");
    return to;
}

static gleaner_value string_append(void)
{
    gleaner_value list = roots[ARGUMENTS], part, made;
    uint64_t length = 0;
    uint32_t end = 0, count;

    while (take(&list, &part))
        length += gleaner_length(string_of(part));
    if (length > UINT32_MAX)
        fail("a string is too long");
    made = make_array(STRING, (uint32_t)length);
    GLEANER_FRAME(m, frame, 1);
    frame.values[0] = roots[ARGUMENTS];
    while (take(&frame.values[0], &part)) {
        count = gleaner_length(gleaner_object(part));
        made = copy(part, 0, made, end, count);
        end += count;
    }
    GLEANER_LEAVE(m, frame);
    return made;
}

static gleaner_value string_length(void)
{
    return integer(gleaner_length(string_of(argument(0))));
}

static gleaner_value substring(void)
{
    uint32_t length = gleaner_length(string_of(argument(0)));
    uint32_t end = index_of(argument(2), (uint64_t)length + 1);
    uint32_t start = index_of(argument(1), (uint64_t)end + 1);
    gleaner_value made = make_array(STRING, end - start);

    return copy(argument(0), start, made, 0, end - start);
}

static gleaner_value is_same_string(void)
{
    void *one = string_of(argument(0)), *other = string_of(argument(1));
    uint32_t length = gleaner_length(one);

    return truth_of(length == gleaner_length(other)
                    && gleaner_compare_elements(m, one, 0, other, 0, length)
                           == length);
}

static gleaner_value number_to_string(void)
{
    number_of(argument(0));
    text_clear();
    show(argument(0));
    return string(scratch.bytes, scratch.length);
}

static gleaner_value string_to_symbol(void)
{
    string_of(argument(0));
    text_clear();
    text_add_characters(argument(0));
    return intern(scratch.bytes, scratch.length);
}

/* ---- vectors ------------------------------------------------------------- */

static gleaner_value make_vector(void)
{
    uint32_t length = index_of(argument(0), UINT32_MAX);
    gleaner_value made = make_array(VECTOR, length);
    bool is_filled;

    GLEANER_FRAME(m, frame, 1);
    frame.values[0] = made;
    is_filled = gleaner_fill_elements(m, gleaner_object(made), 0, length,
                                      argument(1));
    made = frame.values[0];
    GLEANER_LEAVE(m, frame);
    if (!is_filled)
        fail("out of memory");
    return made;
}

static gleaner_value vector_length(void)
{
    return integer(gleaner_length(vector_of(argument(0))));
}

/* The index of an element of the vector that is the first argument. */
static uint32_t element(void)
{
    return index_of(argument(1), gleaner_length(vector_of(argument(0))));
}

static gleaner_value vector_ref(void)
{
    uint32_t index = element();

    return gleaner_load_element(m, gleaner_object(argument(0)), index);
}

static gleaner_value vector_set(void)
{
    uint32_t index = element();

    if (!gleaner_store_element(m, gleaner_object(argument(0)), index,
                               argument(2)))
        fail("out of memory");
    return roots[UNSPECIFIED];
}

/* (vector-swap! VECTOR INDEX OLD NEW): stores NEW if OLD is there, in one step;
   whether it did. */
static gleaner_value vector_swap(void)
{
    uint32_t index = element();
    gleaner_value old = argument(2);
    enum gleaner_swapped swapped = gleaner_swap_element(
        m, gleaner_object(argument(0)), index, &old, argument(3));

    if (swapped == GLEANER_SWAP_FULL)
        fail("out of memory");
    return truth_of(swapped == GLEANER_SWAPPED);
}

/* ---- the rest ------------------------------------------------------------ */

static gleaner_value display(void)
{
    text_clear();
    show(argument(0));
    /* The holder of the lock of standard output neither allocates nor polls. */
    fwrite(scratch.bytes, 1, scratch.length, stdout);
    return roots[UNSPECIFIED];
}

static gleaner_value error(void)
{
    gleaner_value list = roots[ARGUMENTS], part;

    text_clear();
    while (take(&list, &part)) {
        if (scratch.length > 0)
            text_add(" ", 1);
        show(part);
    }
    fail("%s", scratch.bytes);
}

static gleaner_value collect(void)
{
    gleaner_collect(m, true);
    return roots[UNSPECIFIED];
}

#define ANY SIZE_MAX

const struct primitive primitives[] = {
    { "+", 0, ANY, add, COMPUTES },
    { "*", 0, ANY, multiply, COMPUTES },
    { "-", 1, 2, subtract, COMPUTES },
    { "quotient", 2, 2, quotient, COMPUTES },
    { "remainder", 2, 2, modulo, COMPUTES },
    { "=", 2, 2, is_equal, COMPUTES },
    { "<", 2, 2, is_less, COMPUTES },
    { "eq?", 2, 2, is_same, COMPUTES },
    { "cons", 2, 2, new_pair, COMPUTES },
    { "car", 1, 1, first, COMPUTES },
    { "cdr", 1, 1, rest, COMPUTES },
    { "null?", 1, 1, is_null, COMPUTES },
    { "number?", 1, 1, is_number, COMPUTES },
    { "pair?", 1, 1, is_pair, COMPUTES },
    { "symbol?", 1, 1, is_symbol, COMPUTES },
    { "string?", 1, 1, is_string, COMPUTES },
    { "string-append", 0, ANY, string_append, COMPUTES },
    { "string-length", 1, 1, string_length, COMPUTES },
    { "substring", 3, 3, substring, COMPUTES },
    { "string=?", 2, 2, is_same_string, COMPUTES },
    { "number->string", 1, 1, number_to_string, COMPUTES },
    { "string->symbol", 1, 1, string_to_symbol, COMPUTES },
    { "make-vector", 2, 2, make_vector, COMPUTES },
    { "vector-length", 1, 1, vector_length, COMPUTES },
    { "vector-ref", 2, 2, vector_ref, COMPUTES },
    { "vector-set!", 3, 3, vector_set, COMPUTES },
    { "vector-swap!", 4, 4, vector_swap, COMPUTES },
    { "display", 1, 1, display, COMPUTES },
    { "error", 1, ANY, error, COMPUTES },
    { "collect", 0, 0, collect, COMPUTES },
    { "call/cc", 1, 1, NULL, CALL_WITH_CONTINUATION },
    { "try", 2, 2, NULL, TRY },
    { "spawn", 1, 1, spawn, COMPUTES },
    { "join", 1, 1, join, COMPUTES },
    { "make-weak-table", 0, 0, make_weak_table, COMPUTES },
    { "weak-table", 2, 4, weak_table, COMPUTES },
};

void define_primitives(void)
{
    size_t i;
    gleaner_value made;

    for (i = 0; i < sizeof primitives / sizeof *primitives; i++) {
        GLEANER_FRAME(m, frame, 1);
        frame.values[0] = intern(primitives[i].name,
                                 strlen(primitives[i].name));
        made = make(PRIMITIVE,
                    (gleaner_value[]){ gleaner_integer((int64_t)i) });
        set(frame.values[0], 1, made);
        GLEANER_LEAVE(m, frame);
    }
}
