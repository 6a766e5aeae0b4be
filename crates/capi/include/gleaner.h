/*
 * gleaner.h: a precise, moving, generational garbage collector for a language
 * runtime written in C or C++.
 *
 * A heap holds objects of registered types. A thread attaches to it as a
 * mutator. References are plain addresses; objects move at every allocation
 * and every poll (gleaner_collect, gleaner_get_totals, gleaner_walk and blocking
 * regions are polls, too) and where elements of an array are stored, so what is
 * needed afterwards is in a root: a frame of the shadow stack, a handle, or an
 * object that is reached from one.
 *
 *     GLEANER_FRAME(m, frame, 1);              declares one root and links it
 *     frame.values[0] = gleaner_reference(gleaner_allocate(m, type, bytes));
 *     ...
 *     GLEANER_LEAVE(m, frame);
 *
 * An object begins with 8 bytes of the collector's; its fields follow at
 * offset 8. An array has its length (4 bytes) at offset 8; where its elements
 * lie is not said: functions read and write them. Fresh objects are zero. A slot, the place of a reference in
 * an object, has m->slot_bytes bytes (8, or 4 with compressed references) and
 * holds a value: null (0), a reference, or a small integer (low bit 1).
 *
 * All functions that take a mutator are called by its own thread. Functions
 * that can fail say how; a full heap is reported and never aborts. A mistake
 * that is noticed ends the process with one line on the standard error stream,
 * "gleaner: ..."; RUST_BACKTRACE=1 adds where it was.
 */
#ifndef GLEANER_H
#define GLEANER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface, of the object header and of the published
   fields. gleaner_interface() is that of the library. */
#define GLEANER_INTERFACE 7
uint32_t gleaner_interface(void);

/* ---- heaps --------------------------------------------------------------- */

typedef struct gleaner_heap gleaner_heap;

/* Option `arrays` says whether arrays lie in one piece, or in pieces: then their
   first N bytes (option `first-n`) lie behind the length, and the rest elsewhere.
   Code that includes this header finds out at run time. Define one of these before,
   if it is only for some heaps:
     GLEANER_ARRAYS_WHOLE  all arrays lie in one piece: nothing is tested;
     GLEANER_FIRST_N 4096  the first 4096 bytes do, at least: a constant.
   Other heaps are refused where they are made and attached to. With GLEANER_DEBUG
   defined each access looks, too. */
#if defined GLEANER_ARRAYS_WHOLE && defined GLEANER_FIRST_N
#error "define GLEANER_ARRAYS_WHOLE or GLEANER_FIRST_N"
#endif
#ifdef GLEANER_FIRST_N
#if GLEANER_FIRST_N != 0                                                       \
    && (GLEANER_FIRST_N < 64 || GLEANER_FIRST_N > 262144                       \
        || (GLEANER_FIRST_N & (GLEANER_FIRST_N - 1)) != 0)
#error "GLEANER_FIRST_N is a power of two from 64 to 262144, or 0"
#endif
#endif
/* So many bytes of each array lie in one piece, as far as it is known here. */
static inline size_t gleaner_known_first_n(void)
{
#if defined GLEANER_ARRAYS_WHOLE
    return SIZE_MAX;
#elif defined GLEANER_FIRST_N
    return GLEANER_FIRST_N;
#else
    return 0;
#endif
}

/* All fields 0: the defaults. Of others a field accepts what the option of its
   name does (`limit`: heap-limit; docs/options.md), and is refused as that is.

   Compressed references reach 16 GB of addresses. The limit is at most 13 GB
   then; with arrays in pieces (option `arrays`), which have addresses of their
   own, at most 7 GB. Large objects may be all of it up to 7.5 GB (in pieces
   5 GB); above, all that 16 GB leave beside 33/32 of the limit: some 6.5 GB of
   9, 2.5 of 13. Small pinned objects may be all that is not young up to 5 GB
   (in pieces 3.5 GB), a quarter of the limit up to 7 GB (in pieces 4.5 GB), a
   thirty-third above. With option plan=naps or quarantine all of that is less.
   The default limit is no more than the options can have; one of yours that is
   more is refused, and the message says the most.

   A heap takes some six times its limit of addresses. Where those of a process
   are limited (ulimit -v) it takes fewer, and leaves an eighth of them to the
   program; below some four times the limit and 250 MB, large objects may have a
   part of the limit only, as little as an eighth. */
