/*
 * Growth and insertion of the map in hash.h.
 */
#include "util/hash.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_SLOTS 16

static void insert(struct u32map *map, uint32_t key, void *value)
{
    size_t i = u32map_hash(key) & map->mask;

    while (map->slots[i].value != NULL && map->slots[i].key != key)
        i = (i + 1) & map->mask;
    if (map->slots[i].value == NULL)
        map->count++;
    map->slots[i].key = key;
    map->slots[i].value = value;
}

static int grow(struct u32map *map)
{
    size_t slots = map->slots == NULL ? FIRST_SLOTS : (map->mask + 1) * 2;
    struct u32map larger = {.mask = slots - 1};
    size_t cursor = 0;
    uint32_t key;
    void *value;

    larger.slots = calloc(slots, sizeof *larger.slots);
    if (larger.slots == NULL)
        return -ENOMEM;
    while ((value = u32map_next(map, &cursor, &key)) != NULL)
        insert(&larger, key, value);
    free(map->slots);
    *map = larger;
    return 0;
}

int u32map_put(struct u32map *map, uint32_t key, void *value)
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

void u32map_finish(struct u32map *map)
{
    free(map->slots);
    *map = (struct u32map){0};
}
