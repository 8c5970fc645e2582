/*
 * Memory that runs out while members of amgathers take their messages: the initiator, which waits
 * for what they contribute, is told, and with the next ones all is right again. While an id is set
 * that messages wait for: they are late, not lost. And while a broadcast arrives, of which nobody
 * would be told: it comes to every member all the same, header and data, also to one that has not
 * used the world before. So does what members contribute, when there is no memory to send it. Who
 * has none for the operands of a reduction is told, with a text.
 *
 * Run:
 */
#include "no_memory.h"

enum {
    MEMBERS = 12,
    GATHERS = 8,
    ID = 5,
    /* What is kept of a message is its header, of a length that nothing else has, and 8 bytes. */
    HEADER = 1003,
    BYTES = HEADER + 8,
    OPERAND = 777,                 /* ints of a reduction */
    ANSWER = 32 + sizeof(int) + 1, /* what is kept of a contribution: words, data, one more */
    LONG = 20000,                  /* of a broadcast that takes several packets */
    /* The first growth of a context's ring of completions: from 64 to 128. */
    RING_BYTES = 128 * 32
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

static pami_algorithm_t algorithm_of(pami_client_t client, pami_xfer_type_t type)
{
    pami_algorithm_t handles[2][16];
    pami_metadata_t metadata[2][16];
    pami_geometry_t world;
    size_t lengths[2];

    CALL(PAMI_Geometry_world(client, &world));
    CALL(PAMI_Geometry_algorithms_num(world, type, lengths));
    CHECK(lengths[0] != 0 && lengths[0] + lengths[1] <= 16);
    CALL(PAMI_Geometry_algorithms_query(world, type, handles[0], metadata[0], lengths[0],
                                        handles[1], metadata[1], lengths[1]));
    return handles[0][0];
}

static pami_algorithm_t gather_of(pami_client_t client)
{
    return algorithm_of(client, PAMI_XFER_AMGATHER);
}

static int words[MEMBERS];

static void begin(const struct sim_job *job, size_t initiator)
{
    static char headers[MEMBERS][HEADER];
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
}

/* One gather by `initiator`; returns whether it has failed. */
static bool gather(const struct sim_job *job, size_t initiator, bool short_of_memory)
{
    begin(job, initiator);
    no_memory.one_in = short_of_memory ? 6 : 0;
    job_settle(job);
    no_memory.one_in = 0;
    CHECK(landed == 1);
    for (size_t i = 0; i < job->tasks && failed == 0; i++)
        CHECK(words[i] == (int)i);
    return failed != 0;
}

static void set_id(const struct sim_job *job, size_t task)
{
    static int own[MEMBERS];
    pami_dispatch_callback_function fn = {.amgather = on_gather};

    own[task] = (int)task;
    CALL(PAMI_AMCollective_dispatch_set(job->context[task], gather_of(job->client[task]), ID, fn,
                                        &own[task], (pami_collective_hint_t){0}));
}

/* Makes the task's ring of completions full, by puts to itself. */
static void fill_ring(const struct sim_job *job, uint32_t task)
{
    char from[8] = "content", to[8];
    pami_put_simple_t put = {.rma = {.dest = task, .bytes = 8, .done_fn = on_contributed},
                             .addr = {.local = from, .remote = to},
                             .put = {.rdone_fn = on_contributed}};
    pami_result_t result;

    no_memory.bytes = RING_BYTES;
    no_memory.refused = 0;
    no_memory.one_in = 1;
    do
        result = PAMI_Put(job->context[task], &put);
    while (result == PAMI_SUCCESS);
    CHECK(result == PAMI_ENOMEM && no_memory.refused != 0);
}

/* Task 1 sets the id when the message is there and no completion finds room. */
static void be_late(void)
{
    struct sim_job job;

    job_create(&job, NULL, 2, 1);
    set_id(&job, 0);
    begin(&job, 0);
    PAMIX_Sim_run(job.client[0], NULL, NULL, 0, 1e-3);
    CHECK(landed == 0);
    fill_ring(&job, 1);
    set_id(&job, 1);
    no_memory.one_in = 0;
    job_settle(&job);
    CHECK(landed == 1 && failed == 0 && words[0] == 0 && words[1] == 1);
    job_destroy(&job);
}

static size_t received;

static void on_broadcast(pami_context_t context, void *cookie, const void *header,
                         size_t header_bytes, const void *pipe, size_t bytes,
                         pami_endpoint_t origin, pami_geometry_t geometry, pami_recv_t *recv)
{
    (void)context, (void)pipe, (void)origin, (void)geometry;
    CHECK((header_bytes == HEADER || header_bytes == LONG) && pattern_is(header, header_bytes, 7));
    recv->addr = (char *)cookie + received++ % MEMBERS * bytes;
    recv->local_fn = on_landed;
}

static pami_algorithm_t broadcast_of(pami_client_t client)
{
    pami_algorithm_t algorithm;
    pami_geometry_t world;

    CALL(PAMI_Geometry_world(client, &world));
    CALL(PAMI_Geometry_algorithms_query(world, PAMI_XFER_AMBROADCAST, &algorithm, NULL, 1, NULL,
                                        NULL, 0));
    return algorithm;
}

static void set_broadcast(const struct sim_job *job, size_t task, char *to)
{
    pami_dispatch_callback_function fn = {.ambroadcast = on_broadcast};

    CALL(PAMI_AMCollective_dispatch_set(job->context[task], broadcast_of(job->client[task]), ID, fn,
                                        to, (pami_collective_hint_t){0}));
}

static void begin_broadcast(const struct sim_job *job, char *header, size_t header_bytes,
                            char *from, size_t bytes)
{
    pami_xfer_t xfer = {.cb_done = on_contributed, .algorithm = broadcast_of(job->client[0])};

    xfer.cmd.xfer_ambroadcast = (pami_ambroadcast_t){.dispatch = ID,
                                                     .user_header = header,
                                                     .headerlen = header_bytes,
                                                     .sndbuf = from,
                                                     .stype = PAMI_TYPE_BYTE,
                                                     .stypecount = bytes};
    CALL(PAMI_Collective(job->context[0], &xfer));
}

/* Allocation number `which` and those behind it fail while it arrives; whether there are such. */
static bool broadcast(size_t header_bytes, size_t bytes, size_t which, size_t count)
{
    static char header[LONG], from[LONG], to[MEMBERS * LONG];
    struct sim_job job;
    bool enough;

    job_create(&job, NULL, 3, 1);
    for (size_t i = 0; i < job.tasks; i++)
        set_broadcast(&job, i, to);
    pattern_fill(header, header_bytes, 7);
    pattern_fill(from, bytes, 9);
    memset(to, 0, sizeof(to));
    received = landed = failed = 0;
    for (size_t i = 0; i < 2; i++)
        begin_broadcast(&job, header, header_bytes, from, bytes);
    no_memory.refused = 0;
    refuse_row(which, count);
    job_settle(&job);
    enough = no_memory.refused != 0;
    refuse_only(SIZE_MAX);
    if (received != 4 || landed != 4)
        FAIL("%zu bytes, without allocation %zu: %zu of 4 came", bytes, which, received);
    CHECK(failed == 0 || (enough && bytes == LONG));
    for (size_t i = 0; i < received && failed == 0; i++)
        if (!pattern_is(to + i * bytes, bytes, 9))
            FAIL("%zu bytes, without allocation %zu: all is well but for the data", bytes, which);
    job_destroy(&job);
    return enough;
}

/* The same before the others have set the id, or used the world at all. */
static bool broadcast_early(size_t which, size_t count)
{
    static char header[HEADER], from[8], to[MEMBERS * 8];
    struct sim_job job;
    bool enough;

    job_create(&job, NULL, 3, 1);
    set_broadcast(&job, 0, to);
    pattern_fill(header, HEADER, 7);
    received = landed = failed = 0;
    begin_broadcast(&job, header, HEADER, from, sizeof(from));
    no_memory.refused = 0;
    refuse_row(which, count);
    PAMIX_Sim_run(job.client[0], NULL, NULL, 0, 1e-3);
    enough = no_memory.refused != 0;
    refuse_only(SIZE_MAX);
    for (size_t i = 1; i < job.tasks; i++)
        set_broadcast(&job, i, to);
    job_settle(&job);
    if (received != 2 || landed != 2 || failed != 0)
        FAIL("without allocation %zu before the id: %zu of 2 came", which, received);
    job_destroy(&job);
    return enough;
}

static void broadcast_all(void)
{
    static const size_t sizes[][2] = {{HEADER, 8}, {HEADER, LONG}, {LONG, 8}, {LONG, LONG}};

    for (size_t count = 1; count < 12; count += 5) {
        size_t early = 0;

        while (broadcast_early(early, count))
            early++;
        CHECK(early > 2);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            size_t which = 0;

            while (broadcast(sizes[i][0], sizes[i][1], which, count))
                which++;
            CHECK(which > 2);
        }
    }
}

