/*
 * Do communication servers pay? Puts and gets of one task to another, by the task itself and by
 * servers, for sizes x operations outstanding x servers.
 *
 *     pamirun -n 2 [--nodes 2] [--servers K] servers [--servers N] [--min N] [--max N] [--ms N]
 *         [--step N] [--rounds N] [--split N] [--learn] [--warm MS] [--heap] [--packets]
 *         [--messages]
 *
 * Measures put_S, get_S, S = 0 .. N servers; put_active, get_active, where N servers run and the
 * client takes its turn; and, if pamirun has started server processes, put_process and get_process;
 * param is bytes * 1000 + operations outstanding, the unit million operations per second. S = 0 is
 * PAMI_Put and PAMI_Get without this interface. The target is ordinary memory, or, with --heap, in
 * the shared heap, and its task sleeps when nothing comes; the source is in the shared heap.
 * --packets: no common memory is used for the data, so that the target takes part.
 *
 * --learn: what is lost, or won, when the policy finds out by itself. For puts, gets, messages,
 * which count when they have been received, and immediate messages, of which the target
 * acknowledges each 16, or half of those outstanding, with one of its own; --messages: only for the
 * last two. Immediate messages end at 64 bytes.
 *     _0      as above
 *     _null   the same again: what two runs of the same thing differ by
 *     _idle   the same while servers run
 *     _learn  learning, for WARM ms before the clock runs
 * and the last three divided by _0 of the same round, as _null_part and so on; _forwarded is the
 * part of learning's requests that went to servers while the clock ran.
 *
 * The contenders of one cell take turns, in an order that rotates, ROUNDS times each; medians are
 * printed. A turn takes MS ms, or as long as four times the operations outstanding, if that is
 * longer: learning must not be interrupted all the time.
 */
#include "job.h"

#include <pami/pamix.h>

#define ROUNDS_MOST 101
#define WINDOW_MOST 256
#define SPAN ((size_t)8 << 20) /* bytes of memory that the operations of a run go over */
#define SERVERS_MOST 4
#define CHECK_EVERY 16 /* operations between two looks at the clock */
#define TURN_LEAST 4   /* operations of a turn, for each that is outstanding */

enum what {
    PLAIN,
    SERVERS,
    ACTIVE, /* the client takes its turn */
    IDLE,
    LEARN,
    PROCESS
};

struct contender {
    char name[12];
    enum what what;
    size_t servers;
    double rates[ROUNDS_MOST], parts[ROUNDS_MOST];
};

enum {
    ADDRESS = JOB_USER,
    DATA,
    NOW,
    ACK
};

enum operation {
    PUT,
    GET,
    SEND,
    IMMEDIATE
};

#define IMMEDIATE_MOST ((size_t)64) /* bytes */

static const char *const names[] = {"put", "get", "send", "immediate"};

