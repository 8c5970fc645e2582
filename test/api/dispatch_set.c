/*
 * Dispatch ids: the range, registering, registering again, also from inside the function, one table
 * per context, attributes, which any thread may ask for meanwhile; a send on an id that its sender
 * has not registered is refused and leaves no trace.
 *
 * Run: tasks=1,2,3
 * Run: tasks=4 nodes=2
 * Run: tasks=1 env="PAMI_SEND_IMMEDIATE_MAX=1K PAMI_RECV_IMMEDIATE_MAX=2K"
 */
#include "api_test.h"

#include <pthread.h>
#include <sched.h>

enum {
    FIRST = 7,
    SECOND = 8
};

static struct job job;
static size_t id_max, by_id[1 << 16], first_calls, second_calls;
static char first_cookie, second_cookie;

static void on_any(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                   const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    size_t id, *count = cookie;

    (void)context, (void)data, (void)bytes, (void)origin, (void)recv;
    CHECK_CALLBACK();
    CHECK_SIZE(header_bytes, sizeof id);
    memcpy(&id, header, sizeof id);
    CHECK(count == &by_id[id]);
    ++*count;
}

static void on_first(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin, (void)recv;
    CHECK(cookie == &first_cookie);
    first_calls++;
}

static void on_second(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin, (void)recv;
    CHECK(cookie == &second_cookie);
    second_calls++;
}

static void on_event(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
    FAIL("an event of a send that was refused");
}

/* Without the lock. */
static void *ask(void *unused)
{
    pami_configuration_t query = {.name = PAMI_DISPATCH_ATOM_SIZE_MAX};

    for (size_t id = 0; id <= id_max; id++)
        WAIT_WITH(sched_yield(),
                  PAMI_Dispatch_query(job.context[0], id, &query, 1) == PAMI_SUCCESS);
    return unused;
}

/* Every id takes its own messages to its own cookie. */
static void whole_range(void)
{
    size_t id, next = (job.task + 1) % job.tasks;
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, ask, NULL) == 0);
    for (id = 0; id <= id_max; id++)
        if (id != TEST_BARRIER_ID)
            test_dispatch(job.context[0], id, on_any, &by_id[id], test_ordered());
    CHECK(pthread_join(thread, NULL) == 0);
    job_barrier(&job);
    for (id = 0; id <= id_max; id++)
        if (id != TEST_BARRIER_ID)
            test_send_immediate(job.context[0], job_endpoint(&job, next, 0), id, &id, sizeof id,
                                NULL, 0);
    for (id = 0; id <= id_max; id++)
        if (id != TEST_BARRIER_ID)
            WAIT(&job, by_id[id] == 1);
    job_barrier(&job);
}

static void refused(void)
{
    pami_dispatch_callback_function fn = {.p2p = on_first}, none = {.p2p = NULL};
    pami_dispatch_hint_t hints = {0};
    pami_context_t context = job.context[0];

    CHECK_REFUSED(PAMI_Dispatch_set(context, id_max + 1, fn, NULL, hints), PAMI_INVAL, "dispatch");
    CHECK_REFUSED(PAMI_Dispatch_set(context, (size_t)-1, fn, NULL, hints), PAMI_INVAL, "dispatch");
    CHECK_REFUSED(PAMI_Dispatch_set(context, (size_t)1 << 32, fn, NULL, hints), PAMI_INVAL,
                  "dispatch");
    CHECK_REFUSED(PAMI_Dispatch_set(context, FIRST, none, NULL, hints), PAMI_INVAL, "fn");
    CHECK_REFUSED(PAMI_Dispatch_set(PAMI_CONTEXT_NULL, FIRST, fn, NULL, hints), PAMI_INVAL,
                  "context");
}

/* The latest registration counts. */
static void again(void)
{
    pami_endpoint_t self = job_endpoint(&job, job.task, 0);
    size_t i;

    for (i = 1; i <= 20; i++) {
        test_dispatch(job.context[0], FIRST, on_first, &first_cookie, test_ordered());
        test_send_immediate(job.context[0], self, FIRST, NULL, 0, NULL, 0);
        WAIT(&job, first_calls == i);
        test_dispatch(job.context[0], FIRST, on_second, &second_cookie, test_ordered());
        test_send_immediate(job.context[0], self, FIRST, NULL, 0, NULL, 0);
        WAIT(&job, second_calls == i);
        CHECK_SIZE(first_calls, i);
    }
}

struct change {
    pami_type_t every_second; /* byte */
    char target[16];
    bool arrived;
};

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    struct change *change = cookie;

    (void)context;
    CHECK(result == PAMI_SUCCESS);
    change->arrived = true;
}

/* Gives the id other hints than the message has come with. */
static void on_change(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    pami_dispatch_hint_t hints = test_ordered();
    struct change *change = cookie;

    (void)header, (void)header_bytes, (void)data, (void)bytes, (void)origin;
    CHECK(recv != NULL);
    test_dispatch(context, SECOND, on_any, NULL, hints);
    recv->addr = change->target;
    recv->type = change->every_second;
    recv->local_fn = on_landed;
    recv->cookie = change;
}

