/*
 * The public send calls.
 *
 * The one-packet path does its checks, fills a packet on the stack and hands it to the device: no
 * allocation, no copy but the device's. Everything else becomes a struct send (outgoing.c).
 */
#include <errno.h>
#include <stdlib.h>

#include "p2p/send_short.h"
#include "util/error.h"

/* More than this is copied once, from where it is, by the same context, which has the answer to its
 * question at once. */
#define OWN_EAGER_BYTES 8192u

/* What a send call is checked against, found once. */
struct checked {
    struct context *context;
    struct p2p *p2p;
    const struct dispatch *row;
    struct peer *peer;
    struct path *path;
    bool gone;   /* the destination has left, and everything else that was checked is right */
    bool packed; /* the data is the call's own: a copy of what its type described */
};

/* The destination has left: no fault of the caller, who learns of it from the callbacks. */
static pami_result_t complete_gone(struct context *context, uint32_t dest,
                                   const pami_send_event_t *events)
{
    if (completion_reserve(&context->completions, 2) != 0)
        return error_set(PAMI_ENOMEM, "send: out of memory");
    fence_refused(context->p2p, dest);
    context_complete(context, events->local_fn, events->cookie, PAMI_ERROR);
    context_complete(context, events->remote_fn, events->cookie, PAMI_ERROR);
    return PAMI_SUCCESS;
}

/* Hints that choose another path than the usual one, and what a trace is told. */
static pami_result_t check_path(const char *function, struct checked *checked,
                                const pami_send_immediate_t *send)
{
    uint32_t dest = send->dest;

    if ((checked->row->flags & DISPATCH_SHARED_ONLY) && !checked->path->local)
        return error_set(PAMI_INVAL,
                         "%s: dest: task %u shares no memory with this one, and the dispatch id "
                         "was registered for shared memory only",
                         function, endpoint_task(dest));
    if (checked->row->flags & DISPATCH_PACKETS_ONLY) {
        int error = peer_packet_path(checked->p2p, checked->peer, &checked->path);

        checked->gone = error == -EPIPE;
        if (error != 0)
            return p2p_no_peer(function, dest, checked->p2p, error);
    }
    if (checked->context->trace != NULL)
        trace_add(checked->context, TRACE_SEND, "send", 0, send->dispatch, dest,
                  send->data.iov_len);
    return PAMI_SUCCESS;
}

static pami_result_t null_part(const char *function, const char *part, size_t bytes)
{
    return error_set(PAMI_INVAL, "%s: %s: NULL with %zu bytes", function, part, bytes);
}

/* What all sends have in common, but for the destination; fills *checked. The base of a typed
 * source is looked at with the type, which may have absolute displacements. */
static inline pami_result_t check(const char *function, pami_context_t handle,
                                  const pami_send_immediate_t *send, bool typed,
                                  struct checked *checked)
{
    checked->gone = checked->packed = false;
    checked->context = context_from_handle(handle);
    if (unlikely(checked->context == NULL))
        return error_set(PAMI_INVAL, "%s: context: %s", function, context_fault(handle));
    misuse_check(checked->context, function);
    if (unlikely(send == NULL))
        return error_set(PAMI_INVAL, "%s: parameters: NULL", function);
    checked->p2p = checked->context->p2p;
    checked->row = dispatch_registered(&checked->context->dispatch, send->dispatch);
    if (unlikely(checked->row == NULL))
        return error_set(PAMI_ERROR, "%s: dispatch: %zu is not registered on this context",
                         function, send->dispatch);
    if (unlikely(send->header.iov_base == NULL && send->header.iov_len != 0))
        return null_part(function, "header", send->header.iov_len);
    if (unlikely(send->data.iov_base == NULL && send->data.iov_len != 0 && !typed))
        return null_part(function, "data", send->data.iov_len);
    return PAMI_SUCCESS;
}

/* The way to the destination. The last check: one that has gone hides no fault of the caller's. */
static inline pami_result_t find_path(const char *function, struct checked *checked,
                                      const pami_send_immediate_t *send)
{
    int error = 0;

    checked->peer = peer_get(checked->p2p, send->dest, &error);
    if (unlikely(checked->peer == NULL)) {
        checked->gone = error == -EPIPE;
        return p2p_no_peer(function, send->dest, checked->p2p, error);
    }
    checked->path = checked->peer->path;
    if (unlikely(checked->row->flags &
                 (DISPATCH_SHARED_ONLY | DISPATCH_PACKETS_ONLY | DISPATCH_TRACED)))
        return check_path(function, checked, send);
    return PAMI_SUCCESS;
}

