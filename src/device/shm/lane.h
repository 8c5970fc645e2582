/*
 * Lanes: rings with one sender each, for those who send much to a context.
 *
 * The inbox's ring takes a locked instruction per packet, which waits for all earlier stores: about
 * one trip of a cache line between cores per packet. A lane needs none. A context has a fixed
 * number of lanes, so memory does not grow with pairs; a sender takes a free one after some packets
 * and keeps it, and where there is none it stays with the ring.
 *
 * Order: the sender's last packet in the ring is a marker that names the lane, and the consumer
 * looks into the lane only once it has read the marker.
 *
 * A slot holds packet `index` when its word is index + 1. The consumer publishes its head now and
 * then, as in the inbox. A lane that nobody owns is empty, and its next owner goes on from its
 * head: indices never repeat, so words of the past never look new.
 *
 * Memory order: L1 (release store of a word) pairs with L2 (acquire load by the consumer); L3
 * (release store of head) with L4 (acquire load by the sender); L5 (release store of owner 0) with
 * L6 (acquiring exchange by the next owner).
 *
 * Measured 2026-11-21 (AMD EPYC, 2 virtual cores, two-line ping-pong 229 ns): 8-byte packets per
 * second 64 M by plain stores, 13.6 M with a locked tail, 6.9 M with a locked slot.
 */
#ifndef LIBPAMI_DEVICE_SHM_LANE_H
#define LIBPAMI_DEVICE_SHM_LANE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/shm/inbox.h"
#include "device/shm/shuttle.h"

#define LANE_SLOTS 128u

/* Packets through the ring before a sender asks for a lane. */
#define LANE_AFTER 16u

struct lane {
    CACHE_ALIGNED _Atomic uint64_t head;  /* consumer: below this all slots are free */
    _Atomic uint32_t active;              /* consumer: it has read the marker */
    CACHE_ALIGNED _Atomic uint32_t owner; /* 0: free, else the sender's member index + 1 */
    _Atomic uint32_t leaving;             /* sender: nothing comes after what is there */
    uint32_t life;                        /* sender: of its context */
    CACHE_ALIGNED struct slot shuttle;    /* shuttle.h */
    CACHE_ALIGNED struct slot slots[LANE_SLOTS];
};

struct lane_sender {
    struct lane *lane; /* NULL: has none */
    uint64_t tail, head;
};

/* A slot to fill and publish, or NULL when the lane is full. */
static inline struct slot *lane_claim(struct lane_sender *sender)
{
    if (unlikely(sender->tail - sender->head >= LANE_SLOTS)) {
        sender->head = atomic_load_explicit(&sender->lane->head, memory_order_acquire); /* L4 */
        if (sender->tail - sender->head >= LANE_SLOTS)
            return NULL;
    }
    return &sender->lane->slots[sender->tail % LANE_SLOTS];
}

static inline void lane_publish(struct lane_sender *sender, struct slot *slot)
{
    atomic_store_explicit(&slot->word, ++sender->tail, memory_order_release); /* L1 */
}

/* Take the lane if it is free. */
static inline bool lane_take(struct lane_sender *sender, struct lane *lane, uint32_t member)
{
    uint32_t nobody = 0;

    if (!atomic_compare_exchange_strong_explicit(&lane->owner, &nobody, member + 1,
                                                 memory_order_acquire, /* L6 */
                                                 memory_order_relaxed))
        return false;
    sender->lane = lane;
    sender->head = sender->tail = atomic_load_explicit(&lane->head, memory_order_relaxed);
    return true;
}

/*
 * A stream of packets is read in two steps: first the words of up to LANE_AHEAD slots are looked
 * at, which brings their lines over side by side, then the packets are delivered. Delivering one by
 * one would wait for one line after the other, because a delivery is longer than what the processor
 * looks ahead by itself. In an exchange of single packets the look ahead would take the next slot
 * from a sender that owns it already, so it is made only while packets come in a stream: where two
 * looks in a row that do not follow a send have found one, or after a burst of sends, or where the
 * sender is the reader. For the same reason the sender asks for a slot's line LANE_PREFETCH packets
 * before it writes there.
 *
 * Measured 2026-11-21 (AMD EPYC, two-line ping-pong 249 ns) with 30 other stores per packet on both
 * sides: 70 ns a packet one by one, 46 with the look ahead, 24 with both. 2026-11-28, bursts of 64
 * with an advance between them: 46 ns a packet to oneself, 180 before, when one was read after each
 * burst; 58 instead of 160 where two tasks do that to each other.
 */
