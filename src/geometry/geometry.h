/*
 * Geometries: groups of endpoints that run collectives together, their identities, and how they are
 * created.
 *
 *   topology.c   ordered sets of endpoints
 *   geometry.c   the object: handles, references, the world; destroy, query, update
 *   group.c      what each context knows: its groups by identity
 *   create.c     the three create calls: arguments and membership
 *   join.c       the creation protocol between tasks
 *   join_gone.c  ... when some of them go
 *   creation.c   the end of a creation: fn
 *   neighbour.c  which copies of a message have been seen
 *
 * A geometry has an identity, 64 bits agreed when it is created and never used again in the job, so
 * that traffic of an earlier geometry with the same user id matches nothing. Messages of
 * collectives carry it. A task has one struct geometry, and one struct group for each of its
 * contexts that takes part: what a context knows lies in its group, so that contexts of one task
 * run collectives of one geometry side by side without a lock.
 *
 * A group is opened by its context when it is first asked for (geometry_group), never by another
 * thread; until then geometry_find does not know it. Destroying a geometry closes the groups of
 * other contexts, and busy ones, by work posted to them: they end when their contexts say so.
 */
#ifndef LIBPAMI_GEOMETRY_GEOMETRY_H
#define LIBPAMI_GEOMETRY_GEOMETRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pami/pami.h>

#include "context/context.h"
#include "geometry/topology.h"
#include "util/list.h"

struct geometry;
struct geometry_client;
struct coll_state;

/* A subset of a geometry in which the machines of one level talk. Channel 0 is the geometry itself;
 * sub-groups (the members of this node, the leaders of the nodes ...) have others. */
#define GROUP_CHANNELS 16

/* Numbers of one collective and its parts: more than the compositions of src/coll have runs in a
 * group. One that needs more takes them, but then its members must agree on how many. */
#define GROUP_BLOCK_BITS 8
#define GROUP_BLOCK (1u << GROUP_BLOCK_BITS)

/* Updates of PAMI_GEOMETRY_OPTIMIZE in group.optimise. Later ones than the last that it can count
 * are without effect. */
#define GROUP_OPTIMISED 1u
#define GROUP_UPDATES_SHIFT 1
#define GROUP_UPDATES_MAX ((1u << 24) - 1)

/* The membership of one context in a geometry. Belongs to whoever owns the context. */
struct group {
    struct geometry *geometry;
    struct context *context;
    const struct topology *topology; /* of all members */
    uint32_t rank, size;
    uint64_t identity;
    uint32_t channel;         /* of its messages, below GROUP_CHANNELS; 0: of all members */
    uint64_t sequence;        /* number of the next collective: coll/machine.h */
    struct coll_state *state; /* what src/coll keeps here: instances that run, early messages */
    bool closed;              /* for good */
    atomic_uint optimise;     /* GROUP_OPTIMISED, of the latest update, beside how many there were:
                               * all members count them alike */
    atomic_bool open;         /* written by the owner; others look whether there is one to close */
    pami_work_t closing;      /* posted to the context by a destroy */
};

#define GEOMETRY_MAGIC UINT64_C(0x70616d6967656f6d)
#define GEOMETRY_NO_SLOT UINT8_MAX

enum geometry_state {
    GEOMETRY_FORMING,
    GEOMETRY_READY,
    GEOMETRY_FAILED, /* a member went while it was created: good for destroy only */
    GEOMETRY_ENDED,  /* destroyed; groups of other contexts may still be open */
};

enum geometry_attribute {
    GEOMETRY_OPTIMIZE,
    GEOMETRY_NONCONTIG,       /* kept, without effect */
    GEOMETRY_MEMORY_OPTIMIZE, /* ... as well */
    GEOMETRY_ATTRIBUTES
};

