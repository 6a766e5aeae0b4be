/* A helper marks beside the program while marking in steps is under way (option cycle-helper). What the program does meanwhile is
 * seen, nothing of it runs on the helper, and there is none where it could be noticed. The log tells. */
#include "idle.h"
#include <gc/gc_mark.h>

enum { HOLDERS = 400, WORDS = 30 };

static void **holders;

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
    make_cells();
    holders = GC_malloc_uncollectable(HOLDERS * sizeof *holders);
    for (int i = 0; i < HOLDERS; i++)
        holders[i] = GC_malloc(WORDS * sizeof(void *));
}

/* The same where nobody has asked for steps: collections of everything are marked beside the program by themselves. */
static void start_unasked(const char *more)
{
    char options[120];
    make_log();
    snprintf(options, sizeof options, "generations=auto,cycle-helper=on,%s", more);
    start_with_log(options);
    make_cells();
    holders = GC_malloc_uncollectable(HOLDERS * sizeof *holders);
    for (int i = 0; i < HOLDERS; i++)
        holders[i] = GC_malloc(WORDS * sizeof(void *));
}

/* A helper of stops is made when the heap is large enough, and that of cycles behind it. */
static void make_helper(void)
{
    while (!has_thread("gleaner-cycle-1")) {
        GC_gcollect();
        churn(64 << 10, 40);
    }
}

/* Whether the kernel says what is written; else there are no cycles, and no helper. */
static int make_unasked_helper(void)
{
    long bytes;
    while (!has_thread("gleaner-cycle-1")) {
        GC_gcollect();
        churn(64 << 10, 40);
        if (events_of("write-watch", "the kernel does not say what is written", &bytes) > 0)
            return 0;
    }
    return 1;
}

static void finish_cycle(void)
{
    while (GC_collect_a_little() != 0)
        ;
}

static long marked_beside(void)
{
    long bytes;
    events_of("mark-beside", "", &bytes);
    return bytes;
}

