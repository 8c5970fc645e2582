/*
 * Fences: everything that this context started towards an endpoint before has been completed there.
 *
 * Operations are counted per peer and epoch (p2p.h: operation_begin, operation_end). A fence ends
 * the peer's epoch and waits until all of it, and what was before, is complete. Messages are not
 * counted: when some were sent since the last fence, a FENCE packet goes the same way, and the
 * target answers once every message before it has been received and its data is in place. So a
 * fence costs nothing for peers that nothing was sent to, and a message costs nothing for fences.
 * Messages for a life of the endpoint that is over may be lost, which the next fence says; those
 * that wait for its next life are not, and a FENCE waits behind them.
 *
 * At the target a FENCE that has to wait is an entry of peer->receives, behind the messages that it
 * waits for.
 */
#include <errno.h>
#include <stdlib.h>

#include "p2p/p2p.h"
#include "util/error.h"
#include "util/log.h"

/* One call. */
struct fence {
    size_t pending; /* peers that are not ready, and one for the call itself */
    pami_result_t result;
    uint32_t endpoint; /* PAMI_ERROR: where something was lost */
    pami_event_function done_fn;
    void *cookie;
};

/* What it waits for at one peer: all of one epoch. In peer->fences. */
struct fence_wait {
    struct list link;
    uint32_t epoch;
    size_t count;
    bool lost;
    struct fence *fence;
};

/* A FENCE packet on its way. */
struct fence_packet {
    struct operation op;
    uint32_t epoch;
};

/* ---- at the origin: waiting ---- */

static void fence_lost(struct fence *fence, uint32_t endpoint)
{
    fence->result = PAMI_ERROR;
    fence->endpoint = endpoint;
}

static pami_result_t result_of(const struct fence *fence)
{
    if (fence->result == PAMI_ERROR)
        return error_set(PAMI_ERROR, "fence: what went to endpoint %u of task %u may be lost",
                         fence->endpoint, endpoint_task(fence->endpoint));
    if (fence->result == PAMI_ENOMEM)
        return error_set(PAMI_ENOMEM, "fence: out of memory");
    return PAMI_SUCCESS;
}

static void fence_less(struct context *context, struct fence *fence)
{
    if (--fence->pending != 0)
        return;
    if (context != NULL)
        context_keep(context, fence->done_fn, fence->cookie, result_of(fence));
    free(fence);
}

/* Fences end in their order. */
static void settle(struct p2p *p2p, struct peer *peer)
{
    struct list *item;

    while ((item = list_first(&peer->fences)) != NULL) {
        struct fence_wait *wait = list_entry(item, struct fence_wait, link);

        if (wait->count != 0)
            return;
        list_remove(item);
        if (wait->lost)
            fence_lost(wait->fence, peer->endpoint);
        fence_less(p2p->context, wait->fence);
        free(wait);
    }
}

void fence_operation_ended(struct p2p *p2p, struct peer *peer, uint32_t epoch, pami_result_t result)
{
    struct list *item;

    list_for_each (item, &peer->fences) {
        struct fence_wait *wait = list_entry(item, struct fence_wait, link);

        if (wait->epoch != epoch)
            continue;
        wait->count--;
        wait->lost =
            wait->lost || (result != PAMI_SUCCESS && (peer->gone || result == PAMI_SHUTDOWN));
        break;
    }
    settle(p2p, peer);
}

void fences_free(struct peer *peer)
{
    struct list *item;

    while ((item = list_pop_front(&peer->fences)) != NULL) {
        struct fence_wait *wait = list_entry(item, struct fence_wait, link);

        fence_less(NULL, wait->fence);
        free(wait);
    }
}

void fence_messages_lost(struct peer *peer)
{
    peer->lost = peer->lost || peer->unfenced;
    peer->unfenced = false;
}

void fence_refused(struct p2p *p2p, uint32_t endpoint)
{
    struct peer *peer = u64map_get(&p2p->peers, endpoint);

    if (peer != NULL) {
        peer->lost = true;
        return;
    }
    p2p->lost = true;
    p2p->lost_to = endpoint;
}

static void fence_lost_to_strangers(struct p2p *p2p, struct fence *fence)
{
    fence_lost(fence, p2p->lost_to);
    p2p->lost = false;
}

void fence_turn(struct peer *peer)
{
    if (!peer->turned)
        fence_messages_lost(peer);
    peer->turned = true;
}

/* ---- at the origin: the packet ---- */

static void packet_free(struct p2p *p2p, struct operation *operation)
{
    handle_drop(&p2p->handles, operation->handle);
    list_remove(&operation->link);
    free(container_of(operation, struct fence_packet, op));
}

