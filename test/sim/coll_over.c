/*
 * Collectives of a geometry that the other member has destroyed: they end with an error, or well
 * where nothing is missing, and nothing of them is left, neither what the other one had kept of
 * them nor messages that wait to be fetched. Every algorithm, short and long. Messages that come
 * after the end take no memory for good.
 */
#include "sim_test.h"

#include <malloc.h>

enum {
    LARGE = 1 << 20,
    SHORT = 4096,   /* is copied where it comes early */
    GEOMETRIES = 64 /* one after the other */
};

static const struct row {
    pami_xfer_type_t type;
    bool waits; /* for what only the other member has */
} rows[] = {
    {PAMI_XFER_BROADCAST, false}, {PAMI_XFER_ALLREDUCE, true}, {PAMI_XFER_ALLGATHER, true},
    {PAMI_XFER_GATHER, false},    {PAMI_XFER_ALLTOALL, true},
};

static char out[2 * LARGE], in[2 * LARGE];
static size_t formed, ended, failed;

static void on_formed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    formed++;
}

static void on_ended(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    ended++;
    failed += result != PAMI_SUCCESS;
}

/* Task 0 sends, or would, to task 1. */
static void fill(pami_collective_t *cmd, pami_xfer_type_t type, size_t bytes)
{
    switch (type) {
    case PAMI_XFER_BROADCAST:
        cmd->xfer_broadcast = (pami_broadcast_t){0, out, PAMI_TYPE_BYTE, bytes};
        break;
    case PAMI_XFER_ALLREDUCE:
        cmd->xfer_allreduce = (pami_allreduce_t){.sndbuf = out,
                                                 .stype = PAMI_TYPE_BYTE,
                                                 .stypecount = bytes,
                                                 .rcvbuf = in,
                                                 .rtype = PAMI_TYPE_BYTE,
                                                 .rtypecount = bytes,
                                                 .op = PAMI_DATA_MAX,
                                                 .commutative = 1};
        break;
    case PAMI_XFER_GATHER:
        cmd->xfer_gather =
            (pami_gather_t){1, out, PAMI_TYPE_BYTE, bytes, in, PAMI_TYPE_BYTE, bytes};
        break;
    default: /* allgather and alltoall are alike */
        cmd->xfer_alltoall =
            (pami_alltoall_t){out, PAMI_TYPE_BYTE, bytes, in, PAMI_TYPE_BYTE, bytes};
    }
}

/* A run asks once; members that go on after an answer have more to ask in the next one. */
static void settle(const struct sim_job *job)
{
    pami_result_t result = PAMI_EAGAIN;

    for (int i = 0; i < 200 && result == PAMI_EAGAIN; i++)
        result = PAMIX_Sim_run(job->client[0], NULL, NULL, 0, 0);
    CALL(result);
}

/* A member and the other, which is to have the data, and has destroyed the geometry. */
static void send_in_vain(const struct sim_job *job)
{
    static const pami_task_t both[] = {0, 1};
    pami_geometry_t geometry[2];
    pami_xfer_t xfer = {.cb_done = on_ended};

    formed = ended = failed = 0;
    for (size_t i = 0; i < 2; i++)
        CALL(PAMI_Geometry_create_tasklist(job->client[i], 0, NULL, 0, &geometry[i], NULL, 1,
                                           (pami_task_t *)both, 2, job->context[i], on_formed,
                                           NULL));
    settle(job);
    CHECK(formed == 2);
    CALL(PAMI_Geometry_destroy(job->client[1], &geometry[1], job->context[1], NULL, NULL));
    xfer.algorithm = sim_algorithm(geometry[0], PAMI_XFER_GATHER, ":Flat:");
    CHECK(xfer.algorithm != PAMI_ALGORITHM_NULL);
    fill(&xfer.cmd, PAMI_XFER_GATHER, SHORT);
    CALL(PAMI_Collective(job->context[0], &xfer));
    settle(job);
    CHECK(ended == 1 && failed == 0);
    CALL(PAMI_Geometry_destroy(job->client[0], &geometry[0], job->context[0], NULL, NULL));
    settle(job);
}

static void nothing_is_kept(uint64_t seed)
{
    pamix_sim_config_t config;
    struct sim_job job;
    size_t before = 0;

    test_seed = seed;
    PAMIX_Sim_default(&config);
    config.seed = seed;
    config.tasks_per_node = 1;
    job_create(&job, &config, 2, 1);
    for (size_t i = 0; i < 2 * GEOMETRIES; i++) {
        send_in_vain(&job);
        if (i == GEOMETRIES)
            before = mallinfo2().uordblks;
    }
    CHECK(mallinfo2().uordblks < before + GEOMETRIES / 2 * SHORT);
    job_destroy(&job);
}

/* The collective number `number` of a type, if there are so many. */
static bool run(uint64_t seed, const struct row *row, size_t number, size_t bytes, bool one_node)
{
    static const pami_task_t both[] = {0, 1};
    pami_algorithm_t handles[64];
    pami_geometry_t geometry[2];
    pami_xfer_t xfer = {.cb_done = on_ended};
    pamix_sim_config_t config;
    struct sim_job job;
    size_t lengths[2];

    test_seed = seed;
    PAMIX_Sim_default(&config);
    config.seed = seed;
    config.tasks_per_node = one_node ? 2 : 1;
    job_create(&job, &config, 2, 1);
    formed = ended = failed = 0;
    for (size_t i = 0; i < 2; i++)
        CALL(PAMI_Geometry_create_tasklist(job.client[i], 0, NULL, 0, &geometry[i], NULL, 1,
                                           (pami_task_t *)both, 2, job.context[i], on_formed,
                                           NULL));
    job_settle(&job);
    CHECK(formed == 2);
    CALL(PAMI_Geometry_algorithms_num(geometry[0], row->type, lengths));
    if (number < lengths[0]) {
        CHECK(lengths[0] <= 64);
        CALL(PAMI_Geometry_algorithms_query(geometry[0], row->type, handles, NULL, lengths[0], NULL,
                                            NULL, 0));
        xfer.algorithm = handles[number];
        fill(&xfer.cmd, row->type, bytes);
        CALL(PAMI_Geometry_destroy(job.client[1], &geometry[1], job.context[1], NULL, NULL));
        CALL(PAMI_Collective(job.context[0], &xfer));
        settle(&job);
        CHECK(ended == 1 && (failed == 1 || !row->waits));
    }
    job_destroy(&job);
    return number < lengths[0];
}

int main(int argc, char **argv)
{
    struct test_arguments given = test_arguments(argc, argv, 3);

    for (uint64_t i = 0; i < given.seeds; i++)
        for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++)
            for (size_t number = 0; run(given.seed + i, &rows[k], number, 8, i % 2 != 0); number++)
                run(given.seed + i, &rows[k], number, LARGE, i % 2 != 0);
    nothing_is_kept(given.seed);
    return 0;
}
