/* Roots: static data, registered ranges, exclusion, libraries opened and
 * closed, and what a client pushes itself. */
#include "harness.h"
#include <gc/gc_mark.h>
#include <sys/mman.h>
#undef dlopen

static void **volatile target; /* where fill() puts the pointers */

static NOINLINE void fill(void)
{
    void **t = target;
    for (int i = 0; i < MANY; i++) {
        void **p = GC_malloc(32);
        p[0] = GC_malloc(32); /* something below it */
        t[i] = p;
        watch(i, p[0]);
    }
}

static void *bss[MANY];
static void *data[MANY] = {(void *)1};

static void fill_and_collect(void *where)
{
    target = where;
    deep(fill);
    target = NULL;
    collect();
}

static void static_data(void)
{
    GC_INIT();
    fill_and_collect(bss);
    CHECK_NONE_GONE(MANY);
    memset(bss, 0, sizeof bss);
    collect();
    CHECK_MOST_GONE(MANY);
    for (int i = 0; i < MANY; i++)
        GC_unregister_disappearing_link((void **)&h_watched[i]);
    fill_and_collect(data);
    CHECK_NONE_GONE(MANY);
    __asm__ volatile("" : : "r"(data), "r"(bss) : "memory");
}

static void *fresh_map(void)
{
    void *m = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(m != MAP_FAILED);
    return m;
}

static void mapping_is_no_root(void)
{
    GC_INIT();
    fill_and_collect(fresh_map());
    CHECK_MOST_GONE(MANY);
}

static void malloc_is_no_root(void)
{
    GC_INIT();
    fill_and_collect(malloc(MANY * sizeof(void *)));
    CHECK_MOST_GONE(MANY);
}

static void add_and_remove(void)
{
    GC_INIT();
    void **m = fresh_map();
    GC_add_roots(m, m + MANY);
    fill_and_collect(m);
    CHECK_NONE_GONE(MANY);
    collect();
    CHECK_NONE_GONE(MANY);
    GC_remove_roots(m, m + MANY);
    collect();
    CHECK_MOST_GONE(MANY);
}

static void add_before_init(void)
{
    void **m = fresh_map();
    GC_add_roots(m, m + MANY);
    GC_INIT();
    fill_and_collect(m);
    CHECK_NONE_GONE(MANY);
}

/* Odd bounds, overlaps, repetition, an empty range. */
static void add_oddly(void)
{
    GC_INIT();
    char *m = fresh_map();
    GC_add_roots(m + 1, m + 4096 + 3);
    GC_add_roots(m + 4000, m + 65536 - 5);
    GC_add_roots(m, m + 100);
    GC_add_roots(m, m + 100);
    GC_add_roots(m + 200, m + 200);
    fill_and_collect(m + 512);
    CHECK_NONE_GONE(MANY);
}

static void many_ranges(void)
{
    GC_INIT();
    void **m = fresh_map();
    for (int i = 0; i < 1000; i++)
        GC_add_roots(m + 8 * i, m + 8 * i + 1);
    target = m;
    for (int i = 0; i < MANY; i++) {
        m[8 * i] = GC_malloc(40);
        watch(i, m[8 * i]);
    }
    collect();
    CHECK_NONE_GONE(MANY);
}

static void clear(void)
{
    GC_INIT();
    void **m = fresh_map();
    GC_add_roots(m, m + MANY);
    fill_and_collect(m);
    CHECK_NONE_GONE(MANY);
    GC_set_no_dls(1);
    GC_clear_roots();
    collect();
    CHECK_MOST_GONE(MANY);
    check_alive();
}

static void *excluded[MANY];

static void exclude(void)
{
    GC_exclude_static_roots(excluded, excluded + MANY);
    GC_INIT();
    fill_and_collect(excluded);
    CHECK_MOST_GONE(MANY);
    __asm__ volatile("" : : "r"(excluded) : "memory");
}

static void exclude_after_init(void)
{
    GC_INIT();
    GC_gcollect();
    GC_exclude_static_roots(excluded, excluded + MANY);
    fill_and_collect(excluded);
    CHECK_MOST_GONE(MANY);
    __asm__ volatile("" : : "r"(excluded) : "memory");
}

