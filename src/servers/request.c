/*
 * Requests: their way to a server, and the way of its callbacks back to the context
 * that it was made on.
 *
 * The last callback of an operation gives the request back to its lane. Where the user wants any
 * callback it does so from work posted to the context, behind those that came before; otherwise
 * nobody needs to be woken, and it goes onto a stack that the lane empties when it next looks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "p2p/rma_short.h"
#include "p2p/send_short.h"
#include "servers/plain.h"
#include "servers/process.h"
#include "util/error.h"

/* ---- the way back ---- */

static pami_endpoint_t dest_of(const struct request *request)
{
    switch (request->kind) {
    case REQUEST_PUT:
    case REQUEST_GET:
        return request->call.get.rma.dest;
    default:
        return request->call.send.send.dest;
    }
}

static const char *reason_of(const struct request *request, pami_result_t result)
{
    if (SERVERS_LOAD(request->server->dead) != 0)
        return "the server has died";
    if (request->refused && request->more != NULL)
        return request->more;
    return result == PAMI_ENOMEM  ? "out of memory"
           : result == PAMI_INVAL ? "an argument is wrong"
                                  : "failed, or its destination has gone";
}

/* Whoever has found the failure is another thread, or a process. */
static void say_why(const struct request *request, pami_result_t result)
{
    static const char *const what[] = {
        [REQUEST_PUT] = "put",
        [REQUEST_GET] = "get",
        [REQUEST_SEND] = "message",
        [REQUEST_IMMEDIATE] = "message",
    };
    const struct server *server = request->server;
    pami_endpoint_t dest;

    if (likely(result == PAMI_SUCCESS) || server == NULL || request->kind == REQUEST_FENCE)
        return;
    dest = dest_of(request);
    error_set(result, "communication server %u: %s to endpoint %u of task %u: %s",
              (unsigned)(server - server->servers->server), what[request->kind], dest,
              endpoint_task(dest), reason_of(request, result));
}

static pami_result_t run_event(pami_context_t context, void *cookie)
{
    const struct request_event *event = cookie;

    say_why(event->request, event->result);
    if (event->function != NULL)
        event->function(context, event->request->cookie, event->result);
    return PAMI_SUCCESS;
}

static pami_result_t run_last_event(pami_context_t context, void *cookie)
{
    struct request_event event = *(struct request_event *)cookie;
    void *user = event.request->cookie;

    say_why(event.request, event.result);
    request_free(event.request);
    if (event.function != NULL)
        event.function(context, user, event.result);
    return PAMI_SUCCESS;
}

void request_return(struct request *request)
{
    struct lane *lane = request->lane;
    struct request *first = atomic_load_explicit(&lane->returned, memory_order_relaxed);

    do {
        request->next = first;
    } while (!atomic_compare_exchange_weak_explicit(&lane->returned, &first, request,
                                                    memory_order_release, memory_order_relaxed));
}

/* Carried by the client: this is its own context. */
static void event_here(struct request_event *event, bool last)
{
    if (last)
        run_last_event(event->request->lane->context, event);
    else
        run_event(event->request->lane->context, event);
}

void request_first_here(struct request *request, pami_result_t result)
{
    struct request_event *first = &request->event[0];
    pami_event_function function = first->function;

    first->function = NULL;
    say_why(request, result);
    if (function != NULL)
        function(request->lane->context, request->cookie, result);
}

void request_end_here(struct request *request, pami_result_t result)
{
    struct request_event *last = &request->event[request->event[1].function != NULL];

    if (last != request->event)
        request_first_here(request, result);
    last->result = result;
    run_last_event(request->lane->context, last);
}

/* One callback of the operation has come; on whichever context carries it. */
static void event_came(struct request_event *event, pami_result_t result)
{
    struct request *request = event->request;
    struct server *server = request->server;
    bool last = --request->under_way == 0, counted = request_counts(request);

    event->result = result;
    if (server == NULL) {
        event_here(event, last);
        return;
    }
    if (result != PAMI_SUCCESS && last)
        servers_count(&server->failed, 1);
    if (result != PAMI_SUCCESS && !request->wanted)
        lane_lost(request->lane, request->fence);
    if (last && !request->wanted)
        request_return(request);
    else if (last)
        PAMI_Context_post(request->lane->context, &event->work, run_last_event, event);
    else if (event->function != NULL)
        PAMI_Context_post(request->lane->context, &event->work, run_event, event);
    if (last && counted)
        server_less(server);
}

