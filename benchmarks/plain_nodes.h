/* Nodes and the array from the ordinary allocators: every word of a node may
   be a pointer (scanned conservatively), no word of the array is. */
#ifndef PLAIN_NODES_H
#define PLAIN_NODES_H

#include "trees.h"

#include <gc.h>

static struct node *new_node(void)
{
    return GC_MALLOC(sizeof(struct node));
}

static double *new_doubles(size_t count)
{
    return GC_MALLOC_ATOMIC(count * sizeof(double));
}

#endif
