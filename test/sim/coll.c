/*
 * Random collectives, several in flight, on a simulated network with trouble: every type, every
 * algorithm of both lists, contiguous and strided types on either side, in place or not, rotating
 * roots, zero counts, a user's operator that does not commute, members that come late. The whole
 * buffer of each member is compared with what it must hold, gaps included. In every fourth run
 * members die. Who learns that a collective has failed uses its buffers for something else at once,
 * which must neither reach those who end well nor be overwritten.
 *
 * Run: args="--seeds 400" timeout=120
 * Run: args="--seeds 300 --seed 5300" env="PAMI_RNDV_BYTES=64 PAMI_COLL_SEGMENT=256" timeout=120
 * Run: args="--seeds 600 --seed 600700" timeout=120
 * Run: args="--seeds 300 --seed 7000" env="PAMI_COLL_LEVELS=node:2,package:2,core:2" timeout=120
 * Run: args="--seeds 300 --seed 8000" env="PAMI_COLL_LEVELS=cache:3 PAMI_COLL_LEADERS=first"
 * Run: args="--seeds 200 --seed 9000" env="PAMI_COLL_SLICES=1" timeout=120
 * Run: args="--seeds 200 --seed 9500" env="PAMI_COLL_SLICES=2 PAMI_COLL_LEVELS=node:2,core:2"
 */
#include "coll_oracle.h"
#include "trouble.h"

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
    pami_endpoint_t root = job_endpoint(&s->job, o->root, 0);
    size_t own = block(s, o, self, self);

    switch (o->type) {
    case PAMI_XFER_ALLGATHERV:
        to->xfer_allgatherv = (pami_allgatherv_t){send_buffer(s, m, place(&m->recv, self, 0)),
                                                  m->send.type,
                                                  own,
                                                  buffer(&m->recv),
                                                  m->recv.type,
                                                  m->recv.counts,
                                                  m->recv.places};
        break;
    case PAMI_XFER_ALLGATHERV_INT:
        to->xfer_allgatherv_int =
            (pami_allgatherv_int_t){send_buffer(s, m, place(&m->recv, self, 0)),
                                    m->send.type,
                                    (int)own,
                                    buffer(&m->recv),
                                    m->recv.type,
                                    m->recv.narrow_counts,
                                    m->recv.narrow_places};
        break;
    case PAMI_XFER_GATHERV:
        to->xfer_gatherv = (pami_gatherv_t){root,
                                            send_buffer(s, m, place(&m->recv, self, 0)),
                                            m->send.type,
                                            own,
                                            buffer(&m->recv),
                                            m->recv.type,
                                            m->recv.counts,
                                            m->recv.places};
        break;
    case PAMI_XFER_GATHERV_INT:
        to->xfer_gatherv_int = (pami_gatherv_int_t){root,
                                                    send_buffer(s, m, place(&m->recv, self, 0)),
                                                    m->send.type,
                                                    (int)own,
                                                    buffer(&m->recv),
                                                    m->recv.type,
                                                    m->recv.narrow_counts,
                                                    m->recv.narrow_places};
        break;
    case PAMI_XFER_SCATTERV:
        to->xfer_scatterv =
            (pami_scatterv_t){root,           buffer(&m->send),
                              m->send.type,   m->send.counts,
                              m->send.places, m->in_place ? PAMI_IN_PLACE : buffer(&m->recv),
                              m->recv.type,   own};
        break;
    case PAMI_XFER_SCATTERV_INT:
        to->xfer_scatterv_int =
            (pami_scatterv_int_t){root,
                                  buffer(&m->send),
                                  m->send.type,
                                  m->send.narrow_counts,
                                  m->send.narrow_places,
                                  m->in_place ? PAMI_IN_PLACE : buffer(&m->recv),
                                  m->recv.type,
                                  (int)own};
        break;
    case PAMI_XFER_ALLTOALLV:
        to->xfer_alltoallv =
            (pami_alltoallv_t){send_buffer(s, m, 0), m->send.type, m->send.counts, m->send.places,
                               buffer(&m->recv),     m->recv.type, m->recv.counts, m->recv.places};
        break;
    default:
        to->xfer_alltoallv_int = (pami_alltoallv_int_t){
            send_buffer(s, m, 0), m->send.type, m->send.narrow_counts, m->send.narrow_places,
            buffer(&m->recv),     m->recv.type, m->recv.narrow_counts, m->recv.narrow_places};
    }
}

