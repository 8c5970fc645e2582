/*
 * Operations of every protocol, and the books about them: local_fn and remote_fn each run exactly
 * once, in this order, and an operation that was started after its target had died never succeeds.
 */
#include "fault/dying/dying.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A window of traffic between survivors, and with the victim. */
#define WINDOW 6
#define WINDOW_VICTIM 12

struct operation {
    struct mark mark; /* the header; sent from here */
    size_t task;
    bool local, remote;
    bool too_late; /* its target was dead when it was started */
    unsigned char *data;
};

static bool work_posted;

static void finish(struct operation *operation)
{
    free(operation->data);
    free(operation);
}

static void on_local(pami_context_t context, void *cookie, pami_result_t result)
{
    struct operation *operation = cookie;

    (void)result;
    CHECK(context == dying.context[0]);
    CHECK(!operation->local && !operation->remote);
    operation->local = true;
    dying.flow[operation->task].local++;
    point_reached(POINT_LOCAL);
}

static void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    struct operation *operation = cookie;
    struct flow *flow = &dying.flow[operation->task];

    CHECK(context == dying.context[0]);
    CHECK(operation->local && !operation->remote);
    operation->remote = true;
    if (result == PAMI_SUCCESS) {
        flow->good++;
        CHECK(!operation->too_late);
    } else {
        flow->bad++;
        if (operation->task != dying.victim && !dying.orderly)
            fail("an operation of kind %u to task %zu ended with %d", operation->mark.kind,
                 operation->task, (int)result);
    }
    point_reached(POINT_REMOTE);
    finish(operation);
}

static void on_fill(void *target, void *source, size_t bytes, void *cookie)
{
    (void)cookie;
    memcpy(target, source, bytes / 2);
    point_reached(POINT_FILL);
    memcpy((char *)target + bytes / 2, (char *)source + bytes / 2, bytes - bytes / 2);
}

void traffic_open(void)
{
    CHECK_OK(PAMI_Type_create(&dying.strided));
    CHECK_OK(PAMI_Type_add_simple(dying.strided, 8, 0, 1, 16));
    CHECK_OK(PAMI_Type_complete(dying.strided, 1));
}

static size_t bytes_of(enum kind kind)
{
    switch (kind) {
    case KIND_IMMEDIATE:
    case KIND_SMALL:
        return random_below(400);
    case KIND_EAGER:
    case KIND_FILL:
        return 600 + random_below(7000);
    case KIND_STREAM:
        return 20000 + random_below(12000);
    case KIND_PULL:
        return 33000 + random_below(60000);
    default:
        return 33000 + random_below(6000) * 8;
    }
}

static unsigned char *data_of(const struct mark *mark)
{
    size_t spread = mark->kind == KIND_PUSH ? 2 : 1;
    unsigned char *data = malloc(spread * mark->bytes + 1);

    CHECK(data != NULL);
    for (size_t i = 0; i < mark->bytes; i++)
        data[spread == 1 ? i : i / 8 * 16 + i % 8] = pattern(mark->seed, i);
    return data;
}

static struct operation *operation_new(size_t task, enum kind kind)
{
    struct operation *operation = calloc(1, sizeof *operation);

    CHECK(operation != NULL);
    operation->task = task;
    operation->too_late = task == dying.victim && dying.dead_known;
    operation->mark = (struct mark){
        .kind = kind,
        .bytes = (uint32_t)bytes_of(kind),
        .seed = random_next(),
    };
    operation->data = data_of(&operation->mark);
    return operation;
}

static pami_result_t start(struct operation *operation)
{
    pami_send_typed_t typed = {
        .send = {.header = {.iov_base = &operation->mark, .iov_len = sizeof operation->mark},
                 .data = {.iov_base = operation->data, .iov_len = operation->mark.bytes},
                 .dispatch = ID_DATA,
                 .dest = dying.endpoint[operation->task]},
        .events = {.cookie = operation, .local_fn = on_local, .remote_fn = on_remote},
        .typed = {.type = dying.strided},
    };
    pami_send_t plain = {.send = typed.send, .events = typed.events};

    switch (operation->mark.kind) {
    case KIND_IMMEDIATE:
        return PAMI_Send_immediate(dying.context[0], &typed.send);
    case KIND_FILL:
        typed.typed.type = PAMI_TYPE_BYTE;
        typed.typed.data_fn = on_fill;
        return PAMI_Send_typed(dying.context[0], &typed);
    case KIND_PUSH:
        return PAMI_Send_typed(dying.context[0], &typed);
    default:
        return PAMI_Send(dying.context[0], &plain);
    }
}

bool send_one(size_t task, enum kind kind)
{
    struct flow *flow = &dying.flow[task];
    struct operation *operation = operation_new(task, kind);
    pami_result_t result = start(operation);

    if (result != PAMI_SUCCESS) {
        if (task != dying.victim && !dying.orderly)
            check_result(result, PAMI_SUCCESS, "a send to a survivor");
        flow->refused = true;
        finish(operation);
        return false;
    }
    flow->sent++;
    if (kind == KIND_IMMEDIATE)
        finish(operation);
    else
        flow->issued++;
    point_reached(POINT_SENT);
    return true;
}

/* Operations whose remote_fn has not run. */
size_t outstanding(size_t task)
{
    const struct flow *flow = &dying.flow[task];

    return flow->issued - flow->good - flow->bad;
}

void send_some(size_t task, size_t count, size_t window)
{
    while (count-- > 0 && !dying.flow[task].refused && outstanding(task) < window)
        send_one(task, (enum kind)random_below(KINDS));
}

/* A word to another task; whoever cannot get it has gone. */
void send_control(size_t task, size_t id, uint64_t value)
{
    pami_send_immediate_t message = {
        .header = {.iov_base = &value, .iov_len = sizeof value},
        .dispatch = id,
        .dest = dying.endpoint[task],
    };
    pami_result_t result = PAMI_Send_immediate(dying.context[0], &message);

    if (task != dying.victim && !dying.orderly)
        check_result(result, PAMI_SUCCESS, "a message to a survivor");
}

static pami_result_t on_work(pami_context_t context, void *cookie)
{
    (void)cookie;
    CHECK(context == dying.context[0]);
    work_posted = false;
    point_reached(POINT_WORK);
    return PAMI_SUCCESS;
}

static void post_one(void)
{
    static pami_work_t work;

    if (work_posted)
        return;
    work_posted = true;
    CHECK_OK(PAMI_Context_post(dying.context[0], &work, on_work, NULL));
}

void advance(void)
{
    pami_result_t result = PAMI_Context_advance(dying.context[0], 1);

    if (result != PAMI_EAGAIN)
        check_result(result, PAMI_SUCCESS, "PAMI_Context_advance");
    if (dying.slow_us != 0)
        usleep(dying.slow_us);
    point_reached(POINT_ADVANCED);
}

/* Some traffic with everybody, oneself included. */
void step(void)
{
    for (size_t task = 0; task < dying.tasks; task++)
        send_some(task, 1, task == dying.victim ? WINDOW_VICTIM : WINDOW);
    if (random_below(4) == 0)
        post_one();
    advance();
}
