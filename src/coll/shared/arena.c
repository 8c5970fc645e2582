/*
 * Making arenas, and taking them away; see arena.h.
 *
 * The leader allocates, and offers the address to the other members; each maps the leader's heap
 * and answers whether it could; then the leader tells all of them whether the arena is used. An
 * offer may come before its receiver has begun its first collective: it is kept.
 *
 * A member that goes meanwhile makes the leader refuse. Without the leader everything in the arena
 * fails, with word to everybody.
 *
 * When a group goes, members forget its arenas at once, and say so by a DONE counter that
 * nothing exceeds; the leader keeps the memory until every member has, or has gone.
 */
#include "coll/shared/arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/coll.h"
#include "coll/gone.h"
#include "coll/shared/shared.h"
#include "p2p/message.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/option.h"

/* A slot that others have read is written past the cache where a copy takes so long for a KiB. Of
 * little the processor's store buffer hides much. An Intel Xeon: 8 for 4 KiB, 82 for 32 KiB, where
 * past the cache everything together takes twice as long. */
#define SLOT_DEAR_NS 100u
#define MUCH_DEAR_NS 200u

enum note_kind {
    NOTE_OFFER,  /* leader to member: an arena at `address` */
    NOTE_ANSWER, /* member to leader: mapped (flag), or not */
    NOTE_COMMIT, /* leader to member: it is used (flag), or not */
    NOTE_KINDS
};

struct arena_note {
    uint64_t identity;
    uint64_t address;
    uint64_t buffer_bytes; /* offer */
    uint64_t direct_bytes;
    uint64_t relay_bytes;
    uint16_t kind;
    uint16_t channel;
    uint32_t size;
    uint32_t flag;
    uint16_t relays;
    uint16_t slice_mask;
    uint32_t tree_radix;
    uint32_t tree_members;
};

/* An offer that came early. */
struct arena_offer {
    struct list link;
    struct arena_note note;
};

static void tell(struct arena *arena, uint32_t member, struct arena_note note)
{
    note.identity = arena->identity;
    note.channel = (uint16_t)arena->channel;
    note.size = arena->size;
    note.relays = arena->relays;
    note.slice_mask = (uint16_t)arena->slice_mask;
    note.direct_bytes = arena->direct_bytes;
    note.relay_bytes = arena->relay_bytes;
    note.tree_radix = arena->tree.radix;
    note.tree_members = arena->tree.members;
    /* A member that has gone ends its collectives elsewhere. */
    message_send(arena->shared->context, arena->endpoints[member], MESSAGE_SHARED, &note,
                 sizeof(note), NULL, 0, NULL, NULL);
}

/* ---- the leader ---- */

/* The least tick that anybody says. */
static void say_broken(struct arena *arena)
{
    _Atomic uint64_t *word = &arena_head(arena)->count;
    uint64_t said = 0;

    arena_say_gone(arena);
    while ((said == 0 || said > arena->broken) &&
           !atomic_compare_exchange_weak_explicit(word, &said, arena->broken, memory_order_acq_rel,
                                                  memory_order_acquire))
        continue;
}

/* The end of opening. Who has given up meanwhile says so now, where all members look; without an
 * arena there is nothing to say. */
static void opened(struct arena *arena, bool ready)
{
    arena->state = ready ? ARENA_READY : ARENA_FAILED;
    if (ready && arena->broken != 0)
        say_broken(arena);
    if (!ready)
        arena->broken = 0;
}

static void commit(struct arena *arena)
{
    opened(arena, !arena->refused);
    for (uint32_t i = 1; i < arena->size; i++)
        tell(arena, i, (struct arena_note){.kind = NOTE_COMMIT, .flag = !arena->refused});
    if (arena->refused)
        log_debug("collectives of geometry %#lx use messages: no shared arena",
                  (unsigned long)arena->identity);
}

/* A member has gone, and its answer will not come: messages find out who needs it. Members that
 * have not answered yet are told again when they do. */
