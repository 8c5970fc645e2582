/*
 * What a program does beside its servers, while these put, get, start and stop: large messages and
 * collectives, whose data servers fetch (PAMIX_SERVERS_FETCH), bring the right bytes and end once,
 * by every policy; atomic operations on words beside those that servers write stay atomic.
 *
 * Run: tasks=1,2,3 timeout=120
 * Run: tasks=2 args="3" env="PAMI_SERVERS_FETCH=on PAMI_YIELD=always"
 * Run: tasks=2 args="1" env="PAMI_SERVERS_FETCH=learn PAMI_YIELD=always"
 * Run: tasks=4 nodes=2 args="1" timeout=120
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=8 args="2 1" env="PAMI_YIELD=always" timeout=120
 *
 * With 0 for their number, servers are the processes that the launcher has started:
 * Run: tasks=2 servers=2 args="0" env="PAMI_YIELD=always"
 * Run: tasks=8 servers=2 args="0 1" timeout=120
 */
#define TEST_LIMIT 60 /* many threads */
#include "coll.h"
#include "servers.h"

enum {
    MESSAGE_ID = 7,
    BLOCK = 70000,    /* of an all-to-all: above what is worth fetching by others */
    MESSAGE = 300001, /* of a broadcast, and of messages */
    PUTS = 20,
    PUT_BYTES = 3000,
    ADDS = 50,
};

static struct job job;
static size_t servers_count = 2, rounds = 2;
static pamix_servers_t servers;
static pami_geometry_t world;
/* A sender may be one message ahead of a receiver: two landings. */
static unsigned char *send_area, *recv_area, *message, *landing, *local, *window, **windows;
static size_t begun, landed, sent, added, ended;
static bool stopping, learns;

/* ---- messages ---- */

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    landed++;
}

static void on_message(pami_context_t context, void *cookie, const void *head, size_t head_bytes,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)head, (void)data, (void)origin;
    CHECK(head_bytes == 0 && bytes == MESSAGE && recv != NULL);
    memset(recv, 0, sizeof *recv);
    recv->type = PAMI_TYPE_BYTE;
    recv->addr = landing + begun++ % 2 * MESSAGE;
    recv->local_fn = on_landed;
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    sent++;
}

/* Now and then by a server, whose throttle must not keep it from fetching the data. */
static void send_message(size_t round)
{
    size_t next = (job.task + 1) % job.tasks;
    pami_send_t call = {
        .send = test_message(job_endpoint(&job, next, 0), MESSAGE_ID, NULL, 0, message, MESSAGE),
        .events = {.remote_fn = on_sent},
    };

    test_fill(message, MESSAGE, job.task, round);
    if (round % 2 == 0)
        SERVERS_REQUEST(job_advance(&job),
                        PAMIX_Servers_send(servers, job.context[0], &call, PAMIX_SERVERS_ORDERED));
    else
        CHECK_OK(TEST_CALL(PAMI_Send(job.context[0], &call)));
}

static void check_message(size_t round)
{
    WAIT(&job, landed > round && sent == round + 1);
    CHECK_SIZE(test_differs(landing + round % 2 * MESSAGE, MESSAGE,
                            (job.task + job.tasks - 1) % job.tasks, round),
               MESSAGE);
}

/* ---- puts by servers, additions by the tasks themselves ---- */

static void on_put(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    ended++;
}

static void on_added(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    added++;
}

/* A window holds a word, and then what each task puts there. */
static unsigned char *place(unsigned char *at, size_t i)
{
    return at + 64 + (job.task * PUTS + i) * PUT_BYTES;
}

static void add_one(size_t task)
{
    uint64_t one = 1, *word = (uint64_t *)(void *)windows[task];
    pami_rmw_t rmw = {
        .dest = job_endpoint(&job, task, 0),
        .done_fn = on_added,
        .remote = word,
        .value = &one,
        .operation = PAMI_ATOMIC_ADD,
        .type = PAMI_TYPE_UNSIGNED_LONG_LONG,
    };

    CHECK_OK(TEST_CALL(PAMI_Rmw(job.context[0], &rmw)));
}

