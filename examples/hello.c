/*
 * hello.c - every task greets task 0 with one active message.
 *
 * The smallest complete program: create a client and a context, register a dispatch function, send,
 * advance until done, clean up. doc/tutorial.md explains it line by line.
 *
 * Build:  cc hello.c $(pkg-config --cflags --libs pami) -o hello
 * Run:    pamirun -n 4 ./hello
 */
#include <pami.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    DISPATCH_GREETING = 1
};

/* What the callbacks share with main: it is the cookie of both. */
struct hello {
    size_t greetings; /* received so far */
    bool delivered;   /* ours is in the hands of task 0 */
};

static void check(pami_result_t result, const char *call)
{
    char text[256];

    if (result == PAMI_SUCCESS)
        return;
    PAMI_Error_text(text, sizeof(text));
    fprintf(stderr, "hello: %s failed with result %d: %s\n", call, (int)result, text);
    exit(EXIT_FAILURE);
}

/* Runs on task 0, inside PAMI_Context_advance, once for each greeting. */
static void on_greeting(pami_context_t context, void *cookie, const void *header,
                        size_t header_size, const void *data, size_t data_size,
                        pami_endpoint_t origin, pami_recv_t *recv)
{
    struct hello *hello = cookie;
    pami_task_t task;
    size_t offset;

    (void)context, (void)header, (void)header_size, (void)recv;
    check(PAMI_Endpoint_query(origin, &task, &offset), "PAMI_Endpoint_query");
    printf("task %u says: %.*s\n", task, (int)data_size, (const char *)data);
    hello->greetings++;
}

/* Runs on the sender, inside PAMI_Context_advance: task 0 has the whole message. */
static void on_delivered(pami_context_t context, void *cookie, pami_result_t result)
{
    struct hello *hello = cookie;

    (void)context;
    check(result, "delivery of the greeting");
    hello->delivered = true;
}

int main(void)
{
    pami_client_t client;
    check(PAMI_Client_create("hello", &client, NULL, 0), "PAMI_Client_create");

    pami_configuration_t query[] = {{.name = PAMI_CLIENT_TASK_ID}, {.name = PAMI_CLIENT_NUM_TASKS}};
    check(PAMI_Client_query(client, query, 2), "PAMI_Client_query");
    size_t task = query[0].value.intval;
    size_t tasks = query[1].value.intval;

    pami_context_t context;
    check(PAMI_Context_createv(client, NULL, 0, &context, 1), "PAMI_Context_createv");

    struct hello hello = {0};
    pami_dispatch_hint_t hints = {.recv_immediate = PAMI_HINT_ENABLE};
    pami_dispatch_callback_function fn = {.p2p = on_greeting};
    check(PAMI_Dispatch_set(context, DISPATCH_GREETING, fn, &hello, hints), "PAMI_Dispatch_set");

    pami_endpoint_t task0;
    check(PAMI_Endpoint_create(client, 0, 0, &task0), "PAMI_Endpoint_create");

    char text[64];
    int length = snprintf(text, sizeof(text), "hello from process %d", (int)getpid());
    pami_send_t message = {
        .send = {.data = {.iov_base = text, .iov_len = (size_t)length},
                 .dispatch = DISPATCH_GREETING,
                 .dest = task0},
        .events = {.cookie = &hello, .remote_fn = on_delivered},
    };
    check(PAMI_Send(context, &message), "PAMI_Send");

    size_t expected = task == 0 ? tasks : 0;
    while (!hello.delivered || hello.greetings < expected) {
        pami_result_t result = PAMI_Context_advance(context, 100);
        if (result != PAMI_EAGAIN)
            check(result, "PAMI_Context_advance");
    }

    check(PAMI_Context_destroyv(&context, 1), "PAMI_Context_destroyv");
    check(PAMI_Client_destroy(&client), "PAMI_Client_destroy");
    return EXIT_SUCCESS;
}
