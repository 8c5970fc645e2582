/*
 * Flows: chains of links on the segments of one message, a bounded number of them under way, so
 * that a segment is on one level of a hierarchy while the next one is on the level before. Runs
 * once; what the links are bound to does not change.
 */
#ifndef LIBPAMI_COLL_FLOW_H
#define LIBPAMI_COLL_FLOW_H

#include <stdint.h>

#include "coll/machine.h"

#define FLOW_LINKS 3u
#define FLOW_SEGMENTS_MAX 64u

/* What happens to one segment on this member, in order. */
struct flow_links {
    struct machine *machine[FLOW_LINKS];
    uint32_t count;
};

/*
 * The first link of every segment must be on the same level on all members of that level, or be the
 * only one there: numbers and ticks are reserved for the first links a few segments ahead of those
 * for the others. `memory` is freed with the machine. NULL: out of memory; all stays the caller's.
 */
struct machine *flow_make(struct group *group, const struct flow_links *segments, uint32_t count,
                          void *memory);

#endif
