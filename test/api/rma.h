/*
 * What the one-sided tests share: operations with books, and a board for addresses.
 *
 * Every operation is a struct rma: its callbacks insist on the order (done, then rdone), on running
 * once each, from advance, on the context and with the cookie that was given, and with the result
 * that is expected. The structure of a call is overwritten as soon as the call has returned; soft
 * hints are garbage. What a thread has started and what has not ended is in rma_pending.
 *
 * rma_share is an exchange of plain bytes (addresses, regions, endpoints) between all tasks.
 */
#ifndef LIBPAMI_API_RMA_H
#define LIBPAMI_API_RMA_H

#include "api_test.h"

enum {
    RMA_SHARE_ID = 199,
    RMA_SHARE_MAX = 2048, /* bytes of one task */
    RMA_GUARD = 32,
    RMA_GUARD_BYTE = 0xa5
};

enum rma_expect {
    RMA_GOOD,
    RMA_BAD, /* the last callback carries an error */
    RMA_ANY
};

/* One operation. The caller may set the first block; the rest is the books. */
struct rma {
    enum rma_expect expect;
    void *spoil; /* overwritten in the done callback: the memory is the caller's again */
    size_t spoil_bytes;
    void (*then)(struct rma *op); /* runs at the end of the last callback */
    void *of;                     /* the caller's */
    bool quiet_done, quiet_rdone; /* leave these callbacks NULL */

    pami_context_t context;
    bool is_put;
    unsigned done, rdone;
    pami_result_t result, rresult;
};

/* Operations of this thread whose last callback is due. */
static _Thread_local size_t rma_pending;

static inline bool rma_has_ended(const struct rma *op)
{
    return op->is_put && !op->quiet_rdone ? op->rdone == 1 : op->done == 1;
}

static inline void rma_end(struct rma *op, pami_result_t result)
{
    if (op->expect == RMA_GOOD && result != PAMI_SUCCESS)
        FAIL("a %s ended with %d", op->is_put ? "put" : "get", (int)result);
    if (op->expect == RMA_BAD && result == PAMI_SUCCESS)
        FAIL("a %s that cannot succeed did", op->is_put ? "put" : "get");
    CHECK(rma_pending > 0);
    rma_pending--;
    if (op->then != NULL)
        op->then(op);
}

static inline void rma_on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct rma *op = cookie;

    CHECK_CALLBACK();
    CHECK(context == op->context);
    if (op->done != 0 || op->rdone != 0)
        FAIL("done_fn runs after %u done_fn and %u rdone_fn", op->done, op->rdone);
    op->done++;
    op->result = result;
    if (op->expect == RMA_GOOD)
        CHECK(result == PAMI_SUCCESS);
    if (op->spoil != NULL)
        memset(op->spoil, 0xee, op->spoil_bytes);
    if (rma_has_ended(op))
        rma_end(op, result);
}

static inline void rma_on_rdone(pami_context_t context, void *cookie, pami_result_t result)
{
    struct rma *op = cookie;

    CHECK_CALLBACK();
    CHECK(context == op->context && op->is_put);
    if (op->done != !op->quiet_done || op->rdone != 0)
        FAIL("rdone_fn runs after %u done_fn and %u rdone_fn", op->done, op->rdone);
    op->rdone++;
    op->rresult = result;
    rma_end(op, result);
}

/* ------------------------------------------------------------------------------ the calls -- */

/* What all the structures begin with. */
static inline pami_rma_t rma_head(struct rma *op, bool is_put, pami_context_t context,
                                  pami_endpoint_t dest, size_t bytes)
{
    pami_rma_t head = {
        .dest = dest,
        .hints = test_garbage_hints(),
        .bytes = bytes,
        .cookie = op,
        .done_fn = op->quiet_done ? NULL : rma_on_done,
    };

    op->context = context;
    op->is_put = is_put;
    op->done = op->rdone = 0;
    op->result = op->rresult = PAMI_OTHER;
    if (!op->quiet_done || (is_put && !op->quiet_rdone))
        rma_pending++;
    return head;
}

