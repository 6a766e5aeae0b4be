/* Collections of everything are marked beside a program that has not asked for that (option generations=auto). What it does meanwhile
 * is seen. */
#include "cycles.h"

static void start_unasked(const char *more)
{
    char options[120];
    make_log();
    snprintf(options, sizeof options, "generations=auto,cycle-helper=on,%s", more);
    start_with_log(options);
    make_holders();
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

/* For cycles to begin it is enough that memory is used up. */
static void *churns(void *unused)
{
    while (rounds_left > 0)
        churn(1 << 20, 64);
    return unused;
}

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

MAIN_BEGIN
    RUN_GLEANER(an_unasked_cycle_sees_what_the_program_does);
    RUN_GLEANER(threads_allocate_in_unasked_cycles);
    RUN_GLEANER(threads_register_in_unasked_cycles);
    RUN_GLEANER(forks_meet_unasked_cycles);
    RUN_GLEANER(a_program_asks_for_steps_in_an_unasked_cycle);
MAIN_END
