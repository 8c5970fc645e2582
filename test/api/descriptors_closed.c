/*
 * Once it runs, the program closes every descriptor that is not its own, as daemons do, and opens
 * files that get their numbers: nobody is taken for dead by those that the library had, messages
 * arrive as before, and the files stay open.
 *
 * Run: tasks=2,3
 * Run: tasks=4 nodes=2
 */
#include <fcntl.h>
#include <unistd.h>

#include "api_test.h"

enum {
    DESCRIPTORS = 1024,
    FILES = 60, /* more than the library had */
    ROUNDS = 30,
    PAUSE_US = 10000 /* the library looks after others about as often */
};

static struct job job;

/* Something can be read from them at once. */
static void open_files(void)
{
    int i;

    for (i = 0; i < FILES; i++)
        CHECK(open("/dev/zero", O_RDONLY) >= 0);
}

int main(void)
{
    int fd, i;

    job_start(&job, "descriptors_closed", 1);
    job_barrier(&job);
    job_barrier(&job); /* everybody has heard of everybody, and watches */
    for (fd = STDERR_FILENO + 1; fd < DESCRIPTORS; fd++)
        close(fd);
    for (i = 0; i < 2 * ROUNDS; i++) {
        if (i == ROUNDS)
            open_files();
        job_barrier(&job);
        usleep(PAUSE_US);
    }
    job_finish(&job);
    return 0;
}
