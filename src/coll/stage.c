/*
 * Where the data of a run lies, and the local steps of its phases.
 *
 * Phases see three areas. The user's buffers are used as they are, through their types; but
 * reductions work on contiguous memory, so for those a buffer that is not is packed before and
 * unpacked afterwards. A small contribution is copied when the run starts: programs pass memory
 * that is gone when the call returns.
 */
#include <errno.h>

#include "coll/engine.h"

#define ALIGNMENT 64u

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

/* Staged memory in the place of a buffer. */
static struct area_map plain_map(const struct area_map *like, pami_xfer_type_t type, char *base)
{
    struct area_map map = {.base = base, .extent = 1, .blocks = BLOCKS_ONE};

    if (type == PAMI_XFER_REDUCE_SCATTER && like->blocks == BLOCKS_PACKED) {
        map.blocks = BLOCKS_PACKED;
        map.starts = like->starts;
    }
    return map;
}

/* Data bytes of the whole buffer, for what may be staged. */
static size_t send_size(const struct collective *collective)
{
    if (collective->type == PAMI_XFER_ALLGATHERV || collective->type == PAMI_XFER_GATHERV)
        return collective->own_bytes;
    return collective->bytes;
}

static size_t recv_size(const struct collective *collective)
{
    return collective->type == PAMI_XFER_REDUCE_SCATTER ? collective->own_bytes : collective->bytes;
}

static bool is_contribution(pami_xfer_type_t type)
{
    return type == PAMI_XFER_ALLGATHER || type == PAMI_XFER_ALLGATHERV ||
           type == PAMI_XFER_GATHER || type == PAMI_XFER_GATHERV || type == PAMI_XFER_ALLREDUCE ||
           type == PAMI_XFER_REDUCE || type == PAMI_XFER_SCAN || type == PAMI_XFER_REDUCE_SCATTER;
}

static bool stages_send(const struct collective *collective)
{
    if (collective_is_reduction(collective->type) && collective->send.type != NULL)
        return true;
    return !collective->in_place && is_contribution(collective->type) &&
           send_size(collective) <= COLLECTIVE_KEEP_BYTES;
}

static bool stages_recv(const struct collective *collective)
{
    return collective_is_reduction(collective->type) && collective->receives &&
           collective->recv.type != NULL;
}

void stage_drop(struct instance *instance)
{
    stash_put(&instance->coll->context->stash, instance->scratch);
    instance->scratch = NULL;
    instance->scratch_bytes = 0;
}

/* What the run before has left, if it is about as much as is wanted: segments of a pipeline follow
 * one another, and large memory costs its page faults each time that it is allocated. NULL: out of
 * memory. */
static char *scratch_of(struct instance *instance, size_t bytes)
{
    if (bytes <= instance->scratch_bytes && bytes >= instance->scratch_bytes / 2)
        return instance->scratch;
    stage_drop(instance);
    instance->scratch = stash_get(&instance->coll->context->stash, bytes);
    instance->scratch_bytes = instance->scratch != NULL ? bytes : 0;
    return instance->scratch;
}

int stage_prepare(struct instance *instance)
{
    struct collective *collective = &instance->collective;
    size_t temp = aligned(instance->shape.temp_bytes);
    size_t send = stages_send(collective) ? aligned(send_size(collective)) : 0;
    size_t recv = stages_recv(collective) ? aligned(recv_size(collective)) : 0;
    /* In place both are one; of a reduce_scatter, the result lies where the source starts. */
    bool one = collective->in_place && recv != 0 && send != 0;
    char *memory = (char *)instance->small;

    if (one)
        recv = 0;
    if (temp + send + recv > sizeof(instance->small)) {
        memory = scratch_of(instance, temp + send + recv);
        if (memory == NULL)
            return -ENOMEM;
    } else {
        stage_drop(instance);
    }
    instance->temp = memory;
    instance->staged_send = send != 0 ? memory + temp : NULL;
    instance->staged_recv = one ? instance->staged_send : recv != 0 ? memory + temp + send : NULL;
    instance->send = collective->send;
    instance->recv = collective->recv;
    if (instance->staged_recv != NULL)
        instance->recv = plain_map(&collective->recv, collective->type, instance->staged_recv);
    if (instance->staged_send != NULL)
        instance->send = plain_map(&collective->send, collective->type, instance->staged_send);
    return 0;
}

void stage_begin(struct instance *instance)
{
    const struct message_place to = {instance->staged_send, NULL, 0};
    struct message_place from;

    if (likely(to.address == NULL))
        return;
    from = area_place(&instance->collective.send, 0, 0);
    place_copy(&to, &from, send_size(&instance->collective));
}

void stage_end(struct instance *instance)
{
    const struct message_place from = {instance->staged_recv, NULL, 0};
    struct message_place to;

    if (likely(from.address == NULL))
        return;
    /* Nothing was written: the first member of an exclusive scan. */
    if (instance->shape.exclusive && instance->shape.rank == 0)
        return;
    to = area_place(&instance->collective.recv, 0, 0);
    place_copy(&to, &from, recv_size(&instance->collective));
}

struct message_place stage_place(const struct instance *instance, const struct span *span)
{
    if (span->area == AREA_TEMP)
        return (struct message_place){instance->temp + span->offset, NULL, 0};
    return area_place(span->area == AREA_SEND ? &instance->send : &instance->recv, span->block,
                      span->offset);
}

static void combine(const struct instance *instance, void *target, void *source, size_t bytes)
{
    const struct collective *collective = &instance->collective;

    if (operator_is_user(collective->op))
        collective->op(target, source, bytes, collective->op_cookie);
    else
        operator_apply(collective->op, collective->kind, target, source, bytes);
}

void stage_local(const struct instance *instance, const struct local *local)
{
    const struct message_place source = stage_place(instance, &local->source);
    const struct message_place target = stage_place(instance, &local->target);

    if (local->target.bytes == 0)
        return;
    if (local->kind == LOCAL_COPY)
        place_copy(&target, &source, local->target.bytes);
    else
        combine(instance, target.address, source.address, local->target.bytes);
}

void stage_fill(const struct instance *instance, const struct span *span, const void *data)
{
    struct message_place target;

    if (span->bytes == 0)
        return;
    target = stage_place(instance, span);
    if (likely(target.type == NULL)) {
        packet_copy(target.address, data, span->bytes);
    } else {
        const struct message_place source = {(void *)data, NULL, 0};

        place_copy(&target, &source, span->bytes);
    }
}
