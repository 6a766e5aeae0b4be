/* Incremental collection: marks are made in steps beside the program, which
 * meanwhile writes, frees, forks, asks for collections, starts threads and
 * unloads libraries. A time limit of a millisecond makes every collection of
 * everything a cycle of steps. */
#include "harness.h"
#include <gc/gc_mark.h>
#include <dlfcn.h>

enum { NODES = 100000, HOLDERS = 300, WORDS = 30 };

struct node {
    struct node *next;
    struct node *extra;
    uintptr_t number;
};

static struct node *volatile list;
static void **holders;

static NOINLINE void grow_list(void)
{
    for (uintptr_t i = 0; i < (under_stress() ? NODES / 20 : NODES); i++) {
        struct node *n = GC_malloc(sizeof *n);
        n->number = i;
        n->next = list;
        GC_end_stubborn_change(n);
        list = n;
    }
}

static NOINLINE void check_list(void)
{
    uintptr_t expected = list->number;
    for (struct node *n = list; n != NULL; n = n->next)
        CHECK_EQ(n->number, expected--);
    CHECK_EQ(expected, (uintptr_t)-1);
}

static void prepare(void)
{
    GC_enable_incremental();
    GC_INIT();
    GC_set_time_limit(1);
    holders = GC_malloc_uncollectable(HOLDERS * sizeof *holders);
    for (int i = 0; i < HOLDERS; i++)
        holders[i] = GC_malloc(WORDS * sizeof(void *));
    grow_list();
    collect();
}

/* Steps until the cycle that is under way has ended; how many. */
static int finish_cycle(void)
{
    int steps = 0;
    while (GC_collect_a_little() != 0)
        REQUIRE(++steps < 10000000);
    return steps;
}

/* ---- what the interface answers ---- */

/* Whether it is left to the program which mode is on. */
static int may_choose(void)
{
    const char *options = getenv("GLEANER_OPTIONS");
    return options == NULL || strstr(options, "generations=") == NULL;
}

static void mode(void)
{
    unsetenv("GC_PAUSE_TIME_TARGET");
    GC_INIT();
    CHECK_EQ(GC_is_incremental_mode(), 0);
    CHECK_EQ(GC_get_time_limit(), GC_TIME_UNLIMITED);
    GC_start_incremental_collection(); /* does nothing */
    CHECK_EQ(GC_collect_a_little(), 0);
    GC_enable_incremental();
    CHECK_EQ(GC_is_incremental_mode(), 1);
    CHECK_EQ(GC_incremental_protection_needs(), GC_PROTECTS_NONE);
    CHECK_EQ(GC_get_time_limit(), 50);
    GC_set_time_limit(10);
    CHECK_EQ(GC_get_time_limit(), 10);
    GC_enable_incremental();
    CHECK_EQ(GC_get_time_limit(), 10);
}

static void limit_before_mode(void)
{
    unsetenv("GC_PAUSE_TIME_TARGET");
    GC_set_time_limit(GC_TIME_UNLIMITED);
    GC_enable_incremental();
    GC_INIT();
    CHECK_EQ(GC_is_incremental_mode(), 1);
    CHECK_EQ(GC_get_time_limit(), GC_TIME_UNLIMITED);
    grow_list();
    /* Generational, and never in steps. */
    GC_start_incremental_collection();
    CHECK_EQ(GC_collect_a_little(), 0);
    check_list();
}

static void not_for_leaks(void)
{
    GC_set_find_leak(1);
    GC_INIT();
    GC_enable_incremental();
    CHECK_EQ(GC_is_incremental_mode(), 0);
    check_alive();
}

static void by_environment(void)
{
    setenv("GC_ENABLE_INCREMENTAL", "1", 1);
    setenv("GC_PAUSE_TIME_TARGET", "7", 1);
    GC_INIT();
    CHECK_EQ(GC_is_incremental_mode(), 1);
    CHECK_EQ(GC_get_time_limit(), 7);
}

static void not_by_environment(void)
{
    setenv("GC_DISABLE_INCREMENTAL", "1", 1);
    GC_INIT();
    GC_enable_incremental();
    CHECK_EQ(GC_is_incremental_mode(), 0);
}

/* ---- cycles ---- */

/* Begun by hand, done in several steps, counted once; and what was garbage
 * before is gone. */
static NOINLINE void drop_watched(void)
{
    for (int i = 0; i < MANY; i++)
        watch(i, GC_malloc(48));
}

