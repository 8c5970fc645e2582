/*
 * ping.c - latency and bandwidth between two tasks.
 *
 * Task 0 sends a message to task 1, task 1 answers with one of the same size, and so on; half the
 * time of a round trip is what one message takes. Messages that fit go by PAMI_Send_immediate, the
 * others by PAMI_Send; they arrive immediately or asynchronously as the library decides, so the
 * dispatch function must be ready for both. Further tasks leave at once.
 *
 * Every message carries the number of its round in its first and its last byte, and the receiver
 * looks at both. doc/tutorial.md explains this program part by part.
 *
 * Build:  cc ping.c $(pkg-config --cflags --libs pami) -o ping
 * Run:    pamirun -n 2 ./ping
 */
#include <pami.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DISPATCH_PING = 1,
    LARGEST = 1 << 20
};

struct ping {
    pami_context_t context;
    pami_endpoint_t peer;
    size_t immediate_max;    /* bytes that PAMI_Send_immediate accepts */
    unsigned char *out, *in; /* LARGEST bytes each */
    size_t received_size;    /* of the message that came last */
    unsigned long round;     /* begun so far */
    unsigned long received;  /* messages whose data are complete in `in` */
    bool out_busy;           /* `out` belongs to the library until local_fn */
};

static void check(pami_result_t result, const char *call)
{
    char text[256];

    if (result == PAMI_SUCCESS)
        return;
    PAMI_Error_text(text, sizeof(text));
    fprintf(stderr, "ping: %s failed with result %d: %s\n", call, (int)result, text);
    exit(EXIT_FAILURE);
}

static void advance(const struct ping *ping)
{
    pami_result_t result = PAMI_Context_advance(ping->context, 1000);

    if (result != PAMI_EAGAIN)
        check(result, "PAMI_Context_advance");
}

/* local_fn of an asynchronous receive: the data are where the dispatch function asked for them. */
static void on_received(pami_context_t context, void *cookie, pami_result_t result)
{
    struct ping *ping = cookie;

    (void)context;
    check(result, "receive");
    ping->received++;
}

static void on_ping(pami_context_t context, void *cookie, const void *header, size_t header_size,
                    const void *data, size_t size, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct ping *ping = cookie;

    (void)context, (void)header, (void)header_size, (void)origin;
    if (size > LARGEST) {
        fprintf(stderr, "ping: a message of %zu bytes was not expected\n", size);
        exit(EXIT_FAILURE);
    }
    ping->received_size = size;
    if (recv == NULL) {
        /* Immediate: the data are here, but only until this function returns. */
        memcpy(ping->in, data, size);
        ping->received++;
    } else {
        /* Asynchronous: say where the data shall go and what to call when they are there. */
        recv->addr = ping->in;
        recv->type = PAMI_TYPE_BYTE;
        recv->cookie = ping;
        recv->local_fn = on_received;
    }
}

/* local_fn of a send: the buffer is ours again. */
static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    struct ping *ping = cookie;

    (void)context;
    check(result, "send");
    ping->out_busy = false;
}

static void send_round(struct ping *ping, size_t size)
{
    pami_send_t message = {
        .send = {.data = {.iov_base = ping->out, .iov_len = size},
                 .dispatch = DISPATCH_PING,
                 .dest = ping->peer},
        .events = {.cookie = ping, .local_fn = on_sent},
    };

    while (ping->out_busy)
        advance(ping);
    if (size > 0)
        ping->out[0] = ping->out[size - 1] = (unsigned char)ping->round;
    if (size <= ping->immediate_max) {
        check(PAMI_Send_immediate(ping->context, &message.send), "PAMI_Send_immediate");
    } else {
        ping->out_busy = true; /* before the call: local_fn may run at any time after it */
        check(PAMI_Send(ping->context, &message), "PAMI_Send");
    }
}

