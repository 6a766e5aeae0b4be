/*
 * large_heap_gc_bench [greatest height] [long-lived height] [doubles]
 *
 * gc_bench in a heap expanded at once to about ten times the live data (ISMM
 * 2000, section 6: large_ghostscript): few collections, each of a heap that is
 * mostly garbage.
 */
#include "plain_nodes.h"

/* At most one short-lived tree lives beside the long-lived data. */
static size_t live_bytes(const struct scale *scale)
{
    size_t node = (sizeof(struct node) + 15) / 16 * 16;

    return node
               * (tree_nodes(scale->long_lived_height)
                  + tree_nodes(scale->max_height))
           + scale->doubles * sizeof(double);
}

int main(int argc, char **argv)
{
    struct scale scale;
    size_t wanted;

    measure_start();
    scale = tree_scale(argc, argv, 1);
    wanted = 10 * live_bytes(&scale);
    if (wanted > GC_get_heap_size())
        require(GC_expand_hp(wanted - GC_get_heap_size()), "the heap expands");
    measure("large_heap_gc_bench", run_trees, &scale);
    return 0;
}
