/*
 * Servers that are processes, from a task's side: requests leave as messages and come back as
 * answers, on the context that made them.
 *
 * A server process reads and writes the task's memory through its shared heap. What lies elsewhere
 * goes along in the message if it is short, or if the order of requests wants it; otherwise the
 * client carries the request by itself. Requests are named by handles, so an answer can do no harm.
 *
 * A server that dies is noticed as any task is (device/shm/watch.c). Its gets are begun again by
 * the client; puts and sends end with an error, because nobody knows whether they took place, and
 * so does the fence behind them. Its part of a fence is one of the context then.
 */
#include "servers/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "client/client.h"
#include "p2p/message.h"
#include "servers/protocol.h"
#include "util/error.h"
#include "util/log.h"
#include "util/numa.h"
#include "util/option.h"

/* Unordered requests carry at most so much data that is not in the shared heap. */
#define CARRIED_BYTES 2048u
#define HEADER_USUAL 256u

/* A fence of one lane, or a stop. */
struct process_fence {
    struct lane_record record;
    struct servers *servers;
    struct context *context;
    pami_event_function function;
    void *cookie;
    pami_result_t result;
    unsigned pending;          /* parts: of each server, and of the context */
    unsigned long long losses; /* that it tells: fence_bit */
    bool lost;                 /* there were some */
    bool stop;
    pami_work_t work;
};

/* ---- answers ---- */

/* It is under way no more. */
static void forget(struct request *request)
{
    struct lane *lane = request->lane;
    struct server *server = request->server;

    handle_drop(&lane->handles, request->handle);
    lane->waiting[server - server->servers->server]--;
    atomic_fetch_sub(&server->servers->under_way, 1);
}

static void on_answer(pami_context_t handle, void *cookie, const void *header, size_t header_size,
                      const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct lane *lane = cookie;
    const struct server_answer *answer = header;
    struct request *request;

    (void)handle, (void)data, (void)bytes, (void)recv;
    if (header_size != sizeof(*answer))
        return;
    request = handle_find(&lane->handles, answer->handle);
    if (request == NULL || request->server->endpoint != origin)
        return;
    if (answer->last == 0) {
        request_first_here(request, (pami_result_t)answer->result);
        return;
    }
    if (answer->result != PAMI_SUCCESS) {
        atomic_fetch_add_explicit(&request->server->failed, 1, memory_order_relaxed);
        if (!request->wanted)
            lane_lost(request->lane, request->fence);
    }
    forget(request); /* a stop waits for that, and looks for losses */
    request_end_here(request, (pami_result_t)answer->result);
}

/* ---- a server dies ---- */

/* A get that was begun again. */
static void on_got(pami_context_t context, void *cookie, pami_result_t result)
{
    struct request *request = cookie;
    struct lane *lane = request->lane;

    (void)context;
    lane->begun_again--;
    atomic_fetch_sub(&lane->servers->under_way, 1);
    request_end_here(request, result);
}

static pami_result_t get_again(struct request *request)
{
    struct lane *lane = request->lane;
    pami_get_simple_t *get = &request->call.get;
    pami_result_t result;

    get->rma.done_fn = on_got;
    get->rma.cookie = request;
    result = PAMI_Get(lane->context, get);
    if (result != PAMI_SUCCESS)
        return result;
    lane->begun_again++;
    atomic_fetch_add(&lane->servers->under_way, 1);
    servers_count(&lane->direct, 1);
    return PAMI_SUCCESS;
}

static void take_back(struct request *request)
{
    pami_result_t result = request->kind == REQUEST_GET ? get_again(request) : PAMI_ERROR;

    if (result != PAMI_SUCCESS)
        lane_lost(request->lane, request->fence);
    forget(request);
    if (result != PAMI_SUCCESS)
        request_fail(request, result);
    else
        request->server = NULL;
}

/* What it waits for at that server is lost, or has been begun again by the context. */
static void take_back_fence(struct request *request)
{
    pami_result_t result =
        PAMI_Fence_all(request->lane->context, request->event[0].function, request->cookie);

    forget(request);
    if (result != PAMI_SUCCESS)
        request_fail(request, result);
    else
        request_free(request);
}

/* A context that has come into being since hears of it when it sends. */
static void server_died(struct server *server)
{
    if (!atomic_exchange(&server->dead, 1))
        log_warn("communication server %u has died", (unsigned)(server - server->servers->server));
}

