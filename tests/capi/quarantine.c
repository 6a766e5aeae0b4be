/*
 * What an embedder may do wrong, under `quarantine`: each mistake ends the
 * process with a message that names it. Each runs in a child of its own.
 */
#include "child.h"
#include "stage.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAIR_BYTES 24

/* The heap of one mistake: all allocations collect, or none does. */
struct scene {
    gleaner_heap *heap, *other;
    gleaner_mutator *m;
    gleaner_type pair, bytes;
    /* A pair, in a frame. */
    gleaner_value *kept;
};

static char *kept(struct scene *s)
{
    return (char *)gleaner_object(*s->kept);
}

static void *new_pair(struct scene *s)
{
    return gleaner_allocate(s->m, s->pair, PAIR_BYTES);
}

static void allocate_some(struct scene *s)
{
    for (int i = 0; i < 10; i++)
        new_pair(s);
}

static void stale_pointer(struct scene *s)
{
    void *a = new_pair(s);

    new_pair(s); /* collects: a is dead */
    gleaner_store(s->m, a, 8, gleaner_integer(1));
}

static void own_handler(int signal)
{
    static const char text[] = "the embedder's own handler";

    (void)signal;
    if (write(2, text, sizeof text - 1) > 0)
        abort();
}

/* A handler from before the heap was made is called after the message. */
static void stale_pointer_with_a_handler(struct scene *s)
{
    stale_pointer(s);
}

/* It runs with the signals blocked that it asked for, and no others. */
static void own_action(int signal, siginfo_t *information, void *context)
{
    sigset_t blocked;

    (void)information, (void)context;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    if (!sigismember(&blocked, SIGSEGV) && sigismember(&blocked, SIGUSR1))
        own_handler(signal);
    _exit(0);
}

static void install_own_action(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = own_action;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, &action, NULL);
}

static void fault_elsewhere(struct scene *s)
{
    void *volatile nothing = NULL;

    (void)s;
    *(volatile int *)nothing = 1;
}

static void fault_elsewhere_with_an_action(struct scene *s)
{
    fault_elsewhere(s);
}

/*
 * What is sent is no fault, and does what it would do without the heap. It goes
 * to any thread of the process, the heap's own among them: this one waits.
 */
static void sent_signal(struct scene *s)
{
    (void)s;
    kill(getpid(), SIGSEGV);
    for (;;)
        pause();
}

static void sent_signal_with_an_action(struct scene *s)
{
    sent_signal(s);
}

static void stale_after_full(struct scene *s)
{
    void *a = new_pair(s);

    gleaner_collect(s->m, true);
    if (gleaner_load(s->m, a, 8) != 0)
        puts("it held something");
}

static void forgotten_root(struct scene *s)
{
    void *b = new_pair(s);

    new_pair(s);
    gleaner_store(s->m, kept(s), 8, gleaner_reference(b));
    allocate_some(s);
}

static void forgotten_barrier(struct scene *s)
{
    gleaner_collect(s->m, true);
    gleaner_collect(s->m, true);
    *(void **)(kept(s) + 8) = new_pair(s);
    allocate_some(s);
}

static void initialize_of_an_old_object(struct scene *s)
{
    void *b;

    gleaner_collect(s->m, true);
    gleaner_collect(s->m, true);
    b = new_pair(s);
    gleaner_initialize(s->m, kept(s), 8, gleaner_reference(b));
    allocate_some(s);
}

static void too_large(struct scene *s)
{
    gleaner_allocate(s->m, s->pair, 40);
}

static void too_small(struct scene *s)
{
    gleaner_allocate(s->m, s->pair, 16);
}

static void too_large_pinned(struct scene *s)
{
    gleaner_allocate_pinned(s->m, s->pair, 40);
}

static void wrong_elements(struct scene *s)
{
    gleaner_allocate_array(s->m, s->bytes, 10, 8);
}

static void array_as_structure(struct scene *s)
{
    gleaner_allocate(s->m, s->bytes, PAIR_BYTES);
}

static void structure_as_array(struct scene *s)
{
    gleaner_allocate_array(s->m, s->pair, 1, 8);
}

static void no_type(struct scene *s)
{
    gleaner_allocate(s->m, 77, PAIR_BYTES);
}

static void past_the_end(struct scene *s)
{
    gleaner_fill_u8(s->m, gleaner_allocate_array(s->m, s->bytes, 8, 1), 0, 40,
                    'A');
    new_pair(s);
}

