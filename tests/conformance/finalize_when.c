/* When finalizers run, in which thread, and what they may do: on demand,
 * notification, allocation and collection inside them. */
#include "finalizing.h"

static int intact;

/* ---- on demand, notification ---- */

static int notified, awaited;
static void notify(void) { notified++; }
static void awaiting(void *obj)
{
    awaited += ((struct node *)obj)->tag == 0x1234567;
}

static void on_demand(void)
{
    reg = GC_register_finalizer;
    GC_INIT();
    CHECK_EQ(GC_get_finalize_on_demand(), 0);
    GC_set_finalize_on_demand(1);
    CHECK_EQ(GC_get_finalize_on_demand(), 1);
    CHECK_EQ(GC_finalize_on_demand, 1);
    GC_set_finalizer_notifier(notify);
    CHECK(GC_get_finalizer_notifier() == notify);
    CHECK(GC_finalizer_notifier == notify);
    CHECK(GC_get_await_finalize_proc() == NULL);
    GC_set_await_finalize_proc(awaiting);
    CHECK(GC_get_await_finalize_proc() == awaiting);
    CHECK_EQ(GC_should_invoke_finalizers(), 0);
    deep(make_singles);
    collect();
    churn(4 << 20, 100);
    CHECK_EQ(orders, 0);
    CHECK_OP(notified, >, 0);
    CHECK_GE(awaited, MOST(MANY));
    CHECK_NE(GC_should_invoke_finalizers(), 0);
    int n = GC_invoke_finalizers();
    CHECK_EQ(n, orders);
    CHECK_GE(n, MOST(MANY));
    CHECK_EQ(GC_should_invoke_finalizers(), 0);
    CHECK_EQ(GC_invoke_finalizers(), 0);
}

/* However much is allocated while finalizers wait, one collection is told of once. */
static void one_notice_a_collection(void)
{
    reg = GC_register_finalizer;
    GC_INIT();
    GC_set_finalize_on_demand(1);
    GC_set_finalizer_notifier(notify);
    deep(make_singles);
    for (int i = 0; i < 5; i++) {
        collect();
        churn(1 << 20, 100);
        CHECK_NE(GC_should_invoke_finalizers(), 0);
        GC_disable();
        churn(1 << 20, 100);
        int before = notified;
        GC_word collections = GC_get_gc_no();
        churn(1 << 20, 100);
        CHECK_EQ(GC_get_gc_no(), collections);
        CHECK_EQ(notified, before);
        CHECK_OP(notified, <=, (int)collections);
        CHECK_OP(notified, >, i);
        GC_enable();
    }
    GC_invoke_finalizers();
    CHECK_GE(orders, MOST(MANY));
}

/* The variables are live. */
static void on_demand_by_variable(void)
{
    reg = GC_register_finalizer;
    GC_INIT();
    GC_finalize_on_demand = 1;
    GC_finalizer_notifier = notify;
    deep(make_singles);
    collect();
    churn(1 << 20, 100);
    CHECK_EQ(orders, 0);
    CHECK_OP(notified, >, 0);
    GC_finalize_on_demand = 0;
    GC_finalizer_notifier = NULL;
    collect();
    churn(4 << 20, 100);
    CHECK_GE(orders, MOST(MANY));
}

/* The notifier may itself invoke the finalizers: Guile's does the like. */
static void notify_invokes(void)
{
    notified++;
    GC_invoke_finalizers();
}

static void invoke_from_notifier(void)
{
    reg = GC_register_finalizer;
    GC_INIT();
    GC_set_finalize_on_demand(1);
    GC_set_finalizer_notifier(notify_invokes);
    deep(make_singles);
    collect();
    CHECK_OP(notified, >, 0);
    CHECK_GE(orders, MOST(MANY));
}

/* ---- finalizers that use the library ---- */

static void allocating(void *obj, void *cd)
{
    (void)cd;
    intact += ((struct node *)obj)->tag == 0x1234567;
    for (int i = 0; i < 20; i++)
        GC_malloc(1000);
    if (intact % 100 == 0)
        GC_gcollect();
}

