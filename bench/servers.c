/*
 * Do communication servers pay? Puts and gets of one task to another, by the task itself and by
 * servers, for sizes x operations outstanding x servers.
 *
 *     pamirun -n 2 [--nodes 2] [--servers K] servers [--servers N] [--min N] [--max N] [--ms N]
 *         [--packets]
 *
 * Measures put_S, get_S, S = 0 .. N servers, and put_learn, get_learn, where N servers run and the
 * policy finds out by itself, and, if pamirun has started server processes, put_process and
 * get_process; param is bytes * 1000 + operations outstanding, the unit million operations per
 * second. S = 0 is PAMI_Put and PAMI_Get without this interface. The target is ordinary memory, and
 * its task sleeps when nothing comes; the source is in the shared heap. --packets: no common memory
 * is used for the data, so that the target takes part.
 *
 * The contenders of one cell take turns, ROUNDS times each; the median is printed.
 */
#include "job.h"

#include <pami/pamix.h>

#define ROUNDS 3
#define WINDOW_MOST 256
#define SERVERS_MOST 4
#define CHECK_EVERY 16 /* operations between two looks at the clock */

enum {
    ADDRESS = JOB_USER
};

static struct {
    struct job job;
    pami_endpoint_t peer;
    unsigned char *target; /* of task 1 */
    unsigned char *local;
    bool known, stopped, packets, processes;
    uint64_t started, ended;
} run;

static void on_address(pami_context_t context, void *cookie, const void *header, size_t header_size,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    memcpy(&run.target, data, sizeof(run.target));
    run.known = true;
}

static void on_ended(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    job_ok(result, "an operation");
    run.ended++;
}

static void on_stopped(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    job_ok(result, "PAMIX_Servers_stop");
    run.stopped = true;
}

static pami_rma_t transfer(size_t bytes)
{
    pami_rma_t rma = {.dest = run.peer, .bytes = bytes};

    if (run.packets)
        rma.hints.use_shmem = PAMI_HINT_DISABLE;
    return rma;
}

static void put(pamix_servers_t servers, size_t at, size_t bytes)
{
    pami_put_simple_t call = {
        .rma = transfer(bytes), .addr = {run.local + at, run.target + at}, .put = {on_ended}};

    if (servers == NULL) {
        PAMI_OK(PAMI_Put(run.job.contexts[0], &call));
        return;
    }
    while (PAMIX_Servers_put(servers, run.job.contexts[0], &call, 0) == PAMI_EAGAIN)
        job_poll_one(run.job.contexts[0]);
}

static void get(pamix_servers_t servers, size_t at, size_t bytes)
{
    pami_get_simple_t call = {.rma = transfer(bytes), .addr = {run.local + at, run.target + at}};

    call.rma.done_fn = on_ended;
    if (servers == NULL) {
        PAMI_OK(PAMI_Get(run.job.contexts[0], &call));
        return;
    }
    while (PAMIX_Servers_get(servers, run.job.contexts[0], &call, 0) == PAMI_EAGAIN)
        job_poll_one(run.job.contexts[0]);
}

/* Million operations per second, with `window` of them outstanding. */
static double rate(bool puts, pamix_servers_t servers, size_t bytes, size_t window, size_t ms)
{
    uint64_t begin = bench_now(), until = begin + ms * 1000000, now = begin;
    uint64_t before = run.ended;

    while (now < until) {
        for (size_t i = 0; i < CHECK_EVERY; i++) {
            size_t at = run.started % window * bytes;

            while (run.started - run.ended >= window)
                job_poll_one(run.job.contexts[0]);
            run.started++;
            if (puts)
                put(servers, at, bytes);
            else
                get(servers, at, bytes);
        }
        now = bench_now();
    }
    while (run.ended != run.started)
        job_poll_one(run.job.contexts[0]);
    return (double)(run.ended - before) * 1e3 / (double)(bench_now() - begin);
}

/* Contender i of a cell with up to `count` servers, see cell(); the client alone: NULL. */
static pamix_servers_t start(size_t i, size_t count)
{
    pamix_servers_t servers = NULL;
    pamix_servers_policy_t policy;

    if (i == 0)
        return NULL;
    if (i == count + 2)
        PAMI_OK(PAMIX_Servers_attach(run.job.client, NULL, &servers));
    else
        PAMI_OK(PAMIX_Servers_create(&run.job.contexts[1], i < count ? i : count, NULL, &servers));
    PAMI_OK(PAMIX_Servers_get_policy(servers, &policy));
    policy.learn = i == count + 1;
    PAMI_OK(PAMIX_Servers_set_policy(servers, &policy));
    PAMI_OK(PAMIX_Servers_start(servers));
    return servers;
}

