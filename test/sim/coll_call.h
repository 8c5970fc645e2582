/*
 * Random collectives: starting them, and what must be there in the end. Who learns that a
 * collective has failed uses its buffers for something else at once.
 */
#ifndef LIBPAMI_SIM_COLL_CALL_H
#define LIBPAMI_SIM_COLL_CALL_H

#include "coll_oracle.h"
#include "coll_start.h"

/* The buffers of a collective that has failed are the program's again. */
static void use_again(struct side *side)
{
    if (side->memory != NULL)
        memset(side->memory, USED_AGAIN, side->words * sizeof(uint32_t));
}

static bool is_as_used(const struct side *side)
{
    const unsigned char *bytes = (const unsigned char *)side->memory;
    size_t count = side->memory != NULL ? side->words * sizeof(uint32_t) : 0;

    return count == 0 || (bytes[0] == USED_AGAIN && memcmp(bytes, bytes + 1, count - 1) == 0);
}

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct member *m = cookie;

    (void)context;
    CHECK(!m->done);
    m->done = true;
    m->result = result;
    if (result != PAMI_SUCCESS) {
        use_again(&m->send);
        use_again(&m->recv);
    }
}

/* ---- arguments ---- */

static char *buffer(const struct side *side)
{
    return (char *)side->memory;
}

/* What stands for the send buffer of a member that works in place. */
static char *send_buffer(struct scene *s, const struct member *m, size_t at)
{
    if (!m->in_place)
        return buffer(&m->send);
    return dice_one_in(&s->dice, 2) ? PAMI_IN_PLACE
                                    : buffer(&m->recv) + at * m->recv.stride * sizeof(uint32_t);
}

/* What describes it. With PAMI_IN_PLACE these arguments mean nothing; with the same address they
 * say that the data is where it is received. */
static const struct side *send_side(const struct member *m, const char *from)
{
    return m->in_place && from != PAMI_IN_PLACE ? &m->recv : &m->send;
}

static void set_reduction(struct scene *s, const struct operation *o, struct member *m,
                          pami_allreduce_t *x)
{
    const struct side *from = m->in_place ? &m->recv : &m->send;

    *x = (pami_allreduce_t){
        .sndbuf = send_buffer(s, m, 0),
        .stype = from->type,
        .stypecount = o->count,
        .rcvbuf = buffer(&m->recv),
        .rtype = m->recv.type,
        .rtypecount = o->count,
        .op = o->op,
        .data_cookie = &test_seed,
        .commutative = 0,
    };
}

static void set_reduce(pami_reduce_t *x, const pami_allreduce_t *from, pami_endpoint_t root)
{
    *x = (pami_reduce_t){
        root,        from->sndbuf,     from->stype, from->stypecount,  from->rcvbuf,
        from->rtype, from->rtypecount, from->op,    from->data_cookie, from->commutative};
}

static void vector_arguments(struct scene *s, struct operation *o, size_t self,
                             pami_collective_t *to)
{
    struct member *m = &o->member[self];
    const struct side *out = &m->send, *in = &m->recv;
    pami_endpoint_t root = job_endpoint(&s->job, o->root, 0);
    size_t own = block(s, o, self, self);
    char *from = buffer(out), *into = buffer(in);

    if (o->kind != PAMI_XFER_SCATTERV) {
        from = send_buffer(s, m, o->kind == PAMI_XFER_ALLTOALLV ? 0 : place(in, self, 0));
        out = send_side(m, from);
    } else if (m->in_place) {
        into = PAMI_IN_PLACE;
    }
    switch (o->type) {
    case PAMI_XFER_ALLGATHERV:
        to->xfer_allgatherv =
            (pami_allgatherv_t){from, out->type, own, into, in->type, in->counts, in->places};
        break;
    case PAMI_XFER_ALLGATHERV_INT:
        to->xfer_allgatherv_int = (pami_allgatherv_int_t){
            from, out->type, (int)own, into, in->type, in->narrow_counts, in->narrow_places};
        break;
    case PAMI_XFER_GATHERV:
        to->xfer_gatherv =
            (pami_gatherv_t){root, from, out->type, own, into, in->type, in->counts, in->places};
        break;
    case PAMI_XFER_GATHERV_INT:
        to->xfer_gatherv_int = (pami_gatherv_int_t){
            root, from, out->type, (int)own, into, in->type, in->narrow_counts, in->narrow_places};
        break;
    case PAMI_XFER_SCATTERV:
        to->xfer_scatterv =
            (pami_scatterv_t){root, from, out->type, out->counts, out->places, into, in->type, own};
        break;
    case PAMI_XFER_SCATTERV_INT:
        to->xfer_scatterv_int =
            (pami_scatterv_int_t){root, from,     out->type, out->narrow_counts, out->narrow_places,
                                  into, in->type, (int)own};
        break;
    case PAMI_XFER_ALLTOALLV:
        to->xfer_alltoallv = (pami_alltoallv_t){from, out->type, out->counts, out->places,
                                                into, in->type,  in->counts,  in->places};
        break;
    default:
        to->xfer_alltoallv_int =
            (pami_alltoallv_int_t){from, out->type, out->narrow_counts, out->narrow_places,
                                   into, in->type,  in->narrow_counts,  in->narrow_places};
    }
}

