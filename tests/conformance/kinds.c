/* Kinds of one's own: every form of descriptor, mark procedures, gcj
 * objects, disclaim procedures. Guile's smobs and structs work this way. */
#include "harness.h"
#include <gc/gc_disclaim.h>
#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>

enum { WORDS = 6 };
static void *volatile root[MANY];
static GC_word field[MANY][WORDS];
static int kind;
static size_t size = WORDS * sizeof(void *);
static void *(*make)(int);
static unsigned fill_mask = 0x3f; /* which words the test fills */

static NOINLINE void make_objects(void)
{
    for (int i = 0; i < MANY; i++) {
        void **p = make(i);
        for (int w = 0; w < WORDS; w++) {
            if (!(fill_mask >> w & 1))
                continue;
            p[w] = GC_malloc(16);
            field[i][w] = GC_HIDE_POINTER(p[w]);
            GC_general_register_disappearing_link((void **)&field[i][w], p[w]);
        }
        root[i] = p;
    }
}

/* The words in `mask` are traced, the others are not. */
static void check_mask(unsigned mask)
{
    deep(make_objects);
    for (int r = 0; r < 2; r++)
        collect();
    int lost = 0, freed = 0, plain = 0;
    for (int i = 0; i < MANY; i++)
        for (int w = 0; w < WORDS; w++) {
            if (!(fill_mask >> w & 1))
                continue;
            if (mask >> w & 1)
                lost += field[i][w] == 0;
            else
                plain++, freed += field[i][w] == 0;
        }
    CHECK_EQ(lost, 0);
    CHECK_GE(freed, MOST(plain));
    for (int i = 0; i < MANY; i++) {
        root[i] = NULL;
        for (int w = 0; w < WORDS; w++)
            GC_unregister_disappearing_link((void **)&field[i][w]);
    }
}

static void *make_kind(int i)
{
    (void)i;
    void *p = GC_generic_malloc(size, kind);
    CHECK(all_zero(p, size));
    CHECK_EQ(GC_get_kind_and_size(p, NULL), kind);
    return p;
}

static void with_descriptor(GC_word descr, int add_size, unsigned mask)
{
    make = make_kind;
    kind = (int)GC_new_kind(GC_new_free_list(), descr, add_size, 1);
    check_mask(mask);
}

static void length(void)
{
    GC_INIT();
    with_descriptor(3 * sizeof(void *) | GC_DS_LENGTH, 0, 0x07);
}

static void length_of_object(void)
{
    GC_INIT();
    with_descriptor(0 | GC_DS_LENGTH, 1, 0x3f);
}

static void length_zero(void)
{
    GC_INIT();
    with_descriptor(0 | GC_DS_LENGTH, 0, 0);
}

/* The first word is the top bit. */
static void bitmap(void)
{
    GC_INIT();
    GC_word top = (GC_word)1 << 63;
    with_descriptor(top | top >> 2 | top >> 5 | GC_DS_BITMAP, 0, 0x25);
}

/* ---- mark procedures ---- */

static volatile int proc_calls, bad_env;

static struct GC_ms_entry *odd_words(GC_word *addr, struct GC_ms_entry *msp,
                                     struct GC_ms_entry *limit, GC_word env)
{
    __atomic_fetch_add(&proc_calls, 1, __ATOMIC_RELAXED);
    if (env != 321)
        bad_env = 1;
    for (int w = 1; w < WORDS; w += 2)
        msp = GC_MARK_AND_PUSH((void *)addr[w], msp, limit, (void **)&addr[w]);
    return msp;
}

static void procedure(void)
{
    GC_INIT();
    unsigned proc = GC_new_proc(odd_words);
    CHECK_GE(proc, GC_RESERVED_MARK_PROCS);
    with_descriptor(GC_MAKE_PROC(proc, 321), 0, 0x2a);
    CHECK_GE(proc_calls, MANY);
    CHECK_EQ(bad_env, 0);
}

static void *new_inner(void *arg)
{
    (void)arg;
    unsigned proc = GC_new_proc_inner(odd_words);
    kind = (int)GC_new_kind_inner(GC_new_free_list_inner(),
                                  GC_MAKE_PROC(proc, 321), 0, 1);
    return NULL;
}

