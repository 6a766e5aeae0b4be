/*
 * Objects that are pinned for a while, and conservative roots, through gleaner.h:
 * a buffer that a system call fills while others collect, and a native stack
 * whose words keep what they point into.
 */
#include "stage.h"

#include <setjmp.h>
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

int main(void)
{
    static const struct stage_case cases[] = {
        { "a buffer is pinned while it is filled",
          a_buffer_is_pinned_while_it_is_filled },
        { "what is no object is not pinned", what_is_no_object_is_not_pinned },
        { "words of a native stack keep objects",
          words_of_a_native_stack_keep_objects },
    };

    return run_cases(cases, sizeof cases / sizeof *cases);
}