static void exclude_part(void)
{
    GC_exclude_static_roots(excluded + 250, excluded + 750);
    GC_INIT();
    fill_and_collect(excluded);
    int inside = 0, outside = 0;
    for (int i = 0; i < MANY; i++)
        *(i >= 250 && i < 750 ? &inside : &outside) += h_watched[i] == 0;
    CHECK_EQ(outside, 0);
    CHECK_GE(inside, MOST(500));
    __asm__ volatile("" : : "r"(excluded) : "memory");
}

/* Before GC_INIT only: after it, stock forgets the exclusion of its own
 * tables as well and crashes in the next collection. */
static void clear_exclusions(void)
{
    GC_exclude_static_roots(excluded, excluded + MANY);
    GC_clear_exclusion_table();
    GC_INIT();
    fill_and_collect(excluded);
    CHECK_NONE_GONE(MANY);
    __asm__ volatile("" : : "r"(excluded) : "memory");
}

/* ---- libraries ---- */

typedef void (*setter)(int, int, void *);
typedef void *(*getter)(int, int);
static setter holder_set;
static int where;

static void *open_holder(void *(*open)(const char *, int))
{
    void *lib = open("./lib_holder.so", RTLD_NOW);
    if (lib == NULL)
        NOTE("%s\n", dlerror());
    REQUIRE(lib != NULL);
    holder_set = (setter)dlsym(lib, "holder_set");
    REQUIRE(holder_set != NULL);
    return lib;
}

static NOINLINE void fill_library(void)
{
    for (int i = 0; i < MANY; i++) {
        void *p = GC_malloc(48);
        holder_set(where, i, p);
        watch(i, p);
    }
}

static void library(void *(*open)(const char *, int), int segment)
{
    where = segment;
    GC_INIT();
    GC_gcollect();
    void *lib = open_holder(open);
    deep(fill_library);
    collect();
    CHECK_NONE_GONE(MANY);
    dlclose(lib);
    collect();
    CHECK_MOST_GONE(MANY);
    /* Opened again it starts anew. */
    lib = open_holder(open);
    deep(fill_library);
    collect();
    CHECK_NONE_GONE(MANY);
}

static void library_bss(void) { library(dlopen, 0); }
static void library_data(void) { library(dlopen, 1); }
static void library_by_gc_dlopen(void) { library(GC_dlopen, 0); }

/* Thread-local storage of the main thread. Stock finds it only where the
 * loader put it into memory that it scans anyway; a dynamically opened
 * library's block comes from malloc, so it is not a root. */
static void library_tls_is_no_root(void)
{
    where = 2;
    GC_INIT();
    open_holder(dlopen);
    deep(fill_library);
    collect();
    CHECK_MOST_GONE(MANY);
}

static void no_dls(void)
{
    where = 0;
    GC_set_no_dls(1);
    CHECK_EQ(GC_get_no_dls(), 1);
    CHECK_EQ(GC_no_dls, 1);
    GC_INIT();
    open_holder(dlopen);
    deep(fill_library);
    collect();
    CHECK_MOST_GONE(MANY);
}

/* ECL toggles the variable. */
static void no_dls_by_variable(void)
{
    where = 0;
    GC_INIT();
    GC_no_dls = 1;
    open_holder(dlopen);
    deep(fill_library);
    collect();
    CHECK_MOST_GONE(MANY);
    GC_no_dls = 0;
    for (int i = 0; i < MANY; i++)
        GC_unregister_disappearing_link((void **)&h_watched[i]);
    deep(fill_library);
    collect();
    CHECK_NONE_GONE(MANY);
}

static int asked;
static int refuse_holder(const char *name, void *start, size_t size)
{
    asked++;
    CHECK(name != NULL);
    CHECK(start != NULL && size > 0);
    return strstr(name, "lib_holder") == NULL;
}

static void filter_libraries(void)
{
    where = 0;
    GC_INIT();
    GC_register_has_static_roots_callback(refuse_holder);
    open_holder(dlopen);
    deep(fill_library);
    collect();
    CHECK_OP(asked, >, 0);
    CHECK_MOST_GONE(MANY);
    GC_register_has_static_roots_callback(NULL);
    for (int i = 0; i < MANY; i++)
        GC_unregister_disappearing_link((void **)&h_watched[i]);
    deep(fill_library);
    collect();
    CHECK_NONE_GONE(MANY);
}

