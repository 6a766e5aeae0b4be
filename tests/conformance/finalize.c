/* Finalizers: every order, chains and cycles, resurrection, replacement.
 * When they run and what they may do: finalize_when.c. */
#include "finalizing.h"
#include <gc/javaxfc.h>

/* ---- single objects, each registration ---- */

static void singles(registrar r)
{
    reg = r;
    GC_INIT();
    deep(make_singles);
    settle(2);
    CHECK_GE(total_runs(0, MANY), MOST(MANY));
    int n = orders;
    settle(2);
    CHECK_LE(orders, MANY);
    CHECK_GE(orders, n); /* each once only: total_runs checks */
    total_runs(0, MANY);
}

static void ordered_single(void) { singles(GC_register_finalizer); }
static void ignore_self_single(void)
{
    singles(GC_register_finalizer_ignore_self);
}
static void no_order_single(void) { singles(GC_register_finalizer_no_order); }
static void unreachable_single(void)
{
    GC_set_java_finalization(1);
    singles(GC_register_finalizer_unreachable);
}

/* Finalizers run by themselves, during a later allocation. */
static void run_by_allocation(void)
{
    reg = GC_register_finalizer;
    GC_INIT();
    deep(make_singles);
    for (int i = 0; i < 1000 && orders < MANY / 2; i++) {
        churn(1 << 20, 100);
        scrub();
    }
    CHECK_GE(orders, MANY / 2);
}

static struct node *volatile reachable[MANY];

static NOINLINE void make_reachable(void)
{
    for (int i = 0; i < MANY; i++) {
        reachable[i] = make_node();
        GC_register_finalizer(reachable[i], record, (void *)(uintptr_t)i, NULL,
                              NULL);
    }
}

static void reachable_is_not_finalized(void)
{
    GC_INIT();
    deep(make_reachable);
    settle(3);
    CHECK_EQ(orders, 0);
    for (int i = 0; i < MANY; i++)
        reachable[i] = NULL;
    settle(2);
    CHECK_GE(orders, MOST(MANY));
}

/* ---- chains ---- */

enum { CHAINS = 50, LENGTH = 5 };

static NOINLINE void make_chains(void)
{
    for (int c = 0; c < CHAINS; c++) {
        struct node *next = NULL;
        for (int i = LENGTH - 1; i >= 0; i--) {
            struct node *n = make_node();
            n->next = next;
            reg(n, record, (void *)(uintptr_t)(c * LENGTH + i), NULL, NULL);
            next = n;
        }
    }
}

/* Ordered: an object goes before what it points to, one link of the chain a
 * collection. */
static void ordered_chain(void)
{
    reg = GC_register_finalizer;
    GC_INIT();
    GC_set_finalize_on_demand(1);
    deep(make_chains);
    int done = 0;
    collect();
    int first = GC_invoke_finalizers();
    CHECK_LE(first, CHAINS);
    CHECK_GE(first, MOST(CHAINS));
    done = first;
    for (int i = 0; i < LENGTH; i++) {
        collect();
        done += GC_invoke_finalizers();
    }
    CHECK_EQ(done, orders);
    CHECK_GE(done, MOST(CHAINS * LENGTH));
    int last[CHAINS];
    memset(last, -1, sizeof last);
    for (int i = 0; i < orders; i++) {
        int c = order[i] / LENGTH, at = order[i] % LENGTH;
        CHECK_EQ(at, last[c] + 1);
        last[c] = at;
    }
}

/* Without order the whole chain goes at once. */
static void no_order_chain(void)
{
    reg = GC_register_finalizer_no_order;
    GC_INIT();
    GC_set_finalize_on_demand(1);
    deep(make_chains);
    collect();
    CHECK_GE(GC_invoke_finalizers(), MOST(CHAINS * LENGTH));
}

static NOINLINE void make_cycles(void)
{
    for (int c = 0; c < CHAINS; c++) {
        struct node *a = make_node(), *b = make_node();
        a->next = b;
        b->next = a;
        reg(a, record, (void *)(uintptr_t)(2 * c), NULL, NULL);
        reg(b, record, (void *)(uintptr_t)(2 * c + 1), NULL, NULL);
    }
}

