/*
 * Schedules: what an algorithm is made of.
 *
 * An algorithm says, as pure arithmetic over (rank, size, root, sizes), what its member does in
 * phase 0, 1, 2 ...: at most one message to send, one to receive, and local steps on data. The
 * engine (engine.c) runs phases over active messages; tests run them without a network. Phases are
 * asked for one by one and in order, so that a running collective needs no memory per phase.
 *
 * Matching is by order: the n-th message that a member sends to another one within a collective is
 * the n-th that the other receives from it. An algorithm is right when for each pair the sender's
 * phases and the receiver's phases agree on number, order and bytes.
 */
#ifndef LIBPAMI_COLL_SCHEDULE_H
#define LIBPAMI_COLL_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NOBODY UINT32_MAX

/*
 * The three areas that phases work on.
 *   broadcast       the message is block 0 of AREA_RECV on all members
 *   reductions      block 0 of AREA_SEND and AREA_RECV; both contiguous: engines stage what is not
 *   reduce_scatter  `size` blocks of AREA_SEND, block 0 of AREA_RECV; in place: that one lies where
 *                   AREA_SEND starts, and is written when nothing of AREA_SEND is read any more
 *   gather          block 0 of AREA_SEND, `size` blocks of AREA_RECV (gather: of the root)
 *   scatter         `size` blocks of the root's AREA_SEND, block 0 of AREA_RECV
 *   alltoall        `size` blocks of both
 * AREA_SEND is never written, but where it is AREA_RECV.
 */
enum area {
    AREA_SEND, /* the user's source, through its type; in place: the same as AREA_RECV */
    AREA_RECV, /* the user's destination, through its type */
    AREA_TEMP, /* scratch, contiguous, shape.temp_bytes long */
};

/*
 * `bytes` data bytes of an area. In the user's areas they start `offset` data bytes behind the
 * start of block `block`, in the layout of that area (blocks follow one another, or lie where the
 * displacements say). A span of several blocks is right only where blocks follow one another
 * (shape.dense). bytes 0: nothing; a message of no bytes still is a message.
 */
struct span {
    enum area area;
    uint32_t block;
    uint64_t offset;
    uint64_t bytes;
};

enum local_kind {
    LOCAL_NONE,
    LOCAL_COPY,    /* target = source */
    LOCAL_COMBINE, /* target = source op target, where source holds the lower ranks' operands */
};

struct local {
    enum local_kind kind;
    struct span source, target; /* of equal bytes */
};

#define PHASE_LOCALS 2

/*
 * `before` runs first, then the message is sent and the other one received, both at once, then
 * `after` runs, when the message has arrived and what was sent may be overwritten; then the phase
 * is complete.
 *
 * A phase starts sending when the first `send_needs` phases are complete, and may receive into its
 * span when the first `recv_needs` are (the engine posts receives as early as that allows). Both
 * are preset to the phase's own number: everything before it. 0: nothing at all. `before` counts as
 * part of the sending, also where nothing is sent, and `after` waits for it: with send_needs as
 * preset, the local steps of phases run in order while their receives may be posted early. The
 * receive does not wait for `before` of its own phase. Where a phase is one copy as `before` and
 * nothing else, later phases send meanwhile if they do not need it (aside.h). Several phases may be
 * under way, up to shape.window; schedules are right with any window from 1 on, and whether a send
 * completes early or only when it has been received. send_needs of the phases that send to one peer
 * never decrease, nor recv_needs of those that receive from one peer. Nobody sends to itself.
 */
struct phase {
    uint32_t to, from; /* ranks, or NOBODY */
    struct span send, recv;
    struct local before[PHASE_LOCALS], after[PHASE_LOCALS];
    uint32_t send_needs, recv_needs;
    uint64_t sum; /* bytes that `send` is a part of: see message_send_by; 0: of none */
};

/*
 * How far an algorithm has counted blocks. What it is asked next is not far from there, so all
 * phases in order take a time in proportion to their number. It is zero when a run begins, then the
 * algorithm's own, and saves time only.
 */
struct shape_mark {
    uint64_t sum;       /* bytes */
    uint32_t blocks;    /* of so many, from the one on that it begins with */
    uint32_t found, at; /* of what it looks for: so many up to place `at` */
};

/* What a collective is asked to do. All members agree on everything but rank and what is said to be
 * the member's own. */
struct shape {
    uint32_t rank, size, root;
    /*
     * broadcast, reduce, allreduce, scan: the bytes of the message.
     * (all)gather, scatter, alltoall: the bytes of one block.
     * reduce_scatter: the bytes of all blocks together.
     */
    uint64_t bytes;
    /*
     * Bytes of each block where they differ, `size` entries, else NULL: of AREA_SEND and AREA_RECV.
     * allgatherv (recv_bytes), reduce_scatter (send_bytes): all members know all. alltoallv: a
     * member knows its own row and column. gatherv, scatterv: the root knows all, the others have
     * `own_bytes` only.
     */
    const uint64_t *send_bytes, *recv_bytes;
    uint64_t own_bytes;  /* gatherv, scatterv: of this member's block */
    bool dense;          /* blocks follow one another in AREA_SEND and AREA_RECV */
    bool commutative;    /* operands may be combined in any order, by rank all the same */
    bool exclusive;      /* scan */
    bool in_place;       /* AREA_SEND is AREA_RECV (own block where there are blocks); own */
    bool receives;       /* AREA_RECV exists here: false where it means nothing (reduce off root) */
    uint32_t element;    /* reductions: spans are cut at multiples of this */
    uint32_t radix;      /* of k-nomial, k-ary, k-ing algorithms; at least 2 */
    uint64_t segment;    /* pipelines: bytes of a fragment, SEGMENT_DYNAMIC, or 0: whole */
    uint32_t window;     /* phases under way at most; 0: the engine's default */
    uint64_t temp_bytes; /* set by prepare: scratch that the algorithm wants */
    uint64_t state[4];   /* the algorithm's own, set by prepare */
    struct shape_mark *mark; /* of this member's run; NULL: it counts anew each time */
};

/* An algorithm's arithmetic. Both are local, quick and depend on the shape, but not on its mark. */
struct schedule_ops {
    /* Fills in temp_bytes and state; returns the number of phases of this member. */
    uint32_t (*prepare)(struct shape *shape);
    /* Phase `index` < that number; *phase is preset: NOBODY, no spans, steps, sum; needs all. */
    void (*phase)(const struct shape *shape, uint32_t index, struct phase *phase);
};

#endif
