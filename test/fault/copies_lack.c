/*
 * A copy between processes for which the kernel has no memory at the moment, or this task no
 * descriptor, goes another way; the next one is tried again. This holds for the first copy of all,
 * by which a task finds out whether they work, for large messages, for puts, and for what a target
 * copies within its own memory. A copy from where nothing is ends its message, with an error that
 * tells whose, and no later one. Skipped where the kernel refuses copies between processes.
 *
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=on PAMI_SHM_JOINT_COPY=off PAMI_LOG=error"
 */
#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "api/rma.h"

enum {
    MESSAGE_ID = 7,
    BYTES = 1 << 20
};

static struct job job;
static int refusal; /* of all copies, while it is not 0 */
static size_t refused, copied;
static size_t received, fetches;
static unsigned char *memory, *peer_memory;

static ssize_t copy(long call, pid_t pid, const struct iovec *local, unsigned long local_count,
                    const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
    ssize_t count;

    if (refusal != 0) {
        refused++;
        errno = refusal;
        return -1;
    }
    count = syscall(call, pid, local, local_count, remote, remote_count, flags);
    copied += count > 0;
    return count;
}

/* The library finds these instead of the C library's. */
__attribute__((visibility("default"))) ssize_t
process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                 const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
    return copy(SYS_process_vm_readv, pid, local, local_count, remote, remote_count, flags);
}

__attribute__((visibility("default"))) ssize_t
process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
                  const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
    return copy(SYS_process_vm_writev, pid, local, local_count, remote, remote_count, flags);
}

static void on_data(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    if (refusal == EFAULT) {
        CHECK(result == PAMI_ERROR);
        CHECK(strstr(test_text(), "receive: memory of endpoint 1,") == test_text());
    } else {
        CHECK(result == PAMI_SUCCESS);
    }
    received++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    CHECK(recv != NULL && bytes == BYTES);
    *recv = (pami_recv_t){.local_fn = on_data, .addr = memory, .type = PAMI_TYPE_BYTE};
}

/* Task 1 sends, task 0, which leaves barriers first, fetches. How many copies this task makes. */
static size_t fetch(size_t seed)
{
    size_t before = copied, expected = ++fetches;

    if (job.task == 1) {
        test_fill(memory, BYTES, seed, 0);
        test_send(job.context[0], job_endpoint(&job, 0, 0), MESSAGE_ID, NULL, 0, memory, BYTES,
                  (pami_send_event_t){0});
    } else {
        WAIT(&job, received == expected);
        CHECK(refusal == EFAULT || test_differs(memory, BYTES, seed, 0) == BYTES);
    }
    job_barrier(&job);
    return copied - before;
}

/* Task 1 puts. */
static size_t put(size_t seed, bool packets)
{
    size_t before = copied;
    pami_put_simple_t put = {0};
    struct rma op = {0};

    if (job.task == 1) {
        test_fill(memory, BYTES, seed, 0);
        put.rma = rma_head(&op, true, job.context[0], job_endpoint(&job, 0, 0), BYTES);
        put.rma.hints = (pami_send_hint_t){0};
        put.rma.hints.use_shmem = packets ? PAMI_HINT_DISABLE : PAMI_HINT_DEFAULT;
        put.addr = (pami_rma_addr_t){memory, peer_memory};
        put.put = rma_tail(&op);
        RMA_CALL(PAMI_Put, job.context[0], put);
        rma_wait(&job);
    }
    job_barrier(&job);
    if (job.task == 0)
        CHECK(test_differs(memory, BYTES, seed, 0) == BYTES);
    job_barrier(&job);
    return copied - before;
}

static void check(int error)
{
    size_t made;

    refusal = error;
    fetch(1);
    CHECK(job.task == 1 || refused != 0);
    refusal = 0;
    made = fetch(2);
    if (job.task == 0 && made == 0)
        FAIL("after error %d data is not read any more", error);

    refused = 0;
    refusal = error;
    put(3, false);
    CHECK(job.task == 0 || refused != 0);
    refusal = 0;
    made = put(4, false);
    if (job.task == 1 && made == 0)
        FAIL("after error %d puts are not copied any more", error);

    refused = 0;
    refusal = error;
    put(5, true);
    CHECK(job.task == 1 || refused != 0);
    refusal = 0;
    made = put(6, true);
    if (job.task == 0 && made == 0)
        FAIL("after error %d a target does not copy its own memory any more", error);
    refused = 0;
}

struct place {
    unsigned char *memory;
    pid_t pid;
};

static bool is_allowed(const struct place *other)
{
    unsigned char byte;
    struct iovec near = {&byte, 1}, far = {other->memory, 1};

    return syscall(SYS_process_vm_readv, other->pid, &near, 1UL, &far, 1UL, 0UL) == 1;
}

int main(void)
{
    struct place own = {test_alloc(BYTES), getpid()}, all[2];

    memory = own.memory;
    refusal = ENOMEM;
    job_start(&job, "copies_lack", 1);
    test_dispatch(job.context[0], MESSAGE_ID, on_message, NULL, test_ordered());
    rma_open(&job);
    rma_share(&job, &own, sizeof own, all);
    peer_memory = all[1 - job.task].memory;
    if (!is_allowed(&all[1 - job.task]))
        test_skip("no copies between processes");
    fetch(0);
    CHECK(refused != 0);
    refusal = 0;

    /* Other contexts, other paths. */
    job_barrier(&job);
    job_destroy_contexts(&job);
    job_create_contexts(&job, 1);
    test_dispatch(job.context[0], MESSAGE_ID, on_message, NULL, test_ordered());
    if (fetch(0) == 0 && job.task == 0)
        FAIL("after a first copy that failed no other one is tried");
    check(ENOMEM);
    check(EMFILE);
    refusal = EFAULT;
    fetch(1);
    refusal = 0;
    if (fetch(2) == 0 && job.task == 0)
        FAIL("after data that cannot be read no other is");
    free(memory);
    rma_close(&job);
    return 0;
}
