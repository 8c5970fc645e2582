/*
 * The tables of operator loops, one per instruction set; see operator_loops.h for the loops and
 * operator.c for the choice between tables. An entry is NULL where the operator means nothing for
 * the kind.
 */
#ifndef LIBPAMI_TYPE_OPERATOR_TABLE_H
#define LIBPAMI_TYPE_OPERATOR_TABLE_H

#include "type/operator.h"

/* target[i] := target[i] o source[i] for i < count elements. */
typedef void operator_loop(void *target, const void *source, size_t count);

struct operator_table {
    operator_loop *loop[OPERATOR_COUNT][TYPE_KIND_COUNT];
};

extern const struct operator_table operator_table_generic;

#if defined(__x86_64__)
#define OPERATOR_HAS_X86_TABLES
extern const struct operator_table operator_table_avx2;
extern const struct operator_table operator_table_avx512;
#endif

#endif