static pami_collective_t arguments(struct scene *s, struct operation *o, size_t self)
{
    struct member *m = &o->member[self];
    pami_endpoint_t root = job_endpoint(&s->job, o->root, 0);
    pami_collective_t cmd;
    char *from;
    pami_allreduce_t reduction;
    bool sends_many = o->kind == PAMI_XFER_SCATTER || o->kind == PAMI_XFER_SCATTERV;

    memset(&cmd, 0x5c, sizeof(cmd));
    set_reduction(s, o, m, &reduction);
    switch (o->type) {
    case PAMI_XFER_BARRIER:
        break;
    case PAMI_XFER_BROADCAST:
        cmd.xfer_broadcast = (pami_broadcast_t){root, buffer(&m->recv), m->recv.type, o->count};
        break;
    case PAMI_XFER_ALLREDUCE:
        cmd.xfer_allreduce = reduction;
        break;
    case PAMI_XFER_SCAN:
        memcpy(&cmd.xfer_scan, &reduction, sizeof(reduction));
        cmd.xfer_scan.exclusive = o->exclusive;
        break;
    case PAMI_XFER_REDUCE:
        set_reduce(&cmd.xfer_reduce, &reduction, root);
        break;
    case PAMI_XFER_REDUCE_SCATTER:
        memcpy(&cmd.xfer_reduce_scatter, &reduction, sizeof(reduction));
        cmd.xfer_reduce_scatter.rcounts = o->block;
        break;
    case PAMI_XFER_ALLGATHER:
    case PAMI_XFER_ALLTOALL:
        from = send_buffer(s, m, o->type == PAMI_XFER_ALLTOALL ? 0 : self * o->count);
        cmd.xfer_allgather = (pami_allgather_t){
            from, send_side(m, from)->type, o->count, buffer(&m->recv), m->recv.type, o->count};
        break;
    case PAMI_XFER_GATHER:
        from = send_buffer(s, m, self * o->count);
        cmd.xfer_gather = (pami_gather_t){
            root,         from,    send_side(m, from)->type, o->count, buffer(&m->recv),
            m->recv.type, o->count};
        break;
    case PAMI_XFER_SCATTER:
        cmd.xfer_scatter = (pami_scatter_t){root,     buffer(&m->send), m->send.type,
                                            o->count, buffer(&m->recv), m->recv.type,
                                            o->count};
        if (m->in_place)
            cmd.xfer_scatter.rcvbuf = PAMI_IN_PLACE;
        break;
    default:
        vector_arguments(s, o, self, &cmd);
    }
    if (self != o->root && has_root(o) && o->kind != PAMI_XFER_BROADCAST) {
        /* The other side means nothing here. */
        if (sends_many)
            cmd.xfer_scatter.sndbuf = NULL;
        else if (o->kind == PAMI_XFER_REDUCE)
            cmd.xfer_reduce.rcvbuf = NULL;
        else
            cmd.xfer_gather.rcvbuf = NULL;
    }
    return cmd;
}

