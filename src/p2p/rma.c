/*
 * One-sided transfers: the calls, what they check, and how a transfer begins and ends.
 *
 * Eight bytes into a shared heap take a few checks, a store and the callbacks' records; anything
 * else becomes a struct rma (rma.h). No callback runs inside a call, and done_fn is always due
 * before rdone_fn.
 */
#include "p2p/rma.h"

#include <errno.h>
#include <stdlib.h>

#include "p2p/rma_short.h"
#include "util/error.h"
#include "util/move.h"

/* Gets from a heap that the network reads are not short from here on. */
#define READ_LEAST 4096u

/* ---- the end of a transfer ---- */

/* Puts that waited for one that has ended. */
static void puts_continue(struct p2p *p2p, struct peer *peer)
{
    struct list *item;

    if (p2p->continuing || peer->gone)
        return;
    p2p->continuing = true;
    while ((item = list_first(&peer->puts_waiting)) != NULL) {
        struct rma *rma = list_entry(item, struct rma, turn);

        if (rma_must_wait(peer, rma))
            break;
        list_remove(item);
        rma->begun = true;
        if (rma->way == RMA_PACKETS) {
            rma_by_packets(p2p, rma);
        } else {
            rma_put_moves(peer, rma);
            rma_steps_begin(p2p, rma);
        }
    }
    p2p->continuing = false;
}

void rma_free(struct p2p *p2p, struct rma *rma)
{
    handle_drop(&p2p->handles, rma->op.handle);
    list_remove(&rma->op.link);
    list_remove(&rma->turn);
    list_remove(&rma->beside);
    if (rma->typed != NULL)
        rma_typed_free(rma->typed);
    pool_put(&p2p->rmas, rma);
}

void rma_local_done(struct p2p *p2p, struct rma *rma, pami_result_t result)
{
    if (rma->local_done)
        return;
    rma->local_done = true;
    context_keep(p2p->context, rma->done_fn, rma->cookie, result);
}

void rma_end(struct p2p *p2p, struct rma *rma, pami_result_t result)
{
    struct peer *peer = rma->op.peer;
    bool put = rma->put;

    rma_local_done(p2p, rma, result);
    if (put && rma->way == RMA_HEAP) /* a fence may end with it */
        p2p->context->unseen = true;
    context_keep(p2p->context, rma->rdone_fn, rma->cookie, result);
    if (put) {
        peer->puts--;
        if (rma->begun && rma->way == RMA_PACKETS)
            peer->puts_packets--;
        else if (rma->begun)
            peer->puts_moving--;
    }
    operation_end(p2p, peer, rma->epoch, rma->lost ? PAMI_SHUTDOWN : result);
    rma_free(p2p, rma);
    if (put && unlikely(!list_empty(&peer->puts_waiting)))
        puts_continue(p2p, peer);
}

pami_result_t rma_fault(struct rma *rma, int error)
{
    const char *what = rma->put ? "put" : "get";

    rma->lost = error == -EPIPE;
    if (error == -EPIPE)
        return error_set(PAMI_ERROR, "%s: endpoint %u of task %u has gone", what,
                         rma->op.peer->endpoint, endpoint_task(rma->op.peer->endpoint));
    if (error == -ENOMEM)
        return error_set(PAMI_ENOMEM, "%s: out of memory", what);
    return error_set(PAMI_ERROR, "%s: memory of endpoint %u, or of this task, is not accessible",
                     what, rma->op.peer->endpoint);
}

void rma_peer_gone(struct p2p *p2p, struct peer *peer)
{
    struct list *item, *following;

    list_for_each_safe (item, following, &p2p->copies) {
        struct rma *rma = list_entry(item, struct rma, turn);

        if (rma->op.peer != peer)
            continue;
        p2p->copy_count--;
        rma_end(p2p, rma, rma_fault(rma, -EPIPE));
    }
    while ((item = list_first(&peer->puts_waiting)) != NULL) {
        struct rma *rma = list_entry(item, struct rma, turn);

        rma_end(p2p, rma, rma_fault(rma, -EPIPE));
    }
}

bool rma_puts_wait(const struct p2p *p2p)
{
    const struct peer *peer;
    size_t cursor = 0;

    while ((peer = u64map_next(&p2p->peers, &cursor)) != NULL)
        if (!list_empty(&peer->puts_waiting))
            return true;
    return false;
}

