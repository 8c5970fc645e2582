/*
 * Communication servers: several threads, each with a context of its own, make requests to all
 * contexts of all tasks at once. Ordered messages arrive in order whatever carries them, also over
 * a stop; callbacks run exactly once, on the context that asked; fences cover what servers carry;
 * servers start and stop under load; every policy keeps all of that.
 *
 * Run: tasks=1,2,3 timeout=120
 * Run: tasks=4 nodes=2 args="2 1" timeout=120
 * Run: tasks=2 args="1 3" env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 args="2 2" env="PAMI_ASYNC_CPUS=0"
 *
 * With 0 for their number, servers are the processes that the launcher has started:
 * Run: tasks=1,3 servers=1 args="2 0" timeout=120
 * Run: tasks=4 nodes=2 servers=2 args="1 0" timeout=120
 * Run: tasks=2 servers=3 args="2 0" env="PAMI_SERVERS_DOMAINS=2" timeout=120
 * Run: tasks=2 servers=1 args="1 0" env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 */
#define TEST_LIMIT 40 /* many threads */
#include "servers.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    THREADS_MAX = 4,
    MESSAGE_ID = 7,
    BIG = 40000,
    MESSAGES = 60, /* to each context, per phase */
    PUTS = 40,
    PUT_BYTES = 5000
};

struct header {
    uint32_t task, thread, number, bytes;
};

/* What one context has received, by origin; the context's owner's. */
struct reception {
    uint32_t next[16][THREADS_MAX];
    size_t count, complete;
    unsigned char *buffer;
};

/* A thread's books. */
struct worker {
    size_t index;
    pami_context_t context;
    struct reception reception;
    uint32_t sent[16][THREADS_MAX];
    size_t local, remote;
    size_t due; /* messages, so far */
};

/* One request's callbacks. */
struct expect {
    struct worker *worker;
    unsigned first, second;
    pami_result_t result;
};

static struct job job;
static size_t threads = 2, servers_count = 2;
static bool processes;
static pamix_servers_t servers;
static struct worker workers[THREADS_MAX];
static unsigned char *window, **windows;
static atomic_size_t arrived[64];
static unsigned char pattern[BIG + 256];

static void advance_own(struct worker *worker)
{
    test_advance(worker->context, 20);
}

/* All threads of all tasks; thread 0 speaks to the other tasks. */
static void meet(struct worker *worker, size_t point)
{
    atomic_fetch_add(&arrived[2 * point], 1);
    WAIT_WITH(advance_own(worker), atomic_load(&arrived[2 * point]) == threads);
    if (worker->index == 0) {
        job_barrier(&job);
        atomic_store(&arrived[2 * point + 1], 1);
    }
    WAIT_WITH(advance_own(worker), atomic_load(&arrived[2 * point + 1]) == 1);
}

static struct worker *worker_of(pami_context_t context)
{
    for (size_t i = 0; i < threads; i++)
        if (job.context[i] == context)
            return &workers[i];
    FAIL("a callback runs on a context of a server");
}

/* ---- messages ---- */

static void on_received(pami_context_t context, void *cookie, pami_result_t result)
{
    CHECK(result == PAMI_SUCCESS && cookie != NULL);
    worker_of(context)->reception.complete++;
    free(cookie);
}

static void on_message(pami_context_t context, void *cookie, const void *head, size_t head_bytes,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct worker *worker = worker_of(context);
    struct header header;

    (void)cookie;
    CHECK_CALLBACK();
    CHECK_SIZE(head_bytes, sizeof header);
    memcpy(&header, head, sizeof header);
    if (test_origin(origin) < job.tasks)
        CHECK_SIZE(test_origin(origin), header.task);
    else
        CHECK(processes);
    CHECK_SIZE(header.bytes, bytes);
    CHECK_SIZE(header.number, worker->reception.next[header.task][header.thread]);
    worker->reception.next[header.task][header.thread]++;
    worker->reception.count++;
    if (recv == NULL) {
        CHECK(bytes == 0 || memcmp(data, pattern + header.number % 256, bytes) == 0);
        worker->reception.complete++;
        return;
    }
    memset(recv, 0, sizeof *recv);
    recv->type = PAMI_TYPE_BYTE;
    recv->addr = test_alloc(bytes);
    recv->local_fn = on_received;
    recv->cookie = recv->addr;
}

static void on_local(pami_context_t context, void *cookie, pami_result_t result)
{
    struct worker *worker = cookie;

    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS && context == worker->context);
    worker->local++;
}

