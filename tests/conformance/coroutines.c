/* Code on stacks that the program made: the client says where they are in its
 * push-other-roots procedure, or registers them as roots and says nothing. */
#include "stacks.h"
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/user.h>

static volatile int found, counted;

static void keep_and_collect(void)
{
    void **volatile list = make_list(CELLS);
    GC_gcollect();
    churn(under_stress() ? 10000 : 4 << 20, 32);
    found = is_whole(list, CELLS);
}

/* ---- the client tells before the stacks are scanned ---- */

static void told_in_push_other_roots(void)
{
    start();
    next_push = GC_get_push_other_roots();
    GC_set_push_other_roots(tell_and_push);
    run_on_stack(keep_and_collect);
    CHECK_EQ(found, 1);
    CHECK_OP(tells, >, 0);
    GC_set_push_other_roots(next_push);
    GC_set_stackbottom(handle, &own_bottom);
    check_alive();
}

/* The stack of the thread itself is named as another one: it counts too. */
static void *list_of_main;
static void push_both(void)
{
    tells++;
    if (list_of_main == NULL) { /* still on the first stack */
        next_push();
        return;
    }
    GC_push_all_eager(list_of_main, own_bottom.mem_base);
    GC_set_stackbottom(handle, &bottom);
    next_push();
}

static NOINLINE void main_list_too(void)
{
    void **volatile list = make_list(CELLS);
    list_of_main = (char *)__builtin_frame_address(0) - 1024;
    run_on_stack(keep_and_collect);
    CHECK(is_whole(list, CELLS));
}

static void both_stacks_are_pushed(void)
{
    start();
    next_push = GC_get_push_other_roots();
    GC_set_push_other_roots(push_both);
    main_list_too();
    CHECK_EQ(found, 1);
    GC_set_push_other_roots(next_push);
    GC_set_stackbottom(handle, &own_bottom);
    check_alive();
}

/* Once for each call of the default procedure: between two calls the client
 * may say that the stack is another one. */
static void push_twice(void)
{
    next_push();
    GC_set_stackbottom(handle, &bottom);
    next_push();
}

static void default_procedure_called_twice(void)
{
    start();
    next_push = GC_get_push_other_roots();
    GC_set_push_other_roots(push_twice);
    GC_set_stackbottom(handle, &bottom);
    run_on_stack(keep_and_collect);
    CHECK_EQ(found, 1);
    GC_set_push_other_roots(next_push);
    GC_set_stackbottom(handle, &own_bottom);
    check_alive();
}

/* Called at any other time it does nothing. */
static void default_procedure_outside(void)
{
    start();
    GC_get_push_other_roots()();
    void **volatile list = make_list(CELLS);
    GC_gcollect();
    CHECK(is_whole(list, CELLS));
}

/* ---- several threads on stacks that the client names in each collection ---- */

enum { FIBER_THREADS = 3 };
static struct fiber {
    ucontext_t back, context;
    void *handle;
    struct GC_stack_base bottom, own;
    int whole;
} fibers[FIBER_THREADS];

/* Which stack a thread is on is known to the client alone. */
static void name_all_stacks(void)
{
    tells++;
    GC_set_stackbottom(handle, &own_bottom);
    for (int i = 0; i < FIBER_THREADS; i++)
        if (fibers[i].handle != NULL)
            GC_set_stackbottom(fibers[i].handle, &fibers[i].bottom);
    next_push();
}

/* Nobody allocates while another thread goes from stack to stack, which lets nothing be collected. */
static pthread_barrier_t all_there, all_done;

/* 20 MB, of which nothing lives but the list. */
static void allocate_on_fiber(int number)
{
    GC_enable();
    pthread_barrier_wait(&all_there);
    void **volatile list = make_list(CELLS);
    for (int i = 0; i < 20; i++)
        churn(under_stress() ? 800 : 1 << 20, 32);
    fibers[number].whole = is_whole(list, CELLS);
    pthread_barrier_wait(&all_done);
    GC_disable();
}

static void *to_own_stack(void *arg)
{
    struct fiber *fiber = arg;
    GC_set_stackbottom(fiber->handle, &fiber->own);
    fiber->handle = NULL;
    return NULL;
}

/* Nothing is collected while a thread goes from one stack to the other. */
static void *run_fiber(void *arg)
{
    struct fiber *fiber = arg;
    char *memory = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = memory;
    fiber->context.uc_stack.ss_size = STACK;
    fiber->context.uc_link = &fiber->back;
    makecontext(&fiber->context, (void (*)(void))allocate_on_fiber, 1, (int)(fiber - fibers));
    fiber->bottom.mem_base = memory + STACK;
    GC_disable();
    fiber->handle = GC_get_my_stackbottom(&fiber->own);
    swapcontext(&fiber->back, &fiber->context);
    GC_call_with_alloc_lock(to_own_stack, fiber);
    GC_enable();
    return arg;
}

