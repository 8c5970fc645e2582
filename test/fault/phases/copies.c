/*
 * Reads of other tasks' memory as places where a task can stop: in the middle of each. The library
 * finds this function instead of the C library's.
 */
#include "fault/phases/stores.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Called as the library does: one piece on either side. */
ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                         const struct iovec *remote, unsigned long remote_count,
                         unsigned long flags)
{
    size_t half = local_count == 1 && remote_count == 1 ? remote->iov_len / 2 : 0;
    struct iovec to = *local, from = *remote;
    ssize_t first, rest;

    if (half == 0 || !stores_count())
        return syscall(SYS_process_vm_readv, pid, local, local_count, remote, remote_count, flags);
    to.iov_len = from.iov_len = half;
    first = syscall(SYS_process_vm_readv, pid, &to, 1UL, &from, 1UL, flags);
    stores_reach("read of memory");
    if (first != (ssize_t)half)
        return first;
    to = (struct iovec){(char *)local->iov_base + half, local->iov_len - half};
    from = (struct iovec){(char *)remote->iov_base + half, remote->iov_len - half};
    rest = syscall(SYS_process_vm_readv, pid, &to, 1UL, &from, 1UL, flags);
    return rest >= 0 ? first + rest : rest;
}
