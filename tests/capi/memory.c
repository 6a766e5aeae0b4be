/*
 * Memory that a program decides on: bytes outside of the heap, a limit that
 * changes, memory that is given back, names of types, censuses, snapshots. All is
 * counted.
 */
#include "child.h"
#include "stage.h"

#include <sys/resource.h>
#include <unistd.h>

static const ptrdiff_t HELD = 100 << 10;

static uint64_t collections(struct stage *s)
{
    struct gleaner_totals totals;

    gleaner_get_totals(s->m, &totals);
    return totals.scavenges + totals.full_collections;
}

/* Objects that hold 100 KB each and die at once. */
static void bytes_outside_bring_collections(bool compressed)
{
    struct stage s = set_up(compressed, 64 << 20);
    gleaner_value dead, value;
    size_t most = 0;
    int i;

    for (i = 0; i < 5000; i++) {
        void *object = gleaner_allocate(s.m, s.node, s.node_bytes);

        CHECK(gleaner_finalizer_new(s.m, object, 0, 0, true) != NULL);
        gleaner_note_external(s.heap, HELD);
        if (gleaner_external(s.heap) > most)
            most = gleaner_external(s.heap);
        while (gleaner_next_finalizer(s.m, &dead, &value))
            gleaner_note_external(s.heap, -HELD);
    }
    CHECK(most < (size_t)25 << 20);
    CHECK(collections(&s) > 5000 * 100 / 1024 / 25);
    CHECK(collections(&s) < 60);
    gleaner_note_external(s.heap, -2000000000);
    CHECK(gleaner_external(s.heap) == 0);
    tear_down(&s);
}

/* How many arrays of 10 KB fit, each in one piece. */
static uint32_t fill(struct stage *s)
{
    GLEANER_FRAME(s->m, frame, 1);
    uint32_t count = 0;
    gleaner_type whole = gleaner_primitives_whole(s->heap, 1);
    void *list = gleaner_allocate_array(s->m, s->list, 10000, s->m->slot_bytes);

    frame.values[0] = gleaner_reference(list);
    for (;;) {
        void *array = gleaner_allocate_array(s->m, whole, 10000, 1);

        if (array == NULL
            || !gleaner_store_element(s->m, gleaner_object(frame.values[0]),
                                      count, gleaner_reference(array)))
            break;
        count++;
        CHECK(gleaner_used(s->heap) <= gleaner_limit(s->heap));
    }
    GLEANER_LEAVE(s->m, frame);
    return count;
}

static void the_limit_changes(bool compressed)
{
    struct stage s = set_up(compressed, 32 << 20);
    char message[200] = "";
    uint32_t all = fill(&s), half;

    CHECK(gleaner_set_limit(s.m, 16 << 20, NULL, 0));
    CHECK(gleaner_limit(s.heap) == 16 << 20);
    CHECK(gleaner_resident(s.heap) <= 16 << 20);
    half = fill(&s);
    CHECK(half < all * 6 / 10 && half > all * 3 / 10);
    CHECK(!gleaner_set_limit(s.m, 33 << 20, message, sizeof message));
    CHECK(strstr(message, "made for 1m to 32m") != NULL);
    CHECK(gleaner_limit(s.heap) == 16 << 20);
    CHECK(gleaner_set_limit(s.m, 32 << 20, message, sizeof message));
    CHECK(fill(&s) > all * 8 / 10);
    CHECK(gleaner_trim(s.m) > 0 && gleaner_resident(s.heap) < 1 << 20);
    {
        GLEANER_FRAME(s.m, frame, 1);
        void *large = gleaner_allocate_array_pinned(s.m, s.bytes, 8 << 20, 1);

        frame.values[0] = gleaner_reference(large);
        CHECK(large != NULL);
        CHECK(!gleaner_set_limit(s.m, 4 << 20, message, sizeof message));
        CHECK(strstr(message, "what lives needs") != NULL);
        GLEANER_LEAVE(s.m, frame);
    }
    tear_down(&s);
}

struct seen {
    struct stage *s;
    int types;
    uint64_t nodes, bytes;
};

static void see(void *data, const struct gleaner_type_count *of)
{
    struct seen *seen = (struct seen *)data;

    seen->types++;
    if (of->type == seen->s->node) {
        CHECK(strcmp(of->name, "node") == 0);
        seen->nodes = of->live_objects;
        seen->bytes = of->live_bytes;
    } else {
        CHECK(strcmp(of->name, "") == 0);
    }
    CHECK(of->allocated_objects == 0);
    /* The world runs. */
    CHECK(gleaner_allocate(seen->s->m, seen->s->node, seen->s->node_bytes));
}

