/*
 * Arenas: memory in which the members of a group that are on one node run collectives together.
 *
 * An arena is a block of the leader's shared heap (the leader is the first of the members), made
 * when it is first needed, mapped by all members, and used by all of them or by none: a member that
 * cannot map it says so, and everybody falls back to messages.
 *
 * Time in an arena is counted in ticks. A collective takes one tick, whatever its size, in the
 * order in which it was started; all members give it the same one, by the number of its run. Ticks
 * that no collective takes are left out. Tick t uses slice t modulo the number of slices
 * (PAMI_COLL_SLICES) of the lines: for each member one for a counter and a few bytes of data. What
 * is longer goes in segments: segment k lies in slice t + k of the buffers, which have as many
 * slices, but ARENA_BUFFERS at most. Every line and every buffer has one writer. Counters only
 * grow, so nothing is ever reset.
 *
 * A counter is a stamp: tick + 1, and below it a check of what the member believes the collective
 * to be. Who reads the stamp of a member with another check knows that they disagree, and fails;
 * its tick is over then as any other, so what comes after it is not touched. Stamps have 48 bits of
 * tick, and a collective of a geometry takes GROUP_BLOCK + 1 of them: 1.1e12 collectives, two days
 * of nothing but the shortest.
 *
 *   A1  a member writes its slot, then stores its POST stamp, or the number of segments that are
 *       there                                                    (release)
 *   A2  a reader loads them, then reads the slot                 (acquire, pairs with A1)
 *   A3  a member has read all it wants of a segment or a tick, then stores its DONE counters
 *                                                                (release)
 *   A4  a writer sees the DONE counters of all members behind whatever it used a slice for the last
 *       time, before it writes there again; in a tree (tree.c), those of its neighbours, as nobody
 *       else reads what it writes                                (acquire, pairs with A3)
 *   A5  a member that leaves the arena alone for ever stores ARENA_OVER there, and the leader sees
 *       that of all members before it frees the memory              (release, acquire)
 */
#ifndef LIBPAMI_COLL_SHARED_ARENA_H
#define LIBPAMI_COLL_SHARED_ARENA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/ask.h"
#include "geometry/geometry.h"
#include "util/cpu.h"
#include "util/gauge.h"
#include "util/list.h"
#include "util/pool.h"

/*
 * Slices that there is room for; those that are not used are address space only. In a crowded arena
 * many of them, of lines only, let a root run ahead of the others by as many collectives in each
 * of its turns: broadcasts of 8 bytes by one root with nothing between them, by 4 and 8 tasks on 2
 * processors, 4 and 16 slices, us: 1.15 and 0.86, 3.7 and 1.5. Others gain nothing, and two tasks
 * lose 2 to 6 % where all collectives take turns in more lines.
 */
#define ARENA_SLICES 16u
#define ARENA_BUFFERS 4u
#define ARENA_INLINE 56u /* bytes of data beside a counter */
#define ARENA_OVER UINT64_MAX
#define ARENA_MEMBERS 0x3fffu /* at most */
#define ARENA_RADIX 16u       /* at most, of a tree */
#define ARENA_RELAYS 8u       /* at most */
#define ARENA_BUCKETS 128u    /* a table to find them in; programs have had thousands */

/* Stamps: the tick after which, and what was believed of it. */
#define ARENA_CHECK_BITS 16
#define ARENA_CHECK_MASK UINT64_C(0x7fff)
#define ARENA_DISAGREE UINT64_C(0x8000)         /* no check: whoever reads it disagrees, ... */
#define ARENA_FAILED_ELSEWHERE UINT64_C(0x8001) /* ... because of an error, not of arguments */

/* How far somebody is: all ticks before `tick` are over, and so many segments of that one. */
struct arena_position {
    uint64_t tick, segments;
};

/* The members as a tree: each has a run of ranks below it, whose first is itself. */
struct arena_tree {
    uint32_t radix;   /* children of a member at most */
    uint32_t members; /* used by itself with as many, a processor for each; 0: never */
    uint32_t parent, children;
    uint32_t child[ARENA_RADIX];
};

/* A slice as it was used in a tree, up to a tick. */
struct arena_readers {
    uint64_t tick;  /* + 1, or 0 */
    uint32_t guest; /* who has read it besides the neighbours, or the member itself */
};

