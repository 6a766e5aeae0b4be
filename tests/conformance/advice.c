/* What the statistics at the end advise: another run that follows the advice
 * does as it says. */
#include "harness.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

enum { LIVE_BYTES = 40 << 20, ALLOCATED_BYTES = 800 << 20, CELL = 64 };

struct told {
    long collections;         /* that there were */
    long heap, fewer;         /* what is advised, in MiB, and collections then */
    int enough, steps;        /* that a larger heap is no use; marking in steps */
};

static void *live;
/* What a program does before libgc starts in it, if that is anything, and the part of the bytes that it allocates. */
static void (*prepare)(void);
static size_t part = 1;

/* Builds a list and then much garbage, with the statistics on standard error; a child of its own is forked at the end, if
 * that is wanted. */
static void run_program(int errors, const char *more, int forks)
{
    char options[512];
    const char *given = getenv("GLEANER_OPTIONS");

    snprintf(options, sizeof options, "%s%sstats=on%s", given != NULL ? given : "",
             given != NULL && *given != '\0' ? "," : "", more);
    setenv("GLEANER_OPTIONS", options, 1);
    dup2(errors, 2);
    if (prepare != NULL)
        prepare();
    GC_INIT();
    for (size_t i = 0; i < LIVE_BYTES / part / CELL; i++) {
        void **cell = GC_malloc(CELL);
        *cell = live;
        live = cell;
    }
    for (size_t i = 0; i < ALLOCATED_BYTES / part / CELL; i++)
        *(void *volatile *)GC_malloc(CELL) = NULL;
    if (forks && fork() == 0)
        GC_gcollect();
    else
        wait(NULL);
    exit(0);
}

static long number_behind(const char *text, const char *words)
{
    const char *at = strstr(text, words);
    return at == NULL ? 0 : strtol(at + strlen(words), NULL, 10);
}

/* What the statistics of such a program say, whole. */
static const char *run(const char *more, int forks)
{
    static char text[65536];
    size_t length = 0;
    ssize_t count;
    int pipes[2], status;
    pid_t child;

    CHECK_EQ(pipe(pipes), 0);
    child = fork();
    if (child == 0)
        run_program(pipes[1], more, forks);
    close(pipes[1]);
    while (length < sizeof text - 1
           && (count = read(pipes[0], text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)count;
    text[length] = '\0';
    close(pipes[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    return text;
}

static struct told told_by(const char *text)
{
    return (struct told){
        .collections = number_behind(text, "  collections"),
        .heap = number_behind(text, "initial-heap="),
        .fewer = number_behind(text, "would need about"),
        .enough = strstr(text, "a larger heap would save little") != NULL,
        .steps = strstr(text, "--opt generations=incremental") != NULL,
    };
}

static struct told ask(const char *more)
{
    return told_by(run(more, 0));
}

static int keeps_marks(void)
{
    const char *v = getenv("GLEANER_OPTIONS");
    return v != NULL && strstr(v, "generations=") != NULL;
}

static void a_larger_heap_does_what_was_said(void)
{
    struct told first, second;
    char more[64];

    if (under_stress())
        return;
    first = ask("");
    CHECK_OP(first.collections, >, 4);
    if (keeps_marks()) {
        NOTE("collections that keep marks say nothing of larger heaps\n");
        return;
    }
    /* Half of the time or more goes to marking the list again and again. */
    CHECK_OP(first.heap, >, LIVE_BYTES >> 20);
    CHECK_OP(first.fewer, <, first.collections);
    snprintf(more, sizeof more, ",initial-heap=%ldm", first.heap);
    second = ask(more);
    CHECK_OP(second.collections, <, first.collections);
    CHECK_LE(second.collections, 2 * first.fewer + 2);
    CHECK_GE(2 * second.collections + 2, first.fewer);
}

static void nothing_is_advised_where_nothing_was_collected(void)
{
    struct told told;

    if (under_stress())
        return;
    told = ask(",initial-heap=2g");
    CHECK_EQ(told.collections, 0);
    CHECK_EQ(told.heap, 0);
    CHECK_EQ(told.enough, 0);
    CHECK_EQ(told.steps, 0);
}

/* What its parent did is not told again by a child. */
static void a_child_counts_its_own(void)
{
    if (under_stress())
        return;
    const char *text = run("", 1), *parents = strstr(text + 1, "gleaner: statistics of process");
    const char *stops;
    double total, longest;
    REQUIRE(parents != NULL);
    CHECK_GE(told_by(parents).collections, 4);
    CHECK_OP(told_by(text).collections, >, 0);
    CHECK_LE(told_by(text).collections, 2);
    CHECK_LE(number_behind(text, "  allocated"), 1);
    stops = strstr(parents, "  time to stop ");
    REQUIRE(stops != NULL);
    REQUIRE(sscanf(stops, "  time to stop %lf s total, %lf s longest", &total, &longest) == 2);
    CHECK(longest > 0 && longest <= total);
    CHECK_GE(number_behind(parents, "  allocated"), ALLOCATED_BYTES >> 20);
    if (!keeps_marks())
        CHECK(strstr(text, "initial-heap=") >= parents);
}

/* ---- why collections are of everything although that was not wanted -------- */

/* The kernel does not tell which pages were written. */
static void hide_the_watch(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void ask_in_vain(void)
{
    hide_the_watch();
    GC_enable_incremental();
}

static void look_for_leaks(void)
{
    GC_set_find_leak(1);
    part = LIVE_BYTES / CELL; /* each leak is a line */
}

/* Whether the statistics have such a line; its words stand in one line of the terminal. */
static int is_told(const char *more, void (*before)(void), const char *words)
{
    prepare = before;
    part = 20;
    const char *text = run(more, 0);
    prepare = NULL;
    part = 1;
    return strstr(text, words) != NULL;
}

/* A watch would pay. */
static int is_told_in_a_sandbox(const char *words)
{
    prepare = hide_the_watch;
    const char *text = run(",generations=auto", 0);
    prepare = NULL;
    return strstr(text, words) != NULL;
}

static void statistics_say_why_pages_are_not_watched(void)
{
    if (under_stress())
        return;
    CHECK(is_told_in_a_sandbox("  watch          Pages are not watched: a filter of system calls"));
    CHECK(is_told(",generations=auto,initial-heap=2g", NULL, "Pages are not watched: collections of everything take too little"));
    CHECK(is_told(",generations=sticky,write-watch=page-scan", hide_the_watch, "  watch          Pages cannot be watched: page-scan: "));
    CHECK(is_told(",generations=asked,write-watch=page-scan", ask_in_vain, "  watch          Pages cannot be watched: page-scan: "));
    CHECK(is_told(",generations=sticky", look_for_leaks, "Leaks are looked for"));
    CHECK(is_told(",generations=auto", look_for_leaks, "Leaks are looked for"));
    CHECK(!is_told(",generations=sticky", NULL, "  watch "));
    CHECK(!is_told(",generations=none", look_for_leaks, "  watch "));
}

MAIN_BEGIN
    RUN_GLEANER(a_larger_heap_does_what_was_said);
    RUN_GLEANER(a_child_counts_its_own);
    RUN_GLEANER(nothing_is_advised_where_nothing_was_collected);
    RUN_GLEANER(statistics_say_why_pages_are_not_watched);
MAIN_END
