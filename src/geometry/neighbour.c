/*
 * Sorted ranges of numbers seen, above the number up to which all were.
 */
#include "geometry/neighbour.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct range {
    uint64_t first, last;
};

struct neighbour {
    uint64_t sent;
    uint64_t seen; /* all numbers up to this one */
    struct range *ranges;
    size_t count, room;
};

static struct neighbour *find(struct u64map *map, uint32_t task)
{
    struct neighbour *neighbour = u64map_get(map, task);

    if (neighbour != NULL)
        return neighbour;
    neighbour = calloc(1, sizeof(*neighbour));
    if (neighbour != NULL && u64map_put(map, task, neighbour) != 0) {
        free(neighbour);
        neighbour = NULL;
    }
    return neighbour;
}

uint64_t neighbour_next(struct u64map *map, uint32_t task)
{
    struct neighbour *neighbour = find(map, task);

    return neighbour != NULL ? ++neighbour->sent : 0;
}

/* For one more. */
static bool make_room(struct neighbour *neighbour)
{
    size_t room = neighbour->room == 0 ? 4 : 2 * neighbour->room;
    struct range *ranges;

    if (neighbour->count < neighbour->room)
        return true;
    ranges = realloc(neighbour->ranges, room * sizeof(*ranges));
    if (ranges == NULL)
        return false;
    neighbour->ranges = ranges;
    neighbour->room = room;
    return true;
}

static void insert(struct neighbour *neighbour, size_t at, uint64_t number)
{
    memmove(&neighbour->ranges[at + 1], &neighbour->ranges[at],
            (neighbour->count - at) * sizeof(neighbour->ranges[0]));
    neighbour->ranges[at] = (struct range){number, number};
    neighbour->count++;
}

static void take_out(struct neighbour *neighbour, size_t at)
{
    neighbour->count--;
    memmove(&neighbour->ranges[at], &neighbour->ranges[at + 1],
            (neighbour->count - at) * sizeof(neighbour->ranges[0]));
}

/* The first range that ends at the number or above. */
static size_t range_of(const struct neighbour *neighbour, uint64_t number)
{
    size_t at = 0;

    while (at < neighbour->count && neighbour->ranges[at].last < number)
        at++;
    return at;
}

int neighbour_is_new(struct u64map *map, uint32_t task, uint64_t number)
{
    struct neighbour *neighbour = find(map, task);
    size_t at;

    if (neighbour == NULL)
        return -ENOMEM;
    if (number <= neighbour->seen)
        return 0;
    at = range_of(neighbour, number);
    if (at < neighbour->count && neighbour->ranges[at].first <= number)
        return 0;
    return make_room(neighbour) ? 1 : -ENOMEM;
}

void neighbour_seen(struct u64map *map, uint32_t task, uint64_t number)
{
    struct neighbour *neighbour = u64map_get(map, task);
    size_t at = range_of(neighbour, number);

    insert(neighbour, at, number);
    if (at + 1 < neighbour->count && neighbour->ranges[at + 1].first == number + 1) {
        neighbour->ranges[at].last = neighbour->ranges[at + 1].last;
        take_out(neighbour, at + 1);
    }
    if (at > 0 && neighbour->ranges[at - 1].last + 1 == number) {
        neighbour->ranges[at - 1].last = neighbour->ranges[at].last;
        take_out(neighbour, at);
    }
    if (neighbour->ranges[0].first == neighbour->seen + 1) {
        neighbour->seen = neighbour->ranges[0].last;
        take_out(neighbour, 0);
    }
}

void neighbours_free(struct u64map *map)
{
    size_t cursor = 0;
    struct neighbour *neighbour;

    while ((neighbour = u64map_next(map, &cursor)) != NULL) {
        free(neighbour->ranges);
        free(neighbour);
    }
    u64map_finish(map);
}