/* Of a collective between the members' own memory (direct.c). */
struct arena_direct {
    uint64_t segments;     /* as in struct arena_line */
    uint64_t stamp, state; /* the same as `count`, with what follows here */
    union {
        struct { /* POST */
            uint64_t bytes, send, recv;
        };
        struct {                   /* STAGE */
            _Atomic uint64_t busy; /* this member writes to another's memory */
            _Atomic uint64_t shut; /* tick + 1: nobody may write to its memory any more */
            _Atomic uint64_t next; /* the first member's: the piece that is taken next, by any */
        };
    };
};

/* A failure that is still to be said in the own lines of a slice: when all members are done with
 * tick `before` - 1. */
struct arena_owed {
    uint64_t tick; /* + 1, as in `line_used`, or something else: there is none */
    uint64_t before;
};

struct arena_line {
    CACHE_ALIGNED _Atomic uint64_t count;
    union {
        unsigned char data[ARENA_INLINE];
        _Atomic uint64_t segments;   /* of a collective of several: those that are there, or done */
        struct {                     /* DONE */
            uint64_t so_far;         /* `segments` */
            _Atomic uint64_t failed; /* the last tick that an error has ended here, + 1 */
        };
        _Atomic uint64_t claimed; /* the last tick of which a member was the first at the end */
        struct arena_direct direct;
    };
};

_Static_assert(sizeof(struct arena_line) == CACHE_LINE, "one writer per cache line");

/* The first line of a block that the leader's context has left behind. */
struct arena_rest {
    uint64_t words[2]; /* counters, as in struct arena_line: others may still write them */
    struct arena_rest *next;
    uint32_t size; /* members */
};

_Static_assert(sizeof(struct arena_rest) <= CACHE_LINE, "as in front of the lines");

enum arena_state {
    ARENA_OPENING,
    ARENA_READY,
    ARENA_FAILED, /* there is none */
    ARENA_LOST,   /* the leader has gone before it said which */
};

struct shared;
struct shared_machine;
struct arena;

/* Runs that have numbers, and so ticks, but are not handed out to machines yet: the first of these
 * ticks. What comes after it waits. */
struct arena_hold {
    struct list link;    /* in arena.holds */
    struct arena *arena; /* NULL: holds nothing */
    uint64_t tick;
};

/* Between memory of this member and memory of another one, inside the call: 0, or negative errno.
 * No bytes: could it be done? */
typedef int arena_copier(const struct arena *arena, uint32_t member, bool put, void *near,
                         uint64_t far, size_t bytes);
arena_copier arena_reach;

/* All members reach that memory of this one without the kernel, and this one theirs of the kind. */
typedef bool arena_caster(const struct arena *arena, const void *address, uint64_t bytes);
arena_caster arena_casts;

/* A member's view. */
struct arena {
    struct list link;   /* in shared.arenas */
    struct arena *next; /* with the same hash, in shared.buckets */
    struct list active; /* in shared.active while it has something to do */
    struct shared *shared;
    uint64_t identity; /* of the geometry ... */
    uint32_t channel;  /* ... and channel of the group */
    enum arena_state state;
    size_t room;         /* bytes of a buffer for each member, at least; 0: it would be too large */
    size_t buffer_bytes; /* of a member's buffer in a slice, when it is ready */
    uint32_t rank, size; /* among the members of this node */
    uint32_t slice_mask; /* slices of lines in use - 1, as the leader has it */
    uint32_t buffer_mask;  /* of buffers */
    uint32_t *endpoints;   /* of those members, owned */
    bool *left;            /* which of them have gone: in the same memory */
    bool lost;             /* some have, maybe after all that they had to do here */
    bool stranded;         /* ... and a machine waits for one of them */
    bool crowded;          /* more tasks than processors, as the leader sees it ... */
    uint16_t relays;       /* ... and so, 0 else, see relay.c */
    uint64_t relay_bytes;  /* data from which they are used; 0: never */
    uint64_t direct_bytes; /* see shared.direct_bytes, as the leader has it */
    struct race *races;    /* of direct.c: of who decides, NULL until needed */
    struct race *race;     /* that the first machine takes part in; NULL: none */
    uint32_t race_ticket;
    arena_copier *copy;
    arena_caster *casts;
    struct arena_processor *seat; /* crowded: where this member arrived last, or NULL */
    bool closing;                 /* the group has gone */
    uint64_t broken; /* 0, or tick + 1: a member is missing; from there on all ends with an error */
    uint32_t answers; /* leader: members that have mapped it, or have not */
    bool refused;
    void *block;          /* leader: what the heap has given */
    char *memory;         /* as mapped here */
    uint64_t reserved;    /* all ticks handed out to machines are before this one */
    struct list machines; /* in tick order; the first one runs, unless it is held */
    struct list holds;    /* in tick order */
    /* All members are as far as that; and must be, before the own memory of a slice is written. */
    struct arena_position known_done;
    uint64_t line_used[ARENA_SLICES];          /* the lines: ticks */
    struct arena_position used[ARENA_BUFFERS]; /* the buffer */
    size_t wide_bytes;                         /* of `block`, what counts in shared.wide_bytes */
    struct doubt doubt;                        /* about the first machine */
    struct arena_tree tree;
    struct arena_position near_done;                 /* the neighbours are as far as that */
    struct arena_readers line_readers[ARENA_SLICES]; /* those of `line_used` ... */
    struct arena_readers readers[ARENA_BUFFERS];     /* ... and `used`, if they are of trees */
    uint8_t *owed; /* what members have still to be told, bits of open.c: in the memory of `left` */
    bool owes;     /* ... if anything */
    struct shared_machine *spare; /* owned: for a skip without memory, NULL while it is in use */
    struct arena_owed line_owed[ARENA_SLICES]; /* beside `line_used` */
};

