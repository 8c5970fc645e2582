/*
 * Two FNV-1a lanes with different primes, finished by the mixing steps of SplitMix64.
 */
#include "bootstrap/digest.h"

#include <inttypes.h>
#include <stdio.h>

#include "util/hash.h"

#define PRIME_A UINT64_C(0x00000100000001b3)
#define PRIME_B UINT64_C(0x9e3779b97f4a7c15)

void digest_init(struct digest *digest)
{
    digest->a = UINT64_C(0xcbf29ce484222325);
    digest->b = UINT64_C(0x84222325cbf29ce4);
}

static void digest_byte(struct digest *digest, unsigned char byte)
{
    digest->a = (digest->a ^ byte) * PRIME_A;
    digest->b = (digest->b ^ byte) * PRIME_B;
    digest->b ^= digest->b >> 29;
}

void digest_add(struct digest *digest, const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    uint64_t length = bytes;
    int i;

    while (bytes-- > 0)
        digest_byte(digest, *byte++);
    for (i = 0; i < 8; i++)
        digest_byte(digest, (unsigned char)(length >> (8 * i)));
}

void digest_text(const struct digest *digest, char text[DIGEST_TEXT_MAX])
{
    snprintf(text, DIGEST_TEXT_MAX, "%016" PRIx64 "%016" PRIx64, hash_mix(digest->a),
             hash_mix(digest->b ^ digest->a));
}
