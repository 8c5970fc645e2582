/*
 * A task that has renewed its contexts before anybody knew them is ahead of the others: they send
 * to it, more than it takes unread, and it hears of them by that alone. It renews its contexts
 * again and again, and they send to the new ones.
 *
 * Run: tasks=2,3 timeout=60
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_OFI_CREDITS=16" timeout=60
 * Run: tasks=3 nodes=3 env="PAMI_NETWORK=ofi PAMI_OFI_CREDITS=16 PAMI_BEHIND_TIMEOUT=0" timeout=60
 */
#include "api/api_test.h"

enum {
    ID = 10,
    LIVES = 4,
    MESSAGES = 10000
};

static struct job job, steady; /* the contexts that come and go; those that stay */
static size_t came;

static void advance_job(void)
{
    job_advance_alone(&job);
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    CHECK(recv == NULL && bytes == 3);
    came++;
}

static void create(void)
{
    job_create_contexts(&job, 1);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    came = 0;
}

/* The context that is there until it is sent to no more says so, when it is there. */
static void send_all(void)
{
    pami_send_immediate_t message = test_message(job_endpoint(&job, 1, 0), ID, NULL, 0, "abc", 3);

    for (size_t i = 0; i < MESSAGES; i++) {
        WAIT(&job, PAMI_Send_immediate(job.context[0], &message) == PAMI_SUCCESS);
        if (i % 16 == 0)
            job_advance(&job);
    }
}

int main(void)
{
    job_start(&steady, "steady", 1);
    job_create_client(&job, "ahead");
    create();
    steady.advance_too = advance_job;
    if (job.task == 1) {
        job_destroy_contexts(&job);
        create();
    }
    for (size_t life = 0; life < LIVES; life++) {
        job_barrier(&steady);
        if (job.task != 1)
            send_all();
        else
            WAIT(&job, came == MESSAGES * (job.tasks - 1));
        job_barrier(&steady);
        if (job.task == 1) {
            job_destroy_contexts(&job);
            create();
        }
        job_barrier(&steady);
        /* Until the end of the last life is known. */
        job_linger(&job, 0.3);
    }
    job_barrier(&steady);
    job_destroy(&job);
    job_finish(&steady);
    return 0;
}
