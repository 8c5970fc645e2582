/*
 * Where memory files are refused the segment's file is in /dev/shm, which others may fill: what a
 * task allocates then is refused, what it has already goes on to work, and so does the rest, also
 * collectives, which do without memory of the heap. Each task has a /dev/shm of its own here. All
 * the time signals come so often that a call which takes many pages is interrupted by one, and has
 * taken none, as kernels do it.
 *
 * Run: tasks=2
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "api/coll.h"

#include <pamix.h>

enum {
    ID = 1,
    MESSAGES = 3000, /* through all of the segment that a context has */
    BYTES = 3000,
    BLOCK = 4 << 20,
    UNINTERRUPTED = 2 << 20
};

static const char fill[] = "/dev/shm/fill";
static const char options[] = "size=80m"; /* less than contexts may take, if all are made */
static struct job job;
static size_t arrived;

typedef long system_call(long number, ...);

/* As the C library's, for whoever calls it. */
__attribute__((visibility("default"))) long syscall(long number, ...)
{
    static system_call *usual;
    void *symbol = usual == NULL ? dlsym(RTLD_NEXT, "syscall") : NULL;
    long arguments[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    if (symbol != NULL)
        memcpy(&usual, &symbol, sizeof usual);
    if (number == SYS_fallocate && arguments[3] > UNINTERRUPTED) {
        errno = EINTR;
        return -1;
    }
    return usual(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                 arguments[5]);
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    static char into[BYTES];

    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    CHECK(bytes == BYTES);
    if (recv != NULL)
        recv->addr = into;
    arrived++;
}

static void refuse_memory_files(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        test_skip("system calls cannot be forbidden here");
}

/* Until there is no room any more. */
static void fill_directory(void)
{
    static const char zeroes[1 << 16];
    int fd = open(fill, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    size_t bytes = sizeof zeroes;

    CHECK(fd >= 0);
    for (; bytes >= 4096; bytes /= 2)
        while (write(fd, zeroes, bytes) == (ssize_t)bytes)
            continue;
    CHECK(errno == ENOSPC && close(fd) == 0);
}

static void flood(void)
{
    static char data[BYTES];
    pami_endpoint_t other = job_endpoint(&job, 1 - job.task, 0);
    pami_send_event_t none = {0};

    arrived = 0;
    job_barrier(&job);
    for (size_t i = 0; i < MESSAGES; i++)
        test_send(job.context[0], other, ID, NULL, 0, data, BYTES, none);
    WAIT(&job, arrived == MESSAGES);
    job_barrier(&job);
}

static void start(void)
{
    job_start(&job, "shm_full", 1);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    job_barrier(&job);
}

int main(void)
{
    void *before, *block = NULL;

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/dev/shm", "tmpfs", 0, options) != 0)
        test_skip("this user cannot mount a /dev/shm of its own");
    refuse_memory_files();
    start();
    CHECK_OK(PAMIX_Mem_alloc(job.client, BLOCK, 0, PAMIX_MEM_ANY, &before));
    job_barrier(&job);
    if (job.task == 0)
        fill_directory(); /* the one that the file is in */
    job_barrier(&job);
    CHECK_REFUSED(PAMIX_Mem_alloc(job.client, BLOCK, 0, PAMIX_MEM_ANY, &block), PAMI_ENOMEM,
                  "/dev/shm");
    memset(before, 1, BLOCK);
    flood();
    CHECK(coll_total(&job, world_of(&job), (int)job.task) == 1);
    job_finish(&job);
    unlink(fill);
    start();
    CHECK_OK(PAMIX_Mem_alloc(job.client, BLOCK, 0, PAMIX_MEM_ANY, &block));
    memset(block, 1, BLOCK);
    job_finish(&job);
    return 0;
}
