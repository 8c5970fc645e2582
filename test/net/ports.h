/*
 * Where a process of this host listens, for those who pretend to be strangers.
 */
#ifndef LIBPAMI_NET_PORTS_H
#define LIBPAMI_NET_PORTS_H

#include <dirent.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static inline bool is_open_in(pid_t pid, unsigned long inode)
{
    char path[300], target[64], wanted[64];
    const struct dirent *entry;
    bool found = false;
    DIR *directory;

    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    directory = opendir(path);
    while (directory != NULL && !found && (entry = readdir(directory)) != NULL) {
        ssize_t bytes;

        snprintf(path, sizeof path, "/proc/%d/fd/%s", (int)pid, entry->d_name);
        bytes = readlink(path, target, sizeof target - 1);
        target[bytes < 0 ? 0 : bytes] = '\0';
        found = strcmp(target, wanted) == 0;
    }
    if (directory != NULL)
        closedir(directory);
    return found;
}

/* Where the process listens, by IPv4; sets the address as well. */
static inline unsigned listening_ports(pid_t pid, struct in_addr *address, unsigned *ports,
                                       unsigned most)
{
    FILE *file = fopen("/proc/self/net/tcp", "r");
    unsigned count = 0;
    char line[512];

    while (file != NULL && count < most && fgets(line, sizeof line, file) != NULL) {
        unsigned host, port, state;
        unsigned long inode;

        if (sscanf(line, "%*d: %x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*d %*d %lu", &host, &port,
                   &state, &inode) != 4 ||
            state != 10 || !is_open_in(pid, inode))
            continue;
        address->s_addr = host;
        ports[count++] = port;
    }
    if (file != NULL)
        fclose(file);
    return count;
}

#endif
