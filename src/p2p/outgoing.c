/*
 * Operations on their way out: turning them into packets, queueing behind a peer that has no room,
 * and what the peer's answers mean to them.
 */
#include <errno.h>
#include <stdlib.h>

#include "p2p/p2p.h"
#include "util/error.h"
#include "util/log.h"
#include "util/minmax.h"

/* To register memory takes a system call or two, and time for each page. A fabric does not register
 * any number. */
#define EXPOSE_LEAST ((size_t)256 << 10)
#define EXPOSED_MOST 64u

static const struct operation_ops send_ops;

static struct send *send_of(struct operation *operation)
{
    return container_of(operation, struct send, op);
}

bool send_is(const struct operation *operation)
{
    return operation->ops == &send_ops;
}

struct send *send_new(struct p2p *p2p, struct peer *peer)
{
    struct send *send = pool_get(&p2p->sends);

    if (send == NULL)
        return NULL;
    *send = (struct send){0};
    operation_init(&send->op, &send_ops, peer);
    return send;
}

void send_free(struct p2p *p2p, struct send *send)
{
    handle_drop(&p2p->handles, send->op.handle);
    send_conceal(p2p, send);
    if (send->typed != NULL) {
        type_unref(send->typed->type);
        free(send->typed);
    }
    free(send->copy);
    send->op.peer->pulled -= send->pulled;
    list_remove(&send->op.link);
    pool_put(&p2p->sends, send);
}

/* The receiver shall fetch the data. One that has nothing else to fetch would have to wait: it gets
 * the first of them meanwhile. */
void send_to_be_pulled(struct send *send)
{
    const struct path *path = send->op.path;
    struct peer *peer = send->op.peer;

    if (peer->pulled == 0 && send->data_bytes > path->lead_bytes &&
        send->header_bytes + sizeof(struct message_meta) <= path->packet_max)
        send->lead = path->lead_bytes;
    send->pulled = true;
    peer->pulled++;
    peer->replied = true;
}

/*
 * Where not all memory can be read, as with providers of hardware, the data of a large message is
 * exposed until that is complete; false: it has to be pushed. Memory may be given back and come
 * again at the same address, so nothing stays exposed.
 */
bool send_expose(struct p2p *p2p, struct send *send)
{
    struct port *port = send->op.path->port;

    if (port->ops->expose == NULL || send->data_bytes < EXPOSE_LEAST ||
        p2p->exposed >= EXPOSED_MOST)
        return false;
    if (port->ops->expose(port, (void *)(uintptr_t)send->data, send->data_bytes, false,
                          &send->exposure) != 0 ||
        send->exposure.id == EXPOSURE_ALL) {
        send->exposure = (struct exposure){0};
        return false;
    }
    p2p->exposed++;
    return true;
}

void send_conceal(struct p2p *p2p, struct send *send)
{
    struct port *port = send->op.path->port;

    if (likely(send->exposure.id == 0))
        return;
    port->ops->conceal(port, &send->exposure);
    send->exposure = (struct exposure){0};
    p2p->exposed--;
}

static void local_complete(struct p2p *p2p, struct send *send, pami_result_t result)
{
    if (send->local_done)
        return;
    send->local_done = true;
    context_keep(p2p->context, send->events.local_fn, send->events.cookie, result);
}

/* The operation is over, for good or bad: what callbacks are left become due. */
static void send_finish(struct p2p *p2p, struct operation *operation, pami_result_t result)
{
    struct send *send = send_of(operation);

    local_complete(p2p, send, result);
    context_keep(p2p->context, send->events.remote_fn, send->events.cookie, result);
    send_free(p2p, send);
}

pami_result_t p2p_answered(const char *what, const struct peer *peer, unsigned answer)
{
    const char *reason = "failed";

    if (likely(answer == PAMI_SUCCESS))
        return PAMI_SUCCESS;
    if (answer == PAMI_INVAL)
        reason = "cannot take the data as it wants to";
    else if (answer == PAMI_ENOMEM)
        reason = "is out of memory";
    else if (answer == PAMI_SHUTDOWN)
        reason = "has closed";
    return error_set((pami_result_t)answer, "%s: endpoint %u of task %u %s", what, peer->endpoint,
                     endpoint_task(peer->endpoint), reason);
}

/* The receiver's word: for remote_fn, as the source is not read any more, which is all that
 * local_fn says. The library's own messages have no other function. */
static void send_answered(struct p2p *p2p, struct send *send, unsigned answer)
{
    if (likely(send->dispatch <= DISPATCH_ID_MAX))
        local_complete(p2p, send, PAMI_SUCCESS);
    send_finish(p2p, &send->op, p2p_answered("send", send->op.peer, answer));
}

