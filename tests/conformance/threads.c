/* Threads that come and go by every route. What only a thread refers to:
 * thread_roots.c. */
#include "lists_of_own.h"
#include <dirent.h>
#include <gc/gc_mark.h>
#include <sched.h>
#include <semaphore.h>

/* ---- work that checks itself ---- */

static void *worker(void *arg)
{
    for (int i = 0; i < 20; i++)
        if (!marked_list_of_own((uintptr_t)arg, 2000))
            return NULL;
    return (void *)((uintptr_t)arg + 100);
}

/* 32 threads at once, with collections that the allocation starts and some
 * that are asked for. */
static void thirty_two(void)
{
    enum { N = 32 };
    pthread_t t[N];
    GC_INIT();
    for (uintptr_t i = 0; i < N; i++)
        REQUIRE(pthread_create(&t[i], NULL, worker, (void *)i) == 0);
    for (int i = 0; i < 10; i++) {
        GC_gcollect();
        CHECK(marked_list_of_own(999, 1000));
    }
    for (uintptr_t i = 0; i < N; i++) {
        void *r = NULL;
        CHECK_EQ(pthread_join(t[i], &r), 0);
        CHECK_PTR(r, (void *)(i + 100));
    }
}

/* Waves of short threads. */
static void *short_worker(void *arg)
{
    return marked_list_of_own((uintptr_t)arg, 200) ? arg : NULL;
}

static void waves(void)
{
    GC_INIT();
    for (int wave = 0; wave < 100; wave++) {
        pthread_t t[10];
        for (uintptr_t i = 0; i < 10; i++)
            REQUIRE(pthread_create(&t[i], NULL, short_worker, (void *)(i + 1))
                    == 0);
        if (wave % 10 == 0)
            GC_gcollect();
        for (uintptr_t i = 0; i < 10; i++) {
            void *r = NULL;
            pthread_join(t[i], &r);
            CHECK_PTR(r, (void *)(i + 1));
        }
    }
}

/* What ended threads had left to allocate from is used by others: threads one
 * after the other, each of which touches many sizes, need little memory. */
static void *uses_many_sizes(void *arg)
{
    for (size_t size = 16; size < 400; size += 48)
        for (int i = 0; i < 20; i++)
            GC_malloc(size);
    return arg;
}

static void ended_threads_leave_no_blocks(void)
{
    GC_INIT();
    for (int i = 0; i < (under_stress() ? 30 : 1500); i++) {
        pthread_t t;
        REQUIRE(pthread_create(&t, NULL, uses_many_sizes, NULL) == 0);
        pthread_join(t, NULL);
    }
    CHECK_LE(GC_get_heap_size(), 3 << 20);
    GC_gcollect();
    GC_gcollect();
    CHECK_LE(GC_get_memory_use(), 512 << 10);
}

/* ---- every way to end ---- */

static void *by_exit(void *arg)
{
    marked_list_of_own(1, 1000);
    pthread_exit(arg);
}

static NOINLINE int deep_exit(volatile int depth, void *arg)
{
    if (depth == 0)
        pthread_exit(arg);
    return depth > 0 ? deep_exit(depth - 1, arg) + 1 : 0;
}

static void *by_deep_exit(void *arg)
{
    GC_malloc(100);
    deep_exit(50, arg);
    return NULL;
}

static void exits(void)
{
    GC_INIT();
    for (int i = 0; i < 50; i++) {
        pthread_t t;
        void *r = NULL;
        int token;
        REQUIRE(pthread_create(&t, NULL, i % 2 ? by_exit : by_deep_exit, &token)
                == 0);
        CHECK_EQ(pthread_join(t, &r), 0);
        CHECK_PTR(r, &token);
        if (i % 10 == 0)
            GC_gcollect();
    }
    check_alive();
}

static void *until_cancelled(void *arg)
{
    (void)arg;
    for (;;) {
        marked_list_of_own(5, 100);
        pthread_testcancel();
    }
    return NULL;
}

static void *asleep(void *arg)
{
    (void)arg;
    for (;;)
        sleep(1000);
    return NULL;
}

