/*
 * Send buffers: see buffers.h.
 */
#include "device/ofi/buffers.h"

#include <errno.h>
#include <stdlib.h>

#include "util/cpu.h"
#include "util/log.h"

/* One in so many is for links that have none. */
#define LAST_PART 8u

/* Those that were made together. */
struct block {
    struct list link;
    struct ofi_region region;
    char *memory;
    struct ofi_buffer buffers[];
};

static void block_free(struct block *block)
{
    ofi_region_release(&block->region);
    free(block->memory);
    free(block);
}

/* Providers that want to know what is sent from are told of it. */
static int make_known(struct ofi_slot *slot, struct block *block, size_t bytes)
{
    uint64_t key; /* of no use, but each needs one of its own */

    if ((slot->device->provider.info->domain_attr->mr_mode & FI_MR_LOCAL) == 0)
        return 0;
    return ofi_region_expose(slot, block->memory, bytes, FI_SEND, &block->region, &key);
}

static int make_block(struct ofi_slot *slot, uint32_t count)
{
    size_t bytes = (count * slot->message_max + 4095) & ~(size_t)4095;
    struct block *block = calloc(1, sizeof(*block) + count * sizeof(block->buffers[0]));
    int error = -ENOMEM;

    if (block == NULL)
        return -ENOMEM;
    block->memory = aligned_alloc(4096, bytes);
    if (block->memory != NULL)
        error = make_known(slot, block, bytes);
    if (error != 0) {
        block_free(block);
        return error;
    }
    list_push_back(&slot->blocks, &block->link);
    for (uint32_t i = 0; i < count; i++) {
        struct ofi_buffer *buffer = &block->buffers[i];

        buffer->memory = block->memory + i * slot->message_max;
        buffer->descriptor = block->region.descriptor;
        buffer->operation.done = ofi_buffer_done;
        list_push_back(&slot->free, &buffer->operation.link);
    }
    slot->free_count += count;
    return 0;
}

int ofi_buffers_make(struct ofi_slot *slot, uint32_t count)
{
    slot->last_count = count < LAST_PART ? 1 : count / LAST_PART;
    return make_block(slot, count);
}

void ofi_buffers_free(struct ofi_slot *slot)
{
    struct list *item;

    while ((item = list_pop_front(&slot->blocks)) != NULL)
        block_free(list_entry(item, struct block, link));
}

/* That happens once for every so many destinations that read nothing. */
void ofi_buffers_tend(struct ofi_slot *slot)
{
    if (slot->free_count == 0 && !slot->came_back && make_block(slot, slot->last_count) == 0)
        log_debug("ofi: context %u has %u send buffers more", slot->offset, slot->last_count);
    slot->came_back = false;
}

struct ofi_buffer *ofi_buffer_get(struct ofi_link *link)
{
    struct ofi_slot *slot = link->slot;
    struct ofi_buffer *buffer;

    if (unlikely(slot->free_count <= slot->last_count) &&
        (slot->free_count == 0 || link->buffers != 0))
        return NULL;
    buffer = ofi_buffer_of(list_entry(list_pop_front(&slot->free), struct ofi_operation, link));
    slot->free_count--;
    link->buffers++;
    buffer->operation.to = link;
    buffer->bytes = 0;
    buffer->packets = 0;
    return buffer;
}

void ofi_buffer_put(struct ofi_buffer *buffer)
{
    struct ofi_link *link = buffer->operation.to;
    struct ofi_slot *slot = link->slot;

    link->buffers--;
    slot->free_count++;
    slot->came_back = true;
    list_push_front(&slot->free, &buffer->operation.link);
}
