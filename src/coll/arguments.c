/*
 * Checking the arguments of PAMI_Collective and bringing them to one form: what all types of
 * transfers have in common. See arguments.h.
 */
#include "coll/arguments.h"

#include <inttypes.h>
#include <stdlib.h>

#include "util/error.h"

static const char *const names[PAMI_XFER_COUNT] = {
    [PAMI_XFER_BROADCAST] = "broadcast",
    [PAMI_XFER_ALLREDUCE] = "allreduce",
    [PAMI_XFER_REDUCE] = "reduce",
    [PAMI_XFER_ALLGATHER] = "allgather",
    [PAMI_XFER_ALLGATHERV] = "allgatherv",
    [PAMI_XFER_ALLGATHERV_INT] = "allgatherv_int",
    [PAMI_XFER_SCATTER] = "scatter",
    [PAMI_XFER_SCATTERV] = "scatterv",
    [PAMI_XFER_SCATTERV_INT] = "scatterv_int",
    [PAMI_XFER_GATHER] = "gather",
    [PAMI_XFER_GATHERV] = "gatherv",
    [PAMI_XFER_GATHERV_INT] = "gatherv_int",
    [PAMI_XFER_BARRIER] = "barrier",
    [PAMI_XFER_ALLTOALL] = "alltoall",
    [PAMI_XFER_ALLTOALLV] = "alltoallv",
    [PAMI_XFER_ALLTOALLV_INT] = "alltoallv_int",
    [PAMI_XFER_SCAN] = "scan",
    [PAMI_XFER_REDUCE_SCATTER] = "reduce_scatter",
    [PAMI_XFER_AMBROADCAST] = "ambroadcast",
    [PAMI_XFER_AMSCATTER] = "amscatter",
    [PAMI_XFER_AMGATHER] = "amgather",
    [PAMI_XFER_AMREDUCE] = "amreduce",
};

const char *collective_name(pami_xfer_type_t type)
{
    return (unsigned)type < PAMI_XFER_COUNT ? names[type] : "unknown";
}

pami_result_t arguments_wrong(const struct reading *r, const char *argument, const char *why)
{
    return error_set(PAMI_INVAL, "PAMI_Collective: %s: %s: %s", r->name, argument, why);
}

/* ---- one buffer ---- */

/* The type of a side; of nothing when it has no data. */
static pami_result_t arguments_type(const struct reading *r, const struct side *side, bool *empty,
                                    struct type **type)
{
    *type = type_complete_from_handle(side->type);
    if (*type == NULL && !*empty)
        return arguments_wrong(r, side->type_name, "not a complete type");
    *empty = *empty || type_data_size(*type) == 0;
    if (*empty)
        *type = type_complete_from_handle(PAMI_TYPE_BYTE);
    return PAMI_SUCCESS;
}

pami_result_t arguments_buffer(const struct reading *r, const struct side *side,
                               const struct type *type)
{
    if (arguments_in_place(side->buffer))
        return arguments_wrong(r, side->buffer_name, "PAMI_IN_PLACE is not for this buffer");
    if (side->buffer == NULL && type_is_contiguous(type))
        return arguments_wrong(r, side->buffer_name, "NULL");
    return PAMI_SUCCESS;
}

pami_result_t arguments_count(const struct reading *r, const struct side *side,
                              const struct type *type, size_t count, uint64_t *bytes)
{
    if (__builtin_mul_overflow((uint64_t)count, type_data_size(type), bytes) || *bytes > BYTES_MAX)
        return error_set(PAMI_INVAL, "PAMI_Collective: %s: %s: %zu is impossible", r->name,
                         side->count_name, count);
    return PAMI_SUCCESS;
}

void arguments_map(struct area_map *map, void *base, struct type *type)
{
    map->base = base;
    map->extent = type_extent(type);
    map->type = type_is_contiguous(type) ? NULL : type_ref(type);
}

/* A buffer of one block, or of one equal block per member. */
pami_result_t arguments_regular(struct reading *r, struct area_map *map, const struct side *side,
                                enum blocks blocks, uint64_t *bytes)
{
    bool empty = side->count == 0;
    struct type *type;
    pami_result_t result = arguments_type(r, side, &empty, &type);
    size_t count = empty ? 0 : side->count;

    if (result == PAMI_SUCCESS)
        result = arguments_count(r, side, type, count, bytes);
    if (result == PAMI_SUCCESS && blocks != BLOCKS_ONE && *bytes > BYTES_MAX / r->group->size)
        result = arguments_wrong(r, side->count_name, "impossible");
    if (result == PAMI_SUCCESS && !empty)
        result = arguments_buffer(r, side, type);
    if (result != PAMI_SUCCESS)
        return result;
    r->to->lasting &= type->permanent;
    arguments_map(map, side->buffer, type);
    map->blocks = blocks;
    map->distance = count * map->extent;
    return PAMI_SUCCESS;
}

