/* fork from the main thread and from another one while others allocate; the
 * child checks its data, allocates, collects and starts a thread. Repeated
 * 200 times, 10,000 times with CONFORMANCE_LONG=1. */
#include "lists_of_own.h"
#include <gc/gc_mark.h>
#include <dirent.h>
#include <link.h>
#include <sched.h>

static int repetitions(void) { return long_run() ? 10000 : 200; }

enum { KEPT = 500 };
static void **kept[KEPT];
static volatile int quit;

static void fill(void)
{
    for (int i = 0; i < KEPT; i++) {
        void **p = GC_malloc(40);
        p[1] = (void *)(uintptr_t)(2 * i + 1);
        p[0] = i > 0 ? (void *)kept[i - 1] : NULL;
        kept[i] = p;
    }
}

static int whole(void)
{
    for (int i = 0; i < KEPT; i++)
        if (kept[i][1] != (void *)(uintptr_t)(2 * i + 1)
            || kept[i][0] != (i > 0 ? (void *)kept[i - 1] : NULL))
            return 0;
    return 1;
}

static void *allocates(void *arg)
{
    while (!quit) {
        if (!list_of_own(300))
            return NULL;
        GC_malloc(5000);
        GC_malloc_atomic(100000);
    }
    return arg;
}

static void *thread_of_child(void *arg)
{
    if (!list_of_own(500))
        return NULL;
    GC_gcollect();
    return arg;
}

/* What the child does. Statuses tell where it failed. */
static void child(int with_thread)
{
    if (!whole())
        _exit(11);
    if (!list_of_own(1000))
        _exit(12);
    GC_gcollect();
    if (!whole())
        _exit(13);
    if (with_thread) {
        pthread_t t;
        void *r = NULL;
        if (pthread_create(&t, NULL, thread_of_child, &t) != 0)
            _exit(14);
        if (!list_of_own(500))
            _exit(15);
        if (pthread_join(t, &r) != 0 || r != &t)
            _exit(16);
        GC_gcollect();
        if (!whole())
            _exit(17);
    }
    _exit(0);
}

static int fork_once(int with_thread)
{
    pid_t pid = fork();
    if (pid == 0)
        child(with_thread);
    REQUIRE(pid > 0);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0)
        NOTE("child: status %d, signal %d\n", WEXITSTATUS(status),
             WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return status == 0;
}

static void fork_many(int with_thread)
{
    int bad = 0;
    for (int i = 0; i < repetitions() && bad < 5; i++) {
        bad += !fork_once(with_thread);
        if (i % 20 == 0 && !list_of_own(1000))
            bad++;
    }
    CHECK_EQ(bad, 0);
    CHECK(whole());
}

static void prepare(int mode)
{
    GC_set_handle_fork(mode);
    GC_INIT();
    fill();
}

static void alone(void)
{
    prepare(1);
    fork_many(1);
    check_alive();
}

static void from_main(void)
{
    pthread_t t[3];
    prepare(1);
    for (int i = 0; i < 3; i++)
        REQUIRE(pthread_create(&t[i], NULL, allocates, &t) == 0);
    fork_many(1);
    quit = 1;
    for (int i = 0; i < 3; i++) {
        void *r = NULL;
        pthread_join(t[i], &r);
        CHECK_PTR(r, &t);
    }
    check_alive();
}

static void *forks(void *arg)
{
    fork_many(1);
    return arg;
}

static void from_a_thread(void)
{
    pthread_t t[3], f;
    prepare(1);
    for (int i = 0; i < 3; i++)
        REQUIRE(pthread_create(&t[i], NULL, allocates, &t) == 0);
    REQUIRE(pthread_create(&f, NULL, forks, NULL) == 0);
    for (int i = 0; i < 20; i++)
        list_of_own(1000);
    pthread_join(f, NULL);
    quit = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    check_alive();
}

/* Several threads fork at the same time. */
static void from_threads_at_once(void)
{
    pthread_t f[3];
    prepare(1);
    for (int i = 0; i < 3; i++)
        REQUIRE(pthread_create(&f[i], NULL, forks, NULL) == 0);
    for (int i = 0; i < 3; i++)
        pthread_join(f[i], NULL);
    check_alive();
}

/* By hand. */
static void by_hand(void)
{
    pthread_t t[3];
    int bad = 0;
    prepare(-1);
    for (int i = 0; i < 3; i++)
        REQUIRE(pthread_create(&t[i], NULL, allocates, &t) == 0);
    for (int i = 0; i < repetitions() && bad < 5; i++) {
        GC_atfork_prepare();
        pid_t pid = fork();
        if (pid == 0) {
            GC_atfork_child();
            if (i % 2)
                GC_start_mark_threads();
            child(1);
        }
        GC_atfork_parent();
        REQUIRE(pid > 0);
        int status = 0;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        bad += status != 0;
    }
    CHECK_EQ(bad, 0);
    quit = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    check_alive();
}

