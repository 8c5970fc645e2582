/*
 * What other files of this floor and above need of the progress loop.
 */
#ifndef LIBPAMI_CONTEXT_ADVANCE_H
#define LIBPAMI_CONTEXT_ADVANCE_H

#include "context/context.h"

/* Slow house-keeping: let the devices look for peers that have gone. */
void context_tend(struct context *context);

#endif
