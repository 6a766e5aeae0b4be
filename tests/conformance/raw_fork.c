/* A child made by a system call of the program's own, of which no hook of the C library knows: as sandboxes, runtimes and debuggers
 * make them. It has the heap, and what its one thread refers to; not the threads of its parent, nor those of the collector. */
#include "cycles.h"

enum { DEPTH = 10, NODES = 2047, FAILED = 1 };

struct node {
    struct node *left, *right;
    uintptr_t number;
};

static NOINLINE struct node *make_tree(int depth)
{
    struct node *n = GC_malloc(sizeof *n);
    n->number = 1;
    if (depth > 0) {
        n->left = make_tree(depth - 1);
        n->right = make_tree(depth - 1);
    }
    return n;
}

static uintptr_t count(const struct node *n)
{
    return n == NULL ? 0 : n->number + count(n->left) + count(n->right);
}

static pid_t fork_by_call(void)
{
    /* Flags and four addresses, of which none is given: their order differs between processors. */
    return (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
}

static int status_of(pid_t child)
{
    int status = -1;
    REQUIRE(child > 0);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* Trees that are made meanwhile take the place of what was lost. */
static NOINLINE void make_trees(void)
{
    for (int i = 0; i < (under_stress() ? 3 : 100); i++)
        CHECK_EQ(count(make_tree(DEPTH)), NODES);
    GC_gcollect();
    CHECK_EQ(count(make_tree(DEPTH)), NODES);
}

static void leave(void)
{
    _exit(h_test_failed ? FAILED : 0);
}

/* What the forking thread's stack alone refers to stays, on both sides. */
static NOINLINE void fork_with_a_tree(void (*in_child)(void))
{
    struct node *volatile tree = make_tree(DEPTH);
    pid_t child = fork_by_call();
    if (child == 0) {
        make_trees();
        CHECK_EQ(count(tree), NODES);
        in_child();
        make_trees();
        CHECK_EQ(count(tree), NODES);
        check_alive();
        leave();
    }
    make_trees();
    CHECK_EQ(status_of(child), 0);
    CHECK_EQ(count(tree), NODES);
}

static void nothing(void) {}

static void what_a_stack_refers_to_stays(void)
{
    GC_INIT();
    for (int i = 0; i < 5; i++)
        fork_with_a_tree(nothing);
    check_alive();
}

static void fork_again(void)
{
    fork_with_a_tree(nothing);
}

static void a_child_has_children(void)
{
    GC_INIT();
    fork_with_a_tree(fork_again);
    check_alive();
}

static NOINLINE void fork_with_hooks(void)
{
    struct node *volatile tree = make_tree(DEPTH);
    pid_t child = fork();
    make_trees();
    CHECK_EQ(count(tree), NODES);
    if (child == 0)
        leave();
    CHECK_EQ(status_of(child), 0);
}

static void a_child_forks_as_usual(void)
{
    GC_INIT();
    fork_with_a_tree(fork_with_hooks);
    fork_with_hooks();
    check_alive();
}

/* As by default under stock libgc: a child of a program that asked for nothing is on its own. */
static void forks_are_left_alone(void)
{
    GC_set_handle_fork(0);
    GC_INIT();
    for (int i = 0; i < 5; i++)
        fork_with_hooks();
    check_alive();
}

/* ---- threads of the program ---- */

enum { THREADS = 4 };
static int wakes[2];
static volatile int waiting;

/* Waits in a system call, and refers to a tree and to the objects that are watched. */
static void *waits(void *argument)
{
    struct node *volatile tree = make_tree(DEPTH);
    void *volatile objects[MANY / THREADS];
    int first = (int)(uintptr_t)argument * (MANY / THREADS);
    char byte;
    for (int i = 0; i < MANY / THREADS; i++) {
        objects[i] = GC_malloc(64);
        watch(first + i, objects[i]);
    }
    __atomic_add_fetch(&waiting, 1, __ATOMIC_RELAXED);
    while (read(wakes[0], &byte, 1) < 0 && errno == EINTR)
        ;
    CHECK_EQ(count(tree), NODES);
    for (int i = 0; i < MANY / THREADS; i++)
        CHECK_PTR(objects[i], GC_REVEAL_POINTER(h_watched[first + i]));
    return NULL;
}

static pthread_t threads[THREADS];

static void start_threads(void)
{
    REQUIRE(pipe(wakes) == 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, waits, (void *)i) == 0);
    while (waiting < THREADS)
        usleep(1000);
    GC_gcollect();
    CHECK_EQ(gone(MANY), 0);
}

static void end_threads(void)
{
    CHECK_EQ(gone(MANY), 0);
    REQUIRE(write(wakes[1], "1234", THREADS) == THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* What the threads referred to that the child does not have goes there, and is not waited for. */
static void check_forgotten(void)
{
    collect();
    CHECK_GE(gone(MANY), MANY * 9 / 10);
}

static void threads_of_the_parent_are_forgotten(void)
{
    GC_INIT();
    start_threads();
    for (int i = 0; i < 3; i++)
        fork_with_a_tree(check_forgotten);
    end_threads();
    check_alive();
}

static void *forks(void *unused)
{
    for (int i = 0; i < 3; i++)
        fork_with_a_tree(check_forgotten);
    return unused;
}

static void a_thread_forks(void)
{
    pthread_t forking;
    GC_INIT();
    start_threads();
    REQUIRE(pthread_create(&forking, NULL, forks, NULL) == 0);
    pthread_join(forking, NULL);
    end_threads();
    check_alive();
}

static void *makes_trees(void *argument)
{
    make_trees();
    return argument;
}

static void start_a_thread(void)
{
    pthread_t thread;
    void *result = NULL;
    REQUIRE(pthread_create(&thread, NULL, makes_trees, &thread) == 0);
    make_trees();
    pthread_join(thread, &result);
    CHECK_PTR(result, &thread);
}

static void a_child_has_threads(void)
{
    GC_INIT();
    start_threads();
    fork_with_a_tree(start_a_thread);
    end_threads();
    check_alive();
}

/* ---- locks ---- */

static NOINLINE void fork_with_the_lock(void)
{
    struct node *volatile tree = make_tree(DEPTH);
    GC_alloc_lock();
    pid_t child = fork_by_call();
    /* Where it is the one thread, it may go on inside; its parent may not. */
    if (child == 0)
        CHECK(all_zero(GC_malloc(100000), 100000));
    GC_alloc_unlock();
    make_trees();
    CHECK_EQ(count(tree), NODES);
    if (child == 0)
        leave();
    CHECK_EQ(status_of(child), 0);
}

static void a_fork_with_the_lock_meets_no_other_thread(void)
{
    GC_INIT();
    start_threads();
    for (int i = 0; i < 3; i++)
        fork_with_the_lock();
    end_threads();
    check_alive();
}

static volatile int may_lock;

static void *stays(void *unused)
{
    waiting = 1;
    for (;;)
        pause();
    return unused;
}

static void *keeps_the_lock(void *unused)
{
    while (!may_lock)
        usleep(1000);
    return GC_call_with_alloc_lock(stays, unused);
}

static void uses_the_heap_of_another_thread(void)
{
    pthread_t thread;
    GC_INIT();
    REQUIRE(pthread_create(&thread, NULL, keeps_the_lock, NULL) == 0);
    may_lock = 1;
    while (!waiting)
        usleep(1000);
    pid_t child = fork_by_call();
    if (child == 0) {
        GC_gcollect();
        _exit(0);
    }
    int status = status_of(child);
    _exit(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/* What that thread was changing is not whole: a message, and no child that hangs. */
static void another_thread_has_the_lock(void)
{
    static char text[4096];
    int status = run_captured(uses_the_heap_of_another_thread, text, sizeof text);
    CHECK_EQ(WEXITSTATUS(status), SIGABRT);
    CHECK(strstr(text, "while another thread was inside the library") != NULL);
}

/* ---- cycles of steps ---- */

static NOINLINE void fork_in_a_cycle(int steps)
{
    struct node *volatile tree = make_tree(DEPTH);
    GC_start_incremental_collection();
    for (int i = 0; i < steps; i++)
        GC_collect_a_little();
    /* Only an old object refers to it. */
    for (int i = 0; i < HOLDERS; i++)
        ((struct node **)holders[i])[7] = make_tree(0);
    pid_t child = fork_by_call();
    make_trees();
    finish_cycle();
    CHECK_EQ(count(tree), NODES);
    for (int i = 0; i < HOLDERS; i++)
        CHECK_EQ(count(((struct node **)holders[i])[7]), 1);
    check_cells();
    if (child == 0)
        leave();
    CHECK_EQ(status_of(child), 0);
}

static void a_fork_in_a_cycle_of_steps(void)
{
    GC_enable_incremental();
    GC_INIT();
    GC_set_time_limit(1);
    make_holders();
    for (int i = 0; i < (under_stress() ? 2 : 8); i++)
        fork_in_a_cycle(i);
    check_alive();
}

static void threads_and_a_cycle_of_steps(void)
{
    GC_enable_incremental();
    GC_INIT();
    GC_set_time_limit(1);
    make_holders();
    start_threads();
    for (int i = 0; i < (under_stress() ? 2 : 6); i++)
        fork_in_a_cycle(i);
    end_threads();
    check_alive();
}

#undef pthread_exit

static volatile int collects_on;

static void *collects(void *arg)
{
    while (collects_on)
        GC_gcollect();
    return arg;
}

/* Another thread has the lock at most forks, which matters to nobody who only leaves. */
static void a_child_that_calls_nothing_leaves_as_usual(void)
{
    pthread_t t;
    GC_INIT();
    make_trees();
    collects_on = 1;
    REQUIRE(pthread_create(&t, NULL, collects, NULL) == 0);
    for (int i = 0; i < (under_stress() ? 5 : 50); i++) {
        pid_t child = fork_by_call();
        if (child == 0) {
            if (i % 2)
                pthread_exit(NULL); /* The last thread of its process. */
            exit(0);
        }
        CHECK_EQ(status_of(child), 0);
    }
    collects_on = 0;
    REQUIRE(pthread_join(t, NULL) == 0);
    check_alive();
}

#undef pthread_create
#undef pthread_join

static void *registers_itself(void *arg)
{
    struct GC_stack_base base;
    REQUIRE(GC_get_stack_base(&base) == GC_SUCCESS);
    REQUIRE(GC_register_my_thread(&base) == GC_SUCCESS);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(count(make_tree(DEPTH)), NODES);
    GC_unregister_my_thread();
    return arg;
}

/* The thread that forked calls nothing any more. */
static void threads_of_a_child_come_at_once(void)
{
    enum { THREADS = 4 };
    GC_INIT();
    GC_allow_register_threads();
    make_trees();
    for (int i = 0; i < (under_stress() ? 3 : 60); i++) {
        pid_t child = fork_by_call();
        if (child == 0) {
            pthread_t t[THREADS];
            for (int k = 0; k < THREADS; k++)
                REQUIRE(pthread_create(&t[k], NULL, registers_itself, NULL) == 0);
            for (int k = 0; k < THREADS; k++)
                REQUIRE(pthread_join(t[k], NULL) == 0);
            leave();
        }
        CHECK_EQ(status_of(child), 0);
    }
    check_alive();
}

/* ---- threads of the collector ---- */

/* Its first collections are its own alone; then it has such a thread, too. */
static void markers_come(void)
{
    while (!has_thread("gleaner-mark-1"))
        GC_gcollect();
    check_cells();
}

static void markers_are_the_parents(void)
{
    start_idle("markers=2");
    make_cells();
    while (!has_thread("gleaner-mark-1"))
        GC_gcollect();
    for (int i = 0; i < 3; i++)
        fork_with_a_tree(markers_come);
    check_cells();
    check_alive();
    end_idle();
}

static void watcher_comes(void)
{
    make_watcher();
    drop_cells();
    wait_until_given_back(NOTHING, unused_bytes());
    exit(h_test_failed ? FAILED : 0);
}

/* It may just be giving memory back or collecting, with the lock: such a child says so. */
static void the_watcher_is_the_parents(void)
{
    start_idle("idle=collect@20ms,markers=2");
    make_cells();
    make_watcher();
    int whole = 0;
    for (int i = 0; i < 1000 && whole < 3; i++) {
        struct node *volatile tree = make_tree(DEPTH);
        pid_t child = fork_by_call();
        if (child == 0) {
            CHECK_EQ(has_thread("gleaner-idle-1"), 0);
            make_trees();
            CHECK_EQ(count(tree), NODES);
            watcher_comes();
        }
        int status = status_of(child);
        whole += status == 0;
        CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
    }
    CHECK_EQ(whole, 3);
    check_cells();
    check_alive();
    end_idle();
}

/* Where the helper has the lock at that moment, the child says so. In a turn without the lock its marks are dropped. */
static void the_helper_is_the_parents(void)
{
    start_idle("generations=incremental,cycle-helper=on,markers=2,verify=edges");
    GC_set_time_limit(1);
    if (GC_is_incremental_mode() == 0) {
        end_idle();
        return;
    }
    make_holders();
    while (!has_thread("gleaner-cycle-1")) {
        GC_gcollect();
        churn(64 << 10, 40);
    }
    int whole = 0, wanted = under_stress() ? 3 : 60;
    for (int i = 0; i < 3000 && whole < wanted; i++) {
        struct node *volatile tree = make_tree(DEPTH);
        GC_start_incremental_collection();
        usleep((unsigned)(i * 37 % 1000));
        pid_t child = fork_by_call();
        for (int number = 0; number < HOLDERS; number++)
            ((void **)holders[number])[5] = make_tree(0);
        finish_cycle();
        if (child == 0 || i % 10 == 0) {
            GC_gcollect();
            CHECK_EQ(count(tree), NODES);
            for (int number = 0; number < HOLDERS; number++)
                CHECK_EQ(count(((struct node **)holders[number])[5]), 1);
            check_cells();
        }
        if (child == 0)
            exit(h_test_failed ? FAILED : 0);
        int status = status_of(child);
        whole += status == 0;
        CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
    }
    CHECK_EQ(whole, wanted);
    check_alive();
    end_idle();
}

MAIN_BEGIN
    RUN(what_a_stack_refers_to_stays);
    RUN(a_child_has_children);
    RUN_GLEANER(a_child_forks_as_usual);
    RUN(forks_are_left_alone);
    RUN_GLEANER(threads_of_the_parent_are_forgotten);
    RUN_GLEANER(a_thread_forks);
    RUN_GLEANER(a_child_has_threads);
    RUN_GLEANER(a_fork_with_the_lock_meets_no_other_thread);
    RUN_GLEANER(another_thread_has_the_lock);
    RUN_GLEANER(a_fork_in_a_cycle_of_steps);
    RUN_GLEANER(threads_and_a_cycle_of_steps);
    RUN(a_child_that_calls_nothing_leaves_as_usual);
    RUN(threads_of_a_child_come_at_once);
    RUN_GLEANER(markers_are_the_parents);
    RUN_GLEANER(the_watcher_is_the_parents);
    RUN_GLEANER(the_helper_is_the_parents);
MAIN_END
