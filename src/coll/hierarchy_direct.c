/*
 * Gather, scatter, alltoall and broadcast by domains without leaders: what stays in a domain goes
 * through its memory, and what leaves it goes straight from its source to its destination. Both are
 * under way at once, as two segments of a flow. No data is moved twice, and no member waits for
 * another one to pass something on; but there are as many messages as there would be without
 * domains, less those inside.
 *
 * The first segment is a gatherv, scatterv or alltoallv of all members in which those of the own
 * (the root's) domain have no bytes for each other. Members of a domain have consecutive ranks.
 */
#include "coll/hierarchy.h"

static void next_segment(struct build *build)
{
    build->segments[build->count++] = (struct flow_links){.ahead = 1};
}

/* Bytes of each member's block, but of the members of domain `but`. */
static uint64_t *sizes_but(struct build *build, uint32_t but, uint64_t bytes)
{
    uint64_t *sizes = hierarchy_numbers(build, build->group->size);

    for (uint32_t rank = 0; sizes != NULL && rank < build->group->size; rank++)
        sizes[rank] = levels_domain(build->levels, rank) == but ? 0 : bytes;
    return sizes;
}

/* The blocks of the own domain's members, which follow one another. */
static struct area_map blocks_here(const struct build *build, const struct area_map *map)
{
    struct area_map here = *map;

    here.base = area_place(map, levels_rank(build->levels, build->levels->own, 0), 0).address;
    return here;
}

static void add_or_copy(struct build *build, struct collective *part, uint64_t bytes)
{
    if (!build_is_alone(build)) {
        hierarchy_add(build, build->levels->local, part);
        return;
    }
    if (!part->in_place && bytes != 0)
        hierarchy_copy(build, &part->send, &part->recv, bytes);
    collective_release(part);
}

/* ---- one root ---- */

/* The first segment: `part` among all members, of whose sizes the root has a list. */
static void outside(struct build *build, struct collective *part, const uint64_t **sizes,
                    const struct collective *from, const struct way *way)
{
    part->bytes = 0;
    part->own_bytes = way->here ? 0 : from->bytes;
    part->in_place = false;
    if (build_is_root(build, way))
        *sizes = sizes_but(build, way->domain, from->bytes);
    hierarchy_add(build, build->group, part);
    next_segment(build);
}

static void gather(struct build *build, const struct collective *from, const struct way *way)
{
    struct collective part = hierarchy_like(from, PAMI_XFER_GATHERV, from->root);
    struct area_map blocks;

    outside(build, &part, &part.recv_bytes, from, way);
    if (!way->here)
        return;
    part = hierarchy_like(from, PAMI_XFER_GATHER, way->index);
    if (build_is_root(build, way)) {
        blocks = blocks_here(build, &from->recv);
        hierarchy_replace(&part.recv, &blocks);
    }
    add_or_copy(build, &part, from->bytes);
}

static void scatter(struct build *build, const struct collective *from, const struct way *way)
{
    struct collective part = hierarchy_like(from, PAMI_XFER_SCATTERV, from->root);
    struct area_map blocks;

    outside(build, &part, &part.send_bytes, from, way);
    if (!way->here)
        return;
    part = hierarchy_like(from, PAMI_XFER_SCATTER, way->index);
    if (build_is_root(build, way)) {
        blocks = blocks_here(build, &from->send);
        hierarchy_replace(&part.send, &blocks);
    }
    add_or_copy(build, &part, from->bytes);
}

/* A scatter whose blocks are all the same. */
static void broadcast(struct build *build, const struct collective *from, const struct way *way)
{
    struct collective part = hierarchy_like(from, PAMI_XFER_SCATTERV, from->root);

    hierarchy_replace(&part.send, &from->recv);
    outside(build, &part, &part.send_bytes, from, way);
    if (way->here && !build_is_alone(build))
        hierarchy_broadcast(build, build->levels->local, from, way->index);
}

/* ---- alltoall ---- */

static void alltoall(struct build *build, const struct collective *from)
{
    uint64_t all = build->group->size * from->bytes;
    uint64_t *sizes = sizes_but(build, build->levels->own, from->bytes);
    struct collective part = hierarchy_like(from, PAMI_XFER_ALLTOALLV, 0);
    struct area_map send = from->send, here, there;

    if (from->in_place) {
        here = hierarchy_plain(hierarchy_memory(build, all));
        send.blocks = BLOCKS_ONE;
        hierarchy_copy(build, &send, &here, all);
        send = hierarchy_equal(here.base, from->bytes);
    }
    part.bytes = 0;
    part.in_place = false;
    part.send_bytes = part.recv_bytes = sizes;
    hierarchy_replace(&part.send, &send);
    hierarchy_add(build, build->group, &part);
    if (!from->in_place) /* else what is copied comes first */
        next_segment(build);
    part = hierarchy_like(from, PAMI_XFER_ALLTOALL, 0);
    part.in_place = false;
    here = blocks_here(build, &send);
    there = blocks_here(build, &from->recv);
    hierarchy_replace(&part.send, &here);
    hierarchy_replace(&part.recv, &there);
    add_or_copy(build, &part, from->bytes);
}

void hierarchy_direct(struct build *build, const struct collective *from)
{
    const struct way way = hierarchy_way(build, from->root);

    if (from->type == PAMI_XFER_GATHER)
        gather(build, from, &way);
    else if (from->type == PAMI_XFER_SCATTER)
        scatter(build, from, &way);
    else if (from->type == PAMI_XFER_ALLTOALL)
        alltoall(build, from);
    else
        broadcast(build, from, &way);
}