/* With automatic handling the calls by hand do nothing. */
static void by_hand_does_nothing(void)
{
    prepare(1);
    for (int i = 0; i < 10; i++) {
        GC_atfork_prepare();
        pid_t pid = fork();
        if (pid == 0) {
            GC_atfork_child();
            child(1);
        }
        GC_atfork_parent();
        int status = 0;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        CHECK_EQ(status, 0);
    }
    check_alive();
}

/* A child that does not touch the collector before exec or _exit, with no
 * fork handling asked for: what w3m and every shell-out does. */
static void plain_child(void)
{
    pthread_t t[2];
    GC_INIT();
    fill();
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&t[i], NULL, allocates, &t) == 0);
    for (int i = 0; i < 50; i++) {
        if (i % 5 == 0) {
            int r = system("exit 3");
            CHECK(WIFEXITED(r) && WEXITSTATUS(r) == 3);
        }
        pid_t pid = fork();
        if (pid == 0) {
            if (i % 2)
                execl("/bin/true", "true", (char *)NULL);
            _exit(0);
        }
        int status = 0;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        CHECK_EQ(status, 0);
    }
    quit = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
}

/* A child of a child of a child. */
static void generations(void)
{
    prepare(1);
    pid_t pid = 1;
    int depth = 0;
    for (; depth < 5; depth++) {
        pid = fork();
        if (pid != 0)
            break;
        if (!whole() || !list_of_own(1000))
            _exit(20 + depth);
        GC_gcollect();
    }
    if (depth == 5)
        child(1);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (depth > 0)
        _exit(status == 0 ? 0 : 1);
    CHECK_EQ(status, 0);
}

static void forked_before_init(void)
{
    GC_set_handle_fork(1);
    pid_t pid = fork();
    if (pid == 0) {
        GC_INIT();
        fill();
        child(1);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    CHECK_EQ(status, 0);
    prepare(1);
    fork_many(0);
}

/* In a region that promised not to touch the heap a child still finds its
 * data, when it becomes active again. */
static void *active_child(void *arg)
{
    (void)arg;
    child(0);
    return NULL;
}

static void *forks_in_region(void *arg)
{
    pid_t pid = fork();
    if (pid == 0)
        GC_call_with_gc_active(active_child, NULL);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    *(int *)arg = status;
    return NULL;
}

static void in_a_blocking_region(void)
{
    prepare(1);
    for (int i = 0; i < 20; i++) {
        int status = 1;
        GC_do_blocking(forks_in_region, &status);
        CHECK_EQ(status, 0);
    }
    check_alive();
}

/* While a thread reads the list of libraries, whose lock the child could never
 * release, nobody forks. The thread is held up in the middle of reading. */
static volatile int reading, forked, forked_meanwhile;
static int has_roots(const char *name, void *low, size_t bytes)
{
    (void)name;
    (void)low;
    (void)bytes;
    if (!reading) {
        reading = 1;
        for (int i = 0; i < 500 && !forked; i++)
            nap(1000);
        forked_meanwhile = forked;
    }
    return 1;
}

static void *collects_once(void *arg)
{
    GC_gcollect();
    return arg;
}

static void not_while_libraries_are_read(void)
{
    pthread_t t;
    prepare(1);
    GC_register_has_static_roots_callback(has_roots);
    REQUIRE(GC_pthread_create(&t, NULL, collects_once, NULL) == 0);
    while (!reading)
        ;
    pid_t pid = fork();
    if (pid == 0)
        child(1);
    forked = 1;
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    CHECK_EQ(status, 0);
    GC_pthread_join(t, NULL);
    CHECK_EQ(forked_meanwhile, 0);
    check_alive();
}

/* Nor while one has the lock of the library's own memory: it is held up there
 * as other threads fork. */
static void *collects_often(void *arg)
{
    while (!quit)
        GC_gcollect();
    return arg;
}

static void with_the_arena_in_use(void)
{
    pthread_t t;
    setenv("GLEANER_OPTIONS", "fault=arena-held@300", 1);
    prepare(1);
    REQUIRE(GC_pthread_create(&t, NULL, collects_often, NULL) == 0);
    for (int i = 0; i < 100; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            alarm(20); /* for a child that hangs */
            child(0);
        }
        int status = 0;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        CHECK_EQ(status, 0);
        if (status != 0)
            break;
        nap(2000);
    }
    quit = 1;
    GC_pthread_join(t, NULL);
    check_alive();
}

/* A thread that registers takes of that memory without the allocator's lock:
 * a fork waits until it is done. The kernel knows when it is held up: it is the
 * only one here that sleeps by the system call nanosleep. */
enum { COMERS = 1000 };
static volatile pid_t comer;
static volatile int registered;

static void *registers(void *arg)
{
    struct GC_stack_base base;
    comer = (pid_t)syscall(SYS_gettid);
    GC_get_stack_base(&base);
    GC_register_my_thread(&base);
    registered = 1;
    while (!quit)
        nap(10000);
    GC_unregister_my_thread();
    return arg;
}

