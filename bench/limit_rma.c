/*
 * The limits of this machine for one-sided transfers, without any library.
 *
 *     limit_rma [--min N] [--max N] [--step N] [--block-min N] [--ms N] [--plain]
 *
 * The loops of onesided.h over what the processor and the system offer: memcpy, a loop over blocks
 * and an atomic add in memory that two processes share; with --plain process_vm_writev and _readv
 * of private memory of the other process (there are no atomics then). Every function is called,
 * never inlined, as a library's would be.
 */
#include "onesided.h"
#include "pair.h"

#include <sys/uio.h>

#define VECTORS 512

struct shared {
    struct {
        BENCH_ALIGNED _Atomic uint64_t count;
    } arrived[2];
    void *address; /* of rank 1's window, there */
    int argc;
    char **argv;
};

static struct {
    struct shared *shared;
    unsigned char *target;
    uint64_t meetings;
    pid_t peer;
    int rank;
    bool plain;
} transport;

static void move(bool write, void *local, size_t bytes, const struct iovec *remote, size_t count)
{
    struct iovec here = {local, bytes};
    ssize_t moved = write ? process_vm_writev(transport.peer, &here, 1, remote, count, 0)
                          : process_vm_readv(transport.peer, &here, 1, remote, count, 0);

    if (moved != (ssize_t)bytes) {
        bench_die("process_vm_%s: %s", write ? "writev" : "readv", strerror(errno));
    }
}

__attribute__((noinline)) void transport_put(const void *source, size_t at, size_t bytes)
{
    struct iovec remote = {transport.target + at, bytes};

    if (transport.plain) {
        move(true, (void *)(uintptr_t)source, bytes, &remote, 1);
    } else {
        memcpy(transport.target + at, source, bytes);
    }
}

__attribute__((noinline)) void transport_get(void *target, size_t at, size_t bytes)
{
    struct iovec remote = {transport.target + at, bytes};

    if (transport.plain) {
        move(false, target, bytes, &remote, 1);
    } else {
        memcpy(target, transport.target + at, bytes);
    }
}

/* Words, with a gap after each. */
__attribute__((noinline)) static void put_words(uint64_t *to, const uint64_t *from, size_t words)
{
    for (size_t i = 0; i < words; i++) {
        to[2 * i] = from[i];
    }
}

__attribute__((noinline)) void transport_put_strided(const void *source, size_t at, size_t block,
                                                     size_t bytes)
{
    struct iovec remote[VECTORS];
    const unsigned char *from = source;
    unsigned char *to = transport.target + at;
    size_t count = 0, gathered = 0;

    if (!transport.plain && block == 8) {
        put_words((uint64_t *)(void *)to, source, bytes / block);
        return;
    }
    for (size_t x = 0; x < bytes; x += block) {
        if (!transport.plain) {
            memcpy(to + 2 * x, from + x, block);
        } else {
            remote[count++] = (struct iovec){to + 2 * x, block};
            gathered += block;
        }
        if (count == VECTORS || (count > 0 && x + block >= bytes)) {
            move(true, (void *)(uintptr_t)(from + x + block - gathered), gathered, remote, count);
            count = gathered = 0;
        }
    }
}

__attribute__((noinline)) void transport_fetch_add(uint64_t *old, size_t at)
{
    *old = __atomic_fetch_add((uint64_t *)(void *)(transport.target + at), 1, __ATOMIC_SEQ_CST);
}

__attribute__((noinline)) void transport_flush(void)
{
    __asm__ volatile("" ::: "memory");
}

void transport_meet(void)
{
    uint64_t number = ++transport.meetings;

    atomic_store(&transport.shared->arrived[transport.rank].count, number);
    while (atomic_load(&transport.shared->arrived[1 - transport.rank].count) < number) {
        bench_relax();
    }
}

static unsigned char *shared_window;

static double role(int rank, int count, struct pair *group, void *argument)
{
    struct shared *s = argument;
    struct onesided o = {.rank = rank, .strided = true, .atomics = !transport.plain};

    (void)count;
    transport.shared = s;
    transport.rank = rank;
    transport.peer = atomic_load(&group->pid[1 - rank]);
    o.window = transport.plain || rank == 0 ? bench_alloc(ONESIDED_WINDOW) : shared_window;
    if (rank == 1) {
        s->address = o.window;
    }
    transport_meet();
    transport.target = transport.plain ? s->address : shared_window;
    onesided_run(&o, s->argc, s->argv);
    return 0;
}

int main(int argc, char **argv)
{
    struct shared *s = bench_shared(sizeof(*s));

    bench_pin_default();
    s->argc = argc;
    s->argv = argv;
    transport.plain = bench_flag(argc, argv, "--plain");
    shared_window = bench_shared(ONESIDED_WINDOW);
    (void)pair_run(role, s, 2, PAIR_APART);
    return 0;
}
