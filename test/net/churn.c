/*
 * Tasks destroy their contexts and create them again at random, each as often and whenever it
 * likes, in the middle of everything: messages of all sizes, one-sided transfers, atomics, fences,
 * sleeps. Every operation of a context that lives ends once, a message that was delivered is
 * reported as such and no other one is, nothing comes out of order or from an earlier life, and
 * what has ended with an error leaves memory alone.
 *
 *     churn [SEED [SECONDS]]
 *
 * What was delivered the tasks tell one another by memory that they share without the library.
 * Other seeds, and for how long: by hand.
 *
 * Run: tasks=3 nodes=3 env="PAMI_NETWORK=ofi" timeout=120
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi" timeout=120
 * Run: tasks=4 nodes=4 args="2" env="PAMI_NETWORK=ofi PAMI_BEHIND_TIMEOUT=0" timeout=120
 * Run: tasks=2 nodes=2 args="3" env="PAMI_NETWORK=ofi PAMI_BEHIND_TIMEOUT=0" timeout=120
 * Run: tasks=4 nodes=2 args="119" env="PAMI_NETWORK=ofi PAMI_BEHIND_TIMEOUT=0" timeout=120
 * Run: tasks=3 args="5" timeout=120
 */
#define TEST_LIMIT 60
#include "net/churn_board.h"
#include "net/net.h"

#include <pamix.h>

enum {
    ID = 10,
    CONTEXTS_MAX = 3,
    UNDER_WAY_MOST = 24,
    CLIENTS = 3
};

enum kind {
    IMMEDIATE,
    SEND,
    PUT,
    GET,
    RPUT,
    RGET,
    RMW,
    FENCE,
    KINDS
};

struct operation {
    struct operation *next;
    enum kind kind;
    size_t number, bytes;
    size_t life;
    unsigned local, remote; /* callbacks that have come */
    bool failed;
    char *buffer;
    size_t task;
    uint64_t value;
    pami_context_t context;
    pami_memregion_t near, far; /* of RPUT and RGET */
};

struct message {
    uint32_t task, life, context, sequence;
    uint64_t number, bytes;
};

struct arrival {
    struct arrival *next, **place;
    struct message message;
    size_t life;
    char *buffer;
};

static uint64_t seed;
static size_t first_seed;
static size_t contexts, life, operations, under_way, done_ok, done_bad, came;
static struct operation *all;    /* of this life and the last one, latest first */
static struct arrival *arrivals; /* under way */
static struct {
    uint32_t life, sequence;
} last[TASKS_MAX][CONTEXTS_MAX][CONTEXTS_MAX];
static uint32_t sequence[CONTEXTS_MAX][TASKS_MAX][CONTEXTS_MAX];

static size_t below(size_t limit)
{
    return test_random(&seed) % limit;
}

static size_t some_bytes(void)
{
    switch (below(8)) {
    case 0:
        return 300000 + below(700000);
    case 1:
        return 70000 + below(100000);
    case 2:
        return 3000 + below(60000);
    default:
        return below(3000);
    }
}

/* ---- what comes ---- */

static void delivered(const struct message *message)
{
    enum fate before = atomic_exchange(fate_of(message->task, message->number), DELIVERED);

    if (before == FAILED)
        FAIL("message %llu of task %u, life %u, is delivered, and was reported as failed",
             (unsigned long long)message->number, message->task, message->life);
    if (before == DELIVERED)
        FAIL("message %llu of task %u is delivered twice", (unsigned long long)message->number,
             message->task);
    came++;
}

static void arrival_free(struct arrival *arrival)
{
    *arrival->place = arrival->next;
    if (arrival->next != NULL)
        arrival->next->place = arrival->place;
    free(arrival->buffer);
    free(arrival);
}

