/*
 * Opening an arena: all members get to use it, or none; see arena.h.
 *
 * The leader allocates, and offers the address to the other members; each maps the leader's heap
 * and answers whether it could; then the leader tells all of them whether the arena is used. An
 * offer may come before its receiver has begun its first collective: it is kept.
 *
 * Each of these messages is waited for, and nobody asks for it again. So one that finds no memory
 * is owed: a bit in the arena, which knows all that the message says, and it is sent in a later
 * pass. An arena that owes is not dropped.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/shared/arena.h"
#include "p2p/message.h"
#include "util/log.h"

enum note_kind {
    NOTE_OFFER,  /* leader to member: an arena at `address` */
    NOTE_ANSWER, /* member to leader: mapped (flag), or not */
    NOTE_COMMIT, /* leader to member: it is used (flag), or not */
    NOTE_LOST,   /* member to others: the leader has gone, and has not told this one which */
    NOTE_KINDS
};

struct arena_note {
    uint64_t identity;
    uint64_t address;
    uint64_t buffer_bytes; /* offer */
    uint64_t usual_bytes;  /* ..., what the buffer is a multiple of */
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

/* What it says is as the arena is now: an offer of nothing (address 0), no mapping, no commitment
 * are said as well. */
static struct arena_note note_of(const struct arena *arena, enum note_kind kind)
{
    struct arena_note note = {
        .identity = arena->identity,
        .kind = (uint16_t)kind,
        .channel = (uint16_t)arena->channel,
        .size = arena->size,
        .relays = arena->relays,
        .slice_mask = (uint16_t)arena->slice_mask,
        .direct_bytes = arena->direct_bytes,
        .relay_bytes = arena->relay_bytes,
        .tree_radix = arena->tree.radix,
        .tree_members = arena->tree.members,
    };

    if (kind == NOTE_OFFER) {
        note.address = (uintptr_t)arena->memory;
        note.buffer_bytes = arena->buffer_bytes;
        note.usual_bytes = arena->shared->buffer_bytes;
    } else {
        note.flag = kind == NOTE_COMMIT ? arena->state == ARENA_READY : arena->memory != NULL;
    }
    return note;
}

/* Others wait for it: what finds no memory is said later. A member that has gone ends its
 * collectives elsewhere. */
static void tell(struct arena *arena, uint32_t member, enum note_kind kind)
{
    const struct arena_note note = note_of(arena, kind);
    const uint8_t bit = (uint8_t)(1u << kind);
    struct shared *shared = arena->shared;

    arena->owed[member] &= (uint8_t)~bit;
    if (message_send(shared->context, arena->endpoints[member], MESSAGE_SHARED, &note, sizeof(note),
                     NULL, 0, NULL, NULL) != -ENOMEM)
        return;
    arena->owed[member] |= bit;
    arena->owes = true;
    if (list_empty(&shared->owing.link))
        list_push_back(&shared->context->retries, &shared->owing.link);
}

static void tell_owed(struct arena *arena)
{
    arena->owes = false;
    for (uint32_t i = 0; i < arena->size; i++)
        for (unsigned kind = 0; kind < NOTE_KINDS; kind++)
            if ((arena->owed[i] & 1u << kind) != 0)
                tell(arena, i, (enum note_kind)kind);
}

static int retry_owed(struct retry *retry, struct context *context)
{
    struct shared *shared = container_of(retry, struct shared, owing);
    struct list *item;

    (void)context;
    list_remove(&retry->link);
    list_for_each (item, &shared->arenas) {
        struct arena *arena = list_entry(item, struct arena, link);

        if (arena->owes)
            tell_owed(arena);
    }
    arena_reap(shared);
    return 1;
}

/* ---- the leader ---- */

/* The least tick that anybody says. */
void arena_say_broken(struct arena *arena)
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
        arena_say_broken(arena);
    if (!ready)
        arena->broken = 0;
}

static void commit(struct arena *arena)
{
    opened(arena, !arena->refused);
    for (uint32_t i = 1; i < arena->size; i++)
        tell(arena, i, NOTE_COMMIT);
    if (arena->refused)
        log_debug("collectives of geometry %#lx use messages: no shared arena",
                  (unsigned long)arena->identity);
}

