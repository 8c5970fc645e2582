/*
 * Other threads post work to contexts of a simulation while it runs; everything posted is called.
 *
 * Run: timeout=60
 */
#include <pthread.h>
#include <stdatomic.h>

#include "sim_test.h"

#define THREADS 3
#define POSTS 3000
#define TASKS 5

struct item {
    pami_work_t work;
    pami_context_t context;
};

struct poster {
    pthread_t thread;
    struct sim_job *job;
    struct item items[POSTS];
};

static size_t called; /* by the thread that runs the simulation */

static pami_result_t on_work(pami_context_t context, void *cookie)
{
    struct item *item = cookie;

    CHECK(context == item->context);
    item->context = NULL; /* once only */
    called++;
    return PAMI_SUCCESS;
}

static void *post_all(void *argument)
{
    struct poster *poster = argument;

    for (size_t i = 0; i < POSTS; i++) {
        struct item *item = &poster->items[i];

        item->context = poster->job->context[i * 7 % TASKS];
        CALL(PAMI_Context_post(item->context, &item->work, on_work, item));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct poster posters[THREADS];
    struct sim_job job;

    test_arguments(argc, argv, 1);
    job_create(&job, NULL, TASKS, 1);
    for (int i = 0; i < THREADS; i++) {
        posters[i].job = &job;
        CHECK(pthread_create(&posters[i].thread, NULL, post_all, &posters[i]) == 0);
    }
    /* Quiet for now, perhaps with something just posted. */
    while (called < THREADS * POSTS)
        (void)PAMIX_Sim_run(job.client[0], NULL, NULL, 0, 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(posters[i].thread, NULL) == 0);
    job_settle(&job);
    CHECK(called == THREADS * POSTS);
    job_destroy(&job);
    return 0;
}
