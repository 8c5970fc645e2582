/*
 * The only loop in which overlap is measured: how much of a communication is hidden behind
 * computation. libpami and the MPIs are ports below it.
 *
 * A port fills overlap_port before it calls overlap_main():
 *   begin   rank 0 asks for a message, or a rank starts its all-reduce or all-to-all
 *   poll    lets it go on for a moment
 *   finish  until it is complete
 *   ready   rank 1 says that it is about to begin; rank 0 waits until it has been said
 *   serve   rank 1: waits to be asked, and sends the message
 *   tell    rank 0's value on both ranks
 *   thread  a thread of the run-time makes progress from now on, or no longer; NULL: there is none.
 *           An MPI whose thread is there all the time says so by `always`.
 *
 * For each kind and size, medians over rounds of
 *   comm    begin and finish
 *   alone   a computation that takes about four times as long
 *   both    begin, compute, finish
 * and the part of comm that is hidden: (comm + alone - both) / comm in percent,
 *   _none    computation that never calls the run-time
 *   _polls   that polls every microsecond, 100 times at most; in a collective both ranks do so
 *   _thread  that never calls it, with the thread. Rank 1 computes nothing and lets others have its
 *            processor while it waits, so the thread has one; but where there are two of them, what
 *            both ranks do for the communication is done there, hence a long computation
 * and where the rest goes in the last of these modes, us: _begin, how long begin holds the program
 * up, _stretch, how much longer the computation takes, and _finish, how long it waits at the end.
 *
 * With --memory the computation reads memory as fast as it can, without it none at all.
 */
#ifndef LIBPAMI_BENCH_OVERLAPLOOP_H
#define LIBPAMI_BENCH_OVERLAPLOOP_H

#include "bench.h"

#define OVERLAP_POLLS_MAX 100
#define OVERLAP_ROUNDS_MAX 2000
#define OVERLAP_WARM 10
#define OVERLAP_STRIDE 8        /* a cache line at each step */
#define OVERLAP_DATA (2u << 20) /* numbers: more than fits a cache */
#define OVERLAP_MUCH 262144     /* bytes from which on a quarter of the rounds is enough */

enum overlap_kind {
    OVERLAP_MESSAGE,
    OVERLAP_ALLREDUCE,
    OVERLAP_ALLTOALL,
    OVERLAP_KINDS
};

enum overlap_mode {
    OVERLAP_NONE,
    OVERLAP_POLLS,
    OVERLAP_THREAD,
    OVERLAP_MODES
};

static const char *const overlap_kinds[OVERLAP_KINDS] = {"message", "allreduce", "alltoall"};
static const char *const overlap_modes[OVERLAP_MODES] = {"none", "polls", "thread"};

struct overlap_port {
    int rank;
    bool always;
    void (*begin)(enum overlap_kind kind, size_t bytes);
    void (*poll)(void);
    void (*finish)(void);
    void (*ready)(void);
    void (*serve)(size_t bytes, uint64_t seed);
    uint64_t (*tell)(uint64_t value);
    void (*thread)(bool wanted);
    char *send, *recv; /* set by overlap_main */
    bool yields;       /* rank 1 has nothing to do but to wait: others may have its processor */
};

static struct overlap_port overlap_port;

struct overlap_parts {
    double begin, compute, finish; /* ns */
};

static struct overlap_parts overlap_last; /* of the last round that communicated */

/* ---- computation ---- */

static volatile double overlap_sink;
static double *overlap_data; /* NULL: the computation uses no memory */

static inline void overlap_compute(uint64_t steps)
{
    double x = overlap_sink;

    if (overlap_data != NULL) {
        for (uint64_t i = 0; i < steps; i++) {
            x = x * 0.999 + overlap_data[i * OVERLAP_STRIDE % OVERLAP_DATA];
        }
    } else {
        for (uint64_t i = 0; i < steps; i++) {
            x = x * 0.999 + 1.0;
        }
    }
    overlap_sink = x;
}

