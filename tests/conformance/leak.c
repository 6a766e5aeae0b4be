/* leak_detector.h: a program whose malloc is redirected by macros. */
#define GC_DEBUG 1 /* before the first gc.h, which harness.h includes */
#include "harness.h"

#include <gc/leak_detector.h>

static NOINLINE void leaks_some(void)
{
    for (int i = 0; i < 20; i++) {
        char *p = malloc(50);
        p[0] = 1;
    }
    char *s = strdup("leaked");
    s[0] = 'L';
}

static void leaking(void)
{
    GC_set_find_leak(1);
    GC_INIT();
    deep(leaks_some);
    scrub();
    CHECK_LEAKS();
    CHECK_LEAKS();
}

static void tidy(void)
{
    GC_set_find_leak(1);
    GC_INIT();
    for (int i = 0; i < 20; i++) {
        char *p = malloc(50), *q = calloc(5, 20), *s = strdup("text");
        char *n = strndup("text", 2);
        p = realloc(p, 500);
        CHECK(all_zero(q, 100));
        CHECK(strcmp(s, "text") == 0 && strcmp(n, "te") == 0);
        free(p);
        free(q);
        free(s);
        free(n);
    }
    scrub();
    CHECK_LEAKS();
    CHECK_LEAKS();
}

static void leak_is_reported(void)
{
    char text[16384];
    run_captured(leaking, text, sizeof text);
    CHECK(strcasestr(text, "leak") != NULL);
    CHECK(strstr(text, "leak.c") != NULL);
}

static void tidy_is_silent(void)
{
    char text[16384];
    CHECK_EQ(run_captured(tidy, text, sizeof text), 0);
    if (strcasestr(text, "leaked") != NULL)
        NOTE("stderr: %.400s\n", text);
    CHECK(strcasestr(text, "leaked") == NULL);
}

/* What is reachable is no leak. */
static void *volatile held;
static void holding(void)
{
    GC_set_find_leak(1);
    GC_INIT();
    held = malloc(100);
    scrub();
    CHECK_LEAKS();
    CHECK_LEAKS();
    _exit(0); /* at exit there is one more search */
}

static void reachable_is_no_leak(void)
{
    char text[16384];
    CHECK_EQ(run_captured(holding, text, sizeof text), 0);
    CHECK(strcasestr(text, "leaked") == NULL);
}

static void aligned(void)
{
    GC_INIT();
    void *p = memalign(64, 100);
    CHECK(p != NULL && (uintptr_t)p % 64 == 0);
    CHECK_EQ(posix_memalign(&p, 128, 100), 0);
    CHECK_EQ((uintptr_t)p % 128, 0);
}

MAIN_BEGIN
    RUN(leak_is_reported);
    RUN(tidy_is_silent);
    RUN(reachable_is_no_leak);
    RUN(aligned);
MAIN_END
