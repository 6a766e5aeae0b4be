/* The traced process: thread A performs the operations, thread B collects.
 *
 * A cell that a collection took back wrongly does no harm until somebody gets
 * it. So B allocates after each collection, from the size class that the
 * operation works on, more objects than there are free cells, writes to them
 * and checks them before it lets them go. The next collection comes only then:
 * an object that was lost at one instruction and is found again at the next
 * has been overwritten in between. */
#include "shared.h"

#include <linux/futex.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define MOST_CHURN 1024

struct shared *shared;
static const char *only_operation;

void wrong(const char *format, ...)
{
    char line[512];
    va_list args;
    if (atomic_fetch_add(&shared->failures, 1) >= 8 || atomic_load(&shared->expected))
        return;
    int n = snprintf(line, sizeof line, "# %s: ", operations[shared->operation].name);
    va_start(args, format);
    n += vsnprintf(line + n, sizeof line - 1 - (size_t)n, format, args);
    va_end(args);
    if (n > (int)sizeof line - 2)
        n = (int)sizeof line - 2;
    line[n++] = '\n';
    if (write(1, line, (size_t)n) < 0)
        abort();
}

static void futex_sleep(atomic_uint *word, unsigned while_it_is)
{
    syscall(SYS_futex, word, FUTEX_WAIT, while_it_is, NULL, NULL, 0);
}

/* Takes free cells, uses them, and lets them go. */
static __attribute__((noinline)) void churn(unsigned order)
{
    uint64_t *objects[MOST_CHURN];
    unsigned count = shared->churn_count, words = shared->churn_bytes / 8;
    int kind = (int)shared->churn_kind;
    for (unsigned i = 0; i < count; i++) {
        uint64_t *object = kind == 0 ? GC_malloc_atomic(shared->churn_bytes) : GC_malloc(shared->churn_bytes);
        if (object == NULL) {
            wrong("B got no memory");
            return;
        }
        for (unsigned w = 0; kind != 0 && w < words; w++)
            if (object[w] != 0) {
                wrong("B got object %p with %lx in word %u after collection %u", (void *)object, (unsigned long)object[w], w, order);
                break;
            }
        /* Odd numbers, so that nothing here looks like a pointer. */
        for (unsigned w = 0; w < words; w++)
            object[w] = (uint64_t)i << 32 | 0xb1;
        objects[i] = object;
    }
    for (unsigned i = 0; i < count; i++) {
        for (unsigned w = 0; w < words; w++)
            if (objects[i][w] != ((uint64_t)i << 32 | 0xb1)) {
                wrong("object %p of B was overwritten: %lx in word %u after collection %u", (void *)objects[i],
                      (unsigned long)objects[i][w], w, order);
                break;
            }
        /* What was written stays: if the cell is on a list of A as well, its link is spoilt. */
    }
    memset(objects, 0, sizeof objects);
    __asm__ volatile("" : : "r"(objects) : "memory");
}

static void serve_orders(void)
{
    while (!atomic_load(&shared->finished)) {
        unsigned order = atomic_load(&shared->order);
        if (order == atomic_load(&shared->done)) {
            futex_sleep(&shared->order, order);
            continue;
        }
        atomic_store(&shared->taken, order);
        GC_word before = GC_get_gc_no();
        GC_gcollect();
        if (GC_get_gc_no() == before)
            wrong("GC_gcollect did not collect");
        churn(order);
        atomic_store(&shared->done, order);
    }
}

/* One operation, stepped from the trap until `window` is cleared. */
static __attribute__((noinline)) void step_through(void (*run)(void))
{
    atomic_store(&shared->window, 1);
    __asm__ volatile("int3" : : : "memory");
    run();
    atomic_store(&shared->window, 0);
    /* The tracer looks at each stop: this one may be the last it needs. */
    __asm__ volatile("nop" : : : "memory");
}

static void *perform(void *unused)
{
    (void)unused;
    atomic_store(&shared->tid_a, (int)syscall(SYS_gettid));
    while (!atomic_load(&shared->attached))
        futex_sleep(&shared->attached, 0);
    for (unsigned i = 0; i < operation_count; i++) {
        const struct operation *operation = &operations[i];
        if (only_operation != NULL && strcmp(only_operation, operation->name) != 0)
            continue;
        shared->operation = i;
        atomic_store(&shared->failures, 0);
        atomic_store(&shared->expected, (operation->flags & LOSES) != 0);
        shared->churn_bytes = operation->bytes;
        shared->churn_kind = operation->kind;
        shared->churn_count = operation->count;
        if (operation->prepare != NULL)
            operation->prepare();
        step_through(operation->run);
        operation->check();
        forget_held();
        shared->ended++;
        /* Tells the tracer that the check is over. */
        __asm__ volatile("int3" : : : "memory");
    }
    atomic_store(&shared->finished, 1);
    atomic_fetch_add(&shared->order, 1); /* B looks at `finished` before it takes an order */
    syscall(SYS_futex, &shared->order, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return NULL;
}

_Noreturn void act(const char *only)
{
    pthread_t a;
    only_operation = only;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    GC_INIT();
    GC_allow_register_threads();
    shared->suspend_signal = GC_get_suspend_signal();
    if (GC_pthread_create(&a, NULL, perform, NULL) != 0)
        _exit(3);
    serve_orders();
    GC_pthread_join(a, NULL);
    _exit(0);
}
