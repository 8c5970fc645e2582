/*
 * The arguments of transfers that only move data. See arguments.h.
 */
#include <string.h>

#include "coll/arguments.h"
#include "util/minmax.h"

pami_result_t arguments_broadcast(struct reading *r, const pami_collective_t *given)
{
    const pami_broadcast_t *x = &given->xfer_broadcast;
    const struct side side = {"buf",   "type",       "typecount", x->buf,
                              x->type, x->typecount, NULL,        NULL};
    pami_result_t result = arguments_root(r, x->root);

    if (result == PAMI_SUCCESS)
        result = arguments_regular(r, &r->to->recv, &side, BLOCKS_ONE, &r->to->bytes);
    if (result == PAMI_SUCCESS)
        r->to->send = arguments_own_block(&r->to->recv, 0);
    r->to->in_place = true;
    return result;
}

/* Source and destination, as regular transfers have them. */
struct sides {
    struct side send, recv;
};

/* The structures have the same members. */
#define SIDES(x)                                                                                   \
    ((struct sides){                                                                               \
        {"sndbuf", "stype", "stypecount", (x)->sndbuf, (x)->stype, (x)->stypecount, NULL, NULL},   \
        {"rcvbuf", "rtype", "rtypecount", (x)->rcvbuf, (x)->rtype, (x)->rtypecount, NULL, NULL}})

/* This member's block of `blocks`: in *own, from a buffer of its own or in place already. */
static pami_result_t read_own(struct reading *r, const struct side *side, uint64_t expected,
                              const struct area_map *blocks, struct area_map *own)
{
    struct area_map there = arguments_own_block(blocks, r->group->rank);
    uint64_t bytes;
    pami_result_t result;

    r->to->in_place = arguments_in_place(side->buffer) ||
                      arguments_same_places(side, &there, there.base, expected);
    if (r->to->in_place) {
        *own = there;
        return PAMI_SUCCESS;
    }
    type_unref(there.type);
    result = arguments_regular(r, own, side, BLOCKS_ONE, &bytes);
    if (result == PAMI_SUCCESS && bytes != expected)
        return arguments_mismatch(r, side->count_name, bytes, expected);
    return result;
}

/* The own contribution to what `recv` collects. */
static pami_result_t read_contribution(struct reading *r, const struct side *side,
                                       uint64_t expected)
{
    return read_own(r, side, expected, &r->to->recv, &r->to->send);
}

/* What this member gets out of the root's blocks. */
static pami_result_t read_share(struct reading *r, const struct side *side, uint64_t expected)
{
    return read_own(r, side, expected, &r->to->send, &r->to->recv);
}

pami_result_t arguments_allgather(struct reading *r, const pami_collective_t *given)
{
    const struct sides sides = SIDES(&given->xfer_allgather);
    pami_result_t result =
        arguments_regular(r, &r->to->recv, &sides.recv, BLOCKS_EQUAL, &r->to->bytes);

    return result == PAMI_SUCCESS ? read_contribution(r, &sides.send, r->to->bytes) : result;
}

pami_result_t arguments_gather(struct reading *r, const pami_collective_t *given)
{
    const pami_gather_t *x = &given->xfer_gather;
    const struct sides sides = SIDES(x);
    pami_result_t result = arguments_root(r, x->root);

    if (result != PAMI_SUCCESS)
        return result;
    r->to->receives = r->to->root == r->group->rank;
    if (r->to->receives) {
        result = arguments_regular(r, &r->to->recv, &sides.recv, BLOCKS_EQUAL, &r->to->bytes);
        return result == PAMI_SUCCESS ? read_contribution(r, &sides.send, r->to->bytes) : result;
    }
    return arguments_regular(r, &r->to->send, &sides.send, BLOCKS_ONE, &r->to->bytes);
}

pami_result_t arguments_scatter(struct reading *r, const pami_collective_t *given)
{
    const pami_scatter_t *x = &given->xfer_scatter;
    const struct sides sides = SIDES(x);
    pami_result_t result = arguments_root(r, x->root);

    if (result != PAMI_SUCCESS)
        return result;
    if (r->to->root != r->group->rank)
        return arguments_regular(r, &r->to->recv, &sides.recv, BLOCKS_ONE, &r->to->bytes);
    result = arguments_regular(r, &r->to->send, &sides.send, BLOCKS_EQUAL, &r->to->bytes);
    return result == PAMI_SUCCESS ? read_share(r, &sides.recv, r->to->bytes) : result;
}

static void send_where_received(struct collective *to)
{
    to->send = area_ref(&to->recv);
    to->send_bytes = to->recv_bytes;
}

