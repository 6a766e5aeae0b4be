/* The operations that are single-stepped, and what must hold after each.
 *
 * Between two instructions of `run` there is a collection and B uses up the
 * free cells. So each object that `run` holds must afterwards be intact, and
 * none may have been handed out twice. */
#include "shared.h"

#include <gc/gc_inline.h>

#define MANY 512
#define INLINE static inline __attribute__((always_inline))

/* Objects that the present operation holds: roots. */
static struct {
    void *object;
    size_t bytes;
    int clear; /* must read as zero until it is written to */
} held[MANY];
static unsigned held_count;

INLINE void hold(void *object, size_t bytes, int clear)
{
    held[held_count].object = object;
    held[held_count].bytes = bytes;
    held[held_count++].clear = clear;
}

void forget_held(void)
{
    memset(held, 0, sizeof held);
    held_count = 0;
}

/* ---- what must hold ---------------------------------------------------- */

static void fill(unsigned char *object, size_t bytes, unsigned with)
{
    for (size_t i = 0; i < bytes; i++)
        object[i] = (unsigned char)(with * 7 + i * 2 + 1);
}

static int is_filled(const unsigned char *object, size_t bytes, unsigned with)
{
    for (size_t i = 0; i < bytes; i++)
        if (object[i] != (unsigned char)(with * 7 + i * 2 + 1))
            return 0;
    return 1;
}

static void check_filled(const char *when)
{
    for (unsigned i = 0; i < held_count; i++)
        if (!is_filled(held[i].object, held[i].bytes, i))
            wrong("object %u at %p was overwritten %s", i, held[i].object, when);
}

static void fill_held(void)
{
    for (unsigned i = 0; i < held_count; i++)
        fill(held[i].object, held[i].bytes, i);
}

/* Each held object is an object, zero if it must be, and no two overlap. */
static void check_fresh(void)
{
    for (unsigned i = 0; i < held_count; i++) {
        const unsigned char *object = held[i].object;
        if (object == NULL) {
            wrong("object %u is null", i);
            _exit(4);
        }
        if (GC_base((void *)object) != object || GC_size(object) < held[i].bytes)
            wrong("object %u at %p is not an object of %lu bytes", i, (void *)object, (unsigned long)held[i].bytes);
        for (size_t b = 0; held[i].clear && b < held[i].bytes; b++)
            if (object[b] != 0) {
                wrong("object %u at %p holds %02x at byte %lu", i, (void *)object, object[b], (unsigned long)b);
                break;
            }
        for (unsigned j = 0; j < i; j++)
            if (held[j].object == object)
                wrong("objects %u and %u are the same: %p", j, i, (void *)object);
    }
}

/* Allocates from the lists that the operation left behind, more than they can
 * hold: gets no cell twice and none that is held. */
static __attribute__((noinline)) void drain(void)
{
    const struct operation *operation = &operations[shared->operation];
    enum { MOST = 3000 };
    static void *drained[MOST];
    unsigned count = operation->bytes > 256 ? 400 : MOST;
    for (unsigned i = 0; i < count; i++) {
        uint64_t *object = operation->kind == 0 ? GC_malloc_atomic(operation->bytes) : GC_malloc(operation->bytes);
        for (unsigned w = 0; operation->kind != 0 && w < operation->bytes / 8; w++)
            if (object[w] != 0) {
                wrong("drained object %p holds %lx in word %u", (void *)object, (unsigned long)object[w], w);
                break;
            }
        object[0] = (uint64_t)i << 32 | 0xd1;
        object[1] = 0xd3;
        drained[i] = object;
    }
    for (unsigned i = 0; i < count; i++)
        if (*(uint64_t *)drained[i] != ((uint64_t)i << 32 | 0xd1))
            wrong("drained object %p was handed out twice", drained[i]);
    memset(drained, 0, sizeof drained);
}

/* The objects that `run` left filled stay so. */
static void check_kept(void)
{
    check_filled("while it was stepped");
    drain();
    check_filled("when the lists were used up");
    GC_gcollect();
    drain();
    check_filled("after a collection");
}

/* The objects that `run` did not write to. */
static void check_allocated(void)
{
    check_fresh();
    fill_held();
    check_kept();
}