static void a_cycle(void)
{
    prepare();
    deep(drop_watched);
    scrub();
    size_t before = GC_get_gc_no();
    GC_start_incremental_collection();
    CHECK_EQ(GC_get_gc_no(), before);
    int steps = finish_cycle();
    if (!under_stress())
        CHECK_GE(steps, 3);
    CHECK_EQ(GC_get_gc_no(), before + 1);
    CHECK_MOST_GONE(MANY);
    check_list();
}

/* By allocation alone, and the program writes all the time. */
static void by_allocation(void)
{
    prepare();
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < HOLDERS; i++) {
            struct node *n = GC_malloc(sizeof *n);
            n->number = (uintptr_t)(i + round);
            ((struct node **)holders[i])[round % WORDS] = n;
        }
        if (round % 5 == 0)
            GC_start_incremental_collection();
        churn(under_stress() ? 100000 : 4 << 20, 64);
        for (int i = 0; i < HOLDERS; i++)
            CHECK_EQ(((struct node **)holders[i])[round % WORDS]->number, (uintptr_t)(i + round));
    }
    check_list();
}

static void limits_of_time(void)
{
    static const unsigned long limits[] = {0, 1, 10, GC_TIME_UNLIMITED};
    prepare();
    for (int i = 0; i < 4; i++) {
        struct GC_timeval_s exact = {limits[i], 500};
        GC_set_time_limit_tv(exact);
        CHECK_EQ(GC_get_time_limit_tv().tv_nsec, 500);
        GC_start_incremental_collection();
        churn(under_stress() ? 100000 : 10 << 20, 64);
        finish_cycle();
        check_list();
    }
}

static void asked_for_in_the_middle(void)
{
    prepare();
    deep(drop_watched);
    GC_start_incremental_collection();
    GC_collect_a_little();
    collect();
    CHECK_MOST_GONE(MANY);
    CHECK_EQ(GC_collect_a_little(), 0);
    check_list();
}

static void disabled_in_the_middle(void)
{
    prepare();
    GC_start_incremental_collection();
    size_t before = GC_get_gc_no();
    GC_disable();
    churn(under_stress() ? 100000 : 20 << 20, 64);
    CHECK_EQ(GC_get_gc_no(), before);
    /* What is freed meanwhile does not wait for a cycle that cannot end. */
    for (int i = 0; i < 2000; i++)
        GC_free(GC_malloc(1 << 20));
    CHECK_LE(GC_get_heap_size(), (size_t)400 << 20);
    GC_enable();
    finish_cycle();
    CHECK_GE(GC_get_gc_no(), before);
    check_list();
}

/* Small and large objects are freed while they may be grey; their memory is
 * used again, at once or later. */
static void freed_in_the_middle(void)
{
    prepare();
    for (int round = 0; round < 10; round++) {
        void *large[20], *small[200];
        for (int i = 0; i < 20; i++)
            large[i] = GC_malloc(100000), ((void **)holders[i])[3] = large[i];
        for (int i = 0; i < 200; i++)
            small[i] = GC_malloc(200), ((void **)holders[i])[4] = small[i];
        GC_start_incremental_collection();
        for (int i = 0; i < 20; i++)
            GC_free(large[i]);
        for (int i = 0; i < 200; i++)
            GC_free(small[i]);
        for (int i = 0; i < 200; i++) {
            char *again = GC_malloc(200);
            for (int at = 16; at < 200; at++)
                CHECK_EQ(again[at], 0);
            memset(again, 0x5a, 200);
            ((void **)holders[i])[4] = again;
        }
        for (int i = 0; i < 20; i++)
            ((void **)holders[i])[3] = GC_realloc(GC_malloc(30000), 150000);
        finish_cycle();
        for (int i = 0; i < 200; i++)
            CHECK_EQ(((unsigned char **)holders[i])[4][100], 0x5a);
    }
    check_list();
    CHECK_LE(GC_get_heap_size(), (size_t)200 << 20);
}

/* Both sides of a fork end what was under way. */
static void forked_in_the_middle(void)
{
    prepare();
    for (int round = 0; round < 3; round++) {
        GC_start_incremental_collection();
        if (round > 0)
            GC_collect_a_little();
        for (int i = 0; i < HOLDERS; i++) {
            struct node *n = GC_malloc(sizeof *n);
            n->number = (uintptr_t)i;
            ((struct node **)holders[i])[7] = n;
        }
        pid_t child = fork();
        REQUIRE(child >= 0);
        churn(under_stress() ? 100000 : 10 << 20, 64);
        finish_cycle();
        for (int i = 0; i < HOLDERS; i++)
            CHECK_EQ(((struct node **)holders[i])[7]->number, (uintptr_t)i);
        check_list();
        if (child == 0)
            _exit(h_test_failed);
        int status;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
    }
}