void rma_peer_free(struct p2p *p2p, struct peer *peer)
{
    struct list *item;

    while ((item = list_first(&peer->puts_waiting)) != NULL)
        rma_free(p2p, list_entry(item, struct rma, turn));
}

void rma_drop_begun(struct p2p *p2p)
{
    struct list *item;

    while ((item = list_first(&p2p->copies)) != NULL)
        rma_free(p2p, list_entry(item, struct rma, turn));
    while ((item = list_first(&p2p->moving)) != NULL)
        rma_free(p2p, list_entry(item, struct rma, turn));
}

uint64_t rma_steps(const struct p2p *p2p)
{
    const struct list *item;
    uint64_t steps = 0;

    list_for_each (item, &p2p->moving)
        steps += list_entry(item, const struct rma, turn)->transfer.steps;
    return steps;
}

void rma_finish(struct p2p *p2p)
{
    pool_finish(&p2p->rmas);
    pool_finish(&p2p->serves);
    free(p2p->batch);
}

/* ---- the beginning ---- */

static bool is_self(const struct rma_call *call)
{
    return endpoint_task(call->rma->dest) == call->context->core->task;
}

static bool wants_packets(const struct rma_call *call)
{
    return call->rma->hints.use_shmem == PAMI_HINT_DISABLE;
}

/* Where `bytes` of the target's memory are mapped here, or NULL. */
static char *mapped(const struct rma_call *call, struct path *path, size_t bytes)
{
    return is_self(call) ? (char *)(uintptr_t)call->remote : path_map(path, call->remote, bytes);
}

/* The same for all that a typed transfer touches there: the base of its layout. */
static char *mapped_typed(const struct rma_call *call, struct path *path)
{
    char *base = mapped(call, path, 1); /* lets the device map it */

    if (is_self(call))
        return base;
    return rma_typed_heap(call->remote_type, path, call->remote, call->rma->bytes);
}

static bool overlaps(const char *a, const char *b, size_t bytes)
{
    return a < b ? (size_t)(b - a) < bytes : (size_t)(a - b) < bytes;
}

/* The target's memory, when the transfer can be done with inside the call; else NULL. What lies
 * over its own source is moved in one piece, whatever it was to go by, unless it is typed. */
static char *address_at_once(const struct rma_call *call, struct peer *peer)
{
    size_t bytes = call->rma->bytes;
    bool is_step = bytes <= RMA_STEP_BYTES && !wants_packets(call);
    char *remote;

    if (call->put && peer->puts != 0)
        return NULL;
    if (call->local_type != NULL)
        return is_step ? mapped_typed(call, peer->path) : NULL;
    if (unlikely(wants_packets(call)) && !is_self(call))
        return NULL;
    remote = mapped(call, peer->path, bytes);
    if (remote == NULL || overlaps(call->local, remote, bytes))
        return remote;
    return is_step ? remote : NULL;
}

static void count(struct context *context, bool put, enum rma_way way, size_t bytes)
{
    context->counters[(put ? COUNTER_PUT_HEAP : COUNTER_GET_HEAP) + (unsigned)way]++;
    context->counters[(put ? COUNTER_PUT_HEAP_BYTES : COUNTER_GET_HEAP_BYTES) + (unsigned)way] +=
        bytes;
}

static void complete(const struct rma_call *call, enum rma_way way)
{
    count(call->context, call->put, way, call->rma->bytes);
    context_complete(call->context, call->rma->done_fn, call->rma->cookie, PAMI_SUCCESS);
    context_complete(call->context, call->rdone_fn, call->rma->cookie, PAMI_SUCCESS);
}

static void move_typed(const struct rma_call *call, const char *base)
{
    struct type_cursor local, remote;

    type_cursor_init(&local, call->local_type, call->local, 0);
    type_cursor_init(&remote, call->remote_type, base, 0);
    type_copy(call->put ? &remote : &local, call->put ? &local : &remote, call->rma->bytes);
}

/* Move inside the call, and let the callbacks come. */
static pami_result_t at_once(const struct rma_call *call, char *remote)
{
    size_t bytes = call->rma->bytes;

    if (completion_reserve(&call->context->completions, 2) != 0)
        return error_set(PAMI_ENOMEM, "%s: out of memory", call->function);
    order_before_put();
    if (bytes != 0 && call->local_type != NULL) {
        move_typed(call, remote);
    } else if (bytes != 0) {
        move_map(remote, bytes);
        move_bytes(call->put ? remote : call->local, call->put ? call->local : remote, bytes);
    }
    order_after_get();
    if (call->rdone_fn != NULL)
        call->context->unseen = true;
    complete(call, RMA_HEAP);
    return PAMI_SUCCESS;
}

