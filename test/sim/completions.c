/*
 * No memory for more than the first few callbacks that are due or to come: what is begun all the
 * same calls back exactly once, also when it all ends together because the destination has died,
 * and the rest is refused. Later there is room again.
 *
 * Run:
 */
#include "no_memory.h"

enum {
    ID = 1,
    MOST = 300,
    FIRST_GROWTH = 4096, /* bytes of the ring that follows the first one */
    KINDS = 8
};

static struct called {
    bool begun;
    int count[2]; /* calls of the two callbacks */
} called[MOST];

static size_t begun, refused, arrived;
static uint64_t word, before[MOST], one = 1;
static char from[MOST], to[MOST];

static void on_first(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)result;
    ((struct called *)cookie)->count[0]++;
}

static void on_second(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)result;
    ((struct called *)cookie)->count[1]++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    arrived++;
}

static pami_result_t put(const struct sim_job *job, size_t i, size_t task)
{
    pami_put_simple_t put = {
        .rma = {.dest = job_endpoint(job, task, 0),
                .bytes = 1,
                .cookie = &called[i],
                .done_fn = on_first},
        .addr = {.local = &from[i], .remote = &to[i]},
        .put = {.rdone_fn = on_second},
    };

    return PAMI_Put(job->context[0], &put);
}

static pami_result_t add(const struct sim_job *job, size_t i, size_t task)
{
    pami_rmw_t rmw = {
        .dest = job_endpoint(job, task, 0),
        .cookie = &called[i],
        .done_fn = on_first,
        .local = &before[i],
        .remote = &word,
        .value = &one,
        .operation = PAMI_ATOMIC_FETCH_ADD,
        .type = PAMI_TYPE_UNSIGNED_LONG_LONG,
    };

    called[i].count[1] = 1; /* has no second one */
    return PAMI_Rmw(job->context[0], &rmw);
}

static pami_result_t send(const struct sim_job *job, size_t i, bool answered)
{
    pami_send_t send = {
        .send = {.data = {.iov_base = from, .iov_len = 1},
                 .dispatch = ID,
                 .dest = job_endpoint(job, 1, 0)},
        .events = {.cookie = &called[i],
                   .local_fn = on_first,
                   .remote_fn = answered ? on_second : NULL},
    };

    called[i].count[1] = !answered;
    return PAMI_Send(job->context[0], &send);
}

static pami_result_t barrier(const struct sim_job *job, size_t i)
{
    pami_xfer_t xfer = {.cb_done = on_first, .cookie = &called[i]};
    pami_geometry_t world;

    called[i].count[1] = 1;
    CALL(PAMI_Geometry_world(job->client[0], &world));
    CALL(PAMI_Geometry_algorithms_query(world, PAMI_XFER_BARRIER, &xfer.algorithm, NULL, 1, NULL,
                                        NULL, 0));
    return PAMI_Collective(job->context[0], &xfer);
}

static pami_result_t start(const struct sim_job *job, size_t i, size_t kind)
{
    switch (kind) {
    case 0:
        return put(job, i, 0);
    case 1:
        return put(job, i, 1);
    case 2:
        return add(job, i, 0);
    case 3:
        return add(job, i, 1);
    case 4:
        return send(job, i, false);
    case 5:
        return send(job, i, true);
    case 6:
        called[i].count[1] = 1;
        return PAMI_Fence_all(job->context[0], on_first, &called[i]);
    default:
        return barrier(job, i);
    }
}

static void start_all(const struct sim_job *job, size_t kind)
{
    memset(called, 0, sizeof(called));
    begun = refused = 0;
    for (size_t i = 0; i < MOST; i++) {
        pami_result_t result = start(job, i, kind < KINDS ? kind : i % KINDS);

        CHECK(result == PAMI_SUCCESS || result == PAMI_ENOMEM);
        called[i].begun = result == PAMI_SUCCESS;
        begun += called[i].begun;
        refused += !called[i].begun;
    }
}

static void check_all(size_t kind)
{
    for (size_t i = 0; i < MOST; i++)
        if (called[i].begun && (called[i].count[0] != 1 || called[i].count[1] != 1))
            FAIL("kind %zu: operation %zu called back %d and %d times", kind, i, called[i].count[0],
                 called[i].count[1]);
}

/* Of one kind, or of all. Other members of a barrier do not come. */
static void run(size_t kind, bool dies, uint64_t one_in)
{
    struct sim_job job;
    bool ends = kind < KINDS - 1;

    job_create(&job, NULL, 2, 1);
    job_dispatch(&job, ID, on_message, NULL, (pami_dispatch_hint_t){0});
    no_memory.bytes = FIRST_GROWTH;
    no_memory.one_in = one_in;
    start_all(&job, kind);
    CHECK(begun != 0);
    CHECK((refused != 0) == (one_in != 0));
    if (dies)
        CALL(PAMIX_Sim_kill(job.client[1]));
    if (dies || ends) {
        job_settle(&job);
        check_all(kind);
    }
    no_memory.one_in = 0;
    if (ends && !dies) {
        start_all(&job, kind);
        CHECK(refused == 0);
        job_settle(&job);
        check_all(kind);
    }
    job_destroy(&job);
}

int main(void)
{
    need_refusing();
    for (size_t kind = 0; kind <= KINDS; kind++)
        for (int dies = 0; dies < 2; dies++) {
            run(kind, dies, 1);
            run(kind, dies, 0);
        }
    return 0;
}
