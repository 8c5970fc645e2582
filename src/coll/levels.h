/*
 * How a group divides into domains: the nodes of its members, or, where all are on one node, what
 * the node consists of (locality.h says which level). A domain's members talk to each other in a
 * sub-group of their own, which may divide in turn, and one of each domain, its leader, to the
 * other leaders.
 *
 * Leaders come in sets: in set s, member s of every domain leads, counted around where there are
 * fewer. So a collective can take the set in which its root leads, and others work by several sets
 * at once. Where domains are of equal size there are as many sets as members, else not more than
 * there are channels for.
 *
 * In `nodes` a domain has one voice: a message of any of its members counts as one of its first
 * member. Who speaks for it is agreed upon inside the domain.
 *
 * How domains and their members are numbered, and when that takes memory: division.h.
 */
#ifndef LIBPAMI_COLL_LEVELS_H
#define LIBPAMI_COLL_LEVELS_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/division.h"
#include "geometry/geometry.h"

/* Members whose answers are kept in a word. */
#define LEVELS_NODES_MAX 64u

struct levels {
    struct group *local;    /* the members of the own domain */
    struct group **leaders; /* of each set; NULL where this member does not lead */
    struct group *nodes;    /* all members, LEVELS_NODES_MAX at most, where there are no levels but
                             * nodes; or NULL */
    uint32_t sets;
    uint32_t domains, own;
    bool ordered; /* domains have consecutive ranks */
    struct division division;
};

/* Made at the first use, and then the group's. NULL: it does not divide, or out of memory. */
const struct levels *levels_of(struct group *group);

void levels_free(struct levels *levels);

/* The first member of an endpoint's domain, in a group that has all members of `levels` in their
 * order; the endpoint itself where it is no member. */
uint32_t levels_voice(const struct levels *levels, const struct group *group, uint32_t endpoint);

static inline uint32_t levels_size(const struct levels *levels)
{
    return levels->division.size;
}

static inline uint32_t levels_domain(const struct levels *levels, uint32_t rank)
{
    return division_domain(&levels->division, rank);
}

/* Which of the members of its domain a rank is. */
static inline uint32_t levels_index(const struct levels *levels, uint32_t rank)
{
    return division_index(&levels->division, rank);
}

/* The rank of a member of a domain. */
static inline uint32_t levels_rank(const struct levels *levels, uint32_t domain, uint32_t index)
{
    return division_rank(&levels->division, domain, index);
}

/* Members of the domains before this one, and of this one. */
static inline uint32_t levels_start(const struct levels *levels, uint32_t domain)
{
    return division_start(&levels->division, domain);
}

static inline uint32_t levels_count(const struct levels *levels, uint32_t domain)
{
    return division_count(&levels->division, domain);
}

/* The leader of a domain in a set, among the members of the domain. */
static inline uint32_t levels_leader(const struct levels *levels, uint32_t domain, uint32_t set)
{
    return set % levels_count(levels, domain);
}

#endif