/* Gather typed data where the device wants them. */
static void fill_typed(void *to, const struct packet *packet)
{
    struct typed_source *typed = packet->fill_state;

    type_pack(to, &typed->cursor, packet->head.payload_bytes, typed->function, typed->cookie);
}

/* Data that lie in one piece are sent from there. */
static void take_typed(struct typed_source *typed, struct packet *packet)
{
    if (typed->function == PAMI_DATA_COPY)
        packet->payload = type_cursor_whole(&typed->cursor, packet->head.payload_bytes);
    else
        packet->payload = NULL;
    if (packet->payload != NULL)
        return;
    packet->fill = fill_typed;
    packet->fill_state = typed;
}

static bool has_units(const struct send *send)
{
    return send->typed != NULL && send->typed->function != PAMI_DATA_COPY;
}

/* Data that a function of the user produces may be cut at whole atoms only, except at the end. */
static size_t cut(const struct send *send, size_t want, size_t left)
{
    size_t unit;

    if (want >= left || !has_units(send))
        return smaller(want, left);
    unit = type_pack_unit(send->typed->type, send->typed->function);
    if (unit > want)
        unit = type_atom(send->typed->type);
    return want - want % unit;
}

/* Put the next `room` bytes of header and data into a packet. */
static void packet_take(const struct send *send, struct packet *packet, size_t room)
{
    size_t sent = send->sent;

    if (sent < send->header_bytes) {
        size_t part = smaller(send->header_bytes - sent, room);

        packet->header = send->header + sent;
        packet->head.header_bytes = (uint16_t)part;
        room -= part;
        sent += part;
    }
    if (sent >= send->header_bytes) {
        size_t offset = sent - send->header_bytes;
        size_t end = send->lead != 0 && !send->data_phase ? send->lead : send->data_bytes;
        size_t part = cut(send, room, end - offset);

        packet->head.payload_bytes = (uint16_t)part;
        packet->payload = send->data + offset;
        if (send->typed != NULL && part != 0)
            take_typed(send->typed, packet);
    }
}

static int submit(struct p2p *p2p, struct send *send, struct packet *packet)
{
    uintptr_t before;
    int error;

    /* A data function of the user may end the process: nobody must send for us then. */
    before = context_bar(p2p->context);
    p2p_distrust(p2p);
    error = send->op.path->am(send->op.path, packet);
    context_unbar(p2p->context, before);

    if (error == 0) {
        if (send->typed != NULL && packet->fill == NULL)
            type_cursor_step(&send->typed->cursor, packet->head.payload_bytes);
        send->sent += (size_t)packet->head.header_bytes + packet->head.payload_bytes;
        p2p->packets++;
    }
    return error;
}

/*
 * How large the first packet of a message may be. One that is a little longer than a packet begins
 * with that little and the user's header, when the device sends the rest along.
 */
static size_t first_room(const struct send *send, size_t limit, size_t meta_bytes, bool *more)
{
    size_t bytes = meta_bytes + send->header_bytes + send->data_bytes;
    size_t ahead = larger(bytes - limit, meta_bytes + send->header_bytes);

    *more = send->mode == MESSAGE_STREAM && bytes > limit && ahead <= send->op.path->ahead_bytes;
    return *more ? ahead : limit;
}

/* One packet of a message, with a body of `limit` bytes at most. */
static int message_packet(struct p2p *p2p, struct send *send, size_t limit)
{
    struct packet packet = {.head = {.dispatch = send->dispatch,
                                     .origin = p2p->context->endpoint,
                                     .aux = send->op.handle}};
    struct message_meta meta;
    size_t total = send->header_bytes + send->data_bytes;
    size_t meta_bytes = send->exposure.id != 0 ? sizeof(meta) : MESSAGE_META_BYTES;

    if (send->data_phase) {
        packet.head.protocol = PROTOCOL_DATA;
        packet.head.aux = send->target;
        packet_take(send, &packet, limit);
        return submit(p2p, send, &packet);
    }
    if (send->announced) {
        packet.head.protocol = PROTOCOL_STREAM;
        packet_take(send, &packet, limit);
        if (send->mode != MESSAGE_STREAM && send->lead == 0)
            packet.head.payload_bytes = 0;
        return submit(p2p, send, &packet);
    }
    if (send->immediate && total <= limit) {
        packet.head.protocol = PROTOCOL_IMMEDIATE;
        packet_take(send, &packet, limit);
        return submit(p2p, send, &packet);
    }
    meta = (struct message_meta){
        .data_bytes = send->data_bytes,
        .address = send->mode == MESSAGE_PULL ? (uint64_t)(uintptr_t)send->data : 0,
        .lead = send->lead,
        .header_bytes = (uint32_t)send->header_bytes,
        .mode = send->mode,
        .immediate = send->immediate,
        .exposure = send->exposure,
    };
    packet.head.protocol = PROTOCOL_MESSAGE;
    packet.head.meta_words = (uint8_t)(meta_bytes / 8);
    packet.meta = &meta;
    packet_take(send, &packet, first_room(send, limit, meta_bytes, &packet.more) - meta_bytes);
    if (send->mode != MESSAGE_STREAM)
        packet.head.payload_bytes = 0;
    return submit(p2p, send, &packet);
}

