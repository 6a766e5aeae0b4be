/*
 * A small Lisp on the precise heap, to show all that an embedder needs: types,
 * allocation, roots, stores through the barrier.
 *
 *     lisp [--stress] [--compressed] [FILE]      reads standard input without FILE
 *
 * It knows integers, symbols, pairs and functions; quote, if, define, lambda;
 * + - * < = eq? cons car cdr null? display, and (collect).
 *
 * The rule that all of it follows: a value that is needed after something was
 * allocated lies in a frame. Functions take values as arguments and root them
 * at once if they allocate. Mind that C evaluates arguments in any order: a
 * call that allocates is never an argument beside another value.
 */
#include <gleaner.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gleaner_mutator *m;
static gleaner_type pair_type, symbol_type, closure_type, primitive_type;
static gleaner_type name_type;

/* The roots of the whole program: set up by main. */
enum { SYMBOLS, GLOBALS, QUOTE, IF, DEFINE, LAMBDA, TRUE, ROOTS };
static gleaner_value *roots;

static void fail(const char *what)
{
    fprintf(stderr, "lisp: %s\n", what);
    exit(1);
}

/* ---- objects ------------------------------------------------------------- */

/* All structures have `n` slots and nothing else. */
static size_t slots(size_t n)
{
    return 8 + n * m->slot_bytes;
}

static gleaner_value get(gleaner_value object, size_t slot)
{
    return gleaner_load(m, gleaner_object(object), slots(slot));
}

static void set(gleaner_value object, size_t slot, gleaner_value value)
{
    gleaner_store(m, gleaner_object(object), slots(slot), value);
}

static bool is(gleaner_value value, gleaner_type type)
{
    void *object = gleaner_object(value);

    return object != NULL && gleaner_type_of(object) == type;
}

/* A structure of up to three slots with these values. */
static gleaner_value structure(gleaner_type type, size_t n, gleaner_value one,
                               gleaner_value two, gleaner_value three)
{
    gleaner_value made;
    size_t i;
    void *object;

    GLEANER_FRAME(m, frame, 3);
    frame.values[0] = one;
    frame.values[1] = two;
    frame.values[2] = three;
    object = gleaner_allocate(m, type, slots(n));
    if (object == NULL)
        fail("out of memory");
    made = gleaner_reference(object);
    for (i = 0; i < n; i++)
        set(made, i, frame.values[i]);
    GLEANER_LEAVE(m, frame);
    return made;
}

static gleaner_value cons(gleaner_value car, gleaner_value cdr)
{
    return structure(pair_type, 2, car, cdr, 0);
}

static gleaner_value car(gleaner_value pair)
{
    if (!is(pair, pair_type))
        fail("car of what is no pair");
    return get(pair, 0);
}

static gleaner_value cdr(gleaner_value pair)
{
    if (!is(pair, pair_type))
        fail("cdr of what is no pair");
    return get(pair, 1);
}

/* Whether a name is spelled so. */
static bool is_spelled(const void *characters, const char *name, uint32_t length)
{
    struct gleaner_window window;
    bool same;

    if (gleaner_length(characters) != length)
        return false;
    same = memcmp(gleaner_window_begin(&window, m, characters, 0, length, 1),
                  name, length)
           == 0;
    gleaner_window_end(&window, m);
    return same;
}

/* The symbol of that name: symbols are made once. Slots: name, next symbol. */
static gleaner_value symbol(const char *name)
{
    gleaner_value found;
    uint32_t length = (uint32_t)strlen(name);
    void *characters;

    for (found = roots[SYMBOLS]; found != 0; found = get(found, 1)) {
        characters = gleaner_object(get(found, 0));
        if (is_spelled(characters, name, length))
            return found;
    }
    characters = gleaner_allocate_array_initialized(m, name_type, length, 1);
    if (characters == NULL)
        fail("out of memory");
    gleaner_initialize_u8(m, characters, 0, (const uint8_t *)name, length);
    found = structure(symbol_type, 2, gleaner_reference(characters),
                      roots[SYMBOLS], 0);
    roots[SYMBOLS] = found;
    return found;
}

