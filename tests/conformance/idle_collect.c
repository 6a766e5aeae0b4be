/* Collections in idle time (option idle): of programs that collections have interrupted before, or need not interrupt; of others only
 * if the option asks for it. Nothing of the program's runs on a thread of the collector's. */
#include "idle.h"
#include "stacks.h"
#include <gc/gc_disclaim.h>

#define HAD_BEEN "nothing had been allocated"

static int tid(void)
{
    return (int)syscall(SYS_gettid);
}

static NOINLINE void drop_without_collecting(void)
{
    memset(kept, 0, sizeof kept);
    scrub();
}

/* Whether more than `before` collections come in some seconds. */
static int is_collected(const char *reason, int before)
{
    for (int i = 0; i < 100; i++, usleep(20000))
        if (collections_for(reason) > before)
            return 1;
    return 0;
}

/* A thread that has lost its processor may be idle while it keeps its cells; then more is allocated before the next collection. */
static void drop_until_collected(const char *reason)
{
    int before = collections_for(reason);
    do {
        make_cells();
        drop_without_collecting();
    } while (!is_collected(reason, before));
}

/* So long that a watcher would have acted. */
static int waits_undisturbed(void)
{
    return poll(NULL, 0, 400) == 0;
}

/* ---- several threads ---- */

static int ends[2];
static volatile int ready, reads_one, polls_one;

static void *reads(void *arg)
{
    char c;
    GC_malloc(16);
    __sync_fetch_and_add(&ready, 1);
    reads_one = read(ends[0], &c, 1) == 1;
    return arg;
}

static void *poll_once(void *arg)
{
    struct pollfd fd = {.fd = ends[0], .events = POLLIN};
    __sync_fetch_and_add(&ready, 1);
    polls_one = poll(&fd, 1, -1) == 1;
    return arg;
}

static void *polls(void *arg)
{
    GC_malloc(16);
    return GC_do_blocking(poll_once, arg);
}

/* What waits inside GC_do_blocking gets no signal, and a read goes on. */
static void several_threads_are_collected_and_go_on_waiting(void)
{
    pthread_t t[2];
    start_idle("idle=50ms,markers=2");
    REQUIRE(pipe(ends) == 0);
    REQUIRE(pthread_create(&t[0], NULL, reads, NULL) == 0);
    REQUIRE(pthread_create(&t[1], NULL, polls, NULL) == 0);
    while (ready < 2)
        ;
    make_cells();
    make_watcher();
    drop_until_collected(NOTHING);
    wait_until_given_back(NOTHING, unused_bytes());
    /* Never twice for nothing. */
    GC_word before = GC_get_gc_no();
    usleep(200000);
    CHECK_EQ(GC_get_gc_no(), before);
    REQUIRE(write(ends[1], "xy", 2) == 2);
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_join(t[i], NULL) == 0);
    CHECK(reads_one);
    CHECK(polls_one);
    check_alive();
    end_idle();
}

/* Neither of them was interrupted by a collection yet. */
static void threads_that_were_never_stopped_are_left_alone(void)
{
    pthread_t t;
    if (under_stress()) /* A collection comes as the second thread allocates. */
        return;
    start_idle("idle=20ms,markers=2");
    make_cells();
    make_watcher();
    REQUIRE(pipe(ends) == 0);
    REQUIRE(pthread_create(&t, NULL, reads, NULL) == 0);
    while (ready < 1)
        ;
    GC_word before = GC_get_gc_no();
    drop_without_collecting();
    CHECK(waits_undisturbed());
    CHECK_EQ(GC_get_gc_no(), before);
    REQUIRE(write(ends[1], "x", 1) == 1);
    REQUIRE(pthread_join(t, NULL) == 0);
    end_idle();
}

/* ---- one thread ---- */

static void one_thread_is_left_alone(void)
{
    start_idle("idle=20ms,markers=2");
    make_cells();
    make_watcher();
    GC_word before = GC_get_gc_no();
    drop_without_collecting();
    CHECK(waits_undisturbed());
    CHECK_EQ(GC_get_gc_no(), before);
    end_idle();
}

