/* Coroutines that wait, on stacks that nobody named: what they refer to is kept, wherever it can be looked for. */
#include "stacks.h"
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>

static volatile int counted, quit;

enum { COROUTINES = 8, SMALL_STACK = 64 << 10, TURNS = 20 };
static struct coroutine {
    ucontext_t context;
    char *stack;
    size_t bytes;
    int whole;
} coroutines[COROUTINES];
static int running, resting_on_main, collected_on_main;
static void (*between_turns)(void);
static size_t peak;

/* Each in turn; the first thread's own stack only where it is wanted. */
static void pass_on(void)
{
    ucontext_t *own = &coroutines[running].context;
    if (resting_on_main) {
        swapcontext(own, &main_context);
        return;
    }
    running = (running + 1) % COROUTINES;
    swapcontext(own, &coroutines[running].context);
}

/* What it refers to is referred to by its own frame alone. */
static void keep_across_turns(int number)
{
    void **volatile list = make_list(CELLS);
    int whole = 1;
    for (int turn = 0; turn < TURNS; turn++) {
        churn(under_stress() ? 200 : 1 << 20, 32);
        if (GC_get_heap_size() > peak)
            peak = GC_get_heap_size();
        if (between_turns != NULL)
            between_turns();
        pass_on();
        whole &= is_whole(list, CELLS);
    }
    coroutines[number].whole = whole;
    if (resting_on_main || number == COROUTINES - 1)
        setcontext(&main_context);
    running = number + 1;
    setcontext(&coroutines[running].context);
}

static void run_coroutines(char *(*make_stack)(size_t))
{
    for (int i = 0; i < COROUTINES; i++) {
        struct coroutine *it = &coroutines[i];
        it->bytes = i % 2 == 0 ? STACK : SMALL_STACK;
        it->stack = make_stack(it->bytes);
        REQUIRE(it->stack != NULL);
        getcontext(&it->context);
        it->context.uc_stack.ss_sp = it->stack;
        it->context.uc_stack.ss_size = it->bytes;
        makecontext(&it->context, (void (*)(void))keep_across_turns, 1, i);
    }
    GC_word before = GC_get_gc_no();
    volatile int turn = 0;
    if (!resting_on_main)
        swapcontext(&main_context, &coroutines[0].context);
    else
        for (; turn < (TURNS + 1) * COROUTINES; turn++) {
            running = turn % COROUTINES;
            if (collected_on_main)
                GC_disable();
            swapcontext(&main_context, &coroutines[running].context);
            if (collected_on_main)
                GC_enable();
            churn(under_stress() ? 50 : 64 << 10, 48);
        }
    counted = (int)(GC_get_gc_no() - before);
    NOTE("%d collections, %zu KB at most\n", counted, peak >> 10);
    for (int i = 0; i < COROUTINES; i++)
        CHECK_EQ(coroutines[i].whole, 1);
}

