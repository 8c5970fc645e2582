/*
 * A map from a 64-bit key to a pointer: open addressing with linear probing, a power of two slots,
 * at most three quarters full, and no gap left behind by what was removed. Single owner, no
 * locking; a zeroed structure is an empty map.
 *
 * Pointers are never NULL (NULL marks a free slot). Also what else scatters numbers.
 */
#ifndef LIBPAMI_UTIL_HASH_H
#define LIBPAMI_UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>

struct u64map_slot {
    void *value; /* NULL: free */
    uint64_t key;
};

struct u64map {
    struct u64map_slot *slots; /* NULL while empty */
    size_t mask;               /* slots - 1 */
    size_t count;
};

/* Fibonacci hashing: spreads runs and strides of keys over the 32 bits of the result. */
static inline uint32_t hash_of(uint64_t key)
{
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* The last steps of SplitMix64: each bit of `value` flips about half of the result's. */
static inline uint64_t hash_mix(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static inline void *u64map_get(const struct u64map *map, uint64_t key)
{
    size_t i;

    if (map->slots == NULL)
        return NULL;
    for (i = hash_of(key) & map->mask; map->slots[i].value != NULL; i = (i + 1) & map->mask)
        if (map->slots[i].key == key)
            return map->slots[i].value;
    return NULL;
}

/* Sets or replaces; 0, -EINVAL for a NULL value, or -ENOMEM with the map as it was. */
int u64map_put(struct u64map *map, uint64_t key, void *value);

/* What was there, or NULL. */
void *u64map_remove(struct u64map *map, uint64_t key);

/* Frees the memory and leaves an empty map. */
void u64map_finish(struct u64map *map);

/* What is at or after slot *cursor (start with 0), in no particular order; NULL at the end. The map
 * must not change meanwhile. */
static inline void *u64map_next(const struct u64map *map, size_t *cursor)
{
    while (map->slots != NULL && *cursor <= map->mask) {
        void *value = map->slots[(*cursor)++].value;

        if (value != NULL)
            return value;
    }
    return NULL;
}

#endif
