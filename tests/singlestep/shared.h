/* What the tracer and the traced process share.
 *
 * The tracer (the parent) forks a process with two threads that the collector
 * knows: A performs the operations under test and is single-stepped; B, the
 * first thread, runs freely and collects once for each order. The structure
 * lies in memory that both processes map. Each word says who writes it.
 */
#ifndef SHARED_H
#define SHARED_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#ifndef GC_THREADS
#define GC_THREADS 1
#endif

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <gc/gc.h>

struct shared {
    /* Written by the tracer. */
    atomic_uint order;    /* so many collections were ordered; B sleeps on it */
    atomic_uint attached; /* A may begin */

    /* Written by B. */
    atomic_uint taken; /* B began the collection for this order */
    atomic_uint done;  /* B ended it */

    /* Written by A. */
    atomic_int tid_a;        /* kernel's number of A */
    atomic_int window;       /* 1 from the trap before an operation to its end */
    atomic_uint finished;    /* A has performed all operations */
    int suspend_signal;      /* how B stops A */
    unsigned operation;      /* number of the operation in progress */
    unsigned ended;          /* number of operations whose check is over */

    /* What B allocates after each collection; written by A between windows. */
    unsigned churn_bytes;
    unsigned churn_kind;
    unsigned churn_count;

    /* Written by both threads of the traced process. */
    atomic_uint failures; /* since the operation began */
    atomic_uint expected; /* 1 while failures are what the operation is for */
};

extern struct shared *shared;

/* Operations that are single-stepped; defined in operations.c. */
enum {
    LOCKLESS = 1, /* never waits for the lock while thread-local lists are on */
    LOSES = 2,    /* deliberately wrong: the check must find a loss */
    BLOCKS = 4,   /* enters a blocking region, where B collects without stopping A */
    REFILLS = 8,  /* takes the lock at least once */
};

struct operation {
    const char *name;
    void (*prepare)(void); /* before; runs freely; may be null */
    void (*run)(void);     /* stepped */
    void (*check)(void);   /* after; runs freely */
    unsigned flags;
    unsigned bytes, kind, count; /* what B allocates after each collection */
};

extern const struct operation operations[];
extern const unsigned operation_count;

/* Performs the operations (A), and collects on order (B); in actors.c. */
_Noreturn void act(const char *only);

/* Reports what is wrong; in actors.c. */
void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Lets go of what the last operation held. */
void forget_held(void);

/* Name of the function that holds a code address; in symbols.c. */
void name_of(uintptr_t address, char *text, size_t size);

#endif
