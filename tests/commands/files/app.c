/* A program on libgc: maps of strings that come and go. */
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
        }
    }
    size_t bytes = 0;
    for (struct entry *entry = kept; entry != NULL; entry = entry->next)
        bytes += strlen(entry->name);
    printf("%zu\n", bytes);
    return bytes == 2000 * 8 ? 0 : 1;
}
