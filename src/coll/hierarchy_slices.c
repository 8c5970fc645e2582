/*
 * Large messages by several leaders of each domain at once: member i of every domain takes slice i
 * of the message between domains, so that all of them share the work that one leader would have.
 *
 *   broadcast   to the root's domain; slices among leaders; all slices to all in the other domains
 *   reduce      slices to their leaders; among leaders; from those of the root's domain to the root
 *   allreduce   slices to their leaders; among leaders; all slices to all in the domains
 *
 * There are as many slices as the smallest domain has members, fewer if they were shorter than an
 * eighth of PAMI_COLL_SEGMENT: another message then costs more than it saves.
 */
#include "coll/hierarchy.h"

#include "util/option.h"

/* Slices by the members of the own domain; those without one have no bytes. */
struct slices {
    uint64_t *sizes, *starts;
    uint32_t own; /* this member, among those of its domain */
    bool leads;
    char *part; /* combined by this member, for reductions */
};

static uint32_t count_slices(const struct levels *levels, uint64_t bytes)
{
    uint64_t most = bytes / (option_bytes(OPT_COLL_SEGMENT) / 8 + 1);
    uint32_t count = levels->sets;

    for (uint32_t i = 0; i < levels->domains; i++)
        count = levels_count(levels, i) < count ? levels_count(levels, i) : count;
    return most >= count ? count : most > 1 ? (uint32_t)most : 1;
}

static struct slices make_slices(struct build *build, const struct collective *from)
{
    uint32_t locals = build_locals(build), count = count_slices(build->levels, from->bytes);
    uint64_t elements = from->bytes / from->element, at = 0;
    struct slices slices = {
        .sizes = hierarchy_numbers(build, locals),
        .starts = hierarchy_numbers(build, locals),
        .own = build->levels->local->rank,
    };

    slices.leads = slices.own < count;
    for (uint32_t i = 0; build->error == 0 && i < locals; i++) {
        if (i < count)
            slices.sizes[i] = (elements / count + (i < elements % count)) * from->element;
        slices.starts[i] = at;
        at += slices.sizes[i];
    }
    return slices;
}

/* The own slice of a buffer. */
static struct area_map slice_of(const struct slices *slices, const struct area_map *map)
{
    return hierarchy_packed(map, &slices->starts[slices->own]);
}

/* The slices of the domain's data, combined, to their leaders. */
static void combine_slices(struct build *build, const struct collective *from,
                           struct slices *slices)
{
    struct collective part = hierarchy_like(from, PAMI_XFER_REDUCE_SCATTER, 0);
    struct area_map send = hierarchy_packed(&from->send, slices->starts), recv;

    slices->part = hierarchy_memory(build, slices->sizes[slices->own]);
    recv = hierarchy_plain(slices->part);
    part.send_bytes = part.recv_bytes = slices->sizes;
    part.own_bytes = slices->sizes[slices->own];
    part.receives = true;
    part.in_place = false;
    hierarchy_replace(&part.send, &send);
    hierarchy_replace(&part.recv, &recv);
    hierarchy_add(build, build->levels->local, &part);
}

/* A link among the leaders of the own slice; `recv` NULL: nothing is received. */
static void slice_among(struct build *build, const struct collective *from, pami_xfer_type_t type,
                        uint32_t root, const struct slices *slices, const struct area_map *send,
                        const struct area_map *recv)
{
    struct collective part = hierarchy_like(from, type, root);

    part.bytes = slices->sizes[slices->own];
    part.in_place = send == recv;
    part.receives = recv != NULL;
    hierarchy_replace(&part.send, send);
    if (recv != NULL)
        hierarchy_replace(&part.recv, recv);
    hierarchy_add(build, build->levels->leaders[slices->own], &part);
}

/* Every slice is in the receive buffer of its leader: to all of the domain. */
static void slices_to_all(struct build *build, const struct collective *from,
                          const struct slices *slices)
{
    struct collective part = hierarchy_like(from, PAMI_XFER_ALLGATHERV, 0);
    const struct area_map own = slice_of(slices, &from->recv);
    const struct area_map all = hierarchy_packed(&from->recv, slices->starts);

    part.bytes = 0;
    part.own_bytes = slices->sizes[slices->own];
    part.recv_bytes = slices->sizes;
    part.receives = part.in_place = true;
    hierarchy_replace(&part.send, &own);
    hierarchy_replace(&part.recv, &all);
    hierarchy_add(build, build->levels->local, &part);
}

static void sliced_broadcast(struct build *build, const struct collective *from,
                             const struct slices *slices)
{
    const struct area_map own = slice_of(slices, &from->recv);
    const struct levels *levels = build->levels;
    uint32_t domain = levels_domain(levels, from->root);
    bool here = domain == levels->own;

    if (here && !build_is_alone(build))
        hierarchy_broadcast(build, levels->local, from, levels_index(levels, from->root));
    if (slices->leads)
        slice_among(build, from, PAMI_XFER_BROADCAST, domain, slices, &own, &own);
    if (!here && !build_is_alone(build))
        slices_to_all(build, from, slices);
}

static void sliced_allreduce(struct build *build, const struct collective *from,
                             struct slices *slices)
{
    const struct area_map into = slice_of(slices, &from->recv);
    struct area_map part;

    combine_slices(build, from, slices);
    part = hierarchy_plain(slices->part);
    if (slices->leads)
        slice_among(build, from, PAMI_XFER_ALLREDUCE, 0, slices, &part, &into);
    slices_to_all(build, from, slices);
}

/* From the leaders of the root's domain to the root, which has its own slice. */
static void slices_to_root(struct build *build, const struct collective *from,
                           const struct slices *slices, uint32_t root, const struct area_map *own)
{
    struct collective part = hierarchy_like(from, PAMI_XFER_GATHERV, root);
    const struct area_map all = hierarchy_packed(&from->recv, slices->starts);

    part.bytes = 0;
    part.own_bytes = slices->sizes[slices->own];
    part.in_place = part.receives = slices->own == root;
    part.recv_bytes = part.receives ? slices->sizes : NULL;
    if (part.receives)
        hierarchy_replace(&part.recv, &all);
    hierarchy_replace(&part.send, own);
    hierarchy_add(build, build->levels->local, &part);
}

static void sliced_reduce(struct build *build, const struct collective *from, struct slices *slices)
{
    const struct levels *levels = build->levels;
    uint32_t domain = levels_domain(levels, from->root);
    uint32_t root = levels_index(levels, from->root);
    bool here = domain == levels->own;
    struct area_map part, into;

    combine_slices(build, from, slices);
    part = hierarchy_plain(slices->part);
    if (here && slices->own == root)
        into = slice_of(slices, &from->recv);
    else
        into = hierarchy_plain(here ? hierarchy_memory(build, slices->sizes[slices->own]) : NULL);
    if (slices->leads)
        slice_among(build, from, PAMI_XFER_REDUCE, domain, slices, &part, here ? &into : NULL);
    if (here)
        slices_to_root(build, from, slices, root, &into);
}

void hierarchy_slices(struct build *build, const struct collective *from)
{
    struct slices slices = make_slices(build, from);

    if (build->error != 0)
        return;
    if (from->type == PAMI_XFER_BROADCAST)
        sliced_broadcast(build, from, &slices);
    else if (from->type == PAMI_XFER_REDUCE)
        sliced_reduce(build, from, &slices);
    else
        sliced_allreduce(build, from, &slices);
}