static void procedure_made_under_lock(void)
{
    GC_INIT();
    GC_call_with_alloc_lock(new_inner, NULL);
    make = make_kind;
    check_mask(0x2a);
    CHECK_EQ(bad_env, 0);
}

/* Deep chain through a mark procedure, pushed one by one. */
static struct GC_ms_entry *chain_proc(GC_word *addr, struct GC_ms_entry *msp,
                                      struct GC_ms_entry *limit, GC_word env)
{
    (void)env;
    return GC_MARK_AND_PUSH((void *)addr[1], msp, limit, (void **)&addr[1]);
}

static void procedure_chain(void)
{
    enum { LENGTH = 200000 };
    GC_INIT();
    kind = (int)GC_new_kind(GC_new_free_list(),
                            GC_MAKE_PROC(GC_new_proc(chain_proc), 0), 0, 1);
    void **list = NULL;
    for (int i = 0; i < LENGTH; i++) {
        void **p = GC_generic_malloc(32, kind);
        p[1] = list;
        p[2] = (void *)(uintptr_t)(2 * i + 1);
        list = p;
    }
    root[0] = list;
    list = NULL;
    for (int r = 0; r < 3; r++) {
        collect();
        for (int i = 0; i < 20000; i++)
            memset(GC_generic_malloc(32, kind), 0, 32);
    }
    list = root[0];
    for (int i = LENGTH - 1; i >= 0; i--) {
        REQUIRE(list != NULL);
        CHECK_EQ((uintptr_t)list[2], 2 * i + 1);
        list = list[1];
    }
}

/* An interior pointer may be passed on; a wild word is ignored. */
static struct GC_ms_entry *wild_proc(GC_word *addr, struct GC_ms_entry *msp,
                                     struct GC_ms_entry *limit, GC_word env)
{
    (void)env;
    msp = GC_mark_and_push((void *)(addr[1] + 5), msp, limit, (void **)&addr[1]);
    GC_word wild[] = {0, 1, 8, addr[1] + ((GC_word)1 << 45), ~(GC_word)0,
                      (GC_word)&proc_calls};
    for (unsigned i = 0; i < sizeof wild / sizeof *wild; i++)
        msp = GC_MARK_AND_PUSH((void *)wild[i], msp, limit, (void **)&addr[1]);
    return msp;
}

static void procedure_with_wild_words(void)
{
    GC_INIT();
    fill_mask = 0x06;
    with_descriptor(GC_MAKE_PROC(GC_new_proc(wild_proc), 0), 0, 0x02);
}

/* ---- descriptors in the object ---- */

static void *make_per_object(int i)
{
    GC_word *p = GC_generic_malloc(size, kind);
    /* Word 0 holds the descriptor: i % 2 chooses. */
    p[0] = i % 2 ? 3 * sizeof(void *) : 3 * sizeof(void *);
    return p;
}

static void per_object(void)
{
    GC_INIT();
    make = make_per_object;
    kind = (int)GC_new_kind(GC_new_free_list(), 0 | GC_DS_PER_OBJECT, 0, 1);
    fill_mask = 0x3e;
    check_mask(0x06);
}

static void *make_per_object_bitmap(int i)
{
    GC_word top = (GC_word)1 << 63, *p = GC_generic_malloc(size, kind);
    (void)i;
    p[1] = top >> 3 | top >> 5 | GC_DS_BITMAP;
    return p;
}

/* The descriptor in the second word: displacement 8. */
static void per_object_displaced(void)
{
    GC_INIT();
    make = make_per_object_bitmap;
    kind = (int)GC_new_kind(GC_new_free_list(),
                            sizeof(void *) | GC_DS_PER_OBJECT, 0, 1);
    fill_mask = 0x3d;
    check_mask(0x28);
}

/* Each object says a mark procedure. */
static unsigned own_proc;
static void *make_per_object_proc(int i)
{
    GC_word *p = GC_generic_malloc(size, kind);
    (void)i;
    p[0] = GC_MAKE_PROC(own_proc, 321);
    return p;
}

static void per_object_procedure(void)
{
    GC_INIT();
    own_proc = GC_new_proc(odd_words);
    make = make_per_object_proc;
    kind = (int)GC_new_kind(GC_new_free_list(), 0 | GC_DS_PER_OBJECT, 0, 1);
    fill_mask = 0x3e;
    check_mask(0x2a);
    CHECK_EQ(bad_env, 0);
}