/* More threads than processors write into old blocks while steps are made, and
 * new ones come. */
static volatile int rounds_left;

static void *writer(void *argument)
{
    uintptr_t first = (uintptr_t)argument;
    for (int round = 0; round < (under_stress() ? 3 : 60); round++)
        for (int i = (int)first; i < HOLDERS; i += 16) {
            struct node **holder = holders[i];
            struct node *before = holder[9];
            if (before != NULL) {
                CHECK_EQ(before->number, (uintptr_t)(i + round - 1));
                CHECK_EQ(before->next->number, ~(uintptr_t)(i + round - 1));
            }
            struct node *n = GC_malloc(sizeof *n);
            n->next = GC_malloc(sizeof *n);
            n->number = (uintptr_t)(i + round);
            n->next->number = ~n->number;
            holder[9] = n;
            /* What nothing else leads to moves about in old objects. */
            void *moved = holder[10];
            holder[10] = NULL;
            holder[11 + round % 10] = moved != NULL ? moved : n;
            holder[10] = holder[11 + (round + 1) % 10];
            holder[11 + (round + 1) % 10] = NULL;
        }
    return NULL;
}

static void *cycles(void *unused)
{
    (void)unused;
    while (rounds_left > 0) {
        GC_start_incremental_collection();
        churn(200000, 64);
        finish_cycle();
    }
    return NULL;
}

static void threads_write_in_steps(void)
{
    pthread_t threads[16], collector;
    prepare();
    rounds_left = 1;
    REQUIRE(pthread_create(&collector, NULL, cycles, NULL) == 0);
    for (uintptr_t t = 0; t < 16; t++)
        REQUIRE(pthread_create(&threads[t], NULL, writer, (void *)t) == 0);
    for (int t = 0; t < 16; t++)
        pthread_join(threads[t], NULL);
    rounds_left = 0;
    pthread_join(collector, NULL);
    for (int i = 0; i < HOLDERS; i++)
        CHECK_EQ(((struct node **)holders[i])[9]->next->number, ~((struct node **)holders[i])[9]->number);
    check_list();
}

/* A library whose data was a root when the cycle began goes in the middle. */
static void unloaded_in_the_middle(void)
{
    prepare();
    for (int round = 0; round < 5; round++) {
        void *lib = dlopen("./lib_holder.so", RTLD_NOW);
        REQUIRE(lib != NULL);
        void (*set)(int, int, void *) = (void (*)(int, int, void *))dlsym(lib, "holder_set");
        for (int i = 0; i < 1000; i++)
            set(0, i, GC_malloc(1000));
        GC_start_incremental_collection();
        dlclose(lib);
        finish_cycle();
        churn(1 << 20, 64);
    }
    check_list();
}

/* Finalizers run once, of objects that died before a cycle began. */
static volatile int finalized;

static void on_end(void *object, void *data)
{
    (void)object, (void)data;
    finalized++;
}

static NOINLINE void drop_finalizable(void)
{
    for (int i = 0; i < MANY; i++)
        GC_register_finalizer(GC_malloc(40), on_end, NULL, NULL, NULL);
}

static void finalizers_run(void)
{
    prepare();
    deep(drop_finalizable);
    scrub();
    GC_start_incremental_collection();
    finish_cycle();
    while (GC_invoke_finalizers() > 0)
        ;
    CHECK_GE(finalized, MOST(MANY));
    GC_start_incremental_collection();
    finish_cycle();
    while (GC_invoke_finalizers() > 0)
        ;
    CHECK_LE(finalized, MANY);
    check_list();
}

MAIN_BEGIN
    if (may_choose()) {
        RUN_GLEANER(mode);
        RUN_GLEANER(limit_before_mode);
        RUN_GLEANER(not_for_leaks);
        RUN_GLEANER(by_environment);
        RUN_GLEANER(not_by_environment);
        RUN_GLEANER(a_cycle);
        RUN_GLEANER(freed_in_the_middle);
        RUN_GLEANER(finalizers_run);
    }
    RUN(by_allocation);
    RUN(limits_of_time);
    RUN(asked_for_in_the_middle);
    RUN(disabled_in_the_middle);
    RUN(forked_in_the_middle);
    RUN(threads_write_in_steps);
    /* Stock libgc now and then dies of it on a loaded machine. */
    RUN_GLEANER(unloaded_in_the_middle);
MAIN_END
