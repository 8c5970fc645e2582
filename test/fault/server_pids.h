/*
 * The server processes of a test's job, to be stopped and killed. Only pamirun's: its children.
 */
#ifndef LIBPAMI_FAULT_SERVER_PIDS_H
#define LIBPAMI_FAULT_SERVER_PIDS_H

#include "api/api_test.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define SERVER_PIDS_MAX 8

struct server_pids {
    size_t count;
    pid_t pid[SERVER_PIDS_MAX];
};

/* Those of this job, wherever they serve. */
static inline void server_pids_find(struct server_pids *pids)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;

    CHECK(proc != NULL);
    pids->count = 0;
    while ((entry = readdir(proc)) != NULL && pids->count < SERVER_PIDS_MAX) {
        char path[300], name[32] = "", state;
        int pid = atoi(entry->d_name), parent = 0;
        FILE *file;

        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        file = pid > 0 ? fopen(path, "r") : NULL;
        if (file == NULL)
            continue;
        if (fscanf(file, "%*d (%31[^)]) %c %d", name, &state, &parent) == 3 &&
            strcmp(name, "pami_server") == 0 && parent == getppid())
            pids->pid[pids->count++] = (pid_t)pid;
        fclose(file);
    }
    closedir(proc);
}

/* Task 0 does it, after everybody has come here and before anybody leaves. */
static inline void server_pids_signal(struct job *job, const struct server_pids *pids, size_t first,
                                      size_t count, int signal)
{
    job_barrier(job);
    for (size_t i = first; job->task == 0 && i < first + count; i++)
        CHECK(kill(pids->pid[i], signal) == 0);
    job_barrier(job);
}

#endif
