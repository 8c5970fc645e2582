/*
 * From what has been measured to a table of choices.
 */
#ifndef PAMI_TUNE_JUDGE_H
#define PAMI_TUNE_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "results.h"

/* Does a network join the nodes that jobs have, pretended as they are? */
bool judge_has_network(void);

/*
 * Lines for all types on `nodes` nodes, for each of the numbers of tasks, which are ascending. What
 * was best for a number holds up to the next one, and for the last one up to twice as many.
 * `built_in`: as src/coll/measured.def has them. The number of lines, or -1 without memory.
 */
int judge_write(FILE *to, const struct results *results, const uint32_t *tasks, size_t count,
                uint32_t nodes, bool built_in);

#endif
