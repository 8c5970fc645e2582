/*
 * Flows: chains of links on the segments of one message, a bounded number of them under way, so
 * that a segment is on one level of a hierarchy while the next one is on the level before. What
 * the links are bound to does not change.
 *
 * Programs repeat themselves: a flow that has ended well is kept for a while, for the next
 * collective of the same row with the same arguments.
 */
#ifndef LIBPAMI_COLL_FLOW_H
#define LIBPAMI_COLL_FLOW_H

#include <stdint.h>

#include "coll/machine.h"

#define FLOW_LINKS 6u
#define FLOW_SEGMENTS_MAX 64u

struct coll;

/* What happens to one segment on this member, in order. */
struct flow_links {
    struct machine *machine[FLOW_LINKS];
    uint32_t count;
    uint32_t ahead; /* links of which a few segments are reserved ahead of the other links */
};

/* What links refer to: a list of blocks of the context that a flow gives back at its end. */
struct flow_memory {
    struct flow_memory *next;
    size_t bytes;
    _Alignas(64) char data[];
};

void flow_memory_free(struct stash *stash, struct flow_memory *memory);

/*
 * In each group all members have the same runs, segment by segment, and say the same about whether
 * each is ahead. `row` is what it is kept under. `whole`, whose types and lists the links may use,
 * is released and `memory` freed with the machine. NULL: out of memory; all stays the caller's.
 */
struct machine *flow_make(struct group *group, const struct algorithm *row,
                          const struct flow_links *segments, uint32_t count,
                          const struct collective *whole, struct flow_memory *memory);

/* One that was kept: *whole is released, and is what the flow has, whose lists last. Else NULL: it
 * stays the caller's. */
struct machine *flow_kept(struct group *group, const struct algorithm *row,
                          struct collective *whole);

/* Those of a geometry go, or all. */
void flow_forget(struct coll *coll, uint64_t identity, bool all);

#endif
