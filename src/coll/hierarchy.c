/*
 * Collectives over several nodes, composed of one over the members of each node and one over their
 * leaders (the first member of each node): what the hardware joins closely talks in shared memory,
 * and one message per node goes between nodes.
 *
 *   barrier    the node arrives at its leader; leaders' barrier; the leader lets its node go
 *   broadcast  on the root's node first; then among leaders; then on the other nodes
 *   allreduce  to the leader; among leaders; from the leader
 *   reduce     to the leader of each other node; to the leader of the root's; to the root
 *
 * Levels are machines of whatever algorithm Auto takes for their groups, so the leaders' part may
 * become anything else. Source: hierarchical chaining of collectives by continuation functions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "coll/algorithm.h"
#include "coll/coll.h"
#include "coll/collective.h"
#include "coll/flow.h"
#include "coll/machine.h"
#include "coll/select.h"
#include "util/option.h"

/* Where the maps of segments begin, in front of the scratch. */
#define STARTS_BYTES (2 * FLOW_SEGMENTS_MAX * sizeof(uint64_t))

/* The groups of a member's levels; made at the first use, freed with the group. */
struct levels {
    struct group *local;
    struct group *leaders; /* NULL: this member is none */
    uint32_t nodes;
    uint32_t node_ids[]; /* in the order of the leaders' ranks */
};

static uint32_t node_of_rank(const struct group *group, uint32_t rank)
{
    uint32_t task = endpoint_task(topology_endpoint(group->topology, rank));
    uint32_t node = UINT32_MAX;

    bootstrap_node_of(group->context->core->bootstrap, task, &node);
    return node;
}

static uint32_t index_of_node(const struct levels *levels, uint32_t node)
{
    uint32_t index = 0;

    while (index < levels->nodes && levels->node_ids[index] != node)
        index++;
    return index;
}

/* ranks[0..size) become the leaders' ranks, from[0..) those of this node's members. */
static void find_members(struct group *group, struct levels *levels, uint32_t *leaders,
                         uint32_t *local, uint32_t *locals)
{
    uint32_t own = node_of_rank(group, group->rank);

    *locals = 0;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        uint32_t node = node_of_rank(group, rank);

        if (node == own)
            local[(*locals)++] = rank;
        if (index_of_node(levels, node) == levels->nodes) {
            leaders[levels->nodes] = rank;
            levels->node_ids[levels->nodes++] = node;
        }
    }
}

static int make_groups(struct group *group, struct levels *levels, uint32_t *scratch)
{
    uint32_t *leaders = scratch, *local = scratch + group->size, locals;
    int error;

    find_members(group, levels, leaders, local, &locals);
    error = group_make_sub(group, COLL_CHANNEL_LOCAL, local, locals, &levels->local);
    if (error == 0 && local[0] == group->rank)
        error =
            group_make_sub(group, COLL_CHANNEL_LEADERS, leaders, levels->nodes, &levels->leaders);
    return error;
}

static const struct levels *levels_of(struct group *group)
{
    struct levels *levels = group->state->levels;
    uint32_t *scratch;

    if (levels != NULL)
        return levels;
    levels = calloc(1, sizeof(*levels) + group->size * sizeof(levels->node_ids[0]));
    scratch = malloc(2 * (size_t)group->size * sizeof(*scratch));
    if (levels == NULL || scratch == NULL || make_groups(group, levels, scratch) != 0) {
        free(levels);
        levels = NULL;
    }
    free(scratch);
    group->state->levels = levels;
    return levels;
}

/* ---- links ---- */

/* What is made for the segments of a collective. */
struct build {
    const struct levels *levels;
    struct flow_links segments[FLOW_SEGMENTS_MAX];
    uint32_t count; /* segments with links */
    char *scratch;  /* of the whole message, or NULL */
    int error;
};

static void drop_links(struct build *build)
{
    for (uint32_t i = 0; i < build->count; i++)
        for (uint32_t x = 0; x < build->segments[i].count; x++)
            build->segments[i].machine[x]->ops->release(build->segments[i].machine[x]);
}

/* A collective like `from` on another group: the same buffers, their types held once more. */
static struct collective like(const struct collective *from, pami_xfer_type_t type, uint32_t root)
{
    struct collective made = *from;

    made.type = type;
    made.root = root;
    made.lists = NULL;
    if (made.send.type != NULL)
        type_ref(made.send.type);
    if (made.recv.type != NULL)
        type_ref(made.recv.type);
    return made;
}

