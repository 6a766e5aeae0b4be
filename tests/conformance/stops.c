/* Stopping and not being stopped: blocking regions, the allocation lock, the
 * world stopped by the client, other stacks. */
#include "running.h"
#include <gc/gc_mark.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <ucontext.h>

static sem_t ready, resume;

static void wait_for(sem_t *s)
{
    while (sem_wait(s) != 0)
        ;
}

static void start(void)
{
    GC_INIT();
    sem_init(&ready, 0, 0);
    sem_init(&resume, 0, 0);
}

static NOINLINE void fill_stack(void **local, int n, int base)
{
    for (int i = 0; i < n; i++) {
        local[i] = GC_malloc(48);
        ((uintptr_t *)local[i])[1] = (uintptr_t)(base + i) * 2 + 1;
        watch(base + i, local[i]);
    }
}

static NOINLINE void check_stack(void **local, int n, int base)
{
    for (int i = 0; i < n; i++)
        CHECK_EQ(((uintptr_t *)local[i])[1], (base + i) * 2 + 1);
}

/* ---- blocking ---- */

static void *block_here(void *arg)
{
    sem_post(&ready);
    wait_for(&resume);
    return arg;
}

/* The frames outside the region are scanned, the thread is not stopped. */
static void *blocks(void *arg)
{
    void *local[200];
    fill_stack(local, 200, 0);
    __asm__ volatile("" : : "r"(local) : "memory");
    CHECK_PTR(GC_do_blocking(block_here, arg), arg);
    check_stack(local, 200, 0);
    return arg;
}

static void blocking_thread(void)
{
    pthread_t t;
    void *r = NULL;
    start();
    REQUIRE(pthread_create(&t, NULL, blocks, &t) == 0);
    wait_for(&ready);
    for (int i = 0; i < 5; i++) {
        collect();
        churn(1 << 20, 48);
    }
    CHECK_EQ(gone(200), 0);
    sem_post(&resume);
    pthread_join(t, &r);
    CHECK_PTR(r, &t);
}

/* A thread in the region is not signalled: it may have everything blocked. */
static void *block_signals(void *arg)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    sem_post(&ready);
    wait_for(&resume);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return arg;
}

static void *blocks_with_signals_off(void *arg)
{
    return GC_do_blocking(block_signals, arg);
}

static void blocking_with_signals_off(void)
{
    pthread_t t;
    start();
    REQUIRE(pthread_create(&t, NULL, blocks_with_signals_off, NULL) == 0);
    wait_for(&ready);
    for (int i = 0; i < 3; i++)
        GC_gcollect();
    sem_post(&resume);
    pthread_join(t, NULL);
    check_alive();
}

/* Active again inside, and blocking inside that, and so on; each level with
 * data of its own. */
static void *level_active(void *arg);

static void *level_blocking(void *arg)
{
    uintptr_t depth = (uintptr_t)arg;
    if (depth == 0) {
        sem_post(&ready);
        wait_for(&resume);
        return arg;
    }
    return GC_call_with_gc_active(level_active, (void *)depth);
}

static void *level_active(void *arg)
{
    uintptr_t depth = (uintptr_t)arg;
    void *local[50];
    fill_stack(local, 50, (int)depth * 50);
    __asm__ volatile("" : : "r"(local) : "memory");
    GC_do_blocking(level_blocking, (void *)(depth - 1));
    check_stack(local, 50, (int)depth * 50);
    GC_gcollect();
    check_stack(local, 50, (int)depth * 50);
    return arg;
}

static void *nests(void *arg)
{
    level_active((void *)8);
    GC_gcollect();
    return arg;
}

static void nested_blocking(void)
{
    pthread_t t;
    start();
    REQUIRE(pthread_create(&t, NULL, nests, NULL) == 0);
    wait_for(&ready);
    for (int i = 0; i < 5; i++) {
        collect();
        churn(1 << 20, 48);
    }
    for (int i = 50; i < 450; i++)
        CHECK_NE(h_watched[i], 0);
    sem_post(&resume);
    pthread_join(t, NULL);
}

static void *collects(void *arg)
{
    for (int i = 0; i < 4; i++) {
        GC_gcollect();
        churn(1 << 20, 48);
    }
    sem_post(&resume);
    return arg;
}

