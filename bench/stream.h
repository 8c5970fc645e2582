/*
 * The one bandwidth test of all contenders: a window of messages in flight, each from a buffer of
 * its own that the sender rewrites just before it sends, inside the timed interval.
 *
 * What a run-time does is behind the transport_ functions below, which the including program
 * defines. The window holds up to 4 MiB, but at least 2 and at most 16 messages. A slot is the
 * place of a message in it: message i uses slot i modulo the window. After each batch the receiver
 * checks every word of the last window.
 */
#ifndef LIBPAMI_BENCH_STREAM_H
#define LIBPAMI_BENCH_STREAM_H

#include "bench.h"

#define STREAM_BATCHES 5
#define STREAM_WINDOW 16
#define STREAM_LARGEST ((size_t)4 << 20)

/* Memory to send from, kept until the end. */
void *transport_alloc(size_t bytes);

/* The next message of the slot goes to the buffer; and wait until it is there. */
void transport_post_receive(size_t slot, void *buffer, size_t bytes);
void transport_wait_receive(size_t slot);

/* Send the slot's message; and wait until its buffer may be rewritten. */
void transport_start_send(size_t slot, const void *buffer, size_t bytes);
void transport_wait_send(size_t slot);

/* Both sides are here. */
void transport_meet(void);

struct stream {
    const char *name;
    int rank;
    bool sends, receives;
    bool rewrite; /* false: the same words are sent again and again */
    size_t bytes, window;
    char *out[STREAM_WINDOW], *in[STREAM_WINDOW];
};

static inline uint64_t stream_seed(const struct stream *s, int rank, size_t message)
{
    return ((uint64_t)rank << 56) +
           (s->rewrite ? (uint64_t)message << 32 : (uint64_t)(message % s->window) << 32);
}

static inline void stream_send(struct stream *s, size_t message, size_t messages)
{
    size_t slot = message % s->window;

    if (message >= s->window) {
        transport_wait_send(slot);
    }
    if (message < messages) {
        if (s->rewrite) {
            bench_fill(s->out[slot], s->bytes, stream_seed(s, s->rank, message));
        }
        transport_start_send(slot, s->out[slot], s->bytes);
    }
}

static inline void stream_receive(struct stream *s, size_t message, size_t messages)
{
    size_t slot = message % s->window;

    if (message >= s->window) {
        transport_wait_receive(slot);
        if (message < messages) {
            transport_post_receive(slot, s->in[slot], s->bytes);
        }
    }
}

/* GB/s in one direction. */
static inline double stream_batch(struct stream *s, size_t messages)
{
    uint64_t start;
    double elapsed;

    for (size_t slot = 0; slot < s->window; slot++) {
        bench_fill(s->out[slot], s->bytes, stream_seed(s, s->rank, slot));
        if (s->receives) {
            transport_post_receive(slot, s->in[slot], s->bytes);
        }
    }
    transport_meet();
    start = bench_now();
    for (size_t i = 0; i < messages + s->window; i++) {
        /* In this order two sides that both do both cannot wait for each other. */
        if (s->receives) {
            stream_receive(s, i, messages);
        }
        if (s->sends) {
            stream_send(s, i, messages);
        }
    }
    transport_meet();
    elapsed = (double)(bench_now() - start);
    for (size_t i = messages - s->window; s->receives && i < messages; i++) {
        bench_check(s->in[i % s->window], s->bytes, stream_seed(s, 1 - s->rank, i), s->name);
    }
    return (double)messages * (double)s->bytes / elapsed;
}

static inline size_t stream_window(size_t bytes)
{
    size_t fit = ((size_t)4 << 20) / bytes;

    return fit < 2 ? 2 : fit > STREAM_WINDOW ? STREAM_WINDOW : fit;
}

static inline void stream_size(struct stream *s, size_t bytes)
{
    size_t messages = ((size_t)48 << 20) / bytes;
    double rate[STREAM_BATCHES];

    s->bytes = bytes;
    s->window = stream_window(bytes);
    messages = messages > 20000 ? 20000 : messages;
    messages -= messages % s->window;
    stream_batch(s, 2 * s->window);
    for (int b = 0; b < STREAM_BATCHES; b++) {
        rate[b] = stream_batch(s, messages);
    }
    if (s->rank == 0) {
        int ways = s->receives ? 2 : 1;
        bench_emit(s->name, bytes, "GB/s", ways * bench_median(rate, STREAM_BATCHES));
    }
}

/* Sizes from --min to --max by factors of 4. Both directions at once: the sum is reported. */
static inline void stream_run(const char *name, bool both, int rank, int argc, char **argv)
{
    size_t least = bench_option(argc, argv, "--min", 4096);
    size_t most = bench_option(argc, argv, "--max", STREAM_LARGEST);
    struct stream s = {.name = name, .rank = rank, .sends = both || rank == 0};

    s.receives = both || rank == 1;
    s.rewrite = !bench_flag(argc, argv, "--keep");
    for (size_t bytes = least; bytes <= most; bytes *= 4) {
        size_t buffers = stream_window(bytes);

        for (size_t i = 0; i < buffers; i++) {
            s.out[i] = transport_alloc(bytes);
            s.in[i] = bench_alloc(bytes);
        }
        stream_size(&s, bytes);
        for (size_t i = 0; i < buffers; i++) {
            free(s.in[i]);
        }
    }
}

#endif