static inline pami_rma_put_t rma_tail(const struct rma *op)
{
    pami_rma_put_t tail = {.rdone_fn = op->quiet_rdone ? NULL : rma_on_rdone};

    return tail;
}

/* The call is made, and then nobody may look at its structure. */
#define RMA_CALL(function, context, parameters)                                                    \
    do {                                                                                           \
        CHECK_OK(TEST_CALL(function(context, &parameters)));                                       \
        memset(&parameters, 0x5a, sizeof parameters);                                              \
    } while (0)

static inline void rma_put(struct rma *op, pami_context_t context, pami_endpoint_t dest,
                           const void *local, void *remote, size_t bytes)
{
    pami_put_simple_t put = {
        .rma = rma_head(op, true, context, dest, bytes),
        .addr = {(void *)local, remote},
        .put = rma_tail(op),
    };

    RMA_CALL(PAMI_Put, context, put);
}

static inline void rma_get(struct rma *op, pami_context_t context, pami_endpoint_t dest,
                           void *local, const void *remote, size_t bytes)
{
    pami_get_simple_t get = {
        .rma = rma_head(op, false, context, dest, bytes),
        .addr = {local, (void *)remote},
    };

    RMA_CALL(PAMI_Get, context, get);
}

static inline void rma_put_typed(struct rma *op, pami_context_t context, pami_endpoint_t dest,
                                 pami_rma_addr_t addr, pami_rma_typed_t type, size_t bytes)
{
    pami_put_typed_t put = {
        .rma = rma_head(op, true, context, dest, bytes),
        .addr = addr,
        .type = type,
        .put = rma_tail(op),
    };

    RMA_CALL(PAMI_Put_typed, context, put);
}

static inline void rma_get_typed(struct rma *op, pami_context_t context, pami_endpoint_t dest,
                                 pami_rma_addr_t addr, pami_rma_typed_t type, size_t bytes)
{
    pami_get_typed_t get = {
        .rma = rma_head(op, false, context, dest, bytes),
        .addr = addr,
        .type = type,
    };

    RMA_CALL(PAMI_Get_typed, context, get);
}

/* With memory regions; types are used when type.local is not NULL. The regions are copied, and the
 * copies spoiled after the call. */
static inline void rma_rmove(struct rma *op, bool is_put, pami_context_t context,
                             pami_endpoint_t dest, pami_rdma_t rdma, pami_rma_typed_t type,
                             size_t bytes)
{
    pami_rma_t head = rma_head(op, is_put, context, dest, bytes);
    pami_memregion_t local, remote;
    pami_rput_typed_t put;
    pami_rput_simple_t plain_put;
    pami_rget_typed_t get;
    pami_rget_simple_t plain_get;

    memcpy(local, rdma.local.mr, sizeof local);
    memcpy(remote, rdma.remote.mr, sizeof remote);
    rdma.local.mr = &local;
    rdma.remote.mr = &remote;
    plain_put = (pami_rput_simple_t){.rma = head, .rdma = rdma, .put = rma_tail(op)};
    put = (pami_rput_typed_t){.rma = head, .rdma = rdma, .type = type, .put = rma_tail(op)};
    plain_get = (pami_rget_simple_t){.rma = head, .rdma = rdma};
    get = (pami_rget_typed_t){.rma = head, .rdma = rdma, .type = type};
    if (is_put && type.local == NULL)
        RMA_CALL(PAMI_Rput, context, plain_put);
    else if (is_put)
        RMA_CALL(PAMI_Rput_typed, context, put);
    else if (type.local == NULL)
        RMA_CALL(PAMI_Rget, context, plain_get);
    else
        RMA_CALL(PAMI_Rget_typed, context, get);
    memset(&local, 0x5a, sizeof local);
    memset(&remote, 0x5a, sizeof remote);
}

