/*
 * Collectives of groups that divide into domains, composed of one over the members of each domain
 * and one over their leaders: what the hardware joins closely talks in shared memory, and one
 * message per node goes between nodes.
 *
 *   barrier    the domain arrives at its leader; leaders' barrier; the leader lets its domain go
 *   broadcast  among leaders, from the root if it leads; then in the domains
 *   reduce     in the domains; then among leaders, to the root if it leads
 *   allreduce  to the leader; among leaders; from the leader
 *
 * Where a root does not lead its domain, its leader stands between it and the others. The other
 * types are in hierarchy_gather.c, hierarchy_all.c and hierarchy_scan.c; several leaders at once in
 * hierarchy_slices.c.
 *
 * Links are machines of whatever algorithm Auto takes for their groups, so the leaders' part may
 * become anything else; in domains that divide in turn they are hierarchies again. Source:
 * hierarchical chaining of collectives by continuation functions.
 */
#include "coll/hierarchy.h"

#include <errno.h>
#include <string.h>

#include "coll/aggregate/aggregate.h"
#include "coll/algorithm.h"
#include "coll/coll.h"
#include "coll/compose.h"
#include "coll/machine.h"
#include "coll/select.h"
#include "util/option.h"

/* ---- memory and buffers ---- */

void *hierarchy_memory(struct build *build, uint64_t bytes)
{
    size_t size = sizeof(struct flow_memory) + bytes;
    struct flow_memory *memory =
        build->error == 0 ? stash_get(&build->group->context->stash, size) : NULL;

    if (memory == NULL) {
        build->error = build->error != 0 ? build->error : -ENOMEM;
        return NULL;
    }
    memory->next = build->memory;
    memory->bytes = size;
    build->memory = memory;
    return memory->data;
}

uint64_t *hierarchy_numbers(struct build *build, uint32_t count)
{
    uint64_t *numbers = hierarchy_memory(build, count * sizeof(*numbers));

    if (numbers != NULL)
        memset(numbers, 0, count * sizeof(*numbers));
    return numbers;
}

struct area_map hierarchy_plain(char *memory)
{
    return (struct area_map){.base = memory, .extent = 1, .blocks = BLOCKS_ONE};
}

struct area_map hierarchy_equal(char *memory, uint64_t bytes)
{
    return (struct area_map){
        .base = memory, .extent = 1, .blocks = BLOCKS_EQUAL, .distance = bytes};
}

struct area_map hierarchy_packed(const struct area_map *map, const uint64_t *starts)
{
    struct area_map packed = *map;

    packed.blocks = BLOCKS_PACKED;
    packed.starts = starts;
    return packed;
}

struct collective hierarchy_like(const struct collective *from, pami_xfer_type_t type,
                                 uint32_t root)
{
    struct collective made = *from;

    made.type = type;
    made.root = root;
    made.lists = NULL;
    made.first = NULL;
    made.send_bytes = made.recv_bytes = NULL;
    made.own_bytes = 0;
    made.send = area_ref(&made.send);
    made.recv = area_ref(&made.recv);
    return made;
}

void hierarchy_replace(struct area_map *map, const struct area_map *with)
{
    struct area_map before = *map;

    *map = area_ref(with);
    if (before.type != NULL)
        type_unref(before.type);
}

/* ---- links ---- */

/* A domain that divides again is a hierarchy, as far as there is one for this. */
static const struct algorithm *row_for(struct group *group, const struct collective *collective)
{
    const struct algorithm *row = NULL;

    if (group_has_levels(group))
        row = algorithm_find(collective->type, "Hierarchical");
    if (row != NULL && algorithm_unmet(row, collective, group) == 0)
        return row;
    return select_row(&group->context->coll->rows->select, group, collective);
}

void hierarchy_add_row(struct build *build, struct group *group, const struct algorithm *row,
                       struct collective *collective)
{
    struct flow_links *links = &build->segments[build->count - 1];

    if (row == NULL || build->error != 0) {
        collective_release(collective);
        build->error = build->error != 0 ? build->error : -ENOSYS;
        return;
    }
    if (row->make != shared_make)
        collective->first = NULL; /* parts of a composition would all set it */
    build->error = machine_make(group, row, collective, &links->machine[links->count]);
    links->count += build->error == 0;
}

