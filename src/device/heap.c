/*
 * The allocator of heap.h.
 *
 * The range is a sequence of extents in the order of their addresses, each free or taken, no two
 * neighbours free. Free extents are in bins by size, four to a power of two; taken ones are found
 * by where they start. A slab is a taken extent with a map of its blocks.
 */
#include "device/heap.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "util/cpu.h"
#include "util/hash.h"
#include "util/list.h"
#include "util/pool.h"

/* Extents start and end at multiples of this: no two large blocks share a cache line. */
#define UNIT ((size_t)CACHE_LINE)

#define SLAB_BYTES 16384u
#define SLAB_LEAST 16u /* smallest block */
#define SLAB_WORDS (SLAB_BYTES / SLAB_LEAST / 64u)

#define BINS 256u
#define BUCKETS_AT_FIRST 256u

/* Free bytes with pages behind them that are kept before any are released. */
#define KEEP_BYTES ((size_t)4 << 20)

/* Extents of the best bin that are looked at before a larger bin is used. */
#define LOOKS 16u

static const uint16_t class_bytes[] = {16,  32,  48,  64,  80,  96,  112, 128,
                                       160, 192, 224, 256, 320, 384, 448, 512};

#define CLASSES (sizeof(class_bytes) / sizeof(class_bytes[0]))

struct slab {
    uint64_t taken[SLAB_WORDS]; /* a bit per block */
    uint16_t class;
    uint16_t blocks, used;
    struct extent *extent;
    struct list link; /* in the class's list while a block is free */
};

struct extent {
    size_t offset, bytes;
    bool free;
    struct slab *slab;
    size_t dirty, dirty_end; /* free: pages may be behind this part; empty when equal */
    struct list order;       /* by address */
    struct list link;        /* free: in its bin */
    struct list unclean;     /* free and dirty */
    struct extent *next;     /* taken: in its bucket */
};

struct heap {
    pthread_mutex_t lock;
    heap_release_function *release;
    void *cookie;
    size_t page;
    struct heap_usage usage;
    struct pool extents, slabs;
    struct list order, unclean;
    struct list bins[BINS];
    uint64_t filled[BINS / 64]; /* bins that are not empty */
    struct extent **buckets;
    size_t bucket_count, taken;
    struct list partial[CLASSES]; /* slabs with a free block */
    struct slab *spare[CLASSES];  /* one empty slab per class is kept */
};

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) & ~(unit - 1);
}

static size_t round_down(size_t value, size_t unit)
{
    return value & ~(unit - 1);
}

/* ---- taken extents, by offset ---- */

static size_t bucket_of(const struct heap *heap, size_t offset)
{
    return hash_of(offset / UNIT) & (heap->bucket_count - 1);
}

/* More buckets when there is memory for them; it works without. */
static void buckets_grow(struct heap *heap)
{
    size_t old_count = heap->bucket_count;
    struct extent **old = heap->buckets;
    struct extent **buckets = calloc(2 * old_count, sizeof(*buckets));

    if (buckets == NULL)
        return;
    heap->buckets = buckets;
    heap->bucket_count = 2 * old_count;
    for (size_t i = 0; i < old_count; i++) {
        struct extent *extent = old[i];

        while (extent != NULL) {
            struct extent *next = extent->next;
            size_t bucket = bucket_of(heap, extent->offset);

            extent->next = buckets[bucket];
            buckets[bucket] = extent;
            extent = next;
        }
    }
    free(old);
}

static void taken_add(struct heap *heap, struct extent *extent)
{
    size_t bucket;

    if (++heap->taken > heap->bucket_count)
        buckets_grow(heap);
    bucket = bucket_of(heap, extent->offset);
    extent->next = heap->buckets[bucket];
    heap->buckets[bucket] = extent;
    heap->usage.used += extent->bytes;
}

static struct extent *taken_find(const struct heap *heap, size_t offset)
{
    struct extent *extent = heap->buckets[bucket_of(heap, offset)];

    while (extent != NULL && extent->offset != offset)
        extent = extent->next;
    return extent;
}

static void taken_remove(struct heap *heap, struct extent *extent)
{
    struct extent **at = &heap->buckets[bucket_of(heap, extent->offset)];

    while (*at != extent)
        at = &(*at)->next;
    *at = extent->next;
    heap->taken--;
    heap->usage.used -= extent->bytes;
}

/* ---- free extents, by size ---- */

/* Bins 4n .. 4n+3 hold sizes from UNIT << n to just below UNIT << (n+1). */
static unsigned bin_of(size_t bytes)
{
    size_t units = bytes / UNIT;
    unsigned log = 63u - (unsigned)__builtin_clzll(units);

    return 4 * log +
           (log >= 2 ? (unsigned)(units >> (log - 2)) & 3u : (unsigned)(units << (2 - log)) & 3u);
}

