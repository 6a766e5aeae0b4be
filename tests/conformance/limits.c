/* Limits of the process: what is not used yet counts against none of them, and
 * a message names the one that was reached. */
#include "harness.h"

static long status_kb(const char *label)
{
    char line[256];
    long kb = -1;
    FILE *f = fopen("/proc/self/status", "r");
    REQUIRE(f != NULL);
    while (fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, label, strlen(label)) == 0)
            kb = atol(line + strlen(label));
    fclose(f);
    return kb;
}

static int mappings(void)
{
    int lines = 0, c;
    FILE *f = fopen("/proc/self/maps", "r");
    REQUIRE(f != NULL);
    while ((c = getc(f)) != EOF)
        lines += c == '\n';
    fclose(f);
    return lines;
}

static void set_limit(int which, rlim_t bytes)
{
    struct rlimit limit = {bytes, bytes};
    REQUIRE(setrlimit(which, &limit) == 0);
}

/* A list of so many bytes in cells of this size, and garbage in between. */
static NOINLINE size_t grow_list_of(size_t cell, size_t bytes)
{
    static void **list;
    size_t got = 0;
    while (got < bytes) {
        void **p = GC_malloc(cell);
        if (p == NULL)
            break;
        GC_malloc(100);
        *p = list;
        list = p;
        got += cell;
    }
    return got;
}

static size_t grow_list(size_t bytes)
{
    return grow_list_of(64, bytes);
}

static void little_data_at_first(void)
{
    long before = status_kb("VmData:");
    GC_INIT();
    grow_list(100000);
    GC_gcollect();
    CHECK_LE(status_kb("VmData:") - before, 16 << 10);
}

/* Data follows the heap: what the collector needs beside it is a part of it. */
static void data_follows_the_heap(void)
{
    long before = status_kb("VmData:");
    GC_INIT();
    grow_list(under_stress() ? 100000 : 64 << 20);
    GC_gcollect();
    long heap = (long)(GC_get_heap_size() >> 10);
    CHECK_LE(status_kb("VmData:") - before, heap + heap / 2 + (40 << 10));
}

static void few_mappings(void)
{
    int before;
    GC_INIT();
    before = mappings();
    for (int i = 0; i < (under_stress() ? 4 : 200); i++) {
        grow_list(200000);
        GC_malloc((size_t)(i % 7 + 1) << 18);
    }
    GC_gcollect_and_unmap();
    CHECK_LE(mappings() - before, 60);
}

static void works_under_a_data_limit(void)
{
    set_limit(RLIMIT_DATA, 40 << 20);
    GC_INIT();
    CHECK_GE(grow_list(2 << 20), 2 << 20);
    GC_gcollect();
    check_alive();
}

static void works_under_an_address_limit(void)
{
    set_limit(RLIMIT_AS, 100000 << 10);
    GC_INIT();
    CHECK_GE(grow_list(2 << 20), 2 << 20);
    GC_gcollect();
    check_alive();
}

/* What libgc manages with, too. */
static void works_under_a_low_data_limit(void)
{
    set_limit(RLIMIT_DATA, (rlim_t)(status_kb("VmData:") + (6 << 10)) << 10);
    GC_INIT();
    CHECK_GE(grow_list(1 << 19), 1 << 19);
    GC_gcollect();
    CHECK(malloc(1 << 20) != NULL);
}

static void works_under_a_low_address_limit(void)
{
    set_limit(RLIMIT_AS, (rlim_t)(status_kb("VmSize:") + (24 << 10)) << 10);
    GC_INIT();
    CHECK_GE(grow_list(1 << 20), 1 << 20);
    GC_gcollect();
    CHECK(malloc(1 << 20) != NULL);
}

/* Objects of a size until there is no memory or `most` bytes are there; then none
 * of them is left. How many bytes that were. */
static size_t object_bytes = 64, filled;
static size_t most;

static void *fills(void *arg)
{
    void **list = NULL;
    filled = 0;
    while (filled < most) {
        void **p = (void **)GC_malloc(object_bytes);
        if (p == NULL)
            break;
        p[0] = list;
        list = p;
        filled += object_bytes;
    }
    while (list != NULL) {
        void **next = (void **)list[0];
        list[0] = NULL;
        list = next;
    }
    return arg;
}

