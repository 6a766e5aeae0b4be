/* Calls of the library from its own callbacks and from
 * GC_call_with_alloc_lock. gc.h forbids most of them, but stock takes no lock
 * while the program has one thread, so programs make them: the Crystal
 * compiler allocates in its push-other-roots procedure. */
#include "harness.h"
#include <gc/gc_mark.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

static void start(void)
{
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
}

/* Less where each allocation collects. */
static void some_churn(size_t bytes, size_t size)
{
    churn(under_stress() ? 100 * size : bytes, size);
}

/* What callbacks allocate: objects of all ways, filled and checked. */
enum { SMALL = 8, MOST_MADE = 20000 };
struct made {
    void *object;
    size_t bytes;
};
static struct made made[MOST_MADE];
static int calls;
static volatile int made_count, most_calls = 5;

static void note_made(void *object, size_t bytes)
{
    REQUIRE(object != NULL && made_count < MOST_MADE);
    memset(object, 0x40 + made_count % 32, bytes);
    made[made_count].object = object;
    made[made_count++].bytes = bytes;
}

static void make_some(void)
{
    if (calls++ >= most_calls)
        return;
    for (int i = 0; i < 200; i++)
        note_made(GC_malloc(16 + i), 16 + i);
    note_made(GC_malloc_atomic(100), 100);
    note_made(GC_malloc(100000), 100000);
    note_made(GC_malloc_uncollectable(64), 64);
    note_made(GC_memalign(4096, 300), 300);
    void *list = GC_malloc_many(48);
    for (int i = 0; i < SMALL && list != NULL; i++) {
        void *next = *(void **)list;
        note_made(list, 48);
        list = next;
    }
}

/* No two of them share memory, and nobody else wrote to them. */
static void check_made(void)
{
    CHECK_OP(made_count, >, 0);
    for (int i = 0; i < made_count; i++)
        for (size_t j = 0; j < made[i].bytes; j++)
            if (((char *)made[i].object)[j] != 0x40 + i % 32) {
                CHECK_EQ(((char *)made[i].object)[j], 0x40 + i % 32);
                return;
            }
}

static GC_push_other_roots_proc next_push;
static void *little[100];

/* As the Crystal compiler does, for each of its fibers: a closure. */
static void make_little(void)
{
    little[calls++ % 100] = GC_malloc(16);
}

/* Stock loses what it allocates too often here, so it does so now and then. */
static void push_and_make_little(void)
{
    if (next_push != NULL)
        next_push();
    if (calls++ < 3)
        little[calls] = GC_malloc(16);
}

static void push_other_roots(void)
{
    start();
    next_push = GC_get_push_other_roots();
    GC_set_push_other_roots(push_and_make_little);
    for (int i = 0; i < 3; i++)
        GC_gcollect();
    CHECK_GE(calls, 3);
    some_churn(10 << 20, 100);
    GC_set_push_other_roots(next_push);
    check_alive();
}

static int events[GC_EVENT_THREAD_UNSUSPENDED + 1];
static void event_and_make(GC_EventType event)
{
    events[event]++;
    if (event == GC_EVENT_START || event == GC_EVENT_END)
        make_little();
}

static void collection_events(void)
{
    start();
    GC_set_on_collection_event(event_and_make);
    for (int i = 0; i < 10; i++) {
        GC_gcollect();
        some_churn(1 << 20, 40);
    }
    CHECK_GE(calls, 20);
    GC_set_on_collection_event(NULL);
    check_alive();
}

static void push_and_make(void)
{
    next_push();
    make_some();
}

static void *make_locked(void *arg)
{
    make_some();
    return arg;
}

static void call_with_alloc_lock(void)
{
    start();
    for (int i = 0; i < 4; i++)
        CHECK_PTR(GC_call_with_alloc_lock(make_locked, &calls), &calls);
    check_made();
    CHECK_EQ(calls, 4);
    check_alive();
}

static void *collect_locked(void *arg)
{
    GC_gcollect();
    return arg;
}

