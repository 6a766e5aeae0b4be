/* Disappearing links, long links, toggle references. */
#include "harness.h"

static GC_word link_to[MANY], second[MANY];
typedef int (*registrar)(void **, const void *);
typedef int (*mover)(void **, void **);
typedef int (*remover)(void **);

static registrar reg = GC_general_register_disappearing_link;
static mover move = GC_move_disappearing_link;
static remover unreg = GC_unregister_disappearing_link;

static void use_long(void)
{
    reg = GC_register_long_link;
    move = GC_move_long_link;
    unreg = GC_unregister_long_link;
}

static int cleared(GC_word *links, int count)
{
    int n = 0;
    for (int i = 0; i < count; i++)
        n += links[i] == 0;
    return n;
}

static void *volatile kept[MANY];

static NOINLINE void make_linked(void)
{
    for (int i = 0; i < MANY; i++) {
        void *p = GC_malloc(32);
        link_to[i] = GC_HIDE_POINTER(p);
        CHECK_EQ(reg((void **)&link_to[i], p), GC_SUCCESS);
        if (i % 2)
            kept[i] = p;
    }
}

/* Cleared exactly when the object goes. */
static void basic(void)
{
    GC_INIT();
    deep(make_linked);
    collect();
    int even = 0, odd = 0;
    for (int i = 0; i < MANY; i++)
        *(i % 2 ? &odd : &even) += link_to[i] == 0;
    CHECK_EQ(odd, 0);
    CHECK_GE(even, MOST(MANY / 2));
    for (int i = 0; i < MANY; i++)
        if (kept[i] != NULL)
            CHECK_PTR(GC_REVEAL_POINTER(link_to[i]), kept[i]);
    for (int i = 0; i < MANY; i++)
        kept[i] = NULL;
    collect();
    CHECK_GE(cleared(link_to, MANY), MOST(MANY));
}

static void long_basic(void) { use_long(); basic(); }

static NOINLINE void answers_body(void)
{
    void *p = GC_malloc(32), *q = GC_malloc(32);
    link_to[0] = GC_HIDE_POINTER(p);
    CHECK_EQ(reg((void **)&link_to[0], p), GC_SUCCESS);
    CHECK_EQ(reg((void **)&link_to[0], p), GC_DUPLICATE);
    CHECK_EQ(reg((void **)&link_to[0], q), GC_DUPLICATE);
    /* Move to itself asks whether it is registered. */
    CHECK_EQ(move((void **)&link_to[0], (void **)&link_to[0]), GC_SUCCESS);
    CHECK_EQ(move((void **)&link_to[1], (void **)&link_to[1]), GC_NOT_FOUND);
    CHECK_EQ(move((void **)&link_to[1], (void **)&link_to[2]), GC_NOT_FOUND);
    link_to[1] = 12345 * 2 + 1;
    CHECK_EQ(move((void **)&link_to[0], (void **)&link_to[1]), GC_SUCCESS);
    CHECK_EQ(link_to[1], 12345 * 2 + 1); /* content untouched */
    CHECK_EQ(move((void **)&link_to[0], (void **)&link_to[2]), GC_NOT_FOUND);
    CHECK_EQ(reg((void **)&link_to[2], q), GC_SUCCESS);
    CHECK_EQ(move((void **)&link_to[1], (void **)&link_to[2]), GC_DUPLICATE);
    CHECK_EQ(unreg((void **)&link_to[1]), 1);
    CHECK_EQ(unreg((void **)&link_to[1]), 0);
    CHECK_EQ(unreg((void **)&link_to[2]), 1);
    CHECK_EQ(unreg((void **)&link_to[7]), 0);
    CHECK_EQ(move(NULL, (void **)&link_to[2]), GC_NOT_FOUND);
    CHECK_EQ(unreg(NULL), 0);
    GC_reachable_here(p);
    GC_reachable_here(q);
}

static void answers(void) { GC_INIT(); answers_body(); }
static void long_answers(void) { use_long(); answers(); }

static NOINLINE void make_moved(void)
{
    for (int i = 0; i < MANY; i++) {
        void *p = GC_malloc(32);
        link_to[i] = second[i] = GC_HIDE_POINTER(p);
        CHECK_EQ(reg((void **)&link_to[i], p), GC_SUCCESS);
        CHECK_EQ(move((void **)&link_to[i], (void **)&second[i]), GC_SUCCESS);
    }
}

static void moved(void)
{
    GC_INIT();
    deep(make_moved);
    collect();
    CHECK_EQ(cleared(link_to, MANY), 0);
    CHECK_GE(cleared(second, MANY), MOST(MANY));
}

static void long_moved(void) { use_long(); moved(); }

