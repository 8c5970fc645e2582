/*
 * Arenas: which there are, how they are found and taken away; see arena.h. How members come to have
 * one is in open.c.
 *
 * A member that goes while one is being opened makes the leader refuse. Without the leader
 * everything in the arena fails, with word to everybody.
 *
 * When a group goes, members forget its arenas at once, and say so by a DONE counter that
 * nothing exceeds; the leader keeps the memory until every member has, or has gone. If its context
 * goes before that, the client keeps it, and any other context of the client frees it.
 */
#include "coll/shared/arena.h"

#include <errno.h>
#include <stdlib.h>

#include "coll/gone.h"
#include "coll/shared/shared.h"
#include "p2p/message.h"
#include "util/hash.h"
#include "util/option.h"

/* A slot that others have read is written past the cache where a copy takes so long for a KiB. Of
 * little the processor's store buffer hides much. An Intel Xeon: 8 for 4 KiB, 82 for 32 KiB, where
 * past the cache everything together takes twice as long. */
#define SLOT_DEAR_NS 100u
#define MUCH_DEAR_NS 200u

static struct arena **bucket_of(struct shared *shared, uint64_t identity)
{
    return &shared->buckets[hash_of(identity) % ARENA_BUCKETS];
}

struct arena *arena_find(struct shared *shared, uint64_t identity, uint32_t channel)
{
    struct arena *arena = *bucket_of(shared, identity);

    while (arena != NULL &&
           (arena->identity != identity || arena->channel != channel || arena->closing))
        arena = arena->next;
    return arena;
}

static bool make_scratch(struct shared *shared)
{
    for (int i = 0; i < 2; i++)
        if (shared->scratch[i] == NULL)
            shared->scratch[i] = aligned_alloc(CACHE_LINE, shared->wide_most);
    return shared->scratch[0] != NULL && shared->scratch[1] != NULL;
}

/* Its stores are visible by now. It may have finished before this member has. Without its leader
 * nobody knows whether others use an arena that is being opened. */
static void member_has_left(struct arena *arena, uint32_t member)
{
    arena->left[member] = arena->lost = true;
    gone_note(arena->shared->context, endpoint_task(arena->endpoints[member]) + 1);
    if (arena->state == ARENA_OPENING && member == 0)
        arena->state = ARENA_LOST;
    if (!list_empty(&arena->machines))
        shared_poll_later(arena);
}

/* Hear of the end of all members. 0, or -ENOMEM. */
static int watch(struct arena *arena, const struct group *group)
{
    for (uint32_t i = 0; i < arena->size; i++) {
        int error = 0;

        arena->endpoints[i] = topology_endpoint(group->topology, i);
        if (i != arena->rank)
            error = message_expect(arena->shared->context, arena->endpoints[i]);
        if (error == -ENOMEM)
            return error;
        if (error != 0)
            member_has_left(arena, i);
    }
    return 0;
}

static void arena_free(struct arena *arena)
{
    free(arena->endpoints);
    free(arena->spare);
    free(arena->races);
    free(arena);
}

/* What the arena owns from the beginning. */
static bool make_parts(struct arena *arena)
{
    size_t each = sizeof(*arena->endpoints) + sizeof(*arena->left) + sizeof(*arena->owed);

    arena->spare = malloc(sizeof(*arena->spare));
    arena->endpoints = calloc(arena->size, each);
    if (arena->spare == NULL || arena->endpoints == NULL)
        return false;
    arena->left = (bool *)(arena->endpoints + arena->size);
    arena->owed = (uint8_t *)(arena->left + arena->size);
    return true;
}

static struct arena *arena_new(struct shared *shared, const struct group *group)
{
    struct arena *arena = calloc(1, sizeof(*arena));

    if (arena == NULL)
        return NULL;
    arena->shared = shared;
    arena->identity = group->identity;
    arena->channel = group->channel;
    arena->rank = group->rank;
    arena->size = group->size;
    if (arena_bytes(shared->buffer_bytes, group->size) <= shared->arena_bytes)
        arena->room = shared->buffer_bytes / group->size;
    arena->copy = arena_reach;
    arena->casts = arena_casts;
    list_init(&arena->machines);
    list_init(&arena->holds);
    list_init(&arena->active);
    if (!make_parts(arena) || watch(arena, group) != 0) {
        arena_free(arena);
        return NULL;
    }
    list_push_back(&shared->arenas, &arena->link);
    arena->next = *bucket_of(shared, arena->identity);
    *bucket_of(shared, arena->identity) = arena;
    return arena;
}

