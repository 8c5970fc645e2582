/*
 * Transfers by packets, the target's side: PUT packets are written, GET packets answered with
 * REPLY packets.
 *
 * Addresses come from another task, so this task's own memory is touched through the kernel
 * (process_vm_readv and _writev on oneself): a wrong address is an error for the origin and no
 * fault here. Where the kernel does not allow that, memory is touched directly; and so is the
 * task's shared heap, and small pieces whose pages were asked about. Copies by the kernel of 8 B
 * and 32 KiB take 1.1 and 3.0 us, to ask about a page 0.3, copies in the heap 0.5 (AMD EPYC,
 * 2026-11-24).
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "p2p/rma.h"
#include "type/copy.h"
#include "util/log.h"
#include "util/minmax.h"
#include "util/order.h"
#include "util/probe.h"
#include "util/tsan.h"

/* Pieces that one system call takes here. */
#define PIECES 64

/* Up to this size pieces are small. */
#define SMALL_PIECE 512u
#define PAGE UINT64_C(4096)

/* Replies up to this need no memory of their own. */
#define REPLY_SMALL 128

/* What is left of an array of runs. */
struct walk {
    const struct rma_run *run; /* the current one */
    size_t runs;               /* after it */
    uint64_t piece;            /* index of the current piece */
    uint64_t within;           /* bytes of it that are done */
};

/* A GET that is being answered. */
struct serve {
    struct operation op;
    uint32_t target; /* the origin's handle */
    struct rma_run one;
    struct rma_run *runs; /* &one, or allocated */
    struct walk walk;
    uint64_t left;        /* bytes that have not been read */
    char *buffer;         /* `small`, or allocated */
    size_t room;          /* of buffer */
    pami_result_t result; /* another one than PAMI_SUCCESS: the rest will not be sent */
    size_t at, ready;     /* bytes of buffer that have been read and not sent */
    char small[REPLY_SMALL];
};

/* The bytes that an array of runs describes, or 0 when it makes no sense. */
static uint64_t runs_bytes(const struct rma_run *runs, size_t count)
{
    uint64_t total = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t bytes;

        if (runs[i].piece == 0 || runs[i].count == 0 ||
            __builtin_mul_overflow(runs[i].piece, runs[i].count, &bytes) ||
            bytes > MESSAGE_BYTES_MAX)
            return 0;
        total += bytes;
        if (total > MESSAGE_BYTES_MAX)
            return 0;
    }
    return total;
}

static void walk_init(struct walk *walk, const struct rma_run *runs, size_t count)
{
    *walk = (struct walk){.run = runs, .runs = count - 1};
}

/* So many pieces of the current run are done. */
static void walk_step(struct walk *walk, uint64_t count)
{
    walk->within = 0;
    walk->piece += count;
    if (walk->piece < walk->run->count || walk->runs == 0)
        return;
    walk->piece = 0;
    walk->run++;
    walk->runs--;
}

/* Pieces of the next `most` bytes at most; there are that many. Returns their bytes. */
static size_t walk_take(struct walk *walk, struct iovec *pieces, size_t *count, size_t most)
{
    size_t bytes = 0;

    for (*count = 0; *count < PIECES && bytes < most; ++*count) {
        const struct rma_run *run = walk->run;
        size_t part = smaller(run->piece - walk->within, most - bytes);

        pieces[*count] = (struct iovec){
            .iov_base = (void *)(run->address + walk->piece * run->stride + walk->within),
            .iov_len = part,
        };
        bytes += part;
        walk->within += part;
        if (walk->within == run->piece)
            walk_step(walk, 1);
    }
    return bytes;
}

/* Several whole pieces of the current run that are small, and near to one another: each page from
 * the first to the last one has some of them. False: there are none such. */
