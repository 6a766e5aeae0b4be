/*
 * gleaner.h as threads use it: they come, go, block, and end without a word.
 */
#include "stage.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

static void *allocate_much(void *place)
{
    struct stage s = *(struct stage *)place;
    uint64_t i;

    s.m = gleaner_attach(s.heap);
    {
        GLEANER_FRAME(s.m, frame, 1);
        frame.values[0] = new_node(&s, 77);
        for (i = 0; i < 20000; i++) {
            new_node(&s, i);
            gleaner_poll(s.m);
            if (i % 5000 == 0) {
                gleaner_blocking_begin(s.m);
                gleaner_blocking_end(s.m);
            }
        }
        CHECK(*number_of(&s, frame.values[0]) == 77);
        GLEANER_LEAVE(s.m, frame);
    }
    gleaner_detach(s.m);
    return NULL;
}

static void threads_come_and_go(bool compressed)
{
    struct stage s = set_up(compressed, 2 << 20);
    pthread_t threads[8];
    size_t i;

    gleaner_blocking_begin(s.m);
    for (i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate_much, &s) == 0);
    for (i = 0; i < 8; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    gleaner_blocking_end(s.m);
    tear_down(&s);
}

/* How a thread ends that does not detach, or not in time. */
enum ending {
    RETURNS,          /* the thread's function returns */
    EXITS_DEEP,       /* pthread_exit, with frames linked */
    BLOCKED,          /* inside a blocking region */
    CANCELLED,        /* by a call that blocks, inside a blocking region */
    TWO_HEAPS,        /* inside the second, in a blocking region of the first */
    DETACHES_EARLY,   /* a destructor of its own data detaches */
    DETACHES_LATE,    /* another one, after it was detached */
    ENDINGS
};
struct ender {
    enum ending ending;
    struct stage s, second;
    int rounds;
};

/* Made before the library makes its own, so that its destructors run before in
   each round; and after. */
static pthread_key_t early_key, late_key;

static void scribble(void)
{
    volatile char stack[1 << 15];
    size_t i;

    for (i = 0; i < sizeof stack; i++)
        stack[i] = 0x41;
}

static void early(void *place)
{
    struct ender *ender = (struct ender *)place;

    if (ender->ending == DETACHES_EARLY) {
        new_node(&ender->s, 1);
        gleaner_detach(ender->s.m);
    }
    scribble(); /* where the frames were */
}

static void late(void *place)
{
    struct ender *ender = (struct ender *)place;

    if (++ender->rounds < 4) {
        new_node(&ender->s, 1);
        CHECK(pthread_setspecific(late_key, ender) == 0);
    } else {
        gleaner_detach(ender->s.m);
        CHECK(gleaner_attach(ender->s.heap) == NULL);
    }
}

/* Somebody else collects now: the world stops as soon as this thread leaves. */
static void wait_for_a_collection(const gleaner_mutator *m)
{
    while (m->poll == 0)
        sched_yield();
}

static void exit_deep(struct ender *ender)
{
    GLEANER_FRAME(ender->s.m, frame, 100);
    frame.values[0] = new_node(&ender->s, 1);
    frame.values[99] = new_node(&ender->s, 2);
    CHECK(pthread_setspecific(early_key, ender) == 0);
    wait_for_a_collection(ender->s.m);
    pthread_exit(NULL);
}

static void *end_attached(void *place)
{
    struct ender *ender = (struct ender *)place;

    ender->s.m = gleaner_attach(ender->s.heap);
    new_node(&ender->s, 0);
    switch (ender->ending) {
    case EXITS_DEEP:
        exit_deep(ender);
        break;
    case BLOCKED:
        gleaner_blocking_begin(ender->s.m);
        break;
    case CANCELLED:
        gleaner_blocking_begin(ender->s.m);
        pthread_cancel(pthread_self());
        pthread_testcancel();
        CHECK(!"cancelled");
        break;
    case TWO_HEAPS:
        gleaner_blocking_begin(ender->s.m);
        ender->second.m = gleaner_attach(ender->second.heap);
        new_node(&ender->second, 0);
        break;
    case DETACHES_EARLY:
        CHECK(pthread_setspecific(early_key, ender) == 0);
        break;
    case DETACHES_LATE:
        CHECK(pthread_setspecific(late_key, ender) == 0);
        break;
    default:
        wait_for_a_collection(ender->s.m);
        break;
    }
    return NULL;
}

