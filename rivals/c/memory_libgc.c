/* The installed libgc. The heap has most of its size from the start: it is then
 * collected when it is full, as with the other rivals, and not while it grows.
 * With all of its size it gives up on `refarray` at its first collection. */
#define GC_THREADS
#include <gc.h>
#include <string.h>

#include "memory.h"

#define MEMORY_FINALIZERS finalizers

/* It asks this also where it has no other way to say so: for a finalizer. */
static void *memory_full(size_t bytes)
{
    (void)bytes;
    return allocated(NULL);
}

static void memory_start(size_t heap_bytes, int workers)
{
    GC_set_markers_count((unsigned)workers);
    GC_INIT();
    /* Otherwise they start with the second thread of the program. */
    GC_start_mark_threads();
    GC_start_performance_measurement();
    GC_set_max_heap_size(heap_bytes);
    GC_set_oom_fn(memory_full);
    GC_expand_hp(heap_bytes / 16 * 15);
}

static struct node *memory_node(void)
{
    return allocated(GC_MALLOC(sizeof(struct node)));
}

static struct quad *memory_quad(void)
{
    return allocated(GC_MALLOC(sizeof(struct quad)));
}

static struct node **memory_references(size_t length)
{
    return allocated(GC_MALLOC(length * sizeof(struct node *)));
}

static void *memory_numbers(size_t bytes)
{
    return allocated(GC_MALLOC_ATOMIC(bytes));
}

static void *memory_zeros(size_t bytes)
{
    return memset(memory_numbers(bytes), 0, bytes);
}

static void *memory_object(size_t bytes)
{
    return allocated(GC_MALLOC(bytes));
}

static const int memory_by_hand = 0;

static void memory_free(void *object)
{
    (void)object;
}

static long memory_collections(void)
{
    return (long)GC_get_gc_no();
}

static double memory_pause_s(void)
{
    return (double)GC_get_full_gc_total_time() * 1e-3;
}
