/*
 * Preloaded into a program, it makes the program's malloc libgc's, as the
 * Ghostscript of ISMM 2000, section 6, allocates.  Nothing is freed by hand:
 * what the program drops is left to the collector.
 *
 * The collector starts in the first allocation.  What it allocates itself
 * meanwhile, through the C library, stays the C library's.
 */
#include <errno.h>
#include <gc.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);

/* Changed by the first thread, before there is another. */
static enum { COLD, STARTING, READY } collector;

static int is_ready(void)
{
    if (collector == COLD) {
        collector = STARTING;
        GC_INIT();
        collector = READY;
    }
    return collector == READY;
}

void *malloc(size_t bytes)
{
    return is_ready() ? GC_malloc(bytes) : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t each)
{
    size_t bytes;

    if (!is_ready())
        return __libc_calloc(count, each);
    return __builtin_mul_overflow(count, each, &bytes) ? NULL
                                                       : GC_malloc(bytes);
}

void *realloc(void *old, size_t bytes)
{
    if (!is_ready() || (old != NULL && GC_base(old) == NULL))
        return __libc_realloc(old, bytes);
    return GC_realloc(old, bytes);
}

void free(void *block)
{
    (void)block;
}

void *memalign(size_t alignment, size_t bytes)
{
    return is_ready() ? GC_memalign(alignment, bytes)
                      : __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return memalign(alignment, bytes);
}

int posix_memalign(void **place, size_t alignment, size_t bytes)
{
    void *block = memalign(alignment, bytes);

    if (block == NULL)
        return ENOMEM;
    *place = block;
    return 0;
}