static void packet_finish(struct p2p *p2p, struct operation *operation, pami_result_t result)
{
    struct peer *peer = operation->peer;
    uint32_t epoch = container_of(operation, struct fence_packet, op)->epoch;

    packet_free(p2p, operation);
    operation_end(p2p, peer, epoch, result == PAMI_SUCCESS ? PAMI_SUCCESS : PAMI_SHUTDOWN);
}

static int packet_progress(struct p2p *p2p, struct operation *operation)
{
    const struct packet packet = {
        .head =
            packet_header_short(PROTOCOL_FENCE, 0, 0, 0, p2p->context->endpoint, operation->handle),
    };
    int error = operation->path->am(operation->path, &packet);

    if (error == 0) {
        p2p->packets++;
        list_remove(&operation->link);
    }
    return error;
}

static const struct operation_ops packet_ops = {
    .progress = packet_progress,
    .finish = packet_finish,
    .free = packet_free,
};

static struct fence_packet *packet_new(struct p2p *p2p, struct peer *peer)
{
    struct fence_packet *packet = malloc(sizeof(*packet));

    if (packet == NULL)
        return NULL;
    operation_init(&packet->op, &packet_ops, peer);
    packet->op.handle = handle_new(&p2p->handles, packet);
    if (packet->op.handle != 0)
        return packet;
    free(packet);
    return NULL;
}

/* ---- at the origin: the calls ---- */

/* End the peer's epoch, if there is anything in it or before it. 0 or -ENOMEM. */
static int fence_peer(struct p2p *p2p, struct peer *peer, struct fence *fence)
{
    struct fence_packet *packet = NULL;
    struct fence_wait *wait;

    if (!peer->unfenced && peer->outstanding == 0 && list_empty(&peer->fences)) {
        if (peer->lost)
            fence_lost(fence, peer->endpoint);
        peer->lost = false;
        return 0;
    }
    wait = malloc(sizeof(*wait));
    if (wait == NULL)
        return -ENOMEM;
    if (peer->unfenced) {
        packet = packet_new(p2p, peer);
        if (packet == NULL) {
            free(wait);
            return -ENOMEM;
        }
        if (packet->op.next_life)
            fence_turn(peer);
        packet->epoch = operation_begin(peer);
    }
    *wait = (struct fence_wait){
        .epoch = peer->epoch,
        .count = peer->outstanding,
        .lost = peer->lost,
        .fence = fence,
    };
    list_push_back(&peer->fences, &wait->link);
    fence->pending++;
    peer->epoch++;
    peer->outstanding = 0;
    peer->lost = false;
    peer->unfenced = false;
    if (packet != NULL)
        operation_launch(p2p, &packet->op);
    settle(p2p, peer);
    return 0;
}

static struct fence *fence_new(struct context *context, pami_event_function done_fn, void *cookie)
{
    struct fence *fence = malloc(sizeof(*fence));

    if (fence == NULL || context_promise(context, done_fn, NULL) != 0) {
        free(fence);
        return NULL;
    }
    *fence = (struct fence){.pending = 1, .done_fn = done_fn, .cookie = cookie};
    context->unseen = true;
    return fence;
}

