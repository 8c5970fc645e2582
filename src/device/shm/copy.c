/*
 * Single copy: reading and writing another task's memory, with one system call; or with none, where
 * that memory is in its shared heap.
 *
 * Whether the call works between two processes depends on users, namespaces and the kernel's
 * settings, so it is tried once per peer, with a real copy of a word that the peer has told us.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "device/shm/shm.h"
#include "util/log.h"
#include "util/minmax.h"
#include "util/move.h"
#include "util/option.h"
#include "util/order.h"
#include "util/procfs.h"

/* Bytes per call at most: an advance must come back. */
#define COPY_LONGEST ((size_t)4 << 20)

enum {
    SINGLE_COPY_AUTO,
    SINGLE_COPY_ON,
    SINGLE_COPY_OFF
};

enum {
    JOINT_COPY_AUTO,
    JOINT_COPY_ON,
    JOINT_COPY_OFF
};

static ssize_t copy(pid_t id, bool put, const struct copy_pieces *pieces)
{
    return put ? process_vm_writev(id, pieces->local, pieces->local_count, pieces->remote,
                                   pieces->remote_count, 0)
               : process_vm_readv(id, pieces->local, pieces->local_count, pieces->remote,
                                  pieces->remote_count, 0);
}

/*
 * A process whose first thread has ended by pthread_exit has no memory by its own number, but by
 * those of its other threads. They are not kept: a thread's number can be another process's soon.
 * Who cannot list them, for want of a descriptor, of memory or of a /proc, does not know that there
 * are none.
 */
static ssize_t copy_by_thread(int32_t pid, bool put, const struct copy_pieces *pieces)
{
    ssize_t count = -1;
    char path[64];
    DIR *threads;
    const struct dirent *entry;

    if (procfs_depth() != 1) {
        errno = ENOSYS; /* these are no numbers of ours, or there are none */
        return -1;
    }
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    threads = opendir(path);
    while (threads != NULL && count < 0 && (entry = readdir(threads)) != NULL) {
        pid_t id = (pid_t)strtol(entry->d_name, NULL, 10);

        errno = ESRCH;
        if (id > 0 && id != pid)
            count = copy(id, put, pieces);
        if (count < 0 && errno != ESRCH)
            break;
    }
    if (threads != NULL) {
        int saved = errno;

        closedir(threads);
        errno = saved;
    } else if (errno == ENOENT) {
        errno = ESRCH;
    }
    return count;
}

static ssize_t copy_by_kernel(int32_t pid, bool put, const struct copy_pieces *pieces)
{
    ssize_t count = copy(pid, put, pieces);

    return unlikely(count < 0 && errno == ESRCH) ? copy_by_thread(pid, put, pieces) : count;
}

/* Where one remote piece is mapped here; NULL: there are more, it is not in the heap, or a fault at
 * this end is the kernel's to find. */
static char *in_heap(const struct shm_device *device, uint32_t member,
                     const struct copy_pieces *pieces)
{
    const struct segment *segment = device->segment;
    uint64_t remote = (uintptr_t)pieces->remote->iov_base;

    if (pieces->local_count != 1 || pieces->remote_count != 1)
        return NULL;
    if (pieces->told && !shared_heap_has(segment, segment->self, (uintptr_t)pieces->local->iov_base,
                                         pieces->local->iov_len))
        return NULL;
    return shm_heap_address(device, member, remote, pieces->remote->iov_len);
}

ssize_t shm_copy_memory(const struct shm_device *device, uint32_t member, bool put,
                        const struct copy_pieces *pieces)
{
    char *there = in_heap(device, member, pieces), *here = pieces->local->iov_base;
    ssize_t count = (ssize_t)pieces->local->iov_len;

    order_before_put();
    if (there != NULL) {
        move_map(there, (size_t)count);
        move_bytes(put ? there : here, put ? here : there, (size_t)count);
    } else {
        count = copy_by_kernel(segment_member(device->segment, member)->pid, put, pieces);
    }
    order_after_get();
    return count;
}

/* What is lacking for the moment decides for the path that is being opened only. */
static enum copy_state probe(struct shm_device *device, uint32_t index)
{
    const struct segment *segment = device->segment;
    const struct segment_member *member = segment_member(segment, index);
    uint64_t word = 0;
    struct iovec local = {.iov_base = &word, .iov_len = sizeof(word)};
    struct iovec remote = {
        .iov_base = (void *)(uintptr_t)member->probe_address,
        .iov_len = sizeof(word),
    };

    /* Where neither is known the word tells. */
    if (member->pid_space != segment_member(segment, segment->self)->pid_space) {
        log_info("no single copy from task %u: it is in another namespace of processes",
                 member->task);
        return COPY_FAILS;
    }
    if (copy_by_kernel(member->pid, false, &(struct copy_pieces){&local, &remote, 1, 1, false}) !=
        (ssize_t)sizeof(word)) {
        int error = errno;

        log_info("single copy from task %u does not work: %s", member->task, strerror(error));
        return device_copy_may_work(-error) ? COPY_UNTRIED : COPY_FAILS;
    }
    return word == member->probe_value ? COPY_WORKS : COPY_FAILS;
}

