/*
 * Messages on their way in: calling the dispatch function, filling the receive buffer, and holding
 * what arrives for an id that is not registered.
 *
 * A message that one packet completes, for a registered id, is handled without a receive object
 * whenever possible. Otherwise a struct receive collects first the header, then the data: into the
 * user's buffer after the dispatch, into memory of ours while the message is held or when header
 * and data are to be delivered together.
 */
#include <errno.h>
#include <stdlib.h>

#include "p2p/p2p.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/log.h"
#include "util/minmax.h"

/* What a message needs of ours up to this is waited for. */
#define WAIT_BYTES ((size_t)64 << 10)

static void foreign(struct context *context, const struct packet_header *head, const char *what)
{
    if (context->counters[COUNTER_FOREIGN]++ == 0)
        log_warn("refused a packet from endpoint %u: %s", head->origin, what);
}

/* Memory for data that has no user's buffer yet. */
static bool need_buffer(struct p2p *p2p, struct receive *receive)
{
    if (receive->buffer != NULL || receive->data_bytes == 0)
        return true;
    receive->buffer = stash_get(&p2p->context->stash, receive->data_bytes);
    if (receive->buffer == NULL)
        return false;
    if (receive->held)
        receive_held_more(p2p, receive, receive->data_bytes);
    return true;
}

/* ---- calling the user ---- */

static pami_recv_t recv_at_first(void)
{
    return (pami_recv_t){.type = PAMI_TYPE_BYTE, .data_fn = PAMI_DATA_COPY};
}

/* What the hard hints of the receiving id overrule. */
static void apply_hints(uint32_t flags, pami_recv_t *recv)
{
    if (flags & DISPATCH_CONTIGUOUS) {
        recv->type = PAMI_TYPE_BYTE;
        recv->offset = 0;
    }
    if (flags & DISPATCH_COPY) {
        recv->data_fn = PAMI_DATA_COPY;
        recv->data_cookie = NULL;
    }
    /* The program has zeroed the whole structure first. */
    if (recv->type == PAMI_TYPE_NULL)
        recv->type = PAMI_TYPE_BYTE;
}

static bool is_copy(const pami_recv_t *recv)
{
    return recv->data_fn == PAMI_DATA_COPY;
}

/* Bytes go to one place, in order, as they are. */
static bool is_plain(const pami_recv_t *recv)
{
    const struct type *type;

    if (!is_copy(recv))
        return false;
    if (likely(recv->type == PAMI_TYPE_BYTE))
        return true;
    type = type_complete_from_handle(recv->type);
    return type != NULL && type_is_contiguous(type) && type_data_size(type) != 0;
}

/* Why the data cannot go where the user wants it, which type_sink_init has said with `error`. */
static pami_result_t sink_fault(const struct receive *receive, int error)
{
    if (error == -ENOMEM)
        return error_set(PAMI_ENOMEM, "receive: out of memory");
    if (type_data_size(receive->type) == 0)
        return error_set(PAMI_INVAL, "receive: type: holds no data, but %zu bytes have come",
                         receive->data_bytes);
    return error_set(PAMI_INVAL,
                     "receive: data_fn: cannot be applied to %zu bytes of the type at offset %zu",
                     receive->data_bytes, receive->recv.offset);
}

/* Prepare the destination that the user named; a wrong one makes the message be dropped. */
void receive_open(struct receive *receive)
{
    const pami_recv_t *recv = &receive->recv;
    int error;

    /* A type that is set already is one of the library's own messages, and may hold addresses. */
    if ((recv->addr == NULL && receive->type == NULL) || recv->data_fn == PAMI_DATA_NOOP) {
        receive->discard = true;
    } else if (receive->type == NULL && is_plain(recv)) {
        receive->target = (char *)recv->addr + recv->offset;
        return;
    }
    if (receive->type == NULL) {
        receive->type = type_complete_from_handle(recv->type);
        if (receive->type != NULL)
            type_ref(receive->type);
    }
    if (receive->type == NULL) {
        receive->result = error_set(PAMI_INVAL, "receive: type: not a complete type");
    } else {
        if (receive->discard)
            return;
        error = type_sink_init(&receive->sink, receive->type, recv->addr, recv->offset,
                               receive->data_bytes, recv->data_fn, recv->data_cookie);
        if (error == 0) {
            receive->sinking = true;
            return;
        }
        receive->result = sink_fault(receive, error);
    }
    receive->text = error_copy();
    receive->discard = true;
}