static void collect_under_the_lock(void)
{
    start();
    GC_word before = GC_get_gc_no();
    GC_call_with_alloc_lock(collect_locked, NULL);
    CHECK_OP(GC_get_gc_no(), >, before);
    check_alive();
}

static void alloc_lock_pair(void)
{
    start();
    GC_alloc_lock();
    make_some();
    GC_alloc_lock();
    make_some();
    GC_alloc_unlock();
    make_some();
    GC_alloc_unlock();
    check_made();
    check_alive();
}

/* Tables, settings and counters from inside. */
static GC_word hidden;
static void final(void *object, void *data)
{
    (void)object;
    ++*(int *)data;
}

static int finalized;
static NOINLINE void use_tables(void)
{
    void *object = GC_malloc(32);
    struct GC_prof_stats_s stats;
    GC_register_finalizer(object, final, &finalized, NULL, NULL);
    hidden = GC_HIDE_POINTER(object);
    GC_general_register_disappearing_link((void **)&hidden, object);
    GC_add_roots(events, events + 4);
    GC_remove_roots(events, events + 4);
    CHECK(GC_get_prof_stats(&stats, sizeof stats) == sizeof stats);
    CHECK_OP(GC_get_memory_use(), >, 0);
    GC_free(GC_malloc(24));
    GC_free(GC_malloc_uncollectable(24));
    GC_free(GC_malloc(50000));
    GC_free(GC_malloc_uncollectable(50000));
    object = GC_realloc(GC_malloc(24), 4000);
    CHECK(object != NULL);
}

static void *tables_locked(void *arg)
{
    use_tables();
    return arg;
}

static void tables(void)
{
    start();
    for (int i = 0; i < 20; i++) {
        GC_call_with_alloc_lock(tables_locked, NULL);
        some_churn(200000, 32);
    }
    collect();
    collect();
    CHECK_GE(finalized, MOST(20));
    check_alive();
}

/* ---- what stock does not promise --------------------------------------- */

/* In every event, and between two roots. */
static void on_every_event(GC_EventType event)
{
    GC_word before = GC_get_gc_no();
    events[event]++;
    use_tables();
    for (int i = 0; i < 50; i++)
        GC_malloc(1000);
    GC_gcollect(); /* does nothing here */
    GC_word limit = event == GC_EVENT_END ? before + 1 : before;
    CHECK_LE(GC_get_gc_no(), limit);
}

static void push_and_use(void)
{
    use_tables();
    next_push();
    use_tables();
}

static void everything_in_every_callback(void)
{
    start();
    next_push = GC_get_push_other_roots();
    GC_set_push_other_roots(push_and_use);
    GC_set_on_collection_event(on_every_event);
    for (int i = 0; i < 20; i++) {
        GC_gcollect();
        some_churn(2 << 20, 32);
    }
    CHECK_GE(events[GC_EVENT_RECLAIM_END], 20);
    GC_set_on_collection_event(NULL);
    GC_set_push_other_roots(next_push);
    check_alive();
}

/* What a callback allocates while roots are pushed lives through this
 * collection, found or not: its links are not cleared. The next one frees it. */
static void push_and_watch(void)
{
    next_push();
    if (calls++ > 0)
        return;
    for (int i = 0; i < 200; i++)
        watch(i, GC_malloc(16 + i));
    for (int i = 200; i < 210; i++)
        watch(i, GC_malloc(30000));
}

static void objects_are_born_marked(void)
{
    start();
    next_push = GC_get_push_other_roots();
    GC_set_push_other_roots(push_and_watch);
    GC_gcollect();
    CHECK_EQ(calls, 1);
    CHECK_NONE_GONE(210);
    collect();
    CHECK_MOST_GONE(210);
    check_alive();
}

static void made_in_push_other_roots_are_kept(void)
{
    start();
    next_push = GC_get_push_other_roots();
    GC_set_push_other_roots(push_and_make);
    GC_gcollect();
    GC_set_push_other_roots(next_push);
    some_churn(4 << 20, 40);
    check_made();
    for (int i = 0; i < 5; i++)
        collect();
    check_made();
}

/* What a callback frees goes with the collection, whatever refers to it: here words of an object that is
 * scanned after the callback. */
