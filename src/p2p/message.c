/*
 * Messages of the library itself; see message.h.
 *
 * Short ones go straight to the device, as the short cut of PAMI_Send_immediate does; the others
 * are operations like those of PAMI_Send. Nothing here looks at the users' dispatch table.
 */
#include "p2p/message.h"

#include <errno.h>
#include <stdlib.h>

#include "p2p/p2p.h"
#include "util/log.h"

/* Data of at most so many bytes is copied when it cannot be sent at once. */
#define COPY_BYTES 512u

void message_register(struct context *context, enum message_id id,
                      pami_dispatch_p2p_function handler, void *cookie)
{
    struct dispatch *row = &context->dispatch.internal[id];

    row->function = handler;
    row->cookie = cookie;
}

/* ---- sending ---- */

struct request {
    uint16_t dispatch;
    enum message_way way;
    size_t sum; /* of the parts, or 0 */
    const void *header;
    size_t header_bytes;
    const struct message_place *place;
    const char *data; /* NULL: through the type */
    size_t bytes;
};

static void fill_place(void *to, const struct packet *packet)
{
    const struct message_place *place = packet->fill_state;
    struct type_cursor cursor;

    type_cursor_init(&cursor, place->type, place->address, place->offset);
    type_pack(to, &cursor, packet->head.payload_bytes, PAMI_DATA_COPY, NULL);
}

/* The whole message in one packet; 0, or it has to go another way. */
static int send_one_packet(struct p2p *p2p, struct path *path, const struct request *request)
{
    struct packet packet = {
        .head = packet_header_short(PROTOCOL_IMMEDIATE, request->dispatch, request->header_bytes,
                                    request->bytes, p2p->context->endpoint, 0),
        .header = request->header,
        .payload = request->data,
    };

    if (request->data == NULL && request->bytes != 0) {
        packet.fill = fill_place;
        packet.fill_state = (void *)request->place;
    }
    return path->am(path, &packet);
}

static int send_short(struct p2p *p2p, struct path *path, const struct request *request)
{
    const struct packet_header head =
        packet_header_short(PROTOCOL_IMMEDIATE, request->dispatch, request->header_bytes,
                            request->bytes, p2p->context->endpoint, 0);
    const struct iovec header = {(void *)request->header, request->header_bytes};
    const struct iovec data = {(void *)request->data, request->bytes};

    return path->am_short(path, head.words[0], head.words[1], &header, &data);
}

/* The data as the operation keeps it: where it is, copied, or with the type. */
static int take_data(struct send *send, const struct request *request, bool copy)
{
    struct typed_source *typed;

    send->copy = malloc(request->header_bytes + (copy ? request->bytes : 0) + 1);
    if (send->copy == NULL)
        return -ENOMEM;
    memcpy(send->copy, request->header, request->header_bytes);
    send->header = send->copy;
    send->data = request->data;
    if (request->data != NULL || request->bytes == 0) {
        if (copy && request->bytes != 0) {
            send->data = send->copy + request->header_bytes;
            memcpy(send->copy + request->header_bytes, request->data, request->bytes);
        }
        return 0;
    }
    typed = malloc(sizeof(*typed));
    if (typed == NULL)
        return -ENOMEM;
    typed->type = type_ref(request->place->type);
    typed->function = PAMI_DATA_COPY;
    typed->cookie = NULL;
    type_cursor_init(&typed->cursor, typed->type, request->place->address, request->place->offset);
    send->typed = typed;
    return 0;
}

/* The data goes along with the message, in one packet or several. */
static bool goes_along(const struct p2p *p2p, const struct path *path,
                       const struct request *request)
{
    size_t eager = p2p_eager_bytes(p2p, path);

    if (request->bytes <= COPY_BYTES)
        return true;
    if (request->sum != 0)
        return request->sum <= 2 * eager;
    return request->bytes <= eager && request->way != MESSAGE_BY_DESTINATION;
}