/* Bytes of header and data that go out before the peer has to do something. */
static size_t bytes_to_send(const struct send *send)
{
    if (send->mode == MESSAGE_STREAM || send->data_phase)
        return send->header_bytes + send->data_bytes;
    return send->header_bytes + send->lead;
}

/* Everything is under way that may be. */
static void message_sent(struct p2p *p2p, struct send *send)
{
    list_remove(&send->op.link);
    if (send->mode == MESSAGE_STREAM || send->data_phase) {
        local_complete(p2p, send, PAMI_SUCCESS);
        if (send->op.handle == 0)
            send_free(p2p, send);
    }
}

static int message_progress(struct p2p *p2p, struct send *send)
{
    size_t end = bytes_to_send(send);

    while (!send->announced || send->sent < end) {
        int error = message_packet(p2p, send, path_piece(send->op.path, end));

        if (error == -ENOBUFS)
            error = has_units(send) ? -EAGAIN : message_packet(p2p, send, PACKET_SMALL);
        if (error != 0)
            return error;
        send->announced = true;
    }
    message_sent(p2p, send);
    return 0;
}

/* Words of meta that it has. */
static uint8_t answer_words(const struct send *send)
{
    if (send->protocol == PROTOCOL_RMW_REPLY)
        return sizeof(send->old) / 8;
    return send->protocol == PROTOCOL_CLEAR ? sizeof(send->clear) / 8 : 0;
}

static int answer_packet(struct p2p *p2p, struct path *path, const struct send *send)
{
    const struct packet packet = {
        .head = {.protocol = send->protocol,
                 .meta_words = answer_words(send),
                 .dispatch = send->dispatch,
                 .origin = p2p->context->endpoint,
                 .aux = send->target},
        .meta = &send->clear,
    };

    return path->am(path, &packet);
}

/* 0: off the queue, perhaps freed; -EAGAIN: still there; else the peer has gone. */
static int send_progress(struct p2p *p2p, struct operation *operation)
{
    struct send *send = send_of(operation);
    int error;

    if (send->protocol == PROTOCOL_MESSAGE)
        return message_progress(p2p, send);
    error = answer_packet(p2p, send->op.path, send);
    if (error == 0)
        send_free(p2p, send);
    return error;
}

static void send_drop(struct p2p *p2p, struct operation *operation)
{
    send_free(p2p, send_of(operation));
}

static bool send_is_needed(const struct operation *operation)
{
    return container_of(operation, const struct send, op)->mode != MESSAGE_STREAM;
}

bool send_is_refusal(const struct operation *operation)
{
    const struct send *send = container_of(operation, const struct send, op);

    return send_is(operation) && send->protocol == PROTOCOL_ACK && send->dispatch == PAMI_SHUTDOWN;
}

static const struct operation_ops send_ops = {
    .progress = send_progress,
    .finish = send_finish,
    .free = send_drop,
    .is_needed = send_is_needed,
};

/* An answer in memory of a receive. */
static void borrowed_free(struct p2p *p2p, struct operation *operation)
{
    list_remove(&operation->link);
    pool_put(&p2p->receives, send_of(operation));
}

static int borrowed_progress(struct p2p *p2p, struct operation *operation)
{
    int error = answer_packet(p2p, operation->path, send_of(operation));

    if (error == 0)
        borrowed_free(p2p, operation);
    return error;
}

static void borrowed_finish(struct p2p *p2p, struct operation *operation, pami_result_t result)
{
    (void)result;
    borrowed_free(p2p, operation);
}

static const struct operation_ops borrowed_ops = {
    .progress = borrowed_progress,
    .finish = borrowed_finish,
    .free = borrowed_free,
};

_Static_assert(sizeof(struct send) <= sizeof(struct receive), "one is made of the other");

/* Somebody waits for it. Without memory, that of a receive is as good: the one that has just ended,
 * or else the spare one, which must be there again before more is asked of us. */
static struct send *answer_new(struct p2p *p2p, struct peer *peer)
{
    const struct operation_ops *ops = &send_ops;
    struct send *send = pool_get(&p2p->sends);

