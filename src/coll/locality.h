/*
 * Where tasks are: nodes as the launcher says, and inside a node packages, NUMA nodes, caches and
 * cores as hwloc says, or any of these as the option PAMI_COLL_LEVELS makes them up.
 *
 * The option lists levels from the outermost on: "node", which is always there, "package", "numa",
 * "cache" (of the last level), "core". "NAME:COUNT" is made up: so many in each of the level
 * before, and tasks fill the innermost ones in turn; inside made-up nodes all levels are. Equal on
 * all tasks.
 *
 * What the option says is about who talks to whom. Who shares memory is the launcher's matter.
 */
#ifndef LIBPAMI_COLL_LOCALITY_H
#define LIBPAMI_COLL_LOCALITY_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/division.h"
#include "context/context.h"

enum level {
    LEVEL_NODE,
    LEVEL_PACKAGE,
    LEVEL_NUMA,
    LEVEL_CACHE,
    LEVEL_CORE,
    LEVELS
};

/* What hwloc says about the tasks of this node; locality_machine.c. */
struct machine_places;

/* The option as read, and what it refers to. */
struct locality {
    struct bootstrap *bootstrap;
    const struct machine_places *machine; /* NULL: not asked for, or not known */
    bool wanted[LEVELS];
    uint32_t count[LEVELS]; /* made up; 0: not */
    uint32_t inner[LEVELS]; /* the product of the counts of the levels inside */
    uint32_t leaves;        /* the product of all */
};

/* -EINVAL: the option makes no sense, and counts as "node". */
int locality_read(struct locality *locality, const struct client_core *core);

/* A number for the domain that a task is in, equal for those in the same. Meaningful for levels
 * inside a node for the tasks of one node. */
uint32_t locality_domain(const struct locality *locality, unsigned level, uint32_t task);

/* Divides members by a level, where that is arithmetic (division.h). */
bool locality_divide(const struct locality *locality, unsigned level,
                     const struct topology *topology, struct division *division);

/* Of a core, made when it is first asked for and freed with the core's geometries. NULL: unknown.
 * Any thread. */
const struct machine_places *machine_places(const struct client_core *core);
uint32_t machine_domain(const struct machine_places *places, unsigned level, uint32_t task);

#endif
