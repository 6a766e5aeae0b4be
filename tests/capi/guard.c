/*
 * Guard mode (`array-guard`): what computes where an element of an array in
 * pieces would lie is reported and ends the process; what goes through the
 * accessors is not. Each case runs in a child of its own.
 */
#include "child.h"
#include "stage.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif
/* They have names at run time. */
void raw_write(void *array, size_t offset);
void raw_read(void *array, size_t offset);
#ifdef __cplusplus
}
#endif

enum { LENGTH = 5000 };

struct scene {
    struct stage stage;
    gleaner_mutator *m;
    /* Arrays of bytes and of references, in a frame. */
    gleaner_value *kept;
    bool compressed;
};

__attribute__((noinline)) void raw_write(void *array, size_t offset)
{
    *((volatile char *)array + 16 + offset) = 1;
}

__attribute__((noinline)) void raw_read(void *array, size_t offset)
{
    (void)*((volatile char *)array + 16 + offset);
}

static void *bytes_of(struct scene *s)
{
    return gleaner_object(s->kept[0]);
}

static void *list_of(struct scene *s)
{
    return gleaner_object(s->kept[1]);
}

/* What the report is to begin with. */
static void expect(struct scene *s, bool writes, bool list, uint32_t index)
{
    size_t element = list ? s->m->slot_bytes : 1;

    fprintf(stderr,
            "expected: gleaner: a raw %s an array in pieces (array-guard=on): "
            "array at %#zx, type %u (%s of %zu byte%s), length %d, index %u "
            "(offset %zu)\n",
            writes ? "write to" : "read of",
            (size_t)(list ? list_of(s) : bytes_of(s)),
            (unsigned)(list ? s->stage.list : s->stage.bytes),
            list ? "references" : "numbers", element, element == 1 ? "" : "s",
            LENGTH, (unsigned)index,
            index * element);
}

static void write_of_a_byte(struct scene *s)
{
    expect(s, true, false, 0);
    raw_write(bytes_of(s), 0);
}

static void read_of_a_byte(struct scene *s)
{
    expect(s, false, false, LENGTH - 1);
    raw_read(bytes_of(s), LENGTH - 1);
}

static void write_of_a_reference(struct scene *s)
{
    expect(s, true, true, 700);
    raw_write(list_of(s), 700 * s->m->slot_bytes);
}

static void read_of_a_reference(struct scene *s)
{
    expect(s, false, true, 3);
    raw_read(list_of(s), 3 * s->m->slot_bytes);
}

static void read_after_collections(struct scene *s)
{
    for (int i = 0; i < 6; i++) {
        gleaner_allocate_array(s->m, s->stage.bytes, LENGTH, 1);
        gleaner_collect(s->m, i % 3 == 2);
    }
    expect(s, false, true, 4999);
    raw_read(list_of(s), 4999 * s->m->slot_bytes);
}

static void write_with_a_handler(struct scene *s)
{
    write_of_a_byte(s);
}

/* The pages have no access in a child of fork either. */
static void write_in_a_child(struct scene *s)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        write_of_a_byte(s);
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        raise(WTERMSIG(status));
}

/* Fills, copies, cursors, swaps and windows find the elements. */
static void accessors(struct scene *s)
{
    static uint8_t buffer[LENGTH];
    struct gleaner_cursor cursor;
    struct gleaner_window window;
    uint8_t expected = 7, *numbers;
    uint32_t i;

    CHECK(gleaner_fill_u8(s->m, bytes_of(s), 0, LENGTH, 7));
    CHECK(gleaner_swap_u8(s->m, bytes_of(s), 4990, &expected, 9)
          == GLEANER_SWAPPED);
    gleaner_read_u8(s->m, bytes_of(s), 0, buffer, LENGTH);
    for (i = 0; i < LENGTH; i++)
        CHECK(buffer[i] == (i == 4990 ? 9 : 7));
    for (i = 0; i < LENGTH; i++)
        CHECK(gleaner_store_element(s->m, list_of(s), i, gleaner_integer(i)));
    gleaner_collect(s->m, true);
    CHECK(gleaner_copy_elements(s->m, list_of(s), 1, list_of(s), 0, LENGTH - 1));
    gleaner_cursor_begin(&cursor, s->m, list_of(s), 0, LENGTH,
                         s->m->slot_bytes);
    for (i = 0; gleaner_cursor_more(&cursor); i++)
        CHECK(gleaner_cursor_load(&cursor, s->m)
              == gleaner_integer(i + 1 < LENGTH ? i + 1 : i));
    CHECK(i == LENGTH);
    CHECK(gleaner_window_begin_writing(&window, s->m, bytes_of(s), 0, LENGTH, 1)
          != NULL);
    numbers = (uint8_t *)window.elements;
    CHECK(numbers[4990] == 9);
    numbers[4999] = 3;
    gleaner_window_end(&window, s->m);
    CHECK(gleaner_load_u8(s->m, bytes_of(s), 4999) == 3);
}

