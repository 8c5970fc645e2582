/*
 * A task floods another one that destroys its contexts and creates them again, and does not look at
 * what comes for a while. Whatever is delivered is whole: buffers that were given up with the first
 * life are not used again while the second one reads them, and no message goes on in another one.
 *
 * Run: tasks=2 timeout=60
 * Run: tasks=2 env="PAMI_SHM_CHUNKS=4" timeout=60
 */
#include "api/api_test.h"

enum {
    ID_FLOOD = 10,
    ID_END,
    ROUNDS = 25,
    BYTES = 6000,
    WINDOW = 150
};

struct operation {
    struct operation *next, **link; /* of landings: those that a destroyed context leaves */
    uint32_t words[BYTES / 4];
};

static struct operation *landings;

static size_t outstanding, good, arrived;
static bool ended;

static void on_end(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                   const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin;
    CHECK(recv == NULL);
    ended = true;
}

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    outstanding--;
    good += result == PAMI_SUCCESS;
    free(cookie);
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    struct operation *operation = cookie;

    (void)context;
    for (size_t i = 1; i < BYTES / 4 && result == PAMI_SUCCESS; i++)
        if (operation->words[i] != operation->words[0])
            FAIL("word %zu is of message %u, the first one of message %u", i, operation->words[i],
                 operation->words[0]);
    *operation->link = operation->next;
    if (operation->next != NULL)
        operation->next->link = operation->link;
    free(operation);
}

static void on_flood(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct operation *operation = test_alloc(sizeof *operation);

    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    CHECK(recv != NULL && bytes == BYTES);
    operation->next = landings;
    operation->link = &landings;
    if (landings != NULL)
        landings->link = &operation->next;
    landings = operation;
    recv->addr = operation->words;
    recv->cookie = operation;
    recv->local_fn = on_landed;
    arrived++;
}

static void flood(struct job *job)
{
    uint32_t number = 0;

    while (!ended) {
        if (outstanding < WINDOW) {
            struct operation *operation = test_alloc(sizeof *operation);
            pami_send_t message = {
                .send = test_message(job_endpoint(job, 0, 0), ID_FLOOD, &number, sizeof number,
                                     operation->words, BYTES),
                .events = {.cookie = operation, .remote_fn = on_done},
            };

            for (size_t i = 0; i < BYTES / 4; i++)
                operation->words[i] = number;
            if (PAMI_Send(job->context[0], &message) == PAMI_SUCCESS)
                outstanding++;
            else
                free(operation);
            number++;
        }
        job_advance(job);
    }
    WAIT(job, outstanding == 0);
}

static void live(struct job *job)
{
    job_create_contexts(job, 1);
    test_dispatch(job->context[0], ID_FLOOD, on_flood, NULL, test_ordered());
    test_dispatch(job->context[0], ID_END, on_end, NULL, test_ordered());
}

static void be_reborn(struct job *job)
{
    uint64_t seed = 7;

    for (int round = 0; round < ROUNDS; round++) {
        size_t before = arrived;

        /* From less to more than the time between two looks of the other task. */
        job_linger(job, 0.002);
        job_destroy_contexts(job);
        while (landings != NULL) {
            struct operation *operation = landings;

            landings = operation->next;
            free(operation);
        }
        test_sleep(1e-6 * (double)(test_random(&seed) % 25000));
        live(job);
        test_sleep(1e-6 * (double)(test_random(&seed) % 40000));
        WAIT(job, arrived > before);
    }
    test_send_immediate(job->context[0], job_endpoint(job, 1, 0), ID_END, NULL, 0, NULL, 0);
}

int main(void)
{
    struct job job;

    job_create_client(&job, "flood");
    live(&job);
    job_barrier(&job);
    if (job.task == 0)
        be_reborn(&job);
    else
        flood(&job);
    if (job.task == 1)
        CHECK(good > 0);
    job_destroy(&job);
    return 0;
}
