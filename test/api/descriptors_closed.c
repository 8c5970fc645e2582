/*
 * Once it runs, the program closes every descriptor that is not its own, as daemons do, and opens
 * a file that gets their numbers: nobody is taken for dead by those that the library had, messages
 * arrive as before, and what is in the file stays there when memory of a shared heap goes back.
 * With an argument it opens pipes at once, of which nothing is heard: they are open in the end,
 * also when communication servers have gone that were there before.
 *
 * Run: tasks=1,2,3
 * Run: tasks=1,3 args="pipes"
 */
#include <fcntl.h>
#include <pamix.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api_test.h"

enum {
    DESCRIPTORS = 1024,
    NUMBERS = 60,          /* more than the library had */
    BLOCK_BYTES = 8 << 20, /* so much is not kept when it is free */
    MARKS = 256,           /* in the file, one in each MiB */
    MARK = 'm',
    ROUNDS = 30,
    PAUSE_US = 10000 /* the library looks after others about as often */
};

static struct job job;
static int pipes[NUMBERS][2];

/* It can be read at once. */
static int open_file(void)
{
    int i, fd = memfd_create("descriptors_closed", 0);

    CHECK(fd >= 0);
    for (i = 0; i < MARKS; i++)
        CHECK(pwrite(fd, &(char){MARK}, 1, (off_t)i << 20) == 1);
    for (i = 0; i < NUMBERS; i++)
        CHECK(dup(fd) >= 0);
    return fd;
}

static void check_file(int fd)
{
    char mark = 0;
    int i;

    for (i = 0; i < MARKS; i++)
        CHECK(pread(fd, &mark, 1, (off_t)i << 20) == 1 && mark == MARK);
}

static void open_pipes(void)
{
    int i;

    for (i = 0; i < NUMBERS; i++)
        CHECK(pipe(pipes[i]) == 0);
}

static void check_pipes(void)
{
    int i;

    for (i = 0; i < NUMBERS; i++)
        if (fcntl(pipes[i][0], F_GETFD) < 0 || fcntl(pipes[i][1], F_GETFD) < 0)
            FAIL("a pipe of the program's, %d and %d, has been closed", pipes[i][0], pipes[i][1]);
}

int main(int argc, char **argv)
{
    bool quiet = argc > 1 && strcmp(argv[1], "pipes") == 0;
    pamix_servers_t servers;
    void *block;
    int fd, i;

    job_start(&job, "descriptors_closed", 2);
    job_barrier(&job);
    job_barrier(&job); /* everybody has heard of everybody, and watches */
    CHECK_OK(PAMIX_Mem_alloc(job.client, BLOCK_BYTES, 0, PAMIX_MEM_ANY, &block));
    memset(block, 1, BLOCK_BYTES);
    CHECK_OK(PAMIX_Servers_create(&job.context[1], 1, NULL, &servers));
    for (fd = STDERR_FILENO + 1; fd < DESCRIPTORS; fd++)
        close(fd);
    if (quiet)
        open_pipes();
    for (i = 0; i < 2 * ROUNDS; i++) {
        if (i == ROUNDS && !quiet)
            fd = open_file();
        job_barrier(&job);
        usleep(PAUSE_US);
    }
    CHECK_OK(PAMIX_Servers_destroy(&servers));
    CHECK_OK(PAMIX_Mem_free(job.client, block));
    if (!quiet)
        check_file(fd);
    job_finish(&job);
    if (quiet)
        check_pipes();
    return 0;
}