static size_t room_for(size_t bytes)
{
    pthread_t t;
    object_bytes = bytes;
    REQUIRE(pthread_create(&t, NULL, fills, NULL) == 0);
    pthread_join(t, NULL);
    for (int i = 0; i < 3; i++)
        GC_gcollect();
    return filled;
}

/* What objects of one size leave is room for those of others, again and again. */
static void what_small_objects_leave_serves_large_ones(void)
{
    GC_set_warn_proc(GC_ignore_warn_proc);
    most = under_stress() ? 20 << 20 : (size_t)-1;
    set_limit(RLIMIT_AS, (rlim_t)(status_kb("VmSize:") + (250 << 10)) << 10);
    GC_INIT();
    size_t enough = under_stress() ? 19 << 20 : 60 << 20;
    CHECK_GE(room_for(2000), enough);
    CHECK_GE(room_for(100000), enough);
    CHECK_GE(room_for(500), enough);
    CHECK_GE(room_for(4000000), enough);
    check_alive();
}

/* What was reserved before counts no more: the heap goes on growing, and there is room for threads and malloc. */
static void check_room_under_a_later_limit(void)
{
    size_t enough = under_stress() ? 19 << 20 : 60 << 20;
    CHECK_GE(room_for(2000), enough);
    CHECK_GE(room_for(100000), enough);
    CHECK_GE(room_for(4000000), enough);
    CHECK(malloc(1 << 20) != NULL);
    check_alive();
}

static void start_with_a_later_limit(size_t before)
{
    GC_set_warn_proc(GC_ignore_warn_proc);
    most = under_stress() ? 20 << 20 : (size_t)-1;
    add_options("reserve=4g");
    GC_INIT();
    for (size_t bytes = 0; bytes < before; bytes += 10000)
        CHECK(GC_malloc(10000) != NULL);
    set_limit(RLIMIT_AS, 200 << 20);
}

static void a_limit_is_set_later(void)
{
    start_with_a_later_limit(0);
    check_room_under_a_later_limit();
}

static void a_limit_is_set_when_the_heap_has_grown(void)
{
    start_with_a_later_limit(20 << 20);
    check_room_under_a_later_limit();
}

/* And what is garbage makes room for the first thread. */
static void a_limit_is_set_later_without_threads(void)
{
    start_with_a_later_limit(0);
    fills(NULL); /* 64 bytes each, as nothing else is said */
    CHECK_GE(filled, (size_t)(under_stress() ? 19 : 60) << 20);
    check_alive();
}

static void garbage_makes_room_for_a_thread(void)
{
    GC_set_warn_proc(GC_ignore_warn_proc);
    set_limit(RLIMIT_AS, 200 << 20);
    GC_INIT();
    most = under_stress() ? 20 << 20 : (size_t)-1;
    object_bytes = 4000;
    fills(NULL);
    check_alive();
}

static void *gives_null(size_t bytes)
{
    (void)bytes;
    return NULL;
}

static void exhaust(void)
{
    /* The verifier looks at each object, in each of many collections. */
    const char *options = getenv("GLEANER_OPTIONS");
    int is_slow = under_stress() || (options != NULL && strstr(options, "verify=") != NULL);
    GC_set_oom_fn(gives_null);
    grow_list_of(is_slow ? 10000 : 64, (size_t)1 << 30);
    _exit(0);
}

static void exhaust_data(void)
{
    set_limit(RLIMIT_DATA, 40 << 20);
    GC_INIT();
    exhaust();
}

static void exhaust_addresses(void)
{
    set_limit(RLIMIT_AS, 200 << 20);
    set_limit(RLIMIT_DATA, (rlim_t)1 << 40);
    GC_INIT();
    exhaust();
}

static void exhaust_data_near_the_address_limit(void)
{
    GC_INIT();
    set_limit(RLIMIT_AS, (rlim_t)(status_kb("VmSize:") + 1000) << 10);
    set_limit(RLIMIT_DATA, 40 << 20);
    exhaust();
}

static void exhaust_the_range(void)
{
    set_limit(RLIMIT_AS, 100000 << 10);
    GC_INIT();
    exhaust();
}