/* ---- layout ---- */

enum arena_kind {
    LINE_POST,  /* "my slot is written" */
    LINE_STAGE, /* "my part of the result is written" */
    LINE_KINDS
};

/* In front of the lines: a line whose counter is 0, or tells where the arena is broken, and with
 * who has gone, then these, always ARENA_SLICES: who arrives at a tick may not have had those
 * before, which others still wait in. */
struct arena_slice {
    struct arena_line arrived; /* crowded: members that have arrived at the tick; `claimed` */
    struct arena_line release; /* crowded: the last arriver's result */
};

/* Crowded: the tick and its arrivals on this processor, and who was seen there last; a hint. */
#define ARENA_PROCESSORS 8u
struct arena_processor {
    _Alignas(CACHE_LINE) _Atomic uint64_t arrived;
    _Atomic uint32_t members;
};

static inline struct arena_line *arena_head(const struct arena *arena)
{
    return (struct arena_line *)(void *)arena->memory;
}

static inline struct arena_slice *arena_slice(const struct arena *arena, uint64_t tick)
{
    return (struct arena_slice *)(void *)(arena->memory + CACHE_LINE) + tick % ARENA_SLICES;
}

static inline struct arena_processor *arena_processors(const struct arena *arena)
{
    return (struct arena_processor *)(void *)(arena->memory + CACHE_LINE +
                                              ARENA_SLICES * sizeof(struct arena_slice));
}

static inline struct arena_line *arena_lines(const struct arena *arena)
{
    return (struct arena_line *)(void *)(arena_processors(arena) + ARENA_PROCESSORS);
}

static inline struct arena_line *arena_done(const struct arena *arena, uint32_t member)
{
    return arena_lines(arena) + member;
}

/* The slice of a tick's lines. */
static inline uint32_t arena_place(const struct arena *arena, uint64_t tick)
{
    return (uint32_t)tick & arena->slice_mask;
}

/* The slice of a segment's buffers. */
static inline uint32_t arena_buffer_place(const struct arena *arena, uint64_t segment)
{
    return (uint32_t)segment & arena->buffer_mask;
}

static inline void arena_set_slices(struct arena *arena, uint32_t mask)
{
    arena->slice_mask = mask;
    arena->buffer_mask = mask < ARENA_BUFFERS ? mask : ARENA_BUFFERS - 1;
}

static inline struct arena_line *arena_line(const struct arena *arena, enum arena_kind kind,
                                            uint64_t tick, uint32_t member)
{
    size_t row = 1 + kind * ARENA_SLICES + arena_place(arena, tick);

    return arena_lines(arena) + row * arena->size + member;
}

/* The own line of a tick that is about to come: its last readers have it, and it had better be here
 * when it is written. */
static inline void arena_prepare(const struct arena *arena, uint64_t tick)
{
    if (!arena->crowded && arena->line_used[arena_place(arena, tick)] <= arena->known_done.tick)
        cpu_prefetch_write(arena_line(arena, LINE_POST, tick, arena->rank));
}

