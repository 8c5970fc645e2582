/*
 * Members that disagree about the size of a collective, on a simulated network with trouble: one of
 * them, or some, call with another count than the others, maybe none, with every type, every
 * algorithm of both lists, on nodes of any shape. The collective ends on all members, and somebody
 * gets an error; those before and behind it in the same group, and in another one, are right. All
 * are started one behind the other, and may run at once.
 *
 * Run: args="--seeds 400 --seed 2450" timeout=120
 * Run: args="--seeds 200 --seed 5300" env="PAMI_RNDV_BYTES=64 PAMI_COLL_SEGMENT=256" timeout=120
 * Run: args="--seeds 500 --seed 7250" env="PAMI_COLL_LEVELS=node:2,package:2,core:2" timeout=120
 */
#include "api/coll_arguments.h"
#include "coll_start.h"
#include "trouble.h"

enum {
    OPERATIONS = 10,
    WORDS = 3000, /* of a block at most */
    MEMBERS = COLL_BLOCKS_MAX
};

static const pami_xfer_type_t types[] = {
    PAMI_XFER_BROADCAST, PAMI_XFER_ALLREDUCE,      PAMI_XFER_REDUCE,
    PAMI_XFER_ALLGATHER, PAMI_XFER_ALLGATHERV,     PAMI_XFER_ALLGATHERV_INT,
    PAMI_XFER_SCATTER,   PAMI_XFER_SCATTERV,       PAMI_XFER_SCATTERV_INT,
    PAMI_XFER_GATHER,    PAMI_XFER_GATHERV,        PAMI_XFER_GATHERV_INT,
    PAMI_XFER_ALLTOALL,  PAMI_XFER_ALLTOALLV,      PAMI_XFER_ALLTOALLV_INT,
    PAMI_XFER_SCAN,      PAMI_XFER_REDUCE_SCATTER,
};

struct member {
    size_t count;
    bool done;
    pami_result_t result;
    uint32_t *source, *target; /* of one that is right */
    struct coll_blocks blocks;
};

struct operation {
    pami_xfer_type_t type;
    bool wrong;
    size_t context, root;
    struct choice choice;
    const char *name;
    struct member member[MEMBERS];
};

struct scene {
    struct sim_job job;
    size_t members;
    struct dice dice;
    struct operation *operation;
};

/* Where those that disagree get their data from, and put it. */
static uint32_t source[MEMBERS * WORDS], target[MEMBERS * WORDS];

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct member *m = cookie;

    (void)context;
    CHECK(!m->done);
    m->done = true;
    m->result = result;
}

/* ---- arguments ---- */

static void arguments(const struct scene *s, struct operation *o, size_t self,
                      pami_collective_t *to)
{
    struct member *m = &o->member[self];

    m->blocks = (struct coll_blocks){
        .from = o->wrong ? source : m->source,
        .into = o->wrong ? target : m->target,
        .type = PAMI_TYPE_UNSIGNED_INT,
        .root = job_endpoint(&s->job, o->root, o->context),
        .members = s->members,
    };
    coll_arguments(&m->blocks, o->type, m->count, to);
}

/* ---- making ---- */

static size_t random_count(struct scene *s)
{
    return dice_one_in(&s->dice, 4) ? 0 : 1 + dice_size(&s->dice, WORDS - 1);
}

/* One that is right is an allreduce. */
static void make_right(struct scene *s, struct operation *o)
{
    size_t count = random_count(s);

    o->type = PAMI_XFER_ALLREDUCE;
    for (size_t i = 0; i < s->members; i++) {
        struct member *m = &o->member[i];

        m->count = count;
        m->source = calloc(count + 1, sizeof(uint32_t));
        m->target = calloc(count + 1, sizeof(uint32_t));
        CHECK(m->source != NULL && m->target != NULL);
        for (size_t x = 0; x < count; x++)
            m->source[x] = (uint32_t)(x * 1000 + i);
    }
}

