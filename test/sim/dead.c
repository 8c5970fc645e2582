/*
 * Tasks die in the middle of everything: nobody hangs, whatever waits for them ends once, with an
 * error, and the others do not notice.
 *
 * Run: args="--seeds 3000" timeout=120
 * Run: args="--seed 100000 --seeds 2000" env="PAMI_RNDV_BYTES=1K" timeout=120
 */
#include "traffic.h"
#include "trouble.h"

static void run_seed(uint64_t seed, size_t tasks)
{
    struct dice dice = {seed};
    pamix_sim_config_t config = trouble_config(&dice, seed);
    size_t contexts = dice_one_in(&dice, 3) ? 1 + dice_below(&dice, 3) : 1;
    struct traffic traffic;
    struct traffic_limits limits = {
        .messages = 50 + dice_below(&dice, 400),
        .header = dice_one_in(&dice, 4) ? 10240 : 300,
        .data = dice_one_in(&dice, 20) ? 600000 : 70000,
        .burst = 1 + dice_below(&dice, 6),
        .reply_in = 1 + (unsigned)dice_below(&dice, 4),
    };
    uint32_t dead[70];
    bool mortal[70] = {false};
    size_t most;

    if (tasks == 0)
        tasks = 1 + trouble_tasks(&dice) % 70;
    most = dice_one_in(&dice, 4) ? tasks : (tasks + 3) / 4;
    trouble_deaths(&config, &dice, tasks, most, 30e-6, dead, mortal);
    traffic_create(&traffic, &config, tasks, contexts, mortal, &limits, seed);
    traffic_start(&traffic);
    job_settle(&traffic.job);
    CHECK(job_counters(&traffic.job).deaths != 0);
    traffic_finish(&traffic);
}

int main(int argc, char **argv)
{
    struct test_arguments arguments = test_arguments(argc, argv, 1000);

    test_each_seed(&arguments, run_seed);
    return 0;
}
