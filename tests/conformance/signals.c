/* Signals of the client's own, errno, interrupted calls. */
#include "harness.h"
#include <sched.h>
#include <sys/time.h>

static volatile long ticks;
static void on_tick(int sig)
{
    (void)sig;
    ticks++;
    errno = ENOTTY; /* a handler that is careless about errno ... */
    volatile char pad[2000];
    memset((void *)pad, 0x5a, sizeof pad);
    errno = 0;
}

static void storm(int microseconds)
{
    struct sigaction sa = {0};
    struct itimerval every = {{0, microseconds}, {0, microseconds}};
    sa.sa_handler = on_tick;
    sa.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &sa, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

static void calm(void)
{
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
}

static int list_of_own(int length)
{
    void **list = NULL;
    for (int i = 0; i < length; i++) {
        void **cell = GC_malloc(16 + (size_t)(i % 7) * 24);
        if (cell[0] != NULL || cell[1] != NULL)
            return 0;
        cell[0] = list;
        cell[1] = (void *)(uintptr_t)(2 * i + 1);
        list = cell;
    }
    for (int i = length - 1; i >= 0; i--, list = list[0])
        if (list == NULL || list[1] != (void *)(uintptr_t)(2 * i + 1))
            return 0;
    return 1;
}

static void storm_while_allocating(void)
{
    GC_INIT();
    storm(100);
    for (int i = 0; i < 300 || ticks < 500; i++) {
        CHECK(list_of_own(3000));
        if (i % 10 == 0)
            GC_gcollect();
    }
    calm();
    CHECK_GE(ticks, 500);
}

static void *allocates(void *arg)
{
    for (int i = 0; i < 150; i++)
        if (!list_of_own(2000))
            return NULL;
    return arg;
}

/* The ticks reach all threads: the ones that are being stopped, too. */
static void storm_in_threads(void)
{
    pthread_t t[6];
    GC_INIT();
    storm(100);
    for (int i = 0; i < 6; i++)
        REQUIRE(pthread_create(&t[i], NULL, allocates, &t) == 0);
    for (int i = 0; i < 50 || ticks < 100; i++)
        GC_gcollect();
    for (int i = 0; i < 6; i++) {
        void *r = NULL;
        pthread_join(t[i], &r);
        CHECK_PTR(r, &t);
    }
    calm();
    CHECK_OP(ticks, >, 0);
}

/* A handler on an alternate stack. */
static void storm_on_alternate_stack(void)
{
    static char stack[64 * 1024];
    stack_t ss = {0};
    struct sigaction sa = {0};
    struct itimerval every = {{0, 100}, {0, 100}};
    ss.ss_sp = stack;
    ss.ss_size = sizeof stack;
    GC_INIT();
    sigaltstack(&ss, NULL);
    sa.sa_handler = on_tick;
    sa.sa_flags = SA_RESTART | SA_ONSTACK;
    sigaction(SIGALRM, &sa, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    for (int i = 0; i < 100 || ticks < 200; i++) {
        CHECK(list_of_own(3000));
        if (i % 10 == 0)
            GC_gcollect();
    }
    calm();
}

/* ---- errno ---- */

static volatile int quit, guards;
static void *guards_errno(void *arg)
{
    __atomic_add_fetch(&guards, 1, __ATOMIC_RELAXED);
    while (!quit)
        for (int e = 1; e < 100; e++) {
            errno = e;
            for (volatile int i = 0; i < 200; i++)
                ;
            if (errno != e)
                return NULL;
        }
    return arg;
}

static void errno_across_suspension(void)
{
    pthread_t t[4];
    GC_INIT();
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&t[i], NULL, guards_errno, &t) == 0);
    while (guards < 4)
        usleep(100);
    for (int i = 0; i < 300; i++)
        GC_gcollect();
    quit = 1;
    for (int i = 0; i < 4; i++) {
        void *r = NULL;
        pthread_join(t[i], &r);
        CHECK_PTR(r, &t);
    }
}

/* An allocation or a collection that succeeds leaves errno alone. */
static void errno_across_allocation(void)
{
    GC_INIT();
    for (int i = 0; i < 200000; i++) {
        errno = 77;
        GC_malloc((size_t)(i % 3000));
        CHECK_EQ(errno, 77);
    }
    errno = 77;
    GC_gcollect();
    CHECK_EQ(errno, 77);
    GC_malloc(50 << 20);
    CHECK_EQ(errno, 77);
}

/* ---- a thread in a system call is stopped and the call goes on ---- */

static int ends[2];
static volatile int reading;
static void *reads(void *arg)
{
    char c = 0;
    GC_malloc(10);
    reading = 1;
    ssize_t n = read(ends[0], &c, 1);
    if (n != 1 || c != 'x')
        return NULL;
    return arg;
}

static void call_is_restarted(void)
{
    pthread_t t;
    void *r = NULL;
    GC_INIT();
    REQUIRE(pipe(ends) == 0);
    REQUIRE(pthread_create(&t, NULL, reads, &t) == 0);
    while (!reading)
        sched_yield();
    for (int i = 0; i < 50; i++) {
        nap(100);
        GC_gcollect();
    }
    REQUIRE(write(ends[1], "x", 1) == 1);
    pthread_join(t, &r);
    CHECK_PTR(r, &t);
}

/* ---- a handler that never returns ---- */

#include <setjmp.h>
static sigjmp_buf back;
static volatile int jumps;
static void on_jump(int sig)
{
    (void)sig;
    siglongjmp(back, 1);
}

