/* The frame of the conformance programs.
 *
 * Each program holds many named tests; main() lists them with RUN. Every test
 * runs in a forked child of a parent that never calls the collector, so a test
 * starts from an uninitialised library (it may set options before GC_INIT) and
 * may crash without taking the others along. The parent prints one
 * "ok"/"not ok" line for each test.
 *
 * A collector that scans conservatively may keep an object that is dead. A
 * test that shows that something is collected therefore makes MANY objects
 * deep in the stack, scrubs the stack, collects and asks that most are gone; a
 * test that shows that something is kept asks that all are there.
 *
 * Environment: GLEANER=1 runs what only Gleaner promises too;
 * CONFORMANCE_WATCHDOG=SECONDS before a hung test is killed (300);
 * CONFORMANCE_LONG=1 for the long repetitions; CONFORMANCE_LIB the library that must be
 * the one in use. "PROGRAM NAME" runs one test in the process itself.
 */
#ifndef HARNESS_H
#define HARNESS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
/* HARNESS_SINGLE: the program is compiled without GC_THREADS. */
#if !defined(GC_THREADS) && !defined(HARNESS_SINGLE)
#define GC_THREADS 1
#endif

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <gc/gc.h>

#define NOINLINE __attribute__((noinline, noclone))
#define UNUSED __attribute__((unused))

/* ---- results ---------------------------------------------------------- */

static int h_number UNUSED, h_failures UNUSED;
static int h_out UNUSED = 1; /* results; what the library prints goes to stderr */
static volatile int h_test_failed;
static int h_quiet UNUSED; /* enough was said about this test */
static const char *h_only UNUSED;

/* With the option stress, collections come whether needed or not. */
static UNUSED int under_stress(void)
{
    const char *v = getenv("GLEANER_OPTIONS");
    return v != NULL && strstr(v, "stress=") != NULL;
}

static UNUSED int on_gleaner(void)
{
    const char *v = getenv("GLEANER");
    return v != NULL && strcmp(v, "1") == 0;
}

static UNUSED int long_run(void)
{
    const char *v = getenv("CONFORMANCE_LONG");
    return v != NULL && strcmp(v, "1") == 0;
}

/* One write(2) for each line: usable while malloc is redirected or the world
 * is stopped, and lines of several threads do not mix. */
static UNUSED void h_say(int fd, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static UNUSED void h_say(int fd, const char *format, ...)
{
    char line[1024];
    va_list args;
    int n;
    va_start(args, format);
    n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n > (int)sizeof line - 1)
        n = (int)sizeof line - 1;
    for (int done = 0; done < n;) {
        ssize_t w = write(fd, line + done, (size_t)(n - done));
        if (w <= 0)
            break;
        done += (int)w;
    }
}

static UNUSED void h_fail(const char *file, int line, const char *what)
{
    static int told;
    h_test_failed = 1;
    if (++told < 9)
        h_say(h_out, "# %s:%d: failed: %s\n", strrchr(file, '/') != NULL ? strrchr(file, '/') + 1 : file, line, what);
    h_quiet = told >= 9;
}

#define NOTE(...) h_say(h_out, "# " __VA_ARGS__)

