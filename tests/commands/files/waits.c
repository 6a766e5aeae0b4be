/* Builds a tree of four million nodes, drops it and waits; with an argument a second thread waits, too. docs/idle.md runs it. */
#define GC_THREADS
#include <gc/gc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct node { struct node *children[4]; };
static struct node *tree;

static struct node *make(int depth)
{
    struct node *node = GC_MALLOC(sizeof *node);
    for (int i = 0; i < 2 && depth > 0; i++)
        node->children[i] = make(depth - 1);
    return node;
}

static __attribute__((noinline)) void build(int depth)
{
    tree = make(depth);
}

static void *reads(void *pipe)
{
    char c;
    return read(*(int *)pipe, &c, 1) == 1 ? pipe : NULL;
}

static void show(const char *when)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1)
        exit(1);
    fclose(file);
    printf("%-16s %4ld MB\n", when, pages >> 8);
}

int main(int argc, char **argv)
{
    int ends[2];
    pthread_t thread;
    GC_INIT();
    if (argc > 1 && (pipe(ends) != 0 || pthread_create(&thread, NULL, reads, ends) != 0))
        return 1;
    build(21);
    show("built");
    tree = NULL;
    for (int i = 0; i < 4; i++) {
        for (unsigned left = 1; left > 0;)
            left = sleep(left);
        show("a second later");
    }
    return 0;
}
