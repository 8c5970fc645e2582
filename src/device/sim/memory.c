/*
 * Shared heaps of simulated tasks: private memory of the process, which the tasks of a node see at
 * the same addresses.
 *
 * Heaps are made when they are first asked for. Protocols get no mapping from a path: what they do
 * to memory takes packets and copies, and therefore time.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/heap.h"
#include "device/sim/network.h"
#include "util/option.h"

/* Address space for the heaps of all tasks, and for one. */
#define HEAPS_MOST ((size_t)1 << 42)
#define HEAP_MOST ((size_t)1 << 30)

struct sim_heap {
    struct heap *allocator;
    char *base;
    size_t bytes;
};

static size_t heap_size(const struct sim_network *network)
{
    size_t bytes = option_bytes(OPT_HEAP_BYTES);
    size_t most = HEAPS_MOST / network->task_count;

    if (bytes == 0)
        bytes = HEAP_MOST;
    if (bytes > most)
        bytes = most;
    return (bytes + HEAP_ALIGNMENT_MOST - 1) / HEAP_ALIGNMENT_MOST * HEAP_ALIGNMENT_MOST;
}

static void release(void *cookie, size_t offset, size_t bytes)
{
    struct sim_heap *heap = cookie;

    madvise(heap->base + offset, bytes, MADV_DONTNEED);
}

static int heap_new(const struct sim_network *network, struct sim_heap **out)
{
    struct sim_heap *heap = calloc(1, sizeof(*heap));
    char *at;

    if (heap == NULL)
        return -ENOMEM;
    heap->bytes = heap_size(network);
    at = mmap(NULL, heap->bytes + HEAP_ALIGNMENT_MOST, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        free(heap);
        return -ENOMEM;
    }
    heap->base = at + (HEAP_ALIGNMENT_MOST - (uintptr_t)at % HEAP_ALIGNMENT_MOST);
    munmap(at, (size_t)(heap->base - at));
    if (heap_create(heap->bytes, (size_t)sysconf(_SC_PAGESIZE), release, heap, &heap->allocator) !=
        0) {
        munmap(heap->base, heap->bytes);
        free(heap);
        return -ENOMEM;
    }
    *out = heap;
    return 0;
}

/* A task's heap, made if there was none; NULL: out of memory. */
static struct sim_heap *heap_of(struct sim_task *task)
{
    struct sim_heap *heap;

    pthread_mutex_lock(&task->network->heap_lock);
    if (task->heap == NULL && !task->heap_closed)
        heap_new(task->network, &task->heap);
    heap = task->heap;
    pthread_mutex_unlock(&task->network->heap_lock);
    return heap;
}

int sim_heap_alloc(struct device *device, size_t bytes, size_t alignment, int node, void **address)
{
    struct sim_heap *heap = heap_of(sim_task_of(device));
    size_t offset;
    int error;

    (void)node;
    if (heap == NULL)
        return -ENOMEM;
    error = heap_alloc(heap->allocator, bytes, alignment, &offset);
    if (error == 0)
        *address = heap->base + offset;
    return error;
}

int sim_heap_free(struct device *device, void *address)
{
    struct sim_heap *heap = heap_of(sim_task_of(device));
    uintptr_t offset;

    if (heap == NULL)
        return -EINVAL;
    offset = (uintptr_t)address - (uintptr_t)heap->base;
    return offset < heap->bytes ? heap_free(heap->allocator, offset) : -EINVAL;
}

int sim_heap_view(struct device *device, uint32_t task, struct heap_view *view)
{
    struct sim_task *mine = sim_task_of(device);
    struct sim_network *network = mine->network;
    struct sim_heap *heap;

    if (task >= network->task_count || network->tasks[task].bootstrap.node != mine->bootstrap.node)
        return -ENOENT;
    heap = heap_of(&network->tasks[task]);
    if (heap == NULL)
        return -ENOENT;
    *view = (struct heap_view){
        .remote = (uint64_t)(uintptr_t)heap->base, .bytes = heap->bytes, .local = heap->base};
    return 0;
}

void sim_heap_close(struct sim_task *task)
{
    pthread_mutex_lock(&task->network->heap_lock);
    task->heap_closed = true;
    pthread_mutex_unlock(&task->network->heap_lock);
}

void sim_heap_destroy(struct sim_task *task)
{
    struct sim_heap *heap = task->heap;

    if (heap == NULL)
        return;
    heap_destroy(heap->allocator);
    munmap(heap->base, heap->bytes);
    free(heap);
}
