/*
 * Random machines and networks for simulated tests, more or less hostile.
 */
#ifndef LIBPAMI_SIM_TROUBLE_H
#define LIBPAMI_SIM_TROUBLE_H

#include "sim_test.h"

/* 1 .. 70, small ones more likely. */
static inline size_t trouble_tasks(struct dice *dice)
{
    return dice_one_in(dice, 3) ? 1 + dice_below(dice, 70) : 1 + dice_below(dice, 8);
}

static inline double trouble_time(struct dice *dice, double most)
{
    return dice_one_in(dice, 4) ? 0 : dice_unit(dice) * most;
}

/* Any machine: nodes of any size, any costs, also none. */
static inline void trouble_machine(pamix_sim_config_t *config, struct dice *dice)
{
    config->tasks_per_core = 1 + (uint32_t)dice_below(dice, 3);
    config->tasks_per_node = config->tasks_per_core * (1 + (uint32_t)dice_below(dice, 6));
    config->nodes_per_switch = 1 + (uint32_t)dice_below(dice, 4);
    config->node_ports = dice_one_in(dice, 2);
    config->packet_bytes =
        dice_one_in(dice, 2) ? 16384 : 128 + (uint32_t)dice_size(dice, 65528 - 128);
    for (int i = 0; i < PAMIX_SIM_LEVELS; i++) {
        config->level[i].latency = trouble_time(dice, 4e-6);
        config->level[i].overhead = trouble_time(dice, 0.4e-6);
        config->level[i].gap = trouble_time(dice, 0.4e-6);
        config->level[i].gap_per_byte = trouble_time(dice, 1e-9);
        config->level[i].single_copy = dice_one_in(dice, 2);
    }
    config->copy = (int)dice_below(dice, PAMIX_SIM_COPY_MIXED + 1);
}

/*
 * Up to `most` of the tasks die within `seconds` and a bit. They are marked in mortal[tasks], and
 * listed in dead[most], which PAMIX_Sim_create reads.
 */
static inline void trouble_deaths(pamix_sim_config_t *config, struct dice *dice, size_t tasks,
                                  size_t most, double seconds, uint32_t *dead, bool *mortal)
{
    config->dead_count = 1 + dice_below(dice, most);
    for (size_t i = 0; i < config->dead_count; i++) {
        dead[i] = (uint32_t)dice_below(dice, tasks);
        mortal[dead[i]] = true;
    }
    config->dead = dead;
    config->dead_time = dice_unit(dice) * seconds;
    config->dead_spread = trouble_time(dice, 100e-6);
    config->dead_detect = trouble_time(dice, 50e-6);
}

/* Any trouble but deaths; each kind is there in about half of the cases. */
static inline void trouble_network(pamix_sim_config_t *config, struct dice *dice)
{
    if (dice_one_in(dice, 2))
        config->jitter = trouble_time(dice, 10e-6);
    if (dice_one_in(dice, 2)) {
        config->reorder = dice_unit(dice) * 0.5;
        config->reorder_delay = trouble_time(dice, 100e-6);
    }
    if (dice_one_in(dice, 2)) {
        config->slow = dice_unit(dice);
        config->slow_delay = trouble_time(dice, 20e-6);
    }
    if (dice_one_in(dice, 2)) {
        config->refuse = dice_unit(dice) * (dice_one_in(dice, 4) ? 0.9 : 0.3);
        config->retry = trouble_time(dice, 5e-6);
    }
    if (dice_one_in(dice, 2))
        config->queue = 1 + (uint32_t)dice_size(dice, 30);
    if (dice_one_in(dice, 4))
        config->copy_failure = dice_unit(dice);
}

static inline pamix_sim_config_t trouble_config(struct dice *dice, uint64_t seed)
{
    pamix_sim_config_t config;

    PAMIX_Sim_default(&config);
    config.seed = seed;
    config.contexts = 4;
    trouble_machine(&config, dice);
    trouble_network(&config, dice);
    return config;
}

#endif
