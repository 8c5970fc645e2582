/*
 * Collectives of the members of one node, in an arena of shared memory (arena.h).
 *
 * All of them are one pattern: for each segment a member may post something into its slot, and when
 * those that it waits for have posted, takes what it wants from their slots; an all-reduce of much
 * data has a second stage, in which members take the parts of the result from one another. What is
 * posted and taken is a row of a table (rows.c). Posting runs as many segments ahead of taking
 * as there are slices, so long messages are pipelined through the slices.
 *
 * Operands are combined in the order of ranks, whoever arrives first; by relays in another order,
 * the same in each run.
 *
 * Nothing blocks: a machine that must wait is looked at in every pass of its context.
 */
#ifndef LIBPAMI_COLL_SHARED_SHARED_H
#define LIBPAMI_COLL_SHARED_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pami/pami.h>

#include "coll/collective.h"
#include "coll/shared/arena.h"
#include "type/type.h"

/* Where questions have the check of a stamp: in that of a flight. */
#define SHARED_CHECK_SHIFT 8u

/* Own data up to this is read at the call, if need be into memory of ours: programs pass stack
 * memory. */
#define SHARED_KEEP_BYTES 512u

enum shared_kind {
    SHARED_BARRIER,
    SHARED_BROADCAST,
    SHARED_REDUCE,
    SHARED_ALLREDUCE,
    SHARED_GATHER,
    SHARED_SCATTER,
    SHARED_ALLGATHER,
    SHARED_ALLTOALL,
    SHARED_SCAN,
    SHARED_REDUCE_SCATTER,
    SHARED_GATHERV, /* from here on: see vector.c */
    SHARED_SCATTERV,
    SHARED_ALLTOALLV,
    SHARED_KINDS
};

/* Ranks are those among the members of the arena. */
struct shared_call {
    enum shared_kind kind;
    uint32_t root;
    uint64_t bytes;              /* of the message, or of the largest block */
    const uint64_t *block_bytes; /* allgather, reduce_scatter: of each block; NULL: all `bytes` */
    /* gatherv, scatterv, alltoallv: of each block, where this member knows them; and its own. */
    const uint64_t *sent_bytes, *received_bytes;
    uint64_t own_bytes;
    struct area_map send; /* own block, or all blocks where each goes elsewhere */
    struct area_map recv;
    bool in_place;   /* the own block is where it has to be */
    bool exclusive;  /* scan */
    bool tree;       /* along the tree, if there is one for this kind */
    uint32_t agreed; /* as in struct collective */
    pami_data_function op;
    void *op_cookie;
    enum type_kind element;
    uint32_t unit; /* reductions: data is cut at multiples of this */
};

/* How data moves. */
enum shared_way {
    THROUGH_SLOTS,
    DIRECT, /* between the members' own memory, see direct.c */
    TREE,   /* see tree.c; `taken` is not used */
};

struct shared_row;
struct machine;

struct shared_machine {
    struct list link; /* in arena.machines */
    struct arena *arena;
    const struct shared_row *row;
    struct shared_call call;
    /* PAMI_EAGAIN: there is no arena, nothing was done, and so it is on all members. PAMI_INVAL:
     * others called it with other arguments. */
    void (*done)(struct shared_machine *machine, pami_result_t result);
    uint64_t tick, stamp; /* of the arena, for this collective */
    uint64_t check;       /* of the stamp */
    uint64_t slice;       /* the first segment's */
    uint64_t segments;    /* it has, and so many are: */
    uint64_t posted, taken, staged;
    uint64_t ahead;               /* tick + 1 that it has posted to before it was prepared for it */
    uint64_t pieces;              /* direct: copies that this member makes, 0: not yet known */
    uint64_t segment;             /* bytes of the message, or of each block, in one */
    uint64_t part;                /* rows with parts: bytes between two of them in a slot */
    uint32_t waiting[LINE_KINDS]; /* members below this one have been seen to have come */
    bool split;                   /* allreduce: members combine parts, and take them */
    bool relayed;                 /* ... of what relays have combined, see relay.c */
    bool counted;                 /* crowded arena: the last to arrive combines for all */
    uint8_t patience;             /* ... looks for which the processor is kept, see processor.c */
    uint8_t way;                  /* enum shared_way; one byte, as it is looked at often */
    bool is_inline;               /* the data fit beside the counter */
    bool started;
    bool abandoned;
    bool follows_gap;      /* its group had collectives elsewhere since the tick before */
    pami_result_t failure; /* PAMI_INVAL: others run something else than this machine does */
};

/* Another number with each step. */
static inline uint64_t shared_mark(const struct shared_machine *machine)
{
    return (machine->tick << 24) + machine->posted + machine->taken + machine->staged;
}

/* The arena can do this: the same answer on all members. */
static inline bool shared_can(const struct arena *arena, const struct shared_call *call)
{
    return arena->room >= call->unit;
}

