/* Idle time (option idle): unused memory goes back to the system, without a stop, a signal, or a thread in a program that had none
 * of the collector's. The log tells. */
#include "idle.h"
#include <sys/epoll.h>
#include <sys/select.h>

/* ---- the watcher ---- */

static volatile int polled, waiting;
static int ends[2];
static void *polls(void *arg)
{
    struct pollfd fd = {.fd = ends[0], .events = POLLIN};
    GC_malloc(16);
    waiting = 1;
    polled = poll(&fd, 1, -1);
    return arg;
}

/* A collection would end the wait with EINTR. */
static void unused_memory_goes_back_and_nobody_is_stopped(void)
{
    pthread_t t;
    start_idle("idle=50ms,markers=2");
    make_cells();
    make_watcher();
    drop_cells();
    REQUIRE(pipe(ends) == 0);
    REQUIRE(pthread_create(&t, NULL, polls, NULL) == 0);
    while (!waiting)
        ;
    GC_word before = GC_get_gc_no();
    size_t size = GC_get_heap_size();
    wait_until_given_back(NOTHING, unused_bytes());
    CHECK_EQ(GC_get_gc_no(), before);
    CHECK_EQ(GC_get_heap_size(), size);
    REQUIRE(write(ends[1], "x", 1) == 1);
    REQUIRE(pthread_join(t, NULL) == 0);
    CHECK_EQ(polled, 1);
    /* The same once more, when there is something to do again. */
    long so_far = given_back(NOTHING);
    make_cells();
    drop_cells();
    wait_until_given_back(NOTHING, so_far + unused_bytes());
    make_cells();
    check_alive();
    end_idle();
}

/* ---- a program of one thread ---- */

enum { WAIT_MS = 100 };

/* Each of these calls ends with EINTR after a signal, whatever SA_RESTART says. */
static void wait_in_each_call(int file, int events)
{
    struct pollfd fd = {.fd = file, .events = POLLIN};
    struct timespec time = {0, WAIT_MS * 1000000L}, left = {7, 7};
    struct timeval limit = {0, WAIT_MS * 1000L};
    struct epoll_event event;
    fd_set files;
    sigset_t signals;
    CHECK_EQ(poll(&fd, 1, WAIT_MS), 0);
    FD_ZERO(&files);
    FD_SET(file, &files);
    CHECK_EQ(select(file + 1, &files, NULL, NULL, &limit), 0);
    CHECK_EQ(epoll_wait(events, &event, 1, WAIT_MS), 0);
    CHECK_EQ(nanosleep(&time, &left), 0);
    CHECK_EQ(left.tv_sec, 7);
    CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL), 0);
    CHECK_EQ(usleep(WAIT_MS * 1000), 0);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    CHECK_EQ(sigtimedwait(&signals, NULL, &time), -1);
    CHECK_EQ(errno, EAGAIN);
}

/* There is garbage at first, and then unused memory. */
static void calls_that_wait_return_what_they_return_under_stock(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    int files[2], events = epoll_create1(0);
    REQUIRE(events >= 0 && pipe(files) == 0);
    REQUIRE(epoll_ctl(events, EPOLL_CTL_ADD, files[0], &event) == 0);
    start_idle("idle=20ms,markers=2");
    make_cells();
    if (on_gleaner())
        make_watcher();
    memset(kept, 0, sizeof kept);
    wait_in_each_call(files[0], events);
    drop_cells();
    wait_in_each_call(files[0], events);
    if (on_gleaner())
        wait_until_given_back(NOTHING, unused_bytes());
    end_idle();
}

