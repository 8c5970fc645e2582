/*
 * Fences over servers: a part for each server, and a fence on the caller's own context, which may
 * have carried requests as well.
 *
 * A part notes how far its ring was filled at the call. Once the server has started everything up
 * to there, it fences its context. Stopping is a fence over all that was ever put into the rings,
 * which were closed before, and the end of it means that servers have nothing left to do.
 */
#include <stdlib.h>

#include "servers/process.h"
#include "util/error.h"

struct fence;

struct fence_part {
    struct list link; /* in server->fences */
    struct fence *fence;
    struct server *server;
    uint64_t position;
    pami_work_t work;
};

struct fence {
    struct servers *servers;
    struct context *context; /* the caller's */
    pami_event_function function;
    void *cookie;
    bool closing;
    unsigned long long losses; /* that it tells: fence_bit */
    atomic_uint parts;         /* that have not ended */
    atomic_uint pending;       /* these, and the fence of the caller's context */
    atomic_int result;
    pami_work_t work;
    struct fence_part part[];
};

bool servers_take_loss(struct servers *servers, const struct context *context,
                       unsigned long long bit)
{
    bool any = false;

    if (context != NULL)
        return (atomic_fetch_and(&servers->lost[context->offset], ~bit) & bit) != 0;
    for (size_t i = 0; i < ENDPOINT_OFFSETS_MAX; i++)
        any = atomic_exchange(&servers->lost[i], 0) != 0 || any;
    return any;
}

static pami_result_t finish(pami_context_t context, void *cookie)
{
    struct fence *fence = cookie;
    pami_result_t result = (pami_result_t)atomic_load(&fence->result);

    /* Others have begun a fence before they could know that servers stop. */
    if (fence->closing && atomic_load(&fence->servers->fencing) != 0)
        return PAMI_EAGAIN;
    if (result != PAMI_SUCCESS)
        error_set(result, "%s: what servers had may be lost",
                  fence->closing ? "PAMIX_Servers_stop" : "PAMIX_Servers_fence");
    if (fence->function != NULL)
        fence->function(context, fence->cookie, result);
    free(fence);
    return PAMI_SUCCESS;
}

static void fence_less(struct fence *fence, pami_result_t result)
{
    if (result != PAMI_SUCCESS)
        atomic_store(&fence->result, (int)result);
    if (atomic_fetch_sub(&fence->pending, 1) == 1)
        PAMI_Context_post(fence->context, &fence->work, finish, fence);
}

static void own_done(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    fence_less(cookie, result);
}

/* On a server's context. With the last part servers are done with the fence: whoever stops them
 * need not wait for the context of somebody else, and may destroy them before that. */
static void part_less(struct fence *fence, pami_result_t result)
{
    struct servers *servers = fence->servers;

    if (atomic_fetch_sub(&fence->parts, 1) == 1) {
        if (servers_take_loss(servers, fence->closing ? NULL : fence->context, fence->losses))
            atomic_store(&fence->result, PAMI_ERROR);
        if (!fence->closing)
            atomic_fetch_sub(&servers->fencing, 1);
    }
    fence_less(fence, result);
}

static void part_done(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    part_less(cookie, result);
}

void server_fences(struct server *server)
{
    uint64_t started = server->ring.head - (server->held != NULL);
    struct list *item, *following;

    list_for_each_safe (item, following, &server->fences) {
        struct fence_part *part = list_entry(item, struct fence_part, link);
        pami_result_t result;

        if (part->position > started)
            continue;
        list_remove(item);
        result = PAMI_Fence_all(server->context, part_done, part->fence);
        if (result != PAMI_SUCCESS)
            part_less(part->fence, result);
    }
}

static pami_result_t part_arrive(pami_context_t context, void *cookie)
{
    struct fence_part *part = cookie;

    (void)context;
    list_push_back(&part->server->fences, &part->link);
    server_fences(part->server);
    return PAMI_SUCCESS;
}

static struct fence *fence_new(struct servers *servers, struct context *context,
                               pami_event_function fn, void *cookie)
{
    struct fence *fence = calloc(1, sizeof(*fence) + servers->count * sizeof(fence->part[0]));

    if (fence == NULL)
        return NULL;
    fence->servers = servers;
    fence->context = context;
    fence->function = fn;
    fence->cookie = cookie;
    return fence;
}

/* Neither can fail once parts are on their way, so the caller's own fence comes first. */
static pami_result_t fence_launch(struct fence *fence)
{
    struct servers *servers = fence->servers;
    pami_result_t result;

    atomic_init(&fence->parts, servers->count);
    atomic_init(&fence->pending, servers->count + 1);
    result = PAMI_Fence_all(fence->context, own_done, fence);
    if (result != PAMI_SUCCESS) {
        free(fence);
        return result;
    }
    for (unsigned i = 0; i < servers->count; i++) {
        struct fence_part *part = &fence->part[i];

        part->fence = fence;
        part->server = &servers->server[i];
        part->position = ring_position(&part->server->ring);
        PAMI_Context_post(part->server->context, &part->work, part_arrive, part);
    }
    return PAMI_SUCCESS;
}

pami_result_t fence_last(struct servers *servers, struct context *context, pami_event_function fn,
                         void *cookie)
{
    struct fence *fence = fence_new(servers, context, fn, cookie);

    if (fence == NULL)
        return error_set(PAMI_ENOMEM, "PAMIX_Servers_stop: out of memory");
    fence->closing = true;
    return fence_launch(fence);
}

static pami_result_t fence_threads(struct servers *servers, struct context *context,
                                   pami_event_function fn, void *cookie)
{
    struct lane *lane =
        atomic_load_explicit(&servers->lanes[context->offset], memory_order_relaxed);
    struct fence *fence = fence_new(servers, context, fn, cookie);
    pami_result_t result;

    if (fence == NULL)
        return error_set(PAMI_ENOMEM, "PAMIX_Servers_fence: out of memory");
    if (lane == NULL)
        return fence_launch(fence);
    fence->losses = fence_bit(lane->next_fence);
    result = fence_launch(fence);
    lane->next_fence += result == PAMI_SUCCESS;
    return result;
}

static pami_result_t fence_processes(struct servers *servers, struct context *context,
                                     pami_event_function fn, void *cookie)
{
    pami_result_t result;
    struct lane *lane = lane_of("PAMIX_Servers_fence", servers, context, &result);

    return lane != NULL ? process_fence(lane, fn, cookie) : result;
}

pami_result_t PAMIX_Servers_fence(pamix_servers_t handle, pami_context_t context,
                                  pami_event_function fn, void *cookie)
{
    struct servers *servers = servers_find("PAMIX_Servers_fence", handle);
    struct context *own = context_from_handle(context);
    pami_result_t result = PAMI_EAGAIN;

    if (servers == NULL)
        return PAMI_INVAL;
    if (own == NULL || own->core != servers->core)
        return error_set(PAMI_INVAL, "PAMIX_Servers_fence: context: is not of the servers' client");
    /* A stop that does not see this count has been seen by the state. */
    atomic_fetch_add(&servers->fencing, 1);
    switch (atomic_load(&servers->state)) {
    case SERVERS_STOPPED:
        result = PAMI_Fence_all(context, fn, cookie);
        break;
    case SERVERS_RUNNING:
        if (servers->processes) {
            result = fence_processes(servers, own, fn, cookie);
            break;
        }
        result = fence_threads(servers, own, fn, cookie);
        if (result == PAMI_SUCCESS)
            return result;
        break;
    default:
        break;
    }
    atomic_fetch_sub(&servers->fencing, 1);
    return result;
}
