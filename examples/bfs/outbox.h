/*
 * outbox.h - sends many small things as few larger messages.
 *
 * A program like this one produces millions of pairs of numbers, each for some task. An outbox
 * keeps one open parcel per destination and posts it when it is full or flushed. At the other
 * end the outbox with the same dispatch id hands each pair to a function. Pairs for the task itself
 * are handed over at once.
 *
 * Parcels that PAMI_Send_immediate accepts are sent by it, and may be refilled at once; larger ones
 * belong to the library until local_fn returns them. Only LIMIT parcels per outbox can be out: then
 * outbox_push advances until one comes back, and so a flood is held up at its source.
 *
 * The apply function runs inside a callback or inside outbox_push: it must not push or wait.
 */
#ifndef LIBPAMI_BFS_OUTBOX_H
#define LIBPAMI_BFS_OUTBOX_H

#include "team.h"

struct pair {
    uint32_t a, b;
};

/* `tag` is what the sender's outbox had as tag when the parcel was posted. */
typedef void outbox_apply(void *cookie, uint32_t tag, const struct pair *pairs, size_t count);

struct parcel;

struct outbox {
    struct team *team;
    size_t dispatch;
    size_t capacity;      /* pairs in a parcel */
    size_t immediate_max; /* bytes of a message sent by PAMI_Send_immediate */
    uint32_t tag;         /* change it only after a flush */
    outbox_apply *apply;
    void *cookie;
    struct parcel **open;    /* [tasks], NULL where nothing is waiting */
    struct parcel *spare;    /* empty parcels */
    size_t parcels, out;     /* parcels that exist; those with the library */
    uint64_t sent, received; /* pairs to and from other tasks, since the start */
    uint64_t messages;       /* sent since the start */
};

/* `buffer` bytes of data in a message, at least one pair. Local, but all tasks must
 * use the same id for the same purpose. */
void outbox_open(struct outbox *box, struct team *team, size_t dispatch, size_t buffer,
                 outbox_apply *apply, void *cookie);

/* Nothing may be on its way: call it after outbox_settle. */
void outbox_close(struct outbox *box);

/* Queues a pair for a task; may send and advance. */
void outbox_push(struct outbox *box, uint32_t task, struct pair pair);

/* Sends all that is queued. */
void outbox_flush(struct outbox *box);

/*
 * Collective. Flushes, and returns when every pair sent by any task has been applied.
 * Another task may already be sending more when this returns. `watch` (may be NULL) is a counter
 * which apply increases: *local gets its value when all pairs had been applied and none
 * of those that follow, and the result is the sum of these values over all tasks.
 */
uint64_t outbox_settle(struct outbox *box, const uint64_t *watch, uint64_t *local);

#endif
