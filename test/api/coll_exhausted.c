/*
 * The heap of a node's first member runs full of areas for collectives: geometries that get none
 * work all the same, and those that are destroyed give theirs back, to programs and to other
 * geometries.
 *
 * Run: tasks=2,3,5,8 env="PAMI_HEAP_BYTES=8M"
 * Run: tasks=4 env="PAMI_HEAP_BYTES=8M PAMI_YIELD=always"
 */
#include <pami/pamix.h>

#include "coll.h"

enum {
    GEOMETRIES = 400,
    MORE = 5,         /* when it is full */
    STEP = 64 * 1024, /* exactness of the search */
    LENGTH = 3,       /* words of an allreduce */
    FIRST_ID = 100
};

static pami_geometry_t geometries[GEOMETRIES];

/* The largest block of the own heap that is free now. */
static size_t room(const struct job *job)
{
    size_t bytes = 0;

    for (size_t half = (size_t)64 << 20; half >= STEP; half /= 2) {
        void *block = NULL;

        if (PAMIX_Mem_alloc(job->client, bytes + half, 0, PAMIX_MEM_LOCAL, &block) != PAMI_SUCCESS)
            continue;
        bytes += half;
        CHECK_OK(PAMIX_Mem_free(job->client, block));
    }
    return bytes;
}

/* Everybody adds up; the sum of what is said in the last word. */
static uint64_t add_up(struct job *job, pami_geometry_t geometry, uint64_t said)
{
    uint64_t send[LENGTH] = {job->task + 1, 1, said}, recv[LENGTH] = {0};
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm_of(geometry, PAMI_XFER_ALLREDUCE), &told);

    xfer.cmd.xfer_allreduce = coll_sum(send, recv, PAMI_TYPE_UNSIGNED_LONG, LENGTH);
    coll_run(job, job->context[0], &xfer);
    CHECK(recv[0] == job->tasks * (job->tasks + 1) / 2);
    CHECK(recv[1] == job->tasks);
    return recv[2];
}

static void create(struct job *job, size_t which)
{
    pami_task_t tasks[64];

    for (size_t i = 0; i < job->tasks; i++)
        tasks[i] = (pami_task_t)i;
    create_list(job, &geometries[which], NULL, FIRST_ID + (unsigned)which, tasks, job->tasks, 0);
}

/* Until a geometry takes nothing of task 0's heap any more, and some more. How many there are. */
static size_t fill(struct job *job)
{
    size_t count = 0, last = GEOMETRIES;
    size_t now = room(job), before;

    do {
        before = now;
        create(job, count);
        add_up(job, geometries[count], 0);
        now = room(job);
        if (add_up(job, geometries[count++], job->task == 0 && now == before) != 0 &&
            last == GEOMETRIES)
            last = count + MORE;
    } while (count < last && count < GEOMETRIES);
    if (count == GEOMETRIES)
        FAIL("%zu bytes are left after %d geometries", now, GEOMETRIES);
    return count;
}

static void fill_and_empty(struct job *job)
{
    size_t before = room(job), count = fill(job);

    for (unsigned round = 0; round < 3; round++)
        for (size_t i = 0; i < count; i++)
            add_up(job, geometries[i], round);
    for (size_t i = 0; i < count; i++)
        destroy_geometry(job, &geometries[i]);
    WAIT(job, room(job) >= before);
    job_barrier(job);
    create(job, 0);
    add_up(job, geometries[0], 0);
    if (job->task == 0)
        CHECK(room(job) < before);
    destroy_geometry(job, &geometries[0]);
    WAIT(job, room(job) >= before);
    job_barrier(job);
}

int main(void)
{
    struct job job;

    job_start(&job, "exhausted", 1);
    for (unsigned round = 0; round < 3; round++)
        fill_and_empty(&job);
    job_finish(&job);
    return 0;
}
