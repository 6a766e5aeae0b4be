/* Random numbers that are the same everywhere, sums, and strings of bytes. */
#ifndef RIVALS_NUMBERS_H
#define RIVALS_NUMBERS_H

#include <string.h>

#include "rival.h"

/* A linear congruential generator (Knuth's multiplier), of which the upper half
 * is used. */
struct random {
    uint64_t state;
};

/* The next number of 31 bits. */
static inline uint32_t next_random(struct random *random)
{
    random->state = random->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random->state >> 33);
}

/* The next number below a bound. */
static inline uint32_t below(struct random *random, uint32_t bound)
{
    return next_random(random) % bound;
}

/* A number scattered over 64 bits (the finalizer of splitmix64), so that sums of
 * them tell sets apart. */
static inline uint64_t scattered(uint64_t number)
{
    uint64_t mixed = number + 0x9e3779b97f4a7c15u;

    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

/* One more number of a sequence, in which order does count. */
static inline uint64_t chained(uint64_t sum, uint64_t number)
{
    return sum * 31 + number;
}

/* The number of no bytes, and of bytes that follow others (FNV-1a). */
#define NO_BYTES 0xcbf29ce484222325u

static inline uint64_t hash_on(uint64_t hash, const unsigned char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* A string that knows its length. */
struct bytes {
    uint32_t length;
    unsigned char at[];
};

static inline struct bytes *fresh_bytes(size_t length)
{
    struct bytes *fresh = memory_numbers(sizeof *fresh + length);

    fresh->length = (uint32_t)length;
    return fresh;
}

static inline struct bytes *copied_bytes(const void *from, size_t length)
{
    struct bytes *fresh = fresh_bytes(length);

    memcpy(fresh->at, from, length);
    return fresh;
}

static inline uint64_t hash_of(const struct bytes *bytes)
{
    return hash_on(NO_BYTES, bytes->at, bytes->length);
}

/* Without regard to the locale. */
static inline unsigned char lower(unsigned char letter)
{
    return (unsigned char)(letter - 'A') < 26 ? letter | 0x20 : letter;
}

static inline unsigned char upper(unsigned char letter)
{
    return (unsigned char)(letter - 'a') < 26 ? letter & ~0x20 : letter;
}

static inline struct bytes *lower_bytes(const unsigned char *from, size_t length)
{
    struct bytes *fresh = fresh_bytes(length);

    for (size_t i = 0; i < length; i++)
        fresh->at[i] = lower(from[i]);
    return fresh;
}

#endif
