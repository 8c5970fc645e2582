/*
 * Two tasks exchange messages until their network is cut and each takes the other for dead; then
 * they resume each other until messages go through again, and exchange some more. Prints
 * "streaming", "gone", "back" as it gets there.
 *
 *     resume [--purge]
 *
 * resume.sh runs it between two hosts and cuts the link. With --purge, which needs no cut, it
 * purges and resumes the other now and then, and nothing is lost.
 *
 * Run: tasks=2 nodes=2 args="--purge" env="PAMI_NETWORK=ofi"
 * Run: tasks=2 args="--purge"
 */
#include <pami.h>
#include <unistd.h>

#include "basics.h"
#include "net/net.h"

enum {
    PING = 1,
    WINDOW = 8,
    AFTER = 2000 /* messages when the other is back */
};

static pami_context_t context;
static pami_endpoint_t peer;
static size_t came, under_way, failed, sent;
static uint32_t life, expected; /* of the messages that come */
static bool disorder;

/* The header says how many there were before since the start, or since the sender resumed us. */
static void on_ping(pami_context_t ctx, void *cookie, const void *header, size_t header_bytes,
                    const void *pipe, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    uint32_t numbers[2];

    (void)ctx, (void)cookie, (void)header_bytes;
    (void)pipe, (void)bytes, (void)origin, (void)recv;
    memcpy(numbers, header, sizeof numbers);
    if (numbers[0] != life) {
        disorder = disorder || numbers[0] < life;
        life = numbers[0];
        expected = numbers[1];
        came = 0;
    }
    disorder = disorder || numbers[1] != expected;
    expected++;
    came++;
}

static void on_remote(pami_context_t ctx, void *cookie, pami_result_t result)
{
    (void)ctx, (void)cookie;
    under_way--;
    failed += result != PAMI_SUCCESS;
}

static void ping(uint32_t my_life)
{
    uint32_t numbers[2] = {my_life, (uint32_t)sent};
    pami_send_t send = {0};

    send.send.dispatch = PING;
    send.send.dest = peer;
    send.send.header.iov_base = numbers;
    send.send.header.iov_len = sizeof numbers;
    send.events.remote_fn = on_remote;
    under_way++;
    sent++;
    if (PAMI_Send(context, &send) != PAMI_SUCCESS) {
        under_way--;
        failed++;
    }
}

static void say(const char *word)
{
    puts(word);
    fflush(stdout);
}

/* Messages both ways until the other is gone, and nothing is under way any more. */
static void until_gone(void)
{
    bool said = false;

    while (failed == 0 || under_way != 0) {
        while (failed == 0 && under_way < WINDOW)
            ping(0);
        PAMI_Context_advance(context, 10);
        if (!said && came > 1000) {
            said = true;
            say("streaming");
        }
    }
}

/* One message at a time, with a number that begins anew, until one gets through. */
static uint32_t until_back(void)
{
    uint32_t my_life = 0;
    double next = 0;

    for (;;) {
        if (under_way == 0 && my_life != 0 && failed == 0)
            return my_life;
        if (under_way == 0 && test_now() > next) {
            PAMI_Purge(context, &peer, 1);
            PAMI_Resume(context, &peer, 1);
            next = test_now() + 0.2;
            failed = 0;
            sent = 0;
            my_life++;
            ping(my_life);
        }
        PAMI_Context_advance(context, 10);
    }
}

/* Until all have come and gone. */
static int exchange(uint32_t my_life, bool purge)
{
    while (failed == 0 && !disorder && (sent < AFTER || under_way != 0 || came < AFTER)) {
        if (sent < AFTER && under_way < WINDOW)
            ping(my_life);
        if (purge && under_way == 0 && sent % 5 == 0) {
            PAMI_Purge(context, &peer, 1);
            PAMI_Resume(context, &peer, 1);
        }
        PAMI_Context_advance(context, 10);
    }
    if (failed != 0 || disorder)
        printf("%zu messages failed%s\n", failed, disorder ? ", others come out of order" : "");
    return failed != 0 || disorder;
}

int main(int argc, char **argv)
{
    pami_configuration_t query = {.name = PAMI_CLIENT_TASK_ID};
    pami_dispatch_callback_function function = {.p2p = on_ping};
    bool purge = argc > 1 && strcmp(argv[1], "--purge") == 0;
    uint32_t my_life = 0;
    pami_client_t client;
    int status;

    if (PAMI_Client_create("resume", &client, NULL, 0) != PAMI_SUCCESS ||
        PAMI_Client_query(client, &query, 1) != PAMI_SUCCESS ||
        PAMI_Context_createv(client, NULL, 0, &context, 1) != PAMI_SUCCESS ||
        PAMI_Dispatch_set(context, PING, function, NULL, (pami_dispatch_hint_t){0}) != PAMI_SUCCESS)
        return 2;
    need_module();
    PAMI_Endpoint_create(client, (pami_task_t)(1 - query.value.intval), 0, &peer);
    if (!purge) {
        until_gone();
        say("gone");
        my_life = until_back();
        say("back");
    }
    status = exchange(my_life, purge);
    PAMI_Context_destroyv(&context, 1);
    PAMI_Client_destroy(&client);
    return status;
}
