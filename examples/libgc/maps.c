/* A program on libgc, of which nothing here knows Gleaner: strings that come and
   go, and one of a hundred that stays. `gleaner exec` runs it as it is built. */
#include <gc.h>
#include <stdio.h>
#include <string.h>

struct entry { struct entry *next; char *name; };

int main(void)
{
    struct entry *kept = NULL;
    GC_INIT();
    for (int number = 0; number < 200000; number++) {
        struct entry *entry = GC_MALLOC(sizeof *entry);
        entry->name = GC_STRDUP("an entry");
        if (number % 100 == 0) {
            entry->next = kept;
            kept = entry;
        } /* What is not kept is garbage now: nobody frees it. */
    }
    size_t bytes = 0;
    for (struct entry *entry = kept; entry != NULL; entry = entry->next)
        bytes += strlen(entry->name);
    printf("%zu\n", bytes);
    return bytes == 2000 * 8 ? 0 : 1;
}
