/*
 * gleaner_roots.h: roots that belong to a heap, derived pointers, objects that
 * are pinned for a while, and conservative roots. A part of
 * gleaner.h, which includes it; nothing else does.
 */
#ifndef GLEANER_ROOTS_H
#define GLEANER_ROOTS_H
#ifndef GLEANER_H
#error "include gleaner.h"
#endif

/* Besides the frames of its mutators and its handles, a heap may have root slots
   of its own: the globals of modules, the stacks of interpreters, tables of a
   runtime. A mutator registers them; they belong to the heap, and remain when
   the mutator detaches.

   A root slot is a place outside of the heap that holds a valid value at every
   allocation and poll of any mutator. The collector updates it when the object
   moves. Writing it takes no write barrier, and gleaner_store must not be used
   on it. */
enum gleaner_root_width {
    /* Values of 8 bytes, as in frames: read and write them as such. */
    GLEANER_ROOT_VALUES = 0,
    /* Slots of m->slot_bytes, as in objects: read them with gleaner_load(m,
       start, i * m->slot_bytes), and write them with gleaner_initialize. */
    GLEANER_ROOT_SLOTS = 1
};

/* Makes `slots` slots from `start` on roots of the mutator's heap, until they are
   unregistered or the heap is freed. The collector cuts all ranges of a heap into
   equal tasks for its threads, so a long range and many short ones cost the same.
   This neither collects nor polls.

   The answer is false, with the reason in `message` (unless that is NULL), if the
   range is empty, is not aligned to its slots, overlaps a registered range or the
   heap itself, or if the system gives no memory. */
bool gleaner_add_root_range(gleaner_mutator *mutator, void *start, size_t slots,
                            enum gleaner_root_width width, char *message,
                            size_t message_bytes);
/* The range that begins at `start` is no longer one of roots; its memory may be
   freed. The answer is false if no registered range begins there, as when it was
   unregistered already. Unregister each range before its memory goes away. */
bool gleaner_remove_root_range(gleaner_mutator *mutator, void *start);

/* Sets the function that visits the roots of the heap which no range describes.
   Each collection calls `visit` for the parts 0 to `parts` - 1: each part is one
   task, and several threads visit parts at once. Cut the roots so that a part has
   some thousand of them at most.

   `visit` keeps the rules for the functions of gleaner_traced: it allocates
   nothing, takes no lock that a thread of the program may hold, and visits the
   same roots each time, each in one part and once. It calls

     visitor->visit(visitor, slot) for a root slot of 8 bytes,
     visitor->visit_slot(visitor, slot) for one of m->slot_bytes, and
     visitor->visit_derived(visitor, base, derived, count) for a base.

   A heap has one such function; the mutator's heap is meant. NULL removes it. */
void gleaner_set_heap_root_visitor(gleaner_mutator *mutator, size_t parts,
                                   void (*visit)(void *data, size_t part,
                                                 struct gleaner_visitor *visitor),
                                   void *data);

/* Derived pointers. Compiled code may hold a pointer into an object, such as to
   the element that a loop has reached, while it calls what may poll. The pointer
   is no reference: the collector finds the object by its base, a root slot of 8
   bytes, and then keeps the pointer at its offset from the base. A function that
   visits roots (of a heap or of mutators) says this by

     visitor->visit_derived(visitor, base, derived, count)

   with the place of the base and an array of the places of `count` words that
   were derived from it. The base must not be visited otherwise. If it holds null
   or an integer, the words are left alone. Each word leads into the object or to
   its end; one that does not ends the process with a message. A trace function
   must not call this.

   An array in pieces has only its first N bytes at one place. Do not derive
   pointers to elements behind them. */

/* Pins an object: it keeps its place until it has been unpinned as often as it was
   pinned, for calls that need its address. A pin keeps the place of an object and
   not its life: keep the object by a root or a handle, too. The pins of an object
   that dies are gone.

   Any object can be pinned; what was allocated pinned, is large, or is a constant
   never moves anyway, and its pins are not counted. A young object stays where it
   is, and others are allocated around it. While anything is pinned, collections
   slide nothing together. So pins are for a while, and few.

   Pinning neither collects nor polls. The answer is false, with the reason in
   `message` (unless that is NULL), if the value is NULL, an integer or an address
   outside of the mutator's heap, if it is an array in pieces, under option
   quarantine, or if the system gives no memory. For gleaner_unpin it is false also
   if the object is not pinned. An address in the heap at which no object begins,
   such as that of one that has moved, must not be passed: this is not always
   noticed. */
bool gleaner_pin(gleaner_mutator *mutator, gleaner_value value, char *message,
                 size_t message_bytes);
bool gleaner_unpin(gleaner_mutator *mutator, gleaner_value value, char *message,
                   size_t message_bytes);

/* Makes the `words` words of 8 bytes from `start` on conservative roots of the
   mutator's heap, until they are unregistered or the heap is freed: a native
   stack, or registers that were saved. In each collection the objects that
   these words point to, or into, live and keep their places. Other objects
   move as they would otherwise. A reference of 4 bytes is not found in a word.

   If `lowest` is not NULL, it leads to a pointer that says in each collection
   which word is the lowest that counts, as a saved stack pointer does. Everything
   below it is left alone. Save the registers above it before you set it:
   __builtin_unwind_init() of gcc and clang does. The setjmp of glibc scrambles rbp.

   The words, and that pointer, can be read at every allocation and poll of any
   mutator. The answer is false, with the reason in `message` (unless that is NULL),
   if the range is empty, if it or `lowest` is not aligned to 8 bytes, if a range
   that begins there is registered already, if the heap cuts arrays (a word that
   leads into a piece does not tell which array), under option quarantine, or if
   the system gives no memory. */
bool gleaner_add_words(gleaner_mutator *mutator, const void *start,
                       size_t words, const void *lowest, char *message,
                       size_t message_bytes);
/* The words from `start` on are roots no longer. The answer is false if no
   registered range of words begins there. */
bool gleaner_remove_words(gleaner_mutator *mutator, const void *start);

#endif
