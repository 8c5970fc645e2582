/*
 * Collectives by domains without leaders, for short messages: in each domain all get what it has,
 * and who is the first to know that, which is who came last, sends it to all members of the other
 * domains. Nobody waits for a leader's turn, nor for a second round through the domain, so where
 * tasks outnumber processors each member needs one turn, and there are as many messages as members
 * for each domain but their own. Reductions are in hierarchy_voices_reduce.c; here are
 *
 *   barrier          nothing is sent
 *   allgather        the domain's blocks
 *   alltoall         the domain's blocks for each member
 *
 * The last link is an alltoallv in levels->nodes, where it does not matter which member of a domain
 * has sent something. Who that is, is known only when the link inside the domain is complete, so
 * how much is sent is filled in by an act in between.
 */
#include "coll/hierarchy_voices.h"

#include <string.h>

#include "coll/algorithm.h"

/* ---- inside the domain ---- */

void voices_inside(struct build *build, struct voices *voices, pami_xfer_type_t type,
                   const struct area_map *send, const struct area_map *recv, uint64_t bytes)
{
    struct collective part = hierarchy_like(&voices->whole, type, 0);

    part.bytes = bytes;
    part.in_place = part.exclusive = false;
    part.receives = true;
    part.first = &voices->first;
    hierarchy_replace(&part.send, send);
    hierarchy_replace(&part.recv, recv);
    hierarchy_add_inside(build, &part, bytes);
}

/* ---- between domains ---- */

void voices_say(struct voices *voices, uint32_t rank, uint64_t from, uint64_t bytes)
{
    if (levels_domain(voices->levels, rank) == voices->levels->own)
        return;
    voices->sends[rank] = voices->first ? bytes : 0;
    voices->from[rank] = from;
}

void voices_hear(struct voices *voices, uint32_t domain, uint64_t to, uint64_t bytes)
{
    uint32_t rank = levels_rank(voices->levels, domain, 0);

    if (domain == voices->levels->own)
        return;
    voices->recvs[rank] = bytes;
    voices->to[rank] = to;
}

void voices_between(struct build *build, const struct voices *voices)
{
    struct collective part = hierarchy_like(&voices->whole, PAMI_XFER_ALLTOALLV, 0);
    const struct area_map send = hierarchy_packed(&voices->said, voices->from);
    const struct area_map recv = hierarchy_packed(&voices->heard, voices->to);

    part.bytes = 0;
    part.in_place = part.exclusive = false;
    part.send_bytes = voices->sends;
    part.recv_bytes = voices->recvs;
    hierarchy_replace(&part.send, &send);
    hierarchy_replace(&part.recv, &recv);
    hierarchy_add_row(build, build->levels->nodes, algorithm_find(part.type, "Sparse"), &part);
}

static struct voices *make_voices(struct build *build, const struct collective *whole)
{
    struct voices *voices = hierarchy_memory(build, sizeof(*voices));
    uint32_t size = build->group->size;
    uint64_t *numbers = hierarchy_numbers(build, 4 * size);

    if (build->error != 0)
        return NULL;
    for (uint32_t i = 0; i < size; i++) /* so many messages there may be */
        numbers[i] = levels_domain(build->levels, i) != build->levels->own;
    *voices = (struct voices){
        .levels = build->levels,
        .whole = *whole,
        .first = build->levels->local->rank == 0, /* where nobody says otherwise */
        .sends = numbers,
        .recvs = numbers + size,
        .from = numbers + 2 * size,
        .to = numbers + 3 * size,
    };
    return voices;
}

/* ---- barrier ---- */

static void say_token(void *cookie)
{
    struct voices *voices = cookie;

    for (uint32_t rank = 0; rank < levels_size(voices->levels); rank++)
        voices_say(voices, rank, 0, 1);
}

static void barrier(struct build *build, struct voices *voices)
{
    const struct area_map none = hierarchy_plain(NULL);

    voices->said = hierarchy_plain(hierarchy_memory(build, 2));
    voices->heard = hierarchy_plain(voices->said.base + 1);
    if (build->error == 0)
        memset(voices->said.base, 0, 2);
    voices_inside(build, voices, PAMI_XFER_BARRIER, &none, &none, 0);
    hierarchy_act(build, say_token, voices);
    for (uint32_t i = 0; i < voices->levels->domains; i++)
        voices_hear(voices, i, 0, 1);
    voices_between(build, voices);
}

/* ---- allgather ---- */

static void say_gathered(void *cookie)
{
    struct voices *voices = cookie;
    const struct store *store = voices->store;
    uint64_t start = store->starts[voices->levels->own];

    for (uint32_t rank = 0; rank < levels_size(voices->levels); rank++)
        voices_say(voices, rank, start, store->starts[voices->levels->own + 1] - start);
}