static void stop(pamix_servers_t servers)
{
    if (servers == NULL)
        return;
    run.stopped = false;
    PAMI_OK(PAMIX_Servers_stop(servers, run.job.contexts[0], on_stopped, NULL));
    while (!run.stopped)
        job_poll_one(run.job.contexts[0]);
    PAMI_OK(PAMIX_Servers_destroy(&servers));
}

static void name_contender(char *name, size_t size, bool puts, size_t i, size_t count)
{
    if (i <= count)
        snprintf(name, size, "%s_%zu", puts ? "put" : "get", i);
    else
        snprintf(name, size, "%s_%s", puts ? "put" : "get", i == count + 1 ? "learn" : "process");
}

/* One size and number outstanding, all contenders: 0 .. count servers, learning, processes. */
static void cell(bool puts, size_t count, size_t bytes, size_t window, size_t ms)
{
    double rates[SERVERS_MOST + 3][ROUNDS];
    size_t contenders = count + 2 + run.processes;
    char name[32];

    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < contenders; i++) {
            pamix_servers_t servers = start(i, count);

            rates[i][round] = rate(puts, servers, bytes, window, ms);
            stop(servers);
        }
    }
    for (size_t i = 0; i < contenders; i++) {
        name_contender(name, sizeof(name), puts, i, count);
        bench_emit(name, bytes * 1000 + window, "M/s", bench_median(rates[i], ROUNDS));
    }
}

static void share_address(size_t bytes)
{
    unsigned char *window = bench_alloc(bytes);
    void *local;

    job_dispatch(&run.job, ADDRESS, on_address, NULL);
    job_meet(&run.job);
    PAMI_OK(PAMIX_Mem_alloc(run.job.client, bytes, 0, PAMIX_MEM_ANY, &local));
    run.local = memset(local, 1, bytes);
    run.peer = job_endpoint(&run.job, 1 - run.job.task, 0);
    job_send(&run.job, 0, ADDRESS, run.peer, &window, sizeof(window));
    while (!run.known)
        job_poll(&run.job);
    job_meet(&run.job);
}

/* The target: leaves its core alone while there is nothing to do. */
static void serve(void)
{
    run.known = false;
    while (!run.known) {
        PAMIX_Context_wait(run.job.contexts[0], 100000);
        job_poll(&run.job);
    }
}

int main(int argc, char **argv)
{
    static const size_t windows[] = {1, 8, 64, 256};
    size_t count = bench_option(argc, argv, "--servers", 2);
    size_t most = bench_option(argc, argv, "--max", 65536);
    size_t ms = bench_option(argc, argv, "--ms", 20);

    if (count == 0 || count > SERVERS_MOST)
        bench_die("--servers: 1 .. %d", SERVERS_MOST);
    run.packets = bench_flag(argc, argv, "--packets");
    job_open(&run.job, 1 + count);
    job_need_tasks(&run.job, 2);
    share_address(WINDOW_MOST * most);
    run.job.ncontexts = 1;     /* that this program advances */
    stop(start(count, count)); /* the first start decides how many threads there are */
    pamix_servers_t processes;
    run.processes = PAMIX_Servers_attach(run.job.client, NULL, &processes) == PAMI_SUCCESS;
    if (run.processes)
        PAMI_OK(PAMIX_Servers_destroy(&processes));
    if (run.job.task != 0)
        serve();
    else
        for (size_t bytes = bench_option(argc, argv, "--min", 8); bytes <= most; bytes *= 8)
            for (size_t w = 0; w < sizeof(windows) / sizeof(windows[0]); w++) {
                cell(true, count, bytes, windows[w], ms);
                cell(false, count, bytes, windows[w], ms);
            }
    if (run.job.task == 0)
        job_send(&run.job, 0, ADDRESS, run.peer, &run.target, sizeof(run.target));
    job_meet(&run.job);
    run.job.ncontexts = 1 + count;
    job_close(&run.job);
    return 0;
}
