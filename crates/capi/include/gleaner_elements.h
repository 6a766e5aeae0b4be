/*
 * gleaner_elements.h: the elements of arrays. A part of gleaner.h, which
 * includes it; nothing else does.
 */
#ifndef GLEANER_ELEMENTS_H
#define GLEANER_ELEMENTS_H
#ifndef GLEANER_H
#error "include gleaner.h"
#endif

/* Arrays of slots and of primitives are read and written only by these
   functions. A load neither collects nor fails. A function that stores takes
   the mutator and behaves like an allocation. It may collect, so keep
   references that you need afterwards in roots; its own arguments need not be
   in one. It answers false when the heap is full, and has then stored nothing.
   Stores into an array that lies in one piece neither collect nor fail.

   The caller promises that an index or a range lies in the array, and that the
   array has elements of that kind. With GLEANER_DEBUG defined, indexes, ranges
   and the steps of cursors are checked. A wrong one ends the process with a
   message, and so does a store through a cursor that only reads. The size of
   elements is not checked. gleaner_copy_elements, gleaner_compare_elements and
   gleaner_pinned_elements always check everything, the size of elements too, and
   that an object of the heap can lie at the address: NULL and integers end the
   process with a message. */

#ifdef GLEANER_DEBUG
#define GLEANER_IN_ARRAY(array, index, count)                                  \
    ((uint64_t)(index) + (count) <= gleaner_length(array)                      \
         ? (void)0                                                             \
         : gleaner_no_elements(array, index, count))
#define GLEANER_HAS_NEXT(cursor)                                               \
    ((cursor)->index < (cursor)->end ? (void)0                                 \
                                     : gleaner_cursor_ended((cursor)->end))
#define GLEANER_MAY_WRITE(cursor)                                              \
    ((cursor)->writes ? (void)0 : gleaner_cursor_only_reads())
#else
#define GLEANER_IN_ARRAY(array, index, count) ((void)0)
#define GLEANER_HAS_NEXT(cursor) ((void)0)
#define GLEANER_MAY_WRITE(cursor) ((void)0)
#endif
/* Ends the process with a message about a range that the array does not
   have. */
void gleaner_no_elements(const void *array, uint32_t index, uint32_t count);
/* The same, about a cursor that goes beyond its range, which ends at `end`. */
void gleaner_cursor_ended(uint32_t end);
/* The same, about a store through a cursor of gleaner_cursor_begin. */
void gleaner_cursor_only_reads(void);
/* The same, about code that was compiled for other arrays than this heap
   has. */
void gleaner_cut_differently(const gleaner_mutator *mutator, size_t first_n);

/* For the functions below only. The first says where an element lies in an
   array in one piece; the second, whether `count` elements from `index` on lie
   there in an array in pieces, too. */
#define GLEANER_ELEMENT(array, index, bytes)                                   \
    ((uintptr_t)(array) + 16 + (uintptr_t)(index) * (bytes))
static inline bool gleaner_is_near(const gleaner_mutator *mutator,
                                   uint32_t index, uint32_t count,
                                   size_t element_bytes)
{
    size_t end = ((size_t)index + count) * element_bytes;
    size_t known = gleaner_known_first_n();

#ifdef GLEANER_DEBUG
    if (mutator->first_n < known)
        gleaner_cut_differently(mutator, known);
#endif
    return end <= (known != 0 ? known : mutator->first_n);
}

/* The functions below call these where gleaner_is_near says no. `bits` are the
   bits of a primitive. */
struct gleaner_piece {
    uintptr_t at, end;
};
uintptr_t gleaner_far_element(const gleaner_mutator *mutator, const void *array,
                              uint32_t index, size_t element_bytes);
bool gleaner_store_far_element(gleaner_mutator *mutator, void *array,
                               uint32_t index, gleaner_value value);
bool gleaner_fill_far_elements(gleaner_mutator *mutator, void *array,
                               uint32_t index, uint32_t count,
                               gleaner_value value);
bool gleaner_store_far_number(gleaner_mutator *mutator, void *array,
                              uint32_t index, size_t element_bytes,
                              uint64_t bits);
bool gleaner_fill_far_numbers(gleaner_mutator *mutator, void *array,
                              uint32_t index, uint32_t count,
                              size_t element_bytes, uint64_t bits);
