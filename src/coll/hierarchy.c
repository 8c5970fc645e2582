/*
 * Collectives over several nodes, composed of one over the members of each node and one over their
 * leaders (the first member of each node): what the hardware joins closely talks in shared memory,
 * and one message per node goes between nodes.
 *
 *   barrier    the node arrives at its leader; leaders' barrier; the leader lets its node go
 *   broadcast  on the root's node first; then among leaders; then on the other nodes
 *   allreduce  to the leader; among leaders; from the leader
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
#include "coll/compose.h"
#include "coll/machine.h"
#include "coll/select.h"

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

#define LINKS_MAX 3

struct links {
    struct machine *machine[LINKS_MAX];
    uint32_t count;
    int error;
};

static void links_drop(struct links *links)
{
    while (links->count > 0) {
        struct machine *machine = links->machine[--links->count];

        machine->ops->release(machine);
    }
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

/* Takes *collective over. */
static void add(struct links *links, struct group *group, struct collective *collective)
{
    const struct algorithm *row;

    row = select_row(&group->context->coll->rows->select, group, collective);
    if (links->error != 0 || row == NULL) {
        collective_release(collective);
        links->error = links->error != 0 ? links->error : -ENOSYS;
        return;
    }
    links->error = machine_make(group, row, collective, &links->machine[links->count]);
    links->count += links->error == 0;
}

/* Everybody's data, combined, to the leader of the node. */
static void add_in(struct links *links, const struct levels *levels, const struct collective *from)
{
    struct collective in = like(from, PAMI_XFER_REDUCE, 0);

    in.receives = levels->local->rank == 0;
    in.in_place = in.receives && from->in_place;
    add(links, levels->local, &in);
}

/* From member `root` of the group to its others. */
static void add_out(struct links *links, struct group *group, const struct collective *from,
                    uint32_t root)
{
    struct collective out = like(from, PAMI_XFER_BROADCAST, root);

    type_unref(out.send.type);
    out.send = out.recv;
    if (out.send.type != NULL)
        type_ref(out.send.type);
    out.in_place = true;
    out.receives = true;
    add(links, group, &out);
}

static void link_barrier(struct links *links, const struct levels *levels,
                         const struct collective *from)
{
    struct collective none = *from;

    none.op = PAMI_DATA_BOR;
    none.kind = TYPE_KIND_BYTE;
    none.element = 1;
    none.commutative = true;
    add_in(links, levels, &none);
    if (levels->leaders != NULL) {
        struct collective among = like(from, PAMI_XFER_BARRIER, 0);

        add(links, levels->leaders, &among);
    }
    add_out(links, levels->local, &none, 0);
}

static void link_allreduce(struct links *links, const struct levels *levels,
                           const struct collective *from)
{
    add_in(links, levels, from);
    if (levels->leaders != NULL) {
        struct collective among = like(from, PAMI_XFER_ALLREDUCE, 0);

        type_unref(among.send.type);
        among.send = among.recv;
        if (among.send.type != NULL)
            type_ref(among.send.type);
        among.in_place = true;
        add(links, levels->leaders, &among);
    }
    add_out(links, levels->local, from, 0);
}

static void link_broadcast(struct links *links, const struct group *group,
                           const struct levels *levels, const struct collective *from)
{
    uint32_t node = index_of_node(levels, node_of_rank(group, from->root));
    uint32_t root =
        topology_rank(levels->local->topology, topology_endpoint(group->topology, from->root));

    if (root != TOPOLOGY_NO_RANK)
        add_out(links, levels->local, from, root);
    if (levels->leaders != NULL)
        add_out(links, levels->leaders, from, node);
    if (root == TOPOLOGY_NO_RANK)
        add_out(links, levels->local, from, 0);
}

int hierarchy_make(struct group *group, const struct algorithm *row, struct collective *collective,
                   struct machine **machine)
{
    const struct levels *levels = levels_of(group);
    struct links links = {.error = levels != NULL ? 0 : -ENOMEM};

    if (links.error == 0 && row->type == PAMI_XFER_BARRIER)
        link_barrier(&links, levels, collective);
    else if (links.error == 0 && row->type == PAMI_XFER_ALLREDUCE)
        link_allreduce(&links, levels, collective);
    else if (links.error == 0)
        link_broadcast(&links, group, levels, collective);
    collective_release(collective);
    if (links.error == 0) {
        *machine = chain_make(group, links.machine, links.count);
        if (*machine != NULL)
            return 0;
        links.error = -ENOMEM;
    }
    links_drop(&links);
    return links.error;
}
