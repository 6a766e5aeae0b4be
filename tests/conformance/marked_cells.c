/* Kinds that mark their free cells, uncollectable ones and those with a
 * disclaim procedure, from the lists of many threads: no cell is handed out
 * twice, none is lost, and each object dies once. */
#include "harness.h"
#include <gc/gc_disclaim.h>
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>

enum { THREADS = 6, SLOTS = 400, ROUNDS = 30, WORDS = 6 };

struct object {
    struct object *referent; /* collectable, and led to from here alone */
    uintptr_t owner, words[WORDS - 2];
};

/* Objects are passed from thread to thread through here. */
static struct object *passed[THREADS][SLOTS];
static pthread_barrier_t together;
static volatile int wrong;

static uintptr_t stamp(uintptr_t thread, uintptr_t slot, uintptr_t round)
{
    return (thread + 1) << 40 | (slot + 1) << 20 | (round + 1) << 1 | 1;
}

static struct object *make(uintptr_t owner, int atomic)
{
    struct object *o = atomic ? GC_malloc_atomic_uncollectable(sizeof *o)
                              : GC_malloc_uncollectable(sizeof *o);
    for (int i = 0; !atomic && i < WORDS - 2; i++)
        if (o->words[i] != 0)
            wrong = 1;
    o->referent = NULL;
    if (!atomic) {
        o->referent = GC_malloc(sizeof *o);
        o->referent->owner = owner;
    }
    o->owner = owner;
    for (int i = 0; i < WORDS - 2; i++)
        o->words[i] = owner;
    return o;
}

static void check_and_free(struct object *o, uintptr_t owner)
{
    if (o->owner != owner || (o->referent != NULL && o->referent->owner != owner))
        wrong = 2;
    for (int i = 0; i < WORDS - 2; i++)
        if (o->words[i] != owner)
            wrong = 3;
    GC_free(o);
}

static void *pass_on(void *number)
{
    uintptr_t self = (uintptr_t)number, other = (self + 1) % THREADS;
    for (uintptr_t round = 0; round < ROUNDS; round++) {
        for (uintptr_t slot = 0; slot < SLOTS; slot++)
            passed[self][slot] = make(stamp(self, slot, round), slot % 3 == 2);
        if (round % 5 == self % 5)
            GC_gcollect();
        pthread_barrier_wait(&together);
        /* Half of what another thread made, before and after a collection. */
        for (uintptr_t slot = 0; slot < SLOTS; slot += 2)
            check_and_free(passed[other][slot], stamp(other, slot, round));
        if (self == round % THREADS)
            GC_gcollect();
        for (uintptr_t slot = 0; slot < SLOTS / 2; slot++)
            GC_free(make(stamp(self, slot, round), slot & 1));
        pthread_barrier_wait(&together);
        for (uintptr_t slot = 1; slot < SLOTS; slot += 2)
            check_and_free(passed[self][slot], stamp(self, slot, round));
        pthread_barrier_wait(&together);
    }
    return NULL;
}

static void run_threads(void *(*body)(void *))
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, body, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    pthread_barrier_destroy(&together);
}

static void uncollectable_objects_are_passed_between_threads(void)
{
    GC_INIT();
    GC_allow_register_threads();
    GC_word before = GC_get_non_gc_bytes();
    run_threads(pass_on);
    CHECK_EQ(wrong, 0);
    /* libgc's own count does not come back to where it was. */
    if (on_gleaner())
        CHECK_EQ(GC_get_non_gc_bytes(), before);
    /* And once more, on the lists that ended threads have left. */
    run_threads(pass_on);
    CHECK_EQ(wrong, 0);
    if (on_gleaner())
        CHECK_EQ(GC_get_non_gc_bytes(), before);
}

static pthread_barrier_t meeting;
static void *of_a_thread[100];

static void *allocates_and_waits(void *unused)
{
    (void)unused;
    for (int i = 0; i < 100; i++)
        of_a_thread[i] = GC_malloc_uncollectable(100);
    pthread_barrier_wait(&meeting);
    pthread_barrier_wait(&meeting);
    for (int i = 0; i < 100; i++)
        GC_free(of_a_thread[i]);
    return NULL;
}

