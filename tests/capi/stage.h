/*
 * What the programs of this directory have in common: checks, a heap with
 * nodes, the verifier and poison on, and running cases with wide and with
 * compressed references. Compiles as C and as C++.
 */
#ifndef STAGE_H
#define STAGE_H

#include <gleaner.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;

static inline void check(bool holds, const char *what, int line)
{
    if (!holds) {
        printf("FAILED: line %d: %s\n", line, what);
        failed++;
    }
}
#define CHECK(condition) check(condition, #condition, __LINE__)

/* A heap with nodes of two slots and one number of 8 bytes. */
struct stage {
    gleaner_heap *heap;
    gleaner_mutator *m;
    gleaner_type node, list, bytes;
    size_t node_bytes, number;
};

static inline gleaner_heap *stressed_heap(bool compressed, size_t limit,
                                          uint32_t stress)
{
    struct gleaner_options options;

    memset(&options, 0, sizeof options);
    options.outside_layout = GLEANER_LAYOUT_FOLLOWED;
    options.limit = limit;
    options.stress = stress;
    options.workers = 2;
    options.compressed = compressed;
    options.verify = options.poison = true;
    return gleaner_heap_new(&options, NULL, 0);
}

static inline gleaner_heap *new_heap(bool compressed, size_t limit)
{
    return stressed_heap(compressed, limit, 0);
}

static inline struct stage set_up_in(gleaner_heap *heap, bool compressed)
{
    struct stage s;
    uint32_t offsets[2];

    s.heap = heap;
    s.m = gleaner_attach(s.heap);
    offsets[0] = 8;
    offsets[1] = 8 + s.m->slot_bytes;
    s.number = 8 + 2 * s.m->slot_bytes;
    s.node_bytes = s.number + 8;
    s.node = gleaner_structure(s.heap, s.node_bytes, offsets, 2, NULL, 0);
    s.list = gleaner_references(s.heap);
    s.bytes = gleaner_primitives(s.heap, 1);
    CHECK(s.node != 0 && s.list != 0 && s.bytes != 0);
    CHECK(s.m->slot_bytes == (compressed ? 4u : 8u));
    return s;
}

static inline struct stage set_up(bool compressed, size_t limit)
{
    return set_up_in(new_heap(compressed, limit), compressed);
}

static inline void tear_down(struct stage *s)
{
    gleaner_detach(s->m);
    CHECK(gleaner_heap_free(s->heap));
}

static inline uint64_t *number_of(const struct stage *s, gleaner_value node)
{
    return (uint64_t *)((char *)gleaner_object(node) + s->number);
}

static inline gleaner_value new_node(struct stage *s, uint64_t number)
{
    void *object = gleaner_allocate(s->m, s->node, s->node_bytes);
    gleaner_value node = gleaner_reference(object);

    CHECK(object != NULL && *number_of(s, node) == 0);
    CHECK(gleaner_type_of(object) == s->node);
    *number_of(s, node) = number;
    return node;
}

struct stage_case {
    const char *name;
    void (*run)(bool compressed);
};

/* Runs all of them, or those whose names have what CASES says in the environment,
   and counts; what main returns. */
static inline int run_cases(const struct stage_case *cases, size_t count)
{
    size_t i;
    int compressed, passed = 0;
    const char *only = getenv("CASES");
    int broken = failed; /* what the program set up before */

    for (i = 0; i < count; i++)
        for (compressed = 0; compressed < 2; compressed++) {
            if (only != NULL && strstr(cases[i].name, only) == NULL)
                continue;
            failed = 0;
            cases[i].run(compressed != 0);
            printf("%s: %s, %s references\n", failed == 0 ? "ok" : "FAILED",
                   cases[i].name, compressed ? "compressed" : "wide");
            passed += failed == 0;
            broken += failed != 0;
        }
    printf("%d passed, %d failed\n", passed, broken);
    return broken != 0;
}

#endif
