/*
 * Long copies from a member's own memory to its own memory, beside the messages of the run: in
 * pieces, one in each pass. Others may read and write meanwhile, and what else has come for the
 * context is not kept waiting by a copy of megabytes.
 *
 * So it is with phases that consist of one `before`, of an instance one at a time. Simulated tasks
 * copy at once, as their time does not know of copies.
 */
#ifndef LIBPAMI_COLL_ASIDE_H
#define LIBPAMI_COLL_ASIDE_H

#include <stdbool.h>

#include "coll/engine.h"

/* Of a phase that sends nothing. True: it consists of a copy, which is taken; when it is over the
 * phase counts as sent and the instance steps. False: the caller runs what there is. */
bool aside_takes(struct instance *instance, struct slot *slot);

/* The run is over: nothing is copied any more. */
void aside_drop(struct instance *instance);

#endif
