/* Programs that confine themselves by a filter of system calls, and programs in a container that refuses some.
 *
 * system_calls.h is made from docs/system-calls.tsv: which calls are made in which phase. */
#include "harness.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#ifdef __aarch64__
/* Linux has these there in place of older ones, under whose names the table lists them. */
#define SYS_lstat SYS_newfstatat
#define SYS_open SYS_openat
#define SYS_poll SYS_ppoll
#define SYS_readlink SYS_readlinkat
#define SYS_rename SYS_renameat
#define SYS_unlink SYS_unlinkat
#endif

enum phase {
    start, allocation, collection, stop, helpers, threads, fork_, exit_, message,
    stack_base, unnamed_stacks, refused_memory, old_kernels, incremental, log_statistics_snapshots, precise_heap,
};
#define fork fork_
#define exit exit_
static const struct call {
    enum phase phase;
    int number;
    int is_ours, may_be_refused;
    const char *name;
} calls[] = {
#define CALL(phase, name, ours, refused) {phase, SYS_##name, ours, refused, #name},
#include "system_calls.h"
};
#undef fork
#undef exit
enum { CALLS = sizeof calls / sizeof *calls };

static int is_after_start(const struct call *call)
{
    return call->phase >= allocation && call->phase <= exit_;
}

/* A run of this suite in which marks are kept by option makes the calls that tell what was written. */
static int may_keep_marks(const struct call *call)
{
    const char *options = getenv("GLEANER_OPTIONS"), *mode = NULL;
    while (options != NULL && (options = strstr(options, "generations=")) != NULL)
        mode = options += strlen("generations=");
    return call->phase == incremental && mode != NULL
        && (strncmp(mode, "sticky", 6) == 0 || strncmp(mode, "incremental", 11) == 0);
}

/* ---- filters ---- */

/* Calls of the list come to `listed`, all others to `other`. */
static void confine(const int *list, int count, unsigned listed, unsigned other)
{
    static struct sock_filter code[2 * CALLS + 64];
    int n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < count; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)list[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, other);
    struct sock_fprog program = {(unsigned short)n, code};
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* Lets through what the table says of the time after the start, what this program calls itself, and one more call. */
static void allow_the_table_and(int more)
{
    int list[CALLS + 8], n = 0;
    list[n++] = more;
    for (int i = 0; i < CALLS; i++)
        if (is_after_start(&calls[i]) || may_keep_marks(&calls[i]))
            list[n++] = calls[i].number;
    list[n++] = SYS_write; /* results of tests */
    list[n++] = SYS_wait4;
    list[n++] = SYS_kill; /* this test's */
    confine(list, n, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);
}

static void allow_the_table(void)
{
    allow_the_table_and(SYS_write);
}

static void refuse(int number, int error)
{
    confine(&number, 1, SECCOMP_RET_ERRNO | (unsigned)error, SECCOMP_RET_ALLOW);
}

/* ---- what a program does ---- */

/* Each collection that stress asks for costs as much as one of a heap that has grown. */
static int scaled(int length)
{
    return under_stress() ? length / 100 : length;
}

static NOINLINE void **list_of(int length)
{
    void **list = NULL;
    for (int i = 0; i < length; i++) {
        void **cell = GC_malloc(48);
        cell[0] = list;
        cell[1] = (void *)(uintptr_t)(2 * i + 1);
        list = cell;
    }
    return list;
}

static NOINLINE int is_whole(void **list, int length)
{
    for (int i = length - 1; i >= 0; i--, list = list[0])
        if (list == NULL || list[1] != (void *)(uintptr_t)(2 * i + 1))
            return 0;
    return list == NULL;
}

static void *allocates(void *arg)
{
    for (int i = 0; i < 20; i++)
        if (!is_whole(list_of(scaled(2000)), scaled(2000)))
            return NULL;
    return arg;
}