/* ---- running ---- */

/* One of the operations before this one has failed on the member, as far as it knows. */
static bool has_failed(const struct scene *s, size_t operation, size_t self)
{
    for (size_t i = 0; i < operation; i++) {
        const struct member *m = &s->operation[i].member[self];

        if (m->left_out || (m->done && m->result != PAMI_SUCCESS))
            return true;
    }
    return false;
}

static void start(void *cookie, size_t operation, size_t self)
{
    struct scene *s = cookie;
    struct operation *o = &s->operation[operation];
    pami_xfer_t xfer = {.cb_done = on_done, .cookie = &o->member[self]};

    if (s->stops && has_failed(s, operation, self)) {
        o->member[self].left_out = true;
        return;
    }
    xfer.cmd = arguments(s, o, self);
    o->name = coll_set_algorithm(&s->job, self, o->type, o->choice, &xfer);
    CALL(PAMI_Collective(job_context(&s->job, self, 0), &xfer));
    memset(&xfer, 0xdd, sizeof(xfer));
}

static void check_member(const struct scene *s, const struct operation *o, size_t self)
{
    const struct member *m = &o->member[self];
    size_t words = m->recv.words;

    if (m->left_out)
        return;
    if (m->done && m->result != PAMI_SUCCESS && (!is_as_used(&m->send) || !is_as_used(&m->recv)))
        FAIL("%s of type %d, root %zu, member %zu of %zu: a buffer is written to after the end",
             o->name, (int)o->type, o->root, self, s->members);
    if (!s->dead[self] && s->deadly && m->done && m->result != PAMI_SUCCESS &&
        m->result != PAMI_ERROR)
        FAIL("%s of type %d, member %zu of %zu: result %d", o->name, (int)o->type, self, s->members,
             (int)m->result);
    if (s->dead[self] || (s->deadly && m->done && m->result != PAMI_SUCCESS))
        return;
    if (!m->done || m->result != PAMI_SUCCESS)
        FAIL("%s of type %d, root %zu, member %zu of %zu: %s %d", o->name, (int)o->type, o->root,
             self, s->members, m->done ? "result" : "not done", (int)m->result);
    if (o->kind == PAMI_XFER_REDUCE_SCATTER && m->in_place)
        words = o->block[self] * m->recv.stride - (o->block[self] != 0 ? m->recv.stride - 1 : 0);
    for (size_t i = 0; i < words; i++)
        if (m->recv.memory[i] != m->recv.expected[i])
            FAIL(
                "%s of type %d, root %zu, member %zu of %zu, count %zu, stride %zu, %s: int %zu is "
                "%#x, expected %#x",
                o->name, (int)o->type, o->root, self, s->members, o->count, m->recv.stride,
                m->in_place ? "in place" : "two buffers", i, m->recv.memory[i],
                m->recv.expected[i]);
}

/* ---- scenes ---- */

/* Clients, and `count` operations. */
static inline void scene_create(struct scene *s, const pamix_sim_config_t *config, size_t count)
{
    job_create(&s->job, config, s->members, 1);
    CALL(PAMI_Type_create(&s->strided));
    CALL(PAMI_Type_add_typed(s->strided, PAMI_TYPE_UNSIGNED_INT, 0, 1, 3 * sizeof(uint32_t)));
    CALL(PAMI_Type_complete(s->strided, sizeof(uint32_t)));
    s->operations = count;
    for (size_t i = 0; i < count; i++) {
        make_operation(s, &s->operation[i]);
        s->operation[i].choice = coll_choose(&s->job, &s->dice, s->operation[i].type);
    }
}

static inline void scene_check(const struct scene *s)
{
    for (size_t i = 0; i < s->operations; i++)
        for (size_t self = 0; self < s->members; self++)
            check_member(s, &s->operation[i], self);
}

static inline void scene_destroy(struct scene *s)
{
    job_destroy(&s->job);
    for (size_t i = 0; i < s->operations; i++)
        free_operation(s, &s->operation[i]);
    CALL(PAMI_Type_destroy(&s->strided));
}

#endif