static pami_result_t check_header(const char *function, const struct checked *checked,
                                  const pami_send_immediate_t *send)
{
    size_t limit = checked->context->core->recv_immediate_max;

    if ((checked->row->flags & DISPATCH_SHORT_HEADER) && send->header.iov_len > limit)
        return error_set(PAMI_INVAL,
                         "%s: header: %zu bytes, but the dispatch id was registered without long "
                         "headers (at most %zu)",
                         function, send->header.iov_len, limit);
    return PAMI_SUCCESS;
}

/* Limits that the sender's own hints set. */
static pami_result_t check_limits(const char *function, const struct checked *checked,
                                  const pami_send_immediate_t *send)
{
    size_t limit = checked->context->core->recv_immediate_max;
    pami_result_t result = check_header(function, checked, send);
    size_t total;

    if (result != PAMI_SUCCESS)
        return result;
    if (send->header.iov_len > UINT32_MAX)
        return error_set(PAMI_INVAL, "%s: header: %zu bytes are too many", function,
                         send->header.iov_len);
    if (send->data.iov_len > MESSAGE_BYTES_MAX)
        return error_set(PAMI_INVAL, "%s: data: %zu bytes are too many", function,
                         send->data.iov_len);
    total = send->header.iov_len + send->data.iov_len;
    if ((checked->row->flags & DISPATCH_ALWAYS_IMMEDIATE) && total > limit)
        return error_set(PAMI_INVAL,
                         "%s: data: %zu bytes with the header, but the dispatch id was registered "
                         "for immediate receives (at most %zu)",
                         function, total, limit);
    return PAMI_SUCCESS;
}

static inline int send_one_packet(const struct checked *checked, const pami_send_immediate_t *send)
{
    const struct packet packet = {
        .head = packet_header_short(PROTOCOL_IMMEDIATE, send->dispatch, send->header.iov_len,
                                    send->data.iov_len, checked->context->endpoint, 0),
        .header = send->header.iov_base,
        .payload = send->data.iov_base,
    };

    return checked->path->am(checked->path, &packet);
}

/* A queued operation with its own copy of the header, and of the data when `copy_data`. */
static struct send *operation(const struct checked *checked, const pami_send_immediate_t *from,
                              bool copy_data)
{
    size_t header = from->header.iov_len;
    size_t data = copy_data ? from->data.iov_len : 0;
    struct send *send = send_new(checked->p2p, checked->peer);

    if (send == NULL)
        return NULL;
    if (unlikely(send->op.next_life))
        fence_turn(checked->peer);
    checked->peer->unfenced = true;
    send->protocol = PROTOCOL_MESSAGE;
    send->op.path = checked->path;
    send->dispatch = (uint16_t)from->dispatch;
    send->header_bytes = header;
    send->data_bytes = from->data.iov_len;
    send->data = from->data.iov_base;
    if (header + data == 0)
        return send;
    send->copy = malloc(header + data);
    if (send->copy == NULL) {
        send_free(checked->p2p, send);
        return NULL;
    }
    send->header = send->copy;
    if (header != 0)
        memcpy(send->copy, from->header.iov_base, header);
    if (data != 0) {
        memcpy(send->copy + header, from->data.iov_base, data);
        send->data = send->copy + header;
    }
    return send;
}

/* What needs several packets always waits with some of them: allowed where nothing else waits, even
 * without a queue. Who tries again gets there, and no more than one message is kept. */
static bool may_wait(const struct checked *checked, const pami_send_immediate_t *send)
{
    return !(checked->row->flags & DISPATCH_NO_QUEUE) ||
           (list_empty(&checked->peer->queue) &&
            send->header.iov_len + send->data.iov_len > checked->path->packet_max);
}

static pami_result_t later(const struct checked *checked, const pami_send_immediate_t *send,
                           const char *function)
{
    if (likely(send_later(checked->p2p, checked->peer, checked->path, send) == 0))
        return PAMI_SUCCESS;
    return error_set(PAMI_ENOMEM, "%s: out of memory", function);
}