static inline size_t arena_control_bytes(uint32_t size)
{
    size_t bytes = CACHE_LINE + ARENA_SLICES * sizeof(struct arena_slice) +
                   ARENA_PROCESSORS * sizeof(struct arena_processor) +
                   (1 + LINE_KINDS * ARENA_SLICES) * (size_t)size * sizeof(struct arena_line);

    return (bytes + 4095) & ~(size_t)4095;
}

/* ---- use ---- */

/*
 * In a crowded arena a member's buffer has room for parts of so many times the usual buffer, one
 * for each member, as far as memory allows. Who waits there gives its processor to tasks that push
 * its data out of the cache, so it had better wait seldom. Tasks on 2 processors, us, parts of 4 or
 * 8 and of 64 KiB: 8 tasks, alltoall of 64 KiB 270 and 170-190, allreduce of 1 MiB 1306 and 574;
 * 4 tasks, 87 and 51-82, 484 and 258.
 */
#define ARENA_WIDE 2u

/*
 * So has one of two members, for whom the memory is little: both write and then both read, and each
 * segment less is a wait less. 64 KiB, parts of 16 or segments of 32 KiB, and of 64 KiB, us:
 * alltoall 12.0 and 8.0, allgather 10.0 and 8.0, allreduce 9.1 and 7.6.
 */
static inline bool arena_is_wide(bool crowded, uint32_t size)
{
    return crowded || size == 2;
}

/* Copies of so much have a gauge of their own. */
#define SHARED_MUCH 12288u

/* Per context: all its arenas. */
struct shared {
    struct context *context;
    size_t buffer_bytes;    /* of a member's buffer in a slice, equal on all members */
    size_t arena_bytes;     /* largest arena */
    uint32_t slice_mask;    /* of arenas that this member leads */
    size_t stream_bytes;    /* copies into slots of so much may go past the cache; see gauge.h */
    uint64_t relay_bytes;   /* by the square of a relay's length: of an arena's */
    uint64_t direct_bytes;  /* data from which members reach for each other's memory; 0: never */
    bool races;             /* ... or not, if slots are faster */
    struct gauge gauges[2]; /* of copies of less than SHARED_MUCH, and of more */
    struct list arenas;     /* those that are closing come first */
    struct arena *buckets[ARENA_BUCKETS]; /* the same, by identity, latest first */
    struct list offers;                   /* of arenas that are not wanted here yet */
    struct list active; /* arenas with machines that have been started, or that are closing */
    struct retry retry; /* on the context's list while `active` is not empty */
    struct retry owing; /* ... while an arena owes something */
    bool running;       /* inside a look at an arena */
    bool spreads;       /* few tasks share a processor, see processor.c */
    struct pool runs;   /* of row.c */
    char *scratch[2];   /* wide_most each, for operands; made with the first arena */
    size_t wide_most;   /* buffer_bytes ARENA_WIDE times: of a part, of a segment without parts */
    size_t wide_bytes;  /* of all wide arenas that this member leads; at most arena_bytes */
    uint32_t tree_radix, tree_members; /* of arenas that this member leads */
};

/*
 * The tick of a run, by its number, so that members agree about ticks as they do about numbers.
 * Blocks of numbers are a multiple of the slices long: one more, and successive collectives use
 * all slices in turn.
 */
static inline uint64_t arena_tick(uint64_t number)
{
    return number + (number >> GROUP_BLOCK_BITS);
}

/* One member of those that ask at the end of this tick is told that it is the one. */
static inline bool arena_claim(const struct arena *arena, uint64_t tick)
{
    _Atomic uint64_t *claimed = &arena_slice(arena, tick)->arrived.claimed;
    uint64_t before = atomic_load_explicit(claimed, memory_order_relaxed);

    return before <= tick &&
           atomic_compare_exchange_strong_explicit(claimed, &before, tick + 1, memory_order_relaxed,
                                                   memory_order_relaxed);
}

static inline char *arena_buffer(const struct arena *arena, uint64_t segment, uint32_t member)
{
    size_t row = (size_t)arena_buffer_place(arena, segment) * arena->size + member;

    return arena->memory + arena_control_bytes(arena->size) + row * arena->buffer_bytes;
}

static inline size_t arena_bytes(size_t buffer_bytes, uint32_t size)
{
    return arena_control_bytes(size) + ARENA_BUFFERS * (size_t)size * buffer_bytes;
}