static bool endings_are_over;

static void *collect_often(void *place)
{
    struct stage s = *(struct stage *)place;

    s.m = gleaner_attach(s.heap);
    while (!__atomic_load_n(&endings_are_over, __ATOMIC_ACQUIRE)) {
        new_node(&s, 1);
        /* The lock is not fair: others get to attach. */
        gleaner_blocking_begin(s.m);
        sched_yield();
        gleaner_blocking_end(s.m);
    }
    gleaner_detach(s.m);
    return NULL;
}

static void threads_end_attached(bool compressed)
{
    enum { AT_ONCE = ENDINGS, TIMES = 40 };
    struct stage s
        = set_up_in(stressed_heap(compressed, 1 << 20, 5), compressed);
    struct stage second
        = set_up_in(stressed_heap(compressed, 1 << 20, 5), compressed);
    pthread_t collecting[2], ending[AT_ONCE];
    struct ender enders[AT_ONCE];
    static bool has_late_key;
    size_t i, time;

    if (!has_late_key)
        CHECK(pthread_key_create(&late_key, late) == 0);
    has_late_key = true;
    gleaner_blocking_begin(s.m);
    gleaner_blocking_begin(second.m);
    endings_are_over = false;
    CHECK(pthread_create(&collecting[0], NULL, collect_often, &s) == 0);
    CHECK(pthread_create(&collecting[1], NULL, collect_often, &second) == 0);
    for (time = 0; time < TIMES; time++) {
        for (i = 0; i < AT_ONCE; i++) {
            enders[i].ending = (enum ending)i;
            enders[i].s = s;
            enders[i].second = second;
            enders[i].rounds = 0;
            CHECK(pthread_create(&ending[i], NULL, end_attached, &enders[i])
                  == 0);
        }
        for (i = 0; i < AT_ONCE; i++)
            CHECK(pthread_join(ending[i], NULL) == 0);
        CHECK(enders[DETACHES_LATE].rounds == 4);
    }
    __atomic_store_n(&endings_are_over, true, __ATOMIC_RELEASE);
    CHECK(pthread_join(collecting[0], NULL) == 0);
    CHECK(pthread_join(collecting[1], NULL) == 0);
    gleaner_blocking_end(second.m);
    gleaner_blocking_end(s.m);
    gleaner_collect(s.m, true);
    gleaner_collect(second.m, true);
    CHECK(gleaner_used(s.heap) == 0);
    CHECK(gleaner_used(second.heap) == 0);
    tear_down(&second);
    tear_down(&s);
}

static void *take_roles(void *place)
{
    static const char *const names[] = {
        "gleaner-applica", "gleaner-main",    "gleaner-collect",
        "gleaner-zeroing", "gleaner-compile", "gleaner-organiz",
        "gleaner-profile", "gleaner-timer",   "gleaner-finaliz",
        "gleaner-vm",
    };
    char name[16];
    int i;

    (void)place;
    for (i = GLEANER_ROLE_APPLICATION; i <= GLEANER_ROLE_VM; i++) {
        CHECK(gleaner_set_thread_role((gleaner_role)i));
        CHECK(prctl(PR_GET_NAME, name) == 0 && strcmp(name, names[i]) == 0);
    }
    CHECK(!gleaner_set_thread_role((gleaner_role)10));
    CHECK(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "gleaner-vm") == 0);
    return NULL;
}

static void roles_are_in_the_names_of_threads(bool compressed)
{
    pthread_t thread;

    (void)compressed;
    CHECK(pthread_create(&thread, NULL, take_roles, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    static const struct stage_case cases[] = {
        { "threads come and go", threads_come_and_go },
        { "threads end attached", threads_end_attached },
        { "roles are in the names of threads",
          roles_are_in_the_names_of_threads },
    };

    CHECK(pthread_key_create(&early_key, early) == 0);
    return run_cases(cases, sizeof cases / sizeof *cases);
}
