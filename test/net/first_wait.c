/*
 * The first message to a task waits for its connection, and nobody rings when that is up: who
 * sleeps in PAMIX_Context_wait meanwhile sends it all the same. The peer timeout is long, so that
 * no question about the link wakes anybody. And it takes little memory, also of the provider's.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_PEER_TIMEOUT=120"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_PEER_TIMEOUT=120" args="20000"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_PEER_TIMEOUT=120 PAMI_OFI_PROVIDER=tcp;ofi_rxm"
 */
#include <pami.h>
#include <pamix.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "net/net.h"

enum {
    ID = 1,
    BYTES = 200,
    BYTES_MAX = 100000,
    LATE_MS = 20000, /* a sleep that nothing ends takes 30 s here */
    MUCH_KIB = 32 << 10
};

static char data[BYTES_MAX];
static size_t bytes = BYTES;
static bool is_here;

static void on_here(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    is_here = result == PAMI_SUCCESS;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *pipe, size_t size, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)cookie, (void)header, (void)header_bytes, (void)pipe, (void)origin;
    if (recv == NULL) {
        on_here(context, NULL, size == bytes ? PAMI_SUCCESS : PAMI_ERROR);
        return;
    }
    *recv = (pami_recv_t){.local_fn = on_here, .addr = data, .type = PAMI_TYPE_BYTE};
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    if (result != PAMI_SUCCESS)
        exit(2);
}

static void send_to(pami_context_t context, pami_endpoint_t partner)
{
    pami_send_t send = {
        .send = {.dispatch = ID, .dest = partner, .data = {.iov_base = data, .iov_len = bytes}},
        .events = {.local_fn = on_sent},
    };

    if (PAMI_Send(context, &send) != PAMI_SUCCESS)
        exit(2);
}

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* The most that this process has had in memory. */
static long peak_kib(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

int main(int argc, char **argv)
{
    pami_configuration_t query = {.name = PAMI_CLIENT_TASK_ID};
    pami_dispatch_callback_function function = {.p2p = on_message};
    pami_client_t client;
    pami_context_t context;
    pami_endpoint_t partner;
    double begin, passed;
    long before, taken;

    if (PAMI_Client_create("first_wait", &client, NULL, 0) != PAMI_SUCCESS ||
        PAMI_Client_query(client, &query, 1) != PAMI_SUCCESS ||
        PAMI_Context_createv(client, NULL, 0, &context, 1) != PAMI_SUCCESS ||
        PAMI_Dispatch_set(context, ID, function, NULL, (pami_dispatch_hint_t){0}) != PAMI_SUCCESS)
        return 2;
    need_module();
    if (argc > 1)
        bytes = strtoul(argv[1], NULL, 10);
    PAMI_Endpoint_create(client, query.value.intval == 0 ? 1 : 0, 0, &partner);
    begin = now_ms();
    before = peak_kib();
    if (query.value.intval == 0)
        send_to(context, partner);
    while (!is_here) {
        if (query.value.intval == 0)
            PAMIX_Context_wait(context, 60000000);
        PAMI_Context_advance(context, 1);
    }
    if (query.value.intval != 0)
        send_to(context, partner);
    passed = now_ms() - begin;
    taken = peak_kib() - before;
    PAMI_Context_destroyv(&context, 1);
    PAMI_Client_destroy(&client);
    if (taken > MUCH_KIB) {
        printf("the first messages take %ld KiB\n", taken);
        return 1;
    }
    if (query.value.intval != 0 || passed < LATE_MS)
        return 0;
    printf("the answer to the first message took %.0f ms\n", passed);
    return 1;
}