void gleaner_read_far_numbers(const gleaner_mutator *mutator, const void *array,
                              uint32_t index, void *into, uint32_t count,
                              size_t element_bytes);
bool gleaner_write_far_numbers(gleaner_mutator *mutator, void *array,
                               uint32_t index, const void *from, uint32_t count,
                               size_t element_bytes);
struct gleaner_piece gleaner_next_piece(const gleaner_mutator *mutator,
                                        const void *array, uint32_t index,
                                        uint32_t count, size_t element_bytes);
struct gleaner_piece gleaner_next_piece_to_write(gleaner_mutator *mutator,
                                                 void *array, uint32_t index,
                                                 uint32_t count,
                                                 size_t element_bytes,
                                                 bool zero);
void *gleaner_take_for_writing(gleaner_mutator *mutator, void *array,
                               uint32_t index, uint32_t count,
                               size_t element_bytes);

/* Where an element lies, to be read or initialized. */
static inline uintptr_t gleaner_place(const gleaner_mutator *mutator,
                                      const void *array, uint32_t index,
                                      size_t element_bytes)
{
    GLEANER_IN_ARRAY(array, index, 1);
    return gleaner_is_near(mutator, index, 1, element_bytes)
               ? GLEANER_ELEMENT(array, index, element_bytes)
               : gleaner_far_element(mutator, array, index, element_bytes);
}

/* With GLEANER_DEBUG, an integer that does not fit into a slot ends the
   process. */
#define GLEANER_FITS_SLOT(mutator, value)                                      \
    do {                                                                       \
        if ((mutator)->slot_bytes == 4 && ((value) & 1) != 0)                  \
            GLEANER_FITS(value);                                               \
    } while (0)

static inline gleaner_value
gleaner_load_element(const gleaner_mutator *mutator, const void *array,
                     uint32_t index)
{
    return gleaner_load(mutator,
                        (void *)gleaner_place(mutator, array, index,
                                              mutator->slot_bytes),
                        0);
}

/* Writes an element through the write barrier. */
static inline bool gleaner_store_element(gleaner_mutator *mutator, void *array,
                                         uint32_t index, gleaner_value value)
{
    GLEANER_MAY_USE(mutator, "a store");
    GLEANER_IN_ARRAY(array, index, 1);
    if (!gleaner_is_near(mutator, index, 1, mutator->slot_bytes)) {
        GLEANER_FITS_SLOT(mutator, value);
        return gleaner_store_far_element(mutator, array, index, value);
    }
    gleaner_store(mutator,
                  (void *)GLEANER_ELEMENT(array, index, mutator->slot_bytes), 0,
                  value);
    return true;
}

/* Writes an element of an array that gleaner_allocate_array_initialized has
   made. Since that allocation this mutator has done nothing that may collect.
   This call does not collect either, and cannot fail. */
static inline void gleaner_initialize_element(gleaner_mutator *mutator,
                                              void *array, uint32_t index,
                                              gleaner_value value)
{
    gleaner_initialize(mutator,
                       (void *)gleaner_place(mutator, array, index,
                                             mutator->slot_bytes),
                       0, value);
}

/* What a compare-and-swap came to: it was done; the element was another value;
   the heap is full. */
enum gleaner_swapped {
    GLEANER_SWAPPED,
    GLEANER_NOT_SWAPPED,
    GLEANER_SWAP_FULL
};
enum gleaner_swapped gleaner_swap_far_element(gleaner_mutator *mutator,
                                              void *array, uint32_t index,
                                              gleaner_value *expected,
                                              gleaner_value value);
enum gleaner_swapped gleaner_swap_far_number(gleaner_mutator *mutator,
                                             void *array, uint32_t index,
                                             size_t element_bytes,
                                             uint64_t *expected, uint64_t bits);

/* Writes `value` to an element, through the write barrier, if the element is
   `*expected`. If it is not, the answer is GLEANER_NOT_SWAPPED, and `*expected`
   becomes what the element is. This may collect, so after the two other answers
   a reference in `*expected` may be stale. */
