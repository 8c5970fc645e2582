/*
 * What becomes of an arena's memory when its leader leaves it.
 *
 *     coll_arena_left lost     one that is still being opened: the leader gives the memory to the
 *                              program, and nobody writes there any more
 *     coll_arena_left lives    one that others use when the leader destroys its contexts: it is
 *                              free again in a later life of these
 *
 * Run: tasks=4 args="lost" env="PAMI_COLL_ASK=0.02"
 * Run: tasks=3,4 args="lives" env="PAMI_YIELD=always PAMI_HEAP_BYTES=64M" timeout=60
 */
#include <pami/pamix.h>

#include "coll.h"

enum {
    BLOCKS = 16,
    BLOCK = 1 << 20,
    FILL = 0x5a,
    LIVES = 30, /* would need twice the heap */
    ROOM = 32 << 20
};

static struct job job;

static void advance_for(double seconds)
{
    double begin = test_now();

    while (test_now() - begin < seconds)
        job_advance(&job);
}

static void *allocate(size_t bytes)
{
    void *block;

    CHECK_OK(PAMIX_Mem_alloc(job.client, bytes, 4096, PAMIX_MEM_LOCAL, &block));
    return block;
}

/* The others hear of the leader's end meanwhile. */
static void leave_and_look(pami_geometry_t *geometry)
{
    unsigned char *block[BLOCKS];

    destroy_geometry(&job, geometry);
    advance_for(0.1);
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = allocate(BLOCK);
        memset(block[i], FILL, BLOCK);
    }
    CHECK_OK(PAMI_Context_destroyv(job.context, 1));
    test_sleep(0.8);
    for (int i = 0; i < BLOCKS; i++)
        for (size_t at = 0; at < BLOCK; at++)
            CHECK_SIZE(block[i][at], FILL);
}

/* One of the members takes messages, so the arena is not opened, and nobody says so. */
static void lost(void)
{
    pami_task_t all[] = {0, 1, 2, 3};
    pami_geometry_t geometry = PAMI_GEOMETRY_NULL;
    pami_algorithm_t barrier;
    struct told told;
    pami_xfer_t xfer;

    CHECK_SIZE(job.tasks, 4);
    create_list(&job, &geometry, NULL, 7, all, job.tasks, 0);
    CHECK(coll_total(&job, world_of(&job), 1) == (int)job.tasks);
    barrier =
        algorithm_named(geometry, PAMI_XFER_BARRIER, job.task == 1 ? "Dissemination" : "Shared");
    CHECK(barrier != PAMI_ALGORITHM_NULL);
    xfer = coll_xfer(barrier, &told);
    coll_start(job.context[0], &xfer);
    WAIT(&job, told.count != 0);
    CHECK(told.result != PAMI_SUCCESS);
    if (job.task == 0) {
        leave_and_look(&geometry);
    } else {
        advance_for(1);
        CHECK_OK(PAMI_Context_destroyv(job.context, 1));
    }
}

/* The first task leads the arena of the world, and is the first to destroy its context. */
static void lives(void)
{
    for (int i = 0; i < LIVES; i++) {
        CHECK(coll_total(&job, world_of(&job), 1) == (int)job.tasks);
        if (job.task != 0)
            test_sleep(0.02);
        CHECK_OK(PAMI_Context_destroyv(job.context, 1));
        CHECK_OK(PAMI_Context_createv(job.client, NULL, 0, job.context, 1));
    }
    CHECK(coll_total(&job, world_of(&job), 1) == (int)job.tasks);
    if (job.task == 0)
        CHECK_OK(PAMIX_Mem_free(job.client, allocate(ROOM)));
    CHECK_OK(PAMI_Context_destroyv(job.context, 1));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    job_start(&job, "coll-arena-left", 1);
    if (strcmp(argv[1], "lost") == 0)
        lost();
    else
        lives();
    CHECK_OK(PAMI_Client_destroy(&job.client));
    return 0;
}
