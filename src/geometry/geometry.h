/*
 * Geometries: groups of endpoints that run collectives together, their identities, and how they are
 * created.
 *
 *   topology.c   ordered sets of endpoints
 *   geometry.c   the object: handles, members, references, world, destroy, query, update
 *   create.c     the three create calls: arguments and membership
 *   join.c       the creation protocol between tasks
 *
 * A geometry has an identity, 64 bits agreed when it is created and never used again in the job, so
 * that traffic of an earlier geometry with the same user id matches nothing. Messages of
 * collectives carry it. A task has one struct geometry, and one struct group for each of its
 * contexts that takes part: what a context knows lies in its group, so that contexts of one task
 * run collectives of one geometry side by side without a lock.
 */
#ifndef LIBPAMI_GEOMETRY_GEOMETRY_H
#define LIBPAMI_GEOMETRY_GEOMETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pami/pami.h>

#include "context/context.h"
#include "geometry/topology.h"

struct geometry;
struct coll_state;

/* A subset of a geometry in which the machines of one level talk. Channel 0 is the geometry itself;
 * sub-groups (the members of this node, the leaders of the nodes ...) have others. */
#define GROUP_CHANNELS 16

/* The membership of one context in a geometry. Belongs to whoever owns the context. */
struct group {
    struct geometry *geometry;
    struct context *context;
    const struct topology *topology; /* of all members */
    uint32_t rank, size;
    uint64_t identity;
    uint32_t sequence;        /* of the next collective on this geometry */
    struct coll_state *state; /* what src/coll keeps here: instances that run, early messages */
};

#define GEOMETRY_MAGIC UINT64_C(0x70616d6967656f6d)

/* NULL unless the handle is a live geometry's; may be anything, is looked up and not read. */
struct geometry *geometry_from_handle(pami_geometry_t handle);

/*
 * The membership of a context, NULL when it has none. The world is special: it has a group for
 * every context offset, with the endpoints (task, offset) of all tasks, because programs use its
 * algorithms with any context. Fast: called by every PAMI_Collective.
 */
struct group *geometry_group(struct geometry *geometry, const struct context *context);

/* The group of a context by identity (arriving messages), NULL: unknown, or not created yet. */
struct group *geometry_find(struct context *context, uint64_t identity);

/* What geometries have floor "coll" do; set once by src/coll, before contexts exist. */
struct geometry_hooks {
    /* A group is ready: messages that came before it may be looked at now. 0 or -ENOMEM. */
    int (*group_opened)(struct group *group);
    /* The group goes: nothing runs on it any more, or what does is to be given up quietly. */
    void (*group_closed)(struct group *group);
};

/* Per context: attach when it is created, detach before p2p is. Called by floor client. */
int geometry_attach(struct context *context);
void geometry_detach(struct context *context);

#endif
