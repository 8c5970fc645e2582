/*
 * The one ping-pong of all contenders: half round trip by message size.
 *
 * What a run-time does is behind the transport_ functions below, which the including program
 * defines; the loop, the rewriting and the check are the same lines of C for everybody.
 *
 * Each side rewrites its whole buffer before each send. From PINGPONG_TIMED bytes on, the time that
 * takes is measured on both sides and subtracted: the row is about moving data that were just
 * written, not about writing them. Below, the few stores stay in. The last message of each batch
 * is checked word by word.
 */
#ifndef LIBPAMI_BENCH_PINGPONG_H
#define LIBPAMI_BENCH_PINGPONG_H

#include "bench.h"

#define PINGPONG_TIMED 1024
#define PINGPONG_BATCHES 5
#define PINGPONG_LARGEST ((size_t)4 << 20)

/* Memory to send from, kept until the end. */
void *transport_alloc(size_t bytes);

/* From now on, messages that come in go to the buffer. */
void transport_expect(void *buffer);

/* Returns when the buffer may be rewritten. */
void transport_send(const void *buffer, size_t bytes);

/* Returns when the next message is in the buffer, which is the expected one. */
void transport_receive(void *buffer, size_t bytes);

/* A number on the side, not into the expected buffer. */
void transport_tell(double value);
double transport_hear(void);

struct pingpong {
    size_t most;      /* round trips of a batch */
    const char *name; /* of the measure */
    int rank;         /* 0 measures and prints; 1 answers */
    bool rewrite;     /* false: the same words are sent again and again */
    double clock_cost;
    size_t bytes;
    uint64_t sent, received;
    void *out, *in;
};

/* Message k of rank r starts with this word. */
static inline uint64_t pingpong_seed(const struct pingpong *p, int rank, uint64_t k)
{
    return ((uint64_t)rank << 56) + (p->rewrite ? k * 3 : p->bytes * 7);
}

/* Returns the ns to subtract. */
static inline double pingpong_write(struct pingpong *p, size_t bytes)
{
    uint64_t seed = pingpong_seed(p, p->rank, ++p->sent), start;
    double spent;

    if (!p->rewrite) {
        return 0;
    }
    if (bytes < PINGPONG_TIMED) {
        bench_fill(p->out, bytes, seed);
        return 0;
    }
    start = bench_now();
    bench_fill(p->out, bytes, seed);
    spent = (double)(bench_now() - start);
    return spent + p->clock_cost;
}

/* Half round trip in us, on rank 0. */
static inline double pingpong_batch(struct pingpong *p, size_t bytes, size_t iterations)
{
    double mine = 0, theirs, elapsed;
    uint64_t start;

    bench_fill(p->out, bytes, pingpong_seed(p, p->rank, p->sent));
    start = bench_now();
    for (size_t i = 0; i < iterations; i++) {
        if (p->rank == 0) {
            mine += pingpong_write(p, bytes);
            transport_send(p->out, bytes);
            transport_receive(p->in, bytes);
        } else {
            transport_receive(p->in, bytes);
            mine += pingpong_write(p, bytes);
            transport_send(p->out, bytes);
        }
    }
    elapsed = (double)(bench_now() - start);
    p->received += iterations;
    bench_check(p->in, bytes, pingpong_seed(p, 1 - p->rank, p->received), p->name);
    if (p->rank == 0) {
        theirs = transport_hear();
        transport_tell(mine);
    } else {
        transport_tell(mine);
        theirs = transport_hear();
    }
    return (elapsed - mine - theirs) / (2.0 * (double)iterations) / 1000;
}

static inline void pingpong_size(struct pingpong *p, size_t bytes)
{
    size_t iterations = ((size_t)24 << 20) / (bytes > 1536 ? bytes : 1536);
    double half[PINGPONG_BATCHES];

    iterations = iterations < p->most ? iterations : p->most;
    p->bytes = bytes;
    pingpong_batch(p, bytes, iterations / 8 + 2);
    for (int b = 0; b < PINGPONG_BATCHES; b++) {
        half[b] = pingpong_batch(p, bytes, iterations);
    }
    if (p->rank == 0) {
        bench_emit(p->name, bytes, "us", bench_median(half, PINGPONG_BATCHES));
    }
}

/* Sizes from --min to --max; each --step'th power of two; --iterations of a batch at most. */
static inline void pingpong_run(const char *name, int rank, int argc, char **argv)
{
    size_t least = bench_option(argc, argv, "--min", 8);
    size_t most = bench_option(argc, argv, "--max", PINGPONG_LARGEST);
    size_t step = bench_option(argc, argv, "--step", 1);
    size_t iterations = bench_option(argc, argv, "--iterations", SIZE_MAX);
    struct pingpong p = {
        .most = iterations, .name = name, .rank = rank, .clock_cost = bench_clock_cost()};

    p.rewrite = !bench_flag(argc, argv, "--keep");
    p.out = transport_alloc(most);
    p.in = bench_alloc(most);
    transport_expect(p.in);
    /* Nothing may come before it is expected. */
    if (rank == 1) {
        transport_tell(0);
    } else {
        (void)transport_hear();
    }
    for (size_t bytes = least; bytes <= most; bytes <<= step) {
        pingpong_size(&p, bytes);
    }
    free(p.in);
}

#endif