static bool walk_take_small(struct walk *walk, struct rma_run *small, size_t most)
{
    const struct rma_run *run = walk->run;
    uint64_t count;

    if (walk->within != 0 || run->piece > SMALL_PIECE || run->stride > PAGE)
        return false;
    count = smaller(run->count - walk->piece, most / run->piece);
    if (count < 2)
        return false;
    *small = *run;
    small->address += walk->piece * run->stride;
    small->count = count;
    walk_step(walk, count);
    return true;
}

/* Contexts of this task touch the same memory in an order that other tasks have made. */
static char order;

static void touch_directly(bool write, char *bytes, const struct iovec *pieces, size_t count)
{
    TSAN_ACQUIRE(&order);
    order_before_put();
    for (size_t i = 0; i < count; i++) {
        memcpy(write ? pieces[i].iov_base : bytes, write ? bytes : pieces[i].iov_base,
               pieces[i].iov_len);
        bytes += pieces[i].iov_len;
    }
    order_after_get();
    TSAN_RELEASE(&order);
}

/* Every page of the piece may be touched, or is *page, which was asked about before. */
static bool is_accessible(bool write, const struct iovec *piece, uint64_t *page)
{
    uint64_t start = (uint64_t)(uintptr_t)piece->iov_base;
    uint64_t last = start + piece->iov_len - 1;

    if (last < start)
        return false;
    for (uint64_t next = start / PAGE; next <= last / PAGE; next++) {
        uint64_t word = next * PAGE > start ? next * PAGE : start / 4 * 4;

        if (next == *page)
            continue;
        if (!(write ? probe_writable((void *)word) : probe_readable((const void *)word)))
            return false;
        *page = next;
    }
    return true;
}

/* Small pieces: to ask about pages costs less than copies by the kernel. */
static int touch_pages(bool write, char *bytes, const struct iovec *pieces, size_t count)
{
    uint64_t page = UINT64_MAX;

    for (size_t i = 0; i < count; i++) {
        if (!is_accessible(write, &pieces[i], &page))
            return -EFAULT;
        touch_directly(write, bytes, &pieces[i], 1);
        bytes += pieces[i].iov_len;
    }
    return 0;
}

/* By its own number a process has no memory any more when its first thread has ended. */
static ssize_t copy_own(const struct p2p *p2p, bool write, const struct iovec *own,
                        const struct iovec *pieces, size_t count)
{
    pid_t id = p2p->pid;
    ssize_t done = -1;

    order_before_put();
    for (int i = 0; i < 2; i++, id = gettid()) {
        done = write ? process_vm_writev(id, own, 1, pieces, count, 0)
                     : process_vm_readv(id, own, 1, pieces, count, 0);
        if (likely(done >= 0 || errno != ESRCH))
            break;
    }
    order_after_get();
    return done;
}

/* All pieces are in this task's shared heap, which stays where it is. */
static bool in_heap(struct p2p *p2p, const struct iovec *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!p2p_in_heap(p2p, pieces[i].iov_base, pieces[i].iov_len))
            return false;
    return true;
}

/* Pieces from walk_take_small. 0 or -EFAULT. */
static int touch_small(struct p2p *p2p, bool write, const struct rma_run *run, char *bytes)
{
    const struct iovec all = {(void *)(uintptr_t)run->address,
                              (run->count - 1) * run->stride + run->piece};
    uint64_t page = UINT64_MAX;

    if (!in_heap(p2p, &all, 1) && !is_accessible(write, &all, &page))
        return -EFAULT;
    TSAN_ACQUIRE(&order);
    order_before_put();
    if (write)
        copy_blocks(run->address, run->stride, (uintptr_t)bytes, run->piece, run->piece,
                    run->count);
    else
        copy_blocks((uintptr_t)bytes, run->piece, run->address, run->stride, run->piece,
                    run->count);
    order_after_get();
    TSAN_RELEASE(&order);
    return 0;
}