/* The heap grows, shrinks, is collected by helpers, in threads, and in a child. A thread that cannot be made is none. */
static void use_all(void)
{
    pthread_t t[3];
    int made = 0;
    void **kept = list_of(scaled(40000));
    for (int i = 0; i < 3; i++)
        made += pthread_create(&t[made], NULL, allocates, t) == 0;
    for (int i = 0; i < 10; i++) {
        GC_malloc(3 << 20);
        GC_malloc_atomic(200000);
        list_of(scaled(20000));
        GC_gcollect();
    }
    /* What large objects never wrote is looked for when the heap has dropped. */
    void **more = list_of(scaled(150000));
    for (int i = 0; i < 20; i++)
        list_of(scaled(40000));
    for (int i = 0; i < 25; i++)
        GC_malloc(3 << 20);
    CHECK(is_whole(more, scaled(150000)));
    while (made > 0) {
        void *r = NULL;
        pthread_join(t[--made], &r);
        CHECK_PTR(r, t);
    }
    CHECK(is_whole(kept, scaled(40000)));
    GC_gcollect_and_unmap();
    pid_t child = fork();
    if (child == 0) {
        int whole = is_whole(kept, scaled(40000));
        kept = list_of(scaled(40000));
        GC_gcollect();
        _exit(whole && is_whole(kept, scaled(40000)) ? 7 : 8);
    }
    int status = 0;
    if (child > 0) {
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
}

/* ---- tests ---- */

/* Found by a program that confined itself: calls that are not made where nobody asks for more than usual. */
static void unusual_calls_after_the_start(void)
{
    static const int unusual[] = {
        SYS_open, SYS_openat, SYS_readlink, SYS_membarrier, SYS_userfaultfd, SYS_perf_event_open, SYS_mbind,
        SYS_get_mempolicy, SYS_move_pages, SYS_process_madvise, SYS_process_vm_readv, SYS_sched_setaffinity,
        SYS_sysinfo, SYS_mincore, SYS_ioctl, SYS_socket, SYS_execve,
    };
    int list[sizeof unusual / sizeof *unusual], n = 0;
    for (unsigned i = 0; i < sizeof unusual / sizeof *unusual; i++) {
        int is_wanted = 0;
        for (int j = 0; j < CALLS; j++)
            is_wanted |= may_keep_marks(&calls[j]) && calls[j].number == unusual[i];
        if (!is_wanted)
            list[n++] = unusual[i];
    }
    GC_INIT();
    confine(list, n, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
    use_all();
}

static void the_table_is_enough(void)
{
    GC_INIT();
    allow_the_table();
    use_all();
}

/* The same under an address limit, from the start on and set later: the usual order of a program that confines itself. */
static void limit_addresses(size_t bytes)
{
    struct rlimit limit = {bytes, bytes};
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
}

static void the_table_is_enough_under_an_address_limit(void)
{
    limit_addresses((size_t)600 << 20);
    GC_INIT();
    allow_the_table();
    use_all();
}

static void the_table_is_enough_under_a_later_limit(void)
{
    GC_INIT();
    limit_addresses((size_t)600 << 20);
    allow_the_table();
    use_all();
}

/* Where all addresses are taken, the program is told. */
static void memory_is_out_in_a_sandbox(void)
{
    void **last = NULL, **next;

    limit_addresses((size_t)120 << 20);
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    allow_the_table();
    while ((next = GC_malloc(100000)) != NULL) {
        next[0] = last;
        last = next;
    }
    CHECK(last != NULL);
}

/* The same with helpers whatever the machine has, and with none. */
static void the_table_is_enough_with_helpers(void)
{
    add_options("markers=3");
    the_table_is_enough();
}

static void the_table_is_enough_alone(void)
{
    add_options("markers=1");
    the_table_is_enough();
}

/* Without threads of the program's, and with one marker, no thread is started. */
static void use_no_threads(int forbidden)
{
    int none[] = {SYS_clone, SYS_clone3, SYS_tgkill, forbidden};
    add_options("markers=1,idle=off"); /* idle=collect asks for a thread */
    GC_INIT();
    confine(none, 4, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
    void **kept = list_of(scaled(200000));
    for (int i = 0; i < 10; i++) {
        list_of(scaled(40000));
        GC_gcollect();
    }
    CHECK(is_whole(kept, scaled(200000)));
}

static void no_threads_are_needed(void)
{
    use_no_threads(SYS_execve);
}

/* Nor is it asked whether there is a filter where no mode depends on the answer. */
static void nothing_is_asked_of_filters(void)
{
    add_options("generations=none");
    use_no_threads(SYS_prctl);
}

/* ---- a program that knows nothing of the watch, and confines itself ---- */

enum { SLOTS = 1000, ROUNDS = 400, LOG_BYTES = 8 << 20 };
static char log_name[] = "/tmp/gleaner-log-XXXXXX";
static int log_file;
static char *log_text; /* no root: as much static data would be a reason against a watch */
static void ***slots;
static void **old;

/* Whether an event of the log has these words so far. */
static int log_says(const char *words)
{
    ssize_t length = pread(log_file, log_text, LOG_BYTES - 1, 0);
    REQUIRE(length >= 0);
    log_text[length] = '\0';
    return strstr(log_text, words) != NULL;
}

/* Much lives and hardly changes, so that a watch would pay. What is new hangs on old objects here and there. */
static void prepare_a_trial(void)
{
    GC_INIT();
    old = list_of(200000);
    slots = GC_malloc(SLOTS * sizeof *slots);
    log_text = malloc(LOG_BYTES);
    REQUIRE(log_text != NULL);
}

static void work_a_round(void)
{
    static int at;
    for (int i = 0; i < 20; i++, at = (at + 7) % SLOTS)
        slots[at] = list_of(10);
    list_of(20000);
}

static int all_is_whole(void)
{
    for (int i = 0; i < SLOTS; i++)
        if (slots[i] != NULL && !is_whole(slots[i], 10))
            return 0;
    return is_whole(old, 200000);
}

static const char watched[] = "collections of everything take a twentieth of the time";
static const char not_watched[] = "the kernel does not say what is written";
static const char filtered[] = "a filter of system calls (seccomp) is in force";
static const char given_up[] = "everything, from now on: a filter of system calls is in force";

static int work_until(const char *words)
{
    for (int i = 0; i < ROUNDS; i++) {
        work_a_round();
        if (log_says(words) || log_says(not_watched))
            return log_says(words);
    }
    return 0;
}

static int is_confined_early;
static void confines_itself(void)
{
    int begins;
    prepare_a_trial();
    if (is_confined_early) {
        allow_the_table_and(SYS_getrlimit);
        _exit(work_until(filtered) && all_is_whole() ? 0 : 1);
    }
    begins = work_until(watched);
    if (begins) {
        for (int i = 0; i < 20; i++)
            work_a_round();
        allow_the_table_and(SYS_getrlimit); /* the log's */
        int is_told = work_until(given_up);
        for (int i = 0; i < 60; i++)
            work_a_round();
        GC_gcollect();
        _exit(is_told && all_is_whole() ? 0 : 1);
    }
    _exit(log_says(not_watched) ? 0 : 2);
}

static void confined_with(const char *options)
{
    static char text[4000];
    char more[100];
    log_file = mkstemp(log_name);
    REQUIRE(log_file >= 0);
    snprintf(more, sizeof more, "generations=auto,stress=0,log=%s,%s", log_name, options);
    add_options(more);
    int status = run_captured(confines_itself, text, sizeof text);
    if (status != 0)
        NOTE("status 0x%x: %.300s\n", status, text);
    CHECK_EQ(status, 0);
    close(log_file);
    unlink(log_name);
}

static void a_trial_is_wanted_in_a_sandbox(void)
{
    is_confined_early = 1;
    confined_with("markers=2");
}

static void a_trial_is_wanted_in_a_sandbox_without_threads(void)
{
    is_confined_early = 1;
    confined_with("markers=1");
}

static void a_sandbox_in_the_middle_of_a_watch(void)
{
    confined_with("markers=2");
}

/* Whether this process has the files of a watch open. */
static int is_watched(void)
{
    char path[32], target[64];
    for (int i = 0; i < 1024; i++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", i);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length <= 0)
            continue;
        target[length] = '\0';
        if (strstr(target, "userfaultfd") != NULL || strstr(target, "clear_refs") != NULL)
            return 1;
    }
    return 0;
}

/* A child has the watch of its parent's no more, and may not begin its own. */
static void a_fork_in_a_sandbox_in_the_middle_of_a_watch(void)
{
    int status = 0;
    add_options("generations=auto,stress=0");
    prepare_a_trial();
    for (int i = 0; i < ROUNDS && !is_watched(); i++)
        work_a_round();
    if (!is_watched()) {
        NOTE("the kernel does not say what is written\n");
        return;
    }
    CHECK_EQ(GC_is_incremental_mode(), 0); /* nobody asked for that */
    allow_the_table();
    pid_t child = fork();
    for (int i = 0; i < 80; i++)
        work_a_round();
    GC_gcollect();
    if (child == 0)
        _exit(all_is_whole() ? 7 : 8);
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(all_is_whole());
}

static volatile int waiting;
static void *waits(void *arg)
{
    GC_malloc(16);
    waiting = 1;
    for (;;)
        pause();
    return arg;
}

/* ---- a stack that is not known: the kernel is asked how far it can be read ---- */

#include <sys/mman.h>
#include <ucontext.h>

static ucontext_t outside, inside;
static int stayed;
static void on_own_stack(void)
{
    void **held = list_of(scaled(20000));
    for (int i = 0; i < 5; i++) {
        list_of(scaled(20000));
        collect();
    }
    stayed = is_whole(held, scaled(20000));
    swapcontext(&inside, &outside);
}

static void collect_on_a_foreign_stack(void)
{
    void **held = list_of(scaled(20000));
    char *stack = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(stack != MAP_FAILED);
    REQUIRE(mprotect(stack + (256 << 10), 512 << 10, PROT_READ | PROT_WRITE) == 0);
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack + (256 << 10);
    inside.uc_stack.ss_size = 512 << 10;
    makecontext(&inside, on_own_stack, 0);
    swapcontext(&outside, &inside);
    CHECK(stayed);
    CHECK(is_whole(held, scaled(20000)));
}

/* What a coroutine refers to while it waits is kept, also where the heap has to grow for that. */
static void keep_and_wait(void)
{
    /* No register has it: they are saved in static data, which is scanned. */
    void **volatile held = list_of(scaled(20000));
    /* A collection that meets the coroutine. */
    GC_gcollect();
    swapcontext(&inside, &outside);
    stayed = is_whole(held, scaled(20000));
    swapcontext(&inside, &outside);
}

static void keep_on_a_stack_that_waits(void)
{
    getcontext(&inside);
    inside.uc_stack.ss_sp = mmap(NULL, 512 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(inside.uc_stack.ss_sp != MAP_FAILED);
    inside.uc_stack.ss_size = 512 << 10;
    makecontext(&inside, keep_and_wait, 0);
    swapcontext(&outside, &inside);
    for (int i = 0; i < 20; i++)
        list_of(scaled(40000));
    swapcontext(&outside, &inside);
    CHECK(stayed);
}

/* Kernels of this decade tell without a call that usual filters forbid. */
static void a_foreign_stack_without_mincore(void)
{
    int call = SYS_mincore;
    GC_INIT();
    if (madvise((void *)((uintptr_t)&call & -4096), 4096, 22 /* MADV_POPULATE_READ */) != 0)
        return;
    confine(&call, 1, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
    collect_on_a_foreign_stack();
}

/* Where a thread's stack ends is a page that is mapped, and that nobody may read: of such a page they do not tell. */
static void *goes_to_a_foreign_stack(void *arg)
{
    collect_on_a_foreign_stack();
    return arg;
}

static void a_foreign_stack_in_a_thread_without_mincore(void)
{
    int call = SYS_mincore;
    pthread_t t;
    pthread_attr_t attributes;
    void *result = NULL;
    GC_INIT();
    if (madvise((void *)((uintptr_t)&call & -4096), 4096, 22 /* MADV_POPULATE_READ */) != 0)
        return;
    char *stack = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(stack != MAP_FAILED);
    REQUIRE(mprotect(stack + 4096, (1 << 20) - 4096, PROT_READ | PROT_WRITE) == 0);
    REQUIRE(pthread_attr_init(&attributes) == 0);
    REQUIRE(pthread_attr_setstack(&attributes, stack + 4096, (1 << 20) - 4096) == 0);
    confine(&call, 1, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
    REQUIRE(pthread_create(&t, &attributes, goes_to_a_foreign_stack, &t) == 0);
    REQUIRE(pthread_join(t, &result) == 0);
    CHECK_PTR(result, &t);
}

static void a_foreign_stack_without_madvise(void)
{
    GC_INIT();
    refuse(SYS_madvise, EPERM);
    collect_on_a_foreign_stack();
}

static void a_foreign_stack_without_either(void)
{
    GC_INIT();
    refuse(SYS_madvise, EPERM);
    refuse(SYS_mincore, EPERM);
    collect_on_a_foreign_stack();
}

/* Nor can its pages be copied: they are read in their place. */
static void a_foreign_stack_where_nobody_may_ask(void)
{
    GC_INIT();
    refuse(SYS_madvise, EPERM);
    refuse(SYS_mincore, EPERM);
    refuse(SYS_process_vm_readv, EPERM);
    collect_on_a_foreign_stack();
}

/* ---- calls that are refused ---- */

static int refuses_at_the_start;
static const struct call *refused;
static int refused_with;
static void use_all_without(void)
{
    if (refuses_at_the_start)
        refuse(refused->number, refused_with);
    GC_INIT();
    if (refused->phase == incremental)
        GC_enable_incremental();
    if (!refuses_at_the_start)
        refuse(refused->number, refused_with);
    if (refused->phase == unnamed_stacks)
        keep_on_a_stack_that_waits();
    else
        use_all();
    _exit(h_test_failed ? 1 : 0);
}

static int is_needed_at_the_start(int number)
{
    for (int i = 0; i < CALLS; i++)
        if (calls[i].phase == start && calls[i].number == number)
            return !calls[i].may_be_refused;
    return 0;
}

/* One after the other, in a process for each; `wanted` says of which phases. */
static void refuse_each(int (*wanted)(const struct call *), int at_the_start)
{
    static char text[4000];
    static const int errors[] = {EPERM, ENOSYS};
    int tried = 0;
    refuses_at_the_start = at_the_start;
    for (int i = 0; i < CALLS; i++) {
        if (!wanted(&calls[i]) || !calls[i].may_be_refused
            || (at_the_start && is_needed_at_the_start(calls[i].number)))
            continue;
        for (int e = 0; e < 2; e++, tried++) {
            refused = &calls[i];
            refused_with = errors[e];
            int status = run_captured(use_all_without, text, sizeof text);
            if (status != 0) {
                NOTE("%s refused with error %d: status 0x%x: %.300s\n", refused->name, refused_with, status, text);
                h_fail(__FILE__, __LINE__, "a call that is refused is done without");
            }
        }
    }
    CHECK_GE(tried, 6);
}

static void stop_without_a_signal(void)
{
    pthread_t t;
    GC_INIT();
    REQUIRE(pthread_create(&t, NULL, waits, &t) == 0);
    while (!waiting)
        ;
    refuse(SYS_tgkill, EPERM);
    GC_gcollect();
}

/* Nothing could be collected safely any more. The C library's abort sends its signal in the same way. */
static void a_stop_without_its_signal(void)
{
    static char text[4000];
    int status = run_captured(stop_without_a_signal, text, sizeof text);
    CHECK(WIFSIGNALED(status));
    CHECK(strstr(text, "gleaner: ") != NULL);
}

/* The last line of a log has advice, for which nothing is asked of the system that was not at the start. */
static void ends_with_a_log(void)
{
    static int asking[] = {SYS_open, SYS_openat, SYS_sysinfo, SYS_uname};
    char option[64];
    snprintf(option, sizeof option, "log=%s", log_name);
    add_options(option);
    GC_INIT();
    confine(asking, 4, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
    void **kept = list_of(scaled(40000));
    GC_gcollect();
    exit(is_whole(kept, scaled(40000)) ? 0 : 1);
}

static void a_log_ends_in_a_sandbox(void)
{
    static char text[4000], line[8192];
    int file = mkstemp(log_name), has_end = 0;
    REQUIRE(file >= 0);
    CHECK_EQ(run_captured(ends_with_a_log, text, sizeof text), 0);
    FILE *log = fdopen(file, "r");
    while (fgets(line, sizeof line, log) != NULL)
        has_end |= strncmp(line, "{\"event\":\"exit\",", 16) == 0;
    CHECK(has_end);
    fclose(log);
    unlink(log_name);
}

static int is_of_start(const struct call *call)
{
    return call->phase == start;
}

static int is_ours_after_start(const struct call *call)
{
    /* A heap that cannot grow runs out of memory, and a stop without its signal ends the process. */
    int is_vital = call->number == SYS_mprotect || call->number == SYS_mmap || call->number == SYS_tgkill;
    return is_after_start(call) && call->phase != helpers && !is_vital;
}

static int is_of_helpers(const struct call *call)
{
    int is_vital = call->number == SYS_mprotect || call->number == SYS_mmap;
    return call->phase == helpers && !is_vital;
}

static int is_of_incremental(const struct call *call)
{
    return call->phase == incremental;
}

static int is_of_coroutines(const struct call *call)
{
    return call->phase == unnamed_stacks && call->number != SYS_mmap;
}

static void refused_at_the_start(void)
{
    refuse_each(is_of_start, 1);
}

static void refused_after_the_start(void)
{
    refuse_each(is_ours_after_start, 0);
}

static void refused_before_and_after_the_start(void)
{
    refuse_each(is_ours_after_start, 1);
}

static void refused_to_helpers(void)
{
    refuse_each(is_of_helpers, 0);
}

static void refused_to_incremental_mode(void)
{
    refuse_each(is_of_incremental, 1);
    refuse_each(is_of_incremental, 0);
}

static void refused_to_coroutines(void)
{
    refuse_each(is_of_coroutines, 0);
}

MAIN_BEGIN
    RUN(unusual_calls_after_the_start);
    RUN_GLEANER(the_table_is_enough);
    RUN_GLEANER(the_table_is_enough_under_an_address_limit);
    RUN_GLEANER(the_table_is_enough_under_a_later_limit);
    RUN_GLEANER(memory_is_out_in_a_sandbox);
    RUN_GLEANER(the_table_is_enough_with_helpers);
    RUN_GLEANER(the_table_is_enough_alone);
    RUN_GLEANER(no_threads_are_needed);
    RUN_GLEANER(nothing_is_asked_of_filters);
    RUN_GLEANER(a_trial_is_wanted_in_a_sandbox);
    RUN_GLEANER(a_trial_is_wanted_in_a_sandbox_without_threads);
    RUN_GLEANER(a_sandbox_in_the_middle_of_a_watch);
    RUN_GLEANER(a_fork_in_a_sandbox_in_the_middle_of_a_watch);
    RUN_GLEANER(a_foreign_stack_without_mincore);
    RUN_GLEANER(a_foreign_stack_in_a_thread_without_mincore);
    RUN_GLEANER(a_foreign_stack_without_madvise);
    RUN_GLEANER(a_foreign_stack_without_either);
    RUN_GLEANER(a_foreign_stack_where_nobody_may_ask);
    RUN_GLEANER(a_log_ends_in_a_sandbox);
    RUN_GLEANER(refused_at_the_start);
    RUN_GLEANER(refused_after_the_start);
    RUN_GLEANER(refused_before_and_after_the_start);
    RUN_GLEANER(a_stop_without_its_signal);
    RUN_GLEANER(refused_to_helpers);
    RUN_GLEANER(refused_to_incremental_mode);
    RUN_GLEANER(refused_to_coroutines);
MAIN_END
