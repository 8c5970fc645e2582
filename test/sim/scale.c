/*
 * Very many tasks: a token goes once around, then everybody exchanges with both neighbours. Says
 * what a task costs and how fast it goes.
 *
 * Run: args="--tasks 10000"
 * Run: args="--tasks 100000" timeout=240
 */
#include "cost.h"
#include "sim_test.h"

#define TOKEN 1
#define EXCHANGE 2
#define ROUNDS 5
#define PAYLOAD 64

/* Measured 2026-11-21: see doc/sim.md. */
#define IDLE_BYTES_MOST 16384

struct task {
    struct ring *ring;
    uint32_t self;
    uint32_t round;  /* that it is in */
    uint32_t got[2]; /* messages from the left and from the right */
};

struct ring {
    struct sim_job job;
    struct task *task;
    size_t hops;
    size_t finished;
};

static void send_to(struct task *task, uint32_t to, size_t id, uint32_t number)
{
    char data[PAYLOAD] = {0};
    pami_send_immediate_t send = {
        .header = {.iov_base = &number, .iov_len = sizeof(number)},
        .data = {.iov_base = data, .iov_len = sizeof(data)},
        .dispatch = id,
        .dest = to,
    };

    CALL(PAMI_Send_immediate(task->ring->job.context[task->self], &send));
}

static void on_token(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t data_bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct task *task = cookie;
    struct ring *ring = task->ring;
    uint32_t hops;

    (void)data;
    (void)recv;
    CHECK(context == ring->job.context[task->self]);
    CHECK(header_bytes == sizeof(hops) && data_bytes == PAYLOAD);
    CHECK(origin == (task->self + ring->job.tasks - 1) % ring->job.tasks);
    memcpy(&hops, header, sizeof(hops));
    CHECK(hops == ring->hops);
    ring->hops++;
    if (task->self != 0)
        send_to(task, (uint32_t)((task->self + 1) % ring->job.tasks), TOKEN, hops + 1);
}

static void exchange(struct task *task)
{
    size_t tasks = task->ring->job.tasks;

    send_to(task, (uint32_t)((task->self + 1) % tasks), EXCHANGE, task->round << 1);
    send_to(task, (uint32_t)((task->self + tasks - 1) % tasks), EXCHANGE, task->round << 1 | 1);
}

/* A neighbour may be one round ahead. */
static void on_exchange(pami_context_t context, void *cookie, const void *header,
                        size_t header_bytes, const void *data, size_t data_bytes,
                        pami_endpoint_t origin, pami_recv_t *recv)
{
    struct task *task = cookie;
    uint32_t number;

    (void)context;
    (void)data;
    (void)data_bytes;
    (void)origin;
    (void)recv;
    CHECK(header_bytes == sizeof(number));
    memcpy(&number, header, sizeof(number));
    CHECK(task->got[number & 1] == number >> 1);
    task->got[number & 1]++;
    while (task->round < ROUNDS && task->got[0] > task->round && task->got[1] > task->round) {
        if (++task->round == ROUNDS)
            task->ring->finished++;
        else
            exchange(task);
    }
}

static void prepare(struct ring *ring, size_t tasks)
{
    const pami_dispatch_hint_t hints = {0};
    pami_dispatch_callback_function token = {.p2p = on_token}, other = {.p2p = on_exchange};
    pamix_sim_config_t config;

    PAMIX_Sim_default(&config);
    config.contexts = 1;
    job_create(&ring->job, &config, tasks, 1);
    for (size_t i = 0; i < tasks; i++) {
        ring->task[i] = (struct task){.ring = ring, .self = (uint32_t)i};
        CALL(PAMI_Dispatch_set(ring->job.context[i], TOKEN, token, &ring->task[i], hints));
        CALL(PAMI_Dispatch_set(ring->job.context[i], EXCHANGE, other, &ring->task[i], hints));
    }
}

/* Runs until all is quiet and says how fast that was. */
static void settle(const struct ring *ring, const char *what)
{
    uint64_t events = job_counters(&ring->job).events;
    double start = test_now();
    double virtual = PAMIX_Sim_time(ring->job.client[0]);
    double seconds;

    job_settle(&ring->job);
    seconds = test_now() - start;
    events = job_counters(&ring->job).events - events;
    printf("%s: %" PRIu64 " events, %.3f s, %.2f million events/s, %.6f s of virtual time\n", what,
           events, seconds, (double)events / seconds * 1e-6,
           PAMIX_Sim_time(ring->job.client[0]) - virtual);
}

static void run(size_t tasks)
{
    struct ring ring = {.hops = 0};
    size_t before, idle, busy;
    double start = test_now();

    ring.task = calloc(tasks, sizeof(*ring.task));
    CHECK(ring.task != NULL);
    before = resident_bytes();
    prepare(&ring, tasks);
    idle = (resident_bytes() - before) / tasks;
    printf("%zu tasks made in %.3f s, %zu bytes each\n", tasks, test_now() - start, idle);
#ifndef __SANITIZE_ADDRESS__
    CHECK(idle <= IDLE_BYTES_MOST);
#endif
    send_to(&ring.task[0], (uint32_t)(1 % tasks), TOKEN, 0);
    settle(&ring, "token");
    CHECK(ring.hops == tasks);
    for (size_t i = 0; i < tasks; i++)
        exchange(&ring.task[i]);
    settle(&ring, "exchange");
    CHECK(ring.finished == tasks);
    busy = (resident_bytes() - before) / tasks;
    start = test_now();
    job_destroy(&ring.job);
    printf("%zu bytes each after that; gone in %.3f s\n", busy, test_now() - start);
    free(ring.task);
}

int main(int argc, char **argv)
{
    struct test_arguments arguments = test_arguments(argc, argv, 1);
    size_t tasks = arguments.tasks != 0 ? arguments.tasks : 10000;

    if (available_bytes() < tasks * (size_t)32768) {
        printf("skip: %zu tasks need up to %zu MiB\n", tasks, tasks / 32);
        return 77;
    }
    run(tasks);
    return 0;
}
