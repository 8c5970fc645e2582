/*
 * The only loops in which collectives are timed; libpami and the MPIs are ports below them.
 *
 * A port fills coll_port before it calls coll_main():
 *   start  start a collective in a slot, or run it;  wait  until slots 0..count-1 are done
 *   tell   rank 0's value on all ranks;               meet  every rank comes here
 *
 * Apart (the default): before each collective every rank reads what the one before has left in its
 * memory, rewrites what it contributes, comes to a barrier of this file in memory that the
 * processes share, the same for all contenders, and spins until the time that the last one has set,
 * so that all start within the reading of a clock. A collective takes from the last start to the
 * last end. Roots rotate.
 *
 * In a loop (--loop): collectives follow one another, as programs run that have more tasks than
 * processors; time of all divided by their number. Those in which a rank may run ahead of others,
 * rooted ones and scans, with a barrier of the contender (not with --free).
 *
 * With --fixed rank 0 is the root always.
 *
 * Results of the first rounds are checked, on all ranks and for all roots of up to 16 ranks.
 */
#ifndef LIBPAMI_BENCH_COLLLOOP_H
#define LIBPAMI_BENCH_COLLLOOP_H

#include "bench.h"

#include <fcntl.h>

#define COLL_SLOTS 4
#define COLL_ROUNDS_MAX 2000
#define COLL_RANKS_MAX 64
#define COLL_WARM 16 /* rounds that are checked and not timed */
#define COLL_BATCHES 7

enum coll_kind {
    COLL_BARRIER,
    COLL_BROADCAST,
    COLL_REDUCE,
    COLL_ALLREDUCE,
    COLL_GATHER,
    COLL_SCATTER,
    COLL_ALLGATHER,
    COLL_ALLTOALL,
    COLL_SCAN,
    COLL_REDUCE_SCATTER,
    COLL_KINDS
};

static const char *const coll_names[COLL_KINDS] = {
    "barrier", "broadcast", "reduce",   "allreduce", "gather",
    "scatter", "allgather", "alltoall", "scan",      "reduce_scatter",
};

/* Reductions add 64-bit words. `bytes` is the size of a block where there are several. */
struct coll_call {
    enum coll_kind kind;
    int root;
    char *send, *recv;
    size_t bytes;
    unsigned slot;
};

struct coll_port {
    int rank, size;
    void (*start)(const struct coll_call *call);
    void (*wait)(unsigned count);
    uint64_t (*tell)(uint64_t value);
    void (*meet)(void);
    void *(*alloc)(size_t bytes); /* as bench_alloc, which it stands for when NULL */
};

static struct coll_port coll_port;

/* ---- shared memory of the processes, whatever started them ----------------------------------- */

struct coll_shared {
    BENCH_ALIGNED _Atomic uint32_t arrived;
    BENCH_ALIGNED _Atomic uint64_t begin; /* when all of them start */
    uint64_t start[COLL_RANKS_MAX][COLL_ROUNDS_MAX], end[COLL_RANKS_MAX][COLL_ROUNDS_MAX];
};

static struct coll_shared *coll_shared;

