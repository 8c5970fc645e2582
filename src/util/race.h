/*
 * Race: of two ways of the same work, which is the faster one here?
 *
 * Whether large data is better read out of another task's memory, or sent in packets, depends on
 * the machine by a factor of two to either side, on how far apart the two processors are at the
 * moment, and on whether the sender is there to send. So both are tried and the time counted in
 * which work was under way, in blocks of a few pieces of work: of single ones the time from their
 * beginning to their end, of streams what one costs beside the others. Short gaps count as well:
 * in a stream that is what the way leaves to other work.
 *
 * The usual way begins. The other one is tried now and then, more and more rarely while it loses,
 * and again soon when the cost of the way in use has changed, as where a virtual machine moves.
 * A trial ends at once where the other way, which needs the other end, is much too slow, and so
 * does its use. One owner, no locks.
 */
#ifndef LIBPAMI_UTIL_RACE_H
#define LIBPAMI_UTIL_RACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pieces of work in a block, and as many more as are under way when it begins. */
#define RACE_BLOCK 4u

/* Blocks of a trial, of which the best one counts, or less where the first one has lost clearly; of
 * the usual way before the first trial; and between trials at least and at most. */
#define RACE_TRIAL 3u
#define RACE_FIRST 2u
#define RACE_PAUSE_LEAST 16u
#define RACE_PAUSE_MOST 1024u

/* The other way has failed when a block takes longer than this, and so many times what it would
 * have taken: the other end is not there. */
#define RACE_PATIENCE_US 1000
#define RACE_FAILED 4u
#define RACE_FALLS_MOST 16u

/* Gaps count that are no longer than so much for each KiB of the work before. */
#define RACE_GAP_NS 500u

enum race_way {
    RACE_USUAL,
    RACE_OTHER,
    RACE_WAYS
};

struct race {
    uint32_t turn;            /* changes of way so far; a ticket is one of its values */
    uint32_t cost[RACE_WAYS]; /* means, ticks per KiB; 0: not known */
    uint32_t compared;        /* of the way in use, when the two were last compared */
    uint32_t best;            /* of the blocks of this trial */
    uint16_t pause, rest;     /* blocks between trials, and to the next one */
    uint8_t trial;            /* blocks that a trial still has; 0: there is none */
    uint8_t falls;            /* how often the use of the other way had to be given up lately */
    bool warm;                /* one piece of work has ended since the last turn, which counts for
                               * nothing */
    uint32_t active;          /* pieces of work under way */
    uint32_t before;          /* of those, begun before the last turn */
    uint32_t ends, wanted;    /* in this block */
    uint64_t patience;        /* ticks */
    uint64_t follows;         /* work that begins until then follows without a gap that matters */
    uint64_t since, busy;     /* busy: ticks in this block until `since`, ... */
    uint64_t gaps;            /* ... with so many between pieces of work */
    uint64_t began;           /* where nothing was under way */
    uint64_t bytes;           /* of the ends in this block */
};

/* `like`: one whose work is much the same, which this one takes over from; NULL: none. */
void race_init(struct race *race, const struct race *like);

/* Behind a race_init: the usual way is slow at first, as where it touches memory that is not mapped
 * yet. No trial before it has been used for as long as lies between trials. */
static inline void race_warms_up(struct race *race)
{
    race->rest = race->pause;
}

/* There has been a race_init, if it was all zeros before. */
static inline bool race_is_known(const struct race *race)
{
    return race->pause != 0;
}

/* Which of `sizes` races, a row, is that of so much work: the first one is below `least`, the next
 * one below four times that, and so on. */
static inline size_t race_size(uint64_t bytes, uint64_t least, size_t sizes)
{
    size_t size = 0;

    while (size + 1 < sizes && bytes >= least << 2 * size)
        size++;
    return size;
}

/* That one, which begins as one beside it that is known. */
struct race *race_in(struct race *row, size_t sizes, size_t size);

/* Work begins. Returns a ticket, which says by which way. */
uint32_t race_begin(struct race *race, uint64_t ticks);

static inline enum race_way race_way(uint32_t ticket)
{
    return ticket % 2 == 0 ? RACE_USUAL : RACE_OTHER;
}

/* What is under way, if it is a single piece of work, has only waited so far. The gap before it
 * counts. */
static inline void race_waited(struct race *race, uint64_t ticks)
{
    uint64_t waited = ticks - (race->since > race->began ? race->since : race->began);

    if (race->active != 1)
        return;
    race->since += waited;
    race->began += waited;
}

/* It has ended. */
void race_end(struct race *race, uint32_t ticket, uint64_t ticks, size_t bytes);

/* It was given up, or has not begun after all: there is no time to be counted. */
void race_cancel(struct race *race, uint32_t ticket);

#endif