/* A function that registers its id again: this message is received by the hints it came with. */
static void inside(void)
{
    pami_dispatch_hint_t hints = test_ordered();
    struct change change = {.target = "................"};

    hints.recv_immediate = PAMI_HINT_DISABLE;
    hints.recv_contiguous = PAMI_HINT_ENABLE;
    CHECK_OK(PAMI_Type_create(&change.every_second));
    CHECK_OK(PAMI_Type_add_simple(change.every_second, 1, 0, 1, 2));
    CHECK_OK(PAMI_Type_complete(change.every_second, 1));
    test_dispatch(job.context[0], SECOND, on_change, &change, hints);
    test_send_immediate(job.context[0], job_endpoint(&job, job.task, 0), SECOND, NULL, 0, "data",
                        4);
    WAIT(&job, change.arrived);
    CHECK(memcmp(change.target, "data............", sizeof change.target) == 0);
    CHECK_OK(PAMI_Type_destroy(&change.every_second));
}

static void unregistered(void)
{
    pami_send_t send = {.send =
                            test_message(job_endpoint(&job, job.task, 0), FIRST, "h", 1, "d", 1),
                        .events = {NULL, on_event, on_event}};
    pami_send_typed_t typed = {.send = send.send, .events = send.events};
    size_t ids[] = {FIRST, SECOND, id_max + 1, (size_t)-1, ((size_t)1 << 32) + FIRST}, i;

    typed.typed.type = PAMI_TYPE_BYTE;
    /* Context 1 has no ids at all; context 0 has them, which must not matter. */
    for (i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        send.send.dispatch = typed.send.dispatch = ids[i];
        CHECK_REFUSED(PAMI_Send(job.context[1], &send), PAMI_ERROR, "dispatch");
        CHECK_REFUSED(PAMI_Send_immediate(job.context[1], &send.send), PAMI_ERROR, "dispatch");
        CHECK_REFUSED(PAMI_Send_typed(job.context[1], &typed), PAMI_ERROR, "dispatch");
    }
    first_calls = second_calls = 0;
    job_linger(&job, 0.01);
    CHECK(first_calls + second_calls == 0);
}

static void attributes(void)
{
    const char *send_max = getenv("PAMI_SEND_IMMEDIATE_MAX");
    pami_configuration_t query[4];
    pami_dispatch_hint_t hints = {0};
    pami_configuration_t update = {.name = PAMI_DISPATCH_RECV_IMMEDIATE_MAX};

    test_dispatch(job.context[0], FIRST, on_first, &first_cookie, hints);
    query[0].name = PAMI_DISPATCH_RECV_IMMEDIATE_MAX;
    query[1].name = PAMI_CLIENT_NUM_TASKS;
    query[2].name = PAMI_DISPATCH_SEND_IMMEDIATE_MAX;
    query[3].name = PAMI_DISPATCH_ATOM_SIZE_MAX;
    query[2].value.intval = query[3].value.intval = 0;
    CHECK_REFUSED(PAMI_Dispatch_query(job.context[0], FIRST, query, 4), PAMI_INVAL, "");
    CHECK_SIZE(query[0].value.intval, send_max ? 2048 : 512);
    CHECK_SIZE(query[2].value.intval, send_max ? 1024 : 8192);
    CHECK_SIZE(query[3].value.intval, 128);
    query[1].name = PAMI_DISPATCH_SEND_IMMEDIATE_MAX;
    CHECK_OK(PAMI_Dispatch_query(job.context[0], FIRST, query, 4));
    CHECK_OK(PAMI_Dispatch_query(job.context[0], FIRST, NULL, 0));

    CHECK_RESULT(PAMI_Dispatch_query(job.context[1], FIRST, query, 1), PAMI_INVAL);
    CHECK_RESULT(PAMI_Dispatch_query(job.context[0], id_max + 1, query, 1), PAMI_INVAL);
    CHECK_RESULT(PAMI_Dispatch_query(PAMI_CONTEXT_NULL, FIRST, query, 1), PAMI_INVAL);
    CHECK_RESULT(PAMI_Dispatch_query(job.context[0], FIRST, NULL, 1), PAMI_INVAL);
    update.value.intval = 100;
    CHECK_RESULT(PAMI_Dispatch_update(job.context[0], FIRST, &update, 1), PAMI_INVAL);
    CHECK_RESULT(PAMI_Dispatch_update(job.context[1], FIRST, &update, 1), PAMI_INVAL);
    CHECK_OK(PAMI_Dispatch_update(job.context[0], FIRST, &update, 0));
}

static void context_attributes(void)
{
    pami_configuration_t query[2] = {{.name = PAMI_TYPE_ATOM_SIZE},
                                     {.name = PAMI_CONTEXT_DISPATCH_ID_MAX}};

    CHECK_RESULT(PAMI_Context_query(job.context[0], query, 2), PAMI_INVAL);
    id_max = query[1].value.intval;
    CHECK(id_max >= 255 && id_max < 1 << 16);
    CHECK_OK(PAMI_Context_query(job.context[1], &query[1], 1));
    CHECK_SIZE(query[1].value.intval, id_max);
    CHECK_OK(PAMI_Context_query(job.context[0], NULL, 0));
    CHECK_OK(PAMI_Context_update(job.context[0], query, 0));
    query[1].value.intval = 3;
    CHECK_RESULT(PAMI_Context_update(job.context[0], &query[1], 1), PAMI_INVAL);
    CHECK_RESULT(PAMI_Context_query(PAMI_CONTEXT_NULL, &query[1], 1), PAMI_INVAL);
    CHECK_RESULT(PAMI_Context_query(job.context[0], NULL, 1), PAMI_INVAL);
    CHECK_RESULT(PAMI_Context_update(PAMI_CONTEXT_NULL, &query[1], 1), PAMI_INVAL);
}

int main(void)
{
    job_start(&job, "dispatch_set", 2);
    context_attributes();
    refused();
    unregistered();
    attributes();
    whole_range();
    again();
    inside();
    job_finish(&job);
    return 0;
}