/* A free cell has its link where objects have their descriptor. Stale words
 * that lead to one have nothing scanned. */
static void per_object_free_cells(void)
{
    enum { CELLS = 3000, AGAIN = 40 };
    static GC_word hidden[CELLS];
    GC_INIT();
    int of_object =
        (int)GC_new_kind(GC_new_free_list(), 0 | GC_DS_PER_OBJECT, 0, 1);
    for (int i = 0; i < CELLS; i++) {
        GC_word *p = GC_generic_malloc(48, of_object);
        p[0] = 2 * sizeof(void *);
        hidden[i] = ~(GC_word)p;
    }
    void **stale = GC_malloc_uncollectable(CELLS * sizeof(void *));
    for (int round = 0; round < 10; round++) {
        memset(stale, 0, CELLS * sizeof(void *));
        collect();
        for (int i = 0; i < AGAIN; i++)
            *(GC_word *)GC_generic_malloc(48, of_object) = sizeof(void *);
        for (int i = 0; i < CELLS; i++)
            stale[i] = (void *)~hidden[i];
        collect();
    }
    GC_free(stale);
    check_alive();
}

/* The variables of GC_MARK_AND_PUSH lie in the program's data, which is a
 * root, and refer to no object. */
static void plausible_addresses(void)
{
    GC_INIT();
    char *first = GC_malloc(16);
    for (int i = 0; i < 1000; i++) {
        char *p = GC_malloc(16);
        first = p < first ? p : first;
    }
    CHECK((char *)GC_least_plausible_heap_addr < first);
    CHECK((char *)GC_greatest_plausible_heap_addr > first);
    CHECK_PTR(GC_base(GC_least_plausible_heap_addr), NULL);
    CHECK_PTR(GC_base(GC_greatest_plausible_heap_addr), NULL);
}

/* The first word points to a type that holds the descriptor: negative
 * displacement. */
struct type {
    GC_word before, descr, after;
};
static struct type type_a = {0, 4 * sizeof(void *), 0};

static void *make_with_type(int i)
{
    void **p = GC_generic_malloc(size, kind);
    (void)i;
    p[0] = &type_a;
    return p;
}

static void negative_per_object(void)
{
    GC_INIT();
    make = make_with_type;
    GC_word d = (GC_word)(-(GC_signed_word)offsetof(struct type, descr)
                          - GC_INDIR_PER_OBJ_BIAS)
                | GC_DS_PER_OBJECT;
    kind = (int)GC_new_kind(GC_new_free_list(), d, 0, 1);
    fill_mask = 0x3e;
    check_mask(0x0e);
}

static void not_cleared(void)
{
    GC_INIT();
    kind = (int)GC_new_kind(GC_new_free_list(), 0, 0, 0);
    for (int i = 0; i < 1000; i++) {
        void *p = GC_generic_malloc(100, kind);
        REQUIRE(p != NULL);
        CHECK_EQ(GC_get_kind_and_size(p, NULL), kind);
        memset(p, 0xff, 100);
    }
    collect();
}

static void large_kind(void)
{
    GC_INIT();
    size = 50000;
    unsigned proc = GC_new_proc(odd_words);
    with_descriptor(GC_MAKE_PROC(proc, 321), 0, 0x2a);
}

static void kinds_in_every_size(void)
{
    GC_INIT();
    int k = (int)GC_new_kind(GC_new_free_list(), 0, 1, 1);
    static void **volatile all[300];
    for (int i = 0; i < 300; i++) {
        size_t n = 16 + 16 * (size_t)i;
        all[i] = GC_generic_malloc(n, k);
        CHECK(all_zero(all[i], n));
        CHECK_GE(GC_size(all[i]), n);
        all[i][0] = GC_malloc_atomic(16);
        *(int *)all[i][0] = i;
    }
    collect();
    churn(4 << 20, 16);
    for (int i = 0; i < 10000; i++)
        memset(GC_malloc_atomic(16), 0xff, 16);
    for (int i = 0; i < 300; i++)
        CHECK_EQ(*(int *)all[i][0], i);
}

/* ---- gcj ---- */

struct vtable {
    void *class;
    GC_word descr; /* gcj keeps it in the second word */
};
static struct vtable length_vtable = {NULL, 3 * sizeof(void *)};
static struct vtable bitmap_vtable = {
    NULL, (GC_word)1 << 63 >> 2 | (GC_word)1 << 63 >> 4 | GC_DS_BITMAP};
