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

struct work {
    struct scale scale;
    unsigned long threads;
};

/* What one thread is told and tells. */
struct share {
    const struct scale *scale;
    uint64_t result;
};

static void *run(void *place)
{
    struct share *share = place;

    share->result = run_trees(share->scale);
    return NULL;
}

static uint64_t run_threads(const void *place)
{
    const struct work *work = place;
    struct share shares[MAX_THREADS]; /* [i] is written by thread i */
    pthread_t threads[MAX_THREADS];
    unsigned long i;

    for (i = 0; i < work->threads; i++) {
        shares[i] = (struct share){ &work->scale, 0 };
        require(pthread_create(&threads[i], NULL, run, &shares[i]) == 0,
                "a thread starts");
    }
    for (i = 0; i < work->threads; i++) {
        require(pthread_join(threads[i], NULL) == 0, "a thread is joined");
        require(shares[i].result == shares[0].result, "the threads agree");
    }
    return shares[0].result * work->threads;
}

int main(int argc, char **argv)
{
    struct work work;

    measure_start();
    work.scale = tree_scale(argc, argv, 1);
    work.threads = scale_argument(argc, argv, 4, 4, 1, MAX_THREADS);
    measure("mt_gc_bench", run_threads, &work);
    return 0;
}
