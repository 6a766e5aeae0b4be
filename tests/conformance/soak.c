/* Everything at once, under a heap limit: threads that come and go, a storm of
 * signals, libraries that are opened and closed, forks, memory that runs out,
 * links, finalizers, objects that are freed by hand. Each thread knows what its
 * objects must hold. 40 waves of 25 threads; with CONFORMANCE_LONG=1, waves of a
 * thousand, as long as SOAK_MINUTES says (1). SOAK_SEED chooses what happens. */
#include "harness.h"
#include <sys/time.h>

enum { LIMIT = 48 << 20, KEPT = 64, STEPS = 400 };

static volatile int quit;
static volatile unsigned long signals, refusals, forks, opened, finalized, made, links_unregistered;

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t seed(uint64_t of)
{
    const char *given = getenv("SOAK_SEED");
    uint64_t state = (of + 1) * 0x9e3779b97f4a7c15u + (given != NULL ? strtoull(given, NULL, 10) : 1);
    return state != 0 ? state : 1;
}

/* ---- signals ------------------------------------------------------------ */

static void on_signal(int signal)
{
    int before = errno;
    (void)signal;
    __atomic_add_fetch(&signals, 1, __ATOMIC_RELAXED);
    errno = before;
}

/* Threads that may be sent signals: they leave the table before they end. */
enum { MOST_THREADS = 1024 };
static pthread_t threads[MOST_THREADS];
static int there[MOST_THREADS];
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;

static void *storms(void *arg)
{
    uint64_t state = seed(1000001);
    while (!quit) {
        int at = (int)(next(&state) % MOST_THREADS);
        pthread_mutex_lock(&table);
        for (int tries = 0; tries < MOST_THREADS && !there[at]; tries++)
            at = (at + 1) % MOST_THREADS;
        if (there[at])
            pthread_kill(threads[at], next(&state) % 2 ? SIGUSR1 : SIGUSR2);
        pthread_mutex_unlock(&table);
        if (next(&state) % 8 == 0)
            nap(50);
    }
    return arg;
}

/* ---- what a thread keeps ------------------------------------------------- */

/* An object knows its own words: a number that its place and age tell. */
typedef struct object {
    struct object *next;
    uint64_t number;
    size_t words;
    uint64_t rest[];
} object;

/* A finalizer sees the object as it was when it died. */
static void finalize(void *dead, void *number)
{
    REQUIRE(((object *)dead)->number == (uint64_t)(uintptr_t)number);
    __atomic_add_fetch(&finalized, 1, __ATOMIC_RELAXED);
}

static object *make(uint64_t *state, uint64_t number, object *tail)
{
    size_t words = next(state) % 40;
    if (next(state) % 50 == 0)
        words = 600 + next(state) % 4000;
    object *o = next(state) % 3 == 0 ? GC_malloc_uncollectable(sizeof *o + words * 8)
                                     : GC_malloc(sizeof *o + words * 8);
    if (o == NULL)
        return NULL;
    REQUIRE(all_zero(o, sizeof *o + words * 8));
    o->next = tail;
    o->number = number * 2 + 1;
    o->words = words;
    for (size_t i = 0; i < words; i++)
        o->rest[i] = (number + i) * 2 + 1;
    __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    return o;
}

/* Says what stands where an object should be: another object, poison, or what a free cell holds. */
static void tell_of(const object *o, uint64_t number)
{
    const uint64_t *words = (const uint64_t *)o;
    NOTE("%p, number %llu, base %p: %llx %llx %llx %llx, in thread %d of process %d\n", (const void *)o,
         (unsigned long long)number, GC_base((void *)(uintptr_t)o), (unsigned long long)words[0],
         (unsigned long long)words[1], (unsigned long long)words[2], (unsigned long long)words[3], (int)gettid(), (int)getpid());
}

static void check(object *o, uint64_t number)
{
    if (o->number != number * 2 + 1)
        tell_of(o, number);
    REQUIRE(o->number == number * 2 + 1);
    for (size_t i = 0; i < o->words; i++)
        REQUIRE(o->rest[i] == (number + i) * 2 + 1);
}

/* Lists of a few objects. Which are uncollectable nobody notes: all are freed by hand in the end. */
typedef struct {
    object *list;
    uint64_t number;
    int length;
} kept;

static void check_list(kept *k)
{
    int length = 0;
    for (object *o = k->list; o != NULL; o = o->next)
        check(o, k->number + (uint64_t)(k->length - ++length));
    REQUIRE(length == k->length);
}

