/* What a thread alone refers to: from its stack, its registers, its
 * thread-local data. */
#include "lists_of_own.h"
#include <gc/gc_mark.h>
#include <sched.h>
#include <semaphore.h>

/* ---- the only reference is on a thread's stack ---- */

static sem_t ready, resume;
static GC_word hidden_in_thread[MANY];

static NOINLINE void fill_stack(void **local, int n)
{
    for (int i = 0; i < n; i++) {
        local[i] = GC_malloc(48);
        ((uintptr_t *)local[i])[1] = (uintptr_t)i * 2 + 1;
        watch(i, local[i]);
    }
}

static void *holds_on_stack(void *arg)
{
    void *local[MANY];
    fill_stack(local, MANY);
    __asm__ volatile("" : : "r"(local) : "memory");
    sem_post(&ready);
    while (sem_wait(&resume) != 0)
        ;
    for (int i = 0; i < MANY; i++)
        if (((uintptr_t *)local[i])[1] != (uintptr_t)i * 2 + 1)
            return NULL;
    return arg;
}

static void only_in_a_stack(void)
{
    pthread_t t;
    void *r = NULL;
    int token;
    GC_INIT();
    sem_init(&ready, 0, 0);
    sem_init(&resume, 0, 0);
    REQUIRE(pthread_create(&t, NULL, holds_on_stack, &token) == 0);
    while (sem_wait(&ready) != 0)
        ;
    for (int i = 0; i < 5; i++) {
        collect();
        churn(4 << 20, 48);
    }
    CHECK_NONE_GONE(MANY);
    sem_post(&resume);
    pthread_join(t, &r);
    CHECK_PTR(r, &token);
    collect();
    CHECK_MOST_GONE(MANY);
}

/* Only in a callee-saved register of a running thread. */
static volatile int register_ready, register_stop;
static void *holds_in_register(void *arg)
{
    (void)arg;
    void *seen;
#ifdef __aarch64__
    __asm__ volatile(
        "mov x0, %[size]\n\t"
        "blr %[alloc]\n\t"
        "mov x19, x0\n\t"
        "mvn x0, x19\n\t"
        "str x0, %[hidden]\n\t"
        "mov w0, 1\n\t"
        "str w0, %[ready]\n\t"
        "mov x0, xzr\n\t"
        "mov x30, xzr\n\t"
        "1: yield\n\t"
        "ldr w1, %[stop]\n\t"
        "cbz w1, 1b\n\t"
        "str x19, %[seen]\n\t"
        : [seen] "=m"(seen), [ready] "+m"(register_ready),
          [hidden] "=m"(hidden_in_thread[0])
        : [size] "i"(48), [alloc] "r"(&GC_malloc), [stop] "m"(register_stop)
        : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11",
          "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x30",
          "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7",
          "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17",
          "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",
          "v28", "v29", "v30", "v31");
#else
    __asm__ volatile(
        "movq %[size], %%rdi\n\t"
        "movq %%rsp, %%r13\n\t"
        "andq $-16, %%rsp\n\t"
        "call *%[alloc]\n\t"
        "movq %%r13, %%rsp\n\t"
        "movq %%rax, %%r12\n\t"
        "movq %%r12, %%rdi\n\t"
        "notq %%rdi\n\t"
        "movq %%rdi, %[hidden]\n\t"
        "movl $1, %[ready]\n\t"
        "xorl %%eax, %%eax\n\t"
        "xorl %%edi, %%edi\n\t"
        "xorl %%ecx, %%ecx\n\t"
        "xorl %%edx, %%edx\n\t"
        "xorl %%esi, %%esi\n\t"
        "1: pause\n\t"
        "cmpl $0, %[stop]\n\t"
        "je 1b\n\t"
        "movq %%r12, %[seen]\n\t"
        : [seen] "=m"(seen), [ready] "+m"(register_ready),
          [hidden] "=m"(hidden_in_thread[0])
        : [size] "i"(48), [alloc] "b"(&GC_malloc), [stop] "m"(register_stop)
        : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
          "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",
          "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
          "xmm14", "xmm15");
#endif
    return seen;
}

static NOINLINE void watch_hidden(void)
{
    watch(0, GC_REVEAL_POINTER(hidden_in_thread[0]));
}

