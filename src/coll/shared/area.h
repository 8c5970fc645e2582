/*
 * Areas: memory in which the members of a group that are on one node run collectives together.
 *
 * An area is a block of the leader's shared heap (the leader is the first of the members), made
 * when it is first needed, mapped by all members, and used by all of them or by none: a member that
 * cannot map it says so, and everybody falls back to messages.
 *
 * Time in an area is counted in ticks. A collective takes one tick for each segment of its data,
 * the same number on all members, in the order in which it was started. Tick t uses slice
 * t % AREA_SLICES: for each member a line for a counter and a few bytes of data, and a buffer.
 * Every line has one writer. Counters hold tick + 1 and only grow, so nothing is ever reset (but
 * the arrival counter of a crowded area, by its last arriver).
 *
 *   A1  a member writes its slot, then stores its POST counter   (release)
 *   A2  a reader loads that counter, then reads the slot         (acquire, pairs with A1)
 *   A3  a member has read all it wants of a tick, then stores its DONE counter  (release)
 *   A4  a writer sees all DONE counters reach t - AREA_SLICES + 1 before it writes its slot for
 *       tick t                                                   (acquire, pairs with A3)
 */
#ifndef LIBPAMI_COLL_SHARED_AREA_H
#define LIBPAMI_COLL_SHARED_AREA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "geometry/geometry.h"
#include "util/cpu.h"
#include "util/list.h"

#define AREA_SLICES 4u
#define AREA_INLINE 56u /* bytes of data beside a counter */

struct area_line {
    _Atomic uint64_t count;
    unsigned char data[AREA_INLINE];
};

_Static_assert(sizeof(struct area_line) == CACHE_LINE, "one writer per cache line");

/* What of an area a group uses at the same time runs in areas of its own. */
enum area_role {
    AREA_ALL, /* collectives of the node alone */
    AREA_IN,  /* towards the leader, in hierarchies */
    AREA_OUT, /* from the leader */
    AREA_ROLES
};

enum area_state {
    AREA_OPENING,
    AREA_READY,
    AREA_FAILED,
};

struct shared;

/* A member's view. */
struct area {
    struct list link;   /* in shared.areas */
    struct list active; /* in shared.active while it has something to do */
    struct shared *shared;
    uint64_t identity; /* of the geometry */
    enum area_role role;
    enum area_state state;
    uint32_t rank, size; /* among the members of this node */
    uint32_t *endpoints; /* of those members, owned */
    bool crowded;        /* more tasks than processors, as the leader sees it */
    bool closing;        /* the group has gone */
    uint32_t answers;    /* leader: members that have mapped it, or have not */
    bool refused;
    void *block;          /* leader: what the heap has given */
    char *memory;         /* as mapped here */
    uint64_t reserved;    /* ticks handed out to machines */
    uint64_t known_done;  /* all members are done with the ticks before this one */
    struct list machines; /* in tick order; the first one runs */
};

/* ---- layout ---- */

enum area_kind {
    LINE_POST,  /* "my slot is written" */
    LINE_STAGE, /* "my part of the result is written" */
    LINE_KINDS
};

/* In front of the lines. */
struct area_slice {
    struct area_line arrived; /* crowded: members that have arrived at the tick */
    struct area_line release; /* crowded: the last arriver's result */
};

static inline struct area_slice *area_slice(const struct area *area, uint64_t tick)
{
    return (struct area_slice *)(void *)area->memory + tick % AREA_SLICES;
}

static inline struct area_line *area_lines(const struct area *area)
{
    return (struct area_line *)(void *)(area->memory + AREA_SLICES * sizeof(struct area_slice));
}

static inline struct area_line *area_done(const struct area *area, uint32_t member)
{
    return area_lines(area) + member;
}

static inline struct area_line *area_line(const struct area *area, enum area_kind kind,
                                          uint64_t tick, uint32_t member)
{
    size_t row = 1 + kind * AREA_SLICES + tick % AREA_SLICES;

    return area_lines(area) + row * area->size + member;
}

static inline size_t area_control_bytes(uint32_t size)
{
    size_t bytes = AREA_SLICES * sizeof(struct area_slice) +
                   (1 + LINE_KINDS * AREA_SLICES) * (size_t)size * sizeof(struct area_line);

    return (bytes + 4095) & ~(size_t)4095;
}

/* ---- use ---- */

/* Per context: all its areas. */
struct shared {
    struct context *context;
    size_t buffer_bytes; /* of a member's buffer in a slice, equal on all members */
    size_t area_bytes;   /* largest area */
    struct list areas;
    struct list offers; /* of areas that are not wanted here yet */
    struct list active; /* areas with machines that have been started, or that are closing */
    struct retry retry; /* on the context's list while `active` is not empty */
    bool running;       /* inside a look at an area */
    char *scratch[2];   /* buffer_bytes each, for operands; made with the first area */
};

static inline char *area_buffer(const struct area *area, uint64_t tick, uint32_t member)
{
    size_t row = (tick % AREA_SLICES) * area->size + member;

    return area->memory + area_control_bytes(area->size) + row * area->shared->buffer_bytes;
}

static inline size_t area_bytes(const struct shared *shared, uint32_t size)
{
    return area_control_bytes(size) + AREA_SLICES * (size_t)size * shared->buffer_bytes;
}

int shared_attach(struct context *context);
void shared_detach(struct context *context);

/*
 * The area of a group's members on this node, made when there is none; `endpoints` (owned by the
 * caller) are the same on all of them, in the order of their ranks. NULL: out of memory.
 */
struct area *area_get(struct shared *shared, uint64_t identity, enum area_role role,
                      const uint32_t *endpoints, uint32_t size);

/* The group goes: its areas are freed when all members are done with them. */
void area_group_closed(struct shared *shared, uint64_t identity);

/* Nobody looks at a closing area any more, so that it may be dropped. */
bool area_may_go(struct area *area);
void area_drop(struct area *area);

/* Look at the area in every pass until nothing is to be done any more. */
void shared_poll_later(struct area *area);

/* All members are done with the ticks before `tick`. Looks at their lines if it must. */
bool area_all_done(struct area *area, uint64_t tick);

#endif