static void *waits_until_collected(void *arg)
{
    return is_collected(NOTHING, 0) ? arg : NULL;
}

static void one_thread_in_a_blocking_region_is_collected(void)
{
    start_idle("idle=50ms,markers=2");
    make_cells();
    make_watcher();
    /* Also where the watcher has seen before that the thread allocates no more. */
    drop_without_collecting();
    usleep(200000);
    while (GC_do_blocking(waits_until_collected, kept) == NULL) {
        make_cells();
        drop_without_collecting();
    }
    wait_until_given_back(NOTHING, unused_bytes());
    check_alive();
    end_idle();
}

static void one_thread_is_collected_if_asked_for(void)
{
    start_idle("idle=collect@50ms,markers=1");
    drop_until_collected(NOTHING);
    wait_until_given_back(NOTHING, unused_bytes());
    CHECK_EQ(has_thread(""), 2);
    make_cells();
    check_alive();
    end_idle();
}

static void a_forked_child_is_collected(void)
{
    start_idle("idle=collect@50ms,markers=1");
    make_cells();
    pid_t child = fork();
    if (child == 0) {
        drop_until_collected(NOTHING);
        check_alive();
        exit(h_test_failed ? 1 : 0);
    }
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
    end_idle();
}

/* Forks while the watcher collects. */
static void forks_meet_collections(void)
{
    start_idle("idle=collect@20ms,markers=2");
    for (int i = 0; i < (under_stress() ? 3 : 20); i++) {
        make_cells();
        drop_without_collecting();
        usleep(20000 + 500 * i);
        pid_t child = fork();
        if (child == 0) {
            make_cells();
            collect();
            exit(0);
        }
        int status = 1;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
    }
    drop_until_collected(NOTHING);
    check_alive();
    end_idle();
}

/* The watcher does not wait for it, and gives the lock back. */
static void a_thread_that_blocks_the_signal_holds_nobody_up(void)
{
    sigset_t all, pending;
    start_idle("idle=collect@20ms,markers=1");
    sigfillset(&all);
    REQUIRE(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, NULL, 8) == 0);
    do {
        make_cells();
        drop_without_collecting();
        usleep(100000);
        sigpending(&pending);
    } while (!sigismember(&pending, GC_get_suspend_signal()));
    make_cells();
    collect();
    CHECK_EQ(kept[0][0], 1);
    CHECK_EQ(collections_for(NOTHING), 0);
    CHECK_GE(collections_for("given up: a thread did not stop"), 1);
    REQUIRE(syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &all, NULL, 8) == 0);
    /* What was given up counts as a collection in vain. */
    GC_gcollect();
    GC_gcollect();
    drop_until_collected(NOTHING);
    check_alive();
    end_idle();
}

/* Where calls become rare, one of them collects. */
static void calls_that_become_rare_collect(void)
{
    if (under_stress())
        return;
    start_idle("idle=20ms,markers=1");
    while (collections_for(LITTLE) == 0 || given_back(LITTLE) < unused_bytes() / 2) {
        make_cells();
        drop_without_collecting();
        /* What is new is worth it, unless it calls for a collection by itself. */
        churn(6 << 20, 48);
        for (int i = 0; i < 50; i++) {
            GC_free(GC_malloc(9000));
            usleep(10000);
        }
    }
    CHECK_EQ(has_thread(""), 1);
    check_alive();
    end_idle();
}

/* ---- what the program has to say ---- */

static int own, calls, calls_elsewhere;
static void notes_thread(void)
{
    calls++;
    calls_elsewhere += tid() != own;
}

static void start_and_ask(void)
{
    own = tid();
    start_idle("idle=collect@20ms,markers=1");
}

static void collect_at_the_next_call(void)
{
    make_cells();
    drop_without_collecting();
    CHECK(waits_undisturbed());
    CHECK_EQ(collections_for(NOTHING), 0);
    while (collections_for(HAD_BEEN) == 0 && collections_for(NOTHING) == 0) {
        make_cells();
        drop_without_collecting();
        usleep(100000);
        churn(64 << 10, 48);
    }
    CHECK_EQ(calls_elsewhere, 0);
    CHECK_EQ(collections_for(NOTHING), 0);
    end_idle();
}