static inline enum gleaner_swapped
gleaner_swap_element(gleaner_mutator *mutator, void *array, uint32_t index,
                     gleaner_value *expected, gleaner_value value)
{
    uintptr_t slot = GLEANER_ELEMENT(array, index, mutator->slot_bytes);

    GLEANER_MAY_USE(mutator, "a store");
    GLEANER_IN_ARRAY(array, index, 1);
    if (!gleaner_is_near(mutator, index, 1, mutator->slot_bytes)) {
        GLEANER_FITS_SLOT(mutator, value);
        return gleaner_swap_far_element(mutator, array, index, expected, value);
    }
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

    GLEANER_MAY_USE(mutator, "a store");
    GLEANER_IN_ARRAY(array, index, count);
    if (!gleaner_is_near(mutator, index, count, mutator->slot_bytes)) {
        GLEANER_FITS_SLOT(mutator, value);
        return gleaner_fill_far_elements(mutator, array, index, count, value);
    }
    for (i = 0; i < count; i++)
        gleaner_store(mutator,
                      (void *)GLEANER_ELEMENT(array, index + i,
                                              mutator->slot_bytes),
                      0, value);
    return true;
}

/* Copies `count` elements, through the write barrier: between two arrays of
   slots, between two arrays of primitives of the same size, or within one
   array. The ranges may overlap. A call with other objects, or with a range
   beyond the end of an array, ends the process with a message. */
bool gleaner_copy_elements(gleaner_mutator *mutator, const void *from,
                           uint32_t from_index, void *to, uint32_t to_index,
                           uint32_t count);

/* Compares a range of one array with a range of another, bit by bit. The answer
   is how many elements are equal before the first that differs: `count` if all
   are. The arrays are as for gleaner_copy_elements, and the same mistakes end
   the process. This neither collects nor fails. No other thread may write the
   elements meanwhile. */
uint32_t gleaner_compare_elements(gleaner_mutator *mutator, const void *one,
                                  uint32_t index, const void *other,
                                  uint32_t other_index, uint32_t count);

/* A cursor goes over elements in order. gleaner_cursor_begin begins one that
   reads. gleaner_cursor_begin_writing begins one that also writes; it may
   collect, and answers false when the heap is full. A store through a cursor
   cannot fail. Until the last use of the cursor, do not allocate, poll, or
   store by another function. If you do, go on with gleaner_cursor_resume or
   gleaner_cursor_resume_writing. A cursor looks up where the elements lie once
   for each piece. */
struct gleaner_cursor {
    uint32_t index, end; /* the next element, and the one that ends the range */
    /* The collector's: where the next element lies, and where the piece ends
       that was looked up last. */
    uintptr_t next, piece_end;
    gleaner_mutator *mutator;
    void *array;
    uint32_t element_bytes;
    bool writes; /* it was begun to write */
    bool reads;  /* `next` was looked up only to be read */
};
/* For the two below only. */
static inline void gleaner_cursor_set(struct gleaner_cursor *cursor,
                                      gleaner_mutator *mutator, void *array,
                                      uint32_t index, uint32_t count,
                                      size_t element_bytes, bool writes)
{
    cursor->index = index;
    cursor->end = index + count;
    cursor->next = cursor->piece_end = 0;
    if (gleaner_is_near(mutator, index, count, element_bytes)) {
        cursor->next = GLEANER_ELEMENT(array, index, element_bytes);
        cursor->piece_end = cursor->next + count * element_bytes;
    }
    cursor->mutator = mutator;
    cursor->array = array;
    cursor->element_bytes = (uint32_t)element_bytes;
    cursor->writes = writes;
    cursor->reads = false;
}
static inline void gleaner_cursor_begin(struct gleaner_cursor *cursor,
                                        const gleaner_mutator *mutator,
                                        const void *array, uint32_t index,
                                        uint32_t count, size_t element_bytes)
{
    GLEANER_IN_ARRAY(array, index, count);
    gleaner_cursor_set(cursor, (gleaner_mutator *)mutator, (void *)array, index,
                       count, element_bytes, false);
}
static inline bool gleaner_cursor_begin_writing(struct gleaner_cursor *cursor,
                                                gleaner_mutator *mutator,
                                                void *array, uint32_t index,
                                                uint32_t count,
                                                size_t element_bytes)
{
    bool is_taken = true;

    GLEANER_IN_ARRAY(array, index, count);
    if (!gleaner_is_near(mutator, index, count, element_bytes)) {
        array = gleaner_take_for_writing(mutator, array, index, count,
                                         element_bytes);
        is_taken = array != NULL;
    }
    gleaner_cursor_set(cursor, mutator, array, index, is_taken ? count : 0,
                       element_bytes, true);
    return is_taken;
}
/* Both go on with the elements that are left, after an allocation, a store or a
   poll. `array` is where the array is now. If gleaner_cursor_resume_writing
   answers false, the heap is full, and the cursor keeps its place. Free memory
   and call it again before you use the cursor. */