static void on_first(pami_context_t context, void *cookie, pami_result_t result)
{
    struct request *request = cookie;

    (void)context;
    event_came(&request->event[0], result);
}

static void on_second(pami_context_t context, void *cookie, pami_result_t result)
{
    struct request *request = cookie;

    (void)context;
    event_came(&request->event[1], result);
}

/* ---- carrying out ---- */

pami_result_t request_start(struct request *request, struct context *context)
{
    pami_send_t *send = &request->call.send;

    request->under_way = 1;
    switch (request->kind) {
    case REQUEST_PUT:
        request->under_way = 2;
        request->call.put.rma.done_fn = on_first;
        request->call.put.put.rdone_fn = on_second;
        request->call.put.rma.cookie = request;
        return PAMI_Put(context, &request->call.put);
    case REQUEST_GET:
        request->call.get.rma.done_fn = on_first;
        request->call.get.rma.cookie = request;
        return PAMI_Get(context, &request->call.get);
    case REQUEST_SEND:
        send->events = (pami_send_event_t){.cookie = request, .local_fn = on_first};
        if (request->event[1].function != NULL) {
            request->under_way = 2;
            send->events.remote_fn = on_second;
        }
        return PAMI_Send(context, send);
    default:
        return PAMI_Send_immediate(context, &send->send);
    }
}

/* Nothing has begun, so nothing is in flight; the user hears of it as of any other failure. */
void request_fail(struct request *request, pami_result_t result)
{
    pami_context_t context = request->lane->context;
    struct request_event *last = &request->event[request->event[1].function != NULL];

    if (!request->wanted) {
        request_return(request);
        return;
    }
    if (last != request->event && request->event[0].function != NULL) {
        request->event[0].result = result;
        PAMI_Context_post(context, &request->event[0].work, run_event, &request->event[0]);
    }
    last->result = result;
    PAMI_Context_post(context, &last->work, run_last_event, last);
}

/* ---- handing over ---- */

/* The client has made the call itself. */
static pami_result_t made(const struct request_call *call, pami_result_t result)
{
    if (likely(result == PAMI_SUCCESS))
        servers_count(&call->lane->direct, 1);
    return result;
}

struct request *request_new(struct lane *lane, enum request_kind kind)
{
    struct request *request;

    lane_collect(lane);
    request = pool_get(&lane->requests);
    if (request == NULL)
        return NULL;
    atomic_store_explicit(&lane->outstanding, SERVERS_LOAD(lane->outstanding) + 1,
                          memory_order_relaxed);
    request->lane = lane;
    request->kind = (uint8_t)kind;
    request->fence = lane->next_fence;
    request->more = NULL;
    request->refused = false;
    for (int i = 0; i < 2; i++)
        request->event[i].request = request;
    return request;
}

void request_events(struct request *request, void *cookie, pami_event_function first,
                    pami_event_function second)
{
    request->cookie = cookie;
    request->event[0].function = first;
    request->event[1].function = second;
    request->wanted = first != NULL || second != NULL;
}

/* Carried by the client, which wants to know how many it has outstanding. */
static pami_result_t carry_here(struct request *request)
{
    struct lane *lane = request->lane;
    pami_result_t result;

    request->server = NULL;
    result = request_start(request, lane->context);
    if (result != PAMI_SUCCESS || request->kind == REQUEST_IMMEDIATE)
        request_free(request);
    if (result == PAMI_SUCCESS)
        servers_count(&lane->direct, 1);
    return result;
}

static pami_result_t refuse(struct request *request)
{
    servers_count(&request->lane->refused, 1);
    request_free(request);
    return PAMI_EAGAIN;
}

/* A full or closed ring leaves it to the client, where allowed. */
pami_result_t request_hand(const struct request_call *call, struct request *request,
                           struct server *server)
{
    const struct servers *servers = call->servers;