    if (unlikely(send == NULL)) {
        send = pool_get(&p2p->receives);
        ops = send != NULL ? &borrowed_ops : &send_ops;
    }
    if (unlikely(send == NULL)) {
        send = p2p->spare;
        p2p->spare = NULL;
        p2p_stop(p2p);
    }
    if (send == NULL)
        return NULL;
    *send = (struct send){0};
    operation_init(&send->op, ops, peer);
    return send;
}

/* Send a bare answer now or queue it; false: it is lost. */
static bool answer(struct p2p *p2p, struct peer *peer, const struct packet *packet)
{
    struct send *send;

    if (likely(list_empty(&peer->queue)) && peer->path->am(peer->path, packet) == 0)
        return true;
    send = answer_new(p2p, peer);
    if (send == NULL) {
        log_error("out of memory: an answer to endpoint %u is lost", peer->endpoint);
        return false;
    }
    send->op.next_life = false;
    send->protocol = packet->head.protocol;
    send->dispatch = packet->head.dispatch;
    send->target = packet->head.aux;
    if (packet->meta != NULL)
        memcpy(&send->clear, packet->meta, (size_t)packet->head.meta_words * 8);
    operation_enqueue(p2p, &send->op);
    return true;
}

void p2p_answer(struct p2p *p2p, struct peer *peer, uint32_t handle, pami_result_t result)
{
    const struct packet ack = {
        .head = packet_header_short(PROTOCOL_ACK, (uint16_t)result, 0, 0, p2p->context->endpoint,
                                    handle),
    };

    if (!peer->gone)
        answer(p2p, peer, &ack);
}

void p2p_answer_old(struct p2p *p2p, struct peer *peer, uint32_t handle, uint64_t old)
{
    const struct packet reply = {
        .head = {.protocol = PROTOCOL_RMW_REPLY,
                 .meta_words = sizeof(old) / 8,
                 .origin = p2p->context->endpoint,
                 .aux = handle},
        .meta = &old,
    };

    if (!peer->gone)
        answer(p2p, peer, &reply);
}

bool p2p_clear(struct p2p *p2p, struct receive *receive)
{
    const struct clear_meta meta = {.receive = receive->handle, .offset = receive->data_got};
    const struct packet clear = {
        .head = {.protocol = PROTOCOL_CLEAR,
                 .meta_words = sizeof(meta) / 8,
                 .origin = p2p->context->endpoint,
                 .aux = receive->answer},
        .meta = &meta,
    };

    return answer(p2p, receive->peer, &clear);
}

/* A peer that had gone is back: whatever it has the beginning of will not be completed. */
void p2p_reset(struct p2p *p2p, struct peer *peer)
{
    const struct packet reset = {
        .head = packet_header_short(PROTOCOL_RESET, 0, 0, 0, p2p->context->endpoint,
                                    peer->path->port->life),
    };

    answer(p2p, peer, &reset);
}

/* The operation that an answer belongs to, if the one who answers is the one who was asked. */
static struct operation *answered(struct p2p *p2p, const struct packet_header *head)
{
    struct operation *operation = handle_find(&p2p->handles, head->aux);

    if (operation != NULL && operation->kind == OPERATION_OUTGOING &&
        operation->peer->endpoint == head->origin)
        return operation;
    p2p->context->counters[COUNTER_FOREIGN]++;
    return NULL;
}

void p2p_handle_ack(struct context *context, const struct packet_header *head, void *body)
{
    struct operation *operation = answered(context->p2p, head);

    (void)body;
    if (operation == NULL || head->dispatch == PAMI_EAGAIN) /* its data is being fetched */
        return;
    if (send_is(operation))
        send_answered(context->p2p, send_of(operation), head->dispatch);
    else
        operation->ops->finish(context->p2p, operation, (pami_result_t)head->dispatch);
}

void p2p_handle_clear(struct context *context, const struct packet_header *head, void *body)
{
    struct p2p *p2p = context->p2p;
    struct operation *operation = answered(p2p, head);
    struct clear_meta clear;
    struct send *send;

    if (operation == NULL)
        return;
    send = send_of(operation);
    if (operation->ops != &send_ops || head->meta_words != sizeof(clear) / 8 ||
        send->mode == MESSAGE_STREAM || send->data_phase || !send->announced ||
        send->sent < send->header_bytes) {
        context->counters[COUNTER_FOREIGN]++;
        return;
    }
    memcpy(&clear, body, sizeof(clear));
    if (clear.offset >= send->data_bytes || (clear.offset != 0 && send->typed != NULL)) {
        context->counters[COUNTER_FOREIGN]++;
        return;
    }
    send->target = (uint32_t)clear.receive;
    send->data_phase = true;
    send->sent = send->header_bytes + clear.offset;
    list_remove(&send->op.link);
    operation_enqueue(p2p, &send->op);
    peer_progress(p2p, send->op.peer);
}