static inline void gleaner_cursor_resume(struct gleaner_cursor *cursor,
                                         const void *array)
{
    gleaner_cursor_begin(cursor, cursor->mutator, array, cursor->index,
                         cursor->end - cursor->index, cursor->element_bytes);
}
static inline bool gleaner_cursor_resume_writing(struct gleaner_cursor *cursor,
                                                 void *array)
{
    uint32_t end = cursor->end;
    bool is_taken = gleaner_cursor_begin_writing(
        cursor, cursor->mutator, array, cursor->index, end - cursor->index,
        cursor->element_bytes);

    cursor->end = end;
    return is_taken;
}
/* Whether there is another element. */
static inline bool gleaner_cursor_more(const struct gleaner_cursor *cursor)
{
    return cursor->next != cursor->piece_end
           || (gleaner_known_first_n() != SIZE_MAX
               && cursor->index < cursor->end);
}
/* For the functions below only: whether the next element lies in the piece that
   was looked up last. */
static inline bool gleaner_cursor_in_piece(const struct gleaner_cursor *cursor)
{
    return gleaner_known_first_n() == SIZE_MAX
           || cursor->next != cursor->piece_end;
}
/* Makes the next element ready to be read. What is looked up here,
   gleaner_cursor_write looks up again. */
static inline void gleaner_cursor_read(struct gleaner_cursor *cursor)
{
    struct gleaner_piece piece;

    GLEANER_HAS_NEXT(cursor);
    if (gleaner_cursor_in_piece(cursor))
        return;
    piece = gleaner_next_piece(cursor->mutator, cursor->array, cursor->index,
                               cursor->end - cursor->index,
                               cursor->element_bytes);
    cursor->next = piece.at;
    cursor->piece_end = piece.end;
    cursor->reads = cursor->writes;
}
/* The same, to be written. If the element is zero and zero is to be written,
   the cursor goes on and the answer is false. */
static inline bool gleaner_cursor_write(struct gleaner_cursor *cursor, bool zero)
{
    struct gleaner_piece piece;

    GLEANER_HAS_NEXT(cursor);
    GLEANER_MAY_WRITE(cursor);
    if (gleaner_known_first_n() == SIZE_MAX
        || (gleaner_cursor_in_piece(cursor) && !cursor->reads))
        return true;
    piece = gleaner_next_piece_to_write(cursor->mutator, cursor->array,
                                        cursor->index,
                                        cursor->end - cursor->index,
                                        cursor->element_bytes, zero);
    cursor->next = piece.at;
    cursor->piece_end = piece.end;
    cursor->reads = false;
    if (piece.at != piece.end)
        return true;
    cursor->index++;
    return false;
}
/* Goes on to the next element. */
static inline void gleaner_cursor_step(struct gleaner_cursor *cursor,
                                       size_t element_bytes)
{
    cursor->next += element_bytes;
    cursor->index++;
}
/* Loads the next element of an array of slots, and goes on. */
static inline gleaner_value gleaner_cursor_load(struct gleaner_cursor *cursor,
                                                const gleaner_mutator *mutator)
{
    gleaner_value value;

    gleaner_cursor_read(cursor);
    value = gleaner_load(mutator, (void *)cursor->next, 0);
    gleaner_cursor_step(cursor, mutator->slot_bytes);
    return value;
}
static inline void gleaner_cursor_store(struct gleaner_cursor *cursor,
                                        gleaner_mutator *mutator,
                                        gleaner_value value)
{
    if (!gleaner_cursor_write(cursor, value == 0))
        return;
    gleaner_store(mutator, (void *)cursor->next, 0, value);
    gleaner_cursor_step(cursor, mutator->slot_bytes);
}

