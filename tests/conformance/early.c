/* Use of the library before main and after it: from a constructor, from exit
 * handlers, from a destructor. The program starts itself again for that. */
#include "harness.h"

static void **early;
static int asked(const char *what)
{
    const char *v = getenv("CONFORMANCE_EARLY");
    return v != NULL && strstr(v, what) != NULL;
}

static void fill(void ***list)
{
    for (int i = 0; i < 1000; i++) {
        void **p = GC_malloc(32);
        p[0] = *list;
        p[1] = (void *)(uintptr_t)(2 * i + 1);
        *list = p;
    }
}

static int whole(void **list)
{
    for (int i = 999; i >= 0; i--, list = list[0])
        if (list == NULL || list[1] != (void *)(uintptr_t)(2 * i + 1))
            return 0;
    return list == NULL;
}

__attribute__((constructor)) static void before_main(void)
{
    if (asked("constructor")) {
        fill(&early);
        GC_gcollect();
    }
}

static void at_end(void)
{
    GC_gcollect();
    if (!whole(early))
        _exit(21);
    void **more = NULL;
    fill(&more);
    if (!whole(more))
        _exit(22);
    check_alive();
    if (h_test_failed)
        _exit(23);
}

__attribute__((destructor)) static void after_main(void)
{
    if (asked("destructor"))
        at_end();
}

/* The child: what runs in the program started again. */
static int again(void)
{
    if (!asked("constructor"))
        fill(&early);
    GC_gcollect();
    churn(4 << 20, 32);
    if (!whole(early))
        return 20;
    if (asked("atexit"))
        atexit(at_end);
    return 0;
}

static void start_again(const char *how)
{
    pid_t pid = fork();
    if (pid == 0) {
        setenv("CONFORMANCE_EARLY", how, 1);
        execl("/proc/self/exe", "early", (char *)NULL);
        _exit(98);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    CHECK_EQ(status, 0);
}

static void in_constructor(void) { start_again("constructor"); }
static void in_atexit(void) { start_again("atexit"); }
static void in_destructor(void) { start_again("destructor"); }
static void in_all(void) { start_again("constructor atexit destructor"); }

/* ---- the first collection ---- */

/* Roots of which a program has that much make collections dear, the first one, too. */
static volatile char roots[3 << 20];

/* Of each size and kind little, and more of the blocks that such objects share: nothing but the objects counts. */
static void small_of_many_sizes(size_t bytes)
{
    for (size_t done = 0, size = 16; done < bytes; done += 2 * size, size = size >= 2000 ? 16 : size + 16)
        CHECK(GC_malloc(size) != NULL && GC_malloc_atomic(size) != NULL);
}

/* A runtime that initialises itself allocates little, of many sizes, and its callbacks do not work yet: Crystal's with threads
 * dies of a collection there. */
static void first_collection_is_not_early(void)
{
    GC_INIT();
    roots[0] = 1;
    GC_word before = GC_get_gc_no();
    /* Stock counts what it has handed to threads. */
    small_of_many_sizes((on_gleaner() ? 1300 : 600) << 10);
    if (!under_stress())
        CHECK_EQ(GC_get_gc_no(), before);
    small_of_many_sizes(30 << 20);
    CHECK_OP(GC_get_gc_no(), >, before);
}

int main(int argc, char **argv)
{
    if (getenv("CONFORMANCE_EARLY") != NULL)
        return again();
    h_start(argc, argv);
    RUN(in_constructor);
    RUN(in_atexit);
    RUN(in_destructor);
    RUN(in_all);
    RUN(first_collection_is_not_early);
    return h_finish();
}
