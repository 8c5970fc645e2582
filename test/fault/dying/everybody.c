/*
 * Ways in which all tasks end at about the same time, in the middle of traffic.
 */
#include "fault/dying/dying.h"

#include <stdlib.h>
#include <unistd.h>

/* Longer than any drain of the library's default may take, once. */
#define DESTROY_SECONDS 4.0

static void some_traffic(void)
{
    size_t steps = random_below(400);

    while (steps-- > 0)
        step();
}

static void destroy_contexts(void)
{
    double start = test_now();

    CHECK_OK(PAMI_Context_destroyv(dying.context, CONTEXTS));
    if (test_now() - start > DESTROY_SECONDS * dying.factor)
        fail("it took %.1f s to destroy the contexts", test_now() - start);
}

void all_destroy(void)
{
    some_traffic();
    destroy_contexts();
    CHECK_OK(PAMI_Client_destroy(&dying.client));
}

void all_destroy_client(void)
{
    some_traffic();
    CHECK_OK(PAMI_Client_destroy(&dying.client));
    CHECK(dying.client == PAMI_CLIENT_NULL);
}

void all_exit(void)
{
    some_traffic();
}

void all_quick_exit(void)
{
    some_traffic();
}

/* Rendezvous to everybody, to oneself and among one's own contexts, and nobody pulls. */
void all_destroy_rendezvous(void)
{
    static unsigned char data[1 << 20];
    const struct mark mark = {.kind = KIND_PULL, .bytes = sizeof data};

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = pattern(mark.seed, i);
    for (size_t i = 0; i < CONTEXTS; i++) {
        for (size_t task = 0; task < dying.tasks; task++) {
            pami_send_t message = {
                .send = {.header = {.iov_base = (void *)&mark, .iov_len = sizeof mark},
                         .data = {.iov_base = data, .iov_len = sizeof data},
                         .dispatch = ID_DATA},
            };

            CHECK_OK(PAMI_Endpoint_create(dying.client, (pami_task_t)task, (i + 1) % CONTEXTS,
                                          &message.send.dest));
            CHECK_OK(PAMI_Send(dying.context[i], &message));
        }
    }
    destroy_contexts();
    CHECK_OK(PAMI_Client_destroy(&dying.client));
}