/* ---- what is there before ---------------------------------------------- */

/* Lists with cells on them, in classes of each size that the operations use. */
static __attribute__((noinline)) void warm(void)
{
    static const size_t sizes[] = {1, 8, 16, 24, 32, 40, 48, 64, 100, 128, 200, 240, 500};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (unsigned n = 0; n < 2; n++) {
            *(volatile char *)GC_malloc(sizes[i]) = 1;
            *(volatile char *)GC_malloc_atomic(sizes[i]) = 1;
        }
}

/* Holds every eighth of many objects: blocks with few live cells, which the
 * allocator sweeps and fills again. */
static __attribute__((noinline)) void scatter(size_t bytes, int kind, unsigned keep)
{
    for (unsigned i = 0; i < keep * 8; i++) {
        void *object = GC_malloc_kind(bytes, kind);
        memset(object, 0, bytes);
        if (i % 8 == 0)
            hold(object, bytes, 0);
    }
}

/* ---- lists that are not empty ------------------------------------------ */

static void run_malloc(void)
{
    for (unsigned i = 0; i < 3; i++)
        hold(GC_malloc(48), 48, 1);
}

static void run_malloc_atomic(void)
{
    for (unsigned i = 0; i < 3; i++)
        hold(GC_malloc_atomic(48), 48, 0);
}

static void run_malloc_kind(void)
{
    hold(GC_malloc_kind(48, GC_I_NORMAL), 48, 1);
    hold(GC_malloc_kind(48, GC_I_PTRFREE), 48, 0);
    hold(GC_malloc_kind(48, GC_I_NORMAL), 48, 1);
}

static void run_malloc_sizes(void)
{
    static const size_t sizes[] = {1, 16, 24, 32, 64, 100, 200, 500};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        hold(GC_malloc(sizes[i]), sizes[i], 1);
}

/* The object is written to at once, as programs do. */
static void run_malloc_write(void)
{
    for (unsigned i = 0; i < 3; i++) {
        unsigned char *object = GC_malloc(16);
        fill(object, 16, held_count);
        hold(object, 16, 0);
    }
}

/* ---- lists that become empty ------------------------------------------- */

/* More than a block holds, so that the slow path runs and takes another. */
static void run_refill(void)
{
    for (unsigned i = 0; i < 12; i++)
        hold(GC_malloc(1000), 1000, 1);
}

static void run_refill_atomic(void)
{
    for (unsigned i = 0; i < 12; i++)
        hold(GC_malloc_atomic(1000), 1000, 0);
}

static void scatter_refill(void)
{
    scatter(400, GC_I_NORMAL, 24);
    fill_held();
    GC_gcollect();
}

/* From blocks with live objects in them. */
static void run_refill_swept(void)
{
    for (unsigned i = 0; i < 24; i++) {
        unsigned char *object = GC_malloc(400);
        fill(object, 16, held_count);
        fill(object + 384, 16, held_count);
        hold(object, 16, 0);
    }
}

static void run_malloc_many(void)
{
    for (unsigned round = 0; round < 2; round++)
        for (void **cell = GC_malloc_many(240), **next; cell != NULL; cell = next) {
            next = cell[0];
            cell[0] = NULL;
            hold(cell, 240, 1);
        }
}

static void run_large(void)
{
    hold(GC_malloc(9000), 9000, 1);
    hold(GC_malloc_atomic(9000), 9000, 0);
}

static void run_uncollectable(void)
{
    void *object = GC_malloc_uncollectable(48);
    GC_free(GC_malloc_uncollectable(48));
    hold(object, 48, 1);
    hold(GC_malloc_uncollectable(48), 48, 1);
}

static void check_uncollectable(void)
{
    check_allocated();
    for (unsigned i = 0; i < held_count; i++)
        GC_free(held[i].object);
}

/* ---- explicit frees ---------------------------------------------------- */

static void *given[32];