static void make(struct scene *s, struct operation *o)
{
    size_t odd = dice_below(&s->dice, s->members);
    size_t counts[2] = {random_count(s), random_count(s)};
    bool many = dice_one_in(&s->dice, 3);

    o->wrong = dice_one_in(&s->dice, 2);
    o->root = dice_below(&s->dice, s->members);
    o->type = types[dice_below(&s->dice, sizeof(types) / sizeof(types[0]))];
    o->context = !o->wrong && dice_one_in(&s->dice, 3);
    if (o->wrong)
        for (size_t i = 0; i < s->members; i++)
            o->member[i].count = counts[i == odd || (many && i != (odd + 1) % s->members &&
                                                     dice_one_in(&s->dice, 2))];
    else
        make_right(s, o);
    o->choice = coll_choose(&s->job, &s->dice, o->type);
    if (dice_one_in(&s->dice, 3))
        o->choice = (struct choice){0, 0};
}

static void start(void *cookie, size_t operation, size_t self)
{
    struct scene *s = cookie;
    struct operation *o = &s->operation[operation];
    pami_xfer_t xfer = {.cb_done = on_done, .cookie = &o->member[self]};

    arguments(s, o, self, &xfer.cmd);
    o->name = coll_set_algorithm(&s->job, self, o->type, o->choice, &xfer);
    CALL(PAMI_Collective(job_context(&s->job, self, o->context), &xfer));
}

/* ---- checks ---- */

static void check_right(const struct scene *s, const struct operation *o)
{
    uint32_t n = (uint32_t)s->members;

    for (size_t i = 0; i < s->members; i++) {
        const struct member *m = &o->member[i];

        if (m->result != PAMI_SUCCESS)
            FAIL("%s of type %d, operation %zu, member %zu of %zu: all agree, but result %d",
                 o->name, (int)o->type, (size_t)(o - s->operation), i, s->members, (int)m->result);
        for (size_t x = 0; x < m->count; x++)
            CHECK(m->target[x] == (uint32_t)x * 1000 * n + n * (n - 1) / 2);
    }
}

static void check(const struct scene *s, const struct operation *o)
{
    bool differ = false, known = false, none = false;

    for (size_t i = 0; i < s->members; i++) {
        const struct member *m = &o->member[i];

        if (!m->done)
            FAIL("%s of type %d, root %zu, operation %zu, member %zu of %zu, %zu words: hangs",
                 o->name, (int)o->type, o->root, (size_t)(o - s->operation), i, s->members,
                 m->count);
        differ = differ || m->count != o->member[0].count;
        none = none || m->count == 0;
        known = known || m->result != PAMI_SUCCESS;
    }
    if (!o->wrong)
        check_right(s, o);
    else if (known != differ && !(differ && none))
        FAIL("%s of type %d, root %zu, %zu members: %s", o->name, (int)o->type, o->root, s->members,
             differ ? "they disagree, and nobody knows" : "all agree, but somebody fails");
}

static void run(uint64_t seed, size_t tasks)
{
    struct scene s = {.dice = {seed}};
    pamix_sim_config_t config = trouble_config(&s.dice, seed);

    s.members = tasks != 0 ? tasks : 2 + dice_size(&s.dice, dice_one_in(&s.dice, 8) ? 60 : 12);
    CHECK(s.members <= MEMBERS);
    job_create(&s.job, &config, s.members, 2);
    s.operation = calloc(OPERATIONS, sizeof(*s.operation));
    CHECK(s.operation != NULL);
    for (size_t i = 0; i < OPERATIONS; i++)
        make(&s, &s.operation[i]);
    coll_start_all(&s.job, &s.dice, OPERATIONS, start, &s);
    PAMIX_Sim_run(s.job.client[0], NULL, NULL, 0, 0);
    for (size_t i = 0; i < OPERATIONS; i++)
        check(&s, &s.operation[i]);
    job_settle(&s.job);
    job_destroy(&s.job);
    for (size_t i = 0; i < OPERATIONS; i++)
        for (size_t m = 0; m < s.members; m++) {
            free(s.operation[i].member[m].source);
            free(s.operation[i].member[m].target);
        }
    free(s.operation);
}

int main(int argc, char **argv)
{
    struct test_arguments given = test_arguments(argc, argv, 100);

    test_each_seed(&given, run);
    return 0;
}