/* The first collection names stacks; from then on none waits. */
static void collects_as_usual_on_named_stacks(void)
{
    pthread_t threads[FIBER_THREADS];
    start();
    next_push = GC_get_push_other_roots();
    GC_set_push_other_roots(name_all_stacks);
    GC_gcollect();
    CHECK_OP(tells, >, 0);
    GC_word before = GC_get_gc_no();
    pthread_barrier_init(&all_there, NULL, FIBER_THREADS);
    pthread_barrier_init(&all_done, NULL, FIBER_THREADS);
    for (int i = 0; i < FIBER_THREADS; i++)
        REQUIRE(GC_pthread_create(&threads[i], NULL, run_fiber, &fibers[i]) == 0);
    for (int i = 0; i < FIBER_THREADS; i++) {
        REQUIRE(GC_pthread_join(threads[i], NULL) == 0);
        CHECK_EQ(fibers[i].whole, 1);
    }
    GC_set_push_other_roots(next_push);
    NOTE("%d collections\n", (int)(GC_get_gc_no() - before));
    CHECK_GE(GC_get_gc_no() - before, under_stress() ? 1 : 20);
    check_alive();
}

/* ---- the client corrects stack pointers (libgc 8.2.8 and newer) ---- */

typedef void (*corrector)(void **, void *);
static char *main_top;
static volatile int corrected;

/* The other stack is registered; of the thread's own all is scanned that is in use. */
static void correct(void **sp, void *thread)
{
    (void)thread;
    if ((char *)*sp >= stack && (char *)*sp < stack + STACK) {
        corrected++;
        *sp = main_top;
    }
}

static void allocates_on_corrected(void)
{
    GC_word before = GC_get_gc_no();
    void **volatile list = make_list(CELLS);
    for (int i = 0; i < 20; i++)
        churn(under_stress() ? 800 : 1 << 20, 32);
    counted = (int)(GC_get_gc_no() - before);
    found = is_whole(list, CELLS);
}

static NOINLINE void run_with_corrected_list(void)
{
    void **volatile list = make_list(CELLS);
    main_top = (char *)__builtin_frame_address(0) - 1024;
    run_on_stack(allocates_on_corrected);
    CHECK(is_whole(list, CELLS));
}

static void stack_pointers_are_corrected(void)
{
    void (*set)(corrector);
    corrector (*get)(void);
    *(void **)&set = dlsym(RTLD_DEFAULT, "GC_set_sp_corrector");
    *(void **)&get = dlsym(RTLD_DEFAULT, "GC_get_sp_corrector");
    start();
    if (set == NULL || get == NULL) {
        CHECK(!on_gleaner());
        NOTE("libgc %u.%u.%u has no correctors\n", GC_get_version() >> 16, GC_get_version() >> 8 & 255, GC_get_version() & 255);
        return;
    }
    CHECK(get() == NULL);
    set(correct);
    CHECK(get() == correct);
    GC_add_roots(stack, stack + STACK);
    run_with_corrected_list();
    CHECK_EQ(found, 1);
    CHECK_OP(corrected, >, 0);
    CHECK_GE(counted, under_stress() ? 1 : 10);
    set(NULL);
    check_alive();
}

/* ---- the client registered the stack as roots and says nothing ---- */

static void allocates_much(void)
{
    GC_word before = GC_get_gc_no();
    void **volatile list = make_list(CELLS);
    for (int i = 0; i < 50; i++)
        churn(under_stress() ? 3200 : 1 << 20, 32);
    counted = (int)(GC_get_gc_no() - before);
    found = is_whole(list, CELLS);
}

static NOINLINE void run_with_main_list(void (*body)(void))
{
    void **volatile list = make_list(CELLS);
    run_on_stack(body);
    CHECK(is_whole(list, CELLS));
    CHECK_EQ(found, 1);
}

/* 50 MB are allocated, of which hardly anything lives. */
static void collects_as_usual_on_a_foreign_stack(void)
{
    start();
    GC_add_roots(stack, stack + STACK);
    run_with_main_list(allocates_much);
    CHECK_GE(counted, under_stress() ? 1 : 10);
    check_alive();
}

/* Where stock crashes. */
static void collects_on_a_foreign_stack(void)
{
    start();
    GC_add_roots(stack, stack + STACK);
    run_with_main_list(keep_and_collect);
    check_alive();
}

/* The stack that is in use is found even if nobody registered it. */
static void collects_on_an_unknown_stack(void)
{
    start();
    run_with_main_list(keep_and_collect);
    check_alive();
}

static void collects_at_the_limit(void)
{
    GC_set_max_heap_size(16 << 20);
    start();
    GC_add_roots(stack, stack + STACK);
    run_with_main_list(allocates_much);
    CHECK_OP(counted, >, 0);
    check_alive();
}

/* Below and above the stack of a thread that was made for it; another thread
 * collects while it is there. */
static volatile int on_stack, quit;
static void waits_on_stack(void)
{
    void **volatile list = make_list(CELLS);
    on_stack = 1;
    while (!quit)
        sched_yield();
    found = is_whole(list, CELLS);
}

static void *runs_coroutine(void *arg)
{
    run_with_main_list(waits_on_stack);
    return arg;
}

