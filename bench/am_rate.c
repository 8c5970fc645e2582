/*
 * Message rate: 8-byte active messages from one sender, or from several, to task 0.
 *
 *     pamirun -n K+1 am_rate [--messages N]
 *
 * The measure's parameter is the number of senders, K. A sender posts bursts of BURST messages and
 * advances once after each. It is at most CREDIT messages ahead: the receiver acknowledges every
 * ACK messages of a sender. Each message carries its number; the receiver adds them up per sender,
 * and both the counts and the sums must be right. The rate is what the receiver got, all senders
 * together.
 */
#include "job.h"

#define BURST 64
#define ACK 1024
#define CREDIT 8192
#define BATCHES 5
#define SENDERS 64

enum {
    DATA = JOB_USER,
    CREDITS
};

struct sender {
    BENCH_ALIGNED uint64_t count, sum;
};

static struct {
    struct job job;
    struct sender from[SENDERS + 1];
    uint64_t received;     /* by task 0, all senders together */
    uint64_t acknowledged; /* of a sender's own messages */
} rate;

static void on_data(pami_context_t context, void *cookie, const void *header, size_t header_size,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    /* The endpoint of a task's first context is the task's number. */
    struct sender *from = &rate.from[origin];
    uint64_t number;

    JOB_UNUSED_DISPATCH_ARGUMENTS;
    memcpy(&number, data, sizeof(number));
    from->sum += number;
    from->count++;
    rate.received++;
    if (from->count % ACK == 0) {
        job_send(&rate.job, 0, CREDITS, origin, NULL, 0);
    }
}

static void on_credits(pami_context_t context, void *cookie, const void *header, size_t header_size,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    rate.acknowledged += ACK;
}

static void send_all(uint64_t messages)
{
    struct job *j = &rate.job;
    uint64_t number;
    pami_send_immediate_t message = {.dispatch = DATA, .dest = job_endpoint(j, 0, 0)};

    message.data.iov_base = &number;
    message.data.iov_len = sizeof(number);
    rate.acknowledged = 0;
    for (number = 0; number < messages;) {
        for (int b = 0; b < BURST && number < messages; b++, number++) {
            PAMI_OK(PAMI_Send_immediate(j->contexts[0], &message));
        }
        do {
            job_poll_one(j->contexts[0]);
        } while (number - rate.acknowledged > CREDIT);
    }
    while (rate.acknowledged < messages) {
        job_poll_one(j->contexts[0]);
    }
}

static double receive_all(uint64_t messages)
{
    struct job *j = &rate.job;
    uint64_t senders = (uint64_t)(j->tasks - 1), start = bench_now();
    double result;

    while (rate.received < senders * messages) {
        job_poll_one(j->contexts[0]);
    }
    result = (double)(senders * messages) * 1e3 / (double)(bench_now() - start);
    for (int t = 1; t < j->tasks; t++) {
        struct sender *from = &rate.from[t];
        if (from->count != messages || from->sum != messages * (messages - 1) / 2) {
            bench_die("am_rate: task %d sent %llu messages, %llu came with sum %llu", t,
                      (unsigned long long)messages, (unsigned long long)from->count,
                      (unsigned long long)from->sum);
        }
        from->count = from->sum = 0;
    }
    rate.received = 0;
    return result;
}

int main(int argc, char **argv)
{
    struct job *j = &rate.job;
    uint64_t messages = bench_option(argc, argv, "--messages", 0);
    double each[BATCHES];

    job_open(j, 1);
    job_need_tasks(j, 2);
    if (j->tasks > SENDERS + 1) {
        bench_die("at most %d senders", SENDERS);
    }
    job_dispatch(j, DATA, on_data, NULL);
    job_dispatch(j, CREDITS, on_credits, NULL);
    if (messages == 0) {
        messages = 256 * 1024 / (uint64_t)(j->tasks - 1);
    }
    messages -= messages % ACK;
    for (int b = 0; b < BATCHES; b++) {
        job_meet(j);
        if (j->task == 0) {
            each[b] = receive_all(messages);
        } else {
            send_all(messages);
        }
    }
    if (j->task == 0) {
        bench_emit("am_rate", (size_t)(j->tasks - 1), "M/s", bench_median(each, BATCHES));
    }
    job_close(j);
    return 0;
}
