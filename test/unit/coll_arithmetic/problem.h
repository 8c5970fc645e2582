/*
 * Problems: one collective with all its members' arguments, set up in symbolic memory, simulated,
 * and compared with what must come out.
 */
#ifndef LIBPAMI_TEST_UNIT_COLL_ARITHMETIC_PROBLEM_H
#define LIBPAMI_TEST_UNIT_COLL_ARITHMETIC_PROBLEM_H

#include "simulate.h"

enum in_place {
    IN_PLACE_NONE,
    IN_PLACE_ALL,
    IN_PLACE_SOME, /* a different choice on each member */
};

struct problem {
    const struct algorithm *algorithm;
    uint32_t size, root;
    uint64_t cells;   /* of a message or block (reduce_scatter: of all blocks); ... */
    bool varied;      /* ... at most: blocks differ */
    uint64_t unit;    /* bytes of a cell; 0: 1, for reductions 4 */
    uint64_t segment; /* bytes */
    uint32_t radix, window;
    enum in_place in_place;
    bool scattered; /* blocks do not follow one another */
    bool ordered;   /* the operator does not commute */
    bool exclusive;
    uint64_t seed;
};

/* What the runs have needed, the most of all members. */
struct figures {
    uint64_t phases, temp, messages;
};

bool type_reduces(pami_xfer_type_t type);

/* Takes blocks that differ. */
bool type_varies(pami_xfer_type_t type);

/* Fails the test with a text that names the problem. `figures` may be NULL. */
void problem_run(const struct problem *problem, struct figures *figures);

#endif