enum { LARGE = 20, LARGE_BYTES = 50000 };
static void **dropped;
static void make_dropped(void)
{
    dropped = GC_malloc(2 * LARGE * sizeof *dropped);
    for (int i = 0; i < 2 * LARGE; i++)
        dropped[i] = i < LARGE ? GC_malloc_uncollectable(LARGE_BYTES) : GC_malloc_atomic(LARGE_BYTES);
}

static void push_and_free(void)
{
    next_push();
    if (calls++ == 0)
        for (int i = 0; i < 2 * LARGE; i++)
            GC_free(dropped[i]);
}

static size_t in_use(void)
{
    return GC_get_heap_size() - GC_get_free_bytes();
}

static void freed_large_objects_go(void)
{
    start();
    next_push = GC_get_push_other_roots();
    GC_disable();
    make_dropped();
    GC_enable();
    size_t before = in_use();
    GC_word uncollectable = GC_get_non_gc_bytes();
    GC_set_push_other_roots(push_and_free);
    GC_gcollect();
    GC_set_push_other_roots(next_push);
    CHECK_LE(in_use(), before - 2 * LARGE * LARGE_BYTES);
    CHECK_LE(GC_get_non_gc_bytes(), uncollectable - LARGE * LARGE_BYTES);
    CHECK_GE(GC_get_non_gc_bytes(), uncollectable - LARGE * (LARGE_BYTES + 4096));
    check_alive();
}

static void push_and_free_twice(void)
{
    next_push();
    GC_free(dropped[0]);
    GC_free(dropped[0]);
}

static void free_twice_in_a_callback(void)
{
    start();
    next_push = GC_get_push_other_roots();
    make_dropped();
    GC_set_push_other_roots(push_and_free_twice);
    GC_gcollect();
}

/* In a program that looks for leaks. */
static void push_and_free_little(void)
{
    next_push();
    if (calls++ == 0) {
        for (int i = 0; i < 100; i++)
            GC_free(little[i]);
        GC_free(dropped[LARGE]);
    }
}

static void free_what_would_leak(void)
{
    GC_set_find_leak(1);
    start();
    next_push = GC_get_push_other_roots();
    for (int i = 0; i < 100; i++)
        little[i] = GC_malloc(40);
    make_dropped();
    GC_set_push_other_roots(push_and_free_little);
    GC_gcollect();
    GC_set_push_other_roots(next_push);
    memset(little, 0, sizeof little);
    dropped[LARGE] = NULL;
    collect();
    _exit(0);
}

static void freed_objects_are_no_leaks(void)
{
    char text[4096];
    int status = run_captured(free_what_would_leak, text, sizeof text);
    CHECK_EQ(status, 0);
    CHECK_EQ(strlen(text), 0);
    if (text[0] != '\0')
        NOTE("%.200s\n", text);
}

/* As long as the lock is held nothing is collected, however much is allocated. */
static void *allocate_much(void *arg)
{
    GC_word before = GC_get_gc_no();
    some_churn(64 << 20, 4000);
    CHECK_EQ(GC_get_gc_no(), before);
    return arg;
}

static void no_collection_under_the_lock(void)
{
    start();
    GC_call_with_alloc_lock(allocate_much, NULL);
    check_alive();
}

static void *nothing(void *arg) { return arg; }

/* With a second thread stock waits for itself; here the process ends. */
static void *sleeps(void *arg)
{
    for (;;)
        nap(100000);
    return arg;
}

static void allocate_locked_in_two_threads(void)
{
    pthread_t thread;
    start();
    REQUIRE(GC_pthread_create(&thread, NULL, sleeps, NULL) == 0);
    GC_call_with_alloc_lock(make_locked, NULL);
}

static void allocate_in_event_in_two_threads(void)
{
    pthread_t thread;
    start();
    REQUIRE(GC_pthread_create(&thread, NULL, sleeps, NULL) == 0);
    GC_set_on_collection_event(event_and_make);
    GC_gcollect();
}