/* The main thread blocks; another collects. */
static void blocking_main(void)
{
    pthread_t t;
    void *local[200];
    start();
    fill_stack(local, 200, 0);
    __asm__ volatile("" : : "r"(local) : "memory");
    REQUIRE(pthread_create(&t, NULL, collects, NULL) == 0);
    GC_do_blocking(block_here, NULL);
    pthread_join(t, NULL);
    CHECK_EQ(gone(200), 0);
    check_stack(local, 200, 0);
}

static void nested_main(void)
{
    pthread_t t;
    start();
    REQUIRE(pthread_create(&t, NULL, collects, NULL) == 0);
    level_active((void *)5);
    pthread_join(t, NULL);
}

/* Frames in the region are not scanned. */
static void *inside_region(void *arg)
{
    void *local[MANY];
    memcpy(local, arg, sizeof local);
    memset(arg, 0, sizeof local);
    __asm__ volatile("" : : "r"(local) : "memory");
    sem_post(&ready);
    wait_for(&resume);
    __asm__ volatile("" : : "r"(local) : "memory");
    return NULL;
}

static void *moves_inside(void *arg)
{
    void *local[MANY];
    fill_stack(local, MANY, 0);
    GC_do_blocking(inside_region, local);
    return arg;
}

static void region_is_not_scanned(void)
{
    pthread_t t;
    start();
    REQUIRE(pthread_create(&t, NULL, moves_inside, NULL) == 0);
    wait_for(&ready);
    collect();
    CHECK_MOST_GONE(MANY);
    sem_post(&resume);
    pthread_join(t, NULL);
}

/* Called outside a region GC_call_with_gc_active only calls. */
static void *just_active(void *arg)
{
    GC_gcollect();
    return GC_malloc(16) != NULL ? arg : NULL;
}

static void active_outside(void)
{
    int token;
    start();
    CHECK_PTR(GC_call_with_gc_active(just_active, &token), &token);
    check_alive();
}

/* Registers that the caller keeps for itself across the region. */
static void *keeps_registers(void *arg)
{
    void *a = GC_malloc(48), *b = GC_malloc(48), *c = GC_malloc(48);
    ((uintptr_t *)a)[1] = 11;
    ((uintptr_t *)b)[1] = 22;
    ((uintptr_t *)c)[1] = 33;
    GC_do_blocking(block_here, NULL);
    if (((uintptr_t *)a)[1] != 11 || ((uintptr_t *)b)[1] != 22
        || ((uintptr_t *)c)[1] != 33)
        return NULL;
    return arg;
}

static void registers_across_blocking(void)
{
    pthread_t t;
    void *r = NULL;
    start();
    for (int k = 0; k < 20; k++) {
        REQUIRE(pthread_create(&t, NULL, keeps_registers, &t) == 0);
        wait_for(&ready);
        collect();
        churn(1 << 19, 48);
        sem_post(&resume);
        pthread_join(t, &r);
        CHECK_PTR(r, &t);
    }
}

/* ---- the allocation lock ---- */

static volatile int inside, overlaps;
static void *locked_section(void *arg)
{
    if (__atomic_fetch_add(&inside, 1, __ATOMIC_SEQ_CST) != 0)
        overlaps = 1;
    for (volatile int i = 0; i < 100; i++)
        ;
    __atomic_fetch_sub(&inside, 1, __ATOMIC_SEQ_CST);
    return arg;
}

static void *locks(void *arg)
{
    for (int i = 0; i < 5000; i++) {
        if (i % 2) {
            CHECK_PTR(GC_call_with_alloc_lock(locked_section, arg), arg);
        } else {
            GC_alloc_lock();
            locked_section(NULL);
            GC_alloc_unlock();
        }
        if (i % 50 == 0)
            churn(1000, 100);
    }
    return arg;
}

static void alloc_lock_excludes(void)
{
    pthread_t t[4];
    start();
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&t[i], NULL, locks, &t) == 0);
    for (int i = 0; i < 5; i++)
        GC_gcollect();
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    CHECK_EQ(overlaps, 0);
}

