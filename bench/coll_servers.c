/*
 * Do communication servers pay in collectives, whose large blocks they fetch (PAMIX_SERVERS_FETCH)?
 * All-to-all and, as leaders' phases are, broadcast and gather, with and without.
 *
 *     pamirun -n N [--nodes K] coll_servers [--servers N] [--min N] [--max N] [--ms N]
 *         [--rounds N] [--split N] [--types N] [--asleep]
 *
 * Prints microseconds of a collective, param being the bytes of a block: TYPE_plain (servers run
 * and have nothing to do), TYPE_servers, TYPE_shared (the context takes turns), TYPE_learn (finds
 * out by itself, and has done so before the clock runs). Contenders take turns, the median is
 * printed. --types: only the first so many. --asleep: a task that waits sleeps, and leaves its
 * processor to servers. Which rows Auto takes is the matter of PAMI_COLL_ALLTOALL and the like.
 */
#include "job.h"

#define ROUNDS_MOST 101
#define SERVERS_MOST 4
#define WARM_UP 20 /* runs in which learning makes its first trials */

enum contender {
    PLAIN,
    SERVERS,
    SHARED,
    LEARN,
    CONTENDERS
};

static const char *const contenders[] = {"plain", "servers", "shared", "learn"};
static const pami_xfer_type_t types[] = {PAMI_XFER_ALLTOALL, PAMI_XFER_BROADCAST, PAMI_XFER_GATHER};
static const char *const names[] = {"alltoall", "broadcast", "gather"};

#define TYPES (sizeof(types) / sizeof(types[0]))

static struct {
    struct job job;
    pami_algorithm_t algorithm[TYPES];
    pamix_servers_t servers;
    char *send, *recv;
    size_t split;
    bool busy, stopped;
} run;

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    job_ok(result, cookie);
    run.busy = false;
}

static void on_stopped(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    job_ok(result, "PAMIX_Servers_stop");
    run.stopped = true;
}

static void one(size_t type, size_t bytes)
{
    pami_endpoint_t root = job_endpoint(&run.job, 0, 0);
    pami_xfer_t xfer;

    memset(&xfer, 0, sizeof(xfer));
    xfer.cb_done = on_done;
    xfer.cookie = (void *)(uintptr_t)names[type];
    xfer.algorithm = run.algorithm[type];
    if (types[type] == PAMI_XFER_ALLTOALL)
        xfer.cmd.xfer_alltoall =
            (pami_alltoall_t){run.send, PAMI_TYPE_BYTE, bytes, run.recv, PAMI_TYPE_BYTE, bytes};
    else if (types[type] == PAMI_XFER_BROADCAST)
        xfer.cmd.xfer_broadcast = (pami_broadcast_t){root, run.recv, PAMI_TYPE_BYTE, bytes};
    else
        xfer.cmd.xfer_gather =
            (pami_gather_t){root, run.send, PAMI_TYPE_BYTE, bytes, run.recv, PAMI_TYPE_BYTE, bytes};
    run.busy = true;
    PAMI_OK(PAMI_Collective(run.job.contexts[0], &xfer));
    while (run.busy)
        job_poll(&run.job);
}

static void choose(enum contender who)
{
    pamix_servers_policy_t policy;

    PAMI_OK(PAMIX_Servers_get_policy(run.servers, &policy));
    policy.operations = who == PLAIN ? 0 : PAMIX_SERVERS_FETCH;
    policy.split = run.split;
    policy.active = who == SHARED;
    policy.learn = who == LEARN;
    PAMI_OK(PAMIX_Servers_set_policy(run.servers, &policy));
}

/* All tasks make `count` of them; microseconds of each, on task 0. */
static double batch(size_t type, size_t bytes, size_t count)
{
    uint64_t begin;

    job_meet(&run.job);
    begin = bench_now();
    for (size_t i = 0; i < count; i++) {
        one(type, bytes);
        if (types[type] != PAMI_XFER_ALLTOALL)
            job_meet(&run.job);
    }
    job_meet(&run.job);
    return (double)(bench_now() - begin) / 1e3 / (double)count;
}

static void cell(size_t type, size_t bytes, double ms, size_t rounds)
{
    static double took[CONTENDERS][ROUNDS_MOST];
    /* The same on all tasks: so many at some 4 GB/s. */
    size_t count = 2 + (size_t)(ms * 1e3 / (20 + (double)bytes * run.job.tasks / 4e3));
    char name[32];

    choose(PLAIN);
    batch(type, bytes, 2);
    choose(LEARN);
    batch(type, bytes, WARM_UP * count);
    for (size_t round = 0; round < rounds; round++)
        for (size_t who = 0; who < CONTENDERS; who++) {
            choose((enum contender)who);
            took[who][round] = batch(type, bytes, count);
        }
    for (size_t who = 0; who < CONTENDERS && run.job.task == 0; who++) {
        snprintf(name, sizeof(name), "%s_%s", names[type], contenders[who]);
        bench_emit(name, bytes, "us", bench_median(took[who], rounds));
    }
}

int main(int argc, char **argv)
{
    size_t count = bench_option(argc, argv, "--servers", 1);
    size_t least = bench_option(argc, argv, "--min", 64 << 10);
    size_t most = bench_option(argc, argv, "--max", 4 << 20);
    size_t rounds = bench_option(argc, argv, "--rounds", 5);
    size_t last = bench_option(argc, argv, "--types", TYPES);
    double ms = (double)bench_option(argc, argv, "--ms", 20);
    pami_geometry_t world;

    if (count == 0 || count > SERVERS_MOST)
        bench_die("--servers: 1 .. %d", SERVERS_MOST);
    if (rounds == 0 || rounds > ROUNDS_MOST)
        bench_die("--rounds: 1 .. %d", ROUNDS_MOST);
    run.split = bench_option(argc, argv, "--split", 64 << 10);
    job_open(&run.job, 1 + count);
    run.job.asleep = bench_flag(argc, argv, "--asleep");
    run.job.ncontexts = 1; /* that this program advances */
    run.send = bench_alloc(most * (size_t)run.job.tasks);
    run.recv = bench_alloc(most * (size_t)run.job.tasks);
    memset(run.send, 1, most * (size_t)run.job.tasks);
    memset(run.recv, 2, most * (size_t)run.job.tasks);
    PAMI_OK(PAMI_Geometry_world(run.job.client, &world));
    for (size_t type = 0; type < TYPES; type++)
        PAMI_OK(PAMI_Geometry_algorithms_query(world, types[type], &run.algorithm[type], NULL, 1,
                                               NULL, NULL, 0));
    PAMI_OK(PAMIX_Servers_create(&run.job.contexts[1], count, NULL, &run.servers));
    PAMI_OK(PAMIX_Servers_start(run.servers));
    for (size_t type = 0; type < TYPES && type < last; type++)
        for (size_t bytes = least; bytes <= most; bytes *= 4)
            cell(type, bytes, ms, rounds);
    job_meet(&run.job);
    PAMI_OK(PAMIX_Servers_stop(run.servers, run.job.contexts[0], on_stopped, NULL));
    while (!run.stopped)
        job_poll(&run.job);
    PAMI_OK(PAMIX_Servers_destroy(&run.servers));
    run.job.ncontexts = 1 + count;
    job_close(&run.job);
    return 0;
}
