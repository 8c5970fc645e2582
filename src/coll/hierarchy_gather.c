/*
 * Gather and scatter by domains: a domain's blocks go between its members and its leader, and in
 * one message between the leaders and the root. A root that does not lead its domain has the blocks
 * of the others from or through its leader.
 *
 * What a member contributes is read at the call: a gather begins with the level of its domain. Data
 * of inner hierarchies is there only when their links run, so nothing is copied before.
 */
#include "coll/hierarchy.h"

/* Bytes of the blocks of a domain. */
static uint64_t domain_bytes(const struct build *build, uint32_t domain, uint64_t block)
{
    return levels_count(build->levels, domain) * block;
}

/* Bytes of each domain's blocks, but of the root's own. */
static uint64_t *other_domains(struct build *build, uint32_t own, uint64_t block)
{
    uint64_t *sizes = hierarchy_numbers(build, build->levels->domains);

    for (uint32_t i = 0; sizes != NULL && i < build->levels->domains; i++)
        sizes[i] = i == own ? 0 : domain_bytes(build, i, block);
    return sizes;
}

static uint64_t other_bytes(const struct build *build, uint64_t block)
{
    return (build->group->size - build_locals(build)) * block;
}

/* ---- gather ---- */

/* Another domain: to its leader, and from there to the leader of the root's. */
static void gather_elsewhere(struct build *build, const struct collective *from,
                             const struct way *way)
{
    uint64_t bytes = domain_bytes(build, build->levels->own, from->bytes);
    struct area_map all = from->send, each;
    struct collective part;

    if (!build_is_alone(build)) {
        part = hierarchy_like(from, PAMI_XFER_GATHER, way->leader);
        part.receives = way->leaders != NULL;
        if (part.receives) {
            all = hierarchy_plain(hierarchy_memory(build, bytes));
            each = hierarchy_equal(all.base, from->bytes);
            hierarchy_replace(&part.recv, &each);
        }
        hierarchy_add(build, build->levels->local, &part);
    }
    if (way->leaders == NULL)
        return;
    part = hierarchy_like(from, PAMI_XFER_GATHERV, way->domain);
    part.bytes = 0;
    part.own_bytes = bytes;
    hierarchy_replace(&part.send, &all);
    hierarchy_add(build, way->leaders, &part);
}

/* The blocks of the root's domain, between its members and the root's store: gather or scatter. */
static void move_here(struct build *build, const struct collective *from, const struct way *way,
                      const struct store *store, pami_xfer_type_t type)
{
    struct collective part = hierarchy_like(from, type, way->index);
    struct area_map blocks;

    if (store != NULL && build_is_root(build, way)) {
        blocks = store_domain(store, way->domain);
        hierarchy_replace(type == PAMI_XFER_GATHER ? &part.recv : &part.send, &blocks);
        /* What is scattered has the root's own block: in place that is not written, as it may be
         * in read-only memory. */
        part.in_place = part.in_place && (type == PAMI_XFER_SCATTER || !store->own);
    }
    hierarchy_add_inside(build, &part, from->bytes);
}

/* What the other leaders have, into the store of this one. */
static void gather_others(struct build *build, const struct collective *from, const struct way *way,
                          const struct store *store)
{
    struct collective part = hierarchy_like(from, PAMI_XFER_GATHERV, way->domain);
    struct area_map blocks = store_domains(store);

    part.bytes = 0;
    part.receives = part.in_place = true;
    part.recv_bytes = other_domains(build, way->domain, from->bytes);
    hierarchy_replace(&part.recv, &blocks);
    hierarchy_replace(&part.send, &blocks);
    hierarchy_add(build, way->leaders, &part);
}

/* All that is behind the blocks of the root's domain, between its leader and the root: gatherv or
 * scatterv. */
