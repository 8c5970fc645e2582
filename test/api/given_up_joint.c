/*
 * A context is destroyed before another task has fetched large messages of its, jointly or alone:
 * that takes longer than PAMI_DRAIN_TIMEOUT. Its memory is the program's again, which writes there
 * at once: what has been read of that is no message, also where the news that the context has gone
 * came before the last byte. With the argument "heap" the memory is in the shared heap.
 *
 * Run: tasks=2 env="PAMI_DRAIN_TIMEOUT=1ms PAMI_SHM_SINGLE_COPY=on PAMI_SHM_JOINT_COPY=on"
 * Run: tasks=2 env="PAMI_DRAIN_TIMEOUT=1ms PAMI_SHM_SINGLE_COPY=on PAMI_SHM_JOINT_COPY=off"
 * Run: tasks=2 args="heap" env="PAMI_DRAIN_TIMEOUT=1ms PAMI_SHM_JOINT_COPY=on"
 * Run: tasks=2 args="heap" env="PAMI_DRAIN_TIMEOUT=1ms PAMI_SHM_SINGLE_COPY=off"
 */
#include <pami/pamix.h>

#include "rma.h"

enum {
    ID = 1,
    LIVES = 4,
    MESSAGES = 2,
    BYTES = 3000000
};

static struct job job;
static unsigned char *landing[MESSAGES];
static size_t life, begun, ended;

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK_CALLBACK();
    if (result == PAMI_SUCCESS)
        CHECK_SIZE(test_differs(cookie, BYTES, life, 0), BYTES);
    ended++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    CHECK(begun < MESSAGES);
    CHECK_SIZE(bytes, BYTES);
    recv->addr = recv->cookie = landing[begun++];
    recv->local_fn = on_landed;
}

static void ignore(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
}

/* Who copies something itself helps nobody. */
static void send_and_leave(unsigned char *memory, const unsigned char *remote)
{
    static unsigned char got[BYTES];
    pami_get_simple_t get = {
        .rma = {.dest = job_endpoint(&job, 1, 0), .bytes = BYTES, .done_fn = ignore},
        .addr = {.local = got, .remote = (void *)remote},
    };

    for (size_t i = 0; i < MESSAGES; i++)
        test_send(job.context[0], job_endpoint(&job, 1, 0), ID, NULL, 0, memory, BYTES,
                  (pami_send_event_t){.local_fn = ignore, .remote_fn = ignore});
    CHECK_OK(TEST_CALL(PAMI_Get(job.context[0], &get)));
    test_sleep(0.005);
    job_destroy_contexts(&job);
    memset(memory, 0xee, BYTES);
}

/* Slowly. */
static void receive(void)
{
    WAIT_WITH(test_advance(job.context[0], 1), begun != 0);
    WAIT_WITH((test_advance(job.context[0], 1), test_sleep(0.001)), ended == begun);
}

static void live(bool heap)
{
    static unsigned char window[BYTES];
    unsigned char *mine = window, *all[2];
    void *memory;

    job_start(&job, "given_up_joint", 1);
    rma_open(&job);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    if (heap)
        CHECK_OK(PAMIX_Mem_alloc(job.client, BYTES, 0, PAMIX_MEM_LOCAL, &memory));
    else
        memory = test_alloc(BYTES);
    test_fill(memory, BYTES, life, 0);
    begun = ended = 0;
    rma_share(&job, &mine, sizeof mine, all);
    if (job.task == 0)
        send_and_leave(memory, all[1]);
    else
        receive();
    job_destroy(&job);
    free(rma_board.table[0]);
    free(rma_board.table[1]);
    if (!heap)
        free(memory);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < MESSAGES; i++)
        landing[i] = test_alloc(BYTES);
    for (life = 0; life < LIVES; life++)
        live(argc > 1 && strcmp(argv[1], "heap") == 0);
    for (size_t i = 0; i < MESSAGES; i++)
        free(landing[i]);
    return 0;
}