static void free_add(struct heap *heap, struct extent *extent)
{
    unsigned bin = bin_of(extent->bytes);

    extent->free = true;
    list_push_front(&heap->bins[bin], &extent->link);
    heap->filled[bin / 64] |= UINT64_C(1) << bin % 64;
    if (extent->dirty < extent->dirty_end) {
        list_push_back(&heap->unclean, &extent->unclean);
        heap->usage.dirty += extent->dirty_end - extent->dirty;
    }
}

static void free_remove(struct heap *heap, struct extent *extent)
{
    unsigned bin = bin_of(extent->bytes);

    extent->free = false;
    list_remove(&extent->link);
    if (list_empty(&heap->bins[bin]))
        heap->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
    if (extent->dirty < extent->dirty_end) {
        list_remove(&extent->unclean);
        heap->usage.dirty -= extent->dirty_end - extent->dirty;
    }
}

static bool fits(const struct extent *extent, size_t bytes, size_t alignment)
{
    size_t gap = round_up(extent->offset, alignment) - extent->offset;

    return extent->bytes >= gap && extent->bytes - gap >= bytes;
}

static unsigned next_filled(const struct heap *heap, unsigned bin)
{
    while (bin < BINS) {
        uint64_t word = heap->filled[bin / 64] >> bin % 64;

        if (word != 0)
            return bin + (unsigned)__builtin_ctzll(word);
        bin = (bin / 64 + 1) * 64;
    }
    return BINS;
}

static struct extent *find_in_bin(struct heap *heap, unsigned bin, size_t bytes, size_t alignment,
                                  size_t looks)
{
    struct list *item;

    list_for_each (item, &heap->bins[bin]) {
        struct extent *extent = list_entry(item, struct extent, link);

        if (fits(extent, bytes, alignment))
            return extent;
        if (looks-- == 0)
            break;
    }
    return NULL;
}

/* First fit from the smallest bin that can have one; a long bin is searched whole only when no
 * larger one has room. */
static struct extent *find_free(struct heap *heap, size_t bytes, size_t alignment)
{
    for (int pass = 0; pass < 2; pass++)
        for (unsigned bin = next_filled(heap, bin_of(bytes)); bin < BINS;
             bin = next_filled(heap, bin + 1)) {
            struct extent *extent =
                find_in_bin(heap, bin, bytes, alignment, pass == 0 ? LOOKS : SIZE_MAX);

            if (extent != NULL)
                return extent;
        }
    return NULL;
}

/* ---- extents ---- */

static struct extent *extent_new(struct heap *heap, size_t offset, size_t bytes)
{
    struct extent *extent = pool_get(&heap->extents);

    if (extent == NULL)
        return NULL;
    *extent = (struct extent){.offset = offset, .bytes = bytes};
    list_init(&extent->order);
    list_init(&extent->link);
    list_init(&extent->unclean);
    return extent;
}

/* What of `from`'s dirty part lies in `to`. */
static void dirty_inherit(struct extent *to, size_t dirty, size_t dirty_end)
{
    size_t end = to->offset + to->bytes;

    to->dirty = dirty > to->offset ? dirty : to->offset;
    to->dirty_end = dirty_end < end ? dirty_end : end;
    if (to->dirty >= to->dirty_end)
        to->dirty = to->dirty_end = to->offset;
}

/* Cut [offset, offset + bytes) out of a free extent that is off its bin. */
static int carve(struct heap *heap, struct extent *extent, size_t offset, size_t bytes)
{
    size_t end = extent->offset + extent->bytes;
    size_t dirty = extent->dirty;
    size_t dirty_end = extent->dirty_end;
    struct extent *before = NULL;
    struct extent *behind = NULL;

    if (offset > extent->offset)
        before = extent_new(heap, extent->offset, offset - extent->offset);
    if (offset + bytes < end)
        behind = extent_new(heap, offset + bytes, end - offset - bytes);
    if ((offset > extent->offset && before == NULL) || (offset + bytes < end && behind == NULL)) {
        if (before != NULL)
            pool_put(&heap->extents, before);
        if (behind != NULL)
            pool_put(&heap->extents, behind);
        return -ENOMEM;
    }
    extent->offset = offset;
    extent->bytes = bytes;
    if (before != NULL) {
        list_insert_after(extent->order.prev, &before->order);
        dirty_inherit(before, dirty, dirty_end);
        free_add(heap, before);
    }
    if (behind != NULL) {
        list_insert_after(&extent->order, &behind->order);
        dirty_inherit(behind, dirty, dirty_end);
        free_add(heap, behind);
    }
    return 0;
}