static void replace(struct area_map *map, const struct area_map *with)
{
    if (with->type != NULL)
        type_ref(with->type);
    if (map->type != NULL)
        type_unref(map->type);
    *map = *with;
}

/* Takes *collective over. */
static void add(struct build *build, struct group *group, struct collective *collective)
{
    struct flow_links *links = &build->segments[build->count - 1];
    const struct algorithm *row;

    row = select_row(&group->context->coll->rows->select, group, collective);
    if (build->error != 0 || row == NULL) {
        collective_release(collective);
        build->error = build->error != 0 ? build->error : -ENOSYS;
        return;
    }
    build->error = machine_make(group, row, collective, &links->machine[links->count]);
    links->count += build->error == 0;
}

static bool is_alone(const struct build *build)
{
    return build->levels->local->size == 1;
}

/* Everybody's data, combined, to the leader of the node. */
static void add_in(struct build *build, const struct collective *from)
{
    struct group *local = build->levels->local;
    struct collective in = like(from, PAMI_XFER_REDUCE, 0);

    in.receives = local->rank == 0;
    in.in_place = in.receives && from->in_place;
    add(build, local, &in);
}

/* From member `root` of the group to its others. */
static void add_out(struct build *build, struct group *group, const struct collective *from,
                    uint32_t root)
{
    struct collective out = like(from, PAMI_XFER_BROADCAST, root);

    replace(&out.send, &out.recv);
    out.in_place = true;
    out.receives = true;
    add(build, group, &out);
}

static void link_barrier(struct build *build, const struct collective *from)
{
    const struct levels *levels = build->levels;
    struct collective none = *from;

    none.op = PAMI_DATA_BOR;
    none.kind = TYPE_KIND_BYTE;
    none.element = 1;
    none.commutative = true;
    if (!is_alone(build))
        add_in(build, &none);
    if (levels->leaders != NULL) {
        struct collective among = like(from, PAMI_XFER_BARRIER, 0);

        add(build, levels->leaders, &among);
    }
    if (!is_alone(build))
        add_out(build, levels->local, &none, 0);
}

static void link_allreduce(struct build *build, const struct collective *from)
{
    const struct levels *levels = build->levels;

    if (!is_alone(build))
        add_in(build, from);
    if (levels->leaders != NULL) {
        struct collective among = like(from, PAMI_XFER_ALLREDUCE, 0);

        if (!is_alone(build)) {
            replace(&among.send, &among.recv);
            among.in_place = true;
        }
        add(build, levels->leaders, &among);
    }
    if (!is_alone(build))
        add_out(build, levels->local, from, 0);
}

/* The root among the members of this node, TOPOLOGY_NO_RANK on other nodes. */
static uint32_t local_root(const struct group *group, const struct levels *levels, uint32_t root)
{
    return topology_rank(levels->local->topology, topology_endpoint(group->topology, root));
}

static void link_broadcast(struct build *build, const struct group *group,
                           const struct collective *from)
{
    const struct levels *levels = build->levels;
    uint32_t node = index_of_node(levels, node_of_rank(group, from->root));
    uint32_t root = local_root(group, levels, from->root);

    if (root != TOPOLOGY_NO_RANK && !is_alone(build))
        add_out(build, levels->local, from, root);
    if (levels->leaders != NULL)
        add_out(build, levels->leaders, from, node);
    if (root == TOPOLOGY_NO_RANK && !is_alone(build))
        add_out(build, levels->local, from, 0);
}

/* A node without the root: to its leader, and from there to the leader of the root's node. */
static void link_reduce_elsewhere(struct build *build, const struct collective *from,
                                  const struct area_map *scratch, uint32_t node)
{
    const struct levels *levels = build->levels;
    struct collective part;

    if (!is_alone(build)) {
        part = like(from, PAMI_XFER_REDUCE, 0);
        part.receives = levels->leaders != NULL;
        part.in_place = false;
        if (part.receives)
            replace(&part.recv, scratch);
        add(build, levels->local, &part);
    }
    if (levels->leaders == NULL)
        return;
    part = like(from, PAMI_XFER_REDUCE, node);
    part.in_place = false;
    if (!is_alone(build))
        replace(&part.send, scratch);
    add(build, levels->leaders, &part);
}

