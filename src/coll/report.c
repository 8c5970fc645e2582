/*
 * What the library says about its collectives: which algorithms ran, and what there is to choose.
 */
#include "coll/report.h"

#include <stdio.h>

#include "coll/aggregate/aggregate.h"
#include "coll/coll.h"
#include "coll/collective.h"

void report_ran(const struct context *context,
                void (*print)(void *cookie, const char *text, uint64_t count), void *cookie)
{
    const struct coll *coll = context->coll;
    const struct aggregate_counts *aggregated;
    char text[96];

    if (coll == NULL || coll->rows == NULL)
        return;
    for (size_t i = 0; i < algorithm_count && i < COLL_ROWS_MAX; i++) {
        if (coll->rows->ran[i] == 0)
            continue;
        snprintf(text, sizeof(text), "collectives: %s %s", collective_name(algorithm_table[i].type),
                 algorithm_table[i].name);
        print(cookie, text, coll->rows->ran[i]);
    }
    aggregated = aggregate_count(coll->aggregate);
    if (aggregated->granted != 0)
        print(cookie, "collectives: aggregation groups", aggregated->granted);
    if (aggregated->refused != 0)
        print(cookie, "collectives: aggregation groups refused", aggregated->refused);
    if (aggregated->combined != 0)
        print(cookie, "collectives: operations of aggregation nodes", aggregated->combined);
    if (coll->flights.arrived_early != 0)
        print(cookie, "collectives: messages that came early", coll->flights.arrived_early);
    if (coll->flights.stale != 0)
        print(cookie, "collectives: messages dropped, too late", coll->flights.stale);
}

void report_needs(unsigned needs, char *text, size_t size)
{
    static const struct {
        unsigned bit;
        const char *text;
    } words[] = {
        {NEEDS_COMMUTATIVE, "a commutative operator"},
        {NEEDS_POWER_OF_TWO, "a power of two of members"},
        {NEEDS_EVEN, "an even number of members"},
        {NEEDS_ONE_NODE, "members on one node"},
        {NEEDS_LEVELS, "several nodes, one with several members"},
        {NEEDS_CONSECUTIVE, "consecutive ranks on each node"},
        {NEEDS_PREDEFINED, "a predefined operator"},
    };
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && used < size; i++)
        if (needs & words[i].bit)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used == 0 ? "needs " : ", ",
                                     words[i].text);
}