static void cancels(void)
{
    GC_INIT();
    for (int i = 0; i < 40; i++) {
        pthread_t t;
        void *r = NULL;
        REQUIRE(pthread_create(&t, NULL, i % 2 ? until_cancelled : asleep, NULL)
                == 0);
        nap(1000);
        CHECK_EQ(pthread_cancel(t), 0);
        CHECK_EQ(pthread_join(t, &r), 0);
        CHECK_PTR(r, PTHREAD_CANCELED);
        GC_gcollect();
    }
    check_alive();
}

static sem_t ended, ready, resume;
static void *detached_body(void *arg)
{
    marked_list_of_own((uintptr_t)arg, 500);
    sem_post(&ended);
    return NULL;
}

static void detached(void)
{
    pthread_attr_t attr;
    GC_INIT();
    sem_init(&ended, 0, 0);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    for (uintptr_t i = 0; i < 100; i++) {
        pthread_t t;
        if (i % 2) {
            REQUIRE(pthread_create(&t, &attr, detached_body, (void *)i) == 0);
        } else {
            REQUIRE(pthread_create(&t, NULL, detached_body, (void *)i) == 0);
            CHECK_EQ(pthread_detach(t), 0);
        }
        if (i % 10 == 0)
            GC_gcollect();
    }
    for (int i = 0; i < 100; i++)
        while (sem_wait(&ended) != 0)
            ;
    check_alive();
}

/* What the thread returns is kept until it is joined. */
static GC_word hidden_result;
static void *returns_object(void *arg)
{
    (void)arg;
    uintptr_t *p = GC_malloc(64);
    p[1] = 4711;
    hidden_result = GC_HIDE_POINTER(p);
    return p;
}

static void result_is_kept(void)
{
    GC_INIT();
    for (int i = 0; i < 50; i++) {
        pthread_t t;
        void *r = NULL;
        REQUIRE(pthread_create(&t, NULL, returns_object, NULL) == 0);
        nap(2000);
        GC_gcollect();
        churn(1 << 18, 64);
        pthread_join(t, &r);
        REQUIRE(r != NULL);
        CHECK_PTR(r, GC_REVEAL_POINTER(hidden_result));
        CHECK_EQ(((uintptr_t *)r)[1], 4711);
    }
}

/* And what is passed to it, until it starts. */
static void *takes_object(void *arg)
{
    return ((uintptr_t *)arg)[1] == 4712 ? (void *)1 : NULL;
}

static NOINLINE pthread_t start_with_object(void)
{
    pthread_t t;
    uintptr_t *p = GC_malloc(64);
    p[1] = 4712;
    REQUIRE(pthread_create(&t, NULL, takes_object, p) == 0);
    return t;
}

static void argument_is_kept(void)
{
    GC_INIT();
    for (int i = 0; i < 100; i++) {
        pthread_t t = start_with_object();
        void *r = NULL;
        scrub();
        GC_gcollect();
        churn(1 << 16, 64);
        pthread_join(t, &r);
        CHECK_PTR(r, (void *)1);
    }
}

/* ---- threads made by somebody else ---- */

static int registered_ok;

static void *registers_itself(void *arg)
{
    struct GC_stack_base sb;
    CHECK_EQ(GC_thread_is_registered(), 0);
    CHECK_EQ(GC_get_stack_base(&sb), GC_SUCCESS);
    CHECK_EQ(GC_register_my_thread(&sb), GC_SUCCESS);
    CHECK_NE(GC_thread_is_registered(), 0);
    CHECK_EQ(GC_register_my_thread(&sb), GC_DUPLICATE);
    int good = marked_list_of_own(7, 5000);
    GC_gcollect();
    good &= marked_list_of_own(8, 5000);
    CHECK_EQ(GC_unregister_my_thread(), GC_SUCCESS);
    CHECK_EQ(GC_thread_is_registered(), 0);
    /* And once more in the same thread. */
    CHECK_EQ(GC_register_my_thread(&sb), GC_SUCCESS);
    good &= marked_list_of_own(9, 1000);
    CHECK_EQ(GC_unregister_my_thread(), GC_SUCCESS);
    if (good)
        __atomic_fetch_add(&registered_ok, 1, __ATOMIC_RELAXED);
    return arg;
}

static void registered_by_hand(void)
{
    enum { N = 16 };
    pthread_t t[N];
    GC_INIT();
    GC_allow_register_threads();
    CHECK_NE(GC_thread_is_registered(), 0);
    for (int i = 0; i < N; i++)
        REQUIRE(raw_create()(&t[i], NULL, registers_itself, NULL) == 0);
    for (int i = 0; i < 10; i++)
        GC_gcollect();
    for (int i = 0; i < N; i++)
        raw_join()(t[i], NULL);
    CHECK_EQ(registered_ok, N);
    check_alive();
}

