/*
 * Allocator over a range of addresses that it never touches: it hands out offsets.
 *
 * All bookkeeping is private memory, so nothing that a peer stores into shared pages can damage
 * it, and pages are touched by whoever uses them. Up to HEAP_SMALL bytes, blocks come from slabs
 * of one size class each; larger ones are extents of their own, found by size and merged with free
 * neighbours when they are freed. What has been free for a while is given back to the system
 * through a function of the range's owner, many pages at a time.
 *
 * Thread safe. Knows nothing of mappings, files or tasks.
 */
#ifndef LIBPAMI_DEVICE_HEAP_H
#define LIBPAMI_DEVICE_HEAP_H

#include <stddef.h>

struct heap;

/* Largest block that lies in a slab. */
#define HEAP_SMALL 512u

/* The content of these whole pages is not needed any more. */
typedef void heap_release_function(void *cookie, size_t offset, size_t bytes);

/* How full a heap is. */
struct heap_usage {
    size_t bytes;  /* of the range */
    size_t used;   /* bytes of it that are taken, slabs as a whole */
    size_t blocks; /* handed out */
    size_t dirty;  /* free bytes whose pages were not released yet, at most */
};

/*
 * A heap over `bytes` bytes in pages of `page` bytes, a power of two, 4096 or more.
 * 0 or -ENOMEM.
 */
int heap_create(size_t bytes, size_t page, heap_release_function *release, void *cookie,
                struct heap **heap);

/* Frees the bookkeeping, whatever is still handed out; releases nothing. NULL is allowed. */
void heap_destroy(struct heap *heap);

/*
 * At least `bytes` bytes (not 0) at a multiple of `alignment`, a power of two, which counts within
 * the range: it is to be aligned itself.
 * 0; -ENOSPC: the range has no such room; -ENOMEM: no memory for the bookkeeping.
 */
int heap_alloc(struct heap *heap, size_t bytes, size_t alignment, size_t *offset);

/* 0, or -EINVAL when no block starts there. */
int heap_free(struct heap *heap, size_t offset);

void heap_usage(struct heap *heap, struct heap_usage *usage);

#endif
