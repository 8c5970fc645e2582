/*
 * Broadcast of large messages: scatter pieces down a binomial tree, then all gather all pieces,
 * around a ring or by recursive doubling. Every member sends about twice the message instead of the
 * root log(n) times (van de Geijn).
 *
 * A node of the tree has got the pieces of its whole subtree, so nobody sends it those again.
 * Doubling works on the largest power of two of members; each one beyond gets the message whole.
 * Without temporary memory.
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/tree.h"

enum {
    STATE_CHILDREN,
    STATE_SPAN
};

/* The binomial tree over `pieces` nodes; with the ring as many as members. */
static struct tree binomial(uint32_t pieces)
{
    return (struct tree){TREE_KNOMIAL, 2, pieces};
}

static uint32_t node_of(const struct shape *shape)
{
    return rank_before(shape->rank, shape->root, shape->size);
}

static uint32_t rank_of(const struct shape *shape, uint32_t node)
{
    return rank_after(node, shape->root, shape->size);
}

static struct span pieces_span(const struct shape *shape, uint32_t pieces, uint32_t first,
                               uint32_t count)
{
    uint64_t start = piece_start(shape->bytes, shape->element, pieces, first);

    return span_at(AREA_RECV, start,
                   piece_start(shape->bytes, shape->element, pieces, first + count) - start);
}

static uint32_t scatter_phases(struct shape *shape, uint32_t pieces)
{
    struct tree tree = binomial(pieces);
    uint32_t node = node_of(shape);

    shape->temp_bytes = 0;
    if (node >= pieces)
        return 0;
    shape->state[STATE_CHILDREN] = tree_children(&tree, node);
    shape->state[STATE_SPAN] = tree_span(&tree, node);
    return (node != 0) + (uint32_t)shape->state[STATE_CHILDREN];
}

/* Receives from the parent first, then serves the children, the largest subtree first. */
static void scatter_phase(const struct shape *shape, uint32_t pieces, uint32_t index,
                          struct phase *phase)
{
    struct tree tree = binomial(pieces);
    uint32_t node = node_of(shape), child;

    if (node != 0 && index == 0) {
        phase_receive(phase, rank_of(shape, tree_parent(&tree, node)),
                      pieces_span(shape, pieces, node, (uint32_t)shape->state[STATE_SPAN]));
        return;
    }
    index -= node != 0;
    child = tree_child(&tree, node, (uint32_t)shape->state[STATE_CHILDREN] - 1 - index);
    phase_send(phase, rank_of(shape, child),
               pieces_span(shape, pieces, child, tree_span(&tree, child)));
    phase->send_needs = node != 0;
}

static uint32_t ring_prepare(struct shape *shape)
{
    if (shape->size == 1 || shape->bytes == 0)
        return 0;
    return scatter_phases(shape, shape->size) + shape->size - 1;
}

static void ring_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct tree tree = binomial(shape->size);
    uint32_t size = shape->size, node = node_of(shape), next = rank_after(node, 1, size);
    uint32_t base = (node != 0) + (uint32_t)shape->state[STATE_CHILDREN], piece;

    if (index < base) {
        scatter_phase(shape, size, index, phase);
        return;
    }
    index -= base;
    piece = rank_before(node, index, size);
    if (piece < next || piece - next >= tree_span(&tree, next))
        phase_send(phase, rank_of(shape, next), pieces_span(shape, size, piece, 1));
    piece = rank_before(piece, 1, size);
    if (piece < node || piece - node >= shape->state[STATE_SPAN])
        phase_receive(phase, rank_of(shape, rank_before(node, 1, size)),
                      pieces_span(shape, size, piece, 1));
    phase->recv_needs = 0; /* nobody else sends these pieces here */
}

const struct schedule_ops broadcast_scatter_ring = {ring_prepare, ring_phase};

static uint32_t doubling_prepare(struct shape *shape)
{
    uint32_t pieces = power_of_two(shape->size), node = node_of(shape);

    if (shape->size == 1 || shape->bytes == 0)
        return 0;
    if (node >= pieces) {
        shape->temp_bytes = 0;
        return 1;
    }
    return scatter_phases(shape, pieces) + exponent_of(pieces) + (node + pieces < shape->size);
}

static void doubling_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    uint32_t pieces = power_of_two(shape->size), node = node_of(shape), distance, peer;
    uint32_t base = (node != 0) + (uint32_t)shape->state[STATE_CHILDREN];

    if (node >= pieces) {
        phase_receive(phase, rank_of(shape, node - pieces), span_at(AREA_RECV, 0, shape->bytes));
        return;
    }
    if (index < base) {
        scatter_phase(shape, pieces, index, phase);
        return;
    }
    index -= base;
    if (index == exponent_of(pieces)) {
        phase_send(phase, rank_of(shape, node + pieces), span_at(AREA_RECV, 0, shape->bytes));
        return;
    }
    distance = UINT32_C(1) << index;
    peer = node ^ distance;
    /* Multiples of 2 * distance have got their peer's pieces from above. */
    if (peer % (2 * distance) != 0)
        phase_send(phase, rank_of(shape, peer),
                   pieces_span(shape, pieces, node / distance * distance, distance));
    if (node % (2 * distance) != 0)
        phase_receive(phase, rank_of(shape, peer),
                      pieces_span(shape, pieces, peer / distance * distance, distance));
}

const struct schedule_ops broadcast_scatter_doubling = {doubling_prepare, doubling_phase};
