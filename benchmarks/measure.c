/* Measurement of the running process; see measure.h. */
#include "measure.h"

#include <errno.h>
#include <gc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { MAX_ITERATIONS = 1000 };

/* What the clocks and the collector say at one moment. */
struct moment {
    double wall_s, cpu_s;
    unsigned long collections, gc_ms;
    size_t allocated;
};

static struct moment start;

static double wall_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

/* The kernel's high-water mark of resident memory, in KB; 0 if unknown. */
static long peak_resident_kb(void)
{
    char line[256];
    long kb = 0;
    FILE *status = fopen("/proc/self/status", "r");

    if (status == NULL)
        return 0;
    while (fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "VmHWM: %ld kB", &kb) == 1)
            break;
    fclose(status);
    return kb;
}

static struct moment now(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (struct moment){
        .wall_s = wall_now(),
        .cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime),
        .collections = GC_get_gc_no(),
        .gc_ms = GC_get_full_gc_total_time(),
        .allocated = GC_get_total_bytes(),
    };
}

void measure_start(void)
{
    GC_INIT();
    GC_start_performance_measurement();
    start = now();
}

/* What happened between two moments, as the inside of a JSON object. */
static void print_between(const struct moment *from, const struct moment *to)
{
    printf("\"wall_s\":%.6f,\"cpu_s\":%.6f,\"collections\":%lu,"
           "\"gc_ms\":%lu,\"allocated_bytes\":%zu",
           to->wall_s - from->wall_s, to->cpu_s - from->cpu_s,
           to->collections - from->collections, to->gc_ms - from->gc_ms,
           to->allocated - from->allocated);
}

static unsigned long iterations(void)
{
    char *given = getenv("ITERATIONS");
    char *arguments[] = { "ITERATIONS", given };

    return scale_argument(given == NULL ? 1 : 2, arguments, 1, 1, 1,
                          MAX_ITERATIONS);
}

void measure(const char *benchmark, measured_work *work, const void *scale)
{
    static struct moment after[MAX_ITERATIONS];
    unsigned long i, count = iterations();
    uint64_t result = 0;

    for (i = 0; i < count; i++) {
        uint64_t once = work(scale);

        require(i == 0 || once == result, "the iterations agree");
        result = once;
        after[i] = now();
    }
    printf("{\"benchmark\":\"%s\",\"result\":\"%016llx\",", benchmark,
           (unsigned long long)result);
    print_between(&start, &after[count - 1]);
    printf(",\"heap_bytes\":%lu,\"peak_rss_kb\":%ld",
           (unsigned long)GC_get_heap_size(), peak_resident_kb());
    for (i = 0; count > 1 && i < count; i++) {
        printf(i == 0 ? ",\"iterations\":[{" : "},{");
        print_between(i == 0 ? &start : &after[i - 1], &after[i]);
    }
    printf(count > 1 ? "}]}\n" : "}\n");
    fflush(stdout);
}

unsigned long scale_argument(int argc, char **argv, int index,
                             unsigned long fallback, unsigned long low,
                             unsigned long high)
{
    char *end;
    unsigned long value;

    if (index >= argc)
        return fallback;
    errno = 0;
    value = strtoul(argv[index], &end, 10);
    if (errno != 0 || end == argv[index] || *end != '\0' || value < low
        || value > high || strchr(argv[index], '-') != NULL) {
        fprintf(stderr, "%s: argument %d is \"%s\", expected %lu to %lu\n",
                argv[0], index, argv[index], low, high);
        exit(2);
    }
    return value;
}

void require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "broken: %s\n", what);
        abort();
    }
}

uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
