/* Signals of the client's own, errno, interrupted calls. */
#include "lists_of_own.h"
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

/* ---- the collector's own two signals ---- */

/* Outside of a stop the restart signal does nothing: neither the process's own nor another's. */
static void restart_signal_outside_of_a_stop(void)
{
    int restart = GC_get_thr_restart_signal();
    GC_INIT();
    for (int i = 0; i < 100; i++) {
        REQUIRE(pthread_kill(pthread_self(), restart) == 0);
        REQUIRE(raise(restart) == 0);
        REQUIRE(kill(getpid(), restart) == 0);
        CHECK(list_of_own(100));
    }
    check_alive();
}

/* So does the suspend signal, where stock waits for a restart. */
static void suspend_signal_outside_of_a_stop(void)
{
    GC_INIT();
    check_alive();
    for (int i = 0; i < 100; i++) {
        REQUIRE(raise(GC_get_suspend_signal()) == 0);
        CHECK(list_of_own(100));
    }
    check_alive();
}

static volatile int woken;
/* From another process, at any time: also while this thread collects, or waits for others that stop. */
static void suspend_signals_from_outside(void)
{
    GC_INIT();
    pid_t self = getpid(), sender = fork();
    REQUIRE(sender >= 0);
    if (sender == 0)
        for (;;) {
            kill(self, GC_get_suspend_signal());
            usleep(200);
        }
    pthread_t t[2];
    volatile int rounds = 0;
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&t[i], NULL, allocates, NULL) == 0);
    for (; rounds < 300; rounds++) {
        CHECK(list_of_own(2000));
        GC_gcollect();
    }
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    kill(sender, SIGKILL);
    waitpid(sender, NULL, 0);
}

static void *sleeps_for_an_hour(void *arg)
{
    struct timespec hour = {3600, 0};
    int error = clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, NULL);
    woken = 1;
    return error == EINTR ? arg : NULL;
}

/* It wakes a thread that sleeps: guile-fibers ends its threads in this way. */
static void restart_signal_wakes_a_sleeper(void)
{
    pthread_t t;
    void *r = NULL;
    GC_INIT();
    REQUIRE(pthread_create(&t, NULL, sleeps_for_an_hour, &t) == 0);
    while (!woken) {
        pthread_kill(t, GC_get_thr_restart_signal());
        nap(100);
    }
    pthread_join(t, &r);
    CHECK_PTR(r, &t);
}

/* Stopped threads that get it go on only when the stop ends; stock gives up ("Signals delivery fails constantly"). */
static void restart_signals_in_stops(void)
{
    pthread_t t[4];
    GC_INIT();
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&t[i], NULL, allocates, &t) == 0);
    for (int i = 0; i < 2000; i++) {
        pthread_kill(t[i % 4], GC_get_thr_restart_signal());
        if (i % 20 == 0)
            GC_gcollect();
    }
    for (int i = 0; i < 4; i++) {
        void *r = NULL;
        pthread_join(t[i], &r);
        CHECK_PTR(r, &t);
    }
}

static int is_default(int sig)
{
    struct sigaction sa;
    REQUIRE(sigaction(sig, NULL, &sa) == 0);
    return sa.sa_handler == SIG_DFL;
}

/* Other signals may be chosen before the start, and not after it. */
static void chosen_signals(void)
{
    GC_set_suspend_signal(SIGUSR1);
    GC_set_thr_restart_signal(SIGUSR2);
    GC_INIT();
    GC_set_suspend_signal(SIGVTALRM);
    GC_set_thr_restart_signal(SIGPROF);
    CHECK_EQ(GC_get_suspend_signal(), SIGUSR1);
    CHECK_EQ(GC_get_thr_restart_signal(), SIGUSR2);
    CHECK(!is_default(SIGUSR1) && !is_default(SIGUSR2));
    CHECK(is_default(SIGPWR) && is_default(SIGXCPU));
    CHECK(is_default(SIGVTALRM) && is_default(SIGPROF));
    raise(SIGUSR2);
    check_alive();
}

static void cannot_be_caught(void)
{
    GC_set_thr_restart_signal(SIGKILL);
    GC_INIT();
}