static int extent_alloc(struct heap *heap, size_t bytes, size_t alignment, struct extent **out)
{
    struct extent *extent;
    int error;

    if (bytes > heap->usage.bytes)
        return -ENOSPC;
    bytes = round_up(bytes, UNIT);
    if (alignment < UNIT)
        alignment = UNIT;
    extent = find_free(heap, bytes, alignment);
    if (extent == NULL)
        return -ENOSPC;
    free_remove(heap, extent);
    error = carve(heap, extent, round_up(extent->offset, alignment), bytes);
    if (error != 0) {
        free_add(heap, extent);
        return error;
    }
    taken_add(heap, extent);
    *out = extent;
    return 0;
}

/* `extent` swallows `other`, its successor. Both are off the bins, or were never on one. */
static void merge(struct heap *heap, struct extent *extent, struct extent *other)
{
    if (other->dirty < other->dirty_end) {
        if (extent->dirty >= extent->dirty_end)
            extent->dirty = other->dirty;
        extent->dirty_end = other->dirty_end;
    }
    extent->bytes += other->bytes;
    list_remove(&other->order);
    pool_put(&heap->extents, other);
}

static struct extent *neighbour(struct heap *heap, struct list *order)
{
    struct extent *extent;

    if (order == &heap->order)
        return NULL;
    extent = list_entry(order, struct extent, order);
    return extent->free ? extent : NULL;
}

/* Release every page that only free extents lie on. */
static void clean(struct heap *heap)
{
    struct list *item;

    while ((item = list_first(&heap->unclean)) != NULL) {
        struct extent *extent = list_entry(item, struct extent, unclean);
        size_t start = round_down(extent->dirty, heap->page);
        size_t end = round_up(extent->dirty_end, heap->page);

        if (start < extent->offset)
            start = round_up(extent->offset, heap->page);
        if (end > extent->offset + extent->bytes)
            end = round_down(extent->offset + extent->bytes, heap->page);
        heap->usage.dirty -= extent->dirty_end - extent->dirty;
        extent->dirty = extent->dirty_end = extent->offset;
        list_remove(&extent->unclean);
        if (start < end)
            heap->release(heap->cookie, start, end - start);
    }
}

static void extent_free(struct heap *heap, struct extent *extent)
{
    struct extent *before = neighbour(heap, extent->order.prev);
    struct extent *behind = neighbour(heap, extent->order.next);

    taken_remove(heap, extent);
    extent->dirty = extent->offset;
    extent->dirty_end = extent->offset + extent->bytes;
    if (before != NULL) {
        free_remove(heap, before);
        merge(heap, before, extent);
        extent = before;
    }
    if (behind != NULL) {
        free_remove(heap, behind);
        merge(heap, extent, behind);
    }
    free_add(heap, extent);
    if (heap->usage.dirty > KEEP_BYTES)
        clean(heap);
}

/* ---- slabs ---- */

/* The class whose blocks are large enough and lie on multiples of `alignment`, or CLASSES. */
static size_t class_of(size_t bytes, size_t alignment)
{
    size_t class = 0;

    while (class < CLASSES && (class_bytes[class] < bytes || class_bytes[class] % alignment != 0))
        class ++;
    return class;
}

static int slab_new(struct heap *heap, size_t class, struct slab **out)
{
    struct slab *slab = pool_get(&heap->slabs);
    int error;

    if (slab == NULL)
        return -ENOMEM;
    *slab = (struct slab){.class = (uint16_t) class,
                          .blocks = (uint16_t)(SLAB_BYTES / class_bytes[class])};
    error = extent_alloc(heap, SLAB_BYTES, SLAB_BYTES, &slab->extent);
    if (error != 0) {
        pool_put(&heap->slabs, slab);
        return error;
    }
    slab->extent->slab = slab;
    list_push_front(&heap->partial[class], &slab->link);
    *out = slab;
    return 0;
}

static void slab_free(struct heap *heap, struct slab *slab)
{
    struct extent *extent = slab->extent;

    list_remove(&slab->link);
    extent->slab = NULL;
    pool_put(&heap->slabs, slab);
    extent_free(heap, extent);
}

static int small_alloc(struct heap *heap, size_t class, size_t *offset)
{
    struct list *item = list_first(&heap->partial[class]);
    struct slab *slab = item != NULL ? list_entry(item, struct slab, link) : NULL;
    unsigned word = 0;
    unsigned bit;
    int error;

    if (slab == NULL) {
        error = slab_new(heap, class, &slab);
        if (error != 0)
            return error;
    }
    while (slab->taken[word] == UINT64_MAX)
        word++;
    bit = (unsigned)__builtin_ctzll(~slab->taken[word]);
    slab->taken[word] |= UINT64_C(1) << bit;
    if (heap->spare[class] == slab)
        heap->spare[class] = NULL;
    if (++slab->used == slab->blocks)
        list_remove(&slab->link);
    *offset = slab->extent->offset + (size_t)(64 * word + bit) * class_bytes[class];
    return 0;
}