static pami_result_t send_immediate_later(const struct checked *checked,
                                          const pami_send_immediate_t *parameters)
{
    struct send *send;

    if (!may_wait(checked, parameters))
        return PAMI_EAGAIN;
    if (likely(send_fits_later(checked->path, parameters)))
        return later(checked, parameters, "PAMI_Send_immediate");
    send = operation(checked, parameters, true);
    if (send == NULL)
        return error_set(PAMI_ENOMEM, "PAMI_Send_immediate: out of memory");
    send->immediate = true;
    operation_launch(checked->p2p, &send->op);
    return PAMI_SUCCESS;
}

/* Every send but those of the short cut, and all errors. */
__attribute__((noinline)) static pami_result_t
send_immediate(pami_context_t context, const pami_send_immediate_t *parameters)
{
    struct checked checked;
    pami_result_t result = check("PAMI_Send_immediate", context, parameters, false, &checked);
    size_t total;

    if (unlikely(result != PAMI_SUCCESS))
        return result;
    total = parameters->header.iov_len + parameters->data.iov_len;
    if (unlikely(total > checked.context->core->send_immediate_max ||
                 total < parameters->data.iov_len))
        return error_set(PAMI_INVAL,
                         "PAMI_Send_immediate: data: %zu bytes and a header of %zu, more than %zu",
                         parameters->data.iov_len, parameters->header.iov_len,
                         checked.context->core->send_immediate_max);
    result = check_header("PAMI_Send_immediate", &checked, parameters);
    if (unlikely(result != PAMI_SUCCESS))
        return result;
    result = find_path("PAMI_Send_immediate", &checked, parameters);
    if (unlikely(result != PAMI_SUCCESS))
        return result;
    if (unlikely(!list_empty(&checked.peer->queue) || total > checked.path->packet_max ||
                 send_one_packet(&checked, parameters) != 0))
        result = send_immediate_later(&checked, parameters);
    if (likely(result == PAMI_SUCCESS)) {
        checked.peer->unfenced = true;
        checked.context->counters[COUNTER_SEND_IMMEDIATE]++;
        checked.context->counters[COUNTER_SEND_BYTES] += parameters->data.iov_len;
    }
    return result;
}

pami_result_t PAMI_Send_immediate(pami_context_t handle, pami_send_immediate_t *parameters)
{
    struct context *context = context_from_handle(handle);

    if (likely(context != NULL && parameters != NULL && send_short(context, parameters)))
        return PAMI_SUCCESS;
    return send_immediate(handle, parameters);
}

/* Header and data arrive together, unless the receiver's hints forbid it. */
static bool goes_immediate(const struct checked *checked, const pami_send_immediate_t *send)
{
    size_t total = send->header.iov_len + send->data.iov_len;

    return send->data.iov_len == 0 || total <= checked->context->core->recv_immediate_max;
}

/* data NULL: it is not contiguous. */
static enum message_mode mode_of(const struct checked *checked, const void *data, size_t bytes)
{
    struct p2p *p2p = checked->p2p;
    const struct path *path = checked->path;
    bool may = data != NULL && !(checked->row->flags & DISPATCH_NO_RDMA);
    bool once =
        may && path->own && path->single_copy && bytes > OWN_EAGER_BYTES && !p2p->rendezvous_chosen;

    if (bytes <= p2p_eager_bytes(p2p, path) && !once)
        return MESSAGE_STREAM;
    return may && p2p_is_readable(p2p, path, data, bytes) ? MESSAGE_PULL : MESSAGE_PUSH;
}

static int send_whole(const struct checked *checked, const pami_send_immediate_t *send)
{
    const struct message_meta meta = {
        .data_bytes = send->data.iov_len,
        .header_bytes = (uint32_t)send->header.iov_len,
        .mode = MESSAGE_STREAM,
    };
    const struct packet packet = {
        .head = {.protocol = PROTOCOL_MESSAGE,
                 .meta_words = MESSAGE_META_BYTES / 8,
                 .dispatch = (uint16_t)send->dispatch,
                 .header_bytes = (uint16_t)send->header.iov_len,
                 .payload_bytes = (uint16_t)send->data.iov_len,
                 .origin = checked->context->endpoint},
        .meta = &meta,
        .header = send->header.iov_base,
        .payload = send->data.iov_base,
    };

    return checked->path->am(checked->path, &packet);
}