static struct {
    struct job job;
    pami_endpoint_t peer;
    unsigned char *target; /* of task 1 */
    unsigned char *local, *own;
    bool known, stopped, packets, learns;
    uint64_t started, ended;
    uint8_t ack; /* immediate messages that the target acknowledges at once */
    uint8_t got; /* of those, by now */
    size_t split, rounds, count, warm;
    struct contender contenders[SERVERS_MOST + 3];
    size_t contender_count;
    pamix_servers_t learning; /* knows what it has found as long as it lives */
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

static void on_data(pami_context_t context, void *cookie, const void *header, size_t header_size,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    (void)data;
    if (recv == NULL)
        return;
    memset(recv, 0, sizeof(*recv));
    recv->type = PAMI_TYPE_BYTE;
    recv->addr = run.own;
}

static void on_now(pami_context_t context, void *cookie, const void *header, size_t header_size,
                   const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    (void)data;
    if (++run.got < *(const uint8_t *)header)
        return;
    job_send(&run.job, 0, ACK, run.peer, &run.got, sizeof(run.got));
    run.got = 0;
}

static void on_ack(pami_context_t context, void *cookie, const void *header, size_t header_size,
                   const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    run.ended += *(const uint8_t *)data;
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

static void send(pamix_servers_t servers, size_t at, size_t bytes)
{
    pami_send_t call = {.send = {.dispatch = DATA, .dest = run.peer},
                        .events = {.remote_fn = on_ended}};

    call.send.data.iov_base = run.local + at;
    call.send.data.iov_len = bytes;
    if (servers == NULL) {
        PAMI_OK(PAMI_Send(run.job.contexts[0], &call));
        return;
    }
    while (PAMIX_Servers_send(servers, run.job.contexts[0], &call, 0) == PAMI_EAGAIN)
        job_poll_one(run.job.contexts[0]);
}

static void send_immediate(pamix_servers_t servers, size_t at, size_t bytes)
{
    pami_send_immediate_t call = {.dispatch = NOW, .dest = run.peer};

    call.header.iov_base = &run.ack;
    call.header.iov_len = sizeof(run.ack);
    call.data.iov_base = run.local + at;
    call.data.iov_len = bytes;
    if (servers == NULL) {
        PAMI_OK(PAMI_Send_immediate(run.job.contexts[0], &call));
        return;
    }
    while (PAMIX_Servers_send_immediate(servers, run.job.contexts[0], &call, 0) == PAMI_EAGAIN)
        job_poll_one(run.job.contexts[0]);
}

static void operate(enum operation operation, pamix_servers_t servers, size_t at, size_t bytes)
{
    if (operation == PUT)
        put(servers, at, bytes);
    else if (operation == GET)
        get(servers, at, bytes);
    else if (operation == SEND)
        send(servers, at, bytes);
    else
        send_immediate(servers, at, bytes);
}

/* Million operations per second, with `window` of them outstanding. */
static double rate(enum operation operation, pamix_servers_t servers, size_t bytes, size_t window,
                   size_t ms)
{
    uint64_t begin = bench_now(), until = begin + ms * 1000000, now = begin;
    uint64_t before = run.ended, least = run.started + TURN_LEAST * window;
    size_t places = window * bytes <= SPAN ? window : SPAN / bytes;

    run.ack = (uint8_t)(window >= 2 * CHECK_EVERY ? CHECK_EVERY : (window + 1) / 2);
    while (now < until || run.started < least) {
        for (size_t i = 0; i < CHECK_EVERY; i++) {
            size_t at = run.started % places * bytes;

            while (run.started - run.ended >= window)
                job_poll_one(run.job.contexts[0]);
            run.started++;
            operate(operation, servers, at, bytes);
        }
        now = bench_now();
    }
    while (run.ended != run.started)
        job_poll_one(run.job.contexts[0]);
    return (double)(run.ended - before) * 1e3 / (double)(bench_now() - begin);
}

static pamix_servers_t create(enum what what, size_t count)
{
    pamix_servers_t servers;
    pamix_servers_policy_t policy;

    PAMI_OK(PAMIX_Servers_create(&run.job.contexts[what == LEARN ? 1 + run.count : 1], count, NULL,
                                 &servers));
    PAMI_OK(PAMIX_Servers_get_policy(servers, &policy));
    policy.split = run.split;
    policy.active = what == ACTIVE;
    policy.learn = what == LEARN;
    PAMI_OK(PAMIX_Servers_set_policy(servers, &policy));
    return servers;
}

static pamix_servers_t start(const struct contender *contender)
{
    pamix_servers_t servers = NULL;

    if (contender->what == PLAIN)
        return NULL;
    if (contender->what == PROCESS)
        PAMI_OK(PAMIX_Servers_attach(run.job.client, NULL, &servers));
    else if (contender->what == LEARN)
        servers = run.learning;
    else
        servers = create(contender->what, contender->servers);
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
    if (servers != run.learning)
        PAMI_OK(PAMIX_Servers_destroy(&servers));
}

static void add_contender(const char *name, enum what what, size_t servers)
{
    struct contender *contender = &run.contenders[run.contender_count++];

    snprintf(contender->name, sizeof(contender->name), "%s", name);
    contender->what = what;
    contender->servers = servers;
}

/* The plain one first: the others are compared with it. */
static void add_contenders(bool processes)
{
    char name[12];

    add_contender("0", PLAIN, 0);
    if (run.learns) {
        add_contender("null", PLAIN, 0);
        add_contender("idle", IDLE, run.count);
        add_contender("learn", LEARN, run.count);
        return;
    }
    for (size_t i = 1; i <= run.count; i++) {
        snprintf(name, sizeof(name), "%zu", i);
        add_contender(name, SERVERS, i);
    }
    add_contender("active", ACTIVE, run.count);
    if (processes)
        add_contender("process", PROCESS, 0);
}

static void emit(enum operation operation, const char *name, const char *what, size_t param,
                 const char *unit, double value)
{
    char text[40];

    snprintf(text, sizeof(text), "%s_%s%s", names[operation], name, what);
    bench_emit(text, param, unit, value);
}

static void emit_cell(enum operation operation, size_t param)
{
    struct contender *plain = &run.contenders[0];

    for (size_t i = 0; i < run.contender_count; i++)
        for (size_t round = 0; round < run.rounds; round++)
            run.contenders[i].parts[round] = run.contenders[i].rates[round] / plain->rates[round];
    for (size_t i = 0; i < run.contender_count; i++) {
        struct contender *c = &run.contenders[i];

        emit(operation, c->name, "", param, "M/s", bench_median(c->rates, run.rounds));
        if (run.learns && c != plain)
            emit(operation, c->name, "_part", param, "1", bench_median(c->parts, run.rounds));
    }
}

/* One size and number outstanding, all contenders. */
static void cell(enum operation operation, size_t bytes, size_t window, size_t ms)
{
    pamix_servers_status_t before = {0}, after = {0};

    if (run.learns) {
        run.learning = create(LEARN, run.count);
        PAMI_OK(PAMIX_Servers_start(run.learning));
        rate(operation, run.learning, bytes, window, run.warm);
        stop(run.learning);
        PAMI_OK(PAMIX_Servers_query(run.learning, PAMIX_SERVERS_ALL, &before));
    }
    for (size_t round = 0; round < run.rounds; round++)
        for (size_t i = 0; i < run.contender_count; i++) {
            struct contender *contender = &run.contenders[(i + round) % run.contender_count];
            pamix_servers_t servers = start(contender);

            contender->rates[round] =
                rate(operation, contender->what == IDLE ? NULL : servers, bytes, window, ms);
            stop(servers);
        }
    emit_cell(operation, bytes * 1000 + window);
    if (!run.learns)
        return;
    PAMI_OK(PAMIX_Servers_query(run.learning, PAMIX_SERVERS_ALL, &after));
    after.forwarded -= before.forwarded;
    emit(operation, "forwarded", "", bytes * 1000 + window, "1",
         (double)after.forwarded / (double)(after.forwarded + after.direct - before.direct));
    PAMI_OK(PAMIX_Servers_destroy(&run.learning));
}

static void *alloc_shared(size_t bytes)
{
    void *memory;

    PAMI_OK(PAMIX_Mem_alloc(run.job.client, bytes, 0, PAMIX_MEM_ANY, &memory));
    return memory;
}

static void share_address(size_t bytes, bool heap)
{
    run.own = memset(heap ? alloc_shared(bytes) : bench_alloc(bytes), 2, bytes);
    job_dispatch(&run.job, DATA, on_data, NULL);
    job_dispatch(&run.job, NOW, on_now, NULL);
    job_dispatch(&run.job, ACK, on_ack, NULL);
    job_dispatch(&run.job, ADDRESS, on_address, NULL);
    job_meet(&run.job);
    run.local = memset(alloc_shared(bytes), 1, bytes);
    run.peer = job_endpoint(&run.job, 1 - run.job.task, 0);
    job_send(&run.job, 0, ADDRESS, run.peer, &run.own, sizeof(run.own));
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

static void measure(int argc, char **argv)
{
    static const size_t windows[] = {1, 8, 64, WINDOW_MOST};
    size_t most = bench_option(argc, argv, "--max", 65536);
    size_t ms = bench_option(argc, argv, "--ms", 20);
    size_t step = bench_option(argc, argv, "--step", 8);
    bool messages = bench_flag(argc, argv, "--messages");

    for (size_t bytes = bench_option(argc, argv, "--min", 8); bytes <= most; bytes *= step)
        for (size_t w = 0; w < sizeof(windows) / sizeof(windows[0]); w++) {
            if (!messages) {
                cell(PUT, bytes, windows[w], ms);
                cell(GET, bytes, windows[w], ms);
            }
            if (run.learns)
                cell(SEND, bytes, windows[w], ms);
            if (run.learns && bytes <= IMMEDIATE_MOST)
                cell(IMMEDIATE, bytes, windows[w], ms);
        }
}

int main(int argc, char **argv)
{
    size_t count = bench_option(argc, argv, "--servers", 2), contexts;
    pamix_servers_t servers;
    bool processes;

    run.rounds = bench_option(argc, argv, "--rounds", 3);
    run.split = bench_option(argc, argv, "--split", 256 << 10);
    if (count == 0 || count > SERVERS_MOST)
        bench_die("--servers: 1 .. %d", SERVERS_MOST);
    if (run.rounds == 0 || run.rounds > ROUNDS_MOST)
        bench_die("--rounds: 1 .. %d", ROUNDS_MOST);
    if (bench_option(argc, argv, "--max", 65536) > SPAN ||
        bench_option(argc, argv, "--step", 8) < 2)
        bench_die("--max: at most %zu; --step: at least 2", SPAN);
    run.count = count;
    run.packets = bench_flag(argc, argv, "--packets");
    run.learns = bench_flag(argc, argv, "--learn");
    run.warm = bench_option(argc, argv, "--warm", 200);
    contexts = 1 + (run.learns ? 2 : 1) * count; /* the servers that learn stay */
    job_open(&run.job, contexts);
    job_need_tasks(&run.job, 2);
    share_address(SPAN, bench_flag(argc, argv, "--heap"));
    run.job.ncontexts = 1;            /* that this program advances */
    servers = create(SERVERS, count); /* the first start decides how many threads there are */
    PAMI_OK(PAMIX_Servers_start(servers));
    stop(servers);
    processes = PAMIX_Servers_attach(run.job.client, NULL, &servers) == PAMI_SUCCESS;
    if (processes)
        PAMI_OK(PAMIX_Servers_destroy(&servers));
    add_contenders(processes);
    if (run.job.task != 0)
        serve();
    else
        measure(argc, argv);
    if (run.job.task == 0)
        job_send(&run.job, 0, ADDRESS, run.peer, &run.target, sizeof(run.target));
    job_meet(&run.job);
    run.job.ncontexts = contexts;
    job_close(&run.job);
    return 0;
}
