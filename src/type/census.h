/*
 * All distinct layouts of a nest, inner ones first. Layouts may be shared by many runs, so a plain
 * walk could take exponential time; a census visits each layout once.
 */
#ifndef LIBPAMI_TYPE_CENSUS_H
#define LIBPAMI_TYPE_CENSUS_H

#include "type/layout.h"

struct census {
    const struct layout **layouts; /* a nested layout comes before those that use it */
    size_t count;
    size_t capacity;
};

/* Take the census of `top`, which comes last. 0 or -ENOMEM, with nothing to finish. */
int census_take(struct census *census, const struct layout *top);

void census_finish(struct census *census);

/* Index of a layout that is in the census. */
size_t census_position(const struct census *census, const struct layout *layout);

#endif