static void while_a_thread_registers(void)
{
    static pthread_t t[COMERS];
    struct timespec before, after;
    pthread_attr_t small;
    int count = 0, seen = 0;
    long longest = 0;
    setenv("GLEANER_OPTIONS", "fault=arena-held@60", 1);
    prepare(1);
    GC_allow_register_threads();
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    while (count < COMERS && longest < 250) {
        comer = registered = 0;
        clock_gettime(CLOCK_MONOTONIC, &before);
        REQUIRE(raw_create()(&t[count++], &small, registers, NULL) == 0);
        while (!registered && !(comer != 0 && is_asleep(comer)))
            ;
        if (!registered) {
            pid_t pid = fork();
            if (pid == 0)
                child(0);
            CHECK(!is_asleep(comer));
            int status = 0;
            while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
            CHECK_EQ(status, 0);
            seen++;
            break;
        }
        clock_gettime(CLOCK_MONOTONIC, &after);
        longest = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    }
    /* On a busy machine it may be over before we look: it takes 300 ms. */
    CHECK(seen || longest >= 250);
    NOTE("%d threads, %s\n", count, seen ? "one was held up" : "nothing was seen");
    quit = 1;
    for (int i = 0; i < count; i++)
        raw_join()(t[i], NULL);
    check_alive();
}

/* The child knows that it has no helpers, and makes its own. */
static int threads_of_process(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    REQUIRE(tasks != NULL);
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static void child_makes_its_own_helpers(void)
{
    add_options("idle=off,cycle-helper=off"); /* whose threads are no helpers of stops */
    GC_set_markers_count(3);
    prepare(1);
    static void **list;
    for (int i = 0; i < 200000; i++) {
        void **cell = GC_malloc(32);
        cell[0] = list;
        list = cell;
    }
    GC_gcollect();
    GC_gcollect();
    CHECK_EQ(threads_of_process(), 3);
    pid_t pid = fork();
    if (pid == 0) {
        int before = threads_of_process();
        GC_gcollect();
        GC_gcollect();
        int after = threads_of_process();
        NOTE("threads of the child: %d, then %d\n", before, after);
        _exit(before == 1 && after == 3 && whole() ? 0 : 1);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    CHECK_EQ(status, 0);
    check_alive();
}

static volatile int inside, may_go;

static int waits_inside(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)info, (void)size, (void)data;
    inside = 1;
    while (!may_go)
        nap(1000);
    return 1;
}

static void *walks_libraries(void *arg)
{
    dl_iterate_phdr(waits_inside, NULL);
    return arg;
}

/* A thread that walks the list of libraries, as one that throws a C++ exception
 * may, has a lock of the loader that the child can never have. What was loaded is
 * known from the collection before. libgc 8.2.2 waits for ever. */
static void child_collects_though_the_loader_was_busy(void)
{
    pthread_t walker;
    GC_INIT();
    fill();
    GC_gcollect();
    REQUIRE(raw_create()(&walker, NULL, walks_libraries, NULL) == 0);
    while (!inside)
        nap(1000);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0)
        child(1);
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
    may_go = 1;
    REQUIRE(raw_join()(walker, NULL) == 0);
    GC_gcollect();
    CHECK(whole());
}

static int share_gone;

/* What the child says of libraries counts there, though it need not ask the loader. */
static void changes_in_the_child(void (*change)(void))
{
    GC_INIT();
    fill();
    for (int i = 0; i < KEPT; i++)
        watch(i, kept[i]);
    GC_gcollect();
    CHECK(whole());
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        change();
        collect();
        collect();
        _exit(100 * gone(KEPT) / KEPT);
    }
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    REQUIRE(WIFEXITED(status));
    share_gone = WEXITSTATUS(status);
}

static void clears(void) { GC_clear_roots(); }
static void wants_none(void) { GC_set_no_dls(1); }

static void cleared_roots_in_a_child_are_found_again(void)
{
    changes_in_the_child(clears);
    CHECK_EQ(share_gone, 0);
}

static void a_child_may_want_no_libraries(void)
{
    changes_in_the_child(wants_none);
    CHECK_GE(share_gone, 75);
}

MAIN_BEGIN
    RUN(alone);
    RUN(from_main);
    RUN(from_a_thread);
    RUN(from_threads_at_once);
    RUN(by_hand);
    RUN(by_hand_does_nothing);
    RUN(plain_child);
    RUN(generations);
    RUN(forked_before_init);
    RUN(in_a_blocking_region);
    RUN(not_while_libraries_are_read);
    RUN_GLEANER(with_the_arena_in_use);
    RUN_GLEANER(while_a_thread_registers);
    RUN_GLEANER(child_makes_its_own_helpers);
    RUN_GLEANER(child_collects_though_the_loader_was_busy);
    RUN_GLEANER(cleared_roots_in_a_child_are_found_again);
    RUN_GLEANER(a_child_may_want_no_libraries);
MAIN_END