static void *vtable;

static struct GC_ms_entry *gcj_proc(GC_word *addr, struct GC_ms_entry *msp,
                                    struct GC_ms_entry *limit, GC_word env)
{
    __atomic_fetch_add(&proc_calls, 1, __ATOMIC_RELAXED);
    if (env == 1) /* debug objects: past their header */
        addr = (GC_word *)GC_USR_PTR_FROM_BASE(addr);
    for (int w = 1; w < WORDS; w += 2)
        msp = GC_MARK_AND_PUSH((void *)addr[w], msp, limit, (void **)&addr[w]);
    return msp;
}

static void *make_gcj(int i)
{
    void **p = i % 3 ? GC_gcj_malloc(size, vtable)
                     : GC_gcj_malloc_ignore_off_page(size, vtable);
    CHECK_PTR(p[0], vtable);
    CHECK(all_zero(p + 1, size - 8));
    CHECK_EQ(GC_get_kind_and_size(p, NULL), GC_gcj_kind);
    return p;
}

static void gcj(void)
{
    GC_INIT();
    GC_init_gcj_malloc(GC_GCJ_RESERVED_MARK_PROC_INDEX, (void *)gcj_proc);
    make = make_gcj;
    fill_mask = 0x3e;
    vtable = &length_vtable;
    check_mask(0x06);
    vtable = &bitmap_vtable;
    check_mask(0x14);
    size = 20000;
    check_mask(0x14);
}

static void gcj_procedure(void)
{
    GC_INIT();
    GC_init_gcj_malloc(GC_GCJ_RESERVED_MARK_PROC_INDEX, (void *)gcj_proc);
    static struct vtable v = {
        NULL, GC_MAKE_PROC(GC_GCJ_RESERVED_MARK_PROC_INDEX, 0)};
    vtable = &v;
    make = make_gcj;
    fill_mask = 0x3e;
    check_mask(0x2a);
    CHECK_OP(proc_calls, >, 0);
}

static void *make_gcj_debug(int i)
{
    (void)i;
    void **p = GC_debug_gcj_malloc(size, vtable, __FILE__, __LINE__);
    CHECK_PTR(p[0], vtable);
    /* Stock's header documents GC_gcj_debug_kind; the kind is the base's. */
    CHECK_EQ(GC_get_kind_and_size(GC_base(p), NULL), GC_gcj_debug_kind);
    return p;
}

static void gcj_debug(void)
{
    GC_INIT();
    GC_init_gcj_malloc(GC_GCJ_RESERVED_MARK_PROC_INDEX, (void *)gcj_proc);
    vtable = &length_vtable;
    make = make_gcj_debug;
    fill_mask = 0x3e;
    check_mask(0x2a);
    CHECK_OP(proc_calls, >, 0);
}

/* ---- disclaim ---- */

static int disclaimed, refuse;
static int on_disclaim(void *obj)
{
    GC_word *p = obj;
    /* Objects on a free list are cleared but for the first word. */
    if (p[1] != 0xd15c)
        return 0;
    disclaimed++;
    if (refuse)
        return 1;
    p[1] = 0;
    return 0;
}

static NOINLINE void make_disclaimable(void)
{
    for (int i = 0; i < MANY; i++) {
        GC_word *p = GC_generic_malloc(32, kind);
        p[1] = 0xd15c;
    }
}

static void disclaim(void)
{
    GC_INIT();
    kind = (int)GC_new_kind(GC_new_free_list(), 0, 1, 1);
    GC_register_disclaim_proc(kind, on_disclaim, 0);
    deep(make_disclaimable);
    collect();
    for (int i = 0; i < 3 * MANY; i++)
        GC_generic_malloc(32, kind);
    collect();
    for (int i = 0; i < 3 * MANY; i++)
        GC_generic_malloc(32, kind);
    CHECK_GE(disclaimed, MOST(MANY));
    CHECK_LE(disclaimed, MANY);
}

