/* Leaving a callback by another way than return: longjmp, pthread_exit,
 * pthread_cancel. After it the library still works. (C++ exceptions:
 * cplusplus.cc.)
 *
 * Where stock is left in a bad state by such an exit the test is Gleaner's
 * alone; each says what stock does. */
#include "harness.h"
#include <gc/gc_mark.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>

static jmp_buf back;
static volatile int arrived;

static void start(void)
{
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
}

/* ---- longjmp ---- */

/* Only while the frame that called setjmp is there, and in its thread. */
static volatile int may_jump;
static pthread_t jumper;

static void final_jump(void *obj, void *cd)
{
    (void)obj;
    (void)cd;
    arrived++;
    if (may_jump && pthread_equal(jumper, pthread_self()))
        longjmp(back, 1);
}

static void final_count(void *obj, void *cd)
{
    (void)obj;
    (void)cd;
    arrived++;
}

static NOINLINE void make_jumping(void)
{
    for (int i = 0; i < 100; i++)
        GC_register_finalizer(GC_malloc(32), final_jump, NULL, NULL, NULL);
}

static void jump_from_finalizer(void)
{
    volatile int jumps = 0;
    start();
    GC_set_finalize_on_demand(1);
    deep(make_jumping);
    jumper = pthread_self();
    may_jump = 1;
    collect();
    while (GC_should_invoke_finalizers()) {
        if (setjmp(back) == 0)
            GC_invoke_finalizers();
        else
            jumps++;
        if (jumps % 10 == 0)
            check_alive();
    }
    CHECK_GE(jumps, MOST(100));
    CHECK_EQ(jumps, arrived); /* each ran once */
    check_alive();
}

static NOINLINE void make_counting(void)
{
    for (int i = 0; i < 100; i++)
        GC_register_finalizer(GC_malloc(32), final_count, NULL, NULL, NULL);
}

/* Out of one that an allocation ran. Stock marks the thread as busy with
 * finalizers and keeps it so: they no longer run by themselves there, which
 * the second half asks for. */
static void jump_from_automatic(int again)
{
    volatile int jumps = 0, i;
    start();
    jumper = pthread_self();
    deep(make_jumping);
    may_jump = 1;
    for (i = 0; i < 200; i++)
        if (setjmp(back) == 0) {
            collect();
            churn(1 << 20, 64);
        } else {
            jumps++;
        }
    may_jump = 0;
    CHECK_OP(jumps, >, 0);
    check_alive();
    if (!again)
        return;
    GC_invoke_finalizers();
    arrived = 0;
    deep(make_counting);
    for (i = 0; i < 20; i++) {
        collect();
        churn(1 << 20, 64);
    }
    CHECK_GE(arrived, MOST(100));
}

static void jump_from_automatic_finalizer(void) { jump_from_automatic(0); }
static void finalizers_go_on_after_a_jump(void) { jump_from_automatic(1); }

static void *base_jump(struct GC_stack_base *sb, void *arg)
{
    (void)sb;
    (void)arg;
    arrived++;
    GC_malloc(10);
    longjmp(back, 1);
}

static void jump_from_stack_base(void)
{
    start();
    for (volatile int i = 0; i < 100; i++)
        if (setjmp(back) == 0)
            GC_call_with_stack_base(base_jump, NULL);
    CHECK_EQ(arrived, 100);
    check_alive();
}

static void *region_jump(void *arg)
{
    (void)arg;
    arrived++;
    longjmp(back, 1);
}

static volatile int quit;
static void *collects(void *arg)
{
    while (!quit) {
        GC_gcollect();
        nap(300);
    }
    return arg;
}

/* Stock goes on believing that the thread is in the region: from then on it
 * is not stopped, and what it keeps deeper in its stack is not scanned. */
static NOINLINE void hold_deep(void)
{
    void *local[200];
    for (int i = 0; i < 200; i++) {
        local[i] = GC_malloc(48);
        ((uintptr_t *)local[i])[1] = (uintptr_t)i * 2 + 1;
    }
    __asm__ volatile("" : : "r"(local) : "memory");
    GC_gcollect();
    churn(1 << 18, 48);
    for (int i = 0; i < 200; i++)
        CHECK_EQ(((uintptr_t *)local[i])[1], i * 2 + 1);
}

static void jump_from_do_blocking(void)
{
    pthread_t t;
    start();
    REQUIRE(pthread_create(&t, NULL, collects, NULL) == 0);
    for (volatile int i = 0; i < 50; i++)
        if (setjmp(back) == 0)
            GC_do_blocking(region_jump, NULL);
    CHECK_EQ(arrived, 50);
    for (int round = 0; round < 20; round++)
        deep(hold_deep);
    quit = 1;
    pthread_join(t, NULL);
    check_alive();
}

/* Out of the active part into the region that surrounds it: the region is as
 * it was. Stock keeps the popped frame in its list of stack sections and
 * crashes in a later collection. */
static void *active_jump(void *arg)
{
    (void)arg;
    arrived++;
    GC_malloc(100);
    longjmp(back, 1);
}