static enum message_mode mode_of(struct p2p *p2p, const struct send *send,
                                 const struct request *request)
{
    const struct path *path = send->op.path;

    if (goes_along(p2p, path, request))
        return MESSAGE_STREAM;
    if (send->typed == NULL && request->way != MESSAGE_BY_SOURCE &&
        p2p_is_readable(p2p, path, send->data, send->data_bytes))
        return MESSAGE_PULL;
    return request->sum == 0 && request->bytes <= p2p_eager_bytes(p2p, path) ? MESSAGE_STREAM
                                                                             : MESSAGE_PUSH;
}

static int send_operation(struct p2p *p2p, struct peer *peer, const struct request *request,
                          pami_event_function done, void *cookie)
{
    bool copy = request->bytes <= COPY_BYTES && request->data != NULL;
    struct send *send = send_new(p2p, peer);
    int error;

    if (send == NULL)
        return -ENOMEM;
    send->protocol = PROTOCOL_MESSAGE;
    send->dispatch = request->dispatch;
    send->header_bytes = request->header_bytes;
    send->data_bytes = request->bytes;
    error = take_data(send, request, copy);
    if (error == 0) {
        send->immediate = request->bytes <= COPY_BYTES;
        send->mode = (uint16_t)mode_of(p2p, send, request);
        if (send->mode == MESSAGE_PUSH && send->typed == NULL &&
            request->way != MESSAGE_BY_SOURCE && send_expose(p2p, send))
            send->mode = MESSAGE_PULL;
        if (send->mode != MESSAGE_STREAM) {
            send->op.handle = handle_new(&p2p->handles, send);
            error = send->op.handle != 0 ? 0 : -ENOMEM;
        }
    }
    if (error == 0)
        error = context_promise(p2p->context, done, NULL);
    if (error != 0) {
        send_free(p2p, send);
        return error;
    }
    if (send->mode == MESSAGE_PULL)
        send_to_be_pulled(send);
    send->events = (pami_send_event_t){.local_fn = done, .cookie = cookie};
    send->op.next_life = false; /* what is said to a context is not meant for the next one */
    operation_launch(p2p, &send->op);
    return 0;
}

int message_send_by(enum message_way way, size_t sum, struct context *context, uint32_t endpoint,
                    enum message_id id, const void *header, size_t header_bytes,
                    const struct message_place *place, size_t bytes, pami_event_function done,
                    void *cookie)
{
    struct p2p *p2p = context->p2p;
    int error = 0;
    /* Servers live on, whatever becomes of the contexts that they serve. */
    unsigned how = id != MESSAGE_SERVERS ? PATH_SAME_LIFE : 0;
    struct peer *peer = peer_get_how(p2p, endpoint, how, &error);
    struct request request = {
        .dispatch = (uint16_t)(DISPATCH_ID_MAX + 1 + id),
        .way = way,
        .sum = sum,
        .header = header,
        .header_bytes = header_bytes,
        .place = place,
        .bytes = bytes,
    };

    if (unlikely(peer == NULL))
        return error;
    if (bytes != 0 && (place->type == NULL || type_is_contiguous(place->type)))
        request.data = (const char *)place->address + place->offset;
    if (likely(list_empty(&peer->queue)) && goes_along(p2p, peer->path, &request)) {
        struct path *path = peer->path;

        if (path->am_short != NULL && (request.data != NULL || bytes == 0) &&
            send_short(p2p, path, &request) == 0)
            return MESSAGE_SENT;
        if (header_bytes + bytes <= path->packet_max && send_one_packet(p2p, path, &request) == 0)
            return MESSAGE_SENT;
    }
    return send_operation(p2p, peer, &request, done, cookie);
}

int message_send(struct context *context, uint32_t endpoint, enum message_id id, const void *header,
                 size_t header_bytes, const struct message_place *place, size_t bytes,
                 pami_event_function done, void *cookie)
{
    return message_send_by(MESSAGE_BY_SIZE, 0, context, endpoint, id, header, header_bytes, place,
                           bytes, done, cookie);
}

