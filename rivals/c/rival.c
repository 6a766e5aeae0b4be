/* The workloads of `gleaner-bench native` in C; one line of JSON at the end.
 *
 * The same objects, stores and numbers in the same order. The memory manager is
 * a file that is included (see memory.h). Where it frees by hand, each file says
 * when it does so, and the rest is freed at the end of an iteration. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>

#include "rival.h"

enum { MOST_ITERATIONS = 1000 };

/* What a workload can do with the options that not all have. */
enum {
    THREADS = 1,
    WASTEFUL = 2,
    INPUT = 4,
};

/* As many mutators as there are processors. */
enum { PROCESSORS = 0 };

static const struct workload {
    const char *name;
    /* NULL where the rival lacks what the workload is about. */
    uint64_t (*run)(const struct chosen *chosen);
    /* How many mutators it has unless told. */
    unsigned mutators;
    int options;
    void (*prepare)(const struct chosen *chosen);
} workloads[] = {
    { "gcbench", plain_gcbench, 1, 0, NULL },
    { "holes", holes, 1, 0, NULL },
    { "queue", queue, 1, 0, NULL },
    { "refarray", refarray, 1, 0, NULL },
    { "quads", quads, 1, 0, NULL },
    { "ephemerons", NULL, 1, THREADS, NULL },
    { "finalizers", MEMORY_FINALIZERS, 1, THREADS, NULL },
    { "jbb", jbb, 2, THREADS, NULL },
    { "index", text_index, 2, THREADS | WASTEFUL | INPUT, prepare_index },
    { "xml", xml, 1, THREADS | INPUT, prepare_xml },
    { "producer", producer, 4, THREADS, NULL },
    { "agents", agents, 16, THREADS, NULL },
    { "render", render, PROCESSORS, THREADS, NULL },
    { "cipher", cipher, 1, 0, NULL },
    { "tiny", tiny, 16, THREADS, NULL },
};

struct facts facts;

void give_up(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    _exit(2);
}

/* ---- arguments ---- */

static long number(const char *word, const char *text, long low, long high)
{
    char *end = NULL;
    long value = text == NULL ? 0 : strtol(text, &end, 10);

    if (text == NULL || end == text || *end != '\0' || value < low || value > high)
        give_up("%s: expected a number from %ld to %ld", word, low, high);
    return value;
}

static const struct workload *find(const char *name)
{
    size_t count = sizeof workloads / sizeof *workloads;

    for (size_t i = 0; name != NULL && i < count; i++) {
        if (strcmp(name, workloads[i].name) != 0)
            continue;
        if (workloads[i].run == NULL)
            give_up("%s has no %s", program_invocation_short_name, name);
        return &workloads[i];
    }
    fprintf(stderr, "%s: expected", name == NULL ? "the first argument" : name);
    for (size_t i = 0; i < count; i++)
        if (workloads[i].run != NULL)
            fprintf(stderr, "%s %s", i == 0 ? "" : ",", workloads[i].name);
    fputc('\n', stderr);
    exit(2);
}

static unsigned processors(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;

    return count < MOST_MUTATORS ? (unsigned)count : MOST_MUTATORS;
}

/* Ends the program when the workload has no use for an option. */
static void check_use(const struct workload *workload, int option, const char *word)
{
    if ((workload->options & option) == 0)
        give_up("%s: %s has no use for it", word, workload->name);
}

static struct chosen chosen_by(char **words)
{
    const char *iterations = getenv("ITERATIONS");
    const struct workload *workload = find(words[1]);
    struct chosen chosen = {
        .name = workload->name,
        .heap = 113,
        .mutators = workload->mutators == PROCESSORS ? processors() : workload->mutators,
        .workers = 2,
        .iterations = 1,
    };

