/*
 * The limits of this machine for moving bulk data between two processes, without any library.
 *
 *     limit_copy              every measure
 *     limit_copy NAME...      only these: same cross latency bandwidth
 *
 * same       memcpy on one core, buffers as hot as their size allows
 * cross      memcpy, and process_vm_readv, of data that the other core has just written
 * latency    the ping-pong of pingpong.h done by hand: a flag, then one copy by the receiver out of
 *            the sender's shared buffer (memcpy) or private buffer (process_vm_readv)
 * bandwidth  the window of stream.h done by hand in the same two ways, one way and both ways
 *
 * latency and bandwidth take --min, --max, --step and --keep (buffers not rewritten) as the
 * contenders do, bandwidth also --one and --both (ways). One copy is the least anybody can do.
 * Contenders' buffers are private, so only process_vm_readv is directly reachable for them; the
 * memcpy figures show what the memory system gives.
 */
#include "pair.h"
#include "pingpong.h"
#include "stream.h"

#include <sys/uio.h>

#define TIMES 9
#define LARGEST ((size_t)4 << 20)
#define SLOTS 16

/* One direction: who waits for what, each word on a line of its own. */
struct way {
    struct {
        BENCH_ALIGNED _Atomic uint64_t filled; /* messages written into the slot */
        const void *source;                    /* address in the sender */
        BENCH_ALIGNED _Atomic uint64_t copied; /* messages copied out of it */
    } slot[SLOTS];
    struct {
        BENCH_ALIGNED _Atomic uint64_t count;
        double value;
    } note;
};

struct shared {
    struct way way[2]; /* [r]: written by process r */
    int argc;
    char **argv;
    const char *name;
    bool both, kernel;
    size_t bytes;
};

/* ---- the transport behind pingpong.h and stream.h -------------------------------------------- */

static struct {
    struct way *out, *in;
    bool kernel;
    pid_t peer;
    char *segment; /* shared memory that this process's send buffers are taken from */
    void *expected[SLOTS];
    size_t bytes[SLOTS];
    uint64_t started[SLOTS], received[SLOTS], told, heard;
} transport;

/* Brings len bytes at an address of the peer here, in one copy. */
static void fetch(void *target, const void *source, size_t len)
{
    if (transport.kernel) {
        struct iovec local = {target, len}, remote = {(void *)(uintptr_t)source, len};
        if (process_vm_readv(transport.peer, &local, 1, &remote, 1, 0) != (ssize_t)len) {
            bench_die("process_vm_readv: %s", strerror(errno));
        }
    } else {
        memcpy(target, source, len);
    }
}

void transport_post_receive(size_t slot, void *buffer, size_t bytes)
{
    transport.expected[slot] = buffer;
    transport.bytes[slot] = bytes;
}

void transport_wait_receive(size_t slot)
{
    struct way *in = transport.in;
    uint64_t number = ++transport.received[slot];

    while (atomic_load_explicit(&in->slot[slot].filled, memory_order_acquire) < number) {
    }
    fetch(transport.expected[slot], in->slot[slot].source, transport.bytes[slot]);
    atomic_store_explicit(&in->slot[slot].copied, number, memory_order_release);
}

void transport_start_send(size_t slot, const void *buffer, size_t bytes)
{
    (void)bytes;
    transport.out->slot[slot].source = buffer;
    atomic_store_explicit(&transport.out->slot[slot].filled, ++transport.started[slot],
                          memory_order_release);
}

void transport_wait_send(size_t slot)
{
    while (atomic_load_explicit(&transport.out->slot[slot].copied, memory_order_acquire) <
           transport.started[slot]) {
    }
}

void transport_expect(void *buffer)
{
    transport.expected[0] = buffer;
}

void transport_send(const void *buffer, size_t bytes)
{
    transport_start_send(0, buffer, bytes);
    transport_wait_send(0);
}

void transport_receive(void *buffer, size_t bytes)
{
    transport_post_receive(0, buffer, bytes);
    transport_wait_receive(0);
}

void transport_tell(double value)
{
    transport.out->note.value = value;
    atomic_store_explicit(&transport.out->note.count, ++transport.told, memory_order_release);
}

double transport_hear(void)
{
    uint64_t number = ++transport.heard;

    while (atomic_load_explicit(&transport.in->note.count, memory_order_acquire) < number) {
    }
    return transport.in->note.value;
}

void transport_meet(void)
{
    transport_tell(0);
    (void)transport_hear();
}

/*
 * For the memcpy flavour the send buffers must be shared: pingpong.h and stream.h get theirs here.
 * Both processes map the segment at the same address, having inherited it.
 */
void *transport_alloc(size_t bytes)
{
    void *p = transport.segment;

    transport.segment += (bytes + 4095) / 4096 * 4096;
    return p;
}

#define SEGMENT (24 * LARGEST)
static char *segments;

static void transport_open(int rank, struct pair *group, struct shared *s)
{
    memset(&transport, 0, sizeof(transport));
    transport.out = &s->way[rank];
    transport.in = &s->way[1 - rank];
    transport.kernel = s->kernel;
    transport.peer = atomic_load(&group->pid[1 - rank]);
    transport.segment = segments + (rank == 0 ? 0 : SEGMENT);
}