/* A window shows `count` primitives from `index` on as a C array. The window
   may be a copy, and then costs as much as copying the range.
   gleaner_window_end writes the copy back if the window is for writing. End
   each window that you have begun.

   Until then do not allocate, poll, store by another function or begin a
   blocking region. If such a mistake is noticed, the process ends with a
   message. Polls are noticed with GLEANER_DEBUG; other mistakes may go
   unnoticed while nobody collects.

   gleaner_window_begin_writing may collect, and answers NULL when the heap is
   full. Begin a window for writing therefore while no other window is open.
   Both functions answer NULL when malloc has no memory for a copy. */
struct gleaner_window {
    void *elements;
    /* The collector's: the array, if `elements` is a copy, and the range. */
    void *copied;
    uint32_t index, count, element_bytes;
    bool writes;
};
bool gleaner_begin_far_window(struct gleaner_window *window,
                              gleaner_mutator *mutator, void *array,
                              uint32_t index, uint32_t count,
                              size_t element_bytes, bool writes);
void gleaner_end_far_window(struct gleaner_window *window,
                            gleaner_mutator *mutator);
/* For the two below only. */
static inline void *gleaner_window_open(struct gleaner_window *window,
                                        gleaner_mutator *mutator, void *array,
                                        uint32_t index, uint32_t count,
                                        size_t element_bytes, bool writes)
{
    GLEANER_IN_ARRAY(array, index, count);
    if (gleaner_is_near(mutator, index, count, element_bytes)) {
        window->elements = (void *)GLEANER_ELEMENT(array, index, element_bytes);
        window->copied = NULL;
    } else if (!gleaner_begin_far_window(window, mutator, array, index, count,
                                         element_bytes, writes)) {
        return NULL;
    }
    mutator->windows++;
    return window->elements;
}
static inline const void *
gleaner_window_begin(struct gleaner_window *window, gleaner_mutator *mutator,
                     const void *array, uint32_t index, uint32_t count,
                     size_t element_bytes)
{
    return gleaner_window_open(window, mutator, (void *)array, index, count,
                               element_bytes, false);
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
    return gleaner_window_open(window, mutator, array, index, count,
                               element_bytes, true);
}
static inline void gleaner_window_end(struct gleaner_window *window,
                                      gleaner_mutator *mutator)
{
    if (window->copied != NULL)
        gleaner_end_far_window(window, mutator);
    window->elements = NULL;
    mutator->windows--;
}

/* The address of the primitives of an array that never moves and lies in one
   piece, because it was pinned or is large. They stay there as long as the
   array lives. The answer is NULL for other objects. To get an address,
   allocate the array pinned, or, if it is large, with a type of
   gleaner_primitives_whole. */
void *gleaner_pinned_elements(gleaner_mutator *mutator, void *array);

/* For each type of primitives: load, store, swap and fill do the same as those
   of slots. read copies `count` elements to a buffer, and write copies them
   from a buffer. initialize does what write does, in a fresh array and under
   the conditions of gleaner_initialize_element. cursor_load and cursor_store
   take the next element of a cursor.

   Threads that load, store or swap the same element at once find one of the
   values that were stored, never a mixture. Do not use fill, read and write on
   an array that other threads write. */
