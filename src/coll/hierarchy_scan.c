/*
 * Scan and reduce-scatter by domains.
 *
 *   scan             in the domains; what all of a domain have to its leader; an exclusive scan
 *                    among leaders; what the domains before have to all, who put it in front
 *   reduce_scatter   to the leader; among leaders, a block for each domain; from the leader
 *
 * A scan by domains needs members whose ranks follow one another, and then no commutative operator.
 * Blocks of a reduce-scatter are brought to the order of domains where ranks have another.
 *
 * What a member contributes is read at the call; where a second link wants it as well, a small one
 * is copied.
 */
#include <string.h>

#include "coll/hierarchy.h"

/* ---- scan ---- */

struct scan {
    struct collective whole; /* the flow keeps its types */
    char *kept;              /* the contribution, NULL: where it was */
    char *total, *before;    /* what the domain has, and what those before it have */
    char *result;            /* the user's buffer, or in its place where that has gaps */
    bool front;              /* something is to be put in front of the result */
    bool first;              /* of its domain */
};

static struct area_map contribution(const struct scan *scan)
{
    return scan->kept != NULL ? hierarchy_plain(scan->kept) : scan->whole.send;
}

static void keep(void *cookie)
{
    const struct scan *scan = cookie;
    const struct message_place from = area_place(&scan->whole.send, 0, 0);
    const struct message_place to = {.address = scan->kept};

    place_copy(&to, &from, scan->whole.bytes);
}

static void finish(void *cookie)
{
    const struct scan *scan = cookie;
    const struct collective *whole = &scan->whole;
    const struct message_place from = {.address = scan->result};
    const struct message_place to = area_place(&whole->recv, 0, 0);

    if (whole->bytes == 0 || (whole->exclusive && scan->first && !scan->front))
        return;
    if (scan->front && scan->first && whole->exclusive)
        memcpy(scan->result, scan->before, whole->bytes);
    else if (scan->front && operator_is_user(whole->op))
        whole->op(scan->result, scan->before, whole->bytes, whole->op_cookie);
    else if (scan->front)
        operator_apply(whole->op, whole->kind, scan->result, scan->before, whole->bytes);
    if (whole->recv.type != NULL)
        place_copy(&to, &from, whole->bytes);
}

/* What the domain has to its leader. */
static void scan_total(struct build *build, const struct scan *scan)
{
    struct group *local = build->levels->local;
    const struct area_map send = contribution(scan), total = hierarchy_plain(scan->total);
    struct collective part = hierarchy_like(&scan->whole, PAMI_XFER_REDUCE, 0);

    part.receives = local->rank == 0;
    part.in_place = part.exclusive = false;
    hierarchy_replace(&part.send, &send);
    hierarchy_replace(&part.recv, &total);
    hierarchy_add(build, local, &part);
}

static void scan_here(struct build *build, const struct scan *scan)
{
    const struct area_map send = contribution(scan), result = hierarchy_plain(scan->result);
    struct collective part = hierarchy_like(&scan->whole, PAMI_XFER_SCAN, 0);

    part.in_place = part.in_place && part.recv.type == NULL;
    hierarchy_replace(&part.send, &send);
    hierarchy_replace(&part.recv, &result);
    hierarchy_add(build, build->levels->local, &part);
}

/* Nobody wants what the last domain has: its leader gives what it has itself. */
static void scan_among(struct build *build, const struct scan *scan, bool gives)
{
    const struct area_map own = contribution(scan), total = hierarchy_plain(scan->total);
    const struct area_map before = hierarchy_plain(scan->before);
    struct collective part = hierarchy_like(&scan->whole, PAMI_XFER_SCAN, 0);

    part.in_place = false;
    part.exclusive = true;
    hierarchy_replace(&part.send, gives && !build_is_alone(build) ? &total : &own);
    hierarchy_replace(&part.recv, &before);
    hierarchy_add(build, build->levels->leaders[0], &part);
}

static void scan_out(struct build *build, const struct scan *scan)
{
    const struct area_map before = hierarchy_plain(scan->before);
    struct collective part = hierarchy_like(&scan->whole, PAMI_XFER_BROADCAST, 0);

    part.in_place = true;
    part.exclusive = false;
    hierarchy_replace(&part.send, &before);
    hierarchy_replace(&part.recv, &before);
    hierarchy_add(build, build->levels->local, &part);
}

static struct scan *make_scan(struct build *build, const struct collective *from)
{
    struct scan *scan = hierarchy_memory(build, sizeof(*scan));

    if (scan == NULL)
        return NULL;
    *scan = (struct scan){
        .whole = *from, .front = build->levels->own != 0, .first = build->levels->local->rank == 0};
    scan->total = hierarchy_memory(build, from->bytes);
    scan->before = hierarchy_memory(build, from->bytes);
    scan->result = area_place(&from->recv, 0, 0).address;
    if (from->recv.type != NULL)
        scan->result = hierarchy_memory(build, from->bytes);
    if (!from->in_place && from->bytes <= COLLECTIVE_KEEP_BYTES)
        scan->kept = hierarchy_memory(build, from->bytes);
    return build->error == 0 ? scan : NULL;
}

/* The only member of its domain has its own, and what those before have. */
static void copy_own(void *cookie)
{
    const struct scan *scan = cookie;
    const struct area_map own = contribution(scan);
    const struct message_place from = area_place(&own, 0, 0);
    const struct message_place to = {.address = scan->result};

    if (!scan->whole.exclusive && (!scan->whole.in_place || scan->whole.recv.type != NULL))
        place_copy(&to, &from, scan->whole.bytes);
}

