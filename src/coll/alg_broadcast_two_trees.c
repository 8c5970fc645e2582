/*
 * Broadcast of large messages down two trees at once: all but the root are in both, and have
 * children in one of them at most (twins, tree.h). Segments go down the trees in turn, so nobody
 * sends more than the message once, and the last member is 2 log(n) segments behind instead of n
 * (Sanders, Speck, Traeff: Two-tree algorithms for full bandwidth broadcast, reduction and scan,
 * 2009).
 *
 * A phase is a step of both trees: what is sent in it is received in the same step, so who waits
 * for somebody waits for an earlier step. Without temporary memory.
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/tree.h"

#define EDGES 2u

/* A link of a tree: its segments go over it in steps first, first + 2, ... */
struct edge {
    uint32_t peer; /* rank */
    uint32_t twin, first;
};

struct plan {
    struct segments segments;
    struct tree tree;
    struct edge in[EDGES], out[EDGES];
    uint32_t ins, outs;
    uint32_t begin, end; /* steps in which this member may have something to do */
};

static struct edge edge_of(const struct shape *shape, struct plan *plan, uint32_t twin,
                           uint32_t child, uint32_t peer)
{
    uint32_t first = twins_step(&plan->tree, twin, child);
    uint32_t last = first + (plan->segments.count - 1 - twin) / 2 * 2;

    plan->begin = (uint32_t)smaller(plan->begin, first);
    plan->end = (uint32_t)larger(plan->end, last + 1);
    if (peer == NOBODY)
        return (struct edge){shape->root, twin, first};
    peer = twins_node(&plan->tree, twin, peer) + 1;
    return (struct edge){rank_after(peer, shape->root, shape->size), twin, first};
}

static struct plan plan_of(const struct shape *shape)
{
    struct plan plan = {.segments = segments_of(shape, shape->bytes),
                        .tree = {TREE_KARY, 2, shape->size - 1},
                        .begin = UINT32_MAX};
    uint32_t place = rank_before(shape->rank, shape->root, shape->size), node, children;

    for (uint32_t twin = 0; twin < smaller(2, plan.segments.count); twin++) {
        if (place == 0) {
            plan.out[plan.outs++] = edge_of(shape, &plan, twin, 0, 0);
            continue;
        }
        node = twins_node(&plan.tree, twin, place - 1);
        plan.in[plan.ins++] = edge_of(shape, &plan, twin, node, tree_parent(&plan.tree, node));
        children = tree_children(&plan.tree, node);
        for (uint32_t i = 0; i < children; i++) {
            uint32_t child = tree_child(&plan.tree, node, i);

            plan.out[plan.outs++] = edge_of(shape, &plan, twin, child, child);
        }
    }
    return plan;
}

static uint32_t prepare(struct shape *shape)
{
    struct plan plan;

    shape->temp_bytes = 0;
    if (shape->bytes == 0 || shape->size == 1)
        return 0;
    plan = plan_of(shape);
    return plan.end - plan.begin;
}

/* What goes over the edge in this step; no bytes: nothing. */
static struct span span_in_step(const struct plan *plan, const struct edge *edge, uint32_t step)
{
    uint32_t segment = step - edge->first + edge->twin;

    if (step < edge->first || (step - edge->first) % 2 != 0 || segment >= plan->segments.count)
        return span_at(AREA_RECV, 0, 0);
    return span_at(AREA_RECV, segment_start(&plan->segments, segment),
                   segment_bytes(&plan->segments, segment));
}

static void two_trees_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct plan plan = plan_of(shape);
    uint32_t step = plan.begin + index;

    phase->send_needs = phase->recv_needs = 0;
    for (uint32_t i = 0; i < plan.ins; i++)
        phase_receive(phase, plan.in[i].peer, span_in_step(&plan, &plan.in[i], step));
    for (uint32_t i = 0; i < plan.outs; i++) {
        const struct edge *out = &plan.out[i];

        phase_send(phase, out->peer, span_in_step(&plan, out, step));
        /* The segment came as many steps before as the first one of this edge. */
        if (phase->to == out->peer && plan.ins != 0)
            phase->send_needs = plan.in[out->twin].first + (step - out->first) - plan.begin + 1;
    }
}

const struct schedule_ops broadcast_two_trees = {prepare, two_trees_phase};