static unsigned marks_kind;
static struct GC_ms_entry *proc_that_allocates(GC_word *object, struct GC_ms_entry *top,
                                               struct GC_ms_entry *limit, GC_word env)
{
    (void)object;
    (void)limit;
    (void)env;
    GC_get_memory_use();
    return top;
}

static void call_in_a_mark_procedure(void)
{
    start();
    unsigned proc = GC_new_proc(proc_that_allocates);
    marks_kind = GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(proc, 0), 0, 1);
    made[0].object = GC_generic_malloc(32, marks_kind);
    GC_gcollect();
}

static void call_in_a_mark_procedure_locked(void)
{
    start();
    unsigned proc = GC_new_proc(proc_that_allocates);
    marks_kind = GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(proc, 0), 0, 1);
    made[0].object = GC_generic_malloc(32, marks_kind);
    GC_call_with_alloc_lock(collect_locked, NULL);
}

static void unregister_on_event(GC_EventType event)
{
    if (event == GC_EVENT_MARK_START)
        GC_unregister_my_thread();
}

static void unregister_in_an_event(void)
{
    start();
    GC_set_on_collection_event(unregister_on_event);
    GC_gcollect();
}

static void *create_locked(void *arg)
{
    pthread_t thread;
    GC_pthread_create(&thread, NULL, nothing, NULL);
    return arg;
}

static void create_a_thread_locked(void)
{
    start();
    GC_call_with_alloc_lock(create_locked, NULL);
}

/* A handler that allocates, of a signal that arrives while the lock is held: freed memory is overwritten under it. */
static char *guarded_page;
static void allocate_on_fault(int signal)
{
    (void)signal;
    mprotect(guarded_page, 4096, PROT_READ | PROT_WRITE);
    GC_malloc(16);
}

static void call_in_a_handler_after_the_lock_was_the_clients(void)
{
    setenv("GLEANER_OPTIONS", "poison=on", 1);
    start();
    char *object = GC_malloc_atomic(64 << 10);
    guarded_page = (char *)(((GC_word)object + 8191) & ~(GC_word)4095);
    signal(SIGSEGV, allocate_on_fault);
    GC_alloc_lock();
    GC_alloc_unlock();
    REQUIRE(mprotect(guarded_page, 4096, PROT_NONE) == 0);
    GC_free(object);
}

/* Another thread's call waits for a collection, and is not taken for one of its callbacks. */
enum { ATTACHED = 1, IN_A_COLLECTION, DONE };
static _Atomic int stage;
static void *unregisters_meanwhile(void *arg)
{
    struct GC_stack_base base;
    CHECK_EQ(GC_get_stack_base(&base), GC_SUCCESS);
    CHECK_EQ(GC_register_my_thread(&base), GC_SUCCESS);
    stage = ATTACHED;
    while (stage != IN_A_COLLECTION)
        usleep(100);
    CHECK_EQ(GC_unregister_my_thread(), GC_SUCCESS);
    stage = DONE;
    return arg;
}

static void on_start_let_another_go_on(GC_EventType event)
{
    if (event == GC_EVENT_START && stage == ATTACHED) {
        stage = IN_A_COLLECTION;
        usleep(100000); /* it has called the library by now, as a rule */
        CHECK_EQ(stage, IN_A_COLLECTION);
    }
}

static void other_threads_are_not_in_the_collection(void)
{
    pthread_t thread;
    start();
    GC_allow_register_threads();
    REQUIRE(raw_create()(&thread, NULL, unregisters_meanwhile, NULL) == 0);
    while (stage != ATTACHED)
        usleep(100);
    GC_set_on_collection_event(on_start_let_another_go_on);
    GC_gcollect();
    GC_set_on_collection_event(NULL);
    CHECK_EQ(raw_join()(thread, NULL), 0);
    CHECK_EQ(stage, DONE);
}