static NOINLINE void make_unlinked(void)
{
    for (int i = 0; i < MANY; i++) {
        void *p = GC_malloc(32);
        link_to[i] = GC_HIDE_POINTER(p);
        reg((void **)&link_to[i], p);
        CHECK_EQ(unreg((void **)&link_to[i]), 1);
    }
}

static void unregistered(void)
{
    GC_INIT();
    deep(make_unlinked);
    collect();
    CHECK_EQ(cleared(link_to, MANY), 0);
}

static void long_unregistered(void) { use_long(); unregistered(); }

/* Registered again with another object, the link belongs to that one. */
static NOINLINE void make_replaced(void)
{
    for (int i = 0; i < MANY; i++) {
        void *p = GC_malloc(32), *q = GC_malloc(32);
        link_to[i] = GC_HIDE_POINTER(p);
        CHECK_EQ(reg((void **)&link_to[i], p), GC_SUCCESS);
        CHECK_EQ(reg((void **)&link_to[i], q), GC_DUPLICATE);
        kept[i] = q; /* the new one lives */
    }
}

static void replaced(void)
{
    GC_INIT();
    deep(make_replaced);
    collect();
    CHECK_EQ(cleared(link_to, MANY), 0);
    for (int i = 0; i < MANY; i++)
        kept[i] = NULL;
    collect();
    CHECK_GE(cleared(link_to, MANY), MOST(MANY));
}

static void long_replaced(void) { use_long(); replaced(); }

/* Links inside heap objects: of the object that holds them, and gone with
 * their holder. */
static NOINLINE void make_inside(void)
{
    for (int i = 0; i < MANY; i++) {
        GC_word *holder = GC_malloc_atomic(32);
        void *p = GC_malloc(32);
        holder[1] = (GC_word)p; /* disguised: the holder is atomic */
        CHECK_EQ(reg((void **)&holder[1], p), GC_SUCCESS);
        kept[i] = holder;
    }
}

static void inside_heap(void)
{
    GC_INIT();
    deep(make_inside);
    collect();
    int n = 0;
    for (int i = 0; i < MANY; i++)
        n += ((GC_word *)kept[i])[1] == 0;
    CHECK_GE(n, MOST(MANY));
}

static NOINLINE void make_dying_holders(void)
{
    for (int i = 0; i < MANY; i++) {
        GC_word *holder = GC_malloc_atomic(32);
        void *p = GC_malloc(32);
        kept[i] = p;
        holder[1] = (GC_word)p;
        CHECK_EQ(reg((void **)&holder[1], p), GC_SUCCESS);
    }
}

/* The holder dies first: later its memory belongs to another object, which
 * must not be written. */
static void holder_dies(void)
{
    static uintptr_t *volatile others[MANY * 4];
    GC_INIT();
    deep(make_dying_holders);
    collect();
    for (int i = 0; i < MANY * 4; i++) {
        others[i] = GC_malloc_atomic(32);
        for (int j = 0; j < 4; j++)
            others[i][j] = 0x1111;
    }
    for (int i = 0; i < MANY; i++)
        kept[i] = NULL;
    collect();
    collect();
    for (int i = 0; i < MANY * 4; i++)
        for (int j = 0; j < 4; j++)
            CHECK_EQ(others[i][j], 0x1111);
}

static void long_inside_heap(void) { use_long(); inside_heap(); }
static void long_holder_dies(void) { use_long(); holder_dies(); }

/* The older form: the link is a field of the object itself. */
static int finalized_clear;
static void on_final(void *obj, void *cd)
{
    (void)cd;
    finalized_clear += ((void **)obj)[1] == NULL;
}

static NOINLINE void make_own_links(void)
{
    for (int i = 0; i < MANY; i++) {
        void **p = GC_malloc(32);
        p[1] = GC_malloc(32);
        CHECK_EQ(GC_register_disappearing_link(&p[1]), GC_SUCCESS);
        CHECK_EQ(GC_register_disappearing_link(&p[1]), GC_DUPLICATE);
        GC_register_finalizer(p, on_final, NULL, NULL, NULL);
    }
}

static void own_field_before_finalizer(void)
{
    GC_INIT();
    deep(make_own_links);
    collect();
    GC_invoke_finalizers();
    CHECK_GE(finalized_clear, MOST(MANY));
}

/* Short links go before a finalizer runs; long ones only when the object can
 * no longer come back. */
static void *volatile risen[MANY];
static int rises;
static void rise(void *obj, void *cd)
{
    (void)cd;
    risen[rises++] = obj;
}

