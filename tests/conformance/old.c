/* What old objects are written to refer to: by stores, by system calls, in
 * children, through typed layouts, in the middle of large objects. A collector
 * with generations must see all of it. Between the write and the check garbage
 * is allocated, so that collections run that the program did not ask for. */
#include "harness.h"
#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <sys/stat.h>
#include <sys/uio.h>

enum { HOLDERS = 400, WORDS = 30 };

struct young {
    struct young *next;
    uintptr_t number;
};

/* Large enough that a collector that weighs roots against what lives finds
 * something to gain. */
static void **holders;

static NOINLINE struct young *fresh(uintptr_t number)
{
    struct young *y = GC_malloc(sizeof *y);
    y->next = GC_malloc(sizeof *y);
    y->number = number;
    y->next->number = ~number;
    return y;
}

static NOINLINE void check_young(const struct young *y, uintptr_t number)
{
    CHECK_EQ(y->number, number);
    CHECK_EQ(y->next->number, ~number);
}

/* Collections by allocation alone, of whatever they are: at least two. */
static NOINLINE void pass_time(void)
{
    size_t before = GC_get_gc_no();
    size_t most = (size_t)(under_stress() ? 1 : 256) << 20;
    for (size_t done = 0; done < most && GC_get_gc_no() < before + 2; done += 48) {
        char *garbage = GC_malloc(48);
        memset(garbage, 0xee, 48);
    }
    CHECK_GE(GC_get_gc_no(), before + 1);
}

static void make_old(void)
{
    GC_INIT();
    holders = GC_malloc_uncollectable(HOLDERS * sizeof *holders);
    for (int i = 0; i < HOLDERS; i++)
        holders[i] = GC_malloc(WORDS * sizeof(void *));
    GC_gcollect();
    pass_time();
}

static NOINLINE void store_all(uintptr_t round)
{
    for (int i = 0; i < HOLDERS; i++)
        ((void **)holders[i])[(i + round) % WORDS] = fresh(i + round);
}

static void stores(void)
{
    make_old();
    for (uintptr_t round = 0; round < 6; round++) {
        store_all(round);
        pass_time();
        for (int i = 0; i < HOLDERS; i++)
            check_young(((void **)holders[i])[(i + round) % WORDS], i + round);
    }
}

/* Only one object in many is written. */
static void one_store(void)
{
    make_old();
    for (int i = 0; i < 20; i++) {
        int at = i * 37 % HOLDERS;
        ((void **)holders[at])[3] = fresh(at);
        pass_time();
        check_young(((void **)holders[at])[3], at);
    }
}

/* A chain of objects that grow old one after the other. */
static void chain(void)
{
    make_old();
    struct young **end = (struct young **)holders[7];
    for (uintptr_t i = 0; i < 12; i++) {
        *end = fresh(i);
        end = &(*end)->next->next;
        pass_time();
    }
    struct young *y = *(struct young **)holders[7];
    for (uintptr_t i = 0; i < 12; i++, y = y->next->next)
        check_young(y, i);
}

/* The kernel writes the pointer: read, readv and a copy by process_vm_writev. */
static NOINLINE void through_pipe(const int ends[2], int holder, uintptr_t number)
{
    void *y = fresh(number);
    CHECK_EQ(write(ends[1], &y, sizeof y), sizeof y);
    void **place = (void **)holders[holder] + 5;
    struct iovec into = {place, sizeof y};
    ssize_t done = number % 2 ? read(ends[0], place, sizeof y) : readv(ends[0], &into, 1);
    CHECK_EQ(done, sizeof y);
}

static void system_calls(void)
{
    int ends[2];
    make_old();
    REQUIRE(pipe(ends) == 0);
    for (int i = 0; i < HOLDERS; i++)
        through_pipe(ends, i, i);
    pass_time();
    for (int i = 0; i < HOLDERS; i++)
        check_young(((void **)holders[i])[5], i);
}

/* Page after page of a large object. */
static void large(void)
{
    enum { PAGES = 40 };
    GC_INIT();
    void ***root = GC_malloc_uncollectable(sizeof *root);
    *root = GC_malloc(PAGES * 4096);
    GC_gcollect();
    pass_time();
    for (int page = 0; page < PAGES; page += 3) {
        (*root)[page * 512 + page] = fresh(page);
        pass_time();
    }
    for (int page = 0; page < PAGES; page += 3)
        check_young((*root)[page * 512 + page], page);
    *root = GC_realloc(*root, 3 * PAGES * 4096);
    (*root)[2 * PAGES * 512] = fresh(4711);
    pass_time();
    check_young((*root)[2 * PAGES * 512], 4711);
    check_young((*root)[3 * 512 + 3], 3);
}