static void on_gone(struct message_watch *watch, struct context *context, uint32_t endpoint)
{
    struct lane *lane = container_of(watch, struct lane, watch);
    struct servers *servers = lane->servers;
    uint32_t cursor = 0, again = 0;
    struct request *request;

    (void)context;
    for (unsigned i = 0; i < servers->count; i++)
        if (servers->server[i].endpoint == endpoint)
            server_died(&servers->server[i]);
    while ((request = handle_next(&lane->handles, &cursor)) != NULL)
        if (request->server->endpoint == endpoint && request->kind != REQUEST_FENCE)
            take_back(request);
    while ((request = handle_next(&lane->handles, &again)) != NULL)
        if (request->server->endpoint == endpoint)
            take_back_fence(request);
}

/* Another context may come in its place, whose lane will be another one. */
static void on_ended(struct message_watch *watch)
{
    lane_free(container_of(watch, struct lane, watch));
}

int process_lane(struct lane *lane)
{
    struct servers *servers = lane->servers;

    if (lane->context->dispatch.internal[MESSAGE_SERVERS].function == on_answer)
        return -EBUSY;
    lane->otherwise = lane->context->dispatch.internal[MESSAGE_SERVERS].function;
    lane->waiting = calloc(servers->count, sizeof(*lane->waiting));
    if (lane->waiting == NULL)
        return -ENOMEM;
    message_register(lane->context, MESSAGE_SERVERS, on_answer, lane);
    lane->handles.first = servers->core->server_generations[lane->context->offset];
    lane->watch.gone = on_gone;
    lane->watch.ended = on_ended;
    message_watch(lane->context, &lane->watch);
    return 0;
}

void process_lane_end(struct lane *lane)
{
    uint32_t cursor = 0;
    struct request *request;

    if (lane->waiting == NULL)
        return;
    while ((request = handle_next(&lane->handles, &cursor)) != NULL) {
        forget(request);
        request_free(request);
    }
    atomic_fetch_sub(&lane->servers->under_way, lane->begun_again);
    /* Answers may still come when another lane has its place, of these servers or others. */
    lane->servers->core->server_generations[lane->context->offset] =
        lane->handles.first + lane->handles.most + 1;
    message_register(lane->context, MESSAGE_SERVERS, lane->otherwise, NULL);
    list_remove(&lane->watch.link);
    handle_table_finish(&lane->handles);
    free(lane->waiting);
}

/* ---- requests ---- */

static bool in_heap(const struct servers *servers, const void *address, size_t bytes)
{
    uint64_t offset = (uint64_t)(uintptr_t)address - servers->heap_begin;

    return offset < servers->heap_bytes && bytes <= servers->heap_bytes - offset;
}

/* The data of a request, and the call's fields that are different from kind to kind. False: the
 * client has to carry the request, and hears that its dispatch id is not registered. */
static bool describe(const struct request *request, struct server_call *call,
                     struct message_place *data)
{
    const pami_send_immediate_t *send = &request->call.send.send;
    const struct dispatch *row;

    switch (request->kind) {
    case REQUEST_PUT:
    case REQUEST_GET:
        call->dest = request->call.get.rma.dest;
        call->hints = request->call.get.rma.hints;
        call->remote = (uint64_t)(uintptr_t)request->call.get.addr.remote;
        call->bytes = request->call.get.rma.bytes;
        data->address = request->call.get.addr.local;
        break;
    case REQUEST_SEND:
    case REQUEST_IMMEDIATE:
        row = dispatch_registered(&request->lane->context->dispatch, send->dispatch);
        if (row == NULL)
            return false;
        call->dispatch_hints = row->hints;
        call->dest = send->dest;
        call->hints = send->hints;
        call->dispatch = (uint16_t)send->dispatch;
        call->bytes = send->data.iov_len;
        data->address = send->data.iov_base;
        break;
    default:
        break;
    }
    return true;
}

/* Where the data goes. False: the client has to carry the request. */
static bool place_data(const struct request *request, struct server_call *call,
                       struct message_place *data, bool ordered)
{
    call->local = (uint64_t)(uintptr_t)data->address;
    if (call->bytes == 0 || in_heap(request->lane->servers, data->address, call->bytes)) {
        data->address = NULL;
        return true;
    }
    call->flags |= CALL_CARRIED;
    return request->kind != REQUEST_GET && (ordered || call->bytes <= CARRIED_BYTES);
}

