/*
 * The arguments of reductions. See arguments.h.
 */
#include "coll/arguments.h"

/* What the four structures of reductions have in common. */
struct reduction {
    struct side send, recv;
    pami_data_function op;
    void *cookie;
    int commutative;
};

static pami_result_t read_operator(struct reading *r, const struct reduction *from,
                                   const struct type *type, uint64_t bytes)
{
    struct collective *to = r->to;

    if (from->op == PAMI_DATA_COPY || from->op == PAMI_DATA_NOOP)
        return arguments_wrong(r, "op", "copying is no reduction");
    to->op = from->op;
    to->op_cookie = from->cookie;
    to->kind = type_kind(type);
    if (operator_is_user(from->op)) {
        to->commutative = from->commutative != 0;
        to->element = (uint32_t)type_atom(type);
    } else {
        to->commutative = true;
        to->element = (uint32_t)type_kind_size(to->kind);
        if (bytes != 0 && operator_check(from->op, to->kind) != 0)
            return arguments_wrong(r, "op", "means nothing for the elements of stype");
    }
    if (bytes % to->element != 0) /* in place, by the other side's count */
        return arguments_wrong(r, "rtypecount", "no whole elements of stype");
    return PAMI_SUCCESS;
}

/* allreduce, reduce, scan */
static pami_result_t read_reduction(struct reading *r, struct reduction *from)
{
    struct collective *to = r->to;
    uint64_t receives = 0;
    bool given = arguments_in_place(from->send.buffer);
    const struct type *type = type_complete_from_handle(from->send.type);
    pami_result_t result = PAMI_SUCCESS;

    if (to->receives)
        result = arguments_regular(r, &to->recv, &from->recv, BLOCKS_ONE, &receives);
    else if (given)
        return arguments_wrong(r, "sndbuf", "PAMI_IN_PLACE on a member that is not the root");
    if (result != PAMI_SUCCESS)
        return result;
    to->in_place = to->receives && (given || arguments_same_places(&from->send, &to->recv,
                                                                   from->recv.buffer, receives));
    to->bytes = receives;
    if (given && type == NULL)
        type = type_complete_from_handle(from->recv.type);
    if (!given) {
        result = arguments_regular(r, &to->send, &from->send, BLOCKS_ONE, &to->bytes);
        if (result != PAMI_SUCCESS)
            return result;
        if (to->receives && receives != to->bytes)
            return arguments_mismatch(r, "rtypecount", receives, to->bytes);
    }
    if (to->in_place) {
        type_unref(to->send.type);
        to->send = arguments_own_block(&to->recv, 0);
    }
    if (type == NULL && to->bytes == 0)
        type = type_complete_from_handle(PAMI_TYPE_BYTE);
    if (type == NULL)
        return arguments_wrong(r, "stype", "not a complete type");
    to->lasting &= type->permanent;
    return read_operator(r, from, type, to->bytes);
}

static struct reduction reduction_of(const pami_allreduce_t *x)
{
    return (struct reduction){
        .send = {"sndbuf", "stype", "stypecount", x->sndbuf, x->stype, x->stypecount, NULL, NULL},
        .recv = {"rcvbuf", "rtype", "rtypecount", x->rcvbuf, x->rtype, x->rtypecount, NULL, NULL},
        .op = x->op,
        .cookie = x->data_cookie,
        .commutative = x->commutative,
    };
}

pami_result_t arguments_allreduce(struct reading *r, const pami_collective_t *given)
{
    struct reduction from = reduction_of(&given->xfer_allreduce);

    return read_reduction(r, &from);
}

pami_result_t arguments_reduce(struct reading *r, const pami_collective_t *given)
{
    const pami_reduce_t *x = &given->xfer_reduce;
    const pami_allreduce_t same = {x->sndbuf,     x->stype, x->stypecount,  x->rcvbuf,     x->rtype,
                                   x->rtypecount, x->op,    x->data_cookie, x->commutative};
    struct reduction from = reduction_of(&same);
    pami_result_t result = arguments_root(r, x->root);

    if (result != PAMI_SUCCESS)
        return result;
    r->to->receives = r->to->root == r->group->rank;
    return read_reduction(r, &from);
}

