/*
 * Floods where there is hardly any room: all to all, with handlers that reply, many to one, ports
 * that refuse nine times out of ten. Everything arrives, nobody hangs, and who asked not to be
 * queued is told to try again.
 *
 * Run: args="--seeds 250" timeout=120
 * Run: args="--seed 100000 --seeds 250" env="PAMI_RNDV_BYTES=1K" timeout=120
 */
#include "traffic.h"
#include "trouble.h"

#define ID_ASK 1
#define ID_REPLY 2
#define ID_COUNTED 3

struct flood {
    struct sim_job job;
    struct dice dice;
    size_t bytes;
    char *data;
    size_t asked, replied, acknowledged;
};

static void on_acknowledged(pami_context_t context, void *cookie, pami_result_t result)
{
    struct flood *flood = cookie;

    (void)context;
    CHECK(result == PAMI_SUCCESS);
    flood->acknowledged++;
}

static void flood_send(struct flood *flood, pami_context_t context, pami_endpoint_t to, size_t id)
{
    pami_send_t send = {
        .send = {.data = {.iov_base = flood->data,
                          .iov_len = dice_size(&flood->dice, flood->bytes)},
                 .dispatch = id,
                 .dest = to},
        .events = {.cookie = flood, .remote_fn = on_acknowledged},
    };

    CALL(PAMI_Send(context, &send));
}

static void on_ask(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                   const void *data, size_t data_bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct flood *flood = cookie;

    (void)header;
    (void)header_bytes;
    (void)data;
    (void)data_bytes;
    (void)recv; /* nowhere */
    flood->asked++;
    flood_send(flood, context, origin, ID_REPLY);
}

static void on_reply(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t data_bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct flood *flood = cookie;

    (void)context;
    (void)header;
    (void)header_bytes;
    (void)data;
    (void)data_bytes;
    (void)origin;
    (void)recv;
    flood->replied++;
}

/* From all to all, or from all to the first task. */
static void run_flood(uint64_t seed, bool to_one)
{
    struct dice dice = {seed};
    pamix_sim_config_t config = trouble_config(&dice, seed);
    size_t tasks = to_one ? 2 + dice_below(&dice, 150) : 1 + dice_below(&dice, 12);
    size_t each = 1 + dice_below(&dice, to_one ? 4 : 30);
    struct flood flood = {.dice = dice, .bytes = dice_one_in(&dice, 2) ? 300 : 40000};
    const pami_dispatch_hint_t hints = {0};
    size_t expected = 0;

    config.queue = 1 + (uint32_t)dice_below(&dice, 3);
    if (dice_one_in(&dice, 2))
        config.refuse = 0;
    flood.data = calloc(1, flood.bytes);
    CHECK(flood.data != NULL);
    job_create(&flood.job, &config, tasks, 1);
    job_dispatch(&flood.job, ID_ASK, on_ask, &flood, hints);
    job_dispatch(&flood.job, ID_REPLY, on_reply, &flood, hints);
    for (size_t i = 0; i < each; i++)
        for (size_t from = 0; from < tasks; from++)
            for (size_t to = 0; to < (to_one ? 1 : tasks); to++, expected++)
                flood_send(&flood, flood.job.context[from], (pami_endpoint_t)to, ID_ASK);
    job_settle(&flood.job);
    CHECK(flood.asked == expected && flood.replied == expected);
    CHECK(flood.acknowledged == 2 * expected);
    CHECK(expected < 4 || job_counters(&flood.job).full != 0);
    job_destroy(&flood.job);
    free(flood.data);
}

static void on_counted(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t data_bytes,
                       pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context;
    (void)header;
    (void)header_bytes;
    (void)data;
    (void)data_bytes;
    (void)origin;
    (void)recv;
    ++*(size_t *)cookie;
}

/* Without queueing, exactly the calls that succeeded arrive, and there is as much room as said. */
static void run_unqueued(uint64_t seed)
{
    struct dice dice = {seed};
    pamix_sim_config_t config;
    struct sim_job job;
    size_t arrived = 0, sent = 0, refused = 0;
    pami_send_immediate_t send = {.dispatch = ID_COUNTED, .dest = 1};

    PAMIX_Sim_default(&config);
    config.queue = 1 + (uint32_t)dice_below(&dice, 20);
    job_create(&job, &config, 2, 1);
    job_dispatch(&job, ID_COUNTED, on_counted, &arrived,
                 (pami_dispatch_hint_t){.queue_immediate = PAMI_HINT_DISABLE});
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < config.queue + 5; i++) {
            pami_result_t result = PAMI_Send_immediate(job.context[0], &send);

            CHECK(result == PAMI_SUCCESS || result == PAMI_EAGAIN);
            sent += result == PAMI_SUCCESS;
            refused += result == PAMI_EAGAIN;
        }
        job_settle(&job);
        CHECK(arrived == sent && sent == (size_t)(round + 1) * config.queue);
        CHECK(refused == (size_t)(round + 1) * 5);
    }
    job_destroy(&job);
}

/* Random programs in the narrowest network. */
static void run_narrow(uint64_t seed)
{
    struct dice dice = {seed};
    pamix_sim_config_t config = trouble_config(&dice, seed);
    struct traffic_limits limits = {
        .messages = 150, .header = 2000, .data = 40000, .burst = 8, .reply_in = 2};
    struct traffic traffic;

    config.queue = 1;
    config.refuse = 0.9;
    config.copy_failure = 0.3;
    traffic_create(&traffic, &config, 1 + dice_below(&dice, 10), 2, NULL, &limits, seed);
    traffic_start(&traffic);
    job_settle(&traffic.job);
    traffic_finish(&traffic);
}

int main(int argc, char **argv)
{
    struct test_arguments arguments = test_arguments(argc, argv, 100);

    for (uint64_t i = 0; i < arguments.seeds; i++) {
        test_seed = arguments.seed + i;
        run_flood(test_seed, false);
        run_flood(test_seed, true);
        run_unqueued(test_seed);
        run_narrow(test_seed);
    }
    return 0;
}
