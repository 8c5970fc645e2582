/*
 * Transfers that go on by themselves: load and store through a mapping, or single copy by the
 * device, a bounded piece per step.
 *
 * The device may finish a step later, may move less than asked, or may refuse single copy for good;
 * then the rest of the transfer goes by packets.
 */
#include <errno.h>

#include "p2p/rma.h"
#include "util/log.h"
#include "util/minmax.h"
#include "util/move.h"
#include "util/order.h"

static void leave_copies(struct p2p *p2p, struct rma *rma)
{
    list_remove(&rma->turn);
    p2p->copy_count--;
}

/* Single copy does not work (any more). */
static void change_to_packets(struct p2p *p2p, struct rma *rma)
{
    if (rma->put)
        rma->op.peer->puts_moving--;
    list_remove(&rma->beside);
    rma->asked = rma->done;
    rma_by_packets(p2p, rma);
}

/* In the peer's turn, when that matters. */
void rma_steps_begin(struct p2p *p2p, struct rma *rma)
{
    if (rma->asking) {
        list_push_back(&p2p->moving, &rma->turn);
        return;
    }
    list_push_back(&p2p->copies, &rma->turn);
    p2p->copy_count++;
    p2p_retry_later(p2p);
}

/* The target has been asked about the next part. */
void rma_answered(struct p2p *p2p, struct rma *rma, bool yes)
{
    bool waits = rma->put && !rma->begun;

    rma->native = rma->asks = yes;
    if (waits) {
        rma->way = yes ? RMA_COPY : RMA_PACKETS;
        return;
    }
    list_remove(&rma->turn);
    if (yes)
        rma_steps_begin(p2p, rma);
    else
        change_to_packets(p2p, rma);
}

/* What an error of a step means; the transfer is on no list. */
static void step_failed(struct p2p *p2p, struct rma *rma, int error)
{
    if (error == -EPIPE || rma->op.peer->gone) {
        rma_end(p2p, rma, rma_fault(rma, -EPIPE));
    } else if (error == -EFAULT) {
        rma_end(p2p, rma, rma_fault(rma, error));
    } else {
        if (rma->native) {
            log_info("remote access to endpoint %u failed (errno %d): packets instead",
                     rma->op.path->endpoint, -error);
            rma->native = rma->asks = false;
        } else {
            log_info("single copy with endpoint %u failed (errno %d): packets instead",
                     rma->op.path->endpoint, -error);
            rma->op.path->single_copy &= device_copy_may_work(error);
        }
        change_to_packets(p2p, rma);
    }
}

static void transfer_done(struct transfer *transfer, int error)
{
    struct rma *rma = container_of(transfer, struct rma, transfer);
    struct p2p *p2p = rma->context->p2p;

    list_remove(&rma->turn);
    if (error != 0) {
        step_failed(p2p, rma, error);
        return;
    }
    rma->done += rma->asked;
    if (rma->done == rma->bytes) {
        rma_end(p2p, rma, PAMI_SUCCESS);
        return;
    }
    if (rma->typed != NULL)
        rma_typed_seek(rma);
    rma->asking = rma->asks;
    rma_steps_begin(p2p, rma);
    if (rma->asks)
        rma_ask(p2p, rma);
}

/* `bytes` between two contiguous areas. */
static int copy_area(struct rma *rma, void *local, uint64_t remote, size_t bytes, size_t *moved)
{
    struct path *path = rma->op.path;

    rma->transfer.done = transfer_done;
    rma->transfer.joint = p2p_has_processors(rma->context->p2p);
    rma->asked = bytes;
    if (rma->native) {
        const struct remote_access access = {
            .put = rma->put,
            .local = local,
            .near = rma->near,
            .remote = remote,
            .base = rma->base,
            .far = rma->far,
            .bytes = bytes,
        };

        return path->port->ops->remote(path, &access, &rma->transfer);
    }
    if (rma->put)
        return path->port->ops->put(path, local, remote, bytes, moved, &rma->transfer);
    return path->port->ops->get(path, local, remote, bytes, moved, &rma->transfer);
}

/* Where both layouts are contiguous next. */
static int copy_common_piece(struct rma *rma, size_t most, size_t *moved)
{
    struct rma_typed *typed = rma->typed;
    int error;

    if (!type_cursor_refill(&typed->local) || !type_cursor_refill(&typed->remote))
        return -EFAULT;
    most = smaller(most, smaller(typed->local.left, typed->remote.left));
    error = copy_area(rma, (void *)typed->local.at, typed->remote.at, most, moved);
    if (error == 0) {
        rma->done += *moved;
        rma_typed_seek(rma);
        rma->done -= *moved;
    }
    return error;
}

/* Pieces that follow one another with small gaps, and the memory from the first to the last. */
struct span {
    uint64_t start, bytes;
    size_t data, pieces;
};

/* What of the run lies close enough behind the span; 0: nothing. */
static size_t pieces_near(const struct span *span, const struct rma_run *run)
{
    uint64_t gap = span->pieces != 0 ? run->address - span->start - span->bytes : 0;
    uint64_t end = span->bytes + gap + run->piece;

    if (run->piece > RMA_SPAN_PIECE || gap > RMA_SPAN_GAP || end > RMA_SPAN_BYTES)
        return 0;
    if (run->count == 1 || run->stride < run->piece || run->stride - run->piece > RMA_SPAN_GAP)
        return 1;
    return smaller(run->count, (RMA_SPAN_BYTES - end) / run->stride + 1);
}

