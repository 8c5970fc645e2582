/*
 * A task ends in the middle of compositions, in shared memory or over messages: those that need it
 * end with an error on every survivor, soon and once, the whole with all that would have followed;
 * compositions and plain collectives of a geometry without it go on, in the same machines.
 *
 *     coll_compose_dying --victim first|middle|last
 *
 * Run: tasks=2,3,5,8 nodes=1,2 args="--victim last" timeout=120
 * Run: tasks=2,5,8 args="--victim first" timeout=120
 * Run: tasks=3,8 nodes=1,2 args="--victim middle" timeout=120
 * Run: tasks=5 args="--victim middle" env="PAMI_COLL_SHARED_BYTES=0" timeout=120
 */
#include <pami/pamix.h>

#include "api/coll.h"

enum {
    INTS = 20000,
    SEGMENT = 3000,
    STAGES = 2,
    SEGMENTS = (INTS + SEGMENT - 1) / SEGMENT,
    AT = 20 /* runs before it dies */
};

static struct job job;
static size_t victim;
static int source[INTS], target[INTS];

/* A barrier of `rest`, then a pipeline of all, then a barrier of `rest` again. */
struct composition {
    pamix_machine_t stage[STAGES], link[STAGES][2], whole, pipeline;
    bool dies;
    unsigned run;
};

static pamix_machine_t create(pami_geometry_t geometry, pami_xfer_type_t type)
{
    pamix_machine_t machine = NULL;

    CHECK_OK(PAMIX_Machine_create(job.context[0], algorithm_of(geometry, type), &machine));
    return machine;
}

static pami_result_t bind(pamix_machine_t machine, size_t index, void *cookie)
{
    struct composition *c = cookie;
    size_t first = index * SEGMENT, left = INTS - first;
    size_t count = left < SEGMENT ? left : SEGMENT;
    pami_collective_t cmd;
    pami_result_t result;

    (void)machine;
    if (c->dies && c->run == AT && index == 3)
        _exit(0);
    cmd.xfer_reduce = (pami_reduce_t){
        .root = job_endpoint(&job, 0, 0),
        .sndbuf = (char *)(source + first),
        .stype = PAMI_TYPE_SIGNED_INT,
        .stypecount = count,
        .rcvbuf = (char *)(target + first),
        .rtype = PAMI_TYPE_SIGNED_INT,
        .rtypecount = count,
        .op = PAMI_DATA_SUM,
    };
    result = PAMIX_Machine_reset(c->link[index % STAGES][0], &cmd);
    if (result != PAMI_SUCCESS)
        return result;
    cmd.xfer_broadcast = (pami_broadcast_t){job_endpoint(&job, 0, 0), (char *)(target + first),
                                            PAMI_TYPE_SIGNED_INT, count};
    return PAMIX_Machine_reset(c->link[index % STAGES][1], &cmd);
}

static void make(struct composition *c, pami_geometry_t rest)
{
    pamix_machine_t links[3];
    pami_collective_t cmd;
    size_t count = 0;

    for (int i = 0; i < STAGES; i++) {
        c->link[i][0] = create(world_of(&job), PAMI_XFER_REDUCE);
        c->link[i][1] = create(world_of(&job), PAMI_XFER_BROADCAST);
        CHECK_OK(PAMIX_Chain_create(job.context[0], c->link[i], 2, &c->stage[i]));
    }
    CHECK_OK(PAMIX_Pipeline_create(job.context[0], c->stage, STAGES, bind, c, &c->pipeline));
    for (int i = 0; i < 2; i++) {
        if (!c->dies) {
            links[count] = create(rest, PAMI_XFER_BARRIER);
            CHECK_OK(PAMIX_Machine_reset(links[count++], &cmd));
        }
        if (i == 0)
            links[count++] = c->pipeline;
    }
    CHECK_OK(PAMIX_Chain_create(job.context[0], links, count, &c->whole));
}

static bool run(struct composition *c)
{
    struct told told = {.context = job.context[0]};
    double begin = test_now();

    CHECK_OK(PAMIX_Pipeline_reset(c->pipeline, SEGMENTS));
    CHECK_OK(TEST_CALL(PAMIX_Machine_start(c->whole, on_told, &told)));
    WAIT(&job, told.count != 0);
    if (test_now() - begin > 1.0 * test_factor() + 4)
        FAIL("it takes %.1f s to end with %d", test_now() - begin, (int)told.result);
    c->run++;
    return told.result == PAMI_SUCCESS;
}

/* The survivors' machines work, on a geometry without the one that has gone. */
static void go_on(pami_geometry_t rest, size_t members)
{
    pamix_machine_t link[2] = {create(rest, PAMI_XFER_BARRIER), create(rest, PAMI_XFER_ALLREDUCE)};
    pamix_machine_t chain;
    pami_collective_t cmd;
    int mine = (int)job.task + 1, total = 0, sum = 0;

    CHECK_OK(PAMIX_Machine_reset(link[0], &cmd));
    cmd.xfer_allreduce = coll_sum(&mine, &total, PAMI_TYPE_SIGNED_INT, 1);
    CHECK_OK(PAMIX_Machine_reset(link[1], &cmd));
    CHECK_OK(PAMIX_Chain_create(job.context[0], link, 2, &chain));
    for (size_t i = 0; i < job.tasks; i++)
        sum += i != victim ? (int)i + 1 : 0;
    for (int i = 0; i < 20; i++) {
        struct told told = {.context = job.context[0]};

        total = 0;
        CHECK_OK(TEST_CALL(PAMIX_Machine_start(chain, on_told, &told)));
        CHECK(coll_total(&job, rest, i) == i * (int)members);
        WAIT(&job, told.count != 0);
        CHECK(told.result == PAMI_SUCCESS && total == sum);
    }
    CHECK_OK(PAMIX_Machine_destroy(&chain));
}

int main(int argc, char **argv)
{
    struct composition c = {.run = 0};
    pami_task_t tasks[64];
    size_t count = 0;
    pami_geometry_t rest = PAMI_GEOMETRY_NULL;

    job_start(&job, "coll-compose-dying", 1);
    victim = job.tasks - 1;
    if (argc > 2 && strcmp(argv[2], "first") == 0)
        victim = 0;
    if (argc > 2 && strcmp(argv[2], "middle") == 0)
        victim = 1;
    c.dies = job.task == victim;
    for (size_t i = 0; i < job.tasks; i++)
        if (i != victim)
            tasks[count++] = (pami_task_t)i;
    if (!c.dies)
        create_list(&job, &rest, NULL, 9, tasks, count, 0);
    make(&c, rest);
    for (int i = 0; i < INTS; i++)
        source[i] = i;
    while (run(&c)) {
        for (int i = 0; i < INTS; i++)
            CHECK(target[i] == i * (int)job.tasks);
        CHECK(c.run <= AT);
    }
    CHECK(c.run == AT + 1);
    go_on(rest, count);
    CHECK_OK(PAMIX_Machine_destroy(&c.whole));
    destroy_geometry(&job, &rest);
    job_destroy(&job);
    return 0;
}
