/*
 * Deaths in the middle of one-sided traffic: what a survivor has to do with a dead task ends, once,
 * and among the survivors memory is what the model says.
 *
 * Run: args="--seeds 1000" timeout=120
 * Run: args="--seed 100000 --seeds 500" env="PAMI_RNDV_BYTES=1K" timeout=120
 */
#include "rma_model.h"
#include "trouble.h"

static void run_seed(uint64_t seed, size_t tasks)
{
    struct dice dice = {seed};
    pamix_sim_config_t config = trouble_config(&dice, seed);
    size_t contexts = 1 + dice_below(&dice, 2);
    struct model model;
    struct rma_limits limits = {
        .memory = dice_one_in(&dice, 10) ? 300000 : 3000,
        .operations = 10 + dice_below(&dice, 100),
        .burst = 1 + dice_below(&dice, 8),
        .fence_in = 3 + (unsigned)dice_below(&dice, 20),
    };
    uint32_t dead[20];
    bool mortal[20] = {false};
    size_t most;

    limits.area = 1 + dice_size(&dice, limits.memory - 1);
    if (tasks == 0)
        tasks = 1 + dice_below(&dice, 20);
    most = dice_one_in(&dice, 4) ? tasks : (tasks + 3) / 4;
    trouble_deaths(&config, &dice, tasks, most, 30e-6, dead, mortal);
    model_create(&model, &config, tasks, contexts, mortal, &limits, seed);
    model_phase(&model);
    CHECK(job_counters(&model.job).deaths != 0);
    for (uint32_t i = 0; i < model.count; i++)
        CHECK(model.starters[i].fenced || mortal[model_task(&model, i)]);
    model_finish(&model);
}

int main(int argc, char **argv)
{
    struct test_arguments arguments = test_arguments(argc, argv, 300);

    if (arguments.tasks > 20) {
        fputs("rma_dead: at most 20 tasks\n", stderr);
        return 2;
    }
    test_each_seed(&arguments, run_seed);
    return 0;
}
