/*
 * No memory for one allocation of a collective's call, each in turn: the call says so, and can be
 * made again, or all members are called back. All members find the same lists all the same. And no
 * memory for a message that comes before it can be taken: its receiver is told.
 *
 * Run: env="PAMI_RNDV_BYTES=1G"
 */
#include "no_memory.h"

enum {
    TASKS = 3,
    ID = 5,
    BYTES = 20004, /* of a message in several packets, a length that nothing else has */
    ATTEMPTS = 2000
};

static size_t done, failed, landed;
static pami_result_t last;
static char from[BYTES], to[TASKS][BYTES];

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    done++;
    failed += result != PAMI_SUCCESS;
}

static pami_algorithm_t first_of(pami_client_t client, pami_xfer_type_t type)
{
    pami_algorithm_t algorithm;
    pami_geometry_t world;

    CALL(PAMI_Geometry_world(client, &world));
    CALL(PAMI_Geometry_algorithms_query(world, type, &algorithm, NULL, 1, NULL, NULL, 0));
    return algorithm;
}

/* Allocation number `refuse` of each call of task 0 fails; whether there are so many. */
static bool call_without(size_t refuse)
{
    static const pami_xfer_type_t types[] = {PAMI_XFER_BARRIER, PAMI_XFER_ALLREDUCE};
    bool enough = false;
    struct sim_job job;

    job_create(&job, NULL, TASKS, 1);
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        static int mine = 1, sum[TASKS];
        size_t lengths[TASKS][2];
        pami_geometry_t world;

        done = failed = 0;
        for (size_t i = 0; i < TASKS; i++) {
            pami_xfer_t xfer = {.cb_done = on_done, .algorithm = first_of(job.client[i], types[t])};
            pami_result_t result = PAMI_SUCCESS;

            CALL(PAMI_Geometry_world(job.client[i], &world));
            no_memory.refused = 0;
            refuse_only(i == 0 ? refuse : SIZE_MAX);
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
            enough |= no_memory.refused != 0;
            refuse_only(SIZE_MAX);
        }
        job_settle(&job);
        CHECK(done == TASKS && (failed == 0 || enough));
        CHECK(failed != 0 || types[t] == PAMI_XFER_BARRIER || sum[0] == TASKS);
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
    no_memory.bytes = BYTES;
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
    size_t refuse = 0;

    if (!CAN_REFUSE) {
        printf("SKIP: the sanitizer has the memory\n");
        return 77;
    }
    take_without();
    while (call_without(refuse))
        refuse++;
    CHECK(refuse > 5);
    return 0;
}
