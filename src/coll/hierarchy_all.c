/*
 * Allgather and alltoall by domains: to the leader, among leaders, from the leader. What leaders
 * have is kept in the order of domains, in which the blocks for one of them are one message.
 */
#include <string.h>

#include "coll/hierarchy.h"

/* ---- allgather ---- */

/* The own domain's blocks of equal bytes to its leader's store. */
static void gather_in(struct build *build, const struct collective *from, const struct store *store)
{
    struct group *local = build->levels->local;
    struct area_map blocks = store_domain(store, build->levels->own);
    struct collective part = hierarchy_like(from, PAMI_XFER_GATHER, 0);

    part.receives = local->rank == 0;
    part.in_place = part.receives && from->in_place && !store->own;
    if (part.receives)
        hierarchy_replace(&part.recv, &blocks);
    hierarchy_add(build, local, &part);
}

/* The same where they differ: to all members' stores, as all know how long the blocks are. */
static void gather_in_vector(struct build *build, const struct collective *from,
                             const struct store *store)
{
    const struct levels *levels = build->levels;
    uint64_t *sizes = hierarchy_numbers(build, build_locals(build));
    uint64_t *starts = hierarchy_numbers(build, build_locals(build));
    struct collective part = hierarchy_like(from, PAMI_XFER_ALLGATHERV, 0);
    uint64_t at = store->starts[levels->own];
    struct area_map blocks = hierarchy_packed(&store->map, starts);

    for (uint32_t i = 0; starts != NULL && i < build_locals(build); i++) {
        starts[i] = at;
        sizes[i] = store->sizes[levels_rank(levels, levels->own, i)];
        at += sizes[i];
    }
    part.own_bytes = from->own_bytes;
    part.recv_bytes = sizes;
    part.in_place = from->in_place && !store->own;
    hierarchy_replace(&part.recv, &blocks);
    hierarchy_add(build, levels->local, &part);
}

/* The only member of its domain: its block to the store. */
static void gather_alone(struct build *build, const struct collective *from,
                         const struct store *store)
{
    struct area_map own = store_domains(store);

    own.starts = &store->starts[build->levels->own];
    if (!from->in_place || store->own)
        hierarchy_copy(build, &from->send, &own,
                       store->sizes != NULL ? from->own_bytes : from->bytes);
}

static void gather_among(struct build *build, const struct collective *from,
                         const struct store *store)
{
    const struct levels *levels = build->levels;
    struct collective part = hierarchy_like(from, PAMI_XFER_ALLGATHERV, 0);
    uint64_t *sizes = hierarchy_numbers(build, levels->domains);
    struct area_map blocks = store_domains(store), own = blocks;

    for (uint32_t i = 0; sizes != NULL && i < levels->domains; i++)
        sizes[i] = store->starts[i + 1] - store->starts[i];
    own.starts = &store->starts[levels->own];
    part.bytes = 0;
    part.own_bytes = sizes != NULL ? sizes[levels->own] : 0;
    part.recv_bytes = sizes;
    part.in_place = true;
    hierarchy_replace(&part.recv, &blocks);
    hierarchy_replace(&part.send, &own);
    hierarchy_add(build, levels->leaders[0], &part);
}

void hierarchy_allgather(struct build *build, const struct collective *from)
{
    const struct levels *levels = build->levels;
    struct store *store =
        hierarchy_store(build, &from->recv, from->bytes, from->recv_bytes, FIRST_NONE);
    struct collective part;
    struct area_map all;

    if (store == NULL)
        return;
    if (build_is_alone(build))
        gather_alone(build, from, store);
    else if (store->sizes != NULL)
        gather_in_vector(build, from, store);
    else
        gather_in(build, from, store);
    if (levels->leaders[0] != NULL)
        gather_among(build, from, store);
    if (!build_is_alone(build)) {
        part = hierarchy_like(from, PAMI_XFER_BROADCAST, 0);
        all = store_all(store);
        part.bytes = store->bytes;
        part.in_place = true;
        hierarchy_replace(&part.recv, &all);
        hierarchy_replace(&part.send, &all);
        hierarchy_add(build, levels->local, &part);
    }
    store_unpack(build, store);
}

/* ---- alltoall ---- */

/*
 * Two buffers of the leader, each for all blocks of its domain's members:
 *   members   one member after the other, each with a block for every rank (or from every rank)
 *   domains   one domain after the other, in it one sender after the other
 */
struct exchange {
    const struct levels *levels;
    char *members, *domains, *arrived;
    uint64_t block;
    uint32_t size;
};

static char *member_block(const struct exchange *x, uint32_t member, uint32_t rank)
{
    return x->members + (member * (uint64_t)x->size + rank) * x->block;
}

/* From what the members have sent to what the other leaders get. */
static void sort_out(void *cookie)
{
    const struct exchange *x = cookie;
    const struct levels *levels = x->levels;
    uint32_t locals = levels_count(levels, levels->own);
    char *to = x->domains;

    for (uint32_t domain = 0; domain < levels->domains; domain++)
        for (uint32_t member = 0; member < locals; member++)
            for (uint32_t i = 0, count = levels_count(levels, domain); i < count; i++) {
                memcpy(to, member_block(x, member, levels_rank(levels, domain, i)), x->block);
                to += x->block;
            }
}

