/* How long the machine code of an allocation is, and how long it takes to
   compile, by who zeroes (OOPSLA 2011, section 5.3). Nothing here is run.

       gcc -std=gnu11 -O2 -DWHO -Icrates/capi/include -c tests/capi/allocation_sites.c
       nm --print-size --radix=d allocation_sites.o

   WHO is one of

       ALLOCATION  each allocation zeroes its object: hot-path zeroing
       BEFORE      the memory was zeroed before, as in every other design
       EITHER      allocation asks, as all code here does: one binary serves
                   all designs

   Each function allocates an object of as many bytes as its name has, or an
   array; `sites` does so 625 times, for the time that the compiler takes. Slow
   paths are called, and are no part of the size. */

#include <gleaner.h>

#ifdef BEFORE
#define ALLOCATE gleaner_allocate_initialized
#define ALLOCATE_ARRAY gleaner_allocate_array_initialized
#else
#define ALLOCATE gleaner_allocate
#define ALLOCATE_ARRAY gleaner_allocate_array
#endif

#ifdef ALLOCATION
/* The compiler knows the answer, and drops the question. */
#define KNOWN(mutator)                                                         \
    if ((mutator)->zeroes == 0)                                                \
    __builtin_unreachable()
#else
#define KNOWN(mutator) ((void)0)
#endif

#define OBJECT(bytes)                                                          \
    void *object_##bytes(gleaner_mutator *mutator, gleaner_type type)          \
    {                                                                          \
        KNOWN(mutator);                                                        \
        return ALLOCATE(mutator, type, bytes);                                 \
    }

OBJECT(16)
OBJECT(32)
OBJECT(48)
OBJECT(96)
OBJECT(256)

/* The array of the paper's microbenchmarks. */
void *array_of_eight(gleaner_mutator *mutator, gleaner_type type)
{
    KNOWN(mutator);
    return ALLOCATE_ARRAY(mutator, type, 8, 4);
}

void *array(gleaner_mutator *mutator, gleaner_type type, uint32_t length)
{
    KNOWN(mutator);
    return ALLOCATE_ARRAY(mutator, type, length, 4);
}

#define SITE                                                                   \
    if ((*objects++ = ALLOCATE(mutator, type, 48)) == 0)                       \
        return;
#define FIVE(times) times times times times times

__attribute__((flatten)) void sites(gleaner_mutator *mutator,
                                    gleaner_type type, void **objects)
{
    KNOWN(mutator);
    FIVE(FIVE(FIVE(FIVE(SITE))))
}
