/*
 * A task ends while all run collectives until the first error, and start none afterwards: every
 * survivor gets that error, whose text names the task, although the members that it waits for by
 * then may have stopped one collective earlier. Collectives of the survivors go on meanwhile.
 *
 * Run: tasks=2,3,4,5 nodes=1,2 timeout=60
 * Run: tasks=4,7 nodes=3 timeout=60
 * Run: tasks=4 nodes=2 args="--only broadcast" timeout=60
 * Run: tasks=4 nodes=2 args="--only barrier" timeout=60
 */
#include "api/coll.h"

enum {
    INTS = 20000,
    TASKS_MAX = 64,
    ROUNDS = 200
};

struct chain {
    pami_geometry_t geometry;
    struct told told;
    size_t rounds, limit;
    bool busy, failed;
    int ints[2 * INTS];
};

static struct job job;
static struct chain world, rest;
static size_t victim;
static const char *only = "";

/* The victim's name in the text of the latest error. */
static bool is_named(void)
{
    char name[32];
    const char *found;

    snprintf(name, sizeof name, "task %zu", victim);
    found = strstr(test_text(), name);
    return found != NULL && (found[strlen(name)] < '0' || found[strlen(name)] > '9');
}

static void on_world_end(pami_context_t context, void *cookie, pami_result_t result)
{
    if (result != PAMI_SUCCESS && !is_named())
        FAIL("the text is '%s', without task %zu", test_text(), victim);
    on_told(context, cookie, result);
}

static void start(struct chain *chain)
{
    static const pami_xfer_type_t types[] = {PAMI_XFER_BARRIER, PAMI_XFER_ALLREDUCE,
                                             PAMI_XFER_ALLREDUCE, PAMI_XFER_BROADCAST};
    size_t which = chain->rounds % 4, count = which == 1 ? 2 : INTS;
    char *send = (char *)chain->ints, *recv = (char *)(chain->ints + INTS);
    pami_xfer_t xfer;

    if (strcmp(only, "broadcast") == 0)
        which = 3;
    else if (strcmp(only, "barrier") == 0)
        which = 0;
    xfer = coll_xfer(algorithm_of(chain->geometry, types[which]), &chain->told);
    if (types[which] == PAMI_XFER_ALLREDUCE)
        xfer.cmd.xfer_allreduce =
            (pami_allreduce_t){send,  PAMI_TYPE_SIGNED_INT, count, recv, PAMI_TYPE_SIGNED_INT,
                               count, PAMI_DATA_SUM,        NULL,  0};
    else if (types[which] == PAMI_XFER_BROADCAST)
        xfer.cmd.xfer_broadcast = (pami_broadcast_t){
            job_endpoint(&job, chain == &world ? victim : 0, 0), recv, PAMI_TYPE_SIGNED_INT, INTS};
    xfer.cb_done = chain == &world ? on_world_end : on_told;
    coll_start(job.context[0], &xfer);
}

/* One after the other, up to the limit or the first error. */
static void chain_step(struct chain *chain)
{
    if (chain->busy && chain->told.count != 0) {
        chain->busy = false;
        chain->failed = chain->told.result != PAMI_SUCCESS;
        chain->rounds += !chain->failed;
    }
    if (chain->busy || chain->failed || chain->rounds == chain->limit)
        return;
    chain->busy = true;
    start(chain);
}

static void end_in_the_middle(void)
{
    double until = test_now() + 0.05;

    while (test_now() < until) {
        chain_step(&world);
        job_advance(&job);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    pami_task_t tasks[TASKS_MAX];
    size_t count = 0;
    pami_xfer_t xfer;

    if (argc > 2 && strcmp(argv[1], "--only") == 0)
        only = argv[2];
    job_start(&job, "coll until", 1);
    victim = job.tasks - 1;
    for (size_t i = 0; i < victim; i++)
        tasks[count++] = (pami_task_t)i;
    world.limit = SIZE_MAX;
    rest.limit = ROUNDS;
    world.geometry = world_of(&job);
    if (job.task != victim)
        create_list(&job, &rest.geometry, NULL, 9, tasks, count, 0);
    job_barrier(&job);
    if (job.task == victim)
        end_in_the_middle();
    WAIT_WITH((chain_step(&world), chain_step(&rest), job_advance(&job)),
              world.failed && (rest.failed || rest.rounds == ROUNDS));
    if (rest.failed)
        FAIL("a collective of the survivors ends with %d: %s", rest.told.result, test_text());
    /* Nobody leaves before all have had their errors. */
    xfer = coll_xfer(algorithm_of(rest.geometry, PAMI_XFER_BARRIER), &rest.told);
    coll_run(&job, job.context[0], &xfer);
    destroy_geometry(&job, &rest.geometry);
    job_destroy(&job);
    return 0;
}