static void refuse(struct arena *arena)
{
    arena->refused = true;
    commit(arena);
    shared_poll_later(arena);
}

/* Memory that is not used is address space only, but the program wants that of the heap as well. */
static int allocate_wide(struct arena *arena, struct device *device)
{
    struct shared *shared = arena->shared;
    size_t buffer = arena->size * shared->wide_most, bytes;
    int error;

    while (buffer > shared->buffer_bytes &&
           arena_bytes(buffer, arena->size) > shared->arena_bytes - shared->wide_bytes)
        buffer = buffer / 2 & ~(size_t)4095;
    if (buffer <= shared->buffer_bytes)
        return -ENOSPC;
    bytes = arena_bytes(buffer, arena->size);
    error = device->ops->heap_alloc(device, bytes, 4096, -1, &arena->block);
    if (error != 0)
        return error;
    arena->buffer_bytes = buffer;
    arena->wide_bytes = bytes;
    shared->wide_bytes += bytes;
    return 0;
}

static int allocate(struct arena *arena)
{
    struct shared *shared = arena->shared;
    struct device *device = core_heap_device(shared->context->core);
    size_t bytes;
    int error = -ENOSPC;

    if (device == NULL)
        return -ENODEV;
    arena_reap(shared);
    if (arena_is_wide(arena->crowded, arena->size))
        error = allocate_wide(arena, device);
    if (error != 0) {
        arena->buffer_bytes = shared->buffer_bytes;
        bytes = arena_bytes(arena->buffer_bytes, arena->size);
        if (bytes > shared->arena_bytes)
            return -ENOSPC;
        error = device->ops->heap_alloc(device, bytes, 4096, -1, &arena->block);
    }
    if (error != 0)
        return error;
    arena->memory = arena->block;
    memset(arena->memory, 0, arena_control_bytes(arena->size));
    return 0;
}

static uint32_t slice_mask_of(const struct arena *arena)
{
    uint32_t mask = arena->shared->slice_mask;

    return arena->crowded || mask < ARENA_BUFFERS ? mask : ARENA_BUFFERS - 1;
}

/* A relay for each processor; a leader that is bound to one cannot tell for the others. Members
 * wait for a turn of each that comes before them in their relay: long relays are for more data. */
static void set_relays(struct arena *arena)
{
    uint32_t processors = cpu_available(), most = (arena->size + 1) / 2, length;

    if (processors < 2)
        processors = 2;
    if (most > ARENA_RELAYS)
        most = ARENA_RELAYS;
    arena->crowded = true;
    arena->relays = (uint16_t)(most < processors ? most : processors);
    length = (arena->size + arena->relays - 1) / arena->relays;
    if (arena->size > 2)
        arena->relay_bytes = (uint64_t)length * length * arena->shared->relay_bytes;
}

static void offer(struct arena *arena)
{
    if (arena->shared->context->core->yield == YIELD_SOON)
        set_relays(arena);
    arena_set_slices(arena, slice_mask_of(arena));
    arena->direct_bytes = arena->shared->direct_bytes;
    arena->tree.radix = arena->shared->tree_radix;
    arena->tree.members = arena->shared->tree_members;
    arena_make_tree(arena);
    arena->refused = allocate(arena) != 0;
    if (arena->size == 1) {
        commit(arena);
        return;
    }
    /* Also what there is not (address 0): a member that has not come yet keeps offers only. */
    for (uint32_t i = 1; i < arena->size; i++)
        tell(arena, i,
             (struct arena_note){.kind = NOTE_OFFER,
                                 .address = (uintptr_t)arena->memory,
                                 .buffer_bytes = arena->buffer_bytes});
    if (arena->lost)
        refuse(arena);
}

/* ---- the others ---- */