static void put_and_add(size_t round)
{
    size_t task = (job.task + round) % job.tasks;

    test_fill(local, PUTS * PUT_BYTES, job.task, round);
    for (size_t i = 0; i < PUTS; i++) {
        pami_put_simple_t put = {
            .rma = {.dest = job_endpoint(&job, task, 0), .bytes = PUT_BYTES},
            .addr = {local + i * PUT_BYTES, place(windows[task], i)},
            .put = {on_put},
        };

        SERVERS_REQUEST(job_advance(&job), PAMIX_Servers_put(servers, job.context[0], &put, 0));
        for (size_t k = 0; k < ADDS / PUTS + 1; k++)
            add_one((task + i + k) % job.tasks);
    }
}

static void check_puts(size_t round)
{
    size_t task = (job.task + round) % job.tasks, all = (round + 1) * PUTS;
    struct rma op = {.expect = RMA_GOOD};

    WAIT(&job, ended == all && added == all * (ADDS / PUTS + 1));
    memset(local, 0, PUTS * PUT_BYTES);
    rma_get(&op, job.context[0], job_endpoint(&job, task, 0), local, place(windows[task], 0),
            PUTS * PUT_BYTES);
    WAIT(&job, rma_has_ended(&op));
    CHECK_SIZE(test_differs(local, PUTS * PUT_BYTES, job.task, round), PUTS * PUT_BYTES);
}

/* ---- collectives ---- */

static void exchange(const char *row, size_t round)
{
    pami_algorithm_t algorithm = algorithm_named(world, PAMI_XFER_ALLTOALL, row);
    struct told told;
    pami_xfer_t xfer;

    if (algorithm == PAMI_ALGORITHM_NULL)
        return;
    for (size_t task = 0; task < job.tasks; task++)
        test_fill(send_area + task * BLOCK, BLOCK, job.task * job.tasks + task, round);
    memset(recv_area, 0, job.tasks * BLOCK);
    xfer = coll_xfer(algorithm, &told);
    xfer.cmd.xfer_alltoall = (pami_alltoall_t){(char *)send_area, PAMI_TYPE_BYTE, BLOCK,
                                               (char *)recv_area, PAMI_TYPE_BYTE, BLOCK};
    coll_run(&job, job.context[0], &xfer);
    CHECK_SIZE(told.count, 1);
    for (size_t task = 0; task < job.tasks; task++)
        CHECK_SIZE(
            test_differs(recv_area + task * BLOCK, BLOCK, task * job.tasks + job.task, round),
            BLOCK);
}

static void spread(const char *row, size_t round)
{
    pami_algorithm_t algorithm = algorithm_named(world, PAMI_XFER_BROADCAST, row);
    size_t root = round % job.tasks;
    struct told told;
    pami_xfer_t xfer;

    if (algorithm == PAMI_ALGORITHM_NULL)
        return;
    memset(recv_area, 0, MESSAGE);
    if (job.task == root)
        test_fill(recv_area, MESSAGE, root, round);
    xfer = coll_xfer(algorithm, &told);
    xfer.cmd.xfer_broadcast =
        (pami_broadcast_t){job_endpoint(&job, root, 0), (char *)recv_area, PAMI_TYPE_BYTE, MESSAGE};
    coll_run(&job, job.context[0], &xfer);
    CHECK_SIZE(test_differs(recv_area, MESSAGE, root, round), MESSAGE);
}

/* ---- all at once ---- */

