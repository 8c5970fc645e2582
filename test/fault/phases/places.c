/*
 * The names of the phases: what the store is that a task does not come to. See stores.h.
 */
#include "fault/phases/places.h"

#include <stdint.h>

#include "coll/shared/arena.h"
#include "context/context.h"
#include "device/shm/segment.h"
#include "device/shm/shm.h"

extern const struct device_ops shm_device_ops; /* shm.c */

static struct context *context;
static const struct segment *segment;

void places_init(pami_context_t handle)
{
    struct client_core *core;

    context = context_from_handle(handle);
    core = context->core;
    for (size_t i = 0; i < core->device_count; i++)
        if (core->devices[i]->ops == &shm_device_ops)
            segment = container_of(core->devices[i], struct shm_device, device)->segment;
}

/* As if there were a processor for each task. */
void places_calm(void)
{
    context->core->yield = YIELD_SELDOM;
}

pid_t places_process(size_t task)
{
    return segment_member(segment, (uint32_t)task)->pid;
}

/* Of geometries, but for the one that is never destroyed. */
size_t places_arenas(void)
{
    const struct list *item;
    size_t count = 0;

    list_for_each (item, &context->shared->arenas)
        count += list_entry(item, struct arena, link)->closing;
    return count;
}

static struct store_place line_place(const struct arena *arena, const struct arena_line *line,
                                     size_t at)
{
    size_t row = (size_t)(line - arena_lines(arena)) / arena->size;
    enum arena_kind kind = row > ARENA_SLICES ? LINE_STAGE : LINE_POST;

    if (row == 0)
        return (struct store_place){at == 0 ? "done" : "segment done", STORE_SIGNAL};
    if (kind == LINE_STAGE)
        return (struct store_place){at == 0 ? "result" : "segment of the result", STORE_SIGNAL};
    if (at == 0)
        return (struct store_place){"post", STORE_SIGNAL};
    return (struct store_place){at == 8 ? "post segment, or data" : "data beside",
                                at == 8 ? STORE_SIGNAL : STORE_DATA};
}

static bool place_in(const struct arena *arena, const char *address, struct store_place *place)
{
    size_t offset = (size_t)(address - arena->memory), at = offset % CACHE_LINE;
    const struct arena_slice *slices = arena_slice(arena, 0);

    if (arena->memory == NULL || address < arena->memory ||
        offset >= arena_bytes(arena->buffer_bytes, arena->size))
        return false;
    if (offset >= arena_control_bytes(arena->size))
        *place = (struct store_place){"fill", STORE_FILL};
    else if (offset < CACHE_LINE)
        *place = (struct store_place){"break", STORE_SIGNAL};
    else if (address >= (const char *)arena_lines(arena))
        *place = line_place(arena, (const struct arena_line *)(const void *)(address - at), at);
    else if ((size_t)(address - (const char *)slices) % sizeof(struct arena_slice) < CACHE_LINE)
        *place = (struct store_place){"arrive", STORE_SIGNAL};
    else
        *place = (struct store_place){at == 0 ? "release" : "combine",
                                      at == 0 ? STORE_SIGNAL : STORE_DATA};
    return true;
}

static struct store_place segment_place(const char *address)
{
    const struct segment_layout *layout = &segment->layout;
    size_t offset = (size_t)(address - segment->base) - SEGMENT_PAGE;
    size_t member = offset / layout->member_stride;
    size_t at = offset % layout->member_stride - SEGMENT_PAGE;
    bool own = member == segment->self;

    at %= layout->context_stride;
    if (at >= layout->chunk_offset)
        return (struct store_place){own ? "fill chunk" : "free chunk",
                                    own ? STORE_FILL : STORE_SIGNAL};
    return (struct store_place){own ? "read" : "send", STORE_SIGNAL};
}

struct store_place places_of(const void *pointer)
{
    const char *address = pointer;
    struct store_place place = {"heap", STORE_SIGNAL};
    const struct list *item;

    list_for_each (item, &context->shared->arenas)
        if (place_in(list_entry(item, struct arena, link), address, &place))
            return place;
    if (address >= segment->base && address < segment->base + segment->layout.bytes)
        return segment_place(address);
    return place;
}
