/*
 * Contexts that cannot be made for want of memory, of one allocation or another, while another task
 * has sent to them already: they can be made again, and the messages are there.
 *
 * Run: tasks=2 timeout=120
 */
#include "sim/no_memory.h"

#include <time.h>

enum {
    ID = 1,
    CONTEXTS = 3
};

static size_t arrived;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    arrived++;
}

static void wait_for(pami_context_t contexts[], size_t count)
{
    time_t end = time(NULL) + 20;

    while (arrived < count) {
        CHECK(time(NULL) < end);
        PAMI_Context_advancev(contexts, CONTEXTS, 100);
    }
    CHECK(arrived == count);
}

static void send(pami_client_t client, pami_context_t context, size_t task, size_t offset,
                 bool refused)
{
    pami_send_immediate_t send = {.dispatch = ID,
                                  .header = {.iov_base = &refused, .iov_len = sizeof(refused)}};

    CALL(PAMI_Endpoint_create(client, (pami_task_t)task, offset, &send.dest));
    CALL(PAMI_Send_immediate(context, &send));
}

static void on_refused(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    memcpy(cookie, header, sizeof(bool));
    on_message(context, cookie, header, header_bytes, data, bytes, origin, recv);
}

/* Task 0 makes its contexts without allocation number `which`; whether there were so many. */
static bool run(size_t task, size_t which)
{
    static const struct timespec moment = {.tv_nsec = 20000000};
    pami_dispatch_callback_function fn = {.p2p = task == 0 ? on_message : on_refused};
    pami_context_t contexts[CONTEXTS];
    pami_client_t client;
    pami_result_t result;
    bool refused = false;

    arrived = 0;
    CALL(PAMI_Client_create("create_memory", &client, NULL, 0));
    if (task == 0)
        nanosleep(&moment, NULL);
    no_memory.refused = 0;
    refuse_only(task == 0 ? which : SIZE_MAX);
    while ((result = PAMI_Context_createv(client, NULL, 0, contexts, CONTEXTS)) != PAMI_SUCCESS)
        CHECK(result == PAMI_ENOMEM && no_memory.refused != 0);
    refuse_only(SIZE_MAX);
    for (size_t i = 0; i < CONTEXTS; i++)
        CALL(PAMI_Dispatch_set(contexts[i], ID, fn, &refused, (pami_dispatch_hint_t){0}));
    if (task == 1)
        for (size_t i = 0; i < CONTEXTS; i++)
            send(client, contexts[0], 0, i, false);
    wait_for(contexts, task == 0 ? CONTEXTS : 1);
    if (task == 0) {
        refused = no_memory.refused != 0;
        send(client, contexts[0], 1, 0, refused);
    }
    CALL(PAMI_Context_destroyv(contexts, CONTEXTS));
    CALL(PAMI_Client_destroy(&client));
    return refused;
}

int main(void)
{
    pami_configuration_t query = {.name = PAMI_CLIENT_TASK_ID};
    pami_client_t client;
    size_t which = 0;

    need_refusing();
    CALL(PAMI_Client_create("who", &client, NULL, 0));
    CALL(PAMI_Client_query(client, &query, 1));
    CALL(PAMI_Client_destroy(&client));
    while (run(query.value.intval, which))
        which++;
    CHECK(which > 10);
    return 0;
}