static void free_list(kept *k)
{
    check_list(k);
    for (object *o = k->list, *behind; o != NULL; o = behind) {
        behind = o->next;
        GC_free(o);
    }
    k->list = NULL;
    k->length = 0;
}

static void links_and_finalizers(uint64_t *state)
{
    void **link = GC_malloc_atomic(sizeof *link);
    object *o = GC_malloc(sizeof *o);
    if (link == NULL || o == NULL)
        return;
    uint64_t number = next(state) | 1;
    o->number = number;
    *link = (void *)GC_HIDE_POINTER(o);
    REQUIRE(GC_general_register_disappearing_link(link, o) == GC_SUCCESS);
    GC_register_finalizer(o, finalize, (void *)(uintptr_t)number, NULL, NULL);
    if (next(state) % 64 == 0)
        GC_gcollect();
    REQUIRE(*link == (void *)GC_HIDE_POINTER(o) && o->number == number);
    if (next(state) % 2 == 0) {
        REQUIRE(GC_unregister_disappearing_link(link) == 1);
        __atomic_add_fetch(&links_unregistered, 1, __ATOMIC_RELAXED);
    }
}

/* Takes memory until there is none; then all is dropped, and there is some again. */
static void run_out(void)
{
    void **blocks = NULL;
    int refused = 0;
    for (int i = 0; i < 200 && !refused; i++) {
        void **block = GC_malloc(1 << 20);
        refused = block == NULL;
        if (!refused) {
            block[0] = blocks;
            blocks = block;
        }
    }
    REQUIRE(refused); /* 200 MB do not fit below the limit. */
    __atomic_add_fetch(&refusals, 1, __ATOMIC_RELAXED);
}

static void work(uint64_t number)
{
    uint64_t state = seed(number), serial = number << 20;
    kept lists[KEPT];
    memset(lists, 0, sizeof lists);
    for (int step = 0; step < STEPS; step++) {
        kept *k = &lists[next(&state) % KEPT];
        switch (next(&state) % 8) {
        case 0:
            check_list(k);
            break;
        case 1:
            free_list(k);
            break;
        case 2:
            links_and_finalizers(&state);
            break;
        default:
            if (k->list == NULL)
                k->number = serial, serial += 1 << 10;
            object *o = make(&state, k->number + (uint64_t)k->length, k->list);
            if (o != NULL) {
                k->list = o;
                k->length++;
            }
        }
        if (next(&state) % 8000 == 0)
            run_out();
        if (next(&state) % 1000 == 0)
            GC_gcollect();
    }
    for (int i = 0; i < KEPT; i++)
        free_list(&lists[i]);
}

static void *comes_and_goes(void *arg)
{
    uint64_t number = (uint64_t)(uintptr_t)arg;
    int at = (int)(number % MOST_THREADS);
    pthread_mutex_lock(&table);
    threads[at] = pthread_self();
    there[at] = 1;
    pthread_mutex_unlock(&table);
    work(number);
    pthread_mutex_lock(&table);
    there[at] = 0;
    pthread_mutex_unlock(&table);
    if (number % 3 == 0)
        GC_pthread_exit(arg);
    return arg;
}

/* ---- libraries and children ---------------------------------------------- */

/* A child of a process that opens a library at that moment has the loader's lock, which nobody there can
 * give back: the C library wants programs to see to this themselves. */
static pthread_mutex_t loader = PTHREAD_MUTEX_INITIALIZER;

static void *opens_and_closes(void *arg)
{
    uint64_t state = seed(1000002), number = 0;
    while (!quit) {
        pthread_mutex_lock(&loader);
        void *library = dlopen("./lib_holder.so", RTLD_NOW | RTLD_LOCAL);
        pthread_mutex_unlock(&loader);
        REQUIRE(library != NULL);
        void (*set)(int, int, void *) = (void (*)(int, int, void *))dlsym(library, "holder_set");
        void *(*get)(int, int) = (void *(*)(int, int))dlsym(library, "holder_get");
        int filled = 0;
        for (int i = 0; i < 100; i++, filled++) {
            object *o = GC_malloc(sizeof *o);
            if (o == NULL)
                break;
            o->number = (number + (uint64_t)i) * 2 + 1;
            set(i % 2, i, o);
        }
        if (next(&state) % 4 == 0)
            GC_gcollect();
        for (int i = 0; i < filled; i++)
            check(get(i % 2, i), number + (uint64_t)i);
        for (int i = 0; i < filled; i++)
            set(i % 2, i, NULL);
        pthread_mutex_lock(&loader);
        dlclose(library);
        pthread_mutex_unlock(&loader);
        number += 1000;
        __atomic_add_fetch(&opened, 1, __ATOMIC_RELAXED);
    }
    return arg;
}

