/* Stops a thread of the libgc heap at every instruction of the allocation
 * paths and collects there (invariant I8).
 *
 *   singlestep [--coverage] [OPERATION]
 *
 * The tracer attaches to thread A only. While a window is open it orders a
 * collection, waits until B has either sent A the suspend signal, or has
 * collected without it (A is in a blocking region), or waits for a lock that A
 * holds; lets A take the signal and go through the handler back to the same
 * instruction; waits until B is done; and steps A by one instruction. An order
 * that must wait for the lock stays pending while A goes on: no deadlock, and
 * the collection happens at the first instruction that allows it.
 *
 * Ends with "1..N". No result depends on time; the alarm only ends a test that
 * makes no progress.
 */
#include "coverage.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <limits.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

enum { WATCHDOG = 300 };

static pid_t child, tid;
static uintptr_t at; /* where A stands */
static int tests, failed_tests;

static void say(int good, const char *name, const char *why)
{
    tests++;
    failed_tests += !good;
    printf("%s %d - %s%s%s\n", good ? "ok" : "not ok", tests, name, why[0] != '\0' ? " # " : "", why);
}

/* Ends the run: A or B did what must not happen. */
static _Noreturn void give_up(const char *what)
{
    char place[160];
    name_of(at, place, sizeof place);
    printf("not ok %d - %s # %s; A stands in %s at 0x%lx, order %u, taken %u, done %u\n1..%d\n", tests + 1,
           operations[shared->operation].name, what, place, (unsigned long)at, atomic_load(&shared->order),
           atomic_load(&shared->taken), atomic_load(&shared->done), tests + 1);
    fflush(stdout);
    kill(child, SIGKILL);
    exit(1);
}

static void on_alarm(int signal)
{
    (void)signal;
    give_up("hung");
}

/* ---- A ------------------------------------------------------------------- */

enum stop { TRAPPED, SIGNALLED, IN_SYSCALL, ENDED };

static uintptr_t instruction_pointer(void)
{
    return (uintptr_t)ptrace(PTRACE_PEEKUSER, tid, offsetof(struct user_regs_struct, rip), 0);
}

/* Lets A go on by `request` with `signal`, until it stops again. */
static enum stop resume(enum __ptrace_request request, int signal, int *received)
{
    int status;
    for (;;) {
        if (ptrace(request, tid, 0, (void *)(long)signal) != 0 && errno != ESRCH)
            give_up("ptrace failed");
        while (waitpid(tid, &status, __WALL) < 0)
            if (errno != EINTR)
                give_up("waitpid failed");
        if (!WIFSTOPPED(status)) {
            *received = status;
            return ENDED;
        }
        if (status >> 16 == 0)
            break;
        signal = 0; /* A stop of the whole process; not ours. */
    }
    at = instruction_pointer();
    *received = WSTOPSIG(status);
    if (*received == (SIGTRAP | 0x80))
        return IN_SYSCALL;
    return *received == SIGTRAP ? TRAPPED : SIGNALLED;
}

static void expect_no_end(enum stop stop, int received)
{
    char what[96];
    if (stop == ENDED) {
        snprintf(what, sizeof what, "the process ended with status 0x%x", received);
        give_up(what);
    }
    if (stop == SIGNALLED && (received == SIGSEGV || received == SIGBUS || received == SIGILL || received == SIGABRT || received == SIGFPE)) {
        snprintf(what, sizeof what, "signal %d", received);
        give_up(what);
    }
}

/* A is about to get `signal`: runs its handler to the end, with the handlers
 * of other signals that arrive meanwhile. */
static void run_handler(int signal)
{
    struct __ptrace_syscall_info info;
    uintptr_t interrupted = at;
    int depth = 1, returning = 0;
    while (depth > 0) {
        int received;
        enum stop stop = resume(PTRACE_SYSCALL, signal, &received);
        expect_no_end(stop, received);
        signal = 0;
        if (stop == SIGNALLED) {
            signal = received;
            depth++;
        } else if (stop == IN_SYSCALL) {
            if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, (void *)sizeof info, &info) <= 0)
                give_up("PTRACE_GET_SYSCALL_INFO failed");
            if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
                returning = info.entry.nr == SYS_rt_sigreturn;
            else if (returning) {
                returning = 0;
                depth--;
            }
        } else
            give_up("a trap in a signal handler");
    }
    /* A system call that was interrupted starts again at its instruction. */
    if (at != interrupted && at + 2 != interrupted)
        give_up("the handler did not return to the interrupted instruction");
}

/* Executes one instruction, or takes a signal if one is pending; 1 if it was
 * the signal that stops A. */
static int step(void)
{
    int received;
    enum stop stop = resume(PTRACE_SINGLESTEP, 0, &received);
    expect_no_end(stop, received);
    if (stop == SIGNALLED)
        run_handler(received);
    return stop == SIGNALLED && received == shared->suspend_signal;
}

