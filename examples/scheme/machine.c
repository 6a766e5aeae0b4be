/* The machine that runs expanded forms: registers in roots, and its stack as
   frames in the heap. So a tail call pushes nothing, a continuation is a frame
   that somebody keeps, and a recursion that is too deep fills the heap: that is
   an error which the program may handle, as any other. */
#include "scheme.h"

#include <stdio.h>
#include <string.h>

/* What a frame does with the value that it is given. */
enum frame_kind {
    CHOOSE,   /* chooses from (THEN . ELSE) */
    SEQUENCE, /* goes on with the forms of a body */
    DEFINE,   /* binds a name */
    SET,      /* changes the value of a name */
    OR,       /* goes on with the forms of an `or`, unless the value is true */
    CALL,     /* goes on with the operands of a call; two: values, reversed */
    HANDLER   /* passes the value on; an error calls the handler */
};

/* What the machine does next. */
enum step { EVALUATE, APPLY, RETURN, STOP };

/* ---- frames -------------------------------------------------------------- */

static void push(enum frame_kind kind, gleaner_value one, gleaner_value two)
{
    roots[STACK] = make(STACK_FRAME,
                        (gleaner_value[]){ gleaner_integer(kind), one, two,
                                           roots[ENVIRONMENT], roots[STACK] });
}

static enum frame_kind pop(gleaner_value *one, gleaner_value *two)
{
    gleaner_value frame = roots[STACK];

    *one = get(frame, 1);
    *two = get(frame, 2);
    roots[ENVIRONMENT] = get(frame, 3);
    roots[STACK] = get(frame, 4);
    return (enum frame_kind)gleaner_number(get(frame, 0));
}

/* Drops frames down to the newest handler, whose call comes next. Without one
   the error is the caller's. */
static enum step handle(void)
{
    gleaner_value handler, nothing;

    do {
        if (roots[STACK] == 0) {
            catching = catching->outer;
            fail("%s", message);
        }
    } while (pop(&handler, &nothing) != HANDLER);
    roots[FORM] = roots[VALUE] = roots[ARGUMENTS] = 0;
    roots[FUNCTION] = handler;
    roots[ARGUMENTS] = string(message, strlen(message));
    roots[ARGUMENTS] = cons(roots[ARGUMENTS], 0);
    return APPLY;
}

/* ---- forms --------------------------------------------------------------- */

/* Evaluates a form, for a frame of that kind and operand. */
static enum step evaluate_for(enum frame_kind kind, gleaner_value form,
                              gleaner_value operand)
{
    roots[FORM] = form;
    push(kind, operand, 0);
    return EVALUATE;
}

/* Evaluates forms in their order. The last one is in the place of a tail:
   nothing is pushed for it. */
static enum step first_of(enum frame_kind kind, gleaner_value forms,
                          gleaner_value otherwise)
{
    if (forms == 0) {
        roots[VALUE] = otherwise;
        return RETURN;
    }
    if (get(forms, 1) != 0)
        return evaluate_for(kind, get(forms, 0), get(forms, 1));
    roots[FORM] = get(forms, 0);
    return EVALUATE;
}

/* Evaluates the next operand of a call. When there is none left, `values` has
   them, the last one first. */
static enum step operand(gleaner_value operands, gleaner_value values)
{
    if (operands != 0) {
        roots[FORM] = get(operands, 0);
        push(CALL, get(operands, 1), values);
        return EVALUATE;
    }
    roots[ARGUMENTS] = reverse_onto(values, 0);
    if (!take(&roots[ARGUMENTS], &roots[FUNCTION]))
        fail("a call of nothing");
    return APPLY;
}

/* The binding of a name; 0 if only a global variable may have that name. */
static gleaner_value find(gleaner_value name)
{
    gleaner_value ribs = roots[ENVIRONMENT], bindings, binding;

    while (take(&ribs, &bindings))
        while (take(&bindings, &binding))
            if (get(binding, 0) == name)
                return binding;
    return 0;
}

/* Where the value of a name is: a binding, or the symbol itself. */
static gleaner_value place_of(gleaner_value name)
{
    gleaner_value binding = find(name), place = binding != 0 ? binding : name;

    if (get(place, 1) == roots[UNBOUND]) {
        text_clear();
        show(name);
        fail("%s has no value", scratch.bytes);
    }
    return place;
}

static enum step evaluate_form(void)
{
    gleaner_value form = roots[FORM], rest;

    if (is(form, SYMBOL)) {
        roots[VALUE] = get(place_of(form), 1);
        return RETURN;
    }
    if (!is(form, PAIR)) {
        roots[VALUE] = form;
        return RETURN;
    }
    rest = get(form, 1);
    switch ((enum op)gleaner_number(get(form, 0))) {
    case OP_QUOTE:
        roots[VALUE] = rest;
        return RETURN;
    case OP_IF:
        return evaluate_for(CHOOSE, get(rest, 0), get(rest, 1));
    case OP_DEFINE:
        return evaluate_for(DEFINE, get(rest, 1), get(rest, 0));
    case OP_SET:
        return evaluate_for(SET, get(rest, 1), get(rest, 0));
    case OP_LAMBDA:
        roots[VALUE] = make(CLOSURE,
                            (gleaner_value[]){ get(rest, 0), get(rest, 1),
                                               roots[ENVIRONMENT] });
        return RETURN;
    case OP_BEGIN:
        return first_of(SEQUENCE, rest, roots[UNSPECIFIED]);
    case OP_OR:
        return first_of(OR, rest, roots[FALSITY]);
    default:
        return operand(rest, 0);
    }
}

