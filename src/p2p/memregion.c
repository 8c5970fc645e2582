/*
 * Memory regions: 64 plain bytes that name an area of one task's memory, on any task.
 *
 * The bytes carry a check that is keyed with the job and the client, so that what is not a region
 * of this client, or was altered, is refused where it is used. Whether a region has been destroyed
 * is known to its owner: each has a slot in a table of the client whose value says which region has
 * it now. The table may be used by all contexts at once and takes no lock.
 *
 * A region reserves nothing on its node: single copy and packets reach any memory there. Where a
 * device is for other nodes, the region is exposed to it (device.h), and says so.
 */
#include <errno.h>
#include <stdlib.h>

#include "p2p/rma.h"
#include "p2p/rma_short.h"
#include "util/error.h"
#include "util/hash.h"

#define REGION_MAGIC UINT64_C(0x70616d69726d656d)

struct memregion {
    uint64_t magic;
    uint64_t base;
    uint64_t bytes;
    uint32_t owner; /* task */
    uint32_t slot;
    uint64_t serial; /* what the slot holds while the region lives: odd */
    struct exposure exposure;
    uint64_t check;
};

_Static_assert(sizeof(struct memregion) == sizeof(pami_memregion_t), "a region fills its storage");

#define BLOCK_SLOTS 1024u
#define BLOCKS 1024u

/* A slot's value is even while it is free, and grows by one with each change. `below`: the free
 * slot under a free one, plus 1; 0: it is the last. */
struct region_block {
    _Atomic uint64_t slots[BLOCK_SLOTS];
    _Atomic uint32_t below[BLOCK_SLOTS];
};

/*
 * Free slots are a stack, so that few blocks are ever in use. Its top counts the changes, or else a
 * top that has gone and come back would look like one that stayed: 2^32 of them would have to pass
 * between two instructions. R1 (release exchange of the top by who gives a slot back) pairs with R2
 * (acquire load by who takes it): that one sees what lies below.
 */
struct region_table {
    _Atomic uint64_t top;   /* changes << 32 | slot + 1; 0 in the low half: none is free */
    _Atomic uint32_t fresh; /* from here on no slot has ever been taken */
    _Atomic(struct region_block *) blocks[BLOCKS];
};

/* ---- the table ---- */

static struct region_table *table_of(struct client_core *core)
{
    struct region_table *table = atomic_load_explicit(&core->regions, memory_order_acquire);
    struct region_table *made;

    if (table != NULL)
        return table;
    made = calloc(1, sizeof(*made));
    if (made == NULL || atomic_compare_exchange_strong(&core->regions, &table, made))
        return made;
    free(made);
    return table;
}

void memregions_free(struct client_core *core)
{
    struct region_table *table = atomic_exchange(&core->regions, NULL);

    for (size_t i = 0; table != NULL && i < BLOCKS; i++)
        free(atomic_load_explicit(&table->blocks[i], memory_order_relaxed));
    free(table);
}

static struct region_block *block_of(struct region_table *table, uint32_t slot)
{
    _Atomic(struct region_block *) *at = &table->blocks[slot / BLOCK_SLOTS % BLOCKS];
    struct region_block *block = atomic_load_explicit(at, memory_order_acquire);
    struct region_block *made;

    if (block != NULL)
        return block;
    made = calloc(1, sizeof(*made));
    if (made == NULL || atomic_compare_exchange_strong(at, &block, made))
        return made;
    free(made);
    return block;
}

#define TOP_CHANGE (UINT64_C(1) << 32)
#define TOP_CHANGES (~(TOP_CHANGE - 1))

/* False: none has been given back. */
static bool slot_pop(struct region_table *table, uint32_t *slot)
{
    uint64_t top = atomic_load_explicit(&table->top, memory_order_acquire); /* R2 */
    uint64_t next;

    do {
        if ((uint32_t)top == 0)
            return false;
        *slot = (uint32_t)top - 1;
        next = (top & TOP_CHANGES) + TOP_CHANGE +
               atomic_load_explicit(&block_of(table, *slot)->below[*slot % BLOCK_SLOTS],
                                    memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&table->top, &top, next, memory_order_acquire,
                                                    memory_order_acquire)); /* R2 */
    return true;
}

