/*
 * Scans: what the ranks up to oneself have, or (exclusive) those before.
 *
 * Doubling: in step k a member sends what it has combined to the one 2^k after it. Linear: the
 * message goes from rank to rank, in segments. Operands come from lower ranks only and are combined
 * in rank order.
 *
 * Temporary memory: doubling 3 messages; linear one message when exclusive, and SLOTS segments.
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/tree.h"

#define SLOTS 4u

/* An exclusive scan needs the sum with the own operand too, to pass it on: in temporary memory. */
static struct span sum_at(const struct shape *shape, uint64_t offset, uint64_t bytes)
{
    return span_at(shape->exclusive ? AREA_TEMP : AREA_RECV, offset, bytes);
}

/* Phase 0 of both, unless the operand is there already. */
static bool copies(const struct shape *shape)
{
    return shape->exclusive ? shape->size > 1 : !shape->in_place;
}

static uint32_t doubling_prepare(struct shape *shape)
{
    uint32_t steps = 0;

    shape->temp_bytes = shape->size > 1 ? (2 + shape->exclusive) * shape->bytes : 0;
    if (shape->bytes == 0)
        return 0;
    while (steps < 32 && (UINT64_C(1) << steps) < shape->size)
        steps++;
    return copies(shape) + steps;
}

static void doubling_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct span sum = sum_at(shape, 0, shape->bytes), result = span_at(AREA_RECV, 0, shape->bytes);
    struct span received;
    uint32_t first = copies(shape), distance;

    if (index < first) {
        phase->after[0] = local_copy(span_at(AREA_SEND, 0, shape->bytes), sum);
        return;
    }
    distance = UINT32_C(1) << (index - first);
    if (shape->size - shape->rank > distance)
        phase_send(phase, shape->rank + distance, sum);
    if (shape->rank < distance)
        return;
    received = span_at(AREA_TEMP, (shape->exclusive + (index & 1)) * shape->bytes, shape->bytes);
    if (shape->exclusive && index == first)
        received = result;
    else if (index > 0)
        phase->recv_needs = index - 1;
    phase_receive(phase, shape->rank - distance, received);
    phase->after[0] = local_combine(received, sum);
    if (shape->exclusive && index != first)
        phase->after[1] = local_combine(received, result);
}

const struct schedule_ops scan_doubling = {doubling_prepare, doubling_phase};

static uint32_t linear_prepare(struct shape *shape)
{
    struct segments segments = segments_of(shape, shape->bytes);

    shape->temp_bytes = 0;
    if (shape->bytes == 0)
        return 0;
    if (shape->size > 1)
        shape->temp_bytes = shape->exclusive ? shape->bytes : SLOTS * segments.bytes;
    return copies(shape) + (shape->size > 1 ? segments.count + 1 : 0);
}

/* Phase i receives segment i and sends segment i - 1. */
static void linear_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct segments segments = segments_of(shape, shape->bytes);
    uint32_t first = copies(shape), segment;
    uint64_t start, bytes;
    struct span received;

    if (index < first) {
        phase->after[0] =
            local_copy(span_at(AREA_SEND, 0, shape->bytes), sum_at(shape, 0, shape->bytes));
        return;
    }
    segment = index - first;
    if (segment > 0 && shape->rank + 1 < shape->size)
        phase_send(phase, shape->rank + 1,
                   sum_at(shape, segment_start(&segments, segment - 1),
                          segment_bytes(&segments, segment - 1)));
    if (segment == segments.count || shape->rank == 0)
        return;
    start = segment_start(&segments, segment);
    bytes = segment_bytes(&segments, segment);
    received = shape->exclusive ? span_at(AREA_RECV, start, bytes)
                                : span_at(AREA_TEMP, segment % SLOTS * segments.bytes, bytes);
    phase_receive(phase, shape->rank - 1, received);
    phase->recv_needs = shape->exclusive || segment < SLOTS ? first : index - SLOTS + 1;
    if (!shape->exclusive || shape->rank + 1 < shape->size)
        phase->after[0] = local_combine(received, sum_at(shape, start, bytes));
}

const struct schedule_ops scan_linear = {linear_prepare, linear_phase};
