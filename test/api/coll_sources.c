/*
 * What a collective only reads may lie in read-only memory, by every algorithm of every type: all
 * sources, what the root of a broadcast has, and what the root of a scatter has where its own block
 * is in place. On the world, and where ranks go from node to node, so that the blocks of a node's
 * members do not lie together.
 *
 * Run: tasks=1,2,5 timeout=60
 * Run: tasks=5,6 nodes=2,3 timeout=60
 * Run: tasks=6 nodes=2 env="PAMI_COLL_LEVELS=node,core:2" timeout=60
 */
#include "coll.h"

#include <sys/mman.h>

enum {
    MEMBERS_MAX = 8,
    INTS = 9000 /* of a block at most */
};

static const size_t counts[] = {1, 700, INTS};
static const size_t source_bytes = MEMBERS_MAX * INTS * sizeof(int);

static struct job job;
static struct coll_blocks blocks;
static int *source; /* read-only, all ones */
static int target[MEMBERS_MAX * INTS];

static void make_source(void)
{
    source = mmap(NULL, source_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(source != MAP_FAILED);
    for (size_t i = 0; i < source_bytes / sizeof(int); i++)
        source[i] = 1;
    CHECK(mprotect(source, source_bytes, PROT_READ) == 0);
}

/* What every word of this member's result is. 0: it has none. */
static int expected(pami_xfer_type_t type, size_t rank, bool root)
{
    switch (type) {
    case PAMI_XFER_ALLREDUCE:
    case PAMI_XFER_REDUCE_SCATTER:
        return (int)blocks.members;
    case PAMI_XFER_REDUCE:
        return root ? (int)blocks.members : 0;
    case PAMI_XFER_SCAN:
        return (int)rank + 1;
    case PAMI_XFER_GATHER:
    case PAMI_XFER_GATHERV:
    case PAMI_XFER_GATHERV_INT:
        return root;
    default:
        return 1;
    }
}

static bool has_blocks(pami_xfer_type_t type)
{
    return type != PAMI_XFER_BROADCAST && type != PAMI_XFER_SCATTER && type != PAMI_XFER_SCATTERV &&
           type != PAMI_XFER_SCATTERV_INT && type != PAMI_XFER_ALLREDUCE &&
           type != PAMI_XFER_REDUCE && type != PAMI_XFER_SCAN && type != PAMI_XFER_REDUCE_SCATTER;
}

/* The root of a scatter has its own block there already. */
static void leave_own(pami_xfer_type_t type, pami_collective_t *cmd)
{
    if (type == PAMI_XFER_SCATTER)
        cmd->xfer_scatter.rcvbuf = PAMI_IN_PLACE;
    else if (type == PAMI_XFER_SCATTERV)
        cmd->xfer_scatterv.rcvbuf = PAMI_IN_PLACE;
    else if (type == PAMI_XFER_SCATTERV_INT)
        cmd->xfer_scatterv_int.rcvbuf = PAMI_IN_PLACE;
}

static void run(pami_xfer_type_t type, pami_algorithm_t algorithm, const char *name, size_t count,
                size_t rank, size_t root)
{
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm, &told);
    size_t words = count * (has_blocks(type) ? blocks.members : 1);
    bool in_place = rank == root && !has_blocks(type) && type >= PAMI_XFER_SCATTER &&
                    type <= PAMI_XFER_SCATTERV_INT;
    int value = in_place ? 0 : expected(type, rank, rank == root);

    memset(target, 0, sizeof target);
    blocks.into = type == PAMI_XFER_BROADCAST && rank == root ? source : target;
    coll_arguments(&blocks, type, count, &xfer.cmd);
    if (in_place)
        leave_own(type, &xfer.cmd);
    coll_run(&job, job.context[0], &xfer);
    for (size_t i = 0; value != 0 && type != PAMI_XFER_BARRIER && i < words; i++)
        if (((int *)blocks.into)[i] != value)
            FAIL("%s of type %d, %zu ints, root %zu: word %zu is %d", name, (int)type, count, root,
                 i, ((int *)blocks.into)[i]);
}

static void run_all(pami_geometry_t geometry, const pami_task_t *tasks, size_t rank)
{
    for (int type = 0; type < PAMI_XFER_AMBROADCAST; type++) {
        struct algorithms all = algorithms_of(geometry, (pami_xfer_type_t)type);

        for (int list = 0; list < 2; list++)
            for (size_t i = 0; i < all.count[list]; i++)
                for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
                    size_t root = (i + k) % blocks.members;

                    blocks.root = job_endpoint(&job, tasks[root], 0);
                    run((pami_xfer_type_t)type, all.handle[list][i], all.metadata[list][i].name,
                        counts[k], rank, root);
                }
        algorithms_free(&all);
    }
}

int main(void)
{
    pami_task_t tasks[MEMBERS_MAX];
    pami_geometry_t geometry;
    size_t rank = 0;

    job_start(&job, "coll-sources", 1);
    CHECK(job.tasks <= MEMBERS_MAX);
    make_source();
    blocks =
        (struct coll_blocks){.from = source, .type = PAMI_TYPE_SIGNED_INT, .members = job.tasks};
    for (size_t i = 0; i < job.tasks; i++)
        tasks[i] = (pami_task_t)i;
    run_all(world_of(&job), tasks, job.task);
    /* Last and first, last but one and second, ... */
    for (size_t i = 0; i < job.tasks; i++) {
        tasks[i] = (pami_task_t)(i % 2 == 0 ? job.tasks - 1 - i / 2 : i / 2);
        rank = tasks[i] == job.task ? i : rank;
    }
    create_list(&job, &geometry, PAMI_GEOMETRY_NULL, 1, tasks, job.tasks, 0);
    run_all(geometry, tasks, rank);
    destroy_geometry(&job, &geometry);
    job_finish(&job);
    munmap(source, source_bytes);
    return 0;
}
