/*
 * Gather of equal blocks up a k-nomial tree, whole or in segments (parcel.h).
 *
 * A member receives its children's messages in ascending order, which fills its subtree's blocks
 * from the front; each of its own parcels goes up as soon as it is filled. The root receives where
 * blocks belong, leaves send from the source.
 *
 * Temporary memory: the blocks of the subtree; root and leaves none.
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/parcel.h"

enum {
    STATE_RECEIVES
};

struct plan {
    struct tree tree;
    uint32_t node, children;
    struct parcels own;
};

static struct plan plan_of(const struct shape *shape)
{
    struct plan plan = {.tree = tree_of(TREE_KNOMIAL, shape)};

    plan.node = rank_before(shape->rank, shape->root, shape->size);
    plan.children = tree_children(&plan.tree, plan.node);
    if (plan.node != 0)
        plan.own = parcels_of(shape, &plan.tree, plan.node);
    return plan;
}

/* The number of receives that fill the subtree's blocks up to `end`. */
static uint32_t receives_until(const struct shape *shape, const struct plan *plan, uint64_t end)
{
    uint32_t receives = 0;

    for (uint32_t i = 0; i < plan->children; i++) {
        struct parcels parcels =
            parcels_of(shape, &plan->tree, tree_child(&plan->tree, plan->node, i));
        uint64_t start = (parcels.node - plan->node) * shape->bytes;

        if (end <= start)
            break;
        if (end - start <= parcel_start(&parcels, parcels.count))
            return receives + parcel_at(&parcels, end - start - 1) + 1;
        receives += parcels.count;
    }
    return receives;
}

static uint32_t tree_prepare(struct shape *shape)
{
    struct plan plan;

    shape->temp_bytes = 0;
    if (shape->bytes == 0)
        return 0;
    plan = plan_of(shape);
    shape->state[STATE_RECEIVES] = receives_until(shape, &plan, UINT64_MAX);
    if (plan.node == 0)
        return (uint32_t)larger(shape->state[STATE_RECEIVES], !shape->in_place);
    if (plan.children)
        shape->temp_bytes = plan.own.span * shape->bytes;
    return (uint32_t)shape->state[STATE_RECEIVES] + plan.own.count;
}

static void receive_phase(const struct shape *shape, const struct plan *plan, uint32_t receive,
                          struct phase *phase)
{
    struct parcels parcels;
    uint32_t child = 0, node;

    for (;; child++) {
        node = tree_child(&plan->tree, plan->node, child);
        parcels = parcels_of(shape, &plan->tree, node);
        if (receive < parcels.count)
            break;
        receive -= parcels.count;
    }
    phase->send_needs = phase->recv_needs = 0;
    phase_receive(phase, rank_after(node, shape->root, shape->size),
                  plan->node == 0 ? parcel_at_root(shape, &parcels, receive, AREA_RECV)
                                  : parcel_in_temp(shape, &parcels, receive, plan->node));
}

/* The position of a parcel that goes up: right behind what fills it. */
static uint32_t send_position(const struct shape *shape, const struct plan *plan, uint32_t index)
{
    return receives_until(shape, plan, parcel_start(&plan->own, index + 1)) + index;
}

/* The number of parcels that go up at positions up to `index`. */
static uint32_t sends_until(const struct shape *shape, const struct plan *plan, uint32_t index)
{
    uint32_t low = 0, high = plan->own.count;

    if (plan->children == 0)
        return index + 1;
    if (high == 1)
        return index == shape->state[STATE_RECEIVES];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (send_position(shape, plan, middle) <= index)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Whether the last parcel of those up to `index` stands there; without children or cuts it does. */
static bool is_send(const struct shape *shape, const struct plan *plan, uint32_t send,
                    uint32_t index)
{
    return plan->children == 0 || plan->own.count == 1 || send_position(shape, plan, send) == index;
}

/* Phases until a parcel is filled: those up to the last receive that fills it, the first anyway. */
static uint32_t needs(const struct shape *shape, const struct plan *plan, uint32_t send,
                      uint32_t index)
{
    uint32_t receives;

    if (plan->children == 0 || plan->own.count == 1)
        return plan->children ? index : 0;
    receives = send_position(shape, plan, send) - send;
    if (receives == 0)
        return index > 0;
    while (send > 0 && send_position(shape, plan, send - 1) - (send - 1) == receives)
        send--;
    return receives + send;
}

static void tree_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct plan plan = plan_of(shape);
    struct span own = span_at(AREA_SEND, 0, shape->bytes), parcel;
    uint32_t sends;

    if (plan.node == 0) {
        if (plan.children)
            receive_phase(shape, &plan, index, phase);
        if (index == 0 && !shape->in_place)
            phase->before[0] = local_copy(own, span_of(AREA_RECV, shape->rank, 0, shape->bytes));
        phase->send_needs = 0;
        return;
    }
    if (index == 0 && plan.children)
        phase->before[0] = local_copy(own, span_at(AREA_TEMP, 0, shape->bytes));
    sends = sends_until(shape, &plan, index);
    if (sends == 0 || !is_send(shape, &plan, sends - 1, index)) {
        receive_phase(shape, &plan, index - sends, phase);
        return;
    }
    parcel = parcel_in_temp(shape, &plan.own, sends - 1, plan.node);
    if (plan.children == 0)
        parcel.area = AREA_SEND;
    phase_send(phase, rank_after(tree_parent(&plan.tree, plan.node), shape->root, shape->size),
               parcel);
    phase->send_needs = needs(shape, &plan, sends - 1, index);
}

const struct schedule_ops gather_knomial = {tree_prepare, tree_phase};
