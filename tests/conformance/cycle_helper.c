/* A helper marks beside the program while marking in steps is under way (option cycle-helper). What the program does meanwhile is
 * seen, nothing of it runs on the helper, and there is none where it could be noticed. The log tells. */
#include "cycles.h"
#include <gc/gc_mark.h>

static void start_helped(const char *more)
{
    char options[120];
    make_log();
    snprintf(options, sizeof options, "generations=incremental,cycle-helper=on,%s", more);
    start_with_log(options);
    GC_set_time_limit(1);
    /* Where the kernel does not tell what is written, there are no steps. */
    if (GC_is_incremental_mode() == 0) {
        unlink(log_name);
        _exit(0);
    }
    make_holders();
}

/* A helper of stops is made when the heap is large enough, and that of cycles behind it. */
static void make_helper(void)
{
    while (!has_thread("gleaner-cycle-1")) {
        GC_gcollect();
        churn(64 << 10, 40);
    }
}

/* ---- it marks ---- */

static void the_helper_marks_while_the_program_computes(void)
{
    start_helped("markers=2");
    make_helper();
    while (marked_beside() < cells() * CELL / 2) {
        GC_start_incremental_collection();
        usleep(20000);
        finish_cycle();
    }
    check_cells();
    check_alive();
    end_idle();
}

static void what_the_program_does_meanwhile_is_seen(void)
{
    start_helped("markers=2,verify=edges,poison=on");
    make_helper();
    int rounds = under_stress() ? 3 : 60;
    /* Where others keep all processors busy the helper may come late. */
    for (int round = 0; round < rounds || (round < 1000 && marked_beside() == 0); round++) {
        GC_start_incremental_collection();
        move_objects(round);
        if (round % 2 == 0)
            finish_cycle();
        else
            churn(1 << 20, 64);
    }
    finish_cycle();
    check_objects();
    CHECK_GE(marked_beside(), 1);
    end_idle();
}

static void *cycles(void *unused)
{
    while (rounds_left > 0) {
        GC_start_incremental_collection();
        usleep(2000);
        finish_cycle();
    }
    return unused;
}

static void threads_allocate_while_the_helper_marks(void)
{
    start_helped("markers=2,verify=edges,poison=on");
    make_helper();
    allocate_in_threads(cycles);
    check_alive();
    end_idle();
}

static void threads_register_while_the_helper_marks(void)
{
    start_helped("markers=2,verify=edges");
    make_helper();
    register_in_threads(cycles);
    end_idle();
}

/* ---- what must not run there ---- */

static volatile int calls, calls_elsewhere;

static struct GC_ms_entry *marks(GC_word *object, struct GC_ms_entry *top, struct GC_ms_entry *limit, GC_word environment)
{
    (void)environment;
    calls++;
    calls_elsewhere += syscall(SYS_gettid) != getpid();
    return GC_MARK_AND_PUSH((void *)object[1], top, limit, (void **)&object[1]);
}

static void procedures_run_on_no_helper(void)
{
    start_helped("markers=2");
    unsigned proc = GC_new_proc(marks);
    unsigned kind = GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(proc, 0), 0, 1);
    make_helper();
    for (int i = 0; i < HOLDERS; i++) {
        void **owner = GC_generic_malloc(64, (int)kind);
        owner[1] = GC_malloc(64);
        memset(owner[1], 3, 64);
        ((void **)holders[i])[0] = owner;
    }
    for (int round = 0; round < 10; round++) {
        GC_start_incremental_collection();
        usleep(5000);
        finish_cycle();
        churn(1 << 20, 64);
    }
    for (int i = 0; i < HOLDERS; i++)
        CHECK_EQ(((unsigned char ***)holders[i])[0][1][63], 3);
    CHECK_GE(calls, HOLDERS);
    CHECK_EQ(calls_elsewhere, 0);
    end_idle();
}

