/*
 * The node-shared heap: memory of one task that its neighbours can map and use like their own.
 *
 * Each task has a part of the segment's memory file, sparse, with an allocator that is private to
 * it (device/heap.h); pages are touched by those who use the memory and go back to the system when
 * they have been free for a while. A neighbour's part is mapped, whole, when it is first needed,
 * and stays mapped until the device is closed, also when the neighbour has died. Where a heap lies
 * in its task is in that task's page of facts and never changes.
 */
#ifndef LIBPAMI_DEVICE_SHM_SHARED_HEAP_H
#define LIBPAMI_DEVICE_SHM_SHARED_HEAP_H

#include "device/device.h"
#include "device/shm/segment.h"

struct shared_heap;

/* The segment outlives the heap. 0 or -ENOMEM. */
int shared_heap_open(struct segment *segment, struct shared_heap **heap);

/* Unmaps the neighbours' parts; what is allocated here goes with the segment. NULL is fine. */
void shared_heap_close(struct shared_heap *heap);

/* As the device_ops heap_alloc and heap_free. Thread safe. */
int shared_heap_alloc(struct shared_heap *heap, size_t bytes, size_t alignment, int node,
                      void **address);
int shared_heap_free(struct shared_heap *heap, void *address);

/*
 * A member's heap, mapped if it was not. 0; -ENOENT: it has none; or why it cannot be mapped.
 * Thread safe.
 */
int shared_heap_view(struct shared_heap *heap, uint32_t member, struct heap_view *view);

/* Is this an address in a member's heap, there? Maps nothing. */
static inline bool shared_heap_has(const struct segment *segment, uint32_t member, uint64_t remote,
                                   size_t bytes)
{
    const struct segment_member *facts = segment_member(segment, member);
    uint64_t offset = remote - facts->heap_address;

    return offset < facts->heap_bytes && bytes <= facts->heap_bytes - offset;
}

#endif
