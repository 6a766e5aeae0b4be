/* A library whose data segments hold the only references to objects. */
#include <stddef.h>

enum { SLOTS = 1000 };
static void *in_bss[SLOTS];
static void *in_data[SLOTS] = {(void *)1};
static __thread void *in_tls[SLOTS];

void holder_set(int where, int i, void *p)
{
    (where == 0 ? in_bss : where == 1 ? in_data : in_tls)[i] = p;
}

void *holder_get(int where, int i)
{
    return (where == 0 ? in_bss : where == 1 ? in_data : in_tls)[i];
}