/* While one holds the lock no other collects. */
static volatile int finished;
static void *wants_to_collect(void *arg)
{
    wait_for(&resume);
    sem_post(&ready);
    GC_gcollect();
    finished = 1;
    return arg;
}

static void alloc_lock_holds_off_collections(void)
{
    pthread_t t;
    start();
    REQUIRE(pthread_create(&t, NULL, wants_to_collect, NULL) == 0);
    GC_alloc_lock();
    GC_word no = GC_get_gc_no();
    sem_post(&resume);
    wait_for(&ready);
    for (int i = 0; i < 100; i++)
        sched_yield();
    CHECK_EQ(finished, 0);
    CHECK_EQ(GC_get_gc_no(), no);
    GC_alloc_unlock();
    pthread_join(t, NULL);
    CHECK_EQ(finished, 1);
}

/* What a section changed may fit together only when its thread has gone on a
 * little: Guile stores the stack pointer of its VM then. A thread that waited
 * for the lock does not stop it before. */
static volatile int unfinished, seen_unfinished;
static void looks_when_stopped(GC_EventType event)
{
    if (event == GC_EVENT_POST_STOP_WORLD)
        seen_unfinished |= unfinished;
}

static void *begins(void *arg)
{
    sem_post(&resume);
    wait_for(&ready);
    unfinished = 1;
    return arg;
}

static void section_is_left_before_a_stop(void)
{
    pthread_t t;
    add_options("fault=section-end-late@1");
    start();
    GC_set_on_collection_event(looks_when_stopped);
    REQUIRE(pthread_create(&t, NULL, wants_to_collect, NULL) == 0);
    GC_word no = GC_get_gc_no();
    GC_call_with_alloc_lock(begins, NULL);
    unfinished = 0;
    pthread_join(t, NULL);
    CHECK_EQ(seen_unfinished, 0);
    CHECK_GE(GC_get_gc_no(), no + 1);
}

/* ---- the world stopped by the client ---- */

static void stopped_world(void)
{
    pthread_t t[4];
    long before[4];
    start();
    for (uintptr_t i = 0; i < 4; i++)
        REQUIRE(pthread_create(&t[i], NULL, runs, (void *)i) == 0);
    for (int i = 0; i < 4; i++)
        while (progress[i] == 0)
            sched_yield();
    for (int round = 0; round < 20; round++) {
        GC_stop_world_external();
        for (int i = 0; i < 4; i++)
            before[i] = progress[i];
        for (int i = 0; i < 200; i++)
            sched_yield();
        for (int i = 0; i < 4; i++)
            CHECK_EQ(progress[i], before[i]);
        GC_start_world_external();
        sched_yield();
    }
    for (int i = 0; i < 4; i++)
        while (progress[i] == before[i])
            sched_yield();
    GC_gcollect();
    quit = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    check_alive();
}

/* ---- an alternate signal stack ---- */

static char altstack[64 * 1024];
static volatile sig_atomic_t in_handler, leave_handler;

/* The handler's own frame, on the alternate stack, holds references too. */
static void on_usr1(int sig)
{
    void *local[100];
    (void)sig;
    fill_stack(local, 100, 200);
    __asm__ volatile("" : : "r"(local) : "memory");
    in_handler = 1;
    while (!leave_handler)
        ;
    check_stack(local, 100, 200);
}

static void *on_alternate_stack(void *arg)
{
    pthread_attr_t attr;
    void *base;
    size_t size;
    void *local[200];
    stack_t ss = {0};
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &base, &size);
    GC_register_altstack(base, size, altstack, sizeof altstack);
    ss.ss_sp = altstack;
    ss.ss_size = sizeof altstack;
    REQUIRE(sigaltstack(&ss, NULL) == 0);
    struct sigaction sa = {0};
    sa.sa_handler = on_usr1;
    sa.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &sa, NULL);
    fill_stack(local, 200, 0);
    __asm__ volatile("" : : "r"(local) : "memory");
    raise(SIGUSR1);
    if (arg != NULL)
        check_stack(local, 200, 0);
    ss.ss_flags = SS_DISABLE;
    sigaltstack(&ss, NULL);
    return arg;
}

