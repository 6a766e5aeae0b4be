/* Objects with finalizers in a table, replaced at random; those that are ready are
 * taken, and some of them are kept once more. For libgc alone.
 *
 * What one mutator finds ready is handed to its callback one by one; the callback
 * knows the mutator by a variable of the thread. */
#include <stdatomic.h>
#include <stdbool.h>

#include "numbers.h"

enum {
    /* After how many steps a mutator looks for what is ready. */
    BETWEEN = 1000,
    /* How many of the objects that are handed out are kept, the latest ones. */
    KEPT = 1000,
    /* One in this many is kept. */
    KEEP_ONE_IN = 8,
    /* A conservative collector may take something for a reference that is none:
     * after how many more collections it is at fault. */
    MOST_COLLECTIONS = 10,
};

struct resource {
    /* Its number, scattered. */
    uint64_t *content;
    uint64_t number;
};

/* What all mutators know of the objects that were handed out. */
struct taken {
    /* A bit for each object. */
    _Atomic uint64_t *seen;
    /* Numbers scattered and added. */
    _Atomic uint64_t sum;
    _Atomic uint64_t count;
};

struct work {
    uint32_t length, steps;
    struct resource ***tables;
    struct taken taken;
};

/* Where this thread keeps objects; NULL while it keeps none. */
static __thread struct resource **kept;

static bool was_taken(struct taken *taken, uint64_t number)
{
    return atomic_load_explicit(&taken->seen[number / 64], memory_order_relaxed) >> number % 64 & 1;
}

static void on_ready(void *object, void *data)
{
    struct resource *resource = object;
    struct taken *taken = data;
    uint64_t number = resource->number, bit = (uint64_t)1 << number % 64, before;

    require(*resource->content == scattered(number), "an object that is handed out is whole");
    before = atomic_fetch_or_explicit(&taken->seen[number / 64], bit, memory_order_relaxed);
    require((before & bit) == 0, "an object is handed out once");
    before = atomic_fetch_add_explicit(&taken->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&taken->sum, scattered(number), memory_order_relaxed);
    if (kept != NULL && number % KEEP_ONE_IN == 0)
        kept[before % KEPT] = resource;
}

/* An object with a finalizer. */
static struct resource *new_resource(struct taken *taken, uint64_t number)
{
    uint64_t *content = memory_numbers(sizeof *content);
    struct resource *resource;

    *content = scattered(number);
    resource = memory_object(sizeof *resource);
    *resource = (struct resource){ .content = content, .number = number };
    GC_REGISTER_FINALIZER_NO_ORDER(resource, on_ready, taken, NULL, NULL);
    return resource;
}

/* What one mutator does. */
static uint64_t replace(void *context, unsigned number)
{
    struct work *work = context;
    struct random random = { 5000 + number };
    uint32_t steps = work->length + work->steps;
    struct resource **table = (void *)memory_references(work->length);
    struct resource **keeping = (void *)memory_references(KEPT);

    work->tables[number] = table;
    kept = keeping;
    for (uint32_t step = 0; step < steps; step++) {
        uint32_t index = step < work->length ? step : below(&random, work->length);

        table[index] = new_resource(&work->taken, (uint64_t)number * steps + step);
        if (step % BETWEEN == 0)
            GC_invoke_finalizers();
    }
    kept = NULL;
    /* The collector does not know variables of a thread. */
    observe(keeping);
    return 0;
}

/* Collects everything, and takes all that is ready; once more only where objects
 * are missing from those that have to be handed out. What is left on the stack may
 * look like a reference to one. The collector leaves the address of the block that
 * the thread allocates from, which is another one after a block of objects. */
static void take_all(struct taken *taken, uint64_t expected)
{
    enum { BLOCK = 4096 };

    GC_gcollect();
    GC_invoke_finalizers();
    for (int more = 0; taken->count < expected && more < MOST_COLLECTIONS; more++) {
        for (size_t i = 0; i < BLOCK / sizeof(struct resource); i++)
            observe(memory_object(sizeof(struct resource)));
        GC_gcollect();
        GC_invoke_finalizers();
    }
}

/* None of the objects in the tables was handed out. */
static void check_tables(struct work *work, unsigned mutators)
{
    for (unsigned i = 0; i < mutators; i++)
        for (uint32_t j = 0; j < work->length; j++)
            require(!was_taken(&work->taken, work->tables[i][j]->number),
                    "an object in the table was not handed out");
}

uint64_t finalizers(const struct chosen *chosen)
{
    struct work work = {
        .length = chosen->tiny ? 1000 : 100000,
        .steps = chosen->tiny ? 30000 : 3000000,
        .tables = (void *)memory_references(chosen->mutators),
    };
    uint64_t live = (uint64_t)chosen->mutators * work.length;
    uint64_t objects = live + (uint64_t)chosen->mutators * work.steps, sum;

    GC_set_finalize_on_demand(1);
    work.taken.seen = allocated(calloc((objects + 63) / 64, sizeof *work.taken.seen));
    run_mutators(chosen->mutators, replace, &work);
    take_all(&work.taken, objects - live);
    check_tables(&work, chosen->mutators);
    require(work.taken.count + live == objects, "all others were handed out");
    sum = work.taken.sum;
    work.tables = NULL;
    observe(&work);
    take_all(&work.taken, objects);
    require(work.taken.count == objects, "without the tables, the rest is handed out");
    free((void *)work.taken.seen);
    return sum;
}