#define LANE_AHEAD 16u
#define LANE_PREFETCH 8u
#define LANE_BURST 32u

struct lane_reader {
    struct lane *lane;
    struct shuttle *shuttle; /* by which its sender's packets come as well, or NULL */
    uint32_t origin;         /* the endpoint, or UINT32_MAX: it sent to the context before */
    uint64_t head, published;
    bool hit;     /* the last look found something */
    bool own;     /* its sender is the context itself: no look takes a line from anybody */
    bool streams; /* look ahead */
    uint8_t lone; /* looks in a row that found one packet only while looking ahead */
};

static inline struct slot *lane_ready(const struct lane_reader *reader)
{
    struct slot *slot = &reader->lane->slots[reader->head % LANE_SLOTS];
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire); /* L2 */

    return word == reader->head + 1 ? slot : NULL;
}

/* How many packets from the head on are ready, up to LANE_AHEAD. */
static inline uint32_t lane_ready_ahead(const struct lane_reader *reader)
{
    uint32_t count = 0;

    while (count < LANE_AHEAD) {
        uint64_t index = reader->head + count;
        const struct slot *slot = &reader->lane->slots[index % LANE_SLOTS];

        if (atomic_load_explicit(&slot->word, memory_order_acquire) != index + 1) /* L2 */
            break;
        count++;
    }
    return count;
}

/* A look has found nothing. */
static inline void lane_was_empty(struct lane_reader *reader)
{
    reader->hit = false;
    reader->streams = reader->own;
}

/* A look: how many packets may be delivered now. The port has sent `sent` since its last advance:
 * after a few one packet is what one expects, after LANE_BURST as many. */
static inline uint32_t lane_look(struct lane_reader *reader, uint32_t sent)
{
    uint32_t count;

    if (!reader->streams && unlikely(sent >= LANE_BURST)) {
        reader->streams = true;
        reader->lone = 0;
    }
    count = reader->streams ? lane_ready_ahead(reader) : lane_ready(reader) != NULL;

    if (count == 0) {
        lane_was_empty(reader);
        return 0;
    }
    if (reader->streams) {
        reader->lone = count == 1 ? reader->lone + 1 : 0;
        if (reader->lone == 4)
            reader->streams = reader->own;
    } else if (reader->hit && sent == 0) {
        reader->streams = true;
        reader->lone = 0;
    }
    reader->hit = true;
    return count;
}

/* What may be delivered now, in this order. */
struct lane_found {
    uint32_t ready; /* packets of the lane */
    bool shuttles;  /* and then the one in the shuttle */
};

/* A look into both, in this order: see shuttle.h. */
static inline struct lane_found lane_find(struct lane_reader *reader, uint32_t sent)
{
    struct lane_found found = {lane_look(reader, sent), false};
    uint64_t after;

    if (reader->shuttle != NULL && shuttle_ready(reader->shuttle, &after) &&
        after - reader->head <= found.ready) {
        found.ready = (uint32_t)(after - reader->head);
        found.shuttles = true;
    }
    return found;
}

static inline bool lane_is_empty(const struct lane_reader *reader)
{
    uint64_t after;

    return lane_ready(reader) == NULL &&
           (reader->shuttle == NULL || !shuttle_ready(reader->shuttle, &after) ||
            after != reader->head);
}

static inline void lane_release(struct lane_reader *reader)
{
    if (reader->published == reader->head)
        return;
    reader->published = reader->head;
    atomic_store_explicit(&reader->lane->head, reader->head, memory_order_release); /* L3 */
}

/* Nothing has come: tell the sender of all the room there is. */
static inline void lane_rest(struct lane_reader *reader)
{
    lane_was_empty(reader);
    lane_release(reader);
}

static inline void lane_consume(struct lane_reader *reader)
{
    reader->head++;
    if (reader->head - reader->published >= LANE_SLOTS / 4)
        lane_release(reader);
}

/* The sender has gone and everything it sent has been read: let the next one have the lane. */
static inline void lane_give_back(struct lane_reader *reader)
{
    struct lane *lane = reader->lane;

    lane_release(reader);
    atomic_store_explicit(&lane->shuttle.word, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->leaving, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->active, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->owner, 0, memory_order_release); /* L5 */
}

#endif
