/*
 * A word that goes between two atomic operations on it, which the target finds in one look: the
 * callback of a message, whose last packet lies between them, unmaps it. The second one ends with
 * an error, and the target lives on.
 *
 * Run: tasks=2 env="PAMI_SHM_LANES=0 PAMI_SHM_RING_SLOTS=4 PAMI_SHM_CHUNK_BYTES=1K" timeout=30
 */
#include <sys/mman.h>

#include "turns.h"

enum {
    ID = 1,
    PAGE = 4096,
    BYTES = 5120 /* a packet more than the ring has slots */
};

static struct job job;
static unsigned char data[BYTES];
static char *page, *pages[2];
static size_t ended;
static pami_result_t results[2];

static void on_received(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    CHECK(munmap(page, PAGE) == 0);
    page = NULL;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *payload, size_t bytes,
                       pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)payload, (void)origin;
    CHECK_SIZE(bytes, BYTES);
    recv->addr = data;
    recv->local_fn = on_received;
}

static void on_atomic(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    *(pami_result_t *)cookie = result;
    ended++;
}

static void add(pami_result_t *result)
{
    static long one = 1, old;
    pami_rmw_t rmw = {
        .dest = job_endpoint(&job, 1, 0),
        .local = &old,
        .remote = pages[1],
        .value = &one,
        .operation = PAMI_ATOMIC_FETCH_ADD,
        .type = PAMI_TYPE_SIGNED_LONG,
        .done_fn = on_atomic,
        .cookie = result,
    };

    CHECK_OK(TEST_CALL(PAMI_Rmw(job.context[1], &rmw)));
}

/* The message and the atomic operations are of different contexts, so none waits for the other. */
static void ask(void)
{
    test_send(job.context[0], job_endpoint(&job, 1, 0), ID, NULL, 0, data, BYTES,
              (pami_send_event_t){0});
    turns_give();
    turns_wait();
    add(&results[0]);
    turns_look(job.context[0], 1); /* the last packet */
    add(&results[1]);
    turns_give();
    WAIT(&job, ended == 2);
    CHECK(results[0] == PAMI_SUCCESS);
    CHECK(results[1] == PAMI_ERROR);
}

static void serve(void)
{
    turns_wait();
    turns_look(job.context[0], 3);
    CHECK(page != NULL);
    turns_give();
    turns_wait();
    turns_look(job.context[0], 1);
    CHECK(page == NULL);
}

int main(void)
{
    job_start(&job, "rmw_unmapped", 2);
    rma_open(&job);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    turns_open(&job);
    rma_share(&job, &page, sizeof page, pages);
    job_barrier(&job);
    if (job.task == 0)
        ask();
    else
        serve();
    job_barrier(&job);
    job_destroy(&job);
    free(rma_board.table[0]);
    free(rma_board.table[1]);
    return 0;
}
