/*
 * Flat gather and scatter, blocks may differ: the root exchanges each member's block with it, in
 * any layout and without temporary memory, as many at once as the window allows.
 *
 * Off the root a member knows the size of its own block only: own_bytes where blocks differ (then
 * shape.bytes is 0), else shape.bytes.
 */
#include "coll/algorithm.h"
#include "coll/build.h"

static uint32_t flat_prepare(struct shape *shape)
{
    shape->temp_bytes = 0;
    return shape->rank == shape->root ? shape->size : 1;
}

static uint64_t own_bytes(const struct shape *shape)
{
    return larger(shape->bytes, shape->own_bytes);
}

/* At the root the own block waits for nobody, nor does anybody for a long one: aside.h. */
static void gather_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    uint32_t from;
    struct span block;

    if (shape->rank != shape->root) {
        phase_send(phase, shape->root, span_at(AREA_SEND, 0, own_bytes(shape)));
        return;
    }
    from = index + 1 < shape->size ? rank_after(shape->root, index + 1, shape->size) : shape->root;
    block = span_of(AREA_RECV, from, 0, block_bytes(shape->recv_bytes, shape->bytes, from));
    if (from != shape->root)
        phase_receive(phase, from, block);
    else if (!shape->in_place)
        phase->before[0] = local_copy(span_at(AREA_SEND, 0, block.bytes), block);
    phase->recv_needs = phase->send_needs = 0;
}

static void scatter_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    uint32_t to;
    struct span block;

    if (shape->rank != shape->root) {
        phase_receive(phase, shape->root, span_at(AREA_RECV, 0, own_bytes(shape)));
        return;
    }
    to = index + 1 < shape->size ? rank_after(shape->root, index + 1, shape->size) : shape->root;
    block = span_of(AREA_SEND, to, 0, block_bytes(shape->send_bytes, shape->bytes, to));
    if (to != shape->root)
        phase_send(phase, to, block);
    else if (!shape->in_place)
        phase->before[0] = local_copy(block, span_at(AREA_RECV, 0, block.bytes));
    phase->send_needs = 0;
}

const struct schedule_ops gather_flat = {flat_prepare, gather_phase};
const struct schedule_ops scatter_flat = {flat_prepare, scatter_phase};
