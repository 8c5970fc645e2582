/*
 * Endpoints: numbers that name a context of a task, the same on every task.
 */
#include "client/client.h"
#include "util/error.h"

pami_result_t PAMI_Endpoint_create(pami_client_t handle, pami_task_t task, size_t offset,
                                   pami_endpoint_t *endpoint)
{
    const struct client *client = client_from_handle(handle);

    if (client == NULL)
        return error_set(PAMI_INVAL, "PAMI_Endpoint_create: client: not a client");
    if (endpoint == NULL)
        return error_set(PAMI_INVAL, "PAMI_Endpoint_create: endpoint: NULL");
    if (task >= client->core.tasks)
        return error_set(PAMI_INVAL, "PAMI_Endpoint_create: task: %u is outside the job of %u",
                         task, client->core.tasks);
    if (offset >= client->core.contexts_max)
        return error_set(PAMI_INVAL,
                         "PAMI_Endpoint_create: offset: %zu, but a task has at most %u contexts",
                         offset, client->core.contexts_max);
    *endpoint = endpoint_make(task, (uint32_t)offset);
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Endpoint_query(pami_endpoint_t endpoint, pami_task_t *task, size_t *offset)
{
    if (task == NULL)
        return error_set(PAMI_INVAL, "PAMI_Endpoint_query: task: NULL");
    if (offset == NULL)
        return error_set(PAMI_INVAL, "PAMI_Endpoint_query: offset: NULL");
    if (endpoint_offset(endpoint) >= ENDPOINT_OFFSETS_MAX)
        return error_set(PAMI_INVAL, "PAMI_Endpoint_query: endpoint: %u is not an endpoint",
                         endpoint);
    *task = endpoint_task(endpoint);
    *offset = endpoint_offset(endpoint);
    return PAMI_SUCCESS;
}
