/* What programs about idle time share: cells that are kept and dropped, the log, and the watcher. */
#ifndef IDLE_H
#define IDLE_H
#include "harness.h"
#include <dirent.h>
#include <poll.h>

enum { CELL = 64 };

static char log_name[] = "/tmp/gleaner-idle-XXXXXX";

static UNUSED void make_log(void)
{
    int file = mkstemp(log_name);
    REQUIRE(file >= 0);
    close(file);
}

/* Starts the library with the log. */
static UNUSED void start_with_log(const char *options)
{
    char more[200];
    snprintf(more, sizeof more, "log=%s,%s", log_name, options);
    add_options(more);
    GC_INIT();
}

static UNUSED void start_idle(const char *options)
{
    make_log();
    start_with_log(options);
}

static UNUSED void end_idle(void)
{
    unlink(log_name);
}

/* How many events of this name and with this reason the log has of this process, and their bytes. */
static UNUSED int events_of(const char *event, const char *reason, long *bytes)
{
    static char line[8192];
    char begin[80];
    int events = 0;
    FILE *log = fopen(log_name, "r");
    REQUIRE(log != NULL);
    *bytes = 0;
    snprintf(begin, sizeof begin, "{\"event\":\"%s\",\"pid\":%d,", event, (int)getpid());
    while (fgets(line, sizeof line, log) != NULL)
        if (strncmp(line, begin, strlen(begin)) == 0 && strstr(line, reason) != NULL) {
            const char *number = strstr(line, "\"bytes\":");
            *bytes += number != NULL ? atol(number + 8) : 0;
            events++;
        }
    fclose(log);
    return events;
}

static UNUSED long given_back(const char *reason)
{
    long bytes;
    events_of("give-back", reason, &bytes);
    return bytes;
}

static UNUSED int collections_for(const char *reason)
{
    long bytes;
    return events_of("end", reason, &bytes);
}

#define NOTHING "nothing was allocated"
#define LITTLE "little is allocated"

static UNUSED void wait_until_given_back(const char *reason, long bytes)
{
    while (given_back(reason) < bytes)
        usleep(20000);
}

static UNUSED long unused_bytes(void)
{
    return under_stress() ? 4 << 20 : 12 << 20;
}

/* Cells that take a little more than what is to go back, at first kept and then dropped. No stray word keeps more than one. */
static unsigned char *kept[(12 << 20) / CELL / 4 * 5];

static UNUSED long cells(void)
{
    return unused_bytes() / CELL / 4 * 5;
}

static NOINLINE UNUSED void make_cells(void)
{
    for (long i = 0; i < cells(); i++) {
        kept[i] = GC_malloc(CELL - 1);
        CHECK(all_zero(kept[i], CELL - 1));
        memset(kept[i], 1, CELL - 1);
    }
}

static UNUSED void drop_cells(void)
{
    memset(kept, 0, sizeof kept);
    collect();
}

static UNUSED int has_thread(const char *wanted)
{
    char path[320], name[32];
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        if (task->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *f = fopen(path, "r");
        if (f != NULL && fgets(name, sizeof name, f) != NULL)
            found += strncmp(name, wanted, strlen(wanted)) == 0;
        if (f != NULL)
            fclose(f);
    }
    closedir(tasks);
    return found;
}

/* A helper that marks is made when the heap is large enough, and the watcher behind it. */
static UNUSED void make_watcher(void)
{
    while (!has_thread("gleaner-idle-1")) {
        GC_gcollect();
        churn(64 << 10, 40);
    }
}

#endif
