/*
 * Which algorithm Auto would take, and why not the ones that it prefers: for pami_info.
 */
#ifndef LIBPAMI_COLL_EXPLAIN_H
#define LIBPAMI_COLL_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pami/pami.h>

#include "coll/select.h"

struct explain_question {
    pami_xfer_type_t type;
    uint64_t bytes; /* as choices have them; see select_bytes */
    uint32_t members, nodes;
    bool pretended; /* nodes that are joined by memory; a network otherwise */
};

/* "TYPE:BYTES:MEMBERS[:NODES]". 0, or -EINVAL and *why. */
int explain_parse(const char *text, struct explain_question *question, char *why, size_t size);

typedef void explain_print(void *cookie, const char *line);

/* One line for each choice up to the one that is taken, which is returned. `print` may be NULL. */
const struct algorithm *explain(const struct select_table *table,
                                const struct explain_question *question, explain_print *print,
                                void *cookie);

#endif
