/*
 * mt_gc_bench [greatest height] [long-lived height] [doubles] [threads]
 *
 * gc_bench in several threads at once, each with trees of its own.  Every
 * thread builds the same trees, so all must come to the same result.
 */
#define GC_THREADS
#include "plain_nodes.h"

#include <pthread.h>

enum { MAX_THREADS = 256 };

/* Written before the threads start, read by all of them. */
static struct scale scale;

static void *run(void *place)
{
    *(uint64_t *)place = run_trees(&scale);
    return NULL;
}

int main(int argc, char **argv)
{
    static uint64_t results[MAX_THREADS]; /* [i] is written by thread i */
    pthread_t threads[MAX_THREADS];
    unsigned long count, i;

    measure_start();
    scale = tree_scale(argc, argv, 1);
    count = scale_argument(argc, argv, 4, 4, 1, MAX_THREADS);
    for (i = 0; i < count; i++)
        require(pthread_create(&threads[i], NULL, run, &results[i]) == 0,
                "a thread starts");
    for (i = 0; i < count; i++) {
        require(pthread_join(threads[i], NULL) == 0, "a thread is joined");
        require(results[i] == results[0], "the threads agree");
    }
    measure_report("mt_gc_bench", results[0] * count);
    return 0;
}
