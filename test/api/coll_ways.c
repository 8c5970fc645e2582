/*
 * Who moves the data of a tree, or of an all-to-all. In rows named Pull the destination does, by
 * single copies, also of messages that would be eager otherwise; in rows named Push the source,
 * whatever the size. What PAMI_STATS says of a context's copies shows it. Skipped where the kernel
 * refuses copies between processes.
 *
 * Run: tasks=2,3,5 env="PAMI_STATS=1" timeout=60
 * Run: tasks=3 env="PAMI_STATS=1 PAMI_COLL_SEGMENT=4096" timeout=60
 * Run: tasks=2 env="PAMI_STATS=1 PAMI_RNDV_BYTES=1K" timeout=60
 */
#include "coll.h"
#include "stats.h"

#define BYTES 24000u

/* The row of a type whose name holds `part`. */
static pami_algorithm_t row_of(struct job *job, pami_xfer_type_t type, const char *part)
{
    struct algorithms all = algorithms_of(world_of(job), type);
    pami_algorithm_t found = 0;

    for (size_t i = 0; i < all.count[0]; i++)
        if (strstr(all.metadata[0][i].name, part) != NULL)
            found = all.handle[0][i];
    if (found == 0)
        FAIL("no algorithm named %s", part);
    algorithms_free(&all);
    return found;
}

static char byte_of(size_t member, size_t i)
{
    return (char)(member * 37 + i * 11 + i / 256);
}

static void check_block(const char *block, size_t member)
{
    for (size_t i = 0; i < BYTES; i++)
        if (block[i] != byte_of(member, i))
            FAIL("byte %zu of member %zu", i, member);
}

/* A broadcast, a scatter and a gather of this row, from and to task 0. */
static void run_all(struct job *job, const char *row)
{
    pami_endpoint_t root = job_endpoint(job, 0, 0);
    char *all = test_zalloc(job->tasks * BYTES), *own = test_zalloc(BYTES);
    struct told told;
    pami_xfer_t xfer;

    for (size_t i = 0; job->task == 0 && i < job->tasks * BYTES; i++)
        all[i] = byte_of(i / BYTES, i % BYTES);
    xfer = coll_xfer(row_of(job, PAMI_XFER_BROADCAST, row), &told);
    xfer.cmd.xfer_broadcast = (pami_broadcast_t){root, all, PAMI_TYPE_BYTE, BYTES};
    coll_run(job, job->context[0], &xfer);
    check_block(all, 0);

    xfer = coll_xfer(row_of(job, PAMI_XFER_SCATTER, row), &told);
    xfer.cmd.xfer_scatter =
        (pami_scatter_t){root, all, PAMI_TYPE_BYTE, BYTES, own, PAMI_TYPE_BYTE, BYTES};
    coll_run(job, job->context[0], &xfer);
    check_block(own, job->task);

    memset(all, 0, job->tasks * BYTES);
    xfer = coll_xfer(row_of(job, PAMI_XFER_GATHER, row), &told);
    xfer.cmd.xfer_gather =
        (pami_gather_t){root, own, PAMI_TYPE_BYTE, BYTES, all, PAMI_TYPE_BYTE, BYTES};
    coll_run(job, job->context[0], &xfer);
    for (size_t i = 0; job->task == 0 && i < job->tasks; i++)
        check_block(all + i * BYTES, i);
    free(all);
    free(own);
}

/* Block i of member m holds what m would broadcast, from byte i on. */
static void run_alltoall(struct job *job, const char *row)
{
    char *sent = test_zalloc(job->tasks * BYTES), *got = test_zalloc(job->tasks * BYTES);
    struct told told;
    pami_xfer_t xfer = coll_xfer(row_of(job, PAMI_XFER_ALLTOALL, row), &told);

    for (size_t i = 0; i < job->tasks * BYTES; i++)
        sent[i] = byte_of(job->task, i / BYTES + i % BYTES);
    xfer.cmd.xfer_alltoall =
        (pami_alltoall_t){sent, PAMI_TYPE_BYTE, BYTES, got, PAMI_TYPE_BYTE, BYTES};
    coll_run(job, job->context[0], &xfer);
    for (size_t i = 0; i < job->tasks * BYTES; i++)
        if (got[i] != byte_of(i / BYTES, job->task + i % BYTES))
            FAIL("byte %zu of member %zu", i % BYTES, i / BYTES);
    free(sent);
    free(got);
}

static unsigned long long copied_by(const char *row, size_t *task)
{
    struct job job;

    job_start(&job, "coll-ways", 1);
    *task = job.task;
    if (strstr(row, "Spread") != NULL)
        run_alltoall(&job, row);
    else
        run_all(&job, row);
    return stats_at_end(&job, job_finish, "single copy: bytes");
}

int main(void)
{
    static const char *const rows[] = {
        "PipelinedBinomial:", "HalvedBinomial:", "Binomial:", "Spread:"};
    size_t task;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned long long bytes;
        char name[64];

        snprintf(name, sizeof name, ":Push%s", rows[i]);
        if (copied_by(name, &task) != 0)
            FAIL("%s: data was pulled", name);
        snprintf(name, sizeof name, ":Pull%s", rows[i]);
        bytes = copied_by(name, &task);
        /* Task 0 gets its part of the gather, others at least a block of the broadcast and of the
         * scatter; everybody one of each other member's in an all-to-all. */
        if (bytes == 0 && i == 0) {
            printf("SKIP: no copies between processes\n");
            return 77;
        }
        if (bytes < (task == 0 || i == 3 ? BYTES : 2 * BYTES))
            FAIL("%s: only %llu bytes were pulled", name, bytes);
    }
    return 0;
}
