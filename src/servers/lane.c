/*
 * Lanes: what a context of the program has at servers, made when it first asks for something, and
 * the requests that have come back to it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context/registry.h"
#include "servers/process.h"
#include "util/error.h"

void request_free(struct request *request)
{
    struct lane *lane = request->lane;

    free(request->more);
    lane->outstanding--;
    pool_put(&lane->requests, request);
}

void lane_collect(struct lane *lane)
{
    struct request *request;

    if (atomic_load_explicit(&lane->returned, memory_order_relaxed) == NULL)
        return;
    request = atomic_exchange_explicit(&lane->returned, NULL, memory_order_acquire);
    while (request != NULL) {
        struct request *next = request->next;

        request_free(request);
        request = next;
    }
}

void lane_free(struct lane *lane)
{
    struct list *item;

    atomic_store_explicit(&lane->servers->lanes[lane->context->offset], NULL, memory_order_relaxed);
    process_lane_end(lane);
    while ((item = list_pop_front(&lane->records)) != NULL)
        free(list_entry(item, struct lane_record, link));
    pool_finish(&lane->requests);
    free(lane);
}

struct lane *request_lane(struct servers *servers, struct context *context)
{
    struct lane *lane =
        atomic_load_explicit(&servers->lanes[context->offset], memory_order_relaxed);
    pami_result_t result;

    if (likely(lane != NULL && lane->context == context))
        return lane;
    /* The end of servers touches contexts that have used processes, so these have to ask. */
    if (lane != NULL || servers->processes)
        return NULL;
    for (unsigned i = 0; i < servers->count; i++)
        if (servers->contexts[i] == (pami_context_t)context)
            return NULL;
    return lane_of("PAMIX_SERVERS_FETCH", servers, context, &result);
}

struct lane *lane_of(const char *function, struct servers *servers, pami_context_t handle,
                     pami_result_t *result)
{
    struct context *context = context_from_handle(handle);
    struct lane *lane;

    *result = PAMI_INVAL;
    if (unlikely(servers == NULL || context == NULL)) {
        error_set(PAMI_INVAL, "%s: %s", function,
                  servers == NULL ? "servers: NULL" : "context: not a context");
        return NULL;
    }
    lane = atomic_load_explicit(&servers->lanes[context->offset], memory_order_relaxed);
    if (likely(lane != NULL && lane->context == context))
        return lane;
    if (context->core != servers->core) {
        error_set(PAMI_INVAL, "%s: context: is not of the servers' client", function);
        return NULL;
    }
    for (unsigned i = 0; i < servers->count; i++) {
        if (servers->contexts[i] == handle) {
            error_set(PAMI_INVAL, "%s: context: belongs to server %u", function, i);
            return NULL;
        }
    }
    if (lane != NULL) {
        error_set(PAMI_INVAL, "%s: context: is not one of those that there were", function);
        return NULL;
    }
    lane = aligned_alloc(CACHE_LINE, sizeof(*lane));
    if (lane == NULL) {
        *result = error_set(PAMI_ENOMEM, "%s: out of memory", function);
        return NULL;
    }
    memset(lane, 0, sizeof(*lane));
    list_init(&lane->records);
    lane->servers = servers;
    lane->context = context;
    lane->next = context->offset % servers->count;
    pool_init(&lane->requests, sizeof(struct request), CACHE_LINE);
    if (servers->processes) {
        int error = process_lane(lane);

        if (error != 0) {
            free(lane);
            *result = error_set(error == -EBUSY ? PAMI_INVAL : PAMI_ENOMEM, "%s: context: %s",
                                function, error == -EBUSY ? "uses other servers" : "out of memory");
            return NULL;
        }
    }
    atomic_store_explicit(&servers->lanes[context->offset], lane, memory_order_release);
    return lane;
}