static void check_ends(void (*body)(void), const char *says)
{
    char text[4096];
    int status = run_captured(body, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    if (strstr(text, says) == NULL) {
        NOTE("%s\n", text);
        CHECK(strstr(text, says) != NULL);
    }
}

static void waiting_for_itself_ends_with_a_message(void)
{
    check_ends(allocate_locked_in_two_threads, "GC_call_with_alloc_lock");
    check_ends(allocate_in_event_in_two_threads, "a callback of a collection");
    check_ends(call_in_a_mark_procedure, "a mark procedure");
    check_ends(call_in_a_mark_procedure_locked, "a mark procedure");
    check_ends(call_in_a_handler_after_the_lock_was_the_clients, "or a signal handler");
    check_ends(create_a_thread_locked, "GC_pthread_create");
}

static void misuse_ends_with_a_message(void)
{
    check_ends(free_twice_in_a_callback, "double free");
    check_ends(unregister_in_an_event, "GC_unregister_my_thread");
}

/* A thread that the library does not know forks while the lock is held: it waits for the lock, and the holder must
 * not wait for it. */
static volatile int forks;
static void *forks_once(void *arg)
{
    forks = 1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return arg;
}

static void *collect_while_another_forks(void *arg)
{
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))
            dlsym(RTLD_DEFAULT, "pthread_create");
    REQUIRE(create(arg, NULL, forks_once, NULL) == 0);
    while (!forks)
        nap(1000);
    nap(100000);
    GC_gcollect();
    return arg;
}

static void collect_under_the_lock_against_a_fork(void)
{
    pthread_t thread;
    start();
    GC_gcollect();
    GC_call_with_alloc_lock(collect_while_another_forks, &thread);
    int (*join)(pthread_t, void **) = (int (*)(pthread_t, void **))dlsym(RTLD_DEFAULT, "pthread_join");
    CHECK_EQ(join(thread, NULL), 0);
    check_alive();
}

/* Reading counters is no question of locks. */
static volatile size_t seen_size;
static void on_event_counts(GC_EventType event)
{
    (void)event;
    seen_size = GC_get_heap_size() + GC_get_free_bytes() + GC_get_total_bytes() + GC_get_gc_no()
                + GC_get_bytes_since_gc() + GC_get_unmapped_bytes();
    GC_base(made);
}

static void counters_in_events_with_threads(void)
{
    pthread_t thread;
    start();
    REQUIRE(GC_pthread_create(&thread, NULL, nothing, NULL) == 0);
    GC_set_on_collection_event(on_event_counts);
    GC_gcollect();
    CHECK_OP(seen_size, >, 0);
    GC_set_on_collection_event(NULL);
    GC_pthread_join(thread, NULL);
}

/* ---- refused signals ----------------------------------------------------- */

static void refuse_signals(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void on_abort_func(const char *message)
{
    if (message != NULL)
        h_say(2, "%s\n", message);
    _exit(77);
}

static void collect_without_signals(void)
{
    pthread_t thread;
    start();
    GC_set_abort_func(on_abort_func);
    REQUIRE(GC_pthread_create(&thread, NULL, sleeps, NULL) == 0);
    refuse_signals();
    GC_gcollect();
}

static void refused_signals_end_with_a_message(void)
{
    char text[4096];
    int status = run_captured(collect_without_signals, text, sizeof text);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 77);
    CHECK_OP(strlen(text), >, 10);
    if (on_gleaner())
        CHECK(strstr(text, "tgkill") != NULL);
}

MAIN_BEGIN
    RUN(push_other_roots);
    RUN(collection_events);
    RUN(call_with_alloc_lock);
    RUN(collect_under_the_lock);
    RUN(alloc_lock_pair);
    RUN(tables);
    RUN(counters_in_events_with_threads);
    RUN(other_threads_are_not_in_the_collection);
    RUN(refused_signals_end_with_a_message);
    RUN_GLEANER(everything_in_every_callback);
    RUN_GLEANER(objects_are_born_marked);
    RUN_GLEANER(made_in_push_other_roots_are_kept);
    RUN_GLEANER(no_collection_under_the_lock);
    RUN_GLEANER(waiting_for_itself_ends_with_a_message);
    RUN_GLEANER(misuse_ends_with_a_message);
    RUN_GLEANER(freed_large_objects_go);
    RUN_GLEANER(freed_objects_are_no_leaks);
    RUN_GLEANER(collect_under_the_lock_against_a_fork);
MAIN_END
