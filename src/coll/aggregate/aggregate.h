/*
 * Collectives by aggregation nodes: what the rest of src/coll sees.
 *
 * An aggregation node is a role that the context of a member plays by active messages: it collects
 * a contribution from each of its children, combines them in the order of the children, and passes
 * the result up, or, at the root, down. It acts on what arrives, whether or not its own member has
 * entered the collective. Source: SHArP, in-network reduction by switches.
 *
 *   tree.c      which vertices the tree of a group has, and who acts for them
 *   manager.c   the slots and buffers that a context has for operations
 *   node.c      an aggregation node: children come, are granted slots, ask, leave
 *   nodes.c     which nodes a context has
 *   failure.c   runs that have failed at a node
 *   slots.c     operations under way at a node
 *   term.c      terms of a group at a member: joining, leaving, moving on
 *   member.c    what a member knows of a term: runs in their order, credits
 *   run.c       the rows of the table, as machines
 *   message.c   the messages, both ways
 *
 * A group is formed when its members first use it, or ahead of that where the geometry is to be
 * optimised. Each joins at its node, which joins at its parent when all children have; what the
 * nodes have to offer, and so all can, is the number of operations that may be under way: the
 * window that the root grants. Without any, on all members, runs fall back to rows over messages.
 *
 * It is formed anew, in another *term*, after each update of PAMI_GEOMETRY_OPTIMIZE. Members count
 * updates, and make them in the same order relative to their collectives, so they agree about the
 * term of each run, and messages name it. A member leaves a term when its runs there have ended,
 * and joins the next one then; nodes of a term give their slots back when the first member leaves,
 * as no run is under way that this one has not ended. One that has updated to 0 joins, when a row
 * is used by name all the same, with no slots possible: so all are refused.
 *
 * Leaders of a hierarchy are a group as well, named by the geometry and the channel of their
 * sub-group; what is said of groups here holds for each. All of a geometry are in one term.
 *
 * Credits: a member sends the contribution to a segment only if less than the window of those that
 * it has sent are without an answer. All send theirs in the order of calls, also where runs start
 * in another one, as those of leaders do. So a node has a free slot when a contribution comes that
 * opens one; and who has sent a later one will not send an earlier one, which is how nodes find out
 * that members disagree.
 *
 * A run fails as a whole, on all members: a node drops its slots of that run and keeps its number,
 * until all children have gone past it, to answer contributions that come later.
 */
#ifndef LIBPAMI_COLL_AGGREGATE_AGGREGATE_H
#define LIBPAMI_COLL_AGGREGATE_AGGREGATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/algorithm.h"

struct aggregate;
struct context;
struct group;
struct machine;

/* What a context's aggregation has done, for PAMI_STATS. */
struct aggregate_counts {
    uint64_t granted, refused; /* terms of groups, at this member */
    uint64_t combined;         /* operations, at the nodes here */
};

/* Per context; the messages are taken from then on. NULL: out of memory. */
struct aggregate *aggregate_attach(struct context *context);
void aggregate_detach(struct aggregate *aggregate);

/* A new term where PAMI_GEOMETRY_OPTIMIZE was updated; formed ahead of use if so wished, without
 * memory later. */
void aggregate_group_optimise(struct group *group, bool ahead);

/* The next run of the group will have a term. 0, or -ENOMEM: it would fail, and others wait for it,
 * so it had better not begin. */
int aggregate_prepare(struct group *group);

/* A machine of these rows has gone over messages, and does not start again. */
bool aggregate_run_fell_back(const struct machine *machine);

/* The geometry is being closed on this context. */
void aggregate_group_closed(struct group *group);

/* An endpoint has gone. */
void aggregate_gone(struct aggregate *aggregate, uint32_t endpoint);

/* Ask for what is missing; see ask.h. Returns how many questions. */
size_t aggregate_ask(struct aggregate *aggregate, bool now);

const struct aggregate_counts *aggregate_count(const struct aggregate *aggregate);

#endif