    while (server != NULL) {
        int error, state;

        request->server = server;
        error = servers->processes ? process_put(request, call->ordered)
                                   : ring_put(&server->ring, request);
        if (likely(error == 0)) {
            servers_count(&call->lane->forwarded, 1);
            if (!servers->processes)
                server_wake(server);
            return PAMI_SUCCESS;
        }
        if (error == -EAGAIN) {
            if (call->ordered || (!call->shared && SERVERS_LOAD(servers->active) == 0))
                return refuse(request);
            break;
        }
        if (call->ordered && error == -ENOMEM) {
            request_free(request);
            return request_no_memory(call); /* who carries it may overtake what is there already */
        }
        if (!call->ordered || error != -ESHUTDOWN)
            break;
        /* Closed: what went before must have arrived before the client may send. Or opened again
         * meanwhile. */
        state = atomic_load_explicit(&servers->state, memory_order_acquire);
        if (state == SERVERS_WINDING)
            return refuse(request);
        if (state == SERVERS_STOPPED)
            break;
    }
    return carry_here(request);
}

static pami_result_t begin(struct request_call *call, pamix_servers_t servers,
                           pami_context_t context, const void *parameters, unsigned flags)
{
    pami_result_t result;

    call->servers = servers;
    call->ordered = (flags & PAMIX_SERVERS_ORDERED) != 0;
    call->lane = lane_of(call->function, servers, context, &result);
    if (unlikely(call->lane == NULL))
        return result;
    if (unlikely(parameters == NULL))
        return error_set(PAMI_INVAL, "%s: parameters: NULL", call->function);
    if (unlikely((flags & ~PAMIX_SERVERS_ORDERED) != 0))
        return error_set(PAMI_INVAL,
                         "%s: flags: %#x, of which only PAMIX_SERVERS_ORDERED means something",
                         call->function, flags);
    return PAMI_SUCCESS;
}

pami_result_t request_no_memory(const struct request_call *call)
{
    return error_set(PAMI_ENOMEM, "%s: out of memory", call->function);
}

/* ---- the calls ---- */

/* The common case, which must cost next to nothing: there is no question who makes the call. */
static inline bool is_plain(const struct servers *servers, pami_context_t handle,
                            enum request_kind kind, size_t bytes, unsigned flags)
{
    const struct context *context = context_from_handle(handle);

    return likely(context != NULL && flags == 0 && plain_take(servers, context, kind, bytes));
}

static bool is_plain_otherwise(pamix_servers_t servers_handle, pami_context_t handle,
                               enum request_kind kind, size_t bytes, unsigned flags)
{
    struct servers *servers = servers_from_handle(servers_handle);
    struct context *context = context_from_handle(handle);

    return servers != NULL && context != NULL && flags == 0 &&
           plain_otherwise(servers, context, kind, bytes);
}

/* A put or a get, the other is NULL, goes to a server; large ones go in pieces to several. */
static pami_result_t hand_transfer(struct request_call *call, const pami_put_simple_t *put,
                                   const pami_get_simple_t *get, struct server *server)
{
    const pami_rma_t *rma = put != NULL ? &put->rma : &get->rma;
    unsigned pieces = split_pieces(call, put != NULL ? &put->addr : &get->addr);
    struct request *request;

    if (pieces > 1)
        return split_hand(call, put, get, pieces);
    request = request_new(call->lane, call->kind);
    if (request == NULL)
        return request_no_memory(call);
    if (put != NULL)
        request->call.put = *put;
    else
        request->call.get = *get;
    request_events(request, rma->cookie, rma->done_fn, put != NULL ? put->put.rdone_fn : NULL);
    return request_hand(call, request, server);
}

static pami_result_t transfer_here(pami_context_t context, const pami_put_simple_t *put,
                                   const pami_get_simple_t *get)
{
    return put != NULL ? PAMI_Put(context, (pami_put_simple_t *)put)
                       : PAMI_Get(context, (pami_get_simple_t *)get);
}

/* The parameters of a put or a get, as `kind` says. Not inlined: a plain call saves no registers
 * for it. */
