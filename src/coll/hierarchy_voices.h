/*
 * What hierarchies share that have no leaders: in each domain all get what the domain has, and one
 * member says it to all members of the others. Between files; see hierarchy_voices.c.
 */
#ifndef LIBPAMI_COLL_HIERARCHY_VOICES_H
#define LIBPAMI_COLL_HIERARCHY_VOICES_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/hierarchy.h"

struct voices {
    const struct levels *levels;
    struct collective whole; /* the flow keeps its types */
    bool first;              /* this member speaks */
    uint64_t *sends, *recvs; /* [size]: bytes to and from each member */
    uint64_t *from, *to;     /* [size]: where these begin in `said` and `heard` */
    struct area_map said, heard;
    /* Memory of ours, as far as the type needs it. */
    char *inside;    /* what the link inside the domain makes */
    char *outside;   /* what the domains have, one behind the other; of the own one as well */
    char *parts;     /* alltoall: for each member what this domain has for it */
    uint64_t stride; /* alltoall: bytes of a member's source */
    char *result, *operand; /* of reductions, aligned */
    struct store *store;
};

/* A link inside the domain, after which it is known who speaks. */
void voices_inside(struct build *build, struct voices *voices, pami_xfer_type_t type,
                   const struct area_map *send, const struct area_map *recv, uint64_t bytes);

/* To a member of another domain; nothing if another member of the own one speaks. */
void voices_say(struct voices *voices, uint32_t rank, uint64_t from, uint64_t bytes);

/* What another domain has to say arrives in the name of its first member. */
void voices_hear(struct voices *voices, uint32_t domain, uint64_t to, uint64_t bytes);

/* The link between domains. */
void voices_between(struct build *build, const struct voices *voices);

/* hierarchy_voices_reduce.c */
void voices_allreduce(struct build *build, struct voices *voices);
void voices_reduce_scatter(struct build *build, struct voices *voices);
void voices_scan(struct build *build, struct voices *voices);

#endif