static int suspend_signal_is_pending(void)
{
    struct __ptrace_peeksiginfo_args all = {0, 0, 8};
    siginfo_t pending[8];
    long n = ptrace(PTRACE_PEEKSIGINFO, tid, &all, pending);
    for (long i = 0; i < n; i++)
        if (pending[i].si_signo == shared->suspend_signal)
            return 1;
    return 0;
}

/* ---- B ------------------------------------------------------------------- */

static int b_sleeps(void)
{
    static FILE *file;
    char line[512];
    if (file == NULL) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/task/%d/stat", child, child);
        file = fopen(path, "r");
        if (file == NULL)
            give_up("cannot read the state of B");
        setvbuf(file, NULL, _IONBF, 0);
    }
    rewind(file);
    size_t n = fread(line, 1, sizeof line - 1, file);
    line[n] = '\0';
    const char *state = strrchr(line, ')');
    if (state == NULL)
        give_up("B is gone");
    if (state[2] == 'Z' || state[2] == 'X')
        give_up("the process ended");
    return state[2] == 'S';
}

static int is_done(void)
{
    return atomic_load(&shared->done) == atomic_load(&shared->order);
}

static void order_collection(void)
{
    atomic_fetch_add(&shared->order, 1);
    syscall(SYS_futex, &shared->order, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

enum progress { DONE, SIGNAL_SENT, NEEDS_LOCK };

/* Waits, A standing still, until B gets no further without A. If B sleeps in
 * the middle of a collection, it waits for something that A holds: for the
 * lock if it has not yet sent the signal. A wrong guess (B waits for a helper
 * of its own) does no harm: A may run at any time. */
static enum progress settle(void)
{
    for (;;) {
        if (is_done())
            return DONE;
        if (suspend_signal_is_pending())
            return SIGNAL_SENT;
        if (atomic_load(&shared->taken) == atomic_load(&shared->order) && b_sleeps()) {
            if (is_done())
                return DONE;
            return suspend_signal_is_pending() ? SIGNAL_SENT : NEEDS_LOCK;
        }
        sched_yield();
    }
}

/* ---- one operation -------------------------------------------------------- */

/* Has a collection while A stands where it is; says how that went. */
static enum event collect_here(void)
{
    int was_stopped = 0;
    if (is_done())
        order_collection();
    for (;;)
        switch (settle()) {
        case DONE:
            return was_stopped ? STOPPED : UNSTOPPED;
        case NEEDS_LOCK:
            return was_stopped ? STOPPED : WAITED;
        case SIGNAL_SENT:
            was_stopped |= step();
        }
}

static void step_through_window(void)
{
    while (atomic_load(&shared->window)) {
        uintptr_t here = at;
        note(STEPPED, here);
        note(collect_here(), here);
        if (counted(STEPPED) % 256 == 0)
            alarm(WATCHDOG);
        step();
    }
    /* An order that is still pending is carried out while A runs freely. */
}

/* Whether the options promise allocation without a lock. The library of the
 * system, which run.sh starts without options, takes one at times. */
static int uses_lists(void)
{
    const char *options = getenv("GLEANER_OPTIONS");
    return options != NULL && strstr(options, "thread-lists=off") == NULL;
}

static void report(const struct operation *operation, unsigned orders)
{
    char why[256];
    unsigned failures = atomic_load(&shared->failures);
    int good = (failures != 0) == ((operation->flags & LOSES) != 0);
    unsigned long stepped = counted(STEPPED), collected = counted(STOPPED) + counted(UNSTOPPED), waited = counted(WAITED);
    int n = snprintf(why, sizeof why, "%lu instructions, %u collections, %lu stopped it there", stepped, orders, counted(STOPPED));
    if (counted(UNSTOPPED) != 0)
        n += snprintf(why + n, sizeof why - (size_t)n, ", %lu in a blocking region", counted(UNSTOPPED));
    if (waited != 0)
        n += snprintf(why + n, sizeof why - (size_t)n, ", %lu steps with the lock held", waited);
    if (operation->flags & LOSES)
        n += snprintf(why + n, sizeof why - (size_t)n, "; deliberately wrong: %u losses found", failures);
    else if (failures != 0)
        n += snprintf(why + n, sizeof why - (size_t)n, "; %u failures", failures);
    /* At every instruction, unless there was a lock to wait for. */
    if (counted(STOPPED) == 0 || orders < collected || stepped != collected + waited)
        good = 0, n += snprintf(why + n, sizeof why - (size_t)n, "; instructions without a collection");
    if ((operation->flags & BLOCKS) == 0 && counted(UNSTOPPED) != 0)
        good = 0, n += snprintf(why + n, sizeof why - (size_t)n, "; collections that did not stop it");
    if ((operation->flags & LOCKLESS) != 0 && uses_lists() && waited != 0)
        good = 0, n += snprintf(why + n, sizeof why - (size_t)n, "; took a lock");
    if ((operation->flags & REFILLS) != 0 && waited == 0)
        good = 0, n += snprintf(why + n, sizeof why - (size_t)n, "; took no lock");
    if ((operation->flags & BLOCKS) != 0 && counted(UNSTOPPED) == 0)
        good = 0, n += snprintf(why + n, sizeof why - (size_t)n, "; was not in a blocking region");
    say(good, operation->name, why);
    fflush(stdout);
}

/* ---- the run --------------------------------------------------------------- */

/* Is the library in use the one that was asked for? */
static void check_library(void)
{
    const char *wanted = getenv("SINGLESTEP_LIB");
    Dl_info info;
    char a[PATH_MAX], b[PATH_MAX];
    if (dladdr((void *)&GC_malloc, &info) == 0)
        info.dli_fname = "?";
    printf("# on %s\n", info.dli_fname);
    if (wanted != NULL && (realpath(wanted, a) == NULL || realpath(info.dli_fname, b) == NULL || strcmp(a, b) != 0))
        say(0, "the library under test is the one asked for", "");
}

static void start(const char *only)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        exit(2);
    check_library();
    fflush(stdout);
    child = fork();
    if (child == 0)
        act(only);
    int status;
    while (atomic_load(&shared->tid_a) == 0) {
        if (waitpid(child, &status, WNOHANG) == child) {
            printf("the traced process ended with status 0x%x before it began\n", status);
            exit(2);
        }
        usleep(1000);
    }
    tid = atomic_load(&shared->tid_a);
    if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0) {
        printf("cannot trace a thread of an own child: %s\n", strerror(errno));
        kill(child, SIGKILL);
        exit(2);
    }
    /* A sleeps; it stops at its first trap. */
    atomic_store(&shared->attached, 1);
    syscall(SYS_futex, &shared->attached, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Waits for the first stop of A after it was seized. */
static enum stop first_stop(int *received)
{
    int status;
    while (waitpid(tid, &status, __WALL) < 0)
        if (errno != EINTR)
            give_up("waitpid failed");
    *received = WIFSTOPPED(status) ? WSTOPSIG(status) : status;
    if (!WIFSTOPPED(status))
        return ENDED;
    at = instruction_pointer();
    return *received == SIGTRAP && status >> 16 == 0 ? TRAPPED : SIGNALLED;
}

/* Runs A freely up to its next trap; false when it has ended. */
static int run_to_trap(int is_first)
{
    int received, signal = 0;
    enum stop stop = is_first ? first_stop(&received) : resume(PTRACE_CONT, 0, &received);
    while (stop == SIGNALLED) {
        signal = received;
        expect_no_end(stop, received);
        stop = resume(PTRACE_CONT, signal, &received);
    }
    if (stop == ENDED && !atomic_load(&shared->finished))
        expect_no_end(stop, received);
    return stop == TRAPPED;
}

static void check_functions(void)
{
    static const char *const functions[] = {"GC_malloc", "GC_malloc_atomic", "GC_malloc_kind", "GC_free", "GC_malloc_many", "GC_realloc", "GC_strdup", "GC_do_blocking", "GC_call_with_gc_active"};
    for (unsigned i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        char name[64], why[160];
        unsigned reached = places(STEPPED, functions[i]);
        snprintf(name, sizeof name, "collections in %s", functions[i]);
        snprintf(why, sizeof why, "%u different instructions reached, %u with a collection that stopped there, %u with one in a blocking region, %u with the lock held",
                 reached, places(STOPPED, functions[i]), places(UNSTOPPED, functions[i]), places(WAITED, functions[i]));
        say(reached != 0 && places(STOPPED, functions[i]) != 0 && uncovered(functions[i]) == 0, name, why);
    }
}

int main(int argc, char **argv)
{
    int status, wants_coverage = 0, is_first = 1;
    const char *only = NULL;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--coverage") == 0)
            wants_coverage = 1;
        else
            only = argv[i];
    signal(SIGALRM, on_alarm);
    alarm(WATCHDOG);
    start(only);
    while (run_to_trap(is_first)) {
        is_first = 0;
        if (atomic_load(&shared->window)) {
            unsigned before = atomic_load(&shared->order);
            forget_counts();
            step_through_window();
            unsigned orders = atomic_load(&shared->order) - before;
            alarm(WATCHDOG);
            unsigned ended = shared->ended;
            if (!run_to_trap(0) || shared->ended != ended + 1)
                give_up("the check did not end");
            report(&operations[shared->operation], orders);
            alarm(WATCHDOG);
        }
    }
    while (waitpid(child, &status, __WALL) < 0 && errno == EINTR)
        ;
    if (status != 0)
        say(0, "the process ends well", "it did not");
    if (only == NULL)
        check_functions();
    if (wants_coverage)
        print_coverage();
    printf("1..%d\n", tests);
    return failed_tests != 0;
}
