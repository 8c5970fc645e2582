/*
 * Compositions on a simulated network with trouble, on nodes of any shape: chains of a reduce, a
 * pipeline of chains and a barrier, by random algorithms, several under way at once on the world,
 * with plain all-reduces between them; then the same machines once more with other sizes. In every
 * third run one member disagrees about one of them: other segments, another size, a segment that it
 * refuses. That one ends everywhere, with an error on somebody; all others are right.
 *
 * Run: args="--seeds 300" timeout=120
 * Run: args="--seeds 150 --seed 5300" env="PAMI_RNDV_BYTES=64" timeout=120
 * Run: args="--seeds 150 --seed 9000" env="PAMI_COLL_SLICES=1" timeout=120
 * Run: args="--seeds 150 --seed 9900" env="PAMI_COLL_SHARED_TREE=3 PAMI_COLL_SHARED_RADIX=2"
 */
#include <pami/pamix.h>

#include "api/coll_arguments.h"
#include "coll_start.h"
#include "trouble.h"

enum {
    COMPOSED = 3,
    OPERATIONS = 2 * COMPOSED, /* a plain one behind each */
    WORDS = 6000,
    STAGES = 2,
    WRONG = 3
};

struct member {
    pamix_machine_t reduce, barrier, link[STAGES][2], stage[STAGES], pipeline, whole;
    size_t count, segment, segments, refused;
    size_t root, self;
    const struct sim_job *job;
    bool done;
    pami_result_t result;
    int sources[WORDS], reduced[WORDS], total[WORDS], sent[WORDS];
};

struct plain {
    int mine, total;
    bool done;
    pami_result_t result;
};

struct scene {
    struct sim_job job;
    struct dice dice;
    struct member *members[COMPOSED];
    struct plain *plain[COMPOSED];
    size_t wrong, odd;     /* which composition, on which member; COMPOSED: none */
    bool narrow[COMPOSED]; /* another segment does not make it more than 256 runs */
};

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct member *m = cookie;

    (void)context;
    CHECK(!m->done);
    m->done = true;
    m->result = result;
}

static void on_plain(pami_context_t context, void *cookie, pami_result_t result)
{
    struct plain *p = cookie;

    (void)context;
    CHECK(!p->done);
    p->done = true;
    p->result = result;
}

/* ---- machines ---- */

static pami_result_t reset_reduction(struct member *m, pamix_machine_t machine, bool all,
                                     size_t first, size_t count)
{
    pami_collective_t cmd;

    if (all)
        cmd.xfer_allreduce =
            coll_sum(m->sources + first, m->total + first, PAMI_TYPE_SIGNED_INT, count);
    else
        cmd.xfer_reduce = (pami_reduce_t){
            .root = job_endpoint(m->job, m->root, 0),
            .sndbuf = (char *)(m->sources + first),
            .stype = PAMI_TYPE_SIGNED_INT,
            .stypecount = count,
            .rcvbuf = (char *)(m->reduced + first),
            .rtype = PAMI_TYPE_SIGNED_INT,
            .rtypecount = count,
            .op = PAMI_DATA_SUM,
        };
    return PAMIX_Machine_reset(machine, &cmd);
}

static pami_result_t bind(pamix_machine_t machine, size_t index, void *cookie)
{
    struct member *m = cookie;
    size_t first = index * m->segment;
    size_t count = first >= m->count ? 0 : m->count - first;
    pami_collective_t cmd;
    pami_result_t result;

    CHECK(machine == m->stage[index % STAGES]);
    if (index == m->refused)
        return PAMI_INVAL;
    count = count < m->segment ? count : m->segment;
    result = reset_reduction(m, m->link[index % STAGES][0], true, first, count);
    cmd.xfer_broadcast = (pami_broadcast_t){job_endpoint(m->job, m->root, 0),
                                            (char *)(m->sent + first), PAMI_TYPE_SIGNED_INT, count};
    return result == PAMI_SUCCESS ? PAMIX_Machine_reset(m->link[index % STAGES][1], &cmd) : result;
}

