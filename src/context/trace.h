/*
 * PAMI_TRACE: what contexts do, recorded for the viewers of Chrome and Perfetto.
 *
 * Events are kept in memory of the context's, up to PAMI_TRACE_EVENTS of them, and written when it
 * ends. All tasks of a job write into one file, each under a lock, so it is a whole JSON array at
 * any time; what an earlier job has left there is dropped.
 *
 * Off, a context pays for the test of a pointer where a callback runs, and for nothing where a
 * message is sent or dispatched: ids that are registered while it is on carry a flag among those
 * which are looked at anyway (DISPATCH_TRACED).
 */
#ifndef LIBPAMI_CONTEXT_TRACE_H
#define LIBPAMI_CONTEXT_TRACE_H

#include <stdint.h>

struct context;

enum trace_kind {
    TRACE_SEND,     /* a message is sent: id is its dispatch id */
    TRACE_DISPATCH, /* a dispatch function has run */
    TRACE_CALLBACK, /* any other callback has run */
    TRACE_BEGIN,    /* a collective, or a machine of one: id names it until its end */
    TRACE_STEP,     /* it has completed a phase; `bytes` is which */
    TRACE_END,
};

struct trace_event {
    uint64_t begin, end; /* of clock_now_ns */
    const char *name;    /* a constant */
    uint64_t id;
    uint64_t bytes;
    uint32_t peer; /* endpoint */
    enum trace_kind kind;
};

/* Starts recording if the option says so; without memory it does not. */
void trace_open(struct context *context);

/* Writes and ends the record; `client` and its number go with it. */
void trace_close(struct context *context, const char *client, unsigned instance);

/* The context records. begin 0: now. */
void trace_add(struct context *context, enum trace_kind kind, const char *name, uint64_t begin,
               uint64_t id, uint32_t peer, uint64_t bytes);

/* A callback has run since `begin`. */
static inline void trace_callback(struct context *context, const char *name, uint64_t begin)
{
    trace_add(context, TRACE_CALLBACK, name, begin, 0, 0, 0);
}

#endif
