/*
 * Memory that runs out while members of amgathers take their messages: the initiator, which waits
 * for what they contribute, is told, and with the next ones all is right again.
 */
#include "no_memory.h"

enum {
    MEMBERS = 12,
    GATHERS = 8,
    ID = 5,
    /* What is kept of a message is its header, of a length that nothing else has, and 8 bytes. */
    HEADER = 1003,
    BYTES = HEADER + 8
};

static size_t landed, failed;
static bool initiates[MEMBERS];

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    landed++;
    failed += result != PAMI_SUCCESS;
}

static void on_contributed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
}

static void on_gather(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      size_t bytes, pami_endpoint_t origin, pami_geometry_t geometry,
                      pami_recv_t *send)
{
    int *word = cookie;

    (void)context, (void)origin, (void)geometry;
    CHECK(header_bytes == HEADER && pattern_is(header, HEADER, 7) && bytes == sizeof(*word));
    send->addr = word;
    send->type = PAMI_TYPE_SIGNED_INT;
    send->local_fn = initiates[*word] ? on_landed : on_contributed;
}

static pami_algorithm_t gather_of(pami_client_t client)
{
    pami_algorithm_t handles[2][16];
    pami_metadata_t metadata[2][16];
    pami_geometry_t world;
    size_t lengths[2];

    CALL(PAMI_Geometry_world(client, &world));
    CALL(PAMI_Geometry_algorithms_num(world, PAMI_XFER_AMGATHER, lengths));
    CHECK(lengths[0] != 0 && lengths[0] + lengths[1] <= 16);
    CALL(PAMI_Geometry_algorithms_query(world, PAMI_XFER_AMGATHER, handles[0], metadata[0],
                                        lengths[0], handles[1], metadata[1], lengths[1]));
    return handles[0][0];
}

/* One gather by `initiator`; returns whether it has failed. */
static bool gather(const struct sim_job *job, size_t initiator, bool short_of_memory)
{
    static char headers[MEMBERS][HEADER];
    int words[MEMBERS];
    pami_xfer_t xfer = {.algorithm = gather_of(job->client[initiator])};

    for (size_t i = 0; i < MEMBERS; i++)
        pattern_fill(headers[i], HEADER, 7);
    memset(initiates, 0, sizeof(initiates));
    initiates[initiator] = true;
    landed = failed = 0;
    xfer.cmd.xfer_amgather = (pami_amgather_t){.dispatch = ID,
                                               .headers = headers,
                                               .headerlen = HEADER,
                                               .rcvbuf = words,
                                               .rtype = PAMI_TYPE_SIGNED_INT,
                                               .rtypecount = 1};
    CALL(PAMI_Collective(job->context[initiator], &xfer));
    no_memory.one_in = short_of_memory ? 6 : 0;
    job_settle(job);
    no_memory.one_in = 0;
    CHECK(landed == 1);
    for (size_t i = 0; i < job->tasks && failed == 0; i++)
        CHECK(words[i] == (int)i);
    return failed != 0;
}

static void run(uint64_t seed)
{
    static int own[MEMBERS];
    struct dice dice = {seed};
    pami_dispatch_callback_function fn = {.amgather = on_gather};
    struct sim_job job;
    pamix_sim_config_t config;

    test_seed = seed;
    no_memory.bytes = BYTES;
    no_memory.luck = (struct dice){seed * 77};
    PAMIX_Sim_default(&config);
    config.seed = seed;
    config.tasks_per_node = 1 + (uint32_t)dice_below(&dice, 4);
    job_create(&job, &config, 2 + dice_below(&dice, MEMBERS - 1), 1);
    for (size_t i = 0; i < job.tasks; i++) {
        own[i] = (int)i;
        CALL(PAMI_AMCollective_dispatch_set(job.context[i], gather_of(job.client[i]), ID, fn,
                                            &own[i], (pami_collective_hint_t){0}));
    }
    for (size_t i = 0; i < GATHERS; i++) {
        bool short_of_memory = i % 2 != 0;

        no_memory.refused = 0;
        CHECK(gather(&job, dice_below(&dice, job.tasks), short_of_memory) ==
              (no_memory.refused != 0));
    }
    job_destroy(&job);
}

int main(int argc, char **argv)
{
    struct test_arguments given = test_arguments(argc, argv, 60);

    if (!CAN_REFUSE) {
        printf("SKIP: the sanitizer has the memory\n");
        return 77;
    }
    for (uint64_t i = 0; i < given.seeds; i++)
        run(given.seed + i);
    return 0;
}