static pami_collective_t arguments(struct scene *s, struct operation *o, size_t self)
{
    struct member *m = &o->member[self];
    pami_endpoint_t root = job_endpoint(&s->job, o->root, 0);
    pami_collective_t cmd;
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
        cmd.xfer_allgather = (pami_allgather_t){
            send_buffer(s, m, o->type == PAMI_XFER_ALLTOALL ? 0 : self * o->count),
            m->send.type,
            o->count,
            buffer(&m->recv),
            m->recv.type,
            o->count};
        break;
    case PAMI_XFER_GATHER:
        cmd.xfer_gather = (pami_gather_t){root,
                                          send_buffer(s, m, self * o->count),
                                          m->send.type,
                                          o->count,
                                          buffer(&m->recv),
                                          m->recv.type,
                                          o->count};
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

static void choose(struct scene *s, struct operation *o)
{
    size_t lengths[2];
    pami_geometry_t world;

    CALL(PAMI_Geometry_world(s->job.client[0], &world));
    CALL(PAMI_Geometry_algorithms_num(world, o->type, lengths));
    CHECK(lengths[0] >= 1);
    o->list = lengths[1] != 0 && dice_one_in(&s->dice, 4);
    o->position = dice_below(&s->dice, lengths[o->list]);
}

/* The handle of the chosen algorithm on a member; Auto when the arguments do not suit it. */
static pami_algorithm_t handle_of(struct scene *s, struct operation *o, size_t self,
                                  pami_xfer_t *xfer)
{
    enum {
        MOST = 64
    };
    pami_algorithm_t handles[2][MOST];
    pami_metadata_t metadata[2][MOST];
    pami_geometry_t world;

    CALL(PAMI_Geometry_world(s->job.client[self], &world));
    CALL(PAMI_Geometry_algorithms_query(world, o->type, handles[0], metadata[0], MOST, handles[1],
                                        metadata[1], MOST));
    xfer->algorithm = handles[o->list][o->position];
    o->name = metadata[o->list][o->position].name;
    if (o->list == 1) {
        CHECK(metadata[1][o->position].check_correct.values.checkrequired);
        CHECK(metadata[1][o->position].check_fn != NULL);
        if (metadata[1][o->position].check_fn(xfer).bitmask != 0 ||
            metadata[1][o->position].check_correct.values.nonlocal)
            return handles[0][0];
    }
    return xfer->algorithm;
}

static void start(struct scene *s, struct operation *o, size_t self)
{
    pami_xfer_t xfer = {.cb_done = on_done, .cookie = &o->member[self]};

    xfer.cmd = arguments(s, o, self);
    xfer.algorithm = handle_of(s, o, self, &xfer);
    CALL(PAMI_Collective(job_context(&s->job, self, 0), &xfer));
    memset(&xfer, 0xdd, sizeof(xfer));
}

static void check_member(const struct scene *s, const struct operation *o, size_t self)
{
    const struct member *m = &o->member[self];
    size_t words = m->recv.words;

    if (m->done && m->result != PAMI_SUCCESS && (!is_as_used(&m->send) || !is_as_used(&m->recv)))
        FAIL("%s of type %d, root %zu, member %zu of %zu: a buffer is written to after the end",
             o->name, (int)o->type, o->root, self, s->members);
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

/* Every member starts the operations in the same order, each at its own pace. */
static void start_all(struct scene *s)
{
    size_t *next = calloc(s->members, sizeof(*next));
    size_t left = s->members * OPERATIONS;
    bool together = dice_one_in(&s->dice, 3);

    CHECK(next != NULL);
    while (left != 0) {
        size_t self = dice_below(&s->dice, s->members);

        if (next[self] == OPERATIONS)
            continue;
        start(s, &s->operation[next[self]], self);
        next[self]++;
        left--;
        if (!together && dice_one_in(&s->dice, 2))
            PAMIX_Sim_run(s->job.client[0], NULL, NULL, 1 + dice_below(&s->dice, 200), 0);
    }
    free(next);
}

/* Some of the members die; who needs them learns of it, nobody waits for ever. */
static void let_die(struct scene *s, pamix_sim_config_t *config, uint32_t *dead)
{
    s->deadly = true;
    config->dead_count = 1 + dice_below(&s->dice, (s->members + 3) / 4);
    for (size_t i = 0; i < config->dead_count; i++) {
        dead[i] = (uint32_t)dice_below(&s->dice, s->members);
        s->dead[dead[i]] = true;
    }
    config->dead = dead;
    config->dead_time = dice_unit(&s->dice) * 300e-6;
    config->dead_spread = trouble_time(&s->dice, 100e-6);
    config->dead_detect = trouble_time(&s->dice, 50e-6);
}

static void run(uint64_t seed, size_t tasks)
{
    uint32_t dead[70];
    struct scene s = {.dice = {seed}, .key = seed * 7919};
    pamix_sim_config_t config = trouble_config(&s.dice, seed);

    test_seed = seed;
    s.members = tasks != 0 ? tasks : trouble_tasks(&s.dice);
    if (seed % 4 == 0)
        let_die(&s, &config, dead);
    job_create(&s.job, &config, s.members, 1);
    CALL(PAMI_Type_create(&s.strided));
    CALL(PAMI_Type_add_typed(s.strided, PAMI_TYPE_UNSIGNED_INT, 0, 1, 3 * sizeof(uint32_t)));
    CALL(PAMI_Type_complete(s.strided, sizeof(uint32_t)));
    for (size_t i = 0; i < OPERATIONS; i++) {
        make_operation(&s, &s.operation[i]);
        choose(&s, &s.operation[i]);
    }
    start_all(&s);
    job_settle(&s.job);
    for (size_t i = 0; i < OPERATIONS; i++)
        for (size_t self = 0; self < s.members; self++)
            check_member(&s, &s.operation[i], self);
    job_destroy(&s.job);
    for (size_t i = 0; i < OPERATIONS; i++)
        free_operation(&s, &s.operation[i]);
    CALL(PAMI_Type_destroy(&s.strided));
}

int main(int argc, char **argv)
{
    struct test_arguments given = test_arguments(argc, argv, 100);

    for (uint64_t i = 0; i < given.seeds; i++)
        run(given.seed + i, given.tasks);
    return 0;
}
