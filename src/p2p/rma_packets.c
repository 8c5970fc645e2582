/*
 * Transfers by packets, the origin's side: PUT packets that carry runs and bytes, GET packets that
 * carry runs, and the REPLY packets that bring what was asked for.
 *
 * The target touches its memory through the kernel (rma_target.c), so a wrong address ends as an
 * error of the transfer. A put is complete when its ACK has come.
 */
#include <errno.h>

#include "p2p/rma.h"
#include "util/error.h"
#include "util/minmax.h"

static struct rma *rma_of(struct operation *operation)
{
    return container_of(operation, struct rma, op);
}

/* ---- put ---- */

static void fill_typed(void *to, const struct packet *packet)
{
    type_pack(to, packet->fill_state, packet->head.payload_bytes, PAMI_DATA_COPY, NULL);
}

/* Runs for what follows data byte `from`, within `room` bytes of runs and data together when
 * `data_too`. Returns the data bytes. */
static size_t take_runs(const struct rma *rma, struct type_cursor *cursor, size_t from,
                        struct rma_run *runs, size_t *count, size_t room, bool data_too)
{
    size_t left = rma->bytes - from;
    size_t bytes = 0;

    if (rma->typed == NULL) {
        bytes = data_too ? smaller(left, room - sizeof(*runs)) : left;
        runs[0] = (struct rma_run){.address = rma->remote + from, .piece = bytes, .count = 1};
        *count = 1;
        return bytes;
    }
    for (*count = 0; *count < RMA_RUNS && left != 0 && room > sizeof(*runs); ++*count) {
        size_t most = data_too ? smaller(left, room - sizeof(*runs)) : left;
        size_t part = rma_next_run(cursor, &runs[*count], most);

        room -= sizeof(*runs) + (data_too ? part : 0);
        left -= part;
        bytes += part;
    }
    return bytes;
}

static int put_packet(struct p2p *p2p, struct rma *rma, size_t limit)
{
    struct rma_typed *typed = rma->typed;
    struct rma_run runs[RMA_RUNS];
    struct type_cursor local, remote;
    size_t count;
    size_t bytes;
    int error;

    if (typed != NULL) {
        local = typed->local;
        remote = typed->remote;
    }
    bytes = take_runs(rma, &remote, rma->done, runs, &count, limit, true);

    const struct packet packet = {
        .head = {.protocol = PROTOCOL_PUT,
                 .dispatch = (uint16_t)((rma->asked == rma->done ? RMA_PUT_FIRST : 0) |
                                        (rma->done + bytes == rma->bytes ? RMA_PUT_LAST : 0)),
                 .header_bytes = (uint16_t)(count * sizeof(runs[0])),
                 .payload_bytes = (uint16_t)bytes,
                 .origin = p2p->context->endpoint,
                 .aux = rma->op.handle},
        .header = runs,
        .payload = typed == NULL ? rma->local + rma->done : NULL,
        .fill = typed != NULL ? fill_typed : NULL,
        .fill_state = &local,
    };

    error = rma->op.path->am(rma->op.path, &packet);
    if (error != 0)
        return error;
    p2p->packets++;
    rma->done += bytes;
    if (typed != NULL) {
        typed->local = local;
        typed->remote = remote;
    }
    return 0;
}

static int put_progress(struct p2p *p2p, struct operation *operation)
{
    struct rma *rma = rma_of(operation);
    size_t end = rma->done + RMA_STEP_BYTES;

    while (rma->done < rma->bytes) {
        int error = -EAGAIN;

        if (rma->done < end)
            error = put_packet(p2p, rma, path_piece(rma->op.path, rma->bytes));
        if (error == -ENOBUFS)
            error = put_packet(p2p, rma, PACKET_SMALL);
        if (error != 0)
            return error;
    }
    list_remove(&operation->link);
    rma_local_done(p2p, rma, PAMI_SUCCESS);
    return 0;
}

/* ---- get ---- */

/* A request for as much as its runs can describe. */
static int get_packet(struct p2p *p2p, struct rma *rma, size_t limit)
{
    struct rma_typed *typed = rma->typed;
    struct rma_run runs[RMA_RUNS];
    struct type_cursor remote;
    size_t count;
    size_t bytes;
    int error;

    if (typed != NULL)
        remote = typed->remote;
    bytes = take_runs(rma, &remote, rma->asked, runs, &count, limit + 1, false);

    const struct packet packet = {
        .head = {.protocol = PROTOCOL_GET,
                 .header_bytes = (uint16_t)(count * sizeof(runs[0])),
                 .origin = p2p->context->endpoint,
                 .aux = rma->op.handle},
        .header = runs,
    };

    error = rma->op.path->am(rma->op.path, &packet);
    if (error != 0)
        return error;
    p2p->packets++;
    rma->asked += bytes;
    if (typed != NULL)
        typed->remote = remote;
    return 0;
}

static int get_progress(struct p2p *p2p, struct operation *operation)
{
    struct rma *rma = rma_of(operation);

    while (rma->asked < rma->bytes) {
        int error = get_packet(p2p, rma, rma->op.path->packet_max);

        if (error == -ENOBUFS)
            error = get_packet(p2p, rma, PACKET_SMALL);
        if (error != 0)
            return error;
    }
    list_remove(&operation->link);
    return 0;
}

void rma_handle_reply(struct context *context, const struct packet_header *head, void *body)
{
    struct p2p *p2p = context->p2p;
    struct operation *operation = handle_find(&p2p->handles, head->aux);
    struct rma *rma;

    if (operation == NULL || operation->kind != OPERATION_OUTGOING ||
        operation->ops != &rma_get_ops || operation->peer->endpoint != head->origin ||
        head->meta_words != 0 || head->header_bytes != 0) {
        context->counters[COUNTER_FOREIGN]++;
        return;
    }
    rma = rma_of(operation);
    if (head->dispatch != PAMI_SUCCESS) {
        rma_end(p2p, rma, rma_fault(rma, head->dispatch == PAMI_ENOMEM ? -ENOMEM : -EFAULT));
        return;
    }
    if (head->payload_bytes > rma->asked - rma->done) {
        context->counters[COUNTER_FOREIGN]++;
        return;
    }
    if (rma->typed != NULL)
        type_unpack(&rma->typed->local, body, head->payload_bytes);
    else
        memcpy(rma->local + rma->done, body, head->payload_bytes);
    rma->done += head->payload_bytes;
    if (rma->done == rma->bytes)
        rma_end(p2p, rma, PAMI_SUCCESS);
}

/* ---- both ---- */

static void packets_finish(struct p2p *p2p, struct operation *operation, pami_result_t result)
{
    struct rma *rma = rma_of(operation);

    if (result != PAMI_SUCCESS)
        result = rma_fault(rma, operation->peer->gone   ? -EPIPE
                                : result == PAMI_ENOMEM ? -ENOMEM
                                                        : -EFAULT);
    else if (!rma->put || rma->done != rma->bytes)
        result = error_set(PAMI_ERROR, "endpoint %u answered what it was not asked",
                           operation->peer->endpoint);
    rma_end(p2p, rma, result);
}

static void packets_free(struct p2p *p2p, struct operation *operation)
{
    rma_free(p2p, rma_of(operation));
}

const struct operation_ops rma_put_ops = {
    .progress = put_progress,
    .finish = packets_finish,
    .free = packets_free,
};

const struct operation_ops rma_get_ops = {
    .progress = get_progress,
    .finish = packets_finish,
    .free = packets_free,
};