static enum step define(gleaner_value name)
{
    gleaner_value binding;

    if (roots[ENVIRONMENT] == 0) {
        set(name, 1, roots[VALUE]);
    } else {
        binding = cons(name, roots[VALUE]);
        binding = cons(binding, get(roots[ENVIRONMENT], 0));
        set(roots[ENVIRONMENT], 0, binding);
    }
    roots[VALUE] = roots[UNSPECIFIED];
    return RETURN;
}

static enum step resume(void)
{
    gleaner_value one, two;

    if (roots[STACK] == 0)
        return STOP;
    switch (pop(&one, &two)) {
    case CHOOSE:
        roots[FORM] = get(one, roots[VALUE] == roots[FALSITY]);
        return EVALUATE;
    case SEQUENCE:
        return first_of(SEQUENCE, one, roots[UNSPECIFIED]);
    case DEFINE:
        return define(one);
    case SET:
        set(place_of(one), 1, roots[VALUE]);
        roots[VALUE] = roots[UNSPECIFIED];
        return RETURN;
    case OR:
        return roots[VALUE] != roots[FALSITY]
                   ? RETURN
                   : first_of(OR, one, roots[FALSITY]);
    case CALL: {
        GLEANER_FRAME(m, frame, 1);
        frame.values[0] = one;
        two = cons(roots[VALUE], two);
        one = frame.values[0];
        GLEANER_LEAVE(m, frame);
        return operand(one, two);
    }
    default:
        return RETURN;
    }
}

/* ---- calls --------------------------------------------------------------- */

/* The environment becomes that of the closure, with a rib for its
   parameters. */
static void bind(void)
{
    gleaner_value name, value;
    enum { PARAMETERS, REST, RIB, COUNT };

    GLEANER_FRAME(m, frame, COUNT);
    frame.values[PARAMETERS] = get(roots[FUNCTION], 0);
    frame.values[REST] = roots[ARGUMENTS];
    while (take(&frame.values[PARAMETERS], &name)) {
        if (!take(&frame.values[REST], &value))
            fail("too few arguments");
        value = cons(name, value);
        frame.values[RIB] = cons(value, frame.values[RIB]);
    }
    if (frame.values[PARAMETERS] != 0) {
        value = cons(frame.values[PARAMETERS], frame.values[REST]);
        frame.values[RIB] = cons(value, frame.values[RIB]);
    } else if (frame.values[REST] != 0) {
        fail("too many arguments");
    }
    roots[ENVIRONMENT] = cons(frame.values[RIB], get(roots[FUNCTION], 2));
    GLEANER_LEAVE(m, frame);
}

static enum step apply_primitive(const struct primitive *primitive)
{
    size_t count = argument_count();

    if (count < primitive->least || count > primitive->most)
        fail("%s with %zu arguments", primitive->name, count);
    switch (primitive->control) {
    case COMPUTES:
        roots[VALUE] = primitive->compute();
        return RETURN;
    case CALL_WITH_CONTINUATION:
        roots[FUNCTION] = argument(0);
        roots[ARGUMENTS] = make(CONTINUATION, &roots[STACK]);
        roots[ARGUMENTS] = cons(roots[ARGUMENTS], 0);
        return APPLY;
    default: /* TRY */
        roots[FUNCTION] = argument(0);
        push(HANDLER, argument(1), 0);
        roots[ARGUMENTS] = 0;
        return APPLY;
    }
}

static enum step apply(void)
{
    gleaner_value function = roots[FUNCTION];

    if (is(function, CLOSURE)) {
        bind();
        return first_of(SEQUENCE, get(roots[FUNCTION], 1), roots[UNSPECIFIED]);
    }
    if (is(function, CONTINUATION)) {
        roots[VALUE] = car(roots[ARGUMENTS]);
        roots[STACK] = get(function, 0);
        return RETURN;
    }
    if (!is(function, PRIMITIVE))
        fail("a call of what is no procedure");
    return apply_primitive(&primitives[gleaner_number(get(function, 0))]);
}

static gleaner_value run(enum step first)
{
    volatile enum step step = first;
    struct catch here;

    begin_catch(&here);
    if (setjmp(here.where) != 0)
        step = handle(); /* if that fails, it goes on with an outer handler */
    while (step != STOP)
        switch (step) {
        case EVALUATE:
            step = evaluate_form();
            break;
        case APPLY:
            step = apply();
            break;
        default:
            step = resume();
        }
    end_catch(&here);
    return roots[VALUE];
}

static void reset(void)
{
    int i;

    for (i = FORM; i < ROOTS; i++)
        roots[i] = 0;
}

gleaner_value evaluate(gleaner_value form)
{
    reset();
    roots[FORM] = form;
    return run(EVALUATE);
}

gleaner_value call(gleaner_value function)
{
    reset();
    roots[FUNCTION] = function;
    return run(APPLY);
}
