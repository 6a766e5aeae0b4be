/*
 * holes_gc_bench [greatest height] [long-lived height] [doubles]
 *
 * gc_bench with an extra node allocated and dropped between each pair of
 * retained ones (ISMM 2000, section 6): every block holds garbage in each
 * second place, and the sweep has the most to do.
 */
#include "trees.h"

#include <gc.h>

static struct node *new_node(void)
{
    /* Read through a volatile pointer, or the compiler drops the allocation. */
    struct node *volatile hole = GC_MALLOC(sizeof(struct node));

    require(hole != NULL, "a hole was allocated");
    hole = NULL;
    return GC_MALLOC(sizeof(struct node));
}

static double *new_doubles(size_t count)
{
    return GC_MALLOC_ATOMIC(count * sizeof(double));
}

int main(int argc, char **argv)
{
    struct scale scale;

    measure_start();
    scale = tree_scale(argc, argv, 1);
    measure("holes_gc_bench", run_trees, &scale);
    return 0;
}
