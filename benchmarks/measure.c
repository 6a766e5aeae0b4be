/* Measurement of the running process; see measure.h. */
#include "measure.h"

#include <errno.h>
#include <gc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static double wall_at_start;

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

void measure_start(void)
{
    GC_INIT();
    GC_start_performance_measurement();
    wall_at_start = wall_now();
}

void measure_report(const char *benchmark, uint64_t result)
{
    double wall = wall_now() - wall_at_start;
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    printf("{\"benchmark\":\"%s\",\"result\":\"%016llx\",\"collections\":%lu,"
           "\"heap_bytes\":%lu,\"peak_rss_kb\":%ld,\"wall_s\":%.6f,"
           "\"user_s\":%.6f,\"sys_s\":%.6f,\"gc_ms\":%lu}\n",
           benchmark, (unsigned long long)result,
           (unsigned long)GC_get_gc_no(), (unsigned long)GC_get_heap_size(),
           peak_resident_kb(), wall, seconds(used.ru_utime),
           seconds(used.ru_stime), GC_get_full_gc_total_time());
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