static NOINLINE void make_allocating(void)
{
    for (int i = 0; i < MANY; i++)
        GC_register_finalizer(make_node(), allocating, NULL, NULL, NULL);
}

static void finalizer_allocates_and_collects(void)
{
    GC_INIT();
    deep(make_allocating);
    settle(3);
    CHECK_GE(intact, MOST(MANY));
    check_alive();
}

static void registering(void *obj, void *cd)
{
    uintptr_t depth = (uintptr_t)cd;
    (void)obj;
    intact++;
    if (depth > 0)
        GC_register_finalizer(make_node(), registering, (void *)(depth - 1),
                              NULL, NULL);
}

static NOINLINE void make_registering(void)
{
    for (int i = 0; i < 100; i++)
        GC_register_finalizer(make_node(), registering, (void *)3, NULL, NULL);
}

static void finalizer_registers(void)
{
    GC_INIT();
    deep(make_registering);
    settle(12);
    CHECK_GE(intact, MOST(400));
}

static void freeing(void *obj, void *cd)
{
    (void)cd;
    GC_free(obj);
    intact++;
}

static NOINLINE void make_freeing(void)
{
    for (int i = 0; i < MANY; i++)
        GC_register_finalizer(make_node(), freeing, NULL, NULL, NULL);
}

static void finalizer_frees_its_object(void)
{
    GC_INIT();
    deep(make_freeing);
    settle(3);
    CHECK_GE(intact, MOST(MANY));
    check_alive();
}

/* Finalizers of objects made by several threads, run while they go on. */
static volatile int threads_count;
static void count_atomically(void *obj, void *cd)
{
    (void)cd;
    if (((struct node *)obj)->tag == 0x1234567)
        __atomic_fetch_add(&threads_count, 1, __ATOMIC_RELAXED);
}

static void *finalizing_thread(void *arg)
{
    for (int i = 0; i < 5000; i++)
        GC_register_finalizer(make_node(), count_atomically, NULL, NULL, NULL);
    return arg;
}

static void finalizers_in_threads(void)
{
    pthread_t t[8];
    GC_INIT();
    for (int i = 0; i < 8; i++)
        REQUIRE(pthread_create(&t[i], NULL, finalizing_thread, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        GC_gcollect();
        GC_invoke_finalizers();
    }
    for (int i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
    settle(3);
    CHECK_LE(threads_count, 40000);
    CHECK_GE(threads_count, MOST(40000));
}

/* A thread of its own for the finalizers, woken by the notifier: Guile's way. */
#include <semaphore.h>
static sem_t work;
static volatile int no_more;
static void wake(void) { sem_post(&work); }

static void *finalizer_thread(void *arg)
{
    while (!no_more) {
        while (sem_wait(&work) != 0)
            ;
        GC_invoke_finalizers();
    }
    return arg;
}

static void in_a_thread_of_its_own(void)
{
    pthread_t t;
    reg = GC_register_finalizer_no_order;
    GC_INIT();
    sem_init(&work, 0, 0);
    GC_set_finalize_on_demand(1);
    GC_set_finalizer_notifier(wake);
    REQUIRE(pthread_create(&t, NULL, finalizer_thread, NULL) == 0);
    deep(make_singles);
    collect();
    churn(4 << 20, 100);
    collect();
    no_more = 1;
    sem_post(&work);
    pthread_join(t, NULL);
    GC_invoke_finalizers();
    CHECK_GE(total_runs(0, MANY), MOST(MANY));
}

MAIN_BEGIN
    RUN(on_demand);
    RUN(one_notice_a_collection);
    RUN(on_demand_by_variable);
    RUN(invoke_from_notifier);
    RUN(finalizer_allocates_and_collects);
    RUN(finalizer_registers);
    RUN(finalizer_frees_its_object);
    RUN(finalizers_in_threads);
    RUN(in_a_thread_of_its_own);
MAIN_END
