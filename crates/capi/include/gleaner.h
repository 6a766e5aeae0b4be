/*
 * gleaner.h: a precise, moving, generational garbage collector for a language
 * runtime written in C or C++.
 *
 * A heap holds objects of registered types. A thread attaches to a heap and
 * becomes a mutator. References are plain addresses. Objects may move at every
 * allocation, at every poll, and where an element of an array is stored.
 * gleaner_collect, gleaner_get_totals, gleaner_walk, gleaner_set_limit,
 * gleaner_trim, gleaner_census, gleaner_snapshot and blocking regions are polls,
 * too. Keep each reference that you need afterwards in a root: a frame
 * of the shadow stack, a handle, or an object that is reached from one.
 *
 *     GLEANER_FRAME(m, frame, 1);              declares one root and links it
 *     frame.values[0] = gleaner_reference(gleaner_allocate(m, type, bytes));
 *     ...
 *     GLEANER_LEAVE(m, frame);
 *
 * An object begins with a header of 8 bytes, which is the collector's. Its
 * fields follow at offset 8. An array has its length (4 bytes) at offset 8.
 * Where the elements of an array lie is not fixed: functions read and write
 * them. Fresh objects are zero. A slot is the place of a reference in an
 * object. It has m->slot_bytes bytes (8, or 4 with compressed references) and
 * holds a value: null (0), a reference, or a small integer (low bit 1).
 *
 * Only the thread of a mutator may pass it to a function. If a function can
 * fail, its comment says what it answers then. A full heap is reported and
 * never aborts the process. A mistake that is noticed ends the process with one
 * line on the standard error stream, "gleaner: ..."; RUST_BACKTRACE=1 adds
 * where it was made. Always noticed are calls with a mutator that was detached
 * or is another thread's, with a handle or a heap that was freed, and by a
 * function that a collection calls. Define GLEANER_DEBUG before you include
 * this header, and the inline functions notice these mistakes, too.
 */
#ifndef GLEANER_H
#define GLEANER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One number is the version of this interface, of the header of objects and of
   the published fields. gleaner_interface() returns that of the library that is
   linked. */
#define GLEANER_INTERFACE 10
uint32_t gleaner_interface(void);

/* ---- heaps --------------------------------------------------------------- */

typedef struct gleaner_heap gleaner_heap;

/* Option `arrays` chooses, for each heap, whether arrays lie in one piece or in
   pieces. An array in pieces has the first N bytes of its elements (option
   `first-n`) behind its length, and the rest elsewhere. Code that includes this
   header reads N from the mutator at run time. Code that is only for some heaps
   may define one of these macros before it includes the header:
     GLEANER_ARRAYS_WHOLE  all arrays lie in one piece: nothing is tested;
     GLEANER_FIRST_N 4096  at least the first 4096 bytes of each array's
                           elements lie in one piece: N is a constant.
   A heap that is not as the macro says is refused: gleaner_heap_new answers
   NULL with a message, and gleaner_attach ends the process. With GLEANER_DEBUG
   defined, each access to an element also checks the heap. */
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
/* With GLEANER_DEBUG, the inline functions below that allocate, store or poll
   check that the mutator is one of the calling thread's and in no blocking
   region, and gleaner_detach that all frames were left. `what` is what is done,
   for the message. */
#ifdef GLEANER_DEBUG
struct gleaner_mutator;
void gleaner_check_calls(void);
void gleaner_check_use(const struct gleaner_mutator *mutator, const char *what);
#define GLEANER_CHECK_CALLS() gleaner_check_calls()
#define GLEANER_MAY_USE(mutator, what) gleaner_check_use(mutator, what)
#else
#define GLEANER_CHECK_CALLS() ((void)0)
#define GLEANER_MAY_USE(mutator, what) ((void)0)
#endif

/* How many bytes of each array's elements lie in one piece, as far as it is
   known at compile time; 0 if it is not. */
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

/* What becomes of options in the environment (GLEANER_OPTIONS) that change how
   objects lie in memory: `refs`, `arrays`, and what says how arrays are cut.
   Code that was compiled for slots of 8 bytes, or for arrays in one piece, is
   wrong on another heap. */
enum gleaner_outside_layout {
    GLEANER_LAYOUT_REFUSED = 0,  /* no heap is made; the message names the
                                    option */
    GLEANER_LAYOUT_LEFT_OUT = 1, /* a line on standard error says so, and the
                                    heap is as the program asks */
    GLEANER_LAYOUT_FOLLOWED = 2  /* they count: the code of the program takes
                                    the size of a slot and the pieces of arrays
                                    from the heap, as the functions and macros
                                    below do */
};

/* Makes the threads of a heap: those that work in collections and those that
   zero memory. `start` starts a thread that calls run(argument) once, and
   answers what `join` is given, or NULL if there is no thread; the heap then
   does without. `join` waits until the thread has ended. Both may be called on
   any thread. They are called when the heap is made and freed, and `start` in a
   forked child when a collection needs threads again. They must not use the
   heap, and must last as long as it does.

   A thread should have 2 MB of stack and block the signals that the program
   handles. It gives itself its name, which `start` is also given. */
struct gleaner_thread_factory {
    void *(*start)(void *data, const char *name, void (*run)(void *argument),
                   void *argument);
    void (*join)(void *data, void *thread);
    void *data; /* passed to both */
};

