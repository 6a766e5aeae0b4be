// The C++ side: gc_cpp.h, gc_allocator.h with the standard containers, and
// exceptions that leave the library's callbacks.
#define GC_NAME_CONFLICT 1
#define GC_ATOMIC_UNCOLLECTABLE 1
#include "harness.h"

#include <gc/gc_allocator.h>
#include <gc/gc_cpp.h>
#include <gc/gc_mark.h>

#include <list>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#undef pthread_create
#undef pthread_join
#undef pthread_exit

// ---- gc_cpp.h ----

struct Plain : public gc {
    Plain *next;
    long tag;
    explicit Plain(long t) : next(nullptr), tag(t) {}
};

static int destroyed, mistaken;

struct Cleaned : public gc_cleanup {
    long tag = 0xc1ea;
    ~Cleaned()
    {
        destroyed++;
        mistaken += tag != 0xc1ea;
    }
};

struct Derived : public Cleaned {
    void *more = GC_malloc(16);
};

static void collectable_class()
{
    GC_INIT();
    Plain *list = nullptr;
    for (long i = 0; i < 100000; i++) {
        Plain *p = new Plain(i);
        p->next = list;
        list = p;
        new Plain(-1);
    }
    GC_gcollect();
    for (long i = 99999; i >= 0; i--, list = list->next) {
        REQUIRE(list != nullptr);
        CHECK_EQ(list->tag, i);
    }
    CHECK(GC_base(new Plain(1)) != nullptr);
    delete new Plain(2);
    Plain *array = (Plain *)operator new[](10 * sizeof(Plain), UseGC);
    CHECK(GC_base(array) == array);
    alignas(Plain) char place[sizeof(Plain)];
    Plain *placed = new (place) Plain(77);
    CHECK_EQ(placed->tag, 77);
}

static NOINLINE void make_cleaned()
{
    for (int i = 0; i < MANY; i++) {
        if (i % 2)
            new Cleaned;
        else
            new Derived;
    }
}

static void destructors_run()
{
    GC_INIT();
    deep(make_cleaned);
    for (int i = 0; i < 3; i++) {
        collect();
        GC_invoke_finalizers();
    }
    CHECK_GE(destroyed, MOST(MANY));
    CHECK_EQ(mistaken, 0);
}

static void explicit_delete_runs_once()
{
    GC_INIT();
    for (int i = 0; i < 100; i++)
        delete new Cleaned;
    CHECK_EQ(destroyed, 100);
    for (int i = 0; i < 3; i++) {
        collect();
        GC_invoke_finalizers();
    }
    CHECK_EQ(destroyed, 100);
}

static void placements()
{
    GC_INIT();
    CHECK_EQ(GC_get_kind_and_size(::operator new(40, UseGC), nullptr), 1);
    CHECK_EQ(GC_get_kind_and_size(::operator new(40, PointerFreeGC), nullptr),
             0);
    void *u = ::operator new(40, NoGC);
    CHECK_EQ(GC_get_kind_and_size(u, nullptr), 2);
    CHECK_EQ(GC_get_kind_and_size(::operator new(40, PointerFreeNoGC), nullptr),
             3);
    CHECK_EQ(GC_get_kind_and_size(new (PointerFreeGC) Plain(3), nullptr), 0);
    CHECK_EQ(GC_get_kind_and_size(new (NoGC) Plain(3), nullptr), 2);
}

static int cleanups;
static void cleanup(void *obj, void *data)
{
    cleanups += obj != nullptr && data == (void *)&cleanups;
}

static NOINLINE void make_with_cleanup()
{
    for (int i = 0; i < MANY; i++)
        ::operator new(40, UseGC, cleanup, &cleanups);
}

static void cleanup_functions()
{
    GC_INIT();
    deep(make_with_cleanup);
    for (int i = 0; i < 3; i++) {
        collect();
        GC_invoke_finalizers();
    }
    CHECK_GE(cleanups, MOST(MANY));
}

// The program links libgccpp, which replaces the global operators: their
// memory is uncollectable and scanned.
static void global_new()
{
    GC_INIT();
    void **p = new void *[100];
    CHECK(GC_base(p) != nullptr);
    CHECK_EQ(GC_get_kind_and_size(p, nullptr), 2);
    delete[] p;
    long *q = new long(5);
    CHECK_EQ(GC_get_kind_and_size(q, nullptr), 2);
    delete q;
}

// A constructor that throws gives its memory back.
struct Throws : public gc {
    long filler[100];
    Throws() { throw std::runtime_error("no"); }
};

static void constructor_throws()
{
    GC_INIT();
    int caught = 0;
    for (int i = 0; i < 1000; i++)
        try {
            new Throws;
        } catch (const std::runtime_error &) {
            caught++;
        }
    CHECK_EQ(caught, 1000);
    check_alive();
}

static void new_throws_bad_alloc()
{
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    GC_set_max_heap_size(16 << 20);
    int caught = 0;
    for (int i = 0; i < 10; i++)
        try {
            ::operator new((size_t)64 << 20, UseGC);
        } catch (const std::bad_alloc &) {
            caught++;
        }
    try {
        gc_allocator<long> a;
        a.allocate((size_t)16 << 20);
    } catch (const std::bad_alloc &) {
        caught++;
    }
    CHECK_EQ(caught, 11);
    check_alive();
}