static char *map_stack(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static char *map_shared_stack(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static char *malloc_stack(size_t bytes)
{
    return malloc(bytes);
}

/* Stock collects nothing here. */
static void waiting_coroutines_keep_what_they_refer_to(void)
{
    start();
    run_coroutines(map_stack);
    if (on_gleaner()) {
        CHECK_GE(counted, under_stress() ? 1 : 10);
        CHECK_LE(peak, (size_t)24 << 20);
    }
    check_alive();
}

static void waiting_coroutines_on_malloc(void)
{
    start();
    run_coroutines(malloc_stack);
    check_alive();
}

static void waiting_coroutines_on_shared_memory(void)
{
    start();
    run_coroutines(map_shared_stack);
    check_alive();
}

/* Some collections come while the thread is on its own stack again: then stock loses what the others keep. */
static void waiting_coroutines_between_turns_of_the_thread(void)
{
    start();
    resting_on_main = 1;
    run_coroutines(map_stack);
    CHECK_GE(counted, under_stress() ? 1 : 10);
    check_alive();
}

static void *names_a_stack(void *elsewhere)
{
    struct GC_stack_base own, other = {elsewhere};
    void *self = GC_get_my_stackbottom(&own);
    GC_disable();
    GC_set_stackbottom(self, &other);
    GC_set_stackbottom(self, &own);
    GC_enable();
    return NULL;
}

static void another_thread_names_a_stack(void)
{
    static char elsewhere[64];
    pthread_t thread;
    REQUIRE(GC_pthread_create(&thread, NULL, names_a_stack, elsewhere) == 0);
    REQUIRE(GC_pthread_join(thread, NULL) == 0);
}

/* What another thread names says nothing of the stacks of this one. */
static void waiting_coroutines_while_another_thread_names_stacks(void)
{
    start();
    resting_on_main = 1;
    between_turns = another_thread_names_a_stack;
    run_coroutines(map_stack);
}

static void *shows_a_stack(void *arg)
{
    run_on_stack(GC_gcollect);
    return arg;
}

/* A thread that has ended leaves its coroutines to others. */
static void waiting_coroutines_after_their_thread_has_ended(void)
{
    pthread_t thread;
    start();
    resting_on_main = collected_on_main = 1;
    REQUIRE(GC_pthread_create(&thread, NULL, shows_a_stack, NULL) == 0);
    REQUIRE(GC_pthread_join(thread, NULL) == 0);
    run_coroutines(map_stack);
}

static void *runs_coroutines(void *arg)
{
    run_coroutines(malloc_stack);
    return arg;
}

/* Memory that the collector looks through goes and comes meanwhile: it does not stop this thread. */
static void *maps_and_unmaps(void *arg)
{
    while (!quit) {
        char *memory = map_stack(STACK);
        if (memory != NULL) {
            for (size_t i = 0; i < STACK; i += 4096)
                memory[i] = 1;
            munmap(memory, STACK);
        }
    }
    return arg;
}

static void waiting_coroutines_of_another_thread(void)
{
    pthread_t coroutines_thread, mapping_thread;
    start();
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&create = dlsym(dlopen("libc.so.6", RTLD_NOW), "pthread_create");
    REQUIRE(create != NULL && create(&mapping_thread, NULL, maps_and_unmaps, NULL) == 0);
    REQUIRE(GC_pthread_create(&coroutines_thread, NULL, runs_coroutines, NULL) == 0);
    GC_pthread_join(coroutines_thread, NULL);
    quit = 1;
    pthread_join(mapping_thread, NULL);
    check_alive();
}

/* Where the system does not say what is mapped, the heap grows instead, as stock's. No collection frees anything then,
 * not even one that the program asks for. */
static void waiting_coroutines_that_cannot_be_found(void)
{
    struct rlimit none = {3, 3};
    start();
    GC_word before = GC_get_gc_no();
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    between_turns = GC_gcollect;
    run_coroutines(map_stack);
    CHECK_EQ(GC_get_gc_no(), before);
    if (!under_stress())
        CHECK_GE(peak, (size_t)100 << 20);
}

/* The same at the limit of the heap: memory is out, and nothing that lives is lost. */
static void *nothing(size_t bytes)
{
    (void)bytes;
    return NULL;
}

static void keep_and_wait(void)
{
    void **volatile list = make_list(CELLS);
    swapcontext(&context, &main_context);
    counted = is_whole(list, CELLS);
}

static void memory_runs_out_where_stacks_cannot_be_found(void)
{
    struct rlimit none = {3, 3};
    add_options("heap-limit=20m");
    start();
    GC_set_oom_fn(nothing);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    run_on_stack(keep_and_wait);
    stack = map_stack(STACK);
    ucontext_t first = context;
    /* On another stack, so that stacks are found that nobody has named. */
    run_on_stack(GC_gcollect);
    int made = 0;
    while (GC_malloc(1000) != NULL)
        made++;
    CHECK_OP(made, >, 10000);
    swapcontext(&main_context, &first);
    CHECK_EQ(counted, 1);
}

/* The system breaks its list of mappings off, with the stack behind the break: what is mapped later lies below. */
static int broken_read;
static void keep_while_the_list_breaks_off(void)
{
    enum { PAGE = 4096, PAGES = 400, COLLECTIONS = 5 };
    char option[64];
    snprintf(option, sizeof option, "fault=read-system-file@%d", broken_read);
    add_options(option);
    start();
    run_on_stack(keep_and_wait);
    ucontext_t first = context;
    char *many = map_stack(PAGES * PAGE);
    for (int i = 0; i < PAGES; i += 2)
        REQUIRE(mprotect(many + i * PAGE, PAGE, PROT_NONE) == 0);
    stack = map_stack(STACK);
    GC_word before = GC_get_gc_no();
    run_on_stack(GC_gcollect);
    for (int i = 1; i < COLLECTIONS; i++)
        GC_gcollect();
    int done = (int)(GC_get_gc_no() - before);
    churn(1 << 20, 32);
    swapcontext(&main_context, &first);
    CHECK_EQ(counted, 1);
    _exit(h_test_failed ? 1 : done < COLLECTIONS ? 7 : 0);
}

static void waiting_coroutines_while_the_list_breaks_off(void)
{
    static char text[4000];
    int abandoned = 0;
    if (under_stress())
        return;
    for (broken_read = 1; broken_read < 60; broken_read += 3) {
        int status = run_captured(keep_while_the_list_breaks_off, text, sizeof text);
        CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 7));
        abandoned += WIFEXITED(status) && WEXITSTATUS(status) == 7;
    }
    NOTE("%d collections were abandoned\n", abandoned);
    CHECK_GE(abandoned, 5);
}

