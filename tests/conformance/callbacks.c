/* What the collector calls, and the values that clients set. */
#include "harness.h"
#include <gc/gc_mark.h>

/* ---- at the start of a collection ---- */

static int started;
static void on_start(void) { started++; }

static void start_callback(void)
{
    GC_INIT();
    CHECK(GC_get_start_callback() == NULL);
    GC_set_start_callback(on_start);
    CHECK(GC_get_start_callback() == on_start);
    GC_gcollect();
    CHECK_EQ(started, 1);
    churn((size_t)256 << 20, 100);
    CHECK_OP(started, >, 1);
    GC_set_start_callback(NULL);
    int n = started;
    GC_gcollect();
    CHECK_EQ(started, n);
}

/* ---- collection events ---- */

static GC_EventType events[1000];
static int event_count;
static void on_event(GC_EventType e)
{
    if (event_count < 1000)
        events[event_count++] = e;
}

static int find(GC_EventType e, int from)
{
    for (int i = from; i < event_count; i++)
        if (events[i] == e)
            return i;
    return -1;
}

/* Once each, in this order. */
static void collection_events(void)
{
    static const GC_EventType wanted[] = {
        GC_EVENT_START,           GC_EVENT_PRE_STOP_WORLD,
        GC_EVENT_POST_STOP_WORLD, GC_EVENT_MARK_START,
        GC_EVENT_MARK_END,        GC_EVENT_PRE_START_WORLD,
        GC_EVENT_POST_START_WORLD, GC_EVENT_RECLAIM_START,
        GC_EVENT_RECLAIM_END,     GC_EVENT_END};
    GC_INIT();
    CHECK(GC_get_on_collection_event() == NULL);
    GC_set_on_collection_event(on_event);
    CHECK(GC_get_on_collection_event() == on_event);
    GC_gcollect();
    int at = 0;
    for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        int found = find(wanted[i], 0);
        if (found < at) {
            NOTE("event %d at %d, after position %d\n", wanted[i], found, at);
            CHECK(!"the events come in order");
        }
        CHECK_EQ(find(wanted[i], found + 1), -1);
        at = found;
    }
    CHECK_EQ(event_count, sizeof wanted / sizeof *wanted);
    GC_set_on_collection_event(NULL);
    GC_gcollect();
    CHECK_EQ(event_count, sizeof wanted / sizeof *wanted);
}

/* ---- thread events ---- */

static volatile int suspends, resumes, strange;
static void *volatile suspended_id;
static void on_thread(GC_EventType e, void *id)
{
    if (e == GC_EVENT_THREAD_SUSPENDED) {
        suspends++;
        suspended_id = id;
    } else if (e == GC_EVENT_THREAD_UNSUSPENDED) {
        resumes++;
    } else {
        strange++;
    }
}

static volatile int quit;
static void *spin(void *arg)
{
    while (!quit)
        GC_malloc(16);
    return arg;
}

static void thread_events(void)
{
    pthread_t t;
    GC_INIT();
    CHECK(GC_get_on_thread_event() == NULL);
    GC_set_on_thread_event(on_thread);
    CHECK(GC_get_on_thread_event() == on_thread);
    pthread_create(&t, NULL, spin, NULL);
    GC_disable(); /* only the collection below */
    nap(20000);
    GC_enable();
    int before = suspends;
    GC_gcollect();
    GC_set_on_thread_event(NULL);
    CHECK_OP(suspends, >, before);
    CHECK_OP(resumes, >, 0);
    CHECK_EQ(strange, 0);
    CHECK_NE(suspended_id, NULL);
    quit = 1;
    pthread_join(t, NULL);
}

/* ---- heap resize ---- */

static int resizes;
static GC_word resized_to;
static void on_resize(GC_word size)
{
    resizes++;
    resized_to = size;
}

static void *volatile keep[4000];

static void heap_resize(void)
{
    GC_INIT();
    CHECK(GC_get_on_heap_resize() == NULL);
    GC_set_on_heap_resize(on_resize);
    CHECK(GC_get_on_heap_resize() == on_resize);
    CHECK(GC_on_heap_resize == on_resize);
    for (int i = 0; i < 4000; i++)
        keep[i] = GC_malloc(10000);
    CHECK_OP(resizes, >, 0);
    CHECK_EQ(resized_to, GC_get_heap_size() + GC_get_unmapped_bytes());
    GC_expand_hp(30 << 20);
    CHECK_GE(resized_to, 30 << 20);
}

/* ---- warnings, fatal errors ---- */

static int warnings;
static char last_warning[300];
static void on_warning(char *message, GC_word arg)
{
    warnings++;
    snprintf(last_warning, sizeof last_warning, message, arg);
}

static void *no_memory(size_t n)
{
    (void)n;
    return NULL;
}