/* From what the other leaders have sent to what the members get. */
static void sort_in(void *cookie)
{
    const struct exchange *x = cookie;
    const struct levels *levels = x->levels;
    uint32_t locals = levels_count(levels, levels->own);
    const char *from = x->arrived;

    for (uint32_t domain = 0; domain < levels->domains; domain++)
        for (uint32_t i = 0, count = levels_count(levels, domain); i < count; i++) {
            uint32_t rank = levels_rank(levels, domain, i);

            for (uint32_t member = 0; member < locals; member++, from += x->block)
                memcpy(member_block(x, member, rank), from, x->block);
        }
}

static struct exchange *make_exchange(struct build *build, uint64_t block)
{
    struct exchange *x = hierarchy_memory(build, sizeof(*x));
    uint64_t bytes = (uint64_t)build_locals(build) * build->group->size * block;

    if (x == NULL)
        return NULL;
    *x = (struct exchange){.levels = build->levels, .block = block, .size = build->group->size};
    x->members = hierarchy_memory(build, bytes);
    x->domains = hierarchy_memory(build, bytes);
    x->arrived = hierarchy_memory(build, bytes);
    return build->error == 0 ? x : NULL;
}

static void add_local(struct build *build, const struct collective *from, pami_xfer_type_t type,
                      const struct exchange *x)
{
    struct group *local = build->levels->local;
    struct collective part = hierarchy_like(from, type, 0);
    struct area_map send = hierarchy_as_one(&from->send), recv = hierarchy_as_one(&from->recv),
                    blocks;

    part.bytes = build->group->size * from->bytes;
    part.in_place = false;
    part.receives = type == PAMI_XFER_SCATTER || x != NULL;
    if (x != NULL) {
        blocks = hierarchy_equal(x->members, part.bytes);
        *(type == PAMI_XFER_SCATTER ? &send : &recv) = blocks;
    }
    hierarchy_replace(&part.send, &send);
    hierarchy_replace(&part.recv, &recv);
    hierarchy_add(build, local, &part);
}

static void exchange_among(struct build *build, const struct collective *from,
                           const struct exchange *x)
{
    const struct levels *levels = build->levels;
    struct collective part = hierarchy_like(from, PAMI_XFER_ALLTOALLV, 0);
    uint64_t *sizes = hierarchy_numbers(build, levels->domains);
    uint64_t *starts = hierarchy_numbers(build, levels->domains);
    struct area_map send = hierarchy_plain(x->domains), recv = hierarchy_plain(x->arrived);
    uint64_t unit = build_locals(build) * from->bytes;

    for (uint32_t i = 0; starts != NULL && i < levels->domains; i++) {
        starts[i] = levels_start(levels, i) * unit;
        sizes[i] = levels_count(levels, i) * unit;
    }
    send = hierarchy_packed(&send, starts);
    recv = hierarchy_packed(&recv, starts);
    part.bytes = 0;
    part.own_bytes = sizes != NULL ? sizes[levels->own] : 0;
    part.send_bytes = part.recv_bytes = sizes;
    part.in_place = false;
    hierarchy_replace(&part.send, &send);
    hierarchy_replace(&part.recv, &recv);
    hierarchy_add(build, levels->leaders[0], &part);
}

/* The only member of its domain sends its blocks, and takes those for it, itself. */
struct own_blocks {
    struct exchange *x;
    struct area_map send, recv;
};

static void put_own(void *cookie)
{
    const struct own_blocks *own = cookie;
    const struct message_place source = area_place(&own->send, 0, 0);
    const struct message_place target = {.address = own->x->members};

    place_copy(&target, &source, own->x->size * own->x->block);
    sort_out(own->x);
}

static void take_own(void *cookie)
{
    const struct own_blocks *own = cookie;
    const struct message_place source = {.address = own->x->members};
    const struct message_place target = area_place(&own->recv, 0, 0);

    sort_in(own->x);
    place_copy(&target, &source, own->x->size * own->x->block);
}

static void alltoall_alone(struct build *build, const struct collective *from, struct exchange *x)
{
    struct own_blocks *own = hierarchy_memory(build, sizeof(*own));

    if (own == NULL)
        return;
    *own = (struct own_blocks){x, hierarchy_as_one(&from->send), hierarchy_as_one(&from->recv)};
    hierarchy_act(build, put_own, own);
    exchange_among(build, from, x);
    hierarchy_act(build, take_own, own);
}

void hierarchy_alltoall(struct build *build, const struct collective *from)
{
    struct exchange *x = NULL;

    if (build->levels->leaders[0] != NULL) {
        x = make_exchange(build, from->bytes);
        if (x == NULL)
            return;
        if (build_is_alone(build)) {
            alltoall_alone(build, from, x);
            return;
        }
    }
    add_local(build, from, PAMI_XFER_GATHER, x);
    if (x != NULL) {
        hierarchy_act(build, sort_out, x);
        exchange_among(build, from, x);
        hierarchy_act(build, sort_in, x);
    }
    add_local(build, from, PAMI_XFER_SCATTER, x);
}