/* What the helper marks of a cycle in which the program asks for one step. */
static long marked_around_a_step(void)
{
    long before = marked_beside();
    GC_start_incremental_collection();
    usleep(20000);
    GC_collect_a_little();
    usleep(50000);
    finish_cycle();
    return marked_beside() - before;
}

/* The step calls a procedure for which the helper has waited, and the helper marks what that leads to. */
static void it_goes_on_behind_a_step_that_was_asked_for(void)
{
    int nodes = under_stress() ? 500 : 200000, rounds = under_stress() ? 2 : 200;
    int tries = under_stress() ? 2 : 1000, went_on = 0;
    long without = 0;
    start_helped("markers=2");
    make_helper();
    for (int i = 0; i < (under_stress() ? 1 : 10) || (i < rounds && without < cells() * CELL); i++) {
        long now = marked_around_a_step();
        without = now > without ? now : without;
    }
    unsigned proc = GC_new_proc(marks);
    unsigned kind = GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(proc, 0), 0, 1);
    void **owner = ((void **)holders[0])[0] = GC_generic_malloc(64, (int)kind);
    for (int i = 0; i < nodes; i++) {
        void **node = GC_malloc(56);
        node[0] = owner[1];
        owner[1] = node;
    }
    /* Not in each cycle where other programs need the processors: until it has. */
    for (int i = 0; i < tries && !went_on; i++)
        went_on = marked_around_a_step() >= without + nodes * 32L;
    if (!under_stress())
        CHECK(went_on);
    check_cells();
    check_alive();
    end_idle();
}

/* ---- forks and ends ---- */

static void a_child_has_a_helper_of_its_own(void)
{
    start_helped("markers=2");
    make_helper();
    pid_t child = fork();
    if (child == 0) {
        CHECK_EQ(has_thread("gleaner-cycle-1"), 0);
        make_helper();
        while (marked_beside() == 0) {
            GC_start_incremental_collection();
            usleep(20000);
            finish_cycle();
        }
        check_cells();
        _exit(h_test_failed ? 1 : 0);
    }
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
    end_idle();
}

static void forks_meet_the_helper(void)
{
    start_helped("markers=2,verify=edges");
    make_helper();
    for (int i = 0; i < (under_stress() ? 3 : 60); i++) {
        GC_start_incremental_collection();
        usleep((unsigned)(i * 37 % 1000));
        pid_t child = fork();
        REQUIRE(child >= 0);
        for (int number = 0; number < HOLDERS; number++)
            ((void **)holders[number])[5] = GC_malloc(100);
        finish_cycle();
        if (child == 0) {
            check_cells();
            /* At the end of a process, too, it may be marking. */
            GC_start_incremental_collection();
            exit(h_test_failed ? 1 : 0);
        }
        int status = 1;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
    }
    check_cells();
    end_idle();
}

static void ends_while_it_marks(void)
{
    start_with_log("generations=incremental,cycle-helper=on,markers=2,stats=on");
    GC_set_time_limit(1);
    if (GC_is_incremental_mode() == 0)
        exit(0);
    make_cells();
    make_helper();
    while (marked_beside() == 0) {
        GC_start_incremental_collection();
        usleep(20000);
        finish_cycle();
    }
    GC_start_incremental_collection();
    exit(0);
}

static void the_end_of_the_process_is_told(void)
{
    static char text[8192], line[8192];
    int has_end = 0;
    make_log();
    int status = run_captured(ends_while_it_marks, text, sizeof text);
    CHECK_EQ(status, 0);
    CHECK(strstr(text, " turns of a helper, ") != NULL || strstr(text, " is not possible here") != NULL);
    FILE *log = fopen(log_name, "r");
    REQUIRE(log != NULL);
    while (fgets(line, sizeof line, log) != NULL)
        has_end |= strncmp(line, "{\"event\":\"exit\",", 16) == 0;
    fclose(log);
    CHECK(has_end);
    end_idle();
}

