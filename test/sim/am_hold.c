/*
 * What waits for the program has a limit, PAMI_HOLD_BYTES, whatever it is: messages of nothing but
 * a header, active-message collectives. Above it the receiver stops reading, which a message for
 * another id shows, and goes on when the id is registered; nothing is lost. What waits for a
 * geometry that is still being created has none, as that could never end. And when the receiver
 * destroys the geometry it goes on at once, though the next one is being created.
 *
 * Run: env="PAMI_HOLD_BYTES=64K PAMI_LOG=error"
 */
#include "sim_test.h"

enum {
    TASKS = 8,    /* the last of them are told of a geometry by task 1 */
    ID = 5,       /* late */
    MARKER = 6,   /* registered from the beginning */
    FLOOD = 2000, /* above the limit */
    FEW = 50
};

enum way {
    SENDS,
    BROADCASTS,
    GATHERS,
    WAYS
};

static struct sim_job job;
static pami_geometry_t geometry[TASKS];
static size_t formed, markers, dispatched, landed, late;
static enum way way;
static size_t source, target, count; /* who sends to whom, and how many */
static char data[4096];

static void on_marker(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      const void *bytes, size_t data_bytes, pami_endpoint_t origin,
                      pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)bytes, (void)data_bytes;
    (void)origin, (void)recv;
    markers++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *bytes, size_t data_bytes,
                       pami_endpoint_t origin, pami_recv_t *recv)
{
    uint32_t number;

    (void)context, (void)cookie, (void)bytes, (void)data_bytes, (void)origin, (void)recv;
    CHECK(header_bytes == sizeof(number));
    memcpy(&number, header, sizeof(number));
    CHECK(number == dispatched);
    dispatched++;
}

static void on_broadcast(pami_context_t context, void *cookie, const void *header,
                         size_t header_bytes, const void *pipe, size_t bytes,
                         pami_endpoint_t origin, pami_geometry_t of, pami_recv_t *recv)
{
    (void)of;
    if (context == job.context[target])
        on_message(context, cookie, header, header_bytes, pipe, bytes, origin, recv);
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    landed++;
}

static void on_gather(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      size_t bytes, pami_endpoint_t origin, pami_geometry_t of, pami_recv_t *send)
{
    send->addr = data;
    if (context == job.context[source])
        send->local_fn = on_landed;
    on_broadcast(context, cookie, header, header_bytes, NULL, bytes, origin, of, send);
}

static pami_algorithm_t algorithm(size_t task, pami_xfer_type_t type)
{
    pami_algorithm_t first;

    CALL(PAMI_Geometry_algorithms_query(geometry[task], type, &first, NULL, 1, NULL, NULL, 0));
    return first;
}

static void set(size_t task)
{
    const pami_dispatch_callback_function p2p = {.p2p = on_message};
    const pami_dispatch_callback_function broadcast = {.ambroadcast = on_broadcast};
    const pami_dispatch_callback_function gather = {.amgather = on_gather};
    const pami_collective_hint_t hints = {0};

    if (way == SENDS)
        CALL(PAMI_Dispatch_set(job.context[task], ID, p2p, NULL, (pami_dispatch_hint_t){0}));
    else if (way == BROADCASTS)
        CALL(PAMI_AMCollective_dispatch_set(
            job.context[task], algorithm(task, PAMI_XFER_AMBROADCAST), ID, broadcast, NULL, hints));
    else
        CALL(PAMI_AMCollective_dispatch_set(job.context[task], algorithm(task, PAMI_XFER_AMGATHER),
                                            ID, gather, NULL, hints));
}

static void send(size_t id, const void *header, size_t bytes)
{
    pami_send_t send = {.send = {.header = {(void *)(uintptr_t)header, bytes},
                                 .dispatch = id,
                                 .dest = job_endpoint(&job, target, 0)}};

    CALL(PAMI_Send(job.context[source], &send));
}

static void initiate(uint32_t number)
{
    static uint32_t headers[FLOOD][TASKS];
    static char gathered[TASKS];
    pami_xfer_t xfer = {.algorithm = 0};

    for (size_t i = 0; i < TASKS; i++)
        headers[number][i] = number;
    if (way == SENDS) {
        send(ID, headers[number], sizeof(number));
        return;
    }
    if (way == BROADCASTS) {
        xfer.algorithm = algorithm(source, PAMI_XFER_AMBROADCAST);
        xfer.cmd.xfer_ambroadcast = (pami_ambroadcast_t){.dispatch = ID,
                                                         .user_header = headers[number],
                                                         .headerlen = sizeof(number),
                                                         .sndbuf = data,
                                                         .stype = PAMI_TYPE_BYTE,
                                                         .stypecount = number % sizeof(data)};
    } else {
        xfer.algorithm = algorithm(source, PAMI_XFER_AMGATHER);
        xfer.cmd.xfer_amgather = (pami_amgather_t){.dispatch = ID,
                                                   .headers = headers[number],
                                                   .headerlen = sizeof(number),
                                                   .rcvbuf = gathered,
                                                   .rtype = PAMI_TYPE_BYTE,
                                                   .rtypecount = 1};
    }
    CALL(PAMI_Collective(job.context[source], &xfer));
}