/* `bytes` and the pieces, of `part` bytes together. 0 or -EFAULT. */
static int touch_pieces(struct p2p *p2p, bool write, const struct iovec *pieces, size_t count,
                        char *bytes, size_t part)
{
    const struct iovec own = {.iov_base = bytes, .iov_len = part};
    ssize_t done;

    if (in_heap(p2p, pieces, count)) {
        touch_directly(write, bytes, pieces, count);
        return 0;
    }
    if (part / count > SMALL_PIECE && !p2p->copies_refused) {
        done = copy_own(p2p, write, &own, pieces, count);
        if (done >= 0 || errno == EFAULT)
            return done == (ssize_t)part ? 0 : -EFAULT;
        if (!device_copy_may_work(-errno)) {
            log_info("this task may not copy its own memory by system call: %s", strerror(errno));
            p2p->copies_refused = true;
        }
    }
    return touch_pages(write, bytes, pieces, count);
}

/* Read or write this task's memory. 0 or -EFAULT. */
static int touch(struct p2p *p2p, bool write, struct walk *walk, char *bytes, size_t total)
{
    struct iovec pieces[PIECES];
    struct rma_run small;

    while (total != 0) {
        size_t count, part;
        int error;

        if (walk_take_small(walk, &small, total)) {
            part = small.count * small.piece;
            error = touch_small(p2p, write, &small, bytes);
        } else {
            part = walk_take(walk, pieces, &count, total);
            error = touch_pieces(p2p, write, pieces, count, bytes, part);
        }
        if (error != 0)
            return error;
        bytes += part;
        total -= part;
    }
    return 0;
}

static void foreign(struct context *context, const struct packet_header *head)
{
    if (context->counters[COUNTER_FOREIGN]++ == 0)
        log_warn("refused a packet from endpoint %u: a transfer that makes no sense", head->origin);
}

/* ---- put ---- */

void rma_handle_put(struct context *context, const struct packet_header *head, void *body)
{
    const struct rma_run *runs = body;
    size_t count = head->header_bytes / sizeof(*runs);
    struct p2p *p2p = context->p2p;
    struct peer *peer;
    struct walk walk;

    if (head->meta_words != 0 || count == 0 || head->header_bytes % sizeof(*runs) != 0 ||
        head->payload_bytes == 0 || runs_bytes(runs, count) != head->payload_bytes) {
        foreign(context, head);
        return;
    }
    peer = p2p_origin(p2p, head);
    if (peer == NULL)
        return;
    if (head->dispatch & RMA_PUT_FIRST)
        peer->put_result = PAMI_SUCCESS;
    walk_init(&walk, runs, count);
    if (peer->put_result == PAMI_SUCCESS &&
        touch(p2p, true, &walk, (char *)body + head->header_bytes, head->payload_bytes) != 0)
        peer->put_result = PAMI_ERROR;
    if (head->dispatch & RMA_PUT_LAST)
        p2p_answer(p2p, peer, head->aux, peer->put_result);
}

/* ---- get ---- */

static struct serve *serve_of(struct operation *operation)
{
    return container_of(operation, struct serve, op);
}

static void serve_free(struct p2p *p2p, struct operation *operation)
{
    struct serve *serve = serve_of(operation);

    list_remove(&operation->link);
    if (serve->runs != &serve->one)
        free(serve->runs);
    if (serve->buffer != serve->small)
        free(serve->buffer);
    pool_put(&p2p->serves, serve);
}

static void serve_finish(struct p2p *p2p, struct operation *operation, pami_result_t result)
{
    (void)result;
    serve_free(p2p, operation);
}

static int reply(struct p2p *p2p, struct serve *serve, pami_result_t result, size_t bytes)
{
    const struct packet packet = {
        .head = packet_header_short(PROTOCOL_REPLY, (size_t)result, 0, bytes,
                                    p2p->context->endpoint, serve->target),
        .payload = serve->buffer + serve->at,
    };
    int error = serve->op.path->am(serve->op.path, &packet);

    if (error == 0) {
        serve->at += bytes;
        p2p->packets++;
    }
    return error;
}