static void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    struct worker *worker = cookie;

    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS && context == worker->context);
    worker->remote++;
}

static void send_one(struct worker *worker, size_t task, size_t offset, size_t *local,
                     size_t *remote)
{
    static const uint32_t sizes[] = {0, 8, 100, 700, 5000, BIG};
    uint32_t number = worker->sent[task][offset]++;
    uint32_t bytes = sizes[(number * 7 + worker->index) % 6];
    struct header header = {(uint32_t)job.task, (uint32_t)worker->index, number, bytes};
    pami_send_t message = {
        .send = test_message(job_endpoint(&job, task, offset), MESSAGE_ID, &header, sizeof header,
                             pattern + number % 256, bytes),
    };

    if (bytes > 100 || number % 3 == 0) {
        message.events = (pami_send_event_t){.cookie = worker, .local_fn = on_local};
        *local += 1;
        if (number % 4 == 0) {
            message.events.remote_fn = on_remote;
            *remote += 1;
        }
    }
    if (message.events.local_fn == NULL && number % 2 == 0 && bytes <= 100)
        SERVERS_REQUEST(advance_own(worker),
                        PAMIX_Servers_send_immediate(servers, worker->context, &message.send,
                                                     PAMIX_SERVERS_ORDERED));
    else
        SERVERS_REQUEST(advance_own(worker), PAMIX_Servers_send(servers, worker->context, &message,
                                                                PAMIX_SERVERS_ORDERED));
    memset(&message, 0x5a, sizeof message);
    memset(&header, 0x5a, sizeof header);
}

/* With `stop`, thread 0 stops the servers half way. */
static void messages(struct worker *worker, bool stop, size_t point)
{
    size_t local = 0, remote = 0;
    bool stopped = !stop;

    worker->due += MESSAGES * job.tasks * threads;
    worker->local = worker->remote = 0;
    for (size_t i = 0; i < MESSAGES; i++) {
        if (stop && worker->index == 0 && i == MESSAGES / 2)
            CHECK_OK(
                TEST_CALL(PAMIX_Servers_stop(servers, worker->context, rma_on_fence, &stopped)));
        for (size_t task = 0; task < job.tasks; task++)
            for (size_t offset = 0; offset < threads; offset++)
                send_one(worker, task, offset, &local, &remote);
        if (i % 8 == 0)
            advance_own(worker);
    }
    WAIT_WITH(advance_own(worker), worker->local == local && worker->remote == remote);
    WAIT_WITH(advance_own(worker), worker->reception.count == worker->due &&
                                       worker->reception.complete == worker->reception.count);
    if (worker->index == 0)
        WAIT_WITH(advance_own(worker), stopped);
    meet(worker, point);
    CHECK_SIZE(worker->local, local);
    CHECK_SIZE(worker->remote, remote);
}

/* ---- puts, gets, fences ---- */

static void on_first(pami_context_t context, void *cookie, pami_result_t result)
{
    struct expect *expect = cookie;

    CHECK_CALLBACK();
    CHECK(context == expect->worker->context && expect->first == 0 && expect->second == 0);
    expect->first++;
    expect->result = result;
}

static void on_second(pami_context_t context, void *cookie, pami_result_t result)
{
    struct expect *expect = cookie;

    CHECK_CALLBACK();
    CHECK(context == expect->worker->context && expect->first == 1 && expect->second == 0);
    CHECK(result == expect->result);
    expect->second++;
}

static size_t place(const struct worker *worker, size_t task, size_t i)
{
    (void)task;
    return ((job.task * threads + worker->index) * PUTS + i) * PUT_BYTES;
}

static size_t length(size_t i)
{
    return i % 5 == 0 ? PUT_BYTES : 1 + i * 37 % 900;
}

static void request(struct worker *worker, pami_put_simple_t *put, pami_get_simple_t *get,
                    unsigned flags)
{
    SERVERS_REQUEST(advance_own(worker),
                    put != NULL ? PAMIX_Servers_put(servers, worker->context, put, flags)
                                : PAMIX_Servers_get(servers, worker->context, get, flags));
}

static void one_put(struct worker *worker, size_t task, size_t i, unsigned char *from,
                    struct expect *expect)
{
    pami_put_simple_t put = {
        .rma = {.dest = job_endpoint(&job, task, i % threads),
                .bytes = length(i),
                .cookie = expect,
                .done_fn = i % 3 != 2 ? on_first : NULL},
        .addr = {from + i * PUT_BYTES, windows[task] + place(worker, task, i)},
        .put = {i % 3 == 0 ? on_second : NULL},
    };

