/*
 * Flows: chains of links on the segments of one message, a bounded number of them under way, so
 * that a segment is on one level of a hierarchy while the next one is on the level before. Runs
 * once; what the links are bound to does not change.
 */
#ifndef LIBPAMI_COLL_FLOW_H
#define LIBPAMI_COLL_FLOW_H

#include <stdint.h>

#include "coll/machine.h"

#define FLOW_LINKS 6u
#define FLOW_SEGMENTS_MAX 64u

/* What happens to one segment on this member, in order. */
struct flow_links {
    struct machine *machine[FLOW_LINKS];
    uint32_t count;
    uint32_t ahead; /* links of which a few segments are reserved ahead of the other links */
};

/* What links refer to: a list of pieces that a flow frees at its end. */
struct flow_memory {
    struct flow_memory *next;
    _Alignas(64) char data[];
};

void flow_memory_free(struct flow_memory *memory);

/*
 * In each group all members have the same runs, segment by segment, and say the same about whether
 * each is ahead. `whole`, whose types and lists the links may use, is released and `memory` freed
 * with the machine. NULL: out of memory; all stays the caller's.
 */
struct machine *flow_make(struct group *group, const struct flow_links *segments, uint32_t count,
                          const struct collective *whole, struct flow_memory *memory);

#endif
