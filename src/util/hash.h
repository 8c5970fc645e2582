/*
 * Maps from a 32-bit or a 64-bit key to a pointer: open addressing with linear probing, a power of
 * two slots, at most three quarters full.  Single owner, no locking; a zeroed structure is an empty
 * map.
 *
 * Pointers are never NULL (NULL marks a free slot).  u32map has no delete of one key;
 * u32map_finish clears the map.
 */
#ifndef LIBPAMI_UTIL_HASH_H
#define LIBPAMI_UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>

struct u32map_slot {
    void *value; /* NULL: free */
    uint32_t key;
};

struct u32map {
    struct u32map_slot *slots; /* NULL while empty */
    size_t mask;               /* slots - 1 */
    size_t count;
};

/* Fibonacci hashing: spreads runs and strides of keys over the upper bits. */
static inline size_t u32map_hash(uint32_t key)
{
    return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

static inline void *u32map_get(const struct u32map *map, uint32_t key)
{
    size_t i;

    if (map->slots == NULL)
        return NULL;
    for (i = u32map_hash(key) & map->mask; map->slots[i].value != NULL; i = (i + 1) & map->mask)
        if (map->slots[i].key == key)
            return map->slots[i].value;
    return NULL;
}

/* Sets or replaces; 0, -EINVAL for a NULL value, or -ENOMEM with the map as it was. */
int u32map_put(struct u32map *map, uint32_t key, void *value);

/* Frees the memory and leaves an empty map. */
void u32map_finish(struct u32map *map);

/* The next pair at or after slot *cursor (start with 0), in no particular order; NULL at the end.
 * The map must not change meanwhile. */
static inline void *u32map_next(const struct u32map *map, size_t *cursor, uint32_t *key)
{
    while (map->slots != NULL && *cursor <= map->mask) {
        const struct u32map_slot *slot = &map->slots[(*cursor)++];

        if (slot->value != NULL) {
            *key = slot->key;
            return slot->value;
        }
    }
    return NULL;
}

/*
 * The same for 64-bit keys, with delete of one key: the gap is closed, nothing is left behind.
 */
struct u64map_slot {
    void *value; /* NULL: free */
    uint64_t key;
};

struct u64map {
    struct u64map_slot *slots; /* NULL while empty */
    size_t mask;
    size_t count;
};

static inline size_t u64map_hash(uint64_t key)
{
    return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

static inline void *u64map_get(const struct u64map *map, uint64_t key)
{
    size_t i;

    if (map->slots == NULL)
        return NULL;
    for (i = u64map_hash(key) & map->mask; map->slots[i].value != NULL; i = (i + 1) & map->mask)
        if (map->slots[i].key == key)
            return map->slots[i].value;
    return NULL;
}

/* Results as of u32map_put. */
int u64map_put(struct u64map *map, uint64_t key, void *value);

/* What was there, or NULL. */
void *u64map_remove(struct u64map *map, uint64_t key);
void u64map_finish(struct u64map *map);

/* As u32map_next. */
static inline void *u64map_next(const struct u64map *map, size_t *cursor, uint64_t *key)
{
    while (map->slots != NULL && *cursor <= map->mask) {
        const struct u64map_slot *slot = &map->slots[(*cursor)++];

        if (slot->value != NULL) {
            *key = slot->key;
            return slot->value;
        }
    }
    return NULL;
}

#endif