pami_result_t arguments_alltoall(struct reading *r, const pami_collective_t *given)
{
    const pami_alltoall_t *x = &given->xfer_alltoall;
    const struct sides sides = SIDES(x);
    struct collective *to = r->to;
    uint64_t sends;
    pami_result_t result = arguments_regular(r, &to->recv, &sides.recv, BLOCKS_EQUAL, &to->bytes);

    if (result != PAMI_SUCCESS)
        return result;
    to->in_place =
        arguments_in_place(x->sndbuf) ||
        arguments_same_places(&sides.send, &to->recv, x->rcvbuf, to->bytes * r->group->size);
    if (to->in_place) {
        send_where_received(to);
        return PAMI_SUCCESS;
    }
    result = arguments_regular(r, &to->send, &sides.send, BLOCKS_EQUAL, &sends);
    if (result == PAMI_SUCCESS && sends != to->bytes)
        return arguments_mismatch(r, "stypecount", sends, to->bytes);
    return result;
}

/* ---- vectors; the structures of both widths have the same members ---- */

/* The scalar count of the other side, an int in the narrow structures. */
static pami_result_t scalar_count(const struct reading *r, struct side *side, bool negative,
                                  size_t count)
{
    if (r->narrow && negative)
        return arguments_wrong(r, side->count_name, "negative");
    side->count = count;
    return PAMI_SUCCESS;
}

/* Both vectors and scalars of a transfer with one vector side. */
struct vector {
    struct side one, many;
    bool negative; /* the scalar count */
    size_t count;
};

#define VECTOR_GATHER(x)                                                                           \
    ((struct vector){                                                                              \
        .one = {"sndbuf", "stype", "stypecount", (x)->sndbuf, (x)->stype, 0, NULL, NULL},          \
        .many = {"rcvbuf", "rtype", "rtypecounts", (x)->rcvbuf, (x)->rtype, 0, (x)->rtypecounts,   \
                 (x)->rdispls},                                                                    \
        .negative = (int64_t)(x)->stypecount < 0,                                                  \
        .count = (size_t)(x)->stypecount})

#define VECTOR_SCATTER(x)                                                                          \
    ((struct vector){                                                                              \
        .one = {"rcvbuf", "rtype", "rtypecount", (x)->rcvbuf, (x)->rtype, 0, NULL, NULL},          \
        .many = {"sndbuf", "stype", "stypecounts", (x)->sndbuf, (x)->stype, 0, (x)->stypecounts,   \
                 (x)->sdispls},                                                                    \
        .negative = (int64_t)(x)->rtypecount < 0,                                                  \
        .count = (size_t)(x)->rtypecount})

static pami_result_t read_many(struct reading *r, struct area_map *map, const struct side *side,
                               const uint64_t **sizes)
{
    uint32_t size = r->group->size;
    pami_result_t result = arguments_lists(r, 2 * (size_t)size);

    if (result == PAMI_SUCCESS)
        result = arguments_vector(r, map, side, r->to->lists);
    if (result != PAMI_SUCCESS)
        return result;
    if (map->blocks == BLOCKS_LISTED)
        map->displacements =
            memcpy(r->to->lists + size, map->displacements, size * sizeof(uint64_t));
    *sizes = r->to->lists;
    r->to->own_bytes = r->to->lists[r->group->rank];
    return PAMI_SUCCESS;
}

pami_result_t arguments_allgatherv(struct reading *r, const pami_collective_t *given)
{
    struct vector v = r->narrow ? VECTOR_GATHER(&given->xfer_allgatherv_int)
                                : VECTOR_GATHER(&given->xfer_allgatherv);
    pami_result_t result = read_many(r, &r->to->recv, &v.many, &r->to->recv_bytes);

    if (result == PAMI_SUCCESS && !arguments_in_place(v.one.buffer))
        result = scalar_count(r, &v.one, v.negative, v.count);
    return result == PAMI_SUCCESS ? read_contribution(r, &v.one, r->to->own_bytes) : result;
}

pami_result_t arguments_gatherv(struct reading *r, const pami_collective_t *given)
{
    struct vector v =
        r->narrow ? VECTOR_GATHER(&given->xfer_gatherv_int) : VECTOR_GATHER(&given->xfer_gatherv);
    pami_result_t result =
        arguments_root(r, r->narrow ? given->xfer_gatherv_int.root : given->xfer_gatherv.root);

    if (result != PAMI_SUCCESS)
        return result;
    r->to->receives = r->to->root == r->group->rank;
    if (!r->to->receives || !arguments_in_place(v.one.buffer))
        result = scalar_count(r, &v.one, v.negative, v.count);
    if (result != PAMI_SUCCESS)
        return result;
    if (!r->to->receives)
        return arguments_regular(r, &r->to->send, &v.one, BLOCKS_ONE, &r->to->own_bytes);
    result = read_many(r, &r->to->recv, &v.many, &r->to->recv_bytes);
    return result == PAMI_SUCCESS ? read_contribution(r, &v.one, r->to->own_bytes) : result;
}