void hierarchy_scan(struct build *build, const struct collective *from)
{
    const struct levels *levels = build->levels;
    bool gives = levels->own + 1 < levels->domains;
    struct scan *scan = make_scan(build, from);

    if (scan == NULL)
        return;
    if (scan->kept != NULL)
        hierarchy_act(build, keep, scan);
    if (!build_is_alone(build)) {
        if (gives)
            scan_total(build, scan);
        scan_here(build, scan);
    }
    if (levels->leaders[0] != NULL)
        scan_among(build, scan, gives);
    if (build_is_alone(build))
        hierarchy_act(build, copy_own, scan);
    else if (scan->front)
        scan_out(build, scan);
    hierarchy_act(build, finish, scan);
}

/* ---- reduce-scatter ---- */

/* All of a domain's data, combined, to its leader's store, which puts the blocks in order. */
static void combine_in(struct build *build, const struct collective *from, struct store *store)
{
    struct group *local = build->levels->local;
    struct collective part = hierarchy_like(from, PAMI_XFER_REDUCE, 0);
    struct area_map send = hierarchy_as_one(&from->send), recv = hierarchy_plain(NULL);

    part.receives = store != NULL;
    part.in_place = false;
    if (store != NULL && build->levels->ordered)
        recv = store->map;
    else if (store != NULL)
        recv = store->user = hierarchy_plain(hierarchy_memory(build, from->bytes));
    hierarchy_replace(&part.send, &send);
    hierarchy_replace(&part.recv, &recv);
    hierarchy_add(build, local, &part);
    if (store == NULL || build->levels->ordered)
        return;
    store->user = hierarchy_packed(&store->user, from->send.starts);
    store_pack(build, store);
}

/* Where the data of the only member of a domain lies in the order of domains. */
static struct area_map blocks_alone(struct build *build, const struct collective *from,
                                    struct store *store)
{
    if (build->levels->ordered)
        return hierarchy_packed(&from->send, store->starts);
    store->user = from->send;
    store_pack(build, store);
    return store_domains(store);
}

/* A domain's blocks to its leader, who has its own directly when it is alone. */
static void combine_among(struct build *build, const struct collective *from, struct store *store,
                          char *own)
{
    const struct levels *levels = build->levels;
    struct area_map send =
        build_is_alone(build) ? blocks_alone(build, from, store) : store_domains(store);
    struct collective part = hierarchy_like(from, PAMI_XFER_REDUCE_SCATTER, 0);
    uint64_t *sizes = hierarchy_numbers(build, levels->domains);
    struct area_map recv = hierarchy_plain(own);

    for (uint32_t i = 0; sizes != NULL && i < levels->domains; i++)
        sizes[i] = store->starts[i + 1] - store->starts[i];
    part.send_bytes = part.recv_bytes = sizes;
    part.own_bytes = store->starts[levels->own + 1] - store->starts[levels->own];
    part.in_place = from->in_place && build_is_alone(build) && levels->ordered;
    hierarchy_replace(&part.send, &send);
    if (own != NULL)
        hierarchy_replace(&part.recv, &recv);
    hierarchy_add(build, levels->leaders[0], &part);
}

static bool all_equal(const uint64_t *sizes, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        if (sizes[i] != sizes[0])
            return false;
    return true;
}

static void blocks_out(struct build *build, const struct collective *from, char *blocks)
{
    const struct levels *levels = build->levels;
    bool equal = all_equal(from->recv_bytes, build->group->size);
    struct collective part =
        hierarchy_like(from, equal ? PAMI_XFER_SCATTER : PAMI_XFER_SCATTERV, 0);
    uint64_t *sizes = hierarchy_numbers(build, build_locals(build));
    uint64_t *starts = hierarchy_numbers(build, build_locals(build));
    struct area_map send = hierarchy_equal(blocks, from->own_bytes);
    const struct area_map packed = hierarchy_packed(&send, starts);
    uint64_t at = 0;

    for (uint32_t i = 0; starts != NULL && i < build_locals(build); i++) {
        starts[i] = at;
        sizes[i] = from->recv_bytes[levels_rank(levels, levels->own, i)];
        at += sizes[i];
    }
    part.in_place = false;
    part.bytes = equal ? from->own_bytes : 0;
    part.own_bytes = equal ? 0 : from->own_bytes;
    part.send_bytes = equal || blocks == NULL ? NULL : sizes;
    hierarchy_replace(&part.send, equal ? &send : &packed);
    hierarchy_add(build, levels->local, &part);
}

void hierarchy_reduce_scatter(struct build *build, const struct collective *from)
{
    const struct levels *levels = build->levels;
    bool leads = levels->leaders[0] != NULL, alone = build_is_alone(build);
    struct store *store = NULL;
    char *own = NULL;

    if (leads) {
        store = hierarchy_store(build, NULL, 0, from->send_bytes, FIRST_NONE);
        if (store != NULL && !alone)
            own = hierarchy_memory(build,
                                   store->starts[levels->own + 1] - store->starts[levels->own]);
        if (build->error != 0)
            return;
    }
    if (!alone)
        combine_in(build, from, store);
    if (leads)
        combine_among(build, from, store, own);
    if (!alone)
        blocks_out(build, from, own);
}
