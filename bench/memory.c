/*
 * Memory per task: with everything created and idle, and after every task has sent to every other.
 *
 *     pamirun -n N memory
 *
 * PSS counts a page shared by n processes as 1/n of a page, so that the sum over the tasks is what
 * the node really spends; RSS counts it fully. Averages over the tasks, in KiB. The messages are 8
 * bytes and 4 KiB each, and are counted and checked.
 */
#include "job.h"

#define BLOCK 4096

enum {
    DATA = JOB_USER
};

static struct {
    struct job job;
    uint64_t received;
} memory;

static void on_data(pami_context_t context, void *cookie, const void *header, size_t header_size,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    if (recv != NULL) {
        bench_die("an immediate message was not delivered as one");
    }
    bench_check(data, bytes, origin, "memory");
    memory.received++;
}

/* Between two meetings, so that all tasks are in the same state. */
static void report(const char *pss, const char *rss)
{
    struct job *j = &memory.job;
    double tasks = j->tasks, p, r, sum;

    job_meet(j);
    p = bench_memory_kib("Pss:");
    r = bench_memory_kib("Rss:");
    job_meet(j);
    sum = job_sum(j, p);
    if (j->task == 0) {
        bench_emit(pss, (size_t)j->tasks, "KiB", sum / tasks);
    }
    sum = job_sum(j, r);
    if (j->task == 0) {
        bench_emit(rss, (size_t)j->tasks, "KiB", sum / tasks);
    }
}

int main(void)
{
    struct job *j = &memory.job;
    char block[BLOCK];

    job_open(j, 1);
    job_dispatch(j, DATA, on_data, NULL);
    report("pss_idle", "rss_idle");
    bench_fill(block, sizeof(block), (uint64_t)j->task);
    for (int i = 1; i < j->tasks; i++) {
        pami_endpoint_t peer = job_endpoint(j, (j->task + i) % j->tasks, 0);
        job_send(j, 0, DATA, peer, block, 8);
        job_send(j, 0, DATA, peer, block, j->immediate_max < BLOCK ? 8 : BLOCK);
        job_poll(j);
    }
    while (memory.received < 2 * (uint64_t)(j->tasks - 1)) {
        job_poll(j);
    }
    report("pss_all_to_all", "rss_all_to_all");
    job_close(j);
    return 0;
}