static void check_cells(void)
{
    for (long i = 0; i < cells(); i++)
        CHECK_EQ(kept[i][CELL - 2], 1);
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

/* Objects move from one holder to another, are made and freed. */
static void move_objects(int round)
{
    for (int i = 0; i < HOLDERS; i++) {
        uintptr_t **from = holders[i], **to = holders[HOLDERS - 1 - i];
        uintptr_t *before = from[3];
        if (before != NULL)
            CHECK_EQ(before[0], ~before[1]);
        uintptr_t *made = GC_malloc(40);
        made[0] = (uintptr_t)i * 1000 + round;
        made[1] = ~made[0];
        /* The last reference to what was there moves. */
        to[4 + round % 20] = before;
        from[3] = made;
        GC_free(to[2]);
        to[2] = GC_malloc(round % 3 == 0 ? 9000 : 100);
        for (int word = 0; word < 10; word++)
            CHECK_EQ(to[2][word], 0);
        memset(to[2], 0x7f, 100);
        if (i % 40 == 0)
            usleep(100);
    }
}

static void check_objects(void)
{
    for (int i = 0; i < HOLDERS; i++)
        for (int word = 3; word < 24; word++) {
            uintptr_t *found = ((uintptr_t **)holders[i])[word];
            if (found != NULL)
                CHECK_EQ(found[0], ~found[1]);
        }
    check_cells();
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

/* Threads of the program, many more than processors, keep a cycle under way. */
static volatile int rounds_left;

static void *mutates(void *argument)
{
    int own = (int)(uintptr_t)argument;
    for (int round = 0; round < (under_stress() ? 3 : 200); round++)
        for (int i = own; i < HOLDERS; i += 8) {
            uintptr_t **holder = holders[i];
            uintptr_t *before = holder[own % WORDS];
            if (before != NULL)
                CHECK_EQ(before[0], ~before[1]);
            uintptr_t *made = GC_malloc(24 + 16 * (round % 30));
            made[0] = (uintptr_t)round;
            made[1] = ~made[0];
            holder[own % WORDS] = made;
        }
    return NULL;
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

/* Where cycles begin by themselves it is enough that memory is used up. */
static void *churns(void *unused)
{
    while (rounds_left > 0)
        churn(1 << 20, 64);
    return unused;
}

static void allocate_in_threads(void *(*collects)(void *))
{
    pthread_t threads[8], collector;
    rounds_left = 1;
    REQUIRE(pthread_create(&collector, NULL, collects, NULL) == 0);
    for (uintptr_t t = 0; t < 8; t++)
        REQUIRE(pthread_create(&threads[t], NULL, mutates, (void *)t) == 0);
    for (int t = 0; t < 8; t++)
        pthread_join(threads[t], NULL);
    rounds_left = 0;
    pthread_join(collector, NULL);
    check_cells();
}

static void threads_allocate_while_the_helper_marks(void)
{
    start_helped("markers=2,verify=edges,poison=on");
    make_helper();
    allocate_in_threads(cycles);
    check_alive();
    end_idle();
}

/* Tables of finalizers and links change, and client code runs with the lock, while a cycle is always under way. */
enum { REGISTRARS = 6, REGISTERED = 3000, HELD = 16 };

static void **weak[REGISTRARS], **held[REGISTRARS];
static int finalized, faults;

static void note_fault(int is_one)
{
    if (is_one)
        __atomic_add_fetch(&faults, 1, __ATOMIC_RELAXED);
}

static void finalizes(void *object, void *link)
{
    uintptr_t *found = object;
    note_fault(found[0] != ~found[1] || found[2]++ != 0 || *(void **)link != NULL);
    __atomic_add_fetch(&finalized, 1, __ATOMIC_RELAXED);
}

static int registered(void)
{
    return under_stress() ? 2 * HELD : REGISTERED;
}

static void *follows(void *link)
{
    return *(void **)link;
}

static void *registers(void *argument)
{
    int own = (int)(uintptr_t)argument;
    void **links = weak[own];
    for (int i = 0; i < registered(); i++) {
        uintptr_t *made = GC_malloc(24 + 16 * (i % 20));
        note_fault(made[0] != 0 || made[2] != 0);
        made[0] = (uintptr_t)i;
        made[1] = ~made[0];
        held[own][i % HELD] = made;
        links[i] = made;
        note_fault(GC_general_register_disappearing_link(&links[i], made) != GC_SUCCESS);
        GC_register_finalizer_no_order(made, finalizes, &links[i], NULL, NULL);
        if (i % 7 == 0) {
            note_fault(GC_unregister_disappearing_link(&links[i]) != 1);
            note_fault(GC_general_register_disappearing_link(&links[i], made) != GC_SUCCESS);
        }
        uintptr_t *before = GC_call_with_alloc_lock(follows, &links[i * 37 % (i + 1)]);
        note_fault(before != NULL && before[0] != ~before[1]);
        if (i % 40 == 0)
            for (uintptr_t *cell = GC_malloc_many(48); cell != NULL; cell = GC_NEXT(cell))
                note_fault(cell[1] != 0);
    }
    return NULL;
}

static void register_in_threads(void *(*collects)(void *))
{
    pthread_t threads[REGISTRARS], collector;
    int alive, made = 0;
    for (int t = 0; t < REGISTRARS; t++) {
        weak[t] = GC_malloc_atomic_uncollectable(REGISTERED * sizeof *weak[t]);
        held[t] = GC_malloc_uncollectable(HELD * sizeof *held[t]);
    }
    do {
        finalized = 0;
        rounds_left = 1;
        REQUIRE(pthread_create(&collector, NULL, collects, NULL) == 0);
        for (uintptr_t t = 0; t < REGISTRARS; t++)
            REQUIRE(pthread_create(&threads[t], NULL, registers, (void *)t) == 0);
        for (int t = 0; t < REGISTRARS; t++)
            pthread_join(threads[t], NULL);
        rounds_left = 0;
        pthread_join(collector, NULL);
        GC_gcollect();
        GC_invoke_finalizers();
        alive = 0;
        for (int t = 0; t < REGISTRARS; t++)
            for (int i = 0; i < registered(); i++) {
                uintptr_t *found = weak[t][i];
                alive += found != NULL;
                CHECK(found == NULL || found[0] == ~found[1]);
                if (found != NULL) {
                    /* It is no matter to the next round. */
                    GC_unregister_disappearing_link(&weak[t][i]);
                    GC_register_finalizer_no_order(found, NULL, NULL, NULL, NULL);
                }
            }
        /* What is gone was finalized, once. */
        CHECK_EQ(finalized + alive, REGISTRARS * registered());
        CHECK_GE(finalized, 1);
        for (int t = 0; t < REGISTRARS; t++)
            for (int i = 0; i < HELD; i++)
                CHECK(held[t][i] != NULL);
        made++;
    } while (marked_beside() == 0 && made < 1000 && !under_stress());
    CHECK_EQ(faults, 0);
    check_cells();
    check_alive();
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
    int tries = under_stress() ? 2 : 60, went_on = 0;
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
    /* Not in each cycle where other programs need the processors. */
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

/* ---- for a program that has not asked ---- */

static void an_unasked_cycle_sees_what_the_program_does(void)
{
    long bytes;
    start_unasked("markers=2,verify=edges,poison=on");
    int rounds = under_stress() ? 3 : 60;
    if (make_unasked_helper()) {
        for (int round = 0; round < rounds || (round < 1000 && marked_beside() == 0); round++) {
            move_objects(round);
            churn(1 << 20, 64);
            if (round % 8 == 0)
                GC_gcollect();
        }
        CHECK_GE(marked_beside(), 1);
        CHECK_GE(events_of("write-watch", "collections are marked beside the program", &bytes), 1);
        /* The program has asked for nothing. */
        CHECK_EQ(GC_is_incremental_mode(), 0);
    }
    check_objects();
    end_idle();
}

static void threads_allocate_in_unasked_cycles(void)
{
    start_unasked("markers=2,verify=edges,poison=on");
    if (make_unasked_helper())
        do
            allocate_in_threads(churns);
        while (marked_beside() == 0 && !under_stress());
    check_alive();
    end_idle();
}

static void threads_register_in_unasked_cycles(void)
{
    start_unasked("markers=2,verify=edges");
    if (make_unasked_helper())
        register_in_threads(churns);
    end_idle();
}

/* In a cycle or between two; a child has cycles and a helper of its own. */
static void forks_meet_unasked_cycles(void)
{
    start_unasked("markers=2,verify=edges");
    if (make_unasked_helper())
        for (int i = 0; i < (under_stress() ? 3 : 40); i++) {
            churn(100 << 10, 64);
            move_objects(i);
            pid_t child = fork();
            REQUIRE(child >= 0);
            move_objects(i + 1);
            if (child == 0) {
                if (i % 10 == 0)
                    REQUIRE(make_unasked_helper());
                for (int round = 0; round < 5; round++) {
                    churn(1 << 20, 64);
                    move_objects(round);
                }
                check_objects();
                exit(h_test_failed ? 1 : 0);
            }
            int status = 1;
            REQUIRE(waitpid(child, &status, 0) == child);
            CHECK_EQ(status, 0);
        }
    check_objects();
    end_idle();
}

/* The watch goes on for the program's sake, and marks are kept. */
static void a_program_asks_for_steps_in_an_unasked_cycle(void)
{
    start_unasked("markers=2,verify=edges,poison=on");
    if (make_unasked_helper()) {
        for (int round = 0; round < 20; round++) {
            move_objects(round);
            churn(100 << 10, 64);
        }
        GC_enable_incremental();
        CHECK_EQ(GC_is_incremental_mode(), 1);
        for (int round = 0; round < 10; round++) {
            move_objects(round);
            churn(1 << 20, 64);
        }
        finish_cycle();
    }
    check_objects();
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
    RUN_GLEANER(an_unasked_cycle_sees_what_the_program_does);
    RUN_GLEANER(threads_allocate_in_unasked_cycles);
    RUN_GLEANER(threads_register_in_unasked_cycles);
    RUN_GLEANER(forks_meet_unasked_cycles);
    RUN_GLEANER(a_program_asks_for_steps_in_an_unasked_cycle);
    RUN_GLEANER(a_helper_that_is_refused_comes_later);
    RUN_GLEANER(a_program_without_helpers_gets_no_thread);
    RUN_GLEANER(where_forks_are_left_alone_there_is_none);
    RUN_GLEANER(there_is_none_without_the_option);
    RUN_GLEANER(there_is_none_without_steps);
MAIN_END
