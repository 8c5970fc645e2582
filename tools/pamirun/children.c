/*
 * Finding children, see children.h.
 *
 * Reads /proc/<pid>/stat of every process, which is slow on a busy machine (10 us each) but works
 * on every kernel; only done for the rare job that leaves something behind.
 */
#include "children.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/procfs.h"

/* The parent of a process, or -1. */
static pid_t parent_of(const char *pid)
{
    char path[64], text[512];
    const char *after;
    ssize_t bytes;
    int fd, parent;
    char state;

    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    bytes = read(fd, text, sizeof text - 1);
    close(fd);
    if (bytes <= 0)
        return -1;
    text[bytes] = '\0';
    /* "pid (name) state parent ...", where the name may hold anything */
    after = strrchr(text, ')');
    if (after == NULL || sscanf(after + 1, " %c %d", &state, &parent) != 2)
        return -1;
    return parent;
}

/* The number by which a process can be signalled; 0: it has just gone. */
static pid_t number_of(const char *entry, unsigned depth)
{
    char path[64];

    if (depth == 1)
        return (pid_t)atol(entry);
    snprintf(path, sizeof path, "/proc/%.20s", entry);
    return procfs_number(path, depth);
}

bool children_contain(const pid_t *list, size_t count, pid_t pid)
{
    size_t i;

    for (i = 0; i < count; i++)
        if (list[i] == pid)
            return true;
    return false;
}

size_t children_list(pid_t *list, size_t room, const pid_t *except, size_t except_count)
{
    unsigned depth = procfs_depth();
    pid_t own = depth == 1 ? getpid() : procfs_number("/proc/self", 1);
    DIR *directory = depth != 0 ? opendir("/proc") : NULL;
    struct dirent *entry;
    size_t count = 0;

    if (directory == NULL)
        return 0;
    while (count < room && (entry = readdir(directory)) != NULL) {
        pid_t pid;

        if (atol(entry->d_name) <= 0 || parent_of(entry->d_name) != own)
            continue;
        pid = number_of(entry->d_name, depth);
        if (pid > 0 && !children_contain(except, except_count, pid))
            list[count++] = pid;
    }
    closedir(directory);
    return count;
}

bool children_exist(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}
