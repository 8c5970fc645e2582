/*
 * Machines of the public composition interface: one by itself, started again; an allreduce as a
 * chain of reduce and broadcast; the same over segments in a pipeline; a chain across two
 * geometries; one of many links, each of which costs as much as one of a few; a geometry that is
 * destroyed while a pipeline runs on it; and what is refused.
 *
 * Run: tasks=1,2,3,5,8 nodes=1,2 timeout=60
 */
#include <pami/pamix.h>

#include "coll.h"

enum {
    INTS = 40000,
    SEGMENT = 3000,
    STAGES = 2,
    MANY = 10000
};

static int source[INTS], target[INTS];

static void run(struct job *job, pamix_machine_t machine)
{
    struct told told = {.context = job->context[0]};

    CHECK_OK(TEST_CALL(PAMIX_Machine_start(machine, on_told, &told)));
    WAIT(job, told.count != 0);
    CHECK(told.result == PAMI_SUCCESS);
}

static pamix_machine_t create_on(struct job *job, pami_geometry_t geometry, pami_xfer_type_t type)
{
    pamix_machine_t machine = NULL;

    CHECK_OK(PAMIX_Machine_create(job->context[0], algorithm_of(geometry, type), &machine));
    CHECK(machine != NULL);
    return machine;
}

static pamix_machine_t create(struct job *job, pami_xfer_type_t type)
{
    return create_on(job, world_of(job), type);
}

static void fill(const struct job *job, int seed)
{
    memset(target, 0x55, sizeof target);
    for (int i = 0; i < INTS; i++)
        source[i] = i * 7 + seed + (int)job->task;
}

static void check(const struct job *job, int seed, int tasks, int sum)
{
    (void)job;
    for (int i = 0; i < INTS; i++)
        if (target[i] != tasks * (i * 7 + seed) + sum)
            FAIL("int %d is %d, expected %d", i, target[i], tasks * (i * 7 + seed) + sum);
}

static void check_all(const struct job *job, int seed)
{
    int tasks = (int)job->tasks;

    check(job, seed, tasks, tasks * (tasks - 1) / 2);
}

/* Reduce to task 0 and broadcast from there, ints first .. first + count - 1. */
static pami_result_t bind_links(struct job *job, pamix_machine_t reduce, pamix_machine_t broadcast,
                                size_t first, size_t count)
{
    pami_collective_t cmd;
    pami_result_t result;

    memset(&cmd, 0x5a, sizeof cmd);
    cmd.xfer_reduce = (pami_reduce_t){
        .root = job_endpoint(job, 0, 0),
        .sndbuf = (char *)(source + first),
        .stype = PAMI_TYPE_SIGNED_INT,
        .stypecount = count,
        .rcvbuf = (char *)(target + first),
        .rtype = PAMI_TYPE_SIGNED_INT,
        .rtypecount = count,
        .op = PAMI_DATA_SUM,
    };
    result = PAMIX_Machine_reset(reduce, &cmd);
    memset(&cmd, 0x5a, sizeof cmd);
    cmd.xfer_broadcast = (pami_broadcast_t){job_endpoint(job, 0, 0), (char *)(target + first),
                                            PAMI_TYPE_SIGNED_INT, count};
    return result == PAMI_SUCCESS ? PAMIX_Machine_reset(broadcast, &cmd) : result;
}

static void single(struct job *job)
{
    pamix_machine_t barrier = create(job, PAMI_XFER_BARRIER);
    pamix_machine_t again;
    pami_collective_t cmd;

    CHECK_REFUSED(PAMIX_Machine_start(barrier, NULL, NULL), PAMI_INVAL, "machine");
    CHECK_OK(PAMIX_Machine_reset(barrier, &cmd));
    for (int i = 0; i < 20; i++)
        run(job, barrier);
    again = barrier;
    CHECK_OK(PAMIX_Machine_destroy(&barrier));
    CHECK(barrier == NULL && again != NULL);
    CHECK_REFUSED(PAMIX_Machine_destroy(&barrier), PAMI_INVAL, "machine");
    CHECK_REFUSED(PAMIX_Machine_create(job->context[0], 4711, &again), PAMI_INVAL, "algorithm");
}