/* Libraries come and go while other threads collect. Stock reads the list of
 * libraries when the world is stopped, perhaps in the middle of a dlclose, and
 * now and then scans a segment that is gone. */
static volatile int stop_loading;

static void *loader(void *arg)
{
    (void)arg;
    for (int i = 0; i < 300; i++) {
        void *lib = dlopen("./lib_holder.so", RTLD_NOW);
        if (lib == NULL)
            return NULL;
        setter set = (setter)dlsym(lib, "holder_set");
        getter get = (getter)dlsym(lib, "holder_get");
        void *p = GC_malloc(48);
        *(uintptr_t *)p = 77;
        set(0, 5, p);
        p = NULL;
        churn(4096, 48);
        if (*(uintptr_t *)get(0, 5) != 77)
            return NULL;
        dlclose(lib);
    }
    return arg;
}

static void *collector(void *arg)
{
    while (!stop_loading) {
        GC_gcollect();
        sched_yield();
    }
    return arg;
}

static void load_while_collecting(void)
{
    pthread_t a, b;
    void *r = NULL;
    GC_INIT();
    pthread_create(&b, NULL, collector, NULL);
    pthread_create(&a, NULL, loader, &a);
    pthread_join(a, &r);
    CHECK_PTR(r, &a);
    stop_loading = 1;
    pthread_join(b, NULL);
}

/* ---- roots pushed by the client ---- */

static void **volatile pushed;
static void (*volatile push)(void *, void *);
static GC_push_other_roots_proc before;
static volatile int pushes;

static void other_roots(void)
{
    pushes++;
    push((void *)pushed, (void *)(pushed + MANY));
    if (before != NULL)
        before();
}

static void push_all_dirty(void *a, void *b) { GC_push_conditional(a, b, 1); }
static void push_if_dirty(void *a, void *b) { GC_push_conditional(a, b, 0); }

static void push_with(void (*how)(void *, void *), int by_variable)
{
    GC_INIT();
    push = how;
    pushed = fresh_map();
    before = GC_get_push_other_roots();
    if (by_variable) {
        extern GC_push_other_roots_proc GC_push_other_roots;
        before = GC_push_other_roots;
        GC_push_other_roots = other_roots;
    } else {
        GC_set_push_other_roots(other_roots);
    }
    CHECK(GC_get_push_other_roots() == other_roots);
    fill_and_collect((void *)pushed);
    CHECK_OP(pushes, >, 0);
    CHECK_NONE_GONE(MANY);
    collect();
    CHECK_NONE_GONE(MANY);
    /* A collection that an allocation starts pushes too. */
    int n = pushes;
    for (int i = 0; i < 10000 && pushes == n; i++)
        churn(1 << 20, 1000);
    CHECK_OP(pushes, >, n);
    CHECK_NONE_GONE(MANY);
    GC_set_push_other_roots(before);
    collect();
    CHECK_MOST_GONE(MANY);
}

static void push_all(void) { push_with(GC_push_all, 0); }
static void push_all_eager(void) { push_with(GC_push_all_eager, 0); }
static void push_conditional_all(void) { push_with(push_all_dirty, 0); }
static void push_conditional(void) { push_with(push_if_dirty, 0); }
static void push_by_variable(void) { push_with(GC_push_all_eager, 1); }

/* The finalizers' closures are roots that the default procedure pushes; a
 * client that replaces it may push them itself. */
static int finalized;
static void on_final(void *obj, void *cd)
{
    (void)obj;
    finalized += **(int **)cd == 4321;
}

static NOINLINE void make_finalizable(void)
{
    for (int i = 0; i < 100; i++) {
        int **cd = GC_malloc(16);
        cd[0] = GC_malloc_atomic(16);
        cd[0][0] = 4321;
        GC_register_finalizer(GC_malloc(16), on_final, cd, NULL, NULL);
    }
}

static void push_structures(void)
{
    pushes++;
    GC_push_finalizer_structures();
    if (before != NULL)
        before();
}

static void push_finalizer_structures(void)
{
    GC_INIT();
    before = GC_get_push_other_roots();
    GC_set_push_other_roots(push_structures);
    deep(make_finalizable);
    collect();
    churn(4 << 20, 16);
    collect();
    GC_invoke_finalizers();
    CHECK_OP(pushes, >, 0);
    CHECK_GE(finalized, MOST(100));
}