/* Only the second word is a pointer. */
static void typed(void)
{
    GC_INIT();
    GC_word bits[1] = {2};
    GC_descr layout = GC_make_descriptor(bits, 4);
    void ***root = GC_malloc_uncollectable(100 * sizeof *root);
    for (int i = 0; i < 100; i++)
        root[i] = i % 2 ? GC_malloc_explicitly_typed(4 * sizeof(void *), layout)
                        : GC_calloc_explicitly_typed(9, 4 * sizeof(void *), layout);
    GC_gcollect();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++)
            root[i][1] = fresh(i + round);
        pass_time();
        for (int i = 0; i < 100; i++)
            check_young(root[i][1], i + round);
    }
}

/* What the first word of an object leads to, outside of the heap. */
struct type {
    const char *name;
    GC_descr layout;
};

static NOINLINE void store_typed(void ***root, int count, uintptr_t round)
{
    for (int i = 0; i < count; i++)
        root[i][1] = fresh(i + round);
}

/* Objects that bring their descriptors along, in steps and beside a thread: what is written is found, also where more
 * words are pointers by now. Old objects stay what they are while their types change. */
static void *bystander(void *stop)
{
    while (!*(volatile int *)stop)
        usleep(1000);
    return NULL;
}

static void by_type(void)
{
    enum { COUNT = 600, TYPES = 300 };
    static struct type types[TYPES];
    static volatile int stop;
    pthread_t thread;
    GC_INIT();
    GC_init_gcj_malloc(GC_GCJ_RESERVED_MARK_PROC_INDEX, NULL);
    REQUIRE(pthread_create(&thread, NULL, bystander, (void *)&stop) == 0);
    GC_word second[1] = {2}, more[1] = {6};
    GC_descr layout = GC_make_descriptor(second, 4);
    void ***root = GC_malloc_uncollectable(COUNT * sizeof *root);
    /* More types than anybody remembers at first, then few. */
    for (int few = 0; few < 2; few++) {
        for (int i = 0; i < TYPES; i++)
            types[i].layout = layout;
        for (int i = 0; i < COUNT; i++)
            root[i] = GC_gcj_malloc(4 * sizeof(void *), &types[few ? i % 3 : i % TYPES]);
        GC_gcollect();
        for (uintptr_t round = 0; round < 3; round++) {
            store_typed(root, COUNT, round);
            pass_time();
            for (int i = 0; i < COUNT; i++)
                check_young(root[i][1], i + round);
        }
        for (int i = 0; i < TYPES; i++)
            types[i].layout = GC_make_descriptor(more, 4);
        for (int i = 0; i < COUNT; i += 7)
            root[i][2] = fresh(i);
        pass_time();
        for (int i = 0; i < COUNT; i++) {
            check_young(root[i][1], i + 2);
            if (i % 7 == 0)
                check_young(root[i][2], i);
        }
    }
    stop = 1;
    pthread_join(thread, NULL);
}

/* Cells that were old, were freed, and are handed out again. */
static void freed_and_reused(void)
{
    make_old();
    for (uintptr_t round = 0; round < 8; round++) {
        for (int i = 0; i < HOLDERS; i += 2) {
            GC_free(holders[i]);
            holders[i] = NULL;
        }
        if (round % 2)
            pass_time();
        for (int i = 0; i < HOLDERS; i += 2) {
            void **again = GC_malloc(WORDS * sizeof(void *));
            CHECK(again[0] == NULL && memcmp(again, again + 1, (WORDS - 1) * sizeof *again) == 0);
            holders[i] = again;
        }
        store_all(round);
        pass_time();
        for (int i = 0; i < HOLDERS; i++)
            check_young(((void **)holders[i])[(i + round) % WORDS], i + round);
    }
}

/* The child of a fork, and the parent after it. */
static void forked(void)
{
    make_old();
    for (int round = 0; round < 3; round++) {
        store_all(round);
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            for (int i = 0; i < HOLDERS; i++)
                check_young(((void **)holders[i])[(i + round) % WORDS], i + round);
            store_all(round + 100);
            pass_time();
            for (int i = 0; i < HOLDERS; i++)
                check_young(((void **)holders[i])[(i + round + 100) % WORDS], i + round + 100);
            _exit(h_test_failed);
        }
        pass_time();
        for (int i = 0; i < HOLDERS; i++)
            check_young(((void **)holders[i])[(i + round) % WORDS], i + round);
        int status;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
    }
}

