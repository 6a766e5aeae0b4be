/* Code on stacks that the program made: what tests of it share. */
#ifndef STACKS_H
#define STACKS_H
#include "harness.h"
#include <gc/gc_mark.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 1 << 20, CELLS = 1000 };
static ucontext_t main_context, context;
static char *stack;
static void *handle;
static struct GC_stack_base bottom, own_bottom;
static GC_push_other_roots_proc next_push;
static volatile int tells;

static UNUSED void start(void)
{
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    handle = GC_get_my_stackbottom(&own_bottom);
    stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(stack != MAP_FAILED);
    bottom.mem_base = stack + STACK;
}

static UNUSED void run_on_stack(void (*body)(void))
{
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = STACK;
    context.uc_link = &main_context;
    makecontext(&context, body, 0);
    swapcontext(&main_context, &context);
}

static NOINLINE UNUSED void **make_list(int cells)
{
    void **list = NULL;
    for (int i = 0; i < cells; i++) {
        void **cell = (void **)GC_malloc(32);
        cell[0] = list;
        cell[1] = (void *)(uintptr_t)(i * 2 + 1);
        list = cell;
    }
    return list;
}

static NOINLINE UNUSED int is_whole(void **list, int cells)
{
    for (int i = cells - 1; i >= 0; i--) {
        if (list == NULL || list[1] != (void *)(uintptr_t)(i * 2 + 1))
            return 0;
        list = (void **)list[0];
    }
    return list == NULL;
}

/* As Crystal with several threads does it. */
static UNUSED void tell_and_push(void)
{
    tells++;
    GC_set_stackbottom(handle, &bottom);
    next_push();
}

#endif