pami_result_t arguments_scatterv(struct reading *r, const pami_collective_t *given)
{
    struct vector v = r->narrow ? VECTOR_SCATTER(&given->xfer_scatterv_int)
                                : VECTOR_SCATTER(&given->xfer_scatterv);
    pami_result_t result =
        arguments_root(r, r->narrow ? given->xfer_scatterv_int.root : given->xfer_scatterv.root);

    if (result == PAMI_SUCCESS &&
        (r->to->root != r->group->rank || !arguments_in_place(v.one.buffer)))
        result = scalar_count(r, &v.one, v.negative, v.count);
    if (result != PAMI_SUCCESS)
        return result;
    if (r->to->root != r->group->rank)
        return arguments_regular(r, &r->to->recv, &v.one, BLOCKS_ONE, &r->to->own_bytes);
    result = read_many(r, &r->to->send, &v.many, &r->to->send_bytes);
    return result == PAMI_SUCCESS ? read_share(r, &v.one, r->to->own_bytes) : result;
}

#define SIDES_ALLTOALLV(x)                                                                         \
    ((struct sides){{"sndbuf", "stype", "stypecounts", (x)->sndbuf, (x)->stype, 0,                 \
                     (x)->stypecounts, (x)->sdispls},                                              \
                    {"rcvbuf", "rtype", "rtypecounts", (x)->rcvbuf, (x)->rtype, 0,                 \
                     (x)->rtypecounts, (x)->rdispls}})

/* Whether both sides are one buffer, as a side without lists or a type says as well. */
static bool is_exchange_in_place(const struct side *send, const void *rcvbuf)
{
    return arguments_in_place(send->buffer) ||
           (send->buffer == rcvbuf && rcvbuf != NULL &&
            (send->counts == NULL || send->displacements == NULL ||
             type_complete_from_handle(send->type) == NULL));
}

/* Whether what goes to each member lies where that member's data comes. */
static bool exchanges_same_places(const struct collective *to, uint32_t size,
                                  const struct side *send, const void *rcvbuf)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < size; i++) {
        if (to->send_bytes[i] != to->recv_bytes[i])
            return false;
        if (to->recv_bytes[i] != 0 &&
            area_place(&to->send, i, 0).address != area_place(&to->recv, i, 0).address)
            return false;
        most = larger(most, to->recv_bytes[i]);
    }
    return arguments_same_places(send, &to->recv, rcvbuf, most);
}

pami_result_t arguments_alltoallv(struct reading *r, const pami_collective_t *given)
{
    const struct sides sides = r->narrow ? SIDES_ALLTOALLV(&given->xfer_alltoallv_int)
                                         : SIDES_ALLTOALLV(&given->xfer_alltoallv);
    struct collective *to = r->to;
    uint32_t size = r->group->size;
    pami_result_t result = arguments_lists(r, 2 * (size_t)size);

    if (result == PAMI_SUCCESS)
        result = arguments_vector(r, &to->recv, &sides.recv, to->lists);
    if (result != PAMI_SUCCESS)
        return result;
    to->recv_bytes = to->lists;
    to->own_bytes = to->lists[r->group->rank];
    to->in_place = is_exchange_in_place(&sides.send, sides.recv.buffer);
    if (to->in_place) {
        send_where_received(to);
        return PAMI_SUCCESS;
    }
    result = arguments_vector(r, &to->send, &sides.send, to->lists + size);
    to->send_bytes = to->lists + size;
    if (result == PAMI_SUCCESS)
        to->in_place = exchanges_same_places(to, size, &sides.send, sides.recv.buffer);
    if (result != PAMI_SUCCESS || to->send_bytes[r->group->rank] == to->own_bytes)
        return result;
    if (sides.send.buffer == sides.recv.buffer) {
        /* No two layouts: a program that works in place and leaves the send side alone. */
        type_unref(to->send.type);
        send_where_received(to);
        to->in_place = true;
        return PAMI_SUCCESS;
    }
    return arguments_mismatch(r, "stypecounts", to->send_bytes[r->group->rank], to->own_bytes);
}
