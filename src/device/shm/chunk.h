/*
 * Chunks: buffers in the segment for packets too large for a slot. They belong to the sending
 * context, which alone hands them out; the receiver gives one back by clearing its `busy` word.
 *
 * Memory order: K1 (release store of 0 by the receiver) pairs with K2 (acquire load by the
 * sender): who finds a chunk free may overwrite what the receiver has read.
 *
 * The pool is single-owner. In a quiet exchange one chunk goes to and fro and stays in cache,
 * because the oldest outstanding chunk is looked at before a fresh one is taken.
 */
#ifndef LIBPAMI_DEVICE_SHM_CHUNK_H
#define LIBPAMI_DEVICE_SHM_CHUNK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/shm/segment.h"

struct gauge;
struct packet;

struct chunk {
    _Atomic uint32_t busy; /* 0: free, else the number of this use */
    uint32_t uses;         /* sender: the last number given */
    uint32_t dest;         /* sender: endpoint that it was sent to last */
    CACHE_ALIGNED char data[];
};

struct chunk_pool {
    struct segment *segment;
    struct inbox *inbox; /* of the same context */
    char *first;         /* chunk 0 */
    uint32_t *free;      /* stack */
    uint32_t free_count;
    bool gathering; /* a body is being gathered in the room for one, which is behind ... */
    uint32_t *sent; /* ... the ring of those with receivers, oldest first */
    uint32_t sent_head, sent_count;
    uint32_t count;
    uint32_t touched; /* no other ones have ever been used: pages come when they are looked at */
};

static inline size_t chunk_ring_bytes(uint32_t count)
{
    return (count * sizeof(uint32_t) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

/* The pool of my context `offset`. Chunks that receivers still hold from an earlier life of the
 * context count as sent. 0 or -ENOMEM. */
int chunk_pool_init(struct chunk_pool *pool, struct segment *segment, uint32_t offset);
void chunk_pool_finish(struct chunk_pool *pool);

/* A free chunk for a packet to `endpoint`, NULL when receivers hold them all. The last one is for
 * endpoints that hold none, so that one which does not read leaves something to the others. It
 * counts as sent from now on. */
struct chunk *chunk_get(struct chunk_pool *pool, uint32_t endpoint);

/* The endpoint has gone: take back what it holds. */
void chunk_reclaim(struct chunk_pool *pool, uint32_t endpoint);

/* A chunk is written past the cache where an ordinary copy takes so long for a KiB. */
#define CHUNK_DEAR_NS 100u

/*
 * A packet's body into a chunk that was got for it. The lines of a chunk that has been used are in
 * its last reader's cache: where fetching them is dear, a large body goes past the cache. What is
 * to be gathered is gathered beside the chunk, as that stores more than the data, and all of it
 * would wait behind the stores that fetch lines.
 */
void chunk_write(struct chunk_pool *pool, struct chunk *chunk, const struct packet *packet,
                 struct gauge *gauge);

/* Give back the chunk last got, which was not sent after all. */
void chunk_unget(struct chunk_pool *pool, struct chunk *chunk);

/* Receiver: done with this use, which the sender cannot be taking back. */
static inline void chunk_release(struct chunk *chunk, uint32_t use)
{
    if (atomic_load_explicit(&chunk->busy, memory_order_relaxed) == use)
        atomic_store_explicit(&chunk->busy, 0, memory_order_release); /* K1 */
}

/* The same for what was sent to a context that has gone: the sender may have taken the chunk back
 * and used it again, or may be about to. A release that comes too late does nothing. */
static inline void chunk_release_late(struct chunk *chunk, uint32_t use)
{
    atomic_compare_exchange_strong_explicit(&chunk->busy, &use, 0, memory_order_release, /* K1 */
                                            memory_order_relaxed);
}

#endif
