/*
 * What PAMI_Collective refuses, with a text that names the argument, and that a refused call leaves
 * no trace: the members go on together afterwards. Check functions refuse the same. What there is
 * nothing of may be of any type. Members that call with different sizes get an error and nothing
 * else is disturbed.
 *
 * Run: tasks=1,2,3 timeout=60
 */
#include "coll.h"

static int numbers[64];

static pami_result_t call(struct job *job, pami_xfer_type_t type, const pami_collective_t *cmd)
{
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm_of(world_of(job), type), &told);

    xfer.cmd = *cmd;
    return PAMI_Collective(job->context[0], &xfer);
}

#define REFUSED(type, cmd, word)                                                                   \
    do {                                                                                           \
        CHECK_RESULT(call(job, type, &(cmd)), PAMI_INVAL);                                         \
        test_check_text(__FILE__, __LINE__, "PAMI_Collective(", word);                             \
    } while (0)

static void handles(struct job *job)
{
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm_of(world_of(job), PAMI_XFER_BARRIER), &told);
    const pami_algorithm_t wrong[] = {0,
                                      1,
                                      4711,
                                      (pami_algorithm_t)-1,
                                      xfer.algorithm ^ 1u << 11,
                                      xfer.algorithm + ((size_t)1 << 30),
                                      (pami_algorithm_t)job};
    size_t lengths[2];

    CHECK_REFUSED(PAMI_Collective(NULL, &xfer), PAMI_INVAL, "context");
    CHECK_REFUSED(PAMI_Collective(job->context[0], NULL), PAMI_INVAL, "cmd");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        xfer.algorithm = wrong[i];
        CHECK_REFUSED(PAMI_Collective(job->context[0], &xfer), PAMI_INVAL, "algorithm");
    }
    CHECK_REFUSED(PAMI_Geometry_algorithms_num(NULL, PAMI_XFER_BARRIER, lengths), PAMI_INVAL,
                  "geometry");
    CHECK_REFUSED(PAMI_Geometry_algorithms_num(world_of(job), PAMI_XFER_COUNT, lengths), PAMI_INVAL,
                  "type");
    CHECK_REFUSED(PAMI_Geometry_algorithms_num(world_of(job), PAMI_XFER_BARRIER, NULL), PAMI_INVAL,
                  "lists_lengths");
}

static void reductions(struct job *job)
{
    const pami_allreduce_t good = {.sndbuf = (char *)numbers,
                                   .stype = PAMI_TYPE_SIGNED_INT,
                                   .stypecount = 4,
                                   .rcvbuf = (char *)(numbers + 32),
                                   .rtype = PAMI_TYPE_SIGNED_INT,
                                   .rtypecount = 4,
                                   .op = PAMI_DATA_SUM};
    pami_collective_t cmd;
    pami_type_t open;

    CHECK_OK(PAMI_Type_create(&open));
#define BAD(member, value, word)                                                                   \
    do {                                                                                           \
        cmd.xfer_allreduce = good;                                                                 \
        cmd.xfer_allreduce.member = value;                                                         \
        REFUSED(PAMI_XFER_ALLREDUCE, cmd, word);                                                   \
    } while (0)
    BAD(sndbuf, NULL, "sndbuf");
    BAD(rcvbuf, NULL, "rcvbuf");
    BAD(stype, NULL, "stype");
    BAD(stype, open, "stype");
    BAD(rtype, open, "rtype");
    BAD(rtype, (pami_type_t)job, "rtype");
    BAD(rtypecount, 3, "rtypecount");
    BAD(stypecount, SIZE_MAX / 2, "stypecount");
    BAD(op, PAMI_DATA_COPY, "op");
    BAD(op, PAMI_DATA_NOOP, "op");
    BAD(op, PAMI_DATA_MAXLOC, "op");
#undef BAD
    cmd.xfer_allreduce = good;
    cmd.xfer_allreduce.sndbuf = PAMI_IN_PLACE;
    cmd.xfer_allreduce.rtype = PAMI_TYPE_BYTE;
    cmd.xfer_allreduce.rtypecount = 6;
    REFUSED(PAMI_XFER_ALLREDUCE, cmd, "rtypecount");
    CHECK_OK(PAMI_Type_destroy(&open));
}

