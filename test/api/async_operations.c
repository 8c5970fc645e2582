/*
 * Everything that a program starts and then leaves alone comes to its end by asynchronous progress
 * at both ends: large messages, one-sided transfers, atomic operations, collectives. The program
 * locks the context for each call and then only looks at memory.
 *
 * Run: tasks=1,2,3
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=5 timeout=120
 * Run: tasks=4 nodes=2 timeout=120
 */
#include "async.h"

#include <sched.h>

enum {
    SERVED = 1,
    DATA = 1,
    BYTES = 1 << 20,
    ROUNDS = 20,
    LOOKS = 200,
    MANY = 50000 /* numbers in an all-reduce */
};

static struct job job;
static pami_geometry_t world;
static unsigned char *from, *to, *window;
static uint64_t shared_word;
static size_t ended, arrived;
static uint64_t addresses[64][2]; /* of everybody's window and word */

static void spin_until(size_t *counter, size_t target, const char *what)
{
    double until = test_now() + test_limit();

    /* To the threads that do the work, where tasks outnumber cores. Linux 6.18 lets some wait for
     * ever beside one that does nothing but yield. */
    for (unsigned looks = 1; load(counter) < target; looks++) {
        if (test_now() > until)
            FAIL("%s has not ended", what);
        if (looks % LOOKS == 0)
            test_sleep(50e-6);
        else
            sched_yield();
    }
}

static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    CHECK(context == job.context[SERVED]);
    if (result != PAMI_SUCCESS)
        FAIL("an operation ended with %d: %s", (int)result, test_text());
    __atomic_fetch_add((size_t *)cookie, 1, __ATOMIC_RELEASE);
}

static void on_data(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    CHECK(recv != NULL);
    CHECK_SIZE(bytes, BYTES);
    recv->addr = to;
    recv->local_fn = on_end;
    recv->cookie = &arrived;
}

static pami_algorithm_t algorithm_of(pami_xfer_type_t type)
{
    pami_algorithm_t handle;

    CHECK_OK(PAMI_Geometry_algorithms_query(world, type, &handle, NULL, 1, NULL, NULL, 0));
    return handle;
}

/* A call under the lock, then nothing until it has ended. */
#define STARTED_THEN_ENDS(call, what)                                                              \
    do {                                                                                           \
        size_t before_ = load(&ended);                                                             \
        CHECK_OK(PAMI_Context_lock(job.context[SERVED]));                                          \
        CHECK_OK(call);                                                                            \
        CHECK_OK(PAMI_Context_unlock(job.context[SERVED]));                                        \
        spin_until(&ended, before_ + 1, what);                                                     \
    } while (0)

static void barrier(void)
{
    pami_xfer_t xfer = {.cb_done = on_end, .cookie = &ended};

    xfer.algorithm = algorithm_of(PAMI_XFER_BARRIER);
    STARTED_THEN_ENDS(PAMI_Collective(job.context[SERVED], &xfer), "a barrier");
}

static void exchange_addresses(void)
{
    uint64_t mine[2] = {(uintptr_t)window, (uintptr_t)&shared_word};
    pami_xfer_t xfer = {.cb_done = on_end, .cookie = &ended};

    xfer.algorithm = algorithm_of(PAMI_XFER_ALLGATHER);
    xfer.cmd.xfer_allgather.sndbuf = (char *)mine;
    xfer.cmd.xfer_allgather.stype = PAMI_TYPE_BYTE;
    xfer.cmd.xfer_allgather.stypecount = sizeof mine;
    xfer.cmd.xfer_allgather.rcvbuf = (char *)addresses;
    xfer.cmd.xfer_allgather.rtype = PAMI_TYPE_BYTE;
    xfer.cmd.xfer_allgather.rtypecount = sizeof mine;
    STARTED_THEN_ENDS(PAMI_Collective(job.context[SERVED], &xfer), "an allgather");
}

static pami_result_t start_sum(double *out, double *in, size_t count)
{
    pami_xfer_t xfer = {.cb_done = on_end, .cookie = &ended};

    xfer.algorithm = algorithm_of(PAMI_XFER_ALLREDUCE);
    xfer.cmd.xfer_allreduce.sndbuf = (char *)in;
    xfer.cmd.xfer_allreduce.stype = PAMI_TYPE_DOUBLE;
    xfer.cmd.xfer_allreduce.stypecount = count;
    xfer.cmd.xfer_allreduce.rcvbuf = (char *)out;
    xfer.cmd.xfer_allreduce.rtype = PAMI_TYPE_DOUBLE;
    xfer.cmd.xfer_allreduce.rtypecount = count;
    xfer.cmd.xfer_allreduce.op = PAMI_DATA_SUM;
    return PAMI_Collective(job.context[SERVED], &xfer);
}

