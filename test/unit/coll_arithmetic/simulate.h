/*
 * Runs the schedules of all members of a collective without a network, as schedule.h says and as
 * unkindly as it allows: which member does what next is drawn by a seed, some members are slow,
 * some sends complete before they arrive and others only then.
 *
 * Memory consists of cells, one for each `unit` bytes, that hold symbolic values. A cell that is
 * being received into may not be touched, one that is being sent may not be written, one that
 * nothing was written to may not be read. Anything else that is wrong ends the run with a text.
 */
#ifndef LIBPAMI_TEST_UNIT_COLL_ARITHMETIC_SIMULATE_H
#define LIBPAMI_TEST_UNIT_COLL_ARITHMETIC_SIMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/algorithm.h"

/* What is in a cell: a sequence of operands, and how they were put together. */
struct value {
    uint64_t sequence, power; /* hash that is associative; power 0: nothing was written here */
    uint64_t set;             /* hash that does not depend on order */
    uint64_t tree;            /* hash that depends on everything */
};

struct value value_leaf(uint64_t name);
struct value value_combine(struct value low, struct value high);

struct memory {
    struct value *cells;
    uint16_t *readers;
    uint8_t *writers;
    uint64_t count;
};

/* An area: blocks in a memory. `start` and `cells` of each block, in cells. */
struct view {
    struct memory *memory;
    uint32_t blocks;
    uint64_t *start, *cells;
    bool dense;
};

struct member {
    struct shape shape;
    struct shape_mark mark;
    struct memory memory[2], temp;
    struct view send, recv;
};

struct run {
    const struct schedule_ops *ops;
    uint32_t size;
    bool barrier; /* see that all know of all in the end */
    uint64_t unit;
    uint64_t seed;
    struct member *members;
    uint64_t phases_most, temp_most, messages; /* found by the run */
    char error[256];
};

void memory_init(struct memory *memory, uint64_t count);
void memory_finish(struct memory *memory);

/* 0, or -1 and run->error is set. Sets each member's temp. */
int simulate(struct run *run);

#endif