static void slot_push(struct region_table *table, uint32_t slot)
{
    struct region_block *block = block_of(table, slot);
    uint64_t top = atomic_load_explicit(&table->top, memory_order_relaxed);

    do {
        atomic_store_explicit(&block->below[slot % BLOCK_SLOTS], (uint32_t)top,
                              memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&table->top, &top,
                                                    (top & TOP_CHANGES) + TOP_CHANGE + slot + 1,
                                                    memory_order_release, /* R1 */
                                                    memory_order_relaxed));
}

/* The next one that nobody has had. 0, -ENOMEM or -EAGAIN: all are taken. */
static int slot_new(struct region_table *table, uint32_t *slot)
{
    *slot = atomic_load_explicit(&table->fresh, memory_order_relaxed);
    do {
        if (*slot == BLOCKS * BLOCK_SLOTS)
            return -EAGAIN;
        if (block_of(table, *slot) == NULL)
            return -ENOMEM;
    } while (!atomic_compare_exchange_weak_explicit(&table->fresh, slot, *slot + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return 0;
}

/* A free slot becomes the region's. 0, -ENOMEM or -EAGAIN: all are taken. */
static int slot_take(struct region_table *table, struct memregion *region)
{
    int error = slot_pop(table, &region->slot) ? 0 : slot_new(table, &region->slot);
    _Atomic uint64_t *value;

    if (error != 0)
        return error;
    /* Nobody else writes to it: whoever destroys looks for an odd value. */
    value = &block_of(table, region->slot)->slots[region->slot % BLOCK_SLOTS];
    region->serial = atomic_load_explicit(value, memory_order_relaxed) + 1;
    atomic_store_explicit(value, region->serial, memory_order_relaxed);
    return 0;
}

/* The region's slot while it lives, else NULL. */
static _Atomic uint64_t *slot_find(struct client_core *core, const struct memregion *region)
{
    struct region_table *table = atomic_load_explicit(&core->regions, memory_order_acquire);
    struct region_block *block;

    if (table == NULL || region->slot >= BLOCKS * BLOCK_SLOTS)
        return NULL;
    block = atomic_load_explicit(&table->blocks[region->slot / BLOCK_SLOTS], memory_order_acquire);
    if (block == NULL || atomic_load_explicit(&block->slots[region->slot % BLOCK_SLOTS],
                                              memory_order_relaxed) != region->serial)
        return NULL;
    return &block->slots[region->slot % BLOCK_SLOTS];
}

/* ---- the check ---- */

/* Both halves of the product. Several do not wait for one another, as steps of hash_mix do. */
static uint64_t pair(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t check_of(const struct client_core *core, const struct memregion *region)
{
    uint64_t a = core->key[0], b = core->key[1];
    uint64_t who = (uint64_t)region->owner << 32 | region->slot;
    uint64_t way = (uint64_t)region->exposure.offset << 32 | region->exposure.id;

    return hash_mix(pair(a ^ region->base, b ^ region->bytes) ^ pair(a ^ region->serial, ~b ^ who) ^
                    pair(~a ^ region->exposure.key, b ^ way));
}

static bool is_genuine(const struct client_core *core, const struct memregion *region)
{
    return region->magic == REGION_MAGIC && region->check == check_of(core, region);
}

/* ---- exposing ---- */

static void expose(struct context *context, struct memregion *region)
{
    for (size_t i = 0; i < context->port_count && region->exposure.id == 0; i++) {
        struct port *port = context->ports[i];
        int error;

        if (port->ops->expose == NULL)
            continue;
        error = port->ops->expose(port, (void *)(uintptr_t)region->base, region->bytes, true,
                                  &region->exposure);
        if (error != 0)
            region->exposure = (struct exposure){0};
    }
}

static void conceal(struct context *context, const struct memregion *region)
{
    for (size_t i = 0; i < context->port_count && region->exposure.id != 0; i++)
        if (context->ports[i]->ops->conceal != NULL)
            context->ports[i]->ops->conceal(context->ports[i], &region->exposure);
}

/* ---- the calls ---- */

pami_result_t PAMI_Memregion_create(pami_context_t handle, void *address, size_t bytes_in,
                                    size_t *bytes_out, pami_memregion_t *memregion)
{
    struct context *context = context_from_handle(handle);
    struct memregion region = {.magic = REGION_MAGIC, .bytes = bytes_in};
    struct region_table *table;
    int error;

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Memregion_create: context: %s", context_fault(handle));
    if (address == NULL)
        return error_set(PAMI_INVAL, "PAMI_Memregion_create: address: NULL");
    if (bytes_in == 0)
        return error_set(PAMI_INVAL, "PAMI_Memregion_create: bytes_in: 0");
    if ((uintptr_t)address + bytes_in - 1 < (uintptr_t)address)
        return error_set(PAMI_INVAL,
                         "PAMI_Memregion_create: bytes_in: %zu are more than there are behind the "
                         "address",
                         bytes_in);
    if (bytes_out == NULL)
        return error_set(PAMI_INVAL, "PAMI_Memregion_create: bytes_out: NULL");
    if (memregion == NULL)
        return error_set(PAMI_INVAL, "PAMI_Memregion_create: memregion: NULL");
    table = table_of(context->core);
    error = table != NULL ? slot_take(table, &region) : -ENOMEM;
    if (error != 0)
        return error_set(PAMI_EAGAIN, "PAMI_Memregion_create: %s",
                         error == -EAGAIN ? "too many regions" : "out of memory");
    region.base = (uint64_t)(uintptr_t)address;
    region.owner = context->core->task;
    expose(context, &region);
    region.check = check_of(context->core, &region);
    memcpy(memregion, &region, sizeof(region));
    *bytes_out = bytes_in;
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Memregion_destroy(pami_context_t handle, pami_memregion_t *memregion)
{
    struct context *context = context_from_handle(handle);
    struct memregion region;
    _Atomic uint64_t *slot;
    uint64_t serial;

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Memregion_destroy: context: %s", context_fault(handle));
    if (memregion == NULL)
        return error_set(PAMI_INVAL, "PAMI_Memregion_destroy: memregion: NULL");
    memcpy(&region, memregion, sizeof(region));
    if (!is_genuine(context->core, &region))
        return error_set(PAMI_INVAL, "PAMI_Memregion_destroy: memregion: not a region");
    if (region.owner != context->core->task)
        return error_set(PAMI_INVAL, "PAMI_Memregion_destroy: memregion: is one of task %u",
                         region.owner);
    slot = slot_find(context->core, &region);
    serial = region.serial;
    if (slot == NULL || !atomic_compare_exchange_strong(slot, &serial, serial + 1))
        return error_set(PAMI_INVAL, "PAMI_Memregion_destroy: memregion: was destroyed");
    conceal(context, &region);
    slot_push(context->core->regions, region.slot);
    memset(memregion, 0, sizeof(*memregion));
    return PAMI_SUCCESS;
}

/* The layout of one side; NULL when there is none, or none that could be used. */
static const struct type *layout_of(const pami_rma_typed_t *types, bool local)
{
    const struct type *type;

    if (types == NULL)
        return NULL;
    type = type_complete_from_handle(local ? types->local : types->remote);
    return type != NULL && type_data_size(type) != 0 ? type : NULL;
}

/* All data lie in the region; of a layout, where its base is says nothing about where they are. */
static bool is_within(const struct memregion *region, size_t offset, size_t bytes,
                      const struct type *type)
{
    const struct rma_area area = {region->base, region->bytes};

    if (type != NULL)
        return rma_layout_is_within(type, region->base + offset, bytes, &area);
    return offset <= region->bytes && bytes <= region->bytes - offset;
}

/* One side of a transfer: its region, and that all of it lies in that. */
static pami_result_t resolve(const struct rma_call *call, const char *side,
                             const pami_rma_mr_t *place, uint32_t owner, const struct type *type,
                             struct memregion *region)
{
    struct client_core *core = call->context->core;
    size_t bytes = call->rma->bytes;

    if (place->mr == NULL)
        return error_set(PAMI_INVAL, "%s: rdma.%s.mr: NULL", call->function, side);
    memcpy(region, place->mr, sizeof(*region));
    if (!is_genuine(core, region))
        return error_set(PAMI_INVAL, "%s: rdma.%s.mr: not a region", call->function, side);
    if (region->owner != owner)
        return error_set(PAMI_INVAL, "%s: rdma.%s.mr: is one of task %u, not of task %u",
                         call->function, side, region->owner, owner);
    if (region->owner == core->task && slot_find(core, region) == NULL)
        return error_set(PAMI_INVAL, "%s: rdma.%s.mr: was destroyed", call->function, side);
    if (!is_within(region, place->offset, bytes, type))
        return error_set(PAMI_INVAL,
                         "%s: rdma.%s.offset: %zu and %zu bytes are not within the %zu bytes of "
                         "the region",
                         call->function, side, place->offset, bytes, (size_t)region->bytes);
    return PAMI_SUCCESS;
}

pami_result_t memregion_resolve(struct rma_call *call, const pami_rdma_t *rdma,
                                const pami_rma_typed_t *types)
{
    struct memregion near, far;
    pami_result_t result;

    /* Which task a wrong endpoint names is of no interest. */
    if (!p2p_is_valid(call->context->core, call->rma->dest))
        return p2p_no_peer(call->function, call->rma->dest, call->context->p2p, -EINVAL);
    result = resolve(call, "local", &rdma->local, call->context->core->task, layout_of(types, true),
                     &near);
    if (result == PAMI_SUCCESS)
        result = resolve(call, "remote", &rdma->remote, endpoint_task(call->rma->dest),
                         layout_of(types, false), &far);
    if (result != PAMI_SUCCESS)
        return result;
    call->local = (char *)(uintptr_t)(near.base + rdma->local.offset);
    call->remote = far.base + rdma->remote.offset;
    call->base = far.base;
    call->near = near.exposure;
    call->far = far.exposure;
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Rput(pami_context_t handle, pami_rput_simple_t *parameters)
{
    struct context *context = context_from_handle(handle);
    struct rma_call call = {.function = "PAMI_Rput", .context = context, .put = true};
    pami_result_t result;

    if (unlikely(context == NULL))
        return error_set(PAMI_INVAL, "PAMI_Rput: context: %s", context_fault(handle));
    if (unlikely(parameters == NULL))
        return error_set(PAMI_INVAL, "PAMI_Rput: parameters: NULL");
    call.rma = &parameters->rma;
    call.rdone_fn = parameters->put.rdone_fn;
    result = memregion_resolve(&call, &parameters->rdma, NULL);
    if (unlikely(result != PAMI_SUCCESS))
        return result;
    if (rma_is_short(call.rma->bytes) &&
        rma_short_put(call.function, context, call.rma,
                      &(const pami_rma_addr_t){call.local, (void *)call.remote}, call.rdone_fn))
        return PAMI_SUCCESS;
    return rma_call(&call);
}

pami_result_t PAMI_Rget(pami_context_t handle, pami_rget_simple_t *parameters)
{
    struct context *context = context_from_handle(handle);
    struct rma_call call = {.function = "PAMI_Rget", .context = context};
    pami_result_t result;

    if (unlikely(context == NULL))
        return error_set(PAMI_INVAL, "PAMI_Rget: context: %s", context_fault(handle));
    if (unlikely(parameters == NULL))
        return error_set(PAMI_INVAL, "PAMI_Rget: parameters: NULL");
    call.rma = &parameters->rma;
    result = memregion_resolve(&call, &parameters->rdma, NULL);
    if (unlikely(result != PAMI_SUCCESS))
        return result;
    if (rma_is_short(call.rma->bytes) &&
        rma_short_get(call.function, context, call.rma,
                      &(const pami_rma_addr_t){call.local, (void *)call.remote}))
        return PAMI_SUCCESS;
    return rma_call(&call);
}
