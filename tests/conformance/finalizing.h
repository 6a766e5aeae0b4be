/* Objects whose finalizers note that they run, and in which order. */
#ifndef FINALIZING_H
#define FINALIZING_H
#include "harness.h"

typedef void (*registrar)(void *, GC_finalization_proc, void *,
                          GC_finalization_proc *, void **);

struct node {
    struct node *next;
    uintptr_t tag;
    struct node *other;
};

static int order[MANY * 2], orders;
static int runs[MANY];

static void record(void *obj, void *cd)
{
    struct node *n = obj;
    CHECK_EQ(n->tag, 0x1234567);
    int i = (int)(uintptr_t)cd;
    order[orders++] = i;
    runs[i]++;
}

static struct node *make_node(void)
{
    struct node *n = GC_malloc(sizeof *n);
    n->tag = 0x1234567;
    return n;
}

static int total_runs(int from, int to)
{
    int n = 0;
    for (int i = from; i < to; i++) {
        CHECK_LE(runs[i], 1);
        n += runs[i];
    }
    return n;
}

static void settle(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        collect();
        GC_invoke_finalizers();
    }
}

static registrar reg;

static NOINLINE void make_singles(void)
{
    for (int i = 0; i < MANY; i++)
        reg(make_node(), record, (void *)(uintptr_t)i, NULL, NULL);
}

#endif
