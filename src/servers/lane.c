/*
 * Lanes: what a context of the program has at servers, made when it first asks for something, and
 * the requests that have come back to it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "servers/plain.h"
#include "servers/process.h"
#include "util/error.h"

void request_free(struct request *request)
{
    struct lane *lane = request->lane;

    free(request->more);
    pool_put(&lane->requests, request);
    /* Last, and pairs with lane_unfinished: the lane may be freed by another thread then. */
    atomic_store_explicit(&lane->outstanding, SERVERS_LOAD(lane->outstanding) - 1,
                          memory_order_release);
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

bool lane_unfinished(const struct lane *lane)
{
    size_t count = atomic_load_explicit(&lane->outstanding, memory_order_acquire);
    const struct request *request = atomic_load_explicit(&lane->returned, memory_order_acquire);

    for (; request != NULL; request = request->next)
        count--;
    return count != 0 || atomic_load_explicit(&lane->records_count, memory_order_acquire) != 0;
}

void lane_record_add(struct lane *lane, struct lane_record *record)
{
    record->lane = lane;
    list_push_back(&lane->records, &record->link);
    atomic_store_explicit(&lane->records_count, SERVERS_LOAD(lane->records_count) + 1,
                          memory_order_relaxed);
}

void lane_record_remove(struct lane_record *record)
{
    struct lane *lane = record->lane;

    list_remove(&record->link);
    /* Last, as in request_free. */
    atomic_store_explicit(&lane->records_count, SERVERS_LOAD(lane->records_count) - 1,
                          memory_order_release);
}

void lane_free(struct lane *lane)
{
    struct list *item;

    lane_collect(lane);
    atomic_store_explicit(&lane->servers->lanes[lane->offset], NULL, memory_order_relaxed);
    plain_end(lane);
    process_lane_end(lane);
    atomic_store(&lane->servers->lost[lane->offset], 0);
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

/* Whether a context that is there may have a lane, which it has not yet. */
static pami_result_t check_context(const char *function, const struct servers *servers,
                                   const struct context *context)
{
    if (context->core != servers->core)
        return error_set(PAMI_INVAL, "%s: context: is not of the servers' client", function);
    for (unsigned i = 0; i < servers->count; i++)
        if (servers->contexts[i] == (pami_context_t)context)
            return error_set(PAMI_INVAL, "%s: context: belongs to server %u", function, i);
    if (atomic_load_explicit(&servers->lanes[context->offset], memory_order_relaxed) != NULL)
        return error_set(PAMI_INVAL, "%s: context: is not one of those that there were", function);
    return PAMI_SUCCESS;
}

/* 0, -ENOMEM, or -EBUSY: the context has a lane at other processes. */
static int lane_new(struct servers *servers, struct context *context, struct lane **out)
{
    struct lane *lane = aligned_alloc(CACHE_LINE, sizeof(*lane));
    int error;

    if (lane == NULL)
        return -ENOMEM;
    memset(lane, 0, sizeof(*lane));
    list_init(&lane->records);
    lane->servers = servers;
    lane->context = context;
    lane->offset = context->offset;
    lane->next = context->offset % servers->count;
    pool_init(&lane->requests, sizeof(struct request), CACHE_LINE);
    error = servers->processes ? process_lane(lane) : 0;
    if (error != 0) {
        free(lane);
        return error;
    }
    atomic_store_explicit(&servers->lanes[context->offset], lane, memory_order_release);
    *out = lane;
    return 0;
}

struct lane *lane_of(const char *function, pamix_servers_t servers_handle, pami_context_t handle,
                     pami_result_t *result)
{
    struct servers *servers = servers_from_handle(servers_handle);
    struct context *context = context_from_handle(handle);
    struct lane *lane;
    int error;

    if (unlikely(servers == NULL || context == NULL)) {
        *result =
            error_set(PAMI_INVAL, "%s: %s", function,
                      servers == NULL ? servers_fault(servers_handle) : "context: not a context");
        return NULL;
    }
    lane = atomic_load_explicit(&servers->lanes[context->offset], memory_order_relaxed);
    if (likely(lane != NULL && lane->context == context))
        return lane;
    *result = check_context(function, servers, context);
    if (*result != PAMI_SUCCESS)
        return NULL;
    error = lane_new(servers, context, &lane);
    if (error == -EBUSY)
        *result = error_set(PAMI_INVAL, "%s: context: uses other servers", function);
    else if (error != 0)
        *result = error_set(PAMI_ENOMEM, "%s: out of memory", function);
    return error == 0 ? lane : NULL;
}
