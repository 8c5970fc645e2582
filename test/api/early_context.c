/*
 * Messages to a context that its task has not created yet, and to ids it registers later still.
 *
 * Task 0 creates its contexts and sends at once; the others wait until task 0 says, over a second
 * client, that everything has been sent, and then for a while. Everything arrives, in order.
 *
 * Run: tasks=2,3,5
 * Run: tasks=4 nodes=2
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off PAMI_RNDV_BYTES=0"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=1G"
 * Run: tasks=3 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 */
#include "api_test.h"

enum {
    ID = 1,
    CONTEXTS = 3,
    MESSAGES = 150, /* to each context */
    LARGEST = 100000
};

struct note {
    uint32_t to, number;
};

static struct job job, control;
static unsigned char *source;
static size_t next_number[CONTEXTS], landed[CONTEXTS], acknowledged;

static size_t bytes_of(size_t number)
{
    static const size_t sizes[] = {0, 20, 600, 8000, 33000, LARGEST};

    return sizes[number % 6];
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    unsigned char *block = cookie;
    struct note note;

    CHECK_CALLBACK();
    memcpy(&note, block, sizeof note);
    CHECK(context == job.context[note.to] && result == PAMI_SUCCESS);
    CHECK_SIZE(test_differs(block + sizeof note, bytes_of(note.number), 1, 0),
               bytes_of(note.number));
    landed[note.to]++;
    free(block);
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    struct note note;

    (void)cookie;
    CHECK_CALLBACK();
    CHECK(header_bytes == sizeof note && test_origin(origin) == 0);
    memcpy(&note, header, sizeof note);
    CHECK(note.to < CONTEXTS && context == job.context[note.to]);
    CHECK_SIZE(note.number, next_number[note.to]++);
    CHECK_SIZE(bytes, bytes_of(note.number));
    if (recv == NULL) {
        CHECK_SIZE(test_differs(data, bytes, 1, 0), bytes);
        landed[note.to]++;
        return;
    }
    recv->cookie = memcpy(test_alloc(sizeof note + bytes), &note, sizeof note);
    recv->addr = (unsigned char *)recv->cookie + sizeof note;
    recv->local_fn = on_landed;
}

static void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    acknowledged++;
}

static void send_all(void)
{
    pami_send_event_t events = {.remote_fn = on_remote};
    struct note note;
    size_t task;

    for (note.number = 0; note.number < MESSAGES; note.number++) {
        for (note.to = 0; note.to < CONTEXTS; note.to++) {
            for (task = 1; task < job.tasks; task++) {
                pami_endpoint_t dest = job_endpoint(&job, task, note.to);
                size_t bytes = bytes_of(note.number);

                if (note.number % 6 <= 3 && note.number % 4 == 0) {
                    test_send_immediate(job.context[0], dest, ID, &note, sizeof note, source,
                                        bytes);
                    acknowledged++;
                } else {
                    test_send(job.context[0], dest, ID, &note, sizeof note, source, bytes, events);
                }
            }
        }
        job_advance(&job);
    }
}

static void advance_both(void)
{
    job_advance(&job);
    job_advance(&control);
}

int main(void)
{
    size_t i;

    source = test_alloc(LARGEST);
    test_fill(source, LARGEST, 1, 0);
    job_start(&control, "control", 1);
    job_create_client(&job, "early_context");
    if (job.task == 0) {
        job_create_contexts(&job, 1);
        test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
        send_all();
        job_barrier(&control);
        WAIT_WITH(advance_both(), acknowledged == MESSAGES * CONTEXTS * (job.tasks - 1));
    } else {
        job_barrier(&control);
        test_sleep(0.05);
        job_create_contexts(&job, CONTEXTS);
        job_linger(&job, 0.05);
        for (i = CONTEXTS; i-- > 0;) {
            CHECK_SIZE(landed[i], 0);
            test_dispatch(job.context[i], ID, on_message, NULL, test_ordered());
            WAIT(&job, landed[i] == MESSAGES);
        }
    }
    job_finish(&job);
    job_finish(&control);
    free(source);
    return 0;
}
