/*
 * A bounded queue of pointers from many threads to one: the way of requests to a server.
 *
 * Lock-free for producers, wait-free for the consumer. Each slot has a turn: the position that may
 * be written there next, and one more when it has been written. A ring can be closed: from then on
 * nothing gets in, and what was claimed before does come out. The closing is a bit of the tail, so
 * a producer that claims a position knows that it was open.
 *
 * Memory order: the turn that publishes (release, and part of the total order of ring_put and
 * server_rest) pairs with the load of the consumer; the turn that frees pairs with that of the next
 * producer.
 */
#ifndef LIBPAMI_SERVERS_RING_H
#define LIBPAMI_SERVERS_RING_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/cpu.h"

#define RING_CLOSED ((uint64_t)1 << 63)

struct ring_slot {
    atomic_uint_least64_t turn;
    void *item;
};

struct ring {
    CACHE_ALIGNED atomic_uint_least64_t tail; /* producers: next position, and RING_CLOSED */
    CACHE_ALIGNED uint64_t head;              /* consumer: next position */
    struct ring_slot *slots;
    uint64_t mask; /* slots - 1; slots is a power of two */
};

static inline void ring_init(struct ring *ring, struct ring_slot *slots, size_t count)
{
    for (size_t i = 0; i < count; i++)
        atomic_init(&slots[i].turn, i);
    atomic_init(&ring->tail, RING_CLOSED);
    ring->head = 0;
    ring->slots = slots;
    ring->mask = count - 1;
}

/* Any thread. 0, -EAGAIN: full, -ESHUTDOWN: closed. */
static inline int ring_put(struct ring *ring, void *item)
{
    uint64_t at = atomic_load_explicit(&ring->tail, memory_order_relaxed);

    for (;;) {
        struct ring_slot *slot = &ring->slots[at & ring->mask];
        uint64_t turn;

        if (unlikely((at & RING_CLOSED) != 0))
            return -ESHUTDOWN;
        turn = atomic_load_explicit(&slot->turn, memory_order_acquire);
        if (turn == at) {
            if (!atomic_compare_exchange_weak_explicit(&ring->tail, &at, at + 1,
                                                       memory_order_relaxed, memory_order_relaxed))
                continue;
            slot->item = item;
            atomic_store(&slot->turn, at + 1);
            return 0;
        }
        if (turn < at)
            return -EAGAIN;
        at = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    }
}

/* The consumer. Is the next position filled? */
static inline bool ring_ready(const struct ring *ring)
{
    return atomic_load(&ring->slots[ring->head & ring->mask].turn) == ring->head + 1;
}

/* The consumer; NULL when there is nothing. */
static inline void *ring_get(struct ring *ring)
{
    struct ring_slot *slot = &ring->slots[ring->head & ring->mask];
    void *item;

    if (!ring_ready(ring))
        return NULL;
    item = slot->item;
    atomic_store_explicit(&slot->turn, ring->head + ring->mask + 1, memory_order_release);
    ring->head++;
    return item;
}

/* Any thread. The position behind everything that was put before. */
static inline uint64_t ring_position(const struct ring *ring)
{
    return atomic_load(&ring->tail) & ~RING_CLOSED;
}

static inline void ring_close(struct ring *ring)
{
    atomic_fetch_or(&ring->tail, RING_CLOSED);
}

static inline void ring_open(struct ring *ring)
{
    atomic_fetch_and(&ring->tail, ~RING_CLOSED);
}

#endif