struct gleaner_options {
    size_t limit;     /* bytes of all objects; a quarter of the memory, at most 8 GB */
    size_t young;     /* bytes of the young generation; a third of the limit, at
                         most 64 MB, and it changes (with option resize=off a
                         third, and it does not) */
    uint32_t workers; /* threads that collect at most; one a processor, up to 16 */
    uint32_t tlab;    /* bytes of a mutator's buffer; 32 KB */
    uint32_t stress;  /* testing: collects at every n-th allocation */
    bool compressed;  /* slots of 4 bytes; see above */
    bool verify;      /* testing: checks the heap at each collection */
    bool poison;      /* testing: overwrites what is freed */
    bool ignore_environment; /* GLEANER_OPTIONS counts nothing */
    const char *list; /* options by name (docs/options.md), or NULL; they weigh
                         more than the fields: "heap-limit=1g,tenure=3" */
};

/* What gleaner_heap_new calls. */
gleaner_heap *gleaner_heap_new_knowing(size_t first_n,
                                       const struct gleaner_options *options,
                                       char *message, size_t message_bytes);

/* A heap, or NULL: then `message`, if not NULL, says why in at most
   `message_bytes` bytes. `options` may be NULL. What the environment variable
   GLEANER_OPTIONS says weighs most, unless it is ignored: at your wish, and in
   a program that runs with more rights than its user (setuid). */
static inline gleaner_heap *
gleaner_heap_new(const struct gleaner_options *options, char *message,
                 size_t message_bytes)
{
    return gleaner_heap_new_knowing(gleaner_known_first_n(), options, message,
                                    message_bytes);
}

/* Ends the heap and frees all its memory; of NULL nothing. False, and nothing
   happens, while it has mutators, handles, weak references or ephemerons. */
bool gleaner_heap_free(gleaner_heap *heap);

/* ---- types --------------------------------------------------------------- */

/* A type, or 0, which no object may have: then `message` says why. Types last
   as long as the heap. */
typedef uint32_t gleaner_type;

/* Objects of `bytes` bytes, the first 8 included, with slots at the `count`
   ascending offsets. */
gleaner_type gleaner_structure(gleaner_heap *heap, size_t bytes,
                               const uint32_t *offsets, size_t count,
                               char *message, size_t message_bytes);
/* Arrays of slots. */
gleaner_type gleaner_references(gleaner_heap *heap);
/* Arrays without references; elements of 1, 2, 4 or 8 bytes. */
gleaner_type gleaner_primitives(gleaner_heap *heap, size_t element_bytes);
/* The same, and each array of the type lies in one piece, whatever option
   `arrays` says: for those that native code is handed. */
gleaner_type gleaner_references_whole(gleaner_heap *heap);
gleaner_type gleaner_primitives_whole(gleaner_heap *heap, size_t element_bytes);

/* A structure with elements behind it: a closure with its variables, a frame
   with its registers, an array of structures. Its length (4 bytes) is at offset
   8, as that of an array. */
struct gleaner_tail {
    size_t head;             /* bytes before the first element, at least 16 */
    const uint32_t *offsets; /* ascending offsets of the slots in the head */
    size_t count;
    size_t element;                  /* bytes of an element */
    const uint32_t *element_offsets; /* of its slots, from its start */
    size_t element_count;
};
gleaner_type gleaner_tailed(gleaner_heap *heap, const struct gleaner_tail *tail,
                            char *message, size_t message_bytes);

/* Types whose slots only a function can find. `trace` calls visitor->visit for
   each slot of the object. The functions run while all threads are stopped,
   several at once, also for dead objects. They allocate nothing, with malloc
   neither; they take no lock that a thread of the program may hold; they read
   no slot and not the first 8 bytes of an object, and follow no pointer to what
   a finalizer frees; and they say the same each time: each slot once, and the
   size that was allocated. What `size` reads is written before the first
   allocation or poll behind that of the object. */
struct gleaner_visitor {
    void (*visit)(struct gleaner_visitor *visitor, void *slot);
};
struct gleaner_traced {
    size_t bytes;   /* of an object, or of its head */
    size_t element; /* bytes of an element, 0 for none: as in gleaner_tail */
    size_t (*size)(void *data, const void *object); /* if not NULL, it says */
    void (*trace)(void *data, void *object, struct gleaner_visitor *visitor);
    void *data; /* what both are given; lasts as long as the heap */
};
gleaner_type gleaner_traced_type(gleaner_heap *heap,
                                 const struct gleaner_traced *traced,
                                 char *message, size_t message_bytes);

/* ---- values -------------------------------------------------------------- */

typedef uint64_t gleaner_value;

