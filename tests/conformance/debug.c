/* The debugging allocation interface, compiled with GC_DEBUG so that the
 * macros of gc.h lead to it, and leak detection. */
#define GC_DEBUG 1
#define GC_THREADS 1
#include "harness.h"
#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>

static void macros(void)
{
    GC_INIT();
    char *p = GC_MALLOC(40);
    REQUIRE(p != NULL);
    CHECK(all_zero(p, 40));
    CHECK(GC_base(p) != p); /* a header lies before it */
    CHECK_PTR(GC_USR_PTR_FROM_BASE(GC_base(p)), p);
    memset(p, 1, 40);
    p = GC_REALLOC(p, 4000);
    for (int i = 0; i < 40; i++)
        CHECK_EQ(p[i], 1);
    CHECK(all_zero(p + 40, 3960));
    p = GC_REALLOC(p, 10);
    CHECK_EQ(p[9], 1);
    GC_FREE(p);
    CHECK(GC_MALLOC_ATOMIC(10) != NULL);
    void *u = GC_MALLOC_UNCOLLECTABLE(10);
    CHECK(u != NULL && all_zero(u, 10));
    GC_FREE(u);
    u = GC_MALLOC_ATOMIC_UNCOLLECTABLE(10);
    CHECK(u != NULL);
    GC_FREE(u);
    CHECK(strcmp(GC_STRDUP("text"), "text") == 0);
    CHECK(strcmp(GC_STRNDUP("text", 2), "te") == 0);
    CHECK(GC_MALLOC_IGNORE_OFF_PAGE(30000) != NULL);
    CHECK(GC_MALLOC_ATOMIC_IGNORE_OFF_PAGE(30000) != NULL);
    CHECK(GC_MALLOC_STUBBORN(10) != NULL);
    CHECK(GC_GENERIC_OR_SPECIAL_MALLOC(10, 1) != NULL);
    long *n = GC_NEW(long);
    CHECK_EQ(*n, 0);
    CHECK(GC_NEW_ATOMIC(long) != NULL);
    CHECK(GC_NEW_UNCOLLECTABLE(long) != NULL);
    GC_FREE(NULL);
    CHECK(GC_REALLOC(NULL, 10) != NULL);
}

static void functions(void)
{
    GC_INIT();
    CHECK(GC_debug_malloc_stubborn(10, "file", 3) != NULL);
    void **p = GC_debug_malloc_replacement(64);
    CHECK(all_zero(p, 64));
    p = GC_debug_realloc_replacement(p, 6400);
    CHECK(all_zero(p, 6400));
    GC_debug_ptr_store_and_dirty(p, p);
    CHECK_PTR(p[0], p);
    GC_debug_change_stubborn(p);
    GC_debug_end_stubborn_change(p);
    CHECK(GC_debug_malloc_atomic_uncollectable(10, "file", 4) != NULL);
    GC_debug_free(p);
}

static void every_size(void)
{
    static unsigned char *kept[3000];
    GC_INIT();
    for (size_t n = 0; n < 3000; n++) {
        kept[n] = GC_MALLOC(n);
        CHECK(all_zero(kept[n], n));
        memset(kept[n], (int)(n % 251), n);
    }
    GC_gcollect();
    churn(1 << 20, 64);
    GC_gcollect();
    for (size_t n = 0; n < 3000; n++) {
        for (size_t i = 0; i < n; i++)
            if (kept[n][i] != n % 251) {
                CHECK_EQ(n, -1);
                return;
            }
        GC_FREE(kept[n]);
    }
}

static void *volatile root;

static NOINLINE void make_held(void)
{
    void **h = GC_MALLOC(MANY * sizeof *h);
    for (int i = 0; i < MANY; i++) {
        h[i] = GC_MALLOC(32);
        watch(i, h[i]);
    }
    root = h;
}

static void collected_when_dead(void)
{
    GC_INIT();
    deep(make_held);
    collect();
    CHECK_NONE_GONE(MANY);
    root = NULL;
    collect();
    CHECK_MOST_GONE(MANY);
}

