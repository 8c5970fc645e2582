/*
 * Memory for one kind of things, see keep.h.
 */
#include "util/keep.h"

#include <stdlib.h>
#include <string.h>

#include "util/cpu.h"

static char **link_of(const struct keep *keep, char *thing)
{
    return (char **)(void *)(thing + (keep->bytes + 7) / 8 * 8);
}

void *keep_get(struct keep *keep)
{
    size_t room = (keep->bytes + 7) / 8 * 8 + sizeof(char *);
    char *thing;

    pthread_mutex_lock(&keep->lock);
    thing = keep->left;
    if (thing != NULL)
        keep->left = *link_of(keep, thing);
    pthread_mutex_unlock(&keep->lock);
    if (thing == NULL)
        thing = aligned_alloc(CACHE_LINE, (room + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (thing != NULL)
        memset(thing, 0, keep->bytes);
    return thing;
}

void keep_put(struct keep *keep, void *thing)
{
    pthread_mutex_lock(&keep->lock);
    *link_of(keep, thing) = keep->left;
    keep->left = thing;
    pthread_mutex_unlock(&keep->lock);
}
