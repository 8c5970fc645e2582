/*
 * Collecting the layouts of a nest; see census.h.
 *
 * The walk goes down level by level: when all layouts of one height are known, those they refer to
 * are added, all of which are lower, and repetitions are dropped before the next level is looked
 * at.
 */
#include "type/census.h"

#include <errno.h>
#include <stdlib.h>

/* By height, then by address. */
static int rising(const void *a, const void *b)
{
    const struct layout *first = *(const struct layout *const *)a;
    const struct layout *second = *(const struct layout *const *)b;

    if (first->height != second->height)
        return first->height < second->height ? -1 : 1;
    if (first != second)
        return (uintptr_t)first < (uintptr_t)second ? -1 : 1;
    return 0;
}

static int falling(const void *a, const void *b)
{
    return rising(b, a);
}

static int add(struct census *census, const struct layout *layout)
{
    if (census->count == census->capacity) {
        size_t capacity = 2 * census->capacity + 8;
        const struct layout **grown = realloc(census->layouts, capacity * sizeof grown[0]);

        if (grown == NULL)
            return -ENOMEM;
        census->layouts = grown;
        census->capacity = capacity;
    }
    census->layouts[census->count++] = layout;
    return 0;
}

static int add_nested(struct census *census, const struct layout *layout)
{
    const struct layout *latest = NULL;

    for (size_t i = 0; i < layout->run_count; i++) {
        const struct layout *nested = layout->runs[i].nested;

        if (nested == NULL || nested == latest)
            continue;
        if (add(census, nested) != 0)
            return -ENOMEM;
        latest = nested;
    }
    return 0;
}

/* Put the layouts from `from` on into falling order, each once. */
static void order(struct census *census, size_t from)
{
    size_t kept = from;

    qsort(census->layouts + from, census->count - from, sizeof census->layouts[0], falling);
    for (size_t i = from; i < census->count; i++)
        if (i == from || census->layouts[i] != census->layouts[kept - 1])
            census->layouts[kept++] = census->layouts[i];
    census->count = kept;
}

int census_take(struct census *census, const struct layout *top)
{
    size_t level = 0; /* where the layouts of the current height begin */
    int error;

    *census = (struct census){.layouts = NULL};
    error = add(census, top);
    while (error == 0 && level < census->count) {
        unsigned height = census->layouts[level]->height;

        while (error == 0 && level < census->count && census->layouts[level]->height == height)
            error = add_nested(census, census->layouts[level++]);
        order(census, level);
    }
    if (error != 0)
        census_finish(census);
    else
        qsort(census->layouts, census->count, sizeof census->layouts[0], rising);
    return error;
}

void census_finish(struct census *census)
{
    free(census->layouts);
    census->layouts = NULL;
}

size_t census_position(const struct census *census, const struct layout *layout)
{
    const struct layout **found =
        bsearch(&layout, census->layouts, census->count, sizeof layout, rising);

    return (size_t)(found - census->layouts);
}
