/*
 * Allreduce around a ring, for large messages and operators that commute: piece c travels from
 * member c once around and collects operands, then once more to be told. Each member sends twice
 * the message, whatever their number, to its one neighbour.
 *
 * Pieces are cut into sub-pieces that follow one another independently, so that one is combined
 * while the next one travels. Step g sends piece rank - g, what step g - 1 has brought.
 *
 * Not in place, operands are received right into the destination and combined with the source.
 * Temporary memory: none; in place SLOTS sub-pieces.
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/tree.h"

#define SLOTS 4u
#define SUBS_MAX 64u

enum {
    STATE_SUBS,
    STATE_SUB_BYTES
};

static uint32_t ring_prepare(struct shape *shape)
{
    uint64_t largest = piece_start(shape->bytes, shape->element, shape->size, 1), bytes;
    uint64_t element = larger(shape->element, 1);
    struct segments segments = segments_of(shape, largest);

    shape->temp_bytes = 0;
    if (shape->size == 1 || shape->bytes == 0)
        return shape->bytes && !shape->in_place;
    bytes = larger(segments.bytes, (largest / element + SUBS_MAX - 1) / SUBS_MAX * element);
    shape->state[STATE_SUB_BYTES] = bytes;
    shape->state[STATE_SUBS] = (largest - 1) / bytes + 1;
    if (shape->in_place)
        shape->temp_bytes = SLOTS * bytes;
    return 2 * (shape->size - 1) * (uint32_t)shape->state[STATE_SUBS];
}

static struct span sub_span(const struct shape *shape, enum area area, uint32_t piece, uint32_t sub)
{
    uint64_t start = piece_start(shape->bytes, shape->element, shape->size, piece);
    uint64_t end = piece_start(shape->bytes, shape->element, shape->size, piece + 1);
    uint64_t bytes = shape->state[STATE_SUB_BYTES];

    start = smaller(start + sub * bytes, end);
    return span_at(area, start, smaller(bytes, end - start));
}

static void ring_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    uint32_t subs = (uint32_t)shape->state[STATE_SUBS], size = shape->size, step, sub, piece;
    uint32_t slots;
    struct span target, received;

    if (size == 1) {
        phase->after[0] =
            local_copy(span_at(AREA_SEND, 0, shape->bytes), span_at(AREA_RECV, 0, shape->bytes));
        return;
    }
    step = index / subs;
    sub = index % subs;
    piece = rank_before(shape->rank, step % size, size);
    phase_send(phase, rank_after(shape->rank, 1, size),
               sub_span(shape, step == 0 ? AREA_SEND : AREA_RECV, piece, sub));
    phase->send_needs = step == 0 ? 0 : index - subs + 1;
    target = received = sub_span(shape, AREA_RECV, rank_before(piece, 1, size), sub);
    slots = (uint32_t)smaller(SLOTS, (uint64_t)(size - 1) * subs);
    if (step < size - 1 && shape->in_place) {
        received.area = AREA_TEMP;
        received.offset = index % slots * shape->state[STATE_SUB_BYTES];
        phase->after[0] = local_combine(received, target);
    } else if (step < size - 1) {
        phase->after[0] =
            local_combine(sub_span(shape, AREA_SEND, rank_before(piece, 1, size), sub), target);
    }
    phase_receive(phase, rank_before(shape->rank, 1, size), received);
    /* What is overwritten the second time was sent size - 1 steps ago. */
    if (shape->in_place)
        phase->recv_needs = index < slots ? 0 : index - slots + 1;
    else
        phase->recv_needs = step < size ? 0 : index - (size - 1) * subs + 1;
}

const struct schedule_ops allreduce_ring = {ring_prepare, ring_phase};