static void moves(struct job *job)
{
    pami_endpoint_t nobody = job_endpoint(job, job->tasks - 1, 0) + 1;
    size_t *counts = test_zalloc(job->tasks * sizeof *counts);
    int *narrow = test_zalloc(job->tasks * sizeof *narrow);
    pami_collective_t cmd;

    cmd.xfer_broadcast = (pami_broadcast_t){nobody, (char *)numbers, PAMI_TYPE_BYTE, 1};
    REFUSED(PAMI_XFER_BROADCAST, cmd, "root");
    cmd.xfer_broadcast = (pami_broadcast_t){0, NULL, PAMI_TYPE_BYTE, 1};
    REFUSED(PAMI_XFER_BROADCAST, cmd, "buf");
    cmd.xfer_allgather = (pami_allgather_t){(char *)numbers,        PAMI_TYPE_BYTE, 3,
                                            (char *)(numbers + 32), PAMI_TYPE_BYTE, 4};
    REFUSED(PAMI_XFER_ALLGATHER, cmd, "stypecount");
    cmd.xfer_allgatherv = (pami_allgatherv_t){
        (char *)numbers, PAMI_TYPE_BYTE, 1, (char *)(numbers + 32), PAMI_TYPE_BYTE, NULL, counts};
    REFUSED(PAMI_XFER_ALLGATHERV, cmd, "rtypecounts");
    counts[job->task] = 1;
    cmd.xfer_allgatherv = (pami_allgatherv_t){
        (char *)numbers, PAMI_TYPE_BYTE, 1, (char *)(numbers + 32), PAMI_TYPE_BYTE, counts, NULL};
    REFUSED(PAMI_XFER_ALLGATHERV, cmd, "displs");
    narrow[job->task] = -1;
    cmd.xfer_allgatherv_int = (pami_allgatherv_int_t){
        (char *)numbers, PAMI_TYPE_BYTE, 1, (char *)(numbers + 32), PAMI_TYPE_BYTE, narrow, narrow};
    REFUSED(PAMI_XFER_ALLGATHERV_INT, cmd, "negative");
    cmd.xfer_reduce_scatter = (pami_reduce_scatter_t){(char *)numbers,        PAMI_TYPE_BYTE, 0,
                                                      (char *)(numbers + 32), PAMI_TYPE_BYTE, NULL,
                                                      PAMI_DATA_SUM,          NULL,           0};
    REFUSED(PAMI_XFER_REDUCE_SCATTER, cmd, "rcounts");
    free(counts);
    free(narrow);
}