static inline gleaner_value gleaner_reference(const void *object)
{
    return (gleaner_value)(uintptr_t)object;
}
/* NULL for null and for integers. */
static inline void *gleaner_object(gleaner_value value)
{
    return (value & 1) != 0 ? NULL : (void *)(uintptr_t)value;
}
/* 63 bits, or 31 with compressed references, where a slot keeps no more of a
   larger one; with GLEANER_DEBUG defined its store ends the process. */
static inline gleaner_value gleaner_integer(int64_t number)
{
    return (uint64_t)number << 1 | 1;
}
static inline bool gleaner_is_integer(gleaner_value value)
{
    return (value & 1) != 0;
}
static inline int64_t gleaner_number(gleaner_value value)
{
    return (int64_t)value >> 1;
}

/* ---- mutators ------------------------------------------------------------ */

/* A frame of the shadow stack; `count` values follow it in memory. */
struct gleaner_frame {
    struct gleaner_frame *previous;
    size_t count;
};

/* Where compiled code was left; all 0 when none is on the stack. */
struct gleaner_anchor {
    uintptr_t frame_pointer, program_counter, stack_pointer;
};

/* The published fields of a mutator. Code reads them; of them it writes only
   `cursor` (by allocating), `frames`, `anchor` and `embedder`. */
typedef struct gleaner_mutator {
    uintptr_t cursor, limit;      /* the buffer for allocation */
    volatile uint32_t poll;       /* not 0: call gleaner_poll_slowly */
    uint32_t slot_bytes;          /* 8, or 4 */
    uintptr_t base;               /* what compressed references count from */
    uintptr_t cards;              /* the card of address a is at cards + a / 512 */
    struct gleaner_frame *frames; /* the newest frame, or NULL */
    struct gleaner_anchor anchor; /* for the root visitor */
    void *embedder;               /* yours */
    uint32_t zeroes;              /* 0 while the buffer is zero already */
    uint32_t windows;             /* how many are open */
    /* How arrays lie in memory; see gleaner_fast_paths. */
    uintptr_t first_n;
    uint32_t arraylet_shift, pointer_shift;
    uintptr_t pointer_base;
    uint64_t zero_pointer;
    uintptr_t whole_bytes; /* larger arrays: call */
} gleaner_mutator;

/* What gleaner_attach calls. */
gleaner_mutator *gleaner_attach_knowing(gleaner_heap *heap, size_t first_n);

/* The calling thread becomes a mutator; NULL when the system gives no memory,
   which a line on the standard error stream explains, and in a thread that has
   ended (see below).
   A thread that is one of this heap already detaches first, or is in a blocking
   region of that mutator; else the process ends with a message. */
static inline gleaner_mutator *gleaner_attach(gleaner_heap *heap)
{
    return gleaner_attach_knowing(heap, gleaner_known_first_n());
}
/* The calling thread stops being a mutator, inside a blocking region or not.
   Nothing happens if the mutator is not one of this thread's any more.

   A thread that ends attached, however it ends, is detached from all its heaps
   in the last of the rounds in which the C library calls the destructors of
   thread-specific data. Yours come before, as a rule, and C++'s thread_local
   objects always; they may use and detach the mutator, if the thread has left
   its frames. No collection looks at frames of a thread that is detached; but
   a thread that ends inside a blocking region leaves its frames before, in a
   cleanup handler if it may be cancelled there, since others collect while its
   stack goes. A thread that attaches for the first time in such a
   destructor detaches there: it is detached in the next round, if there is one;
   if not, a collection finds that it is gone, a tenth of a second late.
   What the process's first thread has attached is not detached when it returns
   from main. */
void gleaner_detach(gleaner_mutator *mutator);

/* What a thread is for: docs/placement.md. */
typedef enum gleaner_role {
    GLEANER_ROLE_APPLICATION,
    GLEANER_ROLE_MAIN,
    GLEANER_ROLE_COLLECTOR,
    GLEANER_ROLE_ZEROING,
    GLEANER_ROLE_COMPILER,
    GLEANER_ROLE_ORGANIZER,
    GLEANER_ROLE_PROFILER,
    GLEANER_ROLE_TIMER,
    GLEANER_ROLE_FINALIZER,
    GLEANER_ROLE_VM
} gleaner_role;
/* Registers what the calling thread is for, which need not be a mutator. Its name
   becomes "gleaner-" and the role's, of which the kernel keeps 15 bytes: by that
   `gleaner place` knows what to place where. False for a number that is no role. */
bool gleaner_set_thread_role(gleaner_role role);