static void run(uint64_t seed)
{
    struct dice dice = {seed};
    struct sim_job job;
    pamix_sim_config_t config;

    test_seed = seed;
    no_memory.bytes = BYTES;
    no_memory.luck = (struct dice){seed * 77};
    PAMIX_Sim_default(&config);
    config.seed = seed;
    config.tasks_per_node = 1 + (uint32_t)dice_below(&dice, 4);
    job_create(&job, &config, 2 + dice_below(&dice, MEMBERS - 1), 1);
    for (size_t i = 0; i < job.tasks; i++)
        set_id(&job, i);
    for (size_t i = 0; i < GATHERS; i++) {
        bool short_of_memory = i % 2 != 0;

        no_memory.refused = 0;
        CHECK(gather(&job, dice_below(&dice, job.tasks), short_of_memory) ==
              (no_memory.refused != 0));
    }
    job_destroy(&job);
}

/* Ports refuse packets, so that contributions have to be kept, and there is no memory for some. */
static void answer_late(uint64_t seed)
{
    struct sim_job job;
    pamix_sim_config_t config;

    test_seed = seed;
    no_memory.luck = (struct dice){seed};
    PAMIX_Sim_default(&config);
    config.seed = seed;
    config.refuse = 0.5;
    config.retry = 1e-6;
    job_create(&job, &config, MEMBERS, 1);
    for (size_t i = 0; i < job.tasks; i++)
        set_id(&job, i);
    no_memory.bytes = ANSWER;
    no_memory.refused = 0;
    begin(&job, 0);
    no_memory.one_in = 2;
    job_settle(&job);
    no_memory.one_in = 0;
    CHECK(landed == 1 && failed == 0);
    for (size_t i = 0; i < job.tasks; i++)
        CHECK(words[i] == (int)i);
    job_destroy(&job);
}

