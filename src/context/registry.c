/*
 * Open addressing with linear probing; removal closes the gap, so there are no tombstones.
 */
#include "context/registry.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define ROWS_AT_FIRST 64u

struct row {
    const void *handle; /* NULL: free */
    struct client_core *owner;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct row *rows;
static size_t mask;
static size_t used;

static size_t home(const void *handle)
{
    return (size_t)(((uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & mask;
}

static void place(const void *handle, struct client_core *owner)
{
    size_t at = home(handle);

    while (rows[at].handle != NULL)
        at = (at + 1) & mask;
    rows[at] = (struct row){.handle = handle, .owner = owner};
}

static int grow(void)
{
    struct row *old = rows;
    size_t count = old != NULL ? mask + 1 : 0;
    size_t size = count != 0 ? 2 * count : ROWS_AT_FIRST;
    struct row *bigger = calloc(size, sizeof(*bigger));

    if (bigger == NULL)
        return -ENOMEM;
    rows = bigger;
    mask = size - 1;
    for (size_t i = 0; i < count; i++)
        if (old[i].handle != NULL)
            place(old[i].handle, old[i].owner);
    free(old);
    return 0;
}

int registry_add(const void *handle, struct client_core *owner)
{
    int error = 0;

    pthread_mutex_lock(&lock);
    if (rows == NULL || 2 * (used + 1) > mask + 1)
        error = grow();
    if (error == 0) {
        place(handle, owner);
        used++;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

/* The row of a handle, or mask + 1. */
static size_t row_of(const void *handle)
{
    if (rows == NULL || handle == NULL)
        return mask + 1;
    for (size_t at = home(handle); rows[at].handle != NULL; at = (at + 1) & mask)
        if (rows[at].handle == handle)
            return at;
    return mask + 1;
}

/* Move later rows of the run up, as long as that brings them closer to their home. */
static void close_gap(size_t gap)
{
    size_t at = gap;

    for (;;) {
        at = (at + 1) & mask;
        if (rows[at].handle == NULL)
            break;
        if (((at - home(rows[at].handle)) & mask) < ((at - gap) & mask))
            continue;
        rows[gap] = rows[at];
        gap = at;
    }
    rows[gap].handle = NULL;
}

void registry_remove(const void *handle)
{
    size_t at;

    pthread_mutex_lock(&lock);
    at = row_of(handle);
    if (at <= mask && rows != NULL) {
        close_gap(at);
        used--;
        if (used == 0) {
            free(rows);
            rows = NULL;
            mask = 0;
        }
    }
    pthread_mutex_unlock(&lock);
}

struct client_core *registry_find(const void *handle)
{
    struct client_core *owner = NULL;
    size_t at;

    pthread_mutex_lock(&lock);
    at = row_of(handle);
    if (at <= mask && rows != NULL)
        owner = rows[at].owner;
    pthread_mutex_unlock(&lock);
    return owner;
}