/* Objects of blocks that the thread's list does not own any more. */
static __attribute__((noinline)) void prepare_given(int kind, size_t bytes)
{
    warm();
    scatter(bytes, kind, 64);
    fill_held();
    for (unsigned i = 0; i < 32; i++) {
        given[i] = held[i * 2 + 1].object;
        held[i * 2 + 1].object = NULL;
    }
    unsigned kept = 0;
    for (unsigned i = 0; i < held_count; i++)
        if (held[i].object != NULL) {
            held[kept] = held[i];
            fill(held[kept].object, bytes, kept);
            kept++;
        }
    memset(held + kept, 0, sizeof held[0] * (held_count - kept));
    held_count = kept;
    GC_gcollect();
    *(volatile char *)GC_malloc_kind(bytes, kind) = 1; /* The list has a block of its own. */
}

static void prepare_free(void)
{
    prepare_given(GC_I_NORMAL, 64);
}

static void prepare_free_atomic(void)
{
    prepare_given(GC_I_PTRFREE, 64);
}

INLINE void give(unsigned i)
{
    void *object = given[i];
    given[i] = NULL;
    GC_free(object);
}

/* Frees one and allocates it again. */
static void run_free_malloc(void)
{
    for (unsigned i = 0; i < 6; i++) {
        give(i);
        unsigned char *object = GC_malloc(64);
        for (unsigned w = 0; w < 8; w++)
            if (((uint64_t *)object)[w] != 0)
                wrong("the object that was freed before holds %lx in word %u", (unsigned long)((uint64_t *)object)[w], w);
        fill(object, 64, held_count);
        hold(object, 64, 0);
    }
}

static void run_free_malloc_atomic(void)
{
    for (unsigned i = 0; i < 6; i++) {
        give(i);
        unsigned char *object = GC_malloc_atomic(64);
        fill(object, 64, held_count);
        hold(object, 64, 0);
    }
}

/* Frees several, then takes them all back. If a pause finds only a part of the
 * list, the rest is lost. Atomic cells show it best: a cell that is still in a
 * register keeps nothing else alive. */
INLINE void free_several(int kind)
{
    for (unsigned i = 0; i < 8; i++)
        give(i);
    for (unsigned i = 0; i < 12; i++) {
        unsigned char *object = kind == GC_I_NORMAL ? GC_malloc(64) : GC_malloc_atomic(64);
        fill(object, 16, held_count);
        hold(object, 16, 0);
    }
}

static void run_free_several(void)
{
    free_several(GC_I_NORMAL);
}

static void run_free_several_atomic(void)
{
    free_several(GC_I_PTRFREE);
}

/* The same through GC_malloc_kind. */
static void run_free_kind(void)
{
    for (unsigned i = 0; i < 4; i++)
        give(i);
    for (unsigned i = 0; i < 6; i++) {
        unsigned char *object = GC_malloc_kind(64, GC_I_PTRFREE);
        fill(object, 16, held_count);
        hold(object, 16, 0);
    }
}

static void check_given(void)
{
    memset(given, 0, sizeof given);
    for (unsigned i = 0; i < held_count; i++)
        held[i].clear = 0;
    check_fresh();
    check_kept();
}

/* Objects of blocks that may be swept, known to registers and the stack alone
 * while others are allocated. */
static void run_registers(void)
{
    void *a = given[0], *b = given[1], *c = given[2], *d = given[3], *e = given[4];
    memset(given, 0, sizeof given[0] * 5);
    fill(a, 16, held_count);
    fill(b, 16, held_count + 1);
    fill(c, 16, held_count + 2);
    fill(d, 16, held_count + 3);
    fill(e, 16, held_count + 4);
    unsigned char *f = GC_malloc(64), *g = GC_malloc_atomic(64);
    fill(f, 16, held_count + 5);
    fill(g, 16, held_count + 6);
    GC_free(GC_malloc(64));
    hold(a, 16, 0);
    hold(b, 16, 0);
    hold(c, 16, 0);
    hold(d, 16, 0);
    hold(e, 16, 0);
    hold(f, 16, 0);
    hold(g, 16, 0);
}

/* ---- longer functions --------------------------------------------------- */

static void run_strdup(void)
{
    for (unsigned i = 0; i < 3; i++)
        hold(GC_strdup("seventeen letters and more"), 27, 0);
}