/* Of the members of the own domain, whose blocks may differ, to where they are in the store. */
static void gather_inside(struct build *build, struct voices *voices)
{
    const struct levels *levels = build->levels;
    const struct store *store = voices->store;
    uint64_t *sizes = hierarchy_numbers(build, build_locals(build));
    uint64_t *starts = hierarchy_numbers(build, build_locals(build));
    struct area_map blocks = hierarchy_packed(&store->map, starts);
    struct collective part = hierarchy_like(&voices->whole, PAMI_XFER_ALLGATHERV, 0);
    uint64_t at = store->starts[levels->own];

    for (uint32_t i = 0; starts != NULL && i < build_locals(build); i++) {
        starts[i] = at;
        sizes[i] = store->equal;
        if (store->sizes != NULL)
            sizes[i] = store->sizes[levels_rank(levels, levels->own, i)];
        at += sizes[i];
    }
    part.bytes = 0;
    part.own_bytes = sizes != NULL ? sizes[levels->local->rank] : 0;
    part.recv_bytes = sizes;
    part.in_place = voices->whole.in_place && !store->own;
    part.first = &voices->first;
    hierarchy_replace(&part.recv, &blocks);
    hierarchy_add_inside(build, &part, part.own_bytes);
}

static void allgather(struct build *build, struct voices *voices)
{
    const struct collective *whole = &voices->whole;
    struct store *store =
        hierarchy_store(build, &whole->recv, whole->bytes, whole->recv_bytes, FIRST_NONE);

    voices->store = store;
    if (store == NULL)
        return;
    voices->said = voices->heard = store->map;
    gather_inside(build, voices);
    hierarchy_act(build, say_gathered, voices);
    for (uint32_t i = 0; i < voices->levels->domains; i++)
        voices_hear(voices, i, store->starts[i], store->starts[i + 1] - store->starts[i]);
    voices_between(build, voices);
    store_unpack(build, store);
}

/* ---- alltoall ---- */

/* What the own domain's members have for one member, in their order. */
static void say_parts(void *cookie)
{
    struct voices *voices = cookie;
    const struct levels *levels = voices->levels;
    uint32_t size = levels_size(levels), locals = levels->local->size;
    uint64_t block = voices->whole.bytes;
    char *to = voices->parts;

    for (uint32_t rank = 0; rank < size; rank++) {
        voices_say(voices, rank, (uint64_t)(to - voices->parts), locals * block);
        for (uint32_t i = 0; voices->first && i < locals; i++, to += block)
            memcpy(to, voices->inside + i * voices->stride + rank * block, block);
    }
}

static void take_block(const struct voices *voices, uint32_t rank, char *block)
{
    const struct area_map *recv = &voices->whole.recv;
    const struct message_place from = {.address = block};
    const struct message_place to = area_place(recv, rank, 0);

    place_copy(&to, &from, voices->whole.bytes);
}

static void finish_alltoall(void *cookie)
{
    struct voices *voices = cookie;
    const struct levels *levels = voices->levels;
    uint64_t block = voices->whole.bytes;
    uint64_t own = levels_rank(levels, levels->own, levels->local->rank) * block;

    for (uint32_t domain = 0; block != 0 && domain < levels->domains; domain++) {
        char *from = voices->outside + levels_start(levels, domain) * block;
        uint64_t step = block;

        if (domain == levels->own) {
            from = voices->inside + own;
            step = voices->stride;
        }
        for (uint32_t i = 0, count = levels_count(levels, domain); i < count; i++)
            take_block(voices, levels_rank(levels, domain, i), from + i * step);
    }
}

static void alltoall(struct build *build, struct voices *voices)
{
    uint32_t size = build->group->size, locals = build_locals(build);
    const struct area_map send = hierarchy_as_one(&voices->whole.send);
    uint64_t block = voices->whole.bytes;
    struct area_map inside;

    voices->stride = size * block;
    voices->inside = hierarchy_memory(build, locals * voices->stride);
    voices->parts = hierarchy_memory(build, locals * voices->stride);
    voices->outside = hierarchy_memory(build, size * block);
    inside = hierarchy_equal(voices->inside, voices->stride);
    voices->said = hierarchy_plain(voices->parts);
    voices->heard = hierarchy_plain(voices->outside);
    voices_inside(build, voices, PAMI_XFER_ALLGATHER, &send, &inside, voices->stride);
    hierarchy_act(build, say_parts, voices);
    for (uint32_t i = 0; i < voices->levels->domains; i++)
        voices_hear(voices, i, levels_start(voices->levels, i) * block,
                    levels_count(voices->levels, i) * block);
    voices_between(build, voices);
    hierarchy_act(build, finish_alltoall, voices);
}

void hierarchy_voices(struct build *build, const struct collective *from)
{
    struct voices *voices = make_voices(build, from);

    if (voices == NULL)
        return;
    switch (from->type) {
    case PAMI_XFER_ALLREDUCE:
        voices_allreduce(build, voices);
        break;
    case PAMI_XFER_REDUCE_SCATTER:
        voices_reduce_scatter(build, voices);
        break;
    case PAMI_XFER_SCAN:
        voices_scan(build, voices);
        break;
    case PAMI_XFER_ALLGATHER:
    case PAMI_XFER_ALLGATHERV:
        allgather(build, voices);
        break;
    case PAMI_XFER_ALLTOALL:
        alltoall(build, voices);
        break;
    default:
        barrier(build, voices);
    }
}
