/* Memory limits of control groups: a program is to live under one, and a heap is to be collected before the kernel has to
 * refuse memory.
 *
 * Each test makes a group with a limit, has a process join it and start this program anew in it, and asks the group how
 * often its limit was hit. Where no group can be made (no hierarchy of memory is mounted, or it is not ours to write) the
 * tests say so and pass: what follows from the files of a group is tested without one in crates/os/src/headroom.rs and
 * crates/plans/tests/room.rs. */
#include "harness.h"

#include <sys/stat.h>

#define MB (1 << 20)

/* ---- groups ----------------------------------------------------------- */

static char top[256]; /* where the hierarchy of memory is mounted */
static int version;

/* What may be there of either version; 2 is only good where groups below the top may limit memory. */
static void find_top(void)
{
    char line[4096], point[256], rest[1024];
    FILE *f = fopen("/proc/self/mountinfo", "r");
    version = 0;
    while (f != NULL && version == 0 && fgets(line, sizeof line, f) != NULL) {
        char *type = strstr(line, " - ");
        if (type == NULL || sscanf(line, "%*s %*s %*s %*s %255s", point) != 1
            || sscanf(type, " - %1023[^\n]", rest) != 1)
            continue;
        if (strncmp(rest, "cgroup ", 7) == 0 && strstr(rest, ",memory") != NULL)
            version = 1;
        if (strncmp(rest, "cgroup2 ", 8) == 0) {
            char path[300], controllers[256] = "";
            snprintf(path, sizeof path, "%s/cgroup.subtree_control", point);
            FILE *c = fopen(path, "r");
            if (c != NULL && fgets(controllers, sizeof controllers, c) != NULL
                && strstr(controllers, "memory") != NULL)
                version = 2;
            if (c != NULL)
                fclose(c);
        }
        if (version != 0)
            strcpy(top, point);
    }
    if (f != NULL)
        fclose(f);
}

static int put(const char *group, const char *file, long number)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", group, file);
    FILE *f = fopen(path, "w");
    if (f == NULL)
        return 0;
    int good = fprintf(f, "%ld\n", number) > 0;
    return fclose(f) == 0 && good;
}

/* How often the limit was hit. */
static long hits(const char *group)
{
    char path[700], line[256];
    long count = -1;
    snprintf(path, sizeof path, "%s/%s", group, version == 1 ? "memory.failcnt" : "memory.events");
    FILE *f = fopen(path, "r");
    while (f != NULL && count < 0 && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, version == 1 ? "%ld" : "max %ld", &count) != 1)
            count = -1;
    if (f != NULL)
        fclose(f);
    return count;
}

/* A group with a limit, or one inside of it that has none. */
static int make_group(char *outer, char *inner, long limit, int nested)
{
    find_top();
    if (version == 0)
        return 0;
    snprintf(outer, 300, "%s/conformance-%d", top, (int)getpid());
    snprintf(inner, 310, "%.300s%s", outer, nested ? "/inner" : "");
    if (mkdir(outer, 0755) != 0)
        return 0;
    if (nested && mkdir(inner, 0755) != 0) {
        rmdir(outer);
        return 0;
    }
    if (!put(outer, version == 1 ? "memory.limit_in_bytes" : "memory.max", limit)) {
        rmdir(inner);
        rmdir(outer);
        return 0;
    }
    return 1;
}