static void *region_around(void *arg)
{
    for (volatile int i = 0; i < 20; i++)
        if (setjmp(back) == 0)
            GC_call_with_gc_active(active_jump, NULL);
    return arg;
}

static void jump_from_gc_active(void)
{
    start();
    int token;
    CHECK_PTR(GC_do_blocking(region_around, &token), &token);
    CHECK_EQ(arrived, 20);
    check_alive();
}

/* Out of both at once. */
static void *region_with_active(void *arg)
{
    GC_call_with_gc_active(active_jump, arg);
    return arg;
}

static void jump_from_both(void)
{
    start();
    for (volatile int i = 0; i < 20; i++)
        if (setjmp(back) == 0)
            GC_do_blocking(region_with_active, NULL);
    CHECK_EQ(arrived, 20);
    check_alive();
}

static void *oom_jump(size_t n)
{
    (void)n;
    arrived++;
    longjmp(back, 1);
}

static void jump_from_oom_function(void)
{
    start();
    GC_set_max_heap_size(16 << 20);
    GC_set_oom_fn(oom_jump);
    for (volatile int i = 0; i < 30; i++)
        if (setjmp(back) == 0) {
            void *p = i % 3 == 0   ? GC_malloc(64 << 20)
                      : i % 3 == 1 ? GC_malloc_atomic(64 << 20)
                                   : GC_realloc(GC_malloc(10), 64 << 20);
            CHECK(p == NULL && !"no jump");
        }
    CHECK_EQ(arrived, 30);
    check_alive();
}

/* Stock warns with the lock held: after a jump everything hangs. */
static void warn_jump(char *message, GC_word arg)
{
    (void)message;
    (void)arg;
    arrived++;
    longjmp(back, 1);
}

static void jump_from_warn_proc(void)
{
    start();
    GC_set_max_heap_size(16 << 20);
    GC_set_warn_proc(warn_jump);
    for (volatile int i = 0; i < 20; i++)
        if (setjmp(back) == 0)
            GC_malloc(64 << 20);
    CHECK_OP(arrived, >, 0);
    GC_set_warn_proc(GC_ignore_warn_proc);
    check_alive();
}

/* ---- pthread_exit ---- */

static sem_t inside;
static int cancelled_too;

/* Leaves in one of two ways. */
static void leave(void)
{
    arrived++;
    if (!cancelled_too)
        pthread_exit(&inside);
    sem_post(&inside);
    for (;;) {
        pthread_testcancel();
        sched_yield();
    }
}

static void *leave_region(void *arg)
{
    (void)arg;
    leave();
    return NULL;
}

static void *leave_base(struct GC_stack_base *sb, void *arg)
{
    (void)sb;
    (void)arg;
    leave();
    return NULL;
}

static void leave_final(void *obj, void *cd)
{
    (void)obj;
    (void)cd;
    leave();
}

static void *leave_oom(size_t n)
{
    (void)n;
    leave();
    return NULL;
}

static void leave_warn(char *message, GC_word arg)
{
    (void)message;
    (void)arg;
    leave();
}

static void *via_region(void *arg)
{
    GC_malloc(10);
    GC_do_blocking(leave_region, arg);
    return arg;
}

static void *via_base(void *arg)
{
    GC_malloc(10);
    GC_call_with_stack_base(leave_base, arg);
    return arg;
}

static void *region_then_active(void *arg)
{
    GC_call_with_gc_active(leave_region, arg);
    return arg;
}

static void *via_active(void *arg)
{
    GC_malloc(10);
    GC_do_blocking(region_then_active, arg);
    return arg;
}

static NOINLINE void make_leaving(void)
{
    for (int i = 0; i < 100; i++)
        GC_register_finalizer(GC_malloc(32), leave_final, NULL, NULL, NULL);
}

static void *via_finalizer(void *arg)
{
    for (int i = 0; i < 100; i++)
        GC_invoke_finalizers();
    return arg;
}

static void *via_oom(void *arg)
{
    GC_malloc((size_t)64 << 20);
    return arg;
}

static void leave_by(void *(*body)(void *), int times)
{
    sem_init(&inside, 0, 0);
    for (int i = 0; i < times; i++) {
        pthread_t t;
        void *r = NULL;
        REQUIRE(pthread_create(&t, NULL, body, NULL) == 0);
        if (cancelled_too) {
            while (sem_wait(&inside) != 0)
                ;
            pthread_cancel(t);
        }
        pthread_join(t, &r);
        CHECK_PTR(r, cancelled_too ? PTHREAD_CANCELED : (void *)&inside);
        if (i % 5 == 0)
            check_alive();
    }
    CHECK_EQ(arrived, times);
    check_alive();
}

static void exit_from_do_blocking(void) { start(); leave_by(via_region, 20); }
static void exit_from_stack_base(void) { start(); leave_by(via_base, 20); }
static void exit_from_gc_active(void) { start(); leave_by(via_active, 20); }

static void exit_from_finalizer(void)
{
    start();
    GC_set_finalize_on_demand(1);
    deep(make_leaving);
    collect();
    leave_by(via_finalizer, 20);
}