/* Its own call interrupts nobody. */
static void one_thread_is_collected_by_its_next_call(void)
{
    start_idle("idle=20ms,markers=2");
    make_cells();
    make_watcher();
    collect_at_the_next_call();
}

static void one_thread_beside_those_in_blocking_regions_is_collected_by_its_next_call(void)
{
    pthread_t t;
    start_idle("idle=20ms,markers=2");
    REQUIRE(pipe(ends) == 0);
    REQUIRE(pthread_create(&t, NULL, polls, NULL) == 0);
    while (ready < 1) /* Before that a collection would interrupt it. */
        ;
    make_cells();
    make_watcher();
    if (under_stress()) /* One has. */
        return;
    collect_at_the_next_call();
    REQUIRE(write(ends[1], "x", 1) == 1);
    REQUIRE(pthread_join(t, NULL) == 0);
    CHECK(polls_one);
}

static void *polls_and_reads(void *arg)
{
    char c;
    polls(arg);
    return read(ends[0], &c, 1) == 1 ? reads(arg) : NULL;
}

/* One thread ran as the watcher looked, and the next call is to collect. But by then two do. */
static void threads_that_leave_a_blocking_region_are_left_alone(void)
{
    pthread_t t;
    if (under_stress())
        return;
    start_idle("idle=20ms,markers=2");
    REQUIRE(pipe(ends) == 0);
    make_cells();
    make_watcher();
    /* A stop that is still to come would interrupt the other thread, which may be stopped again from then on. */
    while (GC_collect_a_little())
        ;
    REQUIRE(pthread_create(&t, NULL, polls_and_reads, NULL) == 0);
    while (ready < 1)
        ;
    drop_without_collecting();
    /* Where the machine is busy, that took long enough for one. */
    int before = collections_for(HAD_BEEN);
    CHECK(waits_undisturbed());
    REQUIRE(write(ends[1], "x", 1) == 1);
    while (ready < 2)
        ;
    churn(64 << 10, 48);
    CHECK_EQ(collections_for(HAD_BEEN), before);
    REQUIRE(write(ends[1], "x", 1) == 1);
    REQUIRE(pthread_join(t, NULL) == 0);
    CHECK(reads_one);
    end_idle();
}

static void a_program_with_a_callback_is_collected_by_its_next_call(void)
{
    start_and_ask();
    GC_set_start_callback(notes_thread);
    collect_at_the_next_call();
    CHECK_GE(calls, 1);
}

static void a_program_with_other_roots_is_collected_by_its_next_call(void)
{
    start_and_ask();
    GC_set_push_other_roots(notes_thread);
    collect_at_the_next_call();
    CHECK_GE(calls, 1);
}

static void notes_event(GC_EventType event)
{
    (void)event;
    notes_thread();
}

static void a_program_that_hears_of_moments_is_collected_by_its_next_call(void)
{
    start_and_ask();
    GC_set_on_collection_event(notes_event);
    collect_at_the_next_call();
    CHECK_GE(calls, 1);
}

static void notes_stopped(GC_EventType event, void *thread)
{
    (void)event;
    (void)thread;
    notes_thread();
}

static void a_program_that_hears_of_stopped_threads_is_collected_by_its_next_call(void)
{
    start_and_ask();
    GC_set_on_thread_event(notes_stopped);
    collect_at_the_next_call();
}

static void notes_size(GC_word size)
{
    CHECK_OP(size, >, 0);
    notes_thread();
}

static void a_program_that_hears_of_sizes_is_collected_by_its_next_call(void)
{
    start_and_ask();
    GC_set_on_heap_resize(notes_size);
    collect_at_the_next_call();
}

static int never_stops(void)
{
    notes_thread();
    return 0;
}

static void a_program_with_a_stop_function_is_collected_by_its_next_call(void)
{
    start_and_ask();
    GC_set_stop_func(never_stops);
    collect_at_the_next_call();
}

static void notes_ready(void *object)
{
    CHECK(object != NULL);
    notes_thread();
}