/* A member has gone, and its answer will not come: messages find out who needs it. Members that
 * have not answered yet are told again when they do. */
void arena_refuse(struct arena *arena)
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
    if (arena->size > ARENA_MEMBERS)
        return -ENOSPC;
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

void arena_offer(struct arena *arena)
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
    /* Also what there is not: a member that has not come yet keeps offers only. */
    for (uint32_t i = 1; i < arena->size; i++)
        tell(arena, i, NOTE_OFFER);
    if (arena->lost)
        arena_refuse(arena);
}

/* ---- the others ---- */

/* All members cut messages by it, see cut.c. */
static bool has_usual_buffers(const struct arena *arena, const struct arena_note *note)
{
    if (note->usual_bytes == arena->shared->buffer_bytes)
        return true;
    log_warn("PAMI_COLL_SHARED_BUFFER is %zu here and %lu on task %u: collectives of geometry %#lx "
             "use messages",
             arena->shared->buffer_bytes, (unsigned long)note->usual_bytes,
             endpoint_task(arena->endpoints[0]), (unsigned long)arena->identity);
    return false;
}

/* If it can. */
static void map(struct arena *arena, const struct arena_note *note)
{
    struct context *context = arena->shared->context;
    struct device *device = core_heap_device(context->core);
    struct heap_view view;
    uint64_t offset, bytes;

    if (device == NULL || note->address == 0 || note->size != arena->size ||
        !has_usual_buffers(arena, note) || note->buffer_bytes < note->usual_bytes ||
        note->buffer_bytes > arena->size * arena->shared->wide_most ||
        note->slice_mask >= ARENA_SLICES || note->tree_radix == 0 ||
        note->tree_radix > ARENA_RADIX || note->relays > arena->size ||
        device->ops->heap_view(device, endpoint_task(arena->endpoints[0]), &view) != 0)
        return;
    offset = note->address - view.remote;
    bytes = arena_bytes(note->buffer_bytes, arena->size);
    if (offset >= view.bytes || bytes > view.bytes - offset)
        return;
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
}

static void answer(struct arena *arena, const struct arena_note *note)
{
    map(arena, note);
    tell(arena, 0, NOTE_ANSWER);
}

void arena_tell_lost(struct arena *arena)
{
    if (arena->memory == NULL)
        return; /* the leader has not heard that it could, and so has committed nothing */
    for (uint32_t i = 1; i < arena->size; i++)
        if (i != arena->rank && !arena->left[i])
            tell(arena, i, NOTE_LOST);
}

/* ---- notes ---- */

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

static uint32_t member_at(const struct arena *arena, uint32_t endpoint)
{
    uint32_t member = 0;

    while (member < arena->size && arena->endpoints[member] != endpoint)
        member++;
    return member;
}

/* There is no arena. */
static void tell_again(struct arena *arena, uint32_t endpoint)
{
    uint32_t member = member_at(arena, endpoint);

    if (member < arena->size)
        tell(arena, member, NOTE_COMMIT);
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
    if (arena != NULL && note.kind == NOTE_LOST && member_at(arena, origin) < arena->size)
        arena_member_is_lost(arena, member_at(arena, origin));
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

void arena_take_offer(struct arena *arena)
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

void arena_reap_offers(struct shared *shared)
{
    struct list *item, *following;

    list_for_each_safe (item, following, &shared->offers) {
        struct arena_offer *early = list_entry(item, struct arena_offer, link);

        if (!geometry_is_over(shared->context, early->note.identity))
            continue;
        list_remove(item);
        free(early);
    }
}

void arena_opening_init(struct shared *shared)
{
    list_init(&shared->offers);
    list_init(&shared->owing.link);
    shared->owing.run = retry_owed;
    message_register(shared->context, MESSAGE_SHARED, on_note, shared);
}

/* Arenas have been dropped. */
void arena_opening_finish(struct shared *shared)
{
    struct list *item;

    list_remove(&shared->owing.link);
    while ((item = list_pop_front(&shared->offers)) != NULL)
        free(list_entry(item, struct arena_offer, link));
}
