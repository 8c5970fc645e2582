/*
 * The side of pami_tune that runs in the jobs it starts: a task that runs collectives by given
 * algorithms, and a contest between those of a type.
 *
 * Only the public API, as a program would use it.
 */
#ifndef PAMI_TUNE_LAB_H
#define PAMI_TUNE_LAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pami/pami.h>

struct lab {
    pami_client_t client;
    pami_context_t context;
    pami_geometry_t world;
    uint32_t task, tasks;
    pami_endpoint_t *endpoints;
    char *send, *recv;
    size_t *counts, *displacements; /* one for each member */
    pami_algorithm_t barrier, broadcast;
    uint64_t rounds; /* calls so far: data depend on it */
    bool done;
};

/* Ends the process when it cannot. */
void lab_open(struct lab *lab);

/* Buffers for blocks of so many bytes. */
void lab_room(struct lab *lab, pami_xfer_type_t type, uint64_t bytes);
void lab_close(struct lab *lab);

/* Rewrites what this task contributes and runs it to its end; roots follow `turn`. False: the
 * algorithm refuses, on all tasks alike. Anything worse ends the process. */
bool lab_run(struct lab *lab, pami_xfer_type_t type, pami_algorithm_t algorithm, uint64_t bytes,
             uint64_t turn);

void lab_meet(struct lab *lab);

/* Task 0's value on all tasks. */
uint64_t lab_tell(struct lab *lab, uint64_t value);

/* Runs the contests of a type and prints lines for results.h on task 0's standard output. The exit
 * status. */
int contest_main(const char *type, bool quick);

#endif
