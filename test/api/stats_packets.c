/*
 * PAMI_STATS counts every packet that a context has sent, the shortest ones as well.
 *
 * Run: tasks=2 env="PAMI_STATS=1"
 * Run: tasks=2 nodes=2 env="PAMI_STATS=1 PAMI_NETWORK=ofi"
 */
#include "stats.h"

enum {
    ID = 1,
    MESSAGES = 1000,
    OTHERS = 100 /* of barriers, and of the library's own */
};

static size_t came;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin, (void)recv;
    came++;
}

int main(void)
{
    unsigned long long packets;
    struct job job;

    job_start(&job, "stats_packets", 1);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    job_barrier(&job);
    for (size_t i = 0; i < MESSAGES; i++)
        test_send_immediate(job.context[0], job_endpoint(&job, 1 - job.task, 0), ID, NULL, 0,
                            "short", 5);
    WAIT(&job, came == MESSAGES);
    packets = stats_at_end(&job, job_finish, "packets sent");
    if (packets < MESSAGES || packets > MESSAGES + OTHERS)
        FAIL("%d messages, %llu packets", MESSAGES, packets);
    return 0;
}
