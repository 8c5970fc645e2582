/*
 * Machines: one collective on one member, as a state machine.
 *
 * reset binds a machine to arguments and puts it into its start state; it communicates nothing.
 * start returns in bounded time whatever other members do. When the member's part is complete, the
 * machine calls its continuation, once, which may start other machines or this one again: so a
 * chain of machines keeps this contract and is a machine itself (compose.h).
 *
 * A machine belongs to whoever owns its context, and is one of these:
 *   a schedule      engine.c runs what an algorithm's arithmetic says, over messages
 *   a composition   chain.c, pipeline.c: other machines, one after the other or several at a time
 *   anything else   with a struct retry (context.h): `start` puts it on the list of the context
 *                   and its function looks in every pass whether it can go on, for a short
 *                   time, and takes it off before `done`. It counts itself with coll_runs (coll.h)
 *                   while it runs.
 *
 * Numbers: all members give the runs of a group the same sequence numbers, which is what their
 * messages are matched by. Numbers come in blocks of GROUP_BLOCK: a collective has one, whatever
 * its row and its arguments, so members that disagree about those agree again about the next one. A
 * run by itself takes the first number of the next block when it starts. Machines inside a
 * composition start in an order that may differ between members, so the composition opens a block
 * when it starts itself and reserves their numbers there (`reserve`), and each run takes the next
 * of its own. Sub-groups number in the block of the geometry's own group. Compositions of programs
 * have a block in each of their geometries, and tickets for what runs there (ticket.h). Messages
 * carry the lower half of a number.
 */
#ifndef LIBPAMI_COLL_MACHINE_H
#define LIBPAMI_COLL_MACHINE_H

#include <pami/pami.h>

#include "geometry/geometry.h"

struct machine;
struct collective;
struct algorithm;

struct machine_ops {
    /*
     * Take over the arguments (*given is the machine's afterwards, also on error) and go into the
     * start state. 0, -ENOMEM, or -EBUSY while it runs or still has something under way. NULL: the
     * machine is not made from an algorithm, or from a row whose runs go in the order of calls, on
     * several levels, which is in no composition of a program.
     */
    int (*reset)(struct machine *machine, struct collective *given);
    /* Numbers for so many runs from the groups of this machine and those below it. */
    void (*reserve)(struct machine *machine, uint32_t runs);
    /* Never blocks; may complete, and so call `done`, before it returns. */
    void (*start)(struct machine *machine);
    /* Free everything. While it runs only at the end of the context, without a word to anybody. */
    void (*release)(struct machine *machine);
    /*
     * It cannot end well. While it runs: tell the members that wait for this one, end with
     * `result`. While it does not: act as a run that fails at once, but do not call `done`.
     */
    void (*give_up)(struct machine *machine, pami_result_t result);
    /* Chains and pipelines: it has been started and is not complete. Others: NULL. */
    bool (*is_running)(struct machine *machine);
    /* It has ended well, and may be kept and started again as it is. NULL: never. */
    bool (*repeats)(const struct machine *machine);
    /* It is started again by the next call: what others wait for may go out now, before all else
     * that a start takes. NULL: it all goes with the start. */
    void (*hurry)(struct machine *machine);
};

struct machine {
    const struct machine_ops *ops;
    void (*done)(struct machine *machine, pami_result_t result); /* the continuation */
    void *cookie;                                                /* of whoever set `done` */
    struct group *group;
    struct list reserved; /* in coll_state.reserved while it has numbers of its own */
    uint64_t sequence;    /* the next of its own numbers, `numbers` of them left, */
    uint32_t numbers;
    uint32_t step; /* so far apart */
};

/* What every kind of machine begins with. */
static inline void machine_init(struct machine *machine, const struct machine_ops *ops,
                                struct group *group)
{
    machine->ops = ops;
    machine->group = group;
    machine->done = NULL;
    machine->cookie = NULL;
    machine->sequence = 0;
    machine->numbers = 0;
    machine->step = 1;
    list_init(&machine->reserved);
}

/*
 * Around what a composition reserves in `group` and its sub-groups: one block. Inside another one
 * nothing. True, or false: it is inside another, and there is nothing to end.
 */
bool group_block_begin(struct group *group);
void group_block_end(struct group *group);

/* Nothing has been reserved since the number `first`, with which it began. */
void group_block_cancel(struct group *group, uint64_t first);

/* A run of the machine has its numbers from `number` on, which were taken in an earlier block. */
void machine_reserve_at(struct machine *machine, uint64_t number);

/* `reserve` of machines that have numbers themselves. */
void machine_reserve(struct machine *machine, uint32_t runs);

/* The number of the run that starts now, as messages have it. */
uint32_t machine_number(struct machine *machine);

/* Give back numbers that are left; as part of `release`. */
void machine_release_numbers(struct machine *machine);

/*
 * A machine for a row of the table; *collective is taken over, also on error. 0, -ENOMEM.
 */
int machine_make(struct group *group, const struct algorithm *row, struct collective *collective,
                 struct machine **machine);

/*
 * A group of some members of another one, in which machines talk on a channel of their own
 * (1 .. GROUP_CHANNELS - 1; which is for what: coll.h). ranks[i] is the parent's rank of what is
 * rank i here, in any order, all different; equal on all members of the new group. Made and used by
 * members only; different groups of members may share a channel. Lives until the geometry's
 * group closes, which has the channels.
 * A machine row for it: machine_make with this group. 0, -ENOMEM, -EEXIST: the channel is in use
 * here, -EINVAL: not a member, or ranks are wrong.
 */
int group_make_sub(struct group *parent, uint32_t channel, const uint32_t *ranks, uint32_t count,
                   struct group **group);

/* One that has just been made, and not used: as if it had not been. NULL: nothing. */
void group_drop_sub(struct group *group);

/* The same of `count` ranks, each `step` behind the one before. Takes no time and memory for each
 * member where the parent's topology takes none. */
int group_make_sub_evenly(struct group *parent, uint32_t channel, uint32_t first, uint32_t step,
                          uint32_t count, struct group **group);

/* All members of a group are tasks of one node. Remembered; the same on all members. */
bool group_on_one_node(const struct group *group);

/* They are on several nodes, and a network is between these. */
bool group_over_network(const struct group *group);

/* They are on several nodes, two on each or fewer on average. */
bool group_is_pairs(const struct group *group);

/* The level (locality.h) at which its members divide into several domains, one of them with several
 * members; LEVELS: at none. The same on all members. */
unsigned group_level(const struct group *group);
bool group_has_levels(const struct group *group);

/* The ranks of each of these domains follow one another. */
bool group_is_consecutive(const struct group *group);

#endif
