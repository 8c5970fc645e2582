/*
 * Operations: what outlives the call that started it and has packets to send to a peer.
 *
 * An operation waits in its peer's queue while it has something to send, which keeps the order of
 * the calls, and is known by its handle while it waits for an ACK. Sends, one-sided transfers,
 * atomic operations and fences each bring their own table.
 *
 * Counting: whatever is not complete at its destination when the call returns, and is neither a
 * message nor acknowledged in the queue's order, is counted between operation_begin and
 * operation_end, so that fences wait for it. Both are called once per operation; what completes
 * inside the call needs neither.
 */
#ifndef LIBPAMI_P2P_OPERATION_H
#define LIBPAMI_P2P_OPERATION_H

#include <stdbool.h>
#include <stdint.h>

#include <pami/pami.h>

#include "util/list.h"

struct operation;
struct p2p;
struct path;
struct peer;

/* What an entry of the handle table is. */
enum operation_kind {
    OPERATION_OUTGOING, /* a struct operation */
    OPERATION_RECEIVE,
};

struct operation_ops {
    /* Send what can be sent now. 0: it has left the queue, and perhaps was freed; -EAGAIN: it stays
     * and is asked again; anything else: the peer has gone, finish follows. */
    int (*progress)(struct p2p *p2p, struct operation *operation);
    /* An ACK has come, or the peer has gone: callbacks that are left become due, then as free. */
    void (*finish)(struct p2p *p2p, struct operation *operation, pami_result_t result);
    /* Without a word to anybody, at the end of the context. */
    void (*free)(struct p2p *p2p, struct operation *operation);
    /* Must its answer be waited for at the end of the context? NULL: no. */
    bool (*is_needed)(const struct operation *operation);
};

struct operation {
    enum operation_kind kind; /* OPERATION_OUTGOING */
    bool next_life;           /* begun when the path was stale: for who is there then */
    uint32_t handle;          /* 0: nobody will answer */
    const struct operation_ops *ops;
    struct peer *peer;
    struct path *path; /* the peer's usual one unless changed */
    struct list link;  /* in peer->queue */
};

void operation_init(struct operation *operation, const struct operation_ops *ops,
                    struct peer *peer);

/* Behind what the peer's queue holds; sent from the next pass on. */
void operation_enqueue(struct p2p *p2p, struct operation *operation);

/* The same, and send what can be sent now; the operation may be freed on return. */
void operation_launch(struct p2p *p2p, struct operation *operation);

#endif
