/*
 * Storms: every task sends to every task, handlers answer, answers are passed on, in all sizes. The
 * number of hops is counted down in the header; a chain ends where it began. Nothing may be lost
 * and nothing may wait for ever, however small the queues are.
 *
 * Run: tasks=1,2,3,5,8
 * Run: tasks=8 nodes=2,4
 * Run: tasks=2,8 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=5 env="PAMI_SHM_SINGLE_COPY=off PAMI_SHM_CHUNKS=2"
 * Run: tasks=5 env="PAMI_RNDV_BYTES=0 PAMI_SHM_RING_SLOTS=8"
 * Run: tasks=5 env="PAMI_RNDV_BYTES=1G PAMI_YIELD=always PAMI_SHM_CHUNKS=3"
 */
#include "api_test.h"

enum {
    ID = 1,
    CHAINS = 600, /* alive at a time, from all tasks together */
    HOPS = 60,
    LARGEST = 100000
};

struct hop {
    uint32_t home, left;
    uint64_t random;
};

struct landing {
    struct hop hop;
    unsigned char data[];
};

static struct job job;
static unsigned char *source;
static size_t home_again;

static void pass_on(struct hop hop);

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    struct landing *landing = cookie;
    struct hop hop = landing->hop;

    (void)context;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    free(landing);
    pass_on(hop);
}

static void on_hop(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                   const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct landing *landing;
    struct hop hop;

    (void)context, (void)cookie, (void)origin;
    CHECK_CALLBACK();
    CHECK_SIZE(header_bytes, sizeof hop);
    memcpy(&hop, header, sizeof hop);
    if (recv == NULL) {
        CHECK(bytes == 0 || *(const unsigned char *)data == 0x31);
        pass_on(hop);
        return;
    }
    landing = test_alloc(sizeof *landing + bytes);
    landing->hop = hop;
    recv->cookie = landing;
    recv->addr = landing->data;
    recv->local_fn = on_landed;
}

static void send_hop(struct hop *hop, size_t task)
{
    static const size_t limits[] = {1, 1, 1, 400, 400, 2000, 8000, LARGEST};
    pami_endpoint_t dest = job_endpoint(&job, task, 0);
    uint64_t dice = test_random(&hop->random);
    size_t bytes = (dice >> 16) % limits[dice % 8];
    pami_send_event_t none = {0};

    if (dice >> 8 & 1 && bytes <= 8000)
        test_send_immediate(job.context[0], dest, ID, hop, sizeof *hop, source, bytes);
    else
        test_send(job.context[0], dest, ID, hop, sizeof *hop, source, bytes, none);
}

static void pass_on(struct hop hop)
{
    if (hop.left == 0) {
        CHECK_SIZE(hop.home, job.task);
        home_again++;
        return;
    }
    hop.left--;
    send_hop(&hop, hop.left == 0 ? hop.home : test_random(&hop.random) % job.tasks);
}

int main(void)
{
    size_t i, chains;

    source = test_alloc(LARGEST);
    memset(source, 0x31, LARGEST);
    job_start(&job, "flood", 1);
    test_dispatch(job.context[0], ID, on_hop, NULL, test_ordered());
    job_barrier(&job);
    chains = CHAINS / job.tasks;
    for (i = 0; i < chains; i++)
        pass_on((struct hop){(uint32_t)job.task, HOPS, job.task * 1000 + i});
    WAIT(&job, home_again == chains);
    job_barrier(&job);

    /* Once more with one chain each, long and thin. */
    home_again = 0;
    pass_on((struct hop){(uint32_t)job.task, 10 * HOPS, job.task});
    WAIT(&job, home_again == 1);
    job_finish(&job);
    free(source);
    return 0;
}