#define GLEANER_PRIMITIVE(name, type)                                          \
    static inline uint64_t gleaner_bits_of_##name(type number)                 \
    {                                                                          \
        uint64_t bits = 0;                                                     \
                                                                               \
        __builtin_memcpy(&bits, &number, sizeof number);                       \
        return bits;                                                           \
    }                                                                          \
    static inline type gleaner_load_##name(const gleaner_mutator *mutator,     \
                                           const void *array, uint32_t index)  \
    {                                                                          \
        type number;                                                           \
                                                                               \
        __atomic_load(                                                         \
            (type *)gleaner_place(mutator, array, index, sizeof(type)),        \
            &number, __ATOMIC_RELAXED);                                        \
        return number;                                                         \
    }                                                                          \
    static inline bool gleaner_store_##name(                                   \
        gleaner_mutator *mutator, void *array, uint32_t index, type number)    \
    {                                                                          \
        GLEANER_MAY_USE(mutator, "a store");                                   \
        GLEANER_IN_ARRAY(array, index, 1);                                     \
        if (!gleaner_is_near(mutator, index, 1, sizeof(type)))                 \
            return gleaner_store_far_number(mutator, array, index,             \
                                            sizeof(type),                      \
                                            gleaner_bits_of_##name(number));   \
        __atomic_store((type *)GLEANER_ELEMENT(array, index, sizeof(type)),    \
                       &number, __ATOMIC_RELAXED);                             \
        return true;                                                           \
    }                                                                          \
    static inline enum gleaner_swapped gleaner_swap_##name(                    \
        gleaner_mutator *mutator, void *array, uint32_t index, type *expected, \
        type number)                                                           \
    {                                                                          \
        GLEANER_MAY_USE(mutator, "a store");                                   \
        GLEANER_IN_ARRAY(array, index, 1);                                     \
        if (!gleaner_is_near(mutator, index, 1, sizeof(type))) {               \
            uint64_t bits = gleaner_bits_of_##name(*expected);                 \
            enum gleaner_swapped swapped = gleaner_swap_far_number(            \
                mutator, array, index, sizeof(type), &bits,                    \
                gleaner_bits_of_##name(number));                               \
                                                                               \
            __builtin_memcpy(expected, &bits, sizeof(type));                   \
            return swapped;                                                    \
        }                                                                      \
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
        GLEANER_MAY_USE(mutator, "a store");                                   \
        GLEANER_IN_ARRAY(array, index, count);                                 \
        if (!gleaner_is_near(mutator, index, count, sizeof(type)))             \
            return gleaner_fill_far_numbers(mutator, array, index, count,      \
                                            sizeof(type),                      \
                                            gleaner_bits_of_##name(number));   \
        for (i = 0; i < count; i++)                                            \
            first[i] = number;                                                 \
        return true;                                                           \
    }                                                                          \
    static inline void gleaner_read_##name(const gleaner_mutator *mutator,     \
                                           const void *array, uint32_t index,  \
                                           type *into, uint32_t count)         \
    {                                                                          \
        GLEANER_IN_ARRAY(array, index, count);                                 \
        if (!gleaner_is_near(mutator, index, count, sizeof(type)))             \
            gleaner_read_far_numbers(mutator, array, index, into, count,       \
                                     sizeof(type));                            \
        else                                                                   \
            __builtin_memcpy(into,                                             \
                             (const void *)GLEANER_ELEMENT(array, index,       \
                                                           sizeof(type)),      \
                             count * sizeof(type));                            \
    }                                                                          \
    static inline bool gleaner_write_##name(                                   \
        gleaner_mutator *mutator, void *array, uint32_t index,                 \
        const type *from, uint32_t count)                                      \
    {                                                                          \
        GLEANER_MAY_USE(mutator, "a store");                                   \
        GLEANER_IN_ARRAY(array, index, count);                                 \
        if (!gleaner_is_near(mutator, index, count, sizeof(type)))             \
            return gleaner_write_far_numbers(mutator, array, index, from,      \
                                             count, sizeof(type));             \
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
        gleaner_cursor_read(cursor);                                           \
        __atomic_load((type *)cursor->next, &number, __ATOMIC_RELAXED);        \
        gleaner_cursor_step(cursor, sizeof(type));                             \
        return number;                                                         \
    }                                                                          \
    static inline void gleaner_cursor_store_##name(                            \
        struct gleaner_cursor *cursor, type number)                            \
    {                                                                          \
        if (!gleaner_cursor_write(cursor,                                      \
                                  gleaner_bits_of_##name(number) == 0))        \
            return;                                                            \
        __atomic_store((type *)cursor->next, &number, __ATOMIC_RELAXED);       \
        gleaner_cursor_step(cursor, sizeof(type));                             \
    }

GLEANER_PRIMITIVE(u8, uint8_t)
GLEANER_PRIMITIVE(u16, uint16_t)
GLEANER_PRIMITIVE(u32, uint32_t)
GLEANER_PRIMITIVE(u64, uint64_t)
GLEANER_PRIMITIVE(f32, float)
GLEANER_PRIMITIVE(f64, double)

#endif
