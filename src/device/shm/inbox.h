/*
 * Inbox: the one bounded ring that all senders of a host write a context's packets into.
 *
 * Contract
 *   inbox_claim, inbox_publish  any number of senders in any number of processes; lock-free
 *   inbox_ready, inbox_consume  one consumer, the context's owner; wait-free
 *
 * Every slot has a 64-bit word: the index of the packet it holds (counting from 1), and who is
 * writing it:
 *     FREE    the word of the previous lap (0 in the first), and the consumer's head is past it
 *     CLAIMED index << 16 | sender + 1
 *     READY   index << 16
 * A sender claims slot `tail` by compare-and-exchange from the previous lap's word. Claims are made
 * in order without gaps, because nobody tries a slot before it has seen the one before it claimed.
 * The consumer never writes to a slot: it publishes its head now and then, and senders read that
 * only when their copy says the ring is full. So a slot's lines move once to the consumer and once
 * back per packet, and a claimed slot names its writer: if that one dies half-way, the consumer
 * can step over it.
 *
 * Memory order: I1 (release store of READY) pairs with I2 (acquire load by the consumer): who sees
 * READY sees the packet. I3 (release store of head) pairs with I4 (acquire load by a sender): who
 * sees the head may overwrite the slots below it. I5 (release store of tail) pairs with I6 (acquire
 * load by a sender): who begins at a hint has seen that all below it is claimed, and so has whoever
 * learns by other means what that sender has done: no claim has a gap before it, see watch.c.
 *
 * Words are 48 bits of index: 2^48 packets into one inbox, ten years at a million a second.
 */
#ifndef LIBPAMI_DEVICE_SHM_INBOX_H
#define LIBPAMI_DEVICE_SHM_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/packet.h"
#include "util/cpu.h"

#define SLOT_BYTES 128u
#define SLOT_INLINE (SLOT_BYTES - 8u - (uint32_t)sizeof(struct packet_header))

struct slot {
    _Atomic uint64_t word;
    struct packet_header head;
    union {
        char body[SLOT_INLINE];
        struct {
            uint64_t chunk; /* of a larger body: where its chunk is in the segment ... */
            uint32_t use;   /* ... and which use of the chunk this is */
        };
    };
} __attribute__((aligned(CACHE_LINE)));

_Static_assert(sizeof(struct slot) == SLOT_BYTES, "slots are two lines");

struct inbox {
    CACHE_ALIGNED _Atomic uint64_t head;     /* consumer: below this all slots are free */
    uint64_t stale;                          /* consumer: below this all is for earlier lives */
    uint32_t chunks;                         /* consumer: so many of its own were ever used */
    CACHE_ALIGNED _Atomic uint64_t tail;     /* senders: a hint, never above what is claimed */
    CACHE_ALIGNED _Atomic uint32_t sleeping; /* futex: the consumer wants to be woken */
    _Atomic uint32_t closed;                 /* there is no context, and was or will be none */
    _Atomic uint32_t lives;                  /* contexts destroyed here; see life.c */
    CACHE_ALIGNED struct slot slots[];
};

static inline uint64_t inbox_word(uint64_t index)
{
    return (index + 1) << 16;
}

/* The word a slot has when packet `index` may claim it. */
static inline uint64_t inbox_word_before(uint64_t index, uint32_t slots)
{
    return index < slots ? 0 : inbox_word(index - slots);
}

/* What a sender remembers of an inbox between two packets. */
struct inbox_sender {
    struct inbox *inbox;
    uint64_t tail; /* where the next claim is tried */
    uint64_t head; /* the consumer was at least here */
    uint32_t slots;
    uint32_t self; /* this sender, for the claim */
};

/* Slow part of inbox_claim: the first try met a stale tail or a full ring. NULL: full. */
struct slot *inbox_claim_slow(struct inbox_sender *sender);

/* A slot to fill and publish, or NULL when the ring is full. */
static inline struct slot *inbox_claim(struct inbox_sender *sender)
{
    uint64_t tail = sender->tail;
    uint32_t slots = sender->slots;

    if (likely(tail - sender->head < slots)) {
        struct slot *slot = &sender->inbox->slots[tail & (slots - 1)];
        uint64_t before = inbox_word_before(tail, slots);

        if (likely(atomic_compare_exchange_strong_explicit(
                &slot->word, &before, inbox_word(tail) | (sender->self + 1), memory_order_relaxed,
                memory_order_relaxed)))
            return slot;
    }
    return inbox_claim_slow(sender);
}

/* The index after what has been claimed. For the consumer, who has published its head. */
uint64_t inbox_end(const struct inbox *inbox, uint32_t slots);

/* Hand the slot last claimed to the consumer. */
static inline void inbox_publish(struct inbox_sender *sender, struct slot *slot)
{
    uint64_t tail = sender->tail++;

    atomic_store_explicit(&slot->word, inbox_word(tail), memory_order_release);  /* I1 */
    atomic_store_explicit(&sender->inbox->tail, tail + 1, memory_order_release); /* I5 */
}

/* The consumer's side. */
struct inbox_reader {
    struct inbox *inbox;
    uint64_t head;      /* next packet */
    uint64_t published; /* head as the senders see it */
    uint32_t slots;
};

static inline bool inbox_is_ready(const struct inbox_reader *reader, uint64_t index)
{
    const struct slot *slot = &reader->inbox->slots[index & (reader->slots - 1)];

    return atomic_load_explicit(&slot->word, memory_order_acquire) == inbox_word(index); /* I2 */
}

/* Where the next packet is, or comes. */
static inline struct slot *inbox_head(const struct inbox_reader *reader)
{
    return &reader->inbox->slots[reader->head & (reader->slots - 1)];
}

/* The next packet's slot, or NULL. */
static inline struct slot *inbox_ready(const struct inbox_reader *reader)
{
    return inbox_is_ready(reader, reader->head) ? inbox_head(reader) : NULL;
}

/* How many packets from the head on are ready, up to `most`. */
static inline uint32_t inbox_ready_ahead(const struct inbox_reader *reader, uint32_t most)
{
    uint32_t count = 0;

    while (count < most && inbox_is_ready(reader, reader->head + count))
        count++;
    return count;
}

static inline void inbox_release(struct inbox_reader *reader)
{
    if (reader->published == reader->head)
        return;
    reader->published = reader->head;
    atomic_store_explicit(&reader->inbox->head, reader->head, memory_order_release); /* I3 */
}

/* The packet that inbox_ready gave is done with. Tells the senders every quarter of a lap. */
static inline void inbox_consume(struct inbox_reader *reader)
{
    reader->head++;
    if (reader->head - reader->published >= reader->slots / 4)
        inbox_release(reader);
}

/* The index of the sender that holds up the next slot by a claim it has not published; -1: none. */
static inline int64_t inbox_stuck(const struct inbox_reader *reader)
{
    uint64_t word = atomic_load_explicit(&inbox_head(reader)->word, memory_order_relaxed);

    if ((word & ~UINT64_C(0xffff)) != inbox_word(reader->head) || (word & 0xffff) == 0)
        return -1;
    return (int64_t)(word & 0xffff) - 1;
}

/* Step over a claim whose sender is dead. */
static inline void inbox_skip(struct inbox_reader *reader)
{
    atomic_store_explicit(&inbox_head(reader)->word, inbox_word(reader->head),
                          memory_order_relaxed);
    inbox_consume(reader);
}

#endif
