/*
 * Domains of groups and the sub-groups made of them; see levels.h.
 */
#include "coll/levels.h"

#include <stdlib.h>

#include "coll/coll.h"
#include "coll/locality.h"
#include "coll/machine.h"
#include "geometry/state.h"

/* How many divisions there are above this group; COLL_CHANNEL_LOCAL + d is local at depth d. */
static uint32_t depth_of(const struct group *group)
{
    return group->channel == COLL_CHANNEL_ALL ? 0 : group->channel - COLL_CHANNEL_LOCAL + 1;
}

static uint32_t sets_at(uint32_t depth)
{
    return depth == 0 ? COLL_LEADER_SETS : 1;
}

/* A member of equal domains is in one set only, so sets may share a channel then. */
static uint32_t leaders_channel(uint32_t depth, uint32_t set, bool equal)
{
    return depth != 0 ? COLL_CHANNEL_INNER + depth - 1 : COLL_CHANNEL_LEADERS + (equal ? 0 : set);
}

/* The index of a domain known by `id`, a new one at the end of ids[0..*count). */
static uint32_t index_of(uint32_t *ids, uint32_t *count, uint32_t id)
{
    uint32_t index = 0;

    while (index < *count && ids[index] != id)
        index++;
    if (index == *count)
        ids[(*count)++] = id;
    return index;
}

/* `position` holds what is found until the last step, which fills it. */
static void sort_members(const struct group *group, struct levels *levels)
{
    const struct client_core *core = group->geometry->client->core;
    unsigned level = group_level(group);
    struct locality locality;
    uint32_t next = 0;

    locality_read(&locality, core);
    for (uint32_t rank = 0; rank < group->size; rank++) {
        uint32_t task = endpoint_task(topology_endpoint(group->topology, rank));

        levels->domain[rank] =
            index_of(levels->position, &levels->domains, locality_domain(&locality, level, task));
    }
    levels->ordered = true;
    for (uint32_t domain = 0; domain < levels->domains; domain++) {
        levels->start[domain] = next;
        for (uint32_t rank = 0; rank < group->size; rank++)
            if (levels->domain[rank] == domain)
                levels->order[next++] = rank;
    }
    levels->start[levels->domains] = next;
    for (uint32_t i = 0; i < group->size; i++) {
        levels->position[levels->order[i]] = i;
        levels->ordered = levels->ordered && levels->order[i] == i;
    }
    levels->own = levels->domain[group->rank];
}

/* True: all domains have as many members. */
static bool count_sets(struct levels *levels, uint32_t most_sets)
{
    uint32_t least = UINT32_MAX, most = 0;

    for (uint32_t i = 0; i < levels->domains; i++) {
        uint32_t count = levels_count(levels, i);

        least = count < least ? count : least;
        most = count > most ? count : most;
    }
    levels->sets = least == most || most < most_sets ? most : most_sets;
    return least == most;
}

static int make_leaders(struct group *group, struct levels *levels, uint32_t depth, bool equal,
                        uint32_t *ranks)
{
    uint32_t index = levels->position[group->rank] - levels->start[levels->own];
    int error = 0;

    for (uint32_t set = 0; set < levels->sets && error == 0; set++) {
        if (levels_leader(levels, levels->own, set) != index)
            continue;
        for (uint32_t i = 0; i < levels->domains; i++)
            ranks[i] = levels->order[levels->start[i] + levels_leader(levels, i, set)];
        error = group_make_sub(group, leaders_channel(depth, set, equal), ranks, levels->domains,
                               &levels->leaders[set]);
    }
    return error;
}

/* No other levels than nodes, on any member. */
static bool only_nodes(const struct group *group)
{
    struct locality locality;

    locality_read(&locality, group->geometry->client->core);
    for (unsigned i = LEVEL_NODE + 1; i < LEVELS; i++)
        if (locality.wanted[i])
            return false;
    return true;
}

/* The ranks of the geometry itself. */
static int make_nodes(struct group *group, struct levels *levels)
{
    uint32_t ranks[LEVELS_NODES_MAX];

    for (uint32_t i = 0; i < group->size; i++)
        ranks[i] = i;
    return group_make_sub(group, COLL_CHANNEL_NODES, ranks, group->size, &levels->nodes);
}

static int make_groups(struct group *group, struct levels *levels)
{
    uint32_t depth = depth_of(group), first = levels->start[levels->own];
    uint32_t *ranks = malloc(levels->domains * sizeof(*ranks));
    bool equal = count_sets(levels, sets_at(depth));
    int error;

    levels->leaders = calloc(levels->sets, sizeof(levels->leaders[0]));
    error = ranks != NULL && levels->leaders != NULL ? 0 : -1;
    if (error == 0)
        error = group_make_sub(group, COLL_CHANNEL_LOCAL + depth, levels->order + first,
                               levels_count(levels, levels->own), &levels->local);
    if (error == 0)
        error = make_leaders(group, levels, depth, equal, ranks);
    if (error == 0 && depth == 0 && group->size <= LEVELS_NODES_MAX && only_nodes(group))
        error = make_nodes(group, levels);
    free(ranks);
    return error;
}

uint32_t levels_voice(const struct levels *levels, const struct group *group, uint32_t endpoint)
{
    uint32_t rank = topology_rank(group->topology, endpoint);

    if (rank >= group->size)
        return endpoint;
    return topology_endpoint(group->topology, levels->order[levels->start[levels->domain[rank]]]);
}

void levels_free(struct levels *levels)
{
    if (levels != NULL)
        free(levels->leaders);
    free(levels);
}

const struct levels *levels_of(struct group *group)
{
    struct levels *levels = group->state->levels;
    size_t size = group->size;
    uint32_t *memory;

    if (levels != NULL)
        return levels;
    levels = calloc(1, sizeof(*levels) + (4 * size + 1) * sizeof(*memory));
    if (levels == NULL)
        return NULL;
    memory = (uint32_t *)(void *)(levels + 1);
    levels->order = memory;
    levels->domain = memory + size;
    levels->position = memory + 2 * size;
    levels->start = memory + 3 * size;
    sort_members(group, levels);
    if (levels->domains < 2 || make_groups(group, levels) != 0) {
        levels_free(levels);
        return NULL;
    }
    group->state->levels = levels;
    return levels;
}
