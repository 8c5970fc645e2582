/*
 * Large memory for a while, again and again: what is given back is kept for the next block of about
 * its size, as the system takes memory back that is freed, and the next one has to be made page by
 * page. A reduce_scatter of 1 MiB for each of 8 tasks on two nodes, all on two processors of a
 * virtual machine, took 7 or 90 ms, by what malloc had been asked for before.
 *
 * One owner at a time, no locks. Under AddressSanitizer what is kept is poisoned.
 */
#ifndef LIBPAMI_UTIL_STASH_H
#define LIBPAMI_UTIL_STASH_H

#include <stddef.h>

#include "util/list.h"

/* Smaller ones come from malloc, which keeps those. */
#define STASH_LEAST ((size_t)16 << 10)

/* Kept at most. */
#define STASH_COUNT 64u

struct stash {
    struct list kept; /* the last one that was used first */
    size_t count, bytes, most;
};

/* `most`: bytes that are kept; 0: none. */
void stash_init(struct stash *stash, size_t most);

/* Frees what is kept; blocks that are out may still be put, and are freed then. */
void stash_finish(struct stash *stash);

/* Aligned to 64 bytes, not cleared. NULL: there is no memory. */
void *stash_get(struct stash *stash, size_t bytes);

/* May be NULL. */
void stash_put(struct stash *stash, void *block);

#endif
