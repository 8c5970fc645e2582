/*
 * One-sided operations from inside callbacks: a dispatch function gets the message's data and puts
 * an answer, posted work does both, callbacks of transfers start the next ones, and a callback
 * creates and destroys regions. Nothing of it runs inside the call that starts it.
 *
 * Run: tasks=1,2,3,8
 * Run: tasks=2,5 nodes=2
 * Run: tasks=2,3 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=3 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=5 env="PAMI_YIELD=always"
 */
#include "rma.h"

enum {
    ID = 1,
    REQUESTS = 200,
    BYTES = 5000,
    CHAIN = 300
};

static struct job job;
static size_t next;

/* ------------------------------------------------------------------------------- requests -- */

/* Fetch `bytes` from `source`, and then put how many were right to `verdict`. */
struct request {
    const unsigned char *source;
    uint64_t *verdict;
    size_t bytes, seed;
};

struct service {
    struct rma get, put; /* the callbacks' cookie is one of these */
    struct request request;
    pami_endpoint_t origin;
    pami_memregion_t region;
    uint64_t verdict;
    unsigned char data[BYTES];
};

static size_t served, live;

static void on_answered(struct rma *op)
{
    served++;
    live--;
    free(op->of);
}

static void on_fetched(struct rma *op)
{
    struct service *s = op->of;

    s->verdict = test_differs(s->data, s->request.bytes, s->request.seed, 0);
    CHECK_OK(PAMI_Memregion_destroy(op->context, &s->region));
    s->put = (struct rma){.then = on_answered, .of = s};
    rma_put(&s->put, op->context, s->origin, &s->verdict, s->request.verdict, sizeof s->verdict);
}

static void on_request(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    struct service *s = test_zalloc(sizeof *s);

    (void)cookie, (void)header, (void)header_bytes;
    CHECK_CALLBACK();
    CHECK(recv == NULL && bytes == sizeof s->request);
    memcpy(&s->request, data, bytes);
    s->origin = origin;
    s->get = (struct rma){.then = on_fetched, .of = s};
    live++;
    rma_region(context, s->data, BYTES, &s->region);
    rma_get(&s->get, context, origin, s->data, s->request.source, s->request.bytes);
}

static void requests(void)
{
    static unsigned char source[REQUESTS][64], large[BYTES];
    static uint64_t verdict[REQUESTS];

    test_dispatch(job.context[0], ID, on_request, NULL, test_ordered());
    test_dispatch(job.context[1], ID, on_request, NULL, test_ordered());
    test_fill(large, BYTES, 3, 0);
    memset(verdict, 0xff, sizeof verdict);
    job_barrier(&job);
    for (size_t i = 0; i < REQUESTS; i++) {
        bool is_large = i % 10 == 0;
        struct request request = {is_large ? large : source[i], &verdict[i],
                                  is_large ? BYTES : sizeof source[i], is_large ? 3 : i};

        test_fill(source[i], sizeof source[i], i, 0);
        test_send_immediate(job.context[0], job_endpoint(&job, next, i % 2), ID, NULL, 0, &request,
                            sizeof request);
    }
    for (size_t i = 0; i < REQUESTS; i++)
        WAIT(&job, *(volatile uint64_t *)&verdict[i] == (i % 10 ? sizeof source[i] : BYTES));
    WAIT(&job, served == REQUESTS && live == 0);
    job_barrier(&job);
}

/* --------------------------------------------------------------------------------- chains -- */

/* put a number, get it back, put the next one, ... */
struct chain {
    struct rma op;
    pami_work_t work;
    uint64_t *remote;
    pami_endpoint_t to;
    uint64_t number, back;
};

static void on_step(struct rma *op)
{
    struct chain *c = op->of;
    bool was_put = op->is_put;
    pami_context_t context = op->context;

    c->op = (struct rma){.then = on_step, .of = c};
    if (was_put) {
        rma_get(&c->op, context, c->to, &c->back, c->remote, sizeof c->back);
        return;
    }
    CHECK(c->back == c->number);
    if (++c->number <= CHAIN)
        rma_put(&c->op, context, c->to, &c->number, c->remote, sizeof c->number);
}

static pami_result_t begin(pami_context_t context, void *cookie)
{
    struct chain *c = cookie;

    CHECK_CALLBACK();
    c->op = (struct rma){.then = on_step, .of = c};
    rma_put(&c->op, context, c->to, &c->number, c->remote, sizeof c->number);
    return PAMI_SUCCESS;
}

static void chains(void)
{
    static uint64_t window[4];
    static struct chain chain[4];
    uint64_t *mine = window, **all = test_alloc(job.tasks * sizeof *all);

    rma_share(&job, &mine, sizeof mine, all);
    for (size_t i = 0; i < 4; i++) {
        chain[i].remote = &all[next][i];
        chain[i].to = job_endpoint(&job, next, i % 2);
        CHECK_OK(PAMI_Context_post(job.context[i / 2], &chain[i].work, begin, &chain[i]));
    }
    for (size_t i = 0; i < 4; i++)
        WAIT(&job, chain[i].number == CHAIN + 1);
    rma_wait(&job);
    job_barrier(&job);
    for (size_t i = 0; i < 4; i++)
        CHECK(window[i] == CHAIN);
    job_barrier(&job);
    free(all);
}

int main(void)
{
    job_start(&job, "rma_nested", 2);
    rma_open(&job);
    next = (job.task + 1) % job.tasks;
    requests();
    chains();
    rma_close(&job);
    return 0;
}
