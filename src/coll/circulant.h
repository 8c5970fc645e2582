/*
 * Reduce-scatter over a circulant graph, for any number of members and operators that commute; a
 * part of the reduce-scatter and the all-reduce of that name. Source: Traeff, Optimal,
 * Non-pipelined Reduce-scatter and Allreduce Algorithms, 2023.
 *
 * With n members, distance 0 is n and each later one half of the one before, rounded up, so that
 * the last one is 1. A member counts blocks from its own. In step k it still works on the first
 * distance(k) of them: it sends those from distance(k + 1) on to the member that far after it, for
 * which they are the first ones, and combines what comes from the one that far before it with its
 * own first ones. Each block is combined once less than there are members, whatever their number.
 *
 * Blocks that go round the end of the ranks are two messages: a step is two phases.
 *
 * Memory: sums arise in an area where blocks lie as in the source. What comes first for a block is
 * received there and combined with the source; what comes later, or all in place, into two places
 * of temporary memory by turns.
 */
#ifndef LIBPAMI_COLL_CIRCULANT_H
#define LIBPAMI_COLL_CIRCULANT_H

#include "coll/schedule.h"

struct circulant {
    const struct shape *shape;
    uint64_t (*start)(const struct shape *shape, uint32_t block); /* block `size`: the end */
    enum area sum;
    bool in_place; /* the sums arise where the source is */
    uint64_t temp; /* where in AREA_TEMP there is room, circulant_temp_bytes */
    uint32_t steps;
};

/* The number of steps. */
uint32_t circulant_steps(uint32_t size);

uint32_t circulant_distance(uint32_t size, uint32_t step);

/* Part 0 or 1 of the `count` blocks from `first` on, which may go round the end. */
struct span circulant_part(const struct circulant *circulant, uint32_t first, uint32_t count,
                           uint32_t part, enum area area);

uint64_t circulant_temp_bytes(const struct circulant *circulant);

/* Phase `index` of 2 * steps. */
void circulant_phase(const struct circulant *circulant, uint32_t index, struct phase *phase);

#endif
