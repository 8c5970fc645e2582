/*
 * Sharing a context with a thread of the library, the helper, that advances it while its program
 * does something else.
 *
 * A context stays single-threaded. Two things keep the helper and the program apart: the context
 * lock, which the helper takes by trylock, for programs that lock; and the gate, which every
 * advance of a shared context has to pass, for programs that advance without locking. Calls other
 * than advance that a program makes without the lock on a shared context are its own fault.
 *
 * A context that is not shared pays nothing: its advance looks at `guard` anyway. Once shared, a
 * context stays so until it is destroyed.
 *
 *   guard    set before a membarrier; an advance, and a wait after each sleep, stores its mark,
 *            then loads guard. Either it sees the bit and goes through the gate, or its mark is
 *            seen by the helper, which does not begin before it has gone (S1 pairs with the
 *            release of context_leave).
 *   owner    the gate. Taken by compare-and-exchange (acquire, S2), left by a release store (S2).
 *   wanted   the program was turned away; the helper leaves after its pass.
 */
#ifndef LIBPAMI_CONTEXT_SHARE_H
#define LIBPAMI_CONTEXT_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct context;

enum context_guard {
    GUARD_CLOSING = 1, /* the process ends, or the context */
    GUARD_SHARED = 2,
};

struct context_share {
    atomic_uintptr_t owner;
    atomic_bool wanted;
    atomic_bool ready;        /* nobody is inside without having passed the gate */
    atomic_bool asleep;       /* the helper is, and wants to be rung by the program */
    atomic_bool starving;     /* ... because somebody holds the lock all the time */
    _Atomic uint64_t visited; /* clock_ticks when the program last left an advance */
    _Atomic uint64_t helped;  /* events that the helper has handled */
    uint64_t known;           /* of those, what PAMIX_Context_wait has told of; gate */
    atomic_bool apart;        /* the helper wants to know ... */
    atomic_int place;         /* 1 + the processor on which the program was last here; 0: unknown */
    void (*ring)(void *cookie);
    void *cookie;
};

/* What a turn of the helper came to. */
enum share_turn {
    SHARE_ASLEEP,  /* nothing to do, and whoever has something rings */
    SHARE_RETRY,   /* the same, but something is to be tried again soon */
    SHARE_EAGER,   /* something is to be tried again at once, or may come; not prepared for sleep */
    SHARE_AGAIN,   /* nothing to do, but a posted function or a device wants to be called again */
    SHARE_POLLED,  /* nothing done: the program advances the context itself */
    SHARE_LOCKED,  /* nothing done: the program holds the lock or is inside */
    SHARE_YIELDED, /* the program wants the context */
    SHARE_ENDED,   /* serving is over */
};

/* How the helper is to behave in a turn. */
struct share_rules {
    unsigned spins;              /* idle passes before it sleeps ... */
    unsigned glances;            /* ... and as long as nothing has come in this turn */
    bool eager;                  /* do not sleep as long as something is to be tried again */
    bool awake;                  /* do not sleep */
    bool light;                  /* who finds nothing left sleeps shortly: arm lightly */
    const atomic_uint *serving;  /* 0: end the turn */
    const atomic_bool *stopping; /* true: end the turn */
};

/*
 * From now on the context is shared, and `ring` wakes its helper; any thread may be inside. Once
 * per context, before its helper begins.
 */
void share_begin(struct context *context, void (*ring)(void *cookie), void *cookie);

/* Every thread that enters an advance from now on sees what was stored in guard before. */
void share_barrier(void);

/* The helper's turn: passes until there is nothing to do or somebody else wants the context. */
enum share_turn share_turn(struct context *context, const struct share_rules *rules);

/* For helpers that advance by a function of the user's: prepare to sleep, as the end of a turn. */
enum share_turn share_rest(struct context *context, bool light);

/* After being locked out for long: the program is to ring when it gives up the lock. */
void share_starve(struct context *context);

/* The program's pass through the gate; 0 when that is closed, -1 when the context is going. */
int share_pass(struct context *context);

/* The caller is inside the context already, and advancing again would nest. */
bool share_nested(const struct context *context);

/* The caller is in a callback of the context, or otherwise keeps others out already. Marks do not
 * tell once there has been a helper inside: context_unbar may put another thread's back. */
bool share_calls(const struct context *context);

/* The caller, which is no helper, is here; a helper had better run elsewhere. */
void share_note_place(struct context *context);

/* There is no helper any more, so that none is rung. For the program all stays as it is. */
void share_end(struct context *context);

/* The calling thread is a helper from now on. */
void share_helper_begin(void);

/* The gate by itself, for owners that do not advance; and whether the caller has passed it. */
bool share_owned(const struct context *context);
bool share_enter(struct context *context);
void share_leave(struct context *context);

/* The program leaves the context: what a sleeping helper would have to send goes out, and it must
 * know of what else is left to do. The caller still owns the context. */
bool share_left_work(struct context *context);
void share_ring(struct context *context);

#endif