/* Single copy inside the call, for what is too little to be shared with the target and needs no
 * object. False: it did not work, or not this way; nothing is known of it. */
static bool copy_at_once(const struct rma_call *call, struct peer *peer)
{
    struct path *path = peer->path;
    size_t bytes = call->rma->bytes;
    const struct iovec local = {call->local, bytes};
    const struct iovec remote = {(void *)(uintptr_t)call->remote, bytes};
    size_t moved = 0;

    if (!path->single_copy || path->port->ops->copyv == NULL || bytes >= RMA_OBJECT_BYTES ||
        call->local_type != NULL || (call->put && peer->puts != 0) || wants_packets(call) ||
        completion_reserve(&call->context->completions, 2) != 0)
        return false;
    if (path->port->ops->copyv(path, call->put, &local, 1, &remote, 1, &moved) != 0 ||
        moved != bytes)
        return false;
    complete(call, RMA_COPY);
    return true;
}

static pami_result_t complete_gone(const struct rma_call *call)
{
    struct p2p *p2p = call->context->p2p;

    if (completion_reserve(&call->context->completions, 2) != 0)
        return error_set(PAMI_ENOMEM, "%s: out of memory", call->function);
    fence_refused(p2p, call->rma->dest);
    p2p_no_peer(call->function, call->rma->dest, p2p, -EPIPE); /* the text, for the callbacks */
    context_complete(call->context, call->rma->done_fn, call->rma->cookie, PAMI_ERROR);
    context_complete(call->context, call->rdone_fn, call->rma->cookie, PAMI_ERROR);
    return PAMI_SUCCESS;
}

pami_result_t rma_null_address(const struct rma_call *call, const char *side)
{
    return error_set(PAMI_INVAL, "%s: addr.%s: NULL with %zu bytes", call->function, side,
                     call->rma->bytes);
}

static pami_result_t check_range(const struct rma_call *call)
{
    size_t bytes = call->rma->bytes;

    if (bytes > MESSAGE_BYTES_MAX)
        return error_set(PAMI_INVAL, "%s: bytes: %zu are too many", call->function, bytes);
    if (bytes == 0 || call->local_type != NULL)
        return PAMI_SUCCESS;
    if (call->local == NULL)
        return rma_null_address(call, "local");
    if (call->remote == 0)
        return rma_null_address(call, "remote");
    if (call->remote + bytes < bytes || (uintptr_t)call->local + bytes < bytes)
        return error_set(PAMI_INVAL, "%s: bytes: %zu are more than there are behind an address",
                         call->function, bytes);
    return PAMI_SUCCESS;
}

static struct rma *rma_new(const struct rma_call *call, struct peer *peer)
{
    struct p2p *p2p = call->context->p2p;
    struct rma *rma = pool_get(&p2p->rmas);

    if (rma == NULL)
        return NULL;
    memset(rma, 0, sizeof(*rma));
    operation_init(&rma->op, call->put ? &rma_put_ops : &rma_get_ops, peer);
    list_init(&rma->turn);
    list_init(&rma->beside);
    rma->put = call->put;
    rma->local = call->local;
    rma->remote = call->remote;
    rma->bytes = call->rma->bytes;
    rma->done_fn = call->rma->done_fn;
    rma->rdone_fn = call->rdone_fn;
    rma->cookie = call->rma->cookie;
    rma->context = call->context;
    if (call->local_type != NULL && rma_typed_new(call, &rma->typed) != 0) {
        rma_free(p2p, rma);
        return NULL;
    }
    return rma;
}

/* Both sides are regions that the network knows. */
static bool is_native(const struct rma_call *call, const struct rma *rma)
{
    return call->far.id != 0 && rma->typed == NULL && rma->op.path->port->ops->remote != NULL &&
           call->rma->hints.use_rdma != PAMI_HINT_DISABLE &&
           (call->far.id == EXPOSURE_ALL || call->far.offset == endpoint_offset(call->rma->dest));
}

/*
 * From a shared heap that the network knows. Puts keep their order, so they do not go this way; nor
 * do short gets while others are under way, because their packets travel together: 0.46 M/s of 8 B
 * in packets, 0.14 M/s read (two namespaces, net, AMD EPYC, 2026-11-23).
 */
