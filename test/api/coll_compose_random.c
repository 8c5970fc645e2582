/*
 * Random compositions of random collectives over the world, the tasks of each node, and one task of
 * each node: chains, and pipelines inside of chains, started again with other arguments, by every
 * algorithm that may be part of one, among them those in shared memory; with plain collectives in
 * front of them and behind them, all under way at once. Everything that each member has in the end
 * is compared with what it must be.
 *
 *     coll_compose_random [--seed N] [--rounds N]
 *
 * Run: tasks=1,2,3,5,8 nodes=1,2 timeout=120
 * Run: tasks=3,5 nodes=1,2 args="--seed 300" env="PAMI_COLL_SHARED_BYTES=0" timeout=120
 * Run: tasks=5 args="--seed 400" env="PAMI_HEAP_BYTES=256K" timeout=120
 * Run: tasks=4 nodes=1,2 args="--seed 500" env="PAMI_COLL_SLICES=1" timeout=120
 * Run: tasks=5 args="--seed 600" env="PAMI_COLL_SHARED_TREE=3 PAMI_COLL_SHARED_RADIX=2" timeout=120
 * Run: tasks=4 args="--seed 700" env="PAMI_COLL_SHARED_RELAY=64" timeout=120
 */
#include <pami/pamix.h>
#include <unistd.h>

#include "coll_run.h"

enum {
    LINKS = 4,
    STAGES = 3,
    DEEP = 2, /* links of a stage */
    SEGMENTS = 8,
    PLAIN = 4,
    RUNS = 3
};

/* Tasks that run collectives together, this one among them, or not. */
struct part {
    pami_geometry_t geometry;
    pami_task_t *tasks;
    size_t members, self; /* 0 members: this task is none */
};

struct link {
    const struct part *part;
    pamix_machine_t machine;
    pami_xfer_type_t type;
    bool friendly;
};

struct composition {
    struct link links[LINKS];
    struct link stages[STAGES][DEEP];
    pamix_machine_t chain[STAGES], pipeline, whole;
    size_t segments, words;
    uint64_t seed; /* of the run */
    struct op *ops[LINKS], *deep[SEGMENTS][DEEP];
};

static struct job job;
static struct part parts[3]; /* world, node, leaders */

/* ---- parts ---- */

static void make_part(struct part *part, unsigned id, pami_task_t *tasks, size_t count)
{
    part->tasks = tasks;
    for (size_t i = 0; i < count; i++)
        if (tasks[i] == job.task) {
            part->self = i;
            part->members = count;
        }
    if (part->members != 0)
        create_list(&job, &part->geometry, NULL, id, tasks, count, 0);
}

static void make_parts(void)
{
    pami_configuration_t query = {.name = PAMI_CLIENT_NUM_LOCAL_TASKS};
    pami_task_t *all = test_alloc(job.tasks * sizeof *all);
    pami_task_t *node, *leaders = test_alloc(job.tasks * sizeof *leaders);
    size_t near, count = 0;
    int *first = test_alloc(job.tasks * sizeof *first);
    struct told told;
    pami_xfer_t xfer;
    int own;

    CHECK_OK(PAMI_Client_query(job.client, &query, 1));
    near = query.value.intval;
    query.name = PAMI_CLIENT_LOCAL_TASKS;
    CHECK_OK(PAMI_Client_query(job.client, &query, 1));
    node = test_alloc(near * sizeof *node);
    for (size_t i = 0; i < near; i++)
        node[i] = (pami_task_t)query.value.intarray[i];
    for (size_t i = 0; i < job.tasks; i++)
        all[i] = (pami_task_t)i;
    own = (int)node[0];
    xfer = coll_xfer(algorithm_of(world_of(&job), PAMI_XFER_ALLGATHER), &told);
    xfer.cmd.xfer_allgather = (pami_allgather_t){(char *)&own,  PAMI_TYPE_SIGNED_INT, 1,
                                                 (char *)first, PAMI_TYPE_SIGNED_INT, 1};
    coll_run(&job, job.context[0], &xfer);
    for (size_t i = 0; i < job.tasks; i++)
        if (first[i] == (int)i)
            leaders[count++] = (pami_task_t)i;
    make_part(&parts[0], 3, all, job.tasks);
    make_part(&parts[1], 4 + node[0], node, near);
    make_part(&parts[2], 100, leaders, count);
    free(first);
}