/* ---- reading ------------------------------------------------------------- */

static int peek(FILE *in)
{
    int c;

    do {
        c = getc(in);
        if (c == ';')
            while (c != '\n' && c != EOF)
                c = getc(in);
    } while (isspace(c));
    ungetc(c, in);
    return c;
}

static gleaner_value read_value(FILE *in);

static gleaner_value read_list(FILE *in)
{
    gleaner_value result;

    if (peek(in) == ')') {
        getc(in);
        return 0;
    }
    GLEANER_FRAME(m, frame, 1);
    frame.values[0] = read_value(in);
    result = read_list(in);
    result = cons(frame.values[0], result);
    GLEANER_LEAVE(m, frame);
    return result;
}

static gleaner_value read_value(FILE *in)
{
    char word[64], *end;
    size_t length = 0;
    long number;
    int c = peek(in);

    if (c == EOF)
        fail("the input ends inside a list");
    if (c == '(') {
        getc(in);
        return read_list(in);
    }
    if (c == '\'') {
        gleaner_value quoted;

        getc(in);
        quoted = read_value(in);
        quoted = cons(quoted, 0);
        return cons(roots[QUOTE], quoted);
    }
    while ((c = getc(in)) != EOF && !isspace(c) && c != '(' && c != ')')
        if (length < sizeof word - 1)
            word[length++] = (char)c;
    ungetc(c, in);
    word[length] = '\0';
    number = strtol(word, &end, 10);
    return *end == '\0' && length > 0 ? gleaner_integer(number) : symbol(word);
}

/* ---- writing ------------------------------------------------------------- */

static void display(gleaner_value value)
{
    if (value == 0) {
        printf("()");
    } else if (gleaner_is_integer(value)) {
        printf("%lld", (long long)gleaner_number(value));
    } else if (is(value, symbol_type)) {
        const void *name = gleaner_object(get(value, 0));
        uint32_t length = gleaner_length(name);
        struct gleaner_window window;

        fwrite(gleaner_window_begin(&window, m, name, 0, length, 1), 1, length,
               stdout);
        gleaner_window_end(&window, m);
    } else if (is(value, pair_type)) {
        printf("(");
        display(car(value));
        for (value = cdr(value); is(value, pair_type); value = cdr(value)) {
            printf(" ");
            display(car(value));
        }
        if (value != 0) {
            printf(" . ");
            display(value);
        }
        printf(")");
    } else {
        printf("#<function>");
    }
}

/* ---- evaluating ---------------------------------------------------------- */

enum { ADD, SUBTRACT, MULTIPLY, LESS, EQUAL, SAME, CONS, CAR, CDR, NONE, SHOW,
       COLLECT, PRIMITIVES };
static const char *const primitives[PRIMITIVES]
    = { "+", "-", "*", "<", "=", "eq?", "cons", "car", "cdr", "null?",
        "display", "collect" };

static int64_t number(gleaner_value value)
{
    if (!gleaner_is_integer(value))
        fail("arithmetic on what is no integer");
    return gleaner_number(value);
}

static gleaner_value truth(bool holds)
{
    return holds ? roots[TRUE] : 0;
}

static gleaner_value apply_primitive(int64_t which, gleaner_value arguments)
{
    gleaner_value one = arguments != 0 ? car(arguments) : 0;
    gleaner_value two = is(arguments, pair_type) && cdr(arguments) != 0
                            ? car(cdr(arguments)) : 0;

    switch (which) {
    case ADD: return gleaner_integer(number(one) + number(two));
    case SUBTRACT: return gleaner_integer(number(one) - number(two));
    case MULTIPLY: return gleaner_integer(number(one) * number(two));
    case LESS: return truth(number(one) < number(two));
    case EQUAL: return truth(number(one) == number(two));
    case SAME: return truth(one == two);
    case CONS: return cons(one, two);
    case CAR: return car(one);
    case CDR: return cdr(one);
    case NONE: return truth(one == 0);
    case SHOW:
        display(one);
        printf("\n");
        return one;
    default:
        gleaner_collect(m, true);
        return 0;
    }
}

