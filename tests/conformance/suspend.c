/* One thread suspended by the client: it neither runs nor keeps others from
 * allocating and collecting, wherever it was. */
#include "running.h"
#include <gc/javaxfc.h>
#include <sched.h>

static void start(void)
{
    GC_INIT();
}

static void suspended_thread(void)
{
    pthread_t t;
    start();
    REQUIRE(pthread_create(&t, NULL, runs, (void *)0) == 0);
    while (progress[0] == 0)
        sched_yield();
    CHECK_EQ(GC_is_thread_suspended(t), 0);
    for (int round = 0; round < 20; round++) {
        GC_suspend_thread(t);
        CHECK_NE(GC_is_thread_suspended(t), 0);
        long before = progress[0];
        for (int i = 0; i < 100; i++)
            sched_yield();
        CHECK_EQ(progress[0], before);
        /* Collections go on meanwhile and leave it suspended. */
        GC_gcollect();
        churn(1 << 18, 48);
        CHECK_EQ(progress[0], before);
        CHECK_NE(GC_is_thread_suspended(t), 0);
        GC_suspend_thread(t); /* no count */
        GC_resume_thread(t);
        CHECK_EQ(GC_is_thread_suspended(t), 0);
        GC_resume_thread(t);
        while (progress[0] == before)
            sched_yield();
    }
    quit = 1;
    pthread_join(t, NULL);
    check_alive();
}

/* The suspended one holds the only references. */
enum { HELD = 500 };
static volatile int holding;

static NOINLINE void fill(void **local)
{
    for (int i = 0; i < HELD; i++) {
        local[i] = GC_malloc(48);
        ((uintptr_t *)local[i])[1] = (uintptr_t)i * 2 + 1;
        watch(i, local[i]);
    }
}

static void *holds(void *arg)
{
    void *local[HELD];
    fill(local);
    __asm__ volatile("" : : "r"(local) : "memory");
    holding = 1;
    while (!quit)
        progress[0]++;
    for (int i = 0; i < HELD; i++)
        CHECK_EQ(((uintptr_t *)local[i])[1], i * 2 + 1);
    return arg;
}

static void suspended_thread_is_scanned(void)
{
    pthread_t t;
    start();
    REQUIRE(pthread_create(&t, NULL, holds, NULL) == 0);
    while (!holding)
        sched_yield();
    GC_suspend_thread(t);
    for (int i = 0; i < 5; i++) {
        collect();
        churn(1 << 20, 48);
    }
    CHECK_EQ(gone(HELD), 0);
    quit = 1;
    GC_resume_thread(t);
    pthread_join(t, NULL);
}

/* A thread that suspends itself goes on when another resumes it. */
static volatile int stage;

static void *suspends_itself(void *arg)
{
    stage = 1;
    GC_suspend_thread(pthread_self());
    stage = 2;
    return arg;
}

static void a_thread_suspends_itself(void)
{
    pthread_t t;
    start();
    REQUIRE(pthread_create(&t, NULL, suspends_itself, NULL) == 0);
    while (stage == 0 || !GC_is_thread_suspended(t))
        sched_yield();
    nap(20000);
    CHECK_EQ(stage, 1);
    GC_gcollect();
    GC_resume_thread(t);
    pthread_join(t, NULL);
    CHECK_EQ(stage, 2);
}

/* One that is not registered does nothing. */
static void an_unknown_thread_is_not_suspended(void)
{
    pthread_t t;
    start();
    REQUIRE(raw_create()(&t, NULL, suspends_itself, NULL) == 0);
    raw_join()(t, NULL);
    CHECK_EQ(stage, 2);
}

/* ---- what a suspended thread may not keep ---- */

/* A thread that collects is asked which libraries hold roots while the loader's
 * list is locked. It may not be suspended there: who collects next needs the
 * list. */
static volatile int inside, suspended;
static volatile int suspended_inside;

static int asked(const char *file, void *low, size_t bytes)
{
    (void)file, (void)low, (void)bytes;
    if (!inside) {
        inside = 1;
        for (int i = 0; i < 300 && !suspended; i++)
            nap(1000);
        suspended_inside = suspended;
    }
    return 1;
}

static volatile pid_t collector;

static void *collects(void *arg)
{
    collector = (pid_t)syscall(SYS_gettid);
    while (!quit)
        GC_gcollect();
    return arg;
}

static void suspended_outside_of_the_loader(void)
{
    pthread_t t;
    start();
    GC_register_has_static_roots_callback(asked);
    REQUIRE(pthread_create(&t, NULL, collects, NULL) == 0);
    while (!inside)
        sched_yield();
    for (int round = 0; round < 300; round++) {
        GC_suspend_thread(t);
        suspended = 1;
        GC_gcollect();
        GC_resume_thread(t);
        nap(round % 7 * 50);
    }
    CHECK_EQ(suspended_inside, 0);
    quit = 1;
    pthread_join(t, NULL);
    check_alive();
}

