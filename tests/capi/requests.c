/*
 * What one thread asks of others: an interrupt, a stop of all, a handshake; and
 * threads of a heap that the program makes itself.
 */
#define GLEANER_DEBUG
#include "mistake.h"

#include <pthread.h>

/* ---- interrupts ----------------------------------------------------------- */

struct interrupted {
    gleaner_mutator *mutator;
    int count;
};

static void count_interrupts(void *data, gleaner_mutator *mutator)
{
    struct interrupted *interrupted = (struct interrupted *)data;

    CHECK(mutator == interrupted->mutator);
    interrupted->count++;
    /* It may use the mutator; an interrupt of now comes with a later poll. */
    gleaner_collect(mutator, false);
    if (interrupted->count == 1)
        CHECK(gleaner_request_interrupt(mutator));
    gleaner_poll(mutator);
    CHECK(interrupted->count < 3);
}

static void *request_twice(void *mutator)
{
    CHECK(gleaner_request_interrupt((gleaner_mutator *)mutator));
    CHECK(gleaner_request_interrupt((gleaner_mutator *)mutator));
    return NULL;
}

static void an_interrupt_is_delivered_by_a_poll(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    struct interrupted interrupted = { s.m, 0 };
    pthread_t thread;
    int i;

    CHECK(!gleaner_request_interrupt(s.m)); /* without a handler */
    CHECK(!gleaner_request_interrupt(NULL));
    gleaner_set_interrupt_handler(s.m, count_interrupts, &interrupted);
    CHECK(pthread_create(&thread, NULL, request_twice, s.m) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    for (i = 0; i < 10000; i++)
        new_node(&s, 1);
    CHECK(interrupted.count == 0);
    gleaner_poll(s.m);
    CHECK(interrupted.count == 1);
    gleaner_poll(s.m);
    CHECK(interrupted.count == 2);
    gleaner_poll(s.m);
    CHECK(interrupted.count == 2);
    gleaner_detach(s.m);
    CHECK(!gleaner_request_interrupt(s.m));
    CHECK(gleaner_heap_free(s.heap));
}

/* ---- stops and handshakes ------------------------------------------------- */

enum { OTHERS = 3 };

struct others {
    struct stage *stage;
    int attached, ended; /* atomic */
    long moves;          /* atomic */
};

static void *polls(void *place)
{
    struct others *others = (struct others *)place;
    gleaner_mutator *m = gleaner_attach(others->stage->heap);

    __atomic_add_fetch(&others->attached, 1, __ATOMIC_RELAXED);
    while (!__atomic_load_n(&others->ended, __ATOMIC_RELAXED)) {
        __atomic_add_fetch(&others->moves, 1, __ATOMIC_RELAXED);
        gleaner_poll(m);
    }
    gleaner_detach(m);
    return NULL;
}

static void look_at_moves(void *place)
{
    struct others *others = (struct others *)place;
    long before = __atomic_load_n(&others->moves, __ATOMIC_RELAXED);
    int i;

    for (i = 0; i < 100; i++)
        sched_yield();
    CHECK(__atomic_load_n(&others->moves, __ATOMIC_RELAXED) == before);
}

static void count_mutators(void *place, const gleaner_mutator *of)
{
    CHECK(of->slot_bytes == 4 || of->slot_bytes == 8);
    __atomic_add_fetch((int *)place, 1, __ATOMIC_RELAXED);
}

static void others_are_stopped_or_asked(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    struct others others = { &s, 0, 0, 0 };
    pthread_t threads[OTHERS];
    int i;

    for (i = 0; i < OTHERS; i++)
        CHECK(pthread_create(&threads[i], NULL, polls, &others) == 0);
    while (__atomic_load_n(&others.attached, __ATOMIC_RELAXED) < OTHERS)
        gleaner_poll(s.m);
    for (i = 0; i < 50; i++) {
        int mutators = 0;

        gleaner_stop_and_call(s.m, look_at_moves, &others);
        gleaner_handshake(s.m, count_mutators, &mutators);
        CHECK(mutators == OTHERS + 1);
    }
    __atomic_store_n(&others.ended, 1, __ATOMIC_RELAXED);
    gleaner_blocking_begin(s.m);
    for (i = 0; i < OTHERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    gleaner_blocking_end(s.m);
    tear_down(&s);
}

/* ---- threads of the heap -------------------------------------------------- */

struct threads {
    int started, joined;
    bool refuses;
    char names[4][16];
};

struct start {
    void (*run)(void *argument);
    void *argument;
};

static void *start_here(void *place)
{
    struct start start = *(struct start *)place;

    free(place);
    start.run(start.argument);
    return NULL;
}

static void *start_thread(void *data, const char *name,
                          void (*run)(void *argument), void *argument)
{
    struct threads *threads = (struct threads *)data;
    struct start *start;
    pthread_t *thread;

    if (threads->refuses || threads->started == 4)
        return NULL;
    strncpy(threads->names[threads->started++], name, 15);
    start = (struct start *)malloc(sizeof *start);
    thread = (pthread_t *)malloc(sizeof *thread);
    start->run = run;
    start->argument = argument;
    CHECK(pthread_create(thread, NULL, start_here, start) == 0);
    return thread;
}

static void join_thread(void *data, void *thread)
{
    CHECK(pthread_join(*(pthread_t *)thread, NULL) == 0);
    free(thread);
    ((struct threads *)data)->joined++;
}

static void a_heap_has_threads_of_the_program(bool compressed)
{
    struct threads threads;
    const struct gleaner_thread_factory factory
        = { start_thread, join_thread, &threads };
    const struct gleaner_thread_factory incomplete
        = { start_thread, NULL, &threads };
    struct gleaner_options options;
    struct stage s;
    char message[200];
    int refuses;

    memset(&options, 0, sizeof options);
    options.outside_layout = GLEANER_LAYOUT_FOLLOWED;
    options.limit = 2 << 20;
    options.workers = 3;
    options.compressed = compressed;
    options.list = "crew=all";
    for (refuses = 0; refuses < 2; refuses++) {
        memset(&threads, 0, sizeof threads);
        threads.refuses = refuses != 0;
        options.threads = &factory;
        s = set_up_in(gleaner_heap_new(&options, NULL, 0), compressed);
        gleaner_collect(s.m, true);
        CHECK(threads.started == (refuses ? 0 : 2) && threads.joined == 0);
        tear_down(&s);
        CHECK(threads.joined == threads.started);
        CHECK(refuses || strcmp(threads.names[0], "gleaner-1") == 0);
        CHECK(refuses || strcmp(threads.names[1], "gleaner-2") == 0);
    }
    options.threads = &incomplete;
    CHECK(gleaner_heap_new(&options, message, sizeof message) == NULL);
    CHECK(strstr(message, "start or join is NULL") != NULL);
}

/* ---- mistakes ------------------------------------------------------------- */

static void sets_no_handler(struct stage *s)
{
    gleaner_set_interrupt_handler(s->m, NULL, NULL);
}

static void calls_nothing(struct stage *s)
{
    gleaner_stop_and_call(s->m, NULL, NULL);
}

static void asks_nothing(struct stage *s)
{
    gleaner_handshake(s->m, NULL, NULL);
}

static void allocate_there(void *place)
{
    struct stage *s = (struct stage *)place;

    gleaner_allocate(s->m, s->node, s->node_bytes);
}

static void allocates_in_a_stop(struct stage *s)
{
    gleaner_stop_and_call(s->m, allocate_there, s);
}

static void collect_asked(void *place, const gleaner_mutator *of)
{
    (void)of;
    gleaner_collect(((struct stage *)place)->m, false);
}

static void collects_in_a_handshake(struct stage *s)
{
    gleaner_handshake(s->m, collect_asked, s);
}

#define STOPPED " by a function for which mutators are stopped"

static void each_mistake_has_a_message(bool compressed)
{
    static const struct mistake mistakes[] = {
        { "the handler is NULL", sets_no_handler },
        { "gleaner_stop_and_call: the function to call is NULL",
          calls_nothing },
        { "gleaner_handshake: the function to call is NULL", asks_nothing },
        { "an allocation" STOPPED, allocates_in_a_stop },
        { "a collection" STOPPED, collects_in_a_handshake },
    };

    expect_messages(mistakes, sizeof mistakes / sizeof *mistakes, compressed);
}

int main(void)
{
    static const struct stage_case cases[] = {
        { "an interrupt is delivered by a poll",
          an_interrupt_is_delivered_by_a_poll },
        { "others are stopped or asked", others_are_stopped_or_asked },
        { "a heap has threads of the program",
          a_heap_has_threads_of_the_program },
        { "each mistake has a message", each_mistake_has_a_message },
    };

    return run_cases(cases, sizeof cases / sizeof *cases);
}
