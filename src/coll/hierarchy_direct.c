/*
 * Gather, scatter, alltoall, their kinds with blocks of different sizes, and broadcast by domains
 * without leaders: what stays in a domain goes through its memory, and what leaves it goes straight
 * from its source to its destination. Both are under way at once, as two segments of a flow. No
 * data is moved twice, no member waits for another one to pass something on, and none has to know
 * the sizes of others' blocks; but there are as many messages as there would be without domains,
 * less those inside.
 *
 * The first segment is a gatherv, scatterv or alltoallv of all members in which those of the own
 * (the root's) domain have no bytes for each other. Where blocks are equal, members of a domain
 * have consecutive ranks.
 */
#include "coll/hierarchy.h"

#include "coll/algorithm.h"

static void next_segment(struct build *build)
{
    build->segments[build->count++] = (struct flow_links){.ahead = 1};
}

/* Bytes of each member's block, equal or listed, but of the members of domain `but`. */
static uint64_t *sizes_but(struct build *build, uint32_t but, uint64_t bytes, const uint64_t *list)
{
    uint64_t *sizes = hierarchy_numbers(build, build->group->size);

    for (uint32_t rank = 0; sizes != NULL && rank < build->group->size; rank++)
        if (levels_domain(build->levels, rank) != but)
            sizes[rank] = list != NULL ? list[rank] : bytes;
    return sizes;
}

static uint32_t rank_here(const struct build *build, uint32_t index)
{
    return levels_rank(build->levels, build->levels->own, index);
}

/* Of a list for all members, what concerns those of the own domain. NULL: there is no list. */
static uint64_t *list_here(struct build *build, const uint64_t *list)
{
    uint64_t *here = list != NULL ? hierarchy_numbers(build, build_locals(build)) : NULL;

    for (uint32_t i = 0; here != NULL && i < build_locals(build); i++)
        here[i] = list[rank_here(build, i)];
    return here;
}

/* The blocks of the own domain's members; equal ones follow one another. */
static struct area_map blocks_here(struct build *build, const struct area_map *map)
{
    struct area_map here = *map;
    size_t *displacements;

    if (map->blocks == BLOCKS_PACKED)
        here.starts = list_here(build, map->starts);
    else if (map->blocks < BLOCKS_LISTED)
        here.base = area_place(map, rank_here(build, 0), 0).address;
    if (map->blocks < BLOCKS_LISTED)
        return here;
    displacements = hierarchy_memory(build, build_locals(build) * sizeof(*displacements));
    for (uint32_t i = 0; displacements != NULL && i < build_locals(build); i++)
        displacements[i] = area_displacement(map, rank_here(build, i));
    here.blocks = BLOCKS_LISTED;
    here.displacements = displacements;
    return here;
}

static uint64_t own_bytes(const struct collective *from)
{
    return collective_is_vector(from->type) ? from->own_bytes : from->bytes;
}

/* The first segment: `part` among all members. Not by Auto, which might come back here. */
static void add_outside(struct build *build, struct collective *part, const char *row)
{
    part->bytes = 0;
    hierarchy_add_row(build, build->group, algorithm_find(part->type, row), part);
}

/* ---- one root ---- */

/* The first segment: of the sizes of its blocks, equal or in `list`, the root has a list. */
static void outside(struct build *build, struct collective *part, const uint64_t **sizes,
                    const uint64_t *list, const struct collective *from, const struct way *way)
{
    part->own_bytes = way->here ? 0 : own_bytes(from);
    part->in_place = false;
    if (build_is_root(build, way))
        *sizes = sizes_but(build, way->domain, from->bytes, list);
    add_outside(build, part, "Flat");
    next_segment(build);
}

static void gather_or_scatter(struct build *build, const struct collective *from,
                              const struct way *way, bool gather)
{
    pami_xfer_type_t all = gather ? PAMI_XFER_GATHERV : PAMI_XFER_SCATTERV;
    const uint64_t *list = gather ? from->recv_bytes : from->send_bytes;
    struct collective part = hierarchy_like(from, all, from->root);
    struct area_map blocks;

    outside(build, &part, gather ? &part.recv_bytes : &part.send_bytes, list, from, way);
    if (!way->here)
        return;
    part = hierarchy_like(from, from->type, way->index);
    part.own_bytes = from->own_bytes;
    if (build_is_root(build, way)) {
        blocks = blocks_here(build, gather ? &from->recv : &from->send);
        hierarchy_replace(gather ? &part.recv : &part.send, &blocks);
        *(gather ? &part.recv_bytes : &part.send_bytes) = list_here(build, list);
    }
    hierarchy_add_inside(build, &part, own_bytes(from));
}

/* A scatter whose blocks are all the same. */
static void broadcast(struct build *build, const struct collective *from, const struct way *way)
{
    struct collective part = hierarchy_like(from, PAMI_XFER_SCATTERV, from->root);

    hierarchy_replace(&part.send, &from->recv);
    outside(build, &part, &part.send_bytes, NULL, from, way);
    if (way->here && !build_is_alone(build))
        hierarchy_broadcast(build, build->levels->local, from, way->index);
}

/* ---- alltoall ---- */

/* In place too: blocks for the own domain are others than those for the rest. */
static void alltoall(struct build *build, const struct collective *from)
{
    uint32_t own = build->levels->own;
    struct collective part = hierarchy_like(from, PAMI_XFER_ALLTOALLV, 0);
    struct area_map here = blocks_here(build, &from->send), there = blocks_here(build, &from->recv);

    part.send_bytes = sizes_but(build, own, from->bytes, from->send_bytes);
    part.recv_bytes = sizes_but(build, own, from->bytes, from->recv_bytes);
    add_outside(build, &part, "Sparse");
    next_segment(build);
    part = hierarchy_like(from, from->type, 0);
    part.own_bytes = from->own_bytes;
    part.send_bytes = list_here(build, from->send_bytes);
    part.recv_bytes = list_here(build, from->recv_bytes);
    hierarchy_replace(&part.send, &here);
    hierarchy_replace(&part.recv, &there);
    hierarchy_add_inside(build, &part, own_bytes(from));
}

void hierarchy_direct(struct build *build, const struct collective *from)
{
    const struct way way = hierarchy_way(build, from->root);

    switch (from->type) {
    case PAMI_XFER_GATHER:
    case PAMI_XFER_GATHERV:
        gather_or_scatter(build, from, &way, true);
        break;
    case PAMI_XFER_SCATTER:
    case PAMI_XFER_SCATTERV:
        gather_or_scatter(build, from, &way, false);
        break;
    case PAMI_XFER_ALLTOALL:
    case PAMI_XFER_ALLTOALLV:
        alltoall(build, from);
        break;
    default:
        broadcast(build, from, &way);
    }
}
