/*
 * Memory that is used for one kind of things only: what one of them leaves becomes another one, a
 * second later at the earliest, and is never given back. So who still looks at a thing that has
 * just been destroyed, as a thread that was about to use it, sees what it was at the end.
 *
 * Any thread.
 */
#ifndef LIBPAMI_UTIL_KEEP_H
#define LIBPAMI_UTIL_KEEP_H

#include <pthread.h>
#include <stddef.h>

struct keep {
    pthread_mutex_t lock;
    size_t bytes;       /* of a thing */
    char *first, *last; /* what things have left, in that order */
};

#define KEEP_OF(type)                                                                              \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .bytes = sizeof(type)                                   \
    }

/* Zeros, aligned to a cache line; NULL: there is no memory. */
void *keep_get(struct keep *keep);
void keep_put(struct keep *keep, void *thing);

#endif
