/*
 * Reading arguments: what the files arguments*.c share. See collective.h for what they make.
 *
 * What does not matter on a member (the receive side of a gather off the root, say) is not looked
 * at, and may be anything.
 */
#ifndef LIBPAMI_COLL_ARGUMENTS_H
#define LIBPAMI_COLL_ARGUMENTS_H

#include "coll/collective.h"

/* Sums of sizes below this cannot overflow. */
#define BYTES_MAX (UINT64_C(1) << 60)

/* What is being read, for texts and for the shape of things. */
struct reading {
    struct collective *to;
    const struct group *group;
    const char *name; /* of the transfer */
    bool narrow;      /* counts and displacements are int */
};

/* The arguments of one side, whatever structure they come from. */
struct side {
    const char *buffer_name, *type_name, *count_name; /* for texts */
    void *buffer;
    pami_type_t type;
    size_t count;
    const void *counts, *displacements; /* of vector transfers */
};

static inline bool arguments_in_place(const void *buffer)
{
    return buffer == PAMI_IN_PLACE;
}

/* ---- arguments.c: all of these name the argument at fault ---- */

/* PAMI_INVAL with "PAMI_Collective: NAME: ARGUMENT: WHY". */
pami_result_t arguments_wrong(const struct reading *r, const char *argument, const char *why);
pami_result_t arguments_mismatch(const struct reading *r, const char *what, uint64_t mine,
                                 uint64_t other);

/* Bytes of so many instances. */
pami_result_t arguments_count(const struct reading *r, const struct side *side,
                              const struct type *type, size_t count, uint64_t *bytes);
void arguments_map(struct area_map *map, void *base, struct type *type);

/* A side that is not empty has a buffer. */
pami_result_t arguments_buffer(const struct reading *r, const struct side *side,
                               const struct type *type);

/* A buffer of one block, or of one equal block per member. */
pami_result_t arguments_regular(struct reading *r, struct area_map *map, const struct side *side,
                                enum blocks blocks, uint64_t *bytes);

/* A buffer with a block of its own size for each member; sizes[0..size) are filled. */
pami_result_t arguments_vector(struct reading *r, struct area_map *map, const struct side *side,
                               uint64_t *sizes);

/* Whether a side whose buffer is at the map's `base` has its `bytes` data bytes where the map has
 * them. One buffer may hold two layouts; what is no type is no other layout. */
bool arguments_same_places(const struct side *side, const struct area_map *map, const void *base,
                           uint64_t bytes);

/* Room for so many sizes in collective.lists. */
pami_result_t arguments_lists(struct reading *r, size_t entries);

/* A map of one block that another one holds. */
struct area_map arguments_own_block(const struct area_map *map, uint32_t rank);

pami_result_t arguments_root(struct reading *r, pami_endpoint_t root);

/* ---- one reader for each type ---- */

typedef pami_result_t arguments_reader(struct reading *r, const pami_collective_t *given);

/* arguments_reduce.c */
arguments_reader arguments_allreduce, arguments_reduce, arguments_scan, arguments_reduce_scatter;

/* arguments_move.c */
arguments_reader arguments_broadcast, arguments_allgather, arguments_gather, arguments_scatter,
    arguments_alltoall, arguments_allgatherv, arguments_gatherv, arguments_scatterv,
    arguments_alltoallv;

#endif
