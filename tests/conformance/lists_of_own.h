/* Work that checks itself: lists that a thread makes, and finds whole. */
#ifndef LISTS_OF_OWN_H
#define LISTS_OF_OWN_H
#include "harness.h"

/* Cells of several sizes. */
static UNUSED int list_of_own(int length)
{
    void **list = NULL;
    for (int i = 0; i < length; i++) {
        void **cell = GC_malloc(16 + (size_t)(i % 7) * 24);
        if (cell[0] != NULL || cell[1] != NULL)
            return 0;
        cell[0] = list;
        cell[1] = (void *)(uintptr_t)(2 * i + 1);
        list = cell;
    }
    for (int i = length - 1; i >= 0; i--, list = list[0])
        if (list == NULL || list[1] != (void *)(uintptr_t)(2 * i + 1))
            return 0;
    return 1;
}

/* The same with the mark of a thread in each cell, and objects without pointers between them. */
static UNUSED int marked_list_of_own(uintptr_t tag, int length)
{
    void **list = NULL;
    for (int i = 0; i < length; i++) {
        void **cell = GC_malloc(24 + (size_t)(i % 5) * 40);
        if (cell[0] != NULL || cell[1] != NULL || cell[2] != NULL)
            return 0;
        cell[0] = list;
        cell[1] = (void *)(uintptr_t)(2 * i + 1);
        cell[2] = (void *)(tag * 2 + 1);
        list = cell;
        if (i % 3 == 0)
            memset(GC_malloc_atomic(30), 0xff, 30);
    }
    for (int i = length - 1; i >= 0; i--, list = list[0])
        if (list == NULL || list[1] != (void *)(uintptr_t)(2 * i + 1)
            || list[2] != (void *)(tag * 2 + 1))
            return 0;
    return list == NULL;
}

#endif
