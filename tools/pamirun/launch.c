/*
 * Starting tasks, see launch.h.
 *
 * vfork, because the parent then learns from its own memory whether exec worked, and copies no page
 * tables: 64 tasks are at their first fence after 27 ms, with fork after 29 (2 cores, 2026-11-21).
 * Between vfork and exec the child uses nothing but system calls and execvpe, and changes no memory
 * except `failure`.
 *
 * Each task leads a process group, so that a signal reaches what it has started too, and the
 * terminal's Ctrl-C reaches pamirun alone, which forwards it.
 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The variables of one task. */
#define OWN_COUNT 4
#define OWN_MAX 40

struct failure {
    int error; /* errno; 0: none */
    const char *step;
};

static bool begins(const char *variable, const char *prefix)
{
    return strncmp(variable, prefix, strlen(prefix)) == 0;
}

/* What another launcher has said about pamirun itself and is not true of its tasks. */
static bool is_foreign(const char *variable)
{
    static const char *const prefixes[] = {
        "PMI_",      "PMIX_NAMESPACE=",  "PMIX_RANK=",       "PMIX_SERVER_",
        "PMIX_GDS_", "HYDI_CONTROL_FD=", "MPI_LOCALNRANKS=", "MPI_LOCALRANKID=",
    };
    size_t i;

    for (i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (begins(variable, prefixes[i]))
            return true;
    return false;
}

/* Does --env set this variable, not counting the first `from` of them? */
static bool is_replaced(const struct options *options, const char *variable, size_t from)
{
    size_t i, length = strcspn(variable, "=") + 1;

    for (i = from; i < options->variable_count; i++)
        if (strncmp(options->variables[i], variable, length) == 0)
            return true;
    return false;
}

/* It lies beside pamirun, or is found as any program is. */
static void find_server(struct launch *launch)
{
    static const char name[] = "pami_server";
    ssize_t length = readlink("/proc/self/exe", launch->path, sizeof launch->path - sizeof name);
    char *slash;

    launch->path[length < 0 ? 0 : length] = '\0';
    slash = strrchr(launch->path, '/');
    if (slash != NULL)
        memcpy(slash + 1, name, sizeof name);
    launch->server[0] =
        slash != NULL && access(launch->path, X_OK) == 0 ? launch->path : (char *)name;
}

int launch_open(struct launch *launch, const struct options *options)
{
    size_t i, count = 0;

    *launch = (struct launch){.no_aslr = options->no_aslr};
    find_server(launch);
    while (environ[count] != NULL)
        count++;
    launch->environment =
        calloc(count + options->variable_count + OWN_COUNT + 3, sizeof *launch->environment);
    if (launch->environment == NULL)
        return -ENOMEM;
    count = 0;
    for (i = 0; environ[i] != NULL; i++)
        if (!is_foreign(environ[i]) && !is_replaced(options, environ[i], 0))
            launch->environment[count++] = environ[i];
    for (i = 0; i < options->variable_count; i++)
        if (!is_replaced(options, options->variables[i], i + 1))
            launch->environment[count++] = options->variables[i];
    snprintf(launch->servers, sizeof launch->servers, "PMI_SERVERS=%u",
             options->nodes * options->servers);
    snprintf(launch->size, sizeof launch->size, "PMI_SIZE=%u", options_processes(options));
    launch->environment[count++] = launch->size;
    if (options->servers > 0)
        launch->environment[count++] = launch->servers;
    launch->own = count;
    return 0;
}

void launch_close(struct launch *launch)
{
    free(launch->environment);
}

/* In the child; returns only on failure. */
static void child_run(const struct launch *launch, const struct launch_task *task, pid_t parent,
                      volatile struct failure *failure)
{
    failure->step = "set up";
    if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 ||
        dup2(task->in, STDIN_FILENO) < 0 || dup2(task->out, STDOUT_FILENO) < 0 ||
        dup2(task->err, STDERR_FILENO) < 0 || fcntl(task->pmi, F_SETFD, 0) != 0 ||
        setrlimit(RLIMIT_NOFILE, &launch->files) != 0)
        return;
    if (getppid() != parent) /* it died before the request above */
        _exit(STATUS_TROUBLE);
    failure->step = "disable address space randomisation for";
    if (launch->no_aslr && personality(ADDR_NO_RANDOMIZE) < 0)
        return;
    failure->step = "bind";
    if (task->cpus != NULL && sched_setaffinity(0, task->cpus_size, task->cpus) != 0)
        return;
    failure->step = "run";
    sigprocmask(SIG_SETMASK, &launch->mask, NULL);
    execvpe(task->program[0], task->program, launch->environment);
}

/* A directory of PATH that may not be searched makes execvpe say EACCES for what is nowhere. */
static bool is_in_path(const char *name)
{
    const char *path = getenv("PATH");
    char file[PATH_MAX];

    while (path != NULL && *path != '\0') {
        size_t length = strcspn(path, ":");

        snprintf(file, sizeof file, "%.*s/%s", (int)length, path, name);
        if (access(file, F_OK) == 0)
            return true;
        path += length + (path[length] == ':');
    }
    return false;
}

int launch_start(struct launch *launch, const struct launch_task *task, pid_t *pid,
                 const char **step)
{
    char own[OWN_COUNT][OWN_MAX];
    volatile struct failure failure = {0, NULL};
    pid_t parent = getpid(), child;
    size_t i;

    snprintf(own[0], OWN_MAX, "PMI_FD=%d", task->pmi);
    snprintf(own[1], OWN_MAX, "PMI_RANK=%u", task->task);
    snprintf(own[2], OWN_MAX, "MPI_LOCALRANKID=%u", task->local_index);
    snprintf(own[3], OWN_MAX, "MPI_LOCALNRANKS=%u", task->local_count);
    for (i = 0; i < OWN_COUNT; i++)
        launch->environment[launch->own + i] = own[i];
    child = vfork();
    if (child == 0) {
        child_run(launch, task, parent, &failure);
        failure.error = errno;
        _exit(STATUS_TROUBLE);
    }
    for (i = 0; i < OWN_COUNT; i++)
        launch->environment[launch->own + i] = NULL;
    if (child < 0) {
        *step = "start";
        return -errno;
    }
    if (failure.error != 0) {
        *step = failure.step;
        waitpid(child, NULL, 0);
        if (failure.error == EACCES && strchr(task->program[0], '/') == NULL &&
            !is_in_path(task->program[0]))
            return -ENOENT;
        return -failure.error;
    }
    *pid = child;
    return 0;
}