static inline void overlap_compute_polling(uint64_t steps, uint64_t polls)
{
    for (uint64_t i = 0; i < polls; i++) {
        overlap_compute(steps / polls);
        overlap_port.poll();
    }
}

/* Steps of about this many ns. */
static inline uint64_t overlap_steps(double ns)
{
    const uint64_t probe = 200000;
    uint64_t start = bench_now();

    overlap_compute(probe);
    return (uint64_t)(ns * (double)probe / (double)(bench_now() - start)) + 1;
}

/* ---- one round ---- */

struct overlap_case {
    enum overlap_kind kind;
    enum overlap_mode mode;
    size_t bytes, rounds;
    uint64_t steps, polls;
    bool communicates;
};

static inline void overlap_verify(const struct overlap_case *c, uint64_t seed)
{
    const uint64_t *word = (const void *)overlap_port.recv;
    size_t words = c->bytes / 8, block = words / 2;

    if (c->kind == OVERLAP_MESSAGE) {
        bench_check(overlap_port.recv, c->bytes, seed, "message");
        return;
    }
    for (size_t i = 0; i < words; i++) {
        uint64_t from = i / block, at = (uint64_t)overlap_port.rank * block + i % block;

        if (word[i] != (c->kind == OVERLAP_ALLREDUCE ? 2 * seed + 1 + 2 * i : seed + from + at)) {
            bench_die("%s of %zu bytes: word %zu is wrong", overlap_kinds[c->kind], c->bytes, i);
        }
    }
}

/* Rank 0 computes; rank 1 does what is needed for that. ns. */
static inline double overlap_round(const struct overlap_case *c, uint64_t seed)
{
    bool computes = c->steps != 0 && (overlap_port.rank == 0 || c->mode == OVERLAP_POLLS);
    uint64_t start, begun, computed, finished;

    overlap_port.yields = overlap_port.rank == 1 && c->mode == OVERLAP_THREAD;
    if (c->communicates && overlap_port.rank == 1 && c->kind == OVERLAP_MESSAGE) {
        overlap_port.serve(c->bytes, seed);
        return 0;
    }
    if (c->communicates && c->kind != OVERLAP_MESSAGE) {
        bench_fill(overlap_port.send, c->bytes, seed + (uint64_t)overlap_port.rank);
        overlap_port.ready();
    }
    begun = start = bench_now();
    if (c->communicates) {
        overlap_port.begin(c->kind, c->bytes);
        begun = bench_now();
    }
    if (computes && c->mode == OVERLAP_POLLS && c->communicates) {
        overlap_compute_polling(c->steps, c->polls);
    } else if (computes) {
        overlap_compute(c->steps);
    }
    computed = bench_now();
    if (c->communicates) {
        overlap_port.finish();
    }
    finished = bench_now();
    overlap_last.begin = (double)(begun - start);
    overlap_last.compute = (double)(computed - begun);
    overlap_last.finish = (double)(finished - computed);
    return (double)(finished - start);
}

/* The median, on rank 0. *parts: medians of each of them, if not NULL. */
static inline double overlap_medians(const struct overlap_case *c, struct overlap_parts *parts)
{
    static double times[OVERLAP_ROUNDS_MAX], begin[OVERLAP_ROUNDS_MAX];
    static double compute[OVERLAP_ROUNDS_MAX], finish[OVERLAP_ROUNDS_MAX];

    for (size_t i = 0; i < OVERLAP_WARM + c->rounds; i++) {
        double ns = overlap_round(c, i);

        if (c->communicates && (overlap_port.rank == 0 || c->kind != OVERLAP_MESSAGE)) {
            overlap_verify(c, i);
        }
        if (i >= OVERLAP_WARM) {
            times[i - OVERLAP_WARM] = ns;
            begin[i - OVERLAP_WARM] = overlap_last.begin;
            compute[i - OVERLAP_WARM] = overlap_last.compute;
            finish[i - OVERLAP_WARM] = overlap_last.finish;
        }
    }
    if (parts != NULL) {
        parts->begin = bench_median(begin, c->rounds);
        parts->compute = bench_median(compute, c->rounds);
        parts->finish = bench_median(finish, c->rounds);
    }
    return bench_median(times, c->rounds);
}