static pami_result_t count_of(const struct reading *r, const struct side *side, uint32_t i,
                              size_t *count)
{
    if (r->narrow) {
        int value = ((const int *)side->counts)[i];

        if (value < 0)
            return error_set(PAMI_INVAL, "PAMI_Collective: %s: %s[%u]: %d is negative", r->name,
                             side->count_name, i, value);
        *count = (size_t)value;
        return PAMI_SUCCESS;
    }
    *count = ((const size_t *)side->counts)[i];
    return PAMI_SUCCESS;
}

/* A buffer with a block of its own size for each member; sizes[0..size) are filled. */
pami_result_t arguments_vector(struct reading *r, struct area_map *map, const struct side *side,
                               uint64_t *sizes)
{
    struct type *type;
    uint64_t total = 0;
    pami_result_t result = PAMI_SUCCESS;
    bool empty = true;

    if (side->counts == NULL)
        return arguments_wrong(r, side->count_name, "NULL");
    for (uint32_t i = 0; i < r->group->size && result == PAMI_SUCCESS; i++) {
        size_t count = 0;

        result = count_of(r, side, i, &count);
        empty = empty && (result != PAMI_SUCCESS || count == 0);
    }
    if (result == PAMI_SUCCESS)
        result = arguments_type(r, side, &empty, &type);
    for (uint32_t i = 0; i < r->group->size && result == PAMI_SUCCESS; i++) {
        size_t count = 0;

        result = count_of(r, side, i, &count);
        if (result == PAMI_SUCCESS)
            result = arguments_count(r, side, type, empty ? 0 : count, &sizes[i]);
        if (result == PAMI_SUCCESS && (total += sizes[i]) > BYTES_MAX)
            result = arguments_wrong(r, side->count_name, "impossible");
    }
    if (result == PAMI_SUCCESS && side->displacements == NULL && !empty)
        result = arguments_wrong(r, "displs", "NULL");
    if (result == PAMI_SUCCESS && !empty)
        result = arguments_buffer(r, side, type);
    if (result != PAMI_SUCCESS)
        return result;
    r->to->lasting &= type->permanent;
    arguments_map(map, side->buffer, type);
    map->blocks = empty ? BLOCKS_ONE : r->narrow ? BLOCKS_LISTED_INT : BLOCKS_LISTED;
    map->displacements = empty ? NULL : side->displacements;
    return PAMI_SUCCESS;
}

bool arguments_same_places(const struct side *side, const struct area_map *map, const void *base,
                           uint64_t bytes)
{
    const struct type *type;

    if (side->buffer != base || base == NULL)
        return false;
    type = type_complete_from_handle(side->type);
    if (type == NULL || type_data_size(type) == 0)
        return true;
    return map->type == NULL ? type_is_contiguous(type) : type_same_places(type, map->type, bytes);
}

pami_result_t arguments_lists(struct reading *r, size_t entries)
{
    r->to->lists = malloc((entries + 1) * sizeof(uint64_t));
    if (r->to->lists == NULL)
        return error_set(PAMI_ENOMEM, "PAMI_Collective: %s: out of memory", r->name);
    return PAMI_SUCCESS;
}

/* A map of one block that another one holds. */
struct area_map arguments_own_block(const struct area_map *map, uint32_t rank)
{
    struct message_place place = area_place(map, rank, 0);
    struct area_map own = area_ref(map);

    own.base = place.address;
    own.blocks = BLOCKS_ONE;
    return own;
}

pami_result_t arguments_mismatch(const struct reading *r, const char *what, uint64_t mine,
                                 uint64_t other)
{
    return error_set(PAMI_INVAL,
                     "PAMI_Collective: %s: %s: %" PRIu64 " bytes, but %" PRIu64
                     " bytes on the other side",
                     r->name, what, mine, other);
}

pami_result_t arguments_root(struct reading *r, pami_endpoint_t root)
{
    uint32_t rank = topology_rank(r->group->topology, root);

    /* The world has a group for each context; programs name the root by its context 0 in all. */
    if (rank == TOPOLOGY_NO_RANK && r->group->geometry->is_world && root < ENDPOINT_TASKS_MAX)
        rank = topology_rank(r->group->topology, endpoint_make(root, r->group->topology->offset));
    if (rank == TOPOLOGY_NO_RANK)
        return error_set(PAMI_INVAL, "PAMI_Collective: %s: root: endpoint %u is not a member",
                         r->name, root);
    r->to->root = rank;
    return PAMI_SUCCESS;
}