/* The pair of a name and its value in an environment, a list of such pairs. */
static gleaner_value lookup(gleaner_value name, gleaner_value environment)
{
    for (; environment != 0; environment = get(environment, 1))
        if (get(get(environment, 0), 0) == name)
            return get(environment, 0);
    for (environment = roots[GLOBALS]; environment != 0;
         environment = get(environment, 1))
        if (get(get(environment, 0), 0) == name)
            return get(environment, 0);
    fail("a name without a value");
    return 0;
}

static gleaner_value evaluate(gleaner_value form, gleaner_value environment);

static gleaner_value evaluate_all(gleaner_value forms, gleaner_value environment)
{
    gleaner_value rest;

    if (forms == 0)
        return 0;
    GLEANER_FRAME(m, frame, 3);
    frame.values[0] = forms;
    frame.values[1] = environment;
    frame.values[2] = evaluate(car(forms), environment);
    rest = evaluate_all(cdr(frame.values[0]), frame.values[1]);
    rest = cons(frame.values[2], rest);
    GLEANER_LEAVE(m, frame);
    return rest;
}

static gleaner_value define(gleaner_value form, gleaner_value environment)
{
    gleaner_value value;

    GLEANER_FRAME(m, frame, 2);
    frame.values[0] = car(cdr(form)); /* NAME, or (NAME PARAMETERS ...) */
    frame.values[1] = cdr(cdr(form));
    if (is(frame.values[0], pair_type)) {
        value = structure(closure_type, 3, cdr(frame.values[0]),
                          frame.values[1], environment);
        frame.values[0] = car(frame.values[0]);
    } else {
        value = evaluate(car(frame.values[1]), environment);
    }
    frame.values[1] = cons(frame.values[0], value);
    roots[GLOBALS] = cons(frame.values[1], roots[GLOBALS]);
    GLEANER_LEAVE(m, frame);
    return 0;
}

/* A tail call goes round the loop: `form` and `environment` are replaced. */
static gleaner_value evaluate(gleaner_value form, gleaner_value environment)
{
    enum { FORM, ENVIRONMENT, FUNCTION, ARGUMENTS, LOCALS };
    gleaner_value result;

    GLEANER_FRAME(m, frame, 4);
    frame.values[FORM] = form;
    frame.values[ENVIRONMENT] = environment;
    for (;;) {
        gleaner_value head;

        form = frame.values[FORM];
        if (is(form, symbol_type)) {
            result = get(lookup(form, frame.values[ENVIRONMENT]), 1);
            break;
        }
        if (!is(form, pair_type)) {
            result = form;
            break;
        }
        head = car(form);
        if (head == roots[QUOTE]) {
            result = car(cdr(form));
            break;
        }
        if (head == roots[IF]) {
            result = evaluate(car(cdr(form)), frame.values[ENVIRONMENT]);
            form = cdr(cdr(frame.values[FORM]));
            if (result == 0)
                form = cdr(form);
            frame.values[FORM] = form == 0 ? 0 : car(form);
            continue;
        }
        if (head == roots[DEFINE]) {
            result = define(form, frame.values[ENVIRONMENT]);
            break;
        }
        if (head == roots[LAMBDA]) {
            result = structure(closure_type, 3, car(cdr(form)), cdr(cdr(form)),
                               frame.values[ENVIRONMENT]);
            break;
        }
        frame.values[FUNCTION] = evaluate(head, frame.values[ENVIRONMENT]);
        frame.values[ARGUMENTS] = evaluate_all(cdr(frame.values[FORM]),
                                               frame.values[ENVIRONMENT]);
        if (is(frame.values[FUNCTION], primitive_type)) {
            result = apply_primitive(
                gleaner_number(get(frame.values[FUNCTION], 0)),
                frame.values[ARGUMENTS]);
            break;
        }
        if (!is(frame.values[FUNCTION], closure_type))
            fail("a call of what is no function");
        /* Names and values, put before the closure's own environment. */
        frame.values[ENVIRONMENT] = get(frame.values[FUNCTION], 2);
        frame.values[FORM] = get(frame.values[FUNCTION], 0);
        while (frame.values[FORM] != 0) {
            gleaner_value bound = cons(car(frame.values[FORM]),
                                       car(frame.values[ARGUMENTS]));

            frame.values[ENVIRONMENT] = cons(bound, frame.values[ENVIRONMENT]);
            frame.values[FORM] = cdr(frame.values[FORM]);
            frame.values[ARGUMENTS] = cdr(frame.values[ARGUMENTS]);
        }
        frame.values[ARGUMENTS] = get(frame.values[FUNCTION], 1);
        while (cdr(frame.values[ARGUMENTS]) != 0) {
            evaluate(car(frame.values[ARGUMENTS]), frame.values[ENVIRONMENT]);
            frame.values[ARGUMENTS] = cdr(frame.values[ARGUMENTS]);
        }
        frame.values[FORM] = car(frame.values[ARGUMENTS]);
    }
    GLEANER_LEAVE(m, frame);
    return result;
}