static void warn_proc(void)
{
    GC_INIT();
    GC_warn_proc old = GC_get_warn_proc();
    CHECK(old != NULL);
    GC_set_warn_proc(on_warning);
    CHECK(GC_get_warn_proc() == on_warning);
    GC_set_oom_fn(no_memory);
    GC_set_max_heap_size(8 << 20);
    CHECK(GC_malloc(64 << 20) == NULL);
    CHECK_OP(warnings, >, 0);
    NOTE("the warning: %s", last_warning);
    GC_set_warn_proc(GC_ignore_warn_proc);
    CHECK(GC_get_warn_proc() == GC_ignore_warn_proc);
    int n = warnings;
    CHECK(GC_malloc(64 << 20) == NULL);
    CHECK_EQ(warnings, n);
    GC_set_warn_proc(old);
}

static char last_abort[300];
static int aborts;
static void on_abort_func(const char *message)
{
    aborts++;
    snprintf(last_abort, sizeof last_abort, "%s", message ? message : "(null)");
    _exit(h_test_failed ? 1 : 0); /* the library would abort() next */
}

static void abort_func(void)
{
    GC_INIT();
    CHECK(GC_get_abort_func() != NULL);
    GC_set_abort_func(on_abort_func);
    CHECK(GC_get_abort_func() == on_abort_func);
    GC_abort_on_oom(); /* calls the function and does not return */
    CHECK(!"GC_abort_on_oom returned");
}

/* The same through its exported variable. */
static void abort_by_variable(void)
{
    extern GC_abort_func GC_on_abort;
    GC_INIT();
    CHECK(GC_on_abort == GC_get_abort_func());
    GC_on_abort = on_abort_func;
    CHECK(GC_get_abort_func() == on_abort_func);
    GC_abort_on_oom();
    CHECK(!"GC_abort_on_oom returned");
}

static void die_of_oom(void)
{
    GC_INIT();
    GC_abort_on_oom();
}

static void abort_ends_the_process(void)
{
    char text[4096];
    int status = run_captured(die_of_oom, text, sizeof text);
    CHECK_NE(status, 0);
    CHECK_OP(strlen(text), >, 0);
}

/* ---- printing ---- */

extern void GC_printf(const char *, ...), GC_err_printf(const char *, ...),
    GC_log_printf(const char *, ...);

static void prints(void)
{
    int ends[2];
    char text[1000];
    GC_INIT();
    REQUIRE(pipe(ends) == 0);
    GC_set_log_fd(ends[1]);
    GC_log_printf("number %d\n", 42);
    ssize_t n = read(ends[0], text, sizeof text - 1);
    CHECK_OP(n, >, 0);
    text[n < 0 ? 0 : n] = '\0';
    CHECK(strstr(text, "number 42") != NULL);
    /* The others go to stdout and stderr. */
    REQUIRE(dup2(ends[1], 1) == 1 && dup2(ends[1], 2) == 2);
    GC_err_printf("error %s\n", "text");
    n = read(ends[0], text, sizeof text - 1);
    text[n < 0 ? 0 : n] = '\0';
    CHECK(strstr(text, "error text") != NULL);
    GC_printf("plain %c\n", 'x');
    n = read(ends[0], text, sizeof text - 1);
    text[n < 0 ? 0 : n] = '\0';
    CHECK(strstr(text, "plain x") != NULL);
}

/* ---- set and get; the variables are the same thing ---- */

