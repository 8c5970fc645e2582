/*
 * The process's live handles: clients, and contexts off the hot path.
 *
 * A handle is looked up, never followed, so that anything at all may be asked about. Thread-safe;
 * constant time, for the simulation has 10^5 clients.
 */
#ifndef LIBPAMI_CLIENT_REGISTRY_H
#define LIBPAMI_CLIENT_REGISTRY_H

struct client;

/* `owner` is the client itself, or the client that has the context. 0 or -ENOMEM. */
int registry_add(const void *handle, struct client *owner);
void registry_remove(const void *handle);

/* The owner, or NULL when the handle is not a live one. */
struct client *registry_find(const void *handle);

#endif