static void chain(struct job *job)
{
    pamix_machine_t links[2] = {create(job, PAMI_XFER_REDUCE), create(job, PAMI_XFER_BROADCAST)};
    pamix_machine_t twice[2] = {links[0], links[0]};
    pamix_machine_t allreduce;

    CHECK_REFUSED(PAMIX_Chain_create(job->context[0], twice, 2, &allreduce), PAMI_INVAL, "links");
    CHECK_OK(PAMIX_Chain_create(job->context[0], links, 2, &allreduce));
    CHECK_REFUSED(PAMIX_Machine_start(links[0], NULL, NULL), PAMI_INVAL, "machine");
    CHECK_REFUSED(PAMIX_Machine_destroy(&links[1]), PAMI_INVAL, "machine");
    for (int i = 0; i < 5; i++) {
        fill(job, i);
        CHECK_OK(bind_links(job, links[0], links[1], 0, INTS));
        run(job, allreduce);
        check_all(job, i);
    }
    CHECK_OK(PAMIX_Machine_destroy(&allreduce));
}

struct stage {
    pamix_machine_t chain, links[2];
};

struct pipeline {
    struct job *job;
    struct stage stage[STAGES];
};

static pami_result_t bind(pamix_machine_t machine, size_t index, void *cookie)
{
    struct pipeline *p = cookie;
    struct stage *stage = &p->stage[index % STAGES];
    size_t first = index * SEGMENT, left = INTS - first;

    CHECK(machine == stage->chain);
    return bind_links(p->job, stage->links[0], stage->links[1], first,
                      left < SEGMENT ? left : SEGMENT);
}

/* Task 0, the root, starts when the others have started and looked: theirs cannot be complete. */
static void refuse_while_running(struct job *job, pamix_machine_t machine)
{
    struct told told = {.context = job->context[0]};

    fill(job, 3);
    CHECK_OK(PAMIX_Pipeline_reset(machine, (INTS + SEGMENT - 1) / SEGMENT));
    if (job->task != 0) {
        CHECK_OK(TEST_CALL(PAMIX_Machine_start(machine, on_told, &told)));
        CHECK_REFUSED(PAMIX_Pipeline_reset(machine, 1), PAMI_EAGAIN, "pipeline");
    }
    job_barrier(job);
    if (job->task == 0)
        CHECK_OK(TEST_CALL(PAMIX_Machine_start(machine, on_told, &told)));
    WAIT(job, told.count != 0);
    CHECK(told.result == PAMI_SUCCESS);
    check_all(job, 3);
}

static pamix_machine_t make_pipeline(struct pipeline *p, pami_geometry_t geometry)
{
    struct job *job = p->job;
    pamix_machine_t stages[STAGES], machine;

    for (int i = 0; i < STAGES; i++) {
        p->stage[i].links[0] = create_on(job, geometry, PAMI_XFER_REDUCE);
        p->stage[i].links[1] = create_on(job, geometry, PAMI_XFER_BROADCAST);
        CHECK_OK(PAMIX_Chain_create(job->context[0], p->stage[i].links, 2, &p->stage[i].chain));
        stages[i] = p->stage[i].chain;
    }
    CHECK_OK(PAMIX_Pipeline_create(job->context[0], stages, STAGES, bind, p, &machine));
    return machine;
}

static void pipeline(struct job *job)
{
    struct pipeline p = {.job = job};
    pamix_machine_t machine = make_pipeline(&p, world_of(job));

    for (int i = 0; i < 3; i++) {
        fill(job, i);
        CHECK_OK(PAMIX_Pipeline_reset(machine, (INTS + SEGMENT - 1) / SEGMENT));
        run(job, machine);
        check_all(job, i);
    }
    refuse_while_running(job, machine);
    CHECK_OK(PAMIX_Machine_destroy(&machine));
}

