/*
 * A bad network between network namespaces: a switch in user space that delays, re-orders and loses
 * frames. For tests, where the kernel has no netem. Each namespace gets an Ethernet device of that
 * name whose other end is here; every frame goes to all the others. Says "ready", then runs until
 * it is ended, and the devices with it.
 *
 *     wire [--delay US] [--jitter US] [--loss PERMILLE] [--seed N] [--cut FILE] DEVICE NAMESPACE...
 *
 * A frame takes the delay and a random part of the jitter, so that later frames overtake it; a
 * frame in a thousand or so is lost. The same seed makes the same dice, though not the same frames.
 * As soon as FILE exists, only TCP connections of the ports that it names get through.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    HOSTS_MAX = 16,
    FRAME_MAX = 1514,
    QUEUE_MAX = 8192, /* frames under way; more are lost, as in any switch */
    PORTS_MAX = 16,
    IP_AT = 14, /* after an Ethernet header */
    SKIP = 77
};

struct frame {
    uint64_t due; /* ns */
    uint64_t number;
    uint32_t bytes;
    uint32_t from;
    unsigned char data[FRAME_MAX];
};

static int devices[HOSTS_MAX];
static uint32_t hosts;
static struct frame *queue[QUEUE_MAX]; /* a heap, by due time */
static uint32_t queued;
static const char *cut; /* the file; NULL: none */
static unsigned ports[PORTS_MAX];
static uint32_t port_count;
static uint64_t delay_ns, jitter_ns, loss, dice = 1, number;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t below(uint64_t limit)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return limit == 0 ? 0 : (dice >> 20) % limit;
}

static bool comes_before(const struct frame *a, const struct frame *b)
{
    return a->due < b->due || (a->due == b->due && a->number < b->number);
}

static void push(struct frame *frame)
{
    uint32_t at = queued++;

    while (at > 0 && comes_before(frame, queue[(at - 1) / 2])) {
        queue[at] = queue[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    queue[at] = frame;
}

static struct frame *pop(void)
{
    struct frame *first = queue[0];
    struct frame *last = queue[--queued];
    uint32_t at = 0;

    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child + 1 < queued && comes_before(queue[child + 1], queue[child]))
            child++;
        if (child >= queued || !comes_before(queue[child], last))
            break;
        queue[at] = queue[child];
        at = child;
    }
    queue[at] = last;
    return first;
}

/* The device of a namespace, made from inside it. Status SKIP where that cannot be done. */
static int open_device(const char *name, const char *host)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    char path[256];
    int fd, namespace;

    snprintf(path, sizeof path, "/run/netns/%s", host);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    namespace = open(path, O_RDONLY | O_CLOEXEC);
    if (namespace < 0 || setns(namespace, CLONE_NEWNET) != 0) {
        printf("SKIP: cannot enter %s: %s\n", path, strerror(errno));
        exit(SKIP);
    }
    close(namespace);
    fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0) {
        printf("SKIP: /dev/net/tun: %s\n", strerror(errno));
        exit(SKIP);
    }
    return fd;
}

static void read_ports(void)
{
    FILE *file = fopen(cut, "r");

    if (file == NULL)
        return;
    while (port_count < PORTS_MAX && fscanf(file, "%u", &ports[port_count]) == 1)
        port_count++;
    fclose(file);
}

/* Of TCP over IPv4, which connections. */
static bool gets_through(const unsigned char *data, size_t bytes)
{
    const unsigned char *ip = data + IP_AT;
    const unsigned char *tcp;

    if (cut != NULL && port_count == 0)
        read_ports();
    if (port_count == 0 || bytes < IP_AT + 20 || data[12] != 8 || data[13] != 0 || ip[9] != 6)
        return true;
    tcp = ip + 4 * (ip[0] & 15);
    if (tcp + 4 > data + bytes)
        return true;
    for (uint32_t i = 0; i < port_count; i++)
        if (ports[i] == tcp[0] * 256u + tcp[1] || ports[i] == tcp[2] * 256u + tcp[3])
            return true;
    return false;
}

static void take(uint32_t from)
{
    for (;;) {
        unsigned char data[FRAME_MAX + 1];
        ssize_t bytes = read(devices[from], data, sizeof data);
        struct frame *frame;

        if (bytes <= 0)
            return;
        if (bytes > FRAME_MAX || queued == QUEUE_MAX || below(1000) < loss ||
            !gets_through(data, (size_t)bytes))
            continue;
        frame = malloc(sizeof *frame);
        if (frame == NULL)
            continue;
        frame->due = now_ns() + delay_ns + below(jitter_ns + 1);
        frame->number = number++;
        frame->from = from;
        frame->bytes = (uint32_t)bytes;
        memcpy(frame->data, data, (size_t)bytes);
        push(frame);
    }
}

/* A device that is down or full loses the frame. */
static void give(const struct frame *frame)
{
    for (uint32_t i = 0; i < hosts; i++)
        if (i != frame->from && write(devices[i], frame->data, frame->bytes) < 0)
            continue;
}

static void run(void)
{
    struct pollfd wait[HOSTS_MAX];

    for (uint32_t i = 0; i < hosts; i++)
        wait[i] = (struct pollfd){.fd = devices[i], .events = POLLIN};
    for (;;) {
        uint64_t now = now_ns();
        struct timespec pause;

        while (queued != 0 && queue[0]->due <= now) {
            struct frame *frame = pop();

            give(frame);
            free(frame);
        }
        if (queued != 0) {
            pause.tv_sec = (time_t)((queue[0]->due - now) / 1000000000u);
            pause.tv_nsec = (long)((queue[0]->due - now) % 1000000000u);
        }
        if (ppoll(wait, hosts, queued != 0 ? &pause : NULL, NULL) <= 0)
            continue;
        for (uint32_t i = 0; i < hosts; i++)
            if (wait[i].revents != 0)
                take(i);
    }
}

int main(int argc, char **argv)
{
    const char *device;
    int i = 1;

    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 10);

        if (strcmp(argv[i], "--delay") == 0)
            delay_ns = value * 1000;
        else if (strcmp(argv[i], "--jitter") == 0)
            jitter_ns = value * 1000;
        else if (strcmp(argv[i], "--loss") == 0)
            loss = value;
        else if (strcmp(argv[i], "--cut") == 0)
            cut = argv[i + 1];
        else if (strcmp(argv[i], "--seed") == 0)
            dice = value;
        else
            return 2;
    }
    if (argc == 1) {
        puts("SKIP: bad_network.sh runs it");
        return SKIP;
    }
    if (argc - i < 3 || argc - i - 1 > HOSTS_MAX)
        return 2;
    device = argv[i++];
    for (; i < argc; i++)
        devices[hosts++] = open_device(device, argv[i]);
    puts("ready");
    fflush(stdout);
    run();
}
