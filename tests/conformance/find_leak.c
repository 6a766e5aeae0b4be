/* GC_find_leak in a program that goes on leaking: what is reported is freed. */
#include "harness.h"

static void quietly(void)
{
    int nowhere = open("/dev/null", O_WRONLY);
    REQUIRE(nowhere >= 0);
    dup2(nowhere, 2);
}

static NOINLINE void leak_many(void)
{
    for (int i = 0; i < 20000; i++)
        GC_MALLOC(i % 2 ? 48 : 200);
}

/* Far more leaks than any library lists at a time: 20 rounds leak 50 MB. */
static void many_leaks_do_not_pile_up(void)
{
    GC_set_find_leak(1);
    GC_INIT();
    quietly();
    for (int round = 0; round < (under_stress() ? 3 : 20); round++) {
        deep(leak_many);
        scrub();
        GC_gcollect();
    }
    CHECK_LE(GC_get_memory_use(), 8 << 20);
}

static NOINLINE void leak_large(void)
{
    for (int i = 0; i < 200; i++)
        GC_MALLOC(100000);
}

static void large_leaks_do_not_pile_up(void)
{
    GC_set_find_leak(1);
    GC_INIT();
    quietly();
    for (int round = 0; round < 10; round++) {
        deep(leak_large);
        scrub();
        GC_gcollect();
        GC_gcollect();
    }
    CHECK_LE(GC_get_memory_use(), 60 << 20);
}

static void leaking(void)
{
    GC_set_find_leak(1);
    GC_INIT();
    deep(leak_many);
    scrub();
    GC_gcollect();
    _exit(0);
}

static void what_is_not_listed_is_summed_up(void)
{
    static char text[8 << 20];
    CHECK_EQ(run_captured(leaking, text, sizeof text), 0);
    CHECK(strstr(text, "found ") != NULL);
    CHECK(strstr(text, " more, ") != NULL);
}

/* Objects that were given back are nobody's leak, however many there are. */
static NOINLINE void give_back_many(void)
{
    for (int i = 0; i < 20000; i++)
        GC_FREE(GC_MALLOC(48));
}

static void tidy(void)
{
    GC_set_find_leak(1);
    GC_INIT();
    deep(give_back_many);
    scrub();
    GC_gcollect();
    GC_gcollect();
    _exit(0);
}

static void what_is_freed_is_no_leak(void)
{
    static char text[8 << 20];
    CHECK_EQ(run_captured(tidy, text, sizeof text), 0);
    CHECK_EQ(strlen(text), 0);
}

MAIN_BEGIN
    RUN(many_leaks_do_not_pile_up);
    RUN(large_leaks_do_not_pile_up);
    RUN_GLEANER(what_is_not_listed_is_summed_up);
    RUN(what_is_freed_is_no_leak);
MAIN_END
