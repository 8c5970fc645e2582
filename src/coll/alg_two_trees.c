/*
 * Broadcast and reduce of large messages by two trees at once: all but the root are in both, and
 * have children in one of them at most (twins, tree.h). Segments go by the trees in turn, so nobody
 * sends or combines more than the message once, and the last member is 2 log(n) segments behind
 * instead of n (Sanders, Speck, Traeff: Two-tree algorithms for full bandwidth broadcast, reduction
 * and scan, 2009).
 *
 * A phase is a step of both trees: what is sent in it is received in the same step, so who waits
 * for somebody waits for an earlier step. A reduce has the steps of a broadcast in opposite order.
 *
 * Temporary memory: a broadcast none; a reduce SLOTS segments for each child of who sends on, and
 * of a root in place.
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/tree.h"

#define EDGES 2u
/* Of a child, at least TWINS_LAG / 2 + 1: a segment lies in one until it has been sent on. */
#define SLOTS 4u

/* A link of a tree: its segments go over it in steps first, first + 2, ... */
struct edge {
    uint32_t peer; /* rank */
    uint32_t twin, first;
};

struct plan {
    struct segments segments;
    struct tree tree;
    bool reduce;
    struct edge up[EDGES], down[EDGES]; /* down: of one twin, but the root has one of each */
    uint32_t ups, downs;
    uint32_t begin, end; /* steps in which this member may have something to do */
};

static struct edge edge_of(const struct shape *shape, struct plan *plan, uint32_t twin,
                           uint32_t child, uint32_t peer)
{
    uint32_t first = twins_step(&plan->tree, twin, child), last;

    if (plan->reduce)
        first = twins_latest(&plan->tree) - first;
    last = first + (plan->segments.count - 1 - twin) / 2 * 2;
    plan->begin = (uint32_t)smaller(plan->begin, first);
    plan->end = (uint32_t)larger(plan->end, last + 1);
    if (peer == NOBODY)
        return (struct edge){shape->root, twin, first};
    peer = twins_node(&plan->tree, twin, peer) + 1;
    return (struct edge){rank_after(peer, shape->root, shape->size), twin, first};
}

static struct plan plan_of(const struct shape *shape, bool reduce)
{
    struct plan plan = {.segments = segments_of(shape, shape->bytes),
                        .tree = {TREE_KARY, 2, shape->size - 1},
                        .reduce = reduce,
                        .begin = UINT32_MAX};
    uint32_t place = rank_before(shape->rank, shape->root, shape->size), node, children;

    for (uint32_t twin = 0; twin < smaller(2, plan.segments.count); twin++) {
        if (place == 0) {
            plan.down[plan.downs++] = edge_of(shape, &plan, twin, 0, 0);
            continue;
        }
        node = twins_node(&plan.tree, twin, place - 1);
        plan.up[plan.ups++] = edge_of(shape, &plan, twin, node, tree_parent(&plan.tree, node));
        children = tree_children(&plan.tree, node);
        for (uint32_t i = 0; i < children; i++) {
            uint32_t child = tree_child(&plan.tree, node, i);

            plan.down[plan.downs++] = edge_of(shape, &plan, twin, child, child);
        }
    }
    return plan;
}

/* What goes over the edge in this step; no bytes: nothing. */
static struct span span_in_step(const struct plan *plan, const struct edge *edge, uint32_t step,
                                enum area area)
{
    uint32_t segment = step - edge->first + edge->twin;

    if (step < edge->first || (step - edge->first) % 2 != 0 || segment >= plan->segments.count)
        return span_at(area, 0, 0);
    return span_at(area, segment_start(&plan->segments, segment),
                   segment_bytes(&plan->segments, segment));
}

/* ---- broadcast ---- */

static uint32_t broadcast_prepare(struct shape *shape)
{
    struct plan plan;

    shape->temp_bytes = 0;
    if (shape->bytes == 0 || shape->size == 1)
        return 0;
    plan = plan_of(shape, false);
    return plan.end - plan.begin;
}

