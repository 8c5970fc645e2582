/*
 * How much of a message, an all-reduce or an all-to-all is hidden behind computation: without any
 * help, with polls between slices, and with a thread of asynchronous progress. The loop is in
 * overlaploop.h; compare mpi_overlap.
 *
 *     pamirun -n 2 overlap [message] [allreduce] [alltoall] [--min N] [--max N] [--rounds N]
 *                        [--memory]
 *
 * Besides, overlap_cost,1: what a computation takes longer while the thread is there and asleep,
 * percent.
 */
#include "overlaploop.h"

#include "job.h"

#include <pami/pamix.h>

enum {
    ASK = JOB_USER,
    DATA,
    TELL,
    READY
};

static struct {
    struct job job;
    pami_endpoint_t peer;
    pami_algorithm_t allreduce, alltoall;
    uint64_t asked, served, told, heard; /* messages that have come, and have been waited for */
    uint64_t value;
    uint64_t ready, rounds;     /* that rank 1 has begun, and rank 0; as below */
    uint64_t arrived, expected; /* set by whoever advances */
    bool sending;
} port;

static pami_context_t context_of_job(void)
{
    return port.job.contexts[0];
}

/* ---- callbacks ---- */

static void arrive(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    job_ok(result, "overlap");
    __atomic_fetch_add(&port.arrived, 1, __ATOMIC_RELEASE);
}

static void on_data(pami_context_t context, void *cookie, const void *header, size_t header_size,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    if (recv == NULL) {
        memcpy(overlap_port.recv, data, bytes);
        arrive(context, NULL, PAMI_SUCCESS);
        return;
    }
    recv->addr = overlap_port.recv;
    recv->local_fn = arrive;
}

static void on_ask(pami_context_t context, void *cookie, const void *header, size_t header_size,
                   const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    port.asked++;
}

static void on_tell(pami_context_t context, void *cookie, const void *header, size_t header_size,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    memcpy(&port.value, data, sizeof(port.value));
    port.told++;
}

static void on_ready(pami_context_t context, void *cookie, const void *header, size_t header_size,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    __atomic_fetch_add(&port.ready, 1, __ATOMIC_RELEASE);
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    job_ok(result, "send");
    port.sending = false;
}

/* ---- the port ---- */

static void start_allreduce(size_t bytes)
{
    pami_xfer_t xfer = {.cb_done = arrive, .algorithm = port.allreduce};

    xfer.cmd.xfer_allreduce = (pami_allreduce_t){.sndbuf = overlap_port.send,
                                                 .stype = PAMI_TYPE_UNSIGNED_LONG_LONG,
                                                 .stypecount = bytes / 8,
                                                 .rcvbuf = overlap_port.recv,
                                                 .rtype = PAMI_TYPE_UNSIGNED_LONG_LONG,
                                                 .rtypecount = bytes / 8,
                                                 .op = PAMI_DATA_SUM,
                                                 .commutative = 1};
    PAMI_OK(PAMI_Collective(context_of_job(), &xfer));
}

static void start_alltoall(size_t bytes)
{
    pami_xfer_t xfer = {.cb_done = arrive, .algorithm = port.alltoall};

    xfer.cmd.xfer_alltoall = (pami_alltoall_t){.sndbuf = overlap_port.send,
                                               .stype = PAMI_TYPE_UNSIGNED_LONG_LONG,
                                               .stypecount = bytes / 16,
                                               .rcvbuf = overlap_port.recv,
                                               .rtype = PAMI_TYPE_UNSIGNED_LONG_LONG,
                                               .rtypecount = bytes / 16};
    PAMI_OK(PAMI_Collective(context_of_job(), &xfer));
}

static void port_begin(enum overlap_kind kind, size_t bytes)
{
    port.expected++;
    PAMI_OK(PAMI_Context_lock(context_of_job()));
    if (kind == OVERLAP_MESSAGE) {
        job_send(&port.job, 0, ASK, port.peer, NULL, 0);
    } else if (kind == OVERLAP_ALLREDUCE) {
        start_allreduce(bytes);
    } else {
        start_alltoall(bytes);
    }
    PAMI_OK(PAMI_Context_unlock(context_of_job()));
}

static void port_poll(void)
{
    pami_result_t result = PAMI_Context_trylock_advancev(&port.job.contexts[0], 1, 1);

    if (result != PAMI_SUCCESS && result != PAMI_EAGAIN) {
        job_ok(result, "PAMI_Context_trylock_advancev");
    }
}