/* A non-zero answer puts it off: it is asked again in later cycles. */
static void disclaim_refused(void)
{
    GC_INIT();
    kind = (int)GC_new_kind(GC_new_free_list(), 0, 1, 1);
    GC_register_disclaim_proc(kind, on_disclaim, 0);
    refuse = 1;
    deep(make_disclaimable);
    for (int r = 0; r < 3; r++) {
        collect();
        for (int i = 0; i < 3 * MANY; i++)
            GC_generic_malloc(32, kind);
    }
    CHECK_GE(disclaimed, MOST(2 * MANY));
    disclaimed = 0;
    refuse = 0;
    for (int r = 0; r < 3; r++) {
        collect();
        for (int i = 0; i < 3 * MANY; i++)
            GC_generic_malloc(32, kind);
    }
    CHECK_GE(disclaimed, MOST(MANY));
    CHECK_LE(disclaimed, MANY);
}

/* With mark_from_all what a dead object points to is whole when it is
 * disclaimed. */
static int whole;
static int on_disclaim_below(void *obj)
{
    void **p = obj;
    if (p[1] == NULL)
        return 0;
    disclaimed++;
    whole += *(GC_word *)p[1] == 0xbe10;
    p[1] = NULL;
    return 0;
}

static NOINLINE void make_with_below(void)
{
    for (int i = 0; i < MANY; i++) {
        void **p = GC_generic_malloc(32, kind);
        p[1] = GC_malloc_atomic(48);
        *(GC_word *)p[1] = 0xbe10;
    }
}

static void disclaim_marks_below(void)
{
    GC_INIT();
    kind = (int)GC_new_kind(GC_new_free_list(), 0, 1, 1);
    GC_register_disclaim_proc(kind, on_disclaim_below, 1);
    deep(make_with_below);
    collect();
    for (int i = 0; i < 5000; i++)
        memset(GC_malloc_atomic(48), 0xff, 48);
    for (int i = 0; i < 3 * MANY; i++)
        GC_generic_malloc(32, kind);
    collect();
    CHECK_GE(disclaimed, MOST(MANY));
    CHECK_EQ(whole, disclaimed);
}

static NOINLINE void make_disclaimable_like_others(void)
{
    for (int i = 0; i < MANY; i++)
        *(GC_word *)GC_generic_malloc(32, kind) = 1;
}

static struct GC_ms_entry *third_word(GC_word *object, struct GC_ms_entry *top, struct GC_ms_entry *limit, GC_word unused)
{
    (void)unused;
    return GC_MARK_AND_PUSH((void *)object[2], top, limit, (void **)&object[2]);
}

/* GC_free does not ask. */
static void free_does_not_disclaim(void)
{
    GC_INIT();
    kind = (int)GC_new_kind(GC_new_free_list(), 0, 1, 1);
    GC_register_disclaim_proc(kind, on_disclaim, 0);
    for (int i = 0; i < MANY; i++) {
        GC_word *p = GC_generic_malloc(32, kind);
        p[1] = 0xd15c;
        GC_free(p);
    }
    collect();
    CHECK_EQ(disclaimed, 0);
}

/* A procedure may come when there are objects, and go again. Of what was made before nothing is promised but that it stays while it
   lives, as does what comes later. */
static void **volatile kept_of_kind[3 * MANY];
static void make_kept(int first)
{
    for (int i = first; i < first + MANY; i++) {
        kept_of_kind[i] = GC_generic_malloc(32, kind);
        kept_of_kind[i][2] = GC_malloc_atomic(64);
        *(int *)kept_of_kind[i][2] = i;
    }
}

static int sees_whole_objects(void *obj)
{
    GC_word *p = obj;
    disclaimed++;
    CHECK(p[3] == 0);
    return 0;
}

static int (*volatile none)(void *); /* the header forbids a null that compilers see */
static void disclaim_comes_late_and_goes(void)
{
    GC_INIT();
    kind = (int)GC_new_kind(GC_new_free_list(), 0, 1, 1);
    make_kept(0);
    GC_register_disclaim_proc(kind, sees_whole_objects, 0);
    make_kept(MANY);
    for (int round = 0; round < 3; round++) {
        deep(make_disclaimable_like_others);
        collect();
    }
    CHECK_OP(disclaimed, >, 0);
    GC_register_disclaim_proc(kind, none, 0);
    make_kept(2 * MANY);
    for (int round = 0; round < 3; round++) {
        int before = disclaimed;
        deep(make_disclaimable_like_others);
        collect();
        CHECK_EQ(disclaimed, before);
    }
    for (int i = 0; i < 3 * MANY; i++)
        CHECK_EQ(*(int *)kept_of_kind[i][2], i);
}

