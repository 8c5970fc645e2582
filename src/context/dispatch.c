/*
 * Pages of the dispatch table. See dispatch.h.
 */
#include "context/dispatch.h"

#include <stdlib.h>

struct dispatch *dispatch_row(struct dispatch_table *table, size_t id)
{
    _Atomic(struct dispatch *) *at = &table->pages[id / DISPATCH_PAGE];
    struct dispatch *page = atomic_load_explicit(at, memory_order_relaxed);

    if (page == NULL) {
        page = calloc(DISPATCH_PAGE, sizeof(*page));
        atomic_store_explicit(at, page, memory_order_release); /* D1 */
    }
    return page != NULL ? &page[id % DISPATCH_PAGE] : NULL;
}

void dispatch_table_finish(struct dispatch_table *table)
{
    for (size_t i = 0; i < sizeof(table->pages) / sizeof(table->pages[0]); i++) {
        free(atomic_load_explicit(&table->pages[i], memory_order_relaxed));
        atomic_store_explicit(&table->pages[i], NULL, memory_order_relaxed);
    }
}
