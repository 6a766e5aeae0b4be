/* What programs about cycles share in which a helper marks beside the program: objects that move, and threads that allocate and register. */
#ifndef CYCLES_H
#define CYCLES_H
#include "idle.h"

enum { HOLDERS = 400, WORDS = 30 };

static void **holders;

/* What holds what the program makes, beside the cells. */
static NOINLINE UNUSED void make_holders(void)
{
    make_cells();
    holders = GC_malloc_uncollectable(HOLDERS * sizeof *holders);
    for (int i = 0; i < HOLDERS; i++)
        holders[i] = GC_malloc(WORDS * sizeof(void *));
}

static UNUSED void finish_cycle(void)
{
    while (GC_collect_a_little() != 0)
        ;
}

static UNUSED long marked_beside(void)
{
    long bytes;
    events_of("mark-beside", "", &bytes);
    return bytes;
}

static UNUSED void check_cells(void)
{
    for (long i = 0; i < cells(); i++)
        CHECK_EQ(kept[i][CELL - 2], 1);
}

/* Objects move from one holder to another, are made and freed. */
static UNUSED void move_objects(int round)
{
    for (int i = 0; i < HOLDERS; i++) {
        uintptr_t **from = holders[i], **to = holders[HOLDERS - 1 - i];
        uintptr_t *before = from[3];
        if (before != NULL)
            CHECK_EQ(before[0], ~before[1]);
        uintptr_t *made = GC_malloc(40);
        made[0] = (uintptr_t)i * 1000 + round;
        made[1] = ~made[0];
        /* The last reference to what was there moves. */
        to[4 + round % 20] = before;
        from[3] = made;
        GC_free(to[2]);
        to[2] = GC_malloc(round % 3 == 0 ? 9000 : 100);
        for (int word = 0; word < 10; word++)
            CHECK_EQ(to[2][word], 0);
        memset(to[2], 0x7f, 100);
        if (i % 40 == 0)
            usleep(100);
    }
}

static UNUSED void check_objects(void)
{
    for (int i = 0; i < HOLDERS; i++)
        for (int word = 3; word < 24; word++) {
            uintptr_t *found = ((uintptr_t **)holders[i])[word];
            if (found != NULL)
                CHECK_EQ(found[0], ~found[1]);
        }
    check_cells();
}

/* Threads of the program, many more than processors, keep a cycle under way. */
static volatile int rounds_left;

static UNUSED void *mutates(void *argument)
{
    int own = (int)(uintptr_t)argument;
    for (int round = 0; round < (under_stress() ? 3 : 200); round++)
        for (int i = own; i < HOLDERS; i += 8) {
            uintptr_t **holder = holders[i];
            uintptr_t *before = holder[own % WORDS];
            if (before != NULL)
                CHECK_EQ(before[0], ~before[1]);
            uintptr_t *made = GC_malloc(24 + 16 * (round % 30));
            made[0] = (uintptr_t)round;
            made[1] = ~made[0];
            holder[own % WORDS] = made;
        }
    return NULL;
}

static UNUSED void allocate_in_threads(void *(*collects)(void *))
{
    pthread_t threads[8], collector;
    rounds_left = 1;
    REQUIRE(pthread_create(&collector, NULL, collects, NULL) == 0);
    for (uintptr_t t = 0; t < 8; t++)
        REQUIRE(pthread_create(&threads[t], NULL, mutates, (void *)t) == 0);
    for (int t = 0; t < 8; t++)
        pthread_join(threads[t], NULL);
    rounds_left = 0;
    pthread_join(collector, NULL);
    check_cells();
}

/* Tables of finalizers and links change, and client code runs with the lock, while a cycle is always under way. */
enum { REGISTRARS = 6, REGISTERED = 3000, HELD = 16 };

static void **weak[REGISTRARS], **held[REGISTRARS];
static int finalized, faults;

static UNUSED void note_fault(int is_one)
{
    if (is_one)
        __atomic_add_fetch(&faults, 1, __ATOMIC_RELAXED);
}

static UNUSED void finalizes(void *object, void *link)
{
    uintptr_t *found = object;
    note_fault(found[0] != ~found[1] || found[2]++ != 0 || *(void **)link != NULL);
    __atomic_add_fetch(&finalized, 1, __ATOMIC_RELAXED);
}

static UNUSED int registered(void)
{
    return under_stress() ? 2 * HELD : REGISTERED;
}

static UNUSED void *follows(void *link)
{
    return *(void **)link;
}

static UNUSED void *registers(void *argument)
{
    int own = (int)(uintptr_t)argument;
    void **links = weak[own];
    for (int i = 0; i < registered(); i++) {
        uintptr_t *made = GC_malloc(24 + 16 * (i % 20));
        note_fault(made[0] != 0 || made[2] != 0);
        made[0] = (uintptr_t)i;
        made[1] = ~made[0];
        held[own][i % HELD] = made;
        links[i] = made;
        note_fault(GC_general_register_disappearing_link(&links[i], made) != GC_SUCCESS);
        GC_register_finalizer_no_order(made, finalizes, &links[i], NULL, NULL);
        if (i % 7 == 0) {
            note_fault(GC_unregister_disappearing_link(&links[i]) != 1);
            note_fault(GC_general_register_disappearing_link(&links[i], made) != GC_SUCCESS);
        }
        uintptr_t *before = GC_call_with_alloc_lock(follows, &links[i * 37 % (i + 1)]);
        note_fault(before != NULL && before[0] != ~before[1]);
        if (i % 40 == 0)
            for (uintptr_t *cell = GC_malloc_many(48); cell != NULL; cell = GC_NEXT(cell))
                note_fault(cell[1] != 0);
    }
    return NULL;
}

static UNUSED void register_in_threads(void *(*collects)(void *))
{
    pthread_t threads[REGISTRARS], collector;
    int alive, made = 0;
    for (int t = 0; t < REGISTRARS; t++) {
        weak[t] = GC_malloc_atomic_uncollectable(REGISTERED * sizeof *weak[t]);
        held[t] = GC_malloc_uncollectable(HELD * sizeof *held[t]);
    }
    do {
        finalized = 0;
        rounds_left = 1;
        REQUIRE(pthread_create(&collector, NULL, collects, NULL) == 0);
        for (uintptr_t t = 0; t < REGISTRARS; t++)
            REQUIRE(pthread_create(&threads[t], NULL, registers, (void *)t) == 0);
        for (int t = 0; t < REGISTRARS; t++)
            pthread_join(threads[t], NULL);
        rounds_left = 0;
        pthread_join(collector, NULL);
        GC_gcollect();
        GC_invoke_finalizers();
        alive = 0;
        for (int t = 0; t < REGISTRARS; t++)
            for (int i = 0; i < registered(); i++) {
                uintptr_t *found = weak[t][i];
                alive += found != NULL;
                CHECK(found == NULL || found[0] == ~found[1]);
                if (found != NULL) {
                    /* It is no matter to the next round. */
                    GC_unregister_disappearing_link(&weak[t][i]);
                    GC_register_finalizer_no_order(found, NULL, NULL, NULL, NULL);
                }
            }
        /* What is gone was finalized, once. */
        CHECK_EQ(finalized + alive, REGISTRARS * registered());
        CHECK_GE(finalized, 1);
        for (int t = 0; t < REGISTRARS; t++)
            for (int i = 0; i < HELD; i++)
                CHECK(held[t][i] != NULL);
        made++;
    } while (marked_beside() == 0 && made < 1000 && !under_stress());
    CHECK_EQ(faults, 0);
    check_cells();
    check_alive();
}

#endif
