/*
 * Contexts that have a network port besides shared memory sleep, and what comes over either wakes
 * them: two tasks send one message to and fro, and sleep in PAMIX_Context_wait meanwhile; whoever
 * has it keeps it for a while, so that the other one really sleeps. Before that they sleep many
 * times with nothing to come. With --served the context is advanced by a thread of the library's,
 * and it is that one which sleeps. With --burst as well each message is many, of which the last
 * ones wait for company.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 * Run: tasks=4 nodes=2 env="PAMI_NETWORK=ofi"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi" args="--served"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi" args="--served --burst"
 * Run: tasks=2
 * Run: tasks=2 args="--served"
 */
#include <pami.h>
#include <pamix.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "net/net.h"

enum {
    ID = 1,
    ROUNDS = 20,
    BURST = 12,
    KEEP_MS = 20,
    SHORT_SLEEPS = 200,
    LONG_SLEEPS = 4,
    LATE_MS =
        60, /* the first quarter of the round trips, at most; a sleep that is missed takes 100 */
};

static size_t arrived;
static bool served;
static size_t burst = 1;

static double seconds(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void on_ball(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *pipe, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)pipe, (void)bytes, (void)origin, (void)recv;
    __atomic_fetch_add(&arrived, 1, __ATOMIC_RELEASE);
}

static void throw(pami_context_t context, pami_endpoint_t to)
{
    pami_send_immediate_t send = {.dispatch = ID, .dest = to};

    for (size_t i = 0; i < burst; i++) {
        PAMI_Context_lock(context);
        if (PAMI_Send_immediate(context, &send) != PAMI_SUCCESS)
            exit(2);
        PAMI_Context_unlock(context);
    }
}

static void sleep_until(pami_context_t context, size_t count)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < count * burst) {
        if (served) {
            nanosleep(&pause, NULL);
            continue;
        }
        PAMIX_Context_wait(context, 1000000);
        PAMI_Context_advance(context, 1);
    }
}

/* Sleeps that end by their time say nothing against the network: later ones are no shorter. */
static int doze(pami_context_t context)
{
    struct rusage before, after;
    long switches;

    for (int i = 0; i < SHORT_SLEEPS; i++)
        PAMIX_Context_wait(context, 1000);
    getrusage(RUSAGE_THREAD, &before);
    for (int i = 0; i < LONG_SLEEPS; i++)
        PAMIX_Context_wait(context, 50000);
    getrusage(RUSAGE_THREAD, &after);
    switches = after.ru_nvcsw - before.ru_nvcsw;
    if (switches <= 10 * LONG_SLEEPS)
        return 0;
    printf("woke up %ld times in %d sleeps of 50 ms\n", switches, LONG_SLEEPS);
    return 1;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static int play(pami_context_t context, pami_endpoint_t partner, bool first)
{
    struct timespec keep = {.tv_nsec = KEEP_MS * 1000000L};
    double trips[ROUNDS];

    if (first)
        throw(context, partner);
    else
        sleep_until(context, 1);
    for (size_t i = 0; i < ROUNDS; i++) {
        double begin = seconds(CLOCK_MONOTONIC);

        nanosleep(&keep, NULL);
        if (!first || i != 0)
            throw(context, partner);
        if (first || i + 1 < ROUNDS)
            sleep_until(context, first ? i + 1 : i + 2);
        trips[i] = seconds(CLOCK_MONOTONIC) - begin;
    }
    qsort(trips, ROUNDS, sizeof trips[0], compare);
    if (trips[ROUNDS / 4] < (2 * KEEP_MS + LATE_MS) * 1e-3)
        return 0;
    printf("a round trip takes %.0f ms\n", trips[ROUNDS / 4] * 1e3);
    return 1;
}

int main(int argc, char **argv)
{
    pami_configuration_t query[2] = {{.name = PAMI_CLIENT_TASK_ID},
                                     {.name = PAMI_CLIENT_NUM_TASKS}};
    pami_dispatch_callback_function function = {.p2p = on_ball};
    pami_client_t client;
    pami_context_t context;
    pami_endpoint_t partner;
    double begin, used, passed;
    size_t task, half;
    int status;

    if (PAMI_Client_create("sleep", &client, NULL, 0) != PAMI_SUCCESS ||
        PAMI_Client_query(client, query, 2) != PAMI_SUCCESS ||
        PAMI_Context_createv(client, NULL, 0, &context, 1) != PAMI_SUCCESS ||
        PAMI_Dispatch_set(context, ID, function, NULL, (pami_dispatch_hint_t){0}) != PAMI_SUCCESS)
        return 2;
    need_module();
    served = argc > 1 && strcmp(argv[1], "--served") == 0;
    burst = argc > 2 && strcmp(argv[2], "--burst") == 0 ? BURST : 1;
    if (served && PAMIX_Context_async_enable(&context, 1, NULL) != PAMI_SUCCESS)
        return 2;
    task = query[0].value.intval;
    half = query[1].value.intval / 2;
    PAMI_Endpoint_create(client, (pami_task_t)(task < half ? task + half : task - half), 0,
                         &partner);
    begin = seconds(CLOCK_MONOTONIC);
    used = seconds(CLOCK_PROCESS_CPUTIME_ID);
    status = served ? 0 : doze(context);
    status |= play(context, partner, task < half);
    used = seconds(CLOCK_PROCESS_CPUTIME_ID) - used;
    passed = seconds(CLOCK_MONOTONIC) - begin;
    if (used > 0.3 * passed) {
        printf("used %.0f ms of processor in %.0f ms\n", used * 1e3, passed * 1e3);
        status = 1;
    }
    PAMI_Context_destroyv(&context, 1);
    PAMI_Client_destroy(&client);
    return status;
}
