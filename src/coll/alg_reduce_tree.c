/*
 * Reduce up a tree: flat, chain, k-nomial; whole or in segments.
 *
 * Children hold the ranks that follow their parent's, in ascending order, so for each segment a
 * member receives from child after child into slots and combines from one to the next:
 *     slot 0 = own op slot 0, slot 1 = slot 0 op slot 1 ...
 * which keeps rank order, writes no source and needs no copies. The root receives from its last
 * child where the result belongs. In place there is no slot to spare at the end: commutative
 * operators accumulate in the destination, others copy the last slot.
 *
 * Nodes of the tree start at the root when operands commute, else at rank 0, which then passes the
 * result on to the root (whole messages only: pipelines through the root and back could wait for
 * each other).
 *
 * Temporary memory: SLOTS_BYTES, or 3 segments if these are larger.
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/tree.h"

#define SLOTS_BYTES UINT64_C(0x40000)

enum {
    STATE_KIND
};

struct plan {
    struct tree tree;
    struct segments segments;
    uint32_t node, children, parent; /* parent: the rank that gets this node's result, or NOBODY */
    uint32_t first;                  /* rank of node 0 */
    uint32_t slots;
    uint32_t lag;   /* a segment is sent when `lag` more are being received, here 0 or 1 */
    bool forwarded; /* the result comes from rank 0 in the end */
};

static struct plan plan_of(const struct shape *shape)
{
    struct plan plan = {.tree = tree_of((enum tree_kind)shape->state[STATE_KIND], shape)};
    struct shape whole = {.segment = 0};
    bool direct = shape->commutative || shape->root == 0;
    uint32_t parent;

    plan.segments = segments_of(direct ? shape : &whole, shape->bytes);
    plan.first = direct ? shape->root : 0;
    plan.node = rank_before(shape->rank, plan.first, shape->size);
    plan.children = tree_children(&plan.tree, plan.node);
    parent = tree_parent(&plan.tree, plan.node);
    plan.parent = parent == NOBODY ? (direct ? NOBODY : shape->root)
                                   : rank_after(parent, plan.first, shape->size);
    plan.forwarded = !direct && shape->rank == shape->root;
    plan.slots = 64;
    if (plan.segments.bytes > SLOTS_BYTES / 64)
        plan.slots = (uint32_t)larger(3, SLOTS_BYTES / plan.segments.bytes);
    plan.slots = (uint32_t)smaller(plan.slots, (uint64_t)plan.children * plan.segments.count);
    plan.lag = plan.segments.count > 1 && plan.children == 1;
    return plan;
}

/*
 * Order: `lag` groups of receives (one per child), then a group and a send, again and again, then
 * the sends that are left. The root has no sends.
 */
static uint32_t receive_position(const struct plan *plan, uint32_t receive)
{
    uint32_t segment = receive / plan->children;

    return plan->parent == NOBODY || segment < plan->lag ? receive
                                                         : receive + (segment - plan->lag);
}

static uint32_t send_position(const struct plan *plan, uint32_t segment)
{
    return (uint32_t)smaller(segment + plan->lag + 1, plan->segments.count) * plan->children +
           segment;
}

static struct span slot_span(const struct plan *plan, uint32_t receive, uint64_t bytes)
{
    return span_at(AREA_TEMP, receive % plan->slots * plan->segments.bytes, bytes);
}

/* The number of phases after which the slot of an earlier receive may be written again. */
static uint32_t phases_until_free(const struct plan *plan, uint32_t receive)
{
    if ((receive + 1) % plan->children != 0)
        return receive_position(plan, receive + 1) + 1;
    if (plan->parent != NOBODY)
        return send_position(plan, receive / plan->children) + 1;
    return receive_position(plan, receive) + 1;
}

static void receive_phase(const struct shape *shape, const struct plan *plan, uint32_t receive,
                          struct phase *phase)
{
    uint32_t segment = receive / plan->children, child = receive % plan->children;
    uint64_t start = segment_start(&plan->segments, segment);
    uint64_t bytes = segment_bytes(&plan->segments, segment);
    bool last = child == plan->children - 1 && plan->parent == NOBODY;
    struct span own = span_at(AREA_SEND, start, bytes);
    struct span result = span_at(AREA_RECV, start, bytes);
    struct span target = last && !shape->in_place ? result : slot_span(plan, receive, bytes);
    uint32_t from = tree_child(&plan->tree, plan->node, child);

    phase_receive(phase, rank_after(from, plan->first, shape->size), target);
    phase->recv_needs = receive < plan->slots ? 0 : phases_until_free(plan, receive - plan->slots);
    /* The send before this one concerns an earlier segment. */
    if (child == 0 && plan->parent != NOBODY && segment > plan->lag)
        phase->send_needs--;
    if (plan->parent == NOBODY && shape->in_place && shape->commutative) {
        phase->after[0] = local_combine(target, result);
        return;
    }
    phase->after[0] = local_combine(child == 0 ? own : slot_span(plan, receive - 1, bytes), target);
    if (last && shape->in_place)
        phase->after[1] = local_copy(target, result);
}

static void send_phase(const struct plan *plan, uint32_t segment, struct phase *phase)
{
    uint64_t bytes = segment_bytes(&plan->segments, segment);
    uint32_t last = (segment + 1) * plan->children - 1;

    if (plan->children == 0) {
        phase_send(phase, plan->parent,
                   span_at(AREA_SEND, segment_start(&plan->segments, segment), bytes));
        phase->send_needs = 0;
        return;
    }
    phase_send(phase, plan->parent, slot_span(plan, last, bytes));
    phase->send_needs = receive_position(plan, last) + 1;
}

static uint32_t prepare(struct shape *shape, enum tree_kind kind)
{
    struct plan plan;

    shape->state[STATE_KIND] = kind;
    shape->temp_bytes = 0;
    if (shape->bytes == 0)
        return 0;
    if (shape->size == 1)
        return !shape->in_place;
    plan = plan_of(shape);
    if (plan.parent != NOBODY || plan.children > 1 || shape->in_place)
        shape->temp_bytes = plan.slots * plan.segments.bytes;
    return plan.children * plan.segments.count + (plan.parent != NOBODY ? plan.segments.count : 0) +
           plan.forwarded;
}

static void tree_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct plan plan;
    uint32_t before, group;

    if (shape->size == 1) {
        phase->after[0] =
            local_copy(span_at(AREA_SEND, 0, shape->bytes), span_at(AREA_RECV, 0, shape->bytes));
        return;
    }
    plan = plan_of(shape);
    before = (uint32_t)smaller(plan.lag, plan.segments.count) * plan.children;
    if (plan.forwarded && index == plan.children + 1) {
        phase_receive(phase, 0, span_at(AREA_RECV, 0, shape->bytes));
    } else if (plan.parent == NOBODY || index < before) {
        receive_phase(shape, &plan, index, phase);
    } else {
        group = (index - before) / (plan.children + 1);
        if (group + plan.lag >= plan.segments.count)
            send_phase(&plan, index - plan.segments.count * plan.children, phase);
        else if ((index - before) % (plan.children + 1) == plan.children)
            send_phase(&plan, group, phase);
        else
            receive_phase(shape, &plan, index - group, phase);
    }
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

const struct schedule_ops reduce_flat = {flat_prepare, tree_phase};
const struct schedule_ops reduce_chain = {chain_prepare, tree_phase};
const struct schedule_ops reduce_knomial = {knomial_prepare, tree_phase};