/* A field that is 0 has its default. A field accepts what the option of its
   name accepts (docs/options.md; the name for `limit` is heap-limit), and
   refuses what that option refuses.

   Compressed references reach 16 GB of addresses. The limit of a heap that has
   them is therefore at most 13 GB. It is at most 7 GB with arrays in pieces
   (option `arrays`), which have addresses of their own.

   What large objects may take of such a heap depends on the limit. If it is at
   most 7.5 GB (5 GB with arrays in pieces), they may fill the heap. If it is
   larger, they may take 16 GB minus 33/32 of the limit: some 6.5 GB under a
   limit of 9 GB, and 2.5 GB under 13 GB.

   What small pinned objects may take depends on the limit, too. If it is at
   most 5 GB (3.5 GB with arrays in pieces), they may take all that is not
   young. If it is larger, but at most 7 GB (4.5 GB with arrays in pieces), they
   may take a quarter of it, and if it is larger still, a thirty-third.

   With option plan=naps or quarantine, all these sizes are smaller. The default
   limit is never more than the options allow. A limit that you set and that is
   too large is refused, with a message that names the largest.

   A heap reserves addresses for some six times its limit. Where the addresses
   of a process are limited (ulimit -v), it reserves fewer, and leaves an eighth
   of them to the program. It takes the addresses of large objects only as these
   are used, so large objects may fill the heap if the process has addresses
   left for some 2.8 times the heap's limit. Heaps with arrays in pieces, and
   those on several memory nodes, reserve all their addresses at once. If fewer
   than some four times the limit and 250 MB are left, large objects in them may
   take only a part of the limit, which may be as little as an eighth. */
struct gleaner_options {
    size_t limit;     /* bytes of all objects; default: a quarter of the
                         machine's memory, at most 8 GB */
    size_t young;     /* bytes of the young generation at first; the heap
                         resizes it. Default: a third of the limit, at most 64
                         MB. With option resize=off it keeps its size, and the
                         default is a third of the limit */
    uint32_t workers; /* most threads that collect; default: one for each
                         processor and each MB of the limit, up to 16 */
    uint32_t tlab;    /* bytes of a mutator's buffer; default: 32 KB */
    uint32_t stress;  /* testing: collects at every n-th allocation */
    bool compressed;  /* slots of 4 bytes; see above */
    bool verify;      /* testing: checks the heap at each collection */
    bool poison;      /* testing: overwrites what is freed */
    bool ignore_environment; /* GLEANER_OPTIONS is not read */
    enum gleaner_outside_layout outside_layout; /* see above */
    const char *list; /* options by name (docs/options.md), or NULL; they
                         override the fields: "heap-limit=1g,tenure=3" */
    const struct gleaner_thread_factory *threads; /* or NULL: the system makes
                                                     them */
};

/* For gleaner_heap_new only. */
gleaner_heap *gleaner_heap_new_knowing(size_t first_n,
                                       const struct gleaner_options *options,
                                       char *message, size_t message_bytes);

/* Makes a heap. If that fails it answers NULL, and writes the reason to
   `message` (unless that is NULL), in at most `message_bytes` bytes. `options`
   may be NULL. The environment variable GLEANER_OPTIONS overrides all options
   but those of the layout (outside_layout). It is ignored if you ask for that,
   and in a program that runs with more rights than its user (setuid). */
static inline gleaner_heap *
gleaner_heap_new(const struct gleaner_options *options, char *message,
                 size_t message_bytes)
{
    GLEANER_CHECK_CALLS();
    return gleaner_heap_new_knowing(gleaner_known_first_n(), options, message,
                                    message_bytes);
}

/* Ends the heap and frees all its memory. If `heap` is NULL, nothing happens
   and the answer is true. While the heap has mutators, handles, weak references
   or ephemerons, this does nothing and answers false. A heap that is used after
   it was freed, or freed twice, ends the process with a message. */
bool gleaner_heap_free(gleaner_heap *heap);

/* ---- types --------------------------------------------------------------- */

/* The number of a type. A registration that fails answers 0, which is no type,
   and writes the reason to `message`, if the function has one and it is not
   NULL. Types last as long as the heap, or until gleaner_unregister_types. */
typedef uint32_t gleaner_type;

/* Objects of `bytes` bytes, which include the 8 bytes of the header. Their
   slots are at the `count` offsets, in ascending order. */
gleaner_type gleaner_structure(gleaner_heap *heap, size_t bytes,
                               const uint32_t *offsets, size_t count,
                               char *message, size_t message_bytes);
/* Arrays of slots. */
gleaner_type gleaner_references(gleaner_heap *heap);
/* Arrays without references, with elements of 1, 2, 4 or 8 bytes. */
gleaner_type gleaner_primitives(gleaner_heap *heap, size_t element_bytes);
/* The same, but each array of the type lies in one piece, whatever option
   `arrays` says: for arrays whose address native code is given. */
gleaner_type gleaner_references_whole(gleaner_heap *heap);
gleaner_type gleaner_primitives_whole(gleaner_heap *heap, size_t element_bytes);

/* A structure with elements behind it: a closure with its variables, a frame
   with its registers, an array of structures. As in an array, the length (4
   bytes) is at offset 8. */
struct gleaner_tail {
    size_t head;             /* bytes before the first element, at least 16 */
    const uint32_t *offsets; /* ascending offsets of the slots in the head */
    size_t count;
    size_t element;                  /* bytes of an element */
    const uint32_t *element_offsets; /* of an element's slots, from its start */
    size_t element_count;
};
gleaner_type gleaner_tailed(gleaner_heap *heap, const struct gleaner_tail *tail,
                            char *message, size_t message_bytes);

/* Types with slots that are weak: a weak reference, an ephemeron, or a whole
   table of either, as objects of the heap. There may be any number of them,
   and they die like other objects. A scavenge does not look at those that are
   old and refer to no young object.

   A weak slot does not keep its object: it becomes 0 when nothing else does. An
   ephemeron is two slots side by side, a key and a value. While its object
   lives, the value lives as long as the key, even if the value refers to the
   key or to the table; then both become 0. An integer as a key lives for ever.
   With 0 as its key an ephemeron keeps nothing, and its value may become 0.

   The slots are loaded and stored as others are, and no function is needed to
   open them. The section on weak references below tells the order in which
   they are cleared. */
struct gleaner_slots {
    const uint32_t *references; /* ascending offsets of slots as usual */
    size_t reference_count;
    const uint32_t *weak; /* of weak slots */
    size_t weak_count;
    const uint32_t *ephemerons; /* of keys; the value is in the slot behind */
    size_t ephemeron_count;
};
struct gleaner_weak_layout {
    size_t head; /* bytes before the first element, at least 16; if there are
                    no elements, bytes of the object, also at least 16 */
    struct gleaner_slots slots;
    size_t element; /* bytes of an element; 0 if there are no elements */
    struct gleaner_slots element_slots; /* from the start of an element */
};
/* Objects with elements have a length at offset 8, as those of gleaner_tailed,
   and are allocated by gleaner_allocate_tailed, all others by
   gleaner_allocate. */
