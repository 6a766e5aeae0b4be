/* What the workloads share beside the memory manager. */
#ifndef RIVALS_RIVAL_H
#define RIVALS_RIVAL_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include MEMORY

enum { MOST_MUTATORS = 256 };

/* What was asked for. */
struct chosen {
    const char *name;
    /* Instead of Debian's files; NULL unless given. */
    const char *input;
    size_t heap;
    unsigned mutators;
    int workers, tiny, wasteful, iterations;
};

/* What the line says of some workloads only; 0 where there is nothing to say. */
extern struct facts {
    uint64_t transactions;
    double transactions_per_s, queries_per_s;
} facts;

/* Each runs once; what it comes to. */
uint64_t plain_gcbench(const struct chosen *chosen);
uint64_t holes(const struct chosen *chosen);
uint64_t queue(const struct chosen *chosen);
uint64_t refarray(const struct chosen *chosen);
uint64_t quads(const struct chosen *chosen);
uint64_t cipher(const struct chosen *chosen);
uint64_t finalizers(const struct chosen *chosen);
uint64_t jbb(const struct chosen *chosen);
uint64_t text_index(const struct chosen *chosen);
uint64_t xml(const struct chosen *chosen);
uint64_t producer(const struct chosen *chosen);
uint64_t agents(const struct chosen *chosen);
uint64_t render(const struct chosen *chosen);
uint64_t tiny(const struct chosen *chosen);

/* Before the clock starts: these read their input. */
void prepare_index(const struct chosen *chosen);
void prepare_xml(const struct chosen *chosen);

/* Runs `body` on `mutators` threads, with their numbers from 0; the sum of what
 * it returns. One thread is the calling one. */
uint64_t run_mutators(unsigned mutators, uint64_t (*body)(void *context, unsigned number),
                      void *context);

/* Ends the program with a message that says why. */
_Noreturn void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline void require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "broken: %s\n", what);
        abort();
    }
}

/* The compiler may not leave out what made this, nor what it is made of. */
static inline void observe(const void *object)
{
    __asm__ volatile("" : : "r"(object) : "memory");
}

/* Seconds on a clock that nobody sets. */
static inline double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif
