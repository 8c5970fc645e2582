/*
 * A token passed round all tasks by 8-byte active messages: microseconds per hop. With more tasks
 * than cores this shows how readily a waiting task gives its core to the one that has work.
 *
 *     pamirun -n N token [--rounds N]
 *
 * The token is the number of the hop; every task checks it.
 */
#include "job.h"

#define BATCHES 5

enum {
    TOKEN = JOB_USER
};

static struct {
    struct job job;
    uint64_t value, received;
} token;

static void on_token(pami_context_t context, void *cookie, const void *header, size_t header_size,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    memcpy(&token.value, data, sizeof(token.value));
    token.received++;
}

static uint64_t await_token(uint64_t number)
{
    while (token.received < number) {
        job_poll_one(token.job.contexts[0]);
    }
    return token.value;
}

static double batch(uint64_t first, size_t rounds)
{
    struct job *j = &token.job;
    uint64_t tasks = (uint64_t)j->tasks, turn = first * tasks + (uint64_t)j->task;
    uint64_t start = bench_now();
    pami_endpoint_t next = job_endpoint(j, (j->task + 1) % j->tasks, 0);

    for (uint64_t r = first; r < first + rounds; r++, turn += tasks) {
        if (turn > 0) {
            /* Task 0 starts the first round without having received. */
            uint64_t value = await_token(j->task == 0 ? r : r + 1);
            if (value != turn - 1) {
                bench_die("token %llu instead of %llu", (unsigned long long)value,
                          (unsigned long long)turn - 1);
            }
        }
        job_send(j, 0, TOKEN, next, &turn, sizeof(turn));
    }
    return (double)(bench_now() - start) / (double)(rounds * tasks) / 1000;
}

int main(int argc, char **argv)
{
    struct job *j = &token.job;
    size_t rounds = bench_option(argc, argv, "--rounds", 200);
    double hop[BATCHES];

    job_open(j, 1);
    job_need_tasks(j, 2);
    job_dispatch(j, TOKEN, on_token, NULL);
    job_meet(j);
    for (size_t b = 0; b < BATCHES; b++) {
        hop[b] = batch(b * rounds, rounds);
    }
    if (j->task == 0) {
        (void)await_token(BATCHES * rounds);
        bench_emit("token", (size_t)j->tasks, "us", bench_median(hop, BATCHES));
    }
    job_close(j);
    return 0;
}
