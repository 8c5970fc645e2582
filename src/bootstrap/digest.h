/*
 * A 128-bit hash for telling things apart (hosts, jobs), not for keeping secrets.
 *
 * The same input gives the same text on every machine of a job.
 */
#ifndef LIBPAMI_BOOTSTRAP_DIGEST_H
#define LIBPAMI_BOOTSTRAP_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* Room for digest_text's 32 hexadecimal digits with their NUL. */
#define DIGEST_TEXT_MAX 33

struct digest {
    uint64_t a, b;
};

void digest_init(struct digest *digest);

/* Adding "ab" then "c" differs from adding "a" then "bc". */
void digest_add(struct digest *digest, const void *data, size_t bytes);

void digest_text(const struct digest *digest, char text[DIGEST_TEXT_MAX]);

#endif