static void a_census_names_types(bool compressed)
{
    struct stage s = set_up(compressed, 8 << 20);
    struct seen seen = { &s, 0, 0, 0 };
    int i;
    GLEANER_FRAME(s.m, frame, 1);

    gleaner_name_type(s.heap, s.node, "a former name");
    gleaner_name_type(s.heap, s.node, "node");
    for (i = 0; i < 100; i++) {
        gleaner_value node = new_node(&s, 1);

        if (i % 2 == 0) {
            gleaner_store(s.m, gleaner_object(node), 8, frame.values[0]);
            frame.values[0] = node;
        }
    }
    gleaner_census(s.m, see, &seen);
    CHECK(seen.types == 1 && seen.nodes == 50);
    CHECK(seen.bytes == 50 * ((s.node_bytes + 7) / 8 * 8));
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

static void a_snapshot_is_written(bool compressed)
{
    struct stage s = set_up(compressed, 8 << 20);
    char path[] = "/tmp/gleaner-capi-XXXXXX", message[200] = "", text[4096];
    int file = mkstemp(path);
    GLEANER_FRAME(s.m, frame, 1);
    size_t length;
    FILE *in;

    CHECK(file >= 0 && close(file) == 0);
    gleaner_name_type(s.heap, s.node, "cons cell");
    frame.values[0] = new_node(&s, 1);
    gleaner_store(s.m, gleaner_object(frame.values[0]), 8, frame.values[0]);
    CHECK(gleaner_snapshot(s.m, path, message, sizeof message));
    in = fopen(path, "r");
    CHECK(in != NULL);
    length = in == NULL ? 0 : fread(text, 1, sizeof text - 1, in);
    text[length] = 0;
    CHECK(strncmp(text, "gleaner-heap 1\n", 15) == 0);
    CHECK(strstr(text, " cons cell\n") != NULL);
    CHECK(strstr(text, "\nend 1 1\n") != NULL);
    if (in != NULL)
        fclose(in);
    CHECK(!gleaner_snapshot(s.m, "/no/such/directory/file", message,
                            sizeof message));
    CHECK(strstr(message, "the snapshot cannot be written") != NULL);
    CHECK(unlink(path) == 0);
    GLEANER_LEAVE(s.m, frame);
    tear_down(&s);
}

/* Where malloc has no memory until the first handle is refused; then everything
   goes on. */
static void make_handles_without_memory(const void *of)
{
    enum { MOST = 1000 };
    const struct stage *s = (const struct stage *)of;
    gleaner_handle *handles[MOST + 1];
    struct rlimit before, none;
    void *volatile taken;
    size_t bytes;
    int count = 1, i;

    handles[0] = gleaner_handle_new(s->m, gleaner_integer(0));
    if (handles[0] == NULL || getrlimit(RLIMIT_DATA, &before) != 0)
        _exit(1);
    none = before;
    none.rlim_cur = 1; /* 0 would be no limit */
    if (setrlimit(RLIMIT_DATA, &none) != 0)
        _exit(2);
    for (bytes = 4096; bytes >= 16; bytes /= 2)
        while ((taken = malloc(bytes)) != NULL)
            ;
    while (count < MOST
           && (handles[count] = gleaner_handle_new(s->m, gleaner_integer(count)))
                  != NULL)
        count++;
    if (setrlimit(RLIMIT_DATA, &before) != 0 || count == MOST)
        _exit(3);
    handles[count] = gleaner_handle_new(s->m, gleaner_integer(count));
    for (i = 0; i <= count; i++) {
        if (gleaner_number(gleaner_handle_get(handles[i])) != i)
            _exit(4);
        gleaner_handle_free(handles[i]);
    }
    gleaner_collect(s->m, true);
    gleaner_detach(s->m);
    /* What was refused is not counted among what holds the heap. */
    _exit(gleaner_heap_free(s->heap) ? 0 : 5);
}

static void a_handle_without_memory_is_null(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    char said[8192];
    int status = said_by_child(make_handles_without_memory, &s, said,
                               sizeof said);

    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(said[0] == 0);
    tear_down(&s);
}

int main(void)
{
    static const struct stage_case cases[] = {
        { "bytes outside bring collections", bytes_outside_bring_collections },
        { "the limit changes", the_limit_changes },
        { "a handle without memory is NULL", a_handle_without_memory_is_null },
        { "a census names types", a_census_names_types },
        { "a snapshot is written", a_snapshot_is_written },
    };

    return run_cases(cases, sizeof cases / sizeof *cases);
}