/* Each time that the list of libraries has been read, and before the world stops, one is opened or closed. */
enum { HELD = 100 };
static void *flickering;
static GC_hidden_pointer hidden[HELD];
static void **links;
static volatile int flickers;

static void fill_flickering(void)
{
    flickering = dlopen("./lib_holder.so", RTLD_NOW);
    void (*set)(int, int, void *) = (void (*)(int, int, void *))dlsym(flickering, "holder_set");
    for (int i = 0; i < HELD; i++)
        set(i % 2, i, GC_REVEAL_POINTER(hidden[i]));
}

static int flicker(const char *name, void *low, size_t bytes)
{
    static void *first;
    (void)name;
    (void)bytes;
    if (first == NULL)
        first = low;
    if (low != first)
        return 1;
    flickers++;
    if (flickering == NULL) {
        fill_flickering();
    } else {
        dlclose(flickering);
        flickering = NULL;
    }
    return 1;
}

static int held(void)
{
    int count = 0;
    for (int i = 0; i < HELD; i++)
        count += links[i] != NULL;
    return count;
}

static NOINLINE void hide_objects(void)
{
    for (int i = 0; i < HELD; i++) {
        void *object = GC_malloc(64);
        hidden[i] = GC_HIDE_POINTER(object);
        links[i] = (void *)hidden[i];
        REQUIRE(GC_general_register_disappearing_link(&links[i], object) == GC_SUCCESS);
    }
}

/* Either nothing is collected, or the objects are found that the library alone refers to. */
static void load_whenever_the_list_is_read(void)
{
    GC_INIT();
    GC_disable();
    links = GC_malloc_atomic_uncollectable(HELD * sizeof *links);
    hide_objects();
    for (int turn = 0; turn < 2; turn++) {
        if (flickering == NULL)
            fill_flickering();
        GC_register_has_static_roots_callback(flicker);
        GC_enable();
        GC_gcollect();
        GC_disable();
        GC_register_has_static_roots_callback(NULL);
        if (flickering == NULL) {
            NOTE("closed at the end: there may be none left\n");
            break;
        }
        CHECK_EQ(held(), HELD);
    }
    CHECK_GE(flickers, 2);
    GC_enable();
    check_alive();
}

/* In a name space of its own the collector sees other libraries than the
 * loader shows without its lock: it collects nevertheless. */
static void a_name_space_of_its_own(void)
{
    const char *path = getenv("CONFORMANCE_LIB");
    REQUIRE(path != NULL);
    void *lib = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
    REQUIRE(lib != NULL);
    void (*init)(void) = (void (*)(void))dlsym(lib, "GC_init");
    void (*collect_there)(void) = (void (*)(void))dlsym(lib, "GC_gcollect");
    void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(lib, "GC_malloc");
    GC_word (*collections)(void) = (GC_word(*)(void))dlsym(lib, "GC_get_gc_no");
    REQUIRE(init != NULL && collect_there != NULL && allocate != NULL && collections != NULL);
    init();
    CHECK(allocate(100) != NULL);
    GC_word before = collections();
    collect_there();
    CHECK_NE(collections(), before);
}

MAIN_BEGIN
    RUN(static_data);
    RUN(mapping_is_no_root);
    RUN(malloc_is_no_root);
    RUN(add_and_remove);
    RUN(add_before_init);
    RUN(add_oddly);
    RUN(many_ranges);
    RUN(clear);
    RUN(exclude);
    RUN(exclude_after_init);
    RUN(exclude_part);
    RUN(clear_exclusions);
    RUN(library_bss);
    RUN(library_data);
    RUN(library_by_gc_dlopen);
    RUN(library_tls_is_no_root);
    RUN(no_dls);
    RUN(no_dls_by_variable);
    RUN(filter_libraries);
    RUN_GLEANER(load_while_collecting);
    RUN_GLEANER(load_whenever_the_list_is_read);
    RUN(push_all);
    RUN(push_all_eager);
    RUN(push_conditional_all);
    RUN(push_conditional);
    RUN(push_by_variable);
    RUN(push_finalizer_structures);
    RUN_GLEANER(a_name_space_of_its_own);
MAIN_END
