/*
 * The line NSpid of a status file, see procfs.h: the numbers of a process from the namespace of
 * /proc inwards. Kernels before 4.1, and what stands in for a kernel, have no such line.
 */
#include "util/procfs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How many numbers the line has; the one at `depth`, counted from 1, or 0. No cancellation point:
 * copies ask as well. */
static unsigned read_numbers(const char *directory, unsigned depth, pid_t *number)
{
    static const char tag[] = "NSpid:";
    char path[64], *line = NULL;
    size_t room = 0;
    unsigned count = 0;
    FILE *file;
    int state;

    *number = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    snprintf(path, sizeof(path), "%.50s/status", directory);
    file = fopen(path, "re");
    while (file != NULL && count == 0 && getline(&line, &room, file) >= 0) {
        char *at = line + sizeof(tag) - 1, *end;

        if (strncmp(line, tag, sizeof(tag) - 1) != 0)
            continue;
        for (long value = strtol(at, &end, 10); end != at; value = strtol(at, &end, 10)) {
            if (++count == depth)
                *number = (pid_t)value;
            at = end;
        }
    }
    free(line);
    if (file != NULL)
        fclose(file);
    pthread_setcancelstate(state, NULL);
    return count;
}

unsigned procfs_depth(void)
{
    char own[32];
    pid_t number;
    unsigned depth = read_numbers("/proc/self", 0, &number);
    ssize_t length = depth == 0 ? readlink("/proc/self", own, sizeof(own) - 1) : -1;

    if (length < 0)
        return depth;
    own[length] = '\0';
    return strtol(own, NULL, 10) == getpid();
}

pid_t procfs_number(const char *directory, unsigned depth)
{
    pid_t number;

    read_numbers(directory, depth, &number);
    return number;
}
