/*
 * The one loop of all contenders for one-sided transfers: latency and bandwidth of put and get,
 * strided puts, atomic adds. Rank 0 does everything, rank 1 only makes progress.
 *
 * What a run-time does is behind the transport_ functions below, which the including program
 * defines. Latency is one operation until it is complete at the target, so that the next one may
 * depend on it; bandwidth keeps a window of them in flight, each at a place of its own, and
 * completes them together. Buffers are not rewritten: neither is the target's, so all figures are
 * those of data in the origin's cache, as in the usual benchmarks. The target's memory, or what was
 * read from there, is checked after each size.
 */
#ifndef LIBPAMI_BENCH_ONESIDED_H
#define LIBPAMI_BENCH_ONESIDED_H

#include "bench.h"

#define ONESIDED_WINDOW ((size_t)4 << 20) /* bytes that can be written to in the target */
#define ONESIDED_BATCHES 5
#define ONESIDED_FLIGHT 64
#define ONESIDED_STRIDED ((size_t)512 << 10) /* data bytes of a strided put */

/* Between the origin's memory and the target's window, from byte `at` of it on. These start. */
void transport_put(const void *source, size_t at, size_t bytes);
void transport_get(void *target, size_t at, size_t bytes);
void transport_fetch_add(uint64_t *old, size_t at);

/* Contiguous data into blocks that are 2 * block apart. */
void transport_put_strided(const void *source, size_t at, size_t block, size_t bytes);

/* All that was started is complete, also at the target. */
void transport_flush(void);

/* Both ranks are here; whoever waits makes progress for the other. */
void transport_meet(void);

struct onesided {
    int rank;
    unsigned char *window; /* this rank's; rank 1's is the target */
    unsigned char *local;
    bool atomics, strided;
    uint64_t batch_ns; /* time of a batch, about */
    uint64_t started;  /* operations of the measure that runs */
};

enum onesided_kind {
    ONESIDED_PUT,
    ONESIDED_GET,
    ONESIDED_STRIDED_PUT,
    ONESIDED_FETCH_ADD
};

static inline void onesided_start(const struct onesided *o, enum onesided_kind kind, size_t i,
                                  size_t bytes)
{
    static uint64_t old[ONESIDED_FLIGHT];

    switch (kind) {
    case ONESIDED_PUT:
        transport_put(o->local + i * bytes, i * bytes, bytes);
        break;
    case ONESIDED_GET:
        transport_get(o->local + i * bytes, i * bytes, bytes);
        break;
    case ONESIDED_STRIDED_PUT:
        transport_put_strided(o->local, 0, bytes, ONESIDED_STRIDED);
        break;
    default:
        transport_fetch_add(&old[i], 0);
    }
}

/* `flight` operations, completed together. */
static inline void onesided_round(struct onesided *o, enum onesided_kind kind, size_t bytes,
                                  size_t flight)
{
    for (size_t i = 0; i < flight; i++) {
        onesided_start(o, kind, i, bytes);
    }
    transport_flush();
    o->started += flight;
}

/* ns of one operation: the median of some batches, each of which takes about o->batch_ns. */
static inline double onesided_time(struct onesided *o, enum onesided_kind kind, size_t bytes,
                                   size_t flight)
{
    uint64_t start = bench_now(), spent = 0;
    size_t rounds = 0;
    double took[ONESIDED_BATCHES] = {0};

    o->started = 0;
    while (spent < o->batch_ns / 4) {
        onesided_round(o, kind, bytes, flight);
        rounds++;
        spent = bench_now() - start;
    }
    rounds = (size_t)((double)rounds * (double)o->batch_ns / (double)spent) + 1;
    for (int b = 0; b < ONESIDED_BATCHES; b++) {
        start = bench_now();
        for (size_t r = 0; r < rounds; r++) {
            onesided_round(o, kind, bytes, flight);
        }
        took[b] = (double)(bench_now() - start) / (double)(rounds * flight);
    }
    return bench_median(took, ONESIDED_BATCHES);
}

static inline size_t onesided_flight(size_t bytes)
{
    size_t most = ONESIDED_WINDOW / bytes;

    return most < ONESIDED_FLIGHT ? most : ONESIDED_FLIGHT;
}

