/*
 * mbind, and the kernel's list of nodes that have memory.
 */
#include "util/numa.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES_MAX 1024u
#define WORD_BITS (8u * (unsigned)sizeof(unsigned long))

struct nodes {
    unsigned long has[NODES_MAX / WORD_BITS];
    unsigned count;
};

/* "0-3,8": sets the bits; what does not fit is left out. */
static void parse(const char *text, struct nodes *nodes)
{
    while (*text >= '0' && *text <= '9') {
        char *end;
        unsigned long first = strtoul(text, &end, 10);
        unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;

        for (unsigned long node = first; node <= last && node < NODES_MAX; node++) {
            nodes->has[node / WORD_BITS] |= 1ul << node % WORD_BITS;
            nodes->count++;
        }
        text = *end == ',' ? end + 1 : end;
    }
}

/* A kernel without NUMA has no such file: one node. No cancellation point. */
static void read_nodes(struct nodes *nodes)
{
    char text[1024] = "0";
    int fd, state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    fd = open("/sys/devices/system/node/has_memory", O_RDONLY | O_CLOEXEC);
    *nodes = (struct nodes){.count = 0};
    if (fd >= 0) {
        ssize_t count = read(fd, text, sizeof(text) - 1);

        text[count > 0 ? count : 1] = '\0';
        close(fd);
    }
    pthread_setcancelstate(state, NULL);
    parse(text, nodes);
}

bool numa_is_worthwhile(void)
{
    struct nodes nodes;

    read_nodes(&nodes);
    return nodes.count > 1;
}

static bool has(const struct nodes *nodes, unsigned node)
{
    return node < NODES_MAX && (nodes->has[node / WORD_BITS] >> node % WORD_BITS & 1) != 0;
}

bool numa_has_memory(unsigned node)
{
    struct nodes nodes;

    read_nodes(&nodes);
    return has(&nodes, node);
}

unsigned numa_rank(unsigned node, unsigned *count)
{
    struct nodes nodes;
    unsigned rank = 0;

    read_nodes(&nodes);
    for (unsigned i = 0; i < node && i < NODES_MAX; i++)
        rank += has(&nodes, i);
    *count = nodes.count;
    return rank;
}

int numa_place(void *address, size_t bytes, int node)
{
    unsigned long mask[NODES_MAX / WORD_BITS] = {0};
    unsigned long policy = MPOL_PREFERRED;
    unsigned here = 0;

    if (node == NUMA_ANY) {
        policy = MPOL_DEFAULT;
    } else {
        if (node == NUMA_LOCAL && syscall(SYS_getcpu, NULL, &here, NULL) != 0)
            return -errno;
        if (node != NUMA_LOCAL)
            here = (unsigned)node;
        if (here >= NODES_MAX)
            return -EINVAL;
        mask[here / WORD_BITS] = 1ul << here % WORD_BITS;
    }
    if (syscall(SYS_mbind, address, bytes, policy, policy == MPOL_DEFAULT ? NULL : mask,
                policy == MPOL_DEFAULT ? 0ul : (unsigned long)NODES_MAX + 1, 0u) != 0)
        return -errno;
    return 0;
}
