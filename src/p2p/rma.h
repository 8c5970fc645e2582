/*
 * One-sided transfers: what the files that make them share.
 *
 *   rma.c          the calls: checks, choosing a way; rma_short.h: the short cut, shared heap
 *   rma_order.c    which puts wait for which
 *   rma_typed.c    typed transfers: calls, and pieces of both layouts side by side
 *   rma_copy.c     moving by load and store or by single copy, step by step
 *   rma_packets.c  the origin's side of transfers by packets
 *   rma_ask.c      asking the target whether the network may touch its memory
 *   rma_target.c   the target's side: memory that a packet names is touched by the kernel only
 *   memregion.c    regions, and the calls that use them
 *
 * A transfer goes one of four ways: through a mapping of the target's shared heap; by the device's
 * remote accesses, between regions or after a question; by single copy; by packets. One that cannot
 * go on by the second or third, which are RMA_COPY, changes to packets.
 *
 * Plain puts to one endpoint become visible in the order of the calls: only one at a time moves by
 * itself, packets follow packets, and whatever would overtake waits in peer->puts_waiting. Those
 * that the device makes between regions go abreast of one another, and of packets, if they touch
 * different memory, and overtake each other. Gets wait for nobody.
 */
#ifndef LIBPAMI_P2P_RMA_H
#define LIBPAMI_P2P_RMA_H

#include "p2p/p2p.h"

/* Bytes that one step moves at most, and all steps of a pass: an advance must come back. */
#define RMA_STEP_BYTES ((size_t)1 << 20)
#define RMA_PASS_BYTES ((size_t)4 << 20)
#define RMA_PASS_STEPS 256

/* Single copies of so much become objects, which a device may move in its own time: the target may
 * help. */
#define RMA_OBJECT_BYTES ((size_t)64 << 10)

enum rma_way {
    RMA_HEAP,
    RMA_COPY,
    RMA_PACKETS,
};

/*
 * `count` pieces of memory at equal distances. PUT and GET packets name the target's memory with
 * these, so that layouts need not be known there: the user header of a PUT is an array of runs, its
 * payload what goes there.
 */
struct rma_run {
    uint64_t address;
    uint64_t stride;
    uint64_t piece; /* bytes, not 0 */
    uint64_t count; /* not 0 */
};

_Static_assert(sizeof(struct rma_run) == 32, "runs are counted in bytes on the wire");

/* Runs in one packet at most. */
#define RMA_RUNS 64

/* Flags of a PUT packet, in head.dispatch. The packets of one put follow one another. */
#define RMA_PUT_FIRST 1u
#define RMA_PUT_LAST 2u

/* Both layouts of a typed transfer. Outside of functions the cursors stand at data byte `done`. */
struct rma_typed {
    struct type *local_type, *remote_type; /* references */
    struct type_cursor local, remote;      /* remote: its addresses are the target's */
    bool no_spans;                         /* a gap could not be read */
    bool staged;                           /* single copy by way of batch->span */
};

/* A part of a task's address space. */
struct rma_area {
    uint64_t start, bytes;
};

struct rma {
    struct operation op;
    bool put;
    uint8_t way; /* enum rma_way */
    bool begun;  /* put: not in peer->puts_waiting any more */
    bool local_done;
    bool lost; /* the peer has gone */
    uint32_t epoch;
    struct list turn;   /* in p2p->copies, p2p->moving or peer->puts_waiting */
    struct list beside; /* in peer->puts_abreast or peer->puts_sent */
    char *local;
    uint64_t remote;
    size_t bytes;
    size_t done;     /* bytes that have moved; put by packets: sent */
    size_t asked;    /* get by packets: bytes asked for; single copy: of the step under way */
    bool native;     /* RMA_COPY by the device's remote accesses: between regions, or ... */
    bool asks;       /* ... after having asked the target */
    bool asking;     /* it has not answered */
    bool accessible; /* asked: this task's memory */
    size_t allowed;  /* asked: bytes that may be touched, from the beginning */
    struct exposure near, far;
    uint64_t base; /* where `far` begins */
    struct rma_typed *typed;
    pami_event_function done_fn, rdone_fn;
    void *cookie;
    struct context *context;
    struct transfer transfer;
};

/* What a call wants. Types are NULL unless it is a typed one. */
struct rma_call {
    const char *function;
    struct context *context;
    const pami_rma_t *rma;
    bool put;
    char *local;
    uint64_t remote;
    pami_event_function rdone_fn;
    struct type *local_type, *remote_type;
    struct exposure near, far; /* of the regions; 0: none */
    uint64_t base;             /* where `far` begins */
};

/* Pieces with gaps of at most this many bytes between them are read together with the gaps. */
#define RMA_SPAN_GAP 1024
#define RMA_SPAN_PIECE 4096
#define RMA_SPAN_BYTES ((size_t)64 << 10)

/* Pieces for one vectored copy; p2p has one, made when first needed. */
#define RMA_BATCH 1024

struct rma_batch {
    struct iovec local[RMA_BATCH], remote[RMA_BATCH];
    size_t local_count, remote_count, bytes;
    struct type_cursor local_next, remote_next; /* where both stand behind it */
    char span[RMA_SPAN_BYTES];
};

/* rma.c */
pami_result_t rma_call(const struct rma_call *call);
pami_result_t rma_null_address(const struct rma_call *call, const char *side);
void rma_end(struct p2p *p2p, struct rma *rma, pami_result_t result);
void rma_free(struct p2p *p2p, struct rma *rma);
void rma_local_done(struct p2p *p2p, struct rma *rma, pami_result_t result);
pami_result_t rma_fault(struct rma *rma, int error);
void rma_by_packets(struct p2p *p2p, struct rma *rma);

/* rma_copy.c: one step; true when something moved. The transfer may be gone afterwards. */
bool rma_step(struct p2p *p2p, struct rma *rma, size_t *moved);
void rma_steps_begin(struct p2p *p2p, struct rma *rma);
void rma_answered(struct p2p *p2p, struct rma *rma, bool yes);

/* rma_order.c: the put must not overtake those that have begun; it begins, and not by packets. */
bool rma_must_wait(const struct peer *peer, const struct rma *rma);
void rma_put_moves(struct peer *peer, struct rma *rma);

/* rma_ask.c */
bool rma_may_ask(const struct rma_call *call, const struct rma *rma);
void rma_ask(struct p2p *p2p, struct rma *rma);

/* rma_typed.c */
int rma_typed_new(const struct rma_call *call, struct rma_typed **typed);
void rma_typed_free(struct rma_typed *typed);
void rma_typed_seek(struct rma *rma);
void *rma_typed_heap(const struct type *remote, const struct path *path, uint64_t base,
                     size_t bytes);
bool rma_layout_is_within(const struct type *type, uint64_t base, size_t bytes,
                          const struct rma_area *area);
bool rma_typed_is_fine(struct type_cursor cursor, size_t bytes);
bool rma_typed_batch(struct p2p *p2p, const struct rma *rma);
struct rma_batch *rma_batch_get(struct p2p *p2p);
size_t rma_next_run(struct type_cursor *cursor, struct rma_run *run, size_t most);

/* memregion.c: the addresses of a call that names regions. Types are NULL unless typed. */
pami_result_t memregion_resolve(struct rma_call *call, const pami_rdma_t *rdma,
                                const pami_rma_typed_t *types);

/* rma_target.c */
void rma_target_init(struct p2p *p2p);

/* rma_packets.c */
extern const struct operation_ops rma_put_ops, rma_get_ops;

#endif
