/* A hash table of code addresses. */
#include "coverage.h"

enum { SLOTS = 1 << 16 };

static struct place {
    uintptr_t address;
    unsigned long times[EVENTS];
    char name[96];
} table[SLOTS];

static unsigned long counts[EVENTS];

static struct place *place_of(uintptr_t address)
{
    for (uintptr_t at = address * 0x9e3779b97f4a7c15u >> 48;; at++) {
        struct place *place = &table[at % SLOTS];
        if (place->address == 0) {
            place->address = address;
            name_of(address, place->name, sizeof place->name);
        }
        if (place->address == address)
            return place;
    }
}

void note(enum event event, uintptr_t address)
{
    place_of(address)->times[event]++;
    counts[event]++;
}

unsigned long counted(enum event event)
{
    return counts[event];
}

void forget_counts(void)
{
    memset(counts, 0, sizeof counts);
}

static int is_in(const struct place *place, const char *function)
{
    return place->address != 0 && strcmp(place->name, function) == 0;
}

unsigned places(enum event event, const char *function)
{
    unsigned n = 0;
    for (unsigned i = 0; i < SLOTS; i++)
        n += is_in(&table[i], function) && table[i].times[event] != 0;
    return n;
}

unsigned uncovered(const char *function)
{
    unsigned n = 0;
    for (unsigned i = 0; i < SLOTS; i++)
        n += is_in(&table[i], function) && table[i].times[STOPPED] + table[i].times[UNSTOPPED] + table[i].times[WAITED] == 0;
    return n;
}

static int by_address(const void *a, const void *b)
{
    const struct place *left = *(struct place *const *)a, *right = *(struct place *const *)b;
    return (left->address > right->address) - (left->address < right->address);
}

void print_coverage(void)
{
    static struct place *sorted[SLOTS];
    unsigned n = 0;
    for (unsigned i = 0; i < SLOTS; i++)
        if (table[i].address != 0)
            sorted[n++] = &table[i];
    qsort(sorted, n, sizeof sorted[0], by_address);
    printf("# instructions reached / with a collection that stopped there / with one in a blocking region / with the lock held, by function:\n");
    for (unsigned i = 0; i < n;) {
        const char *name = sorted[i]->name;
        unsigned found[EVENTS] = {0};
        for (; i < n && strcmp(sorted[i]->name, name) == 0; i++)
            for (unsigned e = 0; e < EVENTS; e++)
                found[e] += sorted[i]->times[e] != 0;
        printf("#   %5u %5u %5u %5u  %s\n", found[STEPPED], found[STOPPED], found[UNSTOPPED], found[WAITED], name);
    }
}
