/*
 * The sending context's side of chunks. See chunk.h.
 */
#include "device/shm/chunk.h"

#include <errno.h>
#include <stdlib.h>

static struct chunk *chunk_at(const struct chunk_pool *pool, uint32_t index)
{
    return (struct chunk *)(void *)(pool->first + index * pool->segment->layout.chunk_stride);
}

static bool is_free(const struct chunk_pool *pool, uint32_t index)
{
    return atomic_load_explicit(&chunk_at(pool, index)->busy, memory_order_acquire) == 0; /* K2 */
}

static void sent_push(struct chunk_pool *pool, uint32_t index)
{
    pool->sent[(pool->sent_head + pool->sent_count++) % pool->count] = index;
}

static uint32_t sent_pop(struct chunk_pool *pool)
{
    uint32_t index = pool->sent[pool->sent_head];

    pool->sent_head = (pool->sent_head + 1) % pool->count;
    pool->sent_count--;
    return index;
}

int chunk_pool_init(struct chunk_pool *pool, struct segment *segment, uint32_t offset)
{
    uint32_t count = segment->layout.chunks;
    size_t room = (segment->layout.chunk_bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;

    *pool = (struct chunk_pool){
        .segment = segment,
        .inbox = segment_inbox(segment, segment->self, offset),
        .first = (char *)segment_chunk(segment, segment->self, offset, 0),
        .free = calloc(count, sizeof(*pool->free)),
        .sent = aligned_alloc(CACHE_LINE, chunk_ring_bytes(count) + room),
        .count = count,
    };
    pool->touched = pool->inbox->chunks;
    if (pool->free == NULL || pool->sent == NULL) {
        chunk_pool_finish(pool);
        return -ENOMEM;
    }
    for (uint32_t i = count; i-- > 0;) {
        if (i >= pool->touched || is_free(pool, i))
            pool->free[pool->free_count++] = i;
        else
            sent_push(pool, i);
    }
    return 0;
}

void chunk_pool_finish(struct chunk_pool *pool)
{
    pool->inbox->chunks = pool->touched;
    free(pool->free);
    free(pool->sent);
    pool->free = NULL;
    pool->sent = NULL;
}

/* Move all that came back from `sent` to `free`. */
static void collect(struct chunk_pool *pool)
{
    for (uint32_t i = pool->sent_count; i > 0; i--) {
        uint32_t index = sent_pop(pool);

        if (is_free(pool, index))
            pool->free[pool->free_count++] = index;
        else
            sent_push(pool, index);
    }
}

static bool holds_some(const struct chunk_pool *pool, uint32_t endpoint)
{
    for (uint32_t i = 0; i < pool->sent_count; i++)
        if (chunk_at(pool, pool->sent[(pool->sent_head + i) % pool->count])->dest == endpoint)
            return true;
    return false;
}

struct chunk *chunk_get(struct chunk_pool *pool, uint32_t endpoint)
{
    struct chunk *chunk;
    uint32_t index;

    if (pool->sent_count != 0 && pool->free_count != 0 &&
        is_free(pool, pool->sent[pool->sent_head])) {
        index = sent_pop(pool);
    } else {
        if (pool->free_count <= 1)
            collect(pool);
        if (pool->free_count == 0 || (pool->free_count == 1 && holds_some(pool, endpoint)))
            return NULL;
        index = pool->free[--pool->free_count];
    }
    sent_push(pool, index);
    if (unlikely(index >= pool->touched))
        pool->touched = index + 1;
    chunk = chunk_at(pool, index);
    chunk->dest = endpoint;
    chunk->uses = chunk->uses == UINT32_MAX ? 1 : chunk->uses + 1;
    atomic_store_explicit(&chunk->busy, chunk->uses, memory_order_relaxed);
    return chunk;
}

void chunk_unget(struct chunk_pool *pool, struct chunk *chunk)
{
    uint32_t index =
        (uint32_t)(((uint64_t)((char *)chunk - pool->first)) / pool->segment->layout.chunk_stride);

    pool->sent_count--;
    atomic_store_explicit(&chunk->busy, 0, memory_order_relaxed);
    pool->free[pool->free_count++] = index;
}

void chunk_reclaim(struct chunk_pool *pool, uint32_t endpoint)
{
    for (uint32_t i = 0; i < pool->sent_count; i++) {
        struct chunk *chunk = chunk_at(pool, pool->sent[(pool->sent_head + i) % pool->count]);

        if (chunk->dest == endpoint)
            atomic_store_explicit(&chunk->busy, 0, memory_order_relaxed);
    }
}
