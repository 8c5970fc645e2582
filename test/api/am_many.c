/*
 * Very many active-message collectives at once cost no more than few, each: messages that wait for
 * an id do not hold up those for another one. Where each looked at all others, this would take
 * minutes.
 *
 * Run: tasks=3 timeout=25
 */
#include "coll.h"

enum {
    ID_LATE = 1,
    ID,
    HELD = 50000, /* not fewer than MANY */
    MANY = 20000
};

static struct job job;
static size_t held, many;

static void on_broadcast(pami_context_t context, void *cookie, const void *header,
                         size_t header_bytes, const void *pipe, size_t bytes,
                         pami_endpoint_t origin, pami_geometry_t geometry, pami_recv_t *recv)
{
    size_t *count = cookie;
    uint32_t number;

    (void)context, (void)pipe, (void)bytes, (void)origin, (void)geometry, (void)recv;
    CHECK_SIZE(header_bytes, sizeof number);
    memcpy(&number, header, sizeof number);
    CHECK_SIZE(number, (*count)++);
}

static void set(pami_xfer_type_t type, size_t id, pami_dispatch_callback_function fn, void *cookie)
{
    CHECK_OK(PAMI_AMCollective_dispatch_set(job.context[0], algorithm_of(world_of(&job), type), id,
                                            fn, cookie, (pami_collective_hint_t){0}));
}

static void broadcast(size_t id, size_t count)
{
    static uint32_t numbers[HELD];
    pami_xfer_t xfer = {.algorithm = algorithm_of(world_of(&job), PAMI_XFER_AMBROADCAST)};

    for (uint32_t i = 0; i < count; i++) {
        numbers[i] = i;
        xfer.cmd.xfer_ambroadcast = (pami_ambroadcast_t){.dispatch = id,
                                                         .user_header = &numbers[i],
                                                         .headerlen = sizeof numbers[i],
                                                         .stype = PAMI_TYPE_BYTE};
        CHECK_OK(TEST_CALL(PAMI_Collective(job.context[0], &xfer)));
        if (i % 16 == 0)
            job_advance(&job);
    }
}

static void messages(void)
{
    pami_dispatch_callback_function fn = {.ambroadcast = on_broadcast};

    set(PAMI_XFER_AMBROADCAST, ID, fn, &many);
    if (job.task == 0)
        set(PAMI_XFER_AMBROADCAST, ID_LATE, fn, &held);
    job_barrier(&job);
    if (job.task == 0) {
        broadcast(ID_LATE, HELD);
        broadcast(ID, MANY);
    } else {
        WAIT(&job, many == MANY);
        CHECK_SIZE(held, 0);
        set(PAMI_XFER_AMBROADCAST, ID_LATE, fn, &held);
        WAIT(&job, held == HELD);
    }
    job_barrier(&job);
}

int main(void)
{
    job_start(&job, "am-many", 1);
    messages();
    job_finish(&job);
    return 0;
}
