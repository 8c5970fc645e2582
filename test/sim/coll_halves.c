/*
 * Rows of trees that send in halves: a message of more than 8 KiB goes in two pieces, with whatever
 * lies in it (in a gather or a scatter the blocks of a subtree), and a shorter one in one. Packets
 * are counted, each of which takes any of these messages. Gathers and scatters, whose messages all
 * have halves of their own, move the right bytes, whatever the root.
 *
 * Run: env="PAMI_RNDV_BYTES=1G"
 */
#include "sim_test.h"

enum {
    MEMBERS = 4, /* three edges, with the blocks of 2, 1 and 1 members */
    MEMBERS_MOST = 13,
    HALVED_FROM = 8193,
    MOST = 20000
};

static const size_t sizes[] = {8, 4096, 4104, 5000, 8192, 8200, 10000, 16384, MOST};
static const pami_xfer_type_t types[] = {PAMI_XFER_BROADCAST, PAMI_XFER_REDUCE, PAMI_XFER_GATHER,
                                         PAMI_XFER_SCATTER};

static size_t ended;
static char in[MEMBERS_MOST][MEMBERS_MOST * MOST], out[MEMBERS_MOST][MEMBERS_MOST * MOST];

static void on_ended(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    ended++;
}

static void fill(pami_collective_t *cmd, pami_xfer_type_t type, pami_endpoint_t root, size_t self,
                 size_t bytes)
{
    switch (type) {
    case PAMI_XFER_BROADCAST:
        cmd->xfer_broadcast = (pami_broadcast_t){root, in[self], PAMI_TYPE_BYTE, bytes};
        break;
    case PAMI_XFER_REDUCE:
        cmd->xfer_reduce = (pami_reduce_t){.root = root,
                                           .sndbuf = in[self],
                                           .stype = PAMI_TYPE_UNSIGNED_LONG,
                                           .stypecount = bytes / 8,
                                           .rcvbuf = out[self],
                                           .rtype = PAMI_TYPE_BYTE,
                                           .rtypecount = bytes,
                                           .op = PAMI_DATA_SUM};
        break;
    case PAMI_XFER_GATHER:
        cmd->xfer_gather = (pami_gather_t){root,      in[self],       PAMI_TYPE_BYTE, bytes,
                                           out[self], PAMI_TYPE_BYTE, bytes};
        break;
    default:
        cmd->xfer_scatter = (pami_scatter_t){root,      in[self],       PAMI_TYPE_BYTE, bytes,
                                             out[self], PAMI_TYPE_BYTE, bytes};
    }
}

static pami_algorithm_t row(pami_geometry_t world, pami_xfer_type_t type, const char *name)
{
    pami_algorithm_t handles[64];
    pami_metadata_t metadata[64];
    size_t counts[2];

    CALL(PAMI_Geometry_algorithms_num(world, type, counts));
    CHECK(counts[0] <= 64);
    CALL(PAMI_Geometry_algorithms_query(world, type, handles, metadata, counts[0], NULL, NULL, 0));
    for (size_t i = 0; i < counts[0]; i++)
        if (strstr(metadata[i].name, name) != NULL)
            return handles[i];
    FAIL("type %d has no row %s", (int)type, name);
}

static void call(struct sim_job *job, pami_xfer_type_t type, const char *name, uint32_t root,
                 size_t bytes)
{
    ended = 0;
    for (size_t i = 0; i < job->tasks; i++) {
        pami_xfer_t xfer = {.cb_done = on_ended};
        pami_geometry_t world;

        CALL(PAMI_Geometry_world(job->client[i], &world));
        xfer.algorithm = row(world, type, name);
        fill(&xfer.cmd, type, root, i, bytes);
        CALL(PAMI_Collective(job_context(job, i, 0), &xfer));
    }
    job_settle(job);
    CHECK(ended == job->tasks);
}

static uint64_t packets_of(struct sim_job *job, pami_xfer_type_t type, size_t bytes)
{
    uint64_t before = job_counters(job).packets;

    call(job, type, ":HalvedBinomial:", 0, bytes);
    return job_counters(job).packets - before;
}

static void run(struct sim_job *job, pami_xfer_type_t type, size_t bytes)
{
    static const size_t blocks[MEMBERS - 1] = {2, 1, 1};
    uint64_t packets = packets_of(job, type, bytes), expected = 0;

    for (size_t i = 0; i < MEMBERS - 1; i++) {
        bool grows = type == PAMI_XFER_GATHER || type == PAMI_XFER_SCATTER;

        expected += (grows ? blocks[i] : 1) * bytes < HALVED_FROM ? 1 : 2;
    }
    if (packets != expected)
        FAIL("type %d, %zu bytes: %" PRIu64 " messages, not %" PRIu64, (int)type, bytes, packets,
             expected);
}

static void count(void)
{
    pamix_sim_config_t config;
    struct sim_job job;

    PAMIX_Sim_default(&config);
    config.contexts = 1;
    config.tasks_per_node = 1;
    config.packet_bytes = 65528;
    job_create(&job, &config, MEMBERS, 1);
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            run(&job, types[t], sizes[i]);
    job_destroy(&job);
}

/* What is gathered is all that was given; what is scattered, too. */
static void move(struct sim_job *job, const char *name, uint32_t root, size_t bytes)
{
    memset(out, 0, sizeof out);
    call(job, PAMI_XFER_GATHER, name, root, bytes);
    for (size_t i = 0; i < job->tasks; i++)
        CHECK(memcmp(out[root] + i * bytes, in[i], bytes) == 0);
    memset(out, 0, sizeof out);
    call(job, PAMI_XFER_SCATTER, name, root, bytes);
    for (size_t i = 0; i < job->tasks; i++)
        CHECK(memcmp(out[i], in[root] + i * bytes, bytes) == 0);
}

static void move_all(size_t members)
{
    static const char *const names[] = {
        ":HalvedBinomial:", ":PushHalvedBinomial:", ":PullHalvedBinomial:"};
    static const size_t blocks[] = {1000, 4104, MOST};
    pamix_sim_config_t config;
    struct sim_job job;

    PAMIX_Sim_default(&config);
    config.contexts = 1;
    config.tasks_per_node = 1;
    job_create(&job, &config, members, 1);
    for (uint32_t root = 0; root < members; root++)
        for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
            move(&job, names[(root + i) % 3], root, blocks[i]);
    job_destroy(&job);
}

int main(void)
{
    uint64_t number = 1;

    for (size_t i = 0; i < sizeof in; i++) {
        number = number * 6364136223846793005u + 1;
        ((char *)in)[i] = (char)(number >> 56);
    }
    count();
    for (size_t members = 2; members <= MEMBERS_MOST; members++)
        move_all(members);
    return 0;
}