static void on_received(pami_context_t context, void *cookie, pami_result_t result)
{
    struct arrival *arrival = cookie;

    (void)context;
    CHECK_SIZE(arrival->life, life);
    if (result == PAMI_SUCCESS) {
        CHECK_SIZE(
            test_differs(arrival->buffer, arrival->message.bytes, arrival->message.number, 0),
            arrival->message.bytes);
        delivered(&arrival->message);
    }
    arrival_free(arrival);
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    size_t here = (size_t)(uintptr_t)cookie / (1u << 20);
    struct message message;
    struct arrival *arrival;
    enum fate before;

    (void)context;
    CHECK_CALLBACK();
    CHECK_SIZE((size_t)(uintptr_t)cookie % (1u << 20), life % (1u << 20));
    CHECK_SIZE(header_bytes, sizeof message);
    memcpy(&message, header, sizeof message);
    CHECK_SIZE(test_origin(origin), message.task);
    CHECK_SIZE(bytes, message.bytes);
    if (message.life < last[message.task][message.context][here].life)
        FAIL("message %llu of task %u, context %u, is of life %u, after one of life %u",
             (unsigned long long)message.number, message.task, message.context, message.life,
             last[message.task][message.context][here].life);
    if (message.life == last[message.task][message.context][here].life &&
        message.sequence <= last[message.task][message.context][here].sequence)
        FAIL("message %llu of task %u, context %u, life %u: number %u comes after %u",
             (unsigned long long)message.number, message.task, message.context, message.life,
             message.sequence, last[message.task][message.context][here].sequence);
    last[message.task][message.context][here].life = message.life;
    last[message.task][message.context][here].sequence = message.sequence;
    if (recv == NULL) {
        CHECK_SIZE(test_differs(data, bytes, message.number, 0), bytes);
        delivered(&message);
        return;
    }
    before = atomic_exchange(fate_of(message.task, message.number), BEGUN);
    if (before != PENDING)
        FAIL("message %llu of task %u, life %u, begins with fate %d",
             (unsigned long long)message.number, message.task, message.life, (int)before);
    arrival = test_zalloc(sizeof *arrival);
    arrival->message = message;
    arrival->life = life;
    arrival->buffer = test_alloc(bytes);
    arrival->place = &arrivals;
    arrival->next = arrivals;
    if (arrivals != NULL)
        arrivals->place = &arrival->next;
    arrivals = arrival;
    recv->cookie = arrival;
    recv->local_fn = on_received;
    recv->addr = arrival->buffer;
    recv->type = PAMI_TYPE_BYTE;
    recv->offset = 0;
    recv->data_fn = PAMI_DATA_COPY;
    recv->data_cookie = NULL;
}

/* ---- what goes ---- */

static bool has_remote(const struct operation *operation)
{
    return operation->kind == SEND || operation->kind == PUT || operation->kind == RPUT;
}

static bool is_over(const struct operation *operation)
{
    return operation->local == 1 && operation->remote == (has_remote(operation) ? 1 : 0);
}

/* Nothing is to change it from now on. */
static void mark_failed(struct operation *operation)
{
    if (operation->kind == GET || operation->kind == RGET)
        test_fill(operation->buffer, operation->bytes, operation->number + 77, 0);
    operation->failed = true;
}

static void ended(struct operation *operation)
{
    if (!is_over(operation))
        return;
    if (operation->kind == RPUT || operation->kind == RGET)
        CHECK_OK(PAMI_Memregion_destroy(operation->context, &operation->near));
    under_way--;
    done_ok += !operation->failed;
    done_bad += operation->failed;
}

static void on_local(pami_context_t context, void *cookie, pami_result_t result)
{
    struct operation *operation = cookie;

    (void)context;
    CHECK_CALLBACK();
    if (operation->life != life)
        FAIL("operation %zu, kind %d, of life %zu ends in life %zu", operation->number,
             (int)operation->kind, operation->life, life);
    CHECK_SIZE(operation->local, 0);
    operation->local++;
    if (result != PAMI_SUCCESS)
        mark_failed(operation);
    ended(operation);
}

static void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    struct operation *operation = cookie;
    unsigned char fate;

    (void)context;
    CHECK_CALLBACK();
    if (operation->life != life)
        FAIL("operation %zu, kind %d, of life %zu ends in life %zu", operation->number,
             (int)operation->kind, operation->life, life);
    CHECK_SIZE(operation->remote, 0);
    operation->remote++;
    if (result != PAMI_SUCCESS)
        mark_failed(operation);
    if (operation->kind == SEND) {
        fate = atomic_load(fate_of((size_t)test_task, operation->number));
        if (result == PAMI_SUCCESS && fate != DELIVERED && fate != BEGUN)
            FAIL("message %zu of life %zu was not delivered, and is reported as good",
                 operation->number, operation->life);
        if (result != PAMI_SUCCESS) {
            if (fate == DELIVERED)
                FAIL("message %zu of life %zu, %zu bytes, was delivered by task %zu, and is "
                     "reported as "
                     "%d: %s",
                     operation->number, operation->life, operation->bytes, operation->task,
                     (int)result, test_text());
            atomic_store(fate_of((size_t)test_task, operation->number), FAILED);
        }
    }
    ended(operation);
}

static struct operation *operation_new(enum kind kind, size_t bytes)
{
    struct operation *operation = test_zalloc(sizeof *operation);

    CHECK(operations < OPERATIONS_MAX);
    operation->kind = kind;
    operation->number = operations++;
    operation->bytes = bytes;
    operation->life = life;
    operation->buffer = test_alloc(bytes);
    test_fill(operation->buffer, bytes, operation->number, 0);
    operation->next = all;
    all = operation;
    under_way++;
    return operation;
}