static int cycle_warnings;

static void GC_CALLBACK count_cycle_warnings(char *format, GC_word object)
{
    if (strstr(format, "Finalization cycle") != NULL) {
        cycle_warnings++;
        CHECK(GC_base((void *)object) == (void *)object);
    }
}

static void ordered_cycle_never_runs(void)
{
    reg = GC_register_finalizer;
    GC_INIT();
    GC_set_warn_proc(count_cycle_warnings);
    deep(make_cycles);
    settle(4);
    CHECK_EQ(orders, 0);
    CHECK_GE(cycle_warnings, 1);
}

static void no_order_cycle_runs(void)
{
    reg = GC_register_finalizer_no_order;
    GC_INIT();
    deep(make_cycles);
    settle(2);
    CHECK_GE(orders, MOST(CHAINS * 2));
}

static NOINLINE void make_selfish(void)
{
    for (int i = 0; i < MANY; i++) {
        struct node *n = make_node();
        n->next = n;
        reg(n, record, (void *)(uintptr_t)i, NULL, NULL);
    }
}

static void self_pointer_blocks_ordered(void)
{
    reg = GC_register_finalizer;
    GC_INIT();
    deep(make_selfish);
    settle(3);
    CHECK_EQ(orders, 0);
}

static void ignore_self_runs(void)
{
    reg = GC_register_finalizer_ignore_self;
    GC_INIT();
    deep(make_selfish);
    settle(3);
    CHECK_GE(orders, MOST(MANY));
}

/* ignore_self keeps the order between objects. */
static void ignore_self_chain(void)
{
    reg = GC_register_finalizer_ignore_self;
    GC_INIT();
    GC_set_finalize_on_demand(1);
    deep(make_chains);
    collect();
    CHECK_LE(GC_invoke_finalizers(), CHAINS);
    for (int i = 0; i < LENGTH; i++) {
        collect();
        GC_invoke_finalizers();
    }
    CHECK_GE(orders, MOST(CHAINS * LENGTH));
    int last[CHAINS];
    memset(last, -1, sizeof last);
    for (int i = 0; i < orders; i++) {
        int c = order[i] / LENGTH, at = order[i] % LENGTH;
        CHECK_EQ(at, last[c] + 1);
        last[c] = at;
    }
}

/* A cycle is broken by a disappearing link on one of its pointers. */
static NOINLINE void make_broken_cycles(void)
{
    for (int c = 0; c < CHAINS; c++) {
        struct node *a = make_node(), *b = make_node();
        a->next = b;
        b->next = a;
        CHECK_EQ(GC_register_disappearing_link((void **)&b->next), GC_SUCCESS);
        reg(a, record, (void *)(uintptr_t)(2 * c), NULL, NULL);
        reg(b, record, (void *)(uintptr_t)(2 * c + 1), NULL, NULL);
    }
}

static void link_breaks_cycle(void)
{
    reg = GC_register_finalizer;
    GC_INIT();
    GC_set_finalize_on_demand(1);
    deep(make_broken_cycles);
    settle(4);
    CHECK_GE(orders, MOST(CHAINS * 2));
    int first_a = 0;
    for (int i = 0; i < orders; i++)
        first_a += order[i] % 2 == 0 && i < CHAINS;
    CHECK_GE(first_a, MOST(CHAINS));
}

/* ---- what is reachable from a finalizable object stays whole ---- */

static int intact;
static void check_below(void *obj, void *cd)
{
    struct node *n = obj;
    (void)cd;
    intact += n->next != NULL && n->next->tag == 0x1234567
              && n->next->next->tag == 0x1234567;
}

static NOINLINE void make_below(void)
{
    for (int i = 0; i < MANY; i++) {
        struct node *n = make_node();
        n->next = make_node();
        n->next->next = make_node();
        reg(n, check_below, NULL, NULL, NULL);
    }
}

