/* Sizes that cannot be, addresses that are no objects, address space that is
 * not there. */
#include "harness.h"
#include <alloca.h>
#include <gc/gc_disclaim.h>
#include <gc/gc_gcj.h>
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>

/* ---- huge sizes: NULL, by way of the out-of-memory function ---- */

static volatile int oom_calls;
static void *on_oom(size_t n)
{
    (void)n;
    oom_calls++;
    return NULL;
}

static volatile size_t huge[] = {
    SIZE_MAX,         SIZE_MAX - 1,      SIZE_MAX - 7,        SIZE_MAX - 8,
    SIZE_MAX - 15,    SIZE_MAX - 16,     SIZE_MAX - 4095,     SIZE_MAX - 4096,
    SIZE_MAX - 8192,  SIZE_MAX - 65536,  SIZE_MAX - (1 << 21), SIZE_MAX / 2 + 1,
    SIZE_MAX / 2,     SIZE_MAX / 2 - 16, SIZE_MAX / 4,        (size_t)1 << 62,
    (size_t)1 << 50,  (size_t)1 << 48};
enum { HUGES = sizeof huge / sizeof *huge };

static int closure_runs;
static void on_close(void *p, void *cd)
{
    (void)p;
    (void)cd;
    closure_runs++;
}
static struct GC_finalizer_closure closure = {on_close, NULL};

static GC_descr descr;
static size_t vtable[2] = {0, 8};

static void *by_realloc_null(size_t n) { return GC_realloc(NULL, n); }
static void *by_realloc(size_t n)
{
    char *p = GC_malloc(100);
    memset(p, 7, 100);
    void *q = GC_realloc(p, n);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(p[i], 7); /* untouched when it fails */
    return q;
}
static void *by_realloc_large(size_t n)
{
    return GC_realloc(GC_malloc(100000), n);
}
static void *by_memalign(size_t n) { return GC_memalign(256, n); }
static void *by_memalign_page(size_t n) { return GC_memalign(4096, n); }
static void *by_typed(size_t n) { return GC_malloc_explicitly_typed(n, descr); }
static void *by_typed_off(size_t n)
{
    return GC_malloc_explicitly_typed_ignore_off_page(n, descr);
}
static void *by_generic(size_t n) { return GC_generic_malloc(n, 1); }
static void *by_generic_off(size_t n)
{
    return GC_generic_malloc_ignore_off_page(n, 1);
}
static void *by_generic_unc(size_t n)
{
    return GC_generic_malloc_uncollectable(n, 2);
}
static void *by_special(size_t n) { return GC_generic_or_special_malloc(n, 0); }
static void *by_kind(size_t n) { return GC_malloc_kind(n, 0); }
static void *by_kind_global(size_t n) { return GC_malloc_kind_global(n, 1); }
static void *by_gcj(size_t n) { return GC_gcj_malloc(n, vtable); }
static void *by_gcj_off(size_t n)
{
    return GC_gcj_malloc_ignore_off_page(n, vtable);
}
static void *by_finalized(size_t n) { return GC_finalized_malloc(n, &closure); }
static void *by_many(size_t n)
{
    void *list = NULL;
    GC_generic_malloc_many(n, 1, &list);
    return list;
}
static void *by_debug(size_t n) { return GC_debug_malloc(n, "f", 1); }
static void *by_debug_atomic(size_t n)
{
    return GC_debug_malloc_atomic(n, "f", 1);
}
static void *by_debug_unc(size_t n)
{
    return GC_debug_malloc_uncollectable(n, "f", 1);
}
static void *by_debug_realloc(size_t n)
{
    return GC_debug_realloc(GC_debug_malloc(10, "f", 1), n, "f", 1);
}
static void *by_posix(size_t n)
{
    void *p = NULL;
    int r = GC_posix_memalign(&p, 64, n);
    CHECK_EQ(r, ENOMEM);
    return r == 0 ? p : NULL;
}