/* Descriptors run out again and again, for a moment. */
static void *runs_out_of_descriptors(void *arg)
{
    enum { MOST = 64 };
    int taken[MOST], count = 0;
    while (!quit) {
        count = 0;
        while (count < MOST && (taken[count] = dup(2)) >= 0)
            count++;
        for (int i = 0; i < count; i++)
            close(taken[i]);
    }
    return arg;
}

static void waiting_coroutines_while_descriptors_run_out(void)
{
    struct rlimit few = {20, 20};
    pthread_t thread;
    if (under_stress())
        return;
    start();
    REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
    REQUIRE(GC_pthread_create(&thread, NULL, runs_out_of_descriptors, NULL) == 0);
    run_coroutines(map_stack);
    quit = 1;
    GC_pthread_join(thread, NULL);
}

/* Shared memory whose pages this process has given up, as the child of a fork has touched none. */
static void give_up_pages(void)
{
    for (int i = 0; i < COROUTINES; i++)
        if (i != running)
            madvise(coroutines[i].stack, coroutines[i].bytes, MADV_DONTNEED);
}

static void waiting_coroutines_on_shared_memory_that_was_given_up(void)
{
    start();
    between_turns = give_up_pages;
    run_coroutines(map_shared_stack);
}

static char *map_file_stack(size_t bytes)
{
    FILE *file = tmpfile();
    REQUIRE(file != NULL && ftruncate(fileno(file), (off_t)bytes) == 0);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    fclose(file);
    return memory == MAP_FAILED ? NULL : memory;
}

static void waiting_coroutines_on_a_file(void)
{
    start();
    run_coroutines(map_file_stack);
}

static char *map_zero_stack(size_t bytes)
{
    int zero = open("/dev/zero", O_RDWR);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0);
    close(zero);
    return memory == MAP_FAILED ? NULL : memory;
}

static void waiting_coroutines_on_zero(void)
{
    start();
    run_coroutines(map_zero_stack);
}

/* A thread says where its own stack is, once, and names none of the others. */
static void waiting_coroutines_after_the_own_stack_was_named(void)
{
    start();
    GC_set_stackbottom(handle, &own_bottom);
    run_coroutines(map_stack);
    CHECK_GE(counted, under_stress() ? 1 : 10);
}

static void collect_and_make(void)
{
    void **volatile list = make_list(CELLS);
    GC_gcollect();
    churn(under_stress() ? 200 : 1 << 20, 32);
    CHECK(is_whole(list, CELLS));
}

static __attribute__((noinline)) void collect_below_frames(int frames)
{
    volatile char frame[1 << 10];
    frame[0] = (char)frames;
    if (frames > 0)
        collect_below_frames(frames - 1);
    else
        churn(under_stress() ? 200 : 1 << 20, 32);
    CHECK_EQ(frame[0], (char)frames);
}

static void make_and_collect_below(void)
{
    void **volatile list = make_list(CELLS);
    collect_below_frames(40);
    CHECK(is_whole(list, CELLS));
}

/* Memory of the heap is not looked through, but the stack that runs is scanned there, too, and all of it. */
static void a_stack_in_an_object_that_is_not_named(void)
{
    start();
    stack = GC_malloc_atomic_uncollectable(STACK);
    run_on_stack(collect_and_make);
    run_on_stack(make_and_collect_below);
}

/* A coroutine's stack joins that of its thread, is unmapped, and another one is collected on. */
static void *runs_below_its_stack(void *low)
{
    char *elsewhere = map_stack(STACK);
    stack = low;
    run_on_stack(GC_gcollect);
    REQUIRE(munmap(stack, STACK) == 0);
    stack = elsewhere;
    run_on_stack(collect_and_make);
    return low;
}