static double role_latency(int rank, int count, struct pair *group, void *shared)
{
    struct shared *s = shared;

    (void)count;
    transport_open(rank, group, s);
    pingpong_run(s->name, rank, s->argc, s->argv);
    return 0;
}

static double role_bandwidth(int rank, int count, struct pair *group, void *shared)
{
    struct shared *s = shared;

    (void)count;
    transport_open(rank, group, s);
    stream_run(s->name, s->both, rank, s->argc, s->argv);
    return 0;
}

/* ---- plain copies ---------------------------------------------------------------------------- */

static void measure_same(void)
{
    static const size_t sizes[] = {4096, 65536, (size_t)1 << 20, LARGEST};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t bytes = sizes[i], repeat = 4 * LARGEST / bytes;
        char *from = bench_alloc(bytes), *to = bench_alloc(bytes);
        double rate[TIMES];
        bench_fill(from, bytes, i);
        for (int t = 0; t < TIMES; t++) {
            uint64_t start = bench_now();
            for (size_t k = 0; k < repeat; k++) {
                memcpy(to, from, bytes);
                __asm__ volatile("" : : "r"(to), "r"(from) : "memory");
            }
            rate[t] = (double)(repeat * bytes) / (double)(bench_now() - start);
        }
        bench_check(to, bytes, i, "memcpy");
        bench_emit("memcpy", bytes, "GB/s", bench_median(rate, TIMES));
        free(from);
        free(to);
    }
}

/* Process 1 writes, process 0 copies; returns the us of one copy. */
static double role_cross(int rank, int count, struct pair *group, void *shared)
{
    struct shared *s = shared;
    size_t rounds = 2 * LARGEST / (s->bytes > 32768 ? s->bytes : 32768);
    char *buffer = segments, *target = bench_alloc(s->bytes);
    double *took = bench_alloc(rounds * sizeof(*took)), clock = bench_clock_cost();

    (void)count;
    transport_open(rank, group, s);
    for (size_t i = 0; i < rounds; i++) {
        if (rank == 1) {
            bench_fill(buffer, s->bytes, i);
            transport_tell(0);
            (void)transport_hear();
        } else {
            uint64_t start;
            (void)transport_hear();
            start = bench_now();
            fetch(target, buffer, s->bytes);
            took[i] = ((double)(bench_now() - start) - clock) / 1000;
            bench_check(target, s->bytes, i, "copy across");
            transport_tell(0);
        }
    }
    return bench_median(took, rounds);
}

static void cross(struct shared *s, bool kernel, size_t bytes)
{
    double us;

    memset(s->way, 0, sizeof(s->way));
    s->kernel = kernel;
    s->bytes = bytes;
    us = pair_run(role_cross, s, 2, PAIR_APART);
    if (bytes < 4096) {
        bench_emit(kernel ? "cma_cross_time" : "memcpy_cross_time", bytes, "us", us);
    } else {
        bench_emit(kernel ? "cma_cross" : "memcpy_cross", bytes, "GB/s", (double)bytes / us / 1000);
    }
}

static void measure_cross(struct shared *s)
{
    static const size_t sizes[] = {8, 4096, 65536, (size_t)1 << 20, LARGEST};

    for (size_t i = 1; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        cross(s, false, sizes[i]);
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        cross(s, true, sizes[i]);
    }
}

static void by_hand(struct shared *s, pair_role *role, const char *name, bool both, bool kernel)
{
    memset(s->way, 0, sizeof(s->way));
    s->name = name;
    s->both = both;
    s->kernel = kernel;
    (void)pair_run(role, s, 2, PAIR_APART);
}

int main(int argc, char **argv)
{
    struct shared *s = bench_shared(sizeof(*s));

    bench_pin_default();
    segments = mmap(NULL, 2 * SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (segments == MAP_FAILED) {
        bench_die("no shared memory: %s", strerror(errno));
    }
    s->argc = argc;
    s->argv = argv;
    if (bench_wanted(argc, argv, "same")) {
        measure_same();
    }
    if (bench_wanted(argc, argv, "cross")) {
        measure_cross(s);
    }
    if (bench_wanted(argc, argv, "latency")) {
        by_hand(s, role_latency, "latency_copy", false, false);
        by_hand(s, role_latency, "latency_cma", false, true);
    }
    if (bench_wanted(argc, argv, "bandwidth") && !bench_flag(argc, argv, "--both")) {
        by_hand(s, role_bandwidth, "bandwidth_copy", false, false);
        by_hand(s, role_bandwidth, "bandwidth_cma", false, true);
    }
    if (bench_wanted(argc, argv, "bandwidth") && !bench_flag(argc, argv, "--one")) {
        by_hand(s, role_bandwidth, "bidirectional_copy", true, false);
        by_hand(s, role_bandwidth, "bidirectional_cma", true, true);
    }
    return 0;
}