static void collect_on_altstack(int ordinary_too)
{
    pthread_t t;
    start();
    /* The array itself must not be a root of the test's making. */
    GC_exclude_static_roots(altstack, altstack + sizeof altstack);
    REQUIRE(pthread_create(&t, NULL, on_alternate_stack,
                           ordinary_too ? &t : NULL) == 0);
    while (!in_handler)
        sched_yield();
    for (int i = 0; i < 3; i++) {
        collect();
        churn(1 << 20, 48);
    }
    for (int i = ordinary_too ? 0 : 200; i < 300; i++)
        CHECK_NE(h_watched[i], 0);
    leave_handler = 1;
    pthread_join(t, NULL);
    check_alive();
}

/* Suspended while it runs on its alternate stack. Stock scans that one only
 * and loses what the ordinary stack holds. */
static void alternate_stack(void) { collect_on_altstack(0); }
static void alternate_and_ordinary_stack(void) { collect_on_altstack(1); }

/* ---- the bottom of the stack ---- */

static void stack_bases(void)
{
    struct GC_stack_base a, b;
    int here;
    start();
    CHECK_EQ(GC_get_stack_base(&a), GC_SUCCESS);
    CHECK(GC_get_my_stackbottom(&b) != NULL);
    CHECK((char *)a.mem_base > (char *)&here);
    CHECK((char *)b.mem_base > (char *)&here);
    /* For the main thread the variable is the same thing. */
    CHECK_PTR(GC_stackbottom, b.mem_base);
}

static void *bases_in_thread(void *arg)
{
    struct GC_stack_base a, b;
    int here;
    CHECK_EQ(GC_get_stack_base(&a), GC_SUCCESS);
    CHECK(GC_get_my_stackbottom(&b) != NULL);
    CHECK((char *)a.mem_base > (char *)&here);
    CHECK((char *)b.mem_base > (char *)&here);
    return arg;
}

static void stack_bases_in_thread(void)
{
    pthread_t t;
    start();
    REQUIRE(pthread_create(&t, NULL, bases_in_thread, NULL) == 0);
    pthread_join(t, NULL);
}

static void *saw_base(struct GC_stack_base *sb, void *arg)
{
    int here;
    CHECK((char *)sb->mem_base > (char *)&here);
    CHECK((char *)sb->mem_base < (char *)arg);
    return arg;
}

static void call_with_base(void)
{
    int above[1000];
    start();
    CHECK_PTR(GC_call_with_stack_base(saw_base, above + 999), above + 999);
}

/* Coroutines as Crystal makes them: stacks of their own; the bottom is
 * written at every switch; the stacks that do not run are pushed by the
 * push-other-roots procedure. */
enum { FIBERS = 20, FIBER_STACK = 256 * 1024 };
static struct fiber {
    ucontext_t context;
    char *stack, *bottom, *top; /* top: where it left off */
    int done;
} fibers[FIBERS + 1];
static int current = FIBERS, by_function;
static void *main_handle;
static GC_push_other_roots_proc next_push;

static void push_fibers(void)
{
    for (int i = 0; i <= FIBERS; i++)
        if (i != current && fibers[i].top != NULL)
            GC_push_all_eager(fibers[i].top, fibers[i].bottom);
    if (next_push != NULL)
        next_push();
}

static void *set_bottom(void *arg)
{
    struct GC_stack_base sb;
    sb.mem_base = arg;
    GC_set_stackbottom(by_function == 1 ? main_handle : NULL, &sb);
    return NULL;
}

static NOINLINE void switch_to(int to)
{
    int from = current;
    void *registers[16];
    /* swapcontext saves the registers in the ucontext, which is static data
     * and scanned; the stack is live from here on. */
    __asm__ volatile("" : : "r"(registers) : "memory");
    fibers[from].top = (char *)__builtin_frame_address(0) - 4096;
    if (fibers[from].top < fibers[from].stack)
        fibers[from].top = fibers[from].stack;
    GC_disable();
    current = to;
    if (by_function)
        GC_call_with_alloc_lock(set_bottom, fibers[to].bottom);
    else
        GC_stackbottom = fibers[to].bottom;
    swapcontext(&fibers[from].context, &fibers[to].context);
    GC_enable();
}

