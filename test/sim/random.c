/*
 * Random programs on random networks: every message exactly once, whole, and in order.
 *
 * Run: args="--seeds 5000" timeout=120
 * Run: args="--seed 100000 --seeds 3000" env="PAMI_RNDV_BYTES=1K" timeout=120
 * Run: args="--seed 80000 --seeds 1500" env="PAMI_RNDV_BYTES=1M PAMI_HOLD_BYTES=64K PAMI_LOG=error"
 */
#include "traffic.h"
#include "trouble.h"

static uint64_t total_messages, total_bytes, total_packets;

static void run_seed(uint64_t seed, size_t tasks)
{
    struct dice dice = {seed};
    pamix_sim_config_t config = trouble_config(&dice, seed);
    size_t contexts = dice_one_in(&dice, 3) ? 1 + dice_below(&dice, 3) : 1;
    struct traffic traffic;
    struct traffic_limits limits = {
        .header = dice_one_in(&dice, 4) ? 10240 : 300,
        .data = dice_one_in(&dice, 20)  ? 1200000
                : dice_one_in(&dice, 2) ? 70000
                                        : 2000,
        .burst = 1 + dice_below(&dice, 6),
        .reply_in = (unsigned)dice_below(&dice, 4),
    };

    limits.messages = 20 + dice_below(&dice, limits.data > 100000 ? 60 : 300);
    if (tasks == 0)
        tasks = trouble_tasks(&dice);
    traffic_create(&traffic, &config, tasks, contexts, NULL, &limits, seed);
    traffic_start(&traffic);
    job_settle(&traffic.job);
    total_messages += traffic.sent;
    total_bytes += traffic.bytes;
    total_packets += job_counters(&traffic.job).packets;
    traffic_finish(&traffic);
}

int main(int argc, char **argv)
{
    struct test_arguments arguments = test_arguments(argc, argv, 1000);

    test_each_seed(&arguments, run_seed);
    printf("%" PRIu64 " seeds: %" PRIu64 " messages, %" PRIu64 " bytes, %" PRIu64 " packets\n",
           arguments.seeds, total_messages, total_bytes, total_packets);
    return 0;
}
