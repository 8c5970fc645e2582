/*
 * What the files of this folder share: the state of geometries per client and per context.
 *
 * The client's part is under one mutex, because creations make progress on whichever context a
 * packet arrives. It is held for table look-ups and for sending control packets, which call nobody
 * back; never while anything of the user's or of floor coll runs. The context's part belongs to the
 * context's owner.
 */
#ifndef LIBPAMI_GEOMETRY_STATE_H
#define LIBPAMI_GEOMETRY_STATE_H

#include <pthread.h>

#include "geometry/geometry.h"
#include "p2p/message.h"
#include "util/hash.h"

/* The world's identity, for each context offset another one; all others have a task's number in
 * their upper bits and begin behind these in the lower ones. */
#define IDENTITY_WORLD UINT64_C(1)
#define IDENTITY_FIRST UINT64_C(256)
#define IDENTITY_TASK_SHIFT 40
#define IDENTITY_LOWER ((UINT64_C(1) << IDENTITY_TASK_SHIFT) - 1)

struct machine_places;

struct geometry_client {
    struct client_core *core;
    const struct geometry_hooks *hooks; /* never NULL */
    pthread_mutex_t lock;
    struct list contexts;     /* struct geometry_context */
    struct list geometries;   /* not destroyed; without the world */
    struct u64map ids;        /* user id to geometry, as long as it must not be used again */
    uint64_t next_identity;   /* lower bits of the next one that this task gives */
    struct u64map given;      /* by task: lower bits of the last one of it that is known here */
    struct list creations;    /* whose fn has not run */
    struct list joins;        /* under way */
    struct list early;        /* messages that came before this task's call */
    struct u64map neighbours; /* by task: numbers of messages, see join.c */
    struct geometry world;
    struct machine_places *places; /* floor coll's: one piece of memory, NULL until asked for */
};

struct geometry_context {
    struct context *context;
    struct geometry_client *client;
    struct list link;
    struct message_watch watch;
    struct retry retry;   /* on the context's list while joins have to send what found no memory */
    struct u64map groups; /* by identity, open ones, without the world */
    struct group world;
    struct topology world_topology;
};

/* geometry.c */
static inline void geometry_hold(struct geometry *geometry)
{
    atomic_fetch_add_explicit(&geometry->users, 1, memory_order_relaxed);
}

void geometry_drop(struct geometry *geometry);

/* A geometry over `topology`, which it takes over; FORMING, held once, in no list. NULL: no memory,
 * and the topology is still the caller's. */
struct geometry *geometry_new(struct geometry_client *client, const struct topology *topology);

static inline uint32_t geometry_task(const struct geometry *geometry, uint32_t position)
{
    if (geometry->tasks != NULL)
        return geometry->tasks[position];
    return geometry->topology.first + position * (uint32_t)geometry->topology.stride;
}

/* Its creation begins; under the client's mutex. */
void geometry_forming(struct geometry *geometry);

/* Its creation is over: groups may open now. Under the client's mutex. */
void geometry_ready(struct geometry *geometry, uint64_t identity);

/* Attribute checks of create and update; `function` for the text. */
pami_result_t geometry_check_attributes(const char *function,
                                        const pami_configuration_t configuration[], size_t count);
void geometry_set_attributes(struct geometry *geometry, const pami_configuration_t configuration[],
                             size_t count);
/* PAMI_GEOMETRY_OPTIMIZE was given, or updated; on the context's own thread. */
void geometry_optimise(struct geometry *geometry, struct context *context, bool ahead);

/* group.c */
void group_init(struct group *group, struct geometry *geometry, struct context *context,
                const struct topology *topology, uint64_t identity);
void group_close(struct group *group);

/* The context of this offset, NULL when there is none. */
struct context *geometry_context_at(struct geometry_client *client, uint32_t offset);

/* A call to create that this task has made and whose fn has not run. */
struct creation {
    struct geometry_client *client;
    struct geometry *geometry; /* held; NULL: this task is no member, or the caller's list is */
    struct geometry *parent;   /* held, or NULL */
    struct context *context;   /* where fn runs; NULL: it was destroyed */
    pami_event_function function;
    void *cookie;
    unsigned waiting; /* joins that are not settled */
    pami_result_t result;
    uint64_t identity;
    struct list link;
    pami_work_t work;
};

/* creation.c; under the client's mutex. Complete: all joins are settled; it may be freed. */
void creation_complete(struct creation *creation);
void creation_free(struct creation *creation);

/* join.c: starts a creation, which is the protocol's from now on. 0, or -ENOMEM with nothing
 * changed. */
int join_start(struct creation *creation);
void join_handle_message(pami_context_t context, void *cookie, const void *header, size_t bytes,
                         const void *pipe, size_t data_bytes, pami_endpoint_t origin,
                         pami_recv_t *recv);

/* Of struct geometry_context. */
int join_retry(struct retry *retry, struct context *context);

/* The endpoint has left, as this context has heard: what waits here for its task may fail. */
void join_endpoint_gone(struct context *context, uint32_t endpoint);

/* The context goes; the last one takes what is under way with it. */
void join_detach(struct context *context);
void join_close(struct geometry_client *client);

#endif