static void a_program_that_awaits_finalizers_is_collected_by_its_next_call(void)
{
    start_and_ask();
    GC_set_await_finalize_proc(notes_ready);
    collect_at_the_next_call();
}

static int has_roots(const char *library, void *section, size_t bytes)
{
    CHECK(library != NULL && section != NULL && bytes > 0);
    notes_thread();
    return 1;
}

static void a_program_that_chooses_libraries_is_collected_by_its_next_call(void)
{
    start_and_ask();
    GC_register_has_static_roots_callback(has_roots);
    collect_at_the_next_call();
    CHECK_GE(calls, 1);
}

static void leaves_it(void **pointer, void *thread)
{
    CHECK(*pointer != NULL);
    (void)thread;
    notes_thread();
}

static void a_program_with_a_corrector_is_collected_by_its_next_call(void)
{
    void (*set)(void (*)(void **, void *));
    *(void **)&set = dlsym(RTLD_DEFAULT, "GC_set_sp_corrector");
    REQUIRE(set != NULL);
    start_and_ask();
    set(leaves_it);
    collect_at_the_next_call();
    CHECK_GE(calls, 1);
}

static GC_ToggleRefStatus stays_strong(void *object)
{
    CHECK(object != NULL);
    notes_thread();
    return GC_TOGGLE_REF_STRONG;
}

static void a_program_with_a_toggle_function_is_collected_by_its_next_call(void)
{
    start_and_ask();
    GC_set_toggleref_func(stays_strong);
    CHECK_EQ(GC_toggleref_add(GC_malloc(16), 1), GC_SUCCESS);
    collect_at_the_next_call();
    CHECK_GE(calls, 1);
}

static struct GC_ms_entry *marks_nothing(GC_word *object, struct GC_ms_entry *top, struct GC_ms_entry *limit, GC_word env)
{
    (void)object;
    (void)limit;
    (void)env;
    notes_thread();
    return top;
}

static void *volatile marked_by_it;
static void a_program_with_a_mark_procedure_is_collected_by_its_next_call(void)
{
    start_and_ask();
    unsigned proc = GC_new_proc(marks_nothing);
    unsigned kind = GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(proc, 0), 0, 1);
    marked_by_it = GC_generic_malloc(CELL, (int)kind);
    collect_at_the_next_call();
    CHECK_GE(calls, 1);
}

static int lets_go(void *object)
{
    CHECK(object != NULL);
    notes_thread();
    return 0;
}

static void a_program_with_a_disclaim_procedure_is_collected_by_its_next_call(void)
{
    start_and_ask();
    unsigned kind = GC_new_kind(GC_new_free_list(), 0, 1, 1);
    GC_register_disclaim_proc((int)kind, lets_go, 0);
    collect_at_the_next_call();
}

/* A search for stacks reads what is mapped. */
static void a_program_with_stacks_of_its_own_is_collected_by_its_next_call(void)
{
    start_and_ask();
    start();
    run_on_stack(GC_gcollect);
    collect_at_the_next_call();
}

static void a_program_that_writes_snapshots_is_collected_by_its_next_call(void)
{
    char options[100];
    make_log();
    snprintf(options, sizeof options, "idle=collect@20ms,markers=1,snapshot=%s.heap,snapshot-at=signal", log_name);
    start_with_log(options);
    collect_at_the_next_call();
}

static volatile int finalized, finalizing_thread;
static void finalizes(void *object, void *data)
{
    (void)object;
    (void)data;
    finalizing_thread = tid();
    finalized++;
}

static void *finalizable[MANY];
static NOINLINE void make_finalizable(void)
{
    for (int i = 0; i < MANY; i++) {
        finalizable[i] = GC_malloc(40);
        GC_register_finalizer(finalizable[i], finalizes, NULL, NULL, NULL);
    }
}

static void finalizers_wait_for_a_thread_of_the_program(void)
{
    int before;
    start_idle("idle=collect@50ms,markers=1");
    do {
        make_cells();
        deep(make_finalizable);
        before = finalized;
        memset(finalizable, 0, sizeof finalizable);
        drop_without_collecting();
    } while (!is_collected(NOTHING, 0));
    CHECK_EQ(finalized, before);
    while (finalized < before + MOST(MANY))
        churn(64 << 10, 48);
    CHECK_EQ(finalizing_thread, tid());
    end_idle();
}