static bool map(struct arena *arena, const struct arena_note *note)
{
    struct context *context = arena->shared->context;
    struct device *device = core_heap_device(context->core);
    struct heap_view view;
    uint64_t offset, bytes;

    if (device == NULL || note->address == 0 || note->size != arena->size ||
        note->buffer_bytes < arena->shared->buffer_bytes ||
        note->buffer_bytes > arena->size * arena->shared->wide_most ||
        note->slice_mask >= ARENA_SLICES || note->tree_radix == 0 ||
        note->tree_radix > ARENA_RADIX || note->relays > arena->size ||
        device->ops->heap_view(device, endpoint_task(arena->endpoints[0]), &view) != 0)
        return false;
    offset = note->address - view.remote;
    bytes = arena_bytes(note->buffer_bytes, arena->size);
    if (offset >= view.bytes || bytes > view.bytes - offset)
        return false;
    arena->memory = view.local + offset;
    arena->crowded = note->relays != 0;
    arena->relays = note->relays;
    arena_set_slices(arena, note->slice_mask);
    arena->direct_bytes = note->direct_bytes;
    arena->relay_bytes = note->relay_bytes;
    arena->tree.radix = note->tree_radix;
    arena->tree.members = note->tree_members;
    arena_make_tree(arena);
    arena->buffer_bytes = note->buffer_bytes;
    return true;
}

static void answer(struct arena *arena, const struct arena_note *note)
{
    tell(arena, 0, (struct arena_note){.kind = NOTE_ANSWER, .flag = map(arena, note)});
}

/* ---- notes ---- */

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

/* Nobody offers twice: without memory it comes again. */
static void keep_offer(struct shared *shared, const struct arena_note *note, pami_recv_t *recv)
{
    struct arena_offer *early = malloc(sizeof(*early));

    if (early == NULL) {
        message_put_back(shared->context, recv);
        return;
    }
    early->note = *note;
    list_push_back(&shared->offers, &early->link);
}

/* There is no arena. */
static void tell_again(struct arena *arena, uint32_t endpoint)
{
    for (uint32_t i = 1; i < arena->size; i++)
        if (arena->endpoints[i] == endpoint)
            tell(arena, i, (struct arena_note){.kind = NOTE_COMMIT});
}

static void on_note(pami_context_t handle, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct shared *shared = cookie;
    struct arena_note note;
    struct arena *arena;

    (void)handle, (void)data, (void)bytes;
    if (header_bytes != sizeof(note))
        return;
    memcpy(&note, header, sizeof(note));
    arena = arena_find(shared, note.identity, note.channel);
    if (note.kind == NOTE_OFFER && arena == NULL)
        keep_offer(shared, &note, recv);
    if (arena != NULL && arena->state == ARENA_FAILED && note.kind == NOTE_ANSWER)
        tell_again(arena, origin);
    if (arena == NULL || arena->state != ARENA_OPENING)
        return;
    if (note.kind == NOTE_OFFER) {
        answer(arena, &note);
    } else if (note.kind == NOTE_COMMIT) {
        opened(arena, note.flag);
    } else if (note.kind == NOTE_ANSWER) {
        arena->refused = arena->refused || !note.flag;
        if (++arena->answers == arena->size - 1)
            commit(arena);
    }
    shared_poll_later(arena);
}

/* ---- arenas ---- */

static void take_offer(struct arena *arena)
{
    struct list *item;

    list_for_each (item, &arena->shared->offers) {
        struct arena_offer *early = list_entry(item, struct arena_offer, link);

        if (early->note.identity == arena->identity && early->note.channel == arena->channel) {
            list_remove(item);
            answer(arena, &early->note);
            free(early);
            return;
        }
    }
}

static bool make_scratch(struct shared *shared)
{
    for (int i = 0; i < 2; i++)
        if (shared->scratch[i] == NULL)
            shared->scratch[i] = aligned_alloc(CACHE_LINE, shared->wide_most);
    return shared->scratch[0] != NULL && shared->scratch[1] != NULL;
}