#define PAIR(type, name, value)                                               \
    do {                                                                      \
        type h_old = GC_get_##name();                                         \
        GC_set_##name((type)(value));                                         \
        CHECK_EQ(GC_get_##name(), (type)(value));                             \
        GC_set_##name(h_old);                                                 \
        CHECK_EQ(GC_get_##name(), h_old);                                     \
    } while (0)

#define PAIR_VAR(type, name, value)                                           \
    do {                                                                      \
        type h_old = GC_get_##name();                                         \
        CHECK_EQ(GC_##name, h_old);                                           \
        GC_set_##name((type)(value));                                         \
        CHECK_EQ(GC_##name, (type)(value));                                   \
        GC_##name = h_old;                                                    \
        CHECK_EQ(GC_get_##name(), h_old);                                     \
        PAIR(type, name, value);                                              \
    } while (0)

static void settings(void)
{
    PAIR_VAR(int, dont_precollect, 1);
    PAIR(int, pages_executable, 1);
    PAIR(int, find_leak, 1);
    CHECK_EQ(GC_find_leak, 0);
    PAIR_VAR(int, all_interior_pointers, 0);
    GC_set_markers_count(2);
    GC_set_markers_count(0);
    GC_INIT();
    PAIR_VAR(int, finalize_on_demand, 1);
    PAIR_VAR(int, java_finalization, 0);
    PAIR_VAR(int, dont_expand, 1);
    PAIR_VAR(int, full_freq, 7);
    PAIR_VAR(GC_word, non_gc_bytes, 4096);
    PAIR_VAR(int, no_dls, 1);
    PAIR_VAR(GC_word, free_space_divisor, 5);
    PAIR_VAR(GC_word, max_retries, 3);
    PAIR_VAR(unsigned long, time_limit, 17);
    PAIR(GC_word, allocd_bytes_per_finalizer, 12345);
    PAIR(size_t, min_bytes_allocd, 4096);
    PAIR(int, rate, 20);
    PAIR(int, max_prior_attempts, 3);
    PAIR(int, disable_automatic_collection, 1);
    PAIR(int, force_unmap_on_gcollect, 1);
    PAIR(int, manual_vdb_allowed, 1);
    GC_use_entire_heap = 1;
    GC_use_entire_heap = 0;
    struct GC_timeval_s t = {9, 500};
    GC_set_time_limit_tv(t);
    CHECK_EQ(GC_get_time_limit_tv().tv_ms, 9);
    CHECK_EQ(GC_get_time_limit_tv().tv_nsec, 500);
    CHECK_EQ(GC_get_time_limit(), 9);
    check_alive();
}

static void defaults(void)
{
    GC_INIT();
    CHECK_EQ(GC_get_allocd_bytes_per_finalizer(), 10000);
    CHECK_EQ(GC_get_min_bytes_allocd(), 1);
    CHECK_EQ(GC_get_max_retries(), 0);
    CHECK_EQ(GC_get_dont_expand(), 0);
    CHECK_EQ(GC_get_no_dls(), 0);
    CHECK_EQ(GC_get_find_leak(), 0);
    CHECK_EQ(GC_get_finalize_on_demand(), 0);
    CHECK_EQ(GC_get_all_interior_pointers(), 1);
    CHECK_EQ(GC_get_free_space_divisor(), 3);
    CHECK_EQ(GC_get_full_freq(), 19);
    CHECK_EQ(GC_get_dont_precollect(), 0);
    CHECK_EQ(GC_get_non_gc_bytes(), 0);
    CHECK_EQ(GC_get_rate(), 10);
    CHECK_EQ(GC_get_max_prior_attempts(), 1);
    CHECK(GC_get_finalizer_notifier() == NULL);
    CHECK(GC_get_toggleref_func() == NULL);
    CHECK(GC_get_await_finalize_proc() == NULL);
    CHECK(GC_get_start_callback() == NULL);
    CHECK(GC_get_oom_fn() != NULL);
    CHECK(GC_get_push_other_roots() != NULL);
}

static void without_precollection(void)
{
    GC_set_dont_precollect(1);
    GC_INIT();
    CHECK_EQ(GC_get_gc_no(), 0);
    check_alive();
}

static void executable_pages(void)
{
    GC_set_pages_executable(1);
    GC_INIT();
    CHECK_NE(GC_get_pages_executable(), 0);
    /* ret */
    volatile unsigned char *code = GC_malloc_atomic(100000);
    code[0] = 0xc3;
    __asm__ volatile("" : : "r"(code) : "memory");
    ((void (*)(void))(uintptr_t)code)();
}

static void signals_can_be_chosen(void)
{
    GC_set_suspend_signal(SIGRTMIN + 8);
    GC_set_thr_restart_signal(SIGRTMIN + 9);
    GC_INIT();
    CHECK_EQ(GC_get_suspend_signal(), SIGRTMIN + 8);
    CHECK_EQ(GC_get_thr_restart_signal(), SIGRTMIN + 9);
    check_alive();
    /* After initialisation nothing changes. */
    GC_set_suspend_signal(SIGUSR1);
    CHECK_EQ(GC_get_suspend_signal(), SIGRTMIN + 8);
}

static void default_signals(void)
{
    GC_INIT();
    CHECK_EQ(GC_get_suspend_signal(), SIGPWR);
    CHECK_EQ(GC_get_thr_restart_signal(), SIGXCPU);
}

/* Exported, undocumented, imported by old programs. */
extern void GC_noop1(GC_word);

static void oddments(void)
{
    GC_INIT();
    GC_noop1(42);
    CHECK_EQ(GC_is_heap_ptr(GC_malloc_stubborn(10)), 1);
}

MAIN_BEGIN
    RUN(start_callback);
    RUN(collection_events);
    RUN(thread_events);
    RUN(heap_resize);
    RUN(warn_proc);
    RUN(abort_func);
    RUN(abort_by_variable);
    RUN(abort_ends_the_process);
    RUN(prints);
    RUN(settings);
    RUN(defaults);
    RUN(without_precollection);
    RUN(executable_pages);
    RUN(signals_can_be_chosen);
    RUN(default_signals);
    RUN(oddments);
MAIN_END
