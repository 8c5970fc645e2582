/*
 * A task gets its first message from another one together with more connections than its reception
 * lets in at a time: it is stopped while they come, so all wait at the door, the task of the job
 * before the others. That one is not sent away in their place.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 */
#include <pami.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include "net/net.h"
#include "net/ports.h"

enum {
    HELLO = 1,
    STRANGERS = 100,
    PORTS_MAX = 16,
};

static bool arrived, ended;
static pami_result_t result;

static void on_hello(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *pipe, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)pipe, (void)bytes, (void)origin, (void)recv;
    arrived = true;
}

static void on_end(pami_context_t context, void *cookie, pami_result_t how)
{
    (void)context, (void)cookie;
    result = how;
    ended = true;
}

/* The launcher's other child; 0: not found. */
static pid_t find_other(void)
{
    char path[80];
    FILE *file;
    int pid = 0;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)getppid(), (int)getppid());
    file = fopen(path, "r");
    while (file != NULL && fscanf(file, "%d", &pid) == 1 && pid == getpid())
        pid = 0;
    if (file != NULL)
        fclose(file);
    return pid;
}

static void crowd(struct sockaddr_in *address, unsigned port)
{
    address->sin_port = htons((uint16_t)port);
    for (int i = 0; i < STRANGERS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || connect(fd, (struct sockaddr *)address, sizeof *address) != 0)
            puts("a stranger does not get to the door");
    }
}

static int greet(pami_context_t context, pami_endpoint_t other)
{
    const struct timespec while_it_connects = {.tv_nsec = 300000000};
    struct sockaddr_in address = {.sin_family = AF_INET};
    pami_send_t send = {.send = {.dispatch = HELLO, .dest = other}, .events.remote_fn = on_end};
    pid_t pid = find_other();
    unsigned ports[PORTS_MAX];
    unsigned count;

    if (pid == 0) {
        puts("the other task is not a child of the launcher");
        return 2;
    }
    count = listening_ports(pid, &address.sin_addr, ports, PORTS_MAX);
    kill(pid, SIGSTOP);
    if (PAMI_Send(context, &send) != PAMI_SUCCESS)
        return 2;
    nanosleep(&while_it_connects, NULL);
    for (unsigned i = 0; i < count; i++)
        crowd(&address, ports[i]);
    kill(pid, SIGCONT);
    while (!ended)
        PAMI_Context_advance(context, 10);
    if (result == PAMI_SUCCESS)
        return 0;
    puts("the message to a task that lives has failed");
    return 1;
}

int main(void)
{
    pami_configuration_t query = {.name = PAMI_CLIENT_TASK_ID};
    pami_dispatch_callback_function function = {.p2p = on_hello};
    pami_client_t client;
    pami_context_t context;
    pami_endpoint_t other;
    int status = 0;

    if (PAMI_Client_create("crowd", &client, NULL, 0) != PAMI_SUCCESS ||
        PAMI_Client_query(client, &query, 1) != PAMI_SUCCESS ||
        PAMI_Context_createv(client, NULL, 0, &context, 1) != PAMI_SUCCESS ||
        PAMI_Dispatch_set(context, HELLO, function, NULL, (pami_dispatch_hint_t){0}) !=
            PAMI_SUCCESS)
        return 2;
    need_module();
    PAMI_Endpoint_create(client, (pami_task_t)(1 - query.value.intval), 0, &other);
    if (query.value.intval == 0)
        while (!arrived)
            PAMI_Context_advance(context, 10);
    else
        status = greet(context, other);
    PAMI_Context_destroyv(&context, 1);
    PAMI_Client_destroy(&client);
    return status;
}
