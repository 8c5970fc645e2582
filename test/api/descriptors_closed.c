/*
 * Once it runs, the program closes every descriptor that is not its own, as daemons do, and opens
 * a file that gets their numbers: nobody is taken for dead by those that the library had, messages
 * arrive as before, and what is in the file stays there when memory of a shared heap goes back.
 *
 * Run: tasks=1,2,3
 * Run: tasks=4 nodes=2
 */
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

int main(void)
{
    void *block;
    int fd, i;

    job_start(&job, "descriptors_closed", 1);
    job_barrier(&job);
    job_barrier(&job); /* everybody has heard of everybody, and watches */
    CHECK_OK(PAMIX_Mem_alloc(job.client, BLOCK_BYTES, 0, PAMIX_MEM_ANY, &block));
    memset(block, 1, BLOCK_BYTES);
    for (fd = STDERR_FILENO + 1; fd < DESCRIPTORS; fd++)
        close(fd);
    for (i = 0; i < 2 * ROUNDS; i++) {
        if (i == ROUNDS)
            fd = open_file();
        job_barrier(&job);
        usleep(PAUSE_US);
    }
    CHECK_OK(PAMIX_Mem_free(job.client, block));
    check_file(fd);
    job_finish(&job);
    return 0;
}