static void a_restart_signal_that_cannot_be_caught(void)
{
    char text[2000];
    int status = run_captured(cannot_be_caught, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* Both get handlers and are let through, however the process was started. */
static void signals_ignored_and_blocked_before_the_start(void)
{
    sigset_t both, now;
    int suspend = GC_get_suspend_signal(), restart = GC_get_thr_restart_signal();
    sigemptyset(&both);
    sigaddset(&both, suspend);
    sigaddset(&both, restart);
    sigprocmask(SIG_BLOCK, &both, NULL);
    signal(suspend, SIG_IGN);
    signal(restart, SIG_IGN);
    GC_INIT();
    sigprocmask(SIG_BLOCK, NULL, &now);
    CHECK(!sigismember(&now, suspend) && !sigismember(&now, restart));
    restart_signal_wakes_a_sleeper();
    check_alive();
}

static volatile int own_signals;
static void on_own(int sig)
{
    (void)sig;
    own_signals++;
}

/* A handler of the program's for the suspend signal is replaced at the start. */
static void a_suspend_handler_before_the_start(void)
{
    signal(GC_get_suspend_signal(), on_own);
    GC_INIT();
    check_alive();
    CHECK_EQ(own_signals, 0);
}

/* One for the restart signal, set afterwards, is the program's business. */
static void a_restart_handler_after_the_start(void)
{
    GC_INIT();
    check_alive();
    signal(GC_get_thr_restart_signal(), on_own);
    check_alive();
    own_signals = 0;
    raise(GC_get_thr_restart_signal());
    CHECK_EQ(own_signals, 1);
}

/* Set before, stock replaces it: a program that limits its processor time is never told. */
static void a_restart_handler_before_the_start(void)
{
    signal(GC_get_thr_restart_signal(), on_own);
    GC_INIT();
    check_alive();
    CHECK_EQ(own_signals, 0);
    raise(GC_get_thr_restart_signal());
    CHECK_EQ(own_signals, 1);
}

/* One signal for both purposes; stock does not start. */
static void one_signal_for_both(void)
{
    GC_set_thr_restart_signal(GC_get_suspend_signal());
    GC_INIT();
    check_alive();
}

static volatile int spinning;
static volatile unsigned long turns;
static void *spins(void *arg)
{
    GC_malloc(16);
    __atomic_add_fetch(&spinning, 1, __ATOMIC_RELAXED);
    while (!quit)
        turns++;
    return arg;
}

/* Until the thread goes on, a signal that was sent twice may wait for it. */
static void await_turn(void)
{
    unsigned long seen = turns;
    while (turns == seen)
        sched_yield();
}

/* Whatever the program does to the suspend signal after the start, the world stops; stock hangs. */
static void suspend_handlers_after_the_start(void)
{
    pthread_t t;
    void (*handlers[])(int) = {SIG_IGN, on_own, SIG_DFL};
    GC_INIT();
    REQUIRE(pthread_create(&t, NULL, spins, &t) == 0);
    while (!spinning)
        sched_yield();
    for (int i = 0; i < 3; i++) {
        signal(GC_get_suspend_signal(), handlers[i]);
        for (int j = 0; j < 3; j++)
            GC_gcollect();
        await_turn();
    }
    CHECK_EQ(own_signals, 0);
    quit = 1;
    pthread_join(t, NULL);
}

/* Not by the macro, which keeps the suspend signal unblocked. */
static void mask_suspend_signal(int how)
{
    sigset_t suspend;
    int (*mask)(int, const sigset_t *, sigset_t *);
    *(void **)&mask = dlsym(RTLD_DEFAULT, "pthread_sigmask");
    sigemptyset(&suspend);
    sigaddset(&suspend, GC_get_suspend_signal());
    mask(how, &suspend, NULL);
}

static void *blocks_for_a_while(void *arg)
{
    sigset_t pending;
    GC_malloc(16);
    mask_suspend_signal(SIG_BLOCK);
    spinning = 1;
    do
        sigpending(&pending);
    while (!sigismember(&pending, GC_get_suspend_signal()));
    mask_suspend_signal(SIG_UNBLOCK);
    return arg;
}

/* A stop waits for a thread that blocks the suspend signal, until that lets it through. */
static void a_thread_that_blocks_the_suspend_signal(void)
{
    pthread_t t;
    void *r = NULL;
    GC_INIT();
    REQUIRE(pthread_create(&t, NULL, blocks_for_a_while, &t) == 0);
    while (!spinning)
        sched_yield();
    GC_gcollect();
    pthread_join(t, &r);
    CHECK_PTR(r, &t);
}

static void *blocks_until_it_is_named(void *arg)
{
    char text[2000] = "", wanted[64];
    size_t used = 0;
    GC_malloc(16);
    mask_suspend_signal(SIG_BLOCK);
    snprintf(wanted, sizeof wanted, "waits for thread %d,", gettid());
    spinning = 1;
    while (strstr(text, wanted) == NULL && used < sizeof text - 1)
        used += (size_t)read(ends[0], text + used, sizeof text - 1 - used);
    mask_suspend_signal(SIG_UNBLOCK);
    return strstr(text, wanted) != NULL ? arg : NULL;
}

/* One that does not let it through is named after some seconds; stock gives up. */
static void a_thread_that_does_not_stop_is_named(void)
{
    pthread_t t;
    void *r = NULL;
    GC_INIT();
    REQUIRE(pipe(ends) == 0);
    dup2(ends[1], 2);
    REQUIRE(pthread_create(&t, NULL, blocks_until_it_is_named, &t) == 0);
    while (!spinning)
        sched_yield();
    GC_gcollect();
    pthread_join(t, &r);
    CHECK_PTR(r, &t);
}

/* The macros of gc.h keep it unblocked. */
static void masks_by_the_macros(void)
{
    sigset_t all, now;
    GC_INIT();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    CHECK(!sigismember(&now, GC_get_suspend_signal()));
    CHECK(sigismember(&now, SIGTERM) && sigismember(&now, GC_get_thr_restart_signal()));
    check_alive();
}

static void *waits_for_signals(void *arg)
{
    sigset_t wanted;
    int got = 0;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGUSR1);
    GC_malloc(16);
    reading = 1;
    return sigwait(&wanted, &got) == 0 && got == SIGTERM ? arg : NULL;
}

/* A thread that waits for signals is stopped there, and waits on. */
static void sigwait_across_collections(void)
{
    pthread_t t;
    void *r = NULL;
    sigset_t all;
    GC_INIT();
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    REQUIRE(pthread_create(&t, NULL, waits_for_signals, &t) == 0);
    while (!reading)
        sched_yield();
    for (int i = 0; i < 50; i++) {
        nap(100);
        GC_gcollect();
    }
    kill(getpid(), SIGTERM);
    pthread_join(t, &r);
    CHECK_PTR(r, &t);
}

/* The soft limit of processor time is told by the restart signal, and hence goes unheard; the hard one ends the process. */
static void a_limit_of_processor_time(void)
{
    struct rlimit limit;
    struct rusage used;
    getrlimit(RLIMIT_CPU, &limit);
    limit.rlim_cur = 1;
    REQUIRE(setrlimit(RLIMIT_CPU, &limit) == 0);
    GC_INIT();
    do {
        CHECK(list_of_own(3000));
        getrusage(RUSAGE_SELF, &used);
    } while (used.ru_utime.tv_sec + used.ru_stime.tv_sec < 2);
}

/* ---- what a stop does to calls that wait ---- */

#include <poll.h>

static volatile int interrupts;
static void *polls(void *arg)
{
    struct pollfd in = {ends[0], POLLIN, 0};
    reading = 1;
    while (poll(&in, 1, -1) < 0)
        interrupts += errno == EINTR;
    return in.revents & POLLIN ? arg : NULL;
}

static void *polls_in_a_blocking_region(void *arg)
{
    return GC_do_blocking(polls, arg);
}

enum { COLLECTIONS = 50 };

static int interrupts_of(void *(*waits)(void *))
{
    pthread_t t;
    void *r = NULL;
    GC_INIT();
    REQUIRE(pipe(ends) == 0);
    REQUIRE(pthread_create(&t, NULL, waits, &t) == 0);
    while (!reading)
        sched_yield();
    for (int i = 0; i < COLLECTIONS; i++) {
        nap(100);
        GC_gcollect();
    }
    REQUIRE(write(ends[1], "x", 1) == 1);
    pthread_join(t, &r);
    CHECK_PTR(r, &t);
    return interrupts;
}

/* Of the calls that no handler lets go on, a stop interrupts each once. */
static void poll_is_interrupted_once_a_stop(void)
{
    int n = interrupts_of(polls);
    CHECK_GE(n, 1);
    CHECK_LE(n, COLLECTIONS);
}

static void poll_in_a_blocking_region_is_not(void)
{
    CHECK_EQ(interrupts_of(polls_in_a_blocking_region), 0);
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
    RUN(inert_before_the_first_call);
    RUN(restart_signal_outside_of_a_stop);
    RUN_GLEANER(suspend_signal_outside_of_a_stop);
    RUN_GLEANER(suspend_signals_from_outside);
    RUN(restart_signal_wakes_a_sleeper);
    RUN_GLEANER(restart_signals_in_stops);
    RUN(chosen_signals);
    RUN(a_restart_signal_that_cannot_be_caught);
    RUN(signals_ignored_and_blocked_before_the_start);
    RUN(a_suspend_handler_before_the_start);
    RUN(a_restart_handler_after_the_start);
    RUN_GLEANER(a_restart_handler_before_the_start);
    RUN_GLEANER(one_signal_for_both);
    RUN_GLEANER(suspend_handlers_after_the_start);
    RUN(a_thread_that_blocks_the_suspend_signal);
    RUN_GLEANER(a_thread_that_does_not_stop_is_named);
    RUN(masks_by_the_macros);
    RUN(sigwait_across_collections);
    RUN(a_limit_of_processor_time);
    RUN(poll_is_interrupted_once_a_stop);
    RUN(poll_in_a_blocking_region_is_not);
MAIN_END
