/*
 * Very many active-message collectives at once cost no more than few, each: messages that wait for
 * an id do not hold up those for another one, gathers that wait for one member do not hold up what
 * the others contribute. Where each looked at all others, this would take minutes.
 *
 * Run: tasks=3 timeout=25
 */
#include "coll.h"

enum {
    ID_LATE = 1,
    ID,
    ID_GATHER,
    HELD = 50000, /* not fewer than MANY */
    MANY = 20000,
    GATHERS = 50000
};

static struct job job;
static size_t held, many, ended;

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

static void on_ended(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    ended++;
}

static void on_gather(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      size_t bytes, pami_endpoint_t origin, pami_geometry_t geometry,
                      pami_recv_t *send)
{
    static int word;

    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)origin, (void)geometry;
    CHECK_SIZE(bytes, sizeof word);
    send->addr = &word;
    send->type = PAMI_TYPE_SIGNED_INT;
    send->local_fn = on_ended;
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

/* The last task sets the id when the others have contributed. */
static void gathers(void)
{
    pami_dispatch_callback_function fn = {.amgather = on_gather};
    int *words = test_alloc(job.tasks * sizeof *words);
    pami_xfer_t xfer = {.algorithm = algorithm_of(world_of(&job), PAMI_XFER_AMGATHER)};

    if (job.task != job.tasks - 1)
        set(PAMI_XFER_AMGATHER, ID_GATHER, fn, NULL);
    job_barrier(&job);
    xfer.cmd.xfer_amgather = (pami_amgather_t){
        .dispatch = ID_GATHER, .rcvbuf = words, .rtype = PAMI_TYPE_SIGNED_INT, .rtypecount = 1};
    for (size_t i = 0; i < GATHERS && job.task == 0; i++) {
        CHECK_OK(TEST_CALL(PAMI_Collective(job.context[0], &xfer)));
        if (i % 16 == 0)
            job_advance(&job);
    }
    if (job.task != 0 && job.task != job.tasks - 1)
        WAIT(&job, ended == GATHERS);
    job_barrier(&job);
    if (job.task == job.tasks - 1)
        set(PAMI_XFER_AMGATHER, ID_GATHER, fn, NULL);
    WAIT(&job, ended == GATHERS);
    job_barrier(&job);
    free(words);
}

int main(void)
{
    job_start(&job, "am-many", 1);
    messages();
    gathers();
    job_finish(&job);
    return 0;
}
