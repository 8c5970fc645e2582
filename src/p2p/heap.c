/*
 * What is in this task's shared heap: others of the node reach it by plain loads and stores.
 */
#include "p2p/p2p.h"

/* From the first question on it is known where the heap is; {1, 1}: there is none. */
static void look(struct p2p *p2p)
{
    const struct client_core *core = p2p->context->core;
    struct device *device = core_heap_device(core);
    struct heap_view view;

    p2p->heap = (struct probe_range){1, 1};
    if (!core->simulated && device != NULL &&
        device->ops->heap_view(device, core->task, &view) == 0)
        p2p->heap = (struct probe_range){view.remote, view.remote + view.bytes};
}

bool p2p_in_heap(struct p2p *p2p, const void *address, size_t bytes)
{
    uint64_t start = (uintptr_t)address;

    if (p2p->heap.end == 0)
        look(p2p);
    return start >= p2p->heap.start && start < p2p->heap.end && bytes <= p2p->heap.end - start;
}

bool p2p_is_readable(struct p2p *p2p, const struct path *path, const void *address, size_t bytes)
{
    return path->single_copy || (path->local && p2p_in_heap(p2p, address, bytes));
}