struct geometry {
    /* First, as in clients and contexts: tells what a live handle is. Handles of algorithms have no
     * bits for addresses that are not multiples of 16 (src/coll/handle.h). */
    _Alignas(16) uint64_t magic;
    struct geometry_client *client;
    struct topology topology;
    uint64_t identity; /* valid when READY; of the world: that of context offset 0. Before: it will
                        * be larger, as its first task gives them in order; 0: nothing is known */
    uint32_t id;
    bool is_world;
    uint32_t sequence;    /* as a parent: of the next creation */
    atomic_int state;     /* enum geometry_state; READY is published with release (G1) */
    atomic_bool creating; /* fn of its creation has not run */
    atomic_uint users;    /* whoever keeps it: the handle, open groups, creations */
    struct list link;     /* in the client's list */
    atomic_int places;    /* floor coll's: where the members' tasks are, 0: not known yet */
    /* By enum geometry_attribute. Contexts may update side by side, and queries need none: what one
     * wishes goes on from hand to hand, not over these. */
    atomic_size_t attributes[GEOMETRY_ATTRIBUTES];
    /* The tasks of the members, each once, in the order of their first members. */
    uint32_t *tasks; /* NULL: the topology is a stride, and so are they */
    uint32_t task_count;
    uint32_t position; /* of this task among them */
    /* This task's members. */
    uint32_t group_count;
    struct group *groups;
    uint8_t slot[ENDPOINT_OFFSETS_MAX]; /* by context offset: in groups, or GEOMETRY_NO_SLOT */
};

/* What geometries have floor "coll" do. All called by the owner of the group's context. */
struct geometry_hooks {
    /* A group is ready: messages that came before it may be looked at now. 0 or -ENOMEM. */
    int (*group_opened)(struct group *group);
    /* The group goes: nothing runs on it any more, or what does is to be given up quietly. */
    void (*group_closed)(struct group *group);
    /* A collective runs on it: closing waits until none does. NULL: never. */
    bool (*group_busy)(const struct group *group);
    /* PAMI_GEOMETRY_OPTIMIZE was given, or updated: what helped its collectives before the latest
     * update is to go, and if `ahead` what helps them may be made now. */
    void (*group_optimise)(struct group *group, bool ahead);
};

static inline size_t geometry_attribute(const struct geometry *geometry,
                                        enum geometry_attribute attribute)
{
    return atomic_load_explicit(&geometry->attributes[attribute], memory_order_relaxed);
}

/* NULL unless the handle is a live geometry's; may be anything, is looked up and not read. */
struct geometry *geometry_from_handle(pami_geometry_t handle);

/*
 * The membership of a context, NULL when it has none, or the geometry is not READY, or without
 * memory. The world is special: it has a group for every context offset, with the endpoints (task,
 * offset) of all tasks, because programs use its algorithms with any context. Called by the owner
 * of the context. Fast: called by every PAMI_Collective.
 */
struct group *geometry_group_open(struct geometry *geometry, struct context *context);

static inline struct group *geometry_group(struct geometry *geometry, struct context *context)
{
    uint8_t slot = geometry->slot[context->offset];

    if (likely(slot != GEOMETRY_NO_SLOT)) {
        struct group *group = &geometry->groups[slot];

        if (likely(group->context == context &&
                   atomic_load_explicit(&group->open, memory_order_relaxed)))
            return group;
    }
    return geometry_group_open(geometry, context);
}

/* Whether a context without a group is a member all the same, so that there was no memory. */
bool geometry_has_member(struct geometry *geometry, struct context *context);

/* The group of a context by identity (arriving messages), NULL: unknown, or not opened yet. */
struct group *geometry_find(struct context *context, uint64_t identity);

/* What `look` says of the members of the geometry with this identity, whose group need not be open
 * here. False: unknown. */
typedef bool geometry_looker(struct context *context, const struct topology *members);
bool geometry_look(struct context *context, uint64_t identity, geometry_looker *look);

/* Here there is one that is ready: group or not, only the program keeps it from being used. */
bool geometry_is_known(struct context *context, uint64_t identity);

/* This task, which was a member of it, has destroyed the geometry with this identity, or its
 * creation has failed here; the world never is. False also while that cannot be told, because one
 * is being created that may have this identity. */
bool geometry_is_over(struct context *context, uint64_t identity);

/* The world of a client; lives as long as the client. */
struct geometry *geometry_world(struct client_core *core);

/* ---- for floor client ---- */

/* At client create, before anything else; `hooks` may be NULL. 0 or -ENOMEM. */
int geometry_open(struct client_core *core, const struct geometry_hooks *hooks);

/* At its end, without contexts: frees what was never destroyed. */
void geometry_close(struct client_core *core);

/* Per context: attach at context creation, detach before p2p is detached. */
int geometry_attach(struct context *context);
void geometry_detach(struct context *context);

#endif