static void on_reduced(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    landed++;
    failed += result == PAMI_ENOMEM && strstr(test_text(), "PAMI_Collective") != NULL;
}

static void on_reduce(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      size_t bytes, pami_endpoint_t origin, pami_geometry_t geometry,
                      pami_data_function *op, pami_recv_t *send)
{
    static int operand[OPERAND];

    (void)context, (void)header, (void)header_bytes, (void)origin, (void)geometry;
    CHECK(bytes == sizeof(operand));
    *op = PAMI_DATA_SUM;
    send->addr = operand;
    send->type = PAMI_TYPE_SIGNED_INT;
    send->local_fn = cookie != NULL ? on_reduced : NULL;
}

/* The initiator has none for its own operand, or for those of others, of a byte more. */
static void reduce(size_t more)
{
    static int result[OPERAND], is_initiator;
    const pami_dispatch_callback_function fn = {.amreduce = on_reduce};
    const pami_collective_hint_t none = {0};
    pami_xfer_t xfer = {.cmd.xfer_amreduce = {.dispatch = ID,
                                              .rcvbuf = result,
                                              .rtype = PAMI_TYPE_SIGNED_INT,
                                              .rtypecount = OPERAND,
                                              .commutative = 1}};
    pamix_sim_config_t config;
    struct sim_job job;

    PAMIX_Sim_default(&config);
    job_create(&job, &config, MEMBERS, 1);
    for (size_t i = 0; i < job.tasks; i++)
        CALL(PAMI_AMCollective_dispatch_set(job.context[i],
                                            algorithm_of(job.client[i], PAMI_XFER_AMREDUCE), ID, fn,
                                            i == 0 ? &is_initiator : NULL, none));
    xfer.algorithm = algorithm_of(job.client[0], PAMI_XFER_AMREDUCE);
    CHECK(PAMI_Put(NULL, NULL) != PAMI_SUCCESS); /* has another text */
    landed = failed = 0;
    CALL(PAMI_Collective(job.context[0], &xfer));
    no_memory.bytes = sizeof(result) + more;
    no_memory.one_in = 1;
    job_settle(&job);
    no_memory.one_in = 0;
    CHECK(landed == 1 && failed == 1);
    job_destroy(&job);
}

int main(int argc, char **argv)
{
    struct test_arguments given = test_arguments(argc, argv, 60);

    need_refusing();
    be_late();
    broadcast_all();
    reduce(0);
    reduce(1);
    for (uint64_t i = 0; i < given.seeds; i++) {
        run(given.seed + i);
        answer_late(given.seed + i);
    }
    return 0;
}