static const struct {
    const char *name;
    void *(*make)(size_t);
} makers[] = {
    {"GC_malloc", GC_malloc},
    {"GC_malloc_atomic", GC_malloc_atomic},
    {"GC_malloc_uncollectable", GC_malloc_uncollectable},
    {"GC_malloc_atomic_uncollectable", GC_malloc_atomic_uncollectable},
    {"GC_malloc_stubborn", GC_malloc_stubborn},
    {"GC_malloc_ignore_off_page", GC_malloc_ignore_off_page},
    {"GC_malloc_atomic_ignore_off_page", GC_malloc_atomic_ignore_off_page},
    {"GC_malloc_many", GC_malloc_many},
    {"GC_generic_malloc_many", by_many},
    {"GC_realloc(NULL)", by_realloc_null},
    {"GC_realloc(small)", by_realloc},
    {"GC_realloc(large)", by_realloc_large},
    {"GC_memalign(256)", by_memalign},
    {"GC_memalign(4096)", by_memalign_page},
    {"GC_posix_memalign", by_posix},
    {"GC_malloc_explicitly_typed", by_typed},
    {"GC_malloc_explicitly_typed_ignore_off_page", by_typed_off},
    {"GC_generic_malloc", by_generic},
    {"GC_generic_malloc_ignore_off_page", by_generic_off},
    {"GC_generic_malloc_uncollectable", by_generic_unc},
    {"GC_generic_or_special_malloc", by_special},
    {"GC_malloc_kind", by_kind},
    {"GC_malloc_kind_global", by_kind_global},
    {"GC_gcj_malloc", by_gcj},
    {"GC_gcj_malloc_ignore_off_page", by_gcj_off},
    {"GC_finalized_malloc", by_finalized},
    {"GC_debug_malloc", by_debug},
    {"GC_debug_malloc_atomic", by_debug_atomic},
    {"GC_debug_malloc_uncollectable", by_debug_unc},
    {"GC_debug_realloc", by_debug_realloc},
    {"GC_debug_malloc_replacement", GC_debug_malloc_replacement},
};

static void start(void)
{
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    GC_set_oom_fn(on_oom);
    GC_word bitmap = 1;
    descr = GC_make_descriptor(&bitmap, 1);
    GC_init_finalized_malloc();
    GC_init_gcj_malloc(0, NULL);
}

static void huge_sizes(void)
{
    start();
    for (unsigned m = 0; m < sizeof makers / sizeof *makers; m++)
        for (int i = 0; i < HUGES; i++) {
            int before = oom_calls;
            void *p = makers[m].make(huge[i]);
            if (p != NULL || oom_calls == before) {
                NOTE("%s(%zu): %p, %d calls of the function\n", makers[m].name,
                     huge[i], p, oom_calls - before);
                /* GC_generic_malloc_many leaves NULL and asks nobody. */
                CHECK(p == NULL);
                CHECK(oom_calls > before || makers[m].make == by_many
                      || makers[m].make == GC_malloc_many);
            }
        }
    check_alive();
}

static void overflowing_arrays(void)
{
    static const size_t cases[][2] = {{SIZE_MAX, 16},
                                      {SIZE_MAX / 8, 16},
                                      {SIZE_MAX / 16 + 1, 16},
                                      {(size_t)1 << 60, 16},
                                      {(size_t)1 << 32, (size_t)1 << 32},
                                      {16, SIZE_MAX / 16 + 1},
                                      {(size_t)1 << 32 | 1, (size_t)1 << 33}};
    start();
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        int before = oom_calls;
        void *p = GC_calloc_explicitly_typed(cases[i][0], cases[i][1], descr);
        CHECK(p == NULL);
        CHECK_OP(oom_calls, >, before);
    }
    check_alive();
}

static void huge_alignment(void)
{
    start();
    CHECK(GC_memalign((size_t)1 << 62, 100) == NULL);
    CHECK(GC_memalign((size_t)1 << 40, SIZE_MAX - 100) == NULL);
    void *p = NULL;
    CHECK_NE(GC_posix_memalign(&p, (size_t)1 << 62, 100), 0);
    check_alive();
}

static void expand_by_too_much(void)
{
    start();
    CHECK_EQ(GC_expand_hp(SIZE_MAX), 0);
    CHECK_EQ(GC_expand_hp(SIZE_MAX - 4095), 0);
    CHECK_EQ(GC_expand_hp((size_t)1 << 60), 0);
    check_alive();
}

