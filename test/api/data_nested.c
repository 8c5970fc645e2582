/*
 * A data function of a message that is sent sends another message of the same kind to somebody
 * else: both arrive as they are. It sees words at addresses that are aligned for them.
 *
 * Run: tasks=3 env="PAMI_RNDV_BYTES=1G"
 * Run: tasks=3 nodes=3
 */
#include "api_test.h"

enum {
    ID = 10,
    PIECE = 16,
    BYTES = 60000
};

static struct job job;
static _Alignas(8) unsigned char source[2 * BYTES];
static unsigned char target[BYTES];
static pami_type_t type; /* every other piece */
static size_t sent, landed;

static void send(size_t task, pami_data_function function);

static void pack(void *to, void *from, size_t bytes, void *cookie)
{
    uint64_t *out = to, *in = from;

    CHECK((uintptr_t)to % sizeof *out == 0);
    for (size_t i = 0; i < bytes / sizeof *out; i++)
        out[i] = ~in[i];
    if (cookie != NULL && sent == 1)
        send(2, pack);
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_OK(result);
    landed++;
}

/* Only the first sends within. */
static void send(size_t task, pami_data_function function)
{
    pami_send_typed_t message = {
        .send = test_message(job_endpoint(&job, task, 0), ID, NULL, 0, source, BYTES),
        .events = {.remote_fn = on_sent},
        .typed = {.type = type, .data_fn = function, .data_cookie = task == 1 ? &sent : NULL},
    };

    sent++;
    CHECK_OK(TEST_CALL(PAMI_Send_typed(job.context[0], &message)));
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_OK(result);
    for (size_t i = 0; i < BYTES; i++)
        if ((target[i] ^ 0xff) != test_byte(7, i))
            FAIL("byte %zu is wrong", i);
    landed++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    CHECK_SIZE(bytes, BYTES);
    CHECK(recv != NULL);
    recv->addr = target;
    recv->local_fn = on_landed;
}

int main(void)
{
    job_start(&job, "data_nested", 1);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    for (size_t i = 0; i < BYTES; i++)
        source[i / PIECE * 2 * PIECE + i % PIECE] = test_byte(7, i);
    CHECK_OK(PAMI_Type_create(&type));
    CHECK_OK(PAMI_Type_add_simple(type, PIECE, 0, 1, 2 * PIECE));
    CHECK_OK(PAMI_Type_complete(type, PIECE));
    job_barrier(&job);
    if (job.task == 0)
        send(1, pack);
    WAIT(&job, landed == (job.task == 0 ? 2 : 1));
    job_barrier(&job);
    CHECK_OK(PAMI_Type_destroy(&type));
    job_finish(&job);
    return 0;
}
