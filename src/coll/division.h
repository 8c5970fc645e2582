/*
 * How the members of a group fall into domains: which domain a rank is in, as which of its members,
 * and who these are.
 *
 * Domains are numbered in the order of their first members, members of a domain in that of ranks.
 * Where runs of as many consecutive ranks go to one domain after the other, in one round or in
 * several (ranks block by block, or cyclically), all answers are arithmetic and take no memory.
 * Otherwise they are tables, of three words for each member. Does not change once it is made.
 */
#ifndef LIBPAMI_COLL_DIVISION_H
#define LIBPAMI_COLL_DIVISION_H

#include <stdbool.h>
#include <stdint.h>

#include "geometry/topology.h"

struct division {
    uint32_t size, domains;
    bool ordered; /* domains have consecutive ranks */
    /* Regular: rank r is in domain (lead + r) / run % domains. */
    uint32_t run;    /* 0: tables */
    uint32_t lead;   /* less than a run, which are missing in front; 0 where there are several
                      * rounds */
    uint32_t rounds; /* full ones of lead + size, and ... */
    uint32_t rest;   /* ... what is left */
    /* Tables, one piece of memory: */
    uint32_t *order;  /* [size]: ranks, domain after domain, ... */
    uint32_t *start;  /* [domains + 1]: ... where each begins */
    uint32_t *domain; /* [size]: of each rank */
    uint32_t *index;  /* [size]: of each rank, in its domain */
};

/* Task t is in place t / run % places. False: that is not regular by the ranks of the members. */
bool division_init_regular(struct division *division, const struct topology *topology, uint32_t run,
                           uint32_t places);

/* place(cookie, rank): equal for members of one domain. 0 or -ENOMEM. */
int division_init_tables(struct division *division, uint32_t size,
                         uint32_t (*place)(const void *cookie, uint32_t rank), const void *cookie);

void division_finish(struct division *division);

/* The members of the smallest domain, and of the largest one. */
void division_extremes(const struct division *division, uint32_t *least, uint32_t *most);

static inline uint32_t division_domain(const struct division *division, uint32_t rank)
{
    if (division->run == 0)
        return division->domain[rank];
    return (division->lead + rank) / division->run % division->domains;
}

/* Members of the domains before this one; of the domain behind the last one: of all. */
static inline uint32_t division_start(const struct division *division, uint32_t domain)
{
    uint32_t before = domain * division->run;

    if (division->run == 0)
        return division->start[domain];
    return division->rounds * before + (before < division->rest ? before : division->rest) -
           (domain != 0 ? division->lead : 0);
}

static inline uint32_t division_count(const struct division *division, uint32_t domain)
{
    return division_start(division, domain + 1) - division_start(division, domain);
}

/* Which of the members of its domain a rank is. */
static inline uint32_t division_index(const struct division *division, uint32_t rank)
{
    uint32_t at = division->lead + rank, run = division->run;

    if (run == 0)
        return division->index[rank];
    return at / (run * division->domains) * run + at % run - (at < run ? division->lead : 0);
}

/* The rank of a member of a domain. */
static inline uint32_t division_rank(const struct division *division, uint32_t domain,
                                     uint32_t index)
{
    uint32_t at = index + (domain == 0 ? division->lead : 0), run = division->run;

    if (run == 0)
        return division->order[division->start[domain] + index];
    return (at / run * division->domains + domain) * run + at % run - division->lead;
}

#endif