static void flood(void)
{
    for (uint32_t i = 0; i < count; i++)
        initiate(i);
    send(MARKER, NULL, 0);
}

static void begin(uint64_t seed, double slow)
{
    pamix_sim_config_t config;

    PAMIX_Sim_default(&config);
    config.seed = seed;
    config.slow = slow;
    config.slow_delay = 1e-2;
    job_create(&job, &config, TASKS, 1);
    job_dispatch(&job, MARKER, on_marker, NULL, (pami_dispatch_hint_t){0});
    formed = markers = dispatched = landed = 0;
}

static void form(pami_event_function fn)
{
    static pami_task_t list[TASKS] = {0, 1, 2, 3, 4, 5, 6, 7};

    for (size_t i = 0; i < TASKS; i++)
        CALL(PAMI_Geometry_create_tasklist(job.client[i], 0, NULL, 0, &geometry[i], NULL, 1, list,
                                           TASKS, job.context[i], fn, &geometry[i]));
}

/* Everything has come, once. */
static void end(void)
{
    job_settle(&job);
    CHECK(markers == 1 && dispatched == count);
    CHECK(landed == (way == GATHERS ? count : 0));
    for (size_t i = 0; i < TASKS; i++)
        CALL(PAMI_Geometry_destroy(job.client[i], &geometry[i], job.context[i], NULL, NULL));
    job_settle(&job);
    job_destroy(&job);
}

static void on_formed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    formed++;
}

/* One task sets the id when everything has been sent. */
static void id_late(uint64_t seed)
{
    begin(seed, 0);
    source = 0;
    target = 1;
    form(on_formed);
    job_settle(&job);
    CHECK(formed == TASKS);
    for (size_t i = 0; i < TASKS; i++)
        if (i != target)
            set(i);
    flood();
    (void)PAMIX_Sim_run(job.client[0], NULL, NULL, 0, 0);
    CHECK(markers == (count < FLOOD) && dispatched == 0);
    set(target);
    end();
}

static void on_formed_early(pami_context_t context, void *cookie, pami_result_t result)
{
    size_t task = (size_t)((pami_geometry_t *)cookie - geometry);

    on_formed(context, cookie, result);
    set(task);
    if (task == source)
        flood();
    if (task == target)
        late += markers; /* the whole flood was there before */
}

/* One task knows the geometry before the others do. */
static void geometry_late(uint64_t seed)
{
    begin(seed, 0.3);
    source = 2;
    target = TASKS - 1;
    form(on_formed_early);
    end();
}

/* All destroy the geometry and create the next one while the receiver does not read. It may have
 * used the first one, or not. */
static void id_never(uint64_t seed, bool is_used)
{
    begin(seed, 0);
    source = 0;
    target = 1;
    form(on_formed);
    job_settle(&job);
    for (size_t i = 0; i < TASKS; i++)
        if (i != target)
            set(i);
    if (is_used)
        CALL(PAMI_AMCollective_dispatch_set(
            job.context[target], algorithm(target, PAMI_XFER_AMBROADCAST), ID + 1,
            (pami_dispatch_callback_function){.ambroadcast = on_broadcast}, NULL,
            (pami_collective_hint_t){0}));
    flood();
    (void)PAMIX_Sim_run(job.client[0], NULL, NULL, 0, 0);
    CHECK(markers == 0 && formed == TASKS);
    for (size_t i = 0; i < TASKS; i++)
        CALL(PAMI_Geometry_destroy(job.client[i], &geometry[i], job.context[i], NULL, NULL));
    form(on_formed);
    job_settle(&job);
    CHECK(formed == 2 * TASKS && markers == 1 && dispatched == 0);
    job_destroy(&job);
}

int main(int argc, char **argv)
{
    struct test_arguments given = test_arguments(argc, argv, 30);

    for (uint64_t i = 0; i < given.seeds; i++) {
        test_seed = given.seed + i;
        way = test_seed % WAYS;
        count = test_seed / WAYS % 2 == 0 ? FLOOD : FEW;
        id_late(test_seed);
        way = test_seed % 2 == 0 ? BROADCASTS : GATHERS;
        count = FLOOD;
        geometry_late(test_seed);
        way = BROADCASTS;
        id_never(test_seed, test_seed % 2 == 0);
    }
    CHECK(late != 0 || given.seeds < 30);
    return 0;
}
