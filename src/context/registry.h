/*
 * The process's live handles: clients, geometries, extensions of clients, and contexts off the hot
 * path.
 *
 * A handle is looked up, never followed, so that anything at all may be asked about. Thread-safe;
 * constant time, for the simulation has 10^5 clients.
 */
#ifndef LIBPAMI_CONTEXT_REGISTRY_H
#define LIBPAMI_CONTEXT_REGISTRY_H

#include "context/context.h"

/* `owner` is of the client itself, or of the client that has the object. 0 or -ENOMEM. */
int registry_add(const void *handle, struct client_core *owner);
void registry_remove(const void *handle);

/* The owner, or NULL when the handle is not a live one. */
struct client_core *registry_find(const void *handle);

/* The same for the handle of a client only. */
static inline struct client_core *registry_client(pami_client_t handle)
{
    struct client_core *core = registry_find(handle);

    return core != NULL && (void *)core->client == handle ? core : NULL;
}

#endif
