/*
 * Compositions about which members disagree: other numbers of links, links in another order, other
 * sizes, other numbers of segments, a segment that one member refuses; in shared memory and over
 * messages. They end on all members, with an error on somebody; who has refused a segment has its
 * own result, and its text. Neither what comes before nor what comes after is touched, plain
 * collectives or the same machines again. Then what is refused at once.
 *
 * Run: tasks=2,3,5 nodes=1,2 env="PAMI_COLL_ASK=0.01" timeout=60
 * Run: tasks=4 env="PAMI_COLL_ASK=0.01 PAMI_COLL_SLICES=1" timeout=60
 * Run: tasks=3 env="PAMI_COLL_ASK=0.01 PAMI_COLL_SHARED_BYTES=0" timeout=60
 * Run: tasks=3 env="PAMI_COLL_ASK=0.01 PAMI_COLL_SHARED_TREE=3" timeout=60
 */
#include <pami/pamix.h>

#include "coll.h"

enum {
    INTS = 30000,
    MOST = 5,
    STAGES = 2
};

static struct job job;
static struct coll_blocks blocks;
static int source[MOST * INTS], target[MOST * INTS];
static char text[512]; /* what was said when a run ended */

static const pami_xfer_type_t kinds[] = {PAMI_XFER_BROADCAST, PAMI_XFER_ALLREDUCE,
                                         PAMI_XFER_BARRIER, PAMI_XFER_REDUCE};

enum {
    KINDS = sizeof kinds / sizeof kinds[0]
};

static pamix_machine_t create(pami_geometry_t geometry, pami_xfer_type_t type)
{
    pamix_machine_t machine = NULL;

    CHECK_OK(PAMIX_Machine_create(job.context[0], algorithm_of(geometry, type), &machine));
    return machine;
}

static pami_result_t try_reset(pamix_machine_t machine, pami_xfer_type_t type, size_t count)
{
    pami_collective_t cmd;

    memset(&cmd, 0x5a, sizeof cmd);
    coll_arguments(&blocks, type, count, &cmd);
    return PAMIX_Machine_reset(machine, &cmd);
}

static void reset(pamix_machine_t machine, pami_xfer_type_t type, size_t count)
{
    CHECK_OK(try_reset(machine, type, count));
}

static pami_result_t end(struct told *told)
{
    WAIT(&job, told->count != 0);
    return told->result;
}

static void start(pamix_machine_t machine, struct told *told)
{
    *told = (struct told){.context = job.context[0]};
    CHECK_OK(TEST_CALL(PAMIX_Machine_start(machine, on_told, told)));
}

/* Plain ones in front and behind, the latter begun while it runs. `all_well`: it may be. */
static pami_result_t run(pamix_machine_t machine, const char *what, bool all_well)
{
    struct told before, told, after;
    pami_xfer_t xfer = coll_xfer(algorithm_of(world_of(&job), PAMI_XFER_ALLREDUCE), &before);
    int one = 1, sum[2] = {0, 0}, failed;
    pami_result_t result;

    xfer.cmd.xfer_allreduce = coll_sum(&one, &sum[0], PAMI_TYPE_SIGNED_INT, 1);
    coll_start(job.context[0], &xfer);
    start(machine, &told);
    xfer = coll_xfer(algorithm_of(world_of(&job), PAMI_XFER_ALLREDUCE), &after);
    xfer.cmd.xfer_allreduce = coll_sum(&one, &sum[1], PAMI_TYPE_SIGNED_INT, 1);
    coll_start(job.context[0], &xfer);
    CHECK(end(&before) == PAMI_SUCCESS);
    result = end(&told);
    snprintf(text, sizeof text, "%s", test_text());
    if (end(&after) != PAMI_SUCCESS)
        FAIL("%s: what comes afterwards ends with %d: %s", what, (int)after.result, test_text());
    CHECK(sum[0] == (int)job.tasks && sum[1] == (int)job.tasks);
    failed = coll_total(&job, world_of(&job), result != PAMI_SUCCESS);
    if ((failed == 0) != all_well)
        FAIL("%s: %d members of %zu have an error", what, failed, job.tasks);
    return result;
}

