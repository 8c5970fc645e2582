/*
 * What pami_tune measures: types of collectives, sizes.
 */
#ifndef PAMI_TUNE_SIZES_H
#define PAMI_TUNE_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pami/pami.h>

#define SIZES_MAX 8

/* The types whose sizes all members know; the others have too few algorithms to choose from. */
extern const pami_xfer_type_t tuned_types[];
extern const size_t tuned_type_count;

/* A collective with a root or, as scans, one that lets members go before others have come. */
bool type_is_loose(pami_xfer_type_t type);
bool type_has_root(pami_xfer_type_t type);

/* Blocks in a member's source, and in its destination. */
size_t type_send_blocks(pami_xfer_type_t type, uint32_t tasks);
size_t type_recv_blocks(pami_xfer_type_t type, uint32_t tasks);

/* Sizes as choices count them (select_bytes), ascending; their number. */
size_t type_sizes(pami_xfer_type_t type, uint32_t tasks, bool quick, uint64_t sizes[SIZES_MAX]);

#endif