static int say(const struct request *request, const struct server *server,
               const struct server_call *call, const struct message_place *data)
{
    const struct iovec *more = &request->call.send.send.header;
    bool sends = request->kind == REQUEST_SEND || request->kind == REQUEST_IMMEDIATE;
    size_t bytes = sizeof(*call) + (sends ? more->iov_len : 0);
    char usual[HEADER_USUAL], *header = usual;
    int sent;

    if (bytes > sizeof(usual)) {
        header = malloc(bytes);
        if (header == NULL)
            return -ENOMEM;
    }
    memcpy(header, call, sizeof(*call));
    if (bytes > sizeof(*call))
        memcpy(header + sizeof(*call), more->iov_base, more->iov_len);
    sent = message_send(request->lane->context, server->endpoint, MESSAGE_SERVERS, header, bytes,
                        data, (call->flags & CALL_CARRIED) != 0 ? call->bytes : 0, NULL, NULL);
    if (header != usual)
        free(header);
    return sent < 0 ? sent : 0;
}

static void count(struct server *server, const struct request *request, size_t bytes)
{
    atomic_ullong *counter = request->kind == REQUEST_PUT   ? &server->puts
                             : request->kind == REQUEST_GET ? &server->gets
                                                            : &server->sends;

    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&server->bytes, bytes, memory_order_relaxed);
}

/* It will be under way: no stop is over before it is. */
static int enter(struct servers *servers, const struct request *request, unsigned number)
{
    struct lane *lane = request->lane;

    if (request->kind != REQUEST_FENCE && lane->waiting[number] >= servers->queue)
        return -EAGAIN;
    atomic_fetch_add(&servers->under_way, 1);
    if (request->kind == REQUEST_FENCE || atomic_load(&servers->state) == SERVERS_RUNNING) {
        lane->waiting[number]++;
        return 0;
    }
    atomic_fetch_sub(&servers->under_way, 1);
    return -ESHUTDOWN;
}

int process_put(struct request *request, bool ordered)
{
    struct server *server = request->server;
    struct servers *servers = server->servers;
    struct lane *lane = request->lane;
    struct server_call call = {.kind = request->kind, .limit = SERVERS_LOAD(servers->in_flight)};
    struct message_place data = {NULL, NULL, 0};
    int error;

    /* A fence fails so only when this context has taken back what the server had. */
    if (request->kind != REQUEST_FENCE && atomic_load(&server->dead) != 0)
        return -EPIPE;
    if (!describe(request, &call, &data) || !place_data(request, &call, &data, ordered))
        return -ENOTSUP;
    if (request->event[0].function != NULL && request->event[1].function != NULL)
        call.flags |= CALL_FIRST;
    if (request->event[1].function != NULL)
        call.flags |= CALL_REMOTE;
    error = enter(servers, request, (unsigned)(server - servers->server));
    if (error != 0)
        return error;
    request->handle = call.handle = handle_new(&lane->handles, request);
    error = call.handle != 0 ? say(request, server, &call, &data) : -ENOMEM;
    if (error == -EPIPE)
        server_died(server);
    if (error != 0) {
        forget(request);
        return error;
    }
    if (request->kind != REQUEST_FENCE)
        count(server, request, call.bytes);
    return 0;
}

/* ---- attaching ---- */

/* Which of `domains` this task belongs to: that of its NUMA node, or of its place in a row. */
static unsigned domain_of_task(const struct client_core *core, unsigned domains)
{
    const struct bootstrap *bootstrap = core->bootstrap;
    unsigned cpu, node, nodes;

    if (getcpu(&cpu, &node) == 0) {
        unsigned rank = numa_rank(node, &nodes);

        if (domains == nodes)
            return rank % domains;
    }
    return (unsigned)((uint64_t)bootstrap->local_index * domains / bootstrap->local_count);
}

/* The servers of this task's domain, their number; `first` and every `step`-th of this node's. */
static unsigned find_domain(const struct client_core *core, unsigned *first, unsigned *step)
{
    unsigned servers = core->servers != 0 ? core->bootstrap->local_servers : 0;
    unsigned domains = (unsigned)option_int(OPT_SERVERS_DOMAINS);

    if (domains == 0)
        numa_rank(0, &domains);
    if (domains > servers)
        domains = servers;
    if (servers == 0)
        return 0;
    *first = domain_of_task(core, domains);
    *step = domains;
    return (servers - *first + domains - 1) / domains;
}

