/*
 * A stranger on the network: scans all ports of an address, and to each that is open it sends
 * nothing, noise, a greeting cut short, a greeting with a wrong proof, and a lot of noise; many
 * times over. Prints how many ports were open. Says something on standard error, and fails, when
 * anybody takes what it says for a proof, which shows by an answer to messages.
 *
 *     garbage ADDRESS ROUNDS
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    FIRST_PORT = 1024,
    PORTS = 65536,
    NOISE = 100000,
    PATIENCE_MS = 20
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
        uint32_t from, to;
        unsigned char nonce[16];
    } hello = {UINT64_C(0x70616d692d6f6669), from, to, {1}};

    say(fd, &hello, sizeof hello);
    listen_to(fd);
    say(fd, noise, 16);
    say(fd, noise, 4096);
    return listen_to(fd);
}

/* 1 when somebody was taken in. */
static int bother(unsigned port, const unsigned char *noise)
{
    static const size_t lengths[] = {0, 1, 31, 32, 33, 200, NOISE};
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

int main(int argc, char **argv)
{
    static unsigned char noise[NOISE];
    static unsigned open_ports[PORTS];
    unsigned count = 0;
    int fooled = 0;

    if (argc == 1) {
        printf("SKIP: strangers.sh runs it\n");
        return 77;
    }
    if (argc != 3 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1)
        return 2;
    for (unsigned port = FIRST_PORT; port < PORTS; port++) {
        int fd = reach(port);

        if (fd < 0)
            continue;
        open_ports[count++] = port;
        close(fd);
    }
    for (int round = 0; round < atoi(argv[2]); round++) {
        make_noise(noise);
        for (unsigned i = 0; i < count; i++)
            fooled |= bother(open_ports[i], noise);
    }
    printf("%u open ports\n", count);
    return fooled;
}