static void *works_in_child(void *arg)
{
    work((uint64_t)(uintptr_t)arg);
    return arg;
}

static void *forks_now_and_then(void *arg)
{
    uint64_t state = seed(1000003);
    kept own = {NULL, 7, 0};
    while (own.length < 300) {
        object *o = make(&state, own.number + (uint64_t)own.length, own.list);
        if (o != NULL) {
            own.list = o;
            own.length++;
        }
    }
    while (!quit) {
        pthread_mutex_lock(&loader);
        pid_t child = fork();
        if (child != 0)
            pthread_mutex_unlock(&loader);
        REQUIRE(child >= 0);
        if (child == 0) {
            pthread_t thread;
            signal(SIGALRM, SIG_IGN);
            check_list(&own);
            GC_gcollect();
            check_list(&own);
            work(next(&state) % 1000);
            REQUIRE(GC_pthread_create(&thread, NULL, works_in_child, (void *)(uintptr_t)5) == 0);
            REQUIRE(GC_pthread_join(thread, NULL) == 0);
            _exit(h_test_failed ? 1 : 42);
        }
        int status = 0;
        while (waitpid(child, &status, 0) < 0)
            REQUIRE(errno == EINTR);
        if (WIFSIGNALED(status))
            NOTE("a child died of signal %d\n", WTERMSIG(status));
        REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 42);
        __atomic_add_fetch(&forks, 1, __ATOMIC_RELAXED);
    }
    check_list(&own);
    return arg;
}

/* ---- all at once ----------------------------------------------------------- */

static void *refuses(size_t bytes)
{
    (void)bytes;
    return NULL;
}

static void silent(char *text, GC_word argument)
{
    (void)text;
    (void)argument;
}

static int enough(int waves, time_t start)
{
    const char *given = getenv("SOAK_MINUTES");
    if (!long_run())
        return waves >= 40;
    return time(NULL) - start >= 60 * (given != NULL ? atol(given) : 1);
}

static void soak(void)
{
    static pthread_t workers[1000];
    pthread_t others[3];
    int count = long_run() ? 1000 : 25;
    uint64_t number = 1;
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    time_t start = time(NULL);
    GC_set_max_heap_size(LIMIT);
    GC_set_oom_fn(refuses);
    GC_set_warn_proc(silent);
    GC_set_handle_fork(1);
    GC_INIT();
    GC_allow_register_threads();
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    for (int i = 0; i < 3; i++)
        REQUIRE(sigaction((int[]){SIGUSR1, SIGUSR2, SIGALRM}[i], &action, NULL) == 0);
    REQUIRE(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    REQUIRE(GC_pthread_create(&others[0], NULL, storms, NULL) == 0);
    REQUIRE(GC_pthread_create(&others[1], NULL, opens_and_closes, NULL) == 0);
    REQUIRE(GC_pthread_create(&others[2], NULL, forks_now_and_then, NULL) == 0);
    for (int waves = 0; !enough(waves, start); waves++) {
        for (int i = 0; i < count; i++, number++)
            REQUIRE(GC_pthread_create(&workers[i], NULL, comes_and_goes, (void *)(uintptr_t)number) == 0);
        for (int i = 0; i < count; i++) {
            void *result = NULL;
            REQUIRE(GC_pthread_join(workers[i], &result) == 0);
            REQUIRE(result == (void *)(uintptr_t)(number - (uint64_t)count + (uint64_t)i));
        }
    }
    quit = 1;
    for (int i = 0; i < 3; i++)
        REQUIRE(GC_pthread_join(others[i], NULL) == 0);
    timer = (struct itimerval){{0, 0}, {0, 0}};
    REQUIRE(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    collect();
    while (GC_invoke_finalizers() > 0)
        ;
    NOTE("%lu threads, %lu objects, %lu signals, %lu times out of memory, %lu forks, %lu libraries, %lu finalizers\n",
         (unsigned long)(number - 1), made, signals, refusals, forks, opened, finalized);
    CHECK_GE(signals, 1);
    CHECK_GE(refusals, 1);
    CHECK_GE(forks, 1);
    CHECK_GE(opened, 1);
    CHECK_GE(finalized, 1);
    CHECK_GE(links_unregistered, 1);
    CHECK_LE(GC_get_heap_size(), LIMIT);
    check_alive();
}

MAIN_BEGIN
    RUN_GLEANER(soak); /* libgc 8.2.2 dies of it, in a collection. */
MAIN_END
