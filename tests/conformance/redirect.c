/* A program whose malloc, calloc, realloc and free are the collector's, as a
 * client makes it that wants libraries' memory to be scanned. Threads and
 * dlopen allocate through them from inside the C library. */
#include "harness.h"
#include <malloc.h>
#include <sched.h>

/* Off until a test begins: the parent must not touch the collector. */
static volatile int redirected, collectable;

/* Before that, and while the library initialises itself, memory comes from
 * here; it is never given back. */
static char arena[4 << 20] __attribute__((aligned(16)));
static size_t arena_used;

static int in_arena(const void *p)
{
    return (const char *)p >= arena && (const char *)p < arena + sizeof arena;
}

static void *from_arena(size_t n)
{
    size_t at = __atomic_fetch_add(&arena_used, (n + 31) / 16 * 16,
                                   __ATOMIC_RELAXED);
    if (at + n + 16 > sizeof arena)
        _exit(99);
    *(size_t *)(arena + at) = n;
    return arena + at + 16;
}

void *malloc(size_t n)
{
    if (!redirected)
        return from_arena(n);
    return collectable ? GC_malloc(n) : GC_malloc_uncollectable(n);
}

void *calloc(size_t n, size_t m)
{
    if (m != 0 && n > SIZE_MAX / m)
        return NULL;
    return malloc(n * m); /* both are cleared */
}

void free(void *p)
{
    if (p != NULL && !in_arena(p))
        GC_free(p);
}

void *realloc(void *p, size_t n)
{
    if (p == NULL)
        return malloc(n);
    if (!in_arena(p))
        return GC_realloc(p, n);
    size_t old = *(size_t *)((char *)p - 16);
    void *q = malloc(n);
    if (q != NULL)
        memcpy(q, p, old < n ? old : n);
    return q;
}

void *memalign(size_t a, size_t n)
{
    if (a <= 16)
        return malloc(n);
    return redirected ? GC_memalign(a, n) : NULL;
}

void *aligned_alloc(size_t a, size_t n) { return memalign(a, n); }

int posix_memalign(void **p, size_t a, size_t n)
{
    *p = memalign(a, n);
    return *p == NULL ? ENOMEM : 0;
}

static void begin(int collect_too)
{
    GC_INIT();
    collectable = collect_too;
    redirected = 1;
}

static int list_of_own(int length)
{
    void **list = NULL;
    for (int i = 0; i < length; i++) {
        void **cell = GC_malloc(32);
        cell[0] = list;
        cell[1] = (void *)(uintptr_t)(2 * i + 1);
        list = cell;
        free(malloc(100));
    }
    for (int i = length - 1; i >= 0; i--, list = list[0])
        if (list == NULL || list[1] != (void *)(uintptr_t)(2 * i + 1))
            return 0;
    return 1;
}

static __thread int tls_count;
static volatile int with_libraries;

static void *worker(void *arg)
{
    char *text = strdup("a string of the thread");
    void *lib = NULL;
    for (int i = 0; i < 20; i++) {
        tls_count++;
        if (!list_of_own(300))
            return NULL;
        if (with_libraries && i % 5 == 0) {
            lib = dlopen("./lib_holder.so", RTLD_NOW);
            if (lib == NULL || dlsym(lib, "holder_set") == NULL)
                return NULL;
            dlclose(lib);
        }
        if (i % 7 == 0)
            GC_gcollect();
        char *copy = NULL;
        if (asprintf(&copy, "%s %d", text, i) < 0)
            return NULL;
        if (strncmp(copy, text, strlen(text)) != 0)
            return NULL;
        free(copy);
    }
    free(text);
    return tls_count == 20 ? arg : NULL;
}

static void threads_and_libraries(int collect_too)
{
    begin(collect_too);
    for (int round = 0; round < 5; round++) {
        pthread_t t[6];
        for (int i = 0; i < 6; i++)
            REQUIRE(pthread_create(&t[i], NULL, worker, &t) == 0);
        for (int i = 0; i < 5; i++) {
            GC_gcollect();
            list_of_own(100);
        }
        for (int i = 0; i < 6; i++) {
            void *r = NULL;
            pthread_join(t[i], &r);
            CHECK_PTR(r, &t);
        }
    }
    check_alive();
}

static void uncollectable(void) { threads_and_libraries(0); }

/* dlclose calls free with the loader's lock; stock asks the loader for its
 * list with the allocation lock: now and then they wait for each other. */
static void libraries(void)
{
    with_libraries = 1;
    threads_and_libraries(0);
}