static void disabled_collections_do_not_come(void)
{
    start_idle("idle=collect@20ms,markers=1");
    make_cells();
    GC_disable();
    GC_word before = GC_get_gc_no();
    drop_without_collecting();
    CHECK(waits_undisturbed());
    CHECK_EQ(GC_get_gc_no(), before);
    GC_enable();
    drop_until_collected(NOTHING);
    end_idle();
}

/* ---- how often ---- */

static const char *option;
static void allocates_now_and_then(void)
{
    add_options(option);
    GC_INIT();
    make_cells();
    GC_word before = GC_get_gc_no();
    for (int i = 0; i < 60; i++) {
        churn(2 << 20, 256);
        usleep(60000);
    }
    exit((int)(GC_get_gc_no() - before));
}

static int collections_with(const char *idle)
{
    static char text[2000];
    option = idle;
    int status = run_captured(allocates_now_and_then, text, sizeof text);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_program_that_goes_on_is_collected_twice_as_often_at_most(void)
{
    if (under_stress())
        return;
    int without = collections_with("idle=off,markers=1");
    int with = collections_with("idle=collect@20ms,markers=1");
    NOTE("%d collections without, %d with\n", without, with);
    CHECK_GE(without, 2);
    CHECK_LE(with, 2 * without + 2);
}

MAIN_BEGIN
    RUN_GLEANER(several_threads_are_collected_and_go_on_waiting);
    RUN_GLEANER(threads_that_were_never_stopped_are_left_alone);
    RUN_GLEANER(one_thread_is_left_alone);
    RUN_GLEANER(one_thread_in_a_blocking_region_is_collected);
    RUN_GLEANER(one_thread_is_collected_if_asked_for);
    RUN_GLEANER(a_forked_child_is_collected);
    RUN_GLEANER(forks_meet_collections);
    RUN_GLEANER(a_thread_that_blocks_the_signal_holds_nobody_up);
    RUN_GLEANER(calls_that_become_rare_collect);
    RUN_GLEANER(one_thread_is_collected_by_its_next_call);
    RUN_GLEANER(one_thread_beside_those_in_blocking_regions_is_collected_by_its_next_call);
    RUN_GLEANER(threads_that_leave_a_blocking_region_are_left_alone);
    RUN_GLEANER(a_program_with_a_callback_is_collected_by_its_next_call);
    RUN_GLEANER(a_program_with_other_roots_is_collected_by_its_next_call);
    RUN_GLEANER(a_program_that_hears_of_moments_is_collected_by_its_next_call);
    RUN_GLEANER(a_program_that_hears_of_stopped_threads_is_collected_by_its_next_call);
    RUN_GLEANER(a_program_that_hears_of_sizes_is_collected_by_its_next_call);
    RUN_GLEANER(a_program_with_a_stop_function_is_collected_by_its_next_call);
    RUN_GLEANER(a_program_that_awaits_finalizers_is_collected_by_its_next_call);
    RUN_GLEANER(a_program_that_chooses_libraries_is_collected_by_its_next_call);
    RUN_GLEANER(a_program_with_a_corrector_is_collected_by_its_next_call);
    RUN_GLEANER(a_program_with_a_toggle_function_is_collected_by_its_next_call);
    RUN_GLEANER(a_program_with_a_mark_procedure_is_collected_by_its_next_call);
    RUN_GLEANER(a_program_with_a_disclaim_procedure_is_collected_by_its_next_call);
    RUN_GLEANER(a_program_with_stacks_of_its_own_is_collected_by_its_next_call);
    RUN_GLEANER(a_program_that_writes_snapshots_is_collected_by_its_next_call);
    RUN_GLEANER(finalizers_wait_for_a_thread_of_the_program);
    RUN_GLEANER(disabled_collections_do_not_come);
    RUN_GLEANER(a_program_that_goes_on_is_collected_twice_as_often_at_most);
MAIN_END