/* The rest of the data in memory of the operation's own; false: it stays where it is. */
static bool disown(struct p2p *p2p, struct send *send)
{
    size_t sent = send->lead == 0 ? send->sent : 0; /* a lead may be fetched again */
    size_t done = sent > send->header_bytes ? sent - send->header_bytes : 0;
    size_t left = send->data_bytes - done;
    char *copy;

    if (send->local_done || left == 0 ||
        (send->typed == NULL && send->data == send->copy + send->header_bytes))
        return true;
    /* The peer has the address. */
    if (send->mode == MESSAGE_PULL && send->announced && !send->data_phase)
        return false;
    if (send->exposure.id != 0 && !send->announced) {
        send->mode = MESSAGE_PUSH;
        send->lead = 0;
    }
    send_conceal(p2p, send);
    copy = malloc(send->header_bytes + send->data_bytes + 1);
    if (copy == NULL)
        return false;
    memcpy(copy, send->header, send->header_bytes);
    if (send->typed != NULL) {
        type_pack(copy + send->header_bytes + done, &send->typed->cursor, left, PAMI_DATA_COPY,
                  NULL);
        type_unref(send->typed->type);
        free(send->typed);
        send->typed = NULL;
    } else {
        memcpy(copy + send->header_bytes + done, send->data + done, left);
    }
    free(send->copy);
    send->copy = copy;
    send->header = copy;
    send->data = copy + send->header_bytes;
    return true;
}

static bool is_message(const struct operation *operation, const struct peer *peer,
                       const void *cookie)
{
    const struct send *send = container_of((struct operation *)operation, struct send, op);

    return operation->kind == OPERATION_OUTGOING && operation->peer == peer && send_is(operation) &&
           send->events.cookie == cookie;
}

bool message_disown(struct context *context, uint32_t endpoint, const void *cookie)
{
    struct p2p *p2p = context->p2p;
    struct peer *peer = u64map_get(&p2p->peers, endpoint);
    struct list *item;
    uint32_t cursor = 0;
    struct operation *operation;
    bool may_go = true;

    if (peer == NULL)
        return true;
    list_for_each (item, &peer->queue) {
        operation = list_entry(item, struct operation, link);
        if (is_message(operation, peer, cookie))
            may_go &= disown(p2p, container_of(operation, struct send, op));
    }
    while ((operation = handle_next(&p2p->handles, &cursor)) != NULL)
        if (is_message(operation, peer, cookie))
            may_go &= disown(p2p, container_of(operation, struct send, op));
    return may_go;
}

/* ---- receiving ---- */

struct receive *message_receive(pami_recv_t *recv)
{
    return container_of(recv, struct receive, recv);
}

static void set_place(struct receive *receive, const struct message_place *place,
                      pami_event_function done, void *cookie)
{
    pami_recv_t *recv = &receive->recv;

    recv->addr = place->address;
    recv->offset = place->offset;
    recv->local_fn = done;
    recv->cookie = cookie;
    if (place->type != NULL && !type_is_contiguous(place->type))
        receive->type = type_ref(place->type);
}

void message_accept(pami_recv_t *recv, const struct message_place *place, pami_event_function done,
                    void *cookie)
{
    set_place(message_receive(recv), place, done, cookie);
}

struct receive *message_defer(pami_recv_t *recv, pami_event_function lost, void *cookie)
{
    struct receive *receive = message_receive(recv);

    recv->local_fn = lost;
    recv->cookie = cookie;
    receive->deferred = true;
    return receive;
}

void message_put_back(struct context *context, pami_recv_t *recv)
{
    struct receive *receive = recv != NULL ? message_receive(recv) : context->p2p->collected;

    if (receive != NULL)
        receive->put_back = true;
    else
        context_put_back(context);
}

size_t message_deferred_bytes(const struct receive *receive)
{
    return sizeof(*receive) + (receive->mode == MESSAGE_STREAM ? receive->data_bytes : 0);
}