static void fiber_main(int id)
{
    GC_enable();
    void *local[20];
    for (int i = 0; i < 20; i++) {
        local[i] = GC_malloc(48);
        ((uintptr_t *)local[i])[1] = (uintptr_t)(id * 100 + i) * 2 + 1;
    }
    __asm__ volatile("" : : "r"(local) : "memory");
    for (int round = 0; round < 10; round++) {
        switch_to(round % 3 == 0 ? FIBERS : (id + 1) % FIBERS);
        churn(50000, 48);
        if (id % 7 == round % 7)
            GC_gcollect();
        for (int i = 0; i < 20; i++)
            CHECK_EQ(((uintptr_t *)local[i])[1], (id * 100 + i) * 2 + 1);
    }
    fibers[id].done = 1;
    for (;;)
        switch_to(FIBERS);
}

static void run_fibers(void)
{
    struct GC_stack_base sb;
    start();
    main_handle = GC_get_my_stackbottom(&sb);
    next_push = GC_get_push_other_roots();
    GC_set_push_other_roots(push_fibers);
    fibers[FIBERS].bottom = sb.mem_base;
    for (int i = 0; i < FIBERS; i++) {
        struct fiber *f = &fibers[i];
        f->stack = mmap(NULL, FIBER_STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(f->stack != MAP_FAILED);
        f->bottom = f->stack + FIBER_STACK;
        getcontext(&f->context);
        f->context.uc_stack.ss_sp = f->stack;
        f->context.uc_stack.ss_size = FIBER_STACK;
        makecontext(&f->context, (void (*)(void))fiber_main, 1, i);
    }
    int left = 1;
    for (int turn = 0; left; turn++) {
        REQUIRE(turn < 100000);
        switch_to(turn % FIBERS);
        left = 0;
        for (int i = 0; i < FIBERS; i++)
            left += !fibers[i].done;
    }
    GC_gcollect();
    check_alive();
}

static void fibers_by_variable(void) { run_fibers(); }

static void fibers_by_handle(void)
{
    by_function = 1;
    run_fibers();
}

static void fibers_by_null_handle(void)
{
    by_function = 2;
    run_fibers();
}

static void *fibers_elsewhere(void *arg)
{
    (void)arg;
    by_function = 2;
    run_fibers();
    return NULL;
}

static void fibers_in_a_thread(void)
{
    pthread_t t;
    start();
    REQUIRE(pthread_create(&t, NULL, fibers_elsewhere, NULL) == 0);
    pthread_join(t, NULL);
}

/* Before initialisation it sets the bottom of the main thread. */
static NOINLINE void bottom_before_init_body(struct GC_stack_base *sb)
{
    GC_set_stackbottom(NULL, sb);
    CHECK_PTR(GC_stackbottom, sb->mem_base);
    GC_INIT();
    CHECK_PTR(GC_stackbottom, sb->mem_base);
    void *local[100];
    fill_stack(local, 100, 0);
    __asm__ volatile("" : : "r"(local) : "memory");
    collect();
    CHECK_EQ(gone(100), 0);
    check_stack(local, 100, 0);
}

static void bottom_before_init(void)
{
    struct GC_stack_base sb;
    volatile char pad[256];
    pad[0] = 0;
    sb.mem_base = (void *)((uintptr_t)(pad + sizeof pad) & ~(uintptr_t)15);
    bottom_before_init_body(&sb);
}

MAIN_BEGIN
    RUN(blocking_thread);
    RUN(blocking_with_signals_off);
    RUN(nested_blocking);
    RUN(blocking_main);
    RUN(nested_main);
    RUN(region_is_not_scanned);
    RUN(active_outside);
    RUN(registers_across_blocking);
    RUN(alloc_lock_excludes);
    RUN(alloc_lock_holds_off_collections);
    RUN_GLEANER(section_is_left_before_a_stop);
    RUN(stopped_world);
    RUN(alternate_stack);
    RUN_GLEANER(alternate_and_ordinary_stack);
    RUN(stack_bases);
    RUN(stack_bases_in_thread);
    RUN(call_with_base);
    RUN(fibers_by_variable);
    RUN(fibers_by_handle);
    RUN(fibers_by_null_handle);
    RUN(fibers_in_a_thread);
    RUN(bottom_before_init);
MAIN_END
