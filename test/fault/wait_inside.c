/*
 * A task dies while another one waits, in PAMIX_Context_wait, inside the dispatch function of its
 * message or broadcast, whose data is still to come: that ends with an error, once, and not before
 * the function has returned.
 *
 * Run: tasks=2 args="message"
 * Run: tasks=2 args="broadcast"
 * Run: tasks=2 nodes=2 args="message" env="PAMI_NETWORK=ofi"
 * Run: tasks=2 nodes=2 args="broadcast" env="PAMI_NETWORK=ofi"
 */
#include <pami/pamix.h>

#include "api/coll.h"

enum {
    ID = 1,
    ID_INSIDE, /* the function has been called */
    BYTES = 1000000
};

static struct job job;
static char data[BYTES];
static bool called, inside, has_returned;
static size_t ended;

static void on_inside(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      const void *pipe, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)pipe, (void)bytes, (void)origin, (void)recv;
    called = true;
}

static void on_ended(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(has_returned && !inside);
    CHECK(result == PAMI_ERROR);
    ended++;
}

static void wait_inside(pami_endpoint_t origin, pami_recv_t *recv)
{
    double begin;

    recv->addr = data;
    recv->local_fn = on_ended;
    test_send_immediate(job.context[0], origin, ID_INSIDE, NULL, 0, NULL, 0);
    inside = true;
    for (begin = test_now(); test_now() - begin < 1;)
        PAMIX_Context_wait(job.context[0], 500000);
    inside = false;
    has_returned = true;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *pipe, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)pipe;
    CHECK_SIZE(bytes, BYTES);
    wait_inside(origin, recv);
}

static void on_broadcast(pami_context_t context, void *cookie, const void *header,
                         size_t header_bytes, const void *pipe, size_t bytes,
                         pami_endpoint_t origin, pami_geometry_t geometry, pami_recv_t *recv)
{
    (void)geometry;
    on_message(context, cookie, header, header_bytes, pipe, bytes, origin, recv);
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
}

static void broadcast(pami_algorithm_t algorithm)
{
    pami_xfer_t xfer = {.cb_done = on_sent, .algorithm = algorithm};

    xfer.cmd.xfer_ambroadcast = (pami_ambroadcast_t){
        .dispatch = ID, .sndbuf = data, .stype = PAMI_TYPE_BYTE, .stypecount = BYTES};
    CHECK_OK(TEST_CALL(PAMI_Collective(job.context[0], &xfer)));
}

/* From now on, for what has come before: the function is called from an advance that has nothing to
 * read, so the wait in it sleeps. */
static void know(pami_algorithm_t algorithm)
{
    pami_dispatch_callback_function fn = {.ambroadcast = on_broadcast};

    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    CHECK_OK(PAMI_AMCollective_dispatch_set(job.context[0], algorithm, ID, fn, NULL,
                                            (pami_collective_hint_t){0}));
}

int main(int argc, char **argv)
{
    const pami_send_event_t events = {.local_fn = on_sent};
    pami_algorithm_t algorithm;

    CHECK(argc == 2);
    job_start(&job, "wait_inside", 1);
    algorithm = algorithm_of(world_of(&job), PAMI_XFER_AMBROADCAST);
    test_dispatch(job.context[0], ID_INSIDE, on_inside, NULL, test_ordered());
    if (job.task == 0) {
        know(algorithm);
        if (strcmp(argv[1], "broadcast") == 0)
            broadcast(algorithm);
        else
            test_send(job.context[0], job_endpoint(&job, 1, 0), ID, NULL, 0, data, BYTES, events);
        WAIT(&job, called);
        _exit(0);
    }
    job_linger(&job, 0.2);
    know(algorithm);
    WAIT(&job, ended != 0);
    job_linger(&job, 0.1);
    CHECK_SIZE(ended, 1);
    job_destroy(&job);
    return 0;
}