static void *with_base(struct GC_stack_base *sb, void *arg)
{
    CHECK_EQ(GC_register_my_thread(sb), GC_SUCCESS);
    int good = marked_list_of_own(7, 5000);
    GC_gcollect();
    good &= marked_list_of_own(8, 5000);
    CHECK_EQ(GC_unregister_my_thread(), GC_SUCCESS);
    if (good)
        __atomic_fetch_add(&registered_ok, 1, __ATOMIC_RELAXED);
    return arg;
}

static void *registers_with_base(void *arg)
{
    int token;
    CHECK_PTR(GC_call_with_stack_base(with_base, &token), &token);
    return arg;
}

static void registered_with_stack_base(void)
{
    enum { N = 16 };
    pthread_t t[N];
    GC_INIT();
    GC_allow_register_threads();
    for (int i = 0; i < N; i++)
        REQUIRE(raw_create()(&t[i], NULL, registers_with_base, NULL) == 0);
    for (int i = 0; i < 10; i++)
        GC_gcollect();
    for (int i = 0; i < N; i++)
        raw_join()(t[i], NULL);
    CHECK_EQ(registered_ok, N);
}

/* A registered thread that ends without a word. The header forbids it; stock
 * then would try to signal a thread that is gone, so only Gleaner promises to
 * go on. */
static void *forgets_to_unregister(void *arg)
{
    struct GC_stack_base sb;
    GC_get_stack_base(&sb);
    GC_register_my_thread(&sb);
    marked_list_of_own(7, 100);
    return arg;
}

static void forgotten_registration(void)
{
    GC_INIT();
    GC_allow_register_threads();
    for (int i = 0; i < 5; i++) {
        pthread_t t;
        REQUIRE(raw_create()(&t, NULL, forgets_to_unregister, NULL) == 0);
        raw_join()(t, NULL);
        GC_gcollect();
    }
    check_alive();
}

/* An unregistered thread is neither stopped nor scanned. */
static volatile int outside_go;
static volatile long outside_count;
static void *outsider(void *arg)
{
    while (!outside_go)
        outside_count++;
    return arg;
}

static void unregistered_goes_on(void)
{
    pthread_t t;
    GC_INIT();
    GC_allow_register_threads();
    REQUIRE(raw_create()(&t, NULL, outsider, NULL) == 0);
    for (int i = 0; i < 20; i++)
        GC_gcollect();
    outside_go = 1;
    raw_join()(t, NULL);
    check_alive();
}

/* Created by gc, unregistered and registered again by hand. */
static void *unregisters(void *arg)
{
    struct GC_stack_base sb;
    marked_list_of_own(3, 100);
    GC_get_stack_base(&sb);
    CHECK_EQ(GC_register_my_thread(&sb), GC_DUPLICATE);
    return arg;
}

static void duplicate_registration(void)
{
    pthread_t t;
    GC_INIT();
    REQUIRE(pthread_create(&t, NULL, unregisters, NULL) == 0);
    pthread_join(t, NULL);
    check_alive();
}

/* ---- signals' masks ---- */

