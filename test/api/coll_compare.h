/*
 * The second half of coll_oracle.h, which includes it: from a struct op to the arguments of the
 * call, and comparing.
 *
 * lint: not alone
 */

static inline char *op_buffer(const struct op_side *side)
{
    return side->absolute != NULL ? NULL : op_base(side);
}

static inline pami_type_t op_type(const struct op_side *side)
{
    return side->absolute != NULL ? side->absolute : side->layout->type;
}

/* What stands for a buffer that is the same as, or inside, the other side's. */
static inline char *op_shared_buffer(struct op *o, struct op_side *side, struct op_side *other,
                                     size_t instance)
{
    if (o->way == OP_TWO_BUFFERS)
        return op_buffer(side);
    if (o->way == OP_IN_PLACE)
        return PAMI_IN_PLACE;
    return (char *)op_word(other->memory, other, instance, 0) -
           other->layout->off[0] * sizeof(uint32_t);
}

/* Instances of the type for so many words. */
static inline size_t op_instances(const struct op_side *side, size_t words)
{
    return words / side->layout->unit * side->layout->scale;
}

static inline void op_reduction_arguments(struct op *o, pami_endpoint_t root, pami_collective_t *to)
{
    size_t total = (o->send.words - OP_GUARD) / op_extent(&o->send) * o->send.layout->scale;
    bool user = o->op == op_user;
    pami_allreduce_t x;

    memset(&x, 0xa5, sizeof x);
    x.sndbuf = op_shared_buffer(o, &o->send, &o->recv, 0);
    x.stype = op_type(&o->send);
    x.stypecount = total;
    x.rcvbuf = op_buffer(&o->recv);
    x.rtype = op_type(&o->recv);
    x.rtypecount = op_instances(&o->recv, o->count);
    x.op = o->op;
    if (user)
        x.data_cookie = &op_layouts;
    if (user)
        x.commutative = 0;
    if (o->kind == PAMI_XFER_ALLREDUCE) {
        to->xfer_allreduce = x;
    } else if (o->kind == PAMI_XFER_SCAN) {
        memcpy(&to->xfer_scan, &x, sizeof x);
        to->xfer_scan.exclusive = o->exclusive;
    } else if (o->kind == PAMI_XFER_REDUCE_SCATTER) {
        memcpy(&to->xfer_reduce_scatter, &x, sizeof x);
        to->xfer_reduce_scatter.rcounts = o->block;
    } else {
        to->xfer_reduce =
            (pami_reduce_t){root,    x.sndbuf,     x.stype, x.stypecount,  x.rcvbuf,
                            x.rtype, x.rtypecount, x.op,    x.data_cookie, x.commutative};
        if (o->self != o->root) {
            to->xfer_reduce.rcvbuf = NULL;
            memset(&to->xfer_reduce.rtype, 0xa5, sizeof(pami_type_t));
            to->xfer_reduce.rtypecount = (size_t)-3;
        }
    }
}