static void broadcast_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct plan plan = plan_of(shape, false);
    uint32_t step = plan.begin + index;

    phase->send_needs = phase->recv_needs = 0;
    for (uint32_t i = 0; i < plan.ups; i++)
        phase_receive(phase, plan.up[i].peer, span_in_step(&plan, &plan.up[i], step, AREA_RECV));
    for (uint32_t i = 0; i < plan.downs; i++) {
        const struct edge *down = &plan.down[i];

        phase_send(phase, down->peer, span_in_step(&plan, down, step, AREA_RECV));
        /* The segment came as many steps before as the first one of this edge. */
        if (phase->to == down->peer && plan.ups != 0)
            phase->send_needs = plan.up[down->twin].first + (step - down->first) - plan.begin + 1;
    }
}

const struct schedule_ops broadcast_two_trees = {broadcast_prepare, broadcast_phase};

/* ---- reduce ---- */

static uint32_t reduce_prepare(struct shape *shape)
{
    struct plan plan;

    shape->temp_bytes = 0;
    if (shape->bytes == 0)
        return 0;
    if (shape->size == 1)
        return !shape->in_place;
    plan = plan_of(shape, true);
    if (plan.ups != 0 || shape->in_place)
        shape->temp_bytes = plan.downs * SLOTS * plan.segments.bytes;
    return plan.end - plan.begin;
}

/* Of a child's segments of its twin, the `turn`-th. */
static struct span slot_span(const struct plan *plan, uint32_t child, uint32_t turn, uint64_t bytes)
{
    return span_at(AREA_TEMP, (child * SLOTS + turn % SLOTS) * plan->segments.bytes, bytes);
}

/* From a child: into a slot until what all have brought is combined and sent on, or by the root
 * where the result belongs. */
static void receive_phase(const struct shape *shape, const struct plan *plan, uint32_t child,
                          uint32_t step, struct phase *phase)
{
    const struct edge *down = &plan->down[child];
    const struct edge *last = plan->ups != 0 ? &plan->up[down->twin] : down; /* use of a slot */
    struct span own = span_in_step(plan, down, step, AREA_SEND), result = own, slot;
    uint32_t turn = (step - down->first) / 2;

    if (own.bytes == 0)
        return;
    result.area = AREA_RECV;
    slot = slot_span(plan, child, turn, own.bytes);
    if (plan->ups == 0 && !shape->in_place) {
        phase_receive(phase, down->peer, result);
        phase->after[0] = local_combine(own, result);
        return;
    }
    phase_receive(phase, down->peer, slot);
    if (turn >= SLOTS)
        phase->recv_needs = last->first + 2 * (turn - SLOTS) - plan->begin + 1;
    if (plan->ups == 0)
        phase->after[0] = local_combine(slot, result);
}

static void send_phase(const struct plan *plan, const struct edge *up, uint32_t step,
                       struct phase *phase)
{
    struct span sent = span_in_step(plan, up, step, AREA_SEND), slot;
    uint32_t children = plan->downs != 0 && plan->down[0].twin == up->twin ? plan->downs : 0;

    if (sent.bytes == 0)
        return;
    for (uint32_t i = 0; i < children; i++) {
        uint32_t came = plan->down[i].first + (step - up->first) - plan->begin;

        slot = slot_span(plan, i, (step - up->first) / 2, sent.bytes);
        phase->before[i] = local_combine(sent, slot);
        phase->send_needs = (uint32_t)larger(phase->send_needs, came + 1);
        sent = slot;
    }
    phase_send(phase, up->peer, sent);
}

static void reduce_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct plan plan;

    if (shape->size == 1) {
        phase->after[0] =
            local_copy(span_at(AREA_SEND, 0, shape->bytes), span_at(AREA_RECV, 0, shape->bytes));
        return;
    }
    plan = plan_of(shape, true);
    phase->send_needs = phase->recv_needs = 0;
    for (uint32_t i = 0; i < plan.downs; i++)
        receive_phase(shape, &plan, i, plan.begin + index, phase);
    for (uint32_t i = 0; i < plan.ups; i++)
        send_phase(&plan, &plan.up[i], plan.begin + index, phase);
}

const struct schedule_ops reduce_two_trees = {reduce_prepare, reduce_phase};
