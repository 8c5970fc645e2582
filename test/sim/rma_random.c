/*
 * Random one-sided programs on random networks: puts, gets, typed and by region, atomic adds and
 * fences; after each fence memory equals the model (rma_model.h).
 *
 * Run: args="--seeds 1500" timeout=120
 * Run: args="--seed 100000 --seeds 1000" env="PAMI_RNDV_BYTES=1K" timeout=120
 * Run: args="--seed 205300 --seeds 100" timeout=120
 */
#include "rma_model.h"
#include "trouble.h"

static uint64_t total_operations, total_bytes;

static void run_seed(uint64_t seed, size_t tasks)
{
    struct dice dice = {seed};
    pamix_sim_config_t config = trouble_config(&dice, seed);
    size_t contexts = dice_one_in(&dice, 3) ? 1 + dice_below(&dice, 3) : 1;
    struct model model;
    struct rma_limits limits = {
        .memory = dice_one_in(&dice, 10)  ? 300000
                  : dice_one_in(&dice, 2) ? 20000
                                          : 2000,
        .operations = 10 + dice_below(&dice, 100),
        .burst = 1 + dice_below(&dice, 8),
        .fence_in = 3 + (unsigned)dice_below(&dice, 20),
    };

    limits.area = 1 + dice_size(&dice, limits.memory - 1);
    if (tasks == 0)
        tasks = 1 + (trouble_tasks(&dice) - 1) % 20;
    model_create(&model, &config, tasks, contexts, NULL, &limits, seed);
    for (size_t phases = 1 + dice_below(&dice, 3); phases != 0; phases--)
        model_phase(&model);
    total_operations += model.started;
    total_bytes += model.moved;
    model_finish(&model);
}

int main(int argc, char **argv)
{
    struct test_arguments arguments = test_arguments(argc, argv, 500);

    test_each_seed(&arguments, run_seed);
    printf("%" PRIu64 " seeds: %" PRIu64 " operations, %" PRIu64 " bytes\n", arguments.seeds,
           total_operations, total_bytes);
    return 0;
}
