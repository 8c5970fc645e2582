/*
 * A stranger on the network: scans all ports of an address, and to each that is open it sends
 * nothing, noise, a greeting cut short, a greeting with a wrong proof, and a lot of noise; many
 * times over. Prints how many ports were open. Fails when anybody takes what it says for a proof,
 * which shows by an answer to messages.
 *
 *     garbage ADDRESS ROUNDS
 *
 * Without arguments it is a job of two tasks that exchange messages while a child of each bothers
 * the ports at which its parent listens: no message is lost, and nothing fails.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 */
#include <arpa/inet.h>
#include <pami.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/net.h"
#include "net/ports.h"

enum {
    FIRST_PORT = 1024,
    PORTS = 65536,
    PORTS_MAX = 64,
    NOISE = 100000,
    PATIENCE_MS = 20,
    ROUNDS = 3,
    PING = 1,
    DONE = 2
};

static struct sockaddr_in address = {.sin_family = AF_INET};

static int reach(unsigned port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_port = htons((uint16_t)port);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static void say(int fd, const void *data, size_t bytes)
{
    if (send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return; /* they hang up: that is what they should do */
}

/* How many bytes come before it gets quiet or they hang up. */
static size_t listen_to(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    char bytes[4096];
    size_t all = 0;
    ssize_t count;

    while (poll(&wait, 1, PATIENCE_MS) > 0 && (count = recv(fd, bytes, sizeof bytes, 0)) > 0)
        all += (size_t)count;
    return all;
}

static void make_noise(unsigned char *noise)
{
    for (size_t i = 0; i < NOISE; i++)
        noise[i] = (unsigned char)rand();
}

/* A greeting as a task of the job would say it, to task `to`, but with a proof that is a guess. */
static size_t pretend(int fd, uint32_t from, uint32_t to, const unsigned char *noise)
{
    struct {
        uint64_t magic;
        uint32_t from, to, life, unused;
        unsigned char nonce[16];
    } hello = {UINT64_C(0x70616d692d6f6669), from, to, 0, 0, {1}};

    say(fd, &hello, sizeof hello);
    listen_to(fd);
    say(fd, noise, 16);
    say(fd, noise, 4096);
    return listen_to(fd);
}

/* 1 when somebody was taken in. */
static int bother(unsigned port, const unsigned char *noise)
{
    static const size_t lengths[] = {0, 1, 39, 40, 41, 200, NOISE};
    int fooled = 0;
    int fd;

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        fd = reach(port);
        if (fd < 0)
            continue;
        say(fd, noise + i, lengths[i] - (lengths[i] == NOISE ? i : 0));
        if (i % 2 != 0)
            listen_to(fd);
        close(fd);
    }
    for (uint32_t to = 0; to < 4; to++) {
        fd = reach(port);
        if (fd < 0)
            continue;
        fooled |= pretend(fd, to ^ 1, to, noise) != 0;
        close(fd);
    }
    return fooled;
}

static int scan(int rounds)
{
    static unsigned char noise[NOISE];
    static unsigned open_ports[PORTS];
    unsigned count = 0;
    int fooled = 0;

    for (unsigned port = FIRST_PORT; port < PORTS; port++) {
        int fd = reach(port);

        if (fd < 0)
            continue;
        open_ports[count++] = port;
        close(fd);
    }
    for (int round = 0; round < rounds; round++) {
        make_noise(noise);
        for (unsigned i = 0; i < count; i++)
            fooled |= bother(open_ports[i], noise);
    }
    printf("%u open ports\n", count);
    return fooled;
}

/* ---- a job that is bothered ---- */

/* The child: begins when it is told to. */
static int bother_parent(int go)
{
    static unsigned char noise[NOISE];
    unsigned ports[PORTS_MAX];
    unsigned count;
    int fooled = 0;
    char byte;

    if (read(go, &byte, 1) != 1)
        return 0;
    count = listening_ports(getppid(), &address.sin_addr, ports, PORTS_MAX);
    if (count == 0) {
        puts("nobody listens");
        return 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
        make_noise(noise);
        for (unsigned i = 0; i < count; i++)
            fooled |= bother(ports[i], noise);
    }
    if (fooled)
        puts("somebody took a stranger for one of the job");
    return fooled;
}

static size_t pings, dones, sent, failures;

static void on_ping(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *pipe, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)pipe, (void)bytes, (void)origin, (void)recv;
    pings++;
}

static void on_done(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *pipe, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header_bytes, (void)bytes, (void)origin, (void)recv;
    (void)pipe;
    memcpy(&dones, header, sizeof dones);
}

static void say_to(pami_context_t context, pami_endpoint_t to, size_t id, const void *header,
                   size_t bytes)
{
    pami_send_immediate_t send = {.dispatch = id, .dest = to};

    send.header.iov_base = (void *)(uintptr_t)header;
    send.header.iov_len = bytes;
    failures += PAMI_Send_immediate(context, &send) != PAMI_SUCCESS;
}

/* Pings until the child has ended, then all that the other has sent come. */
static int be_bothered(pami_context_t context, pami_endpoint_t other, pid_t child)
{
    int status = 0;

    do {
        if (sent < pings + 16) {
            say_to(context, other, PING, NULL, 0);
            sent++;
        }
        PAMI_Context_advance(context, 10);
    } while (waitpid(child, &status, WNOHANG) == 0);
    say_to(context, other, DONE, &sent, sizeof sent);
    while (failures == 0 && (dones == 0 || pings < dones))
        PAMI_Context_advance(context, 10);
    if (failures != 0)
        puts("a message failed");
    return failures != 0 || status != 0;
}

static int job(void)
{
    pami_configuration_t query = {.name = PAMI_CLIENT_TASK_ID};
    pami_dispatch_callback_function ping = {.p2p = on_ping}, done = {.p2p = on_done};
    pami_client_t client;
    pami_context_t context;
    pami_endpoint_t other;
    int status, go[2];
    pid_t child;

    if (pipe(go) != 0 || (child = fork()) < 0)
        return 2;
    if (child == 0) {
        close(go[1]);
        fclose(stderr);
        exit(bother_parent(go[0]));
    }
    close(go[0]);
    if (PAMI_Client_create("garbage", &client, NULL, 0) != PAMI_SUCCESS ||
        PAMI_Client_query(client, &query, 1) != PAMI_SUCCESS ||
        PAMI_Context_createv(client, NULL, 0, &context, 1) != PAMI_SUCCESS ||
        PAMI_Dispatch_set(context, PING, ping, NULL, (pami_dispatch_hint_t){0}) != PAMI_SUCCESS ||
        PAMI_Dispatch_set(context, DONE, done, NULL, (pami_dispatch_hint_t){0}) != PAMI_SUCCESS)
        return 2;
    need_module();
    PAMI_Endpoint_create(client, (pami_task_t)(1 - query.value.intval), 0, &other);
    if (write(go[1], "g", 1) != 1)
        return 2;
    status = be_bothered(context, other, child);
    PAMI_Context_destroyv(&context, 1);
    PAMI_Client_destroy(&client);
    return status;
}

int main(int argc, char **argv)
{
    if (argc == 1)
        return job();
    if (argc != 3 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1)
        return 2;
    return scan(atoi(argv[2]));
}