/* The kernel refuses to read for a system call, and no signal is sent. */
static void system_call(struct scene *s)
{
    int ends[2];

    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], (char *)bytes_of(s) + 16, 8) < 0 && errno == EFAULT);
}

static void no_fast_paths(struct scene *s)
{
    struct gleaner_fast_paths fast;

    gleaner_get_fast_paths(s->stage.heap, &fast, sizeof fast);
    CHECK(fast.arrays == GLEANER_ARRAYS_GUARDED && fast.first_n == 0);
    CHECK(s->m->first_n == 0);
}

static const struct guarded {
    const char *name;
    void (*make)(struct scene *s);
    const char *function; /* the one that is named; NULL: no report */
} cases[] = {
#define CASE(make, function) { #make, make, function }
    CASE(write_of_a_byte, "raw_write"),
    CASE(read_of_a_byte, "raw_read"),
    CASE(write_of_a_reference, "raw_write"),
    CASE(read_of_a_reference, "raw_read"),
    CASE(read_after_collections, "raw_read"),
    CASE(write_with_a_handler, "raw_write"),
    CASE(write_in_a_child, "raw_write"),
    CASE(accessors, NULL),
    CASE(system_call, NULL),
    CASE(no_fast_paths, NULL),
};

static void own_handler(int signal)
{
    static const char text[] = "the program's own handler";

    (void)signal;
    if (write(2, text, sizeof text - 1) > 0)
        abort();
}

/* A case, in a heap with references of either width. */
struct run {
    const struct guarded *of;
    bool compressed;
};

static void make(const void *run)
{
    const struct guarded *of = ((const struct run *)run)->of;
    bool compressed = ((const struct run *)run)->compressed;
    struct scene s;
    struct gleaner_options options;
    gleaner_heap *heap;

    if (of->make == write_with_a_handler)
        signal(SIGSEGV, own_handler);
    memset(&options, 0, sizeof options);
    options.outside_layout = GLEANER_LAYOUT_FOLLOWED;
    options.limit = 16 << 20;
    options.workers = 2;
    options.compressed = compressed;
    options.verify = options.poison = true;
    options.list = "arrays=zray,array-guard=on";
    heap = gleaner_heap_new(&options, NULL, 0);
    CHECK(heap != NULL);
    s.stage = set_up_in(heap, compressed);
    s.m = s.stage.m;
    s.compressed = compressed;
    GLEANER_FRAME(s.m, frame, 2);
    s.kept = frame.values;
    frame.values[0] = gleaner_reference(
        gleaner_allocate_array(s.m, s.stage.bytes, LENGTH, 1));
    frame.values[1] = gleaner_reference(
        gleaner_allocate_array(s.m, s.stage.list, LENGTH, s.m->slot_bytes));
    of->make(&s);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s.stage);
    if (failed != 0)
        fprintf(stderr, "%d checks failed\n", failed);
}

/* Whether a report is as expected, and names the function. */
static bool is_reported(const struct guarded *of, const char *text, int status)
{
    static const char begins[] = "expected: ";
    bool handled = of->make == write_with_a_handler;
    const char *expected = strstr(text, begins);
    const char *end = expected == NULL ? NULL : strchr(expected, '\n');
    char line[400];
    const char *report;

    if (end == NULL || (size_t)(end - expected) >= sizeof line)
        return false;
    expected += sizeof begins - 1;
    snprintf(line, sizeof line, "%.*s, accessed by 0x", (int)(end - expected),
             expected);
    report = strstr(end, line);
    if (report == NULL)
        return false;
    snprintf(line, sizeof line, " in %s+0x", of->function);
    return strstr(report, line) != NULL
           && strstr(report, "last events:") != NULL
           && (strstr(report, "the program's own handler") != NULL) == handled
           && WIFSIGNALED(status)
           && WTERMSIG(status) == (handled ? SIGABRT : SIGSEGV);
}

int main(void)
{
    static char text[1 << 16];
    int passed = 0;

    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const struct guarded *of = &cases[i / 2];
        struct run run = { of, i % 2 == 1 };
        int status = said_by_child(make, &run, text, sizeof text);
        bool right = of->function == NULL ? status == 0 && text[0] == 0
                                          : is_reported(of, text, status);

        printf("%s: %s, %s\n", right ? "ok" : "FAILED", of->name,
               i % 2 ? "compressed" : "wide");
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