static void masks(void)
{
    sigset_t all, old, now;
    GC_INIT();
    sigfillset(&all);
    CHECK_EQ(GC_pthread_sigmask(SIG_BLOCK, &all, &old), 0);
    CHECK_EQ(GC_pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
    /* The collector's own signals stay open. */
    CHECK_EQ(sigismember(&now, GC_get_suspend_signal()), 0);
    CHECK_EQ(sigismember(&now, SIGUSR1), 1);
    check_alive();
    CHECK_EQ(GC_pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
}

/* A thread started with everything blocked is still stopped. */
static void *blocks_all(void *arg)
{
    return marked_list_of_own(6, 20000) ? arg : NULL;
}

static void thread_with_blocked_signals(void)
{
    sigset_t all, old;
    pthread_t t;
    void *r = NULL;
    GC_INIT();
    sigfillset(&all);
    GC_pthread_sigmask(SIG_SETMASK, &all, &old);
    REQUIRE(pthread_create(&t, NULL, blocks_all, &t) == 0);
    GC_pthread_sigmask(SIG_SETMASK, &old, NULL);
    for (int i = 0; i < 10; i++)
        GC_gcollect();
    pthread_join(t, &r);
    CHECK_PTR(r, &t);
}

static void mark_threads(void)
{
    GC_INIT();
    GC_start_mark_threads();
    GC_start_mark_threads();
    CHECK_GE(GC_get_parallel(), 0);
    check_alive();
}

static void markers_count(void)
{
    unsetenv("GC_MARKERS");
    unsetenv("GC_NPROCS");
    GC_set_markers_count(3);
    GC_INIT();
    GC_start_mark_threads();
    CHECK_EQ(GC_get_parallel(), 2);
    for (int i = 0; i < 5; i++)
        check_alive();
}

static void one_marker(void)
{
    unsetenv("GC_MARKERS");
    unsetenv("GC_NPROCS");
    GC_set_markers_count(1);
    GC_INIT();
    GC_start_mark_threads();
    CHECK_EQ(GC_get_parallel(), 0);
    check_alive();
}

/* Several hundred at once, most of them asleep. */
static void *sleeper(void *arg)
{
    void *volatile mine = GC_malloc(40);
    ((void **)mine)[1] = arg;
    sem_post(&ready);
    while (sem_wait(&resume) != 0)
        ;
    return ((void **)mine)[1] == arg ? arg : NULL;
}

static void many_at_once(void)
{
    enum { N = 300 };
    static pthread_t t[N];
    pthread_attr_t attr;
    GC_INIT();
    sem_init(&ready, 0, 0);
    sem_init(&resume, 0, 0);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 128 * 1024);
    for (int i = 0; i < N; i++)
        REQUIRE(pthread_create(&t[i], &attr, sleeper, &t[i]) == 0);
    for (int i = 0; i < N; i++)
        while (sem_wait(&ready) != 0)
            ;
    for (int i = 0; i < 5; i++) {
        collect();
        churn(1 << 20, 40);
    }
    for (int i = 0; i < N; i++)
        sem_post(&resume);
    for (int i = 0; i < N; i++) {
        void *r = NULL;
        pthread_join(t[i], &r);
        CHECK_PTR(r, &t[i]);
    }
    check_alive();
}

/* The main thread may end; the others go on. */
static void *after_main(void *arg)
{
    nap(20000);
    for (int i = 0; i < 10; i++) {
        GC_gcollect();
        if (!marked_list_of_own(20, 1000))
            h_fail(__FILE__, __LINE__, "list");
    }
    (void)arg;
    _exit(h_test_failed ? 1 : 0);
}

static void main_exits_first(void)
{
    pthread_t t;
    GC_INIT();
    REQUIRE(pthread_create(&t, NULL, after_main, NULL) == 0);
    pthread_exit(NULL);
}

/* A tool tells a helper by its name, which it gives itself when it first runs. */
static void helpers_have_names(void)
{
    char path[320], name[32];
    int found = 0;
    add_options("markers=2");
    GC_INIT();
    churn(8 << 20, 64);
    void **kept = NULL;
    for (int i = 0; i < 100000; i++) {
        void **cell = GC_malloc(32);
        cell[0] = kept;
        kept = cell;
    }
    while (!found) {
        GC_gcollect();
        DIR *tasks = opendir("/proc/self/task");
        for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
            snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
            FILE *f = fopen(path, "r");
            if (f != NULL && fgets(name, sizeof name, f) != NULL)
                found |= strcmp(name, "gleaner-mark-1\n") == 0;
            if (f != NULL)
                fclose(f);
        }
        closedir(tasks);
    }
    CHECK(kept != NULL);
}

MAIN_BEGIN
    RUN(thirty_two);
    RUN(waves);
    RUN(ended_threads_leave_no_blocks);
    RUN(exits);
    RUN(cancels);
    RUN(detached);
    RUN(result_is_kept);
    RUN(argument_is_kept);
    RUN(registered_by_hand);
    RUN(registered_with_stack_base);
    RUN_GLEANER(forgotten_registration);
    RUN(unregistered_goes_on);
    RUN(duplicate_registration);
    RUN(masks);
    RUN(thread_with_blocked_signals);
    RUN(mark_threads);
    RUN(markers_count);
    RUN(one_marker);
    RUN(many_at_once);
    RUN(main_exits_first);
    RUN_GLEANER(helpers_have_names);
MAIN_END
