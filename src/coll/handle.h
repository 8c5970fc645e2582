/*
 * Handles of algorithms: which geometry, which type of transfer, which row.
 *
 * A handle is a number: the geometry's handle above, type and row below. It names no memory, so a
 * wrong one is found out by looking the geometry up; and it is the same for all contexts of a task.
 */
#ifndef LIBPAMI_COLL_HANDLE_H
#define LIBPAMI_COLL_HANDLE_H

#include <pami/pami.h>

#include "coll/algorithm.h"
#include "geometry/geometry.h"

/* Bits of a handle, from below: row + 1 (0: Auto), type, a mark, the geometry's address / 16. */
#define HANDLE_ROW_BITS 12
#define HANDLE_TYPE_BITS 5
#define HANDLE_MARK UINT64_C(5)
#define HANDLE_LOW_BITS 20

_Static_assert(_Alignof(struct geometry) >= 16, "addresses are multiples of 16");

/* Row NULL: Auto. */
static inline pami_algorithm_t
algorithm_handle_make(pami_geometry_t geometry, pami_xfer_type_t type, const struct algorithm *row)
{
    uint64_t number = row != NULL ? (uint64_t)(row - algorithm_table) + 1 : 0;

    return (uint64_t)(uintptr_t)geometry >> 4 << HANDLE_LOW_BITS |
           HANDLE_MARK << (HANDLE_ROW_BITS + HANDLE_TYPE_BITS) | (uint64_t)type << HANDLE_ROW_BITS |
           number;
}

static inline pami_xfer_type_t algorithm_handle_type(pami_algorithm_t handle)
{
    return (pami_xfer_type_t)(handle >> HANDLE_ROW_BITS & ((1u << HANDLE_TYPE_BITS) - 1));
}

/* NULL: Auto. Of a handle that algorithm_handle_geometry knows. */
static inline const struct algorithm *algorithm_handle_row(pami_algorithm_t handle)
{
    size_t number = handle & ((1u << HANDLE_ROW_BITS) - 1);

    return number != 0 ? &algorithm_table[number - 1] : NULL;
}

/* The geometry of a handle that names an algorithm of it; NULL for anything else. */
struct geometry *algorithm_handle_geometry(pami_algorithm_t handle);

#endif
