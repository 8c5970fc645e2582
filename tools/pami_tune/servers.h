/*
 * pami_tune --servers: where communication servers pay on this machine.
 */
#ifndef PAMI_TUNE_SERVERS_H
#define PAMI_TUNE_SERVERS_H

#include <stdbool.h>

#include "start.h"

/* What --contest is given in the job. */
#define SERVERS_CONTEST "servers"

/* In a job of two tasks: task 0 measures, and prints a line of the table for each cell in which
 * servers were faster, and a comment for each other one. The exit status. */
int servers_contest(bool quick);

/* Starts that job and writes the table. The exit status. */
int servers_tune(struct start *start, uint32_t nodes, const char *output, bool verbose);

#endif
