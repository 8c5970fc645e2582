/*
 * A machine of a composed row has failed while messages of it are under way: reset and start refuse
 * it with PAMI_EAGAIN as long as they are; then it runs well. Task 0 calls something else in its
 * place, and looks at nothing for a while.
 *
 * Run: tasks=2 env="PAMI_COLL_SHARED_BYTES=0 PAMI_SHM_RING_SLOTS=4"
 * Run: tasks=2 args="ReduceBroadcast" env="PAMI_COLL_SHARED_BYTES=0 PAMI_SHM_RING_SLOTS=4"
 */
#include <pami/pamix.h>

#include "coll.h"

enum {
    DOUBLES = 1 << 17
};

static struct job job;
static double source[DOUBLES], target[DOUBLES];

static struct told run(pamix_machine_t machine)
{
    struct told told = {.context = job.context[0]};

    CHECK_OK(TEST_CALL(PAMIX_Machine_start(machine, on_told, &told)));
    WAIT(&job, told.count != 0);
    return told;
}

/* A barrier, in place of what the other one runs. */
static void disagree(void)
{
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm_of(world_of(&job), PAMI_XFER_BARRIER), &told);

    test_sleep(0.1);
    coll_start(job.context[0], &xfer);
    WAIT(&job, told.count != 0);
    test_sleep(0.3); /* what is under way here stays so */
}

/* In time or not: a reset that is taken is one for a run that goes well. */
static void fail(pamix_machine_t machine, const pami_collective_t *cmd)
{
    pami_result_t again;

    CHECK(run(machine).result != PAMI_SUCCESS);
    again = PAMIX_Machine_reset(machine, cmd);
    if (again == PAMI_SUCCESS)
        return;
    CHECK(again == PAMI_EAGAIN);
    CHECK_REFUSED(PAMIX_Machine_start(machine, NULL, NULL), PAMI_EAGAIN, "under way");
    WAIT(&job, PAMIX_Machine_reset(machine, cmd) == PAMI_SUCCESS);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "PipelinedReduceBroadcast";
    pamix_machine_t machine = NULL;
    pami_collective_t cmd;
    struct told told;

    setenv("PAMI_RNDV_BYTES", "8M", 1); /* messages wait for room, not to be fetched */
    job_start(&job, "coll-compose-busy", 1);
    CHECK_OK(PAMIX_Machine_create(
        job.context[0], algorithm_named(world_of(&job), PAMI_XFER_ALLREDUCE, name), &machine));
    memset(&cmd, 0x5a, sizeof cmd);
    cmd.xfer_allreduce = coll_sum(source, target, PAMI_TYPE_DOUBLE, DOUBLES);
    CHECK_OK(PAMIX_Machine_reset(machine, &cmd));
    job_barrier(&job);
    if (job.task == 0)
        disagree();
    else
        fail(machine, &cmd);
    for (size_t i = 0; i < DOUBLES; i++)
        source[i] = (double)(i + job.task);
    told = run(machine);
    if (told.result != PAMI_SUCCESS)
        FAIL("%s ends with %d: %s", name, (int)told.result, test_text());
    for (size_t i = 0; i < DOUBLES; i++)
        CHECK(target[i] == (double)(2 * i + 1));
    CHECK_OK(PAMIX_Machine_destroy(&machine));
    job_finish(&job);
    return 0;
}
