/*
 * Domains of groups and the sub-groups made of them; see levels.h.
 */
#include "coll/levels.h"

#include <errno.h>
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

struct members {
    struct locality locality;
    const struct topology *topology;
    unsigned level;
};

static uint32_t place_of(const void *cookie, uint32_t rank)
{
    const struct members *members = cookie;
    uint32_t task = endpoint_task(topology_endpoint(members->topology, rank));

    return locality_domain(&members->locality, members->level, task);
}

static int divide(const struct group *group, struct levels *levels)
{
    struct members members = {.topology = group->topology, .level = group_level(group)};
    struct division *division = &levels->division;
    int error = 0;

    locality_read(&members.locality, group->geometry->client->core);
    if (!locality_divide(&members.locality, members.level, group->topology, division))
        error = division_init_tables(division, group->size, place_of, &members);
    if (error != 0)
        return error;
    levels->domains = division->domains;
    levels->ordered = division->ordered;
    levels->own = levels_domain(levels, group->rank);
    return 0;
}

/* The members of the own domain. */
static int make_local(struct group *group, struct levels *levels, uint32_t depth)
{
    uint32_t count = levels_count(levels, levels->own), first = levels_rank(levels, levels->own, 0);
    uint32_t *ranks;
    int error;

    if (levels->ordered || levels->division.run == 1)
        return group_make_sub_evenly(group, COLL_CHANNEL_LOCAL + depth, first,
                                     levels->ordered ? 1 : levels->domains, count, &levels->local);
    ranks = malloc(count * sizeof(*ranks));
    for (uint32_t i = 0; ranks != NULL && i < count; i++)
        ranks[i] = levels_rank(levels, levels->own, i);
    error = ranks != NULL
                ? group_make_sub(group, COLL_CHANNEL_LOCAL + depth, ranks, count, &levels->local)
                : -ENOMEM;
    free(ranks);
    return error;
}

/* A set in which this member leads. */
static int make_set(struct group *group, struct levels *levels, uint32_t channel, uint32_t set)
{
    const struct division *division = &levels->division;
    uint32_t *ranks;
    int error;

    if (division->run != 0 && division->lead == 0 &&
        set < levels_count(levels, levels->domains - 1)) /* the smallest */
        return group_make_sub_evenly(group, channel, levels_rank(levels, 0, set), division->run,
                                     levels->domains, &levels->leaders[set]);
    ranks = malloc(levels->domains * sizeof(*ranks));
    for (uint32_t i = 0; ranks != NULL && i < levels->domains; i++)
        ranks[i] = levels_rank(levels, i, levels_leader(levels, i, set));
    error = ranks != NULL
                ? group_make_sub(group, channel, ranks, levels->domains, &levels->leaders[set])
                : -ENOMEM;
    free(ranks);
    return error;
}

/* `equal`: all domains have as many members. */
static int make_leaders(struct group *group, struct levels *levels, uint32_t depth, bool equal)
{
    uint32_t index = levels_index(levels, group->rank);
    int error = 0;

    for (uint32_t set = 0; set < levels->sets && error == 0; set++)
        if (levels_leader(levels, levels->own, set) == index)
            error = make_set(group, levels, leaders_channel(depth, set, equal), set);
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

/* What was made before memory ran out: the next attempt makes all of it again. */
static void drop_groups(struct levels *levels)
{
    for (uint32_t set = 0; levels->leaders != NULL && set < levels->sets; set++)
        group_drop_sub(levels->leaders[set]);
    group_drop_sub(levels->local);
    group_drop_sub(levels->nodes);
}

static int make_groups(struct group *group, struct levels *levels)
{
    uint32_t depth = depth_of(group), least, most;
    int error;

    division_extremes(&levels->division, &least, &most);
    levels->sets = least == most || most < sets_at(depth) ? most : sets_at(depth);
    levels->leaders = calloc(levels->sets, sizeof(levels->leaders[0]));
    if (levels->leaders == NULL)
        return -ENOMEM;
    error = make_local(group, levels, depth);
    if (error == 0)
        error = make_leaders(group, levels, depth, least == most);
    if (error == 0 && depth == 0 && group->size <= LEVELS_NODES_MAX && only_nodes(group))
        error = make_nodes(group, levels);
    return error;
}

uint32_t levels_voice(const struct levels *levels, const struct group *group, uint32_t endpoint)
{
    uint32_t rank = topology_rank(group->topology, endpoint);

    if (rank >= group->size)
        return endpoint;
    return topology_endpoint(group->topology, levels_rank(levels, levels_domain(levels, rank), 0));
}

void levels_free(struct levels *levels)
{
    if (levels == NULL)
        return;
    division_finish(&levels->division);
    free(levels->leaders);
    free(levels);
}

const struct levels *levels_of(struct group *group)
{
    struct levels *levels = group->state->levels;

    if (levels != NULL)
        return levels;
    levels = calloc(1, sizeof(*levels));
    if (levels == NULL)
        return NULL;
    if (divide(group, levels) != 0 || levels->domains < 2 || make_groups(group, levels) != 0) {
        drop_groups(levels);
        levels_free(levels);
        return NULL;
    }
    group->state->levels = levels;
    return levels;
}
