/* The smallest program that embeds Gleaner: a heap of 1 MB, and an object in
   it. `make test-embed` holds its size (docs/embedding.md, "A small program"). */
#include "gleaner.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
    static const char text[] = "hello from the heap";
    struct gleaner_options options = {.limit = 1 << 20};
    char message[256];
    gleaner_heap *heap = gleaner_heap_new(&options, message, sizeof message);
    if (heap == NULL) {
        fprintf(stderr, "hello: %s\n", message);
        return 1;
    }
    gleaner_mutator *m = gleaner_attach(heap);
    gleaner_type type = gleaner_structure(heap, 8 + sizeof text, NULL, 0,
                                          message, sizeof message);
    void *object = gleaner_allocate(m, type, 8 + sizeof text);
    if (object == NULL) {
        fprintf(stderr, "hello: out of memory\n");
        return 1;
    }
    char *bytes = (char *)object + 8;
    memcpy(bytes, text, sizeof text);
    puts(bytes);
    gleaner_detach(m);
    return gleaner_heap_free(heap) ? 0 : 1;
}
