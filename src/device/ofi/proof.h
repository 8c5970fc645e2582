/*
 * Keyed hashing (SipHash-2-4, Aumasson and Bernstein 2012): proofs that somebody knows the job's
 * key, and words that nobody else can guess.
 */
#ifndef LIBPAMI_DEVICE_OFI_PROOF_H
#define LIBPAMI_DEVICE_OFI_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROOF_KEY_BYTES 16u

struct proof_key {
    uint8_t bytes[PROOF_KEY_BYTES];
};

/* A proof of 128 bits. */
struct proof {
    uint64_t words[2];
};

uint64_t proof_hash(const struct proof_key *key, const void *data, size_t bytes);

/* `purpose` keeps proofs made for one end from serving another. */
struct proof proof_make(const struct proof_key *key, uint64_t purpose, const void *data,
                        size_t bytes);

/* Takes the same time wherever the two differ. */
bool proof_equal(const struct proof *a, const struct proof *b);

/* Unpredictable bytes; false when the system gives none. */
bool proof_random(void *data, size_t bytes);

/* The key as 32 hexadecimal digits and NUL, and back; false: not a key. */
void proof_key_format(const struct proof_key *key, char text[2 * PROOF_KEY_BYTES + 1]);
bool proof_key_parse(const char *text, struct proof_key *key);

#endif