/*
 * Prepares a machine for a tick: members do this in the order of ticks in each arena, or hold those
 * that come later. It communicates nothing. The call is copied, unless it is the machine's own;
 * what it points at stays the caller's.
 */
void shared_reset(struct shared_machine *machine, struct arena *arena,
                  const struct shared_call *call, uint64_t tick,
                  void (*done)(struct shared_machine *machine, pami_result_t result));

/* The same once more, for a short one that has been done: true. Longer ones have to be prepared as
 * the first time. */
bool shared_again(struct shared_machine *machine, uint64_t tick);

/* It will be prepared for this tick so, and started there and then: what others wait for goes out
 * before all that they do not see of it, if nothing has to be waited for. */
void shared_post_ahead(struct shared_machine *machine, uint64_t tick);

/* Nothing has to be waited for before the machine can post: neither the arena nor others in it. */
bool shared_is_next(const struct shared_machine *machine);

/* Never blocks; `done` is called from an advance or before this returns. */
void shared_start(struct shared_machine *machine);

/* Its collective has failed elsewhere: when its turn comes, it fails on all members that wait for
 * this one as well, and `done` is called with the result: PAMI_INVAL or PAMI_ERROR. It need not
 * have been started. */
void shared_abandon(struct shared_machine *machine, pami_result_t result);

/* Forgets a machine because a member has gone; `done` is not called. The arena cannot be used by
 * its group any more. */
void shared_give_up(struct shared_machine *machine);

/* A collective has failed because of `why`, PAMI_INVAL or PAMI_ERROR: other members may have taken
 * ticks for it that this one has not. All before the number `next` are over, in the arenas of the
 * geometry's sub-groups. `counts`: members that disagree may count on this one's arrival in the
 * arena of the geometry itself, where it did not run. */
void shared_skip(struct shared *shared, uint64_t identity, uint64_t next, pami_result_t why,
                 bool counts);

/* The same of a program's composition that has failed because of `why`: in the arena of the
 * geometry itself. */
void shared_skip_runs(struct shared *shared, uint64_t identity, uint64_t next, pami_result_t why);

/* This member had no memory for the arena, so its runs before the number `next` have failed. */
void shared_skip_missed(struct arena *arena, uint64_t next);

/* This one has failed, and may not say so yet: what says that its ticks are over does. */
void shared_skip_failed(const struct shared_machine *machine);

/* What only says that ticks are over is not needed any more. */
void shared_skip_free(struct shared_machine *skip);

/* hold.c: the tick of this number is the first that the hold keeps what comes later from, in the
 * group's arena, which is made when there is none; then a later one. And none any more. */
void shared_hold(struct group *group, struct arena_hold *hold, uint64_t number);
void shared_let_go(struct arena_hold *hold);

/* ---- doubt.c: see ask.h ---- */

/* Ask about the collectives that are stuck in arenas; what this member believes of one is in the
 * check of the word. Returns how many questions. */
size_t shared_ask(struct shared *shared, bool now);

/* Somebody waits in an arena, maybe for this member, which has all runs before the number `over`
 * behind it but for those in the arena. */
void shared_asked(struct shared *shared, const struct flight_head *head, uint64_t over);

/* The member has this machine's run behind it, or never had it. Will what the machine waits for not
 * come? */
bool shared_misses(const struct shared_machine *machine, uint32_t endpoint);

/* The member has not come to segment `index`. */
bool shared_has_not_come(const struct shared_machine *machine, enum arena_kind kind, uint64_t index,
                         uint32_t member);

/* Of row.c: a machine of these rows; it is in its arena, as all members are, none of which sends
 * messages; see above. */
bool shared_run_is(const struct machine *machine);
bool shared_run_fell_back(const struct machine *machine);
/* The arena of a group, for the run with this number; made when there is none. NULL: out of memory.
 */
struct arena *shared_arena(struct group *group, uint64_t number);
bool shared_run_is_there(const struct machine *machine);
bool shared_run_misses(const struct machine *machine, uint32_t endpoint);
/* So many members with a processor each would go along a tree. */
bool shared_runs_in_tree(pami_xfer_type_t type, uint64_t bytes, uint32_t members);
/* Who asks about this run with such a word runs something else there. */
bool shared_run_disagrees(const struct machine *machine, uint32_t word);
/* This moves the rest of a run whose ticks are over, and who asks so in its arena runs the same. */
bool shared_rest_agrees(const struct machine *machine, uint32_t word);

/* ---- between the files of this folder ---- */

/* What one kind of collective does in a tick. `slot` functions below say where. */
struct shared_row {
    const char *name;
    /* Does this member put anything into its slot? */
    bool (*posts)(const struct shared_machine *machine);
    void (*post)(struct shared_machine *machine, uint64_t index);
    /* Members whose slots this one reads: from .. to - 1; none when equal. */
    void (*wants)(const struct shared_machine *machine, uint32_t *from, uint32_t *to);
    void (*take)(struct shared_machine *machine, uint64_t index);
};

