/*
 * Broadcast down a tree: flat, chain, k-nomial; whole or in segments.
 *
 * A member first receives LEAD segments, then for each segment s sends it to all children and
 * receives segment s + LEAD at once. A send needs nothing but its segment, and what was before
 * that, so sends to a child follow one another without waiting for each other's end. The largest
 * subtree is served first. Without temporary memory.
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/tree.h"

#define LEAD 3u

struct plan {
    struct tree tree;
    struct segments segments;
    uint32_t node, children, lead;
};

enum {
    STATE_KIND
};

static struct plan plan_of(const struct shape *shape)
{
    struct plan plan = {.tree = tree_of((enum tree_kind)shape->state[STATE_KIND], shape)};

    plan.segments = segments_of(shape, shape->bytes);
    plan.node = rank_before(shape->rank, shape->root, shape->size);
    plan.children = tree_children(&plan.tree, plan.node);
    plan.lead = plan.node == 0 ? 0 : (uint32_t)smaller(LEAD, plan.segments.count);
    if (plan.children == 0)
        plan.lead = plan.segments.count;
    return plan;
}

static uint32_t prepare(struct shape *shape, enum tree_kind kind)
{
    struct plan plan;

    shape->temp_bytes = 0;
    shape->state[STATE_KIND] = kind;
    if (shape->bytes == 0 || shape->size == 1)
        return 0;
    plan = plan_of(shape);
    return plan.children ? plan.lead + plan.segments.count * plan.children : plan.lead;
}

static struct span segment_span(const struct plan *plan, uint32_t segment)
{
    return span_at(AREA_RECV, segment_start(&plan->segments, segment),
                   segment_bytes(&plan->segments, segment));
}

/* The number of phases after which the segment is here. */
static uint32_t phases_until(const struct plan *plan, uint32_t segment)
{
    if (plan->node == 0)
        return 0;
    return segment < plan->lead ? segment + 1
                                : plan->lead + (segment - plan->lead) * plan->children + 1;
}

static void tree_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct plan plan = plan_of(shape);
    uint32_t segment, child, incoming = index;

    phase->send_needs = phase->recv_needs = 0;
    if (index >= plan.lead) {
        segment = (index - plan.lead) / plan.children;
        child = (index - plan.lead) % plan.children;
        phase_send(phase,
                   rank_after(tree_child(&plan.tree, plan.node, plan.children - 1 - child),
                              shape->root, shape->size),
                   segment_span(&plan, segment));
        phase->send_needs = phases_until(&plan, segment);
        incoming = child == 0 ? segment + plan.lead : plan.segments.count;
    }
    if (plan.node != 0 && incoming < plan.segments.count)
        phase_receive(phase,
                      rank_after(tree_parent(&plan.tree, plan.node), shape->root, shape->size),
                      segment_span(&plan, incoming));
}

static uint32_t flat_prepare(struct shape *shape)
{
    return prepare(shape, TREE_FLAT);
}

static uint32_t chain_prepare(struct shape *shape)
{
    return prepare(shape, TREE_CHAIN);
}

static uint32_t knomial_prepare(struct shape *shape)
{
    return prepare(shape, TREE_KNOMIAL);
}

const struct schedule_ops broadcast_flat = {flat_prepare, tree_phase};
const struct schedule_ops broadcast_chain = {chain_prepare, tree_phase};
const struct schedule_ops broadcast_knomial = {knomial_prepare, tree_phase};