/* With the function that libgc starts with it is plain NULL. */
static void huge_by_default(void)
{
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    for (int i = 0; i < HUGES; i++)
        CHECK(GC_malloc(huge[i]) == NULL);
    CHECK(GC_get_oom_fn()(10) == NULL);
    check_alive();
}

static void impossible_limits(void)
{
    start();
    GC_set_max_heap_size(1);
    CHECK(GC_malloc(1 << 20) == NULL);
    GC_set_max_heap_size(SIZE_MAX);
    CHECK(GC_malloc(1 << 20) != NULL);
    CHECK(GC_malloc(SIZE_MAX / 2) == NULL);
    check_alive();
}

static void limit_before_init(void)
{
    GC_set_max_heap_size(4 << 20);
    start();
    CHECK(GC_malloc(8 << 20) == NULL);
    CHECK(GC_malloc(100) != NULL);
    check_alive();
}

/* ---- little address space ---- */

static void under_rlimit(size_t megabytes, size_t least)
{
    struct rlimit r = {megabytes << 20, megabytes << 20};
    REQUIRE(setrlimit(RLIMIT_AS, &r) == 0);
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    GC_set_oom_fn(on_oom);
    static void **volatile chain;
    size_t n = 0;
    for (;;) {
        void **p = GC_malloc(10000);
        if (p == NULL)
            break;
        p[0] = (void *)chain;
        p[1] = (void *)1;
        chain = p;
        n += 10000;
        REQUIRE(n <= megabytes << 20);
    }
    NOTE("%zu KB of objects within %zu MB of addresses\n", n >> 10, megabytes);
    CHECK_OP(oom_calls, >, 0);
    for (void **p = (void **)chain; p != NULL; p = p[0])
        CHECK(p[1] == (void *)1);
    CHECK_GE(n, least);
    chain = NULL;
    collect();
    CHECK(n == 0 || GC_malloc(10000) != NULL);
}

/* A tenth of the address space is little to ask, except of the smallest. */
static void rlimit_64(void) { under_rlimit(64, 0); }
static void rlimit_256(void) { under_rlimit(256, 25 << 20); }
static void rlimit_1000(void) { under_rlimit(1000, 100 << 20); }

/* The limit comes when the heap is already there. */
static void rlimit_later(void)
{
    start();
    churn(20 << 20, 1000);
    struct rlimit r = {(size_t)300 << 20, (size_t)300 << 20};
    REQUIRE(setrlimit(RLIMIT_AS, &r) == 0);
    CHECK(GC_malloc((size_t)1 << 30) == NULL);
    CHECK_OP(oom_calls, >, 0);
    churn(20 << 20, 1000);
    check_alive();
}

/* Not even enough to begin: a message, and no signal but abort's. */
static void starved(void)
{
    struct rlimit r = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_AS, &r);
    GC_INIT();
    GC_malloc(100);
}

static void check_starved(void (*body)(void))
{
    char text[4096];
    int status = run_captured(body, text, sizeof text);
    if (status != 0) {
        CHECK(!WIFSIGNALED(status) || WTERMSIG(status) == SIGABRT);
        CHECK_OP(strlen(text), >, 0);
    }
}

static void rlimit_tiny(void)
{
    check_starved(starved);
}

/* The stack cannot grow either: what is left of it, 32 KB, is enough for the
 * message. */
static void starved_of_stack(void)
{
    char line[300], here;
    unsigned long low = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    REQUIRE(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "[stack]") != NULL)
            low = strtoul(line, NULL, 16);
    fclose(maps);
    REQUIRE(low != 0 && (unsigned long)&here > low);
    unsigned long room = (unsigned long)&here - low, left = 32 << 10;
    volatile char *area = alloca(room > left ? room - left : 1);
    area[0] = 1;
    starved();
    area[0] = 2;
}

static void rlimit_tiny_without_stack(void)
{
    check_starved(starved_of_stack);
}

/* ---- what is not an object: Gleaner dies and says why ---- */

static uintptr_t *shared; /* the address that the child is about to misuse */

#include <sys/mman.h>

static void *misuse(void *p)
{
    *shared = (uintptr_t)p;
    return p;
}