static int small_free(struct heap *heap, struct slab *slab, size_t within)
{
    size_t class = slab->class;
    size_t block = within / class_bytes[class];
    uint64_t bit = UINT64_C(1) << block % 64;

    if (within % class_bytes[class] != 0 || block >= slab->blocks ||
        !(slab->taken[block / 64] & bit))
        return -EINVAL;
    slab->taken[block / 64] &= ~bit;
    if (slab->used-- == slab->blocks)
        list_push_back(&heap->partial[class], &slab->link);
    if (slab->used == 0) {
        if (heap->spare[class] != NULL)
            slab_free(heap, slab);
        else
            heap->spare[class] = slab;
    }
    return 0;
}

/* Empty slabs are worth less than a large block. True: there is more room now. */
static bool give_up_spares(struct heap *heap)
{
    bool any = false;

    for (size_t class = 0; class < CLASSES; class ++) {
        if (heap->spare[class] == NULL)
            continue;
        slab_free(heap, heap->spare[class]);
        heap->spare[class] = NULL;
        any = true;
    }
    return any;
}

/* ---- the heap ---- */

int heap_create(size_t bytes, size_t page, heap_release_function *release, void *cookie,
                struct heap **out)
{
    struct heap *heap = calloc(1, sizeof(*heap));
    struct extent *all;

    if (heap == NULL)
        return -ENOMEM;
    bytes = round_down(bytes, page);
    heap->page = page;
    heap->release = release;
    heap->cookie = cookie;
    heap->usage.bytes = bytes;
    heap->bucket_count = BUCKETS_AT_FIRST;
    heap->buckets = calloc(heap->bucket_count, sizeof(struct extent *));
    pthread_mutex_init(&heap->lock, NULL);
    pool_init(&heap->extents, sizeof(struct extent), 0);
    pool_init(&heap->slabs, sizeof(struct slab), 0);
    list_init(&heap->order);
    list_init(&heap->unclean);
    for (size_t i = 0; i < BINS; i++)
        list_init(&heap->bins[i]);
    for (size_t i = 0; i < CLASSES; i++)
        list_init(&heap->partial[i]);
    all = bytes != 0 ? extent_new(heap, 0, bytes) : NULL;
    if (heap->buckets == NULL || (bytes != 0 && all == NULL)) {
        heap_destroy(heap);
        return -ENOMEM;
    }
    if (all != NULL) {
        list_push_back(&heap->order, &all->order);
        free_add(heap, all);
    }
    *out = heap;
    return 0;
}

void heap_destroy(struct heap *heap)
{
    if (heap == NULL)
        return;
    pool_finish(&heap->extents);
    pool_finish(&heap->slabs);
    pthread_mutex_destroy(&heap->lock);
    free(heap->buckets);
    free(heap);
}

int heap_alloc(struct heap *heap, size_t bytes, size_t alignment, size_t *offset)
{
    size_t class = bytes <= HEAP_SMALL ? class_of(bytes, alignment) : CLASSES;
    struct extent *extent;
    int error = -ENOSPC;

    pthread_mutex_lock(&heap->lock);
    if (class != CLASSES)
        error = small_alloc(heap, class, offset);
    if (error == -ENOSPC) {
        error = extent_alloc(heap, bytes, alignment, &extent);
        if (error == -ENOSPC && give_up_spares(heap))
            error = extent_alloc(heap, bytes, alignment, &extent);
        if (error == 0)
            *offset = extent->offset;
    }
    if (error == 0)
        heap->usage.blocks++;
    pthread_mutex_unlock(&heap->lock);
    return error;
}

int heap_free(struct heap *heap, size_t offset)
{
    struct extent *extent;
    int error = -EINVAL;

    pthread_mutex_lock(&heap->lock);
    extent = taken_find(heap, offset);
    if (extent == NULL || extent->slab != NULL) {
        extent = taken_find(heap, round_down(offset, SLAB_BYTES));
        if (extent != NULL && extent->slab != NULL)
            error = small_free(heap, extent->slab, offset - extent->offset);
    } else {
        extent_free(heap, extent);
        error = 0;
    }
    if (error == 0)
        heap->usage.blocks--;
    pthread_mutex_unlock(&heap->lock);
    return error;
}

void heap_usage(struct heap *heap, struct heap_usage *usage)
{
    pthread_mutex_lock(&heap->lock);
    *usage = heap->usage;
    pthread_mutex_unlock(&heap->lock);
}
