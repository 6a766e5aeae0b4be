/* GC_do_blocking with GC_call_with_gc_active inside: the region goes on when
 * the active section has ended, and a thread that is to be held is held where
 * it becomes active. */
#include "harness.h"
#include <gc/javaxfc.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdatomic.h>

static sem_t ready, resume;
static atomic_int quit;

static void start(void)
{
    GC_INIT();
    GC_allow_register_threads();
    sem_init(&ready, 0, 0);
    sem_init(&resume, 0, 0);
}

static void wait_for(sem_t *s)
{
    while (sem_wait(s) != 0)
        ;
}

static void *nothing(void *arg) { return arg; }

static void *allocates(void *arg)
{
    for (int i = 0; i < 100; i++)
        GC_malloc(64);
    return arg;
}

/* ---- a thread in a region is not interrupted ---- */

static int interrupted, active_first;
static void *sleeps_in_region(void *arg)
{
    if (active_first) {
        CHECK_PTR(GC_call_with_gc_active(nothing, arg), arg);
        CHECK_PTR(GC_call_with_gc_active(allocates, arg), arg);
    }
    sem_post(&ready);
    /* Not restarted after a signal, whatever the handler says. */
    while (!atomic_load(&quit)) {
        struct timespec t = {0, 20000000};
        if (nanosleep(&t, NULL) != 0)
            interrupted++;
    }
    return arg;
}

static void *in_region(void *arg)
{
    return GC_do_blocking(sleeps_in_region, arg);
}

static void stop_often(int first)
{
    pthread_t t;
    active_first = first;
    start();
    REQUIRE(GC_pthread_create(&t, NULL, in_region, NULL) == 0);
    wait_for(&ready);
    for (int i = 0; i < 20; i++) {
        GC_gcollect();
        nap(1000);
    }
    atomic_store(&quit, 1);
    GC_pthread_join(t, NULL);
    CHECK_EQ(interrupted, 0);
    check_alive();
}

static void region_is_not_interrupted(void) { stop_often(0); }
static void region_goes_on_after_a_section(void) { stop_often(1); }

/* ---- nor is it waited for ---- */

static void *blocks_signals(void *arg)
{
    sigset_t all, old;
    GC_call_with_gc_active(allocates, arg);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    sem_post(&ready);
    wait_for(&resume);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return arg;
}

static void *blocks_signals_in_region(void *arg)
{
    return GC_do_blocking(blocks_signals, arg);
}

static void region_without_signals(void)
{
    pthread_t t;
    void *result;
    start();
    REQUIRE(GC_pthread_create(&t, NULL, blocks_signals_in_region, &t) == 0);
    wait_for(&ready);
    GC_gcollect();
    sem_post(&resume);
    GC_pthread_join(t, &result);
    CHECK_PTR(result, &t);
    check_alive();
}

/* ---- sections in regions in sections: all frames that are active count ---- */

enum { LEVELS = 4, EACH = 50 };
static void *section(void *arg);
static void *region(void *arg) { return GC_call_with_gc_active(section, arg); }

static NOINLINE void fill(void *volatile *local, int level)
{
    for (int i = 0; i < EACH; i++) {
        local[i] = GC_malloc(48);
        watch(level * EACH + i, local[i]);
    }
}

static void *section(void *arg)
{
    intptr_t level = (intptr_t)arg;
    void *volatile local[EACH];
    fill(local, (int)level);
    if (level > 0) {
        GC_do_blocking(region, (void *)(level - 1));
    } else {
        for (int i = 0; i < 3; i++)
            collect();
        CHECK_NONE_GONE(LEVELS * EACH);
    }
    void *keep = NULL;
    for (int i = 0; i < EACH; i++)
        keep = local[i];
    return keep;
}

static void frames_of_all_sections_count(void)
{
    start();
    section((void *)(intptr_t)(LEVELS - 1));
    check_alive();
}

/* The same in a thread that another one stops. */
static void *deepest_waits(void *arg)
{
    void *volatile local[EACH];
    fill(local, (int)(intptr_t)arg);
    sem_post(&ready);
    while (!atomic_load(&quit))
        ;
    return local[EACH - 1];
}

static void *second_region(void *arg) { return GC_call_with_gc_active(deepest_waits, arg); }

static void *outer_section(void *arg)
{
    void *volatile local[EACH];
    (void)arg;
    fill(local, 1);
    GC_do_blocking(second_region, (void *)0);
    return local[EACH - 1];
}

static void *first_region(void *arg) { return GC_call_with_gc_active(outer_section, arg); }

static void *nested_thread(void *arg)
{
    void *volatile local[EACH];
    fill(local, 2);
    GC_do_blocking(first_region, arg);
    return local[EACH - 1];
}

static void frames_of_a_stopped_thread_count(void)
{
    pthread_t t;
    start();
    REQUIRE(GC_pthread_create(&t, NULL, nested_thread, NULL) == 0);
    wait_for(&ready);
    for (int i = 0; i < 3; i++)
        collect();
    CHECK_NONE_GONE(3 * EACH);
    atomic_store(&quit, 1);
    GC_pthread_join(t, NULL);
    check_alive();
}

/* ---- left by longjmp ---- */

static jmp_buf back;
static void *jumps(void *arg)
{
    (void)arg;
    allocates(NULL);
    longjmp(back, 1);
}

/* Out of the section into the region, which goes on, and ends. */
static void *survives_a_jump(void *arg)
{
    if (setjmp(back) == 0)
        GC_call_with_gc_active(jumps, arg);
    return arg;
}

