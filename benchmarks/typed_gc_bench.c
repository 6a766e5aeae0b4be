/*
 * typed_gc_bench [greatest height] [long-lived height] [doubles] [layout]
 *
 * gc_bench with exact object layouts, as a compiler that knows its types
 * would give them (ISMM 2000, section 6: gc_bench_java).  Layout 0, the
 * default: the first word of a node leads to a table whose second word is the
 * descriptor, as in gcj.  Layout 1: the descriptor is given at allocation.
 * Both build the same trees, so that their results agree.
 */
#define NODE_HEAD const struct type_table *type;

struct type_table;

#include "trees.h"

#include <gc.h>
#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>

/* What the first word of a node points at; the collector reads `descriptor`
   at its fixed offset of one word. */
struct type_table {
    const char *name;
    GC_descr descriptor;
};

static struct type_table node_type = { "node", 0 };
static int explicit_layout;

static struct node *new_node(void)
{
    struct node *node;

    if (!explicit_layout)
        return GC_GCJ_MALLOC(sizeof(struct node), &node_type);
    node = GC_MALLOC_EXPLICITLY_TYPED(sizeof(struct node),
                                      node_type.descriptor);
    if (node != NULL)
        node->type = &node_type;
    return node;
}

static double *new_doubles(size_t count)
{
    return GC_MALLOC_ATOMIC(count * sizeof(double));
}

/* Called for objects of the debugging allocator alone, which is not used. */
static struct GC_ms_entry *no_procedure(GC_word *object,
                                        struct GC_ms_entry *top,
                                        struct GC_ms_entry *limit,
                                        GC_word environment)
{
    (void)object;
    (void)limit;
    (void)environment;
    require(0, "no mark procedure is needed");
    return top;
}

int main(int argc, char **argv)
{
    GC_word pointers[GC_BITMAP_SIZE(struct node)] = { 0 };
    struct scale scale;

    measure_start();
    scale = tree_scale(argc, argv, 1);
    explicit_layout = scale_argument(argc, argv, 4, 0, 0, 1) == 1;
    GC_init_gcj_malloc(GC_GCJ_RESERVED_MARK_PROC_INDEX, (void *)no_procedure);
    GC_set_bit(pointers, GC_WORD_OFFSET(struct node, left));
    GC_set_bit(pointers, GC_WORD_OFFSET(struct node, right));
    node_type.descriptor
        = GC_make_descriptor(pointers, GC_WORD_LEN(struct node));
    measure("typed_gc_bench", run_trees, &scale);
    return 0;
}