static void a_stack_that_joined_the_threads_is_unmapped(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    start();
    char *both = map_stack(3 * STACK);
    pthread_attr_init(&attributes);
    REQUIRE(both != NULL && pthread_attr_setstack(&attributes, both + 2 * STACK, STACK) == 0);
    REQUIRE(munmap(both, STACK) == 0);
    REQUIRE(GC_pthread_create(&thread, &attributes, runs_below_its_stack, both + STACK) == 0);
    GC_pthread_join(thread, NULL);
    check_alive();
}

/* Terabytes that were never touched are passed over at once. */
static void memory_that_was_never_touched_costs_nothing(void)
{
    size_t bytes = (size_t)4 << 40;
    start();
    void *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED)
        return;
    run_coroutines(map_stack);
    CHECK_GE(counted, under_stress() ? 1 : 10);
}

/* Memory of the program's own in which words look like references: how many of their objects a collection leaves. */
static NOINLINE int left_by_a_collection(void)
{
    enum { WORDS = 256 };
    static GC_hidden_pointer links[WORDS];
    void **page = mmap(NULL, WORDS * sizeof(void *), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(page != MAP_FAILED);
    for (int i = 0; i < WORDS; i++) {
        page[i] = GC_malloc_atomic(64);
        links[i] = GC_HIDE_POINTER(page[i]);
        GC_general_register_disappearing_link((void **)&links[i], page[i]);
    }
    GC_gcollect();
    int left = 0;
    for (int i = 0; i < WORDS; i++)
        left += links[i] != 0;
    munmap(page, WORDS * sizeof(void *));
    return left;
}

static volatile int left;
static void collect_once(void)
{
    left = left_by_a_collection();
}

static void memory_is_no_stack_before_any_coroutine(void)
{
    start();
    CHECK_LE(left_by_a_collection(), 20);
}

static void memory_may_be_a_stack_until_stacks_are_named(void)
{
    start();
    run_on_stack(collect_once);
    CHECK_EQ(left, 256);
    CHECK_EQ(left_by_a_collection(), 256);
    next_push = GC_get_push_other_roots();
    GC_set_push_other_roots(tell_and_push);
    run_on_stack(collect_once);
    CHECK_LE(left, 20);
    GC_set_push_other_roots(next_push);
    GC_set_stackbottom(handle, &own_bottom);
}

static int open_files(void)
{
    int count = 0;
    DIR *opened = opendir("/proc/self/fd");
    while (readdir(opened) != NULL)
        count++;
    closedir(opened);
    return count;
}

/* Pages of addresses. */
static long mapped(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK_EQ(fscanf(file, "%ld", &pages), 1);
    fclose(file);
    return pages;
}

static void looking_leaves_nothing_behind(void)
{
    start();
    run_on_stack(GC_gcollect);
    GC_gcollect();
    int files = open_files();
    long pages = mapped();
    for (int i = 0; i < 100; i++)
        GC_gcollect();
    CHECK_EQ(open_files(), files);
    CHECK_LE(mapped(), pages + 1000);
}

MAIN_BEGIN
    RUN(waiting_coroutines_keep_what_they_refer_to);
    RUN(waiting_coroutines_on_malloc);
    RUN(waiting_coroutines_on_shared_memory);
    RUN_GLEANER(waiting_coroutines_between_turns_of_the_thread);
    RUN_GLEANER(waiting_coroutines_of_another_thread);
    RUN_GLEANER(waiting_coroutines_while_another_thread_names_stacks);
    RUN_GLEANER(waiting_coroutines_after_their_thread_has_ended);
    RUN_GLEANER(waiting_coroutines_that_cannot_be_found);
    RUN_GLEANER(memory_runs_out_where_stacks_cannot_be_found);
    RUN_GLEANER(waiting_coroutines_while_the_list_breaks_off);
    RUN_GLEANER(waiting_coroutines_while_descriptors_run_out);
    RUN(waiting_coroutines_on_shared_memory_that_was_given_up);
    RUN(waiting_coroutines_on_a_file);
    RUN(waiting_coroutines_on_zero);
    RUN_GLEANER(waiting_coroutines_after_the_own_stack_was_named);
    RUN_GLEANER(a_stack_in_an_object_that_is_not_named);
    RUN_GLEANER(a_stack_that_joined_the_threads_is_unmapped);
    RUN_GLEANER(memory_that_was_never_touched_costs_nothing);
    RUN_GLEANER(looking_leaves_nothing_behind);
    RUN(memory_is_no_stack_before_any_coroutine);
    RUN_GLEANER(memory_may_be_a_stack_until_stacks_are_named);
MAIN_END
