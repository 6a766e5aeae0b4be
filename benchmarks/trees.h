/*
 * Complete binary trees, allocated and dropped: the load of ISMM 2000,
 * section 6 (gc_bench and its variants).
 *
 * A run first builds and drops one tree larger than all others, so that the
 * heap finds its size; then builds a long-lived tree and a long-lived array of
 * doubles without pointers; then, for every second height, as many trees as
 * keep the number of nodes per height constant, half of them from the root
 * down and half from the leaves up.  At the end the long-lived data must be
 * what was built.
 *
 * The including program says how a node and the array are allocated:
 *     static struct node *new_node(void);
 *     static double *new_doubles(size_t count);
 * and may define NODE_HEAD, the fields in front of the two children.
 * Nothing here is shared between threads: each run has its own struct forest.
 */
#ifndef TREES_H
#define TREES_H

#include "measure.h"

#include <stddef.h>
#include <stdint.h>

#ifndef NODE_HEAD
#define NODE_HEAD
#endif

struct node {
    NODE_HEAD
    struct node *left, *right;
    uint32_t key, height;
};

static struct node *new_node(void);
static double *new_doubles(size_t count);

/* What a run makes. */
struct scale {
    unsigned min_height, max_height; /* of the trees that come and go */
    unsigned long_lived_height;
    size_t doubles;
};

/* The state of one run. */
struct forest {
    uint32_t next_key;
    uint64_t sum; /* folds keys of dropped trees, so that none is unused */
};

static inline size_t tree_nodes(unsigned height)
{
    return ((size_t)2 << height) - 1;
}

static struct node *labelled_node(struct forest *forest, unsigned height)
{
    struct node *node = new_node();

    require(node != NULL && node->left == NULL && node->right == NULL,
            "a fresh node is zero");
    node->key = forest->next_key++;
    node->height = height;
    return node;
}

/* From the leaves up: an old parent never points at a younger child. */
static struct node *bottom_up(struct forest *forest, unsigned height)
{
    struct node *left, *right, *node;

    if (height == 0)
        return labelled_node(forest, 0);
    left = bottom_up(forest, height - 1);
    right = bottom_up(forest, height - 1);
    node = labelled_node(forest, height);
    node->left = left;
    node->right = right;
    return node;
}

/* From the root down: gives `node` two subtrees of the height below it. */
static void grow(struct forest *forest, struct node *node)
{
    if (node->height == 0)
        return;
    node->left = labelled_node(forest, node->height - 1);
    node->right = labelled_node(forest, node->height - 1);
    grow(forest, node->left);
    grow(forest, node->right);
}

static struct node *top_down(struct forest *forest, unsigned height)
{
    struct node *root = labelled_node(forest, height);

    grow(forest, root);
    return root;
}

/* Folds the keys along the left edge and the right edge. */
static void drop(struct forest *forest, const struct node *root)
{
    const struct node *left = root, *right = root;

    while (left->left != NULL) {
        left = left->left;
        right = right->right;
    }
    forest->sum = forest->sum * 31 + left->key + right->key;
}

/* Number of nodes, each of which must have the height that its place says. */
static size_t count_nodes(const struct node *node, unsigned height,
                          uint64_t *keys)
{
    require(node->height == height, "a node has the height of its place");
    *keys = *keys * 33 + node->key;
    if (height == 0) {
        require(node->left == NULL && node->right == NULL, "leaves are leaves");
        return 1;
    }
    return 1 + count_nodes(node->left, height - 1, keys)
           + count_nodes(node->right, height - 1, keys);
}

static void come_and_go(struct forest *forest, const struct scale *scale,
                        unsigned height)
{
    size_t trees = 2 * tree_nodes(scale->max_height) / tree_nodes(height);
    size_t i;

    for (i = 0; i < trees; i++)
        drop(forest, top_down(forest, height));
    for (i = 0; i < trees; i++)
        drop(forest, bottom_up(forest, height));
}

/* Takes a struct scale. */
static uint64_t run_trees(const void *place)
{
    const struct scale *scale = place;
    struct forest forest = { 1, 0 };
    struct node *long_lived;
    double *array;
    uint64_t keys = 0;
    unsigned height;
    size_t i;

    drop(&forest, bottom_up(&forest, scale->max_height + 1));
    long_lived = top_down(&forest, scale->long_lived_height);
    array = new_doubles(scale->doubles);
    require(array != NULL, "the array was allocated");
    for (i = 0; i < scale->doubles; i++)
        array[i] = 1.0 / (double)(i + 1);

    for (height = scale->min_height; height <= scale->max_height; height += 2)
        come_and_go(&forest, scale, height);

    require(count_nodes(long_lived, scale->long_lived_height, &keys)
                == tree_nodes(scale->long_lived_height),
            "the long-lived tree is whole");
    for (i = 0; i < scale->doubles; i++)
        require(array[i] == 1.0 / (double)(i + 1), "the array is intact");
    return forest.sum ^ keys;
}

/* Arguments: greatest height, height of the long-lived tree, doubles. */
static struct scale tree_scale(int argc, char **argv, int first)
{
    struct scale scale;

    scale.min_height = 4;
    scale.max_height = (unsigned)scale_argument(argc, argv, first, 20, 4, 26);
    scale.long_lived_height
        = (unsigned)scale_argument(argc, argv, first + 1, 20, 1, 26);
    scale.doubles = scale_argument(argc, argv, first + 2, 4000000, 1,
                                   (unsigned long)1 << 28);
    return scale;
}

#endif
