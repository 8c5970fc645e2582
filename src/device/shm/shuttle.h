/*
 * Shuttle: one line in which two contexts that exchange short messages take turns.
 *
 * In a lane each packet moves its line twice: the sender takes it from the receiver, which has
 * looked at it, and the receiver fetches it again. An answer that is written where the question was
 * read finds its line there, so that it moves once. Only who has the turn writes, and whoever has
 * read a packet has it: that suits a question and its answer. Everything else goes by lane.
 *
 * The slot's word is the number of packets that the writer has sent by lane before, times two, and
 * a bit that tells who has written it: 1 the end that begins. So the order of packets is kept:
 *   - what was sent by lane before is delivered before; see lane_find;
 *   - what is sent by lane afterwards is found in the lane afterwards: who looks into the lane and
 *     then at the shuttle finds all that was sent before what it has found in the lane.
 *
 * It lies in the lane from the lower endpoint to the higher one, and the higher one begins. Both
 * use it from the moment they have a lane to the other and have read the marker of the other's, for
 * the lives of both contexts that the lanes were taken for. Who has a lane whose marker was read
 * will read the other marker before anything that comes by shuttle: so if one end uses it, the
 * other will.
 *
 * Memory order: S1 (release store of the word) pairs with S2 (acquire load by the other end).
 *
 * Measured 2026-11-24 (AMD EPYC, two-line ping-pong 295 ns), bare exchanges with 7 to 27 ns of work
 * and looks 3 to 20 ns apart: 240 to 300 ns by lane, 200 to 230 by shuttle; with lines of 65 ns
 * both take the same. Whole messages: 385 and 250 ns.
 */
#ifndef LIBPAMI_DEVICE_SHM_SHUTTLE_H
#define LIBPAMI_DEVICE_SHM_SHUTTLE_H

#include "device/shm/inbox.h"

/* Longer bodies need a second line, which can only be asked for when the first is there. */
#define SHUTTLE_BODY (CACHE_LINE - 8u - (uint32_t)sizeof(struct packet_header))

/* One end. All 0: there is none, it is never our turn. */
struct shuttle {
    struct slot *slot;
    uint64_t mark; /* of what we write */
    uint64_t sent; /* by lane, when the last packet came */
    bool mine;     /* our turn */
    bool answers;  /* ... and the next packet is likely to be the only one before one comes */
};

static inline void shuttle_open(struct shuttle *shuttle, struct slot *slot, bool begins)
{
    *shuttle = (struct shuttle){.slot = slot, .mark = begins, .mine = begins};
}

/* `sent`: packets by lane so far. The slot has been filled. */
static inline void shuttle_publish(struct shuttle *shuttle, uint64_t sent)
{
    shuttle->mine = shuttle->answers = false;
    atomic_store_explicit(&shuttle->slot->word, sent << 1 | shuttle->mark,
                          memory_order_release); /* S1 */
}

/* Is a packet there? *after: when so many have been read from the lane it is next. */
static inline bool shuttle_ready(const struct shuttle *shuttle, uint64_t *after)
{
    uint64_t word;

    if (shuttle->mine || shuttle->slot == NULL)
        return false;
    word = atomic_load_explicit(&shuttle->slot->word, memory_order_acquire); /* S2 */
    *after = word >> 1;
    return (word & 1) != shuttle->mark;
}

/*
 * So many packets have come at once, by lane or shuttle. In a stream a shuttle is no use: the
 * sender's stores would wait for its line.
 */
static inline void shuttle_heard(struct shuttle *shuttle, uint32_t count, uint64_t sent)
{
    shuttle->answers = shuttle->mine && count == 1 && sent - shuttle->sent <= 1;
    shuttle->sent = sent;
}

/* The packet that has just been read has not been taken. */
static inline void shuttle_put_back(struct shuttle *shuttle)
{
    shuttle->mine = shuttle->answers = false;
}

#endif
