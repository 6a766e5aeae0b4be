/*
 * Whether the environment counts. Prints one word for each of two heaps: the
 * first may look at GLEANER_OPTIONS, the second is told not to. Before that,
 * whether the loader distrusts the environment.
 */
#include <gleaner.h>

#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

static void make(bool ignore)
{
    struct gleaner_options options;
    char message[200] = "";
    gleaner_heap *heap;

    memset(&options, 0, sizeof options);
    options.limit = 1 << 20;
    options.workers = 1;
    options.ignore_environment = ignore;
    heap = gleaner_heap_new(&options, message, sizeof message);
    if (heap != NULL)
        printf(" ignored");
    else if (strstr(message, "in GLEANER_OPTIONS: ") == message)
        printf(" obeyed");
    else
        printf(" %s", message);
    if (heap != NULL)
        gleaner_heap_free(heap);
}

int main(void)
{
    printf(getauxval(AT_SECURE) != 0 ? "distrusted:" : "trusted:");
    make(false);
    make(true);
    puts("");
    return 0;
}