static void exit_from_oom_function(void)
{
    start();
    GC_set_max_heap_size(16 << 20);
    GC_set_oom_fn(leave_oom);
    leave_by(via_oom, 20);
}

static void exit_from_warn_proc(void)
{
    start();
    GC_set_max_heap_size(16 << 20);
    GC_set_warn_proc(leave_warn);
    sem_init(&inside, 0, 0);
    pthread_t t;
    REQUIRE(pthread_create(&t, NULL, via_oom, NULL) == 0);
    if (cancelled_too) {
        while (sem_wait(&inside) != 0)
            ;
        pthread_cancel(t);
    }
    pthread_join(t, NULL);
    CHECK_OP(arrived, >, 0);
    GC_set_warn_proc(GC_ignore_warn_proc);
    check_alive();
}

/* ---- pthread_cancel ---- */

static void cancel_in_do_blocking(void)
{
    cancelled_too = 1;
    exit_from_do_blocking();
}
static void cancel_in_stack_base(void)
{
    cancelled_too = 1;
    exit_from_stack_base();
}
static void cancel_in_gc_active(void)
{
    cancelled_too = 1;
    exit_from_gc_active();
}
static void cancel_in_finalizer(void)
{
    cancelled_too = 1;
    exit_from_finalizer();
}
static void cancel_in_oom_function(void)
{
    cancelled_too = 1;
    exit_from_oom_function();
}
static void cancel_in_warn_proc(void)
{
    cancelled_too = 1;
    exit_from_warn_proc();
}

/* Cancelled at any moment while it allocates; no allocation is a
 * cancellation point, so the heap is whole. */
static void *allocates_forever(void *arg)
{
    (void)arg;
    sem_post(&inside);
    for (;;) {
        churn(10000, 64);
        GC_free(GC_malloc(20000));
        pthread_testcancel();
    }
    return NULL;
}

static void cancel_while_allocating(void)
{
    start();
    sem_init(&inside, 0, 0);
    for (int i = 0; i < 100; i++) {
        pthread_t t;
        void *r = NULL;
        REQUIRE(pthread_create(&t, NULL, allocates_forever, NULL) == 0);
        while (sem_wait(&inside) != 0)
            ;
        nap(i * 13 % 500);
        pthread_cancel(t);
        if (i % 3 == 0)
            GC_gcollect();
        pthread_join(t, &r);
        CHECK_PTR(r, PTHREAD_CANCELED);
    }
    check_alive();
}

/* A cleanup handler that allocates while the thread is being cancelled. */
static void cleanup(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++)
        GC_malloc(100);
    arrived++;
}

static void *with_cleanup(void *arg)
{
    pthread_cleanup_push(cleanup, arg);
    sem_post(&inside);
    for (;;)
        sleep(1000);
    pthread_cleanup_pop(0);
    return NULL;
}

static void cleanup_allocates(void)
{
    start();
    sem_init(&inside, 0, 0);
    for (int i = 0; i < 20; i++) {
        pthread_t t;
        REQUIRE(pthread_create(&t, NULL, with_cleanup, NULL) == 0);
        while (sem_wait(&inside) != 0)
            ;
        pthread_cancel(t);
        GC_gcollect();
        pthread_join(t, NULL);
    }
    CHECK_EQ(arrived, 20);
    check_alive();
}

/* Jumps of the client's own across many frames, while others collect. */
static NOINLINE int down(volatile int depth)
{
    void *p = GC_malloc(100);
    if (depth == 0)
        longjmp(back, 1);
    int r = depth > 0 ? down(depth - 1) + 1 : 0;
    GC_reachable_here(p);
    return r;
}

static void jumps_of_its_own(void)
{
    pthread_t t;
    volatile int n = 0;
    start();
    REQUIRE(pthread_create(&t, NULL, collects, NULL) == 0);
    for (volatile int i = 0; i < 3000; i++)
        if (setjmp(back) == 0)
            down(50);
        else
            n++;
    CHECK_EQ(n, 3000);
    quit = 1;
    pthread_join(t, NULL);
    check_alive();
}

MAIN_BEGIN
    RUN(jump_from_finalizer);
    RUN(jump_from_automatic_finalizer);
    RUN_GLEANER(finalizers_go_on_after_a_jump);
    RUN(jump_from_stack_base);
    RUN_GLEANER(jump_from_do_blocking);
    RUN_GLEANER(jump_from_gc_active);
    RUN_GLEANER(jump_from_both);
    RUN(jump_from_oom_function);
    RUN_GLEANER(jump_from_warn_proc);
    RUN(exit_from_do_blocking);
    RUN(exit_from_stack_base);
    RUN(exit_from_gc_active);
    RUN(exit_from_finalizer);
    RUN(exit_from_oom_function);
    RUN_GLEANER(exit_from_warn_proc);
    RUN(cancel_in_do_blocking);
    RUN(cancel_in_stack_base);
    RUN(cancel_in_gc_active);
    RUN(cancel_in_finalizer);
    RUN(cancel_in_oom_function);
    RUN_GLEANER(cancel_in_warn_proc);
    RUN(cancel_while_allocating);
    RUN(cleanup_allocates);
    RUN(jumps_of_its_own);
MAIN_END
