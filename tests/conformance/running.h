/* Threads that run until they are told to end, and show that they do. */
#ifndef RUNNING_H
#define RUNNING_H
#include "harness.h"

static volatile long progress[4];
static volatile int quit;

static void *runs(void *arg)
{
    volatile long *mine = &progress[(uintptr_t)arg];
    while (!quit) {
        ++*mine;
        if (*mine % 1000 == 0)
            GC_malloc(64);
    }
    return NULL;
}

#endif
