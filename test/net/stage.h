/*
 * A number that the tasks of a job share without the library: how far they are.
 */
#ifndef LIBPAMI_NET_STAGE_H
#define LIBPAMI_NET_STAGE_H

#include "net/share.h"

#include <stdatomic.h>

static atomic_uint *stage; /* begins with the number of tasks, when all have come */

/* Without advancing. */
static inline void stage_wait(unsigned what)
{
    double until = test_now() + test_limit();

    while (atomic_load(stage) < what) {
        if (test_now() > until)
            FAIL("stage %u is not reached", what);
        test_sleep(1e-3);
    }
}

static inline void stage_set(unsigned what)
{
    atomic_store(stage, what);
}

static inline void stage_open(size_t tasks)
{
    stage = share_open("stage", sizeof *stage);
    atomic_fetch_add(stage, 1);
    stage_wait((unsigned)tasks);
    share_forget("stage");
}

#endif