/* Without interior pointers the header's displacement must be known: it is. */
static void collected_without_interior(void)
{
    GC_set_all_interior_pointers(0);
    GC_INIT();
    deep(make_held);
    collect();
    CHECK_NONE_GONE(MANY);
    GC_REGISTER_DISPLACEMENT(8);
    root = NULL;
    collect();
    CHECK_MOST_GONE(MANY);
}

/* Finalizers see the client's pointer. */
static int finals;
static void on_final(void *obj, void *cd)
{
    finals += *(int *)obj == 1234 && cd == (void *)&finals;
}

typedef void (*registrar)(void *, GC_finalization_proc, void *,
                          GC_finalization_proc *, void **);
static registrar reg;

static NOINLINE void make_finalizable(void)
{
    for (int i = 0; i < MANY; i++) {
        GC_finalization_proc old = on_final;
        void *old_cd = &old;
        int *p = GC_MALLOC(32);
        *p = 1234;
        reg(p, on_final, &finals, &old, &old_cd);
        CHECK(old == NULL && old_cd == NULL);
    }
}

static void finalized(registrar r)
{
    reg = r;
    GC_set_java_finalization(1);
    GC_INIT();
    deep(make_finalizable);
    for (int i = 0; i < 3; i++) {
        collect();
        GC_invoke_finalizers();
    }
    CHECK_GE(finals, MOST(MANY));
}

static void finalizer(void) { finalized(GC_debug_register_finalizer); }
static void finalizer_ignore_self(void)
{
    finalized(GC_debug_register_finalizer_ignore_self);
}
static void finalizer_no_order(void)
{
    finalized(GC_debug_register_finalizer_no_order);
}
static void finalizer_unreachable(void)
{
    finalized(GC_debug_register_finalizer_unreachable);
}

static void links(void)
{
    static GC_word link;
    GC_INIT();
    void *volatile p = GC_MALLOC(32);
    link = GC_HIDE_POINTER(p);
    CHECK_EQ(GC_GENERAL_REGISTER_DISAPPEARING_LINK((void **)&link, p),
             GC_SUCCESS);
    CHECK_EQ(GC_unregister_disappearing_link((void **)&link), 1);
    CHECK_EQ(GC_REGISTER_LONG_LINK((void **)&link, p), GC_SUCCESS);
    CHECK_EQ(GC_unregister_long_link((void **)&link), 1);
}

static void pointer_macros(void)
{
    GC_INIT();
    long *p = GC_MALLOC(100), *q = p;
    CHECK_PTR(GC_PTR_ADD(p, 3), p + 3);
    CHECK_PTR(GC_PRE_INCR(q, 2), p + 2);
    CHECK_PTR(GC_POST_INCR(q), p + 2);
    CHECK_PTR(GC_POST_DECR(q), p + 3);
    CHECK_PTR(q, p + 2);
    void **slot = GC_MALLOC(16);
    GC_PTR_STORE(slot, p);
    CHECK_PTR(*slot, p);
    GC_PTR_STORE_AND_DIRTY(slot, q);
    CHECK_PTR(*slot, q);
    GC_END_STUBBORN_CHANGE(slot);
}

/* ---- overwriting is found ---- */

/* Keeps the compiler from knowing which object this is. */
static void *opaque(void *p)
{
    __asm__ volatile("" : "+r"(p));
    return p;
}

static void smash_and_free(void)
{
    GC_INIT();
    char *p = GC_MALLOC(20);
    memset(opaque(p), 7, 28);
    GC_FREE(p);
}

static void *volatile smashed;
static void smash_and_collect(void)
{
    GC_INIT();
    char *p = GC_MALLOC(20);
    smashed = p;
    memset(opaque(p), 7, 28);
    GC_gcollect();
}

static void smash_before(void)
{
    GC_INIT();
    char *p = GC_MALLOC(20);
    memset((char *)opaque(p) - 8, 7, 8);
    GC_FREE(p);
}

static void found(void (*body)(void))
{
    char text[8192];
    int status = run_captured(body, text, sizeof text);
    (void)status; /* it may go on or abort */
    if (strstr(text, "mashed") == NULL || strstr(text, "debug.c") == NULL)
        NOTE("stderr: %.400s\n", text);
    CHECK(strstr(text, "mashed") != NULL);
    /* The file that allocated it is named. */
    CHECK(strstr(text, "debug.c") != NULL);
}

