/*
 * Auto: which algorithm runs when the program leaves it to the library.
 *
 * Per type, a list of choices in the order of preference: a row, for which sizes, for how many
 * members. The first whose needs are met is taken; the last of each type has none. What a choice
 * looks at is known to all members and the same there, so all choose the same.
 */
#ifndef LIBPAMI_COLL_SELECT_H
#define LIBPAMI_COLL_SELECT_H

#include <stddef.h>
#include <stdint.h>

#include "coll/algorithm.h"
#include "coll/collective.h"
#include "geometry/geometry.h"

#define SELECT_CHOICES_MAX 128

struct select_choice {
    const struct algorithm *row;
    uint64_t bytes_min, bytes_max; /* of the message or of a block; see select_bytes */
    uint32_t members_min, members_max;
};

/* The choices of a context, from the options and what is built in. */
struct select_table {
    struct select_choice choices[SELECT_CHOICES_MAX];
    uint16_t first[PAMI_XFER_COUNT + 1]; /* of a type; the next type's first ends it */
};

void select_table_init(struct select_table *table);

/* The size that choices look at: of the message, or of a block (on average where they differ). */
uint64_t select_bytes(const struct collective *collective, uint32_t members);

/* The best row whose needs these arguments meet. */
const struct algorithm *select_row(const struct select_table *table, const struct group *group,
                                   const struct collective *collective);

/* The same among those that are schedules over messages. */
const struct algorithm *select_row_of_messages(const struct select_table *table,
                                               const struct group *group,
                                               const struct collective *collective);

/* Why: "PAMI_COLL_ALLREDUCE" or "built in". For pami_info. */
const char *select_option_name(pami_xfer_type_t type);

#endif