/* Its stores are visible by now. It may have finished before this member has. Without its leader
 * nobody knows whether others use an arena that is being opened: if they do, they have it from here
 * that this member will not come. */
static void member_has_left(struct arena *arena, uint32_t member)
{
    arena->left[member] = arena->lost = true;
    gone_note(arena->shared->context, endpoint_task(arena->endpoints[member]) + 1);
    if (arena->state == ARENA_OPENING && member == 0) {
        arena->state = ARENA_LOST;
        if (arena->memory != NULL)
            atomic_store_explicit(&arena_head(arena)->count, 1, memory_order_release);
    }
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
    list_init(&arena->machines);
    list_init(&arena->active);
    arena->endpoints = calloc(group->size, sizeof(*arena->endpoints) + sizeof(*arena->left));
    if (arena->endpoints != NULL)
        arena->left = (bool *)(arena->endpoints + group->size);
    if (arena->endpoints == NULL || watch(arena, group) != 0) {
        free(arena->endpoints);
        free(arena);
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
        offer(arena);
    else
        take_offer(arena);
    return arena;
}

void arena_say_gone(struct arena *arena)
{
    uint32_t mark = arena->shared->context->coll->gone;

    if (arena->state == ARENA_READY && mark != 0)
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
        say_broken(arena);
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
                member_has_left(arena, i);
        if (arena->lost && arena->rank == 0 && arena->state == ARENA_OPENING)
            refuse(arena);
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

    while (arena->holds != NULL)
        shared_let_go(arena->holds);
    if (arena->state == ARENA_READY)
        arena_say_done_before(arena, ARENA_OVER); /* A5: the last store to it */
    if (arena->block != NULL)
        device->ops->heap_free(device, arena->block);
    arena->shared->wide_bytes -= arena->wide_bytes;
    take_out(arena);
    list_remove(&arena->active);
    free(arena->endpoints);
    free(arena->races);
    free(arena);
}

bool arena_may_go(const struct arena *arena)
{
    if (arena->block == NULL || arena->state != ARENA_READY)
        return true;
    for (uint32_t i = 0; i < arena->size; i++)
        if (i != arena->rank && !arena->left[i] &&
            atomic_load_explicit(&arena_done(arena, i)->count, memory_order_acquire) /* A5 */ !=
                ARENA_OVER)
            return false;
    return true;
}

void arena_reap(struct shared *shared)
{
    struct list *item, *following;

    list_for_each_safe (item, following, &shared->arenas) {
        struct arena *arena = list_entry(item, struct arena, link);

        if (arena->closing && list_empty(&arena->active) && arena_may_go(arena))
            arena_drop(arena);
    }
}

void arena_group_closed(struct shared *shared, uint64_t identity)
{
    struct list *item;

    list_for_each (item, &shared->arenas) {
        struct arena *arena = list_entry(item, struct arena, link);

        if (arena->identity != identity || arena->closing)
            continue;
        arena->closing = true;
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
    list_init(&shared->offers);
    shared_machines_init(shared);
    shared_runs_init(shared);
    context->shared = shared;
    message_register(context, MESSAGE_SHARED, on_note, shared);
    return 0;
}

void shared_detach(struct context *context)
{
    struct shared *shared = context->shared;
    struct list *item;

    if (shared == NULL)
        return;
    list_remove(&shared->retry.link);
    while (!list_empty(&shared->arenas)) {
        struct arena *arena = list_entry(shared->arenas.next, struct arena, link);

        shared_drop(arena);
        /* Neighbours may still read: the pages go with the client. */
        if (!arena_may_go(arena))
            arena->block = NULL;
        arena_drop(arena);
    }
    while ((item = list_pop_front(&shared->offers)) != NULL)
        free(list_entry(item, struct arena_offer, link));
    pool_finish(&shared->runs);
    free(shared->scratch[0]);
    free(shared->scratch[1]);
    free(shared);
    context->shared = NULL;
}