/* The program's own handler sees no fault that is not its own. */
static volatile sig_atomic_t faults;
static void *volatile expected;

static void on_fault(int sig, siginfo_t *info, void *context)
{
    (void)sig, (void)context;
    if (info->si_addr != expected)
        _exit(3);
    faults++;
    /* Lets the access through when it is repeated. */
    extern int mprotect(void *, size_t, int);
    mprotect((void *)((uintptr_t)expected & ~(uintptr_t)4095), 4096, 3);
}

static void own_handler(void)
{
    extern void *mmap(void *, size_t, int, int, int, off_t);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    volatile char *page = mmap(NULL, 4096, 0, 0x22, -1, 0);
    CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    make_old();
    store_all(1);
    expected = (void *)(page + 123);
    page[123] = 1;
    pass_time();
    CHECK_EQ(faults, 1);
    for (int i = 0; i < HOLDERS; i++)
        check_young(((void **)holders[i])[(i + 1) % WORDS], i + 1);
}

/* Threads that write while others collect. */
static void *writer(void *argument)
{
    uintptr_t first = (uintptr_t)argument;
    for (int round = 0; round < 40; round++)
        for (int i = (int)first; i < HOLDERS; i += 4) {
            void **holder = holders[i];
            struct young *before = holder[9];
            if (before != NULL)
                check_young(before, i + round - 1);
            holder[9] = fresh(i + round);
        }
    return NULL;
}

static void threads_write(void)
{
    pthread_t threads[4];
    make_old();
    for (uintptr_t t = 0; t < 4; t++)
        REQUIRE(pthread_create(&threads[t], NULL, writer, (void *)t) == 0);
    for (int t = 0; t < 4; t++)
        pthread_join(threads[t], NULL);
    pass_time();
    for (int i = 0; i < HOLDERS; i++)
        check_young(((void **)holders[i])[9], i + 39);
}

/* Marks that the program takes away do not make what is reachable die. */
static void *clear_marks(void *unused)
{
    (void)unused;
    for (int i = 0; i < HOLDERS; i++)
        GC_clear_mark_bit(holders[i]);
    return NULL;
}

static void cleared_marks(void)
{
    make_old();
    store_all(0);
    pass_time();
    GC_call_with_alloc_lock(clear_marks, NULL);
    pass_time();
    for (int i = 0; i < HOLDERS; i++) {
        CHECK_PTR(GC_base(holders[i]), holders[i]);
        check_young(((void **)holders[i])[i % WORDS], i);
    }
}

/* Objects that became old and die are found when the program asks for it, and
 * their finalizers run. */
static volatile int finalized;

static void on_end(void *object, void *data)
{
    (void)object, (void)data;
    finalized++;
}

static NOINLINE void drop_all(void)
{
    for (int i = 0; i < HOLDERS; i++) {
        GC_register_finalizer(holders[i], on_end, NULL, NULL, NULL);
        holders[i] = NULL;
    }
}

static void old_ones_die(void)
{
    make_old();
    drop_all();
    scrub();
    GC_gcollect();
    while (GC_invoke_finalizers() > 0)
        ;
    CHECK_GE(finalized, HOLDERS * 9 / 10);
}

/* A daemon closes what it does not know, and opens files of its own under the same numbers: they stay what they are, also in
 * a child. */
static void all_files_closed(void)
{
    enum { FILES = 120 };
    static int files[FILES];
    struct stat wanted, found;
    int status;
    make_old();
    store_all(0);
    pass_time();
    REQUIRE(close_range(3, ~0U, 0) == 0);
    for (int i = 0; i < FILES; i++)
        REQUIRE((files[i] = open("/dev/zero", O_RDONLY | O_CLOEXEC)) >= 3);
    REQUIRE(fstat(files[0], &wanted) == 0);
    store_all(1);
    pass_time();
    pid_t child = fork();
    REQUIRE(child >= 0);
    store_all(2);
    pass_time();
    for (int i = 0; i < FILES; i++) {
        CHECK(fstat(files[i], &found) == 0 && found.st_rdev == wanted.st_rdev);
        check_young(((void **)holders[i])[(i + 2) % WORDS], i + 2);
    }
    if (child == 0)
        _exit(0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

MAIN_BEGIN
    RUN(stores);
    RUN(one_store);
    RUN(chain);
    RUN(system_calls);
    RUN(large);
    RUN(typed);
    RUN(by_type);
    RUN(freed_and_reused);
    RUN(forked);
    RUN(all_files_closed);
    RUN(own_handler);
    RUN(threads_write);
    RUN(cleared_marks);
    RUN(old_ones_die);
MAIN_END