/* The dispatch function of an id that is traced. */
__attribute__((noinline)) static void call_traced(struct context *context,
                                                  const struct dispatch *row, size_t id,
                                                  const char *header, size_t header_bytes,
                                                  const char *data, size_t data_bytes,
                                                  uint32_t origin, pami_recv_t *recv)
{
    uint64_t begin = clock_now_ns();

    row->function(context, row->cookie, header, header_bytes, data, data_bytes, origin, recv);
    trace_add(context, TRACE_DISPATCH, "dispatch", begin, id, origin, data_bytes);
}

/* Ask the user where a message goes. The function may register its id again; the hints that it was
 * called with hold for this message. */
static void ask_user(struct p2p *p2p, const struct dispatch *row, size_t id, const char *header,
                     size_t header_bytes, size_t data_bytes, uint32_t origin, pami_recv_t *recv)
{
    struct context *context = p2p->context;
    uint32_t flags = row->flags;

    *recv = recv_at_first();
    context->counters[COUNTER_DISPATCHES]++;
    if (unlikely(flags & DISPATCH_TRACED))
        call_traced(context, row, id, header, header_bytes, NULL, data_bytes, origin, recv);
    else
        row->function(context, row->cookie, header, header_bytes, NULL, data_bytes, origin, recv);
    apply_hints(flags, recv);
}

/* Call the dispatch function of a message that arrives asynchronously. */
static void call_async(struct p2p *p2p, const struct dispatch *row, struct receive *receive,
                       const char *header)
{
    receive->dispatched = true;
    ask_user(p2p, row, receive->dispatch, header, receive->header_bytes, receive->data_bytes,
             receive->peer->endpoint, &receive->recv);
    if (likely(!receive->deferred)) {
        /* One that comes again has no destination yet. */
        if (receive->data_bytes != 0 && likely(!receive->put_back))
            receive_open(receive);
    } else if (receive->mode == MESSAGE_STREAM && !need_buffer(p2p, receive)) {
        /* It stays whoever's it is, and ends with this when it is resumed. */
        receive->discard = true;
        receive->result = error_set(PAMI_ENOMEM, "receive: out of memory");
        receive->text = error_copy();
    }
}

/* Everything has come: done, unless the message waits for message_resume. */
static void complete(struct p2p *p2p, struct receive *receive)
{
    if (!receive->deferred)
        receive_finish(p2p, receive, PAMI_SUCCESS);
}

/* The same with header and data at once. */
static void call_immediate(struct p2p *p2p, const struct dispatch *row, size_t id,
                           const char *header, size_t header_bytes, const char *data,
                           size_t data_bytes, uint32_t origin)
{
    struct context *context = p2p->context;

    context->counters[COUNTER_DISPATCHES]++;
    if (unlikely(row->flags & DISPATCH_TRACED))
        call_traced(context, row, id, header, header_bytes, data, data_bytes, origin, NULL);
    else
        row->function(context, row->cookie, header, header_bytes, data, data_bytes, origin, NULL);
}

/* ---- data ---- */

void receive_take(struct receive *receive, const char *bytes, size_t count)
{
    if (receive->buffer != NULL)
        memcpy(receive->buffer + receive->data_got, bytes, count);
    else if (receive->target != NULL)
        memcpy(receive->target + receive->data_got, bytes, count);
    else if (receive->sinking)
        type_sink_write(&receive->sink, bytes, count);
    receive->data_got += count;
}

/* A held or assembled message may go to the user now: header and, if wanted, data are there. */
static void deliver_collected(struct p2p *p2p, const struct dispatch *row, struct receive *receive)
{
    static char nothing[8];
    char *buffer = receive->buffer;
    size_t got = receive->data_got;
    const char *header = receive->header != NULL ? receive->header : nothing;

    if (receive->immediate && !(row->flags & DISPATCH_NEVER_IMMEDIATE)) {
        receive->dispatched = true;
        p2p->collected = receive;
        call_immediate(p2p, row, receive->dispatch, header, receive->header_bytes,
                       buffer != NULL ? buffer : nothing, receive->data_bytes,
                       receive->peer->endpoint);
        p2p->collected = NULL;
        if (unlikely(receive->put_back))
            p2p_hold_again(p2p, receive);
        else
            receive_finish(p2p, receive, PAMI_SUCCESS);
        return;
    }
    receive->immediate = false;
    receive->buffer = NULL;
    call_async(p2p, row, receive, header);
    if (unlikely(receive->put_back)) {
        receive->buffer = buffer;
        p2p_hold_again(p2p, receive);
        return;
    }
    receive->data_got = 0;
    if (got != 0)
        receive_take(receive, buffer, got);
    stash_put(&p2p->context->stash, buffer);
    if (receive->data_got == receive->data_bytes)
        complete(p2p, receive);
    else if (receive->mode != MESSAGE_STREAM && !receive->deferred)
        rendezvous_begin(p2p, receive);
}