static void contents(registrar r)
{
    reg = r;
    GC_INIT();
    GC_set_finalize_on_demand(1);
    deep(make_below);
    collect();
    churn(8 << 20, sizeof(struct node));
    collect();
    churn(8 << 20, sizeof(struct node));
    int n = GC_invoke_finalizers();
    CHECK_GE(n, MOST(MANY));
    CHECK_EQ(intact, n);
}

static void ordered_contents(void) { contents(GC_register_finalizer); }
static void no_order_contents(void)
{
    contents(GC_register_finalizer_no_order);
}
static void unreachable_contents(void)
{
    GC_set_java_finalization(1);
    contents(GC_register_finalizer_unreachable);
}

/* Client data is a root until the finalizer has run. */
static void check_data(void *obj, void *cd)
{
    (void)obj;
    intact += ((struct node *)cd)->tag == 0x1234567;
}

static NOINLINE void make_with_data(void)
{
    for (int i = 0; i < MANY; i++)
        GC_register_finalizer(make_node(), check_data, make_node(), NULL, NULL);
}

static void client_data_is_kept(void)
{
    GC_INIT();
    GC_set_finalize_on_demand(1);
    deep(make_with_data);
    for (int r = 0; r < 3; r++) {
        collect();
        churn(4 << 20, sizeof(struct node));
    }
    int n = GC_invoke_finalizers();
    CHECK_GE(n, MOST(MANY));
    CHECK_EQ(intact, n);
}

/* ---- resurrection ---- */

static struct node *volatile risen[MANY];
static int rises;
static void rise(void *obj, void *cd)
{
    (void)cd;
    risen[rises++] = obj;
}

static NOINLINE void make_rising(void)
{
    for (int i = 0; i < MANY; i++) {
        struct node *n = make_node();
        n->next = make_node();
        GC_register_finalizer(n, rise, NULL, NULL, NULL);
    }
}

static NOINLINE void register_again(void)
{
    for (int i = 0; i < rises; i++) {
        GC_register_finalizer(risen[i], record, (void *)(uintptr_t)i, NULL,
                              NULL);
        risen[i] = NULL;
    }
}

static void resurrection(void)
{
    GC_INIT();
    deep(make_rising);
    settle(2);
    int n = rises;
    CHECK_GE(n, MOST(MANY));
    settle(2);
    churn(8 << 20, sizeof(struct node));
    CHECK_EQ(rises, n); /* once only */
    for (int i = 0; i < n; i++) {
        CHECK_EQ(risen[i]->tag, 0x1234567);
        CHECK_EQ(risen[i]->next->tag, 0x1234567);
    }
    /* A new registration on the risen. */
    deep(register_again);
    settle(2);
    CHECK_GE(orders, MOST(MANY));
}

/* ---- replacing and removing ---- */

static void other(void *obj, void *cd)
{
    (void)obj;
    (void)cd;
    order[0] = -1;
}

static void replace_and_remove(void)
{
    GC_finalization_proc old = other;
    void *old_cd = &old;
    GC_INIT();
    struct node *n = make_node();
    GC_register_finalizer(n, record, (void *)7, &old, &old_cd);
    CHECK(old == NULL && old_cd == NULL);
    GC_register_finalizer(n, other, (void *)8, &old, &old_cd);
    CHECK(old == record && old_cd == (void *)7);
    GC_register_finalizer_no_order(n, record, (void *)9, &old, &old_cd);
    CHECK(old == other && old_cd == (void *)8);
    GC_register_finalizer(n, NULL, NULL, &old, &old_cd);
    CHECK(old == record && old_cd == (void *)9);
    old = other;
    old_cd = &old;
    GC_register_finalizer(n, NULL, NULL, &old, &old_cd);
    CHECK(old == NULL && old_cd == NULL);
}

static NOINLINE void make_removed(void)
{
    for (int i = 0; i < MANY; i++) {
        struct node *n = make_node();
        reg(n, record, (void *)(uintptr_t)i, NULL, NULL);
        reg(n, NULL, NULL, NULL, NULL);
    }
}

static void removed_never_runs(void)
{
    reg = GC_register_finalizer;
    GC_INIT();
    deep(make_removed);
    settle(3);
    CHECK_EQ(orders, 0);
}

