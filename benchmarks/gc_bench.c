/*
 * gc_bench [greatest height] [long-lived height] [doubles]
 *
 * Complete binary trees that come and go (ISMM 2000, section 6).  Neighbours
 * in allocation order die together, so that whole blocks come free and almost
 * nothing is left to sweep.
 */
#include "plain_nodes.h"

int main(int argc, char **argv)
{
    struct scale scale;

    measure_start();
    scale = tree_scale(argc, argv, 1);
    measure("gc_bench", run_trees, &scale);
    return 0;
}
