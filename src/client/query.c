/*
 * Attributes of clients and contexts.
 */
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "client/async.h"
#include "client/client.h"
#include "util/clock.h"
#include "util/error.h"

static size_t memory_mib(void)
{
    return (size_t)sysconf(_SC_PHYS_PAGES) / 1024 * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* True when the client has such an attribute. */
static bool answer(const struct client *client, pami_configuration_t *query)
{
    const struct bootstrap *bootstrap = client->core.bootstrap;

    switch ((int)query->name) {
    case PAMI_CLIENT_CLOCK_MHZ:
    case PAMI_CLIENT_WTIMEBASE_MHZ:
        query->value.intval = (size_t)(clock_ticks_per_us() + 0.5);
        return true;
    case PAMI_CLIENT_CONST_CONTEXTS:
        query->value.intval = 1;
        return true;
    case PAMI_CLIENT_HWTHREADS_AVAILABLE:
        query->value.intval = client_hwthreads();
        return true;
    case PAMI_CLIENT_MEMREGION_SIZE:
        query->value.intval = sizeof(pami_memregion_t);
        return true;
    case PAMI_CLIENT_MEM_SIZE:
        query->value.intval = memory_mib();
        return true;
    case PAMI_CLIENT_NUM_TASKS:
        query->value.intval = client->core.tasks;
        return true;
    case PAMI_CLIENT_NUM_LOCAL_TASKS:
        query->value.intval = bootstrap->local_count;
        return true;
    case PAMI_CLIENT_LOCAL_TASKS:
        query->value.intarray = client->local_tasks;
        return true;
    case PAMI_CLIENT_NUM_CONTEXTS:
        query->value.intval = client->core.contexts_max;
        return true;
    case PAMI_CLIENT_PROCESSOR_NAME:
        query->value.chararray = client->processor_name;
        return true;
    case PAMI_CLIENT_TASK_ID:
        query->value.intval = client->core.task;
        return true;
    case PAMI_CLIENT_WTICK:
        query->value.doubleval = 1e-9; /* clock_now counts nanoseconds */
        return true;
    case PAMI_CLIENT_NONCONTIG:
        query->value.intval = 1;
        return true;
    case PAMI_CLIENT_MEMORY_OPTIMIZE:
        query->value.intval = 0;
        return true;
    case ASYNC_GUARANTEE_ATTRIBUTE: /* never suspended */
        query->value.intval = 1;
        return true;
    default:
        return false;
    }
}

pami_result_t PAMI_Client_query(pami_client_t handle, pami_configuration_t configuration[],
                                size_t num_configs)
{
    const struct client *client = client_from_handle(handle);
    pami_result_t result = PAMI_SUCCESS;

    if (client == NULL)
        return error_set(PAMI_INVAL, "PAMI_Client_query: client: not a client");
    if (configuration == NULL && num_configs != 0)
        return error_set(PAMI_INVAL, "PAMI_Client_query: configuration: NULL");
    for (size_t i = 0; i < num_configs; i++)
        if (!answer(client, &configuration[i]))
            result = error_set(PAMI_INVAL,
                               "PAMI_Client_query: configuration[%zu].name: attribute %d is not "
                               "one of a client",
                               i, (int)configuration[i].name);
    return result;
}

pami_result_t PAMI_Client_update(pami_client_t handle, pami_configuration_t configuration[],
                                 size_t num_configs)
{
    if (client_from_handle(handle) == NULL)
        return error_set(PAMI_INVAL, "PAMI_Client_update: client: not a client");
    if (configuration == NULL && num_configs != 0)
        return error_set(PAMI_INVAL, "PAMI_Client_update: configuration: NULL");
    for (size_t i = 0; i < num_configs; i++)
        if (configuration[i].name != PAMI_CLIENT_NONCONTIG &&
            configuration[i].name != PAMI_CLIENT_MEMORY_OPTIMIZE)
            return error_set(PAMI_INVAL,
                             "PAMI_Client_update: configuration[%zu].name: attribute %d cannot be "
                             "changed",
                             i, (int)configuration[i].name);
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Context_query(pami_context_t handle, pami_configuration_t configuration[],
                                 size_t num_configs)
{
    pami_result_t result = PAMI_SUCCESS;

    if (context_from_handle(handle) == NULL)
        return error_set(PAMI_INVAL, "PAMI_Context_query: context: %s", context_fault(handle));
    if (configuration == NULL && num_configs != 0)
        return error_set(PAMI_INVAL, "PAMI_Context_query: configuration: NULL");
    for (size_t i = 0; i < num_configs; i++) {
        if (configuration[i].name == PAMI_CONTEXT_DISPATCH_ID_MAX)
            configuration[i].value.intval = DISPATCH_ID_MAX;
        else
            result = error_set(PAMI_INVAL,
                               "PAMI_Context_query: configuration[%zu].name: attribute %d is not "
                               "one of a context",
                               i, (int)configuration[i].name);
    }
    return result;
}

pami_result_t PAMI_Context_update(pami_context_t handle, pami_configuration_t configuration[],
                                  size_t num_configs)
{
    if (context_from_handle(handle) == NULL)
        return error_set(PAMI_INVAL, "PAMI_Context_update: context: %s", context_fault(handle));
    if (num_configs == 0)
        return PAMI_SUCCESS;
    if (configuration == NULL)
        return error_set(PAMI_INVAL, "PAMI_Context_update: configuration: NULL");
    return error_set(PAMI_INVAL,
                     "PAMI_Context_update: configuration[0].name: attribute %d cannot be changed",
                     (int)configuration[0].name);
}