/* ---- the program --------------------------------------------------------- */

static void make_types(gleaner_heap *heap)
{
    uint32_t offsets[3];
    size_t i;

    for (i = 0; i < 3; i++)
        offsets[i] = (uint32_t)slots(i);
    pair_type = gleaner_structure(heap, slots(2), offsets, 2, NULL, 0);
    symbol_type = gleaner_structure(heap, slots(2), offsets, 2, NULL, 0);
    closure_type = gleaner_structure(heap, slots(3), offsets, 3, NULL, 0);
    primitive_type = gleaner_structure(heap, 16, offsets, 1, NULL, 0);
    name_type = gleaner_primitives(heap, 1);
    if (pair_type == 0 || symbol_type == 0 || closure_type == 0
        || primitive_type == 0 || name_type == 0)
        fail("a type was refused");
}

static void make_names(void)
{
    static const char *const names[]
        = { "quote", "if", "define", "lambda", "t" };
    gleaner_value truth;
    size_t i;

    for (i = 0; i < sizeof names / sizeof *names; i++)
        roots[QUOTE + i] = symbol(names[i]);
    for (i = 0; i < PRIMITIVES; i++) {
        gleaner_value function;

        GLEANER_FRAME(m, frame, 1);
        frame.values[0] = symbol(primitives[i]);
        function = structure(primitive_type, 1, gleaner_integer((int64_t)i),
                             0, 0);
        function = cons(frame.values[0], function);
        roots[GLOBALS] = cons(function, roots[GLOBALS]);
        GLEANER_LEAVE(m, frame);
    }
    truth = cons(roots[TRUE], roots[TRUE]);
    roots[GLOBALS] = cons(truth, roots[GLOBALS]);
}

int main(int argc, char **argv)
{
    struct gleaner_options options = {
        .limit = 32 << 20, .outside_layout = GLEANER_LAYOUT_FOLLOWED
    };
    char message[200];
    gleaner_heap *heap;
    FILE *in = stdin;
    int i;

    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--stress") == 0)
            options.list = "quarantine=8,stress=1,verify=edges,poison=on",
            options.limit = 2 << 20;
        else if (strcmp(argv[i], "--compressed") == 0)
            options.compressed = true;
        else if ((in = fopen(argv[i], "r")) == NULL)
            fail("the file cannot be opened");
    }
    heap = gleaner_heap_new(&options, message, sizeof message);
    if (heap == NULL)
        fail(message);
    m = gleaner_attach(heap);
    if (m == NULL)
        fail("no memory for a mutator");
    make_types(heap);
    {
        GLEANER_FRAME(m, frame, ROOTS);
        roots = frame.values;
        make_names();
        while (peek(in) != EOF)
            evaluate(read_value(in), 0);
        GLEANER_LEAVE(m, frame);
    }
    gleaner_detach(m);
    if (!gleaner_heap_free(heap))
        fail("something still holds the heap");
    return 0;
}
