/*
 * Client: one middleware's view of the job. It ties the floors together: identity from the
 * bootstrap, devices, contexts, queries.
 *
 * All live clients are on one list, for the process's exit; handles are looked up in
 * src/context/registry.c.
 */
#ifndef LIBPAMI_CLIENT_CLIENT_H
#define LIBPAMI_CLIENT_CLIENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "context/context.h"
#include "util/list.h"

#define PROCESSOR_NAME_MAX 128

/* Where a client gets its time from; a simulated one has its own. */
struct client_clock {
    double (*now)(void *cookie); /* seconds; NULL: the system's */
    void *cookie;
};

struct client {
    struct client_core core;
    struct list link; /* in the list of live clients */
    char key[64];     /* name and instance, equal on all tasks */
    char name[64];
    unsigned instance;
    pid_t pid;          /* of the process that created it */
    bool own_bootstrap; /* the process's, to be closed with the client */
    struct client_clock clock;
    struct context *contexts[ENDPOINT_OFFSETS_MAX];
    size_t context_count;
    char processor_name[PROCESSOR_NAME_MAX];
    size_t *local_tasks;      /* for PAMI_CLIENT_LOCAL_TASKS */
    uint8_t *is_local;        /* per task, for the extension */
    struct async_pool *async; /* NULL until a context is enabled */
    pthread_mutex_t async_lock;
};

/* The client behind a handle, NULL when it is none. The handle may be anything. */
struct client *client_from_handle(pami_client_t handle);

/* The client that has this context, NULL when none has. The handle may be anything. */
struct client *client_of_context(pami_context_t handle);

/*
 * Make a client on a given bootstrap and with one given device, for clients that do not come from
 * the process's launcher. `now` NULL: the system's clock. The bootstrap stays the caller's and
 * lives until client_destroy. 0 or negative errno, with the thread's error text set.
 */
int client_create_with(const char *name, struct bootstrap *bootstrap,
                       const struct device_ops *device, const void *private_params,
                       double (*now)(void *), void *now_cookie, struct client **client);

/*
 * Destroys what contexts are left, quietly, then the client. In a child forked from its process the
 * handles end, and nothing else happens: memory and connections are those of the parent.
 */
void client_destroy(struct client *client);

/* Live clients that have a clock of their own: while there are none, nobody needs to look. */
extern atomic_uint client_own_clocks;

/* contexts.c: drain and destroy all contexts. */
void client_destroy_contexts(struct client *client);

/* The same for the end of the process: sends what is owed, frees nothing. */
void client_leave(struct client *client);

/* stats.c: what PAMI_STATS prints. */
void stats_print(const struct context *context);

/* topology.c */
unsigned client_hwthreads(void);
enum yield_policy client_yield_policy(const struct client *client);
uint32_t client_spin_passes(const struct client_core *core); /* with yield and network set */

/* client_core.spread: the calling thread moves to the processor whose turn it is by the numbers of
 * its task and context, from where it may go anywhere again. */
void client_spread(const struct client_core *core, uint32_t offset);
bool client_spreads(const struct client *client);

#endif
