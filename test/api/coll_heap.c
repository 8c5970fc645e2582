/*
 * Long collectives and messages whose buffers are in the shared heap, of all tasks, of some or of
 * none: the results are right. Where the kernel copies nothing between tasks, members reach for
 * each other's memory all the same if all of it is in the heap, and never if none is.
 *
 * Run: tasks=1,2,3,5 timeout=60
 * Run: tasks=4 nodes=2
 * Run: tasks=2 env="PAMI_COLL_SHARED_DIRECT=128K"
 * Run: tasks=2,3 env="PAMI_COLL_SHARED_DIRECT=128K PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_COLL_SHARED_DIRECT=128K PAMI_SHM_SINGLE_COPY=on PAMI_SHM_JOINT_COPY=on"
 * Run: tasks=2 args="all" env="PAMI_COLL_SHARED_DIRECT=128K PAMI_SHM_SINGLE_COPY=off PAMI_STATS=1"
 * Run: tasks=2 args="none" env="PAMI_COLL_SHARED_DIRECT=128K PAMI_SHM_SINGLE_COPY=off PAMI_STATS=1"
 */
#include <pami/pamix.h>

#include "coll.h"
#include "stats.h"

enum {
    ID = 1,
    LARGEST = 1200000, /* bytes of a block */
    EDGE = 64
};

static const size_t sizes[] = {128 << 10, (256 << 10) + 8, LARGEST};

enum where {
    ALL,
    NONE,
    SOME,
    WHERES
};

static struct job job;
static pami_algorithm_t algorithms[PAMI_XFER_COUNT];
static uint64_t *source, *target;
static bool received;

static uint64_t word(size_t seed, size_t from, size_t to, size_t at)
{
    return seed * 1000003 + from * 10007 + to * 101 + at;
}

static void fill(uint64_t *block, size_t words, size_t seed, size_t from, size_t to)
{
    for (size_t i = 0; i < words; i++)
        block[i] = word(seed, from, to, i);
}

static void check(const uint64_t *block, size_t words, size_t seed, size_t from, size_t to)
{
    for (size_t i = 0; i < words; i++)
        if (block[i] != word(seed, from, to, i))
            FAIL("seed %zu, from %zu, to %zu: word %zu", seed, from, to, i);
}

static void check_sum(const uint64_t *block, size_t words, size_t seed)
{
    for (size_t i = 0; i < words; i++) {
        uint64_t sum = 0;

        for (size_t task = 0; task < job.tasks; task++)
            sum += word(seed, task, 0, i);
        if (block[i] != sum)
            FAIL("seed %zu: word %zu", seed, i);
    }
}

static void run(pami_xfer_type_t type, pami_xfer_t *xfer)
{
    xfer->algorithm = algorithms[type];
    coll_run(&job, job.context[0], xfer);
}

static void broadcast(size_t words, size_t seed)
{
    size_t root = seed % job.tasks;
    struct told told;
    pami_xfer_t xfer = coll_xfer(PAMI_ALGORITHM_NULL, &told);

    fill(target, words, job.task == root ? seed : 0, root, 0);
    xfer.cmd.xfer_broadcast = (pami_broadcast_t){job_endpoint(&job, root, 0), (char *)target,
                                                 PAMI_TYPE_UNSIGNED_LONG_LONG, words};
    run(PAMI_XFER_BROADCAST, &xfer);
    check(target, words, seed, root, 0);
}

static void allreduce(size_t words, size_t seed)
{
    bool in_place = seed % 2 == 0;
    struct told told;
    pami_xfer_t xfer = coll_xfer(PAMI_ALGORITHM_NULL, &told);

    fill(in_place ? target : source, words, seed, job.task, 0);
    xfer.cmd.xfer_allreduce =
        coll_sum(in_place ? PAMI_IN_PLACE : source, target, PAMI_TYPE_UNSIGNED_LONG_LONG, words);
    run(PAMI_XFER_ALLREDUCE, &xfer);
    check_sum(target, words, seed);
}

static void gather(size_t words, size_t seed)
{
    size_t root = seed % job.tasks;
    struct told told;
    pami_xfer_t xfer = coll_xfer(PAMI_ALGORITHM_NULL, &told);

    fill(source, words, seed, job.task, 0);
    xfer.cmd.xfer_gather = (pami_gather_t){job_endpoint(&job, root, 0),
                                           (char *)source,
                                           PAMI_TYPE_UNSIGNED_LONG_LONG,
                                           words,
                                           (char *)target,
                                           PAMI_TYPE_UNSIGNED_LONG_LONG,
                                           words};
    run(PAMI_XFER_GATHER, &xfer);
    for (size_t task = 0; task < job.tasks && job.task == root; task++)
        check(target + task * words, words, seed, task, 0);
}