void hierarchy_add(struct build *build, struct group *group, struct collective *collective)
{
    hierarchy_add_row(build, group, build->error == 0 ? row_for(group, collective) : NULL,
                      collective);
}

void hierarchy_add_inside(struct build *build, struct collective *collective, uint64_t bytes)
{
    if (!build_is_alone(build)) {
        hierarchy_add(build, build->levels->local, collective);
        return;
    }
    if (!collective->in_place && bytes != 0)
        hierarchy_copy(build, &collective->send, &collective->recv, bytes);
    collective_release(collective);
}

/* The same among leaders, by the row that this hierarchy has for them. */
static void add_leaders(struct build *build, struct group *leaders, struct collective *collective)
{
    if (build->aggregated)
        hierarchy_add_row(build, leaders, algorithm_find(collective->type, "Aggregated"),
                          collective);
    else
        hierarchy_add(build, leaders, collective);
}

void hierarchy_act(struct build *build, void (*run)(void *cookie), void *cookie)
{
    struct flow_links *links = &build->segments[build->count - 1];

    if (build->error != 0)
        return;
    links->machine[links->count] = act_make(build->group, run, cookie);
    if (links->machine[links->count] == NULL)
        build->error = -ENOMEM;
    else
        links->count++;
}

static void drop_links(struct build *build)
{
    for (uint32_t i = 0; i < build->count; i++)
        for (uint32_t x = 0; x < build->segments[i].count; x++)
            build->segments[i].machine[x]->ops->release(build->segments[i].machine[x]);
    flow_memory_free(&build->group->context->stash, build->memory);
}

struct way hierarchy_way(const struct build *build, uint32_t root)
{
    const struct levels *levels = build->levels;
    uint32_t domain = levels_domain(levels, root);
    uint32_t index = levels_index(levels, root);
    bool first = build->aggregated || option_choice(OPT_COLL_LEADERS) != 0;
    uint32_t set = index < levels->sets && !first ? index : 0;

    return (struct way){
        .leaders = levels->leaders[set],
        .domain = domain,
        .index = index,
        .leader = levels_leader(levels, levels->own, set),
        .here = domain == levels->own,
        .direct = levels_leader(levels, domain, set) == index,
    };
}

/* Everybody's data, combined, to the first of the domain. */
static void add_in(struct build *build, const struct collective *from)
{
    struct group *local = build->levels->local;
    struct collective in = hierarchy_like(from, PAMI_XFER_REDUCE, 0);

    in.receives = local->rank == 0;
    in.in_place = in.receives && from->in_place;
    hierarchy_add(build, local, &in);
}

void hierarchy_broadcast(struct build *build, struct group *group, const struct collective *from,
                         uint32_t root)
{
    struct collective out = hierarchy_like(from, PAMI_XFER_BROADCAST, root);

    hierarchy_replace(&out.send, &out.recv);
    out.in_place = true;
    out.receives = true;
    hierarchy_add(build, group, &out);
}

static void link_barrier(struct build *build, const struct collective *from)
{
    const struct levels *levels = build->levels;
    struct collective token = *from;
    char *bytes = hierarchy_memory(build, 2);

    if (bytes == NULL)
        return;
    memset(bytes, 0, 2);
    token.bytes = 1; /* of no bytes nothing would be sent where there is no arena */
    token.send = hierarchy_plain(bytes);
    token.recv = hierarchy_plain(bytes + 1);
    token.op = PAMI_DATA_BOR;
    token.kind = TYPE_KIND_BYTE;
    token.element = 1;
    token.commutative = true;
    if (!build_is_alone(build))
        add_in(build, &token);
    if (levels->leaders[0] != NULL) {
        struct collective among = hierarchy_like(from, PAMI_XFER_BARRIER, 0);

        add_leaders(build, levels->leaders[0], &among);
    }
    if (!build_is_alone(build))
        hierarchy_broadcast(build, levels->local, &token, 0);
}