static const pamix_servers_policy_t policies[] = {
    {.operations = 15, .bytes_most = SIZE_MAX, .batch = 1},
    {.operations = 15, .bytes_most = SIZE_MAX, .batch = 1, .in_flight = 1},
    {.operations = 15, .bytes_most = SIZE_MAX, .batch = 1, .active = 1, .in_flight = 1},
    {.operations = 15, .bytes_most = SIZE_MAX, .batch = 2, .split = 5000},
    {.operations = 15, .bytes_most = SIZE_MAX, .batch = 2, .split = 3000, .active = 1},
    {.operations = 15, .bytes_most = SIZE_MAX, .batch = 2, .split = 9000, .learn = 1},
    {.operations = PAMIX_SERVERS_FETCH, .bytes_most = SIZE_MAX, .batch = 4, .few = 2},
};

static void on_stopped(pami_context_t context, void *cookie, pami_result_t result)
{
    rma_on_fence(context, cookie, result);
    CHECK_OK(PAMIX_Servers_start(servers));
    stopping = false;
}

static void one_round(size_t round)
{
    static bool stopped;

    if (round % 2 != 0 && !stopping) {
        stopping = true;
        stopped = false;
        CHECK_OK(TEST_CALL(PAMIX_Servers_stop(servers, job.context[0], on_stopped, &stopped)));
    }
    send_message(round);
    put_and_add(round);
    exchange("Spread", round);
    exchange("Pairwise", round);
    exchange("Hierarchical", round);
    spread("Binomial", round);
    spread("ScatterRing", round);
    check_message(round);
    check_puts(round);
}

static void open_servers(void)
{
    pamix_servers_policy_t policy;
    const char *option = getenv("PAMI_SERVERS_FETCH");
    bool fetches = option != NULL && strcmp(option, "off") != 0;

    servers = servers_make(&job, 1, servers_count, NULL);
    policy = servers_policy(servers);
    learns = fetches && strcmp(option, "learn") == 0;
    CHECK(((policy.operations & PAMIX_SERVERS_FETCH) != 0) == fetches);
    CHECK_OK(PAMIX_Servers_start(servers));
}

static void close_servers(void)
{
    WAIT(&job, !stopping);
    /* Where tasks share processors nothing but a wish of the receiver moves large data. */
    if (job.tasks > 1 && getenv("PAMI_YIELD") != NULL && !learns)
        CHECK(servers_status(servers).gets > 0);
    servers_end(&job, &servers);
}

int main(int argc, char **argv)
{
    size_t round = 0, window_bytes;
    uint64_t sum;

    if (argc > 1)
        servers_count = strtoul(argv[1], NULL, 10);
    if (argc > 2)
        rounds = strtoul(argv[2], NULL, 10);
    job_start(&job, "servers beside", 1 + servers_count);
    rma_open(&job);
    job.driven = 1;
    for (size_t i = 0; i < job.contexts; i++)
        test_dispatch(job.context[i], MESSAGE_ID, on_message, NULL, test_ordered());
    CHECK_OK(PAMI_Geometry_world(job.client, &world));
    window_bytes = 64 + job.tasks * PUTS * PUT_BYTES;
    window = servers_memory(&job, window_bytes), local = servers_memory(&job, PUTS * PUT_BYTES);
    message = servers_memory(&job, MESSAGE), landing = servers_memory(&job, 2 * MESSAGE);
    send_area = servers_memory(&job, job.tasks * BLOCK + MESSAGE),
    recv_area = servers_memory(&job, job.tasks * BLOCK + MESSAGE);
    windows = test_alloc(job.tasks * sizeof *windows);
    rma_share(&job, &window, sizeof window, windows);
    open_servers();
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        /* The first rounds are by the policy that there is. */
        if (p != 0)
            CHECK_OK(PAMIX_Servers_set_policy(servers, &policies[p]));
        for (size_t end = round + rounds; round < end; round++)
            one_round(round);
    }
    job_barrier(&job);
    memcpy(&sum, window, sizeof sum);
    CHECK_SIZE(sum, round * PUTS * (ADDS / PUTS + 1));
    close_servers();
    rma_close(&job);
    free(windows);
    return 0;
}
