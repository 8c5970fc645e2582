/*
 * Starts another test where the kernel refuses some system calls, as the filters of containers do
 * and kernels that are older: the library does without.
 *
 *     forbidden ERROR CALL,... PROGRAM [ARGUMENT...]     PROGRAM is below the tests' directory
 *
 * Run: tasks=4 args="EPERM pidfd_open fault/coll_until" timeout=60
 * Run: tasks=3 args="ENOSYS pidfd_open fault/coll_stopped"
 * Run: tasks=3 args="EPERM pidfd_open fault/geometry_dying"
 * Run: tasks=2 args="EPERM process_vm_readv,process_vm_writev api/rma_faults"
 * Run: tasks=3 nodes=2 args="ENOSYS process_vm_readv,process_vm_writev api/rma_faults"
 * Run: tasks=2 args="EPERM process_vm_readv,process_vm_writev api/put"
 * Run: tasks=2 args="EPERM memfd_create api/put"
 * Run: tasks=4 nodes=2 args="ENOSYS memfd_create api/mem"
 * Run: tasks=2 args="EPERM membarrier,futex_waitv,sched_setaffinity api/async_progress"
 * Run: tasks=2 args="EPERM sched_getaffinity api/async_progress"
 * Run: tasks=1 args="ENOSYS membarrier api/async_blind"
 * Run: tasks=2 args="ENOSYS membarrier,futex_waitv,mbind,get_mempolicy,getcpu api/async_progress"
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

enum {
    PROGRAM = 3, /* its place among the arguments */
    SKIPPED = 77,
    WRONG = 2
};

struct call {
    const char *name;
    unsigned number;
};

static const struct call calls[] = {
    {"pidfd_open", SYS_pidfd_open},
    {"process_vm_readv", SYS_process_vm_readv},
    {"process_vm_writev", SYS_process_vm_writev},
    {"membarrier", SYS_membarrier},
    {"futex_waitv", SYS_futex_waitv},
    {"mbind", SYS_mbind},
    {"get_mempolicy", SYS_get_mempolicy},
    {"getcpu", SYS_getcpu},
    {"sched_getaffinity", SYS_sched_getaffinity},
    {"sched_setaffinity", SYS_sched_setaffinity},
    {"madvise", SYS_madvise},
    {"memfd_create", SYS_memfd_create},
};

enum {
    CALLS = sizeof calls / sizeof calls[0]
};

/* The calls that are named in the list: how many, or 0 when one is not known. */
static unsigned short find(char *list, struct sock_filter *filter, unsigned action)
{
    unsigned short count = 0;

    for (char *name = strtok(list, ","); name != NULL; name = strtok(NULL, ",")) {
        size_t i = 0;

        while (i < CALLS && strcmp(calls[i].name, name) != 0)
            i++;
        if (i == CALLS || count == 2 * CALLS)
            return 0;
        filter[count++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1);
        filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    }
    return count;
}

int main(int argc, char *argv[])
{
    struct sock_filter filter[2 * CALLS + 2];
    struct sock_fprog program = {0, filter};
    unsigned error;
    char path[4096];
    char *slash = strrchr(argv[0], '/');

    if (argc <= PROGRAM || slash == NULL)
        return WRONG;
    error = strcmp(argv[1], "EPERM") == 0 ? EPERM : ENOSYS;
    filter[0] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    program.len = find(argv[2], filter + 1, SECCOMP_RET_ERRNO | error);
    if (program.len == 0)
        return WRONG;
    filter[++program.len] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program.len++;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        printf("system calls cannot be forbidden here: %s\n", strerror(errno));
        return SKIPPED;
    }
    snprintf(path, sizeof path, "%.*s/../%s", (int)(slash - argv[0]), argv[0], argv[PROGRAM]);
    execv(path, argv + PROGRAM);
    perror(path);
    return WRONG;
}