static void objects_of_a_living_thread_count(void)
{
    pthread_t thread;
    GC_INIT();
    GC_word before = GC_get_non_gc_bytes();
    pthread_barrier_init(&meeting, NULL, 2);
    CHECK_EQ(pthread_create(&thread, NULL, allocates_and_waits, NULL), 0);
    pthread_barrier_wait(&meeting);
    CHECK_EQ(GC_get_non_gc_bytes(), before + 100 * GC_size(of_a_thread[0]));
    pthread_barrier_wait(&meeting);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(GC_get_non_gc_bytes(), before);
}

typedef void *makes(size_t);

static void *atomic_uncollectable(size_t bytes)
{
    return GC_malloc_atomic_uncollectable(bytes);
}

static void *uncollectable(size_t bytes)
{
    return GC_malloc_uncollectable(bytes);
}

/* Whatever the kind and the size are, and when the way is not the usual one. */
static void each_size_is_counted_and_taken_off(void)
{
    static makes *const make_one[] = { uncollectable, atomic_uncollectable };
    static const size_t sizes[] = { 1, 16, 60, 79, 80, 81, 96, 500, 2000, 5000, 100000 };
    enum { SIZES = sizeof sizes / sizeof *sizes, COUNT = 300 };
    static void *objects[COUNT];
    GC_INIT();
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; i < SIZES; i++) {
            int count = sizes[i] > 5000 ? 10 : COUNT;
            GC_word before = GC_get_non_gc_bytes();
            for (int n = 0; n < count; n++)
                objects[n] = make_one[kind](sizes[i]);
            CHECK_EQ(GC_get_non_gc_bytes(), before + count * GC_size(objects[0]));
            /* More than a thread takes onto its list. */
            for (int n = 0; n < count; n++)
                GC_free(objects[n]);
            CHECK_EQ(GC_get_non_gc_bytes(), before);
        }
}

/* Nobody asks for the exact count: the variable follows, if not at once. */
static void the_variable_follows_what_is_freed(void)
{
    enum { COUNT = 5000, SIZE = 64, NEAR = 64 << 10 };
    static void *objects[COUNT];
    GC_INIT();
    GC_word before = GC_get_non_gc_bytes();
    for (int i = 0; i < COUNT; i++)
        objects[i] = GC_malloc_uncollectable(SIZE);
    CHECK_GE(GC_non_gc_bytes, before + COUNT * SIZE - NEAR);
    for (int i = 0; i < COUNT; i++)
        GC_free(objects[i]);
    CHECK_LE(GC_non_gc_bytes, before + NEAR);
}

static int GC_CALLBACK lets_die(void *object)
{
    (void)object;
    return 0;
}

/* Its cells are marked as free, too, but its objects are garbage. */
static void objects_with_a_disclaim_procedure_do_not_count(void)
{
    GC_INIT();
    int kind = (int)GC_new_kind(GC_new_free_list(), GC_DS_LENGTH, 1, 1);
    GC_register_disclaim_proc(kind, lets_die, 0);
    GC_word before = GC_get_non_gc_bytes();
    for (int i = 0; i < 1000; i++)
        CHECK(GC_malloc_kind(100, kind) != NULL);
    CHECK_EQ(GC_get_non_gc_bytes(), before);
}

static void what_is_not_freed_stays(void)
{
    enum { HIDDEN = 3000 };
    static struct object *hidden[HIDDEN]; /* no pointers: complements */
    GC_INIT();
    for (uintptr_t i = 0; i < HIDDEN; i++)
        hidden[i] = (struct object *)~(uintptr_t)make(stamp(0, i, 0), i & 1);
    for (int i = 0; i < 3; i++) {
        GC_gcollect();
        churn(8 << 20, 64);
    }
    for (uintptr_t i = 0; i < HIDDEN; i++)
        check_and_free((struct object *)~(uintptr_t)hidden[i], stamp(0, i, 0));
    CHECK_EQ(wrong, 0);
}

static void *fill_and_free(void *number)
{
    static struct object *made[THREADS][SLOTS * 4];
    uintptr_t self = (uintptr_t)number;
    for (uintptr_t slot = 0; slot < SLOTS * 4; slot++)
        made[self][slot] = make(stamp(self, slot, 0), 0);
    for (uintptr_t slot = 0; slot < SLOTS * 4; slot++)
        check_and_free(made[self][slot], stamp(self, slot, 0));
    return NULL;
}

