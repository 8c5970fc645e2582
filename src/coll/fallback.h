/*
 * Falling back: a run for which a group has not what its row needs goes over messages, on all
 * members alike, by a machine of its own under the number that the run has.
 */
#ifndef LIBPAMI_COLL_FALLBACK_H
#define LIBPAMI_COLL_FALLBACK_H

#include "coll/machine.h"

struct area_map;

struct fallback {
    struct machine *machine; /* NULL: not fallen back, or over */
    void (*done)(struct fallback *fallback, pami_result_t result);
};

/*
 * Takes the next number of `run`, and what is in *collective, which is left empty. `kept`: where
 * its contribution has been copied to, or NULL. `done` is called once, maybe before it returns.
 */
void fallback_start(struct fallback *fallback, struct machine *run, struct collective *collective,
                    const struct area_map *kept);

/* As of machines; of what has not fallen back: nothing. */
void fallback_give_up(struct fallback *fallback, pami_result_t result);
void fallback_release(struct fallback *fallback);

/* Whose machine this is; NULL: not one that stands in for another. */
const struct fallback *fallback_of(const struct machine *machine);

#endif