/* The longest span from `next` on with at most `most` data bytes. */
static struct span find_span(struct type_cursor next, size_t most)
{
    struct span span = {0};
    struct rma_run run;
    size_t count;

    do {
        rma_next_run(&next, &run, most - span.data);
        count = pieces_near(&span, &run);
        if (count == 0)
            break;
        if (span.pieces == 0)
            span.start = run.address;
        span.bytes = run.address - span.start + (count - 1) * run.stride + run.piece;
        span.data += count * run.piece;
        span.pieces += count;
    } while (count == run.count && span.data < most);
    return span;
}

/*
 * A get of small pieces that lie close together reads the gaps as well: each piece costs the kernel
 * about as much as a kilobyte. 256 KiB in pieces of 8, 64, 512 bytes with gaps as large: 0.34,
 * 0.12, 0.06 ms, one by one as slow as puts (see rma_typed_is_fine). With gaps of one to three
 * times that in no order 1.6, 0.2, 0.2 ms, one by one 50, 1, 0.25 ms (2026-11-27, 2 busy
 * processors). -ENOSYS: not this time.
 */
static int read_span(struct p2p *p2p, struct rma *rma, size_t most, size_t *moved)
{
    struct rma_typed *typed = rma->typed;
    struct path *path = rma->op.path;
    struct span span = find_span(typed->remote, most);
    struct rma_batch *batch = rma_batch_get(p2p);
    struct iovec local, remote;
    size_t got = 0;

    if (batch == NULL || span.pieces < 2)
        return -ENOSYS;
    local = (struct iovec){batch->span, span.bytes};
    remote = (struct iovec){(void *)(uintptr_t)span.start, span.bytes};
    if (path->port->ops->copyv(path, false, &local, 1, &remote, 1, &got) != 0 ||
        got != span.bytes) {
        typed->no_spans = true;
        return -ENOSYS;
    }
    /* As if the remote layout lay there. */
    type_cursor_shift(&typed->remote, (uintptr_t)batch->span - span.start);
    type_copy(&typed->local, &typed->remote, span.data);
    type_cursor_shift(&typed->remote, span.start - (uintptr_t)batch->span);
    *moved = span.data;
    return 0;
}

static int copy_typed(struct p2p *p2p, struct rma *rma, size_t most, size_t *moved)
{
    struct path *path = rma->op.path;
    struct rma_batch *batch;
    int error;

    if (path->port->ops->copyv != NULL && !rma->put && !rma->typed->no_spans &&
        read_span(p2p, rma, most, moved) == 0)
        return 0;
    if (path->port->ops->copyv == NULL || !rma_typed_batch(p2p, rma))
        return copy_common_piece(rma, most, moved);
    batch = p2p->batch;
    error = path->port->ops->copyv(path, rma->put, batch->local, batch->local_count, batch->remote,
                                   batch->remote_count, moved);
    if (error == 0 && rma->typed->staged && !rma->put)
        type_unpack(&batch->local_next, batch->span, *moved);
    if (error == 0 && *moved == batch->bytes) {
        rma->typed->local = batch->local_next;
        rma->typed->remote = batch->remote_next;
    } else if (error == 0) {
        rma->done += *moved;
        rma_typed_seek(rma);
        rma->done -= *moved;
    }
    return error;
}

/* Through a mapping: never fails. An area that overlaps its source is moved in one piece. */
static size_t move_mapped(struct rma *rma, size_t most)
{
    char *local = rma->local + rma->done;
    char *remote = (char *)(uintptr_t)rma->remote + rma->done;
    struct rma_typed *typed = rma->typed;

    if (typed != NULL && rma->put)
        return type_copy(&typed->remote, &typed->local, most);
    if (typed != NULL)
        return type_copy(&typed->local, &typed->remote, most);
    if (local < remote ? (size_t)(remote - local) < rma->bytes
                       : (size_t)(local - remote) < rma->bytes)
        most = rma->bytes - rma->done;
    move_map(remote, most);
    move_bytes(rma->put ? remote : local, rma->put ? local : remote, most);
    return most;
}

bool rma_step(struct p2p *p2p, struct rma *rma, size_t *moved)
{
    size_t left = rma->bytes - rma->done;
    size_t most = rma->native ? rma->allowed - rma->done : smaller(left, RMA_STEP_BYTES);
    size_t part = 0;
    int error = 0;

    if (rma->way == RMA_HEAP) {
        order_before_put();
        part = move_mapped(rma, most);
        order_after_get();
    } else if (rma->typed != NULL) {
        error = copy_typed(p2p, rma, most, &part);
    } else {
        error = copy_area(rma, rma->local + rma->done, rma->remote + rma->done, most, &part);
    }
    if (error == -EAGAIN)
        return false;
    if (error == -EINPROGRESS) {
        leave_copies(p2p, rma);
        list_push_back(&p2p->moving, &rma->turn);
        return true;
    }
    if (error != 0) {
        leave_copies(p2p, rma);
        step_failed(p2p, rma, error);
        return true;
    }
    rma->done += part;
    *moved += part;
    if (rma->done == rma->bytes) {
        leave_copies(p2p, rma);
        rma_end(p2p, rma, PAMI_SUCCESS);
    }
    return true;
}