static void check_strdup(void)
{
    for (unsigned i = 0; i < held_count; i++)
        if (strcmp(held[i].object, "seventeen letters and more") != 0)
            wrong("string %u is \"%.30s\"", i, (char *)held[i].object);
    check_fresh();
    fill_held();
    check_kept();
}

static void run_realloc(void)
{
    uint64_t *object = GC_malloc(40);
    for (unsigned w = 0; w < 5; w++)
        object[w] = w * 2 + 1;
    object = GC_realloc(object, 100);
    for (unsigned w = 5; w < 12; w++)
        object[w] = w * 2 + 1;
    hold(GC_realloc(object, 240), 240, 0);
}

static void check_realloc(void)
{
    const uint64_t *object = held[0].object;
    for (unsigned w = 0; w < 30; w++)
        if (object[w] != (w < 12 ? w * 2 + 1 : 0))
            wrong("word %u of the grown object is %lx", w, (unsigned long)object[w]);
    held[0].clear = 0;
    check_allocated();
}

struct cons {
    struct cons *rest;
    uint64_t value;
};
static struct cons *list;

/* Only the newest cell is in a register; the others hang on it. */
static void run_cons(void)
{
    struct cons *newest = NULL;
    for (unsigned i = 0; i < 40; i++) {
        struct cons *cell = GC_malloc(sizeof *cell);
        cell->value = i * 2 + 1;
        cell->rest = newest;
        newest = cell;
    }
    list = newest;
}

static void check_list(const char *when)
{
    const struct cons *cell = list;
    for (unsigned i = 40; i-- > 0; cell = cell->rest)
        if (cell == NULL || cell->value != i * 2 + 1) {
            wrong("cell %u of the list is lost %s", i, when);
            return;
        }
    if (cell != NULL)
        wrong("the list has no end %s", when);
}

static void check_cons(void)
{
    check_list("while it was stepped");
    drain();
    check_list("when the lists were used up");
    GC_gcollect();
    drain();
    check_list("after a collection");
    list = NULL;
}

/* ---- blocking regions --------------------------------------------------- */

static volatile unsigned counter;

static void *count(void *unused)
{
    for (unsigned i = 0; i < 4; i++)
        counter++;
    return unused;
}

/* Objects of blocks that may be swept, which registers and the stack alone
 * know while B collects. `holds` objects are held before these are. */
#define TAKE_GIVEN(first, holds)                                              \
    unsigned char *object0 = given[first], *object1 = given[first + 1], *object2 = given[first + 2]; \
    given[first] = given[first + 1] = given[first + 2] = NULL;                \
    fill(object0, 16, held_count + (holds));                                  \
    fill(object1, 16, held_count + (holds) + 1);                              \
    fill(object2, 16, held_count + (holds) + 2)
#define HOLD_TAKEN()                                                          \
    hold(object0, 16, 0);                                                     \
    hold(object1, 16, 0);                                                     \
    hold(object2, 16, 0)

static void run_blocking(void)
{
    TAKE_GIVEN(0, 1);
    GC_do_blocking(count, NULL);
    unsigned char *fresh = GC_malloc(64);
    fill(fresh, 16, held_count);
    GC_do_blocking(count, NULL);
    hold(fresh, 16, 0);
    HOLD_TAKEN();
}

static void *allocate_inside(void *unused)
{
    TAKE_GIVEN(3, 2);
    for (unsigned i = 0; i < 2; i++) {
        unsigned char *object = GC_malloc(64);
        fill(object, 16, held_count);
        hold(object, 16, 0);
    }
    HOLD_TAKEN();
    return unused;
}

static void *allocate_more_inside(void *unused)
{
    hold(GC_malloc(64), 0, 0);
    return unused;
}

static void *go_active(void *unused)
{
    counter++;
    GC_call_with_gc_active(allocate_inside, unused);
    counter++;
    return GC_call_with_gc_active(allocate_more_inside, unused);
}

static void run_active(void)
{
    TAKE_GIVEN(0, 6);
    GC_do_blocking(go_active, NULL);
    HOLD_TAKEN();
}

/* ---- deliberately wrong ------------------------------------------------- */

static void scatter_hidden(void)
{
    scatter(64, GC_I_NORMAL, 32);
    fill_held();
}

