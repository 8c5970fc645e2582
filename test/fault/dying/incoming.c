/*
 * What arrives: greetings, data that is checked byte by byte, and the end of an exchange.
 */
#include "fault/dying/dying.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct landing {
    struct mark mark;
    size_t origin;
    unsigned char *data;
};

static size_t task_of(pami_endpoint_t endpoint)
{
    pami_task_t task;
    size_t offset;

    CHECK_OK(PAMI_Endpoint_query(endpoint, &task, &offset));
    CHECK(task < dying.tasks);
    return task;
}

static uint64_t word_of(const void *header, size_t bytes)
{
    uint64_t word;

    CHECK(bytes == sizeof word);
    memcpy(&word, header, sizeof word);
    return word;
}

static void on_hello(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    size_t task = task_of(origin);

    (void)context, (void)cookie, (void)data, (void)bytes;
    CHECK(recv == NULL);
    CHECK(dying.pid[task] == 0);
    dying.pid[task] = (pid_t)word_of(header, header_bytes);
    dying.pidfd[task] = (int)syscall(SYS_pidfd_open, dying.pid[task], 0);
}

static void on_done(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct flow *flow = &dying.flow[task_of(origin)];

    (void)context, (void)cookie, (void)data, (void)bytes;
    CHECK(recv == NULL);
    flow->done++;
    flow->announced = (size_t)word_of(header, header_bytes);
}

static void verify(const struct mark *mark, const unsigned char *data, size_t origin)
{
    for (size_t i = 0; i < mark->bytes; i++)
        if (data[i] != pattern(mark->seed, i))
            fail("message of kind %u and %u bytes from task %zu: byte %zu is wrong", mark->kind,
                 mark->bytes, origin, i);
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    struct landing *landing = cookie;
    struct flow *flow = &dying.flow[landing->origin];

    CHECK(context == dying.context[0]);
    if (result == PAMI_SUCCESS) {
        verify(&landing->mark, landing->data, landing->origin);
        flow->landed++;
    } else {
        flow->lost++;
        if (landing->origin != dying.victim && !dying.orderly)
            fail("a message of kind %u from task %zu ended with %d", landing->mark.kind,
                 landing->origin, (int)result);
    }
    free(landing->data);
    free(landing);
    point_reached(POINT_LANDED);
}

static void land(const struct mark *mark, size_t origin, pami_recv_t *recv)
{
    struct landing *landing = malloc(sizeof *landing);

    CHECK(landing != NULL);
    *landing = (struct landing){.mark = *mark, .origin = origin, .data = malloc(mark->bytes + 1)};
    CHECK(landing->data != NULL);
    recv->addr = landing->data;
    recv->local_fn = on_landed;
    recv->cookie = landing;
}

static void on_data(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t endpoint, pami_recv_t *recv)
{
    size_t origin = task_of(endpoint);
    struct mark mark;

    (void)context, (void)cookie;
    CHECK(header_bytes == sizeof mark);
    memcpy(&mark, header, sizeof mark);
    CHECK(mark.kind < KINDS && mark.bytes == bytes);
    CHECK((data == NULL) == (recv != NULL));
    dying.flow[origin].arrived++;
    if (recv == NULL) {
        verify(&mark, data, origin);
        dying.flow[origin].landed++;
    } else {
        land(&mark, origin, recv);
    }
    point_reached(POINT_DISPATCH);
}

static void set(pami_context_t context, size_t id, pami_dispatch_p2p_function function)
{
    pami_dispatch_callback_function callback = {.p2p = function};
    pami_dispatch_hint_t hints = {.consistency = PAMI_HINT_ENABLE};

    CHECK_OK(PAMI_Dispatch_set(context, id, callback, NULL, hints));
}

void incoming_open(pami_context_t context)
{
    set(context, ID_HELLO, on_hello);
    set(context, ID_DATA, on_data);
    set(context, ID_DONE, on_done);
}
