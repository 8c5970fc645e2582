/*
 * Tasks 0 and 1 send each other messages of all protocols for ever, until one of them hears that
 * the other has gone; then all that was started ends, with errors, in bounded time, and so does
 * what is started afterwards. Prints "streaming" once messages go both ways.
 *
 *     pamirun -n 2 --nodes 2 --keep-going stream [--die SECONDS] [--limit SECONDS] [--end SECONDS]
 *
 * --die: task 1 kills itself after so long. --limit: fail when the end takes longer than that from
 * the moment on that messages stopped coming.
 * --end: stop after so long, in order; anything that has failed by then is a failure. --until FILE:
 * the same when the file exists. --large FILE: nothing large before that exists. --stay FILE: who
 * has lost the other stays until it exists. --rest FILE: after the first operation, says "rests"
 * and does nothing until it exists.
 *
 * In a job of three tasks the first and the last stream, over connections that the first one makes,
 * and the one between them talks to the last.
 *
 * Run: tasks=2 nodes=2 args="--end 1 --limit 30" env="PAMI_NETWORK=ofi"
 * Run: tasks=2 nodes=2 args="--end 1 --limit 30"
 */
#include <pami.h>
#include <pamix.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "basics.h"
#include "net/net.h"

enum {
    ID = 1,
    BYE = 2,
    TALK = 3,
    LARGE = 300000,
    WINDOW = 4 /* operations of each size under way */
};

static const size_t sizes[] = {8, 2000, 20000, LARGE};

enum {
    SIZES = sizeof sizes / sizeof sizes[0]
};

static unsigned char out[LARGE], in[LARGE];
static pami_context_t context;
static pami_endpoint_t peer;
static const char *until; /* NULL: no such file */
static const char *large; /* likewise */
static const char *stay;  /* likewise */
static const char *rest;  /* likewise */
static size_t open_operations, failed, arrived, byes, landing, talks;
static double heard;

static void on_landed(pami_context_t ctx, void *cookie, pami_result_t result)
{
    (void)ctx, (void)cookie, (void)result;
    landing--;
}

static void on_message(pami_context_t ctx, void *cookie, const void *header, size_t header_bytes,
                       const void *pipe, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)ctx, (void)cookie, (void)header, (void)header_bytes;
    (void)pipe, (void)bytes, (void)origin;
    arrived++;
    heard = test_now();
    if (recv != NULL) {
        memset(recv, 0, sizeof *recv);
        recv->type = PAMI_TYPE_BYTE;
        recv->addr = in;
        recv->local_fn = on_landed;
        landing++;
    }
}

static void on_bye(pami_context_t ctx, void *cookie, const void *header, size_t header_bytes,
                   const void *pipe, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)ctx, (void)cookie, (void)header, (void)header_bytes;
    (void)pipe, (void)bytes, (void)origin, (void)recv;
    byes++;
}

static void on_talk(pami_context_t ctx, void *cookie, const void *header, size_t header_bytes,
                    const void *pipe, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)ctx, (void)cookie, (void)header, (void)header_bytes;
    (void)pipe, (void)bytes, (void)origin, (void)recv;
    talks++;
}

static void on_remote(pami_context_t ctx, void *cookie, pami_result_t result)
{
    (void)ctx, (void)cookie;
    open_operations--;
    failed += result != PAMI_SUCCESS;
}

static void start(size_t id, size_t size)
{
    pami_send_t send = {0};
    pami_result_t result;

    send.send.dispatch = id;
    send.send.dest = peer;
    send.send.data.iov_base = out;
    send.send.data.iov_len = size;
    send.events.remote_fn = on_remote;
    open_operations++;
    result = PAMI_Send(context, &send);
    if (result != PAMI_SUCCESS) {
        open_operations--;
        failed++;
    }
}

static double number(int argc, char **argv, const char *name, double otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return atof(argv[i + 1]);
    return otherwise;
}

static void open_job(size_t *task, size_t *tasks)
{
    pami_configuration_t query[] = {{.name = PAMI_CLIENT_TASK_ID}, {.name = PAMI_CLIENT_NUM_TASKS}};
    pami_dispatch_callback_function function = {.p2p = on_message};
    pami_client_t client;

    if (PAMI_Client_create("stream", &client, NULL, 0) != PAMI_SUCCESS ||
        PAMI_Client_query(client, query, 2) != PAMI_SUCCESS ||
        PAMI_Context_createv(client, NULL, 0, &context, 1) != PAMI_SUCCESS ||
        PAMI_Dispatch_set(context, ID, function, NULL, (pami_dispatch_hint_t){0}) != PAMI_SUCCESS)
        exit(2);
    function.p2p = on_bye;
    if (PAMI_Dispatch_set(context, BYE, function, NULL, (pami_dispatch_hint_t){0}) != PAMI_SUCCESS)
        exit(2);
    function.p2p = on_talk;
    if (PAMI_Dispatch_set(context, TALK, function, NULL, (pami_dispatch_hint_t){0}) != PAMI_SUCCESS)
        exit(2);
    need_module();
    *task = query[0].value.intval;
    *tasks = query[1].value.intval;
    PAMI_Endpoint_create(client, (pami_task_t)(*task + 1 == *tasks ? 0 : *tasks - 1), 0, &peer);
}

