/*
 * The environment: the library and the launcher set none of the variables that a known MPI layer
 * refuses to start with, do not need them, and shrug at settings they do not know.
 *
 * With the argument "closed" the program has given up its standard streams, yet still prints: that
 * must not get into what the library has opened since.
 *
 * Run:
 * Run: tasks=2
 * Run: tasks=1,2 args="closed"
 * Run: tasks=2 nodes=2 args="closed" env="PAMI_NETWORK=ofi"
 * Run: tasks=2 args="given" env="PAMI_VERBOSE=1 PAMI_SHORT=3 PAMI_ALLREDUCE=x PAMI_NO_SUCH_THING=1"
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api_test.h"

static const char *const refused[] = {
    "PAMI_VERBOSE",      "PAMI_STATISTICS",   "PAMI_OPTIMIZED_SUBCOMMS",
    "PAMI_MAXCONTEXT",   "PAMI_MAXCONTEXTS",  "PAMI_MAX_CONTEXT",
    "PAMI_MAX_CONTEXTS", "PAMI_CONTEXT_POST", "PAMI_COMMTHREAD",
    "PAMI_COMMTHREADS",  "PAMI_COMM_THREAD",  "PAMI_COMM_THREADS",
    "PAMI_SHORT",        "PAMI_RVZ",          "PAMI_RZV",
    "PAMI_EAGER",        "PAMI_EAGER_LOCAL",  "PAMI_RMA_PENDING",
    "PAMI_COLLECTIVE",   "PAMI_COLLECTIVES",  "PAMI_SHMEM_PT2PT",
    "PAMI_ALLGATHER",    "PAMI_ALLGATHERV",   "PAMI_ALLREDUCE",
    "PAMI_ALLTOALL",     "PAMI_ALLTOALLV",    "PAMI_BARRIER",
    "PAMI_BCAST",        "PAMI_GATHER",       "PAMI_GATHERV",
    "PAMI_REDUCE",       "PAMI_SCAN",         "PAMI_SCATTER",
    "PAMI_SCATTERV"};

static void none_is_set(void)
{
    size_t i;

    for (i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (getenv(refused[i]) != NULL)
            FAIL("%s is set", refused[i]);
    for (i = 0; environ[i] != NULL; i++)
        if (strncmp(environ[i], "PAMI_COREON", 11) == 0)
            FAIL("%s is set", environ[i]);
}

/* To where the streams were. */
static void print(void)
{
    static const char noise[4096] = "noise";
    struct stat status;
    int fd;

    for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fstat(fd, &status) == 0 && !S_ISCHR(status.st_mode))
            _exit(10 + fd);
        if (write(fd, noise, sizeof noise) < 0 && errno != EBADF)
            _exit(20 + fd);
    }
}

int main(int argc, char **argv)
{
    struct job job;
    bool closed = argc > 1 && strcmp(argv[1], "closed") == 0;
    bool given = argc > 1 && strcmp(argv[1], "given") == 0;

    if (closed)
        close(0), close(1), close(2);
    if (!given)
        none_is_set();
    job_start(&job, "environment", 2);
    if (!given)
        none_is_set();
    job_barrier(&job);
    if (closed)
        print();
    job_barrier(&job);
    job_finish(&job);
    if (!given)
        none_is_set();
    return 0;
}