    if (iterations != NULL)
        chosen.iterations = (int)number("ITERATIONS", iterations, 1, MOST_ITERATIONS);
    for (char **word = words + 2; *word != NULL; word++) {
        if (strcmp(*word, "--tiny") == 0) {
            chosen.tiny = 1;
        } else if (strcmp(*word, "--wasteful") == 0) {
            check_use(workload, WASTEFUL, *word);
            chosen.wasteful = 1;
        } else if (strcmp(*word, "--compressed") == 0) {
            give_up("%s: expected no such thing: a pointer of C has 8 bytes", *word);
        } else if (strcmp(*word, "--heap") == 0) {
            chosen.heap = (size_t)number(word[0], word[1], 1, 1 << 20), word++;
        } else if (strcmp(*word, "--workers") == 0) {
            chosen.workers = (int)number(word[0], word[1], 1, 1024), word++;
        } else if (strcmp(*word, "--threads") == 0) {
            chosen.mutators = (unsigned)number(word[0], word[1], 1, MOST_MUTATORS), word++;
            if (chosen.mutators > 1 && !(workload->options & THREADS))
                give_up("--threads: %s has one mutator", workload->name);
        } else if (strcmp(*word, "--iterations") == 0) {
            chosen.iterations = (int)number(word[0], word[1], 1, MOST_ITERATIONS), word++;
        } else if (strcmp(*word, "--input") == 0) {
            check_use(workload, INPUT, *word);
            if ((chosen.input = *++word) == NULL)
                give_up("--input: expected a path");
        } else {
            give_up("%s: expected --heap MB, --workers N, --threads N, --iterations K, --wasteful, "
                    "--input PATH or --tiny", *word);
        }
    }
    return chosen;
}

/* ---- measuring ---- */

struct moment {
    double wall_s, cpu_s;
};

static struct moment now(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (struct moment){
        .wall_s = seconds(),
        .cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec)
            + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6,
    };
}

static void print_between(struct moment from, struct moment to)
{
    printf("\"wall_s\":%.6f,\"cpu_s\":%.6f", to.wall_s - from.wall_s, to.cpu_s - from.cpu_s);
}

/* The kernel's high-water mark of resident memory, in KB; 0 if unknown. */
static long peak_kb(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long kb = 0;

    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "VmHWM: %ld kB", &kb) == 1)
            break;
    if (status != NULL)
        fclose(status);
    return kb;
}

int main(int argc, char **argv)
{
    static struct moment after[MOST_ITERATIONS + 1];
    struct chosen chosen = chosen_by(argv);
    const struct workload *workload = find(chosen.name);
    uint64_t result = 0;

    (void)argc;
    memory_start(chosen.heap << 20, chosen.workers);
    if (workload->prepare != NULL)
        workload->prepare(&chosen);
    after[0] = now();
    for (int i = 1; i <= chosen.iterations; i++) {
        result = workload->run(&chosen);
        after[i] = now();
    }
    printf("{\"benchmark\":\"%s\",\"result\":\"%016llx\",", chosen.name,
           (unsigned long long)result);
    print_between(after[0], after[chosen.iterations]);
    printf(",\"peak_kb\":%ld,\"mutators\":%u", peak_kb(), chosen.mutators);
    if (facts.transactions > 0)
        printf(",\"transactions\":%llu,\"transactions_per_s\":%.1f",
               (unsigned long long)facts.transactions, facts.transactions_per_s);
    if (facts.queries_per_s > 0)
        printf(",\"queries_per_s\":%.1f", facts.queries_per_s);
    if (memory_collections() >= 0)
        printf(",\"collections\":%ld,\"total_pause_s\":%.6f", memory_collections(),
               memory_pause_s());
    for (int i = 1; chosen.iterations > 1 && i <= chosen.iterations; i++) {
        printf(i == 1 ? ",\"iterations\":[{" : "},{");
        print_between(after[i - 1], after[i]);
    }
    printf(chosen.iterations > 1 ? "}]}\n" : "}\n");
    return 0;
}
