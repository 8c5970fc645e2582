/* The operator loops for the instructions that the whole library is compiled for. */
#include "type/operator_loops.h"
