/*
 * Runs that have failed at a node: who is told, and for how long their numbers are kept, to answer
 * contributions that come later.
 */
#include <stdlib.h>

#include "coll/aggregate/internal.h"

bool aggregate_child_passed(const struct aggregate_child *child, uint64_t number)
{
    return child->gone || child->left ||
           (child->begun && (child->last > number || (child->last == number && child->whole)));
}

static bool all_passed(const struct aggregate_node *node, uint64_t number)
{
    for (uint32_t i = 0; i < node->count; i++)
        if (!aggregate_child_passed(&node->child[i], number))
            return false;
    return node->described;
}

const struct aggregate_failure *aggregate_node_failure(const struct aggregate_node *node,
                                                       uint64_t number)
{
    struct list *item;

    list_for_each (item, &node->failures) {
        const struct aggregate_failure *failure = list_entry(item, struct aggregate_failure, link);

        if (failure->number == number)
            return failure;
    }
    return NULL;
}

/* One is there even without memory. NULL: there is none. */
static struct aggregate_failure *failure_new(struct aggregate_node *node)
{
    struct aggregate_failure *failure = malloc(sizeof(*failure));

    if (failure != NULL || node->spare_taken)
        return failure;
    node->spare_taken = true;
    return &node->spare;
}

void aggregate_failure_free(struct aggregate_node *node, struct aggregate_failure *failure)
{
    if (failure == &node->spare)
        node->spare_taken = false;
    else
        free(failure);
}

void aggregate_node_prune(struct aggregate_node *node)
{
    struct list *item, *following;

    list_for_each_safe (item, following, &node->failures) {
        struct aggregate_failure *failure = list_entry(item, struct aggregate_failure, link);

        if (!all_passed(node, failure->number))
            continue;
        list_remove(item);
        aggregate_failure_free(node, failure);
    }
}

static void fill_failure(struct aggregate_wire *wire, const struct aggregate_failure *failure)
{
    wire->number = failure->number;
    wire->check = failure->mark;
    wire->flags |= failure->disagrees ? AGGREGATE_DISAGREES : 0;
}

void aggregate_node_tell(const struct aggregate_node *node, const struct aggregate_child *child,
                         const struct aggregate_failure *failure)
{
    struct aggregate_wire wire = aggregate_wire_down(node, child, AGGREGATE_FAIL);

    fill_failure(&wire, failure);
    aggregate_send(node->aggregate, child->endpoint, &wire, NULL, 0);
}

static void tell_parent(const struct aggregate_node *node, const struct aggregate_failure *failure)
{
    struct aggregate_wire wire = aggregate_wire_up(node, AGGREGATE_FAIL);

    wire.flags = AGGREGATE_UP;
    fill_failure(&wire, failure);
    if (node->described && !node->is_root)
        aggregate_send(node->aggregate, node->parent.endpoint, &wire, NULL, 0);
}

void aggregate_failures_up(const struct aggregate_node *node)
{
    struct list *item;

    list_for_each (item, &node->failures)
        tell_parent(node, list_entry(item, struct aggregate_failure, link));
}

void aggregate_node_fail(struct aggregate_node *node, const struct aggregate_failure *failure,
                         const struct aggregate_child *except, bool up)
{
    bool had = aggregate_slots_drop(node, failure->number);
    struct aggregate_failure *kept;

    if (aggregate_node_failure(node, failure->number) != NULL ||
        (!had && all_passed(node, failure->number)))
        return;
    kept = failure_new(node);
    if (kept != NULL) {
        *kept = *failure;
        list_push_back(&node->failures, &kept->link);
    } else if (node->forgotten <= failure->number) {
        node->forgotten = failure->number + 1;
    }
    for (uint32_t i = 0; i < AGGREGATE_RADIX_MAX; i++)
        if (aggregate_child_listens(&node->child[i]) && &node->child[i] != except)
            aggregate_node_tell(node, &node->child[i], failure);
    if (up)
        tell_parent(node, failure);
    aggregate_node_prune(node);
}