/* The thread may be there as well. */
static void wait_for(const uint64_t *count, uint64_t wanted)
{
    while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < wanted) {
        PAMI_OK(PAMI_Context_lock(context_of_job()));
        job_poll_one(context_of_job());
        PAMI_OK(PAMI_Context_unlock(context_of_job()));
        if (overlap_port.yields) {
            sched_yield();
        }
    }
}

static void port_finish(void)
{
    wait_for(&port.arrived, port.expected);
}

static void port_ready(void)
{
    if (overlap_port.rank == 1) {
        job_send(&port.job, 0, READY, port.peer, NULL, 0);
    } else {
        wait_for(&port.ready, ++port.rounds);
    }
}

static void port_serve(size_t bytes, uint64_t seed)
{
    pami_send_t message = {.send = {.dispatch = DATA, .dest = port.peer}};

    while (port.asked == port.served) {
        job_poll_one(context_of_job());
        if (overlap_port.yields) {
            sched_yield();
        }
    }
    port.served++;
    bench_fill(overlap_port.send, bytes, seed);
    message.send.data.iov_base = overlap_port.send;
    message.send.data.iov_len = bytes;
    message.events.local_fn = on_sent;
    port.sending = true;
    PAMI_OK(PAMI_Send(context_of_job(), &message));
    while (port.sending) {
        job_poll_one(context_of_job());
        if (overlap_port.yields) {
            sched_yield();
        }
    }
}

static uint64_t port_tell(uint64_t value)
{
    if (overlap_port.rank == 0) {
        job_send(&port.job, 0, TELL, port.peer, &value, sizeof(value));
        return value;
    }
    while (port.told == port.heard) {
        job_poll_one(context_of_job());
    }
    port.heard++;
    return port.value;
}

/* Of rank 0, on the second of the processors that the tasks are pinned to. */
static void port_thread(bool wanted)
{
    const char *pin = getenv("BENCH_PIN");
    const char *second = pin != NULL ? strchr(pin, ',') : NULL;
    pamix_context_async_t how = {.threads = 1, .cpus = second != NULL ? second + 1 : NULL};

    if (overlap_port.rank != 0) {
        return;
    }
    if (wanted) {
        PAMI_OK(PAMIX_Context_async_enable(port.job.contexts, 1, &how));
    } else {
        PAMI_OK(PAMIX_Context_async_disable(port.job.contexts, 1));
    }
}

/* What the thread costs when nothing comes: without it, with it, without it. */
static void cost(void)
{
    struct overlap_case c = {.steps = overlap_steps(200e3), .rounds = 500};
    double with, without = overlap_median(&c);

    port_thread(true);
    with = overlap_median(&c);
    port_thread(false);
    without = (without + overlap_median(&c)) / 2;
    bench_emit("overlap_cost", 1, "%", 100 * (with / without - 1));
}

int main(int argc, char **argv)
{
    pami_geometry_t world;

    job_open(&port.job, 1);
    job_need_tasks(&port.job, 2);
    overlap_port.rank = port.job.task;
    overlap_port.begin = port_begin;
    overlap_port.poll = port_poll;
    overlap_port.finish = port_finish;
    overlap_port.ready = port_ready;
    overlap_port.serve = port_serve;
    overlap_port.tell = port_tell;
    overlap_port.thread = port_thread;
    port.peer = job_endpoint(&port.job, 1 - port.job.task, 0);
    job_dispatch(&port.job, ASK, on_ask, NULL);
    job_dispatch(&port.job, DATA, on_data, NULL);
    job_dispatch(&port.job, TELL, on_tell, NULL);
    job_dispatch(&port.job, READY, on_ready, NULL);
    PAMI_OK(PAMI_Geometry_world(port.job.client, &world));
    PAMI_OK(PAMI_Geometry_algorithms_query(world, PAMI_XFER_ALLREDUCE, &port.allreduce, NULL, 1,
                                           NULL, NULL, 0));
    PAMI_OK(PAMI_Geometry_algorithms_query(world, PAMI_XFER_ALLTOALL, &port.alltoall, NULL, 1, NULL,
                                           NULL, 0));
    job_meet(&port.job);
    overlap_main(argc, argv);
    if (port.job.task == 0) {
        cost();
    }
    job_close(&port.job);
    return 0;
}