/* PAMI_IN_PLACE for a buffer that has no other one to lie in. */
static void out_of_place(struct job *job)
{
    size_t ones[64], places[64];
    size_t other = (job->task + 1) % job->tasks;
    pami_collective_t cmd;

    for (size_t i = 0; i < job->tasks; i++)
        ones[i] = places[i] = 1;
    cmd.xfer_broadcast = (pami_broadcast_t){0, PAMI_IN_PLACE, PAMI_TYPE_BYTE, 1};
    REFUSED(PAMI_XFER_BROADCAST, cmd, "PAMI_IN_PLACE");
    cmd.xfer_allreduce = coll_sum(numbers, PAMI_IN_PLACE, PAMI_TYPE_SIGNED_INT, 1);
    REFUSED(PAMI_XFER_ALLREDUCE, cmd, "PAMI_IN_PLACE");
    cmd.xfer_allgatherv = (pami_allgatherv_t){(char *)numbers, PAMI_TYPE_BYTE, 1,     PAMI_IN_PLACE,
                                              PAMI_TYPE_BYTE,  ones,           places};
    REFUSED(PAMI_XFER_ALLGATHERV, cmd, "PAMI_IN_PLACE");
    for (int i = 0; i < 2; i++) {
        cmd.xfer_reduce_scatter =
            (pami_reduce_scatter_t){.sndbuf = i == 0 ? (char *)numbers : PAMI_IN_PLACE,
                                    .stype = PAMI_TYPE_SIGNED_INT,
                                    .stypecount = job->tasks,
                                    .rcvbuf = PAMI_IN_PLACE,
                                    .rtype = PAMI_TYPE_SIGNED_INT,
                                    .rcounts = ones,
                                    .op = PAMI_DATA_SUM};
        REFUSED(PAMI_XFER_REDUCE_SCATTER, cmd, "PAMI_IN_PLACE");
    }
    if (other == job->task)
        return;
    cmd.xfer_gather = (pami_gather_t){job_endpoint(job, other, 0),
                                      PAMI_IN_PLACE,
                                      PAMI_TYPE_BYTE,
                                      1,
                                      (char *)numbers,
                                      PAMI_TYPE_BYTE,
                                      1};
    REFUSED(PAMI_XFER_GATHER, cmd, "PAMI_IN_PLACE");
    cmd.xfer_gatherv = (pami_gatherv_t){job_endpoint(job, other, 0),
                                        PAMI_IN_PLACE,
                                        PAMI_TYPE_BYTE,
                                        1,
                                        (char *)numbers,
                                        PAMI_TYPE_BYTE,
                                        ones,
                                        places};
    REFUSED(PAMI_XFER_GATHERV, cmd, "PAMI_IN_PLACE");
    cmd.xfer_scatter = (pami_scatter_t){job_endpoint(job, other, 0),
                                        (char *)numbers,
                                        PAMI_TYPE_BYTE,
                                        1,
                                        PAMI_IN_PLACE,
                                        PAMI_TYPE_BYTE,
                                        1};
    REFUSED(PAMI_XFER_SCATTER, cmd, "PAMI_IN_PLACE");
    cmd.xfer_scatterv = (pami_scatterv_t){job_endpoint(job, other, 0),
                                          (char *)numbers,
                                          PAMI_TYPE_BYTE,
                                          ones,
                                          places,
                                          PAMI_IN_PLACE,
                                          PAMI_TYPE_BYTE,
                                          1};
    REFUSED(PAMI_XFER_SCATTERV, cmd, "PAMI_IN_PLACE");
}

/* Blocks of nothing have no type that would matter: of a member, or of all of them. */
static void no_blocks(struct job *job)
{
    struct algorithms all = algorithms_of(world_of(job), PAMI_XFER_REDUCE_SCATTER);
    pami_type_t none = (pami_type_t)job;
    struct told told;

    for (size_t i = 0; i < 3 * all.count[0]; i++) {
        size_t counts[64] = {i % 3 != 0};
        bool nothing = counts[0] == 0, mine = counts[job->task] != 0;
        pami_xfer_t xfer = coll_xfer(all.handle[0][i / 3], &told);

        numbers[0] = 1;
        xfer.cmd.xfer_reduce_scatter =
            (pami_reduce_scatter_t){.sndbuf = nothing ? NULL : (char *)numbers,
                                    .stype = nothing ? none : PAMI_TYPE_SIGNED_INT,
                                    .stypecount = counts[0],
                                    .rcvbuf = mine ? (char *)(numbers + 32) : NULL,
                                    .rtype = mine ? PAMI_TYPE_SIGNED_INT : none,
                                    .rcounts = counts,
                                    .op = PAMI_DATA_SUM};
        coll_run(job, job->context[0], &xfer);
        CHECK(!mine || numbers[32] == (int)job->tasks);
    }
    algorithms_free(&all);
}

/* A type without data makes a call without data, whatever the count; but the result of a
 * reduce_scatter, which has no count of its own, does not fit into it. */