/* The only pointer to each object is inverted for one instruction. */
static void run_hidden(void)
{
    for (unsigned i = 0; i < held_count; i++)
        __asm__ volatile("mov (%0), %%rax\n\t"
                         "movq $0, (%0)\n\t"
                         "not %%rax\n\t"
                         "not %%rax\n\t" /* a collection before this one must take the object */
                         "mov %%rax, (%0)\n\t"
                         "xor %%eax, %%eax"
                         :
                         : "r"(&held[i].object)
                         : "rax", "memory");
}

static void check_hidden(void)
{
    for (unsigned i = 0; i < held_count; i++)
        if (!is_filled(held[i].object, held[i].bytes, i))
            wrong("object %u was lost", i);
}

/* The same for longer, and through memory: what a list would do that takes a
 * cell off before anything else holds it. */
static void run_hidden_longer(void)
{
    for (unsigned i = 0; i < held_count; i++) {
        uintptr_t hidden;
        __asm__ volatile("mov (%1), %0\n\t"
                         "not %0\n\t"
                         "movq $0, (%1)\n\t"
                         "nop\n\t"
                         "not %0\n\t"
                         "mov %0, (%1)\n\t"
                         "xor %k0, %k0"
                         : "=&r"(hidden)
                         : "r"(&held[i].object)
                         : "memory");
    }
}

const struct operation operations[] = {
    {"malloc", warm, run_malloc, check_allocated, LOCKLESS, 48, 1, 200},
    {"malloc_atomic", warm, run_malloc_atomic, check_allocated, LOCKLESS, 48, 0, 200},
    {"malloc_kind", warm, run_malloc_kind, check_allocated, LOCKLESS, 48, 1, 200},
    {"malloc_sizes", warm, run_malloc_sizes, check_allocated, LOCKLESS, 64, 1, 200},
    {"malloc_write", warm, run_malloc_write, check_kept, LOCKLESS, 16, 1, 400},
    {"refill", warm, run_refill, check_allocated, REFILLS, 1000, 1, 40},
    {"refill_atomic", warm, run_refill_atomic, check_allocated, REFILLS, 1000, 0, 40},
    {"refill_swept", scatter_refill, run_refill_swept, check_kept, REFILLS, 400, 1, 100},
    {"malloc_many", warm, run_malloc_many, check_allocated, REFILLS, 240, 1, 100},
    {"large", warm, run_large, check_allocated, REFILLS, 48, 1, 100},
    {"uncollectable", warm, run_uncollectable, check_uncollectable, REFILLS, 48, 1, 200},
    {"free_malloc", prepare_free, run_free_malloc, check_given, LOCKLESS, 64, 1, 1000},
    {"free_malloc_atomic", prepare_free_atomic, run_free_malloc_atomic, check_given, LOCKLESS, 64, 0, 1000},
    {"free_several", prepare_free, run_free_several, check_given, LOCKLESS, 64, 1, 1000},
    {"free_several_atomic", prepare_free_atomic, run_free_several_atomic, check_given, LOCKLESS, 64, 0, 1000},
    {"free_kind", prepare_free_atomic, run_free_kind, check_given, LOCKLESS, 64, 0, 1000},
    {"registers", prepare_free, run_registers, check_given, LOCKLESS, 64, 1, 1000},
    {"strdup", warm, run_strdup, check_strdup, LOCKLESS, 32, 0, 200},
    {"realloc", warm, run_realloc, check_realloc, 0, 100, 1, 100},
    {"cons", warm, run_cons, check_cons, LOCKLESS, 16, 1, 400},
    {"blocking", prepare_free, run_blocking, check_given, BLOCKS | REFILLS, 64, 1, 1000},
    {"active", prepare_free, run_active, check_given, BLOCKS | REFILLS, 64, 1, 1000},
    {"hidden_once", scatter_hidden, run_hidden, check_hidden, LOSES, 64, 1, 1000},
    {"hidden_longer", scatter_hidden, run_hidden_longer, check_hidden, LOSES, 64, 1, 1000},
};
const unsigned operation_count = sizeof operations / sizeof operations[0];