static void disclaim_comes_late_where_marks_are_kept(void)
{
    add_options("generations=sticky");
    disclaim_comes_late_and_goes();
}

/* A program may fill its objects with any word; but where free cells hold that word, they are told apart by it. */
static void **volatile filled[MANY];
static void objects_that_look_like_poison(void)
{
    if (on_gleaner())
        add_options("poison=off");
    GC_INIT();
    unsigned proc = GC_new_proc(third_word);
    kind = (int)GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(proc, 0), 0, 1);
    for (int i = 0; i < MANY; i++) {
        filled[i] = GC_generic_malloc(48, kind);
        memset(filled[i], 0xfb, 48);
        filled[i][2] = GC_malloc_atomic(64);
        *(int *)filled[i][2] = i;
    }
    collect();
    for (int i = 0; i < 3 * MANY; i++)
        memset(GC_malloc_atomic(64), 0xff, 64);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(*(int *)filled[i][2], i);
}

static int closed;
static void on_close(void *obj, void *cd)
{
    closed += *(int *)obj == 99 && *(int *)cd == 77;
}

static struct GC_finalizer_closure closure;
static int closure_data = 77;
static size_t finalized_size = 40;

static NOINLINE void make_finalized(void)
{
    for (int i = 0; i < MANY; i++) {
        void *p = GC_finalized_malloc(finalized_size, &closure);
        CHECK(all_zero(p, finalized_size));
        CHECK_GE(GC_size(GC_base(p)), finalized_size);
        *(int *)p = 99;
    }
}

static void finalized(size_t n)
{
    GC_INIT();
    GC_init_finalized_malloc();
    GC_init_finalized_malloc();
    finalized_size = n;
    closure.proc = on_close;
    closure.cd = &closure_data;
    deep(make_finalized);
    for (int r = 0; r < 3; r++) {
        collect();
        make_finalized();
    }
    CHECK_GE(closed, MOST(MANY));
}

static void finalized_small(void) { finalized(40); }
static void finalized_large(void) { finalized(5000); }

static NOINLINE void keep_finalized(void)
{
    for (int i = 0; i < MANY; i++) {
        root[i] = GC_finalized_malloc(40, &closure);
        *(int *)root[i] = 99;
    }
}

static void finalized_is_kept(void)
{
    GC_INIT();
    GC_init_finalized_malloc();
    closure.proc = on_close;
    closure.cd = &closure_data;
    keep_finalized();
    for (int r = 0; r < 3; r++)
        collect();
    CHECK_EQ(closed, 0);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(*(int *)root[i], 99);
}

/* ---- describing ---- */

static void describe(void *p, char *out)
{
    (void)p;
    strcpy(out, "thing of the test");
}

static void describe_type(void)
{
    GC_INIT();
    kind = (int)GC_new_kind(GC_new_free_list(), 0, 1, 1);
    GC_register_describe_type_fn(kind, describe);
    root[0] = GC_debug_generic_or_special_malloc(32, 1, __FILE__, __LINE__);
    check_alive();
}

MAIN_BEGIN
    RUN(length);
    RUN(length_of_object);
    RUN(length_zero);
    RUN(bitmap);
    RUN(procedure);
    RUN(procedure_made_under_lock);
    RUN(procedure_chain);
    RUN(procedure_with_wild_words);
    RUN(per_object);
    RUN(per_object_displaced);
    RUN(per_object_procedure);
    RUN_GLEANER(per_object_free_cells);
    RUN(plausible_addresses);
    RUN(negative_per_object);
    RUN(not_cleared);
    RUN(large_kind);
    RUN(kinds_in_every_size);
    RUN(gcj);
    RUN(gcj_procedure);
    RUN(gcj_debug);
    RUN(disclaim);
    RUN(disclaim_refused);
    RUN(disclaim_marks_below);
    RUN(free_does_not_disclaim);
    RUN_GLEANER(disclaim_comes_late_and_goes);
    RUN_GLEANER(disclaim_comes_late_where_marks_are_kept);
    RUN(objects_that_look_like_poison);
    RUN(finalized_small);
    RUN(finalized_large);
    RUN(finalized_is_kept);
    RUN(describe_type);
MAIN_END