__attribute__((noinline)) static pami_result_t
transfer_otherwise(pamix_servers_t servers, pami_context_t context, const void *parameters,
                   unsigned flags, enum request_kind kind)
{
    const pami_put_simple_t *put = kind == REQUEST_PUT ? parameters : NULL;
    const pami_get_simple_t *get = kind == REQUEST_GET ? parameters : NULL;
    const pami_rma_t *rma = put != NULL ? &put->rma : get != NULL ? &get->rma : NULL;
    struct request_call call;
    pami_result_t result;
    struct server *server;

    if (rma != NULL && is_plain_otherwise(servers, context, kind, rma->bytes, flags))
        return transfer_here(context, put, get);
    call = (struct request_call){
        .function = kind == REQUEST_PUT ? "PAMIX_Servers_put" : "PAMIX_Servers_get",
        .kind = kind,
    };
    result = begin(&call, servers, context, rma, flags);
    if (unlikely(result != PAMI_SUCCESS))
        return result;
    if (unlikely(rma->bytes > MESSAGE_BYTES_MAX))
        return error_set(PAMI_INVAL, "%s: bytes: %zu are too many", call.function, rma->bytes);
    call.bytes = rma->bytes;
    call.dest = rma->dest;
    if (!request_choose(&call, &server))
        return made(&call, transfer_here(context, put, get));
    return hand_transfer(&call, put, get, server);
}

pami_result_t PAMIX_Servers_put(pamix_servers_t servers, pami_context_t context,
                                const pami_put_simple_t *parameters, unsigned flags)
{
    if (likely(parameters != NULL && plain_short(servers, context, flags) &&
               plain_is_short(parameters->rma.bytes) &&
               rma_short_put("PAMIX_Servers_put", context, &parameters->rma, &parameters->addr,
                             parameters->put.rdone_fn)))
        return PAMI_SUCCESS;
    if (parameters != NULL && is_plain(servers, context, REQUEST_PUT, parameters->rma.bytes, flags))
        return PAMI_Put(context, (pami_put_simple_t *)parameters);
    return transfer_otherwise(servers, context, parameters, flags, REQUEST_PUT);
}

pami_result_t PAMIX_Servers_get(pamix_servers_t servers, pami_context_t context,
                                const pami_get_simple_t *parameters, unsigned flags)
{
    if (likely(parameters != NULL && plain_short(servers, context, flags) &&
               plain_is_short(parameters->rma.bytes) &&
               rma_short_get("PAMIX_Servers_get", context, &parameters->rma, &parameters->addr)))
        return PAMI_SUCCESS;
    if (parameters != NULL && is_plain(servers, context, REQUEST_GET, parameters->rma.bytes, flags))
        return PAMI_Get(context, (pami_get_simple_t *)parameters);
    return transfer_otherwise(servers, context, parameters, flags, REQUEST_GET);
}

/* The header always, and the data if `data`, become the request's own. False: out of memory. */
static bool keep_copy(struct request *request, const pami_send_immediate_t *from, bool data)
{
    pami_send_immediate_t *send = &request->call.send.send;
    size_t bytes = from->header.iov_len + (data ? from->data.iov_len : 0);
    char *copy = request->copy;

    *send = *from;
    if (bytes > sizeof(request->copy)) {
        request->more = malloc(bytes);
        if (request->more == NULL)
            return false;
        copy = request->more;
    }
    if (from->header.iov_len != 0)
        memcpy(copy, from->header.iov_base, from->header.iov_len);
    send->header.iov_base = copy;
    if (!data)
        return true;
    if (from->data.iov_len != 0)
        memcpy(copy + from->header.iov_len, from->data.iov_base, from->data.iov_len);
    send->data.iov_base = copy + from->header.iov_len;
    return true;
}

