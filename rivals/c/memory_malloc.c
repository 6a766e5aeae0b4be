/* malloc and free: the C library's, or those of whatever is linked before it.
 * There is no heap limit. */
#include <stdlib.h>

#include "memory.h"

#define MEMORY_FINALIZERS NULL

static void memory_start(size_t heap_bytes, int workers)
{
    (void)heap_bytes;
    (void)workers;
}

static struct node *memory_node(void)
{
    struct node *node = allocated(malloc(sizeof *node));

    *node = (struct node){ 0 };
    return node;
}

static struct quad *memory_quad(void)
{
    struct quad *quad = allocated(malloc(sizeof *quad));

    *quad = (struct quad){ 0 };
    return quad;
}

static struct node **memory_references(size_t length)
{
    return allocated(calloc(length, sizeof(struct node *)));
}

static void *memory_numbers(size_t bytes)
{
    return allocated(malloc(bytes));
}

static void *memory_zeros(size_t bytes)
{
    return allocated(calloc(bytes, 1));
}

static void *memory_object(size_t bytes)
{
    return allocated(malloc(bytes));
}

static const int memory_by_hand = 1;

static void memory_free(void *object)
{
    free(object);
}

static long memory_collections(void)
{
    return -1;
}

static double memory_pause_s(void)
{
    return 0;
}
