/* Trees, lists and arrays: gcbench, holes, queue, refarray, quads.
 *
 * By hand, a tree is freed when it was built or counted, a node of the queue
 * when it was taken, an element of the array when it was replaced. */
#include "rival.h"

static uint64_t mixed(uint64_t sum, uint32_t number)
{
    return sum * 31 + number;
}

/* ---- gcbench and holes ---- */

struct forest {
    int holes;
    uint32_t next;
};

static inline struct node *forest_node(struct forest *forest)
{
    struct node *node;

    if (forest->holes) {
        struct node *hole = memory_node();

        /* The compiler may not leave it out. */
        __asm__ volatile("" : : "r"(hole) : "memory");
        memory_free(hole);
    }
    node = memory_node();
    node->number[0] = ++forest->next;
    return node;
}

static void grow(struct forest *forest, struct node *node, int height)
{
    if (height == 0)
        return;
    for (int side = 0; side < 2; side++)
        node->side[side] = forest_node(forest);
    for (int side = 0; side < 2; side++)
        grow(forest, node->side[side], height - 1);
}

static struct node *bottom_up(struct forest *forest, int height)
{
    struct node *left, *right, *node;

    if (height == 0)
        return forest_node(forest);
    left = bottom_up(forest, height - 1);
    right = bottom_up(forest, height - 1);
    node = forest_node(forest);
    node->side[0] = left;
    node->side[1] = right;
    return node;
}

static void fell(struct node *node)
{
    if (!memory_by_hand || node == NULL)
        return;
    fell(node->side[0]);
    fell(node->side[1]);
    memory_free(node);
}

static uint64_t count(const struct node *node, uint64_t *numbers)
{
    uint64_t nodes = 1;

    *numbers = mixed(*numbers, node->number[0]);
    for (int side = 0; side < 2; side++)
        if (node->side[side] != NULL)
            nodes += count(node->side[side], numbers);
    return nodes;
}

static uint64_t gcbench(const struct chosen *chosen, int holes)
{
    struct forest forest = { .holes = holes };
    int most = chosen->tiny ? 8 : 18;
    size_t doubles = chosen->tiny ? 500 : 500000;
    struct node *kept = forest_node(&forest);
    uint64_t nodes, numbers = 0;
    double *array;

    grow(&forest, kept, most);
    array = memory_numbers(doubles * sizeof *array);
    for (size_t i = 0; i < doubles; i++)
        array[i] = 1.0 / (double)(i + 1);
    for (int height = 4; height <= most; height += 2) {
        uint64_t trees = 2 * (((uint64_t)8 << most) - 1) / (((uint64_t)2 << height) - 1);

        for (uint64_t i = 0; i < trees; i++) {
            struct node *root = forest_node(&forest);

            grow(&forest, root, height);
            fell(root);
        }
        for (uint64_t i = 0; i < trees; i++)
            fell(bottom_up(&forest, height));
    }
    require(array[99] == 0.01, "the array is as it was filled");
    nodes = count(kept, &numbers);
    require(nodes == ((uint64_t)2 << most) - 1, "the tree that stays is whole");
    fell(kept);
    memory_free(array);
    return nodes ^ numbers << 24;
}

uint64_t plain_gcbench(const struct chosen *chosen)
{
    return gcbench(chosen, 0);
}

uint64_t holes(const struct chosen *chosen)
{
    return gcbench(chosen, 1);
}

/* ---- queue ---- */

uint64_t queue(const struct chosen *chosen)
{
    uint32_t length = chosen->tiny ? 1000 : 1000000;
    uint32_t steps = chosen->tiny ? 16000 : 16000000;
    struct node *head = memory_node(), *tail = head;
    uint64_t sum = 0;
    uint32_t left = 0;

    for (uint32_t number = 1; number <= steps; number++) {
        struct node *node = memory_node();

        node->number[0] = number;
        tail->side[0] = node;
        tail = node;
        if (number > length) {
            struct node *taken = head;

            sum = mixed(sum, taken->number[0]);
            head = taken->side[0];
            memory_free(taken);
        }
    }
    while (head != NULL) {
        struct node *next = head->side[0];

        left++;
        memory_free(head);
        head = next;
    }
    require(left == length + 1, "the list is whole");
    return sum;
}

/* ---- refarray ---- */

uint64_t refarray(const struct chosen *chosen)
{
    uint32_t length = chosen->tiny ? 1000 : 1000000;
    uint32_t steps = chosen->tiny ? 10000 : 10000000;
    struct node **array = memory_references(length);
    uint64_t random = 2000, sum = 0;

    for (uint32_t i = 0; i < length; i++) {
        array[i] = memory_node();
        array[i]->number[0] = i;
    }
    for (uint32_t number = 0; number < steps; number++) {
        struct node *node;
        uint32_t i;

        random = random * 6364136223846793005u + 1442695040888963407u;
        i = (uint32_t)((random >> 33) % length);
        node = memory_node();
        node->number[0] = number;
        memory_free(array[i]);
        array[i] = node;
    }
    for (uint32_t i = 0; i < length; i++) {
        sum = mixed(sum, array[i]->number[0]);
        memory_free(array[i]);
    }
    memory_free(array);
    return sum;
}

/* ---- quads ---- */

enum { SHALLOW = 3 };

/* From the root down, the quads numbered in that order. */
static struct quad *plant(int depth, uint32_t *next)
{
    struct quad *quad = memory_quad();

    quad->number[0] = ++*next;
    for (int corner = 0; depth > 0 && corner < 4; corner++)
        quad->corner[corner] = plant(depth - 1, next);
    return quad;
}

static void uproot(struct quad *quad)
{
    if (!memory_by_hand || quad == NULL)
        return;
    for (int corner = 0; corner < 4; corner++)
        uproot(quad->corner[corner]);
    memory_free(quad);
}

static uint64_t count_quads(const struct quad *quad, uint64_t *sum)
{
    uint64_t quads = 1;

    *sum = mixed(*sum, quad->number[0]);
    for (int corner = 0; corner < 4; corner++)
        if (quad->corner[corner] != NULL)
            quads += count_quads(quad->corner[corner], sum);
    return quads;
}

/* How many quads a tree of some depth has. */
static uint64_t quads_of(int depth)
{
    return (((uint64_t)4 << 2 * depth) - 1) / 3;
}

uint64_t quads(const struct chosen *chosen)
{
    int depth = chosen->tiny ? 5 : 10, trees = chosen->tiny ? 400 : 400000;
    uint32_t next = 0;
    uint64_t sum = 0;
    struct quad *kept = plant(depth, &next);

    for (int i = 0; i < trees; i++) {
        struct quad *dropped = plant(SHALLOW, &next);

        require(count_quads(dropped, &sum) == quads_of(SHALLOW), "a shallow tree is whole");
        uproot(dropped);
    }
    require(count_quads(kept, &sum) == quads_of(depth), "the tree that stays is whole");
    uproot(kept);
    return sum;
}
