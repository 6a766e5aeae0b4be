/* What the workloads ask of a memory manager. Each memory_NAME.c keeps these
 * promises for one rival; it is included, not linked, so that what a program
 * would have inline is inline. It also defines MEMORY_FINALIZERS: the workload
 * about finalizers, or NULL where there are none. */
#ifndef RIVALS_MEMORY_H
#define RIVALS_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* Two references and two numbers of 4 bytes. C objects have no header. */
struct node {
    struct node *side[2];
    uint32_t number[2];
};

/* Four references and two numbers of 4 bytes. */
struct quad {
    struct quad *corner[4];
    uint32_t number[2];
};

/* Once, before all else: a heap of `heap_bytes` bytes and `workers` collecting
 * threads, as far as the rival knows such things. */
static void memory_start(size_t heap_bytes, int workers);

/* A fresh node, all zero. */
static struct node *memory_node(void);
/* A fresh quad, all zero. */
static struct quad *memory_quad(void);
/* A fresh array of null references. */
static struct node **memory_references(size_t length);
/* A fresh array of numbers, of `bytes` bytes in all, not initialized. */
static void *memory_numbers(size_t bytes);
/* The same, all zero. */
static void *memory_zeros(size_t bytes);
/* A fresh object of `bytes` bytes that may refer to others. The caller
 * writes all of it. */
static void *memory_object(size_t bytes);

/* Whether the program frees by hand. */
static const int memory_by_hand;
/* Frees, by hand; nothing where a collector does it. */
static void memory_free(void *object);

/* What collections there were; -1 where there is no collector. */
static long memory_collections(void);
/* Seconds that they stopped the program for. */
static double memory_pause_s(void);

/* Ends the program when `object` is NULL, else returns it. Other threads may
 * run. */
static inline void *allocated(void *object)
{
    if (object == NULL) {
        fprintf(stderr, "out of memory: a larger --heap may do\n");
        _exit(2);
    }
    return object;
}

#endif
