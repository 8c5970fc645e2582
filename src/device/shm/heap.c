/*
 * The shared heap as the shm device offers it: by task, and by path.
 *
 * Tasks of other nodes, pretended ones included, never see it: what is tried out with pretended
 * nodes must not work by accident.
 */
#include <errno.h>

#include "bootstrap/bootstrap.h"
#include "device/shm/shm.h"

static struct shm_device *shm_device_of(struct device *device)
{
    return container_of(device, struct shm_device, device);
}

int shm_heap_alloc(struct device *device, size_t bytes, size_t alignment, int node, void **address)
{
    return shared_heap_alloc(shm_device_of(device)->heap, bytes, alignment, node, address);
}

int shm_heap_free(struct device *device, void *address)
{
    return shared_heap_free(shm_device_of(device)->heap, address);
}

int shm_heap_view(struct device *base, uint32_t task, struct heap_view *view)
{
    struct shm_device *device = shm_device_of(base);
    int64_t member = shm_member_of(device, task);

    if (member < 0 ||
        segment_member(device->segment, (uint32_t)member)->node != device->bootstrap->node)
        return -ENOENT;
    return shared_heap_view(device->heap, (uint32_t)member, view);
}

char *shm_heap_address(const struct shm_device *device, uint32_t member, uint64_t remote,
                       size_t bytes)
{
    struct heap_view view;

    if (!shared_heap_has(device->segment, member, remote, bytes) ||
        shared_heap_view(device->heap, member, &view) != 0)
        return NULL;
    return view.local + (remote - view.remote);
}

int shm_map(struct path *base, uint64_t remote, size_t bytes, void **local)
{
    struct shm_path *path = container_of(base, struct shm_path, path);
    struct shm_device *device = shm_device_of(base->port->device);
    struct heap_view view;
    int error;

    if (!base->local || !shared_heap_has(device->segment, path->member, remote, bytes))
        return -ENOENT;
    error = shared_heap_view(device->heap, path->member, &view);
    if (error != 0)
        return error;
    base->heap_remote = view.remote;
    base->heap_bytes = view.bytes;
    base->heap_local = view.local;
    *local = path_address(base, remote, bytes);
    return 0;
}