static void past_the_end_of_an_older_one(struct scene *s)
{
    GLEANER_FRAME(s->m, frame, 1);
    frame.values[0] = gleaner_reference(
        gleaner_allocate_array(s->m, s->bytes, 8, 1));
    new_pair(s);
    new_pair(s);
    gleaner_fill_u8(s->m, gleaner_object(frame.values[0]), 0, 9, 'A');
    gleaner_collect(s->m, false);
    GLEANER_LEAVE(s->m, frame);
}

static void not_written(struct scene *s)
{
    void *b = gleaner_allocate_initialized(s->m, s->pair, PAIR_BYTES);

    gleaner_initialize(s->m, b, 8, 0);
    new_pair(s);
}

static void array_not_written(struct scene *s)
{
    static const uint8_t zeros[50] = { 0 };
    gleaner_type whole = gleaner_primitives_whole(s->heap, 1);
    void *b = gleaner_allocate_array_initialized(s->m, whole, 100, 1);

    gleaner_initialize_u8(s->m, b, 0, zeros, 50);
    gleaner_collect(s->m, false);
}

static void frame_out_of_order(struct scene *s)
{
    GLEANER_FRAME(s->m, one, 1);
    GLEANER_FRAME(s->m, other, 1);
    GLEANER_LEAVE(s->m, one);
    GLEANER_LEAVE(s->m, other);
    gleaner_collect(s->m, false);
}

static void forgets(void *data, void *object, struct gleaner_visitor *visitor)
{
    (void)data;
    visitor->visit(visitor, (char *)object + 8);
}

static void misaligned(void *data, void *object, struct gleaner_visitor *visitor)
{
    (void)data;
    visitor->visit(visitor, (char *)object + 8);
    visitor->visit(visitor, (char *)object + 12);
}

static void traced(struct scene *s,
                   void (*trace)(void *, void *, struct gleaner_visitor *))
{
    struct gleaner_traced of;
    gleaner_type type;
    void *b;

    memset(&of, 0, sizeof of);
    of.bytes = PAIR_BYTES;
    of.trace = trace;
    type = gleaner_traced_type(s->heap, &of, NULL, 0);
    *s->kept = gleaner_reference(gleaner_allocate(s->m, type, PAIR_BYTES));
    b = new_pair(s);
    gleaner_store(s->m, kept(s), 16, gleaner_reference(b));
    gleaner_collect(s->m, false);
}

static void trace_forgets_a_slot(struct scene *s)
{
    traced(s, forgets);
}

static void trace_visits_a_misaligned_slot(struct scene *s)
{
    traced(s, misaligned);
}

static void type_lacks_a_slot(struct scene *s)
{
    uint32_t offset = 8;
    gleaner_type type
        = gleaner_structure(s->heap, PAIR_BYTES, &offset, 1, NULL, 0);
    void *b;

    *s->kept = gleaner_reference(gleaner_allocate(s->m, type, PAIR_BYTES));
    b = new_pair(s);
    gleaner_store(s->m, kept(s), 16, gleaner_reference(b));
    gleaner_collect(s->m, false);
}

static void interior_pointer(struct scene *s)
{
    gleaner_store(s->m, kept(s), 8, gleaner_reference(kept(s) + 8));
    allocate_some(s);
}

static void foreign_pointer(struct scene *s)
{
    gleaner_store(s->m, kept(s), 8, gleaner_reference(malloc(100)));
    allocate_some(s);
}

static void other_heap(struct scene *s)
{
    gleaner_mutator *m = gleaner_attach(s->other);
    uint32_t offsets[] = { 8, 16 };
    gleaner_type type
        = gleaner_structure(s->other, PAIR_BYTES, offsets, 2, NULL, 0);
    void *theirs = gleaner_allocate(m, type, PAIR_BYTES);

    gleaner_blocking_begin(m);
    gleaner_store(s->m, kept(s), 8, gleaner_reference(theirs));
    allocate_some(s);
}

/* Nothing is wrong here. */
static void none(struct scene *s)
{
    static const uint8_t zeros[9] = { 0 };
    void *b = gleaner_allocate_array_initialized(s->m, s->bytes, 9, 1);

    gleaner_initialize_u8(s->m, b, 0, zeros, 9);
    new_pair(s);
    allocate_some(s);
}