/* What ended threads have freed is used again, also after a collection. */
static void ended_threads_leave_their_cells(void)
{
    size_t early = 0;
    GC_INIT();
    GC_allow_register_threads();
    for (int round = 0; round < 60; round++) {
        run_threads(fill_and_free);
        GC_gcollect();
        if (round == 9)
            early = GC_get_heap_size() - GC_get_free_bytes();
    }
    CHECK_EQ(wrong, 0);
    CHECK_LE(GC_get_heap_size() - GC_get_free_bytes(), early + (2 << 20));
}

/* ---- closures ---- */

enum { DYING = 5000 };

struct count {
    volatile int calls, live;
};

static struct count counts[THREADS][DYING];

static void GC_CALLBACK on_death(void *object, void *data)
{
    (void)data;
    struct count *count = *(struct count **)object;
    if (count->live)
        wrong = 4;
    __atomic_fetch_add(&count->calls, 1, __ATOMIC_RELAXED);
}

static void *let_die(void *number)
{
    static const struct GC_finalizer_closure closure = { on_death, NULL };
    uintptr_t self = (uintptr_t)number;
    /* Each eighth lives until the end of the thread. */
    struct count ***kept = GC_malloc(DYING / 8 * sizeof *kept);
    for (int i = 0; i < DYING; i++) {
        struct count **object = GC_finalized_malloc(sizeof(void *) * WORDS, &closure);
        for (int word = 0; word < WORDS; word++)
            if (object[word] != NULL)
                wrong = 5;
        counts[self][i].live = i % 8 == 0;
        object[0] = &counts[self][i];
        /* Not itself: what dead objects refer to is kept for their closures. */
        object[1] = object[WORDS - 1] = (void *)&counts[self][i];
        if (i % 8 == 0)
            kept[i / 8] = object;
        if (i % 1000 == 999)
            GC_gcollect();
    }
    pthread_barrier_wait(&together);
    GC_gcollect();
    for (int i = 0; i < DYING; i += 8) {
        if (kept[i / 8][0] != &counts[self][i] || kept[i / 8][1] != (void *)&counts[self][i])
            wrong = 6;
        counts[self][i].live = 0;
    }
    return NULL;
}

static void each_closure_is_called_once(void)
{
    int most = 0, none = 0;
    GC_INIT();
    GC_allow_register_threads();
    GC_init_finalized_malloc();
    run_threads(let_die);
    CHECK_EQ(wrong, 0);
    for (int i = 0; i < 4; i++) {
        churn(4 << 20, 64);
        GC_gcollect();
    }
    for (int i = 0; i < THREADS * DYING; i++) {
        int calls = counts[i / DYING][i % DYING].calls;
        most = calls > most ? calls : most;
        none += calls == 0;
    }
    CHECK_EQ(wrong, 0);
    CHECK_EQ(most, 1);
    CHECK_LE(none, THREADS * DYING / 50);
}

/* Closures of what is dead in the block that a thread takes cells from are
 * called by the collection that finds it dead, as all others are. */
static void closures_do_not_wait_for_a_block_to_fill(void)
{
    GC_INIT();
    GC_init_finalized_malloc();
    static const struct GC_finalizer_closure closure = { on_death, NULL };
    for (int i = 0; i < 40; i++) {
        struct count **object = GC_finalized_malloc(sizeof(void *) * WORDS, &closure);
        object[0] = &counts[0][i];
        object = NULL;
    }
    scrub();
    GC_gcollect();
    GC_gcollect();
    int called = 0;
    for (int i = 0; i < 40; i++)
        called += counts[0][i].calls;
    CHECK_GE(called, 30);
}

MAIN_BEGIN
    RUN(uncollectable_objects_are_passed_between_threads);
    RUN_GLEANER(objects_of_a_living_thread_count);
    RUN_GLEANER(each_size_is_counted_and_taken_off);
    RUN_GLEANER(the_variable_follows_what_is_freed);
    RUN(objects_with_a_disclaim_procedure_do_not_count);
    RUN(what_is_not_freed_stays);
    RUN(ended_threads_leave_their_cells);
    RUN(each_closure_is_called_once);
    RUN(closures_do_not_wait_for_a_block_to_fill);
MAIN_END
