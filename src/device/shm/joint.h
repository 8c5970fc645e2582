/*
 * Joint copies: a large single copy that both tasks make, each from its end.
 *
 * The task that wants the copy, the owner, takes pieces from the front, and invites the other one
 * by a packet to take pieces from the back, in advances of its own. Nobody waits for a guest who
 * does not come: the owner takes what is left, and in the end waits for pieces that the guest has
 * in hand only. A copy that the program begins while the same task writes a packet for the other
 * one, in a data function of that, is made alone: the invitation would have to go before it.
 *
 * A task that has copies of its own under way helps nobody, and begins none jointly while it helps:
 * where both sides of an exchange helped each other, 4 MiB took 990 us instead of 700 (allgather of
 * two tasks, an Intel Xeon, 2026-11-23; the cause is not known).
 *
 * What is copied stands in the segment, in a berth of the owner's context. The packet names the
 * berth only, so that one which is read late, when the copy has ended, leads to what the berth is
 * used for by then, if anything. Who has which piece is one word there: the number of the copy that
 * the berth is used for, and how many pieces have been taken from either end. Both take a piece by
 * compare-and-exchange. A copy that has ended leaves a word with all pieces taken, so that a late
 * guest finds nothing to do, and the berth is used again when the guest has returned all it took.
 * The number tells a guest which has read of one copy from the next: it would have to be stopped
 * there, and the owner make 2^32 copies in the meantime.
 *
 * Memory order: J1 (release addition to `returned` by the guest) pairs with J2 (acquire load by the
 * owner): who sees a piece as returned sees its bytes, and whether it failed. J3 (release store of
 * `word` for a new copy) pairs with J4 (acquire load by the guest): it sees that copy or a later
 * one, and `returned` is 0 before. J5 (release stores of what a later one is) pairs with J6
 * (acquire loads by the guest): who sees anything of it finds that the word has changed.
 */
#ifndef LIBPAMI_DEVICE_SHM_JOINT_H
#define LIBPAMI_DEVICE_SHM_JOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/packet.h"
#include "util/cpu.h"
#include "util/list.h"

/* Copies that one context has made jointly at a time; further ones it makes alone. */
#define JOINT_BERTHS 8u

/* Below this the invitation costs more than it gives. */
#define JOINT_LEAST ((size_t)64 << 10)

/* Pieces: an eighth of the copy, within these. Shorter ones cost more system calls, with longer
 * ones the last one is waited for. */
#define JOINT_PIECE_LEAST ((size_t)32 << 10)
#define JOINT_PIECE_MOST ((size_t)128 << 10)

/* The protocol of the packet that invites: the device's own. */
#define PROTOCOL_JOINT 0xfe

struct shm_port;
struct shm_path;
struct transfer;

/* In the segment. */
struct joint_berth {
    /* use << 32 | pieces taken from the back << 16 | from the front */
    CACHE_ALIGNED _Atomic uint64_t word;
    _Atomic uint32_t returned; /* guest: pieces that it has done with */
    _Atomic uint32_t failed;   /* guest: one of these was not copied */
    _Atomic uint32_t guest;    /* the endpoint that is invited; UINT32_MAX: nobody */
    _Atomic uint32_t put;      /* the owner writes to the guest's memory, else it reads that */
    _Atomic uint64_t here;     /* where the copy is in the owner's memory ... */
    _Atomic uint64_t there;    /* ... and in the guest's */
    _Atomic uint64_t bytes;
};

/* What the owner knows of a copy. */
struct joint_copy {
    struct shm_path *path; /* NULL: there is none */
    struct transfer *transfer;
    char *local;
    uint64_t remote;
    size_t bytes;
    bool put;
    bool ended;    /* all pieces are taken, or it has failed: */
    uint32_t back; /* so many of them by the guest */
    int error;
};

struct joint {
    struct joint_copy copies[JOINT_BERTHS];
    uint32_t count;     /* of those */
    struct list guests; /* struct joint_guest: copies of others that this context helps with */
};

/* Begins a copy with the destination of the path. False: not this way. */
bool joint_begin(struct shm_path *path, const struct joint_copy *what);

/* An invitation has come. */
void joint_invited(struct shm_port *port, const struct packet_header *head);

/* A piece of each own copy; where there is none, one of somebody else's. Returns the events. */
int joint_advance(struct shm_port *port);

static inline bool joint_is_idle(const struct joint *joint)
{
    return joint->count == 0 && list_empty(&joint->guests);
}

/* Nobody touches memory of this task any more for copies of this context. */
void joint_close(struct shm_port *port);

#endif