static void *ends(void *unused)
{
    exit(0);
    return unused;
}

/* The helper may be waiting for the lock then, and the end of the process for the helper. */
static void a_process_may_end_with_the_lock(void)
{
    start_helped("markers=2");
    make_helper();
    for (int i = 0; i < 5; i++) {
        int status = 1;
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            make_helper();
            GC_start_incremental_collection();
            GC_call_with_alloc_lock(ends, NULL);
            _exit(1);
        }
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
    }
    end_idle();
}

/* As a shell's job is, or a container that is paused: the helper may have the lock meanwhile. */
static void a_process_may_be_stopped_in_a_cycle(void)
{
    start_helped("markers=2,verify=edges");
    make_helper();
    for (int i = 0; i < 5; i++) {
        GC_start_incremental_collection();
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            usleep((unsigned)(i * 200));
            kill(getppid(), SIGSTOP);
            usleep(100000);
            kill(getppid(), SIGCONT);
            _exit(0);
        }
        churn(1 << 20, 64);
        REQUIRE(waitpid(child, NULL, 0) == child);
        finish_cycle();
        check_cells();
    }
    /* It stays away for a while if that was in one of its turns, and comes back. */
    long before = marked_beside();
    while (marked_beside() == before) {
        GC_start_incremental_collection();
        usleep(20000);
        finish_cycle();
    }
    check_alive();
    end_idle();
}

/* Another thread of the collector's looks whether the program is idle. Both go by the allocator lock, and neither waits for it. */
static void it_gets_along_with_the_thread_that_looks_for_idle_time(void)
{
    start_helped("markers=2,idle=20ms,verify=edges");
    make_helper();
    make_watcher();
    for (int i = 0; i < 3; i++) {
        GC_start_incremental_collection();
        usleep(60000);
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            CHECK_EQ(has_thread("gleaner-cycle-1") + has_thread("gleaner-idle-1"), 0);
            make_watcher();
            make_helper();
            GC_start_incremental_collection();
            exit(h_test_failed ? 1 : 0);
        }
        int status = 1;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
        finish_cycle();
        check_cells();
    }
    CHECK_GE(marked_beside(), 1);
    /* The helper marks what there is, and rests; so does the other one at last. */
    drop_cells();
    GC_start_incremental_collection();
    usleep(20000);
    finish_cycle();
    wait_until_given_back(NOTHING, unused_bytes());
    check_alive();
    end_idle();
}

static void disabled_collections_come_to_no_harm(void)
{
    start_helped("markers=2");
    make_helper();
    for (int i = 0; i < 10; i++) {
        GC_start_incremental_collection();
        GC_disable();
        usleep(1000);
        size_t before = GC_get_gc_no();
        churn(1 << 20, 64);
        CHECK_EQ(GC_get_gc_no(), before);
        GC_enable();
        finish_cycle();
    }
    check_cells();
    check_alive();
    end_idle();
}

/* The variable is written without a call, perhaps while the helper marks: the next list that a thread gets gives the cycle up. */
static void a_variable_that_disables_collections_ends_the_cycle(void)
{
    long bytes;
    start_helped("markers=2");
    make_helper();
    for (int i = 1; i <= (under_stress() ? 2 : 20); i++) {
        finish_cycle();
        GC_start_incremental_collection();
        usleep((unsigned)(i * 20));
        GC_dont_gc = 1;
        churn(32 << 10, 64);
        CHECK_EQ(events_of("cycle-end", "collections are disabled", &bytes), i);
        GC_dont_gc = 0;
    }
    check_cells();
    check_alive();
    end_idle();
}

/* It rests meanwhile. */
static void it_goes_on_when_collections_are_enabled_again(void)
{
    start_helped("markers=2");
    make_helper();
    long before, afterwards;
    do {
        before = marked_beside();
        GC_start_incremental_collection();
        GC_disable();
        usleep(20000);
        GC_enable();
        usleep(50000);
        finish_cycle();
        afterwards = marked_beside();
    } while (afterwards - before < cells() * CELL / 2);
    check_cells();
    end_idle();
}

