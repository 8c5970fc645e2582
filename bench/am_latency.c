/*
 * Active-message latency: half round trip between two tasks, by size. See pingpong.h.
 *
 *     pamirun -n 2 am_latency [--min N] [--max N] [--step N] [--keep] [--header N]
 *                             [--immediate-max N] [--heap]
 *
 * Sends as an MPI-like run-time would: PAMI_Send_immediate as long as header and data fit its
 * limit (or --immediate-max), else PAMI_Send. Receives into the user's buffer: by a copy out of the
 * pipe in the dispatch function, or by giving the library the address. --header N: N bytes of user
 * header with each message, and the measure is called am_latency_header. --heap: what is
 * sent is in the shared heap. Tasks beyond two sleep.
 */
#include "job.h"
#include "pingpong.h"

enum {
    DATA = JOB_USER,
    NOTE
};

static struct {
    struct job job;
    pami_endpoint_t peer;
    char header[256];
    size_t header_size, immediate_max;
    void *expected;
    uint64_t received, awaited; /* messages */
    bool sending;
    uint64_t told, heard; /* notes that came in, that were taken */
    double note;
} transport;

static void on_received(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    job_ok(result, "receive");
    transport.received++;
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    job_ok(result, "send");
    transport.sending = false;
}

static void on_data(pami_context_t context, void *cookie, const void *header, size_t header_size,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    if (recv == NULL) {
        memcpy(transport.expected, data, bytes);
        transport.received++;
    } else {
        recv->addr = transport.expected;
        recv->local_fn = on_received;
    }
}

static void on_note(pami_context_t context, void *cookie, const void *header, size_t header_size,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    memcpy(&transport.note, data, sizeof(transport.note));
    transport.told++;
}

void *transport_alloc(size_t bytes)
{
    return job_alloc(&transport.job, bytes);
}

void transport_expect(void *buffer)
{
    transport.expected = buffer;
}

void transport_send(const void *buffer, size_t bytes)
{
    pami_send_t message = {.send = {.dispatch = DATA, .dest = transport.peer}};

    message.send.header.iov_base = transport.header;
    message.send.header.iov_len = transport.header_size;
    message.send.data.iov_base = (void *)(uintptr_t)buffer;
    message.send.data.iov_len = bytes;
    if (transport.header_size + bytes <= transport.immediate_max) {
        PAMI_OK(PAMI_Send_immediate(transport.job.contexts[0], &message.send));
        return;
    }
    message.events.local_fn = on_sent;
    transport.sending = true;
    PAMI_OK(PAMI_Send(transport.job.contexts[0], &message));
    while (transport.sending) {
        job_poll_one(transport.job.contexts[0]);
    }
}

void transport_receive(void *buffer, size_t bytes)
{
    (void)buffer, (void)bytes;
    transport.awaited++;
    while (transport.received < transport.awaited) {
        job_poll_one(transport.job.contexts[0]);
    }
}

void transport_tell(double value)
{
    job_send(&transport.job, 0, NOTE, transport.peer, &value, sizeof(value));
}

double transport_hear(void)
{
    transport.heard++;
    while (transport.told < transport.heard) {
        job_poll_one(transport.job.contexts[0]);
    }
    return transport.note;
}

int main(int argc, char **argv)
{
    struct job *j = &transport.job;
    const char *name = "am_latency";

    job_open(j, 1);
    job_need_tasks(j, 2);
    transport.header_size = bench_option(argc, argv, "--header", 0);
    if (transport.header_size > sizeof(transport.header)) {
        bench_die("--header: at most %zu", sizeof(transport.header));
    }
    if (transport.header_size > 0) {
        name = "am_latency_header";
    }
    transport.immediate_max = bench_option(argc, argv, "--immediate-max", j->immediate_max);
    j->heap = bench_flag(argc, argv, "--heap");
    transport.peer = job_endpoint(j, j->task == 0 ? 1 : 0, 0);
    job_dispatch(j, DATA, on_data, NULL);
    job_dispatch(j, NOTE, on_note, NULL);
    job_meet(j);
    j->asleep = j->task > 1;
    if (!j->asleep) {
        pingpong_run(name, j->task, argc, argv);
    }
    job_close(j);
    return 0;
}
