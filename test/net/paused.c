/*
 * A context that holds too much for an id that is not registered (PAMI_HOLD_BYTES) reads no more.
 * Who leaves waits for it no longer than for one that does not advance. Who ends at once counts as
 * gone when all that it had sent has been read, and not before.
 *
 * Run: tasks=2 nodes=2 args="leave" env="PAMI_NETWORK=ofi PAMI_HOLD_BYTES=64K PAMI_PEER_TIMEOUT=1"
 * Run: tasks=2 nodes=2 args="end" env="PAMI_NETWORK=ofi PAMI_HOLD_BYTES=64K PAMI_PEER_TIMEOUT=1"
 */
#include "api/api_test.h"
#include "net.h"

#include <unistd.h>

enum {
    LATE_ID = 10, /* registered at last */
    OVER_ID = 11,
    NEVER_ID = 12, /* registered here, and not there */
    BYTES = 64,
    HELD_AT_MOST = 500,
    FEW = 600, /* more than can be held, and no more than can be under way */
    MANY = 20000
};

static struct job control, job;
static bool over, gone;
static size_t arrived, gone_at;

static void on_late(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    arrived++;
}

static void on_over(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    over = true;
}

static void on_gone(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result != PAMI_SUCCESS);
    gone = true;
    gone_at = arrived;
}

static void fill(size_t count)
{
    static const char data[BYTES];

    for (size_t i = 0; i < count; i++)
        test_send_immediate(job.context[0], job_endpoint(&job, 1, 0), LATE_ID, NULL, 0, data,
                            BYTES);
}

/* The control says when. */
static void leave(void)
{
    fill(MANY);
    job_destroy_contexts(&job);
    test_send_immediate(control.context[0], job_endpoint(&control, 1, 0), OVER_ID, NULL, 0, NULL,
                        0);
    job_barrier(&control);
    job_destroy(&job);
}

static void end(void)
{
    fill(FEW);
    job_linger(&job, 0.3);
    _exit(0);
}

static void advance(void)
{
    job_advance(&job);
}

/* Nobody takes it. */
static void wait_for_answer(void)
{
    const pami_send_event_t events = {NULL, NULL, on_gone};

    test_send(job.context[0], job_endpoint(&job, 0, 0), NEVER_ID, NULL, 0, "", 1, events);
}

static void wait_for_leave(void)
{
    wait_for_answer();
    control.advance_too = advance;
    WAIT(&control, over);
    job_barrier(&control);
}

static void wait_for_end(void)
{
    wait_for_answer();
    job_linger(&job, 2);
    CHECK(!gone);
    test_dispatch(job.context[0], LATE_ID, on_late, NULL, test_ordered());
    WAIT(&job, gone);
    if (arrived != gone_at || arrived <= HELD_AT_MOST)
        FAIL("gone after %zu of %zu messages", gone_at, arrived);
}

int main(int argc, char **argv)
{
    bool leaves = argc > 1 && strcmp(argv[1], "leave") == 0;

    setenv("PAMI_DRAIN_TIMEOUT", "1", 1);
    job_start(&control, "control", 1);
    need_module();
    job_start(&job, "paused", 1);
    test_dispatch(control.context[0], OVER_ID, on_over, NULL, test_ordered());
    test_dispatch(job.context[0], job.task == 0 ? LATE_ID : NEVER_ID, on_late, NULL,
                  test_ordered());
    job_barrier(&job);
    if (job.task == 0 && leaves)
        leave();
    else if (job.task == 0)
        end();
    if (job.task == 1 && leaves)
        wait_for_leave();
    else if (job.task == 1)
        wait_for_end();
    if (job.task == 1) {
        job_destroy_contexts(&job);
        job_destroy(&job);
    }
    job_destroy_contexts(&control);
    job_destroy(&control);
    return 0;
}
