/*
 * The configuration of a simulation: its default, its limits, and its form inside the network.
 */
#include <string.h>

#include "device/sim/network.h"
#include "util/error.h"

#define SECONDS_MOST 1000.0
#define CONTEXTS_MOST 64u

void PAMIX_Sim_default(pamix_sim_config_t *config)
{
    if (config == NULL) {
        error_set(PAMI_INVAL, "PAMIX_Sim_default: config: NULL");
        return;
    }
    *config = (pamix_sim_config_t){
        .size = sizeof(*config),
        .seed = 1,
        .contexts = 16,
        .tasks_per_core = 1,
        .tasks_per_node = 16,
        .nodes_per_switch = 32,
        .level =
            {
                [PAMIX_SIM_CORE] = {.latency = 50e-9,
                                    .overhead = 50e-9,
                                    .gap_per_byte = 0.05e-9,
                                    .single_copy = 1},
                [PAMIX_SIM_NODE] = {.latency = 150e-9,
                                    .overhead = 50e-9,
                                    .gap_per_byte = 0.1e-9,
                                    .single_copy = 1},
                [PAMIX_SIM_SWITCH] =
                    {.latency = 1e-6, .overhead = 200e-9, .gap = 50e-9, .gap_per_byte = 0.08e-9},
                [PAMIX_SIM_SYSTEM] =
                    {.latency = 2e-6, .overhead = 200e-9, .gap = 50e-9, .gap_per_byte = 0.08e-9},
            },
        .node_ports = 1,
        .packet_bytes = 16384,
        .queue = 4096,
        .retry = 1e-6,
        .copy = PAMIX_SIM_COPY_LATER,
        .dead_detect = 100e-6,
    };
}

static bool is_time(double seconds)
{
    return seconds >= 0 && seconds <= SECONDS_MOST;
}

/* `member` is what the text names. */
static pami_result_t fault(const char *member, const char *rule)
{
    return error_set(PAMI_INVAL, "PAMIX_Sim_create: config: %s: %s", member, rule);
}

static pami_result_t check_levels(const pamix_sim_config_t *config)
{
    for (int i = 0; i < PAMIX_SIM_LEVELS; i++) {
        const pamix_sim_level_t *level = &config->level[i];

        if (!is_time(level->latency) || !is_time(level->overhead) || !is_time(level->gap) ||
            !(level->gap_per_byte >= 0 && level->gap_per_byte <= 1e-3))
            return error_set(PAMI_INVAL,
                             "PAMIX_Sim_create: config: level[%d]: times are 0..%g s, per byte "
                             "0..1e-3 s",
                             i, SECONDS_MOST);
    }
    return PAMI_SUCCESS;
}