/* The call was refused: no callbacks. */
static void refused(struct operation *operation, pami_result_t result)
{
    if (result == PAMI_SUCCESS)
        return;
    CHECK(operation->local == 0 && operation->remote == 0);
    if (operation->kind == SEND || operation->kind == IMMEDIATE)
        atomic_store(fate_of((size_t)test_task, operation->number), FAILED);
    operation->local = 1;
    operation->remote = has_remote(operation);
    mark_failed(operation);
    under_way--;
    done_bad++;
}

static void send_one(struct job *job, size_t from, size_t task, size_t to, bool immediate)
{
    struct operation *operation =
        operation_new(immediate ? IMMEDIATE : SEND, immediate ? below(60) : some_bytes());
    struct message message = {.task = (uint32_t)job->task,
                              .life = (uint32_t)life,
                              .context = (uint32_t)from,
                              .sequence = ++sequence[from][task][to],
                              .number = operation->number,
                              .bytes = operation->bytes};
    pami_send_t send = {
        .send = test_message(job_endpoint(job, task, to), ID, &message, sizeof message,
                             operation->buffer, operation->bytes),
        .events = {.cookie = operation, .local_fn = on_local, .remote_fn = on_remote}};
    pami_result_t result;

    memset(&send.send.hints, 0, sizeof send.send.hints);
    operation->task = task;
    if (!immediate) {
        refused(operation, TEST_CALL(PAMI_Send(job->context[from], &send)));
        return;
    }
    result = TEST_CALL(PAMI_Send_immediate(job->context[from], &send.send));
    refused(operation, result);
    if (result == PAMI_SUCCESS) {
        operation->local = 1;
        under_way--;
    }
}

static void transfer(struct job *job, size_t from, size_t task, size_t to, enum kind kind)
{
    struct operation *operation = operation_new(kind, kind == RMW ? 8 : 1 + some_bytes());
    pami_endpoint_t dest = job_endpoint(job, task, to);
    char *there = (char *)board->memory[task] + job->task * SHARE_BYTES;
    pami_rma_t rma = {
        .dest = dest, .bytes = operation->bytes, .cookie = operation, .done_fn = on_local};
    pami_put_simple_t put = {
        .rma = rma, .addr = {operation->buffer, there}, .put = {.rdone_fn = on_remote}};
    pami_get_simple_t get = {.rma = rma, .addr = {operation->buffer, there}};
    static uint64_t one = 1;
    pami_rmw_t rmw = {.dest = dest,
                      .cookie = operation,
                      .done_fn = on_local,
                      .local = &operation->value,
                      .remote = there,
                      .value = &one,
                      .operation = PAMI_ATOMIC_FETCH_ADD,
                      .type = PAMI_TYPE_UNSIGNED_LONG_LONG};

    operation->task = task;
    if (kind == PUT)
        refused(operation, TEST_CALL(PAMI_Put(job->context[from], &put)));
    else if (kind == GET)
        refused(operation, TEST_CALL(PAMI_Get(job->context[from], &get)));
    else
        refused(operation, TEST_CALL(PAMI_Rmw(job->context[from], &rmw)));
}

static void transfer_regions(struct job *job, size_t from, size_t task, size_t to, enum kind kind)
{
    struct operation *operation = operation_new(kind, 1 + some_bytes());
    pami_rma_t rma = {.dest = job_endpoint(job, task, to),
                      .bytes = operation->bytes,
                      .cookie = operation,
                      .done_fn = on_local};
    pami_rdma_t rdma = {.local = {.mr = &operation->near},
                        .remote = {.mr = &operation->far, .offset = job->task * SHARE_BYTES}};
    pami_rput_simple_t rput = {.rma = rma, .rdma = rdma, .put = {.rdone_fn = on_remote}};
    pami_rget_simple_t rget = {.rma = rma, .rdma = rdma};
    size_t usable;

    operation->task = task;
    operation->context = job->context[from];
    if (!find_region(task, operation->far)) {
        refused(operation, PAMI_EAGAIN);
        return;
    }
    CHECK_OK(PAMI_Memregion_create(operation->context, operation->buffer, operation->bytes, &usable,
                                   &operation->near));
    if (kind == RPUT)
        refused(operation, TEST_CALL(PAMI_Rput(operation->context, &rput)));
    else
        refused(operation, TEST_CALL(PAMI_Rget(operation->context, &rget)));
}

/* ---- a life ---- */