/* The root's node: its leader collects from the others, and the root from all of the node. */
static void link_reduce_here(struct build *build, const struct collective *from,
                             const struct area_map *scratch, uint32_t root, uint32_t node)
{
    const struct levels *levels = build->levels;
    bool is_root = root == levels->local->rank;
    struct collective part;

    if (levels->leaders != NULL) {
        part = like(from, PAMI_XFER_REDUCE, node);
        part.receives = true;
        part.in_place = from->in_place && is_root;
        if (!is_root)
            replace(&part.recv, scratch);
        add(build, levels->leaders, &part);
    }
    if (is_alone(build))
        return;
    part = like(from, PAMI_XFER_REDUCE, root);
    part.in_place = from->in_place && is_root;
    if (levels->leaders != NULL) {
        replace(&part.send, is_root ? &part.recv : scratch);
        part.in_place = is_root;
    }
    add(build, levels->local, &part);
}

static void link_reduce(struct build *build, const struct group *group,
                        const struct collective *from, uint64_t offset)
{
    const struct area_map scratch = {
        .base = build->scratch + offset, .extent = 1, .blocks = BLOCKS_ONE};
    uint32_t node = index_of_node(build->levels, node_of_rank(group, from->root));
    uint32_t root = local_root(group, build->levels, from->root);

    if (root == TOPOLOGY_NO_RANK)
        link_reduce_elsewhere(build, from, &scratch, node);
    else
        link_reduce_here(build, from, &scratch, root, node);
}

/* ---- segments ---- */

/* The same buffer from data byte `offset` on; no reference is taken. `start` lives as long. */
static struct area_map map_from(const struct area_map *map, uint64_t *start, uint64_t offset)
{
    struct area_map copy = *map;

    if (copy.type == NULL) {
        copy.base += copy.base != NULL ? offset : 0;
        return copy;
    }
    *start = offset;
    copy.blocks = BLOCKS_PACKED;
    copy.starts = start;
    return copy;
}

static uint64_t segment_of(const struct algorithm *row, const struct collective *whole)
{
    uint64_t least = (whole->bytes + FLOW_SEGMENTS_MAX - 1) / FLOW_SEGMENTS_MAX;
    uint64_t segment = option_bytes(OPT_COLL_SEGMENT);

    if (row->segment == SEGMENT_WHOLE || whole->bytes <= segment)
        return whole->bytes;
    segment = segment < least ? least : segment;
    return (segment + whole->element - 1) / whole->element * whole->element;
}

static void link_segment(struct build *build, struct group *group, const struct collective *whole,
                         uint64_t *starts, uint64_t offset, uint64_t bytes)
{
    struct collective part = *whole;

    build->segments[build->count++].count = 0;
    part.bytes = bytes;
    if (bytes != whole->bytes) {
        part.send = map_from(&whole->send, &starts[0], offset);
        part.recv = map_from(&whole->recv, &starts[1], offset);
    }
    switch (whole->type) {
    case PAMI_XFER_BARRIER:
        link_barrier(build, &part);
        break;
    case PAMI_XFER_ALLREDUCE:
        link_allreduce(build, &part);
        break;
    case PAMI_XFER_REDUCE:
        link_reduce(build, group, &part, offset);
        break;
    default:
        link_broadcast(build, group, &part);
    }
}

/* Links of all segments, and the memory behind them. */
static void link_all(struct build *build, struct group *group, const struct algorithm *row,
                     const struct collective *whole, char *memory)
{
    uint64_t segment = segment_of(row, whole), offset = 0;
    uint64_t *starts = (uint64_t *)(void *)memory;

    build->scratch = memory + STARTS_BYTES;
    do {
        uint64_t left = whole->bytes - offset, bytes = left < segment ? left : segment;

        link_segment(build, group, whole, &starts[2 * build->count], offset, bytes);
        offset += bytes;
    } while (offset < whole->bytes && build->error == 0);
}

int hierarchy_make(struct group *group, const struct algorithm *row, struct collective *collective,
                   struct machine **machine)
{
    bool keeps = row->type == PAMI_XFER_REDUCE;
    char *memory = malloc(STARTS_BYTES + (keeps ? collective->bytes : 0));
    struct build build = {.levels = levels_of(group)};

    build.error = build.levels != NULL && memory != NULL ? 0 : -ENOMEM;
    if (build.error == 0)
        link_all(&build, group, row, collective, memory);
    collective_release(collective);
    if (build.error == 0) {
        *machine = flow_make(group, build.segments, build.count, memory);
        if (*machine != NULL)
            return 0;
        build.error = -ENOMEM;
    }
    drop_links(&build);
    free(memory);
    return build.error;
}