/* Between the two the thread may block and must not use the heap, while
   others collect. Regions nest: the outermost counts. A call that allocates,
   collects, walks, copies elements or makes a handle in a region ends the
   process with a message, as does an end without a beginning, and a poll when a
   collection waits for it (with GLEANER_DEBUG each). Totals may be asked for. A thread that is a
   mutator of two heaps uses the one inside a blocking region of the other, or two
   threads may wait for each other. */
void gleaner_blocking_begin(gleaner_mutator *mutator);
void gleaner_blocking_end(gleaner_mutator *mutator);

/* fork: the child has all heaps as they were, and the mutators of the thread
   that forked; those of other threads are gone, with their roots. Nothing that
   this thread holds moves in a fork, which waits until the other threads poll,
   allocate slowly or block. In the child heaps are used, collected and freed as
   anywhere: the first collection starts the collector's threads again. No fork
   in `visit` of gleaner_walk, nor in a signal handler, nor while another thread
   makes the process's first heap. Handlers of pthread_atfork that were
   registered before that use no heap: theirs run while all heaps are held. Before glibc 2.36 a thread that forks holds a lock of
   the C library while such handlers run, so two mutators that fork at once wait
   for each other for ever there: fork in a blocking region, or one at a time. */

#define GLEANER_FRAME(mutator, name, n)                                        \
    struct {                                                                   \
        struct gleaner_frame frame;                                            \
        gleaner_value values[n];                                               \
    } name;                                                                    \
    name.frame.previous = (mutator)->frames;                                   \
    name.frame.count = (n);                                                    \
    for (size_t name##_index = 0; name##_index < (n); name##_index++)          \
        name.values[name##_index] = 0;                                         \
    (mutator)->frames = &name.frame
/* Frames are left in the reverse order; a frame that was left and is found on
   the stack again ends the process with a message. */
#define GLEANER_LEAVE(mutator, name)                                           \
    ((mutator)->frames = name.frame.previous,                                  \
     (void)(*(volatile size_t *)&name.frame.count = (size_t)-1))

/* ---- allocation ---------------------------------------------------------- */

void *gleaner_allocate_slowly(gleaner_mutator *mutator, gleaner_type type,
                              size_t bytes);
void *gleaner_allocate_array_slowly(gleaner_mutator *mutator, gleaner_type type,
                                    uint32_t length, size_t bytes);
void *gleaner_allocate_initialized_slowly(gleaner_mutator *mutator,
                                          gleaner_type type, size_t bytes);
void *gleaner_allocate_array_initialized_slowly(gleaner_mutator *mutator,
                                                gleaner_type type,
                                                uint32_t length, size_t bytes);
void gleaner_poll_slowly(gleaner_mutator *mutator);

/* Larger objects have pages of their own and never move; of an array in pieces
   the spine is an object, which is smaller than the array. */
#define GLEANER_LARGE 16384

/* For generated code: room in the buffer for an object of `bytes` bytes, a
   multiple of 8, or 0; always 0 for objects of more than `most` bytes. */
static inline uintptr_t gleaner_room(gleaner_mutator *mutator, size_t bytes,
                                     size_t most)
{
    uintptr_t object = mutator->cursor;

    if (bytes > most || mutator->limit - object < bytes)
        return 0;
    mutator->cursor = object + bytes;
    /* What comes next is written soon. */
    __builtin_prefetch((void *)(object + 512), 1);
    return object;
}
/* The same, zero behind the first 8 bytes, which the header takes. */
static inline uintptr_t gleaner_zero_room(gleaner_mutator *mutator, size_t bytes,
                                          size_t most)
{
    uintptr_t object = gleaner_room(mutator, bytes, most);

    if (object != 0 && mutator->zeroes != 0)
        __builtin_memset((void *)(object + 8), 0, bytes - 8);
    return object;
}
/* What `most` is of an array: larger ones need not lie in one piece. It is
   GLEANER_LARGE of other objects. */
static inline size_t gleaner_whole_bytes(const gleaner_mutator *mutator)
{
    size_t first_n = gleaner_known_first_n();

    if (first_n == 0)
        return mutator->whole_bytes;
    return first_n < GLEANER_LARGE - 16 ? first_n + 16 : GLEANER_LARGE;
}
/* With GLEANER_DEBUG: an object that has not the size that its type, and its
   length, say ends the process, at the latest here. */
#ifdef GLEANER_DEBUG
void gleaner_check_size(gleaner_mutator *mutator, gleaner_type type,
                        bool has_length, uint32_t length, size_t bytes);
#define GLEANER_HAS_SIZE(mutator, type, has_length, length, bytes)             \
    gleaner_check_size(mutator, type, has_length, length, bytes)
#else
#define GLEANER_HAS_SIZE(mutator, type, has_length, length, bytes) ((void)0)
#endif
static inline void *gleaner_begin(uintptr_t object, gleaner_type type)
{
    *(uint64_t *)object = (uint64_t)type << 40;
    return (void *)object;
}
static inline void *gleaner_begin_array(uintptr_t object, gleaner_type type,
                                        uint32_t length)
{
    *(uint32_t *)(object + 8) = length;
    return gleaner_begin(object, type);
}

/* `bytes` rounded up to a multiple of 8. Sizes that do not fit into a word, here
   and below, are as large as no heap is: allocation answers NULL. */
static inline size_t gleaner_rounded(size_t bytes)
{
    return bytes > SIZE_MAX - 7 ? SIZE_MAX - 7 : (bytes + 7) & ~(size_t)7;
}

/* A fresh object of a structure of so many bytes; NULL when the heap is full
   even after collecting everything. */
static inline void *gleaner_allocate(gleaner_mutator *mutator,
                                     gleaner_type type, size_t bytes)
{
    size_t rounded = gleaner_rounded(bytes);
    uintptr_t object = gleaner_zero_room(mutator, rounded, GLEANER_LARGE);

    GLEANER_HAS_SIZE(mutator, type, false, 0, rounded);
    return object != 0 ? gleaner_begin(object, type)
                       : gleaner_allocate_slowly(mutator, type, rounded);
}

/* Bytes of an object with elements behind a head, and of an array. */
static inline size_t gleaner_tailed_bytes(uint32_t length, size_t head,
                                          size_t element)
{
    size_t bytes;

    if (__builtin_mul_overflow((size_t)length, element, &bytes)
        || __builtin_add_overflow(bytes, head, &bytes))
        return gleaner_rounded(SIZE_MAX);
    return gleaner_rounded(bytes);
}
static inline size_t gleaner_array_bytes(uint32_t length, size_t element_bytes)
{
    return gleaner_tailed_bytes(length, 16, element_bytes);
}

/* A fresh array; NULL when the heap is full. Slots have
   mutator->slot_bytes bytes. The functions for arrays are not for types with a
   head (gleaner_tailed), whose objects they make too small: that is noticed with
   GLEANER_DEBUG, and always of pinned and immortal arrays. */
static inline void *gleaner_allocate_array(gleaner_mutator *mutator,
                                           gleaner_type type, uint32_t length,
                                           size_t element_bytes)
{
    size_t bytes = gleaner_array_bytes(length, element_bytes);
    uintptr_t object = gleaner_zero_room(mutator, bytes,
                                         gleaner_whole_bytes(mutator));

    GLEANER_HAS_SIZE(mutator, type, true, length, bytes);
    return object != 0
               ? gleaner_begin_array(object, type, length)
               : gleaner_allocate_array_slowly(mutator, type, length, bytes);
}

/* A fresh object of a type with `length` elements behind a head. */
static inline void *gleaner_allocate_tailed(gleaner_mutator *mutator,
                                            gleaner_type type, uint32_t length,
                                            size_t head, size_t element)
{
    size_t bytes = gleaner_tailed_bytes(length, head, element);
    uintptr_t object = gleaner_zero_room(mutator, bytes, GLEANER_LARGE);

    GLEANER_HAS_SIZE(mutator, type, true, length, bytes);
    return object != 0
               ? gleaner_begin_array(object, type, length)
               : gleaner_allocate_array_slowly(mutator, type, length, bytes);
}

/* The same for a caller who writes every byte of the fields, up to the end of
   the last 8 bytes, or every element of the array, before the next allocation or
   poll: nothing is zeroed for it. Slots are written with gleaner_initialize or
   gleaner_store, elements with the functions that initialize them. */
static inline void *gleaner_allocate_initialized(gleaner_mutator *mutator,
                                                 gleaner_type type,
                                                 size_t bytes)
{
    size_t rounded = gleaner_rounded(bytes);
    uintptr_t object = gleaner_room(mutator, rounded, GLEANER_LARGE);

    GLEANER_HAS_SIZE(mutator, type, false, 0, rounded);
    return object != 0
               ? gleaner_begin(object, type)
               : gleaner_allocate_initialized_slowly(mutator, type, rounded);
}
static inline void *
gleaner_allocate_array_initialized(gleaner_mutator *mutator, gleaner_type type,
                                   uint32_t length, size_t element_bytes)
{
    size_t bytes = gleaner_array_bytes(length, element_bytes);
    uintptr_t object = gleaner_room(mutator, bytes,
                                    gleaner_whole_bytes(mutator));

    GLEANER_HAS_SIZE(mutator, type, true, length, bytes);
    if (object == 0)
        return gleaner_allocate_array_initialized_slowly(mutator, type, length,
                                                         bytes);
    if (length * element_bytes % 8 != 0)
        *(uint64_t *)(object + bytes - 8) = 0;
    return gleaner_begin_array(object, type, length);
}

/* A fresh object or array of zeros that never moves, however small: for calls
   that keep its address. The array lies in one piece. Large objects never move
   anyway, and large arrays neither that lie in one piece. Objects of
   gleaner_tailed cannot be pinned: large ones alone never move. */
void *gleaner_allocate_pinned(gleaner_mutator *mutator, gleaner_type type,
                              size_t bytes);
void *gleaner_allocate_array_pinned(gleaner_mutator *mutator, gleaner_type type,
                                    uint32_t length, size_t element_bytes);

/* A fresh array of zeros that lives as long as its heap: for tables that a
   runtime has to its end. One in pieces has all its arraylets from the start,
   and keeps them to itself: no store into it takes memory of the heap, so none
   fails. While it is not large it may move as any other, and nobody tells where
   it is: what refers to it is in a root or in an object, as if it could die.
   Each takes a place in the heap's table of handles (some four million
   in a large heap, a quarter of its bytes in a small one), but
   gleaner_heap_free does not wait for it. NULL when either is full. */
void *gleaner_allocate_array_immortal(gleaner_mutator *mutator,
                                      gleaner_type type, uint32_t length,
                                      size_t element_bytes);

/* ---- objects ------------------------------------------------------------- */

static inline gleaner_type gleaner_type_of(const void *object)
{
    return (gleaner_type)(*(const volatile uint64_t *)object >> 40);
}
static inline uint32_t gleaner_length(const void *array)
{
    return *(const uint32_t *)((const char *)array + 8);
}

/* Of compressed references: the word of a slot that holds a value, and back. */
#ifdef GLEANER_DEBUG
void gleaner_no_integer(gleaner_value value);
#define GLEANER_FITS(value)                                                    \
    ((int64_t)(value) == (int32_t)(value) ? (void)0 : gleaner_no_integer(value))
#else
#define GLEANER_FITS(value) ((void)0)
#endif
static inline uint32_t gleaner_narrow(const gleaner_mutator *mutator,
                                      gleaner_value value)
{
    if ((value & 1) != 0)
        GLEANER_FITS(value);
    if ((value & 1) != 0 || value == 0)
        return (uint32_t)value;
    return (uint32_t)((value - mutator->base) / 4);
}
static inline gleaner_value gleaner_widen(const gleaner_mutator *mutator,
                                          uint32_t word)
{
    if ((word & 1) != 0)
        return (gleaner_value)(int64_t)(int32_t)word;
    return word == 0 ? 0 : mutator->base + (uint64_t)word * 4;
}

/* Reads the slot at `offset` of an object. */
static inline gleaner_value gleaner_load(const gleaner_mutator *mutator,
                                         const void *object, size_t offset)
{
    const char *slot = (const char *)object + offset;

    if (mutator->slot_bytes == 8)
        return __atomic_load_n((const uint64_t *)slot, __ATOMIC_ACQUIRE);
    return gleaner_widen(mutator, __atomic_load_n((const uint32_t *)slot,
                                                  __ATOMIC_ACQUIRE));
}

/* Writes the slot at `offset` of a fresh object: one that is not pinned, since
   whose allocation this mutator has not allocated, polled or blocked. What is
   young needs no write barrier. */
static inline void gleaner_initialize(gleaner_mutator *mutator, void *object,
                                      size_t offset, gleaner_value value)
{
    char *slot = (char *)object + offset;

    if (mutator->slot_bytes == 8)
        __atomic_store_n((uint64_t *)slot, value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint32_t *)slot, gleaner_narrow(mutator, value),
                         __ATOMIC_RELEASE);
}

/* Writes the slot at `offset` of an object, through the write barrier. */
static inline void gleaner_store(gleaner_mutator *mutator, void *object,
                                 size_t offset, gleaner_value value)
{
    uintptr_t slot = (uintptr_t)object + offset;

    gleaner_initialize(mutator, object, offset, value);
    *(volatile uint8_t *)(mutator->cards + (slot >> 9)) = 1;
}

/* A number that stays the same as long as the object lives: 1 to 2^28 - 1. */
uint32_t gleaner_identity_hash(gleaner_mutator *mutator, void *object);

/* ---- elements of arrays -------------------------------------------------- */

#include "gleaner_elements.h"

/* ---- collections --------------------------------------------------------- */

/* In loops without allocation, so that other threads need not wait. */
static inline void gleaner_poll(gleaner_mutator *mutator)
{
#ifdef GLEANER_DEBUG
    /* Which ends the process in a window and in a blocking region. */
    gleaner_poll_slowly(mutator);
#else
    if (mutator->poll != 0)
        gleaner_poll_slowly(mutator);
#endif
}

/* Collects the young generation, or everything. */
void gleaner_collect(gleaner_mutator *mutator, bool everything);

/* Stops all other mutators and visits every object once; nothing moves
   meanwhile. It begins with a poll: another thread may collect first, so what the
   caller needs afterwards, or looks for in `visit`, is in a root. Objects that died since the last collection may be among them.
   `visit` uses no mutator, attaches to no heap, waits for no other thread and
   does not longjmp. */
void gleaner_walk(gleaner_mutator *mutator,
                  void (*visit)(void *data, void *object, size_t bytes),
                  void *data);

struct gleaner_totals {
    uint64_t scavenges, full_collections;
    uint64_t stopped_ns, longest_stop_ns;
    uint64_t survived_bytes, promoted_bytes;
    /* Until the last collection, without what each allocation zeroes itself:
       what mutators zeroed, what zeroing threads zeroed; the processor time of
       the ones and of the others for it, sampled; and how long mutators waited
       for zeroing threads. */
    uint64_t zeroed_bytes, zeroed_ahead_bytes;
    uint64_t zeroing_ns, zeroing_ahead_ns, stalled_ns;
    /* How often collections looked at the key of an ephemeron. */
    uint64_t ephemeron_looks;
};
void gleaner_get_totals(gleaner_mutator *mutator, struct gleaner_totals *into);
/* Collects everything, and writes the report of option array-report to the
   standard error stream: what arrays there are, and what cutting them into
   pieces saves. False without that option. */
bool gleaner_print_array_report(gleaner_mutator *mutator);
/* Bytes in use, by objects dead or alive and by buffers. */
size_t gleaner_used(const gleaner_heap *heap);

/* What happened in one phase of a collection. `phase` is copy, mark, slide and
   so on; what bytes and objects count is that phase's. */
struct gleaner_event {
    const char *phase, *reason;
    uint64_t collection, start_ns, duration_ns, bytes, objects;
    uint32_t workers;
};
struct gleaner_collection {
    uint64_t number;     /* from 1 */
    const char *reason;  /* why there was one */
    uint64_t stopped_ns; /* how long all threads were stopped */
    bool everything;     /* or the young generation alone */
    size_t event_count;
    const struct gleaner_event *events; /* the phases, in their order */
};
/* Has each collection told to `listener` when it is over and the other threads
   run again; what it is given lasts as long as the call. It may be called by
   several threads at once. It must not use a mutator of this heap, but for its
   totals, nor leave by longjmp. It may attach another. It lasts as long as the
   heap. */
void gleaner_add_listener(gleaner_heap *heap,
                          void (*listener)(void *data,
                                           const struct gleaner_collection *of),
                          void *data);

/* ---- for a compiler ------------------------------------------------------ */

/* What the inline functions of this header would be with the numbers of one
   heap: a compiler emits them with these as constants. Check `barrier` and
   `arrays` first, and call the functions for what is not known. */
enum {
    GLEANER_BARRIER_CARDS = 1,
    GLEANER_ARRAYS_CONTIGUOUS = 1, /* in one piece */
    GLEANER_ARRAYS_ZRAY = 2,       /* in pieces: see first_n */
    GLEANER_ARRAYS_GUARDED = 3     /* call for each access to an element */
};
struct gleaner_fast_paths {
    uint32_t version, bytes; /* GLEANER_INTERFACE; bytes of this record */
    /* Offsets in gleaner_mutator. */
    uint32_t cursor_offset, limit_offset, poll_offset, frames_offset;
    uint32_t anchor_offset, embedder_offset;
    /* The header of a fresh object is header_bits | type << type_shift. */
    uint64_t header_bits;
    uint32_t type_shift;
    uint32_t granule;       /* sizes of objects are multiples of it */
    uint32_t fresh_is_zero; /* else allocation zeroes the object */
    uint32_t arrays;        /* how arrays lie in memory */
    uint32_t length_offset, elements_offset;
    /* A slot holds (reference - slot_base) >> slot_shift; low bit 1: integer. */
    uint32_t slot_bytes, slot_shift;
    uint64_t slot_base;
    /* A store writes card_dirty to the byte card_base + (slot >> card_shift). */
    uint32_t barrier, card_shift;
    uint64_t card_base;
    uint32_t card_dirty;
    uint32_t large_bytes; /* larger objects, no arrays: call */
    uint32_t zeroes_offset; /* in a mutator: 0 while its buffer is zero already */
    uint32_t whole_bytes;   /* larger arrays: call */
    /* Bytes of the elements of each array that lie at elements_offset. An access
       that ends beyond them calls. A load need not, and a store that keeps to
       what follows need not either: if the header's spine_bit is 0, the array
       lies in one piece; else of an offset into the elements, minus first_n,
       what is above arraylet_shift is the number of a pointer. These lie at
       elements_offset + first_n, have 2^pointer_shift bytes, are loaded by an
       acquire, and lead to pointer_base + ((pointer & ~taint_bit) << slot_shift),
       to which the rest of the offset is added. Behind zero_pointer all is zero.
       A store calls if the pointer has the taint_bit. A pointer is not used
       behind the next poll or call. */
    uint64_t first_n;
    uint32_t arraylet_shift, pointer_shift;
    uint64_t pointer_base, zero_pointer, spine_bit;
    /* In a mutator: the same numbers, for code that is for any heap. That of
       pointer_shift is of no use with GLEANER_ARRAYS_GUARDED. */
    uint32_t first_n_offset, whole_bytes_offset, arraylet_shift_offset;
    uint32_t pointer_shift_offset, pointer_base_offset;
    uint32_t taint_bit;
};
/* Fills `bytes` bytes, which are sizeof(struct gleaner_fast_paths); what this
   library does not know is 0. */
void gleaner_get_fast_paths(const gleaner_heap *heap,
                            struct gleaner_fast_paths *into, size_t bytes);

/* Has the roots in compiled frames visited: for each stopped mutator `visit` is
   called, finds the frames from mutator->anchor and a stack map, and calls
   visitor->visit for each root slot, 8 bytes wide. Compiled code writes the
   anchor before it calls what may poll. `visit` keeps what is asked of the
   functions of gleaner_traced; it is called several times in a collection and
   for several mutators at once. NULL for none. Call this before the first thread
   attaches, or while the calling thread is no mutator. */
void gleaner_set_root_visitor(gleaner_heap *heap,
                              void (*visit)(void *data,
                                            const gleaner_mutator *mutator,
                                            struct gleaner_visitor *visitor),
                              void *data);

/* ---- handles, weak references, ephemerons, finalizers -------------------- */

/* What a collection finds dead goes in this order. Ephemerons keep the values of
   keys that live. Then weak references to the dead become null: also those to
   objects with finalizers, and to what these alone reach. Then dead objects with
   finalizers come to life again, with all that they reach, also through
   ephemerons; all at once, even one to which another of them refers, and in no
   particular order. Ephemerons whose keys are dead even then become null. So a
   weak reference to what is handed out is null already, and an ephemeron of it
   holds until it dies again. A collection of the young generation does this to
   young objects, one of everything to all. */

/* A handle keeps what it holds alive until it is freed, by any thread. All
   kinds: NULL when the heap has as many as it can. */
typedef struct gleaner_handle gleaner_handle;
gleaner_handle *gleaner_handle_new(gleaner_mutator *mutator,
                                   gleaner_value value);
gleaner_value gleaner_handle_get(const gleaner_handle *handle);
void gleaner_handle_free(gleaner_handle *handle);

/* Refers to an object without keeping it alive; 0 once it is dead. */
typedef struct gleaner_weak gleaner_weak;
gleaner_weak *gleaner_weak_new(gleaner_mutator *mutator, void *object);
gleaner_value gleaner_weak_get(const gleaner_weak *weak);
void gleaner_weak_free(gleaner_weak *weak);

/* Keeps a value alive as long as its key, which is not null, lives; both 0 once that is dead. */
typedef struct gleaner_ephemeron gleaner_ephemeron;
gleaner_ephemeron *gleaner_ephemeron_new(gleaner_mutator *mutator, void *key,
                                         void *value);
gleaner_value gleaner_ephemeron_key(const gleaner_ephemeron *ephemeron);
gleaner_value gleaner_ephemeron_value(const gleaner_ephemeron *ephemeron);
void gleaner_ephemeron_free(gleaner_ephemeron *ephemeron);

/* When nothing refers to the object any more, gleaner_next_finalizable hands
   it out once, alive again; once for each time that it was added. False when the
   heap has as many as it can. */
bool gleaner_add_finalizer(gleaner_mutator *mutator, void *object);
/* NULL when none is ready. */
void *gleaner_next_finalizable(gleaner_mutator *mutator);

#ifdef __cplusplus
}
#endif

#endif