static void a_child_has_a_watcher_of_its_own(void)
{
    start_idle("idle=50ms,markers=2");
    make_cells();
    make_watcher();
    pid_t child = fork();
    if (child == 0) {
        CHECK_EQ(has_thread("gleaner-idle-1"), 0);
        make_watcher();
        drop_cells();
        wait_until_given_back(NOTHING, unused_bytes());
        check_alive();
        exit(h_test_failed ? 1 : 0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
    CHECK_EQ(kept[0][0], 1);
    end_idle();
}

/* Forks while pieces go back. */
static void forks_meet_the_watcher(void)
{
    start_idle("idle=20ms,markers=2");
    make_cells();
    make_watcher();
    for (int i = 0; i < (under_stress() ? 3 : 20); i++) {
        make_cells();
        drop_cells();
        usleep(25000 + 100 * i);
        pid_t child = fork();
        if (child == 0) {
            make_cells();
            drop_cells();
            exit(0);
        }
        int status = 1;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
    }
    end_idle();
}

static void ends_in_idle_time(void)
{
    start_with_log("idle=20ms,markers=2,stats=on");
    make_cells();
    make_watcher();
    drop_cells();
    wait_until_given_back(NOTHING, 1);
    exit(0);
}

static void the_end_of_the_process_is_told(void)
{
    static char text[8192], line[8192];
    int has_end = 0;
    make_log();
    int status = run_captured(ends_in_idle_time, text, sizeof text);
    CHECK_EQ(status, 0);
    CHECK(strstr(text, "  given back ") != NULL);
    CHECK(strstr(text, " idle times: ") != NULL);
    FILE *log = fopen(log_name, "r");
    REQUIRE(log != NULL);
    while (fgets(line, sizeof line, log) != NULL)
        has_end |= strncmp(line, "{\"event\":\"exit\",", 16) == 0;
    fclose(log);
    CHECK(has_end);
    end_idle();
}

/* The watcher cannot be started at first: the helper comes, and the watcher behind a later collection. */
static void a_watcher_that_is_refused_comes_later(void)
{
    start_idle("idle=50ms,markers=2,initial-heap=64m,fault=start-worker@2");
    make_cells();
    while (!has_thread("gleaner-mark-1"))
        GC_gcollect();
    for (int i = 0; i < 4; i++)
        churn(64 << 10, 40);
    /* Threads are not asked for at each call. One that comes needs a moment to name itself. */
    usleep(100000);
    if (!under_stress())
        CHECK_EQ(has_thread("gleaner-idle-1"), 0);
    make_watcher();
    drop_cells();
    wait_until_given_back(NOTHING, unused_bytes());
    end_idle();
}

/* ---- where there is none ---- */

static int threads_of_the_process(void)
{
    return has_thread("");
}

static void a_program_without_helpers_gets_no_thread(void)
{
    start_idle("idle=20ms,markers=1");
    make_cells();
    drop_cells();
    churn(1 << 20, 40);
    usleep(200000);
    churn(1 << 20, 40);
    CHECK_EQ(threads_of_the_process(), 1);
    CHECK_EQ(given_back(NOTHING), 0);
    end_idle();
}

/* Its last calls do it, when they become rare. */
static void calls_that_become_rare_give_memory_back(void)
{
    if (under_stress()) /* There the first calls are as rare. */
        return;
    start_idle("idle=20ms,markers=1");
    make_cells();
    drop_cells();
    while (given_back(LITTLE) < unused_bytes() / 2) {
        /* Large enough to take the lock each time. */
        GC_free(GC_malloc(9000));
        usleep(10000);
    }
    CHECK_EQ(threads_of_the_process(), 1);
    make_cells();
    check_alive();
    end_idle();
}

static void nobody_asks_by_default(void)
{
    unsetenv("GLEANER_OPTIONS"); /* a run of the suite may ask for it */
    start_idle("markers=2");
    make_cells();
    GC_gcollect();
    drop_cells();
    for (int i = 0; i < 200; i++) {
        GC_free(GC_malloc(9000));
        usleep(1000);
    }
    CHECK_EQ(given_back(""), 0);
    CHECK_EQ(has_thread("gleaner-idle"), 0);
    end_idle();
}

/* ---- what is refused ---- */

static const char *option;
static void starts_with_the_option(void)
{
    add_options(option);
    GC_INIT();
}

static void bad_times_are_refused(void)
{
    static const char *bad[] = {"idle=0",   "idle=1",  "idle=-1",   "idle=0s",       "idle=2h",
                                "idle=-1s", "idle=on", "idle=soon", "idle=collect@0"};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        static char text[2000];
        option = bad[i];
        int status = run_captured(starts_with_the_option, text, sizeof text);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 2);
        CHECK(strstr(text, "accepted: off|TIME|collect|collect@TIME with TIME from 20ms to 1h") != NULL);
    }
}

MAIN_BEGIN
    RUN_GLEANER(unused_memory_goes_back_and_nobody_is_stopped);
    RUN(calls_that_wait_return_what_they_return_under_stock);
    RUN_GLEANER(a_child_has_a_watcher_of_its_own);
    RUN_GLEANER(forks_meet_the_watcher);
    RUN_GLEANER(the_end_of_the_process_is_told);
    RUN_GLEANER(a_watcher_that_is_refused_comes_later);
    RUN_GLEANER(a_program_without_helpers_gets_no_thread);
    RUN_GLEANER(calls_that_become_rare_give_memory_back);
    RUN_GLEANER(nobody_asks_by_default);
    RUN_GLEANER(bad_times_are_refused);
MAIN_END
