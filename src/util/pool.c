/*
 * Slabs behind a pool, see pool.h.  A slab is one allocation: a link, then the objects.
 */
#include "util/pool.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* A slab stops growing here, unless a single object is larger. */
#define SLAB_BYTES_MAX (256u << 10)
/* The first slab has so many objects, or fewer, but two, where these are large: most contexts have
 * few in use at a time. */
#define FIRST_OBJECTS 16
#define FIRST_BYTES 1024u

struct pool_slab {
    struct pool_slab *next;
    size_t bytes;
};

static size_t round_up(size_t value, size_t align)
{
    return (value + align - 1) & ~(align - 1);
}

static size_t first_objects(const struct pool *pool)
{
    size_t fitting = pool->stride != 0 ? FIRST_BYTES / pool->stride : 0;

    if (fitting < 2)
        return 2;
    return fitting < FIRST_OBJECTS ? fitting : FIRST_OBJECTS;
}

void pool_init(struct pool *pool, size_t object_size, size_t align)
{
    if (align < sizeof(void *))
        align = sizeof(void *);
    if (object_size < sizeof(struct pool_item))
        object_size = sizeof(struct pool_item);
    pool->free = NULL;
    pool->slabs = NULL;
    pool->stride = round_up(object_size, align);
    pool->align = align;
    pool->grow = first_objects(pool);
}

void pool_finish(struct pool *pool)
{
    while (pool->slabs != NULL) {
        struct pool_slab *slab = pool->slabs;

        POOL_UNPOISON(slab, slab->bytes);
        pool->slabs = slab->next;
        free(slab);
    }
    pool->free = NULL;
    pool->grow = first_objects(pool);
}

int pool_grow(struct pool *pool)
{
    size_t first = round_up(sizeof(struct pool_slab), pool->align);
    size_t count = pool->grow, bytes;
    struct pool_slab *slab;

    if (pool->stride == 0 || count > (SIZE_MAX - first - pool->align) / pool->stride)
        return -ENOMEM;
    bytes = round_up(first + count * pool->stride, pool->align);
    slab = aligned_alloc(pool->align, bytes);
    if (slab == NULL)
        return -ENOMEM;
    slab->next = pool->slabs;
    slab->bytes = bytes;
    pool->slabs = slab;
    /* Handed out from the lowest address up. */
    while (count-- > 0) {
        struct pool_item *item = (void *)((char *)slab + first + count * pool->stride);

        item->next = pool->free;
        pool->free = item;
        POOL_POISON(item, pool->stride);
    }
    if (pool->grow * 2 * pool->stride <= SLAB_BYTES_MAX)
        pool->grow *= 2;
    return 0;
}