static void only_in_a_register(void)
{
    pthread_t t;
    void *r = NULL;
    GC_INIT();
    REQUIRE(pthread_create(&t, NULL, holds_in_register, NULL) == 0);
    while (!register_ready)
        sched_yield();
    deep(watch_hidden);
    for (int i = 0; i < 5; i++) {
        collect();
        churn(1 << 20, 48);
    }
    CHECK_EQ(gone(1), 0);
    register_stop = 1;
    pthread_join(t, &r);
    CHECK_PTR(r, GC_REVEAL_POINTER(hidden_in_thread[0]));
}

/* Nested deep in a small stack and in a large one. */
static void *small_stack(void *arg)
{
    return marked_list_of_own(4, 500) ? arg : NULL;
}

static void stack_sizes(void)
{
    static const size_t sizes[] = {65536, 262144, 64 << 20};
    GC_INIT();
    for (int i = 0; i < 3; i++) {
        pthread_t t;
        pthread_attr_t attr;
        void *r = NULL;
        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, sizes[i]);
        REQUIRE(pthread_create(&t, &attr, small_stack, &attr) == 0);
        GC_gcollect();
        pthread_join(t, &r);
        CHECK_PTR(r, &attr);
    }
}

/* The parent's stack is scanned while a child collects. */
static void *collects(void *arg)
{
    for (int i = 0; i < 3; i++) {
        GC_gcollect();
        churn(4 << 20, 48);
    }
    return arg;
}

static NOINLINE void main_holds(void)
{
    void *local[MANY];
    pthread_t t;
    fill_stack(local, MANY);
    __asm__ volatile("" : : "r"(local) : "memory");
    REQUIRE(pthread_create(&t, NULL, collects, NULL) == 0);
    pthread_join(t, NULL);
    CHECK_NONE_GONE(MANY);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(((uintptr_t *)local[i])[1], i * 2 + 1);
}

static void main_stack_from_a_thread(void)
{
    GC_INIT();
    main_holds();
}

/* ---- thread-local data ---- */

static pthread_key_t key;
static __thread void *tls_pointers[200];

static void *uses_thread_data(void *arg)
{
    /* What Guile does: an uncollectable block, freed by the key's
     * destructor. */
    void **block = GC_malloc_uncollectable(64);
    block[0] = GC_malloc(32);
    ((uintptr_t *)block[0])[1] = 1234567;
    pthread_setspecific(key, block);
    block = NULL;
    for (int i = 0; i < 50; i++) {
        churn(100000, 32);
        if (i % 10 == 0)
            GC_gcollect();
        void **b = pthread_getspecific(key);
        if (((uintptr_t *)b[0])[1] != 1234567)
            return NULL;
    }
    return arg;
}

static int destroyed;
static void destroy_block(void *block)
{
    __atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
    GC_free(block);
}

static void thread_data_dies_with_it(void)
{
    GC_INIT();
    pthread_key_create(&key, destroy_block);
    for (int round = 0; round < 10; round++) {
        pthread_t t[4];
        for (int i = 0; i < 4; i++)
            REQUIRE(pthread_create(&t[i], NULL, uses_thread_data, &key) == 0);
        for (int i = 0; i < 4; i++) {
            void *r = NULL;
            pthread_join(t[i], &r);
            CHECK_PTR(r, &key);
        }
    }
    CHECK_EQ(destroyed, 40);
    check_alive();
}

/* A key's destructor that allocates, run after the thread's end was seen by
 * the collector. "Thread cleanup routines typically require manual thread
 * registering": so it registers. */
static void destructor_allocates(void *arg)
{
    struct GC_stack_base sb;
    (void)arg;
    GC_get_stack_base(&sb);
    int r = GC_register_my_thread(&sb);
    if (marked_list_of_own(11, 500))
        __atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
    if (r == GC_SUCCESS)
        GC_unregister_my_thread();
}

static void *sets_key(void *arg)
{
    pthread_setspecific(key, arg);
    marked_list_of_own(12, 100);
    return arg;
}

static void allocation_in_destructors(void)
{
    GC_INIT();
    GC_allow_register_threads();
    pthread_key_create(&key, destructor_allocates);
    for (int round = 0; round < 20; round++) {
        pthread_t t;
        REQUIRE(pthread_create(&t, NULL, sets_key, &key) == 0);
        GC_gcollect();
        pthread_join(t, NULL);
    }
    CHECK_EQ(destroyed, 20);
    check_alive();
}