static inline void op_gather_arguments(struct op *o, pami_endpoint_t root, pami_collective_t *to)
{
    size_t own = op_instances(&o->send, op_block(o, o->self, 0));
    char *sndbuf = op_shared_buffer(o, &o->send, &o->recv, op_start_of(o, &o->recv, o->self));
    char *rcvbuf = op_buffer(&o->recv);
    pami_type_t stype = op_type(&o->send), rtype = op_type(&o->recv);
    size_t count = op_instances(&o->recv, o->count);
    struct op_side *r = &o->recv;

    if (op_gathers_at_root(o) && o->self != o->root) {
        uintptr_t garbage = op_below(&o->own, 2) != 0 ? 0 : (uintptr_t)0x5a5a5a5a5a5a5a5au;

        rcvbuf = (char *)garbage;
        memcpy(&rtype, &garbage, sizeof rtype);
        count = garbage;
        free(r->counts);
        free(r->displs);
        free(r->narrow_counts);
        free(r->narrow_displs);
        r->counts = r->displs = NULL;
        r->narrow_counts = r->narrow_displs = NULL;
    }
    switch (o->type) {
    case PAMI_XFER_ALLGATHER:
        to->xfer_allgather = (pami_allgather_t){sndbuf, stype, own, rcvbuf, rtype, count};
        break;
    case PAMI_XFER_ALLGATHERV:
        to->xfer_allgatherv =
            (pami_allgatherv_t){sndbuf, stype, own, rcvbuf, rtype, r->counts, r->displs};
        break;
    case PAMI_XFER_ALLGATHERV_INT:
        to->xfer_allgatherv_int = (pami_allgatherv_int_t){
            sndbuf, stype, (int)own, rcvbuf, rtype, r->narrow_counts, r->narrow_displs};
        break;
    case PAMI_XFER_GATHER:
        to->xfer_gather = (pami_gather_t){root, sndbuf, stype, own, rcvbuf, rtype, count};
        break;
    case PAMI_XFER_GATHERV:
        to->xfer_gatherv =
            (pami_gatherv_t){root, sndbuf, stype, own, rcvbuf, rtype, r->counts, r->displs};
        break;
    default:
        to->xfer_gatherv_int = (pami_gatherv_int_t){
            root, sndbuf, stype, (int)own, rcvbuf, rtype, r->narrow_counts, r->narrow_displs};
    }
}

static inline void op_scatter_arguments(struct op *o, pami_endpoint_t root, pami_collective_t *to)
{
    size_t own = op_instances(&o->recv, op_block(o, 0, o->self));
    char *rcvbuf = op_shared_buffer(o, &o->recv, &o->send, op_start_of(o, &o->send, o->self));
    char *sndbuf = op_buffer(&o->send);
    pami_type_t stype = op_type(&o->send), rtype = op_type(&o->recv);
    size_t count = op_instances(&o->send, o->count);
    struct op_side *s = &o->send;

    if (o->self != o->root) {
        uintptr_t garbage = op_below(&o->own, 2) != 0 ? 0 : (uintptr_t)0x5a5a5a5a5a5a5a5au;

        sndbuf = (char *)garbage;
        memcpy(&stype, &garbage, sizeof stype);
        count = garbage;
        free(s->counts);
        free(s->displs);
        free(s->narrow_counts);
        free(s->narrow_displs);
        s->counts = s->displs = NULL;
        s->narrow_counts = s->narrow_displs = NULL;
    }
    if (o->type == PAMI_XFER_SCATTER)
        to->xfer_scatter = (pami_scatter_t){root, sndbuf, stype, count, rcvbuf, rtype, own};
    else if (o->type == PAMI_XFER_SCATTERV)
        to->xfer_scatterv =
            (pami_scatterv_t){root, sndbuf, stype, s->counts, s->displs, rcvbuf, rtype, own};
    else
        to->xfer_scatterv_int = (pami_scatterv_int_t){
            root, sndbuf, stype, s->narrow_counts, s->narrow_displs, rcvbuf, rtype, (int)own};
}

static inline void op_alltoall_arguments(struct op *o, pami_collective_t *to)
{
    bool shared = o->way != OP_TWO_BUFFERS;
    struct op_side *r = &o->recv, *s = shared ? r : &o->send;
    char *sndbuf = op_shared_buffer(o, &o->send, r, r->shift), *rcvbuf = op_buffer(r);
    pami_type_t stype = op_type(s), rtype = op_type(r);

    if (o->type == PAMI_XFER_ALLTOALL)
        to->xfer_alltoall = (pami_alltoall_t){sndbuf, stype, op_instances(s, o->count),
                                              rcvbuf, rtype, op_instances(r, o->count)};
    else if (o->type == PAMI_XFER_ALLTOALLV)
        to->xfer_alltoallv = (pami_alltoallv_t){sndbuf, stype, s->counts, s->displs,
                                                rcvbuf, rtype, r->counts, r->displs};
    else
        to->xfer_alltoallv_int =
            (pami_alltoallv_int_t){sndbuf, stype, s->narrow_counts, s->narrow_displs,
                                   rcvbuf, rtype, r->narrow_counts, r->narrow_displs};
}

