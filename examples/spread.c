/*
 * spread.c - messages spread over contexts by hashing their destination and source.
 *
 * The main thread produces messages and never touches a context: it posts each to the context that
 * (destination, source) hashes to, whose owner is a thread of the library, so that messages of one
 * pair stay in order while different pairs are injected by different threads. On both sides a pair
 * has the same context number, hence pairs do not share contexts more than they must.
 *
 * Completion is counted, per context and without locks: what was posted is the producer's number,
 * what has been injected and what has arrived are the context's. Waiting for everything has two
 * phases: first until this task's messages have left, then, after telling every destination how
 * many there were, until all that is due here has come.
 *
 *     pamirun -n 4 spread [--messages N] [--contexts N]
 */
#include <pami.h>
#include <pamix.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DATA = 1,
    TOTAL = 2,
    CONTEXTS_MAX = 8,
    FLIGHT = 1024 /* records in use at most */
};

/* A message on its way: the post's storage, and what it carries. */
struct record {
    pami_work_t work;
    atomic_int busy;
    pami_endpoint_t dest;
    uint64_t body[2]; /* source task, number in this pair */
};

/* One context's counters; written by whoever advances it. */
struct lane {
    _Alignas(64) atomic_ullong injected, arrived, due, totals;
    uint64_t *next; /* number expected of each source */
};

static pami_client_t client;
static pami_context_t context[CONTEXTS_MAX];
static struct lane lanes[CONTEXTS_MAX];
static struct record records[FLIGHT];
static size_t task, tasks, contexts = 2, messages = 20000;

static void check(pami_result_t result, const char *call)
{
    char text[256];

    if (result == PAMI_SUCCESS)
        return;
    PAMI_Error_text(text, sizeof(text));
    fprintf(stderr, "spread: %s failed with result %d: %s\n", call, (int)result, text);
    exit(EXIT_FAILURE);
}
#define CHECK(call) check(call, #call)

/* The context, on both sides, of a pair of tasks. */
static size_t lane_of(uint64_t destination, uint64_t source)
{
    uint64_t x = (destination << 32 | source) * UINT64_C(0x9e3779b97f4a7c15);

    return (x >> 40) % contexts;
}

static void send_words(pami_context_t from, size_t dispatch, pami_endpoint_t dest, void *words,
                       size_t bytes)
{
    pami_send_immediate_t send = {.dispatch = dispatch, .dest = dest};

    send.data.iov_base = words;
    send.data.iov_len = bytes;
    CHECK(PAMI_Send_immediate(from, &send));
}

/* Arrivals. */
static void on_data(pami_context_t on, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct lane *lane = cookie;
    uint64_t body[2];

    (void)on, (void)header, (void)header_bytes, (void)bytes, (void)origin, (void)recv;
    memcpy(body, data, sizeof(body));
    if (lane->next[body[0]]++ != body[1]) {
        fprintf(stderr, "spread: a message of task %u came out of order\n", (unsigned)body[0]);
        exit(EXIT_FAILURE);
    }
    atomic_fetch_add(&lane->arrived, 1);
}

static void on_total(pami_context_t on, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct lane *lane = cookie;
    uint64_t total;

    (void)on, (void)header, (void)header_bytes, (void)bytes, (void)origin, (void)recv;
    memcpy(&total, data, sizeof(total));
    atomic_fetch_add(&lane->due, total);
    atomic_fetch_add(&lane->totals, 1);
}

/* Posted: runs on the thread that has the context. */
static pami_result_t inject(pami_context_t on, void *cookie)
{
    struct record *record = cookie;
    struct lane *lane = NULL;

    for (size_t i = 0; i < contexts; i++)
        if (context[i] == on)
            lane = &lanes[i];
    send_words(on, DATA, record->dest, record->body, sizeof(record->body));
    atomic_store(&record->busy, 0);
    atomic_fetch_add(&lane->injected, 1);
    return PAMI_SUCCESS;
}

static pami_endpoint_t endpoint_of(size_t destination)
{
    pami_endpoint_t endpoint;

    CHECK(PAMI_Endpoint_create(client, (pami_task_t)destination, lane_of(destination, task),
                               &endpoint));
    return endpoint;
}