static pami_result_t check_numbers(const pamix_sim_config_t *config)
{
    const struct {
        const char *name;
        double value, limit;
    } rows[] = {
        {"jitter", config->jitter, SECONDS_MOST},
        {"reorder", config->reorder, 1},
        {"reorder_delay", config->reorder_delay, SECONDS_MOST},
        {"slow", config->slow, 1},
        {"slow_delay", config->slow_delay, SECONDS_MOST},
        {"refuse", config->refuse, 0.99},
        {"retry", config->retry, SECONDS_MOST},
        {"copy_failure", config->copy_failure, 1},
        {"dead_time", config->dead_time, SECONDS_MOST},
        {"dead_spread", config->dead_spread, SECONDS_MOST},
        {"dead_detect", config->dead_detect, SECONDS_MOST},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (!(rows[i].value >= 0 && rows[i].value <= rows[i].limit))
            return error_set(PAMI_INVAL, "PAMIX_Sim_create: config: %s: %g is not in 0..%g",
                             rows[i].name, rows[i].value, rows[i].limit);
    return PAMI_SUCCESS;
}

static pami_result_t check_config(const pamix_sim_config_t *config, size_t ntasks)
{
    pami_result_t result = check_levels(config);

    if (result == PAMI_SUCCESS)
        result = check_numbers(config);
    if (result != PAMI_SUCCESS)
        return result;
    if (config->contexts == 0 || config->contexts > CONTEXTS_MOST)
        return fault("contexts", "not in 1..64");
    if (config->tasks_per_core == 0 || config->tasks_per_node == 0 || config->nodes_per_switch == 0)
        return fault("tasks_per_core, tasks_per_node, nodes_per_switch", "0");
    if (config->tasks_per_node % config->tasks_per_core != 0)
        return fault("tasks_per_node", "not a multiple of tasks_per_core");
    if (config->packet_bytes < 128 || config->packet_bytes > PACKET_BODY_MAX)
        return fault("packet_bytes", "not in 128..65528");
    if (config->copy < PAMIX_SIM_COPY_LATER || config->copy > PAMIX_SIM_COPY_MIXED)
        return fault("copy", "not a pamix_sim_copy_t");
    if (config->dead_count > ntasks)
        return fault("dead_count", "more than there are tasks");
    for (size_t i = 0; config->dead != NULL && i < config->dead_count; i++)
        if (config->dead[i] >= ntasks)
            return fault("dead", "names a task outside the job");
    return PAMI_SUCCESS;
}

static struct sim_rules rules_of(const pamix_sim_config_t *config)
{
    struct sim_rules rules = {
        .contexts = config->contexts,
        .tasks_per_core = config->tasks_per_core,
        .tasks_per_node = config->tasks_per_node,
        .nodes_per_switch = config->nodes_per_switch,
        .packet_bytes = config->packet_bytes,
        .queue = config->queue,
        .node_ports = config->node_ports != 0,
        .jitter = sim_picoseconds(config->jitter),
        .reorder_delay = sim_picoseconds(config->reorder_delay),
        .slow_delay = sim_picoseconds(config->slow_delay),
        .retry = sim_picoseconds(config->retry),
        .detect = sim_picoseconds(config->dead_detect),
        .reorder = config->reorder,
        .refuse = config->refuse,
        .copy_failure = config->copy_failure,
        .copy = config->copy,
    };

    if (rules.retry < SIM_LEAST_PAUSE)
        rules.retry = SIM_LEAST_PAUSE;
    for (int i = 0; i < PAMIX_SIM_LEVELS; i++)
        rules.level[i] = (struct sim_level){
            .latency = sim_picoseconds(config->level[i].latency),
            .overhead = sim_picoseconds(config->level[i].overhead),
            .gap = sim_picoseconds(config->level[i].gap),
            .gap_per_byte = config->level[i].gap_per_byte * 1e12,
            .single_copy = config->level[i].single_copy != 0,
        };
    return rules;
}

/* The caller's configuration may be that of an older library: what it lacks is as by default. */
static pami_result_t read_config(const pamix_sim_config_t *from, pamix_sim_config_t *config)
{
    PAMIX_Sim_default(config);
    if (from == NULL)
        return PAMI_SUCCESS;
    if (from->size < offsetof(pamix_sim_config_t, contexts) || from->size > sizeof(*config))
        return fault("size", "not what PAMIX_Sim_default has set");
    memcpy(config, from, from->size);
    return PAMI_SUCCESS;
}

pami_result_t sim_rules_read(const pamix_sim_config_t *given, size_t ntasks,
                             pamix_sim_config_t *config, struct sim_rules *rules)
{
    pami_result_t result = read_config(given, config);

    if (result == PAMI_SUCCESS && (ntasks == 0 || ntasks > ENDPOINT_TASKS_MAX))
        result = error_set(PAMI_INVAL, "PAMIX_Sim_create: ntasks: %zu is not in 1..%u", ntasks,
                           ENDPOINT_TASKS_MAX);
    if (result == PAMI_SUCCESS)
        result = check_config(config, ntasks);
    if (result == PAMI_SUCCESS)
        *rules = rules_of(config);
    return result;
}
