/*
 * Where the members of groups are.
 */
#include "bootstrap/bootstrap.h"
#include "coll/coll.h"
#include "coll/machine.h"
#include "geometry/state.h"

static bool on_one_node(struct bootstrap *bootstrap, const struct topology *topology)
{
    uint32_t first, node;

    if (bootstrap_node_of(bootstrap, endpoint_task(topology_endpoint(topology, 0)), &first) != 0)
        return false;
    for (uint32_t i = 1; i < topology->size; i++)
        if (bootstrap_node_of(bootstrap, endpoint_task(topology_endpoint(topology, i)), &node) !=
                0 ||
            node != first)
            return false;
    return true;
}

bool group_on_one_node(const struct group *group)
{
    struct geometry *geometry = group->geometry;
    int known;

    if (group->channel != 0) {
        if (group->state->one_node == 0)
            group->state->one_node =
                on_one_node(group->context->core->bootstrap, group->topology) ? 1 : -1;
        return group->state->one_node > 0;
    }
    known = atomic_load_explicit(&geometry->one_node, memory_order_relaxed);
    if (known == 0) {
        known = on_one_node(geometry->client->core->bootstrap, &geometry->topology) ? 1 : -1;
        atomic_store_explicit(&geometry->one_node, known, memory_order_relaxed);
    }
    return known > 0;
}