/* One member has `few` links of these kinds, the others `many`. */
static void links(size_t few, size_t many, bool swapped, size_t count, size_t odd_count,
                  const char *what)
{
    bool odd = job.task == job.tasks - 1;
    size_t own = odd ? few : many;
    pamix_machine_t link[KINDS], chain;

    for (size_t i = 0; i < own; i++) {
        size_t k = odd && swapped ? own - 1 - i : i;

        link[i] = create(world_of(&job), kinds[k]);
        reset(link[i], kinds[k], odd && i == 1 ? odd_count : count);
    }
    CHECK_OK(PAMIX_Chain_create(job.context[0], link, own, &chain));
    run(chain, what, false);
    CHECK_OK(PAMIX_Machine_destroy(&chain));
}

struct pipeline {
    pamix_machine_t stage[STAGES][2], chain[STAGES], whole;
    size_t count, refused;
    pami_result_t refusal;
};

static pami_result_t bind(pamix_machine_t machine, size_t index, void *cookie)
{
    struct pipeline *p = cookie;
    pami_result_t result;

    CHECK(machine == p->chain[index % STAGES]);
    if (index == p->refused) {
        CHECK_REFUSED(PAMIX_Machine_reset(NULL, NULL), PAMI_INVAL, "machine: NULL");
        return p->refusal;
    }
    result = try_reset(p->stage[index % STAGES][0], PAMI_XFER_REDUCE, p->count);
    if (result != PAMI_SUCCESS) /* after an error something may still be under way */
        return result;
    return try_reset(p->stage[index % STAGES][1], PAMI_XFER_BROADCAST, p->count);
}

static void run_again(struct pipeline *p)
{
    for (int i = 0; i < 2; i++) {
        WAIT(&job, PAMIX_Pipeline_reset(p->whole, 6) == PAMI_SUCCESS);
        run(p->whole, "the pipeline again", true);
    }
}

static void segments(size_t count)
{
    static const pami_result_t refusals[] = {PAMI_INVAL, PAMI_ERROR, PAMI_EAGAIN, PAMI_UNIMPL};
    struct pipeline p = {.count = count, .refused = SIZE_MAX};
    bool odd = job.task == 0;

    for (int i = 0; i < STAGES; i++) {
        p.stage[i][0] = create(world_of(&job), PAMI_XFER_REDUCE);
        p.stage[i][1] = create(world_of(&job), PAMI_XFER_BROADCAST);
        CHECK_OK(PAMIX_Chain_create(job.context[0], p.stage[i], 2, &p.chain[i]));
    }
    CHECK_OK(PAMIX_Pipeline_create(job.context[0], p.chain, STAGES, bind, &p, &p.whole));
    run_again(&p);
    WAIT(&job, PAMIX_Pipeline_reset(p.whole, odd ? 5 : 7) == PAMI_SUCCESS);
    run(p.whole, "segments", false);
    run_again(&p);
    for (size_t at = 2; at < 6; at++) {
        pami_result_t result;

        WAIT(&job, PAMIX_Pipeline_reset(p.whole, 6) == PAMI_SUCCESS);
        if (odd)
            p.refused = at;
        p.refusal = refusals[at % 4];
        result = run(p.whole, "a segment is refused", false);
        if (odd && (result != p.refusal || strstr(text, "machine: NULL") == NULL))
            FAIL("refused with %d, ended with %d: %s", (int)p.refusal, (int)result, text);
        p.refused = SIZE_MAX;
        run_again(&p);
    }
    CHECK_OK(PAMIX_Machine_destroy(&p.whole));
}