/* What one packet holds, and nothing has to be remembered of: no operation. False: another way. */
static bool sent_at_once(const struct checked *checked, const pami_send_immediate_t *send)
{
    uint64_t *counters = checked->context->counters;
    size_t total = send->header.iov_len + send->data.iov_len;

    if (!list_empty(&checked->peer->queue))
        return false;
    if (goes_immediate(checked, send)) {
        if (total > checked->path->packet_max || send_one_packet(checked, send) != 0)
            return false;
        counters[COUNTER_SEND_IMMEDIATE]++;
    } else {
        if (total + MESSAGE_META_BYTES > checked->path->packet_max ||
            mode_of(checked, send->data.iov_base, send->data.iov_len) != MESSAGE_STREAM ||
            send_whole(checked, send) != 0)
            return false;
        counters[COUNTER_SEND_EAGER]++;
    }
    counters[COUNTER_SEND_BYTES] += send->data.iov_len;
    checked->peer->unfenced = true;
    return true;
}

/* The general path: any size, any protocol. `typed` becomes the operation's on success. */
static pami_result_t send_message(const char *function, const struct checked *checked,
                                  const pami_send_immediate_t *from,
                                  const pami_send_event_t *events, struct typed_source *typed)
{
    struct p2p *p2p = checked->p2p;
    size_t bytes = from->data.iov_len;
    struct send *send;

    if (typed == NULL && events->remote_fn == NULL &&
        likely(completion_reserve(&checked->context->completions, 1) == 0) &&
        likely(sent_at_once(checked, from))) {
        context_complete(checked->context, events->local_fn, events->cookie, PAMI_SUCCESS);
        return PAMI_SUCCESS;
    }
    if (typed == NULL && events->local_fn == NULL && events->remote_fn == NULL &&
        goes_immediate(checked, from) && send_fits_later(checked->path, from)) {
        pami_result_t result = later(checked, from, function);

        if (likely(result == PAMI_SUCCESS)) {
            p2p->context->counters[COUNTER_SEND_IMMEDIATE]++;
            p2p->context->counters[COUNTER_SEND_BYTES] += bytes;
        }
        return result;
    }
    send = operation(checked, from,
                     checked->packed || (typed == NULL && send_is_copied(events, bytes)));
    if (send == NULL)
        return error_set(PAMI_ENOMEM, "%s: out of memory", function);
    send->immediate = goes_immediate(checked, from);
    send->mode =
        (uint16_t)(send->immediate ? MESSAGE_STREAM
                                   : mode_of(checked, typed == NULL ? send->data : NULL, bytes));
    if (send->mode == MESSAGE_PUSH && typed == NULL && !(checked->row->flags & DISPATCH_NO_RDMA) &&
        send_expose(p2p, send))
        send->mode = MESSAGE_PULL;
    if (events->remote_fn != NULL || send->mode != MESSAGE_STREAM) {
        send->op.handle = handle_new(&p2p->handles, send);
        if (send->op.handle == 0) {
            send_free(p2p, send);
            return error_set(PAMI_ENOMEM,
                             "%s: out of memory, or too many operations wait for an answer",
                             function);
        }
    }
    if (context_promise(p2p->context, events->local_fn, events->remote_fn) != 0) {
        send_free(p2p, send);
        return error_set(PAMI_ENOMEM, "%s: out of memory", function);
    }
    if (send->mode == MESSAGE_PULL)
        send_to_be_pulled(send);
    send->events = *events;
    send->typed = typed;
    p2p->context->counters[send->immediate                ? COUNTER_SEND_IMMEDIATE
                           : send->mode == MESSAGE_STREAM ? COUNTER_SEND_EAGER
                           : send->mode == MESSAGE_PULL   ? COUNTER_SEND_PULL
                                                          : COUNTER_SEND_PUSH]++;
    p2p->context->counters[COUNTER_SEND_BYTES] += bytes;
    operation_launch(p2p, &send->op);
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Send(pami_context_t context, pami_send_t *parameters)
{
    struct checked checked;
    pami_result_t result =
        check("PAMI_Send", context, parameters != NULL ? &parameters->send : NULL, false, &checked);

    if (likely(result == PAMI_SUCCESS))
        result = check_limits("PAMI_Send", &checked, &parameters->send);
    if (likely(result == PAMI_SUCCESS))
        result = find_path("PAMI_Send", &checked, &parameters->send);
    if (unlikely(result != PAMI_SUCCESS))
        return checked.gone
                   ? complete_gone(checked.context, parameters->send.dest, &parameters->events)
                   : result;
    return send_message("PAMI_Send", &checked, &parameters->send, &parameters->events, NULL);
}

/* Check the layout of a typed send and describe its source. *source stays NULL when the data is
 * one contiguous piece, whose address *plain then holds: the program's, or `small` with a copy of
 * little data, which costs less than to remember its type. */
static pami_result_t open_source(const pami_send_typed_t *parameters, struct checked *checked,
                                 struct typed_source **source, void **plain,
                                 char small[SEND_COPY_BYTES])
{
    size_t bytes = parameters->send.data.iov_len;
    char *base = parameters->send.data.iov_base;
    pami_data_function function = parameters->typed.data_fn;
    struct type *type = type_complete_from_handle(parameters->typed.type);
    struct typed_source *typed;

    if (type == NULL)
        return error_set(PAMI_INVAL, "PAMI_Send_typed: type: not a complete type");
    if (bytes == 0)
        return PAMI_SUCCESS;
    if (type_data_size(type) == 0)
        return error_set(PAMI_INVAL, "PAMI_Send_typed: type: holds no data, but %zu bytes are sent",
                         bytes);
    if (base == NULL && type_is_contiguous(type))
        return null_part("PAMI_Send_typed", "data", bytes);
    if (function == PAMI_DATA_COPY && type_is_contiguous(type)) {
        *plain = base + parameters->typed.offset;
        return PAMI_SUCCESS;
    }
    if (function == PAMI_DATA_COPY && bytes <= SEND_COPY_BYTES) {
        struct type_cursor cursor;

        type_cursor_init(&cursor, type, base, parameters->typed.offset);
        type_pack(small, &cursor, bytes, PAMI_DATA_COPY, NULL);
        *plain = small;
        checked->packed = true;
        return PAMI_SUCCESS;
    }
    if (function != PAMI_DATA_COPY && (uintptr_t)function <= OPERATOR_MINLOC)
        return error_set(PAMI_INVAL, "PAMI_Send_typed: data_fn: an operation on what is at the "
                                     "target, which the sender does not have");
    if (type_check_transfer(type, parameters->typed.offset, bytes, function) != 0)
        return error_set(PAMI_INVAL,
                         "PAMI_Send_typed: data_fn: cannot be applied to %zu bytes of the type",
                         bytes);
    typed = malloc(sizeof(*typed));
    if (typed == NULL)
        return error_set(PAMI_ENOMEM, "PAMI_Send_typed: out of memory");
    typed->type = type_ref(type);
    typed->function = function;
    typed->cookie = parameters->typed.data_cookie;
    type_cursor_init(&typed->cursor, type, base, parameters->typed.offset);
    *source = typed;
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Send_typed(pami_context_t context, pami_send_typed_t *parameters)
{
    pami_send_immediate_t send;
    char small[SEND_COPY_BYTES];
    struct typed_source *typed = NULL;
    struct checked checked;
    pami_result_t result = check("PAMI_Send_typed", context,
                                 parameters != NULL ? &parameters->send : NULL, true, &checked);

    if (result == PAMI_SUCCESS)
        result = check_limits("PAMI_Send_typed", &checked, &parameters->send);
    if (result != PAMI_SUCCESS)
        return result;
    send = parameters->send;
    result = open_source(parameters, &checked, &typed, &send.data.iov_base, small);
    if (result == PAMI_SUCCESS)
        result = find_path("PAMI_Send_typed", &checked, &send);
    if (result == PAMI_SUCCESS)
        result = send_message("PAMI_Send_typed", &checked, &send, &parameters->events, typed);
    if (result != PAMI_SUCCESS && typed != NULL) {
        type_unref(typed->type);
        free(typed);
    }
    return checked.gone ? complete_gone(checked.context, send.dest, &parameters->events) : result;
}