/* The header is complete: go on as far as the message allows. */
void receive_deliver(struct p2p *p2p, struct receive *receive)
{
    const struct dispatch *row = dispatch_arrival(&p2p->context->dispatch, receive->dispatch);

    if (receive->held || row == NULL || row->function == NULL)
        return;
    if (receive->immediate && receive->data_got < receive->data_bytes)
        return;
    deliver_collected(p2p, row, receive);
}

/* The next bytes of a stream: what the header lacks, then data. */
void receive_feed(struct p2p *p2p, struct receive *receive, const char *bytes, size_t count)
{
    size_t part = smaller(receive->header_bytes - receive->header_got, count);
    bool whole;

    p2p_distrust(p2p); /* the data function */
    if (part != 0) {
        memcpy(receive->header + receive->header_got, bytes, part);
        receive->header_got += part;
    }
    if (count > part)
        receive_take(receive, bytes + part, count - part);
    if (receive->header_got < receive->header_bytes)
        return;
    whole = receive->data_got == receive->data_bytes;
    if ((whole || receive->mode != MESSAGE_STREAM) && receive->peer->incoming == receive)
        receive->peer->incoming = NULL;
    if (receive->held)
        return;
    if (!receive->dispatched)
        receive_deliver(p2p, receive);
    else if (whole)
        complete(p2p, receive);
}

/* ---- packets ---- */

static void lost(struct p2p *p2p, uint32_t endpoint)
{
    if (p2p->context->counters[COUNTER_LOST]++ == 0)
        log_error("out of memory: a message from endpoint %u is lost", endpoint);
}

struct peer *p2p_origin(struct p2p *p2p, const struct packet_header *head)
{
    int error = 0;
    struct peer *peer = peer_of_origin(p2p, head->origin, &error);

    if (likely(peer != NULL) || error != -ENOMEM)
        return peer;
    if (p2p->draining)
        lost(p2p, head->origin);
    else
        context_put_back(p2p->context);
    return NULL;
}

/* Nothing has come of the message yet. It comes again, unless it needs so much that there may never
 * be enough: others must not wait for that. */
static void no_memory(struct p2p *p2p, struct peer *peer, const struct packet_header *head,
                      size_t bytes)
{
    if (bytes <= WAIT_BYTES) {
        context_put_back(p2p->context);
        return;
    }
    lost(p2p, peer->endpoint);
    if (head->aux != 0)
        p2p_answer(p2p, peer, head->aux, PAMI_ENOMEM);
}

/* The message has to wait in memory of ours before the user sees its data. */
static bool prepare_to_collect(struct p2p *p2p, const struct dispatch *row, struct receive *receive)
{
    if (message_must_wait(row) && !p2p_hold(p2p, receive))
        return false;
    return receive->mode != MESSAGE_STREAM || need_buffer(p2p, receive);
}

/* A message that cannot be delivered from its first packet alone. */
static void collect(struct p2p *p2p, const struct dispatch *row, struct peer *peer,
                    const struct packet_header *head, const struct message_meta *meta,
                    const char *bytes)
{
    size_t count = (size_t)head->header_bytes + head->payload_bytes;
    struct receive *receive = receive_new(p2p, peer, head, meta, true);

    if (receive == NULL || !prepare_to_collect(p2p, row, receive)) {
        if (receive != NULL)
            receive_free(p2p, receive);
        no_memory(p2p, peer, head, meta->header_bytes + meta->data_bytes);
        return;
    }
    if (count < receive->header_bytes ||
        (meta->mode == MESSAGE_STREAM && count < receive->header_bytes + receive->data_bytes))
        peer->incoming = receive;
    receive_feed(p2p, receive, bytes, count);
}