static void smash_found_by_free(void) { found(smash_and_free); }
static void smash_found_by_collection(void) { found(smash_and_collect); }

/* The words just before the object are part of its header, which stock checks
 * too. */
static void smash_before_found(void)
{
    char text[8192];
    run_captured(smash_before, text, sizeof text);
    CHECK_OP(strlen(text), >, 0);
}

static void free_twice(void)
{
    GC_INIT();
    char *p = GC_MALLOC(20);
    GC_FREE(p);
    GC_FREE(p);
}

static void double_free_is_reported(void)
{
    char text[8192];
    run_captured(free_twice, text, sizeof text);
    if (strstr(text, "dealloc") == NULL)
        NOTE("stderr: %.400s\n", text);
    CHECK(strstr(text, "dealloc") != NULL || strstr(text, "free") != NULL);
}

/* ---- leaks ---- */

static NOINLINE void make_leaks(void)
{
    for (int i = 0; i < 30; i++)
        *(volatile int *)GC_MALLOC(40) = i;
}

static void leaks(void)
{
    GC_set_find_leak(1);
    GC_INIT();
    CHECK_EQ(GC_get_find_leak(), 1);
    deep(make_leaks);
    collect();
    collect();
}

static void leaks_by_variable(void)
{
    GC_find_leak = 1;
    GC_INIT();
    deep(make_leaks);
    collect();
    collect();
}

static void no_leaks(void)
{
    GC_set_find_leak(1);
    GC_INIT();
    for (int i = 0; i < 30; i++)
        GC_FREE(GC_MALLOC(40));
    collect();
    collect();
}

static void leaks_are_reported(void)
{
    char text[16384];
    run_captured(leaks, text, sizeof text);
    CHECK(strcasestr(text, "leak") != NULL);
    CHECK(strstr(text, "debug.c") != NULL);
    run_captured(leaks_by_variable, text, sizeof text);
    CHECK(strcasestr(text, "leak") != NULL);
    run_captured(no_leaks, text, sizeof text);
    if (strcasestr(text, "leak") != NULL)
        NOTE("stderr: %.300s\n", text);
    CHECK(strcasestr(text, "leak") == NULL);
}

/* In that mode links and finalizers are not taken. */
static void leak_mode(void)
{
    static GC_word link;
    GC_set_find_leak(1);
    GC_INIT();
    void *p = GC_MALLOC(32);
    CHECK_EQ(GC_GENERAL_REGISTER_DISAPPEARING_LINK((void **)&link, p),
             GC_UNIMPLEMENTED);
    GC_FREE(p);
}

/* ---- in threads ---- */

static void *debug_thread(void *arg)
{
    for (int round = 0; round < 20; round++) {
        void **list = NULL;
        for (int i = 0; i < 500; i++) {
            void **cell = GC_MALLOC(24);
            cell[0] = list;
            cell[1] = (void *)(uintptr_t)(2 * i + 1);
            list = cell;
            GC_FREE(GC_MALLOC_ATOMIC(50));
        }
        for (int i = 499; i >= 0; i--, list = list[0])
            if (list[1] != (void *)(uintptr_t)(2 * i + 1))
                return NULL;
    }
    return arg;
}

static void in_threads(void)
{
    pthread_t t[8];
    GC_INIT();
    for (int i = 0; i < 8; i++)
        REQUIRE(pthread_create(&t[i], NULL, debug_thread, &t) == 0);
    for (int i = 0; i < 10; i++)
        GC_gcollect();
    for (int i = 0; i < 8; i++) {
        void *r = NULL;
        pthread_join(t[i], &r);
        CHECK_PTR(r, &t);
    }
    check_alive();
}

MAIN_BEGIN
    RUN(macros);
    RUN(functions);
    RUN(every_size);
    RUN(collected_when_dead);
    RUN(collected_without_interior);
    RUN(finalizer);
    RUN(finalizer_ignore_self);
    RUN(finalizer_no_order);
    RUN(finalizer_unreachable);
    RUN(links);
    RUN(pointer_macros);
    RUN(smash_found_by_free);
    RUN(smash_found_by_collection);
    RUN(smash_before_found);
    RUN(double_free_is_reported);
    RUN(leaks_are_reported);
    RUN(leak_mode);
    RUN(in_threads);
MAIN_END