    *expect = (struct expect){.worker = worker};
    request(worker, &put, NULL, i % 2 != 0 ? PAMIX_SERVERS_ORDERED : 0);
    memset(&put, 0x5a, sizeof put);
}

static void one_get(struct worker *worker, size_t task, size_t i, unsigned char *to,
                    struct expect *expect)
{
    pami_get_simple_t get = {
        .rma = {.dest = job_endpoint(&job, task, i % threads),
                .bytes = length(i),
                .cookie = expect,
                .done_fn = on_first},
        .addr = {to + i * PUT_BYTES, windows[task] + place(worker, task, i)},
    };

    *expect = (struct expect){.worker = worker};
    request(worker, NULL, &get, 0);
}

/* Every other time memory that server processes see. */
static unsigned char *memory(size_t bytes)
{
    static atomic_uint turn;

    return atomic_fetch_add(&turn, 1) % 4 < 2 ? test_zalloc(bytes) : servers_memory(&job, bytes);
}

static void memory_free(unsigned char *at)
{
    pamix_heap_view_t own;

    CHECK_OK(PAMIX_Mem_view(job.client, (pami_task_t)job.task, &own));
    if (PAMIX_Mem_cast(&own, at, 1) != NULL)
        CHECK_OK(PAMIX_Mem_free(job.client, at));
    else
        free(at);
}

static void transfers(struct worker *worker, size_t task, size_t seed)
{
    unsigned char *from = memory(PUTS * PUT_BYTES), *back = memory(PUTS * PUT_BYTES);
    struct expect expect[PUTS];
    bool fenced = false;

    test_fill(from, PUTS * PUT_BYTES, seed, 0);
    for (size_t i = 0; i < PUTS; i++)
        one_put(worker, task, i, from, &expect[i]);
    SERVERS_REQUEST(advance_own(worker),
                    PAMIX_Servers_fence(servers, worker->context, rma_on_fence, &fenced));
    WAIT_WITH(advance_own(worker), fenced);
    for (size_t i = 0; i < PUTS; i++)
        WAIT_WITH(advance_own(worker), expect[i].first == (i % 3 != 2 ? 1 : 0) &&
                                           expect[i].second == (i % 3 == 0 ? 1 : 0));
    for (size_t i = 0; i < PUTS; i++)
        one_get(worker, task, i, back, &expect[i]);
    for (size_t i = 0; i < PUTS; i++) {
        WAIT_WITH(advance_own(worker), expect[i].first == 1);
        CHECK(expect[i].result == PAMI_SUCCESS);
        CHECK(memcmp(from + i * PUT_BYTES, back + i * PUT_BYTES, length(i)) == 0);
    }
    memory_free(from), memory_free(back);
}

/* ---- policies ---- */

static const pamix_servers_policy_t policies[] = {
    {.operations = 7, .bytes_most = SIZE_MAX, .batch = 1, .in_flight = 1},
    {.operations = 7, .bytes_most = SIZE_MAX, .batch = 3, .active = 1},
    {.operations = 7, .bytes_most = SIZE_MAX, .batch = 10, .few = 4, .in_flight = 16},
    {.operations = PAMIX_SERVERS_GET, .bytes_most = SIZE_MAX, .batch = 4},
    {.operations = 7, .bytes_least = 64, .bytes_most = 1024, .batch = 4},
    {.operations = 7, .bytes_most = SIZE_MAX, .batch = 3, .active = 1, .split = 512},
    {.operations = 7, .bytes_most = SIZE_MAX, .batch = 1, .split = 256, .in_flight = 2},
    {.operations = 7, .bytes_most = SIZE_MAX, .batch = 2, .learn = 1, .active = 1, .split = 900},
    {.operations = 7, .bytes_most = SIZE_MAX, .batch = 1, .active = 1, .split = 256, .servers = 1},
};

static void under_policies(struct worker *worker, size_t point)
{
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        if (worker->index == 0)
            CHECK_OK(PAMIX_Servers_set_policy(servers, &policies[p]));
        for (size_t task = 0; task < job.tasks; task++)
            transfers(worker, task, p + task);
    }
    meet(worker, point);
}

static uint64_t gets_of(size_t server)
{
    pamix_servers_status_t status;

    CHECK_OK(PAMIX_Servers_query(servers, (int)server, &status));
    return status.gets;
}

static void get_all(struct worker *worker, unsigned char *to)
{
    struct expect expect[PUTS];

    for (size_t i = 0; i < PUTS; i++)
        one_get(worker, job.task, i, to, &expect[i]);
    for (size_t i = 0; i < PUTS; i++)
        WAIT_WITH(advance_own(worker), expect[i].first == 1);
}

