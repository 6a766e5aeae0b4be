/* Tables whose keys may die: (make-weak-table), (weak-table 'set TABLE KEY
   VALUE) and the like. A table is outside of the heap: chains of ephemerons, by
   the hash of the key. The object in the heap has its number, and so has the
   object's finalizer. When the object dies, the table is emptied, so that the
   table's values can die. */
#include "scheme.h"

#include <stdlib.h>
#include <string.h>

#define CHAINS 64

struct entry {
    struct entry *next;
    uint32_t hash;
    gleaner_ephemeron *ephemeron;
};
static struct entry *(*tables)[CHAINS];
static size_t count;
/* Its holder neither allocates in the heap nor polls. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void free_entry(struct entry **place)
{
    struct entry *entry = *place;

    *place = entry->next;
    gleaner_ephemeron_free(entry->ephemeron);
    free(entry);
}

static void empty(size_t number)
{
    int chain;

    for (chain = 0; chain < CHAINS; chain++)
        while (tables[number][chain] != NULL)
            free_entry(&tables[number][chain]);
}

void free_weak_tables(void)
{
    while (count > 0)
        empty(--count);
    free(tables);
}

static void empty_the_dead(void)
{
    gleaner_value dead, value;
    size_t number;

    while (gleaner_next_finalizer(m, &dead, &value)) {
        number = (size_t)gleaner_number(value);
        pthread_mutex_lock(&lock);
        empty(number);
        pthread_mutex_unlock(&lock);
    }
}

/* The number of a new table, or -1. */
static int64_t new_table(void)
{
    int64_t number = -1;
    void *more;

    pthread_mutex_lock(&lock);
    more = realloc(tables, (count + 1) * sizeof *tables);
    if (more != NULL) {
        tables = more;
        memset(tables[count], 0, sizeof *tables);
        number = (int64_t)count++;
    }
    pthread_mutex_unlock(&lock);
    return number;
}

gleaner_value make_weak_table(void)
{
    gleaner_value made;
    int64_t number;
    GLEANER_FRAME(m, frame, 1);

    empty_the_dead();
    number = new_table();
    if (number < 0)
        fail("no room for a table");
    made = make(WEAK_TABLE, (gleaner_value[]){ gleaner_integer(number) });
    frame.values[0] = made;
    if (gleaner_finalizer_new(m, gleaner_object(made), gleaner_integer(number), 0,
                              false)
        == NULL)
        fail("no room for a finalizer");
    made = frame.values[0];
    GLEANER_LEAVE(m, frame);
    return made;
}

/* How many keys live. */
static int64_t count_keys(size_t number)
{
    int64_t living = 0;
    struct entry **place;
    int chain;

    pthread_mutex_lock(&lock);
    for (chain = 0; chain < CHAINS; chain++)
        for (place = &tables[number][chain]; *place != NULL;) {
            if (gleaner_ephemeron_key((*place)->ephemeron) == 0) {
                free_entry(place);
            } else {
                place = &(*place)->next;
                living++;
            }
        }
    pthread_mutex_unlock(&lock);
    return living;
}

/* Keys are objects: of what is none, nothing can die. */
static uint32_t hash_of(gleaner_value key)
{
    int64_t number;

    if (key == 0 || as_integer(key, &number))
        fail("a key that cannot die");
    return gleaner_identity_hash(m, gleaner_object(key));
}

/* The box with a key's value; 0 if the table does not have the key. */
static gleaner_value find(size_t number, gleaner_value key)
{
    uint32_t hash = hash_of(key);
    gleaner_value box = 0;
    struct entry *entry;

    pthread_mutex_lock(&lock);
    for (entry = tables[number][hash % CHAINS]; entry != NULL && box == 0;
         entry = entry->next)
        if (gleaner_ephemeron_key(entry->ephemeron) == key)
            box = gleaner_ephemeron_value(entry->ephemeron);
    pthread_mutex_unlock(&lock);
    return box;
}

static void add(size_t number, gleaner_value key, gleaner_value box)
{
    uint32_t hash = hash_of(key);
    struct entry *entry = malloc(sizeof *entry);
    /* An allocation: what was key and box may lie elsewhere behind it. */
    gleaner_ephemeron *ephemeron = gleaner_ephemeron_new(
        m, gleaner_object(key), gleaner_object(box));
    struct entry **chain;

    if (entry == NULL || ephemeron == NULL) {
        free(entry);
        if (ephemeron != NULL)
            gleaner_ephemeron_free(ephemeron);
        fail("no room for an ephemeron");
    }
    entry->hash = hash;
    entry->ephemeron = ephemeron;
    pthread_mutex_lock(&lock);
    chain = &tables[number][hash % CHAINS];
    entry->next = *chain;
    *chain = entry;
    pthread_mutex_unlock(&lock);
}

/* (weak-table 'count TABLE), (weak-table 'get TABLE KEY), which is false if the
   key is not there, and (weak-table 'set TABLE KEY VALUE). */
gleaner_value weak_table(void)
{
    size_t number, arguments = argument_count();
    gleaner_value what = argument(0), box;

    if (!is(argument(1), WEAK_TABLE))
        fail("what should be a weak table is none");
    if (!is(what, SYMBOL))
        fail("a weak table cannot do that");
    number = (size_t)gleaner_number(get(argument(1), 0));
    what = get(what, 0);
    if (arguments == 2 && is_spelled(what, "count", 5))
        return integer(count_keys(number));
    if (arguments == 3 && is_spelled(what, "get", 3)) {
        box = find(number, argument(2));
        return box != 0 ? get(box, 0) : roots[FALSITY];
    }
    if (arguments != 4 || !is_spelled(what, "set", 3))
        fail("a weak table cannot do that");
    box = find(number, argument(2));
    if (box != 0) {
        set(box, 0, argument(3));
    } else {
        /* An ephemeron's value is an object, which a Scheme's need not be. */
        box = cons(argument(3), 0);
        add(number, argument(2), box);
    }
    return roots[UNSPECIFIED];
}