/* Odd and even tasks reduce among themselves, then everybody waits for everybody. */
static void two_geometries(struct job *job)
{
    size_t parity = job->task % 2, count = (job->tasks + 1 - parity) / 2;
    pami_task_t *tasks = test_alloc((count + 1) * sizeof(*tasks));
    pami_geometry_t half;
    pamix_machine_t links[2], both;
    pami_collective_t cmd;
    int sum = 0;

    for (size_t i = 0; i < count; i++) {
        tasks[i] = (pami_task_t)(2 * i + parity);
        sum += (int)tasks[i];
    }
    create_list(job, &half, NULL, 5, tasks, count, 0);
    CHECK_OK(
        PAMIX_Machine_create(job->context[0], algorithm_of(half, PAMI_XFER_ALLREDUCE), &links[0]));
    links[1] = create(job, PAMI_XFER_BARRIER);
    CHECK_OK(PAMIX_Chain_create(job->context[0], links, 2, &both));
    CHECK_OK(PAMIX_Machine_reset(links[1], &cmd));
    for (int i = 0; i < 3; i++) {
        fill(job, i);
        cmd.xfer_allreduce = coll_sum(source, target, PAMI_TYPE_SIGNED_INT, INTS);
        CHECK_OK(PAMIX_Machine_reset(links[0], &cmd));
        run(job, both);
        check(job, i, (int)count, sum);
    }
    CHECK_OK(PAMIX_Machine_destroy(&both));
    destroy_geometry(job, &half);
    free(tasks);
}

/* Fewer of them where each waits for other tasks. */
static void many_links(struct job *job)
{
    static pamix_machine_t links[MANY + 1];
    size_t count = job->tasks == 1 ? MANY : MANY / 50;
    pamix_machine_t all;
    pami_collective_t cmd;

    for (size_t i = 0; i < count; i++) {
        links[i] = create(job, PAMI_XFER_BARRIER);
        CHECK_OK(PAMIX_Machine_reset(links[i], &cmd));
    }
    links[count] = links[0];
    CHECK_REFUSED(PAMIX_Chain_create(job->context[0], links, count + 1, &all), PAMI_INVAL, "links");
    CHECK_OK(PAMIX_Chain_create(job->context[0], links, count, &all));
    for (int i = 0; i < 2; i++)
        run(job, all);
    CHECK_OK(PAMIX_Machine_destroy(&all));
}

/* Segments that begin afterwards are bound as those before; another start is refused. */
static void destroyed_meanwhile(struct job *job)
{
    struct pipeline p = {.job = job};
    pami_task_t *tasks = test_alloc(job->tasks * sizeof(*tasks));
    struct told told = {.context = job->context[0]}, passed = told;
    pamix_machine_t machine, barrier;
    pami_collective_t cmd;
    pami_geometry_t all;

    for (size_t i = 0; i < job->tasks; i++)
        tasks[i] = (pami_task_t)i;
    create_list(job, &all, NULL, 5, tasks, job->tasks, 0);
    machine = make_pipeline(&p, all);
    barrier = create_on(job, all, PAMI_XFER_BARRIER);
    fill(job, 1);
    CHECK_OK(PAMIX_Pipeline_reset(machine, (INTS + SEGMENT - 1) / SEGMENT));
    CHECK_OK(PAMIX_Machine_reset(barrier, &cmd));
    CHECK_OK(TEST_CALL(PAMIX_Machine_start(machine, on_told, &told)));
    CHECK_OK(TEST_CALL(PAMIX_Machine_start(barrier, on_told, &passed)));
    destroy_geometry(job, &all);
    WAIT(job, told.count != 0 && passed.count != 0);
    CHECK(told.result == PAMI_SUCCESS && passed.result == PAMI_SUCCESS);
    check_all(job, 1);
    CHECK_REFUSED(PAMIX_Machine_start(barrier, NULL, NULL), PAMI_INVAL, "machine");
    CHECK_REFUSED(PAMIX_Machine_start(machine, NULL, NULL), PAMI_INVAL, "machine");
    CHECK(bind(p.stage[0].chain, 0, &p) == PAMI_INVAL);
    CHECK_OK(PAMIX_Machine_destroy(&barrier));
    CHECK_OK(PAMIX_Machine_destroy(&machine));
    free(tasks);
}

int main(void)
{
    struct job job;

    job_start(&job, "coll-compose", 1);
    single(&job);
    chain(&job);
    pipeline(&job);
    two_geometries(&job);
    many_links(&job);
    destroyed_meanwhile(&job);
    job_finish(&job);
    return 0;
}