struct arena *arena_get(struct group *group)
{
    struct shared *shared = group->context->shared;
    struct arena *arena = arena_find(shared, group->identity, group->channel);

    if (arena != NULL)
        return arena;
    arena = make_scratch(shared) ? arena_new(shared, group) : NULL;
    if (arena == NULL)
        return NULL;
    if (arena->rank == 0)
        arena_offer(arena);
    else
        arena_take_offer(arena);
    return arena;
}

/* Of the arena, or else of the geometry. The leader before those that are lost without it. */
void arena_say_gone(struct arena *arena)
{
    const struct group *group = geometry_find(arena->shared->context, arena->identity);
    uint32_t mark = group != NULL ? gone_look(group) : 0;

    for (uint32_t i = arena->size; arena->lost && i-- > 0;)
        if (arena->left[i])
            mark = endpoint_task(arena->endpoints[i]) + 1;
    if (mark != 0 && arena->state == ARENA_READY)
        atomic_store_explicit(&arena_head(arena)->segments, mark, memory_order_relaxed);
}

uint32_t arena_gone(const struct arena *arena)
{
    return (uint32_t)atomic_load_explicit(&arena_head(arena)->segments, memory_order_relaxed);
}

void arena_break(struct arena *arena, uint64_t tick)
{
    if (arena->broken == 0 || arena->broken > tick + 1)
        arena->broken = tick + 1;
    if (arena->state == ARENA_READY)
        arena_say_broken(arena);
    if (!list_empty(&arena->machines))
        shared_poll_later(arena);
}

/* Others may use the arena: they hear by messages that this member will not come, in which run by
 * that itself. The memory may have become another block of the leader's. */
static void hear_of_end(struct arena *arena, uint32_t member)
{
    bool opening = arena->state == ARENA_OPENING;

    member_has_left(arena, member);
    if (opening && arena->state == ARENA_LOST)
        arena_tell_lost(arena);
}

void arena_member_is_lost(struct arena *arena, uint32_t member)
{
    if (!arena->left[0])
        hear_of_end(arena, 0);
    arena->left[member] = true;
    if (!list_empty(&arena->machines))
        shared_poll_later(arena);
}

void shared_gone(struct shared *shared, uint32_t endpoint)
{
    struct list *item;

    list_for_each (item, &shared->arenas) {
        struct arena *arena = list_entry(item, struct arena, link);

        for (uint32_t i = 0; i < arena->size; i++)
            if (arena->endpoints[i] == endpoint)
                hear_of_end(arena, i);
        if (arena->lost && arena->rank == 0 && arena->state == ARENA_OPENING)
            arena_refuse(arena);
    }
}

static void take_out(struct arena *arena)
{
    struct arena **link = bucket_of(arena->shared, arena->identity);

    while (*link != arena)
        link = &(*link)->next;
    *link = arena->next;
    list_remove(&arena->link);
}

void arena_drop(struct arena *arena)
{
    struct device *device = core_heap_device(arena->shared->context->core);

    while (!list_empty(&arena->holds))
        shared_let_go(list_entry(arena->holds.next, struct arena_hold, link));
    if (arena->state == ARENA_READY)
        arena_say_done_before(arena, ARENA_OVER); /* A5: the last store to it */
    if (arena->block != NULL)
        device->ops->heap_free(device, arena->block);
    arena->shared->wide_bytes -= arena->wide_bytes;
    take_out(arena);
    list_remove(&arena->active);
    arena_free(arena);
}

static bool is_over(const struct arena *arena, uint32_t member)
{
    return atomic_load_explicit(&arena_done(arena, member)->count, memory_order_acquire) /* A5 */ ==
           ARENA_OVER;
}

/* No other member uses its block. */
static bool is_unused(const struct arena *arena)
{
    if (arena->block == NULL || arena->state != ARENA_READY)
        return true;
    for (uint32_t i = 0; i < arena->size; i++)
        if (i != arena->rank && !arena->left[i] && !is_over(arena, i))
            return false;
    return true;
}

bool arena_may_go(const struct arena *arena)
{
    return !arena->owes && is_unused(arena);
}

/* ---- blocks whose leader's context has gone ---- */

