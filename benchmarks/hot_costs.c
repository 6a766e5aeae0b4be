/*
 * hot_costs operation [times] [threads]
 *
 * One operation of the interface again and again, so that what it costs is all
 * that is measured.  The operations:
 *
 *   cells          small objects of every size, which die at once
 *   uncollectable  an object that is no garbage, and its freeing by hand
 *   finalized      an object whose closure is called when it has died
 *   threads        a thread that is made and joined
 *   collect        a collection of a heap with a thousand objects
 *   queue          a list of a million nodes, longer at one end for each that
 *                  it loses at the other: nothing can be marked beside it
 *
 * `threads` is how many do the operation at once, 1 if not given.
 */
#define GC_THREADS
#include "measure.h"

#include <gc.h>
#include <gc/gc_disclaim.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 64, OBJECT = 48, LARGEST_CELL = 512, WINDOW = 64, QUEUE = 1000000, KEPT = 1000 };

typedef uint64_t repeated(unsigned long times);

static uint64_t cells(unsigned long times)
{
    uint64_t bytes = 0;
    unsigned long i;

    for (i = 0; i < times; i++) {
        size_t size;

        for (size = 16; size <= LARGEST_CELL; size += 16) {
            char *cell = GC_MALLOC(size);

            require(cell != NULL && cell[size - 1] == 0, "a cell is clear");
            cell[0] = 1;
            bytes += size;
        }
    }
    return bytes;
}

static uint64_t uncollectable(unsigned long times)
{
    void *window[WINDOW] = { NULL };
    unsigned long i;

    for (i = 0; i < times; i++) {
        void **slot = &window[i % WINDOW];

        GC_FREE(*slot);
        *slot = GC_MALLOC_UNCOLLECTABLE(OBJECT);
        require(*slot != NULL, "an uncollectable object was allocated");
    }
    for (i = 0; i < WINDOW; i++)
        GC_FREE(window[i]);
    return times;
}

static unsigned long finalized_calls;

static void GC_CALLBACK count_call(void *object, void *data)
{
    (void)object;
    (void)data;
    __atomic_fetch_add(&finalized_calls, 1, __ATOMIC_RELAXED);
}

static uint64_t finalized(unsigned long times)
{
    static const struct GC_finalizer_closure closure = { count_call, NULL };
    unsigned long i;

    for (i = 0; i < times; i++)
        require(GC_finalized_malloc(OBJECT, &closure) != NULL,
                "an object with a closure was allocated");
    require(times < 1000000 || finalized_calls > times / 2,
            "closures are called");
    return times;
}

static void *nothing(void *argument)
{
    return argument;
}

static uint64_t threads(unsigned long times)
{
    unsigned long i;

    for (i = 0; i < times; i++) {
        pthread_t thread;

        require(pthread_create(&thread, NULL, nothing, NULL) == 0,
                "a thread starts");
        require(pthread_join(thread, NULL) == 0, "a thread is joined");
    }
    return times;
}

struct node {
    struct node *next;
    uint64_t number;
};

static struct node *append(struct node *last, uint64_t number)
{
    struct node *node = GC_MALLOC(sizeof *node);

    require(node != NULL, "a node was allocated");
    node->number = number;
    if (last != NULL)
        last->next = node;
    return node;
}

static uint64_t collect(unsigned long times)
{
    struct node *first = append(NULL, 0), *last = first;
    uint64_t sum = 0;
    unsigned long i;

    for (i = 1; i < KEPT; i++)
        last = append(last, i);
    for (i = 0; i < times; i++)
        GC_gcollect();
    for (; first != NULL; first = first->next)
        sum += first->number;
    return sum;
}

static uint64_t queue(unsigned long times)
{
    struct node *first = append(NULL, 0), *last = first;
    uint64_t sum = 0;
    unsigned long i;

    for (i = 1; i < QUEUE + times; i++) {
        last = append(last, i);
        if (i >= QUEUE) {
            sum += first->number;
            first = first->next;
        }
    }
    return sum + last->number;
}

static const struct {
    const char *name;
    repeated *run;
    unsigned long times;
} operations[] = {
    { "cells", cells, 200000 },
    { "uncollectable", uncollectable, 5000000 },
    { "finalized", finalized, 5000000 },
    { "threads", threads, 20000 },
    { "collect", collect, 20000 },
    { "queue", queue, 5000000 },
};

struct work {
    repeated *run;
    unsigned long times, threads;
};

struct share {
    const struct work *work;
    uint64_t result;
};

static void *run_share(void *place)
{
    struct share *share = place;

    share->result = share->work->run(share->work->times);
    return NULL;
}

static uint64_t run_shares(const void *place)
{
    const struct work *work = place;
    struct share shares[MAX_THREADS]; /* [i] is written by thread i */
    pthread_t threads[MAX_THREADS];
    unsigned long i;

    if (work->threads == 1)
        return work->run(work->times);
    for (i = 0; i < work->threads; i++) {
        shares[i] = (struct share){ work, 0 };
        require(pthread_create(&threads[i], NULL, run_share, &shares[i]) == 0,
                "a thread starts");
    }
    for (i = 0; i < work->threads; i++) {
        require(pthread_join(threads[i], NULL) == 0, "a thread is joined");
        require(shares[i].result == shares[0].result, "the threads agree");
    }
    return shares[0].result * work->threads;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    struct work work;
    size_t i;

    for (i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i].name, name) == 0)
            break;
    if (i == sizeof operations / sizeof *operations) {
        fprintf(stderr, "%s: argument 1 is \"%s\", expected one of", argv[0],
                name);
        for (i = 0; i < sizeof operations / sizeof *operations; i++)
            fprintf(stderr, " %s", operations[i].name);
        fprintf(stderr, "\n");
        return 2;
    }
    measure_start();
    GC_init_finalized_malloc();
    work.run = operations[i].run;
    work.times = scale_argument(argc, argv, 2, operations[i].times, 1,
                                1000000000);
    work.threads = scale_argument(argc, argv, 3, 1, 1, MAX_THREADS);
    measure(name, run_shares, &work);
    return 0;
}