static inline double overlap_median(const struct overlap_case *c)
{
    return overlap_medians(c, NULL);
}

/* ---- all of them ---- */

static inline void overlap_emit(const struct overlap_case *c, const char *what, const char *unit,
                                double value)
{
    char name[64];

    snprintf(name, sizeof(name), "overlap_%s_%s", overlap_kinds[c->kind], what);
    if (overlap_port.rank == 0) {
        bench_emit(name, c->bytes, unit, value);
    }
}

static inline void overlap_size(enum overlap_kind kind, size_t bytes, size_t rounds)
{
    struct overlap_case c = {.kind = kind, .bytes = bytes, .rounds = rounds, .communicates = true};
    double comm = overlap_median(&c), alone, both;
    struct overlap_parts parts;
    uint64_t steps = overlap_port.tell(overlap_steps(4 * comm));

    overlap_emit(&c, "us", "us", comm / 1e3);
    for (int mode = 0; mode < OVERLAP_MODES; mode++) {
        bool threaded = mode == OVERLAP_THREAD && overlap_port.thread != NULL;

        if (mode == OVERLAP_THREAD ? !threaded && !overlap_port.always : overlap_port.always) {
            continue;
        }
        c.mode = (enum overlap_mode)mode;
        c.steps = steps;
        c.communicates = false;
        alone = overlap_median(&c);
        c.polls = alone < 1e3 ? 1 : (uint64_t)(alone / 1e3);
        c.polls = c.polls > OVERLAP_POLLS_MAX ? OVERLAP_POLLS_MAX : c.polls;
        c.communicates = true;
        if (threaded) {
            overlap_port.thread(true);
        }
        both = overlap_medians(&c, &parts);
        if (threaded) {
            overlap_port.thread(false);
        }
        overlap_emit(&c, overlap_modes[mode], "%", 100 * (comm + alone - both) / comm);
        if (mode == OVERLAP_THREAD) {
            overlap_emit(&c, "begin", "us", parts.begin / 1e3);
            overlap_emit(&c, "stretch", "us", (parts.compute - alone) / 1e3);
            overlap_emit(&c, "finish", "us", parts.finish / 1e3);
        }
    }
}

/* [message] [allreduce] [alltoall] [--min N] [--max N] [--rounds N] [--memory]: 0 bytes, then 64,
 * 256, ... */
static inline void overlap_main(int argc, char **argv)
{
    size_t least = bench_option(argc, argv, "--min", 0);
    size_t most = bench_option(argc, argv, "--max", 4 << 20);
    size_t rounds = bench_option(argc, argv, "--rounds", 100);

    if (rounds == 0 || rounds > OVERLAP_ROUNDS_MAX) {
        bench_die("1 to %d rounds", OVERLAP_ROUNDS_MAX);
    }
    overlap_port.send = bench_alloc(most);
    overlap_port.recv = bench_alloc(most);
    if (bench_flag(argc, argv, "--memory")) {
        overlap_data = bench_alloc(OVERLAP_DATA * sizeof(*overlap_data));
        for (size_t i = 0; i < OVERLAP_DATA; i++) {
            overlap_data[i] = 1.0;
        }
    }
    for (int kind = 0; kind < OVERLAP_KINDS; kind++) {
        if (!bench_wanted(argc, argv, overlap_kinds[kind])) {
            continue;
        }
        for (size_t bytes = 0; bytes <= most; bytes = bytes == 0 ? 64 : bytes * 4) {
            if (bytes >= least) {
                overlap_size((enum overlap_kind)kind, bytes,
                             bytes < OVERLAP_MUCH ? rounds : (rounds + 3) / 4);
            }
        }
    }
}

#endif
