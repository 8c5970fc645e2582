/*
 * Bootstraps of simulated tasks: who they are and where. They exchange no cards, as the device
 * needs none.
 */
#include <inttypes.h>
#include <stdio.h>

#include "device/sim/network.h"

static struct sim_task *task_of(struct bootstrap *bootstrap)
{
    return container_of(bootstrap, struct sim_task, bootstrap);
}

static int identity_node_of(struct bootstrap *bootstrap, uint32_t task, uint32_t *node)
{
    *node = task / task_of(bootstrap)->network->rules.tasks_per_node;
    return 0;
}

static const struct bootstrap_ops identity_ops = {
    .name = "sim",
    .node_of = identity_node_of,
};

void sim_identity_fill(struct sim_network *network, uint32_t task)
{
    struct bootstrap *bootstrap = &network->tasks[task].bootstrap;
    uint32_t tasks = network->task_count;
    uint32_t per_node = network->rules.tasks_per_node;
    uint32_t node = task / per_node;
    uint32_t first = node * per_node;

    bootstrap->ops = &identity_ops;
    bootstrap->task = task;
    bootstrap->tasks = tasks;
    bootstrap->node = node;
    bootstrap->nodes = (tasks - 1) / per_node + 1;
    bootstrap->run = per_node;
    bootstrap->local_tasks = &network->identity[first];
    bootstrap->local_count = tasks - first < per_node ? tasks - first : per_node;
    bootstrap->local_index = task - first;
    snprintf(bootstrap->job, sizeof(bootstrap->job), "sim-%" PRIu32, tasks);
}