/* ---- where it comes late, or not at all ---- */

/* The first helper comes; that of cycles is refused, and comes behind a later collection. */
static void a_helper_that_is_refused_comes_later(void)
{
    start_helped("markers=2,initial-heap=64m,fault=start-worker@2");
    while (!has_thread("gleaner-mark-1"))
        GC_gcollect();
    for (int i = 0; i < 4; i++)
        churn(64 << 10, 40);
    /* One that comes needs a moment to name itself. */
    usleep(100000);
    if (!under_stress())
        CHECK_EQ(has_thread("gleaner-cycle-1"), 0);
    make_helper();
    check_cells();
    end_idle();
}

static void make_cycles(void)
{
    for (int i = 0; i < 5; i++) {
        GC_start_incremental_collection();
        churn(1 << 20, 40);
        usleep(5000);
        finish_cycle();
    }
    usleep(100000);
}

static void a_program_without_helpers_gets_no_thread(void)
{
    start_helped("markers=1");
    make_cycles();
    CHECK_EQ(has_thread(""), 1);
    CHECK_EQ(marked_beside(), 0);
    end_idle();
}

/* A child would find the lock held by a thread that it does not have. */
static void where_forks_are_left_alone_there_is_none(void)
{
    GC_set_handle_fork(0);
    start_helped("markers=2");
    make_cycles();
    CHECK_EQ(has_thread("gleaner-cycle-1"), 0);
    CHECK_EQ(marked_beside(), 0);
    end_idle();
}

static void there_is_none_without_the_option(void)
{
    start_helped("markers=2,cycle-helper=off");
    make_cycles();
    CHECK_EQ(has_thread("gleaner-cycle-1"), 0);
    CHECK_EQ(marked_beside(), 0);
    end_idle();
}

static void there_is_none_without_steps(void)
{
    make_log();
    start_with_log("generations=none,cycle-helper=on,markers=2");
    make_cells();
    for (int i = 0; i < 3; i++) {
        GC_gcollect();
        churn(1 << 20, 40);
    }
    usleep(100000);
    CHECK_EQ(has_thread("gleaner-cycle-1"), 0);
    check_cells();
    end_idle();
}

MAIN_BEGIN
    RUN_GLEANER(the_helper_marks_while_the_program_computes);
    RUN_GLEANER(what_the_program_does_meanwhile_is_seen);
    RUN_GLEANER(threads_allocate_while_the_helper_marks);
    RUN_GLEANER(threads_register_while_the_helper_marks);
    RUN_GLEANER(procedures_run_on_no_helper);
    RUN_GLEANER(it_goes_on_behind_a_step_that_was_asked_for);
    RUN_GLEANER(a_child_has_a_helper_of_its_own);
    RUN_GLEANER(forks_meet_the_helper);
    RUN_GLEANER(the_end_of_the_process_is_told);
    RUN_GLEANER(a_process_may_end_with_the_lock);
    RUN_GLEANER(a_process_may_be_stopped_in_a_cycle);
    RUN_GLEANER(it_gets_along_with_the_thread_that_looks_for_idle_time);
    RUN_GLEANER(disabled_collections_come_to_no_harm);
    RUN_GLEANER(a_variable_that_disables_collections_ends_the_cycle);
    RUN_GLEANER(it_goes_on_when_collections_are_enabled_again);
    RUN_GLEANER(a_helper_that_is_refused_comes_later);
    RUN_GLEANER(a_program_without_helpers_gets_no_thread);
    RUN_GLEANER(where_forks_are_left_alone_there_is_none);
    RUN_GLEANER(there_is_none_without_the_option);
    RUN_GLEANER(there_is_none_without_steps);
MAIN_END