/* Runs the program's part `what` in a group with a limit of so many megabytes; how often that was hit. */
static long within(long limit, int nested, const char *what, const char *options)
{
    char outer[300], inner[310];
    if (under_stress() || !make_group(outer, inner, limit * MB, nested)) {
        NOTE("no group of memory can be made here, or not under stress: nothing was tested\n");
        return 0;
    }
    pid_t pid = fork();
    if (pid == 0) {
        if (!put(inner, "cgroup.procs", (long)getpid()))
            _exit(97);
        if (options != NULL)
            setenv("GLEANER_OPTIONS", options, 1);
        setenv("CONFORMANCE_CONTAINER", what, 1);
        execl("/proc/self/exe", "container", (char *)NULL);
        _exit(98);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    CHECK_EQ(status, 0);
    long count = hits(outer);
    CHECK_GE(count, 0);
    if (strcmp(inner, outer) != 0)
        rmdir(inner);
    CHECK_EQ(rmdir(outer), 0);
    return count;
}

/* ---- what runs inside ------------------------------------------------- */

struct node {
    struct node *next;
    char text[48];
};

static struct node *list(long count)
{
    struct node *all = NULL;
    for (long i = 0; i < count; i++) {
        struct node *one = GC_MALLOC(sizeof *one);
        memset(one->text, 1, sizeof one->text);
        one->next = all;
        all = one;
    }
    return all;
}

static long length(const struct node *all)
{
    long count = 0;
    for (; all != NULL; all = all->next)
        count++;
    return count;
}

static struct node *volatile kept;

/* So many megabytes live while six times as many come and go. */
static int live(long megabytes)
{
    long count = megabytes * MB / 64;
    kept = list(count);
    for (int i = 0; i < 60; i++)
        list(count / 10);
    return length(kept) == count ? 0 : 20;
}

static int inside(const char *what)
{
    GC_INIT();
    if (strcmp(what, "closed") == 0)
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
    if (strcmp(what, "beside") == 0) {
        char *volatile other = malloc(30 * MB);
        memset(other, 1, 30 * MB);
        return live(60);
    }
    if (strcmp(what, "large") == 0) {
        /* Each is dead when the next is made. */
        kept = list(60 * MB / 64);
        for (int i = 0; i < 40; i++) {
            char *volatile large = GC_MALLOC_ATOMIC(24 * MB);
            memset(large, 1, 24 * MB);
        }
        return length(kept) == 60 * MB / 64 ? 0 : 20;
    }
    return live(60);
}

/* ---- tests ------------------------------------------------------------ */

static void lives_within_a_limit(void)
{
    within(130, 0, "live", NULL);
}

static void never_hits_a_limit(void)
{
    CHECK_EQ(within(109, 0, "live", NULL), 0);
    CHECK_EQ(within(88, 0, "live", NULL), 0);
}

static void never_hits_the_limit_of_an_outer_group(void)
{
    CHECK_EQ(within(88, 1, "live", NULL), 0);
}

static void heeds_what_lies_beside_the_heap(void)
{
    CHECK_EQ(within(108, 0, "beside", NULL), 0);
}

static void heeds_a_limit_in_every_mode(void)
{
    CHECK_EQ(within(92, 0, "live", "generations=incremental"), 0);
    CHECK_EQ(within(92, 0, "live", "generations=sticky"), 0);
    CHECK_EQ(within(92, 0, "live", "heap-sizing=balanced"), 0);
    CHECK_EQ(within(92, 0, "live", "initial-heap=400m"), 0);
}

static void large_objects_come_one_after_the_other(void)
{
    // Three of them at once would need 137; up to 6 more are files that nobody had read before.
    CHECK_EQ(within(132, 0, "large", NULL), 0);
}

static void remembers_a_limit_whose_files_the_program_closed(void)
{
    CHECK_EQ(within(100, 0, "closed", NULL), 0);
}

int main(int argc, char **argv)
{
    const char *what = getenv("CONFORMANCE_CONTAINER");
    if (what != NULL)
        return inside(what);
    h_start(argc, argv);
    RUN(lives_within_a_limit);
    RUN_GLEANER(never_hits_a_limit);
    RUN_GLEANER(never_hits_the_limit_of_an_outer_group);
    RUN_GLEANER(heeds_what_lies_beside_the_heap);
    RUN_GLEANER(heeds_a_limit_in_every_mode);
    RUN_GLEANER(large_objects_come_one_after_the_other);
    RUN_GLEANER(remembers_a_limit_whose_files_the_program_closed);
    return h_finish();
}