/* Write a message that is there to where it goes, whatever that is. */
static pami_result_t write_anywhere(const pami_recv_t *recv, const char *bytes, size_t count)
{
    struct receive once;

    memset(&once, 0, offsetof(struct receive, sink));
    once.recv = *recv;
    once.data_bytes = count;
    receive_open(&once);
    receive_take(&once, bytes, count);
    if (once.sinking)
        type_sink_finish(&once.sink);
    if (once.type != NULL)
        type_unref(once.type);
    free(once.text); /* it is this thread's, still */
    return once.result;
}

/* A message that its only packet completes, and whose sender waits for no answer. */
static void whole(struct p2p *p2p, const struct dispatch *row, struct peer *peer,
                  const struct packet_header *head, const char *bytes)
{
    const char *data = bytes + head->header_bytes;
    size_t count = head->payload_bytes;
    pami_result_t result = PAMI_SUCCESS;
    pami_recv_t recv;

    ask_user(p2p, row, head->dispatch, bytes, head->header_bytes, count, head->origin, &recv);
    if (likely(recv.addr != NULL && is_plain(&recv)))
        memcpy((char *)recv.addr + recv.offset, data, count);
    else if (count != 0)
        result = write_anywhere(&recv, data, count);
    receive_tell(p2p, peer, &recv, 0, result);
}

/* The library's own may be kept (message_defer). */
static bool is_whole(const struct packet_header *head, const struct message_meta *meta)
{
    return meta->mode == MESSAGE_STREAM && head->payload_bytes == meta->data_bytes &&
           head->aux == 0 && head->dispatch <= DISPATCH_ID_MAX;
}

/* A message whose whole header is in the first packet and whose function is registered. */
static void direct(struct p2p *p2p, const struct dispatch *row, struct peer *peer,
                   const struct packet_header *head, const struct message_meta *meta,
                   const char *bytes)
{
    struct receive *receive = receive_new(p2p, peer, head, meta, false);

    if (receive == NULL) {
        no_memory(p2p, peer, head, 0);
        return;
    }
    call_async(p2p, row, receive, bytes);
    if (unlikely(receive->put_back)) {
        receive_free(p2p, receive);
        context_put_back(p2p->context);
        return;
    }
    if (meta->lead != 0 && receive->target != NULL && !receive->deferred) {
        receive->lead = meta->lead;
        receive->data_got = meta->lead;
        peer->incoming = receive;
    }
    if (head->payload_bytes != 0)
        receive_take(receive, bytes + head->header_bytes, head->payload_bytes);
    if (receive->data_got == receive->data_bytes)
        complete(p2p, receive);
    else if (receive->mode == MESSAGE_STREAM)
        peer->incoming = receive;
    else if (!receive->deferred)
        rendezvous_begin(p2p, receive);
}

static void begin(struct p2p *p2p, const struct packet_header *head,
                  const struct message_meta *meta, const char *bytes)
{
    const struct dispatch *row = dispatch_arrival(&p2p->context->dispatch, head->dispatch);
    struct peer *peer = p2p_origin(p2p, head);

    if (peer == NULL)
        return;
    if (peer->incoming != NULL)
        foreign(p2p->context, head, "a message inside a message");
    else if (message_must_wait(row) || meta->immediate || head->header_bytes < meta->header_bytes)
        collect(p2p, row, peer, head, meta, bytes);
    else if (is_whole(head, meta))
        whole(p2p, row, peer, head, bytes);
    else
        direct(p2p, row, peer, head, meta, bytes);
    peer->lead_unwanted = peer->incoming == NULL;
}

/* An answer for a message that nobody will look at any more. */
static void refuse(struct p2p *p2p, const struct packet_header *head)
{
    struct peer *peer = p2p_origin(p2p, head);

    if (peer == NULL)
        return;
    if (head->dispatch <= DISPATCH_ID_MAX)
        peer->refused = true;
    if (head->aux != 0)
        p2p_answer(p2p, peer, head->aux, PAMI_SHUTDOWN);
}

/* It has to wait, or is wanted in two steps. */
static void begin_immediate(struct p2p *p2p, const struct packet_header *head, const char *body,
                            bool waits)
{
    const struct message_meta meta = {
        .data_bytes = head->payload_bytes,
        .header_bytes = head->header_bytes,
        .mode = MESSAGE_STREAM,
        .immediate = waits,
    };

    begin(p2p, head, &meta, body);
}

