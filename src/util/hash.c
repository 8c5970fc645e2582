/*
 * Growth, insertion and removal of the map in hash.h.
 */
#include "util/hash.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_SLOTS 16

static void insert(struct u64map *map, uint64_t key, void *value)
{
    size_t i = hash_of(key) & map->mask;

    while (map->slots[i].value != NULL && map->slots[i].key != key)
        i = (i + 1) & map->mask;
    if (map->slots[i].value == NULL)
        map->count++;
    map->slots[i] = (struct u64map_slot){.value = value, .key = key};
}

static int grow(struct u64map *map)
{
    size_t slots = map->slots == NULL ? FIRST_SLOTS : (map->mask + 1) * 2;
    struct u64map larger = {.mask = slots - 1};

    larger.slots = calloc(slots, sizeof(*larger.slots));
    if (larger.slots == NULL)
        return -ENOMEM;
    for (size_t i = 0; map->slots != NULL && i <= map->mask; i++)
        if (map->slots[i].value != NULL)
            insert(&larger, map->slots[i].key, map->slots[i].value);
    free(map->slots);
    *map = larger;
    return 0;
}

int u64map_put(struct u64map *map, uint64_t key, void *value)
{
    if (value == NULL)
        return -EINVAL;
    if (map->slots == NULL || (map->count + 1) * 4 > (map->mask + 1) * 3) {
        int error = grow(map);

        if (error != 0)
            return error;
    }
    insert(map, key, value);
    return 0;
}

/* Later slots of the run move up, as long as that brings them closer to their home. */
static void close_gap(struct u64map *map, size_t gap)
{
    for (size_t at = (gap + 1) & map->mask; map->slots[at].value != NULL;
         at = (at + 1) & map->mask) {
        size_t home = hash_of(map->slots[at].key) & map->mask;

        if (((at - home) & map->mask) < ((at - gap) & map->mask))
            continue;
        map->slots[gap] = map->slots[at];
        gap = at;
    }
    map->slots[gap].value = NULL;
}

void *u64map_remove(struct u64map *map, uint64_t key)
{
    size_t i;

    if (map->slots == NULL)
        return NULL;
    for (i = hash_of(key) & map->mask; map->slots[i].value != NULL; i = (i + 1) & map->mask) {
        void *value = map->slots[i].value;

        if (map->slots[i].key != key)
            continue;
        close_gap(map, i);
        map->count--;
        return value;
    }
    return NULL;
}

void u64map_finish(struct u64map *map)
{
    free(map->slots);
    *map = (struct u64map){0};
}
