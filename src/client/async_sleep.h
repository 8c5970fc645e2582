/*
 * One sleep over many words: a thread's own bell, and the doorbells of contexts.
 *
 * By futex_waitv (Linux 5.16). Where the kernel has none, a thread sleeps on one word: the only
 * doorbell there is, or its bell; in the latter case sleeps are short. Whoever rings a bell does
 * not know which, so ringing also goes through the doorbell (context/share.h) where it matters.
 */
#ifndef LIBPAMI_CLIENT_ASYNC_SLEEP_H
#define LIBPAMI_CLIENT_ASYNC_SLEEP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ASYNC_SLEEP_MOST 65 /* a bell and ENDPOINT_OFFSETS_MAX doorbells */

/* Private to the process. Counts rings. */
struct async_bell {
    atomic_uint word;
};

void async_bell_ring(struct async_bell *bell);

/* To be called before looking for what a ring may have meant. */
uint32_t async_bell_hear(const struct async_bell *bell);

/* A doorbell: 1 while armed. */
static inline bool async_bell_rung(const atomic_uint *doorbell)
{
    return atomic_load_explicit(doorbell, memory_order_relaxed) == 0;
}

struct async_sleep {
    struct async_bell *bell;
    uint32_t heard;
    size_t count;
    atomic_uint *doorbells[ASYNC_SLEEP_MOST - 1];
};

void async_sleep_begin(struct async_sleep *sleep, struct async_bell *bell, uint32_t heard);
void async_sleep_add(struct async_sleep *sleep, atomic_uint *doorbell);

/* Until one rings, or the time (ns, CLOCK_MONOTONIC; UINT64_MAX: never) has come. */
void async_sleep(const struct async_sleep *sleep, uint64_t until);

#endif