void shm_copy_init(struct shm_device *device)
{
    device->joint = (uint8_t)option_choice(OPT_SHM_JOINT_COPY);
    if (device->joint == JOINT_COPY_AUTO && segment_is_watched())
        device->joint = JOINT_COPY_OFF;
}

bool shm_copy_is_unwatched(const struct shm_device *device)
{
    return device->joint != JOINT_COPY_OFF;
}

bool shm_copy_may_push(const struct shm_device *device, uint32_t member)
{
    return member != device->segment->self &&
           option_choice(OPT_SHM_SINGLE_COPY) == SINGLE_COPY_AUTO;
}

bool shm_copy_probe(struct shm_device *device, uint32_t member)
{
    _Atomic uint8_t *state = &device->copy_works[member];
    int choice = option_choice(OPT_SHM_SINGLE_COPY);

    if (choice == SINGLE_COPY_OFF)
        return false;
    if (member == device->segment->self)
        return true;
    if (atomic_load(state) == COPY_UNTRIED) {
        enum copy_state found = probe(device, member);

        if (found != COPY_WORKS && choice == SINGLE_COPY_ON)
            log_warn("PAMI_SHM_SINGLE_COPY=on, but task %u cannot be read from here",
                     device->members[member]);
        atomic_store(state, (uint8_t)found);
    }
    return atomic_load(state) == COPY_WORKS;
}

static int copy_with(struct shm_path *path, bool put, const struct copy_pieces *pieces,
                     size_t *moved)
{
    const struct shm_device *device = shm_port_of(path->path.port)->device;
    ssize_t count = shm_copy_memory(device, path->member, put, pieces);

    if (count > 0) {
        *moved = (size_t)count;
        path->path.port->params.counters[DEVICE_COPIED] += (uint64_t)count;
        return 0;
    }
    if (count == 0)
        return -EFAULT;
    return errno == ESRCH ? -EPIPE : -errno;
}

/* This end needs no system call, the other one would: no gain. Messages of 128 and 256 KiB, 1 and
 * 4 MiB, us, so and jointly: 1.9 and 4.0, 3.6 and 4.0, 17 and 22, 72 and 67 (AMD EPYC). */
static bool is_uneven(const struct shm_device *device, const struct shm_path *path,
                      const void *local, uint64_t remote, size_t bytes)
{
    const struct segment *segment = device->segment;

    return shared_heap_has(segment, path->member, remote, bytes) &&
           !shared_heap_has(segment, segment->self, (uintptr_t)local, bytes);
}

static bool jointly(struct shm_path *path, void *local, uint64_t remote, size_t bytes, bool put,
                    struct transfer *transfer)
{
    const struct shm_device *device = shm_port_of(path->path.port)->device;
    const struct joint_copy what = {
        .transfer = transfer,
        .local = local,
        .remote = remote,
        .bytes = bytes,
        .put = put,
    };

    return bytes >= JOINT_LEAST && path->path.single_copy &&
           (device->joint == JOINT_COPY_ON ||
            (device->joint == JOINT_COPY_AUTO && transfer->joint &&
             !is_uneven(device, path, local, remote, bytes))) &&
           joint_begin(path, &what);
}

static int copy_one(struct path *base, bool put, void *local, uint64_t remote, size_t bytes,
                    size_t *moved, struct transfer *transfer)
{
    struct shm_path *path = container_of(base, struct shm_path, path);
    struct iovec here = {.iov_base = local, .iov_len = smaller(bytes, COPY_LONGEST)};
    struct iovec there = {.iov_base = (void *)(uintptr_t)remote, .iov_len = here.iov_len};

    if (jointly(path, local, remote, bytes, put, transfer))
        return -EINPROGRESS;
    return copy_with(path, put, &(struct copy_pieces){&here, &there, 1, 1, false}, moved);
}

int shm_get(struct path *base, void *local, uint64_t remote, size_t bytes, size_t *moved,
            struct transfer *transfer)
{
    return copy_one(base, false, local, remote, bytes, moved, transfer);
}

int shm_put(struct path *base, const void *local, uint64_t remote, size_t bytes, size_t *moved,
            struct transfer *transfer)
{
    return copy_one(base, true, (void *)(uintptr_t)local, remote, bytes, moved, transfer);
}

int shm_copyv(struct path *base, bool put, const struct iovec *local, size_t local_count,
              const struct iovec *remote, size_t remote_count, size_t *moved)
{
    return copy_with(container_of(base, struct shm_path, path), put,
                     &(struct copy_pieces){local, remote, local_count, remote_count, false}, moved);
}