static pami_result_t send_request(struct request_call *call, const pami_send_immediate_t *from,
                                  const pami_send_event_t *events, struct server *server, bool data)
{
    struct request *request;

    if (unlikely(send_has_null(from)))
        return error_set(PAMI_INVAL, "%s: %s: NULL, with a length that is not 0", call->function,
                         from->header.iov_base == NULL && from->header.iov_len != 0 ? "header"
                                                                                    : "data");
    if (unlikely(from->header.iov_len > UINT32_MAX / 2 || from->data.iov_len > MESSAGE_BYTES_MAX))
        return error_set(PAMI_INVAL, "%s: data: %zu bytes and a header of %zu are too many",
                         call->function, from->data.iov_len, from->header.iov_len);
    request = request_new(call->lane, call->kind);
    if (request == NULL)
        return request_no_memory(call);
    if (!keep_copy(request, from, data)) {
        request_free(request);
        return request_no_memory(call);
    }
    request_events(request, events->cookie, events->local_fn, events->remote_fn);
    return request_hand(call, request, server);
}

__attribute__((noinline)) static pami_result_t send_otherwise(pamix_servers_t servers,
                                                              pami_context_t context,
                                                              const pami_send_t *parameters,
                                                              unsigned flags)
{
    struct request_call call;
    pami_result_t result;
    struct server *server;

    if (parameters != NULL &&
        is_plain_otherwise(servers, context, REQUEST_SEND,
                           parameters->send.header.iov_len + parameters->send.data.iov_len, flags))
        return PAMI_Send(context, (pami_send_t *)parameters);
    call = (struct request_call){.function = "PAMIX_Servers_send", .kind = REQUEST_SEND};
    result = begin(&call, servers, context, parameters, flags);
    if (unlikely(result != PAMI_SUCCESS))
        return result;
    call.bytes = parameters->send.header.iov_len + parameters->send.data.iov_len;
    call.dest = parameters->send.dest;
    if (!request_choose(&call, &server))
        return made(&call, PAMI_Send(context, (pami_send_t *)parameters));
    return send_request(&call, &parameters->send, &parameters->events, server,
                        send_is_copied(&parameters->events, parameters->send.data.iov_len));
}

pami_result_t PAMIX_Servers_send(pamix_servers_t servers, pami_context_t context,
                                 const pami_send_t *parameters, unsigned flags)
{
    if (parameters != NULL &&
        is_plain(servers, context, REQUEST_SEND,
                 parameters->send.header.iov_len + parameters->send.data.iov_len, flags))
        return PAMI_Send(context, (pami_send_t *)parameters);
    return send_otherwise(servers, context, parameters, flags);
}

__attribute__((noinline)) static pami_result_t
send_immediate_otherwise(pamix_servers_t servers, pami_context_t context,
                         const pami_send_immediate_t *parameters, unsigned flags)
{
    static const pami_send_event_t none = {.cookie = NULL};
    struct request_call call;
    pami_result_t result;
    struct server *server;
    size_t total;

    if (parameters != NULL &&
        is_plain_otherwise(servers, context, REQUEST_IMMEDIATE,
                           parameters->header.iov_len + parameters->data.iov_len, flags))
        return PAMI_Send_immediate(context, (pami_send_immediate_t *)parameters);
    call = (struct request_call){.function = "PAMIX_Servers_send_immediate",
                                 .kind = REQUEST_IMMEDIATE};
    result = begin(&call, servers, context, parameters, flags);
    if (unlikely(result != PAMI_SUCCESS))
        return result;
    total = parameters->header.iov_len + parameters->data.iov_len;
    if (unlikely(total > call.servers->core->send_immediate_max ||
                 total < parameters->data.iov_len))
        return error_set(PAMI_INVAL, "%s: data: %zu bytes and a header of %zu, more than %zu",
                         call.function, parameters->data.iov_len, parameters->header.iov_len,
                         call.servers->core->send_immediate_max);
    call.bytes = total;
    call.dest = parameters->dest;
    if (!request_choose(&call, &server))
        return made(&call, PAMI_Send_immediate(context, (pami_send_immediate_t *)parameters));
    return send_request(&call, parameters, &none, server, true);
}

pami_result_t PAMIX_Servers_send_immediate(pamix_servers_t servers, pami_context_t context,
                                           const pami_send_immediate_t *parameters, unsigned flags)
{
    if (likely(parameters != NULL && plain_short(servers, context, flags))) {
        if (likely(send_short(context, parameters)))
            return PAMI_SUCCESS;
        return PAMI_Send_immediate(context, (pami_send_immediate_t *)parameters);
    }
    return send_immediate_otherwise(servers, context, parameters, flags);
}
