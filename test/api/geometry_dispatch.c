/*
 * Geometries made and destroyed from inside dispatch functions, completion callbacks and posted
 * functions.
 *
 * Task 0 tells everybody to make a geometry; whoever is told creates it inside its dispatch
 * function, and when fn has run another one with the first as parent inside fn, and so on.
 *
 * Run: tasks=1,2,3,5,8 nodes=1,2 timeout=60
 */
#include "geometry.h"

enum {
    START = 5,
    CHAIN = 50,
    CHAINS = 4
};

static struct job job;
static pami_task_t tasks[64];

static struct chain {
    pami_geometry_t geometry[CHAIN];
    unsigned made;
    bool done;
} chains[CHAINS];

static void make_next(struct chain *chain);

static void on_made(pami_context_t context, void *cookie, pami_result_t result)
{
    struct chain *chain = cookie;

    CHECK_CALLBACK();
    CHECK(context == job.context[0] && result == PAMI_SUCCESS);
    if (++chain->made < CHAIN)
        make_next(chain);
    else
        chain->done = true;
}

static void make_next(struct chain *chain)
{
    unsigned number = chain->made;

    CHECK_OK(TEST_CALL(PAMI_Geometry_create_tasklist(
        job.client, 0, NULL, 0, &chain->geometry[number],
        number % 3 == 0 ? PAMI_GEOMETRY_NULL : chain->geometry[number - 1],
        1 + number + CHAIN * (unsigned)(chain - chains), tasks, job.tasks, job.context[0], on_made,
        chain)));
    CHECK(chain->geometry[number] != PAMI_GEOMETRY_NULL);
}

static pami_result_t start_posted(pami_context_t context, void *cookie)
{
    CHECK(context == job.context[0]);
    make_next(cookie);
    return PAMI_SUCCESS;
}

static pami_work_t work[CHAINS];

static void on_start(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    unsigned which = *(const unsigned char *)header;

    (void)cookie, (void)header_bytes, (void)data, (void)bytes, (void)origin, (void)recv;
    CHECK_CALLBACK();
    if (which % 2)
        CHECK_OK(PAMI_Context_post(context, &work[which], start_posted, &chains[which]));
    else
        make_next(&chains[which]);
}

static void on_gone(pami_context_t context, void *cookie, pami_result_t result)
{
    struct chain *chain = cookie;

    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    if (chain->made == 0)
        return;
    chain->made--;
    CHECK_OK(TEST_CALL(
        PAMI_Geometry_destroy(job.client, &chain->geometry[chain->made], context, on_gone, chain)));
    CHECK(chain->geometry[chain->made] == PAMI_GEOMETRY_NULL);
}

int main(void)
{
    job_start(&job, "geometry dispatch", 1);
    test_dispatch(job.context[0], START, on_start, NULL, test_ordered());
    for (size_t i = 0; i < job.tasks; i++)
        tasks[i] = (pami_task_t)i;
    for (unsigned char which = 0; which < CHAINS && job.task == 0; which++)
        for (size_t i = 0; i < job.tasks; i++)
            test_send_immediate(job.context[0], job_endpoint(&job, i, 0), START, &which, 1, NULL,
                                0);
    for (unsigned which = 0; which < CHAINS; which++) {
        WAIT(&job, chains[which].done);
        test_advancing++;
        on_gone(job.context[0], &chains[which], PAMI_SUCCESS);
        test_advancing--;
        WAIT(&job, chains[which].made == 0);
    }
    job_linger(&job, 0.01);
    job_finish(&job);
    return 0;
}
