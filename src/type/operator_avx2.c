/* The operator loops for x86-64 with AVX2. */
#include "type/operator_table.h"

#ifdef OPERATOR_HAS_X86_TABLES
#define OPERATOR_TARGET __attribute__((target("avx2")))
#define OPERATOR_UNFUSED "avx2"
#define OPERATOR_TABLE operator_table_avx2
#include "type/operator_loops.h"
#endif
