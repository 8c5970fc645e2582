/*
 * SipHash-2-4 and what is made of it. See proof.h.
 */
#include "device/ofi/proof.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static inline uint64_t rotate(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static inline uint64_t load(const uint8_t *from)
{
    uint64_t word = 0;

    for (unsigned i = 0; i < 8; i++)
        word |= (uint64_t)from[i] << (8 * i);
    return word;
}

static inline void rounds(uint64_t v[4], unsigned count)
{
    while (count-- > 0) {
        v[0] += v[1];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[0] = rotate(v[0], 32);
        v[2] += v[3];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
    }
}

uint64_t proof_hash(const struct proof_key *key, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    uint64_t k0 = load(key->bytes);
    uint64_t k1 = load(key->bytes + 8);
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u,
                     k1 ^ 0x7465646279746573u};
    uint8_t last[8] = {0};
    size_t left = bytes;

    for (; left >= 8; left -= 8, at += 8) {
        uint64_t word = load(at);

        v[3] ^= word;
        rounds(v, 2);
        v[0] ^= word;
    }
    memcpy(last, at, left);
    last[7] = (uint8_t)bytes;
    v[3] ^= load(last);
    rounds(v, 2);
    v[0] ^= load(last);
    v[2] ^= 0xff;
    rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

struct proof proof_make(const struct proof_key *key, uint64_t purpose, const void *data,
                        size_t bytes)
{
    uint64_t inner[3] = {purpose, proof_hash(key, data, bytes), bytes};
    struct proof proof;

    proof.words[0] = proof_hash(key, inner, sizeof(inner));
    inner[0] = ~purpose;
    proof.words[1] = proof_hash(key, inner, sizeof(inner));
    return proof;
}

bool proof_equal(const struct proof *a, const struct proof *b)
{
    return ((a->words[0] ^ b->words[0]) | (a->words[1] ^ b->words[1])) == 0;
}

bool proof_random(void *data, size_t bytes)
{
    return getrandom(data, bytes, 0) == (ssize_t)bytes;
}

void proof_key_format(const struct proof_key *key, char text[2 * PROOF_KEY_BYTES + 1])
{
    for (size_t i = 0; i < PROOF_KEY_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", key->bytes[i]);
}

bool proof_key_parse(const char *text, struct proof_key *key)
{
    for (size_t i = 0; i < PROOF_KEY_BYTES; i++) {
        unsigned byte;

        if (sscanf(text + 2 * i, "%2x", &byte) != 1)
            return false;
        key->bytes[i] = (uint8_t)byte;
    }
    return text[(size_t)2 * PROOF_KEY_BYTES] == '\0';
}