static void *allocates_and_quits(void *arg)
{
    for (int i = 0; i < 5; i++) {
        GC_gcollect();
        churn(under_stress() ? 3200 : 1 << 20, 32);
    }
    quit = 1;
    return arg;
}

static void stopped_on_a_foreign_stack(void)
{
    pthread_t t;
    start();
    REQUIRE(GC_pthread_create(&t, NULL, runs_coroutine, NULL) == 0);
    while (!on_stack)
        sched_yield();
    allocates_and_quits(NULL);
    GC_pthread_join(t, NULL);
    CHECK_EQ(found, 1);
    check_alive();
}

/* ---- what it costs ------------------------------------------------------ */

/* The register with the number of a system call. */
#ifdef __aarch64__
#define CALL_NUMBER(registers) (registers).regs[8]
#else
#define CALL_NUMBER(registers) (registers).orig_rax
#endif

/* System calls that `body` makes between two calls of getppid, in a process of its own; -1 if the system does not
 * let us look. */
static long system_calls_of(void (*body)(void))
{
    int status, entering = 1, counting = 0;
    long calls = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(77);
        raise(SIGSTOP);
        body();
        _exit(0);
    }
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        struct user_regs_struct registers;
        struct iovec all = {&registers, sizeof registers};
        if (WSTOPSIG(status) == SIGTRAP && ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &all) == 0) {
            if (entering && CALL_NUMBER(registers) == SYS_getppid)
                counting = !counting;
            calls += entering && counting;
            entering = !entering;
        }
        int signal = WSTOPSIG(status) == SIGTRAP || WSTOPSIG(status) == SIGSTOP ? 0 : WSTOPSIG(status);
        ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(intptr_t)signal);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        return -1;
    CHECK_EQ(status, 0);
    return calls;
}

static void collect_often(void)
{
    syscall(SYS_getppid);
    for (int i = 0; i < 20; i++)
        GC_gcollect();
    syscall(SYS_getppid);
}

static void collect_often_on_own_stack(void)
{
    start();
    collect_often();
}

/* The stack of the thread is deep by then, and the other one is long. */
static NOINLINE void deepen_stack(void)
{
    volatile char area[4 << 20];
    for (size_t i = 0; i < sizeof area; i += 1024)
        area[i] = 1;
}

static void collect_often_on_another_stack(void)
{
    start();
    deepen_stack();
    stack = mmap(NULL, STACK + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(stack != MAP_FAILED && mprotect(stack + STACK, 4096, PROT_NONE) == 0);
    run_on_stack(collect_often);
}

static void another_stack_costs_few_system_calls(void)
{
    long own = system_calls_of(collect_often_on_own_stack);
    long other = system_calls_of(collect_often_on_another_stack);
    NOTE("%ld and %ld system calls in 20 collections\n", own, other);
    /* To find both ends of two stacks, and a few for each mapping of the process. The verifier looks at stacks once more now and then. */
    CHECK_LE(other, own + 20 * 250);
}

/* A thread's stack may lie in an object: the collector's own frames there, which
 * change while it runs, are no edges of it. */
static void *collect_on_it(void *keep)
{
    for (int i = 0; i < 100; i++) {
        size_t *list[32];

        for (size_t j = 0; j < 32; j++) {
            list[j] = GC_malloc(32 + j * 8);
            *list[j] = j;
        }
        for (int j = 0; j < 200; j++)
            (void)GC_malloc(j % 20 == 0 ? 100 : 48);
        GC_free(GC_malloc(200));
        for (size_t j = 0; j < 32; j++)
            CHECK_EQ(*list[j], j);
    }
    return keep;
}

static void stack_in_an_object(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    void *result;

    add_options("verify=edges,stress=7,poison=on");
    GC_INIT();
    stack = GC_malloc_uncollectable(STACK + 4096);
    REQUIRE(stack != NULL);
    pthread_attr_init(&attributes);
    stack += -(uintptr_t)stack % 4096;
    REQUIRE(pthread_attr_setstack(&attributes, stack, STACK) == 0);
    REQUIRE(pthread_create(&thread, &attributes, collect_on_it, &result) == 0);
    REQUIRE(pthread_join(thread, &result) == 0);
    CHECK_PTR(result, &result);
}

MAIN_BEGIN
    RUN(stack_in_an_object);
    RUN(told_in_push_other_roots);
    RUN(both_stacks_are_pushed);
    RUN(collects_as_usual_on_named_stacks);
    RUN(stack_pointers_are_corrected);
    RUN(default_procedure_outside);
    RUN_GLEANER(default_procedure_called_twice);
    RUN_GLEANER(collects_as_usual_on_a_foreign_stack);
    RUN_GLEANER(collects_on_a_foreign_stack);
    RUN_GLEANER(collects_on_an_unknown_stack);
    RUN_GLEANER(collects_at_the_limit);
    RUN_GLEANER(stopped_on_a_foreign_stack);
    RUN_GLEANER(another_stack_costs_few_system_calls);
MAIN_END
