/*
 * Recursive halving, the common half of Rabenseifner's reduce and allreduce, for any number of
 * members and any operator.
 *
 * In step k a member exchanges halves of what it still holds with the one whose number differs in
 * bit k, so that operands of neighbouring ranks meet first and rank order is kept. After log(p)
 * steps each of p numbers has one p-th of the result.
 *
 * p is the largest power of two. The members beyond, one each of the first n - p pairs of ranks,
 * hand their operands to their neighbour first. The root is never one of them.
 *
 * Temporary memory: half the message (a whole one where a pair comes together in place), and one
 * more for the partial result where there is no destination.
 */
#ifndef LIBPAMI_COLL_HALVING_H
#define LIBPAMI_COLL_HALVING_H

#include "coll/schedule.h"

#define HALVING_OUTSIDE UINT32_MAX

/* What a member is in a power of two of numbers. */
struct halving_place {
    uint32_t number; /* HALVING_OUTSIDE: hands its operand to `peer` */
    uint32_t peer;   /* of a pair, NOBODY without one */
    uint32_t steps, beyond, root;
};

/* root: NOBODY where all members get the result */
struct halving_place halving_place(const struct shape *shape, uint32_t root);

uint32_t halving_rank(const struct halving_place *place, uint32_t number);

/* What a number holds after the first `steps` halvings, in some area. */
struct span halving_held(const struct shape *shape, uint32_t number, uint32_t steps,
                         enum area area);

/* Sets temp_bytes and state[0], where partial results are (enum area). Returns the phases. */
uint32_t halving_prepare(struct shape *shape, const struct halving_place *place);

void halving_phase(const struct shape *shape, const struct halving_place *place, uint32_t index,
                   struct phase *phase);

/* Nothing to reduce, or one member, whose phase (if any) copies. */
bool halving_trivial(struct shape *shape, uint32_t *phases);
void halving_trivial_phase(const struct shape *shape, struct phase *phase);

#endif
