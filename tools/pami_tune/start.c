/*
 * Starting jobs; see start.h.
 */
#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coll/collective.h"

int start_init(struct start *start)
{
    ssize_t length = readlink("/proc/self/exe", start->self, sizeof(start->self) - 1);
    char *slash;

    if (length <= 0 || length > (ssize_t)sizeof(start->self) - 16) {
        fprintf(stderr, "pami_tune: /proc/self/exe: %s\n", strerror(errno));
        return 1;
    }
    start->self[length] = '\0';
    snprintf(start->pamirun, sizeof(start->pamirun), "%s", start->self);
    slash = strrchr(start->pamirun, '/');
    snprintf(slash + 1, sizeof(start->pamirun) - (size_t)(slash + 1 - start->pamirun), "pamirun");
    if (access(start->pamirun, X_OK) != 0)
        snprintf(start->pamirun, sizeof(start->pamirun), "pamirun");
    return 0;
}

static void become(const struct start *start, const struct job *job, int out)
{
    char tasks[16], nodes[16], seconds[32];
    const char *arguments[20];
    size_t count = 0;

    snprintf(tasks, sizeof(tasks), "%u", job->tasks);
    snprintf(nodes, sizeof(nodes), "%u", job->nodes);
    snprintf(seconds, sizeof(seconds), "%g", start->seconds);
    arguments[count++] = start->pamirun;
    arguments[count++] = "-n";
    arguments[count++] = tasks;
    arguments[count++] = "--nodes";
    arguments[count++] = nodes;
    arguments[count++] = "--timeout";
    arguments[count++] = seconds;
    arguments[count++] = "--stdin";
    arguments[count++] = "none";
    if (start->bind != NULL) {
        arguments[count++] = "--bind";
        arguments[count++] = start->bind;
    }
    arguments[count++] = start->self;
    arguments[count++] = "--contest";
    arguments[count++] = start->contest != NULL ? start->contest : collective_name(job->type);
    if (start->quick)
        arguments[count++] = "--quick";
    arguments[count] = NULL;
    /* Should this process end, so does the job. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (dup2(out, STDOUT_FILENO) < 0)
        _exit(126);
    execvp(start->pamirun, (char **)(uintptr_t)arguments);
    fprintf(stderr, "pami_tune: %s: %s\n", start->pamirun, strerror(errno));
    _exit(127);
}

int start_job(const struct start *start, const struct job *job,
              void (*line)(void *cookie, const char *text), void *cookie)
{
    char text[512];
    int ends[2], status;
    pid_t child;
    FILE *in;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return 1;
    child = fork();
    if (child == 0)
        become(start, job, ends[1]);
    close(ends[1]);
    in = child > 0 ? fdopen(ends[0], "r") : NULL;
    if (in == NULL) {
        close(ends[0]);
        fprintf(stderr, "pami_tune: cannot start a job: %s\n", strerror(errno));
        if (child > 0)
            waitpid(child, NULL, 0);
        return 1;
    }
    while (fgets(text, sizeof(text), in) != NULL) {
        text[strcspn(text, "\n")] = '\0';
        line(cookie, text);
    }
    fclose(in);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
