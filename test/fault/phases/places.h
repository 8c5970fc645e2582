/*
 * What a task stores to, by name; and the little that a test must look up inside the library.
 */
#ifndef LIBPAMI_FAULT_PLACES_H
#define LIBPAMI_FAULT_PLACES_H

#include <pami.h>
#include <stddef.h>
#include <sys/types.h>

#include "fault/phases/stores.h"

void places_init(pami_context_t context);
struct store_place places_of(const void *address);

/* Arenas that this task leads are not crowded, whatever the machine. */
void places_calm(void);

/* The process of a task of this host. */
pid_t places_process(size_t task);

/* Arenas whose geometry has gone, and that are still there. */
size_t places_arenas(void);

#endif
