/*
 * gleaner_elements.h: the elements of arrays. A part of gleaner.h, which
 * includes it; nothing else does.
 */
#ifndef GLEANER_ELEMENTS_H
#define GLEANER_ELEMENTS_H
#ifndef GLEANER_H
#error "include gleaner.h"
#endif

/* Arrays of slots and of primitives are read and written by these functions
   alone. A load neither collects nor fails. What stores takes the mutator and is
   like an allocation: it may collect, so references that are needed afterwards
   are in roots (what it is given need not be), and it answers false when the heap
   is full. It does neither yet; arrays whose elements are not in one piece will.

   That an index or a range lies in the array, and that the array has such
   elements, is the caller's promise. With GLEANER_DEBUG defined indexes, ranges
   and the steps of cursors are checked, and a wrong one ends the process with a
   message; the size of elements is not. gleaner_copy_elements and
   gleaner_pinned_elements check always, the size too. */

#ifdef GLEANER_DEBUG
#define GLEANER_IN_ARRAY(array, index, count)                                  \
    ((uint64_t)(index) + (count) <= gleaner_length(array)                      \
         ? (void)0                                                             \
         : gleaner_no_elements(array, index, count))
#define GLEANER_HAS_NEXT(cursor)                                               \
    ((cursor)->index < (cursor)->end ? (void)0                                 \
                                     : gleaner_cursor_ended((cursor)->end))
#else
#define GLEANER_IN_ARRAY(array, index, count) ((void)0)
#define GLEANER_HAS_NEXT(cursor) ((void)0)
#endif
/* Ends the process with a message about a range that an array does not have. */
void gleaner_no_elements(const void *array, uint32_t index, uint32_t count);
/* The same about a cursor that goes on behind its range, which ends at `end`. */
void gleaner_cursor_ended(uint32_t end);

/* For the functions below only. */
#define GLEANER_ELEMENT(array, index, bytes)                                   \
    ((uintptr_t)(array) + 16 + (uintptr_t)(index) * (bytes))

static inline gleaner_value
gleaner_load_element(const gleaner_mutator *mutator, const void *array,
                     uint32_t index)
{
    GLEANER_IN_ARRAY(array, index, 1);
    return gleaner_load(mutator,
                        (void *)GLEANER_ELEMENT(array, index,
                                                mutator->slot_bytes),
                        0);
}

/* Through the write barrier. */
static inline bool gleaner_store_element(gleaner_mutator *mutator, void *array,
                                         uint32_t index, gleaner_value value)
{
    GLEANER_IN_ARRAY(array, index, 1);
    gleaner_store(mutator,
                  (void *)GLEANER_ELEMENT(array, index, mutator->slot_bytes), 0,
                  value);
    return true;
}

/* Writes an element of an array of gleaner_allocate_array_initialized, since
   whose allocation this mutator has done nothing that may collect. This does
   not either, and cannot fail. */
static inline void gleaner_initialize_element(gleaner_mutator *mutator,
                                              void *array, uint32_t index,
                                              gleaner_value value)
{
    GLEANER_IN_ARRAY(array, index, 1);
    gleaner_initialize(mutator,
                       (void *)GLEANER_ELEMENT(array, index,
                                               mutator->slot_bytes),
                       0, value);
}

/* Of a compare-and-swap: it was done; the element is another; the heap is full. */
enum gleaner_swapped {
    GLEANER_SWAPPED,
    GLEANER_NOT_SWAPPED,
    GLEANER_SWAP_FULL
};

/* Writes `value` to an element if it is `*expected`, through the write barrier;
   if it is not, `*expected` becomes what it is. */