static bool reads_heap(const struct rma_call *call, const struct rma *rma)
{
    const struct path *path = rma->op.path;
    uint64_t offset = rma->remote - path->open_remote;

    return !rma->put && rma->typed == NULL && offset < path->open_bytes &&
           rma->bytes <= path->open_bytes - offset &&
           (rma->bytes >= READ_LEAST || rma->op.peer->outstanding == 0) &&
           call->rma->hints.use_rdma != PAMI_HINT_DISABLE;
}

static void go_native(const struct rma_call *call, struct rma *rma)
{
    rma->way = RMA_COPY;
    rma->native = true;
    rma->allowed = rma->bytes;
    rma->near = call->near;
    rma->far = call->far;
    rma->base = call->base;
}

static void read_heap(const struct rma_call *call, struct rma *rma)
{
    go_native(call, rma);
    rma->far.id = EXPOSURE_ALL;
}

/* The same after a question: the network knows all memory of both sides. */
static void ask_native(struct rma *rma)
{
    rma->way = RMA_COPY;
    rma->native = rma->asks = rma->asking = true;
    rma->far.id = EXPOSURE_ALL;
}

/* The way to the memory; *heap is set when it is the heap. 0 or what peer_packet_path says. */
static int choose_way(const struct rma_call *call, struct rma *rma, void **heap)
{
    struct p2p *p2p = call->context->p2p;
    struct path *path = rma->op.path;
    size_t bytes = call->rma->bytes;

    if (wants_packets(call)) {
        rma->way = RMA_PACKETS;
        return peer_packet_path(p2p, rma->op.peer, &rma->op.path);
    }
    *heap = rma->typed != NULL ? mapped_typed(call, path) : mapped(call, path, bytes);
    rma->way = RMA_PACKETS;
    if (*heap != NULL || is_self(call))
        rma->way = RMA_HEAP;
    else if (is_native(call, rma))
        go_native(call, rma);
    else if (reads_heap(call, rma))
        read_heap(call, rma);
    else if (rma_may_ask(call, rma))
        ask_native(rma);
    else if (rma->put && rma->typed != NULL && rma_typed_is_fine(rma->typed->remote, bytes))
        return 0;
    else if (path->single_copy && path->port->ops->put != NULL && path->port->ops->get != NULL)
        rma->way = RMA_COPY;
    if (rma->way == RMA_COPY && rma->typed != NULL)
        rma->typed->staged = rma_typed_is_fine(rma->typed->local, bytes);
    return 0;
}

/* Into the queue of the peer. The transfer ends if there is no handle left for it. */
void rma_by_packets(struct p2p *p2p, struct rma *rma)
{
    rma->way = RMA_PACKETS;
    rma->op.ops = rma->put ? &rma_put_ops : &rma_get_ops;
    if (rma->put) {
        rma->op.peer->puts_packets++;
        list_push_back(&rma->op.peer->puts_sent, &rma->beside);
    }
    rma->op.handle = handle_new(&p2p->handles, rma);
    if (rma->op.handle == 0)
        rma_end(p2p, rma, rma_fault(rma, -ENOMEM));
    else
        operation_enqueue(p2p, &rma->op);
}

static void begin(struct p2p *p2p, struct rma *rma)
{
    struct peer *peer = rma->op.peer;
    size_t moved = 0;

    if (rma->put && (!list_empty(&peer->puts_waiting) || rma_must_wait(peer, rma))) {
        peer->puts++;
        list_push_back(&peer->puts_waiting, &rma->turn);
        if (rma->asks)
            rma_ask(p2p, rma);
        return;
    }
    rma->begun = true;
    if (rma->put)
        peer->puts++;
    if (rma->way == RMA_PACKETS) {
        bool idle = list_empty(&peer->queue);

        rma_by_packets(p2p, rma);
        if (idle)
            peer_progress(p2p, peer);
        return;
    }
    if (rma->put)
        rma_put_moves(peer, rma);
    rma_steps_begin(p2p, rma);
    if (rma->asks) {
        rma_ask(p2p, rma);
        return;
    }
    rma_step(p2p, rma, &moved);
    if (!list_empty(&p2p->copies))
        p2p->context->busy = true;
}

