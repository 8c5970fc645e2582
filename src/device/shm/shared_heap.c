/*
 * Mapping and backing of the node-shared heap; see shared_heap.h.
 */
#include "device/shm/shared_heap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device/heap.h"
#include "util/log.h"
#include "util/numa.h"

/* A core file has what was ever handed out, in steps of this. */
#define DUMP_STEP ((size_t)64 << 20)

struct shared_heap {
    struct segment *segment;
    struct heap *allocator;
    bool several_nodes;
    size_t page;
    pthread_mutex_t lock; /* for the three below */
    bool opened;          /* my part is mapped */
    bool warned;
    size_t dumped;            /* bytes from its start that a core file shows */
    _Atomic(char *) mapped[]; /* per member */
};

static off_t file_offset(const struct segment *segment, uint32_t member)
{
    return (off_t)(segment->layout.bytes + member * segment->layout.heap_stride);
}

/* With the allocator's lock held: fallocate(3) is a cancellation point. */
static void release(void *cookie, size_t offset, size_t bytes)
{
    const struct shared_heap *heap = cookie;
    const struct segment *segment = heap->segment;

    if (syscall(SYS_fallocate, segment_file(segment), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                file_offset(segment, segment->self) + (off_t)offset, (off_t)bytes) != 0)
        log_debug("shared heap: cannot give %zu bytes back (errno %d)", bytes, errno);
}

int shared_heap_open(struct segment *segment, struct shared_heap **out)
{
    size_t members = segment->layout.members;
    struct shared_heap *heap = calloc(1, sizeof(*heap) + members * sizeof(heap->mapped[0]));
    int error;

    if (heap == NULL)
        return -ENOMEM;
    heap->segment = segment;
    heap->page = (size_t)sysconf(_SC_PAGESIZE);
    heap->several_nodes = numa_is_worthwhile();
    error = heap_create(segment->heap_bytes, heap->page, release, heap, &heap->allocator);
    if (error != 0) {
        free(heap);
        return error;
    }
    pthread_mutex_init(&heap->lock, NULL);
    if (segment->heap_bytes != 0)
        atomic_init(&heap->mapped[segment->self], segment->heap);
    *out = heap;
    return 0;
}

void shared_heap_close(struct shared_heap *heap)
{
    const struct segment *segment;

    if (heap == NULL)
        return;
    segment = heap->segment;
    for (uint32_t i = 0; i < segment->layout.members; i++) {
        char *mapped = atomic_load(&heap->mapped[i]);

        if (i != segment->self && mapped != NULL)
            munmap(mapped, segment_member(segment, i)->heap_bytes);
    }
    heap_destroy(heap->allocator);
    pthread_mutex_destroy(&heap->lock);
    free(heap);
}

/* A member's part of the file over reserved addresses. Never in a core file as a whole: the kernel
 * would make pages for all of it. */
static int map_part(const struct segment *segment, uint32_t member, size_t bytes, char *at)
{
    void *mapped;
    int error =
        segment_map(segment_file(segment), file_offset(segment, member), bytes, at, &mapped);

    if (error != 0)
        return error;
    madvise(mapped, bytes, MADV_DONTDUMP);
    return 0;
}

/* My part up to `end` is about to be used. */
static int make_usable(struct shared_heap *heap, size_t end)
{
    const struct segment *segment = heap->segment;
    int error = 0;

    pthread_mutex_lock(&heap->lock);
    if (!heap->opened) {
        error = map_part(segment, segment->self, segment->heap_bytes, segment->heap);
        heap->opened = error == 0;
    }
    if (error == 0 && end > heap->dumped) {
        heap->dumped = (end + DUMP_STEP - 1) / DUMP_STEP * DUMP_STEP;
        if (heap->dumped > segment->heap_bytes)
            heap->dumped = segment->heap_bytes;
        madvise(segment->heap, heap->dumped, MADV_DODUMP);
    }
    pthread_mutex_unlock(&heap->lock);
    return error;
}

static void warn_full(struct shared_heap *heap, size_t bytes)
{
    struct heap_usage usage;
    bool warned;

    pthread_mutex_lock(&heap->lock);
    warned = heap->warned;
    heap->warned = true;
    pthread_mutex_unlock(&heap->lock);
    if (warned)
        return;
    heap_usage(heap->allocator, &usage);
    log_warn(
        "the shared heap of %zu bytes (PAMI_HEAP_BYTES) has no room for %zu more: %zu bytes are "
        "taken, by %zu blocks",
        usage.bytes, bytes, usage.used, usage.blocks);
}

int shared_heap_alloc(struct shared_heap *heap, size_t bytes, size_t alignment, int node,
                      void **address)
{
    char *base = heap->segment->heap;
    bool placed = heap->several_nodes && (node >= 0 || bytes >= heap->page);
    size_t offset;
    int error;

    if (bytes > heap->segment->heap_bytes)
        return -ENOSPC;
    /* Whole pages, so that placing them moves nobody else's. */
    if (placed) {
        bytes = (bytes + heap->page - 1) & ~(heap->page - 1);
        alignment = alignment > heap->page ? alignment : heap->page;
    }
    error = heap_alloc(heap->allocator, bytes, alignment, &offset);
    if (error == -ENOSPC)
        warn_full(heap, bytes);
    if (error != 0)
        return error;
    error = segment_back(heap->segment,
                         (uint64_t)file_offset(heap->segment, heap->segment->self) + offset, bytes);
    if (error == 0)
        error = make_usable(heap, offset + bytes);
    if (error != 0) {
        heap_free(heap->allocator, offset);
        return error;
    }
    if (placed && numa_place(base + offset, bytes, node) != 0)
        log_debug("shared heap: cannot place %zu bytes on node %d", bytes, node);
    *address = base + offset;
    return 0;
}

int shared_heap_free(struct shared_heap *heap, void *address)
{
    uint64_t offset = (uint64_t)(uintptr_t)address - (uint64_t)(uintptr_t)heap->segment->heap;

    return offset < heap->segment->heap_bytes ? heap_free(heap->allocator, offset) : -EINVAL;
}

int shared_heap_view(struct shared_heap *heap, uint32_t member, struct heap_view *view)
{
    const struct segment *segment = heap->segment;
    const struct segment_member *facts = segment_member(segment, member);
    char *mapped = atomic_load_explicit(&heap->mapped[member], memory_order_acquire);
    char *mine;

    if (facts->heap_bytes == 0 || facts->heap_bytes > segment->layout.heap_stride)
        return -ENOENT;
    if (member == segment->self) {
        int error = make_usable(heap, 0);

        if (error != 0)
            return error;
    } else if (mapped == NULL) {
        int error = -ENOMEM;

        mine = segment_reserve(facts->heap_bytes);
        if (mine != NULL)
            error = map_part(segment, member, facts->heap_bytes, mine);
        if (error != 0) {
            if (mine != NULL)
                munmap(mine, facts->heap_bytes);
            return error;
        }
        /* Another thread may have been faster. */
        if (atomic_compare_exchange_strong(&heap->mapped[member], &mapped, mine))
            mapped = mine;
        else
            munmap(mine, facts->heap_bytes);
    }
    *view = (struct heap_view){
        .remote = facts->heap_address, .bytes = facts->heap_bytes, .local = mapped};
    return 0;
}