static void produce(uint64_t *posted, uint64_t *sent)
{
    for (size_t i = 0; i < messages; i++) {
        size_t destination = (i * 7 + task) % tasks, lane = lane_of(destination, task);
        struct record *record = &records[i % FLIGHT];

        while (atomic_load(&record->busy))
            sched_yield();
        atomic_store(&record->busy, 1);
        record->dest = endpoint_of(destination);
        record->body[0] = task;
        record->body[1] = sent[destination]++;
        posted[lane]++;
        CHECK(PAMI_Context_post(context[lane], &record->work, inject, record));
    }
}

/* Phase two's announcement goes the way of the data, by a post as well. */
static pami_result_t announce(pami_context_t on, void *cookie)
{
    struct record *record = cookie;

    send_words(on, TOTAL, record->dest, &record->body[1], sizeof(uint64_t));
    atomic_store(&record->busy, 0);
    return PAMI_SUCCESS;
}

static void wait_all(const uint64_t *posted, const uint64_t *sent)
{
    uint64_t totals = 0, arrived = 0, due = 1;

    for (size_t i = 0; i < contexts; i++)
        while (atomic_load(&lanes[i].injected) != posted[i])
            sched_yield();
    for (size_t i = 0; i < tasks; i++) {
        struct record *record = &records[i % FLIGHT];

        while (atomic_load(&record->busy))
            sched_yield();
        atomic_store(&record->busy, 1);
        record->dest = endpoint_of(i);
        record->body[1] = sent[i];
        CHECK(PAMI_Context_post(context[lane_of(i, task)], &record->work, announce, record));
    }
    while (totals != tasks || arrived != due) {
        totals = due = arrived = 0;
        for (size_t i = 0; i < contexts; i++) {
            totals += atomic_load(&lanes[i].totals);
            due += atomic_load(&lanes[i].due);
            arrived += atomic_load(&lanes[i].arrived);
        }
        sched_yield();
    }
    for (size_t i = 0; i < FLIGHT; i++)
        while (atomic_load(&records[i].busy))
            sched_yield();
    printf("task %zu: %zu messages sent, %llu received in order over %zu contexts\n", task,
           messages, (unsigned long long)arrived, contexts);
}

static void open_job(void)
{
    pami_configuration_t query[] = {{.name = PAMI_CLIENT_TASK_ID}, {.name = PAMI_CLIENT_NUM_TASKS}};
    pami_dispatch_hint_t hints = {.recv_immediate = PAMI_HINT_ENABLE,
                                  .consistency = PAMI_HINT_ENABLE};

    CHECK(PAMI_Client_create("spread", &client, NULL, 0));
    CHECK(PAMI_Client_query(client, query, 2));
    task = query[0].value.intval;
    tasks = query[1].value.intval;
    CHECK(PAMI_Context_createv(client, NULL, 0, context, contexts));
    for (size_t i = 0; i < contexts; i++) {
        pami_dispatch_callback_function data = {.p2p = on_data}, total = {.p2p = on_total};

        lanes[i].next = calloc(tasks, sizeof(uint64_t));
        if (lanes[i].next == NULL)
            exit(EXIT_FAILURE);
        CHECK(PAMI_Dispatch_set(context[i], DATA, data, &lanes[i], hints));
        CHECK(PAMI_Dispatch_set(context[i], TOTAL, total, &lanes[i], hints));
    }
    CHECK(PAMIX_Context_async_enable(context, contexts, NULL));
}

int main(int argc, char **argv)
{
    uint64_t posted[CONTEXTS_MAX] = {0}, *sent;

    for (int i = 1; i < argc; i += 2) {
        size_t value = i + 1 < argc ? strtoul(argv[i + 1], NULL, 10) : 0;

        if (strcmp(argv[i], "--messages") == 0 && value != 0) {
            messages = value;
        } else if (strcmp(argv[i], "--contexts") == 0 && value != 0 && value <= CONTEXTS_MAX) {
            contexts = value;
        } else {
            printf("Usage: spread [--messages N] [--contexts 1..%d]\n", CONTEXTS_MAX);
            return EXIT_FAILURE;
        }
    }
    open_job();
    sent = calloc(tasks, sizeof(*sent));
    if (sent == NULL)
        return EXIT_FAILURE;
    produce(posted, sent);
    wait_all(posted, sent);
    CHECK(PAMIX_Context_async_disable(context, contexts));
    CHECK(PAMI_Context_destroyv(context, contexts));
    CHECK(PAMI_Client_destroy(&client));
    for (size_t i = 0; i < CONTEXTS_MAX; i++)
        free(lanes[i].next);
    free(sent);
    return 0;
}
