/* Reads the values of a program from its text. */
#include "scheme.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gleaner_value read_value(struct reader *in, int depth);

/* The next character that is no blank, outside of comments; EOF at the end. */
static int peek(struct reader *in)
{
    while (in->at < in->end) {
        if (*in->at == ';')
            while (in->at < in->end && *in->at != '\n')
                in->at++;
        else if (isspace((unsigned char)*in->at))
            in->at++;
        else
            return (unsigned char)*in->at;
    }
    return EOF;
}

static gleaner_value read_list(struct reader *in, int depth)
{
    gleaner_value value;
    int next;

    GLEANER_FRAME(m, frame, 2); /* what was read, reversed; what ends it */
    while ((next = peek(in)) != ')' && next != '.') {
        value = read_value(in, depth + 1);
        frame.values[0] = cons(value, frame.values[0]);
    }
    if (next == '.') {
        in->at++;
        frame.values[1] = read_value(in, depth + 1);
    }
    if (peek(in) != ')')
        fail("more than one value behind a dot");
    in->at++;
    value = reverse_onto(frame.values[0], frame.values[1]);
    GLEANER_LEAVE(m, frame);
    return value;
}

static gleaner_value read_quoted(struct reader *in, int depth)
{
    gleaner_value value, quote;

    GLEANER_FRAME(m, frame, 1);
    value = read_value(in, depth + 1);
    frame.values[0] = cons(value, 0);
    quote = intern("quote", 5);
    value = cons(quote, frame.values[0]);
    GLEANER_LEAVE(m, frame);
    return value;
}

static gleaner_value read_string(struct reader *in)
{
    text_clear();
    for (;; in->at++) {
        if (in->at == in->end || (*in->at == '\\' && in->at + 1 == in->end))
            fail("the program ends inside a string");
        if (*in->at == '"')
            break;
        if (*in->at == '\\')
            in->at++;
        text_add(in->at[-1] == '\\' && *in->at == 'n' ? "\n" : in->at, 1);
    }
    in->at++;
    return string(scratch.bytes, scratch.length);
}

static gleaner_value read_atom(struct reader *in)
{
    const char *start = in->at;
    char *end;
    size_t length;
    long long number;

    while (in->at < in->end && !isspace((unsigned char)*in->at)
           && strchr("()'\";", *in->at) == NULL)
        in->at++;
    length = (size_t)(in->at - start);
    if (length == 2 && start[0] == '#' && (start[1] == 't' || start[1] == 'f'))
        return truth_of(start[1] == 't');
    text_clear();
    text_add(start, length);
    errno = 0;
    number = strtoll(scratch.bytes, &end, 10);
    if (*end == 0 && errno == 0)
        return integer(number);
    return intern(start, length);
}

static gleaner_value read_value(struct reader *in, int depth)
{
    check_depth(depth);
    switch (peek(in)) {
    case EOF:
        fail("the program ends inside a list");
    case ')':
        fail("a ) too many");
    case '(':
        in->at++;
        return read_list(in, depth);
    case '\'':
        in->at++;
        return read_quoted(in, depth);
    case '"':
        in->at++;
        return read_string(in);
    default:
        return read_atom(in);
    }
}

bool read_next(struct reader *in, gleaner_value *into)
{
    if (peek(in) == EOF)
        return false;
    *into = read_value(in, 0);
    return true;
}
