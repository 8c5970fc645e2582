/*
 * The handles in a map, under a lock.
 */
#include "context/registry.h"

#include <pthread.h>
#include <stdint.h>

#include "util/hash.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct u64map owners; /* by handle */

static uint64_t key_of(const void *handle)
{
    return (uint64_t)(uintptr_t)handle;
}

int registry_add(const void *handle, struct client_core *owner)
{
    int error;

    pthread_mutex_lock(&lock);
    error = u64map_put(&owners, key_of(handle), owner);
    pthread_mutex_unlock(&lock);
    return error;
}

void registry_remove(const void *handle)
{
    pthread_mutex_lock(&lock);
    u64map_remove(&owners, key_of(handle));
    if (owners.count == 0)
        u64map_finish(&owners);
    pthread_mutex_unlock(&lock);
}

struct client_core *registry_find(const void *handle)
{
    struct client_core *owner;

    pthread_mutex_lock(&lock);
    owner = u64map_get(&owners, key_of(handle));
    pthread_mutex_unlock(&lock);
    return owner;
}
