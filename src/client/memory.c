/*
 * Memory that the neighbours of a task can use like their own: PAMIX_Mem_*.
 *
 * The first device that has a heap has it for all; addresses and mappings are its business.
 */
#include <errno.h>
#include <string.h>

#include <pami/pamix.h>

#include "client/client.h"
#include "util/error.h"
#include "util/numa.h"

_Static_assert(PAMIX_MEM_LOCAL == NUMA_LOCAL && PAMIX_MEM_ANY == NUMA_ANY, "one set of numbers");

/* What PAMIX_Mem_alloc gives when no alignment is asked for, as malloc does. */
#define ALIGNMENT_USUAL 16u

static int view_of(const struct client *client, uint32_t task, struct heap_view *view)
{
    struct device *device = core_heap_device(&client->core);

    return device != NULL ? device->ops->heap_view(device, task, view) : -ENOENT;
}

static pami_result_t check_alloc(const struct client *client, size_t bytes, size_t alignment,
                                 int node, void **address)
{
    if (client == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Mem_alloc: client: not a client");
    if (address == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Mem_alloc: address: NULL");
    if (bytes == 0)
        return error_set(PAMI_INVAL, "PAMIX_Mem_alloc: bytes: 0");
    if ((alignment & (alignment - 1)) != 0 || alignment > PAMIX_MEM_ALIGNMENT_MOST)
        return error_set(PAMI_INVAL,
                         "PAMIX_Mem_alloc: alignment: %zu is not a power of two up to %zu",
                         alignment, (size_t)PAMIX_MEM_ALIGNMENT_MOST);
    if (node < PAMIX_MEM_ANY || (node >= 0 && !numa_has_memory((unsigned)node)))
        return error_set(PAMI_INVAL, "PAMIX_Mem_alloc: node: %d is not a NUMA node with memory",
                         node);
    return PAMI_SUCCESS;
}

pami_result_t PAMIX_Mem_alloc(pami_client_t handle, size_t bytes, size_t alignment, int node,
                              void **address)
{
    struct client *client = client_from_handle(handle);
    pami_result_t result = check_alloc(client, bytes, alignment, node, address);
    struct device *device;
    struct heap_view view = {0};
    int error;

    if (result != PAMI_SUCCESS)
        return result;
    device = core_heap_device(&client->core);
    if (device == NULL)
        return error_set(PAMI_ERROR, "PAMIX_Mem_alloc: no device has a heap");
    error = device->ops->heap_alloc(device, bytes, alignment != 0 ? alignment : ALIGNMENT_USUAL,
                                    node, address);
    if (error == 0)
        return PAMI_SUCCESS;
    if (error != -ENOSPC)
        return error_set(PAMI_ENOMEM, "PAMIX_Mem_alloc: bytes: %zu: %s", bytes, strerror(-error));
    view_of(client, client->core.task, &view);
    return error_set(PAMI_ENOMEM,
                     "PAMIX_Mem_alloc: bytes: the heap of %zu bytes has no room for %zu more; "
                     "PAMI_HEAP_BYTES sets its size, as far as ulimit -f and -v and, where the "
                     "kernel has no memory files, /dev/shm allow",
                     view.bytes, bytes);
}

pami_result_t PAMIX_Mem_free(pami_client_t handle, void *address)
{
    struct client *client = client_from_handle(handle);
    struct device *device;

    if (client == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Mem_free: client: not a client");
    if (address == NULL)
        return PAMI_SUCCESS;
    device = core_heap_device(&client->core);
    if (device == NULL || device->ops->heap_free(device, address) != 0)
        return error_set(PAMI_INVAL,
                         "PAMIX_Mem_free: address: %p is not a live block of this client", address);
    return PAMI_SUCCESS;
}

pami_result_t PAMIX_Mem_view(pami_client_t handle, pami_task_t task, pamix_heap_view_t *out)
{
    struct client *client = client_from_handle(handle);
    struct heap_view view;
    int error;

    if (client == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Mem_view: client: not a client");
    if (out == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Mem_view: view: NULL");
    if (task >= client->core.tasks)
        return error_set(PAMI_INVAL, "PAMIX_Mem_view: task: %u is outside the job of %u", task,
                         client->core.tasks);
    error = view_of(client, task, &view);
    if (error == -ENOENT)
        return error_set(PAMI_ERROR, "PAMIX_Mem_view: task: %u has no heap that can be mapped here",
                         task);
    if (error != 0)
        return error_set(PAMI_ERROR, "PAMIX_Mem_view: task: cannot map the heap of %u: %s", task,
                         strerror(-error));
    *out = (pamix_heap_view_t){.remote = view.remote, .local = view.local, .bytes = view.bytes};
    return PAMI_SUCCESS;
}

void *PAMIX_Mem_local_address(pami_client_t handle, pami_task_t task, const void *remote,
                              size_t bytes)
{
    pamix_heap_view_t view;

    if (PAMIX_Mem_view(handle, task, &view) != PAMI_SUCCESS)
        return NULL;
    return PAMIX_Mem_cast(&view, remote, bytes);
}