static NOINLINE void keep_and_collect(void)
{
    void *volatile local[EACH];
    fill(local, 0);
    for (int i = 0; i < 3; i++)
        collect();
    CHECK_NONE_GONE(EACH);
    if (local[0] == NULL)
        CHECK(local[0] != NULL);
}

static void *collects(void *arg)
{
    keep_and_collect();
    return arg;
}

static void section_left_by_a_jump(void)
{
    start();
    CHECK_PTR(GC_do_blocking(survives_a_jump, &quit), &quit);
    keep_and_collect();
    /* Deeper than before, without a word to the library in between. */
    CHECK_PTR(GC_call_with_gc_active(collects, &quit), &quit);
    check_alive();
}

/* Where the frames of such a section were there are others' now, and they
 * count, also for a collection from below. */
static NOINLINE void far_down(void)
{
    volatile char area[64 * 1024];
    area[0] = 0;
    __asm__ volatile("" : : "r"(&area) : "memory");
    GC_call_with_gc_active(jumps, NULL);
    __asm__ volatile("" : : "r"(&area) : "memory");
}

static void *survives_a_jump_from_far_down(void *arg)
{
    if (setjmp(back) == 0)
        far_down();
    return arg;
}

static NOINLINE void fill_and_collect_from_below(void *volatile *local)
{
    volatile char area[256 * 1024];
    area[0] = 0;
    __asm__ volatile("" : : "r"(&area) : "memory");
    fill(local, 0);
    for (int i = 0; i < 3; i++)
        collect();
    __asm__ volatile("" : : "r"(&area) : "memory");
}

static NOINLINE void keep_above(void)
{
    void *volatile local[EACH];
    fill_and_collect_from_below(local);
    CHECK_NONE_GONE(EACH);
    if (local[0] == NULL)
        CHECK(local[0] != NULL);
}

static void section_far_down_left_by_a_jump(void)
{
    start();
    CHECK_PTR(GC_do_blocking(survives_a_jump_from_far_down, &quit), &quit);
    deep(keep_above);
    check_alive();
}

static void *jumps_out(void *arg)
{
    (void)arg;
    longjmp(back, 1);
}

static NOINLINE void deeper(int depth)
{
    void *volatile local[EACH];
    if (depth > 0) {
        deeper(depth - 1);
        return;
    }
    fill(local, 1);
    if (setjmp(back) == 0)
        GC_do_blocking(jumps_out, NULL);
    GC_call_with_gc_active(collects, NULL);
    CHECK_NONE_GONE(2 * EACH);
    if (local[0] == NULL)
        CHECK(local[0] != NULL);
}

static void region_left_by_a_jump(void)
{
    start();
    if (setjmp(back) == 0)
        GC_do_blocking(jumps_out, NULL);
    deeper(20);
    check_alive();
}

/* ---- held threads ---- */

static atomic_int in_active, in_blocking, done, go;
static void *notes_active(void *arg)
{
    atomic_store(&in_active, 1);
    return arg;
}

static void *becomes_active(void *arg)
{
    atomic_store(&in_blocking, 1);
    while (!atomic_load(&go))
        nap(1000);
    GC_call_with_gc_active(notes_active, arg);
    return arg;
}

static void *held_thread(void *arg)
{
    GC_do_blocking(becomes_active, arg);
    atomic_store(&done, 1);
    return arg;
}

static void held_thread_does_not_become_active(void)
{
    pthread_t t;
    start();
    REQUIRE(GC_pthread_create(&t, NULL, held_thread, NULL) == 0);
    while (!atomic_load(&in_blocking))
        nap(1000);
    GC_suspend_thread((GC_SUSPEND_THREAD_ID)t);
    CHECK(GC_is_thread_suspended((GC_SUSPEND_THREAD_ID)t));
    atomic_store(&go, 1);
    for (int i = 0; i < 50; i++) {
        nap(2000);
        CHECK_EQ(atomic_load(&in_active), 0);
    }
    GC_gcollect();
    GC_resume_thread((GC_SUSPEND_THREAD_ID)t);
    GC_pthread_join(t, NULL);
    CHECK_EQ(atomic_load(&in_active), 1);
    CHECK_EQ(atomic_load(&done), 1);
    check_alive();
}

static void first_collection_is_counted(void)
{
    CHECK_EQ(GC_get_gc_no(), 0);
    GC_INIT();
    CHECK_EQ(GC_get_gc_no(), 1);
    GC_gcollect();
    CHECK_EQ(GC_get_gc_no(), 2);
    struct GC_prof_stats_s stats;
    GC_get_prof_stats(&stats, sizeof stats);
    CHECK_EQ(stats.gc_no, 2);
}

static void no_first_collection_when_disabled(void)
{
    GC_disable();
    GC_INIT();
    CHECK_EQ(GC_get_gc_no(), 0);
}

MAIN_BEGIN
    RUN(region_is_not_interrupted);
    RUN(region_goes_on_after_a_section);
    RUN(region_without_signals);
    RUN(frames_of_all_sections_count);
    RUN(frames_of_a_stopped_thread_count);
    RUN_GLEANER(section_left_by_a_jump);
    RUN_GLEANER(section_far_down_left_by_a_jump);
    RUN_GLEANER(region_left_by_a_jump);
    RUN(held_thread_does_not_become_active);
    RUN(first_collection_is_counted);
    RUN(no_first_collection_when_disabled);
MAIN_END