pami_result_t arguments_scan(struct reading *r, const pami_collective_t *given)
{
    const pami_scan_t *x = &given->xfer_scan;
    const pami_allreduce_t same = {x->sndbuf,     x->stype, x->stypecount,  x->rcvbuf, x->rtype,
                                   x->rtypecount, x->op,    x->data_cookie, 0};
    struct reduction from = reduction_of(&same);

    r->to->agreed = r->to->exclusive = x->exclusive != 0;
    return read_reduction(r, &from);
}

/* Of nothing it may be any. NULL: not a complete one. */
static struct type *type_of(pami_type_t handle, bool nothing)
{
    struct type *type = type_complete_from_handle(handle);

    return type != NULL || !nothing ? type : type_complete_from_handle(PAMI_TYPE_BYTE);
}

static bool all_zero(const size_t *counts, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        if (counts[i] != 0)
            return false;
    return true;
}

/* The blocks of the source, by rcounts; in place the source starts where the result goes. */
pami_result_t arguments_reduce_scatter(struct reading *r, const pami_collective_t *given)
{
    const pami_reduce_scatter_t *x = &given->xfer_reduce_scatter;
    struct collective *to = r->to;
    uint32_t size = r->group->size;
    bool in_place = arguments_in_place(x->sndbuf), nothing;
    const struct side from = {
        .buffer_name = in_place ? "rcvbuf" : "sndbuf",
        .count_name = "rcounts",
        .buffer = in_place ? x->rcvbuf : x->sndbuf,
        .type = in_place ? x->rtype : x->stype,
    };
    const struct side where = {.buffer_name = "rcvbuf", .buffer = x->rcvbuf};
    const struct reduction operator= {
        .op = x->op, .cookie = x->data_cookie, .commutative = x->commutative};
    struct type *type, *into, *source;
    uint64_t *starts;
    pami_result_t result;

    if (x->rcounts == NULL)
        return arguments_wrong(r, "rcounts", "NULL");
    nothing = all_zero(x->rcounts, size);
    type = type_of(x->stype, nothing);
    into = type_of(x->rtype, in_place ? nothing : x->rcounts[r->group->rank] == 0);
    if (type == NULL && in_place)
        type = into;
    if (type == NULL)
        return arguments_wrong(r, "stype", "not a complete type");
    if (into == NULL)
        return arguments_wrong(r, "rtype", "not a complete type");
    result = arguments_lists(r, 2 * (size_t)size + 1);
    if (result != PAMI_SUCCESS)
        return result;
    starts = to->lists + size;
    starts[0] = 0;
    for (uint32_t i = 0; i < size; i++) {
        result = arguments_count(r, &from, type, x->rcounts[i], &to->lists[i]);
        if (result != PAMI_SUCCESS)
            return result;
        starts[i + 1] = starts[i] + to->lists[i];
        if (starts[i + 1] > BYTES_MAX)
            return arguments_wrong(r, "rcounts", "impossible");
    }
    to->bytes = starts[size];
    to->own_bytes = to->lists[r->group->rank];
    to->send_bytes = to->lists;
    to->recv_bytes = to->lists;
    source = in_place ? into : type;
    if ((in_place ? to->bytes : to->own_bytes) != 0 && type_data_size(into) == 0)
        return arguments_wrong(r, "rtype", "holds no data");
    if (to->bytes != 0)
        result = arguments_buffer(r, &from, source);
    if (result == PAMI_SUCCESS && to->own_bytes != 0)
        result = arguments_buffer(r, &where, into);
    if (result != PAMI_SUCCESS)
        return result;
    arguments_map(&to->send, from.buffer, source);
    to->send.blocks = BLOCKS_PACKED;
    to->send.starts = starts;
    arguments_map(&to->recv, x->rcvbuf, into);
    to->recv.blocks = BLOCKS_ONE;
    to->in_place = in_place || arguments_same_places(&from, &to->recv, x->rcvbuf, to->bytes);
    to->lasting = !nothing && !to->in_place && type->permanent && into->permanent;
    return read_operator(r, &operator, type, to->bytes);
}