static void push_rest(struct client_core *core, struct arena_rest *rest)
{
    rest->next = atomic_load_explicit(&core->arena_rests, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&core->arena_rests, &rest->next, rest,
                                                  memory_order_release, memory_order_relaxed))
        continue;
}

/* The client has the block, until all members are done with it. */
static void leave_rest(struct arena *arena)
{
    struct arena_rest *rest = arena->block;

    for (uint32_t i = 0; i < arena->size; i++)
        if (arena->left[i])
            atomic_store_explicit(&arena_done(arena, i)->count, ARENA_OVER, memory_order_relaxed);
    rest->size = arena->size;
    arena->block = NULL;
    push_rest(arena->shared->context->core, rest);
}

static bool rest_may_go(struct arena_rest *rest)
{
    const struct arena arena = {.memory = (char *)rest, .size = rest->size};

    for (uint32_t i = 0; i < arena.size; i++)
        if (!is_over(&arena, i))
            return false;
    return true;
}

/* Contexts may be here at the same time: each takes all that there are. */
static void free_rests(struct client_core *core)
{
    struct device *device = core_heap_device(core);
    struct arena_rest *rest, *next;

    if (likely(atomic_load_explicit(&core->arena_rests, memory_order_relaxed) == NULL))
        return;
    rest = atomic_exchange_explicit(&core->arena_rests, NULL, memory_order_acquire);
    for (; rest != NULL; rest = next) {
        next = rest->next;
        if (rest_may_go(rest))
            device->ops->heap_free(device, rest);
        else
            push_rest(core, rest);
    }
}

void arena_reap(struct shared *shared)
{
    struct list *item, *following;

    free_rests(shared->context->core);
    list_for_each_safe (item, following, &shared->arenas) {
        struct arena *arena = list_entry(item, struct arena, link);

        if (!arena->closing)
            break;
        if (list_empty(&arena->active) && arena_may_go(arena))
            arena_drop(arena);
    }
}

void arena_group_closed(struct shared *shared, uint64_t identity)
{
    struct arena *arena;

    for (arena = *bucket_of(shared, identity); arena != NULL; arena = arena->next) {
        if (arena->identity != identity || arena->closing)
            continue;
        arena->closing = true;
        list_remove(&arena->link);
        list_push_front(&shared->arenas, &arena->link);
        shared_poll_later(arena); /* which drops it, not in the middle of a look at it */
    }
}

int shared_attach(struct context *context)
{
    struct shared *shared = calloc(1, sizeof(*shared));

    if (shared == NULL)
        return -ENOMEM;
    shared->context = context;
    shared->spreads = context->core->spread != NULL;
    shared->buffer_bytes = option_bytes(OPT_COLL_SHARED_BUFFER);
    shared->wide_most = ARENA_WIDE * shared->buffer_bytes;
    shared->arena_bytes = option_bytes(OPT_COLL_SHARED_BYTES);
    shared->slice_mask = (uint32_t)option_int(OPT_COLL_SLICES) - 1;
    shared->stream_bytes = option_bytes(OPT_COLL_SHARED_STREAM);
    shared->relay_bytes = option_bytes(OPT_COLL_SHARED_RELAY);
    shared->direct_bytes = option_bytes(OPT_COLL_SHARED_DIRECT);
    shared->races =
        option_source(OPT_COLL_SHARED_DIRECT) == OPTION_FROM_DEFAULT && !context->core->simulated;
    shared->tree_radix = (uint32_t)option_int(OPT_COLL_SHARED_RADIX);
    shared->tree_members = (uint32_t)option_int(OPT_COLL_SHARED_TREE);
    gauge_init(&shared->gauges[0], SLOT_DEAR_NS);
    gauge_init(&shared->gauges[1], MUCH_DEAR_NS);
    list_init(&shared->arenas);
    shared_machines_init(shared);
    shared_runs_init(shared);
    context->shared = shared;
    arena_opening_init(shared);
    return 0;
}

void shared_detach(struct context *context)
{
    struct shared *shared = context->shared;

    if (shared == NULL)
        return;
    list_remove(&shared->retry.link);
    while (!list_empty(&shared->arenas)) {
        struct arena *arena = list_entry(shared->arenas.next, struct arena, link);

        shared_drop(arena);
        if (!is_unused(arena))
            leave_rest(arena);
        arena_drop(arena);
    }
    arena_opening_finish(shared);
    pool_finish(&shared->runs);
    free(shared->scratch[0]);
    free(shared->scratch[1]);
    free(shared);
    context->shared = NULL;
}
