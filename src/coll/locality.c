/*
 * Where the members of groups are.
 */
#include "bootstrap/bootstrap.h"
#include "coll/coll.h"
#include "coll/machine.h"
#include "geometry/state.h"
#include "util/hash.h"

/* Larger groups have no levels: finding them takes time and memory for each member. */
#define LEVELS_MEMBERS_MAX 8192u

enum places {
    PLACES_UNKNOWN,
    PLACES_ONE_NODE,
    PLACES_ALONE,  /* each member on a node of its own */
    PLACES_LEVELS, /* several nodes, one with several members */
    PLACES_ANY,    /* too many to look, or out of memory */
};

static enum places find_places(struct bootstrap *bootstrap, const struct topology *topology)
{
    static char present;
    struct u32map nodes = {0};
    enum places places = PLACES_ANY;
    uint32_t rank = 0, node;

    for (; rank < topology->size; rank++) {
        uint32_t task = endpoint_task(topology_endpoint(topology, rank));

        if (bootstrap_node_of(bootstrap, task, &node) != 0 ||
            u32map_put(&nodes, node, &present) != 0 ||
            (rank > LEVELS_MEMBERS_MAX && nodes.count > 1))
            break;
    }
    if (rank == topology->size)
        places = nodes.count == 1                ? PLACES_ONE_NODE
                 : nodes.count == topology->size ? PLACES_ALONE
                                                 : PLACES_LEVELS;
    u32map_finish(&nodes);
    return places;
}

static enum places places_of(const struct group *group)
{
    struct geometry *geometry = group->geometry;
    int known;

    if (group->channel != 0) {
        if (group->state->places == PLACES_UNKNOWN)
            group->state->places =
                (int)find_places(group->context->core->bootstrap, group->topology);
        return (enum places)group->state->places;
    }
    known = atomic_load_explicit(&geometry->places, memory_order_relaxed);
    if (known == PLACES_UNKNOWN) {
        known = (int)find_places(geometry->client->core->bootstrap, &geometry->topology);
        atomic_store_explicit(&geometry->places, known, memory_order_relaxed);
    }
    return (enum places)known;
}

int group_places_like(uint32_t members, uint32_t nodes)
{
    return nodes == 1 ? PLACES_ONE_NODE : nodes == members ? PLACES_ALONE : PLACES_LEVELS;
}

bool group_on_one_node(const struct group *group)
{
    return places_of(group) == PLACES_ONE_NODE;
}

bool group_has_levels(const struct group *group)
{
    return group->channel == 0 && places_of(group) == PLACES_LEVELS;
}
