/* The documented environment variables: good values do what they say, bad
 * ones are ignored or end the program with a message, never with a crash. */
#include "harness.h"
#include <sys/stat.h>

static int oom_calls;
static void *on_oom(size_t n)
{
    (void)n;
    oom_calls++;
    return NULL;
}

static void maximum(const char *value, size_t bytes)
{
    setenv("GC_MAXIMUM_HEAP_SIZE", value, 1);
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    GC_set_oom_fn(on_oom);
    CHECK(GC_malloc(bytes + (1 << 20)) == NULL);
    CHECK_OP(oom_calls, >, 0);
    CHECK(GC_malloc(bytes / 8) != NULL);
    CHECK_LE(GC_get_heap_size(), bytes);
}

static void maximum_heap(void) { maximum("16777216", 16 << 20); }
static void maximum_heap_k(void) { maximum("16384k", 16 << 20); }
static void maximum_heap_m(void) { maximum("16M", 16 << 20); }
static void maximum_heap_g(void) { maximum("1G", 1 << 30); }

static void initial_heap(void)
{
    setenv("GC_INITIAL_HEAP_SIZE", "50M", 1);
    GC_INIT();
    CHECK_GE(GC_get_heap_size(), 50 << 20);
    GC_word no = GC_get_gc_no();
    churn(20 << 20, 100);
    if (!under_stress())
        CHECK_EQ(GC_get_gc_no(), no);
}

static void initial_over_maximum(void)
{
    setenv("GC_INITIAL_HEAP_SIZE", "64M", 1);
    setenv("GC_MAXIMUM_HEAP_SIZE", "16M", 1);
    GC_INIT();
    GC_malloc(100);
}

static void dont_gc(void)
{
    setenv("GC_DONT_GC", "1", 1);
    GC_INIT();
    CHECK_NE(GC_is_disabled(), 0);
    GC_word no = GC_get_gc_no();
    GC_gcollect();
    churn(50 << 20, 100);
    CHECK_EQ(GC_get_gc_no(), no);
}

static void divisor(void)
{
    setenv("GC_FREE_SPACE_DIVISOR", "7", 1);
    GC_INIT();
    CHECK_EQ(GC_get_free_space_divisor(), 7);
    CHECK_EQ(GC_free_space_divisor, 7);
}

static void markers(void)
{
    setenv("GC_MARKERS", "3", 1);
    GC_INIT();
    GC_start_mark_threads();
    CHECK_EQ(GC_get_parallel(), 2);
    check_alive();
}

static void one_marker(void)
{
    setenv("GC_MARKERS", "1", 1);
    GC_INIT();
    GC_start_mark_threads();
    CHECK_EQ(GC_get_parallel(), 0);
    check_alive();
}

static void processors(void)
{
    unsetenv("GC_MARKERS");
    setenv("GC_NPROCS", "1", 1);
    GC_INIT();
    GC_start_mark_threads();
    CHECK_EQ(GC_get_parallel(), 0);
    check_alive();
}

/* In this build the mode is on anyway; the variable is accepted. */
static void all_interior(void)
{
    setenv("GC_ALL_INTERIOR_POINTERS", "1", 1);
    GC_INIT();
    CHECK_EQ(GC_get_all_interior_pointers(), 1);
}

static void incremental(void)
{
    setenv("GC_ENABLE_INCREMENTAL", "1", 1);
    setenv("GC_PAUSE_TIME_TARGET", "5", 1);
    setenv("GC_FULL_FREQUENCY", "4", 1);
    GC_INIT();
    CHECK_EQ(GC_get_full_freq(), 4);
    churn(50 << 20, 100);
    check_alive();
}

static void use_entire_heap(void)
{
    setenv("GC_USE_ENTIRE_HEAP", "1", 1);
    GC_INIT();
    CHECK_EQ(GC_use_entire_heap, 1);
    check_alive();
}

static void unmapping(void)
{
    setenv("GC_UNMAP_THRESHOLD", "1", 1);
    setenv("GC_FORCE_UNMAP_ON_GCOLLECT", "1", 1);
    GC_INIT();
    CHECK_EQ(GC_get_force_unmap_on_gcollect(), 1);
    churn(50 << 20, 100000);
    for (int i = 0; i < 4; i++)
        GC_gcollect();
    check_alive();
}

static void find_leak(void)
{
    setenv("GC_FIND_LEAK", "1", 1);
    GC_INIT();
    CHECK_EQ(GC_get_find_leak(), 1);
}

