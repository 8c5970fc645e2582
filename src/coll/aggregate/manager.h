/*
 * What a context has for aggregation: operation slots and buffer bytes, and how much of both its
 * nodes have been given. Local; the window of a group is the least that its nodes could get.
 */
#ifndef LIBPAMI_COLL_AGGREGATE_MANAGER_H
#define LIBPAMI_COLL_AGGREGATE_MANAGER_H

#include <stdint.h>

struct aggregate_manager {
    uint32_t slots;
    uint64_t bytes; /* that are left */
};

/* What a node has. */
struct aggregate_grant {
    uint32_t slots;
    uint64_t bytes; /* of each slot */
};

/* Takes at most `wanted` slots of so many bytes each; 0: there is nothing left. */
struct aggregate_grant aggregate_take(struct aggregate_manager *manager, uint32_t wanted,
                                      uint64_t bytes);

/* Gives back all but `keep` slots. */
void aggregate_give_back(struct aggregate_manager *manager, struct aggregate_grant *grant,
                         uint32_t keep);

#endif
