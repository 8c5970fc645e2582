/* The operator loops for x86-64 with the AVX-512 sets of all server processors. */
#include "type/operator_table.h"

#ifdef OPERATOR_HAS_X86_TABLES
#define OPERATOR_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define OPERATOR_UNFUSED "avx2"
#define OPERATOR_TABLE operator_table_avx512
#include "type/operator_loops.h"
#endif