/* The number of a run, by its tick. */
static inline uint64_t arena_number(uint64_t tick)
{
    return tick - tick / (GROUP_BLOCK + 1);
}

/* Who has gone (gone.h), for the texts of the other members. */
void arena_say_gone(struct arena *arena);
uint32_t arena_gone(const struct arena *arena);

/* An endpoint has gone: what waits for it in an arena fails. What it has posted before stays. */
void shared_gone(struct shared *shared, uint32_t endpoint);

int shared_attach(struct context *context);
void shared_detach(struct context *context);

/* The arena of a group whose members are all on this node, made when there is none. NULL: out of
 * memory. */
struct arena *arena_get(struct group *group);

/* The group goes: its arenas are freed when all members are done with them. */
void arena_group_closed(struct shared *shared, uint64_t identity);

/* Collectives from this tick on end with an error, on all members. Those before it may end well on
 * members that have not looked yet. */
void arena_break(struct arena *arena, uint64_t tick);

/* A member will never use it: the leader has gone before it could tell that one of it. */
void arena_member_is_lost(struct arena *arena, uint32_t member);

/* Nobody looks at a closing arena any more, or has to be told of it, so that it may be dropped. */
bool arena_may_go(const struct arena *arena);
void arena_drop(struct arena *arena);

/* ---- open.c: how members come to agree that there is one ---- */

/* The leader makes it, and offers it to the others. */
void arena_offer(struct arena *arena);
/* Another member looks whether it has been offered. */
void arena_take_offer(struct arena *arena);
/* The leader, when a member has gone before all have answered: there is none. */
void arena_refuse(struct arena *arena);
/* Another member, when the leader has gone: others may use it by now, and would wait. */
void arena_tell_lost(struct arena *arena);
/* Those that have broken it say so where all members look. */
void arena_say_broken(struct arena *arena);
void arena_opening_init(struct shared *shared);
void arena_opening_finish(struct shared *shared);

/* Drop offers of geometries that are over here. */
void arena_reap_offers(struct shared *shared);

/* Drop those whose group has gone on all members, and blocks that contexts have left behind. */
void arena_reap(struct shared *shared);

/* Look at the arena in every pass until nothing is to be done any more. */
void shared_poll_later(struct arena *arena);

/* How far a member is, by its line. If it has gone before that position, this one is stranded. */
struct arena_position arena_done_of(struct arena *arena, uint32_t member,
                                    struct arena_position position);

/* All members are as far as that, by their lines. */
bool arena_look_done(struct arena *arena, struct arena_position position);

/* tree.c: makes arena.tree, when its radix is known. */
void arena_make_tree(struct arena *arena);

/* All that read a slice when it was used last are as far as that, by their lines. */
bool arena_look_read(struct arena *arena, struct arena_position position,
                     const struct arena_readers *readers);

/* This member is done with all ticks before that one, and runs none of them any more. */
static inline void arena_say_done_before(const struct arena *arena, uint64_t tick)
{
    struct arena_line *line = arena_done(arena, arena->rank);

    if (atomic_load_explicit(&line->count, memory_order_relaxed) < tick)
        atomic_store_explicit(&line->count, tick, memory_order_release);
}

struct arena *arena_find(struct shared *shared, uint64_t identity, uint32_t channel);

/* The first tick that is held, or a later one than all. */
static inline uint64_t arena_first_held(const struct arena *arena)
{
    const struct list *first = list_first(&arena->holds);

    return likely(first == NULL) ? UINT64_MAX : list_entry(first, struct arena_hold, link)->tick;
}

/* Something before this tick has still to be handed out. Without an arena nothing waits. */
static inline bool arena_is_held(const struct arena *arena, uint64_t tick)
{
    return unlikely(arena_first_held(arena) < tick) && arena->state == ARENA_READY;
}

static inline bool arena_is_behind(struct arena_position a, struct arena_position b)
{
    return a.tick < b.tick || (a.tick == b.tick && a.segments < b.segments);
}

/* All members are as far as that. Looks at their lines if it must. */
static inline bool arena_all_done(struct arena *arena, struct arena_position position)
{
    return !arena_is_behind(arena->known_done, position) || arena_look_done(arena, position);
}

/* So are those that have read the slice when it was used last. */
static inline bool arena_was_read(struct arena *arena, struct arena_position position,
                                  const struct arena_readers *readers)
{
    return !arena_is_behind(arena->known_done, position) ||
           arena_look_read(arena, position, readers);
}

#endif
