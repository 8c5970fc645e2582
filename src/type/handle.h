/*
 * The table behind pami_type_t: a handle is a slot number and the slot's generation, never an
 * address, so that NULL, garbage and destroyed handles are told from live ones without touching
 * freed memory.
 *
 * Types belong to no client and may be used before one exists, so this table is one of the few
 * things that belong to the process. Lookups take no lock.
 */
#ifndef LIBPAMI_TYPE_HANDLE_H
#define LIBPAMI_TYPE_HANDLE_H

#include <stdint.h>

#include "type/type.h"

/* Handle of generation `generation` of slot `slot`, as an integer constant expression. The odd
 * low bits set handles apart from addresses and small integers. */
#define HANDLE_VALUE(slot, generation)                                                             \
    (((uintptr_t)(generation) << 28) | ((uintptr_t)(slot) << 4) | 0x9)

/* The predefined types have the first slots, in the order of enum type_kind. */
#define HANDLE_PREDEFINED(kind) ((pami_type_t)HANDLE_VALUE(kind, 1))

/* The types themselves, complete and permanent; predefined.c. */
extern struct type type_predefined[TYPE_KIND_COUNT];

/* Give a type a handle; NULL: out of memory. */
pami_type_t handle_open(struct type *type);

/* Withdraw a handle. Returns the type it stood for, or NULL if it is not live or predefined; of
 * several threads withdrawing the same handle, one gets the type. */
struct type *handle_close(pami_type_t handle);

#endif
