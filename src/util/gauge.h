/*
 * Gauge: is an ordinary copy between processors dear here, so that another way pays?
 *
 * What a copy costs depends on where the processors are that share its lines, by a factor of five
 * and more, and on a virtual machine that changes while programs run. So it is measured on the
 * copies themselves: as long as they are cheap on some of them, and once they are dear on one in
 * GAUGE_AGAIN that is made the ordinary way only to see whether it still is. One owner, no locks.
 */
#ifndef LIBPAMI_UTIL_GAUGE_H
#define LIBPAMI_UTIL_GAUGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/clock.h"

/* While dear, one copy in so many is made the ordinary way; while cheap, one in so many is
 * measured. */
#define GAUGE_AGAIN 64u
#define GAUGE_MEASURED 8u

struct gauge {
    uint32_t limit; /* ticks per KiB above which a copy is dear */
    uint32_t cost;  /* a mean, ticks per KiB */
    uint32_t turn;
    bool dear;
};

static inline void gauge_init(struct gauge *gauge, unsigned nanoseconds_per_kib)
{
    *gauge = (struct gauge){
        .limit = (uint32_t)(nanoseconds_per_kib * clock_ticks_per_us() / 1000),
    };
}

/* Before a copy: true when the other way pays. */
static inline bool gauge_pays(struct gauge *gauge)
{
    return ++gauge->turn % GAUGE_AGAIN != 0 && gauge->dear;
}

/* After gauge_pays has said no: true when this copy should be measured. */
static inline bool gauge_measures(const struct gauge *gauge)
{
    return gauge->dear || gauge->turn % GAUGE_MEASURED == 0;
}

/* A copy has taken so long. Much can make a copy slow, a new page or another program, but nothing
 * makes it fast: a faster one counts for more. Cheap again is well below the limit, so that nothing
 * flaps. */
static inline void gauge_note(struct gauge *gauge, uint64_t ticks, size_t bytes)
{
    uint64_t cost = (ticks << 10) / (bytes | 1);
    uint64_t most = 4 * (uint64_t)gauge->limit;

    cost = cost < most ? cost : most;
    gauge->cost = (uint32_t)(cost < gauge->cost ? (gauge->cost + 3 * cost) / 4
                                                : (7 * gauge->cost + cost) / 8);
    gauge->dear = gauge->cost > (gauge->dear ? gauge->limit - gauge->limit / 4 : gauge->limit);
}

#endif