static void exhaust_the_reserve(void)
{
    setenv("GLEANER_OPTIONS", "reserve=16m", 1);
    GC_INIT();
    exhaust();
}

static void starts_without_addresses(void)
{
    set_limit(RLIMIT_AS, (rlim_t)(status_kb("VmSize:") + 600) << 10);
    GC_INIT();
    _exit(0);
}

static void starts_without_data(void)
{
    set_limit(RLIMIT_DATA, 600 << 10);
    GC_INIT();
    _exit(0);
}

static void the_data_limit_is_named(void)
{
    static char text[65536];
    CHECK_EQ(run_captured(exhaust_data, text, sizeof text), 0);
    CHECK(strstr(text, "RLIMIT_DATA") != NULL);
    CHECK(strstr(text, "ulimit -d") != NULL);
    CHECK(strstr(text, "RLIMIT_AS") == NULL);
    CHECK(run_captured(starts_without_data, text, sizeof text) != 0);
    CHECK(strstr(text, "ulimit -d") != NULL);
    CHECK(strstr(text, "ulimit -v") == NULL);
}

/* With a limit on data that is far away, the data limit is not blamed. */
static void the_data_limit_is_not_blamed(void)
{
    static char text[65536];
    CHECK_EQ(run_captured(exhaust_addresses, text, sizeof text), 0);
    CHECK(strstr(text, "RLIMIT_DATA") == NULL);
}

/* Each message says what helps, and nothing else. */
static void check_names(void (*body)(void), const char *helps)
{
    static const char *const remedies[] = {"ulimit -d", "ulimit -v", "reserve="};
    static char text[65536];
    run_captured(body, text, sizeof text);
    for (int i = 0; i < 3; i++)
        if ((strstr(text, remedies[i]) != NULL) != (strcmp(remedies[i], helps) == 0)) {
            NOTE("%.300s\n", text);
            CHECK(!"the message says what helps");
        }
}

static void messages_say_what_helps(void)
{
    check_names(exhaust_data_near_the_address_limit, "ulimit -d");
    check_names(exhaust_the_range, "ulimit -v");
    check_names(exhaust_the_reserve, "reserve=");
    check_names(starts_without_addresses, "ulimit -v");
    check_names(starts_without_data, "ulimit -d");
}

/* A heap that is full under a limit that the program lowered after the start
 * leaves addresses for the stack of a thread. */
static void *returns_its_argument(void *arg)
{
    return arg;
}

static void a_late_limit_leaves_room_for_a_thread(void)
{
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = (rlim_t)500000 << 10;
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    void **last = NULL, **next;
    size_t bytes = under_stress() ? 20000 : 1024;
    while ((next = GC_malloc(bytes)) != NULL) {
        next[0] = last;
        last = next;
    }
    /* The library itself needs an object for the thread. */
    for (size_t i = 0; i < 2000 * 1024 / bytes && last != NULL; i++)
        last = *last;
    GC_gcollect();
    CHECK(last != NULL);
    pthread_t t;
    void *result = NULL;
    CHECK_EQ(GC_pthread_create(&t, NULL, returns_its_argument, &t), 0);
    CHECK_EQ(GC_pthread_join(t, &result), 0);
    CHECK(result == &t);
    __asm__ volatile("" : : "r"(last) : "memory");
}

MAIN_BEGIN
    RUN(little_data_at_first);
    RUN(data_follows_the_heap);
    RUN(few_mappings);
    RUN(works_under_a_data_limit);
    RUN(works_under_an_address_limit);
    RUN(works_under_a_low_data_limit);
    RUN(works_under_a_low_address_limit);
    RUN(what_small_objects_leave_serves_large_ones);
    RUN_GLEANER(a_limit_is_set_later);
    RUN_GLEANER(a_limit_is_set_when_the_heap_has_grown);
    RUN_GLEANER(a_limit_is_set_later_without_threads);
    RUN_GLEANER(garbage_makes_room_for_a_thread);
    RUN_GLEANER(messages_say_what_helps);
    RUN_GLEANER(the_data_limit_is_named);
    RUN_GLEANER(the_data_limit_is_not_blamed);
    RUN_GLEANER(a_late_limit_leaves_room_for_a_thread);
MAIN_END