/* A batch that has begun is as long as the policy says by then. Thread 0, while the others wait. */
static void by_turns(struct worker *worker)
{
    pamix_servers_policy_t policy = {.operations = 7, .bytes_most = SIZE_MAX, .batch = UINT_MAX};
    unsigned char *to = servers_memory(&job, PUTS * PUT_BYTES);
    uint64_t before[16];

    CHECK_OK(PAMIX_Servers_set_policy(servers, &policy));
    get_all(worker, to);
    policy.batch = 1;
    CHECK_OK(PAMIX_Servers_set_policy(servers, &policy));
    for (size_t i = 0; i < servers_count; i++)
        before[i] = gets_of(i);
    get_all(worker, to);
    for (size_t i = 0; i < servers_count; i++)
        CHECK(gets_of(i) >= before[i] + PUTS / servers_count);
    memory_free(to);
}

/* One server is to have everything. Thread 0, while the others wait. */
static void by_the_first(struct worker *worker)
{
    pamix_servers_policy_t policy = {.operations = 7, .bytes_most = SIZE_MAX, .batch = 1};
    unsigned char *to = servers_memory(&job, PUTS * PUT_BYTES);
    uint64_t before[16];

    policy.servers = (unsigned)servers_count + 1;
    CHECK_REFUSED(PAMIX_Servers_set_policy(servers, &policy), PAMI_INVAL, "servers");
    policy.servers = 1;
    CHECK_OK(PAMIX_Servers_set_policy(servers, &policy));
    CHECK_OK(PAMIX_Servers_get_policy(servers, &policy));
    CHECK(policy.servers == (servers_count > 1));
    for (size_t i = 0; i < servers_count; i++)
        before[i] = gets_of(i);
    get_all(worker, to);
    CHECK(gets_of(0) == before[0] + PUTS);
    for (size_t i = 1; i < servers_count; i++)
        CHECK(gets_of(i) == before[i]);
    CHECK_OK(PAMIX_Servers_set_policy(servers, NULL));
    memory_free(to);
}

/* Thread 0 stops and starts, the others go on with what they do. */
static void under_starts(struct worker *worker, size_t point)
{
    for (size_t round = 0; round < 6; round++) {
        bool stopped = false;

        if (worker->index == 0)
            CHECK_OK(PAMIX_Servers_stop(servers, worker->context, rma_on_fence, &stopped));
        transfers(worker, (job.task + round) % job.tasks, round);
        if (worker->index != 0)
            continue;
        WAIT_WITH(advance_own(worker), stopped);
        transfers(worker, (job.task + round) % job.tasks, round + 100);
        CHECK_OK(PAMIX_Servers_start(servers));
    }
    meet(worker, point);
}

/* The others fence all the time. */
static void fences_under_starts(struct worker *worker, size_t point)
{
    double until = test_now() + 0.5;

    while (test_now() < until) {
        bool ended = false;

        if (worker->index != 0) {
            SERVERS_REQUEST(advance_own(worker),
                            PAMIX_Servers_fence(servers, worker->context, rma_on_fence, &ended));
        } else {
            CHECK_OK(PAMIX_Servers_stop(servers, worker->context, rma_on_fence, &ended));
        }
        WAIT_WITH(advance_own(worker), ended);
        if (worker->index == 0)
            CHECK_OK(PAMIX_Servers_start(servers));
    }
    meet(worker, point);
}

static void check_counters(void)
{
    pamix_servers_status_t all = servers_status(servers), one;
    unsigned long long sum = 0;

    CHECK(all.servers == servers_count && all.running);
    CHECK(all.forwarded == all.puts + all.gets + all.sends);
    CHECK(all.forwarded != 0 && all.direct != 0 && all.failed == 0);
    for (size_t i = 0; i < servers_count; i++) {
        CHECK_OK(PAMIX_Servers_query(servers, (int)i, &one));
        sum += one.puts + one.gets + one.sends;
    }
    CHECK(sum == all.forwarded);
}

static void *work(void *argument)
{
    struct worker *worker = argument;

    messages(worker, false, 0);
    messages(worker, true, 1); /* and goes on without servers */
    if (worker->index == 0)
        CHECK_OK(PAMIX_Servers_start(servers));
    meet(worker, 2);
    messages(worker, false, 3);
    under_policies(worker, 4);
    if (worker->index == 0) {
        by_turns(worker);
        by_the_first(worker);
        check_counters();
    }
    meet(worker, 5);
    under_starts(worker, 6);
    fences_under_starts(worker, 7);
    return NULL;
}

