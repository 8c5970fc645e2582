/*
 * A contest between a context and servers that carry its requests; see servers.h.
 *
 * Task 0 makes requests to task 1, which sleeps while nothing comes: by itself, and through 1, 2, 4
 * servers, in turn, for each operation, size and number outstanding. Servers win a cell when their
 * median is better by WINS, and they are better in every round. Only the public API.
 */
#include "servers.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pami/pamix.h>

#include "util/cpu.h"

#define WINS 1.05
#define ROUNDS 5
#define COUNTS 4                    /* 0, 1, 2, 4 servers */
#define CONTENDERS (2 * COUNTS - 1) /* the context itself; servers alone; and with the context */
#define SERVERS_MOST 4
#define OUTSTANDING_MOST 256
#define BYTES_MOST 2097152
#define CELL_MOST ((size_t)128 << 20) /* bytes outstanding */
#define DISPATCH 1

enum {
    PUT,
    GET,
    SEND,
    OPERATIONS
};

static const char *const names[OPERATIONS] = {"put", "get", "send"};
static const size_t sizes[] = {8, 512, 4096, 32768, 262144, BYTES_MOST};
static const size_t windows[] = {1, 8, 64, OUTSTANDING_MOST};

static struct {
    pami_client_t client;
    pami_context_t context[1 + SERVERS_MOST];
    size_t contexts, task;
    pami_endpoint_t peer;
    unsigned char *local, *remote;
    uint64_t begun, ended;
    bool told, stopped;
} lab;

static void die(const char *what)
{
    char text[256] = "";

    PAMI_Error_text(text, sizeof(text));
    fprintf(stderr, "pami_tune: %s: %s\n", what, text);
    _exit(1);
}

static void must(pami_result_t result, const char *what)
{
    if (result != PAMI_SUCCESS)
        die(what);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void advance(void)
{
    pami_result_t result = PAMI_Context_advance(lab.context[0], 8);

    if (result != PAMI_SUCCESS && result != PAMI_EAGAIN)
        die("PAMI_Context_advance");
}

/* ---- callbacks ---- */

static void on_ended(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    must(result, "a request");
    lab.ended++;
}

static void on_stopped(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    must(result, "PAMIX_Servers_stop");
    lab.stopped = true;
}

/* An address is what the peer tells once more at the end; the rest is thrown away. */
static void on_message(pami_context_t context, void *cookie, const void *header, size_t header_size,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)origin, (void)data, (void)bytes;
    if (header_size == sizeof(lab.remote)) {
        memcpy(&lab.remote, header, sizeof(lab.remote));
        lab.told = true;
    }
    if (recv == NULL)
        return;
    memset(recv, 0, sizeof(*recv));
    recv->type = PAMI_TYPE_BYTE;
    recv->addr = lab.local;
}

static void tell(void)
{
    pami_send_immediate_t message = {.dispatch = DISPATCH, .dest = lab.peer};

    message.header.iov_base = &lab.local;
    message.header.iov_len = sizeof(lab.local);
    must(PAMI_Send_immediate(lab.context[0], &message), "PAMI_Send_immediate");
}

/* ---- requests ---- */

static pami_result_t request(pamix_servers_t servers, int operation, size_t at, size_t bytes)
{
    pami_rma_t rma = {.dest = lab.peer, .bytes = bytes, .done_fn = NULL};

    if (operation == PUT) {
        pami_put_simple_t put = {
            .rma = rma, .addr = {lab.local + at, lab.remote + at}, .put = {on_ended}};

        return servers != NULL ? PAMIX_Servers_put(servers, lab.context[0], &put, 0)
                               : PAMI_Put(lab.context[0], &put);
    }
    if (operation == GET) {
        pami_get_simple_t get = {.rma = rma, .addr = {lab.local + at, lab.remote + at}};

        get.rma.done_fn = on_ended;
        return servers != NULL ? PAMIX_Servers_get(servers, lab.context[0], &get, 0)
                               : PAMI_Get(lab.context[0], &get);
    }
    pami_send_t send = {.send = {.dispatch = DISPATCH, .dest = lab.peer}};

    send.send.data.iov_base = lab.local + at;
    send.send.data.iov_len = bytes;
    send.events.remote_fn = on_ended;
    return servers != NULL ? PAMIX_Servers_send(servers, lab.context[0], &send, 0)
                           : PAMI_Send(lab.context[0], &send);
}

/* Requests per second. */
static double rate(pamix_servers_t servers, int operation, size_t bytes, size_t window, double time)
{
    size_t places = window * bytes <= BYTES_MOST ? window : BYTES_MOST / bytes;
    uint64_t before = lab.ended;
    double begin = now();

    do {
        for (int i = 0; i < 8; i++) {
            pami_result_t result;

            while (lab.begun - lab.ended >= window)
                advance();
            while ((result = request(servers, operation, lab.begun % places * bytes, bytes)) ==
                   PAMI_EAGAIN)
                advance();
            must(result, names[operation]);
            lab.begun++;
        }
    } while (now() - begin < time);
    while (lab.begun != lab.ended)
        advance();
    return (double)(lab.ended - before) / (now() - begin);
}

static pamix_servers_t start(size_t count, bool active)
{
    pamix_servers_t servers = NULL;
    pamix_servers_policy_t policy;

    if (count == 0)
        return NULL;
    must(PAMIX_Servers_create(&lab.context[1], count, NULL, &servers), "PAMIX_Servers_create");
    must(PAMIX_Servers_get_policy(servers, &policy), "PAMIX_Servers_get_policy");
    policy.active = active;
    must(PAMIX_Servers_set_policy(servers, &policy), "PAMIX_Servers_set_policy");
    must(PAMIX_Servers_start(servers), "PAMIX_Servers_start");
    return servers;
}