static void receive_round(struct ping *ping, size_t size)
{
    unsigned char stamp = (unsigned char)ping->round;

    while (ping->received < ping->round)
        advance(ping);
    if (ping->received_size != size ||
        (size > 0 && (ping->in[0] != stamp || ping->in[size - 1] != stamp))) {
        fprintf(stderr, "ping: round %lu of %zu bytes arrived damaged\n", ping->round, size);
        exit(EXIT_FAILURE);
    }
}

/* Plays `rounds` round trips and returns the seconds they took; task 0 serves. */
static double play(struct ping *ping, pami_client_t client, size_t task, size_t size,
                   unsigned long rounds)
{
    double start = PAMI_Wtime(client);

    for (unsigned long i = 0; i < rounds; i++) {
        /* Not counted by `received`: the message of the next round may have come already. */
        ping->round++;
        if (task == 0)
            send_round(ping, size);
        receive_round(ping, size);
        if (task == 1)
            send_round(ping, size);
    }
    while (ping->out_busy)
        advance(ping);
    return PAMI_Wtime(client) - start;
}

static void measure(struct ping *ping, pami_client_t client, size_t task)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* each line as soon as it is known */
    if (task == 0)
        printf("%10s %12s %10s\n", "bytes", "us", "GB/s");
    for (size_t size = 0; size <= LARGEST; size = size == 0 ? 1 : 2 * size) {
        /* Both tasks must agree on the number, so it depends on the size only. */
        unsigned long rounds = 20 + 10000 / (1 + size / 512);

        play(ping, client, task, size, rounds / 10); /* warm-up */
        double half = play(ping, client, task, size, rounds) / (double)rounds / 2;
        if (task == 0)
            printf("%10zu %12.3f %10.3f\n", size, half * 1e6, (double)size / half / 1e9);
    }
}

/* Creates the context and the dispatch, and finds the other one of tasks 0 and 1. */
static void setup(struct ping *ping, pami_client_t client, size_t task)
{
    pami_dispatch_callback_function fn = {.p2p = on_ping};
    pami_dispatch_hint_t hints = {.multicontext = PAMI_HINT_DISABLE};
    pami_configuration_t limit = {.name = PAMI_DISPATCH_SEND_IMMEDIATE_MAX};

    check(PAMI_Context_createv(client, NULL, 0, &ping->context, 1), "PAMI_Context_createv");
    check(PAMI_Dispatch_set(ping->context, DISPATCH_PING, fn, ping, hints), "PAMI_Dispatch_set");
    check(PAMI_Dispatch_query(ping->context, DISPATCH_PING, &limit, 1), "PAMI_Dispatch_query");
    check(PAMI_Endpoint_create(client, 1 - (pami_task_t)task, 0, &ping->peer),
          "PAMI_Endpoint_create");
    ping->immediate_max = limit.value.intval;
    ping->out = calloc(1, LARGEST);
    ping->in = calloc(1, LARGEST);
    if (ping->out == NULL || ping->in == NULL) {
        fprintf(stderr, "ping: no memory for the buffers\n");
        exit(EXIT_FAILURE);
    }
}

int main(void)
{
    struct ping ping = {0};
    pami_client_t client;
    pami_configuration_t query[] = {{.name = PAMI_CLIENT_TASK_ID}, {.name = PAMI_CLIENT_NUM_TASKS}};

    check(PAMI_Client_create("ping", &client, NULL, 0), "PAMI_Client_create");
    check(PAMI_Client_query(client, query, 2), "PAMI_Client_query");
    size_t task = query[0].value.intval;
    if (query[1].value.intval < 2) {
        fprintf(stderr, "ping: two tasks are needed, as in: pamirun -n 2 ping\n");
        return EXIT_FAILURE;
    }
    if (task < 2) {
        setup(&ping, client, task);
        measure(&ping, client, task);
        check(PAMI_Context_destroyv(&ping.context, 1), "PAMI_Context_destroyv");
        free(ping.out);
        free(ping.in);
    }
    check(PAMI_Client_destroy(&client), "PAMI_Client_destroy");
    return EXIT_SUCCESS;
}
