/* Keeps some of what a collection has to look at in its last stop, collects everything twenty times, and says what one took at least.
 * docs/incremental.md runs it: last_stop KIND COUNT. */
#include <gc/gc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 20 };

static const char *kind;
static void **objects, **links;
static long count;

static int is(const char *wanted)
{
    return strcmp(kind, wanted) == 0;
}

static void finalizes(void *object, void *data)
{
    (void)object;
    (void)data;
}

static GC_ToggleRefStatus stays_weak(void *object)
{
    return object != NULL ? GC_TOGGLE_REF_WEAK : GC_TOGGLE_REF_DROP;
}

/* Megabytes of numbers, or of references to two objects. */
static void add_roots(int refers)
{
    long words = (count << 20) / sizeof(void *);
    void **low = malloc(words * sizeof *low);
    objects = GC_MALLOC(2 * sizeof *objects);
    if (low == NULL)
        exit(1);
    for (long i = 0; i < words; i++)
        low[i] = refers ? (void *)&objects[i % 2] : (void *)i;
    GC_add_roots(low, low + words);
}

static void add(void)
{
    objects = GC_MALLOC(count * sizeof *objects);
    links = GC_MALLOC_ATOMIC(count * sizeof *links);
    for (long i = 0; i < count; i++) {
        links[i] = objects[i] = GC_MALLOC(16);
        if (is("short-links"))
            GC_general_register_disappearing_link(&links[i], objects[i]);
        else if (is("long-links"))
            GC_register_long_link(&links[i], objects[i]);
        else if (is("toggle-references"))
            GC_toggleref_add(objects[i], 0);
        else if (is("finalizers") || is("ready"))
            GC_register_finalizer_no_order(objects[i], finalizes, NULL, NULL, NULL);
        else if (is("ordered-finalizers") || is("ordered-ready"))
            GC_register_finalizer(objects[i], finalizes, NULL, NULL, NULL);
        else
            exit(2);
    }
}

static double processor_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    double least = 1e9;
    if (argc != 3)
        return 2;
    kind = argv[1];
    count = atol(argv[2]);
    GC_INIT();
    GC_set_finalize_on_demand(1);
    GC_set_toggleref_func(stays_weak);
    int dies = is("ready") || is("ordered-ready");
    if (is("numbers") || is("references"))
        add_roots(is("references"));
    else if (!dies)
        add();
    for (int round = 0; round < ROUNDS; round++) {
        if (dies) {
            GC_disable();
            add();
            objects = links = NULL;
            GC_enable();
        }
        double began = processor_ms();
        GC_gcollect();
        double took = processor_ms() - began;
        least = took < least ? took : least;
        GC_invoke_finalizers();
    }
    printf("%ld %s: %.1f ms of processor time\n", count, kind, least);
    return 0;
}
