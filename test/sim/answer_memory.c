/*
 * No memory at a target that has never heard of who asks: for one allocation, or for a few in a
 * row, each in turn. Whoever waits for an answer gets one, and what needs no memory of its own at
 * the target succeeds; nothing that is sent is lost.
 *
 * Run: env="PAMI_RNDV_BYTES=1K"
 */
#include "no_memory.h"

enum {
    ID = 1,
    SOME = 3, /* operations of each kind, one behind the other */
    MESSAGE = 4000
};

enum kind {
    RMW,
    RMW_BUSY, /* the target's queue is not empty: the answers wait in it */
    PUT,
    GET,
    SEND,
    LONG_SEND,
    FENCE,
    KINDS
};

static size_t called, failed, arrived;
static uint64_t word, before[SOME], one = 1;
static char from[MESSAGE], to[MESSAGE];

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS || result == PAMI_ENOMEM);
    called++;
    failed += result != PAMI_SUCCESS;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin;
    arrived++;
    if (recv != NULL)
        recv->addr = to;
}

static void start_rmw(const struct sim_job *job, size_t i)
{
    pami_rmw_t rmw = {
        .dest = job_endpoint(job, 1, 0),
        .done_fn = on_done,
        .local = &before[i],
        .remote = &word,
        .value = &one,
        .operation = PAMI_ATOMIC_FETCH_ADD,
        .type = PAMI_TYPE_UNSIGNED_LONG_LONG,
    };

    CALL(PAMI_Rmw(job->context[0], &rmw));
}

static void start_put(const struct sim_job *job)
{
    pami_put_simple_t put = {
        .rma = {.dest = job_endpoint(job, 1, 0), .bytes = MESSAGE},
        .addr = {.local = from, .remote = to},
        .put = {.rdone_fn = on_done},
    };

    CALL(PAMI_Put(job->context[0], &put));
}

static void start_get(const struct sim_job *job)
{
    pami_get_simple_t get = {
        .rma = {.dest = job_endpoint(job, 1, 0), .bytes = MESSAGE, .done_fn = on_done},
        .addr = {.local = from, .remote = to},
    };

    CALL(PAMI_Get(job->context[0], &get));
}

static void start_send(const struct sim_job *job, size_t bytes)
{
    pami_send_t send = {
        .send = {.data = {.iov_base = from, .iov_len = bytes},
                 .dispatch = ID,
                 .dest = job_endpoint(job, 1, 0)},
        .events = {.remote_fn = on_done},
    };

    CALL(PAMI_Send(job->context[0], &send));
}

static void start_fence(const struct sim_job *job)
{
    pami_send_immediate_t send = {.dispatch = ID, .dest = job_endpoint(job, 1, 0)};

    CALL(PAMI_Send_immediate(job->context[0], &send));
    CALL(PAMI_Fence_all(job->context[0], on_done, NULL));
}

static void start(const struct sim_job *job, enum kind kind, size_t i)
{
    switch (kind) {
    case RMW:
    case RMW_BUSY:
        start_rmw(job, i);
        break;
    case PUT:
        start_put(job);
        break;
    case GET:
        start_get(job);
        break;
    case SEND:
        start_send(job, 8);
        break;
    case LONG_SEND:
        start_send(job, MESSAGE);
        break;
    default:
        start_fence(job);
    }
}

/* More than may be on their way at a time. */
static void keep_busy(const struct sim_job *job)
{
    pami_send_immediate_t send = {.dispatch = ID, .dest = job_endpoint(job, 0, 0)};

    for (size_t i = 0; i < SOME; i++)
        CALL(PAMI_Send_immediate(job->context[1], &send));
}

/* Whether there were so many allocations. */
static bool run(enum kind kind, size_t which, size_t count)
{
    pamix_sim_config_t config;
    struct sim_job job;
    bool enough;

    PAMIX_Sim_default(&config);
    config.tasks_per_node = 1;
    config.queue = kind == RMW_BUSY ? 1 : config.queue;
    job_create(&job, &config, 2, 1);
    job_dispatch(&job, ID, on_message, NULL, (pami_dispatch_hint_t){0});
    called = failed = arrived = 0;
    word = 0;
    if (kind == RMW_BUSY)
        keep_busy(&job);
    for (size_t i = 0; i < SOME; i++)
        start(&job, kind, i);
    no_memory.refused = 0;
    refuse_row(which, count);
    job_settle(&job);
    enough = no_memory.refused != 0;
    refuse_only(SIZE_MAX);
    if (called != SOME)
        FAIL("kind %d: %zu of %d called back without allocation %zu", (int)kind, called, SOME,
             which);
    CHECK(failed == 0 || (enough && (kind == GET || kind == LONG_SEND)));
    CHECK(kind > RMW_BUSY || (word == SOME && before[0] + before[1] + before[2] == 0 + 1 + 2));
    CHECK(kind < SEND || kind == LONG_SEND || arrived == SOME);
    job_destroy(&job);
    return enough;
}

int main(void)
{
    need_refusing();
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t count = 1; count < 12; count += 5) {
            size_t which = 0;

            while (run((enum kind)kind, which, count))
                which++;
            CHECK(which > 2 || kind == RMW_BUSY);
        }
    return 0;
}
