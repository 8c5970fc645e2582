/*
 * One task comes a second late and has not advanced meanwhile: the others exchange messages all the
 * time, and once the late one is there a barrier takes no longer than 0.2 s, also when tasks
 * outnumber processors.
 *
 * Run: tasks=2,3,8
 * Run: tasks=8 nodes=2
 * Run: tasks=8 env="PAMI_YIELD=always"
 */
#include "api_test.h"

enum {
    ID = 1,
    ARRIVAL = 2,
    BARRIERS = 300,
    ECHOES = 20, /* at least, of each task while one is late */
    TRIES = 3,   /* a busy machine may spoil one */
    LATE_MS = 1000,
    ALLOWED_MS = 200
};

static struct job job;
static size_t echoes, values;
static double arrival, worst;

static void on_echo(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)cookie, (void)header_bytes, (void)data, (void)bytes, (void)recv;
    if (*(const char *)header == 'q')
        test_send_immediate(context, origin, ID, "a", 1, NULL, 0);
    else
        echoes++;
}

/* Clocks of the processes of one machine agree. */
static void on_arrival(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    double value;

    (void)context, (void)cookie, (void)data, (void)bytes, (void)origin, (void)recv;
    CHECK_SIZE(header_bytes, sizeof value);
    memcpy(&value, header, sizeof value);
    if (cookie == &worst) {
        worst = value > worst ? value : worst;
        values++;
    } else {
        arrival = value;
    }
}

static void tell_all(size_t id, double value)
{
    size_t i;

    for (i = 0; i < job.tasks; i++)
        test_send_immediate(job.context[0], job_endpoint(&job, i, 0), id, &value, sizeof value,
                            NULL, 0);
}

/* Everybody but the late one plays with its neighbours until it comes. False: not enough. */
static bool play(size_t late)
{
    double until = test_now() + LATE_MS * 1e-3 * 0.7;
    size_t partner = (job.task + 1) % job.tasks, rounds = 0, target;

    if (partner == late)
        partner = (partner + 1) % job.tasks;
    while (partner != job.task && test_now() < until) {
        target = echoes + 1;
        test_send_immediate(job.context[0], job_endpoint(&job, partner, 0), ID, "q", 1, NULL, 0);
        WAIT(&job, echoes == target);
        rounds++;
    }
    if (partner != job.task && rounds < ECHOES)
        fprintf(stderr, "only %zu echoes of task %ld while task %zu was late\n", rounds, test_task,
                late);
    return partner == job.task || rounds >= ECHOES;
}

/* Seconds from the late one's arrival until the last task has left the barrier; too many where the
 * others did not play. */
static double one_try(size_t late)
{
    bool played = true;
    double left;

    job_barrier(&job);
    arrival = worst = 0;
    values = 0;
    if (job.task == late)
        test_sleep(LATE_MS * 1e-3);
    else
        played = play(late);
    if (job.task == late)
        tell_all(ARRIVAL, test_now());
    job_barrier(&job);
    left = test_now();
    WAIT(&job, arrival != 0);
    job_barrier(&job);
    tell_all(ARRIVAL + 1, played ? left - arrival : test_limit());
    WAIT(&job, values == job.tasks);
    job_barrier(&job);
    return worst;
}

/* Waiting gives the processor up: a few hundred barriers are a matter of moments. */
static void many_barriers(void)
{
    double begin = test_now();
    size_t i;

    for (i = 0; i < BARRIERS; i++)
        job_barrier(&job);
    if (test_now() - begin > 10 * test_factor())
        FAIL("%d barriers took %.1f s", BARRIERS, test_now() - begin);
}

int main(void)
{
    double took = 0;
    size_t i;

    job_start(&job, "late_task", 1);
    test_dispatch(job.context[0], ID, on_echo, NULL, test_ordered());
    test_dispatch(job.context[0], ARRIVAL, on_arrival, &arrival, test_ordered());
    test_dispatch(job.context[0], ARRIVAL + 1, on_arrival, &worst, test_ordered());
    for (i = 0; i < TRIES; i++) {
        took = one_try(i * 5 % job.tasks);
        if (took <= ALLOWED_MS * 1e-3 * test_factor())
            break;
    }
    if (i == TRIES)
        FAIL("barrier took %.3f s after the late task's arrival", took);
    many_barriers();
    job_finish(&job);
    return 0;
}