/* A large one is begun by the thread; those behind it must not get in its way. */
static void sums(void)
{
    static const size_t counts[] = {MANY, 10, MANY / 2, 1000};
    static double in[MANY], out[4][MANY];
    size_t before = load(&ended);

    for (size_t i = 0; i < MANY; i++)
        in[i] = (double)(job.task + i);
    CHECK_OK(PAMI_Context_lock(job.context[SERVED]));
    for (size_t k = 0; k < 4; k++)
        CHECK_OK(start_sum(out[k], in, counts[k]));
    CHECK_OK(PAMI_Context_unlock(job.context[SERVED]));
    spin_until(&ended, before + 4, "an all-reduce");
    for (size_t k = 0; k < 4; k++)
        for (size_t i = 0; i < counts[k]; i++)
            CHECK(out[k][i] == (double)(job.tasks * (job.tasks - 1) / 2 + job.tasks * i));
}

static void message(size_t neighbour, size_t round)
{
    pami_send_t send = {
        .send = test_message(job_endpoint(&job, neighbour, SERVED), DATA, NULL, 0, from, BYTES)};

    send.events.cookie = &ended;
    send.events.remote_fn = on_end;
    STARTED_THEN_ENDS(PAMI_Send(job.context[SERVED], &send), "a message");
    spin_until(&arrived, round, "a message from the other neighbour");
}

static void one_sided(size_t neighbour)
{
    pami_put_simple_t put = {
        .rma = {.dest = job_endpoint(&job, neighbour, SERVED), .bytes = BYTES}};
    pami_get_simple_t get = {
        .rma = {.dest = job_endpoint(&job, neighbour, SERVED), .bytes = BYTES}};
    uint64_t one = 1, before;
    pami_rmw_t rmw = {.dest = job_endpoint(&job, neighbour, SERVED)};

    put.rma.cookie = &ended;
    put.addr.local = from;
    put.addr.remote = (void *)(uintptr_t)addresses[neighbour][0];
    put.put.rdone_fn = on_end;
    STARTED_THEN_ENDS(PAMI_Put(job.context[SERVED], &put), "a put");
    memset(to, 0, BYTES);
    get.rma.cookie = &ended;
    get.rma.done_fn = on_end;
    get.addr.local = to;
    get.addr.remote = (void *)(uintptr_t)addresses[neighbour][0];
    STARTED_THEN_ENDS(PAMI_Get(job.context[SERVED], &get), "a get");
    CHECK(memcmp(from, to, BYTES) == 0);
    rmw.cookie = &ended;
    rmw.done_fn = on_end;
    rmw.local = &before;
    rmw.remote = (void *)(uintptr_t)addresses[neighbour][1];
    rmw.value = &one;
    rmw.operation = PAMI_ATOMIC_FETCH_ADD;
    rmw.type = PAMI_TYPE_UNSIGNED_LONG_LONG;
    STARTED_THEN_ENDS(PAMI_Rmw(job.context[SERVED], &rmw), "an atomic operation");
}

int main(void)
{
    size_t neighbour;

    job_start(&job, "async_operations", 2);
    job.driven = 1;
    neighbour = (job.task + 1) % job.tasks;
    from = test_alloc(BYTES);
    to = test_zalloc(BYTES);
    window = test_zalloc(BYTES);
    test_dispatch(job.context[SERVED], DATA, on_data, NULL, test_ordered());
    CHECK_OK(PAMI_Geometry_world(job.client, &world));
    job_barrier(&job);
    CHECK_OK(PAMIX_Context_async_enable(&job.context[SERVED], 1, NULL));
    exchange_addresses();
    for (size_t round = 1; round <= ROUNDS; round++) {
        test_fill(from, BYTES, job.task, round);
        barrier();
        message(neighbour, round);
        CHECK_SIZE(test_differs(to, BYTES, (job.task + job.tasks - 1) % job.tasks, round), BYTES);
        barrier();
        one_sided(neighbour);
        sums();
    }
    barrier();
    CHECK_SIZE(__atomic_load_n(&shared_word, __ATOMIC_ACQUIRE), ROUNDS);
    CHECK_OK(PAMIX_Context_async_disable(&job.context[SERVED], 1));
    job_finish(&job);
    free(from);
    free(to);
    free(window);
    return 0;
}