static inline enum gleaner_swapped
gleaner_swap_element(gleaner_mutator *mutator, void *array, uint32_t index,
                     gleaner_value *expected, gleaner_value value)
{
    uintptr_t slot = GLEANER_ELEMENT(array, index, mutator->slot_bytes);

    GLEANER_IN_ARRAY(array, index, 1);
    if (mutator->slot_bytes == 8) {
        if (!__atomic_compare_exchange_n((uint64_t *)slot, expected, value,
                                         false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE))
            return GLEANER_NOT_SWAPPED;
    } else {
        uint32_t word = gleaner_narrow(mutator, *expected);

        if (!__atomic_compare_exchange_n(
                (uint32_t *)slot, &word, gleaner_narrow(mutator, value), false,
                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            *expected = gleaner_widen(mutator, word);
            return GLEANER_NOT_SWAPPED;
        }
    }
    *(volatile uint8_t *)(mutator->cards + (slot >> 9)) = 1;
    return GLEANER_SWAPPED;
}

/* Writes `value` to `count` elements from `index` on, through the write
   barrier. */
static inline bool gleaner_fill_elements(gleaner_mutator *mutator, void *array,
                                         uint32_t index, uint32_t count,
                                         gleaner_value value)
{
    uint32_t i;

    GLEANER_IN_ARRAY(array, index, count);
    for (i = 0; i < count; i++)
        gleaner_store(mutator,
                      (void *)GLEANER_ELEMENT(array, index + i,
                                              mutator->slot_bytes),
                      0, value);
    return true;
}

/* Copies `count` elements between two arrays of slots, or two of primitives of
   the same size, or within one: the ranges may overlap. Through the write
   barrier. Other objects, and ranges beyond the end of an array, end the process
   with a message. */
bool gleaner_copy_elements(gleaner_mutator *mutator, const void *from,
                           uint32_t from_index, void *to, uint32_t to_index,
                           uint32_t count);

/* A cursor goes over elements in order. Between gleaner_cursor_begin (or
   _begin_writing, which may collect and answers false when the heap is full) and
   its last use nothing is allocated, stored by another function or polled;
   afterwards another cursor goes on at `index`. A store through a cursor cannot
   fail. */
struct gleaner_cursor {
    uintptr_t next;      /* the collector's */
    uint32_t index, end; /* the next element, and the one that ends the range */
};
static inline void gleaner_cursor_begin(struct gleaner_cursor *cursor,
                                        const gleaner_mutator *mutator,
                                        const void *array, uint32_t index,
                                        uint32_t count, size_t element_bytes)
{
    (void)mutator;
    GLEANER_IN_ARRAY(array, index, count);
    cursor->next = GLEANER_ELEMENT(array, index, element_bytes);
    cursor->index = index;
    cursor->end = index + count;
}
static inline bool gleaner_cursor_begin_writing(struct gleaner_cursor *cursor,
                                                gleaner_mutator *mutator,
                                                void *array, uint32_t index,
                                                uint32_t count,
                                                size_t element_bytes)
{
    gleaner_cursor_begin(cursor, mutator, array, index, count, element_bytes);
    return true;
}
/* Whether there is another element. */
static inline bool gleaner_cursor_more(const struct gleaner_cursor *cursor)
{
    return cursor->index < cursor->end;
}
/* The next element, of an array of slots; the cursor goes on behind it. */
static inline gleaner_value gleaner_cursor_load(struct gleaner_cursor *cursor,
                                                const gleaner_mutator *mutator)
{
    gleaner_value value;

    GLEANER_HAS_NEXT(cursor);
    value = gleaner_load(mutator, (void *)cursor->next, 0);
    cursor->next += mutator->slot_bytes;
    cursor->index++;
    return value;
}
static inline void gleaner_cursor_store(struct gleaner_cursor *cursor,
                                        gleaner_mutator *mutator,
                                        gleaner_value value)
{
    GLEANER_HAS_NEXT(cursor);
    gleaner_store(mutator, (void *)cursor->next, 0, value);
    cursor->next += mutator->slot_bytes;
    cursor->index++;
}

/* A window shows `count` primitives from `index` on as they would lie in C. It
   may be a copy, which gleaner_window_end writes back. Until then nothing is
   allocated, stored by another function or polled, and no blocking region
   begins: where this is noticed, the process ends with a message (polls are
   with GLEANER_DEBUG, others may pass while nobody collects). Begin to write before you begin to read: that may
   collect, and answers NULL when the heap is full. Each window is ended. */
struct gleaner_window {
    void *elements;
};
static inline const void *
gleaner_window_begin(struct gleaner_window *window, gleaner_mutator *mutator,
                     const void *array, uint32_t index, uint32_t count,
                     size_t element_bytes)
{
    GLEANER_IN_ARRAY(array, index, count);
    (void)count;
    window->elements = (void *)GLEANER_ELEMENT(array, index, element_bytes);
    mutator->windows++;
    return window->elements;
}
void gleaner_second_window(gleaner_mutator *mutator);
static inline void *
gleaner_window_begin_writing(struct gleaner_window *window,
                             gleaner_mutator *mutator, void *array,
                             uint32_t index, uint32_t count,
                             size_t element_bytes)
{
    if (mutator->windows != 0)
        gleaner_second_window(mutator);
    gleaner_window_begin(window, mutator, array, index, count, element_bytes);
    return window->elements;
}
static inline void gleaner_window_end(struct gleaner_window *window,
                                      gleaner_mutator *mutator)
{
    window->elements = NULL;
    mutator->windows--;
}

/* Where the primitives of an array lie that never moves: it was pinned, or is
   large. They stay there as long as the array lives. NULL for other objects. */
void *gleaner_pinned_elements(gleaner_mutator *mutator, void *array);

/* Of primitives, for each size: load, store, swap and fill as of slots; read
   copies `count` of them to a buffer, write copies them from one, initialize does
   so in an array as of gleaner_initialize_element, cursor_load and cursor_store
   take the next one of a cursor. Who races for one finds one of the
   values; fill, read and write are not for arrays that others write. */
#define GLEANER_PRIMITIVE(name, type)                                          \
    static inline type gleaner_load_##name(const void *array, uint32_t index)  \
    {                                                                          \
        type number;                                                           \
                                                                               \
        GLEANER_IN_ARRAY(array, index, 1);                                     \
        __atomic_load((type *)GLEANER_ELEMENT(array, index, sizeof(type)),     \
                      &number, __ATOMIC_RELAXED);                              \
        return number;                                                         \
    }                                                                          \
    static inline bool gleaner_store_##name(                                   \
        gleaner_mutator *mutator, void *array, uint32_t index, type number)    \
    {                                                                          \
        (void)mutator;                                                         \
        GLEANER_IN_ARRAY(array, index, 1);                                     \
        __atomic_store((type *)GLEANER_ELEMENT(array, index, sizeof(type)),    \
                       &number, __ATOMIC_RELAXED);                             \
        return true;                                                           \
    }                                                                          \
    static inline enum gleaner_swapped gleaner_swap_##name(                    \
        gleaner_mutator *mutator, void *array, uint32_t index, type *expected, \
        type number)                                                           \
    {                                                                          \
        (void)mutator;                                                         \
        GLEANER_IN_ARRAY(array, index, 1);                                     \
        return __atomic_compare_exchange(                                      \
                   (type *)GLEANER_ELEMENT(array, index, sizeof(type)),        \
                   expected, &number, false, __ATOMIC_ACQ_REL,                 \
                   __ATOMIC_ACQUIRE)                                           \
                   ? GLEANER_SWAPPED                                           \
                   : GLEANER_NOT_SWAPPED;                                      \
    }                                                                          \
    static inline bool gleaner_fill_##name(gleaner_mutator *mutator,           \
                                           void *array, uint32_t index,        \
                                           uint32_t count, type number)        \
    {                                                                          \
        type *first = (type *)GLEANER_ELEMENT(array, index, sizeof(type));     \
        uint32_t i;                                                            \
                                                                               \
        (void)mutator;                                                         \
        GLEANER_IN_ARRAY(array, index, count);                                 \
        for (i = 0; i < count; i++)                                            \
            first[i] = number;                                                 \
        return true;                                                           \
    }                                                                          \
    static inline void gleaner_read_##name(const void *array, uint32_t index,  \
                                           type *into, uint32_t count)         \
    {                                                                          \
        GLEANER_IN_ARRAY(array, index, count);                                 \
        __builtin_memcpy(                                                      \
            into, (const void *)GLEANER_ELEMENT(array, index, sizeof(type)),   \
            count * sizeof(type));                                             \
    }                                                                          \
    static inline bool gleaner_write_##name(                                   \
        gleaner_mutator *mutator, void *array, uint32_t index,                 \
        const type *from, uint32_t count)                                      \
    {                                                                          \
        (void)mutator;                                                         \
        GLEANER_IN_ARRAY(array, index, count);                                 \
        __builtin_memcpy((void *)GLEANER_ELEMENT(array, index, sizeof(type)),  \
                         from, count * sizeof(type));                          \
        return true;                                                           \
    }                                                                          \
    static inline void gleaner_initialize_##name(                              \
        gleaner_mutator *mutator, void *array, uint32_t index,                 \
        const type *from, uint32_t count)                                      \
    {                                                                          \
        gleaner_write_##name(mutator, array, index, from, count);              \
    }                                                                          \
    static inline type gleaner_cursor_load_##name(                             \
        struct gleaner_cursor *cursor)                                         \
    {                                                                          \
        type number;                                                           \
                                                                               \
        GLEANER_HAS_NEXT(cursor);                                              \
        __atomic_load((type *)cursor->next, &number, __ATOMIC_RELAXED);        \
        cursor->next += sizeof(type);                                          \
        cursor->index++;                                                       \
        return number;                                                         \
    }                                                                          \
    static inline void gleaner_cursor_store_##name(                            \
        struct gleaner_cursor *cursor, type number)                            \
    {                                                                          \
        GLEANER_HAS_NEXT(cursor);                                              \
        __atomic_store((type *)cursor->next, &number, __ATOMIC_RELAXED);       \
        cursor->next += sizeof(type);                                          \
        cursor->index++;                                                       \
    }

GLEANER_PRIMITIVE(u8, uint8_t)
GLEANER_PRIMITIVE(u16, uint16_t)
GLEANER_PRIMITIVE(u32, uint32_t)
GLEANER_PRIMITIVE(u64, uint64_t)
GLEANER_PRIMITIVE(f32, float)
GLEANER_PRIMITIVE(f64, double)

#endif
