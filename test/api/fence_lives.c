/*
 * A fence towards an endpoint whose task has destroyed its contexts and created them again says
 * that messages may be lost if some went to the earlier life that no fence had covered, once and
 * also if others for the next life follow; and nothing of it if all are for the next life, or were
 * fenced before.
 *
 * Run: tasks=2
 * Run: tasks=2 nodes=2
 * Run: tasks=2 env="PAMI_SHM_LANES=0"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 */
#include "api_test.h"

enum {
    ID = 1,
    ID_END,
    MESSAGES = 30 /* enough for a lane */
};

struct scene {
    size_t before, after; /* messages to the life that ends, and to the next one */
    bool fenced, known;   /* before it ends; that it has ended, before any for the next one */
    pami_result_t result;
};

static const struct scene scenes[] = {
    {MESSAGES, 1, false, true, PAMI_ERROR},   {MESSAGES, 1, false, false, PAMI_ERROR},
    {MESSAGES, 0, false, false, PAMI_ERROR},  {MESSAGES, 0, false, true, PAMI_ERROR},
    {MESSAGES, 1, true, true, PAMI_SUCCESS},  {MESSAGES, 3, true, false, PAMI_SUCCESS},
    {MESSAGES, 0, true, false, PAMI_SUCCESS}, {0, 3, false, false, PAMI_SUCCESS},
};

static struct job control, job;
static size_t arrived;
static bool ended, fenced;
static pami_result_t fence_result;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)header, (void)header_bytes, (void)data, (void)bytes, (void)origin;
    CHECK(recv == NULL);
    if (cookie != NULL)
        ended = true;
    else
        arrived++;
}

static void on_fenced(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    fence_result = result;
    fenced = true;
}

static pami_result_t fence(void)
{
    fenced = false;
    CHECK_OK(TEST_CALL(PAMI_Fence_all(job.context[0], on_fenced, NULL)));
    WAIT(&job, fenced);
    return fence_result;
}

static void send(size_t id, size_t count)
{
    for (size_t i = 0; i < count; i++)
        test_send_immediate(job.context[0], job_endpoint(&job, 1, 0), id, "head", 4, NULL, 0);
}

static void register_ids(void)
{
    static bool mark;

    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    test_dispatch(job.context[0], ID_END, on_message, &mark, test_ordered());
}

static void origin(const struct scene *scene)
{
    send(ID, scene->before);
    if (scene->fenced)
        CHECK_RESULT(fence(), PAMI_SUCCESS);
    if (scene->fenced)
        send(ID_END, 1);
    if (scene->fenced)
        CHECK_RESULT(fence(), PAMI_SUCCESS);
    job_barrier(&control); /* all is sent */
    job_barrier(&control); /* the other life has begun */
    if (scene->known)
        job_linger(&job, 0.1);
    send(ID, scene->after);
    CHECK_RESULT(fence(), scene->result);
    send(ID, 1);
    CHECK_RESULT(fence(), PAMI_SUCCESS);
    send(ID_END, 1);
    CHECK_RESULT(fence(), PAMI_SUCCESS);
}

static void wait_for_end(size_t expected)
{
    WAIT(&job, ended);
    job_linger(&job, 0.01); /* for the fence behind it */
    CHECK_SIZE(arrived, expected);
    ended = false;
    arrived = 0;
}

static void target(const struct scene *scene)
{
    if (scene->fenced)
        wait_for_end(scene->before);
    job_barrier(&control);
    CHECK_OK(PAMI_Context_destroyv(job.context, 1));
    CHECK_OK(PAMI_Context_createv(job.client, NULL, 0, job.context, 1));
    register_ids();
    arrived = 0;
    job_barrier(&control);
    wait_for_end(scene->after + 1);
}

int main(void)
{
    job_start(&control, "control", 1);
    job_start(&job, "fence_lives", 1);
    register_ids();
    job_barrier(&job); /* over a network a context is asked for, and the next one could answer */
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
        job_barrier(&control); /* task 1 reads nothing any more */
        (job.task == 0 ? origin : target)(&scenes[i]);
    }
    job_barrier(&control);
    job_destroy(&job);
    job_finish(&control);
    return 0;
}