HOT void p2p_handle_immediate(struct context *context, const struct packet_header *head, void *body)
{
    struct p2p *p2p = context->p2p;
    const struct dispatch *row = dispatch_arrival(&context->dispatch, head->dispatch);
    const char *bytes = body;

    if (unlikely(head->meta_words != 0 ||
                 (row == NULL && !dispatch_is_possible(&context->dispatch, head->dispatch)))) {
        foreign(context, head, "an immediate message with impossible fields");
        return;
    }
    if (unlikely(p2p->draining)) {
        refuse(p2p, head);
        return;
    }
    if (unlikely(message_must_wait(row) || (row->flags & DISPATCH_NEVER_IMMEDIATE))) {
        begin_immediate(p2p, head, bytes, message_must_wait(row));
        return;
    }
    if (unlikely(head->aux != 0) && !p2p_owe_origin(p2p, head))
        return;
    call_immediate(p2p, row, head->dispatch, bytes, head->header_bytes, bytes + head->header_bytes,
                   head->payload_bytes, head->origin);
    if (unlikely(head->aux != 0))
        p2p_answer_origin(p2p, head);
}

static bool meta_is_sane(const struct packet_header *head, const struct message_meta *meta)
{
    size_t payload = head->payload_bytes;

    if (meta->mode >= MESSAGE_MODES || head->header_bytes > meta->header_bytes ||
        meta->data_bytes > MESSAGE_BYTES_MAX ||
        (meta->exposure.id != 0 && meta->mode != MESSAGE_PULL))
        return false;
    if (meta->lead != 0 && (meta->mode != MESSAGE_PULL || meta->lead >= meta->data_bytes ||
                            head->header_bytes != meta->header_bytes))
        return false;
    if (meta->mode != MESSAGE_STREAM)
        return payload == 0 && head->aux != 0 && meta->data_bytes != 0 && !meta->immediate;
    return payload == 0 ||
           (head->header_bytes == meta->header_bytes && payload <= meta->data_bytes);
}

void p2p_handle_message(struct context *context, const struct packet_header *head, void *body)
{
    struct p2p *p2p = context->p2p;
    struct message_meta meta = {0};
    size_t meta_bytes = (size_t)head->meta_words * 8;

    if ((meta_bytes != MESSAGE_META_BYTES && meta_bytes != sizeof(meta)) ||
        !dispatch_is_possible(&context->dispatch, head->dispatch)) {
        foreign(context, head, "a message without its description");
        return;
    }
    memcpy(&meta, body, meta_bytes);
    if (!meta_is_sane(head, &meta)) {
        foreign(context, head, "a message whose sizes contradict each other");
        return;
    }
    if (unlikely(p2p->draining))
        refuse(p2p, head);
    else
        begin(p2p, head, &meta, (const char *)body + meta_bytes);
}

void p2p_handle_stream(struct context *context, const struct packet_header *head, void *body)
{
    struct p2p *p2p = context->p2p;
    size_t count = (size_t)head->header_bytes + head->payload_bytes;
    struct peer *peer;
    struct receive *receive;
    size_t left;

    peer = p2p_origin(p2p, head);
    if (peer == NULL)
        return;
    receive = peer->incoming;
    if (receive == NULL && (p2p->draining || peer->lead_unwanted))
        return;
    if (receive == NULL || head->meta_words != 0) {
        foreign(context, head, "more of a message that is not under way");
        return;
    }
    left = receive->header_bytes - receive->header_got + receive->lead - receive->lead_got;
    if (receive->mode == MESSAGE_STREAM)
        left += receive->data_bytes - receive->data_got;
    if (count > left)
        foreign(context, head, "more of a message than there is");
    else if (receive->lead != 0)
        rendezvous_lead(p2p, receive, body, count);
    else
        receive_feed(p2p, receive, body, count);
}

/*
 * The first packet of a context that another one had the place of before, or of a peer that takes
 * us for new. What comes behind it from a new life must not end with the old one when that is
 * reported later: the old one ends here. The new one may have ended as well by now.
 */
void p2p_handle_reset(struct context *context, const struct packet_header *head, void *body)
{
    struct p2p *p2p = context->p2p;
    struct peer *peer = u64map_get(&p2p->peers, head->origin);

    (void)body;
    if (peer == NULL)
        return;
    if (!peer->gone && path_is_stale(peer->path) && peer->path->life != head->aux)
        p2p_endpoint_gone(context, head->origin);
    if (peer->incoming == NULL)
        return;
    peer->incoming->answer = 0;
    receive_finish(p2p, peer->incoming,
                   error_set(PAMI_ERROR, "receive: endpoint %u gave the message up", head->origin));
}