static NOINLINE void make_rising(void)
{
    for (int i = 0; i < MANY; i++) {
        void *p = GC_malloc(32);
        link_to[i] = second[i] = GC_HIDE_POINTER(p);
        GC_general_register_disappearing_link((void **)&link_to[i], p);
        GC_register_long_link((void **)&second[i], p);
        GC_register_finalizer_no_order(p, rise, NULL, NULL, NULL);
    }
}

static void short_and_long(void)
{
    GC_INIT();
    GC_set_finalize_on_demand(1);
    deep(make_rising);
    collect();
    CHECK_GE(cleared(link_to, MANY), MOST(MANY));
    CHECK_EQ(cleared(second, MANY), 0);
    GC_invoke_finalizers();
    int n = rises;
    CHECK_GE(n, MOST(MANY));
    collect();
    CHECK_EQ(cleared(second, MANY), 0);
    for (int i = 0; i < MANY; i++)
        risen[i] = NULL;
    collect();
    CHECK_GE(cleared(second, MANY), MOST(MANY));
}

/* A long link to something that only a finalizable object reaches. */
static void keep_below(void *obj, void *cd)
{
    (void)cd;
    risen[rises++] = ((void **)obj)[0];
}

static NOINLINE void make_below(void)
{
    for (int i = 0; i < MANY; i++) {
        void **p = GC_malloc(32);
        p[0] = GC_malloc(32);
        link_to[i] = second[i] = GC_HIDE_POINTER(p[0]);
        GC_general_register_disappearing_link((void **)&link_to[i], p[0]);
        GC_register_long_link((void **)&second[i], p[0]);
        GC_register_finalizer(p, keep_below, NULL, NULL, NULL);
    }
}

static void below_finalizable(void)
{
    GC_INIT();
    GC_set_finalize_on_demand(1);
    deep(make_below);
    collect();
    CHECK_EQ(cleared(second, MANY), 0);
    GC_invoke_finalizers();
    CHECK_GE(rises, MOST(MANY));
    collect();
    CHECK_EQ(cleared(second, MANY), 0);
    for (int i = 0; i < MANY; i++)
        risen[i] = NULL;
    collect();
    CHECK_GE(cleared(second, MANY), MOST(MANY));
}

/* Both kinds on the same address are separate registrations. */
static NOINLINE void both_body(void)
{
    void *p = GC_malloc(32);
    link_to[0] = GC_HIDE_POINTER(p);
    CHECK_EQ(GC_general_register_disappearing_link((void **)&link_to[0], p),
             GC_SUCCESS);
    CHECK_EQ(GC_register_long_link((void **)&link_to[0], p), GC_SUCCESS);
    CHECK_EQ(GC_unregister_long_link((void **)&link_to[0]), 1);
    CHECK_EQ(GC_unregister_disappearing_link((void **)&link_to[0]), 1);
}

static void both_tables(void) { GC_INIT(); both_body(); }

/* Reading a weak pointer under the lock. */
static void *read_weak(void *arg)
{
    GC_word v = *(GC_word *)arg;
    return v == 0 ? NULL : GC_REVEAL_POINTER(v);
}

static void read_under_lock(void)
{
    GC_INIT();
    kept[0] = GC_malloc(32);
    link_to[0] = GC_HIDE_POINTER(kept[0]);
    GC_general_register_disappearing_link((void **)&link_to[0], kept[0]);
    collect();
    CHECK_PTR(GC_call_with_alloc_lock(read_weak, &link_to[0]), kept[0]);
}

static void lots(void)
{
    enum { LOTS = 100000 };
    static GC_word many[LOTS];
    GC_INIT();
    GC_disable();
    for (int i = 0; i < LOTS; i++) {
        void *p = GC_malloc_atomic(16);
        many[i] = GC_HIDE_POINTER(p);
        CHECK_EQ(reg((void **)&many[i], p), GC_SUCCESS);
    }
    for (int i = 0; i < LOTS; i += 2)
        unreg((void **)&many[i]);
    GC_enable();
    collect();
    collect();
    int even = 0, odd = 0;
    for (int i = 0; i < LOTS; i++)
        *(i % 2 ? &odd : &even) += many[i] == 0;
    CHECK_EQ(even, 0);
    CHECK_GE(odd, MOST(LOTS / 2));
}

static void long_lots(void) { use_long(); lots(); }

/* ---- toggle references ---- */

enum { TOGGLES = 300 };
struct toggled {
    uintptr_t native; /* what the callback answers */
    void *below;
};
static int asked;
static GC_ToggleRefStatus toggle(void *obj)
{
    asked++;
    return (GC_ToggleRefStatus)((struct toggled *)obj)->native;
}

static uintptr_t toggle_answer;
static int toggle_strong;
static GC_word hidden_toggled[TOGGLES];

