/* Turns what was read into what the machine runs: a list whose first element is
   the number of an op. A symbol that begins a derived form carries the number of
   its syntax, so that nothing is compared by name. */
#include "scheme.h"

#include <string.h>

static gleaner_value expand_form(gleaner_value form, int depth);

/* Counted from 1: a symbol that is no syntax has 0. */
enum syntax { NONE, QUOTE, IF, DEFINE, SET, LAMBDA, BEGIN, OR, AND, LET, COND };
static const char *const names[] = { "",       "quote", "if", "define",
                                     "set!",   "lambda", "begin", "or",
                                     "and",    "let",   "cond" };

void define_syntax(void)
{
    int i;

    for (i = QUOTE; i <= COND; i++)
        set(intern(names[i], strlen(names[i])), 3, gleaner_integer(i));
}

static gleaner_value put(enum op op, gleaner_value rest)
{
    return cons(gleaner_integer(op), rest);
}

/* An op before the expansions of all forms of a list. */
static gleaner_value all(enum op op, gleaner_value forms, int depth)
{
    gleaner_value form;

    GLEANER_FRAME(m, frame, 2);
    frame.values[0] = forms;
    while (take(&frame.values[0], &form)) {
        form = expand_form(form, depth + 1);
        frame.values[1] = cons(form, frame.values[1]);
    }
    if (frame.values[0] != 0)
        fail("a form is no list");
    form = reverse_onto(frame.values[1], 0);
    GLEANER_LEAVE(m, frame);
    return put(op, form);
}

/* The machine's OP_IF of what is expanded. */
static gleaner_value choice(gleaner_value test, gleaner_value then,
                            gleaner_value otherwise)
{
    gleaner_value list;

    GLEANER_FRAME(m, frame, 1);
    frame.values[0] = test;
    list = cons(then, otherwise);
    list = cons(frame.values[0], list);
    GLEANER_LEAVE(m, frame);
    return put(OP_IF, list);
}

/* (TEST THEN [ELSE]) */
static gleaner_value conditional(gleaner_value rest, int depth)
{
    gleaner_value made;
    int i;

    GLEANER_FRAME(m, frame, 3);
    frame.values[0] = car(rest);
    frame.values[1] = car(cdr(rest));
    rest = cdr(cdr(rest));
    frame.values[2] = is(rest, PAIR) ? car(rest) : roots[UNSPECIFIED];
    for (i = 0; i < 3; i++)
        frame.values[i] = expand_form(frame.values[i], depth + 1);
    made = choice(frame.values[0], frame.values[1], frame.values[2]);
    GLEANER_LEAVE(m, frame);
    return made;
}

/* (PARAMETERS . BODY) */
static gleaner_value lambda(gleaner_value rest, int depth)
{
    gleaner_value body;

    GLEANER_FRAME(m, frame, 1);
    frame.values[0] = car(rest);
    body = all(OP_BEGIN, cdr(rest), depth);
    body = cons(frame.values[0], get(body, 1));
    GLEANER_LEAVE(m, frame);
    return put(OP_LAMBDA, body);
}

/* (NAME FORM) */
static gleaner_value assignment(enum op op, gleaner_value rest, int depth)
{
    gleaner_value form;

    GLEANER_FRAME(m, frame, 1);
    frame.values[0] = car(rest);
    if (!is(frame.values[0], SYMBOL))
        fail("a variable is no symbol");
    form = expand_form(car(cdr(rest)), depth + 1);
    form = cons(frame.values[0], form);
    GLEANER_LEAVE(m, frame);
    return put(op, form);
}

/* (NAME FORM), or ((NAME . PARAMETERS) . BODY) */
static gleaner_value define(gleaner_value rest, int depth)
{
    gleaner_value function;

    if (!is(car(rest), PAIR))
        return assignment(OP_DEFINE, rest, depth);
    {
        GLEANER_FRAME(m, frame, 1);
        frame.values[0] = car(rest);
        function = cons(cdr(frame.values[0]), cdr(rest));
        function = lambda(function, depth);
        function = cons(car(frame.values[0]), function);
        GLEANER_LEAVE(m, frame);
    }
    return put(OP_DEFINE, function);
}

/* `and` of these forms: all but the last are tests of an OP_IF. */
static gleaner_value and_of(gleaner_value forms, int depth)
{
    gleaner_value made;

    check_depth(depth);
    if (!is(forms, PAIR))
        return roots[TRUTH];
    GLEANER_FRAME(m, frame, 2);
    frame.values[0] = cdr(forms);
    made = frame.values[1] = expand_form(car(forms), depth + 1);
    if (frame.values[0] != 0) {
        made = and_of(frame.values[0], depth + 1);
        made = choice(frame.values[1], made, roots[FALSITY]);
    }
    GLEANER_LEAVE(m, frame);
    return made;
}