static void move_by_leader(struct build *build, const struct collective *from,
                           const struct way *way, const struct store *store, pami_xfer_type_t type)
{
    bool gather = type == PAMI_XFER_GATHERV;
    struct collective part = hierarchy_like(from, type, way->index);
    uint64_t *sizes = hierarchy_numbers(build, build_locals(build));
    uint64_t *starts = hierarchy_numbers(build, build_locals(build));
    struct area_map own = hierarchy_plain(NULL), blocks;

    part.bytes = 0;
    part.in_place = false;
    part.own_bytes = way->leaders != NULL ? other_bytes(build, from->bytes) : 0;
    if (store != NULL && starts != NULL) {
        starts[way->leader] = domain_bytes(build, way->domain, from->bytes);
        sizes[way->leader] = other_bytes(build, from->bytes);
        own = hierarchy_plain(store->map.base + starts[way->leader]);
        blocks = hierarchy_packed(&store->map, starts);
        hierarchy_replace(gather ? &part.recv : &part.send, &blocks);
        *(gather ? &part.recv_bytes : &part.send_bytes) = sizes;
    }
    hierarchy_replace(gather ? &part.send : &part.recv, &own);
    hierarchy_add(build, build->levels->local, &part);
}

void hierarchy_gather(struct build *build, const struct collective *from)
{
    const struct way way = hierarchy_way(build, from->root);
    bool root = build_is_root(build, &way);
    struct store *store = NULL;

    if (!way.here) {
        gather_elsewhere(build, from, &way);
        return;
    }
    if (root || way.leaders != NULL)
        store = hierarchy_store(build, root ? &from->recv : NULL, from->bytes, NULL,
                                way.direct ? FIRST_NONE : way.domain);
    move_here(build, from, &way, store, PAMI_XFER_GATHER);
    if (way.leaders != NULL && store != NULL)
        gather_others(build, from, &way, store);
    if (!way.direct)
        move_by_leader(build, from, &way, store, PAMI_XFER_GATHERV);
    if (root && store != NULL)
        store_unpack(build, store);
}

/* ---- scatter ---- */

static void scatter_elsewhere(struct build *build, const struct collective *from,
                              const struct way *way)
{
    uint64_t bytes = domain_bytes(build, build->levels->own, from->bytes);
    struct area_map all = from->recv, each;
    struct collective part;

    if (way->leaders != NULL) {
        if (!build_is_alone(build))
            all = hierarchy_plain(hierarchy_memory(build, bytes));
        part = hierarchy_like(from, PAMI_XFER_SCATTERV, way->domain);
        part.bytes = 0;
        part.own_bytes = bytes;
        hierarchy_replace(&part.recv, &all);
        hierarchy_add(build, way->leaders, &part);
    }
    if (build_is_alone(build))
        return;
    part = hierarchy_like(from, PAMI_XFER_SCATTER, way->leader);
    if (way->leaders != NULL) {
        each = hierarchy_equal(all.base, from->bytes);
        hierarchy_replace(&part.send, &each);
    }
    hierarchy_add(build, build->levels->local, &part);
}

static void scatter_others(struct build *build, const struct collective *from,
                           const struct way *way, const struct store *store)
{
    struct collective part = hierarchy_like(from, PAMI_XFER_SCATTERV, way->domain);
    struct area_map blocks = store_domains(store);

    part.bytes = 0;
    part.in_place = true;
    part.send_bytes = other_domains(build, way->domain, from->bytes);
    hierarchy_replace(&part.send, &blocks);
    hierarchy_replace(&part.recv, &blocks);
    hierarchy_add(build, way->leaders, &part);
}

void hierarchy_scatter(struct build *build, const struct collective *from)
{
    const struct way way = hierarchy_way(build, from->root);
    bool root = build_is_root(build, &way);
    struct store *store = NULL;

    if (!way.here) {
        scatter_elsewhere(build, from, &way);
        return;
    }
    if (root || way.leaders != NULL)
        store = hierarchy_store(build, root ? &from->send : NULL, from->bytes, NULL,
                                way.direct ? FIRST_NONE : way.domain);
    if (root && store != NULL)
        store_pack(build, store);
    if (!way.direct)
        move_by_leader(build, from, &way, store, PAMI_XFER_SCATTERV);
    if (way.leaders != NULL && store != NULL)
        scatter_others(build, from, &way, store);
    move_here(build, from, &way, store, PAMI_XFER_SCATTER);
}
