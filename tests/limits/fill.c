/* fill SIZE: objects of SIZE bytes until memory is out, and how many megabytes they were.
 *
 * Then they are dropped: the memory comes back, the program has room for a thread and for malloc. */
#define GC_THREADS 1
#include <gc/gc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static __attribute__((noinline)) size_t fill(size_t size)
{
    void **last = NULL;
    size_t bytes = 0;
    for (;;) {
        void **object = GC_MALLOC(size);
        if (object == NULL)
            return bytes;
        *object = last;
        last = object;
        bytes += size;
    }
}

static void *allocate(void *size)
{
    for (int i = 0; i < 1000; i++)
        if (GC_MALLOC(100) == NULL)
            return NULL;
    return size;
}

int main(int count, char **arguments)
{
    size_t size = count == 2 ? strtoul(arguments[1], NULL, 10) : 0;
    pthread_attr_t small;
    pthread_t thread;
    void *result = NULL;

    if (size < sizeof(void *)) {
        fprintf(stderr, "fill: one size in bytes, please, of a pointer at least\n");
        return 2;
    }
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    size_t bytes = fill(size);
    GC_gcollect();
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    int lives = pthread_create(&thread, &small, allocate, &size) == 0 && pthread_join(thread, &result) == 0
        && result == &size && malloc(1 << 20) != NULL && fill(size) >= bytes / 2;
    printf("%zu %s\n", bytes >> 20, lives ? "lives" : "ends");
    return 0;
}
