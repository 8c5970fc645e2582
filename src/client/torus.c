/*
 * The tasks of the job as a grid of two dimensions for those who ask for a torus: first the node,
 * then the place on it, by ascending task. Nothing wraps, and the last places of a node that has
 * fewer tasks than others are empty.
 *
 * The extension's functions get no client: the grid is a fact of the process, like its launcher's
 * answers of which it is made. It is laid out when the extension is opened, always the same.
 */
#include "client/torus.h"

#include <errno.h>
#include <stdlib.h>

#include "bootstrap/bootstrap.h"
#include "client/client.h"
#include "util/error.h"

enum {
    NODE,
    PLACE,
    DIMENSIONS
};

static size_t coord[DIMENSIONS], size[DIMENSIONS], wraps[DIMENSIONS];
static const struct torus_information grid = {DIMENSIONS, coord, size, wraps};

/* Of a task of the job: its launcher has told that of all of them. */
static uint32_t node_of(struct bootstrap *bootstrap, uint32_t task)
{
    uint32_t node = 0;

    bootstrap_node_of(bootstrap, task, &node);
    return node;
}

/* Only a child made by fork is without its launcher here. */
static pami_result_t launcher_of(const char *function, struct bootstrap **bootstrap)
{
    char why[ERROR_TEXT_MAX];
    int error = bootstrap_open(bootstrap);

    if (error == 0)
        return PAMI_SUCCESS;
    PAMI_Error_text(why, sizeof why);
    return error_set(error_from_errno(error), "%s: %s", function, why);
}

int torus_prepare(struct client *client)
{
    struct bootstrap *bootstrap = client->core.bootstrap;
    uint32_t *places;
    uint32_t most = 0;

    if (!client->own_bootstrap)
        return -ENOTSUP;
    places = calloc(bootstrap->nodes, sizeof(*places));
    if (places == NULL)
        return -ENOMEM;
    for (uint32_t task = 0; task < bootstrap->tasks; task++) {
        uint32_t *count = &places[node_of(bootstrap, task)];

        if (++*count > most)
            most = *count;
    }
    free(places);
    coord[NODE] = bootstrap->node;
    coord[PLACE] = bootstrap->local_index;
    size[NODE] = bootstrap->nodes;
    size[PLACE] = most;
    return 0;
}

const struct torus_information *torus_information(void)
{
    return &grid;
}

pami_result_t torus_of_task(pami_task_t task, size_t *address)
{
    struct bootstrap *bootstrap;
    pami_result_t result;
    size_t place = 0;
    uint32_t node;

    if (address == NULL)
        return error_set(PAMI_INVAL, "task2torus: address: NULL");
    result = launcher_of("task2torus", &bootstrap);
    if (result != PAMI_SUCCESS)
        return result;
    if (task >= bootstrap->tasks) {
        bootstrap_close(bootstrap);
        return error_set(PAMI_INVAL, "task2torus: task: %u is outside the job", (unsigned)task);
    }
    node = node_of(bootstrap, task);
    for (uint32_t other = 0; other < task; other++)
        place += node_of(bootstrap, other) == node;
    bootstrap_close(bootstrap);
    address[NODE] = node;
    address[PLACE] = place;
    return PAMI_SUCCESS;
}

pami_result_t torus_to_task(const size_t *address, pami_task_t *task)
{
    struct bootstrap *bootstrap;
    pami_result_t result;
    uint32_t other, tasks;
    size_t place = 0;

    if (address == NULL || task == NULL)
        return error_set(PAMI_INVAL, "torus2task: %s: NULL", address == NULL ? "address" : "task");
    result = launcher_of("torus2task", &bootstrap);
    if (result != PAMI_SUCCESS)
        return result;
    tasks = bootstrap->tasks;
    for (other = 0; other < tasks; other++)
        if (node_of(bootstrap, other) == address[NODE] && place++ == address[PLACE])
            break;
    bootstrap_close(bootstrap);
    if (other == tasks)
        return error_set(PAMI_INVAL, "torus2task: address: no task is at (%zu, %zu)", address[NODE],
                         address[PLACE]);
    *task = other;
    return PAMI_SUCCESS;
}
