/*
 * What the library says about its collectives; for PAMI_STATS and pami_info.
 */
#ifndef LIBPAMI_COLL_REPORT_H
#define LIBPAMI_COLL_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "context/context.h"

/* One call of `print` for each algorithm that has run here, and for what else was counted. */
void report_ran(const struct context *context,
                void (*print)(void *cookie, const char *text, uint64_t count), void *cookie);

/* Room for what report_needs writes. */
#define REPORT_NEEDS_MAX 256

/* Of NEEDS_* bits: "needs a commutative operator, ..." or "". */
void report_needs(unsigned needs, char *text, size_t size);

#endif