extern const struct shared_row shared_rows[SHARED_KINDS];
extern const struct shared_row shared_row_split; /* allreduce in parts: the first stage */
void shared_take_stage(struct shared_machine *machine, uint64_t index);
/* Crowded: combine all slots of the only tick into `result`; take what another one has combined. */
void shared_combine_all(struct shared_machine *machine, char *result);
void shared_take_result(struct shared_machine *machine, const char *result);

/* Tree, see tree.c: the operands of the member and of those below it, combined; the own segment. */
void shared_combine_below(const struct shared_machine *machine, uint64_t index, char *into);
void shared_fill(const struct shared_machine *machine, uint64_t index, char *slot);
uint64_t shared_segment_bytes(const struct shared_machine *machine, uint64_t index);
/* A segment to the destination. */
void shared_write(const struct shared_machine *machine, uint64_t index, const char *from);

/* The own data of a block into a slot; data to the destination; from the source's block `from` to
 * the destination's block `to`, without a slot. */
void shared_fill_slot(const struct shared_machine *machine, uint32_t block, uint64_t offset,
                      uint64_t bytes, char *slot);
void shared_write_map(const struct area_map *map, uint32_t block, uint64_t offset, uint64_t bytes,
                      const char *from);
void shared_copy_own(const struct shared_machine *machine, uint32_t from, uint32_t to,
                     uint64_t offset, uint64_t bytes);

/* vector.c: a block of so many bytes goes through the arena, which is ready; nothing that this
 * member posts needs its buffer. */
bool shared_takes_block(const struct shared_machine *machine, uint64_t bytes);
bool shared_vector_is_inline(const struct shared_machine *machine);
void shared_post_vector(struct shared_machine *machine, uint64_t index);
void shared_take_vector(struct shared_machine *machine, uint64_t index);

/* processor.c: this member arrives at its tick; then, does it wait for members elsewhere only? */
void shared_sit_down(struct shared_machine *machine);
bool shared_keeps_processor(struct shared_machine *machine);

/* direct.c: it waits for this member. */
bool shared_direct_misses(const struct shared_machine *machine, uint32_t member);

/* The own operand, and its combination with what is there: `offset` bytes into the message. */
void shared_read_own(const struct shared_machine *machine, uint64_t offset, uint64_t bytes,
                     char *to);
void shared_combine_own(const struct shared_machine *machine, uint64_t offset, uint64_t bytes,
                        char *into);
void shared_combine(const struct shared_machine *machine, char *into, const char *lower,
                    uint64_t bytes);

/* relay.c: is this one relayed? The first stage; the second, and does this member have it? It waits
 * for that member. */
bool shared_is_relayed(const struct shared_machine *machine);
extern const struct shared_row shared_row_relayed;
bool shared_takes_relays(const struct shared_machine *machine);
void shared_take_relays(struct shared_machine *machine, uint64_t index);
bool shared_relay_misses(const struct shared_machine *machine, uint32_t member);

/* tree.c: for many members a tree is better; it waits for this member. */
bool shared_suits_tree(enum shared_kind kind, uint64_t bytes, uint32_t members);
bool shared_tree_misses(const struct shared_machine *machine, uint32_t member);

/* cut.c: segments, parts and the first slice of what does not fit beside counters. */
void shared_cut(struct shared_machine *machine);

static inline bool shared_is_plain(const struct area_map *map)
{
    return map->type == NULL || type_is_contiguous(map->type);
}

/* Of a plain map. */
static inline char *shared_data_at(const struct area_map *map, uint32_t block, uint64_t offset)
{
    struct message_place place = area_place(map, block, offset);

    return (char *)place.address + place.offset;
}

/* The slot of a member for segment `index`. */
static inline char *shared_slot(const struct shared_machine *machine, uint64_t index,
                                uint32_t member)
{
    const struct arena *arena = machine->arena;

    if (machine->is_inline)
        return (char *)arena_line(arena, LINE_POST, machine->tick, member)->data;
    return arena_buffer(arena, machine->slice + index, member);
}

/* Bytes of segment `index` of something `total` bytes long, and of a part of it. */
static inline uint64_t shared_piece(uint64_t total, uint64_t offset, uint64_t most)
{
    return offset >= total ? 0 : total - offset < most ? total - offset : most;
}

void shared_machines_init(struct shared *shared);
void shared_drop(struct arena *arena); /* at the end of the context: what waits, without a word */
void shared_runs_init(struct shared *shared); /* row.c */

/* The source has a block for each member. */
static inline bool shared_sends_blocks(enum shared_kind kind)
{
    return kind == SHARED_SCATTER || kind == SHARED_ALLTOALL || kind == SHARED_REDUCE_SCATTER ||
           kind == SHARED_SCATTERV || kind == SHARED_ALLTOALLV;
}

static inline bool shared_is_vector(enum shared_kind kind)
{
    return kind >= SHARED_GATHERV;
}

static inline uint64_t shared_block_bytes(const struct shared_call *call, uint32_t block)
{
    return call->block_bytes != NULL ? call->block_bytes[block] : call->bytes;
}

#endif