/* Everything that the call does not need holds garbage. */
static inline void op_arguments(struct op *o, pami_endpoint_t root, pami_collective_t *to)
{
    memset(to, 0xa5, sizeof *to);
    if (op_reduces(o))
        op_reduction_arguments(o, root, to);
    else if (op_scatters(o))
        op_scatter_arguments(o, root, to);
    else if (op_is_alltoall(o))
        op_alltoall_arguments(o, to);
    else if (o->kind == PAMI_XFER_BROADCAST)
        to->xfer_broadcast = (pami_broadcast_t){root, op_buffer(&o->recv), op_type(&o->recv),
                                                op_instances(&o->recv, o->count)};
    else if (o->kind != PAMI_XFER_BARRIER)
        op_gather_arguments(o, root, to);
}

static inline void op_check_side(const struct op *o, const struct op_side *side, const char *which,
                                 size_t words)
{
    for (size_t i = 0; i < words; i++)
        if (side->memory[i] != side->expected[i])
            FAIL("%s, type %d, seed %llu, root %zu, member %zu of %zu, block of %zu, operator %s, "
                 "layout %d to %d, way %d: %s buffer: word %zu is %#x, expected %#x",
                 o->name, (int)o->type, (unsigned long long)o->seed, o->root, o->self, o->members,
                 o->count, o->op == op_user ? "user" : "predefined",
                 (int)(o->send.layout - op_layouts), (int)(o->recv.layout - op_layouts),
                 (int)o->way, which, i, side->memory[i], side->expected[i]);
}

/* To be called when o->told.count != 0. */
static inline void op_check(struct op *o)
{
    size_t words = o->recv.words;

    if (o->told.result != PAMI_SUCCESS)
        FAIL("%s, type %d, member %zu of %zu, block of %zu: ended with %d: %s", o->name,
             (int)o->type, o->self, o->members, o->count, (int)o->told.result, test_text());
    /* What lies behind the own block of a reduce_scatter in place is not told. */
    if (o->kind == PAMI_XFER_REDUCE_SCATTER && o->way != OP_TWO_BUFFERS)
        words = o->block[o->self] * op_extent(&o->recv);
    op_check_side(o, &o->recv, "receive", words);
    op_check_side(o,
                  &(struct op_side){.memory = o->recv.memory + o->recv.words - OP_GUARD,
                                    .expected = o->recv.expected + o->recv.words - OP_GUARD,
                                    .layout = o->recv.layout},
                  "end of the receive", OP_GUARD);
    /* What was to be sent is as it was. */
    if (o->send.memory == NULL || o->way != OP_TWO_BUFFERS)
        return;
    memcpy(o->send.expected, o->send.memory, o->send.words * sizeof(uint32_t));
    if (op_scatters(o) || op_is_alltoall(o)) {
        for (size_t to = 0; to < o->members && (o->self == o->root || !op_scatters(o)); to++)
            for (size_t x = 0; x < op_block(o, o->self, to); x++)
                *op_word(o->send.expected, &o->send, op_start_of(o, &o->send, to), x) =
                    op_value(o, o->self, to, x);
    } else if (o->kind != PAMI_XFER_BROADCAST && o->kind != PAMI_XFER_BARRIER) {
        size_t parts = o->kind == PAMI_XFER_REDUCE_SCATTER ? o->members : 1, at = 0;

        for (size_t to = 0; to < parts; at += op_block(o, o->self, to), to++)
            for (size_t x = 0; x < op_block(o, o->self, to); x++)
                *op_word(o->send.expected, &o->send, at / o->send.layout->unit, x) =
                    op_value(o, o->self, to, x);
    }
    op_check_side(o, &o->send, "send", o->send.words);
}
