/*
 * A collective as the rest of src/coll sees it: arguments that have been checked and brought to one
 * form, and where the blocks of its buffers lie.
 *
 * Made by arguments.c from what the user gave; nothing here points into the user's xfer structure,
 * which may change after the call. The displacements of alltoallv, and all that are int, stay the
 * user's, who keeps them until the collective is complete.
 */
#ifndef LIBPAMI_COLL_COLLECTIVE_H
#define LIBPAMI_COLL_COLLECTIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pami/pami.h>

#include "geometry/geometry.h"
#include "p2p/message.h"
#include "type/type.h"

/* Contributions up to this are copied at the call: programs pass memory that is gone afterwards. */
#define COLLECTIVE_KEEP_BYTES 512u

/* How the blocks of a buffer follow one another. */
enum blocks {
    BLOCKS_ONE,    /* there is one */
    BLOCKS_EQUAL,  /* every `distance` bytes of memory */
    BLOCKS_PACKED, /* one behind the other, block b from data byte starts[b] on */
    BLOCKS_LISTED, /* displacements in units of the extent, size_t ... */
    BLOCKS_LISTED_INT,
};

/* One of the user's buffers, or scratch in its place. */
struct area_map {
    char *base;
    struct type *type; /* with a reference; NULL: plain bytes */
    size_t extent;
    enum blocks blocks;
    size_t distance;
    const uint64_t *starts;
    const void *displacements;
};

struct collective {
    pami_xfer_type_t type; /* the *_INT types are brought to those without */
    uint32_t root;         /* rank, 0 where there is none */
    bool in_place;
    bool receives; /* there is a receive buffer here */
    bool commutative, exclusive;
    bool lasting;    /* its types are predefined */
    uint32_t agreed; /* what members must agree on besides type, root and bytes */
    struct area_map send, recv;
    pami_data_function op;
    void *op_cookie;
    enum type_kind kind; /* of the operator's elements */
    uint32_t element;    /* bytes that must not be split, 1 but for reductions */
    uint64_t bytes;      /* as in struct shape */
    uint64_t own_bytes;
    const uint64_t *send_bytes, *recv_bytes;
    /* Set at the end: of all members that have called, this one was to know it first. By rows in
     * shared memory only. */
    bool *first;
    uint64_t *lists; /* owned: what send_bytes, recv_bytes and starts point into */
};

/*
 * Reads the arguments of a transfer of type `type`, checks them, and fills *collective. PAMI_INVAL
 * or PAMI_ENOMEM with a text; nothing is kept then.
 */
pami_result_t collective_read(struct collective *collective, pami_xfer_type_t type,
                              const struct group *group, const pami_collective_t *given);

/* Give back what collective_read has taken. */
void collective_release(struct collective *collective);

/* `agreed` for the parts of a collective: they are of the same one on all members. */
static inline uint32_t collective_digest(const struct collective *whole)
{
    uint64_t digest = (whole->bytes + whole->agreed + 1) * UINT64_C(0x9e3779b97f4a7c15);

    return (uint32_t)(digest >> 32);
}

/* "allreduce" */
const char *collective_name(pami_xfer_type_t type);

static inline bool collective_is_reduction(pami_xfer_type_t type)
{
    return type == PAMI_XFER_ALLREDUCE || type == PAMI_XFER_REDUCE || type == PAMI_XFER_SCAN ||
           type == PAMI_XFER_REDUCE_SCATTER;
}

/* Blocks of different sizes, which only those that send or receive them know. */
static inline bool collective_is_vector(pami_xfer_type_t type)
{
    return type == PAMI_XFER_GATHERV || type == PAMI_XFER_SCATTERV || type == PAMI_XFER_ALLTOALLV;
}

/* Of blocks that are listed, in units of the extent. */
static inline size_t area_displacement(const struct area_map *map, uint32_t block)
{
    if (map->blocks == BLOCKS_LISTED_INT)
        return (size_t)(int64_t)((const int *)map->displacements)[block];
    return ((const size_t *)map->displacements)[block];
}

/* The base may be NULL where a type's displacements are addresses: no pointer to count from. */
static inline char *area_at(const struct area_map *map, uint64_t bytes)
{
    return (char *)((uintptr_t)map->base + bytes);
}

/* Where data byte `offset` of a block lies. */
static inline struct message_place area_place(const struct area_map *map, uint32_t block,
                                              uint64_t offset)
{
    struct message_place place = {map->base, map->type, offset};

    switch (map->blocks) {
    case BLOCKS_ONE:
        break;
    case BLOCKS_EQUAL:
        place.address = area_at(map, block * map->distance);
        break;
    case BLOCKS_PACKED:
        place.offset += map->starts[block];
        break;
    case BLOCKS_LISTED:
    case BLOCKS_LISTED_INT:
        place.address = area_at(map, area_displacement(map, block) * map->extent);
        break;
    }
    if (map->type == NULL) {
        place.address = (char *)place.address + place.offset;
        place.offset = 0;
    }
    return place;
}

/* The same, with a reference of its own. */
static inline struct area_map area_ref(const struct area_map *map)
{
    if (map->type != NULL)
        type_ref(map->type);
    return *map;
}

/* The same block from data byte `offset` on, without a reference of its own. `start` lives as long
 * as the result. */
static inline struct area_map area_from(const struct area_map *map, uint64_t *start,
                                        uint64_t offset)
{
    struct area_map from = *map;

    if (offset == 0)
        return from;
    if (from.type == NULL) {
        from.base += from.base != NULL ? offset : 0;
        return from;
    }
    *start = offset;
    from.blocks = BLOCKS_PACKED;
    from.starts = start;
    return from;
}

/* Copy between two places; both may be typed, and equal. */
void place_copy(const struct message_place *target, const struct message_place *source,
                size_t bytes);

#endif
