/*
 * Where the blocks of all members lie while they travel by domains: one behind the other, domain
 * after domain, in the user's buffer where it has that order, else in memory of ours.
 */
#include "coll/hierarchy.h"

static uint64_t bytes_of(const struct store *store, uint32_t rank)
{
    return store->sizes != NULL ? store->sizes[rank] : store->equal;
}

/* From this domain on, `at` bytes into the store; where the next one begins. */
static uint64_t place_domain(struct store *store, uint32_t domain, uint64_t at)
{
    const struct levels *levels = store->levels;

    store->starts[domain] = at;
    if (store->sizes == NULL)
        return at + levels_count(levels, domain) * store->equal;
    for (uint32_t i = 0, count = levels_count(levels, domain); i < count; i++)
        at += store->sizes[levels_rank(levels, domain, i)];
    return at;
}

/* Do blocks with displacements follow one another in the order of ranks? */
static bool is_dense(const struct area_map *map, const uint64_t *sizes, uint32_t count)
{
    uint64_t data = map->type != NULL ? type_data_size(map->type) : map->extent;

    for (uint32_t i = 1; i < count; i++) {
        struct message_place before = area_place(map, i - 1, 0), place = area_place(map, i, 0);

        if ((char *)place.address - (char *)before.address !=
            (ptrdiff_t)(sizes[i - 1] / data * map->extent))
            return false;
    }
    return true;
}

static bool may_use(const struct store *store, const struct area_map *user, uint32_t size)
{
    if (user == NULL || !store->levels->ordered)
        return false;
    return user->blocks == BLOCKS_EQUAL ||
           (user->blocks >= BLOCKS_LISTED && is_dense(user, store->sizes, size));
}

struct store *hierarchy_store(struct build *build, const struct area_map *user, uint64_t equal,
                              const uint64_t *sizes, uint32_t first)
{
    const struct levels *levels = build->levels;
    struct store *store = hierarchy_memory(build, sizeof(*store));
    uint64_t *starts = hierarchy_numbers(build, levels->domains + 1);
    uint64_t at = 0;

    if (store == NULL || starts == NULL)
        return NULL;
    *store = (struct store){.levels = levels, .equal = equal, .sizes = sizes, .starts = starts};
    if (first != FIRST_NONE)
        at = place_domain(store, first, at);
    for (uint32_t i = 0; i < levels->domains; i++)
        if (i != first)
            at = place_domain(store, i, at);
    store->bytes = starts[levels->domains] = at;
    if (user != NULL)
        store->user = *user;
    if (first == FIRST_NONE && may_use(store, user, build->group->size)) {
        store->map = *user;
        store->map.base = area_place(user, 0, 0).address;
        return store;
    }
    store->own = true;
    store->map = hierarchy_plain(hierarchy_memory(build, at));
    return build->error == 0 ? store : NULL;
}

struct area_map store_all(const struct store *store)
{
    struct area_map map = store->map;

    map.blocks = BLOCKS_ONE;
    return map;
}

struct area_map store_domains(const struct store *store)
{
    return hierarchy_packed(&store->map, store->starts);
}

struct area_map store_domain(const struct store *store, uint32_t domain)
{
    struct area_map map = store->map;

    if (store->own)
        return hierarchy_equal(map.base + store->starts[domain], store->equal);
    map.base = area_place(&map, levels_rank(store->levels, domain, 0), 0).address;
    return map;
}

/* Every block between its place in the user's buffer and the one in the store. */
static void copy_blocks(const struct store *store, bool pack)
{
    const struct levels *levels = store->levels;

    for (uint32_t domain = 0; domain < levels->domains; domain++) {
        struct message_place inside = {.address = store->map.base + store->starts[domain]};

        for (uint32_t i = 0, count = levels_count(levels, domain); i < count; i++) {
            uint32_t rank = levels_rank(levels, domain, i);
            uint64_t bytes = bytes_of(store, rank);
            struct message_place outside = area_place(&store->user, rank, 0);

            place_copy(pack ? &inside : &outside, pack ? &outside : &inside, bytes);
            inside.address = (char *)inside.address + bytes;
        }
    }
}

static void pack(void *cookie)
{
    copy_blocks(cookie, true);
}

void store_pack(struct build *build, struct store *store)
{
    if (store->own)
        hierarchy_act(build, pack, store);
}

static void unpack(void *cookie)
{
    copy_blocks(cookie, false);
}

void store_unpack(struct build *build, struct store *store)
{
    if (store->own)
        hierarchy_act(build, unpack, store);
}

struct copy {
    struct area_map from, to;
    uint64_t bytes;
};

static void run_copy(void *cookie)
{
    const struct copy *copy = cookie;
    const struct message_place source = area_place(&copy->from, 0, 0);
    const struct message_place target = area_place(&copy->to, 0, 0);

    place_copy(&target, &source, copy->bytes);
}

void hierarchy_copy(struct build *build, const struct area_map *from, const struct area_map *to,
                    uint64_t bytes)
{
    struct copy *copy = hierarchy_memory(build, sizeof(*copy));

    if (copy == NULL)
        return;
    *copy = (struct copy){*from, *to, bytes};
    hierarchy_act(build, run_copy, copy);
}