/* Have bytes in the buffer. */
static pami_result_t serve_read(struct p2p *p2p, struct serve *serve)
{
    size_t bytes;

    if (serve->at < serve->ready)
        return PAMI_SUCCESS;
    if (serve->buffer == NULL) {
        serve->room = smaller(serve->left, path_piece(serve->op.path, serve->left));
        serve->buffer = serve->room <= REPLY_SMALL ? serve->small : malloc(serve->room);
        if (serve->buffer == NULL)
            return PAMI_ENOMEM;
    }
    bytes = smaller(serve->left, serve->room);
    serve->at = 0;
    serve->ready = 0;
    if (touch(p2p, false, &serve->walk, serve->buffer, bytes) != 0)
        return PAMI_ERROR;
    serve->ready = bytes;
    serve->left -= bytes;
    return PAMI_SUCCESS;
}

static int serve_progress(struct p2p *p2p, struct operation *operation)
{
    struct serve *serve = serve_of(operation);
    size_t budget = RMA_STEP_BYTES;
    int error = 0;

    while (serve->left != 0 || serve->at < serve->ready) {
        size_t bytes;

        if (serve->result == PAMI_SUCCESS)
            serve->result = serve_read(p2p, serve);
        if (serve->result != PAMI_SUCCESS) {
            error = reply(p2p, serve, serve->result, 0);
            if (error != 0)
                return error;
            break;
        }
        if (budget == 0)
            return -EAGAIN;
        bytes = smaller(serve->ready - serve->at, budget);
        error = reply(p2p, serve, PAMI_SUCCESS, bytes);
        if (error == -ENOBUFS) {
            bytes = smaller(bytes, PACKET_SMALL);
            error = reply(p2p, serve, PAMI_SUCCESS, bytes);
        }
        if (error != 0)
            return error;
        budget -= bytes;
    }
    serve_free(p2p, operation);
    return 0;
}

static const struct operation_ops serve_ops = {
    .progress = serve_progress,
    .finish = serve_finish,
    .free = serve_free,
};

void rma_target_init(struct p2p *p2p)
{
    pool_init(&p2p->serves, sizeof(struct serve), 0);
}

static struct serve *serve_new(struct p2p *p2p, struct peer *peer, const struct rma_run *runs,
                               size_t count)
{
    struct serve *serve = pool_get(&p2p->serves);

    if (serve == NULL)
        return NULL;
    memset(serve, 0, offsetof(struct serve, small));
    operation_init(&serve->op, &serve_ops, peer);
    serve->op.next_life = false; /* who has asked is not there then */
    serve->runs = count == 1 ? &serve->one : malloc(count * sizeof(*runs));
    if (serve->runs == NULL) {
        pool_put(&p2p->serves, serve);
        return NULL;
    }
    memcpy(serve->runs, runs, count * sizeof(*runs));
    walk_init(&serve->walk, serve->runs, count);
    return serve;
}

void rma_handle_get(struct context *context, const struct packet_header *head, void *body)
{
    const struct rma_run *runs = body;
    size_t count = head->header_bytes / sizeof(*runs);
    struct p2p *p2p = context->p2p;
    struct serve *serve;
    struct peer *peer;
    uint64_t bytes;

    if (head->meta_words != 0 || count == 0 || head->header_bytes % sizeof(*runs) != 0 ||
        head->payload_bytes != 0 || (bytes = runs_bytes(runs, count)) == 0) {
        foreign(context, head);
        return;
    }
    peer = p2p_origin(p2p, head);
    if (peer == NULL)
        return;
    serve = serve_new(p2p, peer, runs, count);
    if (serve == NULL) {
        log_error("out of memory: a get of endpoint %u fails", head->origin);
        p2p_answer(p2p, peer, head->aux, PAMI_ENOMEM);
        return;
    }
    serve->target = head->aux;
    serve->left = bytes;
    operation_launch(p2p, &serve->op);
}