// ---- gc_allocator.h ----

struct Cell {
    long tag;
    void *object;
};

static NOINLINE void *object_for(long i)
{
    long *p = (long *)GC_malloc(32);
    p[1] = i;
    return p;
}

template <class Allocator> static void containers()
{
    typedef std::vector<void *, Allocator> Vector;
    GC_INIT();
    Vector v;
    std::list<Cell, typename std::allocator_traits<Allocator>::template
                        rebind_alloc<Cell>> l;
    std::map<long, void *, std::less<long>,
             typename std::allocator_traits<Allocator>::template rebind_alloc<
                 std::pair<const long, void *>>> m;
    for (long i = 0; i < 20000; i++) {
        v.push_back(object_for(i));
        l.push_back(Cell{i, object_for(i)});
        m[i * 7919 % 20000] = object_for(i * 7919 % 20000);
        if (i % 5000 == 0)
            GC_gcollect();
    }
    for (int r = 0; r < 3; r++) {
        collect();
        churn(4 << 20, 32);
    }
    for (long i = 0; i < 20000; i++)
        CHECK_EQ(((long *)v[i])[1], i);
    for (const Cell &c : l)
        CHECK_EQ(((long *)c.object)[1], c.tag);
    for (const auto &e : m)
        CHECK_EQ(((long *)e.second)[1], e.first);
}

static void gc_containers() { containers<gc_allocator<void *>>(); }
static void gc_containers_off_page()
{
    containers<gc_allocator_ignore_off_page<void *>>();
}
static void traceable_containers()
{
    containers<traceable_allocator<void *>>();
}

static void pointer_free_types()
{
    GC_INIT();
    gc_allocator<int> ints;
    gc_allocator<void *> pointers;
    CHECK_EQ(GC_get_kind_and_size(ints.allocate(100), nullptr), 0);
    CHECK_EQ(GC_get_kind_and_size(pointers.allocate(100), nullptr), 1);
    traceable_allocator<int> t;
    int *p = t.allocate(100);
    CHECK_EQ(GC_get_kind_and_size(p, nullptr), 2);
    t.deallocate(p, 100);
}

// Nix keeps its values in malloc-ed C++ objects with traceable members.
static void *traceable_thread(void *arg)
{
    std::vector<void *, traceable_allocator<void *>> v;
    for (long i = 0; i < 5000; i++)
        v.push_back(object_for(i));
    GC_gcollect();
    for (long i = 0; i < 5000; i++)
        if (((long *)v[i])[1] != i)
            return nullptr;
    return arg;
}

static void traceable_in_threads()
{
    pthread_t t[8];
    GC_INIT();
    for (int i = 0; i < 8; i++)
        REQUIRE(GC_pthread_create(&t[i], nullptr, traceable_thread, t) == 0);
    for (int i = 0; i < 8; i++) {
        void *r = nullptr;
        GC_pthread_join(t[i], &r);
        CHECK_PTR(r, t);
    }
}

// ---- exceptions out of callbacks ----
//
// Stock 8.2.2 is left in a bad state by an exception out of a blocking region
// (the thread stays marked as blocked), out of an active part (a popped frame
// stays in its list; it crashes later) and out of the warning procedure (the
// allocation lock stays taken). Those tests are Gleaner's alone.

static int thrown;

static void throw_it()
{
    thrown++;
    GC_malloc(100);
    throw std::runtime_error("out of a callback");
}

static void *throwing_fn(void *)
{
    throw_it();
    return nullptr;
}

static void *throwing_base(GC_stack_base *, void *)
{
    throw_it();
    return nullptr;
}

static void *throwing_region(void *)
{
    thrown++;
    throw std::runtime_error("out of a region");
}

static void *region_with_active(void *arg)
{
    return GC_call_with_gc_active(throwing_fn, arg);
}

static void *throwing_oom(size_t)
{
    thrown++;
    throw std::bad_alloc();
}

static int may_throw;
static void throwing_final(void *, void *)
{
    thrown++;
    if (may_throw)
        throw std::runtime_error("out of a finalizer");
}

static void throwing_warn(char *, GC_word)
{
    thrown++;
    throw std::runtime_error("out of a warning");
}

template <class F> static void repeatedly(F f, int times)
{
    int caught = 0;
    for (int i = 0; i < times; i++) {
        try {
            f();
        } catch (const std::exception &) {
            caught++;
        }
        if (i % 5 == 0)
            check_alive();
    }
    CHECK_EQ(caught, times);
    CHECK_EQ(thrown, times);
    check_alive();
}

static void throw_from_stack_base()
{
    GC_INIT();
    repeatedly([] { GC_call_with_stack_base(throwing_base, nullptr); }, 20);
}

static void throw_from_do_blocking()
{
    GC_INIT();
    repeatedly([] { GC_do_blocking(throwing_region, nullptr); }, 20);
}