static inline void coll_open_shared(void)
{
    uint64_t id = coll_port.tell((uint64_t)getpid());
    char name[64];
    int fd = -1;

    snprintf(name, sizeof(name), "/bench-coll-%llu", (unsigned long long)id);
    if (coll_port.rank == 0) {
        fd = shm_open(name, O_CREAT | O_RDWR | O_TRUNC, 0600);
        if (fd < 0 || ftruncate(fd, sizeof(struct coll_shared)) != 0) {
            bench_die("%s: %s", name, strerror(errno));
        }
    }
    coll_port.meet();
    if (coll_port.rank != 0) {
        fd = shm_open(name, O_RDWR, 0600);
    }
    coll_shared = mmap(NULL, sizeof(*coll_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || coll_shared == MAP_FAILED) {
        bench_die("%s: %s", name, strerror(errno));
    }
    close(fd);
    memset(coll_shared->start[coll_port.rank], 1, sizeof(coll_shared->start[0]));
    memset(coll_shared->end[coll_port.rank], 1, sizeof(coll_shared->end[0]));
    coll_port.meet();
    if (coll_port.rank == 0) {
        shm_unlink(name);
    }
}

/* All come, and go on at the same time: 1 us after the last one came. */
static inline uint64_t coll_line_up(void)
{
    struct coll_shared *s = coll_shared;
    uint64_t before = atomic_load(&s->begin), begin, now;

    if (atomic_fetch_add(&s->arrived, 1) + 1 == (uint32_t)coll_port.size) {
        atomic_store(&s->arrived, 0);
        atomic_store(&s->begin, bench_now() + 1000);
    }
    while ((begin = atomic_load_explicit(&s->begin, memory_order_acquire)) == before) {
        bench_relax();
    }
    do {
        now = bench_now();
    } while (now < begin);
    return now;
}

/* ---- buffers --------------------------------------------------------------------------------- */

static struct {
    char *send[COLL_SLOTS], *recv[COLL_SLOTS];
} coll_buffers;

static struct {
    bool fixed, free; /* --fixed, --free */
} coll_way;

static inline uint64_t coll_seed(int rank, size_t round)
{
    return (uint64_t)rank * 1000003 + round * 7919;
}

static inline bool coll_is_rooted(enum coll_kind kind)
{
    return kind == COLL_BROADCAST || kind == COLL_REDUCE || kind == COLL_GATHER ||
           kind == COLL_SCATTER;
}

/* A rank may have done its part before the others have come. */
static inline bool coll_runs_ahead(enum coll_kind kind)
{
    return coll_is_rooted(kind) || kind == COLL_SCAN;
}

/* Blocks in the source. */
static inline size_t coll_send_blocks(enum coll_kind kind)
{
    return kind == COLL_SCATTER || kind == COLL_ALLTOALL || kind == COLL_REDUCE_SCATTER
               ? (size_t)coll_port.size
               : 1;
}

static inline void coll_rewrite(const struct coll_call *call, size_t round)
{
    bool root = coll_port.rank == call->root;

    if (call->kind == COLL_BARRIER ||
        (!root && (call->kind == COLL_BROADCAST || call->kind == COLL_SCATTER))) {
        return;
    }
    bench_fill(call->send, call->bytes * coll_send_blocks(call->kind),
               coll_seed(coll_port.rank, round));
}

/* What it has left here: some of it may be in the cache of who wrote it. */
static inline void coll_read(const struct coll_call *call)
{
    size_t blocks =
        call->kind == COLL_GATHER || call->kind == COLL_ALLGATHER || call->kind == COLL_ALLTOALL
            ? (size_t)coll_port.size
            : 1;
    bool to_root = call->kind == COLL_REDUCE || call->kind == COLL_GATHER;
    volatile uint64_t seen;
    uint64_t sum = 0;

    if (call->kind == COLL_BARRIER || (to_root && coll_port.rank != call->root)) {
        return;
    }
    for (size_t i = 0; i < call->bytes * blocks / 8; i++) {
        sum += ((const uint64_t *)(const void *)call->recv)[i];
    }
    seen = sum;
    (void)seen;
}

/* Word i of a sum over `count` ranks is the sum of their seeds + count * i. */
static inline void coll_check_sum(const struct coll_call *call, size_t round, int count,
                                  size_t first)
{
    const uint64_t *word = (const void *)call->recv;
    uint64_t sum = 0;

    for (int rank = 0; rank < count; rank++) {
        sum += coll_seed(rank, round);
    }
    for (size_t i = 0; i < call->bytes / 8; i++) {
        if (word[i] != sum + (uint64_t)count * (first + i)) {
            bench_die("%s of %zu bytes: word %zu is wrong", coll_names[call->kind], call->bytes, i);
        }
    }
}

static inline void coll_check(const struct coll_call *call, size_t round)
{
    const char *name = coll_names[call->kind];
    size_t words = call->bytes / 8, mine = words * (size_t)coll_port.rank;
    bool root = coll_port.rank == call->root;

    switch (call->kind) {
    case COLL_BROADCAST:
        if (!root) {
            bench_check(call->recv, call->bytes, coll_seed(call->root, round), name);
        }
        break;
    case COLL_SCATTER:
        bench_check(call->recv, call->bytes, coll_seed(call->root, round) + mine, name);
        break;
    case COLL_REDUCE:
        if (!root) {
            break;
        } /* fall through */
    case COLL_ALLREDUCE:
        coll_check_sum(call, round, coll_port.size, 0);
        break;
    case COLL_SCAN:
        coll_check_sum(call, round, coll_port.rank + 1, 0);
        break;
    case COLL_REDUCE_SCATTER:
        coll_check_sum(call, round, coll_port.size, mine);
        break;
    case COLL_GATHER:
        if (!root) {
            break;
        } /* fall through */
    case COLL_ALLGATHER:
    case COLL_ALLTOALL:
        for (int rank = 0; rank < coll_port.size; rank++) {
            bench_check(call->recv + (size_t)rank * call->bytes, call->bytes,
                        coll_seed(rank, round) + (call->kind == COLL_ALLTOALL ? mine : 0), name);
        }
        break;
    default:
        break;
    }
}

static inline struct coll_call coll_make(enum coll_kind kind, size_t bytes, size_t round,
                                         unsigned slot)
{
    struct coll_call call = {
        .kind = kind,
        .root = coll_is_rooted(kind) && !coll_way.fixed ? (int)(round % (size_t)coll_port.size) : 0,
        .send = coll_buffers.send[slot],
        .recv = coll_buffers.recv[slot],
        .bytes = bytes,
        .slot = slot,
    };

    return call;
}

/* ---- loops ----------------------------------------------------------------------------------- */

static inline void coll_warm(enum coll_kind kind, size_t bytes)
{
    for (size_t round = 0; round < COLL_WARM; round++) {
        struct coll_call call = coll_make(kind, bytes, round, 0);

        coll_rewrite(&call, round);
        coll_port.start(&call);
        coll_port.wait(1);
        coll_check(&call, round);
    }
    coll_port.meet();
}

/* Median, least and most of what the slowest rank needed. Rank 0. */
static inline void coll_report(const char *name, size_t bytes, size_t rounds)
{
    double took[COLL_ROUNDS_MAX] = {0}, cost = bench_clock_cost() / 1000;
    char full[64];

    for (size_t round = 0; round < rounds; round++) {
        uint64_t start = 0, end = 0;
        for (int rank = 0; rank < coll_port.size; rank++) {
            uint64_t s = coll_shared->start[rank][round], e = coll_shared->end[rank][round];
            start = s > start ? s : start;
            end = e > end ? e : end;
        }
        took[round] = (double)(end - start) / 1000 - cost;
    }
    bench_emit(name, bytes, "us", bench_median(took, rounds));
    snprintf(full, sizeof(full), "%s_min", name);
    bench_emit(full, bytes, "us", took[0]);
    snprintf(full, sizeof(full), "%s_max", name);
    bench_emit(full, bytes, "us", took[rounds - 1]);
}

static inline void coll_apart(enum coll_kind kind, size_t bytes, size_t rounds)
{
    uint64_t *start = coll_shared->start[coll_port.rank], *end = coll_shared->end[coll_port.rank];

    coll_warm(kind, bytes);
    for (size_t round = 0; round < rounds; round++) {
        struct coll_call call = coll_make(kind, bytes, round, 0);

        coll_rewrite(&call, round);
        start[round] = coll_line_up();
        coll_port.start(&call);
        coll_port.wait(1);
        end[round] = bench_now();
        coll_read(&call);
    }
    coll_port.meet();
    if (coll_port.rank == 0) {
        coll_report(coll_names[kind], bytes, rounds);
    }
    coll_port.meet();
}

/* `flight` at a time, of batches of them; 1: each waits for the one before. */
static inline void coll_in_loop(const char *name, enum coll_kind kind, size_t bytes, size_t rounds,
                                unsigned flight)
{
    double took[COLL_BATCHES] = {0};

    coll_warm(kind, bytes);
    for (size_t batch = 0; batch < COLL_BATCHES; batch++) {
        uint64_t start;

        coll_port.meet();
        start = bench_now();
        for (size_t round = 0; round < rounds; round++) {
            for (unsigned slot = 0; slot < flight; slot++) {
                struct coll_call call = coll_make(kind, bytes, round, slot);

                coll_rewrite(&call, round);
                coll_port.start(&call);
            }
            coll_port.wait(flight);
            if (coll_runs_ahead(kind) && !coll_way.free) {
                struct coll_call barrier = coll_make(COLL_BARRIER, 0, 0, 0);

                coll_port.start(&barrier);
                coll_port.wait(1);
            }
        }
        took[batch] = (double)(bench_now() - start) / (double)(rounds * flight) / 1000;
    }
    if (coll_port.rank == 0) {
        bench_emit(name, bytes, "us", bench_median(took, COLL_BATCHES));
    }
    coll_port.meet();
}

static inline void *coll_alloc(size_t bytes)
{
    return coll_port.alloc != NULL ? coll_port.alloc(bytes) : bench_alloc(bytes);
}

static inline size_t coll_rounds(size_t bytes, bool loop)
{
    size_t rounds = bytes <= 64 ? 2000 : bytes <= 4096 ? 1000 : bytes <= 65536 ? 300 : 50;

    if (loop) {
        rounds /= (size_t)(bytes <= 64 ? 2 : 5) * ((size_t)coll_port.size / 4 + 1);
    }
    return rounds > 4 ? rounds : 4;
}

/*
 *     NAME [type ...] [--min N] [--max N] [--loop [--free]] [--fixed] [--rounds N]
 *
 * Sizes 8 B, 4 KiB, 64 KiB, 1 MiB, 4 MiB as far as they lie between --min and --max (1 MiB). Also,
 * with more than one processor each: "stream", all-reduces back to back, and "four" at a time.
 */
static inline void coll_main(int argc, char **argv)
{
    static const size_t sizes[] = {8, 4096, 65536, 1 << 20, 4 << 20};
    size_t least = bench_option(argc, argv, "--min", 8);
    size_t most = bench_option(argc, argv, "--max", 1 << 20);
    size_t given = bench_option(argc, argv, "--rounds", 0);
    bool loop = bench_flag(argc, argv, "--loop");

    coll_way.fixed = bench_flag(argc, argv, "--fixed");
    coll_way.free = bench_flag(argc, argv, "--free");

    if (coll_port.size > COLL_RANKS_MAX || (!loop && given > COLL_ROUNDS_MAX)) {
        bench_die("at most %d processes and %d rounds", COLL_RANKS_MAX, COLL_ROUNDS_MAX);
    }
    for (unsigned slot = 0; slot < COLL_SLOTS; slot++) {
        size_t blocks = slot == 0 ? (size_t)coll_port.size : 1;
        coll_buffers.send[slot] = coll_alloc(blocks * most);
        coll_buffers.recv[slot] = coll_alloc(blocks * most);
    }
    coll_open_shared();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t bytes = sizes[i], rounds = given != 0 ? given : coll_rounds(bytes, loop);

        if (bytes < least || bytes > most) {
            continue;
        }
        for (int kind = 0; kind < COLL_KINDS; kind++) {
            if (!bench_wanted(argc, argv, coll_names[kind]) || (kind == COLL_BARRIER && i > 0)) {
                continue;
            }
            if (loop) {
                coll_in_loop(coll_names[kind], (enum coll_kind)kind, bytes, rounds, 1);
            } else {
                coll_apart((enum coll_kind)kind, bytes, rounds);
            }
        }
        if (!loop && bench_wanted(argc, argv, "stream")) {
            coll_in_loop("stream", COLL_ALLREDUCE, bytes, rounds, 1);
        }
        if (!loop && bench_wanted(argc, argv, "four")) {
            coll_in_loop("four", COLL_ALLREDUCE, bytes, rounds, COLL_SLOTS);
        }
    }
}

#endif
