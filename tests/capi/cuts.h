/*
 * Ways to cut arrays, and heaps that do.
 */
#ifndef CUTS_H
#define CUTS_H

#include "stage.h"

#include <stdlib.h>

static const char *const cuts[] = {
    "arrays=contiguous",
    "arrays=zray,first-n=64,arraylet=256",
    "arrays=zray,first-n=64,arraylet=256,fast-copy=off",
    "arrays=perf-zray,first-n=128,arraylet=512",
    "arrays=zray",
    "arrays=naive",
    "arrays=naive,first-n=64,array-kinds=references",
    "arrays=naive-a,arraylet=256,array-kinds=primitives",
    "arrays=zray,first-n=64,arraylet=256,array-guard=on",
    "arrays=naive,array-guard=on",
};
enum { CUTS = sizeof cuts / sizeof *cuts };

static gleaner_heap *cut_heap(const char *cut, const char *more, size_t limit,
                              bool compressed, char *message, size_t bytes)
{
    struct gleaner_options options;
    char list[200];

    snprintf(list, sizeof list, "%s%s", cut, more);
    memset(&options, 0, sizeof options);
    options.limit = limit;
    options.workers = 2;
    options.compressed = compressed;
    options.verify = options.poison = true;
    options.list = list;
    return gleaner_heap_new(&options, message, bytes);
}

/* The first N of a cut, as far as this program can tell. */
static bool is_for(const char *cut)
{
    size_t first_n = 0;
    const char *said = strstr(cut, "first-n=");

    if (strstr(cut, "contiguous") != NULL)
        first_n = SIZE_MAX;
    else if (strstr(cut, "array-guard=on") != NULL)
        first_n = 0;
    else if (said != NULL)
        first_n = (size_t)atoi(said + 8);
    else if (strstr(cut, "zray") != NULL)
        first_n = 4096;
    return gleaner_known_first_n() <= first_n;
}

#endif