pami_result_t PAMIX_Servers_attach(pami_client_t handle, const pamix_servers_config_t *config,
                                   pamix_servers_t *out)
{
    struct client *client = client_from_handle(handle);
    unsigned first = 0, step = 1, count_found;
    struct heap_view view = {0, 0, NULL};
    struct servers *servers;
    struct device *device;
    pami_result_t result;

    if (client == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Servers_attach: client: not a client");
    if (out == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Servers_attach: servers: NULL");
    result = servers_config_check("PAMIX_Servers_attach", config);
    if (result != PAMI_SUCCESS)
        return result;
    count_found = find_domain(&client->core, &first, &step);
    if (count_found == 0)
        return error_set(PAMI_ERROR, "PAMIX_Servers_attach: client: no server processes serve it; "
                                     "pamirun --servers starts some, for the first client");
    servers = servers_new(&client->core, count_found, config);
    if (servers == NULL)
        return error_set(PAMI_ENOMEM, "PAMIX_Servers_attach: out of memory");
    servers->processes = true;
    device = core_heap_device(&client->core);
    if (device != NULL)
        device->ops->heap_view(device, client->core.task, &view);
    servers->heap_begin = view.remote;
    servers->heap_bytes = view.bytes;
    for (unsigned i = 0; i < count_found; i++) {
        const struct bootstrap *bootstrap = client->core.bootstrap;

        servers->server[i].servers = servers;
        servers->server[i].endpoint =
            endpoint_make(bootstrap->local_tasks[bootstrap->local_count + first + i * step], 0);
        list_init(&servers->server[i].fences);
    }
    *out = servers;
    return PAMI_SUCCESS;
}

/* ---- fences ---- */

static void fence_less(pami_context_t context, void *cookie, pami_result_t result)
{
    struct process_fence *fence = cookie, copy;
    const struct context *own = fence->stop ? NULL : fence->context;

    fence->lost = servers_take_loss(fence->servers, own, fence->losses) || fence->lost;
    if (result != PAMI_SUCCESS)
        fence->result = result;
    if (--fence->pending != 0)
        return;
    if (fence->stop) {
        mover_remove(fence->servers->core, &fence->servers->mover);
        atomic_store(&fence->servers->state, SERVERS_STOPPED);
    }
    copy = *fence;
    lane_record_remove(&fence->record);
    free(fence);
    if (copy.lost)
        copy.result = error_set(PAMI_ERROR, "%s: what servers had may be lost",
                                copy.stop ? "PAMIX_Servers_stop" : "PAMIX_Servers_fence");
    if (copy.function != NULL)
        copy.function(context, copy.cookie, copy.result);
}

/* The context's own part comes last: it has begun again what servers had that are known to be
 * dead. */
static void fence_launch(struct process_fence *fence, struct lane *lane)
{
    pami_result_t result;

    for (unsigned i = 0; i < fence->servers->count; i++) {
        struct request *request = request_new(lane, REQUEST_FENCE);
        int error;

        if (request == NULL) {
            fence->result = PAMI_ENOMEM;
            break;
        }
        request_events(request, fence, fence_less, NULL);
        request->server = &fence->servers->server[i];
        error = process_put(request, false);
        if (error == 0)
            fence->pending++;
        else
            request_free(request);
        if (error == -ENOMEM) /* whoever has died carries nothing */
            fence->result = PAMI_ENOMEM;
    }
    result = PAMI_Fence_all(lane->context, fence_less, fence);
    if (result != PAMI_SUCCESS)
        fence_less(lane->context, fence, result);
}

static pami_result_t launch_later(pami_context_t context, void *cookie)
{
    struct process_fence *fence = cookie;
    struct lane *lane = fence->servers->lanes[((struct context *)context)->offset];

    /* A stop: others' requests have to be over, and nothing new gets in. */
    if (fence->stop && atomic_load(&fence->servers->under_way) != 0)
        return PAMI_EAGAIN;
    fence_launch(fence, lane);
    return PAMI_SUCCESS;
}

/* From an advance, as parts may be over at once. */
static pami_result_t fence_begin(const char *function, struct lane *lane, bool stop,
                                 pami_event_function fn, void *cookie)
{
    struct process_fence *fence = calloc(1, sizeof(*fence));

    if (fence == NULL)
        return error_set(PAMI_ENOMEM, "%s: out of memory", function);
    *fence = (struct process_fence){.servers = lane->servers,
                                    .context = lane->context,
                                    .function = fn,
                                    .cookie = cookie,
                                    .pending = 1,
                                    .losses = fence_bit(lane->next_fence),
                                    .stop = stop,
                                    .result = PAMI_SUCCESS};
    lane->next_fence++;
    lane_record_add(lane, &fence->record);
    PAMI_Context_post(lane->context, &fence->work, launch_later, fence);
    return PAMI_SUCCESS;
}

pami_result_t process_fence(struct lane *lane, pami_event_function fn, void *cookie)
{
    return fence_begin("PAMIX_Servers_fence", lane, false, fn, cookie);
}

pami_result_t process_stop(struct lane *lane, pami_event_function fn, void *cookie)
{
    return fence_begin("PAMIX_Servers_stop", lane, true, fn, cookie);
}
