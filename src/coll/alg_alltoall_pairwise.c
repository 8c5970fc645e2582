/*
 * Alltoall block by block, for all shapes.
 *
 * Pairwise: in step k everybody exchanges blocks with one partner: rank xor k for powers of two,
 * else the one for which the ranks' sum is k modulo n. Spread: everybody sends to the k-th after it
 * and receives from the k-th before it, as many at once as the window allows.
 *
 * Sparse: as spread, but only with those for whom, or from whom, there is something.
 *
 * In place, pairwise exchanges equal blocks through SLOTS temporary ones. Otherwise what arrives
 * may lie where something has not been sent yet, so the source is copied as a whole before.
 * Temporary memory: none; in place SLOTS blocks, or the whole source.
 */
#include "coll/algorithm.h"
#include "coll/build.h"

#define SLOTS 16u

/* state[0]: phases that copy the source */
static void copy_first(struct shape *shape)
{
    shape->temp_bytes = blocks_bytes(shape->send_bytes, shape->bytes, 0, shape->size);
    shape->state[0] = shape->dense ? 1 : (shape->size - 1) / PHASE_LOCALS + 1;
}

static uint32_t pairwise_prepare(struct shape *shape)
{
    shape->state[0] = 0;
    shape->temp_bytes = 0;
    if (shape->in_place && shape->send_bytes)
        copy_first(shape);
    else if (shape->in_place)
        shape->temp_bytes = smaller(SLOTS, shape->size) * shape->bytes;
    return (uint32_t)shape->state[0] + shape->size;
}

static uint32_t spread_prepare(struct shape *shape)
{
    shape->state[0] = 0;
    shape->temp_bytes = 0;
    if (shape->in_place)
        copy_first(shape);
    return (uint32_t)shape->state[0] + shape->size;
}

static struct span source_of(const struct shape *shape, uint32_t block)
{
    return span_of(AREA_SEND, block, 0, block_bytes(shape->send_bytes, shape->bytes, block));
}

static struct span target_of(const struct shape *shape, uint32_t block)
{
    return span_of(AREA_RECV, block, 0, block_bytes(shape->recv_bytes, shape->bytes, block));
}

static struct span copied(const struct shape *shape, uint32_t block)
{
    return span_at(AREA_TEMP, blocks_walk(shape, shape->send_bytes, 0, block),
                   block_bytes(shape->send_bytes, shape->bytes, block));
}

static uint32_t partner_of(const struct shape *shape, uint32_t step)
{
    if ((shape->size & (shape->size - 1)) == 0)
        return shape->rank ^ step;
    return rank_before(step, shape->rank, shape->size);
}

/* Blocks with `to` and `from`; with oneself the block is copied. */
static void block_phase(const struct shape *shape, uint32_t to, uint32_t from, struct phase *phase)
{
    struct span source = shape->state[0] ? copied(shape, to) : source_of(shape, to);

    if (to != shape->rank)
        phase_send(phase, to, source);
    else if (!shape->in_place || shape->state[0])
        phase->after[0] = local_copy(source, target_of(shape, to));
    if (from != shape->rank)
        phase_receive(phase, from, target_of(shape, from));
}

static void copy_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct span all = span_at(AREA_SEND, 0, shape->temp_bytes);

    if (shape->dense) {
        phase->after[0] = local_copy(all, span_at(AREA_TEMP, 0, shape->temp_bytes));
        return;
    }
    index *= PHASE_LOCALS;
    for (uint32_t i = 0; i < PHASE_LOCALS && index + i < shape->size; i++)
        phase->after[i] = local_copy(source_of(shape, index + i), copied(shape, index + i));
}

/* In place, equal blocks. */
static void slot_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    uint32_t slots = (uint32_t)smaller(SLOTS, shape->size), peer = partner_of(shape, index);

    phase->send_needs = 0;
    phase->recv_needs = index < slots ? 0 : index - slots + 1;
    if (peer == shape->rank)
        return;
    phase_send(phase, peer, source_of(shape, peer));
    phase_receive(phase, peer, span_at(AREA_TEMP, index % slots * shape->bytes, shape->bytes));
    phase->after[0] = local_copy(phase->recv, target_of(shape, peer));
}

static void pairwise_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    uint32_t base = (uint32_t)shape->state[0];
    uint32_t partner;

    if (index < base) {
        copy_phase(shape, index, phase);
    } else if (shape->in_place && base == 0) {
        slot_phase(shape, index, phase);
    } else {
        partner = partner_of(shape, index - base);
        block_phase(shape, partner, partner, phase);
        phase->recv_needs = base;
    }
}

static void spread_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    uint32_t base = (uint32_t)shape->state[0];

    if (index < base) {
        copy_phase(shape, index, phase);
        return;
    }
    block_phase(shape, rank_after(shape->rank, index - base, shape->size),
                rank_before(shape->rank, index - base, shape->size), phase);
    phase->recv_needs = phase->send_needs = base;
}

/* Is there something for the k-th after this member, or from the k-th before it? Everybody takes
 * these in the order of k, so none waits for one that waits for it, whatever the window. */
static bool sparse_has(const struct shape *shape, uint32_t k)
{
    uint32_t to = rank_after(shape->rank, k, shape->size);
    uint32_t from = rank_before(shape->rank, k, shape->size);

    return block_bytes(shape->send_bytes, shape->bytes, to) != 0 ||
           block_bytes(shape->recv_bytes, shape->bytes, from) != 0;
}

static uint32_t sparse_prepare(struct shape *shape)
{
    uint32_t phases = spread_prepare(shape) - shape->size + 1;

    for (uint32_t k = 1; k < shape->size; k++)
        phases += sparse_has(shape, k);
    return phases;
}

/* The `count`-th k that has something; the size of the group: there are fewer. */
static uint32_t sparse_find(const struct shape *shape, uint32_t count)
{
    struct shape_mark *mark = shape->mark;
    uint32_t found = 0, k = 0;

    if (mark && mark->found <= count) {
        found = mark->found;
        k = mark->at;
    }
    while (found < count && k < shape->size)
        found += ++k < shape->size && sparse_has(shape, k);
    if (mark && k < shape->size) {
        mark->found = found;
        mark->at = k;
    }
    return k;
}

/* The own block first, then the others; there may be fewer by now, where a composition has taken
 * sizes back. */
static void sparse_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    uint32_t base = (uint32_t)shape->state[0];
    uint32_t k = index > base ? sparse_find(shape, index - base) : 0;

    if (k < shape->size)
        spread_phase(shape, index <= base ? index : base + k, phase);
}

const struct schedule_ops alltoall_pairwise = {pairwise_prepare, pairwise_phase};
const struct schedule_ops alltoall_spread = {spread_prepare, spread_phase};
const struct schedule_ops alltoall_sparse = {sparse_prepare, sparse_phase};