static const struct mistake {
    const char *name;
    void (*make)(struct scene *s);
    uint32_t stress;
    const char *message; /* NULL: it is none */
} mistakes[] = {
#define MISTAKE(make, stress, message) { #make, make, stress, message }
    MISTAKE(stale_pointer, 1, "a stale reference was used"),
    MISTAKE(stale_pointer_with_a_handler, 1, "the embedder's own handler"),
    MISTAKE(fault_elsewhere, 0, ""),
    MISTAKE(fault_elsewhere_with_an_action, 0, "the embedder's own handler"),
    MISTAKE(sent_signal, 0, ""),
    MISTAKE(sent_signal_with_an_action, 0, "the embedder's own handler"),
    MISTAKE(stale_after_full, 0, "a stale reference was used"),
    MISTAKE(forgotten_root, 1, "a stale reference"),
    MISTAKE(forgotten_barrier, 1, "dirty card"),
    MISTAKE(initialize_of_an_old_object, 1, "dirty card"),
    MISTAKE(too_large, 0, "has 24 bytes, and 40 were asked for"),
    MISTAKE(too_small, 0, "has 24 bytes, and 16 were asked for"),
    MISTAKE(too_large_pinned, 0, "has 24 bytes, and 40 were asked for"),
    MISTAKE(wrong_elements, 0, "has 32 bytes with this length, and 96"),
    MISTAKE(array_as_structure, 0, "is an array, and was allocated without"),
    MISTAKE(structure_as_array, 0, "is no array, and was allocated with"),
    MISTAKE(no_type, 0, "no type 77 was registered"),
    MISTAKE(past_the_end, 0, "was written past its end"),
    MISTAKE(past_the_end_of_an_older_one, 0, "was written past its end"),
    MISTAKE(not_written, 0, "offset 16"),
    MISTAKE(array_not_written, 0, "fields were all to be written"),
    MISTAKE(frame_out_of_order, 0, "has a frame that was left"),
    MISTAKE(trace_forgets_a_slot, 0, "a word that is no slot holds"),
    MISTAKE(trace_visits_a_misaligned_slot, 0, "slot"),
    MISTAKE(type_lacks_a_slot, 0, "a word that is no slot holds"),
    MISTAKE(interior_pointer, 1, "a slot refers to an object"),
    MISTAKE(foreign_pointer, 1, "a slot refers to an object"),
    MISTAKE(other_heap, 1, "a slot refers to an object"),
    MISTAKE(none, 1, NULL),
    MISTAKE(none, 0, NULL),
};

static gleaner_heap *heap_with(uint32_t stress)
{
    struct gleaner_options options;

    memset(&options, 0, sizeof options);
    options.outside_layout = GLEANER_LAYOUT_FOLLOWED;
    options.limit = 8 << 20;
    options.stress = stress;
    options.workers = 2;
    options.verify = options.poison = true;
    options.list = "quarantine=4";
    return gleaner_heap_new(&options, NULL, 0);
}

static void make(const void *of)
{
    const struct mistake *mistake = (const struct mistake *)of;
    struct scene s;
    uint32_t offsets[] = { 8, 16 };

    if (mistake->make == stale_pointer_with_a_handler)
        signal(SIGSEGV, own_handler);
    if (mistake->make == fault_elsewhere_with_an_action
        || mistake->make == sent_signal_with_an_action)
        install_own_action();
    s.heap = heap_with(mistake->stress);
    s.other = heap_with(0);
    s.m = gleaner_attach(s.heap);
    s.pair = gleaner_structure(s.heap, PAIR_BYTES, offsets, 2, NULL, 0);
    s.bytes = gleaner_primitives(s.heap, 1);
    GLEANER_FRAME(s.m, frame, 1);
    s.kept = frame.values;
    frame.values[0] = gleaner_reference(new_pair(&s));
    mistake->make(&s);
    GLEANER_LEAVE(s.m, frame);
    gleaner_detach(s.m);
}

int main(void)
{
    static char text[1 << 16];
    int passed = 0;

    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        const struct mistake *mistake = &mistakes[i];
        int status = said_by_child(make, mistake, text, sizeof text);
        bool right = mistake->message == NULL
                         ? status == 0 && text[0] == 0
                         : WIFSIGNALED(status)
                               && strstr(text, mistake->message) != NULL;

        printf("%s: %s\n", right ? "ok" : "FAILED", mistake->name);
        if (right)
            passed++;
        else {
            printf("status %x; it said:\n%s\n", (unsigned)status, text);
            failed++;
        }
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
