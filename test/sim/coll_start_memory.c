/*
 * A member that finds no memory several times in a row when it starts collectives, or compositions
 * of them, in shared memory: the others, which wait for it in the arena while it goes on to the
 * next ones, hear of an error, and never that members disagree. When there is memory again all is
 * right.
 *
 * Run:
 */
#include "no_memory.h"

enum {
    TASKS = 3,
    ROUNDS = 6, /* one behind the other, without a pause */
    INTS = 40,
    ROW_MOST = 24,
    GAP_MOST = 24
};

enum kind {
    PLAIN,
    CHAIN,
    BROADCAST, /* by the member itself, which need not wait for others */
    KINDS
};

struct member {
    size_t task, done, failed;
    pami_context_t context;
    pami_algorithm_t algorithm[2];
    pamix_machine_t link[2], whole;
    pami_work_t work;
    int from[INTS], into[INTS];
};

static struct member members[TASKS];
static enum kind kind;
static size_t which, count; /* allocations that fail ... */
static size_t once_more;    /* ... and behind them, after so many others, one more; 0: none */
static bool refusing;       /* task 0 starts, and has no memory */

static void begin(struct member *member);

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct member *member = cookie;

    (void)context;
    if (result == PAMI_INVAL)
        FAIL("kind %d, allocation %zu of %zu: task %zu, round %zu: %s", (int)kind, which, count,
             member->task, member->done, test_text());
    member->failed += result != PAMI_SUCCESS;
    for (size_t i = 0; i < INTS && result == PAMI_SUCCESS; i++)
        CHECK(kind == BROADCAST || member->into[i] == TASKS);
    if (++member->done % ROUNDS != 0)
        begin(member);
}

static pami_collective_t arguments(struct member *member)
{
    pami_collective_t cmd;

    memset(&cmd, 0, sizeof(cmd));
    if (kind == BROADCAST)
        cmd.xfer_broadcast = (pami_broadcast_t){0, (char *)member->from, PAMI_TYPE_BYTE, 8};
    else
        cmd.xfer_allreduce = (pami_allreduce_t){(char *)member->from,
                                                PAMI_TYPE_SIGNED_INT,
                                                INTS,
                                                (char *)member->into,
                                                PAMI_TYPE_SIGNED_INT,
                                                INTS,
                                                PAMI_DATA_SUM,
                                                NULL,
                                                1};
    return cmd;
}

static pami_result_t start(struct member *member)
{
    pami_xfer_t xfer = {.cb_done = on_done, .cookie = member, .algorithm = member->algorithm[0]};

    if (kind == CHAIN)
        return PAMIX_Machine_start(member->whole, on_done, member);
    xfer.cmd = arguments(member);
    return PAMI_Collective(member->context, &xfer);
}

/* What has failed may still have something under way: then once more. */
static pami_result_t try_to_begin(pami_context_t context, void *cookie)
{
    struct member *member = cookie;
    pami_result_t result;

    (void)context;
    do {
        no_memory.armed = refusing && member->task == 0 && no_memory.row != 0;
        result = start(member);
        no_memory.armed = false;
        if (no_memory.row == 0 && once_more != 0) {
            no_memory.row = 1;
            no_memory.left = once_more;
            once_more = 0;
        }
        if (result == PAMI_EAGAIN && kind == CHAIN)
            return PAMI_EAGAIN;
        if (result != PAMI_SUCCESS && (result != PAMI_ENOMEM || member->task != 0))
            FAIL("kind %d, allocation %zu of %zu: task %zu: %d, %s", (int)kind, which, count,
                 member->task, (int)result, test_text());
    } while (result != PAMI_SUCCESS);
    return PAMI_SUCCESS;
}

static void begin(struct member *member)
{
    if (try_to_begin(member->context, member) != PAMI_SUCCESS)
        CALL(PAMI_Context_post(member->context, &member->work, try_to_begin, member));
}

static void make(const struct sim_job *job, size_t task)
{
    struct member *member = &members[task];
    pami_collective_t cmd;
    pami_geometry_t world;

    *member = (struct member){.task = task, .context = job->context[task]};
    for (size_t i = 0; i < INTS; i++)
        member->from[i] = 1;
    cmd = arguments(member);
    CALL(PAMI_Geometry_world(job->client[task], &world));
    CALL(PAMI_Geometry_algorithms_query(
        world, kind == BROADCAST ? PAMI_XFER_BROADCAST : PAMI_XFER_ALLREDUCE, &member->algorithm[0],
        NULL, 1, NULL, NULL, 0));
    CALL(PAMI_Geometry_algorithms_query(world, PAMI_XFER_BARRIER, &member->algorithm[1], NULL, 1,
                                        NULL, NULL, 0));
    if (kind != CHAIN)
        return;
    for (size_t i = 0; i < 2; i++) {
        CALL(PAMIX_Machine_create(member->context, member->algorithm[i], &member->link[i]));
        CALL(PAMIX_Machine_reset(member->link[i], &cmd));
    }
    CALL(PAMIX_Chain_create(member->context, member->link, 2, &member->whole));
}

/* Those that wait have called first, or call last. */
static void round_of_all(const struct sim_job *job, bool late)
{
    for (size_t i = 0; i < TASKS; i++)
        members[i].done = members[i].failed = 0;
    for (size_t i = 0; i < TASKS; i++)
        begin(&members[late ? TASKS - 1 - i : i]);
    job_settle(job);
    for (size_t i = 0; i < TASKS; i++)
        CHECK(members[i].done == ROUNDS);
}

/* Whether there were so many allocations. */
static bool run(bool late, size_t again)
{
    struct sim_job job;
    bool enough;

    job_create(&job, NULL, TASKS, 1);
    for (size_t i = 0; i < TASKS; i++)
        make(&job, i);
    no_memory.refused = 0;
    refuse_row(which, count);
    no_memory.armed = false;
    refusing = true;
    once_more = again;
    round_of_all(&job, late);
    refusing = false;
    enough = no_memory.refused != 0;
    CHECK(enough || members[0].failed + members[1].failed + members[2].failed == 0);
    round_of_all(&job, late);
    for (size_t i = 0; i < TASKS; i++) {
        CHECK(members[i].failed == 0);
        if (kind == CHAIN)
            CALL(PAMIX_Machine_destroy(&members[i].whole));
    }
    job_destroy(&job);
    return enough;
}

int main(void)
{
    need_refusing();
    for (kind = PLAIN; kind < KINDS; kind++) {
        for (count = 1; count <= ROW_MOST; count++) {
            for (which = 0; run(false, 0) + run(true, 0) != 0; which++)
                continue;
            CHECK(which > 2);
        }
        count = 1;
        for (size_t again = 1; again <= GAP_MOST; again++)
            for (which = 0; run(false, again) + run(true, again) != 0; which++)
                continue;
    }
    return 0;
}
