/* Snapshots of the heap: what is written where, when, and that it is true. */
#include "harness.h"
#include "snapshot_file.h"

#include <dirent.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>

static char directory[] = "/tmp/gleaner-snapshot-XXXXXX";

static char *path_of(const char *name);

/* What the children tell their parent: addresses. */
struct shared {
    void *head, *tail, *inner, *unspoken, *typed, *typed_target, *not_target, *pushed, *uncollectable, *kept, *of_child, *debug;
    void *marked, *marked_target, *large, *beyond, *raw, *result, *data;
    pid_t child;
    int heard;
    void **slot;
    void *old[100];
};
static struct shared *shared;

static void prepare(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    REQUIRE(mkdtemp(directory) != NULL);
}

/* Removes the directory of this test with what is in it. */
static void tidy(void)
{
    DIR *opened = opendir(directory);
    const struct dirent *entry;

    while ((entry = readdir(opened)) != NULL)
        if (entry->d_name[0] != '.')
            unlink(path_of(entry->d_name));
    closedir(opened);
    unlink(path_of(".said"));
    CHECK_EQ(rmdir(directory), 0);
}

static char *path_of(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static int files(void)
{
    DIR *opened = opendir(directory);
    int count = 0;
    const struct dirent *entry;

    while ((entry = readdir(opened)) != NULL)
        count += entry->d_name[0] != '.';
    closedir(opened);
    return count;
}

static void *root, *inner, *unspoken, *large;
static void **outside;
static void *hidden[2];

static struct GC_ms_entry *mark_second(GC_word *object, struct GC_ms_entry *top, struct GC_ms_entry *limit,
                                       GC_word environment)
{
    (void)environment;
    /* Memory of the program's own, to be scanned as it is. */
    if (outside != NULL) {
        void **entry = (void **)top + 2; /* two words each: start and descriptor */
        entry[0] = outside;
        entry[1] = (void *)(2 * sizeof(void *));
        top = (struct GC_ms_entry *)entry;
    }
    return GC_MARK_AND_PUSH((void *)object[1], top, limit, (void **)&object[1]);
}

static void push_hidden(void)
{
    GC_push_all((char *)hidden, (char *)(hidden + 2));
}

static GC_push_other_roots_proc before;

static void push_more(void)
{
    if (before != NULL)
        before();
    push_hidden();
}

static void fill(void)
{
    GC_word bitmap[GC_BITMAP_SIZE(void *[3])] = { 0 };
    void **cell, **typed;
    unsigned kind;

    root = cell = GC_malloc(48);
    shared->head = cell;
    cell[2] = GC_malloc_atomic(100);
    shared->tail = cell[2];
    inner = (char *)GC_malloc(64) + 8;
    shared->inner = (char *)inner - 8;
    GC_set_bit(bitmap, 1);
    typed = GC_malloc_explicitly_typed(3 * sizeof(void *), GC_make_descriptor(bitmap, 3));
    cell[1] = typed;
    typed[0] = GC_malloc(16);
    typed[1] = GC_malloc(16);
    shared->typed = typed;
    shared->not_target = typed[0];
    shared->typed_target = typed[1];
    kind = GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(GC_new_proc(mark_second), 0), 0, 1);
    cell[3] = GC_generic_malloc(32, (int)kind);
    shared->marked = cell[3];
    ((void **)cell[3])[1] = GC_malloc(16);
    shared->marked_target = ((void **)cell[3])[1];
    shared->uncollectable = GC_malloc_uncollectable(40);
    *(void **)shared->uncollectable = shared->kept = GC_malloc(16);
    cell[4] = GC_debug_malloc(24, "snapshot.c", 4711);
    shared->debug = GC_base(cell[4]);
    shared->slot = &root;
    cell[5] = inner; /* which speaks for the other word that leads there */
    unspoken = (char *)GC_malloc(64) + 16;
    shared->unspoken = (char *)unspoken - 16;
    hidden[0] = NULL;
    large = shared->large = GC_malloc(80000);
    ((void **)large)[9999] = shared->beyond = GC_malloc(16);
    outside = malloc(2 * sizeof(void *));
    outside[0] = NULL;
    outside[1] = shared->raw = GC_malloc(16);
}

