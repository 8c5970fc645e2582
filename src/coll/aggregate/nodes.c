/*
 * The nodes of a context, of one geometry after the other: with many geometries there are many, but
 * of each only a few, for its groups, the terms that are not over, and the vertices of a tree for
 * which one member acts.
 */
#include <errno.h>

#include "coll/aggregate/internal.h"

bool aggregate_node_is_of(const struct aggregate_node *node, const struct aggregate_wire *tree)
{
    return node->identity == tree->identity && node->channel == tree->channel &&
           node->term == tree->term;
}

struct aggregate_node *aggregate_nodes_first(const struct aggregate *aggregate, uint64_t identity)
{
    return u64map_get(&aggregate->first, identity);
}

struct aggregate_node *aggregate_nodes_next(const struct aggregate_node *node)
{
    struct list *item = node->link.next;
    struct aggregate_node *next = list_entry(item, struct aggregate_node, link);

    return item != &node->aggregate->nodes && next->identity == node->identity ? next : NULL;
}

struct aggregate_node *aggregate_nodes_find(const struct aggregate *aggregate,
                                            const struct aggregate_wire *wire)
{
    struct aggregate_node *node = aggregate_nodes_first(aggregate, wire->identity);

    while (node != NULL && !(aggregate_node_is_of(node, wire) && node->vertex == wire->vertex))
        node = aggregate_nodes_next(node);
    return node;
}

/* The node that asks is one of this member's tree: the parent of a node here. */
static bool is_parent(const struct aggregate_node *node, const struct aggregate_wire *question,
                      uint32_t origin)
{
    return aggregate_node_is_of(node, question) && node->described && !node->is_root &&
           node->parent.endpoint == origin && node->parent.vertex == question->vertex &&
           node->parent.place == question->place;
}

bool aggregate_nodes_know(const struct aggregate *aggregate, const struct aggregate_wire *question,
                          uint32_t origin)
{
    const struct aggregate_node *node = aggregate_nodes_first(aggregate, question->identity);

    while (node != NULL && !is_parent(node, question, origin))
        node = aggregate_nodes_next(node);
    return node != NULL;
}

int aggregate_nodes_add(struct aggregate_node *node)
{
    struct aggregate_node *first = aggregate_nodes_first(node->aggregate, node->identity);

    if (first != NULL)
        list_insert_after(&first->link, &node->link);
    else if (u64map_put(&node->aggregate->first, node->identity, node) == 0)
        list_push_front(&node->aggregate->nodes, &node->link);
    else
        return -ENOMEM;
    return 0;
}

void aggregate_nodes_remove(struct aggregate_node *node)
{
    struct u64map *map = &node->aggregate->first;
    struct aggregate_node *next = aggregate_nodes_next(node);

    if (u64map_get(map, node->identity) == node) {
        u64map_remove(map, node->identity);
        if (next != NULL)
            u64map_put(map, node->identity, next); /* where there was room just now */
    }
    list_remove(&node->link);
}