gleaner_type gleaner_weak_type(gleaner_heap *heap,
                               const struct gleaner_weak_layout *layout,
                               char *message, size_t message_bytes);

/* Types whose slots only a function can find. `trace` calls visitor->visit for
   each slot of the object. `trace` and `size` run while all threads are
   stopped, on several threads at once, and also for dead objects. They must
   keep these rules:

   They allocate nothing, neither in the heap nor with malloc. They take no lock
   that a thread of the program may hold.

   They may read only data of the object that is not a slot, and not its first 8
   bytes. They follow no pointer to anything that a finalizer frees.

   They give the same answer each time. `trace` visits each slot exactly once.
   `size` returns the size with which the object was allocated. What `size`
   reads must be written after the object is allocated, and before the next
   allocation or poll. */
struct gleaner_visitor {
    void (*visit)(struct gleaner_visitor *visitor, void *slot);
    /* For functions that visit roots: see gleaner_roots.h. */
    void (*visit_slot)(struct gleaner_visitor *visitor, void *slot);
    void (*visit_derived)(struct gleaner_visitor *visitor, void *base,
                          void *const *derived, size_t count);
};
struct gleaner_traced {
    size_t bytes;   /* of an object, or of its head if it has elements */
    size_t element; /* bytes of an element, 0 for none: as in gleaner_tail */
    size_t (*size)(void *data, const void *object); /* or NULL */
    void (*trace)(void *data, void *object, struct gleaner_visitor *visitor);
    void *data; /* passed to both; must last as long as the heap */
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
/* The object to which a value refers; NULL if it is null or an integer. */
static inline void *gleaner_object(gleaner_value value)
{
    return (value & 1) != 0 ? NULL : (void *)(uintptr_t)value;
}
/* An integer has 63 bits. With compressed references a slot keeps 31 of them,
   and larger integers lose the rest; with GLEANER_DEBUG defined, storing one
   ends the process. */
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

/* A frame of the shadow stack. Its `count` values follow it in memory. */
struct gleaner_frame {
    struct gleaner_frame *previous;
    size_t count;
};

/* Where the thread left compiled code the last time. All fields are 0 when no
   compiled code is on the stack. */
struct gleaner_anchor {
    uintptr_t frame_pointer, program_counter, stack_pointer;
};

/* The published fields of a mutator. Code may read all of them. It may write
   only `cursor` (by allocating), `frames`, `anchor` and `embedder`. */
typedef struct gleaner_mutator {
    uintptr_t cursor, limit;      /* the buffer for allocation */
    volatile uint32_t poll;       /* if not 0, call gleaner_poll_slowly */
    uint32_t slot_bytes;          /* 8, or 4 */
    uintptr_t base;               /* compressed references count from here */
    uintptr_t cards;              /* the card of address a is at cards + a / 512 */
    struct gleaner_frame *frames; /* the newest frame, or NULL */
    struct gleaner_anchor anchor; /* for the root visitor */
    void *embedder;               /* yours */
    uint32_t zeroes;              /* 0 while the buffer is zero already */
    uint32_t windows;             /* how many windows are open */
    /* How arrays lie in memory; see gleaner_fast_paths. */
    uintptr_t first_n;
    uint32_t arraylet_shift, pointer_shift;
    uintptr_t pointer_base;
    uint64_t zero_pointer;
    uintptr_t whole_bytes; /* to allocate a larger array, call */
} gleaner_mutator;

/* For gleaner_attach only. */
gleaner_mutator *gleaner_attach_knowing(gleaner_heap *heap, size_t first_n);

/* The calling thread becomes a mutator. The answer is NULL if the system gives
   no memory; a line on the standard error stream then explains that. It is also
   NULL in destructors that run after a thread's end was noticed (see below).

   A thread that is already a mutator of this heap must first detach, or be in a
   blocking region of that mutator. Otherwise the process ends with a
   message. */
static inline gleaner_mutator *gleaner_attach(gleaner_heap *heap)
{
    GLEANER_CHECK_CALLS();
    return gleaner_attach_knowing(heap, gleaner_known_first_n());
}
/* The calling thread stops being a mutator, inside a blocking region or
   outside. Nothing happens if the mutator is no longer one of this thread's.
   With GLEANER_DEBUG defined, to detach inside an open frame, or the mutator of
   another thread, ends the process with a message. With the options quarantine
   and verify=edges, the first does in any case.

   A thread that ends attached, in whatever way, is detached from all its heaps.
   This happens in the last round in which the C library calls the destructors
   of thread-specific data. Your own destructors usually run before that, and
   those of C++ thread_local objects always do. They may use the mutator and
   detach it, if the thread has left its frames.

   No collection looks at the frames of a detached thread. A thread that ends
   inside a blocking region must leave its frames first, since others collect
   while its stack goes away. If it may be cancelled there, a cleanup handler
   must leave them.

   A thread that attaches for the first time in a destructor should also detach
   there. Otherwise it is detached in the next round of destructors. If there is
   no further round, the next collection waits for the thread for a tenth of a
   second, and then finds that it is gone.

   The process's first thread is not detached when it returns from main. */
void gleaner_detach(gleaner_mutator *mutator);

/* What a thread is for; see docs/placement.md. */
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
/* Registers what the calling thread is for. The thread need not be a mutator.
   It is named "gleaner-" and the name of the role; the kernel keeps the first
   15 bytes of that. By this name `gleaner place` decides where the thread runs.
   The answer is false if the number is no role. */
bool gleaner_set_thread_role(gleaner_role role);

/* Between these two calls the thread may block, and others may collect. It must
   not use the heap. Regions nest: only the end of the outermost one lets the
   thread use the heap again.

   In a region, a call that allocates, collects, walks, copies elements or makes
   a handle ends the process with a message. So does a poll for which a
   collection waits, and with GLEANER_DEBUG defined every poll and every store.
   So does an end without a beginning, a beginning in a function for which the
   heap is stopped, and the end of a listener in a region that it began.
   gleaner_get_totals is allowed. A mutator of the same heap that the thread
   attached inside the region must be detached before the region ends; otherwise
   the process ends with a message.

   A thread that is a mutator of two heaps must be in a blocking region of the
   one while it uses the other; otherwise two threads may wait for each
   other. */
void gleaner_blocking_begin(gleaner_mutator *mutator);
void gleaner_blocking_end(gleaner_mutator *mutator);

/* fork: the child has all heaps as they were, and the mutators of the thread
   that forked. The mutators of other threads are gone, with their roots.
   Nothing that the forking thread holds moves in a fork. The fork waits until
   each other mutator polls, blocks, or takes the slow path of an allocation. In
   the child, heaps are used, collected and freed as in any process; its first
   collection starts the collector's threads again.

   Do not fork in `visit` of gleaner_walk, in a signal handler, or while another
   thread makes the process's first heap. Handlers of pthread_atfork that were
   registered before the first heap was made must not use a heap: they run while
   the fork holds all heaps.

   Before glibc 2.36, a thread that forks holds a lock of the C library while
   such handlers run. Two mutators that fork at once then wait for each other
   for ever. Where that may happen, fork in a blocking region, or let one thread
   fork at a time. */

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
/* Leave frames in the reverse order. A frame that was left and is still found
   on the shadow stack ends the process with a message. */
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

/* Objects of more bytes have pages of their own and never move. Of an array in
   pieces only the spine counts, which is smaller than the array. */
#define GLEANER_LARGE 16384

/* For generated code: the address of room in the buffer for an object of
   `bytes` bytes, a multiple of 8. The answer is 0 if there is no room, or if
   `bytes` is more than `most`. */
static inline uintptr_t gleaner_room(gleaner_mutator *mutator, size_t bytes,
                                     size_t most)
{
    uintptr_t object;

    GLEANER_MAY_USE(mutator, "an allocation");
    object = mutator->cursor;
    if (bytes > most || mutator->limit - object < bytes)
        return 0;
    mutator->cursor = object + bytes;
    /* What comes next is written soon. */
    __builtin_prefetch((void *)(object + 512), 1);
    return object;
}
/* The same, with zeros after the first 8 bytes, which the header takes. */
static inline uintptr_t gleaner_zero_room(gleaner_mutator *mutator, size_t bytes,
                                          size_t most)
{
    uintptr_t object = gleaner_room(mutator, bytes, most);

    if (object != 0 && mutator->zeroes != 0)
        __builtin_memset((void *)(object + 8), 0, bytes - 8);
    return object;
}
/* What to pass as `most` for an array: a larger array may lie in pieces. For
   other objects pass GLEANER_LARGE. */
static inline size_t gleaner_whole_bytes(const gleaner_mutator *mutator)
{
    size_t first_n = gleaner_known_first_n();

    if (first_n == 0)
        return mutator->whole_bytes;
    return first_n < GLEANER_LARGE - 16 ? first_n + 16 : GLEANER_LARGE;
}
/* With GLEANER_DEBUG, an object whose size is not that of its type and length
   ends the process with a message. */
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

/* `bytes` rounded up to a multiple of 8. Here and below, a size that does not
   fit into a word becomes one that no heap has, so that the allocation answers
   NULL. */
static inline size_t gleaner_rounded(size_t bytes)
{
    return bytes > SIZE_MAX - 7 ? SIZE_MAX - 7 : (bytes + 7) & ~(size_t)7;
}

/* A fresh object of a structure of `bytes` bytes. The answer is NULL if the
   heap is full even after collecting everything. */
static inline void *gleaner_allocate(gleaner_mutator *mutator,
                                     gleaner_type type, size_t bytes)
{
    size_t rounded = gleaner_rounded(bytes);
    uintptr_t object = gleaner_zero_room(mutator, rounded, GLEANER_LARGE);

    GLEANER_HAS_SIZE(mutator, type, false, 0, rounded);
    return object != 0 ? gleaner_begin(object, type)
                       : gleaner_allocate_slowly(mutator, type, rounded);
}

/* The bytes of an object with `length` elements behind a head, and of an
   array. */
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

/* A fresh array, or NULL when the heap is full. For an array of slots
   `element_bytes` is mutator->slot_bytes.

   The functions for arrays are not for types with a head (gleaner_tailed),
   because they would make the object too small. This mistake is noticed with
   GLEANER_DEBUG, and always for pinned and immortal arrays and for constants. */
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

/* A fresh object of a type with a head, with `length` elements behind it, or
   NULL when the heap is full. */
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

/* The two functions below do the same as gleaner_allocate and
   gleaner_allocate_array, but zero nothing. Before the next allocation or poll
   the caller must write every element of the array, or every byte of the
   fields, also the bytes by which the size is rounded up to a multiple of 8. It
   writes slots with gleaner_initialize or gleaner_store, and elements with the
   functions that initialize elements. */
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

/* A fresh object or array of zeros that never moves, however small it is: for
   calls that keep its address. The array lies in one piece. Large objects never
   move anyway, nor do large arrays that lie in one piece. An object of a
   gleaner_tailed type cannot be pinned; it stays in place only if it is
   large. A number that is no type of the program's, and a size that is not that
   of the type, end the process with a message. */
void *gleaner_allocate_pinned(gleaner_mutator *mutator, gleaner_type type,
                              size_t bytes);
void *gleaner_allocate_array_pinned(gleaner_mutator *mutator, gleaner_type type,
                                    uint32_t length, size_t element_bytes);

/* A fresh array of zeros that lives as long as its heap: for tables that a
   runtime keeps to its end. An immortal array in pieces has all its arraylets
   from the start and shares none of them. Stores into it therefore take no
   memory of the heap, and cannot fail.

   An immortal array that is not large may move, like any other object. Refer to
   it from a root or from an object, as if it could die: nothing else tells
   where it is.

   Each immortal array takes a place in the heap's table of handles, but
   gleaner_heap_free does not wait for it. The table has some four million
   places in a large heap; in one of less than 32 MB it has one place for each
   8 bytes of the limit. The answer is NULL when the heap or the table is
   full. */
void *gleaner_allocate_array_immortal(gleaner_mutator *mutator,
                                      gleaner_type type, uint32_t length,
                                      size_t element_bytes);

/* Constants: fresh objects of zeros that never move, live as long as the heap, and
   are not looked at by collections. A reference to one costs a collection one
   comparison. An array lies in one piece.

   References that are stored into a constant lead to other constants, or to
   objects that never move and never die, such as pinned ones that a handle keeps.
   With option verify, a collection that finds another ends the process with a
   message.

   Constants have an eighth of the limit that the heap was made with. Where there
   are fewer addresses, in large heaps with compressed references and under a limit
   on addresses, they have less: 16 MB at least, unless the system limits addresses
   so far that other objects would lack them. That place does not grow. When it is
   full, the answer is NULL, and nothing is collected: allocate the object pinned
   instead and keep it by a handle, which costs each full collection a look at it.
   The answer is also NULL when the heap is full. Treat these functions like any
   allocation.

   A number that is no type of the program's, and a size that is not that of the
   type, end the process with a message. So does a type with weak slots or
   ephemerons: no collection would clear them. */
void *gleaner_allocate_constant(gleaner_mutator *mutator, gleaner_type type,
                                size_t bytes);
void *gleaner_allocate_array_constant(gleaner_mutator *mutator,
                                      gleaner_type type, uint32_t length,
                                      size_t element_bytes);
/* Bytes of constants that there is room for yet, if what else lives leaves as many
   below the limit. */
size_t gleaner_constants_left(const gleaner_heap *heap);

/* ---- objects ------------------------------------------------------------- */

/* What code may read of an object's header, and what it finds. While a thread is
   a mutator and runs (from one poll to the next), the 8 bytes at the start of an
   object are

     bits 40 to 63   the number of the object's type, which never changes;
     bits 37 and 36  how an array lies in memory: bit 36 is spine_bit of
                     gleaner_fast_paths, and 0 for all else; neither changes;
     bits 8 to 35    the identity hash, or 0 before gleaner_identity_hash gave
                     one; it changes once, from 0 to what it is from then on;
     bits 4 to 7     the age, which only collections change;
     bits 0 and 1    0: the object is where the reference leads.

   Bits 2, 3, 38 and 39 may be anything. A plain load of 8 bytes is enough, also
   while other threads ask for the hash. What the load found of type and layout
   holds until the object dies, wherever it moves, so it may be kept over a poll.
   Between two polls the word changes only when the object gets its hash.

   Nobody but the collector and the functions of this header writes the word,
   except that generated code writes it once into a fresh object. Trace functions
   and functions that visit roots run while the world is stopped, and must not
   read it. The promise holds for this GLEANER_INTERFACE. */
static inline gleaner_type gleaner_type_of(const void *object)
{
    return (gleaner_type)(*(const volatile uint64_t *)object >> 40);
}
/* The identity hash, if the object has one already; else 0: call
   gleaner_identity_hash. */
static inline uint32_t gleaner_known_hash(const void *object)
{
    return (uint32_t)(*(const volatile uint64_t *)object >> 8) & 0xfffffff;
}
static inline uint32_t gleaner_length(const void *array)
{
    return *(const uint32_t *)((const char *)array + 8);
}

/* Compressed references: from a value to the word that a slot holds, and
   back. */
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

/* Writes the slot at `offset` of a fresh object without the write barrier,
   which a young object does not need. The object is not pinned, and this
   mutator has not allocated, polled or blocked since it allocated the
   object. */
static inline void gleaner_initialize(gleaner_mutator *mutator, void *object,
                                      size_t offset, gleaner_value value)
{
    char *slot = (char *)object + offset;

    GLEANER_MAY_USE(mutator, "a store");
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

/* Writes `value` to the slot at `offset` of an object, through the write
   barrier, if the slot holds `*expected`. If it does not, the answer is false,
   and `*expected` becomes what the slot holds. This neither collects nor
   fails. */
static inline bool gleaner_swap(gleaner_mutator *mutator, void *object,
                                size_t offset, gleaner_value *expected,
                                gleaner_value value)
{
    uintptr_t slot = (uintptr_t)object + offset;

    GLEANER_MAY_USE(mutator, "a store");
    if (mutator->slot_bytes == 8) {
        if (!__atomic_compare_exchange_n((uint64_t *)slot, expected, value,
                                         false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE))
            return false;
    } else {
        uint32_t word = gleaner_narrow(mutator, *expected);

        if (!__atomic_compare_exchange_n(
                (uint32_t *)slot, &word, gleaner_narrow(mutator, value), false,
                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            *expected = gleaner_widen(mutator, word);
            return false;
        }
    }
    *(volatile uint8_t *)(mutator->cards + (slot >> 9)) = 1;
    return true;
}

/* A number from 1 to 2^28 - 1 that stays the same as long as the object lives.
   NULL, an integer and an object of another heap end the process with a
   message. */
uint32_t gleaner_identity_hash(gleaner_mutator *mutator, void *object);

/* ---- arrays that shrink -------------------------------------------------- */

/* Makes an array, or an object of a type with elements behind a head (also of
   gleaner_weak_type), have only its first `length` elements. The object stays
   where it is, and so does each element that remains; the call does not
   collect. The other elements are gone: collections make use of their memory,
   and pages of a large array are given back to the system, but count as used
   until the array dies. An array in pieces (option `arrays`) stays one, however
   short it is; the arraylets that it had to itself are free, those that it
   shared live as long as other arrays have them.

   A length that is larger, an object that has no length, and an open window end
   the process with a message.

   No cursor shows the elements that go, and no other thread uses them. */
void gleaner_shrink(gleaner_mutator *mutator, void *array, uint32_t length);

/* ---- user data of types -------------------------------------------------- */

/* A word for each type, which the collector does not look at: for what a runtime
   itself has to say about the objects of a type. It is NULL before it is set.
   Any thread may set it at any time; one that finds it finds what was written
   before. Compiled code finds it without a call (gleaner_fast_paths). A number
   that is no type of the heap ends the process with a message. */
void gleaner_set_type_data(gleaner_heap *heap, gleaner_type type, void *data);
void *gleaner_type_data(const gleaner_heap *heap, gleaner_type type);

/* Collects everything, and then unregisters those of `count` types that have no
   object: their numbers in `types` become 0. What is not 0 afterwards is in use.
   The answer is how many were unregistered. A later registration may give such a
   number to another type.

   This stops all other mutators and visits every object, so pass many types at
   once. An object that waits for its finalizer is one that a type has. No thread
   allocates objects of these types during the call, or of those that were
   unregistered afterwards. A number that is no type of the heap ends the process
   with a message. */
size_t gleaner_unregister_types(gleaner_mutator *mutator, gleaner_type *types,
                                size_t count);

/* ---- elements of arrays -------------------------------------------------- */

#include "gleaner_elements.h"

/* ---- collections --------------------------------------------------------- */

/* Call this in loops that do not allocate: a collection, and with it every
   thread that needs one, waits until this thread polls. */
static inline void gleaner_poll(gleaner_mutator *mutator)
{
#ifdef GLEANER_DEBUG
    /* Ends the process in a window or a blocking region. */
    gleaner_poll_slowly(mutator);
#else
    if (mutator->poll != 0)
        gleaner_poll_slowly(mutator);
#endif
}

/* Collects everything, or only the young generation. */
void gleaner_collect(gleaner_mutator *mutator, bool everything);

/* Stops all other mutators and visits every object once; nothing moves
   meanwhile. Objects that died since the last collection may be among those
   visited. A walk begins with a poll, so another thread may collect first.
   Whatever the caller needs afterwards, or looks for in `visit`, must therefore
   be in a root. `visit` must not use a mutator, attach to a heap, wait for
   another thread, or leave by longjmp. */
void gleaner_walk(gleaner_mutator *mutator,
                  void (*visit)(void *data, void *object, size_t bytes),
                  void *data);

/* Stops all other mutators and calls `call`. It must not use the heap, wait for
   another thread, or leave by longjmp. This begins with a poll, so another
   thread may collect first. */
void gleaner_stop_and_call(gleaner_mutator *mutator, void (*call)(void *data),
                           void *data);

/* Calls `call` once for each mutator of the heap, also for this one, and
   returns when that is done. Mutators are not stopped for it: each runs `call`
   on its own thread when it next polls or takes the slow path of an allocation.
   For one in a blocking region, or one that waits, the calling thread runs it,
   and the mutator does not leave the region meanwhile. `call` may read the
   fields of the mutator that it is given. It must not use the heap, wait for
   another thread, or leave by longjmp. */
void gleaner_handshake(gleaner_mutator *mutator,
                       void (*call)(void *data, const gleaner_mutator *of),
                       void *data);

/* Sets what the mutator does when it is interrupted: at its next poll it calls
   `handler`, which may use the mutator as code at a poll may. An allocation
   delivers no interrupt. Several requests before a poll are one. A request
   that comes while the handler runs is delivered by a poll behind it. The
   handler must not leave by longjmp. */
void gleaner_set_interrupt_handler(gleaner_mutator *mutator,
                                   void (*handler)(void *data,
                                                   gleaner_mutator *mutator),
                                   void *data);
/* Requests an interrupt, on any thread. Answers false if the mutator was
   detached, or has no handler. */
bool gleaner_request_interrupt(gleaner_mutator *mutator);

struct gleaner_totals {
    uint64_t scavenges, full_collections;
    uint64_t stopped_ns, longest_stop_ns;
    uint64_t survived_bytes, promoted_bytes;
    /* Zeroing up to the last collection, without what each allocation zeroes
       itself. First the bytes that mutators zeroed, and those that zeroing
       threads zeroed ahead; then the processor time that each of them took,
       sampled; then how long mutators waited for zeroing threads. */
    uint64_t zeroed_bytes, zeroed_ahead_bytes;
    uint64_t zeroing_ns, zeroing_ahead_ns, stalled_ns;
    /* How often collections looked at the key of an ephemeron. */
    uint64_t ephemeron_looks;
    /* Of stopped_ns, how long collections waited until all threads had
       stopped; and the longest such wait. */
    uint64_t stopping_ns, longest_stopping_ns;
};
void gleaner_get_totals(gleaner_mutator *mutator, struct gleaner_totals *into);
/* Collects everything, and writes the report of option array-report to the
   standard error stream: which arrays there are, and what cutting them into
   pieces saves. Answers false if the option is not set. */
bool gleaner_print_array_report(gleaner_mutator *mutator);
/* Bytes in use: by objects, dead or alive, and by buffers. */
size_t gleaner_used(const gleaner_heap *heap);

/* What happened in one phase of a collection. `phase` is copy, mark, slide and
   the like. What `bytes` and `objects` count depends on the phase. */
struct gleaner_event {
    const char *phase, *reason;
    uint64_t collection, start_ns, duration_ns, bytes, objects;
    uint32_t workers;
};
struct gleaner_collection {
    uint64_t number;     /* from 1 */
    const char *reason;  /* why there was one */
    uint64_t stopped_ns; /* how long all threads were stopped */
    bool everything;     /* false: only the young generation */
    size_t event_count;
    const struct gleaner_event *events; /* the phases, in their order */
    uint64_t stopping_ns; /* of stopped_ns, until all threads had stopped */
};
/* Calls `listener` after each collection, when the other threads run again.
   `of` is valid only during the call. Several threads may call the listener at
   once. It may take totals with a mutator of this heap, but must not use one
   otherwise. It may attach to any heap; from this one it detaches before it
   returns. It must not leave by longjmp or by an exception. The listener stays
   until the heap ends. */
void gleaner_add_listener(gleaner_heap *heap,
                          void (*listener)(void *data,
                                           const struct gleaner_collection *of),
                          void *data);

/* ---- for a compiler ------------------------------------------------------ */

/* The numbers of one heap that the inline functions of this header read at run
   time. A compiler emits the same code with them as constants. It checks
   `barrier` and `arrays` first, and calls the functions where it does not know
   a value. */
enum {
    GLEANER_BARRIER_CARDS = 1,
    GLEANER_ARRAYS_CONTIGUOUS = 1, /* in one piece */
    GLEANER_ARRAYS_ZRAY = 2,       /* some in pieces: see first_n */
    GLEANER_ARRAYS_GUARDED = 3     /* each access to an element calls */
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
    uint32_t fresh_is_zero; /* if 0, allocation zeroes the object */
    uint32_t arrays;        /* how arrays lie in memory */
    uint32_t length_offset, elements_offset;
    /* A slot holds (reference - slot_base) >> slot_shift; low bit 1: integer.
       slot_base is 0 with wide references, and with compressed ones if the heap
       found a place below 16 GB of addresses. */
    uint32_t slot_bytes, slot_shift;
    uint64_t slot_base;
    /* A store writes card_dirty to the byte card_base + (slot >> card_shift). */
    uint32_t barrier, card_shift;
    uint64_t card_base;
    uint32_t card_dirty;
    uint32_t large_bytes; /* to allocate a larger object, call; arrays: below */
    uint32_t zeroes_offset; /* in a mutator: 0 while its buffer is zero already */
    uint32_t whole_bytes;   /* to allocate a larger array, call */
    /* How many bytes of each array's elements lie at elements_offset, whatever
       the array. An access that ends beyond these bytes may always call the
       functions for elements. With GLEANER_ARRAYS_ZRAY it may instead do what
       follows.

       A load looks at the array's header. If its spine_bit is 0, the array lies
       in one piece, and the element is where it would be otherwise. If it is 1,
       subtract first_n from the element's offset, which counts from the first
       element. In the difference, the bits from arraylet_shift up are the
       number of a pointer, and those below are an offset in an arraylet. The
       pointers lie at elements_offset + first_n and have 2^pointer_shift bytes
       each. Load the pointer with acquire order. Its arraylet begins at
         pointer_base + ((pointer & ~taint_bit) << slot_shift).
       If the pointer is zero_pointer, everything in its arraylet is zero.

       A store goes to the same address, with the barrier for it, if the
       taint_bit of the pointer is 0. If that is 1, the store calls. A pointer
       must not be used after the next poll or call. */
    uint64_t first_n;
    uint32_t arraylet_shift, pointer_shift;
    uint64_t pointer_base, zero_pointer, spine_bit;
    /* Offsets in a mutator of the same numbers, for code that serves any heap.
       That of pointer_shift is of no use with GLEANER_ARRAYS_GUARDED. */
    uint32_t first_n_offset, whole_bytes_offset, arraylet_shift_offset;
    uint32_t pointer_shift_offset, pointer_base_offset;
    uint32_t taint_bit;
    /* The word of gleaner_set_type_data of type t is at type_data + 8 * t. */
    uint64_t type_data;
};
/* Fills the record. `bytes` is sizeof(struct gleaner_fast_paths). Fields that
   this library does not know are 0. */
void gleaner_get_fast_paths(const gleaner_heap *heap,
                            struct gleaner_fast_paths *into, size_t bytes);

/* Sets the function that visits the roots in compiled frames. A collection
   calls `visit` for each stopped mutator. `visit` finds the frames from
   mutator->anchor and a stack map, and calls visitor->visit for each root slot,
   8 bytes wide. Compiled code writes the anchor before it calls anything that
   may poll.

   `visit` keeps the rules for the functions of gleaner_traced. A collection
   calls it several times, and for several mutators at once. It may also visit
   slots of m->slot_bytes, and derived pointers (gleaner_roots.h). NULL removes the
   function. Call this before the first thread attaches, or while the calling
   thread is no mutator. */
void gleaner_set_root_visitor(gleaner_heap *heap,
                              void (*visit)(void *data,
                                            const gleaner_mutator *mutator,
                                            struct gleaner_visitor *visitor),
                              void *data);

#include "gleaner_roots.h"

/* ---- handles, weak references, ephemerons, finalizers -------------------- */

/* A collection treats what it finds dead in this order:

   1. Ephemerons keep the values of keys that live.

   2. Weak references to the dead become null: also those to an object that has
   a finalizer, and to one that is reached only from such objects. This holds of
   weak slots in objects (gleaner_weak_type), too.

   3. Dead objects with finalizers come to life again, with all that they reach,
   also through ephemerons. They come back all at once, even one to which
   another of them refers. A weak slot in an object that only they lead to
   becomes null if its object is dead even so.

   4. Ephemerons whose keys are still dead become null.

   So when an object is handed out, weak references to it are null already. An
   ephemeron with the object as its key holds until the object dies again. A
   collection of the young generation does this for young objects, a collection
   of everything for all objects. */

/* A handle keeps what it holds alive until the handle is freed. Any thread may
   free it. One that is used after it was freed, or freed twice, ends the
   process with a message; so does a weak reference or an ephemeron. Their
   pointers are no addresses. The functions that make handles, weak references
   and ephemerons answer NULL when the heap or malloc has no room for another one.
   A heap has some four million of all three together at most.

   A weak reference and an ephemeron are small objects of the heap, which a handle
   keeps: to make one is to allocate, so it may collect, and other references have
   to be in roots. To read one moves nothing. Where there are many, slots of
   objects (gleaner_weak_type) are smaller and faster.

   Objects that these functions and those for finalizers are given are of the
   mutator's heap. NULL, an integer and an object of another heap end the process
   with a message where an object is asked for; a value may be null, and that of a
   handle or a finalizer an integer. */
typedef struct gleaner_handle gleaner_handle;
gleaner_handle *gleaner_handle_new(gleaner_mutator *mutator,
                                   gleaner_value value);
gleaner_value gleaner_handle_get(const gleaner_handle *handle);
/* The handle keeps another value from now on. Threads that get it at the same
   moment find either. A handle of another heap ends the process with a
   message. */
void gleaner_handle_set(gleaner_mutator *mutator, gleaner_handle *handle,
                        gleaner_value value);
void gleaner_handle_free(gleaner_handle *handle);

/* A weak reference refers to an object without keeping it alive. It holds 0
   once the object is dead. */
typedef struct gleaner_weak gleaner_weak;
gleaner_weak *gleaner_weak_new(gleaner_mutator *mutator, void *object);
gleaner_value gleaner_weak_get(const gleaner_weak *weak);
void gleaner_weak_free(gleaner_weak *weak);

/* An ephemeron keeps a value alive as long as its key lives. The key is not
   null. Both are 0 once the key is dead. A value that refers to what holds the
   ephemeron keeps that as long as the key lives; a table of gleaner_weak_type it
   does not keep. */
typedef struct gleaner_ephemeron gleaner_ephemeron;
gleaner_ephemeron *gleaner_ephemeron_new(gleaner_mutator *mutator, void *key,
                                         void *value);
gleaner_value gleaner_ephemeron_key(const gleaner_ephemeron *ephemeron);
gleaner_value gleaner_ephemeron_value(const gleaner_ephemeron *ephemeron);
void gleaner_ephemeron_free(gleaner_ephemeron *ephemeron);

/* A finalizer has a value that it keeps. An object may have several. A heap has
   room for a finalizer for each 32 bytes of its limit, and a scavenge does not
   look at old ones. gleaner_next_finalizer hands it out once, when nothing else
   refers to the object any more: with the object alive again if the finalizer
   revives it; else with 0, as a weak reference that is queued when it is cleared.
   A value that refers to the object keeps it for ever.

   gleaner_finalizer_new allocates, so it may collect, and other references have
   to be in roots. `order` is 0 to 7. The answer is NULL when the heap is full,
   and else an object that the heap does not keep. Keep it only to take the
   finalizer back. */
void *gleaner_finalizer_new(gleaner_mutator *mutator, void *object,
                            gleaner_value value, uint32_t order, bool revives);
/* The same without the object by which a finalizer is taken back. Neither
   allocates nor collects. False when the heap is full. */
bool gleaner_finalize(gleaner_mutator *mutator, void *object,
                      gleaner_value value, uint32_t order, bool revives);
/* The finalizer is not handed out, and keeps nothing. False if it was handed out
   or taken back before. */
bool gleaner_take_back(gleaner_mutator *mutator, void *finalizer);
/* The next one that is ready: the lowest order first; in an order, what became
   ready in an earlier collection; then in the order in which they were made.
   False if none is. */
bool gleaner_next_finalizer(gleaner_mutator *mutator, gleaner_value *object,
                            gleaner_value *value);
/* How many are ready. Any thread may ask at any time; a listener that asks hears
   of each. */
size_t gleaner_ready_finalizers(const gleaner_heap *heap);
/* When a heap is freed nothing is finalized: finalizers that wait, and those
   that are ready, are gone with it. */

/* ---- memory, and what there is of each type ------------------------------ */

/* Tells that objects of this heap hold `change` more bytes outside of it, or
   with a negative number that they hold fewer: what malloc gave for them, a
   mapped file, a texture. Such bytes make collections come earlier: of the young
   generation when as many were added as it has itself, and of everything when as
   many were added as lived in the heap and outside of it. They do not count
   toward the limit.

   Any thread may call this at any time. It collects nothing: a collection that
   is due comes with the calling thread's next allocation, or with one of another
   thread. Tell of bytes that are freed, too, as a rule when a finalizer was
   handed out. A total below 0 counts as 0; event `external` of the log says
   so. One beyond PTRDIFF_MAX counts as that many. */
void gleaner_note_external(gleaner_heap *heap, ptrdiff_t change);
/* How many such bytes there are. */
size_t gleaner_external(const gleaner_heap *heap);
/* Bytes of memory that the spaces of the heap hold, as far as the heap knows:
   what was used once and was not given back to the system. */
size_t gleaner_resident(const gleaner_heap *heap);
/* The limit, as it is now. */
size_t gleaner_limit(const gleaner_heap *heap);
/* Changes the limit. A lower one collects everything. The heap has addresses for
   the limit that it was made with, which is the most that it can have. To raise
   the limit later, make the heap with the largest one and lower that at once. If
   what lives does not fit under the limit, or the heap cannot have it, the
   answer is false, the limit stays as it was, and the reason is written to
   `message` as for gleaner_heap_new. */
bool gleaner_set_limit(gleaner_mutator *mutator, size_t bytes, char *message,
                       size_t message_bytes);
/* Collects everything, slides what lives together, and gives all other memory
   back to the system. Answers how many bytes fewer the heap holds. Memory comes
   back as it is used, with a page fault for each page. */
size_t gleaner_trim(gleaner_mutator *mutator);

/* Calls a type by a name, which censuses and snapshots show. The name is copied.
   Call it when the type is registered. */
void gleaner_name_type(gleaner_heap *heap, gleaner_type type, const char *name);

/* Collects everything, and writes what lives and what keeps it to a file, which
   the command `gleaner heap` reads. All mutators are stopped meanwhile. If the
   file cannot be written, the answer is false, and the reason is written to
   `message` as for gleaner_heap_new. */
bool gleaner_snapshot(gleaner_mutator *mutator, const char *path, char *message,
                      size_t message_bytes);

struct gleaner_type_count {
    gleaner_type type;
    const char *name;                   /* "" if the type has none */
    uint64_t live_objects, live_bytes;
    /* Since the heap was made; 0 without option count-types. */
    uint64_t allocated_objects, allocated_bytes;
};
/* Collects everything, and calls `visit` for each type of which there is
   something, that with the most live bytes first. Of an array in pieces its
   spine counts. `of` is valid only during the call, which may use the
   mutator. */
void gleaner_census(gleaner_mutator *mutator,
                    void (*visit)(void *data,
                                  const struct gleaner_type_count *of),
                    void *data);

#ifdef __cplusplus
}
#endif

#endif