/* __thread variables. A thread that registers itself with the base that
 * GC_get_stack_base gives is scanned up to the end of its stack's mapping,
 * where the C library puts its static thread-local block, so they count as
 * roots there. Threads that the library itself started are scanned from the
 * frame that started them, and the main thread from its stack's bottom: stock
 * does not see their variables, and nothing is promised. */
static NOINLINE void fill_variables(void)
{
    for (int i = 0; i < 200; i++) {
        tls_pointers[i] = GC_malloc(48);
        ((uintptr_t *)tls_pointers[i])[1] = (uintptr_t)i * 2 + 1;
        watch(i, tls_pointers[i]);
    }
}

static void *holds_in_variables(void *arg)
{
    struct GC_stack_base sb;
    CHECK_EQ(GC_get_stack_base(&sb), GC_SUCCESS);
    CHECK_EQ(GC_register_my_thread(&sb), GC_SUCCESS);
    deep(fill_variables);
    for (int i = 0; i < 5; i++) {
        collect();
        churn(1 << 20, 48);
    }
    CHECK_EQ(gone(200), 0);
    for (int i = 0; i < 200; i++)
        CHECK_EQ(((uintptr_t *)tls_pointers[i])[1], i * 2 + 1);
    GC_unregister_my_thread();
    return arg;
}

static void thread_variables(void)
{
    pthread_t t;
    GC_INIT();
    GC_allow_register_threads();
    REQUIRE(raw_create()(&t, NULL, holds_in_variables, NULL) == 0);
    raw_join()(t, NULL);
    check_alive();
}

/* The main thread may leave, once, and come back. */
static void main_unregisters(void)
{
    struct GC_stack_base sb;
    GC_INIT();
    GC_allow_register_threads();
    CHECK_EQ(GC_get_stack_base(&sb), GC_SUCCESS);
    CHECK_EQ(GC_unregister_my_thread(), GC_SUCCESS);
    CHECK_EQ(GC_thread_is_registered(), 0);
    CHECK_EQ(GC_register_my_thread(&sb), GC_SUCCESS);
    CHECK_NE(GC_thread_is_registered(), 0);
    main_holds();
    check_alive();
}

/* A deep stack with an object in every frame. */
static NOINLINE int recurse(volatile int depth)
{
    uintptr_t *volatile mine = GC_malloc(48);
    mine[1] = (uintptr_t)depth * 2 + 1;
    if (depth == 0) {
        collect();
        churn(2 << 20, 48);
        return 0;
    }
    int bad = recurse(depth - 1);
    return bad + (mine[1] != (uintptr_t)depth * 2 + 1);
}

static void deep_recursion(void)
{
    GC_INIT();
    CHECK_EQ(recurse(20000), 0);
    CHECK_EQ(recurse(20000), 0);
}

/* ---- what lies below the caller is dead ---- */

static NOINLINE void make_watched(void)
{
    for (int i = 0; i < MANY; i++)
        watch(i, GC_malloc(48));
}

/* Fills the dead part of the stack, where the collector's frames will lie, with
 * the watched objects' addresses. */
static NOINLINE void fill_dead_stack(void)
{
    void *volatile dead[4 * MANY];
    for (int i = 0; i < 4 * MANY; i++)
        dead[i] = GC_REVEAL_POINTER(h_watched[i % MANY]);
    __asm__ volatile("" : : "r"(&dead) : "memory");
}

static NOINLINE void collect_unscrubbed(void)
{
    fill_dead_stack();
    GC_gcollect();
}

/* The collector's own frames are large and full of what was there before. The
 * few words that may still count lie in the frames of GC_gcollect. */
static void collectors_frames(void)
{
    GC_INIT();
    deep(make_watched);
    collect_unscrubbed();
    CHECK_GE(gone(MANY), MANY - MANY / 20);
}

MAIN_BEGIN
    RUN(only_in_a_stack);
    RUN(only_in_a_register);
    RUN(stack_sizes);
    RUN(main_stack_from_a_thread);
    RUN(thread_data_dies_with_it);
    RUN(allocation_in_destructors);
    RUN(thread_variables);
    RUN(main_unregisters);
    RUN(deep_recursion);
    RUN_GLEANER(collectors_frames);
MAIN_END