static void refusals(void)
{
    pami_context_t twice[2] = {job.context[0], job.context[0]};
    pamix_servers_config_t huge = {.queue = SIZE_MAX};
    pamix_servers_t other;
    pami_put_simple_t put = {.rma = {.bytes = 8}};
    pamix_servers_policy_t policy;
    pamix_servers_status_t status;

    CHECK_REFUSED(PAMIX_Servers_create(NULL, 1, NULL, &other), PAMI_INVAL, "contexts");
    CHECK_REFUSED(PAMIX_Servers_create(twice, 2, NULL, &other), PAMI_INVAL, "twice");
    CHECK_REFUSED(PAMIX_Servers_put(servers, processes ? NULL : job.context[threads], &put, 0),
                  PAMI_INVAL, "context");
    CHECK_REFUSED(PAMIX_Servers_attach(NULL, NULL, &other), PAMI_INVAL, "client");
    CHECK_REFUSED(PAMIX_Servers_attach(job.client, &huge, &other), PAMI_INVAL, "is more than");
    CHECK_REFUSED(PAMIX_Servers_create(job.context, 1, &huge, &other), PAMI_INVAL, "queue");
    if (!processes) {
        CHECK_REFUSED(PAMIX_Servers_attach(job.client, NULL, &other), PAMI_ERROR, "pamirun");
        CHECK_REFUSED(PAMIX_Servers_create(&job.context[threads], 1, NULL, &other), PAMI_INVAL,
                      "entry 0 is a server already");
    }
    CHECK_REFUSED(PAMIX_Servers_put(servers, job.context[0], NULL, 0), PAMI_INVAL, "parameters");
    CHECK_REFUSED(PAMIX_Servers_put(servers, job.context[0], &put, 6), PAMI_INVAL,
                  "flags: 0x6, of which");
    if (processes) {
        CHECK_OK(PAMIX_Servers_attach(job.client, NULL, &other));
        CHECK_REFUSED(PAMIX_Servers_put(other, job.context[0], &put, 0), PAMI_INVAL, "other");
        CHECK_OK(PAMIX_Servers_destroy(&other));
    }
    CHECK_REFUSED(PAMIX_Servers_query(servers, 99, &status), PAMI_INVAL, "server: 99 is neither");
    CHECK_OK(PAMIX_Servers_get_policy(servers, &policy));
    CHECK(policy.batch == 4 && policy.in_flight == 256 && policy.operations == 7);
    policy.batch = 0;
    CHECK_REFUSED(PAMIX_Servers_set_policy(servers, &policy), PAMI_INVAL,
                  "batch: 0, but at least 1");
    CHECK_REFUSED(PAMIX_Servers_stop(servers, job.context[0], NULL, NULL), PAMI_EAGAIN, "servers");
}

int main(int argc, char **argv)
{
    pthread_t thread[THREADS_MAX];
    pamix_servers_config_t config = {.queue = 32};

    if (argc > 2) {
        threads = strtoul(argv[1], NULL, 10);
        servers_count = strtoul(argv[2], NULL, 10);
    }
    processes = servers_count == 0;
    job_start(&job, "servers", threads + servers_count);
    rma_open(&job);
    job.driven = 1;
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = test_byte(1, i);
    for (size_t i = 0; i < job.contexts; i++)
        test_dispatch(job.context[i], MESSAGE_ID, on_message, NULL, test_ordered());
    window = test_zalloc(job.tasks * threads * PUTS * PUT_BYTES);
    windows = test_alloc(job.tasks * sizeof *windows);
    rma_share(&job, &window, sizeof window, windows);
    for (size_t i = 0; i < threads; i++)
        workers[i] = (struct worker){.index = i, .context = job.context[i]};
    servers = servers_make(&job, threads, servers_count, &config);
    servers_count = servers_status(servers).servers;
    refusals();
    CHECK_OK(PAMIX_Servers_start(servers));
    job_barrier(&job);
    for (size_t i = 1; i < threads; i++)
        CHECK(pthread_create(&thread[i], NULL, work, &workers[i]) == 0);
    work(&workers[0]);
    for (size_t i = 1; i < threads; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    CHECK_RESULT(PAMIX_Servers_destroy(&servers), PAMI_EAGAIN);
    servers_end(&job, &servers);
    rma_close(&job);
    free(window), free(windows);
    return 0;
}