/* Every transfer but those of the short cuts, and all errors. */
pami_result_t rma_call(const struct rma_call *call)
{
    struct p2p *p2p = call->context->p2p;
    pami_result_t result;
    struct peer *peer;
    struct rma *rma;
    void *heap = NULL;
    char *address;
    int error = 0;

    misuse_check(call->context, call->function);
    peer = peer_get(p2p, call->rma->dest, &error);
    if (unlikely(peer == NULL && error != -EPIPE))
        return p2p_no_peer(call->function, call->rma->dest, p2p, error);
    result = check_range(call);
    if (unlikely(result != PAMI_SUCCESS))
        return result;
    if (unlikely(peer == NULL))
        return complete_gone(call);
    if (unlikely(call->rma->bytes == 0))
        return at_once(call, NULL);
    address = address_at_once(call, peer);
    if (address != NULL)
        return at_once(call, address);
    if (likely(copy_at_once(call, peer)))
        return PAMI_SUCCESS;
    rma = rma_new(call, peer);
    if (rma == NULL)
        return error_set(PAMI_ENOMEM, "%s: out of memory", call->function);
    error = choose_way(call, rma, &heap);
    if (error == 0)
        error = context_promise(call->context, rma->done_fn, rma->rdone_fn);
    if (error != 0) {
        rma_free(p2p, rma);
        return error == -EPIPE ? complete_gone(call)
                               : p2p_no_peer(call->function, call->rma->dest, p2p, error);
    }
    if (rma->way == RMA_HEAP)
        rma->remote = (uint64_t)(uintptr_t)heap;
    if (rma->way == RMA_HEAP && rma->typed != NULL)
        rma_typed_seek(rma);
    count(call->context, call->put, rma->way, rma->bytes);
    rma->epoch = operation_begin(peer);
    begin(p2p, rma);
    return PAMI_SUCCESS;
}

/* Steps of what goes on by itself, in turn, as much as a pass may take. Returns the events. */
int rma_progress(struct p2p *p2p)
{
    size_t moved = 0;
    size_t idle = 0;
    int events = 0;

    for (int i = 0; i < RMA_PASS_STEPS && idle < p2p->copy_count && moved < RMA_PASS_BYTES; i++) {
        struct list *item = list_pop_front(&p2p->copies);

        list_push_back(&p2p->copies, item);
        if (rma_step(p2p, list_entry(item, struct rma, turn), &moved)) {
            events++;
            idle = 0;
        } else {
            idle++;
        }
    }
    p2p->context->busy = p2p->copy_count != 0 && events != 0;
    return events;
}

/* ---- the calls ---- */

pami_result_t PAMI_Put(pami_context_t handle, pami_put_simple_t *parameters)
{
    struct context *context = context_from_handle(handle);

    if (unlikely(context == NULL))
        return error_set(PAMI_INVAL, "PAMI_Put: context: %s", context_fault(handle));
    if (unlikely(parameters == NULL))
        return error_set(PAMI_INVAL, "PAMI_Put: parameters: NULL");
    if (likely(rma_is_short(parameters->rma.bytes) &&
               rma_short_put("PAMI_Put", context, &parameters->rma, &parameters->addr,
                             parameters->put.rdone_fn)))
        return PAMI_SUCCESS;
    return rma_call(&(const struct rma_call){
        .function = "PAMI_Put",
        .context = context,
        .rma = &parameters->rma,
        .put = true,
        .local = parameters->addr.local,
        .remote = (uint64_t)(uintptr_t)parameters->addr.remote,
        .rdone_fn = parameters->put.rdone_fn,
    });
}

pami_result_t PAMI_Get(pami_context_t handle, pami_get_simple_t *parameters)
{
    struct context *context = context_from_handle(handle);

    if (unlikely(context == NULL))
        return error_set(PAMI_INVAL, "PAMI_Get: context: %s", context_fault(handle));
    if (unlikely(parameters == NULL))
        return error_set(PAMI_INVAL, "PAMI_Get: parameters: NULL");
    if (likely(rma_is_short(parameters->rma.bytes) &&
               rma_short_get("PAMI_Get", context, &parameters->rma, &parameters->addr)))
        return PAMI_SUCCESS;
    return rma_call(&(const struct rma_call){
        .function = "PAMI_Get",
        .context = context,
        .rma = &parameters->rma,
        .local = parameters->addr.local,
        .remote = (uint64_t)(uintptr_t)parameters->addr.remote,
    });
}