/* The call's own share. Without memory for a peer the fence ends with an error. */
static pami_result_t fence_started(struct context *context, struct fence *fence, int error)
{
    if (error != 0)
        fence->result = PAMI_ENOMEM;
    fence_less(context, fence);
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Fence_begin(pami_context_t handle)
{
    struct context *context = context_from_handle(handle);

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Fence_begin: context: %s", context_fault(handle));
    if (context->p2p->fencing)
        return error_set(PAMI_INVAL, "PAMI_Fence_begin: context: is in a region already");
    context->p2p->fencing = true;
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Fence_end(pami_context_t handle)
{
    struct context *context = context_from_handle(handle);

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Fence_end: context: %s", context_fault(handle));
    if (!context->p2p->fencing)
        return error_set(PAMI_INVAL, "PAMI_Fence_end: context: is in no region");
    context->p2p->fencing = false;
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Fence_all(pami_context_t handle, pami_event_function done_fn, void *cookie)
{
    struct context *context = context_from_handle(handle);
    struct fence *fence;
    struct peer *peer;
    size_t cursor = 0;
    int error = 0;

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Fence_all: context: %s", context_fault(handle));
    misuse_check(context, "PAMI_Fence_all");
    fence = fence_new(context, done_fn, cookie);
    if (fence == NULL)
        return error_set(PAMI_ENOMEM, "PAMI_Fence_all: out of memory");
    while (error == 0 && (peer = u64map_next(&context->p2p->peers, &cursor)) != NULL)
        error = fence_peer(context->p2p, peer, fence);
    if (unlikely(context->p2p->lost))
        fence_lost_to_strangers(context->p2p, fence);
    return fence_started(context, fence, error);
}

pami_result_t PAMI_Fence_endpoint(pami_context_t handle, pami_event_function done_fn, void *cookie,
                                  pami_endpoint_t target)
{
    struct context *context = context_from_handle(handle);
    struct fence *fence;
    struct peer *peer;
    int error = 0;

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Fence_endpoint: context: %s", context_fault(handle));
    misuse_check(context, "PAMI_Fence_endpoint");
    peer = u64map_get(&context->p2p->peers, target);
    if (peer == NULL && !p2p_is_valid(context->core, target))
        return error_set(PAMI_INVAL, "PAMI_Fence_endpoint: target: endpoint %u is outside the job",
                         target);
    fence = fence_new(context, done_fn, cookie);
    if (fence == NULL)
        return error_set(PAMI_ENOMEM, "PAMI_Fence_endpoint: out of memory");
    if (peer != NULL) {
        error = fence_peer(context->p2p, peer, fence);
        if (peer->gone)
            fence_lost(fence, target);
    }
    if (unlikely(context->p2p->lost && context->p2p->lost_to == target))
        fence_lost_to_strangers(context->p2p, fence);
    return fence_started(context, fence, error);
}

/* ---- at the target ---- */

void fence_handle(struct context *context, const struct packet_header *head, void *body)
{
    static const struct message_meta meta;
    struct p2p *p2p = context->p2p;
    struct peer *peer = p2p_origin(p2p, head);
    struct receive *marker;

    (void)body;
    if (peer == NULL)
        return;
    if (list_empty(&peer->receives)) {
        p2p_answer(p2p, peer, head->aux, peer->refused ? PAMI_SHUTDOWN : PAMI_SUCCESS);
        return;
    }
    marker = receive_new(p2p, peer, head, &meta, false);
    if (marker == NULL) {
        log_error("out of memory: a fence of endpoint %u fails", head->origin);
        p2p_answer(p2p, peer, head->aux, PAMI_ENOMEM);
        return;
    }
    marker->fence = true;
    peer->markers++;
    fence_receives_left(p2p, peer);
}

static void marker_free(struct p2p *p2p, struct receive *marker)
{
    marker->peer->markers--;
    receive_free(p2p, marker);
}

/* A receive of this peer has ended: answer the fences that no message of the user is before. The
 * library's own may wait for something that is behind the fence. */
void fence_receives_left(struct p2p *p2p, struct peer *peer)
{
    struct list *item, *following;

    if (likely(peer->markers == 0))
        return;
    list_for_each_safe (item, following, &peer->receives) {
        struct receive *marker = list_entry(item, struct receive, link);
        uint32_t answer = marker->answer;

        if (!marker->fence && marker->dispatch <= DISPATCH_ID_MAX)
            return;
        if (!marker->fence)
            continue;
        marker_free(p2p, marker);
        p2p_answer(p2p, peer, answer, peer->refused ? PAMI_SHUTDOWN : PAMI_SUCCESS);
    }
}

/* The peer has gone, nobody wants an answer. */
void fence_receives_drop(struct p2p *p2p, struct peer *peer)
{
    struct list *item, *following;

    list_for_each_safe (item, following, &peer->receives) {
        struct receive *marker = list_entry(item, struct receive, link);

        if (marker->fence)
            marker_free(p2p, marker);
    }
}

/* ---- purge, resume ---- */

/* Paths are opened again when they are next used, so there is nothing to do but to check, and to
 * look for those that counted as dead. */
static pami_result_t check_endpoints(const char *function, pami_context_t handle,
                                     const pami_endpoint_t *dest, size_t count)
{
    struct context *context = context_from_handle(handle);

    if (context == NULL)
        return error_set(PAMI_INVAL, "%s: context: %s", function, context_fault(handle));
    if (dest == NULL && count != 0)
        return error_set(PAMI_INVAL, "%s: dest: NULL with %zu endpoints", function, count);
    for (size_t i = 0; i < count; i++) {
        if (!p2p_is_valid(context->core, dest[i]))
            return error_set(PAMI_INVAL, "%s: dest[%zu]: endpoint %u is outside the job", function,
                             i, dest[i]);
        if (dest[i] == context->endpoint)
            return error_set(PAMI_INVAL, "%s: dest[%zu]: is the context's own endpoint", function,
                             i);
    }
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Purge(pami_context_t context, pami_endpoint_t *dest, size_t count)
{
    return check_endpoints("PAMI_Purge", context, dest, count);
}

pami_result_t PAMI_Resume(pami_context_t handle, pami_endpoint_t *dest, size_t count)
{
    pami_result_t result = check_endpoints("PAMI_Resume", handle, dest, count);

    for (size_t i = 0; i < count && result == PAMI_SUCCESS; i++) {
        struct p2p *p2p = context_from_handle(handle)->p2p;
        const struct peer *peer = u64map_get(&p2p->peers, dest[i]);

        if (peer != NULL && peer->gone && peer->path->port->ops->revive != NULL)
            peer->path->port->ops->revive(peer->path->port, dest[i]);
    }
    return result;
}
