/*
 * Words for writing schedules: spans, local steps, messages, schedules made of others.
 *
 * Messages of no bytes are left out: both sides of a message know its size, so both leave it out,
 * and collectives on nothing cost nothing.
 */
#ifndef LIBPAMI_COLL_BUILD_H
#define LIBPAMI_COLL_BUILD_H

#include "coll/schedule.h"
#include "util/minmax.h"

/* (rank + distance) modulo size; distance < size */
static inline uint32_t rank_after(uint32_t rank, uint32_t distance, uint32_t size)
{
    return rank < size - distance ? rank + distance : rank - (size - distance);
}

static inline uint32_t rank_before(uint32_t rank, uint32_t distance, uint32_t size)
{
    return rank >= distance ? rank - distance : rank + (size - distance);
}

static inline struct span span_of(enum area area, uint32_t block, uint64_t offset, uint64_t bytes)
{
    return (struct span){.area = area, .block = block, .offset = offset, .bytes = bytes};
}

/* Part of the one block of a message. */
static inline struct span span_at(enum area area, uint64_t offset, uint64_t bytes)
{
    return span_of(area, 0, offset, bytes);
}

static inline struct local local_copy(struct span source, struct span target)
{
    return (struct local){source.bytes ? LOCAL_COPY : LOCAL_NONE, source, target};
}

static inline struct local local_combine(struct span source, struct span target)
{
    return (struct local){source.bytes ? LOCAL_COMBINE : LOCAL_NONE, source, target};
}

static inline void phase_send(struct phase *phase, uint32_t to, struct span span)
{
    if (span.bytes) {
        phase->to = to;
        phase->send = span;
    }
}

static inline void phase_receive(struct phase *phase, uint32_t from, struct span span)
{
    if (span.bytes) {
        phase->from = from;
        phase->recv = span;
    }
}

/*
 * Accumulates what has been received into what is there, in rank order. `scratch` says that the
 * operands may not be exchanged and the received ones are the higher ranks': the result arises
 * where they were received and is copied.
 */
static inline void phase_accumulate(struct phase *phase, struct span received, struct span target,
                                    bool scratch)
{
    if (scratch) {
        phase->after[0] = local_combine(target, received);
        phase->after[1] = local_copy(received, target);
    } else {
        phase->after[0] = local_combine(received, target);
    }
}

/* Phase `index` of a schedule that is part of a larger one and starts at its phase `base`. */
static inline void phase_part(const struct schedule_ops *ops, const struct shape *shape,
                              uint32_t base, uint32_t index, struct phase *phase)
{
    phase->send_needs = phase->recv_needs = index - base;
    ops->phase(shape, index - base, phase);
    phase->send_needs += base;
    phase->recv_needs += base;
}

/* Bytes of the blocks first .. first + count - 1. */
static inline uint64_t blocks_bytes(const uint64_t *sizes, uint64_t equal, uint32_t first,
                                    uint32_t count)
{
    uint64_t bytes = 0;

    if (!sizes)
        return equal * count;
    for (uint32_t i = 0; i < count; i++)
        bytes += sizes[first + i];
    return bytes;
}

/* Bytes of `count` blocks from `first` on, around the end of all: from shape.mark on, so all calls
 * of an algorithm have the same sizes and `first`. */
static inline uint64_t blocks_walk(const struct shape *shape, const uint64_t *sizes, uint32_t first,
                                   uint32_t count)
{
    struct shape_mark *mark = shape->mark;
    uint32_t blocks = 0;
    uint64_t sum = 0;

    if (!sizes)
        return shape->bytes * count;
    if (mark && mark->blocks / 2 <= count) {
        blocks = mark->blocks;
        sum = mark->sum;
    }
    while (blocks < count)
        sum += sizes[rank_after(first, blocks++, shape->size)];
    while (blocks > count)
        sum -= sizes[rank_after(first, --blocks, shape->size)];
    if (mark) {
        mark->blocks = blocks;
        mark->sum = sum;
    }
    return sum;
}

static inline uint64_t block_bytes(const uint64_t *sizes, uint64_t equal, uint32_t block)
{
    return sizes ? sizes[block] : equal;
}

#endif