static void one_thing(struct job *job)
{
    size_t from = below(job->contexts), task = below(job->tasks), to = below(job->contexts);
    pami_endpoint_t dest;
    struct operation *operation;

    dest = job_endpoint(job, task, to);
    switch (below(16)) {
    case 0:
    case 1:
        send_one(job, from, task, to, true);
        break;
    case 2:
    case 3:
    case 4:
    case 5:
        send_one(job, from, task, to, false);
        break;
    case 6:
        transfer(job, from, task, to, PUT);
        break;
    case 7:
        transfer(job, from, task, to, GET);
        break;
    case 8:
        transfer(job, from, task, to, RMW);
        break;
    case 9:
        operation = operation_new(FENCE, 0);
        refused(operation,
                TEST_CALL(PAMI_Fence_endpoint(job->context[from], on_local, operation, dest)));
        break;
    case 10:
        if (task != job->task || to != from) {
            PAMI_Purge(job->context[from], &dest, 1);
            PAMI_Resume(job->context[from], &dest, 1);
        }
        break;
    case 11:
        PAMIX_Context_wait(job->context[from], below(300));
        break;
    case 12:
        transfer_regions(job, from, task, to, RPUT);
        break;
    case 13:
        transfer_regions(job, from, task, to, RGET);
        break;
    case 14:
        if (below(8) == 0)
            test_sleep(1e-4 * (double)below(30));
        break;
    default:
        job_advance(job);
    }
}

static void check_failed(const struct operation *operation)
{
    if ((operation->kind != GET && operation->kind != RGET) || !operation->failed ||
        operation->local == 0)
        return;
    if (test_differs(operation->buffer, operation->bytes, operation->number + 77, 0) !=
        operation->bytes)
        FAIL("operation %zu, a get of %zu bytes from task %zu, had ended with an error, and its "
             "memory changes",
             operation->number, operation->bytes, operation->task);
}

/* Those of the lives before the last one. */
static void forget(void)
{
    struct operation **place = &all;

    while (*place != NULL) {
        struct operation *operation = *place;

        check_failed(operation);
        /* Memory of what had not ended may still be written to. */
        if (operation->life + 2 < life && (is_over(operation) || operation->kind == IMMEDIATE)) {
            *place = operation->next;
            free(operation->buffer);
            free(operation);
        } else {
            place = &operation->next;
        }
    }
}

static void say_what_is_left(void)
{
    for (const struct operation *operation = all; operation != NULL; operation = operation->next)
        if (operation->life == life && operation->kind != IMMEDIATE && !is_over(operation))
            fprintf(stderr,
                    "task %ld, life %zu: operation %zu, kind %d, %zu bytes: local %u, "
                    "remote %u, fate %d\n",
                    test_task, life, operation->number, (int)operation->kind, operation->bytes,
                    operation->local, operation->remote,
                    (int)atomic_load(fate_of((size_t)test_task, operation->number)));
}

static void live(struct job *job, bool patient)
{
    size_t things = below(300);
    double until;

    for (size_t i = 0; i < things; i++) {
        if (under_way < UNDER_WAY_MOST)
            one_thing(job);
        if (below(4) == 0)
            job_advance(job);
    }
    until = test_now() + test_limit();
    while (patient && under_way != 0) {
        job_advance(job);
        if (test_now() > until) {
            say_what_is_left();
            FAIL("seed %zu: %zu operations do not end", first_seed, under_way);
        }
    }
}

static void one_client(struct job *job, double seconds)
{
    double until = test_now() + seconds;

    job_create_client(job, "churn");
    need_module();
    CHECK(job->tasks <= TASKS_MAX);
    if (board == NULL)
        open_board();
    wait_for_all(job);
    while (test_now() < until) {
        bool patient = below(2) != 0;

        life++;
        memset(sequence, 0, sizeof sequence);
        memset(last, 0, sizeof last);
        job_create_contexts(job, contexts);
        for (size_t i = 0; i < job->contexts; i++)
            test_dispatch(job->context[i], ID, on_message,
                          (void *)(uintptr_t)(i * (1u << 20) + life % (1u << 20)), test_ordered());
        publish_region(job);
        live(job, patient);
        job_destroy_contexts(job);
        while (arrivals != NULL)
            arrival_free(arrivals);
        under_way = 0;
        forget();
        if (below(4) == 0)
            test_sleep(1e-4 * (double)below(20));
    }
    PAMI_Client_destroy(&job->client);
}

int main(int argc, char **argv)
{
    const char *rank = getenv("PMI_RANK");
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 5;
    struct job job;

    /* What has been delivered counts as lost when its receiver is not heard of for so long. */
    setenv("PAMI_DRAIN_TIMEOUT", "20", false);
    first_seed = argc > 1 ? strtoul(argv[1], NULL, 0) : (size_t)time(NULL);
    seed = first_seed * 1000003 + (rank != NULL ? strtoul(rank, NULL, 10) : 0);
    contexts = 1 + first_seed % CONTEXTS_MAX;
    memory = test_zalloc(TASKS_MAX * sizeof *memory);
    for (int i = 0; i < CLIENTS; i++)
        one_client(&job, seconds / CLIENTS);
    printf("seed %zu: task %ld: %zu lives, %zu operations good, %zu failed, %zu messages came\n",
           first_seed, test_task, life, done_ok, done_bad, came);
    return 0;
}
