/*
 * Objects that are pinned for a while, and conservative roots, through gleaner.h:
 * a buffer that a system call fills while others collect, and a native stack
 * whose words keep what they point into.
 */
#include "child.h"
#include "stage.h"

#include <setjmp.h>
#include <sys/resource.h>
#include <unistd.h>

static void allocate_garbage(struct stage *s)
{
    int i;

    for (i = 0; i < 20000; i++)
        new_node(s, 7);
    gleaner_collect(s->m, false);
    gleaner_collect(s->m, true);
}

/* A small array is pinned for as long as read() fills it. Others are allocated and
   collected meanwhile: the kernel has its address. */
static void a_buffer_is_pinned_while_it_is_filled(bool compressed)
{
    enum { LENGTH = 100 };
    struct stage s = set_up(compressed, 4 << 20);
    gleaner_type whole = gleaner_primitives_whole(s.heap, 1);
    int ends[2], i;
    char *place, message[200] = "";

    GLEANER_FRAME(s.m, frame, 1);
    frame.values[0]
        = gleaner_reference(gleaner_allocate_array(s.m, whole, LENGTH, 1));
    CHECK(gleaner_pin(s.m, frame.values[0], message, sizeof message));
    CHECK(gleaner_pin(s.m, frame.values[0], NULL, 0)); /* pins are counted */
    place = (char *)gleaner_object(frame.values[0]);
    CHECK(pipe(ends) == 0);
    for (i = 0; i < LENGTH; i++) {
        char byte = (char)(i + 1);

        CHECK(write(ends[1], &byte, 1) == 1);
        if (i % 10 == 0)
            allocate_garbage(&s);
        CHECK(read(ends[0], place + 16 + i, 1) == 1);
    }
    CHECK(gleaner_unpin(s.m, frame.values[0], NULL, 0));
    allocate_garbage(&s);
    CHECK(gleaner_object(frame.values[0]) == place); /* one pin is left */
    CHECK(gleaner_unpin(s.m, frame.values[0], NULL, 0));
    for (i = 0; i < LENGTH; i++)
        CHECK(gleaner_load_u8(s.m, gleaner_object(frame.values[0]), (uint32_t)i)
              == i + 1);
    CHECK(!gleaner_unpin(s.m, frame.values[0], message, sizeof message));
    CHECK(strstr(message, "not pinned") != NULL);
    close(ends[0]);
    close(ends[1]);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

static void what_is_no_object_is_not_pinned(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    static uint64_t elsewhere;
    const struct {
        gleaner_value value;
        const char *why;
    } wrong[] = {
        { 0, "null and integers" },
        { gleaner_integer(12), "null and integers" },
        { gleaner_reference(&elsewhere), "not that of an object of this heap" },
    };
    char message[200];
    size_t i;

    for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(!gleaner_pin(s.m, wrong[i].value, message, sizeof message));
        CHECK(strstr(message, wrong[i].why) != NULL);
        CHECK(!gleaner_unpin(s.m, wrong[i].value, NULL, 0));
    }
    tear_down(&s);
}

/* What a native function has in its variables and nowhere else. */
static __attribute__((noinline)) void use_native_stack(struct stage *s,
                                                       void *volatile *lowest)
{
    volatile gleaner_value node = new_node(s, 42);
    volatile uintptr_t middle = (uintptr_t)new_node(s, 43) + s->number + 1;
    jmp_buf registers;

    setjmp(registers); /* saves the registers on the stack */
    *lowest = (void *)((uintptr_t)__builtin_frame_address(0) & ~(uintptr_t)7);
    /* The words of this frame may lie below its address. */
    *lowest = (char *)*lowest - 1024;
    allocate_garbage(s);
    CHECK(*number_of(s, node) == 42);
    CHECK(*number_of(s, middle - s->number - 1) == 43);
}