/* One size of put or get, alone and in a window. */
static inline void onesided_size(struct onesided *o, bool put, size_t bytes)
{
    enum onesided_kind kind = put ? ONESIDED_PUT : ONESIDED_GET;
    size_t all = onesided_flight(bytes) * bytes;
    uint64_t seed = bytes * 5 + put;
    bool source = o->rank == (put ? 0 : 1);
    double ns;

    /* Put: rank 0 has the data. Get: rank 1 has them. */
    memset(o->window, 0, all);
    memset(o->local, 0, all);
    if (source) {
        bench_fill(put ? o->local : o->window, all, seed);
    }
    transport_meet();
    if (o->rank == 0) {
        ns = onesided_time(o, kind, bytes, 1);
        bench_emit(put ? "put_latency" : "get_latency", bytes, "us", ns / 1000);
        ns = onesided_time(o, kind, bytes, onesided_flight(bytes));
        bench_emit(put ? "put_bandwidth" : "get_bandwidth", bytes, "GB/s", (double)bytes / ns);
    }
    transport_meet();
    if (!source) {
        bench_check(put ? o->window : o->local, all, seed, put ? "put" : "get");
    }
    transport_meet();
}

/* Blocks of `block` bytes with gaps as long. */
static inline void onesided_strided(struct onesided *o, size_t block)
{
    size_t blocks = ONESIDED_STRIDED / block;

    memset(o->window, 0, 2 * ONESIDED_STRIDED);
    bench_fill(o->local, ONESIDED_STRIDED, block);
    transport_meet();
    if (o->rank == 0) {
        double ns = onesided_time(o, ONESIDED_STRIDED_PUT, block, 1);
        bench_emit("put_strided", block, "GB/s", (double)ONESIDED_STRIDED / ns);
    }
    transport_meet();
    for (size_t i = 0; o->rank == 1 && i < blocks; i++) {
        uint64_t word;
        memcpy(&word, o->window + (2 * i + 1) * block, sizeof(word));
        if (word != 0 || memcmp(o->window + 2 * i * block, o->local + i * block, block) != 0) {
            bench_die("strided put: block %zu of %zu bytes is wrong", i, block);
        }
    }
    transport_meet();
}

/* Nothing but these adds: the sum is known. */
static inline void onesided_atomics(struct onesided *o)
{
    memset(o->window, 0, sizeof(uint64_t));
    transport_meet();
    if (o->rank == 0) {
        uint64_t *sum = (uint64_t *)(void *)o->local, expected;
        double ns = onesided_time(o, ONESIDED_FETCH_ADD, 8, 1);
        expected = o->started;
        bench_emit("fetch_add", 8, "us", ns / 1000);
        ns = onesided_time(o, ONESIDED_FETCH_ADD, 8, ONESIDED_FLIGHT);
        expected += o->started;
        bench_emit("fetch_add_rate", 8, "M/s", 1000 / ns);
        transport_get(sum, 0, sizeof(*sum));
        transport_flush();
        if (*sum != expected) {
            bench_die("fetch-and-add: the sum is %llu instead of %llu", (unsigned long long)*sum,
                      (unsigned long long)expected);
        }
    }
    transport_meet();
}

static inline void onesided_run(struct onesided *o, int argc, char **argv)
{
    size_t least = bench_option(argc, argv, "--min", 8);
    size_t most = bench_option(argc, argv, "--max", ONESIDED_WINDOW);
    size_t step = bench_option(argc, argv, "--step", 1);
    size_t block_least = bench_option(argc, argv, "--block-min", 8);

    o->batch_ns = bench_option(argc, argv, "--ms", 2) * 1000000;
    o->local = bench_alloc(ONESIDED_WINDOW);
    for (size_t bytes = least; bytes <= most; bytes <<= step) {
        onesided_size(o, true, bytes);
        onesided_size(o, false, bytes);
    }
    for (size_t block = block_least; o->strided && block <= 65536; block <<= 1) {
        onesided_strided(o, block);
    }
    if (o->atomics) {
        onesided_atomics(o);
    }
    free(o->local);
}

#endif