static void say_streaming(void)
{
    printf("process %d is streaming\n", (int)getpid());
    fflush(stdout);
}

/* One message after the other; says when one fails. */
static void talk(void)
{
    size_t messages = 0;

    while (failed == 0 && access(stay, F_OK) != 0) {
        if (open_operations == 0) {
            start(TALK, 0);
            if (++messages == 100)
                say_streaming();
        }
        PAMI_Context_advance(context, 100);
    }
    printf("%zu messages, %zu failed\n", messages, failed);
}

/* Both stop; nothing may have failed. */
static int stop_in_order(double limit)
{
    double end = test_now() + limit;

    start(BYE, 0);
    while (failed == 0 && (open_operations != 0 || byes == 0 || landing != 0) && test_now() < end)
        PAMI_Context_advance(context, 100);
    printf("%zu messages came, %zu operations failed, %zu are open\n", arrived, failed,
           open_operations);
    return failed != 0 || open_operations != 0 || byes == 0;
}

/* Meanwhile the reception hears the peer's name, to which nothing has been sent. */
static void take_rest(void)
{
    start(ID, sizes[0]);
    test_sleep(1);
    puts("rests");
    fflush(stdout);
    while (access(rest, F_OK) != 0)
        test_sleep(0.01);
}

/* Returns when the peer has gone and nothing is open, it takes too long, or it is time to end. */
static int stream(double die, double limit, double end)
{
    double begin = test_now();
    bool said = false;

    heard = begin + 20; /* for the start */
    while (failed == 0 || open_operations != 0) {
        bool large_too = large == NULL || access(large, F_OK) == 0;

        if (end > 0 && (test_now() - begin > end || (until != NULL && access(until, F_OK) == 0)))
            return 0;
        while (failed == 0 && open_operations < WINDOW * SIZES)
            start(ID, sizes[(size_t)rand() % (large_too ? SIZES : SIZES - 1)]);
        PAMI_Context_advance(context, 100);
        if (!said && arrived > 100) {
            said = true;
            say_streaming();
        }
        if (die > 0 && test_now() - begin > die)
            kill(getpid(), SIGKILL);
        if (test_now() - heard > limit) {
            printf("nothing for %.1f s, %zu operations open, %zu failed\n", limit, open_operations,
                   failed);
            return 1;
        }
    }
    return 0;
}

static void wait_for(const size_t *count, size_t least)
{
    while (*count < least)
        PAMI_Context_advance(context, 100);
}

int main(int argc, char **argv)
{
    double limit = number(argc, argv, "--limit", 15);
    double end = number(argc, argv, "--end", 0);
    size_t task, tasks;
    int status;

    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--until") == 0)
            until = argv[i + 1];
        if (strcmp(argv[i], "--large") == 0)
            large = argv[i + 1];
        if (strcmp(argv[i], "--stay") == 0)
            stay = argv[i + 1];
        if (strcmp(argv[i], "--rest") == 0)
            rest = argv[i + 1];
    }
    if (until != NULL)
        end = 1e9;
    open_job(&task, &tasks);
    if (tasks == 3 && task == 1) {
        talk();
        fflush(stdout);
        _exit(failed != 0);
    }
    if (tasks == 3 && task == 2) {
        wait_for(&arrived, 1);
        wait_for(&talks, 1);
    }
    if (rest != NULL)
        take_rest();
    status = stream(task == 1 ? number(argc, argv, "--die", 0) : 0, limit, end);
    if (status == 0 && end > 0)
        status = stop_in_order(limit);
    if (status != 0 || end > 0)
        exit(status);
    printf("task %zu: gone after %.2f s of silence\n", task, test_now() - heard);
    for (size_t i = 0; i < SIZES; i++)
        start(ID, sizes[i]);
    for (double late = test_now() + limit; open_operations != 0 && test_now() < late;)
        PAMI_Context_advance(context, 100);
    if (open_operations != 0) {
        printf("task %zu: %zu later operations do not end\n", task, open_operations);
        fflush(stdout);
        _exit(1);
    }
    fflush(stdout);
    while (stay != NULL && access(stay, F_OK) != 0)
        PAMI_Context_advance(context, 100);
    _exit(0);
}