static void link_allreduce(struct build *build, const struct collective *from)
{
    const struct levels *levels = build->levels;

    if (!build_is_alone(build))
        add_in(build, from);
    else
        build->segments[build->count - 1].ahead = 0;
    if (levels->leaders[0] != NULL) {
        struct collective among = hierarchy_like(from, PAMI_XFER_ALLREDUCE, 0);

        if (!build_is_alone(build)) {
            hierarchy_replace(&among.send, &among.recv);
            among.in_place = true;
        }
        add_leaders(build, levels->leaders[0], &among);
    }
    if (!build_is_alone(build))
        hierarchy_broadcast(build, levels->local, from, 0);
}

static void link_broadcast(struct build *build, const struct collective *from)
{
    const struct way way = hierarchy_way(build, from->root);
    struct group *local = build->levels->local;
    bool before = way.here && !way.direct;

    if (before)
        hierarchy_broadcast(build, local, from, way.index);
    if (way.leaders != NULL)
        hierarchy_broadcast(build, way.leaders, from, way.domain);
    if (!before && !build_is_alone(build))
        hierarchy_broadcast(build, local, from, way.leader);
}

/* Another domain: to its leader, and from there to the leader of the root's. */
static void link_reduce_elsewhere(struct build *build, const struct collective *from,
                                  const struct way *way)
{
    const struct area_map scratch = hierarchy_plain(hierarchy_memory(build, from->bytes));
    struct collective part;

    if (!build_is_alone(build)) {
        part = hierarchy_like(from, PAMI_XFER_REDUCE, way->leader);
        part.receives = way->leaders != NULL;
        part.in_place = false;
        if (part.receives)
            hierarchy_replace(&part.recv, &scratch);
        hierarchy_add(build, build->levels->local, &part);
    }
    if (way->leaders == NULL)
        return;
    part = hierarchy_like(from, PAMI_XFER_REDUCE, way->domain);
    part.receives = part.in_place = false;
    if (!build_is_alone(build))
        hierarchy_replace(&part.send, &scratch);
    add_leaders(build, way->leaders, &part);
}

/* To the root, which is given what the other domains have. */
static void link_reduce_direct(struct build *build, const struct collective *from,
                               const struct way *way)
{
    struct collective part;

    if (!build_is_alone(build)) {
        part = hierarchy_like(from, PAMI_XFER_REDUCE, way->index);
        hierarchy_add(build, build->levels->local, &part);
    }
    if (way->leaders == NULL)
        return;
    part = hierarchy_like(from, PAMI_XFER_REDUCE, way->domain);
    if (!build_is_alone(build)) {
        hierarchy_replace(&part.send, &part.recv);
        part.in_place = true;
    }
    add_leaders(build, way->leaders, &part);
}

/* The leader collects from the others, and the root from all of its domain. */
static void link_reduce_by_leader(struct build *build, const struct collective *from,
                                  const struct way *way)
{
    const struct area_map scratch = hierarchy_plain(hierarchy_memory(build, from->bytes));
    struct collective part;

    if (way->leaders != NULL) {
        part = hierarchy_like(from, PAMI_XFER_REDUCE, way->domain);
        part.receives = true;
        part.in_place = false;
        hierarchy_replace(&part.recv, &scratch);
        add_leaders(build, way->leaders, &part);
    }
    part = hierarchy_like(from, PAMI_XFER_REDUCE, way->index);
    if (way->leaders != NULL)
        hierarchy_replace(&part.send, &scratch);
    hierarchy_add(build, build->levels->local, &part);
}

static void link_reduce(struct build *build, const struct collective *from)
{
    const struct way way = hierarchy_way(build, from->root);

    if (!way.here)
        link_reduce_elsewhere(build, from, &way);
    else if (way.direct)
        link_reduce_direct(build, from, &way);
    else
        link_reduce_by_leader(build, from, &way);
}

/* ---- segments ---- */