static bool is_else(gleaner_value test)
{
    return is(test, SYMBOL) && is_spelled(get(test, 0), "else", 4);
}

/* The clauses of a `cond`. */
static gleaner_value clauses(gleaner_value list, int depth)
{
    gleaner_value made;

    check_depth(depth);
    if (!is(list, PAIR))
        return roots[UNSPECIFIED];
    if (is_else(car(car(list))))
        return all(OP_BEGIN, cdr(car(list)), depth);
    GLEANER_FRAME(m, frame, 3); /* the forms of a clause, its test, the rest */
    frame.values[0] = cdr(car(list));
    frame.values[1] = car(car(list));
    frame.values[2] = cdr(list);
    frame.values[1] = expand_form(frame.values[1], depth + 1);
    frame.values[2] = clauses(frame.values[2], depth + 1);
    if (frame.values[0] == 0) {
        made = cons(frame.values[2], 0);
        made = cons(frame.values[1], made);
        made = put(OP_OR, made);
    } else {
        made = all(OP_BEGIN, frame.values[0], depth);
        made = choice(frame.values[1], made, frame.values[2]);
    }
    GLEANER_LEAVE(m, frame);
    return made;
}

/* A call of (lambda () (define NAME FUNCTION) NAME). */
static gleaner_value bind_loop(gleaner_value name, gleaner_value function)
{
    gleaner_value made;

    GLEANER_FRAME(m, frame, 2);
    frame.values[0] = name;
    made = cons(name, function);
    frame.values[1] = put(OP_DEFINE, made);
    made = cons(frame.values[0], 0);
    made = cons(frame.values[1], made);
    made = cons(0, made);
    made = put(OP_LAMBDA, made);
    GLEANER_LEAVE(m, frame);
    made = cons(made, 0);
    return put(OP_CALL, made);
}

/* (((NAME FORM) ...) . BODY): a call of a lambda. (LOOP ((NAME FORM) ...) .
   BODY): the same, and the lambda is bound to LOOP. */
static gleaner_value bindings(gleaner_value rest, int depth)
{
    gleaner_value binding, function;
    /* What is bound, reversed; names; forms; LOOP; the body. */
    enum { REVERSED, NAMES, FORMS, LOOP, BODY, COUNT };

    GLEANER_FRAME(m, frame, COUNT);
    if (is(car(rest), SYMBOL)) {
        frame.values[LOOP] = car(rest);
        rest = cdr(rest);
    }
    frame.values[BODY] = cdr(rest);
    frame.values[REVERSED] = reverse_onto(car(rest), 0);
    while (take(&frame.values[REVERSED], &binding)) {
        gleaner_value form = car(cdr(binding));
        GLEANER_FRAME(m, inner, 1);

        inner.values[0] = form;
        frame.values[NAMES] = cons(car(binding), frame.values[NAMES]);
        frame.values[FORMS] = cons(inner.values[0], frame.values[FORMS]);
        GLEANER_LEAVE(m, inner);
    }
    function = cons(frame.values[NAMES], frame.values[BODY]);
    function = lambda(function, depth);
    if (frame.values[LOOP] != 0)
        function = bind_loop(frame.values[LOOP], function);
    frame.values[BODY] = function;
    rest = all(OP_CALL, frame.values[FORMS], depth);
    rest = cons(frame.values[BODY], get(rest, 1));
    GLEANER_LEAVE(m, frame);
    return put(OP_CALL, rest);
}

static gleaner_value expand_form(gleaner_value form, int depth)
{
    gleaner_value head, rest;

    check_depth(depth);
    if (!is(form, PAIR))
        return form;
    head = car(form);
    rest = cdr(form);
    switch (is(head, SYMBOL) ? gleaner_number(get(head, 3)) : NONE) {
    case QUOTE:
        return put(OP_QUOTE, car(rest));
    case IF:
        return conditional(rest, depth);
    case DEFINE:
        return define(rest, depth);
    case SET:
        return assignment(OP_SET, rest, depth);
    case LAMBDA:
        return lambda(rest, depth);
    case BEGIN:
        return all(OP_BEGIN, rest, depth);
    case OR:
        return all(OP_OR, rest, depth);
    case AND:
        return and_of(rest, depth);
    case LET:
        return bindings(rest, depth);
    case COND:
        return clauses(rest, depth);
    default:
        return all(OP_CALL, form, depth);
    }
}

gleaner_value expand(gleaner_value form)
{
    return expand_form(form, 0);
}
