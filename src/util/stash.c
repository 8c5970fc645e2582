/*
 * Large memory that is kept, see stash.h.
 */
#include "util/stash.h"

#include <stdint.h>
#include <stdlib.h>

#include "util/cpu.h"
#include "util/pool.h"

#define ALIGNMENT 64u

struct block {
    struct list link;
    size_t bytes;
    _Alignas(ALIGNMENT) char data[];
};

static struct block *block_of(struct list *item)
{
    return list_entry(item, struct block, link);
}

static void forget(struct stash *stash, struct block *block)
{
    list_remove(&block->link);
    stash->count--;
    stash->bytes -= block->bytes;
    POOL_UNPOISON(block->data, block->bytes);
}

static void keep_at_most(struct stash *stash, size_t count, size_t bytes)
{
    while (stash->count > count || stash->bytes > bytes) {
        struct block *block = block_of(stash->kept.prev);

        forget(stash, block);
        free(block);
    }
}

void stash_init(struct stash *stash, size_t most)
{
    *stash = (struct stash){.most = most};
    list_init(&stash->kept);
}

void stash_finish(struct stash *stash)
{
    stash->most = 0;
    keep_at_most(stash, 0, 0);
}

static struct block *block_new(size_t bytes)
{
    size_t size = sizeof(struct block) + bytes;

    if (size < bytes || size > SIZE_MAX - ALIGNMENT)
        return NULL;
    return aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

/* The smallest that is large enough, and no more than half of it in vain. */
static struct block *kept_for(struct stash *stash, size_t bytes)
{
    struct block *best = NULL;
    struct list *item;

    list_for_each (item, &stash->kept) {
        struct block *block = block_of(item);

        if (block->bytes == bytes)
            return block;
        if (block->bytes > bytes && block->bytes / 2 <= bytes &&
            (best == NULL || block->bytes < best->bytes))
            best = block;
    }
    return best;
}

void *stash_get(struct stash *stash, size_t bytes)
{
    struct block *block = bytes >= STASH_LEAST ? kept_for(stash, bytes) : NULL;

    if (block != NULL) {
        forget(stash, block);
        return block->data;
    }
    block = block_new(bytes);
    if (unlikely(block == NULL) && stash->count != 0) {
        keep_at_most(stash, 0, 0);
        block = block_new(bytes);
    }
    if (block == NULL)
        return NULL;
    block->bytes = bytes;
    return block->data;
}

void stash_put(struct stash *stash, void *data)
{
    struct block *block;

    if (data == NULL)
        return;
    block = (struct block *)(void *)((char *)data - offsetof(struct block, data));
    if (block->bytes < STASH_LEAST || block->bytes > stash->most) {
        free(block);
        return;
    }
    POOL_POISON(block->data, block->bytes);
    list_push_front(&stash->kept, &block->link);
    stash->count++;
    stash->bytes += block->bytes;
    keep_at_most(stash, STASH_COUNT, stash->most);
}
