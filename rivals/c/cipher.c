/* Messages enciphered and deciphered: arrays of numbers that die young.
 *
 * By hand, a block of the key stream is freed when it was added, a message when
 * it was compared. */
#include <endian.h>
#include <string.h>

#include "rival.h"

enum { MESSAGE = 4096, STATE = 16 };

static uint32_t turned(uint32_t word, int by)
{
    return word << by | word >> (32 - by);
}

/* A quarter round (RFC 8439, section 2.1). */
static inline void quarter(uint32_t *state, int a, int b, int c, int d)
{
    state[a] += state[b], state[d] = turned(state[d] ^ state[a], 16);
    state[c] += state[d], state[b] = turned(state[b] ^ state[c], 12);
    state[a] += state[b], state[d] = turned(state[d] ^ state[a], 8);
    state[c] += state[d], state[b] = turned(state[b] ^ state[c], 7);
}

/* A block of the key stream (RFC 8439, section 2.3). */
static void fill(uint32_t *stream, const uint32_t *key, uint32_t counter, uint32_t nonce)
{
    const uint32_t state[STATE] = {
        0x61707865, 0x3320646e, 0x79622d32, 0x6b206574,
        key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7],
        counter, 0, 0, nonce,
    };
    uint32_t mixed[STATE];

    memcpy(mixed, state, sizeof mixed);
    for (int round = 0; round < 10; round++) {
        quarter(mixed, 0, 4, 8, 12);
        quarter(mixed, 1, 5, 9, 13);
        quarter(mixed, 2, 6, 10, 14);
        quarter(mixed, 3, 7, 11, 15);
        quarter(mixed, 0, 5, 10, 15);
        quarter(mixed, 1, 6, 11, 12);
        quarter(mixed, 2, 7, 8, 13);
        quarter(mixed, 3, 4, 9, 14);
    }
    for (int i = 0; i < STATE; i++)
        stream[i] = mixed[i] + state[i];
}

/* A text with the key stream added. */
static unsigned char *ciphered(const uint32_t *key, const unsigned char *text, uint32_t nonce)
{
    unsigned char *result = memory_numbers(MESSAGE);

    for (uint32_t block = 0; block < MESSAGE / 64; block++) {
        uint32_t *stream = memory_numbers(STATE * sizeof *stream);
        unsigned char *part = result + 64 * block;

        fill(stream, key, 1 + block, nonce);
        memcpy(part, text + 64 * block, 64);
        for (int i = 0; i < STATE; i++) {
            uint32_t word;

            memcpy(&word, part + 4 * i, sizeof word);
            word ^= htole32(stream[i]);
            memcpy(part + 4 * i, &word, sizeof word);
        }
        memory_free(stream);
    }
    return result;
}

uint64_t cipher(const struct chosen *chosen)
{
    uint32_t messages = chosen->tiny ? 40 : 40000;
    uint64_t random = 7000, sum = 0;

    for (uint32_t number = 0; number < messages; number++) {
        uint32_t *key = memory_numbers(8 * sizeof *key);
        unsigned char *plain, *sent, *read;

        for (int i = 0; i < 8; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            key[i] = (uint32_t)(random >> 33);
        }
        plain = memory_numbers(MESSAGE);
        for (uint32_t i = 0; i < MESSAGE; i++)
            plain[i] = (unsigned char)(i ^ number);
        sent = ciphered(key, plain, number);
        for (int at = 0; at < MESSAGE; at += 8) {
            uint64_t part;

            memcpy(&part, sent + at, sizeof part);
            sum = sum * 31 + le64toh(part);
        }
        read = ciphered(key, sent, number);
        memory_free(key);
        memory_free(sent);
        require(memcmp(read, plain, MESSAGE) == 0, "what is read is what was sent");
        memory_free(read);
        memory_free(plain);
    }
    return sum;
}
