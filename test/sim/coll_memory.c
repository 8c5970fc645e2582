/*
 * No memory for one allocation of a collective's call, each in turn, over messages and in shared
 * memory: the call says so, and can be made again, or all members are called back, this one with
 * PAMI_ENOMEM. All members find the same lists all the same. No memory for what the call sends to
 * those that have not called yet. And none for a message that comes before it can be taken: its
 * receiver is told.
 *
 * Run: env="PAMI_RNDV_BYTES=1G"
 */
#include "no_memory.h"

enum {
    TASKS = 3,
    ID = 5,
    BYTES = 20004, /* of a message in several packets, a length that nothing else has, ... */
    KEPT = (64 + BYTES + 63) / 64 * 64, /* ... as what keeps it asks for it: util/stash.c */
    ATTEMPTS = 2000
};

static size_t done, landed;
static pami_result_t last, results[TASKS];
static char from[BYTES], to[TASKS][BYTES];

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    pami_result_t *mine = cookie;

    (void)context;
    done++;
    *mine = result;
}

static pami_algorithm_t first_of(pami_client_t client, pami_xfer_type_t type)
{
    pami_algorithm_t algorithm;
    pami_geometry_t world;

    CALL(PAMI_Geometry_world(client, &world));
    CALL(PAMI_Geometry_algorithms_query(world, type, &algorithm, NULL, 1, NULL, NULL, 0));
    return algorithm;
}

/* Allocation number `refuse` of each call of task 0 fails, or of what comes of the call `behind`
 * it, before the others call; whether there are so many. */
static bool call_without(size_t refuse, bool behind, uint32_t tasks_per_node)
{
    static const pami_xfer_type_t types[] = {PAMI_XFER_BARRIER, PAMI_XFER_ALLREDUCE};
    bool enough = false;
    struct sim_job job;
    pamix_sim_config_t config;

    PAMIX_Sim_default(&config);
    config.tasks_per_node = tasks_per_node;
    job_create(&job, &config, TASKS, 1);
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        static int mine = 1, sum[TASKS];
        size_t lengths[TASKS][2];
        pami_geometry_t world;

        done = 0;
        for (size_t i = 0; i < TASKS; i++) {
            pami_xfer_t xfer = {.cb_done = on_done,
                                .cookie = &results[i],
                                .algorithm = first_of(job.client[i], types[t])};
            pami_result_t result = PAMI_SUCCESS;

            CALL(PAMI_Geometry_world(job.client[i], &world));
            no_memory.refused = 0;
            refuse_only(i == 0 && !behind ? refuse : SIZE_MAX);
            CALL(PAMI_Geometry_algorithms_num(world, PAMI_XFER_BROADCAST, lengths[i]));
            CHECK(lengths[i][0] == lengths[0][0] && lengths[i][1] == lengths[0][1]);
            if (types[t] == PAMI_XFER_ALLREDUCE)
                xfer.cmd.xfer_allreduce = (pami_allreduce_t){(char *)&mine,
                                                             PAMI_TYPE_SIGNED_INT,
                                                             1,
                                                             (char *)&sum[i],
                                                             PAMI_TYPE_SIGNED_INT,
                                                             1,
                                                             PAMI_DATA_SUM,
                                                             NULL,
                                                             1};
            for (size_t n = 0; n < ATTEMPTS; n++) {
                result = PAMI_Collective(job.context[i], &xfer);
                if (result == PAMI_SUCCESS)
                    break;
                CHECK(result == PAMI_ENOMEM && no_memory.refused != 0);
            }
            CHECK(result == PAMI_SUCCESS);
            if (i == 0 && behind) {
                refuse_only(refuse);
                PAMIX_Sim_run(job.client[0], NULL, NULL, 0, 0); /* task 0 is left waiting */
            }
            enough |= no_memory.refused != 0;
            refuse_only(SIZE_MAX);
        }
        job_settle(&job);
        CHECK(done == TASKS);
        for (size_t i = 0; i < TASKS; i++) {
            pami_result_t error = (i == 0) == behind ? PAMI_ERROR : PAMI_ENOMEM;

            CHECK(results[i] == PAMI_SUCCESS || (enough && results[i] == error));
            CHECK(results[i] != PAMI_SUCCESS || types[t] == PAMI_XFER_BARRIER || sum[i] == TASKS);
        }
    }
    job_destroy(&job);
    return enough;
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    landed++;
    last = result;
}

static void on_broadcast(pami_context_t context, void *cookie, const void *header,
                         size_t header_bytes, const void *pipe, size_t bytes,
                         pami_endpoint_t origin, pami_geometry_t of, pami_recv_t *recv)
{
    (void)context, (void)header, (void)header_bytes, (void)pipe, (void)origin, (void)of;
    CHECK(bytes == BYTES);
    recv->addr = cookie;
    recv->local_fn = on_landed;
}

static void ignore(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
}

static void broadcast(const struct sim_job *job, bool without)
{
    pami_xfer_t xfer = {.cb_done = ignore,
                        .algorithm = first_of(job->client[0], PAMI_XFER_AMBROADCAST)};

    xfer.cmd.xfer_ambroadcast = (pami_ambroadcast_t){
        .dispatch = ID, .sndbuf = from, .stype = PAMI_TYPE_BYTE, .stypecount = BYTES};
    landed = 0;
    no_memory.refused = 0;
    CALL(PAMI_Collective(job->context[0], &xfer));
    no_memory.bytes = KEPT;
    no_memory.one_in = without ? 1 : 0;
    job_settle(job);
    no_memory.one_in = 0;
    CHECK(landed == 1);
    CHECK(without ? last == PAMI_ENOMEM : last == PAMI_SUCCESS);
    CHECK((no_memory.refused != 0) == without);
}

static void take_without(void)
{
    pami_dispatch_callback_function fn = {.ambroadcast = on_broadcast};
    struct sim_job job;

    job_create(&job, NULL, 2, 1);
    for (size_t i = 0; i < 2; i++)
        CALL(PAMI_AMCollective_dispatch_set(job.context[i],
                                            first_of(job.client[i], PAMI_XFER_AMBROADCAST), ID, fn,
                                            to[i], (pami_collective_hint_t){0}));
    broadcast(&job, false);
    broadcast(&job, true);
    pattern_fill(from, BYTES, 7);
    broadcast(&job, false);
    CHECK(pattern_is(to[1], BYTES, 7));
    job_destroy(&job);
}

int main(void)
{
    size_t refuse;

    need_refusing();
    take_without();
    for (uint32_t tasks_per_node = 1; tasks_per_node <= TASKS; tasks_per_node += TASKS - 1) {
        for (refuse = 0; call_without(refuse, false, tasks_per_node); refuse++)
            continue;
        CHECK(refuse > 5);
        for (refuse = 0; call_without(refuse, true, tasks_per_node); refuse++)
            continue;
        CHECK(refuse > 1);
    }
    return 0;
}
