/* A client that knows nothing of threads: compiled without GC_THREADS, so the
 * macros of gc.h for the lock and for pthread calls are empty. */
#define HARNESS_SINGLE 1
#include "harness.h"
#include <gc/gc_inline.h>
#include <gc/gc_typed.h>

#ifdef GC_THREADS
#error "this program is for clients without threads"
#endif

static void **volatile root;

static void allocates(void)
{
    GC_INIT();
    for (int i = 0; i < 300000; i++) {
        void **p = GC_MALLOC(32);
        CHECK(p[0] == NULL);
        p[0] = (void *)root;
        p[1] = (void *)(uintptr_t)(2 * i + 1);
        root = i % 1000 == 0 ? p : root;
        GC_MALLOC_ATOMIC(20);
    }
    GC_gcollect();
    int n = 0;
    for (void **p = (void **)root; p != NULL; p = p[0], n++)
        CHECK_EQ((uintptr_t)p[1] % 2000, 1);
    CHECK_EQ(n, 300);
}

static void lock_is_empty(void)
{
    GC_INIT();
    GC_alloc_lock();
    void *p = GC_MALLOC(10);
    GC_alloc_unlock();
    CHECK(p != NULL);
    CHECK(GC_malloc_kind_global(10, 1) != NULL);
}

static int finals;
static void on_final(void *obj, void *cd)
{
    (void)obj;
    (void)cd;
    finals++;
}

static NOINLINE void make(void)
{
    for (int i = 0; i < MANY; i++)
        GC_REGISTER_FINALIZER(GC_MALLOC(40), on_final, NULL, NULL, NULL);
}

static void finalizes(void)
{
    GC_INIT();
    deep(make);
    for (int i = 0; i < 3; i++) {
        collect();
        churn(1 << 20, 40);
    }
    GC_invoke_finalizers();
    CHECK_GE(finals, MOST(MANY));
}

/* A fork after collections, without having asked for fork handling. (Stock has
 * one thread here: its markers start with the client's first thread. Gleaner
 * may have more.) */
static void collects_and_forks(void)
{
    char line[128];
    GC_INIT();
    churn(50 << 20, 100);
    GC_gcollect();
    FILE *f = fopen("/proc/self/status", "r");
    REQUIRE(f != NULL);
    while (fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "Threads:", 8) == 0)
            NOTE("threads after a collection: %d\n", atoi(line + 8));
    fclose(f);
    pid_t pid = fork();
    if (pid == 0) {
        churn(20 << 20, 100);
        GC_gcollect();
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    CHECK_EQ(status, 0);
    check_alive();
}

MAIN_BEGIN
    RUN(allocates);
    RUN(lock_is_empty);
    RUN(finalizes);
    RUN(collects_and_forks);
MAIN_END