/* By the algorithm in this place of list 0, or Auto where that is not for compositions. */
static pamix_machine_t make_machine(struct member *m, pami_xfer_type_t type, size_t place)
{
    enum {
        MOST = 64
    };
    pami_algorithm_t handles[MOST];
    pami_collective_t cmd = {.xfer_broadcast = {.root = job_endpoint(m->job, 0, 0)}};
    pami_context_t context = job_context(m->job, m->self, 0);
    pamix_machine_t machine;
    pami_geometry_t world;
    size_t lengths[2];

    CALL(PAMI_Geometry_world(m->job->client[m->self], &world));
    CALL(PAMI_Geometry_algorithms_num(world, type, lengths));
    CALL(PAMI_Geometry_algorithms_query(world, type, handles, NULL, MOST, NULL, NULL, 0));
    CALL(PAMIX_Machine_create(context, handles[place % lengths[0]], &machine));
    if (type == PAMI_XFER_ALLREDUCE)
        cmd.xfer_allreduce = coll_sum(m->sources, m->total, PAMI_TYPE_SIGNED_INT, 1);
    if ((type == PAMI_XFER_REDUCE ? reset_reduction(m, machine, false, 0, 1)
                                  : PAMIX_Machine_reset(machine, &cmd)) != PAMI_SUCCESS) {
        CALL(PAMIX_Machine_destroy(&machine));
        CALL(PAMIX_Machine_create(context, handles[0], &machine));
    }
    return machine;
}

static void make_member(struct member *m, const size_t *places)
{
    pami_context_t context = job_context(m->job, m->self, 0);
    pami_collective_t cmd;

    m->reduce = make_machine(m, PAMI_XFER_REDUCE, places[0]);
    m->barrier = make_machine(m, PAMI_XFER_BARRIER, places[1]);
    CALL(PAMIX_Machine_reset(m->barrier, &cmd));
    for (int i = 0; i < STAGES; i++) {
        m->link[i][0] = make_machine(m, PAMI_XFER_ALLREDUCE, places[2]);
        m->link[i][1] = make_machine(m, PAMI_XFER_BROADCAST, places[3]);
        CALL(PAMIX_Chain_create(context, m->link[i], 2, &m->stage[i]));
    }
    CALL(PAMIX_Pipeline_create(context, m->stage, STAGES, bind, m, &m->pipeline));
    CALL(PAMIX_Chain_create(context, (pamix_machine_t[]){m->reduce, m->pipeline, m->barrier}, 3,
                            &m->whole));
}

/* Other sizes for the same machines. */
static void bind_all(struct scene *s, size_t which)
{
    size_t count = 1 + dice_size(&s->dice, WORDS - 1);
    size_t segments = 1 + dice_below(&s->dice, 6), segment = (count + segments - 1) / segments;
    size_t root = dice_below(&s->dice, s->job.tasks), kind = dice_below(&s->dice, WRONG);

    for (size_t i = 0; i < s->job.tasks; i++) {
        struct member *m = &s->members[which][i];
        bool odd = which == s->wrong && i == s->odd;

        m->done = false;
        m->root = root;
        m->count = odd && kind == 0 && count > 1 ? count - 1 : count;
        m->segment = segment;
        m->segments = (count + segment - 1) / segment + (odd && kind == 1 && s->narrow[which]);
        m->refused = odd && kind == 2 ? dice_below(&s->dice, 6) : SIZE_MAX;
        for (size_t k = 0; k < WORDS; k++) {
            m->sources[k] = (int)(k * 3 + i + which);
            m->sent[k] = i == root ? (int)(k + 77) : -1;
        }
    }
}

/* ---- running ---- */

