/*
 * pamirun: starts a parallel job on this machine and is its PMI-1 server.
 *
 * The pieces are in tools/pamirun/: options (command line), job (the tasks from start to end),
 * ending (clean-up), launch (one process), server and cards (PMI-1), output and input (standard
 * streams), bind (processors), loop (epoll).  The manual page is doc/man/pamirun.1.
 */
#include "pamirun/job.h"
#include "pamirun/options.h"

int main(int argc, char **argv)
{
    struct options options;
    int status = options_parse(argc, argv, &options);

    if (status < 0)
        status = job_run(&options);
    options_finish(&options);
    return status;
}
