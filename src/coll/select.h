/*
 * Auto: which algorithm runs when the program leaves it to the library.
 *
 * Per type, a list of choices in the order of preference: a row, for which sizes, for how many
 * members, on one node or several. First come those of the options, then those of the job's table
 * (tuned.h), then what is built in. The first whose needs are met is taken; the last of each type
 * has none. What a choice looks at is known to all members and the same there, so all choose the
 * same.
 */
#ifndef LIBPAMI_COLL_SELECT_H
#define LIBPAMI_COLL_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/algorithm.h"
#include "coll/choice.h"
#include "coll/collective.h"
#include "geometry/geometry.h"

/* The choices of a context. */
struct select_table {
    struct choice_list list;
    uint32_t first[PAMI_XFER_COUNT + 1]; /* of a type; the next type's first ends it */
};

/* `tuned` may be NULL; `warn`: of parts of options that make no sense. 0 or -ENOMEM. */
int select_table_init(struct select_table *table, const struct choice_list *tuned, bool warn);
void select_table_finish(struct select_table *table);

/* Whether a choice is taken, and if not, the first reason. */
enum select_verdict {
    SELECT_TAKEN,
    SELECT_BYTES,
    SELECT_MEMBERS,
    SELECT_NODES,
    SELECT_NO_MESSAGES, /* a schedule over messages is wanted */
    SELECT_NEEDS,       /* algorithm_unmet says which */
};

enum select_verdict select_try(const struct choice *choice, const struct collective *collective,
                               const struct group *group, uint64_t bytes, bool messages);

/* The best row whose needs these arguments meet. */
const struct algorithm *select_row(const struct select_table *table, const struct group *group,
                                   const struct collective *collective);

/* The same among those that are schedules over messages. */
const struct algorithm *select_row_of_messages(const struct select_table *table,
                                               const struct group *group,
                                               const struct collective *collective);

/* The same among those of which programs make compositions: schedules over messages, and rows in
 * shared memory. */
const struct algorithm *select_row_of_one_run(const struct select_table *table,
                                              const struct group *group,
                                              const struct collective *collective);

/* Why: "PAMI_COLL_ALLREDUCE" or "built in". For pami_info. */
const char *select_option_name(pami_xfer_type_t type);

#endif