/* Nor where it makes helper threads: the C library has locks then. */
#undef pthread_create
int pthread_create(pthread_t *t, const pthread_attr_t *attributes, void *(*run)(void *), void *arg)
{
    creator create = (creator)dlsym(RTLD_NEXT, "pthread_create");
    if (collector != 0 && collector == (pid_t)syscall(SYS_gettid))
        asked(NULL, NULL, 0);
    return create(t, attributes, run, arg);
}

static void *collects_much(void *arg)
{
    GC_enable();
    return collects(arg);
}

static void suspended_outside_of_making_threads(void)
{
    pthread_t t;
    setenv("GC_MARKERS", "3", 1);
    start();
    GC_disable();
    for (int i = 0; i < 2000; i++)
        GC_malloc(40000);
    REQUIRE(GC_pthread_create(&t, NULL, collects_much, NULL) == 0);
    while (!inside)
        sched_yield();
    GC_suspend_thread(t);
    suspended = 1;
    GC_gcollect();
    GC_resume_thread(t);
    quit = 1;
    pthread_join(t, NULL);
    CHECK_EQ(suspended_inside, 0);
    check_alive();
}
#define pthread_create GC_pthread_create

/* Nor with the lock of the library's own memory, where the fault holds it up
 * once. */
static void suspended_outside_of_the_arena(void)
{
    pthread_t t;
    add_options("fault=arena-held@300");
    start();
    REQUIRE(pthread_create(&t, NULL, collects, NULL) == 0);
    while (collector == 0 || !is_asleep(collector))
        ;
    GC_suspend_thread(t);
    GC_gcollect();
    GC_resume_thread(t);
    quit = 1;
    pthread_join(t, NULL);
    check_alive();
}

/* A suspended thread may be the one that the lock's last holder woke: others that
 * wait for the lock are woken then. */
static void *allocates(void *arg)
{
    volatile long *mine = &progress[(uintptr_t)arg];
    while (!quit) {
        GC_malloc(40000);
        ++*mine;
    }
    return NULL;
}

static void suspended_while_others_wait(void)
{
    pthread_t t[4];
    start();
    for (uintptr_t i = 0; i < 4; i++)
        REQUIRE(pthread_create(&t[i], NULL, allocates, (void *)i) == 0);
    /* Collections that stress asks for take their time where processors are few and busy. */
    int rounds = under_stress() ? 50 : 200;
    for (int round = 0; round < rounds; round++) {
        long before[4];
        int held = round % 4;
        GC_suspend_thread(t[held]);
        for (int i = 0; i < 4; i++)
            before[i] = progress[i];
        for (int i = 0; i < 4; i++)
            while (i != held && progress[i] == before[i])
                sched_yield();
        CHECK_EQ(progress[held], before[held]);
        GC_resume_thread(t[held]);
    }
    quit = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    check_alive();
}

/* A program that has replaced the handler of the suspend signal. */
static void suspended_behind_another_handler(void)
{
    pthread_t t;
    start();
    REQUIRE(pthread_create(&t, NULL, runs, (void *)0) == 0);
    while (progress[0] == 0)
        sched_yield();
    signal(GC_get_suspend_signal(), SIG_IGN);
    GC_suspend_thread(t);
    long before = progress[0];
    nap(20000);
    CHECK_EQ(progress[0], before);
    GC_resume_thread(t);
    quit = 1;
    pthread_join(t, NULL);
}

/* Who suspends a thread that blocks the signal waits; it is told after some seconds. */
static void *blocks_the_signal(void *arg)
{
    /* pthread_sigmask of gc.h would not block it. */
    uint64_t blocked = (uint64_t)1 << (GC_get_suspend_signal() - 1);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, NULL, sizeof blocked);
    stage = 1;
    nap(4000000);
    syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &blocked, NULL, sizeof blocked);
    while (!quit)
        nap(1000);
    return arg;
}

static void a_thread_that_blocks_the_signal_is_named(void)
{
    pthread_t t;
    start();
    REQUIRE(pthread_create(&t, NULL, blocks_the_signal, NULL) == 0);
    while (stage == 0)
        sched_yield();
    char text[400] = "";
    int ends[2], kept = dup(2);
    REQUIRE(pipe(ends) == 0);
    dup2(ends[1], 2);
    GC_suspend_thread(t);
    dup2(kept, 2);
    close(ends[1]);
    ssize_t n = read(ends[0], text, sizeof text - 1);
    CHECK_GE(n, 0);
    CHECK(strstr(text, "GC_suspend_thread waits for thread") != NULL);
    GC_resume_thread(t);
    quit = 1;
    pthread_join(t, NULL);
}

MAIN_BEGIN
    RUN(suspended_thread);
    RUN_GLEANER(a_thread_suspends_itself);
    RUN_GLEANER(an_unknown_thread_is_not_suspended);
    RUN_GLEANER(suspended_behind_another_handler);
    RUN_GLEANER(a_thread_that_blocks_the_signal_is_named);
    RUN(suspended_thread_is_scanned);
    RUN(suspended_outside_of_the_loader);
    RUN_GLEANER(suspended_outside_of_making_threads);
    RUN_GLEANER(suspended_outside_of_the_arena);
    RUN_GLEANER(suspended_while_others_wait);
MAIN_END