/* A collection under each of these; all only print or relax. */
static void harmless(void)
{
    static const char *const names[] = {
        "GC_PRINT_STATS",    "GC_PRINT_VERBOSE_STATS", "GC_DUMP_REGULARLY",
        "GC_NO_BLACKLIST_WARNING", "GC_RETRY_SIGNALS", "GC_PRINT_ADDRESS_MAP",
        "GC_PRINT_BACK_HEIGHT", "GC_DISABLE_INCREMENTAL"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        setenv(names[i], "1", 1);
    setenv("GC_LARGE_ALLOC_WARN_INTERVAL", "3", 1);
    GC_INIT();
    churn(5 << 20, 100);
    check_alive();
}

static void prints_stats(void)
{
    setenv("GC_PRINT_STATS", "1", 1);
    GC_INIT();
    GC_gcollect();
}

static void stats_are_printed(void)
{
    static char text[1 << 16];
    CHECK_EQ(run_captured(prints_stats, text, sizeof text), 0);
    CHECK_OP(strlen(text), >, 0);
}

static char log_name[] = "log-XXXXXX";
static void logs(void)
{
    setenv("GC_PRINT_STATS", "1", 1);
    setenv("GC_LOG_FILE", log_name, 1);
    GC_INIT();
    GC_gcollect();
}

static void log_file(void)
{
    char text[4096];
    struct stat st;
    int fd = mkstemp(log_name);
    REQUIRE(fd >= 0);
    CHECK_EQ(run_captured(logs, text, sizeof text), 0);
    CHECK_EQ(stat(log_name, &st), 0);
    CHECK_OP(st.st_size, >, 0);
    unlink(log_name);
    close(fd);
}

static void large_warnings(void)
{
    setenv("GC_LARGE_ALLOC_WARN_INTERVAL", "1", 1);
    GC_INIT();
    for (int i = 0; i < 10; i++)
        GC_malloc(5 << 20);
    check_alive();
}

static void empty_values(void)
{
    static const char *const names[] = {"GC_INITIAL_HEAP_SIZE",
                                        "GC_MAXIMUM_HEAP_SIZE",
                                        "GC_FREE_SPACE_DIVISOR",
                                        "GC_MARKERS",
                                        "GC_NPROCS",
                                        "GC_FULL_FREQUENCY",
                                        "GC_PAUSE_TIME_TARGET",
                                        "GC_UNMAP_THRESHOLD",
                                        "GC_LARGE_ALLOC_WARN_INTERVAL"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        setenv(names[i], "", 1);
    GC_INIT();
    churn(5 << 20, 100);
    check_alive();
}

/* ---- malformed ---- */

static const char *bad_name, *bad_value;

static void with_bad_value(void)
{
    setenv(bad_name, bad_value, 1);
    GC_INIT();
    churn(1 << 20, 100);
    check_alive();
}

static void malformed(const char *name)
{
    static const char *const values[] = {
        "abc", "-1", "0", "99999999999999999999999", "1.5", "10x", "0x10",
        " 5", "5 ", "1e9", "-99999999999", "18446744073709551615",
        "1000000000000G", "%s%n", "=", "K", "\xff\xfe"};
    static char text[1 << 16];
    for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
        bad_name = name;
        bad_value = values[i];
        int status = run_captured(with_bad_value, text, sizeof text);
        if (status == 0)
            continue;
        int crashed = WIFSIGNALED(status) && WTERMSIG(status) != SIGABRT;
        if (crashed || text[0] == '\0')
            NOTE("%s=%s: status 0x%x, stderr: %.200s\n", name, values[i],
                 status, text);
        CHECK(!crashed);
        CHECK_OP(strlen(text), >, 0);
    }
}

static void bad_initial(void) { malformed("GC_INITIAL_HEAP_SIZE"); }
static void bad_maximum(void) { malformed("GC_MAXIMUM_HEAP_SIZE"); }
static void bad_divisor(void) { malformed("GC_FREE_SPACE_DIVISOR"); }
static void bad_markers(void) { malformed("GC_MARKERS"); }
static void bad_processors(void) { malformed("GC_NPROCS"); }

/* Gleaner says which numbers it takes. */
static void beyond_the_range(const char *name)
{
    static char text[1 << 16];
    malformed(name);
    bad_name = name;
    bad_value = "4294967295";
    CHECK_EQ(run_captured(with_bad_value, text, sizeof text), 0);
    if (on_gleaner())
        CHECK(strstr(text, "from 1 to 1073741824") != NULL);
}

static void bad_frequency(void) { beyond_the_range("GC_FULL_FREQUENCY"); }
static void bad_pause(void) { beyond_the_range("GC_PAUSE_TIME_TARGET"); }
static void bad_threshold(void) { malformed("GC_UNMAP_THRESHOLD"); }
static void bad_interval(void)
{
    malformed("GC_LARGE_ALLOC_WARN_INTERVAL");
}
static void bad_switches(void)
{
    malformed("GC_DONT_GC");
    malformed("GC_PRINT_STATS");
    malformed("GC_USE_ENTIRE_HEAP");
    malformed("GC_ALL_INTERIOR_POINTERS");
}

/* A log that cannot be opened is no reason to stop. */
static void bad_log(void)
{
    setenv("GC_LOG_FILE", "/nonexistent/directory/log", 1);
    setenv("GC_PRINT_STATS", "1", 1);
    GC_INIT();
    check_alive();
}

static void initial_over_maximum_is_survived(void)
{
    char text[4096];
    int status = run_captured(initial_over_maximum, text, sizeof text);
    CHECK(!WIFSIGNALED(status) || WTERMSIG(status) == SIGABRT);
    if (status != 0)
        CHECK_OP(strlen(text), >, 0);
}

/* ---- Gleaner's own ---- */

static const char *options;
static void with_options(void)
{
    setenv("GLEANER_OPTIONS", options, 1);
    GC_INIT();
    check_alive();
    _exit(h_test_failed);
}

static void stress_begins_when_told(void)
{
    setenv("GLEANER_OPTIONS", "stress=10,stress-after=1000", 1);
    GC_INIT();
    GC_word no = GC_get_gc_no();
    churn(900 * 16, 16);
    CHECK_EQ(GC_get_gc_no(), no);
    churn(400 * 16, 16);
    CHECK_GE(GC_get_gc_no(), no + 20);
}

/* By itself, without the collections of `stress`. */
static void poison_overwrites_what_is_freed(void)
{
    setenv("GLEANER_OPTIONS", "poison=on", 1);
    GC_INIT();
    for (int i = 0; i < 100; i++) {
        volatile unsigned char *p = i % 2 ? GC_malloc(64) : GC_malloc_atomic(64);
        for (int b = 0; b < 64; b++)
            p[b] = 0x11;
        GC_free((void *)p);
        for (int b = 16; b < 64; b++) /* behind a link and a mark of the list's */
            CHECK_EQ(p[b], 0xfb);
        CHECK(all_zero(GC_malloc(64), 64));
    }
    check_alive();
}

static void unknown_option(void)
{
    char text[8192];
    options = "no-such-option=1";
    int status = run_captured(with_options, text, sizeof text);
    CHECK_NE(status, 0);
    CHECK(!WIFSIGNALED(status) || WTERMSIG(status) == SIGABRT);
    CHECK(strcasestr(text, "gleaner") != NULL);
    CHECK(strstr(text, "no-such-option") != NULL);
}

static void unknown_value(void)
{
    char text[8192];
    options = "sweep=lazzy";
    int status = run_captured(with_options, text, sizeof text);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 2);
    CHECK_PTR(strchr(text, '\n'), text + strlen(text) - 1); /* one line */
    CHECK(strstr(text, "lazzy") != NULL);
    CHECK(strstr(text, "lazy") != NULL); /* the nearest valid one */
}

MAIN_BEGIN
    RUN(maximum_heap);
    RUN(maximum_heap_k);
    RUN(maximum_heap_m);
    RUN(maximum_heap_g);
    RUN(initial_heap);
    RUN(initial_over_maximum_is_survived);
    RUN(dont_gc);
    RUN(divisor);
    RUN(markers);
    RUN(one_marker);
    RUN(processors);
    RUN(all_interior);
    RUN(incremental);
    RUN(use_entire_heap);
    RUN(unmapping);
    RUN(find_leak);
    RUN(harmless);
    RUN(stats_are_printed);
    RUN(log_file);
    RUN(large_warnings);
    RUN(empty_values);
    RUN(bad_initial);
    RUN(bad_maximum);
    RUN(bad_divisor);
    RUN(bad_markers);
    RUN(bad_processors);
    RUN(bad_frequency);
    RUN(bad_pause);
    RUN(bad_threshold);
    RUN(bad_interval);
    RUN(bad_switches);
    RUN(bad_log);
    RUN_GLEANER(stress_begins_when_told);
    RUN_GLEANER(poison_overwrites_what_is_freed);
    RUN_GLEANER(unknown_option);
    RUN_GLEANER(unknown_value);
MAIN_END
