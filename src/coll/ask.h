/*
 * Questions: does this member have that run behind it?
 *
 * Members that disagree about a collective (its size, so maybe its algorithm and where that runs)
 * may wait for what nobody sends. Most of that is found out by what does arrive. For the rest, a
 * member that has waited for a while, for a message or for one to be fetched, asks those that it
 * waits for, each by a message in the name of the flight. Messages between two members keep their
 * order: if the answer is that the run is over there, or never was, and what is waited for has not
 * come before, it will not come. A member that still has the run, or has not begun it, does not
 * answer, and is asked again later, ever less often. One that has not begun it and knows of a
 * member that has gone answers: programs stop at the first error, so it may never begin.
 *
 * So nothing is asked where members are on time, and who is late gets a few short messages. Where
 * thousands of collectives wait, a look asks about the first few only: questions about all of them
 * would hold up what these wait for.
 */
#ifndef LIBPAMI_COLL_ASK_H
#define LIBPAMI_COLL_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct context;
struct flight;
struct flight_head;

/* Machines, and arenas, that a look asks about. */
#define ASK_MOST 64u

/* About one thing that may be stuck. All 0: none yet. */
struct doubt {
    uint64_t mark;  /* how far it was at the last look */
    uint32_t looks; /* since then */
};

/* A look at a thing that is as far as `mark`, not 0. Is it time to ask? `now`: in any case. */
bool doubt_grows(struct doubt *doubt, uint64_t mark, bool now);

/* House-keeping of a context; see context.h. */
void ask_tended(struct context *context);

/* Ask about everything that waits, now: in a simulation, where nothing else can happen any more.
 * Returns how many questions. */
size_t ask_now(struct context *context);

/* Another number when runs have failed here, or have been sent another way, or somebody has gone,
 * since: what was asked before may be worth asking again. */
uint64_t ask_mark(const struct context *context);

/* FLIGHT_ASK or FLIGHT_OVER has come; `flight` is what this member has of that name, or NULL. */
void ask_arrive(struct context *context, struct flight *flight, const struct flight_head *head,
                uint32_t origin);

#endif
