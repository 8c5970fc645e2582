/*
 * Once it runs, the program closes every descriptor that is not its own, as daemons do: nobody is
 * taken for dead by those that the library had, and messages arrive as before.
 *
 * Run: tasks=2,3
 * Run: tasks=4 nodes=2
 */
#include <unistd.h>

#include "api_test.h"

enum {
    DESCRIPTORS = 1024,
    ROUNDS = 30,
    PAUSE_US = 10000 /* the library looks after others about as often */
};

static struct job job;

int main(void)
{
    int fd, i;

    job_start(&job, "descriptors_closed", 1);
    job_barrier(&job);
    job_barrier(&job); /* everybody has heard of everybody, and watches */
    for (fd = STDERR_FILENO + 1; fd < DESCRIPTORS; fd++)
        close(fd);
    for (i = 0; i < ROUNDS; i++) {
        job_barrier(&job);
        usleep(PAUSE_US);
    }
    job_finish(&job);
    return 0;
}
