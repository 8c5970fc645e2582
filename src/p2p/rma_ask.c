/*
 * Transfers whose target is asked first: large ones, of memory that nobody has announced, over a
 * network that reads and writes memory itself.
 *
 * Such a network trusts addresses: a wrong one would let the target fault, or end the connection.
 * So the target looks at its memory before, a part at a time, and makes sure that the pages are
 * there; the origin looks at its own meanwhile. What either does not like goes by packets, which
 * find out what exactly is wrong. Memory has to stay where it is while a transfer is under way.
 *
 * Asking has no order: a put that waits for its turn has mostly been answered when that comes.
 */
#include <errno.h>

#include "p2p/rma.h"

/* What is looked at in one go: so much is done between two answers, and takes the target a while,
 * some 10 us per MiB and more where pages have to be made. */
#define ASK_BYTES ((size_t)4 << 20)

/* Less goes by packets: two round trips cost more than copies. See bench/RESULTS.md. */
#define ASK_LEAST_PUT ((size_t)256 << 10)
#define ASK_LEAST_GET ((size_t)128 << 10)

/* Meta of an ASK packet; head.dispatch: not 0: to be written to. */
struct ask_meta {
    uint64_t address, bytes;
};

static size_t next_part(const struct rma *rma)
{
    size_t left = rma->bytes - rma->done;

    return left < ASK_BYTES ? left : ASK_BYTES;
}

bool rma_may_ask(const struct rma_call *call, const struct rma *rma)
{
    const struct path *path = rma->op.path;

    return rma->typed == NULL && path->single_copy &&
           call->rma->bytes >= (rma->put ? ASK_LEAST_PUT : ASK_LEAST_GET) &&
           path->port->ops->remote != NULL && path->port->ops->put == NULL &&
           call->rma->hints.use_rdma != PAMI_HINT_DISABLE && !rma->op.peer->refuses_access;
}

static int ask_progress(struct p2p *p2p, struct operation *operation)
{
    struct rma *rma = container_of(operation, struct rma, op);
    const struct ask_meta meta = {.address = rma->remote + rma->done, .bytes = next_part(rma)};
    const struct packet packet = {
        .head = {.protocol = PROTOCOL_ASK,
                 .meta_words = sizeof(meta) / 8,
                 .dispatch = rma->put,
                 .origin = p2p->context->endpoint,
                 .aux = operation->handle},
        .meta = &meta,
    };
    int error = operation->path->am(operation->path, &packet);

    if (error != 0)
        return error;
    p2p->packets++;
    list_remove(&operation->link);
    rma->accessible = probe_area(!rma->put, (uintptr_t)rma->local + rma->done, meta.bytes);
    return 0;
}

/* The answer, which has no handle any more, or none will come. */
static void ask_finish(struct p2p *p2p, struct operation *operation, pami_result_t result)
{
    struct rma *rma = container_of(operation, struct rma, op);

    if (operation->peer->gone) {
        rma_end(p2p, rma, rma_fault(rma, -EPIPE));
        return;
    }
    list_remove(&operation->link);
    handle_drop(&p2p->handles, operation->handle);
    operation->handle = 0;
    rma->asking = false;
    rma->allowed = rma->done + next_part(rma);
    if (result == PAMI_UNIMPL)
        operation->peer->refuses_access = true;
    rma_answered(p2p, rma, result == PAMI_SUCCESS && rma->accessible);
}

static void ask_free(struct p2p *p2p, struct operation *operation)
{
    rma_free(p2p, container_of(operation, struct rma, op));
}

static const struct operation_ops ask_ops = {
    .progress = ask_progress,
    .finish = ask_finish,
    .free = ask_free,
};

/* The transfer may be gone on return. */
void rma_ask(struct p2p *p2p, struct rma *rma)
{
    rma->asking = true;
    rma->op.ops = &ask_ops;
    rma->op.handle = handle_new(&p2p->handles, rma);
    if (rma->op.handle == 0)
        ask_finish(p2p, &rma->op, PAMI_ENOMEM);
    else
        operation_launch(p2p, &rma->op);
}

/* ---- the target ---- */

void rma_handle_ask(struct context *context, const struct packet_header *head, void *body)
{
    struct p2p *p2p = context->p2p;
    pami_result_t result = PAMI_SUCCESS;
    struct ask_meta meta;
    struct peer *peer;

    if (head->meta_words != sizeof(meta) / 8 || head->header_bytes != 0 ||
        head->payload_bytes != 0) {
        context->counters[COUNTER_FOREIGN]++;
        return;
    }
    memcpy(&meta, body, sizeof(meta));
    peer = p2p_origin(p2p, head);
    if (peer == NULL)
        return;
    if (!probe_area_works())
        result = PAMI_UNIMPL;
    else if (meta.bytes > ASK_BYTES || !probe_area(head->dispatch != 0, meta.address, meta.bytes))
        result = PAMI_ERROR;
    p2p_answer(p2p, peer, head->aux, result);
}