static void start(void *cookie, size_t operation, size_t self)
{
    struct scene *s = cookie;
    struct member *m = &s->members[operation / 2][self];
    struct plain *p = &s->plain[operation / 2][self];
    pami_context_t context = job_context(&s->job, self, 0);
    pami_geometry_t world;
    pami_xfer_t xfer = {.cb_done = on_plain, .cookie = p};

    if (operation % 2 == 0) {
        CALL(reset_reduction(m, m->reduce, false, 0, m->count));
        if (PAMIX_Pipeline_reset(m->pipeline, m->segments) != PAMI_SUCCESS) {
            CHECK(m->refused < STAGES);
            m->refused += STAGES;
            CALL(PAMIX_Pipeline_reset(m->pipeline, m->segments));
        }
        CALL(PAMIX_Machine_start(m->whole, on_done, m));
        return;
    }
    *p = (struct plain){.mine = (int)self + 1};
    CALL(PAMI_Geometry_world(s->job.client[self], &world));
    CALL(PAMI_Geometry_algorithms_query(world, PAMI_XFER_ALLREDUCE, &xfer.algorithm, NULL, 1, NULL,
                                        NULL, 0));
    xfer.cmd.xfer_allreduce = coll_sum(&p->mine, &p->total, PAMI_TYPE_SIGNED_INT, 1);
    CALL(PAMI_Collective(context, &xfer));
}

static void check_right(const struct scene *s, size_t which, const struct member *m)
{
    int tasks = (int)s->job.tasks, extra = tasks * (tasks - 1) / 2 + tasks * (int)which;

    for (size_t k = 0; k < m->count; k++) {
        CHECK(m->total[k] == (int)k * 3 * tasks + extra);
        CHECK(m->self != m->root || m->reduced[k] == m->total[k]);
        CHECK(m->sent[k] == (int)(k + 77));
    }
}

static void check(const struct scene *s)
{
    size_t errors = 0;
    bool wrong = false;

    for (size_t i = 0; i < COMPOSED; i++)
        for (size_t k = 0; k < s->job.tasks; k++) {
            const struct member *m = &s->members[i][k];
            const struct plain *p = &s->plain[i][k];

            CHECK(m->done && p->done && p->result == PAMI_SUCCESS);
            CHECK(p->total == (int)(s->job.tasks * (s->job.tasks + 1) / 2));
            errors += m->result != PAMI_SUCCESS;
            wrong = wrong || (m->refused != SIZE_MAX && m->refused < m->segments) ||
                    m->segments != s->members[i][0].segments;
            if (i != s->wrong) {
                CHECK(m->result == PAMI_SUCCESS);
                check_right(s, i, m);
            }
        }
    CHECK(!wrong || errors != 0);
}

static void run_once(struct scene *s)
{
    for (size_t i = 0; i < COMPOSED; i++)
        bind_all(s, i);
    coll_start_all(&s->job, &s->dice, OPERATIONS, start, s);
    job_settle(&s->job);
    check(s);
}

static void run(uint64_t seed, size_t tasks)
{
    struct scene s = {.dice = {seed}, .wrong = COMPOSED};
    pamix_sim_config_t config = trouble_config(&s.dice, seed);
    size_t places[4];

    tasks = tasks != 0 ? tasks : 1 + trouble_tasks(&s.dice) % 20;
    job_create(&s.job, &config, tasks, 1);
    for (size_t i = 0; i < COMPOSED; i++) {
        s.members[i] = calloc(tasks, sizeof(struct member));
        s.plain[i] = calloc(tasks, sizeof(struct plain));
        CHECK(s.members[i] != NULL && s.plain[i] != NULL);
        for (int k = 0; k < 4; k++)
            places[k] = dice_one_in(&s.dice, 2) ? 0 : dice_below(&s.dice, 60);
        s.narrow[i] = places[2] == 0 && places[3] == 0;
        for (size_t k = 0; k < tasks; k++) {
            s.members[i][k].self = k;
            s.members[i][k].job = &s.job;
            make_member(&s.members[i][k], places);
        }
    }
    if (seed % 3 == 0) {
        s.wrong = dice_below(&s.dice, COMPOSED);
        s.odd = dice_below(&s.dice, tasks);
    }
    run_once(&s);
    s.wrong = COMPOSED;
    run_once(&s);
    for (size_t i = 0; i < COMPOSED; i++) {
        for (size_t k = 0; k < tasks; k++)
            CALL(PAMIX_Machine_destroy(&s.members[i][k].whole));
        free(s.members[i]);
        free(s.plain[i]);
    }
    job_destroy(&s.job);
}

int main(int argc, char **argv)
{
    struct test_arguments given = test_arguments(argc, argv, 100);

    test_each_seed(&given, run);
    return 0;
}
