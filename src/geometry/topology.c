/*
 * The sets of topology.h: arithmetic sequences, and lists with a hash from endpoint to rank.
 *
 * Every set has one form only, so that members that describe it in different ways (a list, several
 * ranges) agree: a list is kept only when it is no sequence, and what a sequence of one task would
 * leave open is preset.
 */
#include "geometry/topology.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context/context.h"
#include "util/hash.h"

void topology_init_stride(struct topology *topology, uint32_t first, int32_t stride, uint32_t tasks,
                          uint32_t offset, uint32_t contexts)
{
    *topology = (struct topology){
        .kind = TOPOLOGY_STRIDE,
        .size = tasks * contexts,
        .first = first,
        .stride = tasks > 1 ? stride : 1,
        .contexts = contexts,
        .offset = offset,
    };
}

/* Members at the start that are one task's, with offsets that follow one another. */
static uint32_t leading_run(const uint32_t *endpoints, uint32_t size)
{
    uint32_t run = 1;

    while (run < size && endpoint_task(endpoints[run]) == endpoint_task(endpoints[0]) &&
           endpoint_offset(endpoints[run]) == endpoint_offset(endpoints[0]) + run)
        run++;
    return run;
}

/* Makes a stride of the list, if it is one. */
static bool init_as_stride(struct topology *topology, const uint32_t *endpoints, uint32_t size)
{
    uint32_t contexts = leading_run(endpoints, size);
    uint32_t tasks = size / contexts;
    uint32_t first = endpoint_task(endpoints[0]);
    int64_t stride = 1;

    if (size % contexts != 0)
        return false;
    if (tasks > 1)
        stride = (int64_t)endpoint_task(endpoints[contexts]) - first;
    if (stride == 0)
        return false;
    topology_init_stride(topology, first, (int32_t)stride, tasks, endpoint_offset(endpoints[0]),
                         contexts);
    for (uint32_t rank = 0; rank < size; rank++)
        if (topology_endpoint(topology, rank) != endpoints[rank])
            return false;
    return true;
}

/* Ranks by endpoint, at most half full. Rows hold rank + 1. */
static int make_index(struct topology *topology)
{
    uint64_t rows = 4;

    while (rows < 2 * (uint64_t)topology->size)
        rows *= 2;
    topology->index = calloc(rows, sizeof(*topology->index));
    if (topology->index == NULL)
        return -ENOMEM;
    topology->index_mask = (uint32_t)(rows - 1);
    for (uint32_t rank = 0; rank < topology->size; rank++) {
        uint32_t at = hash_of(topology->endpoints[rank]) & topology->index_mask;

        while (topology->index[at] != 0) {
            if (topology->endpoints[topology->index[at] - 1] == topology->endpoints[rank])
                return -EEXIST;
            at = (at + 1) & topology->index_mask;
        }
        topology->index[at] = rank + 1;
    }
    return 0;
}

int topology_init_list(struct topology *topology, const uint32_t *endpoints, uint32_t size)
{
    size_t bytes = (size_t)size * sizeof(*endpoints);
    int error;

    if (size != 0 && init_as_stride(topology, endpoints, size))
        return 0;
    *topology = (struct topology){.kind = TOPOLOGY_LIST, .size = size};
    topology->endpoints = malloc(bytes + 1);
    if (topology->endpoints == NULL)
        return -ENOMEM;
    if (size != 0)
        memcpy(topology->endpoints, endpoints, bytes);
    error = make_index(topology);
    if (error != 0)
        topology_finish(topology);
    return error;
}

bool topology_init_part(struct topology *topology, const struct topology *whole, uint32_t first,
                        uint32_t step, uint32_t count)
{
    uint32_t contexts = whole->contexts, task, offset;

    if (whole->kind != TOPOLOGY_STRIDE)
        return false;
    task = whole->first + first / contexts * (uint32_t)whole->stride;
    offset = whole->offset + first % contexts;
    if (step % contexts == 0 || count == 1) {
        topology_init_stride(topology, task, whole->stride * (int32_t)(step / contexts), count,
                             offset, 1);
        return true;
    }
    if (step != 1 || first % contexts != 0 || count % contexts != 0)
        return false;
    topology_init_stride(topology, task, whole->stride, count / contexts, offset, contexts);
    return true;
}

void topology_finish(struct topology *topology)
{
    free(topology->endpoints);
    free(topology->index);
    *topology = (struct topology){.kind = TOPOLOGY_LIST};
}

uint32_t topology_endpoint(const struct topology *topology, uint32_t rank)
{
    uint32_t task, offset;

    if (topology->kind == TOPOLOGY_LIST)
        return topology->endpoints[rank];
    if (likely(topology->contexts == 1)) {
        task = rank;
        offset = topology->offset;
    } else {
        task = rank / topology->contexts;
        offset = topology->offset + rank % topology->contexts;
    }
    /* Unsigned arithmetic: a negative stride wraps around, and back. */
    return endpoint_make(topology->first + task * (uint32_t)topology->stride, offset);
}

static uint32_t list_rank(const struct topology *topology, uint32_t endpoint)
{
    uint32_t at;

    if (topology->index == NULL)
        return TOPOLOGY_NO_RANK;
    at = hash_of(endpoint) & topology->index_mask;
    for (; topology->index[at] != 0; at = (at + 1) & topology->index_mask)
        if (topology->endpoints[topology->index[at] - 1] == endpoint)
            return topology->index[at] - 1;
    return TOPOLOGY_NO_RANK;
}

uint32_t topology_rank(const struct topology *topology, uint32_t endpoint)
{
    uint32_t offset = endpoint_offset(endpoint) - topology->offset;
    int64_t distance;

    if (topology->kind == TOPOLOGY_LIST)
        return list_rank(topology, endpoint);
    distance = (int64_t)endpoint_task(endpoint) - topology->first;
    if (offset >= topology->contexts)
        return TOPOLOGY_NO_RANK;
    if (topology->stride != 1) {
        if (distance % topology->stride != 0)
            return TOPOLOGY_NO_RANK;
        distance /= topology->stride;
    }
    if (distance < 0 || distance >= topology->size / topology->contexts)
        return TOPOLOGY_NO_RANK;
    return (uint32_t)distance * topology->contexts + offset;
}

uint64_t topology_digest(const struct topology *topology)
{
    const uint32_t words[] = {topology->size,     topology->first,  (uint32_t)topology->stride,
                              topology->contexts, topology->offset, topology->kind};
    uint64_t digest = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        digest = (digest ^ words[i]) * UINT64_C(0x100000001b3);
    for (uint32_t rank = 0; topology->kind == TOPOLOGY_LIST && rank < topology->size; rank++) {
        digest = (digest ^ topology->endpoints[rank]) * UINT64_C(0x100000001b3);
        digest ^= digest >> 29;
    }
    return digest;
}
