/*
 * A Scheme on the precise heap, of the size that a real runtime begins with:
 * the same language as crates/gleaner/examples/scheme, which is in Rust.
 *
 *     scheme FILE...                 examples/scheme/programs has some
 *
 * It has integers of 64 bits, symbols, strings, vectors, closures, tail calls,
 * continuations, errors that a program handles, tables with weak keys, and
 * threads that share the heap. It reads and runs the files one after the other.
 *
 * The rules that all of it follows:
 *
 * - A value that is needed after something was allocated lies in a frame, in
 *   one of the roots below, or in an object. A function roots its arguments at
 *   once if it allocates and needs them afterwards.
 * - A call that allocates is never an argument beside another value, since C
 *   evaluates arguments in any order.
 * - fail() leaves all frames at once, by longjmp to the newest `struct catch`,
 *   which knows the frame that was the newest when it was set up.
 * - The holder of a lock neither allocates nor polls.
 */
#ifndef SCHEME_H
#define SCHEME_H

#include <gleaner.h>

#include <pthread.h>
#include <setjmp.h>

/* ---- what a thread has --------------------------------------------------- */

extern _Thread_local gleaner_mutator *m;

/* The roots of a thread: first what all threads share, then the registers of
   its machine. */
enum {
    TRUTH,
    FALSITY,
    UNSPECIFIED,
    UNBOUND, /* the value of a global variable that has none */
    SYMBOLS, /* an array of chains of symbols */
    SHARED,
    FORM = SHARED,
    ENVIRONMENT,
    VALUE,
    FUNCTION,
    ARGUMENTS,
    STACK, /* the newest frame of the machine */
    ROOTS
};
extern _Thread_local gleaner_value *roots;

/* Sets `roots` to values of a frame, and takes over what all threads share. */
void use_roots(gleaner_value *values);

/* ---- errors -------------------------------------------------------------- */

struct catch {
    jmp_buf where;
    struct gleaner_frame *frames;
    struct catch *outer;
};
/* The newest one; set it up with begin_catch, then setjmp. After a longjmp, and
   when all went well, end_catch. */
extern _Thread_local struct catch *catching;
extern _Thread_local char *message; /* of the last error */
void begin_catch(struct catch *here);
void end_catch(struct catch *here);
_Noreturn void fail(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* How deep the interpreter's own functions recurse. */
#define DEEPEST 500
void check_depth(int depth);

/* ---- objects ------------------------------------------------------------- */

enum kind {
    PAIR,
    SYMBOL,       /* name, global value, next of its chain, number of a syntax */
    WIDE_INTEGER, /* an integer that no slot holds */
    CLOSURE,      /* parameters, body, environment */
    PRIMITIVE,    /* number */
    STACK_FRAME,  /* kind, two operands, environment, next frame */
    CONTINUATION, /* frame */
    CONSTANT,     /* number */
    THREAD,       /* what it returned, its number, whether it failed */
    WEAK_TABLE,   /* number */
    STRING,       /* an array of characters */
    VECTOR,       /* an array of references */
    KINDS
};
#define MOST_SLOTS 5

void make_types(gleaner_heap *heap);
void make_shared(void); /* and uses it: `roots` is set */
void free_shared(void);

bool is(gleaner_value value, enum kind kind);
gleaner_value get(gleaner_value object, size_t slot);
void set(gleaner_value object, size_t slot, gleaner_value value);
/* A new object with these fields, as many as the kind has. */
gleaner_value make(enum kind kind, const gleaner_value *fields);
/* A string or vector of zeros. */
gleaner_value make_array(enum kind kind, uint32_t length);

gleaner_value cons(gleaner_value car, gleaner_value cdr);
gleaner_value car(gleaner_value pair);
gleaner_value cdr(gleaner_value pair);
/* Takes the first element off a list; false at its end. */
bool take(gleaner_value *list, gleaner_value *first);
/* The elements of a list in reverse, and then `rest`. */
gleaner_value reverse_onto(gleaner_value list, gleaner_value rest);

gleaner_value truth_of(bool holds);
gleaner_value integer(int64_t number);
bool as_integer(gleaner_value value, int64_t *number);

/* A string; the second function answers 0 if the heap is full. */
gleaner_value string(const char *text, size_t length);
gleaner_value string_if_room(const char *text, size_t length);
/* Whether an array of characters is spelled so. */
bool is_spelled(gleaner_value characters, const char *text, size_t length);
gleaner_value intern(const char *name, size_t length);

/* ---- texts outside of the heap ------------------------------------------- */

struct text {
    char *bytes; /* ends with 0 */
    size_t length, room;
};
/* Each thread has one, for the text that is being made. */
extern _Thread_local struct text scratch;
void text_clear(void);
void text_add(const char *bytes, size_t length);
void text_add_characters(gleaner_value characters);
/* Adds what `display` writes. */
void show(gleaner_value value);

/* ---- the parts ----------------------------------------------------------- */

struct reader {
    const char *at, *end;
};
/* Reads the next value; false at the end of the text. */
bool read_next(struct reader *reader, gleaner_value *into);

/* The forms of the machine: a list begins with the number of one. */
enum op {
    OP_QUOTE,  /* (OP . VALUE) */
    OP_IF,     /* (OP TEST THEN . ELSE) */
    OP_DEFINE, /* (OP NAME . FORM) */
    OP_SET,    /* (OP NAME . FORM) */
    OP_LAMBDA, /* (OP PARAMETERS . BODY) */
    OP_BEGIN,  /* (OP . BODY) */
    OP_OR,     /* (OP . FORMS) */
    OP_CALL    /* (OP FUNCTION . OPERANDS) */
};
void define_syntax(void);
gleaner_value expand(gleaner_value form);

/* Evaluate an expanded form; call a function without arguments. */
gleaner_value evaluate(gleaner_value form);
gleaner_value call(gleaner_value function);

/* A primitive finds its arguments in roots[ARGUMENTS]. */
enum control { COMPUTES, CALL_WITH_CONTINUATION, TRY };
struct primitive {
    const char *name;
    size_t least, most;
    gleaner_value (*compute)(void); /* NULL if it controls the machine */
    enum control control;
};
extern const struct primitive primitives[];
void define_primitives(void);
gleaner_value argument(size_t index);
size_t argument_count(void);

gleaner_value spawn(void);
gleaner_value join(void);
void join_all(void);

gleaner_value make_weak_table(void);
gleaner_value weak_table(void);
void free_weak_tables(void);

#endif