void message_resume(struct receive *receive, const struct message_place *place,
                    pami_event_function done, void *cookie)
{
    struct p2p *p2p = receive->context->p2p;
    char *buffer = receive->buffer;
    size_t got = receive->data_got;

    receive->deferred = false;
    receive->buffer = NULL;
    receive->data_got = 0;
    set_place(receive, place, done, cookie);
    if (receive->data_bytes != 0 && !receive->discard)
        receive_open(receive);
    if (got != 0)
        receive_take(receive, buffer, got);
    stash_put(&p2p->context->stash, buffer);
    if (receive->data_got == receive->data_bytes)
        receive_finish(p2p, receive, PAMI_SUCCESS);
    else if (receive->mode != MESSAGE_STREAM)
        rendezvous_begin(p2p, receive);
}

bool message_discard(struct receive *receive)
{
    bool may_go = !receive->fetching || receive->target == NULL;

    receive->target = NULL;
    if (receive->sinking)
        type_sink_finish(&receive->sink);
    receive->sinking = false;
    receive->discard = true;
    return may_go;
}

/* ---- who goes ---- */

void message_watch(struct context *context, struct message_watch *watch)
{
    list_push_back(&context->p2p->watches, &watch->link);
}

int message_expect(struct context *context, uint32_t endpoint)
{
    struct p2p *p2p = context->p2p;
    struct peer *peer = p2p->last;
    int error = 0;

    if (likely(peer != NULL && peer->endpoint == endpoint && !peer->gone))
        return 0;
    peer = u64map_get(&p2p->peers, endpoint);
    if (peer != NULL && !peer->gone)
        return 0;
    /* One never heard of may have left already, with messages under way. */
    peer = peer_open(p2p, endpoint, PATH_SAME_LIFE | (peer == NULL ? PATH_EVEN_CLOSED : 0), &error);
    return peer != NULL ? 0 : error;
}

bool message_has_gone(struct context *context, uint32_t endpoint)
{
    const struct peer *peer = u64map_get(&context->p2p->peers, endpoint);

    return peer != NULL && peer->gone;
}

bool message_has_ended(struct context *context, uint32_t endpoint)
{
    const struct peer *peer = u64map_get(&context->p2p->peers, endpoint);

    return peer != NULL && (peer->gone || peer->ended);
}

static struct path *path_of(struct context *context, uint32_t endpoint)
{
    const struct peer *peer = u64map_get(&context->p2p->peers, endpoint);

    return peer != NULL && !peer->gone ? peer->path : NULL;
}

int message_copy(struct context *context, uint32_t endpoint, bool put, void *near, uint64_t far,
                 size_t bytes)
{
    struct path *path = path_of(context, endpoint);
    char *local = near;

    if (path == NULL || path->port->ops->copyv == NULL)
        return -ENOSYS;
    if ((!path->single_copy || !path->unwatched) && path_map(path, far, bytes) == NULL)
        return -ENOSYS;
    while (bytes != 0) {
        const struct iovec here = {local, bytes}, there = {(void *)(uintptr_t)far, bytes};
        size_t moved = 0;
        int error = path->port->ops->copyv(path, put, &here, 1, &there, 1, &moved);

        if (unlikely(error != 0 && error != -EPIPE && error != -EFAULT)) {
            log_info("single copy with endpoint %u failed (errno %d)", endpoint, -error);
            path->single_copy &= device_copy_may_work(error);
        }
        if (unlikely(error != 0))
            return error;
        local += moved;
        far += moved;
        bytes -= moved;
    }
    return 0;
}

bool message_in_heap(struct context *context, const void *address, size_t bytes)
{
    return p2p_in_heap(context->p2p, address, bytes);
}

bool message_maps_heap(struct context *context, uint32_t endpoint)
{
    const struct path *path = path_of(context, endpoint);
    struct device *device = core_heap_device(context->core);
    struct heap_view view;

    return path != NULL && path->local && device != NULL &&
           device->ops->heap_view(device, endpoint_task(endpoint), &view) == 0;
}