static void scatter(size_t words, size_t seed)
{
    size_t root = seed % job.tasks;
    struct told told;
    pami_xfer_t xfer = coll_xfer(PAMI_ALGORITHM_NULL, &told);

    for (size_t task = 0; task < job.tasks; task++)
        fill(source + task * words, words, seed, job.task, task);
    xfer.cmd.xfer_scatter = (pami_scatter_t){job_endpoint(&job, root, 0),
                                             (char *)source,
                                             PAMI_TYPE_UNSIGNED_LONG_LONG,
                                             words,
                                             (char *)target,
                                             PAMI_TYPE_UNSIGNED_LONG_LONG,
                                             words};
    run(PAMI_XFER_SCATTER, &xfer);
    check(target, words, seed, root, job.task);
}

static void allgather(size_t words, size_t seed)
{
    struct told told;
    pami_xfer_t xfer = coll_xfer(PAMI_ALGORITHM_NULL, &told);

    fill(source, words, seed, job.task, 0);
    xfer.cmd.xfer_allgather =
        (pami_allgather_t){(char *)source, PAMI_TYPE_UNSIGNED_LONG_LONG, words,
                           (char *)target, PAMI_TYPE_UNSIGNED_LONG_LONG, words};
    run(PAMI_XFER_ALLGATHER, &xfer);
    for (size_t task = 0; task < job.tasks; task++)
        check(target + task * words, words, seed, task, 0);
}

static void alltoall(size_t words, size_t seed)
{
    struct told told;
    pami_xfer_t xfer = coll_xfer(PAMI_ALGORITHM_NULL, &told);

    for (size_t task = 0; task < job.tasks; task++)
        fill(source + task * words, words, seed, job.task, task);
    xfer.cmd.xfer_alltoall = (pami_alltoall_t){(char *)source, PAMI_TYPE_UNSIGNED_LONG_LONG, words,
                                               (char *)target, PAMI_TYPE_UNSIGNED_LONG_LONG, words};
    run(PAMI_XFER_ALLTOALL, &xfer);
    for (size_t task = 0; task < job.tasks; task++)
        check(target + task * words, words, seed, task, job.task);
}

static void on_received(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    received = true;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin;
    recv->addr = target;
    recv->local_fn = on_received;
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK(result == PAMI_SUCCESS);
    *(bool *)cookie = true;
}

/* Each to the next one. */
static void message(size_t words, size_t seed)
{
    size_t next = (job.task + 1) % job.tasks, previous = (job.task + job.tasks - 1) % job.tasks;
    bool sent = false;

    job_barrier(&job);
    received = false;
    fill(source, words, seed, job.task, 0);
    job_barrier(&job);
    test_send(job.context[0], job_endpoint(&job, next, 0), ID, NULL, 0, source,
              words * sizeof(uint64_t), (pami_send_event_t){.cookie = &sent, .remote_fn = on_sent});
    WAIT(&job, received && sent);
    check(target, words, seed, previous, 0);
}

static void *buffer(bool heap)
{
    size_t bytes = job.tasks * LARGEST + EDGE;
    void *memory;

    if (!heap)
        return test_alloc(bytes);
    CHECK_OK(PAMIX_Mem_alloc(job.client, bytes, 0, PAMIX_MEM_LOCAL, &memory));
    return memory;
}

static void buffer_free(bool heap, void *memory)
{
    if (heap)
        CHECK_OK(PAMIX_Mem_free(job.client, memory));
    else
        free(memory);
}

static void exercise(enum where where)
{
    void (*const all[])(size_t, size_t) = {broadcast, allreduce, gather, scatter,
                                           allgather, alltoall,  message};
    bool near = where == ALL || (where == SOME && job.task % 2 == 0);
    bool far = where == ALL || (where == SOME && job.task % 3 == 0);

    source = buffer(near);
    target = buffer(far);
    for (size_t seed = 1; seed <= 4; seed++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
                all[k](sizes[i] / sizeof(uint64_t), seed);
    job_barrier(&job); /* nobody reads or writes there any more */
    buffer_free(near, source);
    buffer_free(far, target);
}

int main(int argc, char **argv)
{
    static const pami_xfer_type_t types[] = {PAMI_XFER_BROADCAST, PAMI_XFER_ALLREDUCE,
                                             PAMI_XFER_GATHER,    PAMI_XFER_SCATTER,
                                             PAMI_XFER_ALLGATHER, PAMI_XFER_ALLTOALL};
    const char *only = argc > 1 ? argv[1] : "";
    unsigned long long copied;

    job_start(&job, "coll_heap", 1);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        algorithms[types[i]] = algorithm_of(world_of(&job), types[i]);
    for (int where = 0; where < WHERES; where++)
        if (*only == '\0' || (where == ALL && strcmp(only, "all") == 0) ||
            (where == NONE && strcmp(only, "none") == 0))
            exercise((enum where)where);
    if (*only == '\0') {
        job_finish(&job);
        return 0;
    }
    copied = stats_at_end(&job, job_finish, "single copy: bytes");
    if (strcmp(only, "none") == 0 && copied != 0)
        FAIL("%llu bytes were copied", copied);
    /* Four kinds that each task has a part in: of 1.5 MB together, four times. */
    if (strcmp(only, "all") == 0 && copied < 4 * 4 * 1500000)
        FAIL("only %llu bytes were copied", copied);
    return 0;
}