static void outside_the_heap(void)
{
    GC_finalization_proc old = other;
    void *old_cd = &old;
    static int in_data;
    GC_INIT();
    GC_register_finalizer(&in_data, record, NULL, &old, &old_cd);
    CHECK(old == NULL && old_cd == NULL);
    settle(2);
    CHECK_EQ(orders, 0);
}

/* ---- java order ---- */

static NOINLINE void make_unreachable_pairs(void)
{
    for (int c = 0; c < CHAINS; c++) {
        struct node *a = make_node(), *b = make_node();
        a->next = b;
        GC_register_finalizer_no_order(a, record, (void *)(uintptr_t)(2 * c),
                                       NULL, NULL);
        GC_register_finalizer_unreachable(
            b, record, (void *)(uintptr_t)(2 * c + 1), NULL, NULL);
    }
}

/* b waits until no unordered finalizable object reaches it any more. (Debian
 * builds stock with the java order on from the start.) */
static void unreachable_waits(void)
{
    GC_set_java_finalization(0);
    CHECK_EQ(GC_java_finalization, 0);
    GC_set_java_finalization(1);
    CHECK_EQ(GC_get_java_finalization(), 1);
    CHECK_EQ(GC_java_finalization, 1);
    GC_INIT();
    GC_set_finalize_on_demand(1);
    deep(make_unreachable_pairs);
    collect();
    GC_invoke_finalizers();
    int a = 0, b = 0;
    for (int i = 0; i < CHAINS * 2; i++)
        *(i % 2 ? &b : &a) += runs[i];
    CHECK_GE(a, MOST(CHAINS));
    CHECK_EQ(b, 0);
    settle(3);
    CHECK_GE(total_runs(0, CHAINS * 2), MOST(CHAINS * 2));
}

/* ---- all at once ---- */

static void finalize_all(void)
{
    GC_INIT();
    GC_set_finalize_on_demand(0);
    deep(make_reachable);
    GC_finalize_all();
    CHECK_EQ(orders, MANY);
    total_runs(0, MANY);
}

static void dump_finalization(void)
{
    GC_INIT();
    deep(make_reachable);
    GC_dump_finalization();
    check_alive();
}

/* Many: the tables grow; each still runs once. */
static int many_runs;
static void count_run(void *obj, void *cd)
{
    (void)obj;
    (void)cd;
    many_runs++;
}

static NOINLINE void make_lots(void)
{
    for (int i = 0; i < 100000; i++)
        GC_register_finalizer_no_order(GC_malloc_atomic(16), count_run, NULL,
                                       NULL, NULL);
}

static void lots(void)
{
    GC_INIT();
    deep(make_lots);
    settle(3);
    CHECK_LE(many_runs, 100000);
    CHECK_GE(many_runs, MOST(100000));
}

static void large_objects(void)
{
    GC_INIT();
    for (int i = 0; i < 200; i++)
        GC_register_finalizer(GC_malloc(50000), count_run, NULL, NULL, NULL);
    settle(3);
    CHECK_GE(many_runs, MOST(200));
}

MAIN_BEGIN
    RUN(ordered_single);
    RUN(ignore_self_single);
    RUN(no_order_single);
    RUN(unreachable_single);
    RUN(run_by_allocation);
    RUN(reachable_is_not_finalized);
    RUN(ordered_chain);
    RUN(no_order_chain);
    RUN(ordered_cycle_never_runs);
    RUN(no_order_cycle_runs);
    RUN(self_pointer_blocks_ordered);
    RUN(ignore_self_runs);
    RUN(ignore_self_chain);
    RUN(link_breaks_cycle);
    RUN(ordered_contents);
    RUN(no_order_contents);
    RUN(unreachable_contents);
    RUN(client_data_is_kept);
    RUN(resurrection);
    RUN(replace_and_remove);
    RUN(removed_never_runs);
    RUN(outside_the_heap);
    RUN(unreachable_waits);
    RUN(finalize_all);
    RUN(dump_finalization);
    RUN(lots);
    RUN(large_objects);
MAIN_END