static inline void rma_rput(struct rma *op, pami_context_t context, pami_endpoint_t dest,
                            pami_rma_mr_t local, pami_rma_mr_t remote, size_t bytes)
{
    rma_rmove(op, true, context, dest, (pami_rdma_t){local, remote}, (pami_rma_typed_t){0}, bytes);
}

static inline void rma_rget(struct rma *op, pami_context_t context, pami_endpoint_t dest,
                            pami_rma_mr_t local, pami_rma_mr_t remote, size_t bytes)
{
    rma_rmove(op, false, context, dest, (pami_rdma_t){local, remote}, (pami_rma_typed_t){0}, bytes);
}

/* All of this thread's operations have ended. */
static inline void rma_wait(struct job *job)
{
    WAIT(job, rma_pending == 0);
}

/* The whole region that the memory has become. */
static inline void rma_region(pami_context_t context, void *memory, size_t bytes,
                              pami_memregion_t *region)
{
    size_t usable = 0;

    CHECK_OK(TEST_CALL(PAMI_Memregion_create(context, memory, bytes, &usable, region)));
    CHECK_SIZE(usable, bytes);
}

/* -------------------------------------------------------------------------------- fences -- */

static inline void rma_on_fence(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    CHECK(!*(bool *)cookie);
    *(bool *)cookie = true;
}

static inline void rma_fence(struct job *job, size_t offset)
{
    bool fenced = false;

    CHECK_OK(TEST_CALL(PAMI_Fence_all(job->context[offset], rma_on_fence, &fenced)));
    CHECK(!fenced);
    WAIT(job, fenced);
}

/* --------------------------------------------------------------------------------- board -- */

/* A task is at most one exchange ahead of another one, so there are two tables. */
static struct {
    size_t exchanges;
    size_t arrived[2];
    unsigned char *table[2];
} rma_board;

static inline void rma_on_share(pami_context_t context, void *cookie, const void *header,
                                size_t header_bytes, const void *data, size_t bytes,
                                pami_endpoint_t origin, pami_recv_t *recv)
{
    size_t exchange;

    (void)context, (void)cookie;
    CHECK(recv == NULL && header_bytes == sizeof exchange && bytes <= RMA_SHARE_MAX);
    memcpy(&exchange, header, sizeof exchange);
    memcpy(rma_board.table[exchange % 2] + test_origin(origin) * RMA_SHARE_MAX, data, bytes);
    rma_board.arrived[exchange % 2]++;
}

/* After job_start. */
static inline void rma_open(struct job *job)
{
    rma_board.table[0] = test_zalloc(job->tasks * RMA_SHARE_MAX);
    rma_board.table[1] = test_zalloc(job->tasks * RMA_SHARE_MAX);
    test_dispatch(job->context[0], RMA_SHARE_ID, rma_on_share, NULL, test_ordered());
}

/* Everybody's `bytes` bytes, by task, to everybody. Collective; also a barrier. */
static inline void rma_share(struct job *job, const void *mine, size_t bytes, void *all)
{
    size_t i, exchange = rma_board.exchanges++, which = exchange % 2;

    for (i = 0; i < job->tasks; i++)
        test_send_immediate(job->context[0], job_endpoint(job, i, 0), RMA_SHARE_ID, &exchange,
                            sizeof exchange, mine, bytes);
    WAIT(job, rma_board.arrived[which] == job->tasks);
    for (i = 0; i < job->tasks; i++)
        memcpy((unsigned char *)all + i * bytes, rma_board.table[which] + i * RMA_SHARE_MAX, bytes);
    rma_board.arrived[which] = 0;
}

static inline void rma_close(struct job *job)
{
    CHECK_SIZE(rma_pending, 0);
    job_barrier(job);
    job_destroy(job);
    free(rma_board.table[0]);
    free(rma_board.table[1]);
}

#endif /* LIBPAMI_API_RMA_H */