static pami_result_t nothing(struct reading *r, const pami_collective_t *given)
{
    (void)r;
    (void)given;
    return PAMI_SUCCESS;
}

/* ---- all of them ---- */

struct reader {
    arguments_reader *read;
    pami_xfer_type_t type; /* as struct collective has it */
};

static const struct reader readers[PAMI_XFER_COUNT] = {
    [PAMI_XFER_BROADCAST] = {arguments_broadcast, PAMI_XFER_BROADCAST},
    [PAMI_XFER_ALLREDUCE] = {arguments_allreduce, PAMI_XFER_ALLREDUCE},
    [PAMI_XFER_REDUCE] = {arguments_reduce, PAMI_XFER_REDUCE},
    [PAMI_XFER_ALLGATHER] = {arguments_allgather, PAMI_XFER_ALLGATHER},
    [PAMI_XFER_ALLGATHERV] = {arguments_allgatherv, PAMI_XFER_ALLGATHERV},
    [PAMI_XFER_ALLGATHERV_INT] = {arguments_allgatherv, PAMI_XFER_ALLGATHERV},
    [PAMI_XFER_SCATTER] = {arguments_scatter, PAMI_XFER_SCATTER},
    [PAMI_XFER_SCATTERV] = {arguments_scatterv, PAMI_XFER_SCATTERV},
    [PAMI_XFER_SCATTERV_INT] = {arguments_scatterv, PAMI_XFER_SCATTERV},
    [PAMI_XFER_GATHER] = {arguments_gather, PAMI_XFER_GATHER},
    [PAMI_XFER_GATHERV] = {arguments_gatherv, PAMI_XFER_GATHERV},
    [PAMI_XFER_GATHERV_INT] = {arguments_gatherv, PAMI_XFER_GATHERV},
    [PAMI_XFER_BARRIER] = {nothing, PAMI_XFER_BARRIER},
    [PAMI_XFER_ALLTOALL] = {arguments_alltoall, PAMI_XFER_ALLTOALL},
    [PAMI_XFER_ALLTOALLV] = {arguments_alltoallv, PAMI_XFER_ALLTOALLV},
    [PAMI_XFER_ALLTOALLV_INT] = {arguments_alltoallv, PAMI_XFER_ALLTOALLV},
    [PAMI_XFER_SCAN] = {arguments_scan, PAMI_XFER_SCAN},
    [PAMI_XFER_REDUCE_SCATTER] = {arguments_reduce_scatter, PAMI_XFER_REDUCE_SCATTER},
};

/* In pieces: a whole structure of this size is cleared by "rep stos", which takes 10 ns longer. */
static void clear(struct collective *collective)
{
    collective->root = 0;
    collective->agreed = 0;
    collective->in_place = collective->commutative = collective->exclusive = false;
    collective->send = (struct area_map){0};
    collective->recv = (struct area_map){0};
    collective->op = NULL;
    collective->op_cookie = NULL;
    collective->kind = (enum type_kind)0;
    collective->bytes = collective->own_bytes = 0;
    collective->send_bytes = collective->recv_bytes = NULL;
    collective->first = NULL;
    collective->lists = NULL;
}

pami_result_t collective_read(struct collective *collective, pami_xfer_type_t type,
                              const struct group *group, const pami_collective_t *given)
{
    const struct reader *reader = &readers[type];
    struct reading r = {
        .to = collective,
        .group = group,
        .name = names[type],
        .narrow = reader->type != type,
    };
    pami_result_t result;

    clear(collective);
    collective->type = reader->type;
    collective->receives = collective->lasting = true;
    collective->element = 1;
    result = reader->read(&r, given);
    if (result != PAMI_SUCCESS)
        collective_release(collective);
    return result;
}

void collective_release(struct collective *collective)
{
    type_unref(collective->send.type);
    type_unref(collective->recv.type);
    free(collective->lists);
    collective->send.type = NULL;
    collective->recv.type = NULL;
    collective->lists = NULL;
}

void place_copy(const struct message_place *target, const struct message_place *source,
                size_t bytes)
{
    const struct type *plain = type_complete_from_handle(PAMI_TYPE_BYTE);

    if (bytes == 0)
        return;
    if (likely(target->type == NULL && source->type == NULL)) {
        if (target->address != source->address)
            memmove(target->address, source->address, bytes);
        return;
    }
    type_transform(source->address, source->type != NULL ? source->type : plain, source->offset,
                   target->address, target->type != NULL ? target->type : plain, target->offset,
                   bytes, PAMI_DATA_COPY, NULL);
}
