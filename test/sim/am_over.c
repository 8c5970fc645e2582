/*
 * Active-message collectives for a geometry that some members destroy before they have set the id,
 * and for one that they have destroyed: the initiator's gathers end with an error, its broadcasts
 * without one, whatever their size, and nothing is left.
 */
#include "sim_test.h"

enum {
    MEMBERS = 9,
    ID = 5,
    LARGE = 1 << 20
};

static struct sim_job job;
static pami_geometry_t geometry[MEMBERS];
static size_t formed, landed, failed, sent, received;
static char data[LARGE];

static void on_formed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    formed++;
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    landed++;
    failed += result != PAMI_SUCCESS;
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
    sent++;
}

static void on_gather(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      size_t bytes, pami_endpoint_t origin, pami_geometry_t of, pami_recv_t *send)
{
    static int word;

    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)bytes, (void)of;
    send->addr = &word;
    send->type = PAMI_TYPE_SIGNED_INT;
    if (origin == job_endpoint(&job, 0, 0) && context == job.context[0])
        send->local_fn = on_landed;
}

static void on_broadcast(pami_context_t context, void *cookie, const void *header,
                         size_t header_bytes, const void *bytes, size_t count,
                         pami_endpoint_t origin, pami_geometry_t of, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)bytes, (void)count;
    (void)origin, (void)of, (void)recv;
    received++;
}

static pami_algorithm_t algorithm(size_t task, pami_xfer_type_t type)
{
    pami_algorithm_t first;

    CALL(PAMI_Geometry_algorithms_query(geometry[task], type, &first, NULL, 1, NULL, NULL, 0));
    return first;
}

static void set(size_t task)
{
    const pami_dispatch_callback_function gather = {.amgather = on_gather};
    const pami_dispatch_callback_function broadcast = {.ambroadcast = on_broadcast};
    const pami_collective_hint_t hints = {0};

    CALL(PAMI_AMCollective_dispatch_set(job.context[task], algorithm(task, PAMI_XFER_AMGATHER), ID,
                                        gather, NULL, hints));
    CALL(PAMI_AMCollective_dispatch_set(job.context[task], algorithm(task, PAMI_XFER_AMBROADCAST),
                                        ID + 1, broadcast, NULL, hints));
}

/* A gather and two broadcasts by task 0, in any order. */
static void initiate(struct dice *dice)
{
    static int words[MEMBERS];
    size_t first = dice_below(dice, 3);

    for (size_t i = 0; i < 3; i++) {
        bool gathers = (first + i) % 3 == 0;
        pami_xfer_type_t type = gathers ? PAMI_XFER_AMGATHER : PAMI_XFER_AMBROADCAST;
        pami_xfer_t xfer = {.cb_done = on_sent, .algorithm = algorithm(0, type)};

        if (gathers)
            xfer.cmd.xfer_amgather = (pami_amgather_t){
                .dispatch = ID, .rcvbuf = words, .rtype = PAMI_TYPE_SIGNED_INT, .rtypecount = 1};
        else
            xfer.cmd.xfer_ambroadcast =
                (pami_ambroadcast_t){.dispatch = ID + 1,
                                     .sndbuf = data,
                                     .stype = PAMI_TYPE_BYTE,
                                     .stypecount = (first + i) % 3 == 1 ? 100 : LARGE};
        CALL(PAMI_Collective(job.context[0], &xfer));
    }
}

static void destroy(size_t task)
{
    CALL(PAMI_Geometry_destroy(job.client[task], &geometry[task], job.context[task], NULL, NULL));
}

static void run(uint64_t seed, size_t tasks)
{
    struct dice dice = {seed};
    pamix_sim_config_t config;
    pami_task_t list[MEMBERS];
    bool knows[MEMBERS] = {true};
    size_t known = 0;

    (void)tasks;
    PAMIX_Sim_default(&config);
    config.seed = seed;
    config.tasks_per_node = 1 + (uint32_t)dice_below(&dice, 4);
    job_create(&job, &config, 2 + dice_below(&dice, MEMBERS - 1), 1);
    formed = landed = failed = sent = received = 0;
    for (size_t i = 0; i < job.tasks; i++)
        list[i] = (pami_task_t)i;
    for (size_t i = 0; i < job.tasks; i++)
        CALL(PAMI_Geometry_create_tasklist(job.client[i], 0, NULL, 0, &geometry[i], NULL, 1, list,
                                           job.tasks, job.context[i], on_formed, NULL));
    job_settle(&job);
    CHECK(formed == job.tasks);
    for (size_t i = 0; i < job.tasks; i++) {
        knows[i] = i == 0 || (i != 1 && dice_one_in(&dice, 2));
        if (knows[i])
            set(i);
        known += knows[i];
    }
    initiate(&dice);
    /* It cannot settle: large broadcasts wait for those who do not know the id. */
    CHECK(PAMIX_Sim_run(job.client[0], NULL, NULL, 0, 0) == PAMI_EAGAIN && landed == 0);
    for (size_t i = 1; i < job.tasks; i++)
        destroy(i);
    job_settle(&job);
    if (!(landed == 1 && failed == 1 && sent == 2 && received == 2 * (known - 1)))
        FAIL("%zu %zu %zu %zu known %zu tasks %zu", landed, failed, sent, received, known,
             job.tasks);
    initiate(&dice);
    job_settle(&job);
    CHECK(landed == 2 && failed == 2 && sent == 4 && received == 2 * (known - 1));
    destroy(0);
    job_settle(&job);
    job_destroy(&job);
}

int main(int argc, char **argv)
{
    struct test_arguments given = test_arguments(argc, argv, 60);

    test_each_seed(&given, run);
    return 0;
}