/* siglongjmp out of a handler that interrupted the client's own code. */
static void jump_out_of_handler(void)
{
    GC_INIT();
    signal(SIGUSR1, on_jump);
    for (int i = 0; i < 1000; i++) {
        if (sigsetjmp(back, 1) == 0) {
            GC_malloc(100);
            raise(SIGUSR1);
        } else {
            jumps++;
        }
        if (i % 100 == 0)
            check_alive();
    }
    CHECK_EQ(jumps, 1000);
}

/* The collector's own handlers stay out of the way of others. */
static void handlers_of_others(void)
{
    struct sigaction sa;
    GC_INIT();
    check_alive();
    for (int s = 1; s < 32; s++) {
        if (s == GC_get_suspend_signal() || s == GC_get_thr_restart_signal()
            || s == SIGKILL || s == SIGSTOP)
            continue;
        REQUIRE(sigaction(s, NULL, &sa) == 0);
        CHECK(sa.sa_handler == SIG_DFL || sa.sa_handler == SIG_IGN);
    }
}

/* ---- the collector's signals, from others ---- */

static volatile int waits_for_signals;
static void *waits(void *arg)
{
    while (waits_for_signals)
        nap(1);
    GC_gcollect();
    return arg;
}

static void send_everywhere(int sig)
{
    pthread_t t;
    void *r = NULL;
    waits_for_signals = 1;
    REQUIRE(GC_pthread_create(&t, NULL, waits, &t) == 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(pthread_kill(t, sig), 0);
        CHECK_EQ(raise(sig), 0);
        CHECK_EQ(kill(getpid(), sig), 0);
        GC_gcollect();
    }
    waits_for_signals = 0;
    GC_pthread_join(t, &r);
    CHECK_PTR(r, &t);
    check_alive();
}

/* As guile-fibers does: it wakes threads with the one that nobody else uses. */
static void restart_signal_outside_a_stop(void)
{
    GC_INIT();
    send_everywhere(GC_get_thr_restart_signal());
}

static void chosen_restart_signal_outside_a_stop(void)
{
    GC_set_suspend_signal(SIGRTMIN + 4);
    GC_set_thr_restart_signal(SIGRTMIN + 5);
    GC_INIT();
    CHECK_EQ(GC_get_thr_restart_signal(), SIGRTMIN + 5);
    send_everywhere(SIGRTMIN + 5);
}

static void suspend_signal_outside_a_stop(void)
{
    GC_INIT();
    send_everywhere(GC_get_suspend_signal());
}

/* Blocked in the whole process, as by a program that takes its signals with sigwait. */
static void restart_signal_blocked(void)
{
    sigset_t set;
    int got = 0;
    GC_INIT();
    sigemptyset(&set);
    sigaddset(&set, GC_get_thr_restart_signal());
    REQUIRE(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    GC_gcollect();
    REQUIRE(raise(GC_get_thr_restart_signal()) == 0);
    REQUIRE(sigwait(&set, &got) == 0);
    CHECK_EQ(got, GC_get_thr_restart_signal());
    check_alive();
}

/* The kernel's SIGXCPU is swallowed with the others, on stock, too: the hard limit ends the process. */
static void soft_limit_of_processor_time(void)
{
    struct rlimit limit = {1, 100};
    GC_INIT();
    CHECK_EQ(GC_get_thr_restart_signal(), SIGXCPU);
    REQUIRE(setrlimit(RLIMIT_CPU, &limit) == 0);
    while (clock() < 1300 * (CLOCKS_PER_SEC / 1000))
        churn(1 << 20, 64);
    check_alive();
}

/* Gleaner sends no such signal, so a handler that is there stays, from before the start or from after it. */
static volatile int own_calls;
static void on_own(int sig)
{
    (void)sig;
    own_calls++;
}

static void own_handler_of_the_restart_signal(void)
{
    signal(SIGXCPU, on_own);
    GC_INIT();
    send_everywhere(SIGXCPU);
    int before = own_calls;
    CHECK_OP(before, >, 0);
    signal(SIGXCPU, SIG_DFL);
    signal(SIGXCPU, on_own);
    send_everywhere(SIGXCPU);
    CHECK_OP(own_calls, >, before);
}

/* Before the first call there is none at all. */
static void inert_before_the_first_call(void)
{
    struct sigaction sa;
    for (int s = 1; s <= SIGRTMAX; s++)
        if (sigaction(s, NULL, &sa) == 0)
            CHECK(sa.sa_handler == SIG_DFL || sa.sa_handler == SIG_IGN);
    char line[64];
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "Threads:", 8) == 0)
            CHECK_EQ(atoi(line + 8), 1);
    if (f != NULL)
        fclose(f);
}

MAIN_BEGIN
    RUN(storm_while_allocating);
    RUN(storm_in_threads);
    RUN(storm_on_alternate_stack);
    RUN(errno_across_suspension);
    RUN(errno_across_allocation);
    RUN(call_is_restarted);
    RUN(jump_out_of_handler);
    RUN(handlers_of_others);
    RUN(restart_signal_outside_a_stop);
    RUN(chosen_restart_signal_outside_a_stop);
    RUN_GLEANER(suspend_signal_outside_a_stop);
    RUN(restart_signal_blocked);
    RUN(soft_limit_of_processor_time);
    RUN_GLEANER(own_handler_of_the_restart_signal);
    RUN(inert_before_the_first_call);
MAIN_END