static NOINLINE void make_toggled(void)
{
    for (int i = 0; i < TOGGLES; i++) {
        struct toggled *t = GC_malloc(sizeof *t);
        t->native = toggle_answer;
        t->below = GC_malloc(32);
        CHECK_EQ(GC_toggleref_add(t, toggle_strong), GC_SUCCESS);
        watch(i, t);
        hidden_toggled[i] = GC_HIDE_POINTER(t);
    }
}

static void toggle_start(uintptr_t answer, int strong)
{
    GC_INIT();
    CHECK(GC_get_toggleref_func() == NULL);
    GC_set_toggleref_func(toggle);
    CHECK(GC_get_toggleref_func() == toggle);
    toggle_answer = answer;
    toggle_strong = strong;
    deep(make_toggled);
    collect();
}

static void toggle_strong_keeps(void)
{
    toggle_start(GC_TOGGLE_REF_STRONG, 1);
    CHECK_OP(asked, >, 0);
    CHECK_NONE_GONE(TOGGLES);
    collect();
    CHECK_NONE_GONE(TOGGLES);
    /* Weak from now on. */
    for (int i = 0; i < TOGGLES; i++)
        ((struct toggled *)GC_REVEAL_POINTER(hidden_toggled[i]))->native =
            GC_TOGGLE_REF_WEAK;
    collect();
    collect();
    CHECK_MOST_GONE(TOGGLES);
}

static void toggle_weak_goes(void)
{
    toggle_start(GC_TOGGLE_REF_WEAK, 0);
    CHECK_MOST_GONE(TOGGLES);
}

/* Registered weak; the callback makes it strong in time. */
static void toggle_weak_to_strong(void)
{
    toggle_start(GC_TOGGLE_REF_STRONG, 0);
    CHECK_NONE_GONE(TOGGLES);
}

static void toggle_drop(void)
{
    toggle_start(GC_TOGGLE_REF_DROP, 1);
    collect();
    CHECK_MOST_GONE(TOGGLES);
    int n = asked;
    collect();
    CHECK_EQ(asked, n); /* no longer asked about */
}

/* Without a callback an addition is accepted and does nothing. */
static void toggle_without_callback(void)
{
    GC_INIT();
    toggle_strong = 1;
    deep(make_toggled);
    collect();
    CHECK_MOST_GONE(TOGGLES);
}

/* Links to objects that die make a program's own tables long until they are cleared, so they bring collections, which
 * links to objects that stay do not. */
enum { LINKS = 60000 };
static void *link_owner;

static NOINLINE long collections_with(void **links, void *stays, int dies)
{
    GC_word before = GC_get_gc_no();
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < LINKS; i++) {
            void *object = GC_MALLOC(64);
            if (links == NULL)
                continue;
            /* A link may be registered anew: then it is no other one. */
            GC_unregister_disappearing_link(&links[i]);
            links[i] = (void *)GC_HIDE_POINTER(object);
            GC_general_register_disappearing_link(&links[i], dies ? object : stays);
        }
    for (int i = 0; links != NULL && i < LINKS; i++)
        GC_unregister_disappearing_link(&links[i]);
    return (long)(GC_get_gc_no() - before);
}

static void links_that_die_bring_collections(void)
{
    void **links = calloc(LINKS, sizeof *links);
    void **all = link_owner = GC_MALLOC(50000 * sizeof *all);
    for (int i = 0; i < 50000; i++)
        all[i] = GC_MALLOC(64);
    long none = collections_with(NULL, NULL, 0);
    long stay = collections_with(links, link_owner, 0);
    long die = collections_with(links, link_owner, 1);
    NOTE("collections without links %ld, with such that stay %ld, that die %ld\n", none, stay, die);
    CHECK_LE(stay, none + 2);
    CHECK_GE(die, none + none / 2);
    free(links);
}

MAIN_BEGIN
    RUN(basic);
    RUN(long_basic);
    RUN(answers);
    RUN(long_answers);
    RUN(moved);
    RUN(long_moved);
    RUN(unregistered);
    RUN(long_unregistered);
    RUN(replaced);
    RUN(long_replaced);
    RUN(inside_heap);
    RUN(long_inside_heap);
    RUN(holder_dies);
    RUN(long_holder_dies);
    RUN(own_field_before_finalizer);
    RUN(short_and_long);
    RUN(below_finalizable);
    RUN(both_tables);
    RUN(read_under_lock);
    RUN(lots);
    RUN(long_lots);
    RUN(toggle_strong_keeps);
    RUN(toggle_weak_goes);
    RUN(toggle_weak_to_strong);
    RUN(toggle_drop);
    RUN(toggle_without_callback);
    RUN_GLEANER(links_that_die_bring_collections);
MAIN_END