static void no_data(struct job *job)
{
    size_t ones[64];
    pami_collective_t cmd;
    struct told told;
    pami_xfer_t xfer;
    pami_type_t type;

    CHECK_OK(PAMI_Type_create(&type));
    CHECK_OK(PAMI_Type_complete(type, 1));
    xfer = coll_xfer(algorithm_of(world_of(job), PAMI_XFER_BROADCAST), &told);
    xfer.cmd.xfer_broadcast = (pami_broadcast_t){0, NULL, type, 3};
    coll_run(job, job->context[0], &xfer);
    xfer = coll_xfer(algorithm_of(world_of(job), PAMI_XFER_ALLGATHER), &told);
    xfer.cmd.xfer_allgather = (pami_allgather_t){NULL, type, 3, (char *)numbers, PAMI_TYPE_BYTE, 0};
    coll_run(job, job->context[0], &xfer);
    for (size_t i = 0; i < job->tasks; i++)
        ones[i] = 1;
    cmd.xfer_reduce_scatter = (pami_reduce_scatter_t){.sndbuf = (char *)numbers,
                                                      .stype = PAMI_TYPE_SIGNED_INT,
                                                      .stypecount = job->tasks,
                                                      .rcvbuf = (char *)(numbers + 32),
                                                      .rtype = type,
                                                      .rcounts = ones,
                                                      .op = PAMI_DATA_SUM};
    REFUSED(PAMI_XFER_REDUCE_SCATTER, cmd, "rtype");
    CHECK_OK(PAMI_Type_destroy(&type));
}

/* What the check functions say of a reduce of rows that want to be asked is what the call says of
 * it, on each context that has the world. */
static void checked(struct job *job, size_t offset, pami_endpoint_t root, bool admitted)
{
    struct algorithms all = algorithms_of(world_of(job), PAMI_XFER_REDUCE);
    pami_result_t expected = admitted ? PAMI_SUCCESS : PAMI_INVAL;
    struct told told = {.context = job->context[offset]};

    for (size_t i = 0; i < all.count[1]; i++) {
        pami_xfer_t xfer = coll_xfer(all.handle[1][i], &told);

        xfer.cmd.xfer_reduce = (pami_reduce_t){.root = root,
                                               .sndbuf = (char *)numbers,
                                               .stype = PAMI_TYPE_SIGNED_INT,
                                               .stypecount = 4,
                                               .rcvbuf = (char *)(numbers + 32),
                                               .rtype = PAMI_TYPE_SIGNED_INT,
                                               .rtypecount = 4,
                                               .op = PAMI_DATA_SUM};
        CHECK((all.metadata[1][i].check_fn(&xfer).bitmask == 0) == admitted);
        told.count = 0;
        CHECK_RESULT(TEST_CALL(PAMI_Collective(job->context[offset], &xfer)), expected);
        WAIT(job, told.count == (unsigned)admitted);
    }
    algorithms_free(&all);
}

static void checks(struct job *job)
{
    pami_endpoint_t last = job_endpoint(job, job->tasks - 1, 0);

    checked(job, 0, last, true);
    checked(job, 0, last + 1, false); /* nobody */
    checked(job, 1, last, true);
    checked(job, 1, job_endpoint(job, job->tasks - 1, 1), true);
}

/* The last task has another idea of the size. */
static void disagree(struct job *job)
{
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm_of(world_of(job), PAMI_XFER_ALLREDUCE), &told);
    struct algorithms all = algorithms_of(world_of(job), PAMI_XFER_ALLREDUCE);
    size_t count = job->task == job->tasks - 1 && job->tasks > 1 ? 3 : 2;

    for (size_t i = 0; i < all.count[0]; i++)
        if (strstr(all.metadata[0][i].name, "RecursiveDoubling") != NULL)
            xfer.algorithm = all.handle[0][i];
    xfer.cmd.xfer_allreduce = coll_sum(numbers, numbers + 32, PAMI_TYPE_SIGNED_INT, count);
    coll_start(job->context[0], &xfer);
    WAIT(job, told.count != 0);
    CHECK(job->tasks == 1 ? told.result == PAMI_SUCCESS : told.result != PAMI_SUCCESS);
    for (int i = 0; i < 10; i++)
        CHECK(coll_total(job, world_of(job), 1) == (int)job->tasks);
    algorithms_free(&all);
}

int main(void)
{
    struct job job;

    job_start(&job, "coll-refuse", 2);
    handles(&job);
    reductions(&job);
    moves(&job);
    out_of_place(&job);
    no_data(&job);
    no_blocks(&job);
    checks(&job);
    disagree(&job);
    job_finish(&job);
    return 0;
}
