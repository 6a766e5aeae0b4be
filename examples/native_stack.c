/*
 * A runtime without a shadow stack: polynomials are differentiated by functions
 * whose variables hold plain pointers, and nobody lists these for the collector.
 * The heap reads the native stack and the saved registers as conservative roots:
 * an object to which a word of them points lives, and stays where it is. All
 * other objects move, and their slots are precise.
 *
 *     native_stack            prints what (x + 1)^12 is after each derivation
 *
 * The rule that all of it follows: whatever may collect is called by `allocate`,
 * which saves the registers and says how far the stack reaches. A pointer that is
 * needed afterwards must be in a variable. Compiled for gcc or clang.
 */
#include <gleaner.h>

#include <stdio.h>
#include <stdlib.h>

/* As much of the stack is read as is in use, and at most this. */
enum { STACK_WORDS = 1 << 17, DEGREE = 12 };

/* A term of a polynomial, and the terms of lower degree; 0 is NULL. */
struct term {
    uint64_t header;
    gleaner_value rest;
    int64_t coefficient, degree;
};
enum { REST = offsetof(struct term, rest) };

static gleaner_mutator *m;
static gleaner_type term_type;
/* The lowest word of the stack that counts: the collector reads this. */
static void *lowest;

static void fail(const char *what)
{
    fprintf(stderr, "native_stack: %s\n", what);
    exit(1);
}

/* The frame of this function lies below the registers that `allocate` saved. */
static __attribute__((noinline)) void *allocate_below(void)
{
    lowest = __builtin_frame_address(0);
    return gleaner_allocate(m, term_type, sizeof(struct term));
}

/* Some variables of the callers are in registers. This saves all of those that
   a called function may use for itself. The setjmp of glibc would not do: it
   scrambles one of them, which may hold a pointer. */
static __attribute__((noinline)) struct term *allocate(void)
{
    struct term *made;

    __builtin_unwind_init();
    made = (struct term *)allocate_below();
    if (made == NULL)
        fail("out of memory");
    return made;
}

static struct term *rest(struct term *term)
{
    return (struct term *)gleaner_object(gleaner_load(m, term, REST));
}

/* coefficient * x^degree + rest, and no term if that is 0. */
static struct term *term(int64_t coefficient, int64_t degree, struct term *rest)
{
    struct term *made;

    if (coefficient == 0)
        return rest;
    made = allocate();
    made->coefficient = coefficient;
    made->degree = degree;
    gleaner_store(m, made, REST, gleaner_reference(rest));
    return made;
}

static struct term *sum(struct term *a, struct term *b)
{
    if (a == NULL || b == NULL)
        return a == NULL ? b : a;
    if (a->degree > b->degree)
        return term(a->coefficient, a->degree, sum(rest(a), b));
    if (a->degree < b->degree)
        return term(b->coefficient, b->degree, sum(a, rest(b)));
    return term(a->coefficient + b->coefficient, a->degree,
                sum(rest(a), rest(b)));
}

static struct term *product(struct term *a, struct term *b)
{
    struct term *all = NULL;

    for (; a != NULL; a = rest(a)) {
        struct term *one = NULL, *each;

        /* In ascending order, and then added: sums are sorted. */
        for (each = b; each != NULL; each = rest(each))
            one = sum(one, term(a->coefficient * each->coefficient,
                                a->degree + each->degree, NULL));
        all = sum(all, one);
    }
    return all;
}

static struct term *derivative(struct term *of)
{
    if (of == NULL)
        return NULL;
    return term(of->coefficient * of->degree, of->degree - 1,
                derivative(rest(of)));
}

static void print(struct term *polynomial)
{
    const char *between = "";

    for (; polynomial != NULL; polynomial = rest(polynomial)) {
        printf("%s%lld", between, (long long)polynomial->coefficient);
        if (polynomial->degree > 0)
            printf("x^%lld", (long long)polynomial->degree);
        between = " + ";
    }
    printf("\n");
}

static __attribute__((noinline)) void run(void)
{
    struct term *power = term(1, 0, NULL);
    struct term *factor = term(1, 1, term(1, 0, NULL));
    int i, round;

    /* The same many times: most of what is made is garbage. */
    for (round = 0; round < 200; round++) {
        power = term(1, 0, NULL);
        for (i = 0; i < DEGREE; i++)
            power = product(power, factor);
    }
    for (i = 0; i <= DEGREE; i++) {
        print(power);
        power = derivative(power);
    }
    if (power != NULL)
        fail("something is left");
}

int main(void)
{
    static const uint32_t slots[] = { REST };
    struct gleaner_options options = { .limit = 2 << 20 };
    char message[256];
    /* Words of `run` and of what it calls lie below this frame. */
    char *end = (char *)__builtin_frame_address(0);
    void *start = end - STACK_WORDS * 8;
    gleaner_heap *heap = gleaner_heap_new(&options, message, sizeof message);

    if (heap == NULL)
        fail(message);
    m = gleaner_attach(heap);
    term_type = gleaner_structure(heap, sizeof(struct term), slots, 1, message,
                                  sizeof message);
    if (m == NULL || term_type == 0)
        fail("the heap cannot be used");
    lowest = end; /* no word counts yet */
    if (!gleaner_add_words(m, start, STACK_WORDS, &lowest, message,
                           sizeof message))
        fail(message);
    run();
    gleaner_remove_words(m, start);
    gleaner_detach(m);
    return gleaner_heap_free(heap) ? 0 : 1;
}