static void throw_from_gc_active()
{
    GC_INIT();
    repeatedly([] { GC_do_blocking(region_with_active, nullptr); }, 20);
}

static void throw_from_active_only()
{
    GC_INIT();
    repeatedly([] { GC_call_with_gc_active(throwing_fn, nullptr); }, 20);
}

static void throw_from_oom_function()
{
    GC_INIT();
    GC_set_warn_proc(GC_ignore_warn_proc);
    GC_set_max_heap_size(16 << 20);
    GC_set_oom_fn(throwing_oom);
    repeatedly([] { (void)!GC_malloc((size_t)64 << 20); }, 20);
}

static NOINLINE void make_throwing()
{
    for (int i = 0; i < 100; i++)
        GC_register_finalizer(GC_malloc(32), throwing_final, nullptr, nullptr,
                              nullptr);
}

static void throw_from_finalizer()
{
    GC_INIT();
    GC_set_finalize_on_demand(1);
    deep(make_throwing);
    collect();
    int caught = 0;
    may_throw = 1;
    while (GC_should_invoke_finalizers())
        try {
            GC_invoke_finalizers();
        } catch (const std::runtime_error &) {
            caught++;
        }
    may_throw = 0;
    CHECK_GE(caught, MOST(100));
    CHECK_EQ(caught, thrown);
    check_alive();
}

static void throw_from_warn_proc()
{
    GC_INIT();
    GC_set_max_heap_size(16 << 20);
    GC_set_warn_proc(throwing_warn);
    int caught = 0;
    for (int i = 0; i < 10; i++)
        try {
            (void)!GC_malloc((size_t)64 << 20);
        } catch (const std::runtime_error &) {
            caught++;
        }
    CHECK_OP(caught, >, 0);
    GC_set_warn_proc(GC_ignore_warn_proc);
    check_alive();
}

// In threads, with collections meanwhile; objects with destructors on the way.
struct Guard {
    int *count;
    ~Guard() { ++*count; }
};

static void *throws_in_thread(void *arg)
{
    int unwound = 0;
    for (int i = 0; i < 200; i++)
        try {
            Guard g{&unwound};
            std::vector<void *, gc_allocator<void *>> v;
            for (long k = 0; k < 50; k++)
                v.push_back(object_for(k));
            GC_call_with_stack_base(throwing_base, nullptr);
        } catch (const std::runtime_error &) {
        }
    return unwound == 200 ? arg : nullptr;
}

static void throws_in_threads()
{
    pthread_t t[6];
    GC_INIT();
    for (int i = 0; i < 6; i++)
        REQUIRE(GC_pthread_create(&t[i], nullptr, throws_in_thread, t) == 0);
    for (int i = 0; i < 20; i++)
        GC_gcollect();
    for (int i = 0; i < 6; i++) {
        void *r = nullptr;
        GC_pthread_join(t[i], &r);
        CHECK_PTR(r, t);
    }
    check_alive();
}

// pthread_exit unwinds C++ frames: destructors run, also the ones below a
// callback of the library.
static int unwound;
static void *exits_in_callback(GC_stack_base *, void *arg)
{
    Guard g{&unwound};
    GC_pthread_exit(arg);
}

static void *exiting_thread(void *arg)
{
    Guard g{&unwound};
    GC_malloc(10);
    GC_call_with_stack_base(exits_in_callback, arg);
    return nullptr;
}

static void exit_unwinds()
{
    GC_INIT();
    for (int i = 0; i < 20; i++) {
        pthread_t t;
        void *r = nullptr;
        REQUIRE(GC_pthread_create(&t, nullptr, exiting_thread, &t) == 0);
        GC_pthread_join(t, &r);
        CHECK_PTR(r, &t);
    }
    CHECK_EQ(unwound, 40);
    check_alive();
}

// The exception object itself lives in malloc-ed memory; what it points to in
// the heap is the client's business. Its message is its own.
static void exceptions_survive_collections()
{
    GC_INIT();
    for (int i = 0; i < 100; i++)
        try {
            throw std::runtime_error("number " + std::to_string(i));
        } catch (const std::exception &e) {
            GC_gcollect();
            churn(100000, 48);
            CHECK(("number " + std::to_string(i)) == e.what());
        }
}

MAIN_BEGIN
    RUN(collectable_class);
    RUN(destructors_run);
    RUN(explicit_delete_runs_once);
    RUN(placements);
    RUN(cleanup_functions);
    RUN(global_new);
    RUN(constructor_throws);
    RUN(new_throws_bad_alloc);
    RUN(gc_containers);
    RUN(gc_containers_off_page);
    RUN(traceable_containers);
    RUN(pointer_free_types);
    RUN(traceable_in_threads);
    RUN(throw_from_stack_base);
    RUN_GLEANER(throw_from_do_blocking);
    RUN_GLEANER(throw_from_gc_active);
    RUN(throw_from_active_only);
    RUN(throw_from_oom_function);
    RUN(throw_from_finalizer);
    RUN_GLEANER(throw_from_warn_proc);
    RUN(throws_in_threads);
    RUN(exit_unwinds);
    RUN(exceptions_survive_collections);
MAIN_END