/* What can be told at once; nothing of it has begun. */
static void refuse(void)
{
    pamix_machine_t link[2] = {create(world_of(&job), PAMI_XFER_BARRIER),
                               create(world_of(&job), PAMI_XFER_BARRIER)};
    pamix_machine_t chain, own;
    pami_task_t *all = test_alloc(job.tasks * sizeof *all);
    pami_geometry_t geometry;
    pami_collective_t cmd;
    pami_algorithm_t levels;

    reset(link[0], PAMI_XFER_BARRIER, 0);
    CHECK_OK(PAMIX_Chain_create(job.context[0], link, 2, &chain));
    CHECK_REFUSED(PAMIX_Machine_start(chain, NULL, NULL), PAMI_INVAL, "arguments");
    reset(link[1], PAMI_XFER_BARRIER, 0);
    run(chain, "both links", true);
    CHECK_OK(PAMIX_Machine_destroy(&chain));
    levels = algorithm_named(world_of(&job), PAMI_XFER_BARRIER, "Hierarchical");
    if (levels != PAMI_ALGORITHM_NULL) {
        CHECK_OK(PAMIX_Machine_create(job.context[0], levels, &own));
        CHECK_REFUSED(PAMIX_Machine_reset(own, &cmd), PAMI_INVAL, "Hierarchical");
        CHECK_OK(PAMIX_Machine_destroy(&own));
    }
    for (size_t i = 0; i < job.tasks; i++)
        all[i] = (pami_task_t)i;
    create_list(&job, &geometry, NULL, 8, all, job.tasks, 0);
    own = create(geometry, PAMI_XFER_BARRIER);
    link[0] = create(geometry, PAMI_XFER_ALLREDUCE); /* bound, and never started */
    reset(own, PAMI_XFER_BARRIER, 0);
    reset(link[0], PAMI_XFER_ALLREDUCE, 1000);
    run(own, "of a geometry", true);
    destroy_geometry(&job, &geometry);
    CHECK_REFUSED(PAMIX_Machine_start(own, NULL, NULL), PAMI_INVAL, "destroyed");
    CHECK_REFUSED(PAMIX_Machine_reset(own, &cmd), PAMI_INVAL, "destroyed");
    CHECK_OK(PAMIX_Machine_destroy(&own));
    CHECK_OK(PAMIX_Machine_destroy(&link[0]));
    free(all);
}

/* A geometry is not gone before a composition on it, whose later links have not begun, is over. */
static void destroy_while_it_runs(void)
{
    pami_task_t *all = test_alloc(job.tasks * sizeof *all);
    pami_geometry_t geometry;
    pamix_machine_t link[2], chain;
    struct told told, gone = {.context = job.context[0]};

    for (size_t i = 0; i < job.tasks; i++)
        all[i] = (pami_task_t)i;
    create_list(&job, &geometry, NULL, 8, all, job.tasks, 0);
    link[0] = create(world_of(&job), PAMI_XFER_BARRIER);
    link[1] = create(geometry, PAMI_XFER_BARRIER);
    reset(link[0], PAMI_XFER_BARRIER, 0);
    reset(link[1], PAMI_XFER_BARRIER, 0);
    CHECK_OK(PAMIX_Chain_create(job.context[0], link, 2, &chain));
    start(chain, &told);
    CHECK_OK(
        TEST_CALL(PAMI_Geometry_destroy(job.client, &geometry, job.context[0], on_told, &gone)));
    CHECK(end(&told) == PAMI_SUCCESS);
    CHECK(end(&gone) == PAMI_SUCCESS);
    CHECK_OK(PAMIX_Machine_destroy(&chain));
    free(all);
}

int main(void)
{
    job_start(&job, "coll-compose-wrong", 1);
    blocks = (struct coll_blocks){.from = source,
                                  .into = target,
                                  .type = PAMI_TYPE_SIGNED_INT,
                                  .members = job.tasks,
                                  .root = job_endpoint(&job, 0, 0)};
    for (size_t count = 1; count <= 10000; count *= 100) {
        links(1, 2, false, count, count, "one link of two");
        links(1, 4, false, count, count, "one link of four");
        links(4, 2, false, count, count, "four links for two");
        links(4, 4, true, count, count, "another order");
        links(4, 4, false, count, count + 7, "another size");
        segments(count);
    }
    refuse();
    destroy_while_it_runs();
    job_finish(&job);
    return 0;
}
