/*
 * Members that have gone: their names, for the texts of errors.
 *
 * A context remembers the last task of which it has heard that it has gone: from p2p, from a member
 * that gave a run up (in the message's word, where a check would be), or in an arena's first line;
 * and so does each geometry of its members, as others may go meanwhile. That names somebody. Only
 * what p2p says now counts when something is to be done about it, as a task that was cut off may
 * come back.
 */
#ifndef LIBPAMI_COLL_GONE_H
#define LIBPAMI_COLL_GONE_H

#include <stdbool.h>
#include <stdint.h>

#include "geometry/geometry.h"

struct context;

/* Task `mark` - 1 has gone; 0: nobody. */
void gone_note(struct context *context, uint32_t mark);

/* Of a member of this geometry, or else the last one; 0: nobody. */
uint32_t gone_mark(struct context *context, uint64_t identity);

/* In the word of a message that says a run is given up, and out of it. */
uint32_t gone_word(struct context *context, uint64_t identity);
void gone_heard(struct context *context, uint64_t identity, uint32_t word);

/* A run on this group fails: remembers a member of it, if one has gone. Returns its mark, or 0. */
uint32_t gone_look(const struct group *group);

/* Remembers it; PAMI_ERROR with a text. */
pami_result_t gone_found(struct context *context, uint32_t endpoint);

/* PAMI_ERROR with a text that names a member which has gone, or else says `otherwise`. */
pami_result_t gone_error(const struct group *group, const char *otherwise);

/* A member of this group has gone, and is not back. */
bool gone_any(const struct group *group);

/* The same of a geometry that this context may not have used yet. */
bool gone_any_of(struct context *context, uint64_t identity);

#endif