static int run_misuse(void (*body)(void), char *text, size_t bytes)
{
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    return run_captured(body, text, bytes);
}

static void dies(void (*body)(void))
{
    char text[8192], address[32];
    int status = run_misuse(body, text, sizeof text);
    snprintf(address, sizeof address, "%lx", (unsigned long)*shared);
    CHECK_NE(status, 0);
    /* Ended on purpose, not by running into something. */
    CHECK(!WIFSIGNALED(status) || WTERMSIG(status) == SIGABRT);
    if (strcasestr(text, "gleaner") == NULL || strstr(text, address) == NULL)
        NOTE("address %s, stderr: %.600s\n", address, text);
    CHECK(strcasestr(text, "gleaner") != NULL);
    CHECK(strstr(text, address) != NULL);
}

#define DIES(name, ...)                                                       \
    static void name##_body(void) __VA_ARGS__ static void name(void)          \
    {                                                                         \
        dies(name##_body);                                                    \
    }

static int in_data;

DIES(double_free, {
    GC_INIT();
    void *p = GC_malloc(100);
    GC_free(p);
    GC_free(misuse(p));
})
DIES(double_free_later, {
    GC_INIT();
    void *p = GC_malloc(100);
    for (int i = 0; i < 100; i++)
        GC_malloc(100);
    GC_free(p);
    void *q = GC_malloc(3000);
    GC_free(q);
    GC_free(misuse(p));
})
DIES(double_free_large, {
    GC_INIT();
    void *p = GC_malloc(100000);
    GC_free(p);
    GC_free(misuse(p));
})
DIES(double_free_atomic, {
    GC_INIT();
    void *p = GC_malloc_atomic(64);
    GC_free(p);
    GC_free(misuse(p));
})
DIES(double_free_uncollectable, {
    GC_INIT();
    void *p = GC_malloc_uncollectable(64);
    GC_free(p);
    GC_free(misuse(p));
})
DIES(free_of_a_free_uncollectable_cell, {
    GC_INIT();
    char *p = GC_malloc_uncollectable(100);
    /* The next cell of the block. */
    GC_free(misuse(p + GC_size(p)));
})
DIES(free_wild, {
    GC_INIT();
    GC_malloc(10);
    GC_free(misuse((void *)0x123456789ab0));
})
DIES(free_of_data, {
    GC_INIT();
    GC_free(misuse(&in_data));
})
DIES(free_of_stack, {
    int x = 0;
    GC_INIT();
    GC_free(misuse(&x));
})
DIES(free_of_malloc, {
    GC_INIT();
    GC_free(misuse(malloc(100)));
})
DIES(free_before_init, { GC_free(misuse(&in_data)); })
DIES(free_interior, {
    GC_INIT();
    char *p = GC_malloc(100);
    GC_free(misuse(p + 16));
})
DIES(free_interior_unaligned, {
    GC_INIT();
    char *p = GC_malloc(100);
    GC_free(misuse(p + 3));
})
DIES(free_interior_large, {
    GC_INIT();
    char *p = GC_malloc(100000);
    GC_free(misuse(p + 8192));
})
DIES(realloc_wild, {
    GC_INIT();
    GC_realloc(misuse((void *)0x123456789ab0), 100);
})
DIES(realloc_interior, {
    GC_INIT();
    char *p = GC_malloc(100);
    GC_realloc(misuse(p + 16), 200);
})
DIES(realloc_of_freed, {
    GC_INIT();
    void *p = GC_malloc(100);
    GC_free(p);
    GC_realloc(misuse(p), 200);
})
DIES(realloc_of_data, {
    GC_INIT();
    GC_realloc(misuse(&in_data), 200);
})
DIES(free_of_a_debug_object, {
    GC_INIT();
    GC_free(misuse(GC_debug_malloc(100, GC_EXTRAS)));
})

static void says(void (*body)(void), const char *what)
{
    char text[8192];
    CHECK_NE(run_misuse(body, text, sizeof text), 0);
    if (strstr(text, what) == NULL)
        NOTE("no \"%s\" in: %.600s\n", what, text);
    CHECK(strstr(text, what) != NULL);
}

/* The function that was called, and what is wrong. */
static void messages_name_the_call(void)
{
    says(double_free_body, "GC_free(");
    says(double_free_body, "was freed before");
    says(double_free_large_body, "not any more");
    says(free_of_a_debug_object_body, "GC_debug_free");
    says(realloc_of_data_body, "GC_realloc(");
    says(realloc_interior_body, "16 bytes inside");
    says(realloc_of_freed_body, "GC_realloc(");
    says(realloc_of_freed_body, "was freed before");
}

/* Too large a displacement ends the program under either library. */
static void displaces_too_far(void)
{
    GC_set_all_interior_pointers(0);
    GC_INIT();
    GC_register_displacement(0x7fffffff);
}

static void bad_displacement(void)
{
    char text[8192];
    int status = run_captured(displaces_too_far, text, sizeof text);
    CHECK(WIFEXITED(status) ? WEXITSTATUS(status) != 0
                            : WTERMSIG(status) == SIGABRT);
    CHECK_OP(strlen(text), >, 0);
}

/* Before the message it calls the client's abort function. */
static void on_abort_func(const char *message)
{
    static const char text[] = "client's abort function: ";
    write(2, text, sizeof text - 1);
    write(2, message, strlen(message));
}

static void abort_func_body(void)
{
    GC_INIT();
    GC_set_abort_func(on_abort_func);
    void *p = GC_malloc(100);
    GC_free(p);
    GC_free(misuse(p));
}

static void abort_func_is_told(void)
{
    char text[8192];
    int status = run_misuse(abort_func_body, text, sizeof text);
    CHECK_NE(status, 0);
    CHECK(strstr(text, "client's abort function: ") != NULL);
}

/* The queries take anything. */
static void queries_take_anything(void)
{
    start();
    static const uintptr_t odd[] = {0,          1,          7,
                                    0xfff,      1u << 20,   (uintptr_t)1 << 40,
                                    0x7fffffffffff, (uintptr_t)1 << 47,
                                    (uintptr_t)1 << 63, ~(uintptr_t)0,
                                    ~(uintptr_t)15};
    for (unsigned i = 0; i < sizeof odd / sizeof *odd; i++) {
        CHECK(GC_base((void *)odd[i]) == NULL);
        CHECK_EQ(GC_is_heap_ptr((void *)odd[i]), 0);
        GC_is_visible((void *)(odd[i] & ~(uintptr_t)7));
    }
    char *p = GC_malloc(100);
    for (long d = -100000; d < 100000; d += 13) {
        void *b = GC_base(p + d);
        CHECK(b == NULL || (char *)b <= p + d);
    }
    check_alive();
}

MAIN_BEGIN
    RUN(huge_sizes);
    RUN(overflowing_arrays);
    RUN(huge_alignment);
    RUN(expand_by_too_much);
    RUN(huge_by_default);
    RUN(impossible_limits);
    RUN(limit_before_init);
    RUN(rlimit_64);
    RUN(rlimit_256);
    RUN(rlimit_1000);
    RUN(rlimit_later);
    RUN(rlimit_tiny);
    RUN_GLEANER(rlimit_tiny_without_stack);
    RUN(queries_take_anything);
    RUN(bad_displacement);
    RUN_GLEANER(double_free);
    RUN_GLEANER(double_free_later);
    RUN_GLEANER(double_free_large);
    RUN_GLEANER(double_free_atomic);
    RUN_GLEANER(double_free_uncollectable);
    RUN_GLEANER(free_of_a_free_uncollectable_cell);
    RUN_GLEANER(free_wild);
    RUN_GLEANER(free_of_data);
    RUN_GLEANER(free_of_stack);
    RUN_GLEANER(free_of_malloc);
    RUN_GLEANER(free_before_init);
    RUN_GLEANER(free_interior);
    RUN_GLEANER(free_interior_unaligned);
    RUN_GLEANER(free_interior_large);
    RUN_GLEANER(realloc_wild);
    RUN_GLEANER(realloc_interior);
    RUN_GLEANER(realloc_of_freed);
    RUN_GLEANER(realloc_of_data);
    RUN_GLEANER(free_of_a_debug_object);
    RUN_GLEANER(messages_name_the_call);
    RUN_GLEANER(abort_func_is_told);
MAIN_END