static void words_of_a_native_stack_keep_objects(bool compressed)
{
    enum { WORDS = 4096 };
    struct stage s = set_up(compressed, 4 << 20);
    void *volatile lowest = NULL;
    char message[200] = "";
    uintptr_t end
        = ((uintptr_t)__builtin_frame_address(0) & ~(uintptr_t)7) + 8;
    void *start = (void *)(end - WORDS * 8);

    CHECK(gleaner_add_words(s.m, start, WORDS, (const void *)&lowest, message,
                            sizeof message));
    CHECK(!gleaner_add_words(s.m, start, 1, NULL, message, sizeof message));
    CHECK(strstr(message, "registered already") != NULL);
    use_native_stack(&s, &lowest);
    lowest = (void *)end; /* no word counts */
    gleaner_collect(s.m, true);
    CHECK(gleaner_used(s.heap) == 0);
    CHECK(gleaner_remove_words(s.m, start));
    CHECK(!gleaner_remove_words(s.m, start));
    tear_down(&s);
}

/* Where malloc has no memory until a pin is refused; then everything goes on. The
   places of what was pinned before, and of what is pinned later, are kept. */
static void pin_without_memory(const void *of)
{
    enum { MOST = 1000 };
    struct stage *s = (struct stage *)(uintptr_t)of;
    void *places[MOST], *table;
    gleaner_value value;
    struct rlimit before, none;
    char message[200] = "";
    void *volatile taken;
    size_t bytes;
    int count = 0, i;

    GLEANER_FRAME(s->m, frame, 1);
    table = gleaner_allocate_array(s->m, s->list, MOST, s->m->slot_bytes);
    frame.values[0] = gleaner_reference(table);
    for (i = 0; i < MOST; i++) {
        value = new_node(s, (uint64_t)i);
        gleaner_store_element(s->m, gleaner_object(frame.values[0]),
                              (uint32_t)i, value);
    }
    if (getrlimit(RLIMIT_DATA, &before) != 0)
        _exit(1);
    none = before;
    none.rlim_cur = 1; /* 0 would be no limit */
    if (setrlimit(RLIMIT_DATA, &none) != 0)
        _exit(2);
    for (bytes = 4096; bytes >= 16; bytes /= 2)
        while ((taken = malloc(bytes)) != NULL)
            ;
    for (i = 0; i < MOST; i++) {
        value = gleaner_load_element(s->m, gleaner_object(frame.values[0]),
                                     (uint32_t)i);
        if (!gleaner_pin(s->m, value, message, sizeof message))
            break;
        places[count++] = gleaner_object(value);
    }
    if (setrlimit(RLIMIT_DATA, &before) != 0 || count == MOST
        || strstr(message, "no memory for another pin") == NULL)
        _exit(3);
    if (!gleaner_pin(s->m, value, NULL, 0))
        _exit(4);
    places[count++] = gleaner_object(value);
    for (i = 0; i < 4; i++)
        gleaner_collect(s->m, i % 2 == 0);
    for (i = 0; i < count; i++) {
        value = gleaner_load_element(s->m, gleaner_object(frame.values[0]),
                                     (uint32_t)i);
        if (gleaner_object(value) != places[i]
            || !gleaner_unpin(s->m, value, NULL, 0)
            || gleaner_unpin(s->m, value, NULL, 0))
            _exit(5);
    }
    GLEANER_LEAVE(s->m, frame);
    gleaner_detach(s->m);
    _exit(gleaner_heap_free(s->heap) ? 0 : 6);
}

static void a_pin_without_memory_is_refused(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    char said[8192];
    int status = said_by_child(pin_without_memory, &s, said, sizeof said);

    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(said[0] == 0);
    tear_down(&s);
}

int main(void)
{
    static const struct stage_case cases[] = {
        { "a buffer is pinned while it is filled",
          a_buffer_is_pinned_while_it_is_filled },
        { "what is no object is not pinned", what_is_no_object_is_not_pinned },
        { "words of a native stack keep objects",
          words_of_a_native_stack_keep_objects },
        { "a pin without memory is refused", a_pin_without_memory_is_refused },
    };

    return run_cases(cases, sizeof cases / sizeof *cases);
}