#define CHECK(cond)                                                           \
    do {                                                                      \
        if (!(cond))                                                          \
            h_fail(__FILE__, __LINE__, #cond);                                \
    } while (0)

#define CHECK_OP(a, op, b)                                                    \
    do {                                                                      \
        long long h_a = (long long)(a), h_b = (long long)(b);                 \
        if (!(h_a op h_b)) {                                                  \
            h_fail(__FILE__, __LINE__, #a " " #op " " #b);                    \
            if (!h_quiet)                                                     \
                h_say(h_out, "#   left %lld (0x%llx), right %lld (0x%llx)\n", h_a,    \
                  (unsigned long long)h_a, h_b, (unsigned long long)h_b);     \
        }                                                                     \
    } while (0)

#define CHECK_EQ(a, b) CHECK_OP(a, ==, b)
#define CHECK_NE(a, b) CHECK_OP(a, !=, b)
#define CHECK_GE(a, b) CHECK_OP(a, >=, b)
#define CHECK_LE(a, b) CHECK_OP(a, <=, b)

#define CHECK_PTR(a, b)                                                       \
    do {                                                                      \
        const void *h_a = (const void *)(a), *h_b = (const void *)(b);        \
        if (h_a != h_b) {                                                     \
            h_fail(__FILE__, __LINE__, #a " == " #b);                         \
            if (!h_quiet)                                                     \
                h_say(h_out, "#   left %p, right %p\n", h_a, h_b);                    \
        }                                                                     \
    } while (0)

/* Stops the test: what follows would make no sense. */
#define REQUIRE(cond)                                                         \
    do {                                                                      \
        if (!(cond)) {                                                        \
            h_fail(__FILE__, __LINE__, #cond);                                \
            _exit(1);                                                         \
        }                                                                     \
    } while (0)

/* ---- running ---------------------------------------------------------- */

static UNUSED int h_watchdog(void)
{
    const char *v = getenv("CONFORMANCE_WATCHDOG");
    int seconds = v != NULL ? atoi(v) : 300;
    return long_run() ? seconds * 20 : seconds;
}

static volatile pid_t h_child UNUSED;
static volatile int h_hung UNUSED;

static UNUSED void h_on_alarm(int sig)
{
    (void)sig;
    h_hung = 1;
    kill(-h_child, SIGKILL);
    kill(h_child, SIGKILL);
}

static UNUSED int h_wait(pid_t pid)
{
    int status = 0;
    h_child = pid;
    h_hung = 0;
    signal(SIGALRM, h_on_alarm);
    alarm((unsigned)h_watchdog());
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    alarm(0);
    signal(SIGALRM, SIG_DFL);
    return status;
}

static UNUSED void h_report(const char *name, int good, const char *why)
{
    h_number++;
    if (!good)
        h_failures++;
    h_say(h_out, "%s %d - %s%s%s\n", good ? "ok" : "not ok", h_number, name,
          why[0] != '\0' ? " # " : "", why);
}

static UNUSED int h_wanted(const char *name)
{
    return h_only == NULL || strcmp(h_only, name) == 0;
}

static UNUSED void h_run(const char *name, void (*test)(void))
{
    char why[128] = "";
    if (!h_wanted(name))
        return;
    if (h_only != NULL) {
        test();
        h_report(name, !h_test_failed, "");
        return;
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        test();
        _exit(h_test_failed ? 1 : 0);
    }
    int status = h_wait(pid);
    kill(-pid, SIGKILL); /* whatever a test left running */
    if (h_hung)
        snprintf(why, sizeof why, "hung");
    else if (WIFSIGNALED(status))
        snprintf(why, sizeof why, "died of signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status) > 1)
        snprintf(why, sizeof why, "exit status %d", WEXITSTATUS(status));
    h_report(name, status == 0 && !h_hung, why);
}

#define RUN(test) h_run(#test, test)

/* A test of something that only Gleaner promises. */
#define RUN_GLEANER(test)                                                     \
    do {                                                                      \
        if (on_gleaner())                                                     \
            h_run("gleaner:" #test, test);                                    \
        else if (h_wanted("gleaner:" #test))                                  \
            h_say(h_out, "# skipped: gleaner:" #test " (GLEANER=1 runs it)\n");   \
    } while (0)

static UNUSED void h_start(int argc, char **argv)
{
    const char *lib = getenv("CONFORMANCE_LIB");
    struct rlimit none = {0, 0};
    Dl_info info;
    setrlimit(RLIMIT_CORE, &none);
    h_only = argc > 1 ? argv[1] : NULL;
    fflush(stdout);
    h_out = fcntl(1, F_DUPFD_CLOEXEC, 100);
    dup2(2, 1);
    if (dladdr((void *)&GC_malloc, &info) == 0 || info.dli_fname == NULL)
        info.dli_fname = "?";
    h_say(h_out, "# %s on %s\n", argv[0], info.dli_fname);
    if (lib != NULL) {
        char a[PATH_MAX], b[PATH_MAX];
        if (realpath(lib, a) == NULL || realpath(info.dli_fname, b) == NULL
            || strcmp(a, b) != 0)
            h_report("the library under test is the one asked for", 0, "");
    }
}

static UNUSED int h_finish(void)
{
    h_say(h_out, "1..%d\n", h_number);
    return h_failures != 0;
}

#define MAIN_BEGIN                                                            \
    int main(int argc, char **argv)                                           \
    {                                                                         \
        h_start(argc, argv);
#define MAIN_END                                                              \
    return h_finish();                                                        \
    }

/* Runs `body` in a child and collects its stderr. The wait status is
 * returned. Used for what must end the process. Call it before the
 * collector is initialised. */
static UNUSED int run_captured(void (*body)(void), char *text, size_t size)
{
    int ends[2];
    size_t used = 0;
    REQUIRE(pipe(ends) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        body();
        _exit(0);
    }
    close(ends[1]);
    for (;;) {
        ssize_t n = read(ends[0], text + used, size - 1 - used);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    text[used] = '\0';
    close(ends[0]);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* ---- what is collected, what is kept ---------------------------------- */

#define MANY 1000

/* Hidden addresses: the collector does not take them for pointers. */
static GC_word h_watched[MANY] UNUSED;

/* Watches an object by a disappearing link in static data. */
static UNUSED void watch(int i, void *object)
{
    h_watched[i] = GC_HIDE_POINTER(object);
    int r = GC_general_register_disappearing_link((void **)&h_watched[i],
                                                  GC_base(object));
    CHECK(r == GC_SUCCESS || r == GC_DUPLICATE);
}

static UNUSED int gone(int count)
{
    int n = 0;
    for (int i = 0; i < count; i++)
        n += h_watched[i] == 0;
    return n;
}

/* Three quarters: one stray word can keep a chain, or a block's worth. */
#define MOST(n) ((n) * 3 / 4)
#define CHECK_MOST_GONE(count) CHECK_GE(gone(count), MOST(count))
#define CHECK_NONE_GONE(count) CHECK_EQ(gone(count), 0)

/* Overwrites the dead part of the stack and the caller-saved registers. */
static NOINLINE UNUSED void scrub(void)
{
    volatile char area[96 * 1024];
    for (size_t i = 0; i < sizeof area; i++)
        area[i] = 0;
    __asm__ volatile("" : : "r"(&area) : "memory");
}

/* Calls f well below the present frame, so that what it leaves behind on the
 * stack lies in the part that scrub() overwrites. */
static NOINLINE UNUSED void deep(void (*f)(void))
{
    volatile char area[16 * 1024];
    area[0] = 0;
    __asm__ volatile("" : : "r"(&area) : "memory");
    f();
    __asm__ volatile("" : : "r"(&area) : "memory");
}

static UNUSED void collect(void)
{
    scrub();
    GC_gcollect();
    scrub();
}

/* Allocates and drops, so that lazily swept blocks are swept and free cells
 * are handed out again. */
static NOINLINE UNUSED void churn(size_t bytes, size_t size)
{
    for (size_t done = 0; done < bytes; done += size) {
        volatile char *p = (volatile char *)GC_malloc(size);
        if (p != NULL && size > 0)
            p[0] = 1;
    }
}

/* The library still works: a collection, allocations, a thread. */
static UNUSED void *h_alive_thread(void *arg)
{
    void **list = NULL;
    for (int i = 0; i < 1000; i++) {
        void **cell = (void **)GC_malloc(16);
        cell[0] = list;
        cell[1] = (void *)(uintptr_t)(i * 2 + 1);
        list = cell;
    }
    GC_gcollect();
    for (int i = 999; i >= 0; i--) {
        if (list == NULL || list[1] != (void *)(uintptr_t)(i * 2 + 1))
            return NULL;
        list = (void **)list[0];
    }
    return list == NULL ? arg : NULL;
}

static UNUSED void check_alive(void)
{
    static int token;
    CHECK(h_alive_thread(&token) == &token);
#ifndef HARNESS_SINGLE
    pthread_t thread;
    void *result = NULL;
    REQUIRE(GC_pthread_create(&thread, NULL, h_alive_thread, &token) == 0);
    REQUIRE(GC_pthread_join(thread, &result) == 0);
    CHECK_PTR(result, &token);
#endif
}

/* The macros of gc.h redirect pthread_create and the others; (pthread_create)
 * with parentheses is not enough, so raw ones are taken from the loader. */
typedef int (*creator)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                       void *);
typedef int (*joiner)(pthread_t, void **);

static UNUSED creator raw_create(void)
{
    return (creator)dlsym(RTLD_DEFAULT, "pthread_create");
}

static UNUSED joiner raw_join(void)
{
    return (joiner)dlsym(RTLD_DEFAULT, "pthread_join");
}

static UNUSED void nap(long microseconds)
{
    struct timespec t = {microseconds / 1000000, microseconds % 1000000 * 1000};
    nanosleep(&t, NULL);
}

/* Whether a thread sleeps by the system call nanosleep, as the kernel knows it. */
static UNUSED int is_asleep(pid_t thread)
{
    char path[64], call[8] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)thread);
    int file = open(path, O_RDONLY);
    if (file < 0)
        return 0;
    ssize_t n = read(file, call, 3);
    close(file);
    return n == 3 && atoi(call) == SYS_nanosleep;
}

/* Options of Gleaner's beside those that are set. Before the library starts. */
static UNUSED void add_options(const char *more)
{
    const char *given = getenv("GLEANER_OPTIONS");
    char options[500];
    snprintf(options, sizeof options, "%s%s%s", given != NULL ? given : "",
             given != NULL && *given != 0 ? "," : "", more);
    setenv("GLEANER_OPTIONS", options, 1);
}

static UNUSED int all_zero(const void *p, size_t n)
{
    const unsigned char *c = (const unsigned char *)p;
    for (size_t i = 0; i < n; i++)
        if (c[i] != 0)
            return 0;
    return 1;
}

#endif