static void stop(pamix_servers_t servers)
{
    if (servers == NULL)
        return;
    lab.stopped = false;
    must(PAMIX_Servers_stop(servers, lab.context[0], on_stopped, NULL), "PAMIX_Servers_stop");
    while (!lab.stopped)
        advance();
    must(PAMIX_Servers_destroy(&servers), "PAMIX_Servers_destroy");
}

/* ---- cells ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(const double *values)
{
    double sorted[ROUNDS];

    memcpy(sorted, values, sizeof(sorted));
    qsort(sorted, ROUNDS, sizeof(sorted[0]), compare);
    return sorted[ROUNDS / 2];
}

/* A range from entry i of a list up to the next one. */
static void print_range(const size_t *list, size_t count, size_t i)
{
    if (i + 1 < count)
        printf(" %zu-%zu", list[i], list[i + 1] - 1);
    else
        printf(" %zu-", list[i]);
}

static void report(int operation, size_t size, size_t window, double rates[CONTENDERS][ROUNDS],
                   const size_t *servers, size_t counts)
{
    double alone = median(rates[0]);

    for (size_t c = 1; c < counts; c++) {
        size_t better = median(rates[2 * c]) > median(rates[2 * c - 1]) ? 2 * c : 2 * c - 1;
        double with = median(rates[better]);
        bool wins = with > WINS * alone;

        for (size_t r = 0; r < ROUNDS; r++)
            wins = wins && rates[better][r] > rates[0][r];
        printf("%s%s", wins ? "" : "# no: ", names[operation]);
        print_range(sizes, sizeof(sizes) / sizeof(sizes[0]), size);
        print_range(windows, sizeof(windows) / sizeof(windows[0]), window);
        print_range(servers, counts, c);
        printf("  # %.4f M/s instead of %.4f%s\n", with / 1e6, alone / 1e6,
               better == 2 * c ? ", shared" : "");
    }
    fflush(stdout);
}

static void cell(int operation, size_t size, size_t window, bool quick)
{
    static const size_t servers[COUNTS] = {0, 1, 2, 4};
    double rates[CONTENDERS][ROUNDS];
    size_t counts = 1;

    if (sizes[size] * windows[window] > CELL_MOST)
        return;
    while (counts < COUNTS && servers[counts] < lab.contexts)
        counts++;
    for (size_t r = 0; r < ROUNDS; r++)
        for (size_t c = 0; c < 2 * counts - 1; c++) {
            pamix_servers_t s = start(servers[(c + 1) / 2], c != 0 && c % 2 == 0);

            rates[c][r] = rate(s, operation, sizes[size], windows[window], quick ? 0.001 : 0.008);
            stop(s);
        }
    report(operation, size, window, rates, servers, counts);
}

static void measure(bool quick)
{
    stop(start(lab.contexts - 1, false)); /* the first start decides how many threads there are */
    for (int operation = 0; operation < OPERATIONS; operation++)
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s += quick ? 3 : 1)
            for (size_t w = 0; w < sizeof(windows) / sizeof(windows[0]); w += quick ? 2 : 1)
                cell(operation, s, w, quick);
}

/* ---- the job ---- */

static void open_lab(void)
{
    pami_configuration_t query[] = {{.name = PAMI_CLIENT_TASK_ID}, {.name = PAMI_CLIENT_NUM_TASKS}};
    pami_dispatch_callback_function fn = {.p2p = on_message};
    pami_dispatch_hint_t hints = {.multicontext = PAMI_HINT_DEFAULT};
    size_t most = cpu_available() < SERVERS_MOST ? cpu_available() : SERVERS_MOST;
    void *memory;

    must(PAMI_Client_create("pami_tune", &lab.client, NULL, 0), "PAMI_Client_create");
    must(PAMI_Client_query(lab.client, query, 2), "PAMI_Client_query");
    lab.task = query[0].value.intval;
    if (query[1].value.intval != 2)
        die("a contest of servers is one of two tasks");
    lab.contexts = 1 + most;
    must(PAMI_Context_createv(lab.client, NULL, 0, lab.context, lab.contexts),
         "PAMI_Context_createv");
    for (size_t i = 0; i < lab.contexts; i++)
        must(PAMI_Dispatch_set(lab.context[i], DISPATCH, fn, NULL, hints), "PAMI_Dispatch_set");
    must(PAMI_Endpoint_create(lab.client, (pami_task_t)(1 - lab.task), 0, &lab.peer),
         "PAMI_Endpoint_create");
    /* The source is what servers like best, the target anybody's memory. */
    must(PAMIX_Mem_alloc(lab.client, BYTES_MOST, 0, PAMIX_MEM_ANY, &memory), "PAMIX_Mem_alloc");
    if (lab.task != 0)
        memory = malloc(BYTES_MOST);
    if (memory == NULL)
        die("no memory");
    lab.local = memset(memory, 1, BYTES_MOST);
}

int servers_contest(bool quick)
{
    open_lab();
    tell();
    while (!lab.told)
        advance();
    lab.told = false;
    if (lab.task == 0) {
        measure(quick);
        tell();
        while (!lab.told)
            advance();
    } else {
        while (!lab.told) {
            PAMIX_Context_wait(lab.context[0], 100000);
            advance();
        }
        tell();
    }
    must(PAMI_Context_destroyv(lab.context, lab.contexts), "PAMI_Context_destroyv");
    must(PAMI_Client_destroy(&lab.client), "PAMI_Client_destroy");
    return 0;
}
