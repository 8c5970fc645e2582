/*
 * Memory for one kind of things, see keep.h.
 */
#include "util/keep.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/clock.h"
#include "util/cpu.h"

/* Longer than a thread is without a processor. */
#define REST_NS UINT64_C(1000000000)

/* Behind the memory of a thing. */
struct rest {
    char *next;
    uint64_t since; /* ns */
};

static struct rest *rest_of(const struct keep *keep, char *thing)
{
    return (struct rest *)(void *)(thing + (keep->bytes + 7) / 8 * 8);
}

void *keep_get(struct keep *keep)
{
    size_t bytes = (keep->bytes + 7) / 8 * 8 + sizeof(struct rest);
    char *thing;

    pthread_mutex_lock(&keep->lock);
    thing = keep->first;
    if (thing != NULL && clock_now_ns() - rest_of(keep, thing)->since < REST_NS)
        thing = NULL;
    if (thing != NULL)
        keep->first = rest_of(keep, thing)->next;
    pthread_mutex_unlock(&keep->lock);
    if (thing == NULL)
        thing = aligned_alloc(CACHE_LINE, (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (thing != NULL)
        memset(thing, 0, keep->bytes);
    return thing;
}

void keep_put(struct keep *keep, void *thing)
{
    pthread_mutex_lock(&keep->lock);
    *rest_of(keep, thing) = (struct rest){.since = clock_now_ns()};
    if (keep->first == NULL)
        keep->first = thing;
    else
        rest_of(keep, keep->last)->next = thing;
    keep->last = thing;
    pthread_mutex_unlock(&keep->lock);
}