/* Collectable memory, but no collection: the C library keeps the only pointer
 * to some of its memory (a thread's vector of thread-local blocks, for one)
 * where no collector looks; stock crashes when these are collected. This is
 * about locks. */
static void all_collectable(void)
{
    GC_INIT();
    GC_disable();
    with_libraries = 1;
    threads_and_libraries(1);
}

/* The C library's own users: stdio, environment, qsort's buffer, locale. */
static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void c_library(void)
{
    begin(1);
    for (int round = 0; round < 20; round++) {
        FILE *f = fopen("/proc/self/maps", "r");
        REQUIRE(f != NULL);
        char *line = NULL;
        size_t size = 0;
        int lines = 0;
        while (getline(&line, &size, f) > 0) {
            lines++;
            if (lines % 10 == 0)
                GC_gcollect();
        }
        CHECK_OP(lines, >, 5);
        free(line);
        fclose(f);
        char name[32];
        snprintf(name, sizeof name, "VARIABLE%d", round);
        setenv(name, "value", 1);
        static int numbers[20000];
        for (int i = 0; i < 20000; i++)
            numbers[i] = i * 7919 % 20000;
        qsort(numbers, 20000, sizeof *numbers, compare);
        for (int i = 0; i < 20000; i++)
            CHECK_EQ(numbers[i], i);
    }
    for (int round = 0; round < 20; round++) {
        char name[32];
        snprintf(name, sizeof name, "VARIABLE%d", round);
        CHECK(getenv(name) != NULL && strcmp(getenv(name), "value") == 0);
    }
    check_alive();
}

/* From the very first allocation: the library's initialisation happens inside
 * malloc. Stock allocates during its own initialisation, enters itself again
 * and aborts. */
static void init_inside_malloc(void)
{
    collectable = 1;
    redirected = 1;
    char *p = malloc(100);
    REQUIRE(p != NULL);
    p[0] = 1;
    check_alive();
}

static void init_inside_malloc_of_a_library(void)
{
    redirected = 1;
    void *lib = dlopen("./lib_holder.so", RTLD_NOW);
    CHECK(lib != NULL);
    check_alive();
}

static void with_fork(void)
{
    GC_set_handle_fork(1);
    begin(0);
    pthread_t t;
    REQUIRE(pthread_create(&t, NULL, worker, &t) == 0);
    for (int i = 0; i < 50; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            int good = list_of_own(200);
            GC_gcollect();
            void *lib = dlopen("./lib_holder.so", RTLD_NOW);
            _exit(good && lib != NULL ? 0 : 1);
        }
        int status = 0;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        CHECK_EQ(status, 0);
    }
    pthread_join(t, NULL);
}

/* C-library threads that nobody told the collector about may allocate with
 * malloc too; with uncollectable memory that is what a library does. Stock
 * asserts that a thread is known before it uses its thread-local lists. */
static void *raw_worker(void *arg)
{
    struct GC_stack_base sb;
    GC_get_stack_base(&sb);
    GC_register_my_thread(&sb);
    int good = 1;
    for (int i = 0; i < 200; i++) {
        char *p = malloc(200);
        memset(p, 3, 200);
        p = realloc(p, 2000);
        good &= p[199] == 3;
        free(p);
    }
    GC_unregister_my_thread();
    return good ? arg : NULL;
}

static void raw_threads(void)
{
    typedef int (*creator)(pthread_t *, const pthread_attr_t *,
                           void *(*)(void *), void *);
    creator create = (creator)dlsym(RTLD_DEFAULT, "pthread_create");
    begin(0);
    GC_allow_register_threads();
    for (int round = 0; round < 10; round++) {
        pthread_t t[4];
        for (int i = 0; i < 4; i++)
            REQUIRE(create(&t[i], NULL, raw_worker, &t) == 0);
        GC_gcollect();
        for (int i = 0; i < 4; i++) {
            void *r = NULL;
            typedef int (*joiner)(pthread_t, void **);
            ((joiner)dlsym(RTLD_DEFAULT, "pthread_join"))(t[i], &r);
            CHECK_PTR(r, &t);
        }
    }
    check_alive();
}

MAIN_BEGIN
    RUN(uncollectable);
    RUN_GLEANER(libraries);
    RUN(all_collectable);
    RUN(c_library);
    RUN_GLEANER(init_inside_malloc);
    RUN_GLEANER(init_inside_malloc_of_a_library);
    RUN(with_fork);
    RUN(raw_threads);
MAIN_END