/* Runs `body` in a child with these options; it must end well. */
static void in_child(const char *options, void (*body)(void))
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        int said = open(path_of(".said"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        add_options(options);
        dup2(said, 2);
        body();
        exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static char *with_path(const char *name, const char *more)
{
    static char options[2 * PATH_MAX];
    snprintf(options, sizeof options, "snapshot=%s%s", path_of(name), more);
    return options;
}

static void fill_and_push(void)
{
    GC_INIT();
    before = GC_get_push_other_roots();
    GC_set_push_other_roots(push_more);
    GC_exclude_static_roots(hidden, hidden + 2);
    fill();
    hidden[0] = shared->pushed = GC_malloc(16);
}

static void check_contents(const char *name)
{
    char target[64];

    read_snapshot(path_of(name));
    CHECK(strncmp(text, "gleaner-heap 1\nprocess ", 23) == 0);
    CHECK(line("when collection ") != NULL && line("heap ") != NULL);
    CHECK(line("kind 0 pointer-free\n") != NULL && line("kind 1 normal\n") != NULL);
    CHECK(strstr(text, " of the program, with a mark procedure\n") != NULL);
    CHECK(line("root static ") != NULL && line("root stack ") != NULL);
    CHECK(has_word(shared->slot, shared->head, 0));
    CHECK(has_word(&inner, shared->inner, 8));
    CHECK(has_word(&unspoken, shared->unspoken, 16));
    snprintf(target, sizeof target, "held %lx\n", (unsigned long)shared->inner + 8);
    CHECK(line(target) != NULL && line(target) == line("held "));
    CHECK(strstr(line(target) + 1, "held ") == NULL);
    CHECK(refers(shared->head, shared->tail) && refers(shared->head, shared->typed));
    CHECK(has_object(shared->tail));
    CHECK(refers(shared->typed, shared->typed_target));
    CHECK(!refers(shared->typed, shared->not_target));
    CHECK(refers(shared->marked, shared->marked_target));
    CHECK(refers(shared->marked, shared->raw) && has_object(shared->raw));
    CHECK(refers(shared->large, shared->beyond) && has_object(shared->beyond));
    CHECK(refers(shared->uncollectable, shared->kept));
    snprintf(target, sizeof target, "t %lx\n", (unsigned long)shared->uncollectable);
    CHECK(line(target) != NULL && line(target) > line("root uncollectable\n"));
    snprintf(target, sizeof target, "t %lx\n", (unsigned long)shared->pushed);
    CHECK(line(target) != NULL && line(target) > line("root pushed by the program\n"));
    CHECK(has_object(shared->pushed));
    snprintf(target, sizeof target, "o %lx ", (unsigned long)shared->debug);
    CHECK(line(target) != NULL);
    CHECK(strncmp(strchr(line(target), '\n'), "\na snapshot.c:4711\n", 19) == 0);
}

/* The last line counts what was written. */
static void check_counts(void)
{
    unsigned long objects, edges, said_objects, said_edges;
    const char *at = text;

    objects = edges = 0;
    while (at != NULL && *at != '\0') {
        const char *end = strchr(at, '\n');
        CHECK(end != NULL);
        if (*at == 'o') {
            int spaces = 0;
            for (const char *c = at; c < end; c++)
                spaces += *c == ' ';
            objects++;
            edges += (unsigned long)spaces - 3;
        }
        at = end + 1;
    }
    CHECK(line("end ") != NULL);
    CHECK_EQ(sscanf(line("end "), "end %lu %lu\n", &said_objects, &said_edges), 2);
    CHECK_EQ(objects, said_objects);
    CHECK_EQ(edges, said_edges);
    CHECK(objects > 8 && edges > 6);
    CHECK(strchr(line("end "), '\n')[1] == '\0');
}

static void the_end_of_the_program_tells_what_lives_and_what_keeps_it(void)
{
    prepare();
    in_child(with_path("exit", ",snapshot-at=exit"), fill_and_push);
    check_contents("exit");
    check_counts();
    CHECK_EQ(files(), 1);
    tidy();
}

static void grow_and_shrink(void)
{
    GC_INIT();
    for (int i = 0; i < 100000; i++) {
        void **cell = GC_malloc(32);
        *cell = root;
        root = cell;
    }
    GC_gcollect();
    root = GC_malloc(32); /* less, and not nothing */
    GC_gcollect();
}

static unsigned long said_objects(void)
{
    unsigned long objects = 0;
    CHECK(line("end ") != NULL);
    CHECK_EQ(sscanf(line("end "), "end %lu", &objects), 1);
    return objects;
}

static void the_peak_is_what_stays(void)
{
    prepare();
    in_child(with_path("peak", ""), grow_and_shrink);
    read_snapshot(path_of("peak"));
    CHECK(said_objects() >= 80000); /* within a quarter */
    CHECK(files() == 1);
    tidy();
}

static void collect_thrice(void)
{
    GC_INIT();
    GC_disable();
    root = GC_malloc(32);
    for (int i = 0; i < 3; i++) {
        GC_enable();
        GC_gcollect();
        GC_disable();
    }
}

static void each_collection_has_a_number(void)
{
    prepare();
    in_child(with_path("%n.heap", ",snapshot-at=collection"), collect_thrice);
    read_snapshot(path_of("1.heap"));
    CHECK(said_objects() > 0);
    read_snapshot(path_of("3.heap"));
    CHECK(said_objects() > 0);
    tidy();
}

static void wait_for_signal(void)
{
    GC_INIT();
    root = GC_malloc(32);
    *(void **)root = shared->kept = GC_malloc(48);
    raise(SIGUSR2);
    for (int i = 0; i < 100000; i++)
        GC_malloc(64);
    _exit(0);
}

static void a_signal_calls_for_one(void)
{
    prepare();
    in_child(with_path("signal", ",snapshot-at=signal"), wait_for_signal);
    read_snapshot(path_of("signal"));
    CHECK(strstr(text, "SIGUSR2\n") != NULL);
    CHECK(has_object(shared->kept));
    tidy();
}

static NOINLINE void *list_of(int length)
{
    void **list = NULL;
    for (int i = 0; i < length; i++) {
        void **cell = GC_malloc(48);
        *cell = list;
        list = shared->old[i % 100] = (void *)cell;
    }
    return list;
}

/* Freed cells that wait on the lists of a thread are no objects, and nothing leads to them. */
static void *until_freed[100];

static void free_much(void)
{
    GC_INIT();
    for (int kind = 0; kind < 4; kind++) {
        for (int i = 0; i < 100; i++)
            until_freed[i] = shared->old[i] = GC_generic_or_special_malloc(48, kind);
        for (int i = 0; i < 100; i++) {
            GC_free(until_freed[i]);
            until_freed[i] = NULL;
        }
    }
    root = shared->kept = GC_malloc_uncollectable(48);
    shared->head = shared->old[50];
    ((void **)root)[3] = shared->head; /* a stale word */
}

static void what_was_freed_is_not_shown(void)
{
    prepare();
    in_child(with_path("freed", ",snapshot-at=exit"), free_much);
    read_snapshot(path_of("freed"));
    CHECK(has_object(shared->kept));
    CHECK(!has_object(shared->head));
    CHECK(!refers(shared->kept, shared->head));
    for (int i = 0; i < 100; i++)
        CHECK(!has_object(shared->old[i]));
    tidy();
}

/* What has died is old by then: collections of new objects keep it. */
static void drop_what_is_old(void)
{
    GC_INIT();
    large = list_of(200000); /* so much that it pays to keep its marks */
    root = list_of(100);
    GC_gcollect();
    root = shared->kept = GC_malloc(48);
    raise(SIGUSR2);
    for (int i = 0; i < 100000; i++)
        GC_malloc(64);
    _exit(0);
}

static void a_signal_calls_for_one_of_everything(void)
{
    int there = 0;
    prepare();
    /* Under stress, here of so many allocations that none comes, marks are kept whatever that costs. */
    in_child(with_path("signal", ",snapshot-at=signal,generations=sticky,stress=1000000000"), drop_what_is_old);
    read_snapshot(path_of("signal"));
    CHECK(has_object(shared->kept));
    for (int i = 0; i < 100; i++)
        there += has_object(shared->old[i]);
    CHECK_LE(there, 50); /* a stray word may keep some of the list */
    tidy();
}

static void end_after_a_signal(void)
{
    GC_INIT();
    root = shared->kept = GC_malloc(48);
    raise(SIGUSR2);
}

static void a_signal_is_obeyed_at_the_end_at_the_latest(void)
{
    prepare();
    in_child(with_path("late", ",snapshot-at=signal"), end_after_a_signal);
    read_snapshot(path_of("late"));
    CHECK(has_object(shared->kept));
    tidy();
}

static void keep_going(void)
{
    GC_INIT();
    root = GC_malloc(32);
    GC_gcollect();
    CHECK(root != NULL);
}

static void what_cannot_be_written_stops_nothing(void)
{
    prepare();
    in_child(with_path("no/such/directory", ",snapshot-at=exit"), keep_going);
    in_child("snapshot=/dev/full/x,snapshot-at=collection", keep_going);
    CHECK_EQ(files(), 0);
    tidy();
}

static void *wait_there(void *pipe)
{
    void *volatile mine = shared->kept = GC_malloc(4000);
    char byte;

    CHECK_EQ(write(((int *)pipe)[3], "x", 1), 1);
    CHECK_EQ(read(((int *)pipe)[0], &byte, 1), 1);
    CHECK(mine != NULL);
    return NULL;
}

static void collect_beside_a_thread(void)
{
    int pipes[4];
    char byte;
    pthread_t thread;

    GC_INIT();
    GC_allow_register_threads();
    CHECK_EQ(pipe(pipes), 0);
    CHECK_EQ(pipe(pipes + 2), 0);
    CHECK_EQ(GC_pthread_create(&thread, NULL, wait_there, pipes), 0);
    CHECK_EQ(read(pipes[2], &byte, 1), 1);
    GC_gcollect();
    CHECK_EQ(write(pipes[1], "x", 1), 1);
    CHECK_EQ(GC_pthread_join(thread, NULL), 0);
}

/* The root in front of the first word that leads to `base`. */
static const char *root_of(const void *base)
{
    char wanted[64];
    const char *found, *last = NULL;

    snprintf(wanted, sizeof wanted, " %lx 0\n", (unsigned long)base);
    found = strstr(text, wanted);
    CHECK(found != NULL);
    for (const char *at = line("root "); at != NULL && at < found; at = strstr(at + 1, "\nroot "))
        last = at;
    return last + (*last == '\n');
}

static void other_threads_have_their_stacks(void)
{
    prepare();
    in_child(with_path("%n", ",snapshot-at=collection"), collect_beside_a_thread);
    read_snapshot(path_of("1"));
    CHECK(strncmp(root_of(shared->kept), "root stack ", 11) == 0);
    tidy();
}

static ucontext_t outside_of_coroutine, coroutine;
static void keep_in_a_coroutine(void)
{
    shared->kept = GC_malloc(4000);
    GC_gcollect();
    swapcontext(&coroutine, &outside_of_coroutine);
}

static void collect_beside_a_coroutine(void)
{
    GC_INIT();
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = malloc(256 << 10);
    coroutine.uc_stack.ss_size = 256 << 10;
    makecontext(&coroutine, keep_in_a_coroutine, 0);
    swapcontext(&outside_of_coroutine, &coroutine);
    GC_gcollect();
}

static void coroutines_that_wait_have_their_memory(void)
{
    static const char expected[] = " memory that may be a stack\n";
    prepare();
    in_child(with_path("%n", ",snapshot-at=collection"), collect_beside_a_coroutine);
    read_snapshot(path_of("2"));
    CHECK(strncmp(strchr(root_of(shared->kept), '\n') + 1 - strlen(expected), expected, strlen(expected)) == 0);
    tidy();
}

/* Whether that object is a target of the root of that name. */
static int is_kept_by(const char *root_line, const void *base)
{
    char target[64];
    const char *section = line(root_line), *end, *found;

    snprintf(target, sizeof target, "\nt %lx\n", (unsigned long)base);
    if (section == NULL)
        return 0;
    end = strstr(section + 1, "\nroot ");
    found = strstr(section, target);
    return found != NULL && (end == NULL || found < end);
}

static void *give_object(void *unused)
{
    (void)unused;
    return shared->result = GC_malloc(4000);
}

static void never(void *object, void *data)
{
    (void)object;
    (void)data;
}

static NOINLINE void hold_by_the_collector(void)
{
    shared->data = GC_malloc(3000);
    GC_register_finalizer(root, never, shared->data, NULL, NULL);
}

static void keep_in_the_collector(void)
{
    pthread_t thread;

    GC_INIT();
    GC_allow_register_threads();
    root = GC_malloc(32);
    hold_by_the_collector();
    CHECK_EQ(GC_pthread_create(&thread, NULL, give_object, NULL), 0);
    while (shared->result == NULL)
        nap(1000);
    nap(50000);
    GC_gcollect();
}

static void what_the_collector_keeps_has_roots(void)
{
    prepare();
    in_child(with_path("%n", ",snapshot-at=collection"), keep_in_the_collector);
    read_snapshot(path_of("1"));
    if (!under_stress()) {
        CHECK(is_kept_by("root results of threads\n", shared->result) || strstr(text, "root stack") != NULL);
        CHECK(is_kept_by("root finalizers\n", shared->data));
        CHECK(has_object(shared->data) && has_object(shared->result));
    }
    tidy();
}

static void point_inside(void)
{
    GC_set_all_interior_pointers(0);
    GC_INIT();
    root = GC_malloc(64);
    inner = (char *)root + 24;
    shared->inner = root;
}

static void only_what_counts_as_a_pointer_is_shown(void)
{
    prepare();
    in_child(with_path("inside", ",snapshot-at=exit"), point_inside);
    read_snapshot(path_of("inside"));
    CHECK(has_word(&root, shared->inner, 0));
    CHECK(!has_word(&inner, shared->inner, 24));
    tidy();
}

static void grow_slowly(void)
{
    GC_INIT();
    for (int step = 0; step < 30; step++) {
        for (int i = 0; i < (step == 0 ? 100000 : 500); i++) {
            void **cell = GC_malloc(32);
            *cell = root;
            root = cell;
        }
        GC_gcollect();
    }
}

static void a_little_more_is_no_new_peak(void)
{
    prepare();
    if (!under_stress()) {
        in_child(with_path("%n.heap", ""), grow_slowly);
        /* A few on the way to the first 100,000, a quarter apart, and no 29 more. */
        CHECK_LE(files(), 29);
        read_snapshot(path_of("1.heap"));
        in_child(with_path("%p.heap", ""), collect_thrice);
        CHECK(said_objects() > 0);
    }
    tidy();
}

static void fork_and_collect(void)
{
    int status;
    pid_t child;

    GC_set_handle_fork(1);
    GC_INIT();
    root = GC_malloc(32);
    *(void **)root = shared->kept = GC_malloc(32);
    GC_gcollect();
    child = fork();
    if (child == 0) {
        root = shared->of_child = GC_malloc(32);
        GC_gcollect();
        _exit(0);
    }
    shared->child = child; /* which the child does not write, too */
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
}

static void a_child_does_not_replace_what_its_parent_wrote(void)
{
    char name[64];

    prepare();
    in_child(with_path("own", ",snapshot-at=collection"), fork_and_collect);
    read_snapshot(path_of("own"));
    CHECK(has_object(shared->kept));
    snprintf(name, sizeof name, "own.%d", (int)shared->child);
    read_snapshot(path_of(name));
    CHECK(has_object(shared->of_child));
    tidy();
}

static void a_link_stays_one(void)
{
    char target[PATH_MAX];
    struct stat status;

    prepare();
    snprintf(target, sizeof target, "%s", path_of("target"));
    CHECK_EQ(symlink(target, path_of("link")), 0);
    in_child(with_path("link", ",snapshot-at=exit"), keep_going);
    CHECK(lstat(path_of("link"), &status) == 0 && S_ISLNK(status.st_mode));
    read_snapshot(path_of("target"));
    CHECK(said_objects() > 0);
    tidy();
}

static void write_too_much(void)
{
    struct rlimit limit = { 4000, RLIM_INFINITY };

    GC_INIT();
    root = GC_malloc(32);
    for (int i = 0; i < 1000; i++) {
        void **cell = GC_malloc(32);
        *cell = root;
        root = cell;
    }
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    GC_gcollect();
    CHECK_EQ(files(), 0);
    limit.rlim_cur = RLIM_INFINITY;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    GC_gcollect();
}

static void one_that_cannot_be_written_leaves_nothing_and_is_told(void)
{
    char said[4096] = "";
    int file;

    prepare();
    if (!under_stress()) {
        in_child(with_path("%n.heap", ",snapshot-at=collection"), write_too_much);
        read_snapshot(path_of("1.heap"));
        CHECK(said_objects() > 1000);
        CHECK_EQ(files(), 1);
        file = open(path_of(".said"), O_RDONLY);
        CHECK_GE(read(file, said, sizeof said - 1), 1);
        close(file);
        CHECK(strstr(said, "1.heap cannot be written") != NULL);
    }
    tidy();
}

static void on_signal(int number)
{
    (void)number;
    shared->heard++;
}

static void handle_the_signal(void)
{
    signal(SIGUSR2, on_signal);
    GC_INIT();
    raise(SIGUSR2);
    keep_going();
}

static void a_handler_of_the_program_stays(void)
{
    prepare();
    in_child(with_path("signal", ",snapshot-at=signal"), handle_the_signal);
    CHECK_EQ(shared->heard, 1);
    CHECK_EQ(files(), 0);
    tidy();
}

MAIN_BEGIN
    RUN_GLEANER(the_end_of_the_program_tells_what_lives_and_what_keeps_it);
    RUN_GLEANER(the_peak_is_what_stays);
    RUN_GLEANER(each_collection_has_a_number);
    RUN_GLEANER(a_signal_calls_for_one);
    RUN_GLEANER(a_signal_calls_for_one_of_everything);
    RUN_GLEANER(what_was_freed_is_not_shown);
    RUN_GLEANER(a_signal_is_obeyed_at_the_end_at_the_latest);
    RUN_GLEANER(what_cannot_be_written_stops_nothing);
    RUN_GLEANER(other_threads_have_their_stacks);
    RUN_GLEANER(coroutines_that_wait_have_their_memory);
    RUN_GLEANER(what_the_collector_keeps_has_roots);
    RUN_GLEANER(only_what_counts_as_a_pointer_is_shown);
    RUN_GLEANER(a_little_more_is_no_new_peak);
    RUN_GLEANER(a_child_does_not_replace_what_its_parent_wrote);
    RUN_GLEANER(a_link_stays_one);
    RUN_GLEANER(one_that_cannot_be_written_leaves_nothing_and_is_told);
    RUN_GLEANER(a_handler_of_the_program_stays);
MAIN_END