static uint64_t segment_of(const struct algorithm *row, const struct collective *whole)
{
    uint64_t least = (whole->bytes + FLOW_SEGMENTS_MAX - 1) / FLOW_SEGMENTS_MAX;
    uint64_t segment = option_bytes(OPT_COLL_SEGMENT);

    /* What has to be read at the call is in one piece: later segments start after it. */
    if (row->segment == SEGMENT_WHOLE || whole->bytes <= segment ||
        whole->bytes <= COLLECTIVE_KEEP_BYTES)
        return whole->bytes;
    segment = segment < least ? least : segment;
    return (segment + whole->element - 1) / whole->element * whole->element;
}

static void link_segment(struct build *build, const struct collective *part)
{
    if (build->sliced) {
        hierarchy_slices(build, part);
        return;
    }
    if (build->direct && (build->levels->ordered || collective_is_vector(part->type))) {
        hierarchy_direct(build, part);
        return;
    }
    if (build->voices && build->levels->nodes != NULL) {
        hierarchy_voices(build, part);
        return;
    }
    switch (part->type) {
    case PAMI_XFER_BARRIER:
        link_barrier(build, part);
        break;
    case PAMI_XFER_ALLREDUCE:
        link_allreduce(build, part);
        break;
    case PAMI_XFER_REDUCE:
        link_reduce(build, part);
        break;
    case PAMI_XFER_GATHER:
        hierarchy_gather(build, part);
        break;
    case PAMI_XFER_SCATTER:
        hierarchy_scatter(build, part);
        break;
    case PAMI_XFER_ALLGATHER:
    case PAMI_XFER_ALLGATHERV:
        hierarchy_allgather(build, part);
        break;
    case PAMI_XFER_ALLTOALL:
        hierarchy_alltoall(build, part);
        break;
    case PAMI_XFER_SCAN:
        hierarchy_scan(build, part);
        break;
    case PAMI_XFER_REDUCE_SCATTER:
        hierarchy_reduce_scatter(build, part);
        break;
    default:
        link_broadcast(build, part);
    }
}

/* Links of all segments. */
static void link_all(struct build *build, const struct algorithm *row,
                     const struct collective *whole)
{
    uint64_t segment = segment_of(row, whole), offset = 0;
    uint64_t *starts = NULL;

    if (segment < whole->bytes)
        starts = hierarchy_numbers(build, 2 * FLOW_SEGMENTS_MAX);

    while (build->error == 0) {
        uint64_t left = whole->bytes - offset;
        struct collective part = *whole;

        part.bytes = left < segment ? left : segment;
        part.agreed = collective_digest(whole);
        build->segments[build->count] = (struct flow_links){.ahead = 1};
        if (part.bytes != whole->bytes) {
            part.send = area_from(&whole->send, &starts[2 * build->count], offset);
            part.recv = area_from(&whole->recv, &starts[2 * build->count + 1], offset);
        }
        build->count++;
        link_segment(build, &part);
        offset += part.bytes;
        if (offset == whole->bytes)
            break;
    }
}

/* What was kept has made its links already. */
static int prepare_leaders(struct group *group)
{
    const struct levels *levels = levels_of(group);

    if (levels == NULL)
        return -ENOMEM;
    return levels->leaders[0] != NULL ? aggregate_prepare(levels->leaders[0]) : 0;
}

int hierarchy_make(struct group *group, const struct algorithm *row, struct collective *collective,
                   struct machine **machine)
{
    struct build build;

    if (row->aggregated && prepare_leaders(group) != 0) {
        collective_release(collective);
        return -ENOMEM;
    }
    *machine = flow_kept(group, row, collective);
    if (*machine != NULL)
        return 0;
    build.group = group;
    build.levels = levels_of(group);
    build.count = 0;
    build.sliced = row->slices;
    build.voices = row->voices;
    build.direct = row->direct;
    build.aggregated = row->aggregated;
    build.memory = NULL;
    build.error = build.levels != NULL ? 0 : -ENOMEM;
    link_all(&build, row, collective);
    if (build.error == 0) {
        *machine = flow_make(group, row, build.segments, build.count, collective, build.memory);
        if (*machine != NULL)
            return 0;
        build.error = -ENOMEM;
    }
    drop_links(&build);
    collective_release(collective);
    return build.error;
}
