/*
 * Active-message bandwidth between two tasks, one way and both ways at once, by size. See stream.h.
 *
 *     pamirun -n 2 am_bandwidth [--both] [--min N] [--max N] [--keep] [--immediate-max N]
 *                               [--heap]
 *
 * The header of each message says its slot in the window; the receiver's dispatch function has the
 * data delivered into that slot's buffer. --heap: what is sent is in the shared heap.
 */
#include "job.h"
#include "stream.h"

enum {
    DATA = JOB_USER
};

static struct {
    struct job job;
    pami_endpoint_t peer;
    size_t immediate_max;
    struct {
        uint64_t number; /* of the slot: the header of its messages */
        void *buffer;
        uint64_t received, awaited; /* messages */
        bool sending;
    } slot[STREAM_WINDOW];
} transport;

static void on_received(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    job_ok(result, "receive");
    transport.slot[(uintptr_t)cookie].received++;
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    job_ok(result, "send");
    transport.slot[(uintptr_t)cookie].sending = false;
}

static void on_data(pami_context_t context, void *cookie, const void *header, size_t header_size,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    uint64_t slot;

    JOB_UNUSED_DISPATCH_ARGUMENTS;
    memcpy(&slot, header, sizeof(slot));
    if (header_size != sizeof(slot) || slot >= STREAM_WINDOW) {
        bench_die("a header was damaged");
    }
    if (recv == NULL) {
        memcpy(transport.slot[slot].buffer, data, bytes);
        transport.slot[slot].received++;
    } else {
        recv->addr = transport.slot[slot].buffer;
        recv->local_fn = on_received;
        recv->cookie = (void *)(uintptr_t)slot;
    }
}

void *transport_alloc(size_t bytes)
{
    return job_alloc(&transport.job, bytes);
}

void transport_post_receive(size_t slot, void *buffer, size_t bytes)
{
    (void)bytes;
    transport.slot[slot].buffer = buffer;
}

void transport_wait_receive(size_t slot)
{
    transport.slot[slot].awaited++;
    while (transport.slot[slot].received < transport.slot[slot].awaited) {
        job_poll_one(transport.job.contexts[0]);
    }
}

void transport_start_send(size_t slot, const void *buffer, size_t bytes)
{
    pami_send_t message = {.send = {.dispatch = DATA, .dest = transport.peer}};

    transport.slot[slot].number = slot;
    message.send.header.iov_base = &transport.slot[slot].number;
    message.send.header.iov_len = sizeof(transport.slot[slot].number);
    message.send.data.iov_base = (void *)(uintptr_t)buffer;
    message.send.data.iov_len = bytes;
    if (sizeof(uint64_t) + bytes <= transport.immediate_max) {
        PAMI_OK(PAMI_Send_immediate(transport.job.contexts[0], &message.send));
        return;
    }
    message.events.local_fn = on_sent;
    message.events.cookie = (void *)(uintptr_t)slot;
    transport.slot[slot].sending = true;
    PAMI_OK(PAMI_Send(transport.job.contexts[0], &message));
}

void transport_wait_send(size_t slot)
{
    if (!transport.slot[slot].sending) {
        PAMI_Context_advance(transport.job.contexts[0], 1); /* a look, nothing to wait for */
    }
    while (transport.slot[slot].sending) {
        job_poll_one(transport.job.contexts[0]);
    }
}

void transport_meet(void)
{
    job_meet(&transport.job);
}

int main(int argc, char **argv)
{
    struct job *j = &transport.job;
    bool both = bench_flag(argc, argv, "--both");

    job_open(j, 1);
    if (j->tasks != 2) {
        bench_die("exactly 2 tasks, please");
    }
    transport.immediate_max = bench_option(argc, argv, "--immediate-max", j->immediate_max);
    j->heap = bench_flag(argc, argv, "--heap");
    transport.peer = job_endpoint(j, 1 - j->task, 0);
    job_dispatch(j, DATA, on_data, NULL);
    job_meet(j);
    stream_run(both ? "am_bidirectional" : "am_bandwidth", both, j->task, argc, argv);
    job_close(j);
    return 0;
}
