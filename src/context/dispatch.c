/*
 * Pages of the dispatch table. See dispatch.h.
 */
#include "context/dispatch.h"

#include <stdlib.h>

struct dispatch *dispatch_row(struct dispatch_table *table, size_t id)
{
    struct dispatch **page = &table->pages[id / DISPATCH_PAGE];

    if (*page == NULL)
        *page = calloc(DISPATCH_PAGE, sizeof(**page));
    return *page != NULL ? &(*page)[id % DISPATCH_PAGE] : NULL;
}

void dispatch_table_finish(struct dispatch_table *table)
{
    for (size_t i = 0; i < sizeof(table->pages) / sizeof(table->pages[0]); i++) {
        free(table->pages[i]);
        table->pages[i] = NULL;
    }
}
