/*
 * No memory, now and then, for the short messages of collectives, while ports refuse them so that
 * they have to be kept: a collective fails on those that need one that could not send, which are
 * told, or ask, and nobody is left waiting. When there is memory again all is right.
 *
 * Run: args="--seeds 300" env="PAMI_RNDV_BYTES=1K"
 */
#include "no_memory.h"

enum {
    TASKS_MOST = 7,
    OPERATIONS = 8,
    INTS = 6000,
    /* What is kept of a message without data: its header, of 16 bytes, and one more. */
    BYTES = 17
};

struct member {
    size_t done, failed;
    int from[INTS], into[INTS];
};

static struct member members[TASKS_MOST];

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct member *member = cookie;

    (void)context;
    if (result != PAMI_SUCCESS && result != PAMI_ERROR && result != PAMI_ENOMEM)
        FAIL("task %zu, collective %zu: %d, %s", (size_t)(member - members), member->done,
             (int)result, test_text());
    member->done++;
    member->failed += result != PAMI_SUCCESS;
}

static pami_algorithm_t row_of(pami_client_t client, pami_xfer_type_t type, size_t luck)
{
    pami_algorithm_t handles[64];
    pami_geometry_t world;
    size_t lengths[2];

    CALL(PAMI_Geometry_world(client, &world));
    CALL(PAMI_Geometry_algorithms_num(world, type, lengths));
    CHECK(lengths[0] <= 64);
    CALL(PAMI_Geometry_algorithms_query(world, type, handles, NULL, lengths[0], NULL, NULL, 0));
    return handles[luck % lengths[0]];
}

static void call(const struct sim_job *job, size_t task, size_t luck)
{
    struct member *member = &members[task];
    pami_xfer_type_t type = luck % 3 == 0 ? PAMI_XFER_BARRIER : PAMI_XFER_ALLREDUCE;
    pami_xfer_t xfer = {.cb_done = on_done, .cookie = member};
    pami_result_t result;

    if (type == PAMI_XFER_ALLREDUCE)
        xfer.cmd.xfer_allreduce = (pami_allreduce_t){(char *)member->from,
                                                     PAMI_TYPE_SIGNED_INT,
                                                     luck % 5 == 0 ? INTS : 1,
                                                     (char *)member->into,
                                                     PAMI_TYPE_SIGNED_INT,
                                                     luck % 5 == 0 ? INTS : 1,
                                                     PAMI_DATA_SUM,
                                                     NULL,
                                                     1};
    xfer.algorithm = row_of(job->client[task], type, luck / 30);
    while ((result = PAMI_Collective(job->context[task], &xfer)) == PAMI_ENOMEM)
        CHECK(no_memory.refused != 0);
    CHECK(result == PAMI_SUCCESS);
}

/* Returns how many have failed. */
static size_t call_all(const struct sim_job *job, struct dice dice)
{
    size_t failed = 0;

    for (size_t o = 0; o < OPERATIONS; o++) {
        size_t luck = dice_below(&dice, 3000);

        for (size_t i = 0; i < job->tasks; i++)
            call(job, i, luck);
    }
    job_settle(job);
    for (size_t i = 0; i < job->tasks; i++) {
        CHECK(members[i].done == OPERATIONS);
        failed += members[i].failed;
        members[i].done = members[i].failed = 0;
    }
    return failed;
}

static void run(uint64_t seed, size_t tasks)
{
    struct dice dice = {seed};
    struct sim_job job;
    pamix_sim_config_t config;
    size_t failed;

    if (tasks == 0)
        tasks = 2 + dice_below(&dice, TASKS_MOST - 1);
    PAMIX_Sim_default(&config);
    config.seed = seed;
    config.tasks_per_node = 1 + (uint32_t)dice_below(&dice, tasks);
    config.refuse = 0.5;
    config.retry = 1e-6;
    config.level[PAMIX_SIM_SYSTEM].single_copy = config.level[PAMIX_SIM_SWITCH].single_copy =
        dice_one_in(&dice, 2);
    job_create(&job, &config, tasks, 1);
    no_memory.bytes = BYTES;
    no_memory.luck = (struct dice){seed * 77};
    no_memory.refused = 0;
    no_memory.one_in = 1 + dice_below(&dice, 4);
    if (no_memory.one_in == 1)
        no_memory.one_in = 20;
    failed = call_all(&job, dice);
    no_memory.one_in = 0;
    CHECK(failed == 0 || no_memory.refused != 0);
    CHECK(call_all(&job, dice) == 0);
    job_destroy(&job);
}

int main(int argc, char **argv)
{
    struct test_arguments given = test_arguments(argc, argv, 100);

    need_refusing();
    test_each_seed(&given, run);
    return 0;
}