static void free_parts(void)
{
    for (int i = 0; i < 3; i++) {
        if (parts[i].members != 0)
            destroy_geometry(&job, &parts[i].geometry);
        free(parts[i].tasks);
    }
}

/* ---- links ---- */

static struct op *make_op(const struct link *link, size_t words, uint64_t seed,
                          pami_collective_t *cmd)
{
    const struct part *part = link->part;
    struct op *o = op_make(link->type, part->members, part->self, words, seed, link->friendly);

    o->name = "composed";
    op_arguments(o, job_endpoint(&job, part->tasks[o->root], 0), cmd);
    return o;
}

static pami_result_t bind_link(struct link *link, size_t words, uint64_t seed, struct op **op)
{
    pami_collective_t cmd;

    if (link->machine == NULL)
        return PAMI_SUCCESS;
    memset(&cmd, 0x5a, sizeof cmd);
    if (*op == NULL)
        *op = make_op(link, words, seed, &cmd);
    else
        op_arguments(*op, job_endpoint(&job, link->part->tasks[(*op)->root], 0), &cmd);
    return PAMIX_Machine_reset(link->machine, &cmd);
}

/* An algorithm that may be a part of compositions. */
static void make_link(struct link *link, uint64_t *state)
{
    size_t which = op_below(state, 5), list, position = op_below(state, 97);
    struct algorithms all;
    struct op *op = NULL;

    link->part = &parts[which < 3 ? 1 : which - 3 + (which == 4)];
    link->type = op_types[op_below(state, OP_TYPES)];
    list = op_below(state, 3) == 0;
    if (link->part->members == 0)
        return;
    all = algorithms_of(link->part->geometry, link->type);
    list = list && all.count[1] != 0;
    link->friendly = list != 0;
    position %= all.count[list];
    CHECK_OK(PAMIX_Machine_create(job.context[0], all.handle[list][position], &link->machine));
    if (bind_link(link, 300, 5, &op) != PAMI_SUCCESS) {
        CHECK_OK(PAMIX_Machine_destroy(&link->machine));
        CHECK_OK(PAMIX_Machine_create(job.context[0], all.handle[0][0], &link->machine));
    }
    op_free(op);
    algorithms_free(&all);
}

/* ---- compositions ---- */

static pami_result_t bind_segment(pamix_machine_t machine, size_t index, void *cookie)
{
    struct composition *c = cookie;
    pami_result_t result = PAMI_SUCCESS;

    CHECK(machine == c->chain[index % STAGES]);
    for (size_t i = 0; i < DEEP && result == PAMI_SUCCESS; i++)
        result = bind_link(&c->stages[index % STAGES][i], c->words, c->seed + 1000 * index + i,
                           &c->deep[index][i]);
    return result;
}

static size_t gather(struct link *links, size_t count, pamix_machine_t *machines)
{
    size_t made = 0;

    for (size_t i = 0; i < count; i++)
        if (links[i].machine != NULL)
            machines[made++] = links[i].machine;
    return made;
}

static void make(struct composition *c, uint64_t *state)
{
    pamix_machine_t machines[LINKS + 1];
    uint64_t stage = *state;
    size_t count;

    for (int i = 0; i < LINKS; i++)
        make_link(&c->links[i], state);
    count = gather(c->links, LINKS / 2, machines);
    if (op_below(state, 2) == 0) {
        for (int k = 0; k < STAGES; k++) {
            pamix_machine_t deep[DEEP];
            size_t links;

            stage = *state;
            for (int i = 0; i < DEEP; i++)
                make_link(&c->stages[k][i], &stage);
            links = gather(c->stages[k], DEEP, deep);
            CHECK_OK(PAMIX_Chain_create(job.context[0], deep, links, &c->chain[k]));
        }
        *state = stage;
        CHECK_OK(
            PAMIX_Pipeline_create(job.context[0], c->chain, STAGES, bind_segment, c, &c->pipeline));
        machines[count++] = c->pipeline;
    }
    count += gather(c->links + LINKS / 2, LINKS - LINKS / 2, machines + count);
    CHECK_OK(PAMIX_Chain_create(job.context[0], machines, count, &c->whole));
}

