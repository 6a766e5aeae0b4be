/* Mutator threads: the same body on each. */
#include <pthread.h>

#include "rival.h"

struct mutator {
    uint64_t (*body)(void *context, unsigned number);
    void *context;
    unsigned number;
    uint64_t result;
};

static void *run_mutator(void *argument)
{
    struct mutator *mutator = argument;

    mutator->result = mutator->body(mutator->context, mutator->number);
    return NULL;
}

uint64_t run_mutators(unsigned mutators, uint64_t (*body)(void *context, unsigned number),
                      void *context)
{
    struct mutator all[MOST_MUTATORS];
    pthread_t threads[MOST_MUTATORS];
    uint64_t sum = 0;

    if (mutators == 1)
        return body(context, 0);
    for (unsigned i = 0; i < mutators; i++) {
        all[i] = (struct mutator){ .body = body, .context = context, .number = i };
        if (pthread_create(&threads[i], NULL, run_mutator, &all[i]) != 0)
            give_up("%u threads are too many for this system", mutators);
    }
    for (unsigned i = 0; i < mutators; i++) {
        pthread_join(threads[i], NULL);
        sum += all[i].result;
    }
    return sum;
}
