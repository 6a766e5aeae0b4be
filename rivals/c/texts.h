/* Real text to be indexed. */
#ifndef RIVALS_TEXTS_H
#define RIVALS_TEXTS_H

#include "numbers.h"

struct text {
    char *name;
    unsigned char *bytes;
    size_t length;
    uint64_t hash;
};

struct texts {
    size_t count, bytes;
    struct text *text;
};

/* The texts for a run; ends the program when there are too few. */
struct texts read_texts(const struct chosen *chosen);

/* The next word of a text from `*at` on: its length, and `*at` is behind it; 0 if
 * there is none. Words are letters and digits of ASCII, two to thirty-two. */
static inline size_t next_word(const unsigned char *text, size_t length, size_t *at)
{
    size_t i = *at;

    while (i < length) {
        size_t from = i;

        while (i < length
               && ((unsigned char)((text[i] | 0x20) - 'a') < 26
                   || (unsigned char)(text[i] - '0') < 10))
            i++;
        if (i - from >= 2 && i - from <= 32) {
            *at = i;
            return i - from;
        }
        i += i == from;
    }
    *at = i;
    return 0;
}

#endif
