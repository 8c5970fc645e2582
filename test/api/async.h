/*
 * What the tests of asynchronous progress share: reading what a thread of the library counts, and
 * the extension EXT_async_progress as its clients declare it.
 */
#ifndef LIBPAMI_API_ASYNC_H
#define LIBPAMI_API_ASYNC_H

#include "api_test.h"

#include <pamix.h>
#include <pthread.h>

typedef enum {
    PAMIX_ASYNC_ALL = 0,
    PAMIX_ASYNC_RECV_INTERRUPT = 1,
    PAMIX_ASYNC_TIMER = 2,
    PAMIX_ASYNC_EXT = 1000
} pamix_async_t;

typedef void (*pamix_async_function)(pami_context_t context, void *cookie);
typedef pami_result_t (*register_fn)(pami_context_t, pamix_async_function, pamix_async_function,
                                     pamix_async_function, void *);
typedef pami_result_t (*enable_fn)(pami_context_t, pamix_async_t);

static inline size_t load(size_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

#endif
