/*
 * Connections of the provider are reset while both tasks live, as by a firewall or a card. Task 0
 * sends numbered messages to task 1, and with --both task 1 does too, while the task that --by
 * names resets its connections twice. Whatever is lost on the way, nobody waits in silence: all
 * come, in order, or their sender hears of an error soon; then it resumes the other, and messages
 * go through again. With --forget senders do not ask whether messages have come, so that what tells
 * them is not an acknowledgement that is missing.
 *
 * reset.sh runs it where a task may do that.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <pami.h>
#include <sys/socket.h>
#include <unistd.h>

#include "basics.h"
#include "net/net.h"

enum {
    NUMBER = 1,
    WINDOW = 200,
    LARGE = 30000,
    RESETS = 2,
};

/* Between two resets, and how long a sender may see nothing happen; the peer timeout is 1. */
#define APART 3.5
#define SILENCE 8.0
#define LIMIT 60.0

struct numbers {
    uint32_t life, number, last;
};

static pami_context_t context;
static pami_endpoint_t peer;
static int task, by;
static bool forget, both, large;
static struct numbers mine; /* the next to be sent */
static struct numbers here; /* the next to come */
static bool disorder;
static size_t under_way, failed, done;
static char data[LARGE];

/* Who resumes begins a life at 0, and may do so again when its first messages are lost. */
static void on_number(pami_context_t ctx, void *cookie, const void *header, size_t header_bytes,
                      const void *pipe, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct numbers came;

    (void)ctx, (void)cookie, (void)header_bytes, (void)pipe, (void)bytes, (void)origin;
    memcpy(&came, header, sizeof came);
    if (recv != NULL)
        *recv = (pami_recv_t){.type = PAMI_TYPE_BYTE};
    if (came.life > here.life)
        here = (struct numbers){.life = came.life, .number = 0};
    if (came.life != here.life || came.number != here.number) {
        printf("%u of life %u has come for %u of life %u\n", came.number, came.life, here.number,
               here.life);
        disorder = true;
    }
    here.number++;
    here.last = came.last;
}

static void on_end(pami_context_t ctx, void *cookie, pami_result_t result)
{
    (void)ctx, (void)cookie;
    under_way--;
    done++;
    failed += result != PAMI_SUCCESS;
}

static void send_number(bool acknowledged)
{
    pami_send_t send = {0};

    send.send.dispatch = NUMBER;
    send.send.dest = peer;
    send.send.header.iov_base = &mine;
    send.send.header.iov_len = sizeof mine;
    send.send.data.iov_base = data;
    send.send.data.iov_len = large ? LARGE : 8;
    if (acknowledged)
        send.events.remote_fn = on_end;
    else
        send.events.local_fn = on_end;
    under_way++;
    if (PAMI_Send(context, &send) != PAMI_SUCCESS) {
        under_way--;
        failed++;
    }
    mine.number++;
}

/* An Internet socket's own port, or that of the other end; 0: there is none. */
static unsigned port_of(int (*name)(int, struct sockaddr *, socklen_t *), int fd)
{
    struct sockaddr_in address = {0};
    socklen_t bytes = sizeof address;

    if (name(fd, (struct sockaddr *)&address, &bytes) != 0 || address.sin_family != AF_INET)
        return 0;
    return ntohs(address.sin_port);
}

/* Those of the reception have keep-alives. How many were reset; -1: they cannot be. */
static int reset(void)
{
    DIR *directory = opendir("/proc/self/fd");
    const struct dirent *entry;
    char command[128];
    int count = 0;

    while (directory != NULL && count >= 0 && (entry = readdir(directory)) != NULL) {
        int fd = atoi(entry->d_name), keep = 1;
        unsigned there = port_of(getpeername, fd);
        socklen_t bytes = sizeof keep;

        if (there == 0 || getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &keep, &bytes) != 0 || keep != 0)
            continue;
        snprintf(command, sizeof command,
                 "ss -K -Htn 'sport = :%u and dport = :%u' >/dev/null 2>&1",
                 port_of(getsockname, fd), there);
        count = system(command) == 0 && port_of(getpeername, fd) == 0 ? count + 1 : -1;
    }
    if (directory != NULL)
        closedir(directory);
    return count;
}

/* All that was under way has ended, with an error: a new life. */
static void resume(void)
{
    printf("task %d: %zu errors in life %u\n", task, failed, mine.life);
    PAMI_Purge(context, &peer, 1);
    PAMI_Resume(context, &peer, 1);
    mine = (struct numbers){.life = mine.life + 1};
    failed = 0;
}

static int run(bool sends, bool receives)
{
    double start = test_now(), moved = start, resumed = 0;
    double end = start + (RESETS + 1) * APART;
    bool ended = false; /* the last one has got there */
    int resets = 0, reset_count;
    size_t seen = 0;

    while ((sends && !ended) || (receives && here.last == 0) || test_now() < end) {
        double now = test_now();

        if (task == by && resets < RESETS && now > start + (resets + 1) * APART - 2) {
            resets++;
            reset_count = reset();
            if (reset_count < 0) {
                puts("connections cannot be reset here");
                fflush(stdout);
                _exit(77);
            }
            printf("task %d: %d connections reset\n", task, reset_count);
        }
        if (done != seen || !sends || ended)
            moved = now;
        seen = done;
        if (disorder || now - moved > SILENCE || now - start > LIMIT) {
            printf("task %d, after %.1f s: %u sent in life %u, %zu under way, %u have come\n", task,
                   now - start, mine.number, mine.life, under_way, here.number);
            return 1;
        }
        if (sends && failed != 0 && under_way == 0 && now > resumed + 0.2) {
            resumed = now;
            mine.last = 0;
            resume();
        }
        if (sends && failed == 0 && mine.last == 0 && under_way < WINDOW) {
            mine.last = now > end;
            send_number(mine.last != 0 || !forget);
        }
        ended = mine.last != 0 && under_way == 0 && failed == 0;
        PAMI_Context_advance(context, 1);
    }
    return 0;
}

int main(int argc, char **argv)
{
    pami_configuration_t query = {.name = PAMI_CLIENT_TASK_ID};
    pami_dispatch_callback_function function = {.p2p = on_number};
    pami_client_t client;
    int status;

    for (int i = 1; i < argc; i++) {
        forget = forget || strcmp(argv[i], "--forget") == 0;
        both = both || strcmp(argv[i], "--both") == 0;
        large = large || strcmp(argv[i], "--large") == 0;
        by = strcmp(argv[i], "--by") == 0 && i + 1 < argc ? atoi(argv[i + 1]) : by;
    }
    if (PAMI_Client_create("reset", &client, NULL, 0) != PAMI_SUCCESS ||
        PAMI_Client_query(client, &query, 1) != PAMI_SUCCESS ||
        PAMI_Context_createv(client, NULL, 0, &context, 1) != PAMI_SUCCESS ||
        PAMI_Dispatch_set(context, NUMBER, function, NULL, (pami_dispatch_hint_t){0}) !=
            PAMI_SUCCESS)
        return 2;
    need_module();
    task = (int)query.value.intval;
    PAMI_Endpoint_create(client, (pami_task_t)(1 - task), 0, &peer);
    status = run(task == 0 || both, task == 1 || both);
    PAMI_Context_destroyv(&context, 1);
    PAMI_Client_destroy(&client);
    return status;
}