static void bind(struct composition *c, uint64_t *state)
{
    c->seed = op_below(state, 1000000);
    c->words = op_below(state, 3) == 0 ? 20000 : op_below(state, 100);
    c->segments = op_below(state, SEGMENTS + 1);
    for (size_t i = 0; i < LINKS; i++)
        CHECK_OK(bind_link(&c->links[i], c->words, c->seed + 500 + i, &c->ops[i]));
    if (c->pipeline != NULL)
        CHECK_OK(PAMIX_Pipeline_reset(c->pipeline, c->segments));
}

static void check_op(struct op **op)
{
    if (*op == NULL)
        return;
    op_check(*op);
    op_free(*op);
    *op = NULL;
}

/* Stages are bound also where they do not run. */
static void check(struct composition *c)
{
    for (size_t i = 0; i < LINKS; i++)
        check_op(&c->ops[i]);
    for (size_t i = 0; i < SEGMENTS; i++)
        for (size_t k = 0; k < DEEP; k++)
            check_op(&c->deep[i][k]);
}

/* ---- plain collectives ---- */

static struct op *start_plain(uint64_t *state)
{
    const struct part *part = &parts[op_below(state, 3)];
    pami_xfer_type_t type = op_types[op_below(state, OP_TYPES)];
    size_t words = op_below(state, 2) == 0 ? 10 : 3000;
    uint64_t seed = op_below(state, 100000);
    struct op *o;

    if (part->members == 0)
        return NULL;
    o = op_make(type, part->members, part->self, words, seed, false);
    o->name = "plain";
    op_start(o, job.context[0], algorithm_of(part->geometry, type),
             job_endpoint(&job, part->tasks[o->root], 0), NULL, 0);
    return o;
}

static void pause_a_little(uint64_t *own)
{
    if (op_below(own, 4) == 0)
        usleep((useconds_t)op_below(own, 300));
}

static void run(struct composition *c, size_t count, uint64_t *state, uint64_t *own)
{
    struct told told[2];
    struct op *plain[PLAIN];

    for (size_t i = 0; i < PLAIN; i++) {
        if (i % 2 == 0 && i / 2 < count) {
            bind(&c[i / 2], state);
            told[i / 2] = (struct told){.context = job.context[0]};
            CHECK_OK(TEST_CALL(PAMIX_Machine_start(c[i / 2].whole, on_told, &told[i / 2])));
        }
        pause_a_little(own);
        plain[i] = start_plain(state);
        if (op_below(own, 3) == 0)
            job_advance(&job);
    }
    for (size_t i = 0; i < count; i++) {
        WAIT(&job, told[i].count != 0);
        if (told[i].result != PAMI_SUCCESS)
            FAIL("a composition ends with %d", (int)told[i].result);
        check(&c[i]);
    }
    for (size_t i = 0; i < PLAIN; i++) {
        if (plain[i] == NULL)
            continue;
        WAIT(&job, plain[i]->told.count != 0);
        check_op(&plain[i]);
    }
}

int main(int argc, char **argv)
{
    unsigned long seed = 1, rounds = 25;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            seed = strtoul(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--rounds") == 0)
            rounds = strtoul(argv[i + 1], NULL, 10);
    }
    job_start(&job, "coll-compose-random", 1);
    op_begin();
    make_parts();
    for (unsigned long i = 0; i < rounds; i++) {
        struct composition c[2] = {{.segments = 0}, {.segments = 0}};
        uint64_t state = (seed + i) * 7919, own = state ^ (job.task + 1) * 0x51ed270b7u;

        for (int k = 0; k < 2; k++)
            make(&c[k], &state);
        for (int k = 0; k < RUNS; k++)
            run(c, 2, &state, &own);
        for (int k = 0; k < 2; k++)
            CHECK_OK(PAMIX_Machine_destroy(&c[k].whole));
    }
    free_parts();
    op_end();
    job_finish(&job);
    return 0;
}
