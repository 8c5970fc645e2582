/*
 * The shortest program: join the job, create contexts, meet, leave. bench/run measures how long
 * "pamirun -n 16 startup" takes as a whole; the program itself prints nothing.
 *
 *     pamirun -n N startup [--contexts N]
 *
 * The meeting makes sure that really all tasks were joined.
 */
#include "job.h"

int main(int argc, char **argv)
{
    struct job job;
    size_t contexts = bench_option(argc, argv, "--contexts", 1);

    job_open(&job, contexts <= JOB_CONTEXTS ? contexts : JOB_CONTEXTS);
    job_meet(&job);
    job_close(&job);
    return 0;
}
