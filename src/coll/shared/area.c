/*
 * Making areas, and taking them away; see area.h.
 *
 * The leader allocates, and offers the address to the other members; each maps the leader's heap
 * and answers whether it could; then the leader tells all of them whether the area is used. An
 * offer may come before its receiver has begun its first collective: it is kept.
 *
 * When a group goes, members forget its areas at once; the leader keeps the memory until every
 * member's DONE counter has reached the last tick, because others may still be reading.
 */
#include "coll/shared/area.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/shared/shared.h"
#include "p2p/message.h"
#include "util/log.h"
#include "util/option.h"

enum note_kind {
    NOTE_OFFER,  /* leader to member: an area at `address` */
    NOTE_ANSWER, /* member to leader: mapped (flag), or not */
    NOTE_COMMIT, /* leader to member: it is used (flag), or not */
    NOTE_KINDS
};

struct area_note {
    uint64_t identity;
    uint64_t address;
    uint16_t kind;
    uint16_t role;
    uint32_t size;
    uint32_t flag;
    uint32_t crowded;
};

/* An offer that came early. */
struct area_offer {
    struct list link;
    struct area_note note;
};

static struct device *heap_device(const struct context *context)
{
    for (size_t i = 0; i < context->core->device_count; i++)
        if (context->core->devices[i]->ops->heap_alloc != NULL)
            return context->core->devices[i];
    return NULL;
}

static void tell(struct area *area, uint32_t member, struct area_note note)
{
    note.identity = area->identity;
    note.role = (uint16_t)area->role;
    note.size = area->size;
    note.crowded = area->crowded;
    /* A member that has gone ends its collectives elsewhere. */
    message_send(area->shared->context, area->endpoints[member], MESSAGE_SHARED, &note,
                 sizeof(note), NULL, 0, NULL, NULL);
}

/* ---- the leader ---- */

static void commit(struct area *area)
{
    area->state = area->refused ? AREA_FAILED : AREA_READY;
    for (uint32_t i = 1; i < area->size; i++)
        tell(area, i, (struct area_note){.kind = NOTE_COMMIT, .flag = !area->refused});
    if (area->refused)
        log_debug("collectives of geometry %#lx use messages: no shared area",
                  (unsigned long)area->identity);
}

static int allocate(struct area *area)
{
    struct shared *shared = area->shared;
    struct device *device = heap_device(shared->context);
    size_t bytes = area_bytes(shared, area->size);
    int error;

    if (device == NULL)
        return -ENODEV;
    if (bytes > shared->area_bytes)
        return -ENOSPC;
    error = device->ops->heap_alloc(device, bytes, 4096, -1, &area->block);
    if (error != 0)
        return error;
    area->memory = area->block;
    memset(area->memory, 0, area_control_bytes(area->size));
    return 0;
}

static void offer(struct area *area)
{
    area->crowded = area->shared->context->core->yield == YIELD_SOON;
    area->refused = allocate(area) != 0;
    if (area->refused || area->size == 1) {
        commit(area);
        return;
    }
    for (uint32_t i = 1; i < area->size; i++)
        tell(area, i, (struct area_note){.kind = NOTE_OFFER, .address = (uintptr_t)area->memory});
}

/* ---- the others ---- */

static bool map(struct area *area, const struct area_note *note)
{
    struct context *context = area->shared->context;
    struct device *device = heap_device(context);
    size_t bytes = area_bytes(area->shared, area->size);
    struct heap_view view;
    uint64_t offset;

    if (device == NULL || note->size != area->size ||
        device->ops->heap_view(device, endpoint_task(area->endpoints[0]), &view) != 0)
        return false;
    offset = note->address - view.remote;
    if (offset >= view.bytes || bytes > view.bytes - offset)
        return false;
    area->memory = view.local + offset;
    area->crowded = note->crowded != 0;
    return true;
}

static void answer(struct area *area, const struct area_note *note)
{
    tell(area, 0, (struct area_note){.kind = NOTE_ANSWER, .flag = map(area, note)});
}

/* ---- notes ---- */

static struct area *area_find(const struct shared *shared, uint64_t identity, uint32_t role)
{
    struct list *item;

    list_for_each (item, &shared->areas) {
        struct area *area = list_entry(item, struct area, link);

        if (area->identity == identity && area->role == role && !area->closing)
            return area;
    }
    return NULL;
}

static void keep_offer(struct shared *shared, const struct area_note *note)
{
    struct area_offer *early = malloc(sizeof(*early));

    if (early == NULL) {
        shared->context->counters[COUNTER_LOST]++;
        return;
    }
    early->note = *note;
    list_push_back(&shared->offers, &early->link);
}

static void on_note(pami_context_t handle, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct shared *shared = cookie;
    struct area_note note;
    struct area *area;

    (void)handle, (void)data, (void)bytes, (void)origin, (void)recv;
    if (header_bytes != sizeof(note))
        return;
    memcpy(&note, header, sizeof(note));
    area = area_find(shared, note.identity, note.role);
    if (note.kind == NOTE_OFFER && area == NULL)
        keep_offer(shared, &note);
    if (area == NULL || area->state != AREA_OPENING)
        return;
    if (note.kind == NOTE_OFFER) {
        answer(area, &note);
    } else if (note.kind == NOTE_COMMIT) {
        area->state = note.flag ? AREA_READY : AREA_FAILED;
    } else if (note.kind == NOTE_ANSWER) {
        area->refused = area->refused || !note.flag;
        if (++area->answers == area->size - 1)
            commit(area);
    }
    shared_poll_later(area);
}

/* ---- areas ---- */

static void take_offer(struct area *area)
{
    struct list *item;

    list_for_each (item, &area->shared->offers) {
        struct area_offer *early = list_entry(item, struct area_offer, link);

        if (early->note.identity == area->identity && early->note.role == area->role) {
            list_remove(item);
            answer(area, &early->note);
            free(early);
            return;
        }
    }
}

static bool make_scratch(struct shared *shared)
{
    for (int i = 0; i < 2; i++)
        if (shared->scratch[i] == NULL)
            shared->scratch[i] = aligned_alloc(CACHE_LINE, shared->buffer_bytes);
    return shared->scratch[0] != NULL && shared->scratch[1] != NULL;
}

struct area *area_get(struct shared *shared, uint64_t identity, enum area_role role,
                      const uint32_t *endpoints, uint32_t size)
{
    struct area *area = area_find(shared, identity, role);

    if (area != NULL)
        return area;
    if (!make_scratch(shared))
        return NULL;
    area = calloc(1, sizeof(*area));
    if (area == NULL)
        return NULL;
    area->endpoints = malloc(size * sizeof(*endpoints));
    if (area->endpoints == NULL) {
        free(area);
        return NULL;
    }
    memcpy(area->endpoints, endpoints, size * sizeof(*endpoints));
    area->shared = shared;
    area->identity = identity;
    area->role = role;
    area->size = size;
    while (area->endpoints[area->rank] != shared->context->endpoint)
        area->rank++;
    list_init(&area->machines);
    list_init(&area->active);
    list_push_back(&shared->areas, &area->link);
    if (area->rank == 0)
        offer(area);
    else
        take_offer(area);
    return area;
}

void area_drop(struct area *area)
{
    struct device *device = heap_device(area->shared->context);

    if (area->block != NULL)
        device->ops->heap_free(device, area->block);
    list_remove(&area->link);
    list_remove(&area->active);
    free(area->endpoints);
    free(area);
}

bool area_all_done(struct area *area, uint64_t tick)
{
    uint64_t least = UINT64_MAX;

    if (area->known_done >= tick)
        return true;
    for (uint32_t i = 0; i < area->size; i++) {
        uint64_t done =
            atomic_load_explicit(&area_done(area, i)->count, memory_order_acquire); /* A4 */

        least = done < least ? done : least;
    }
    area->known_done = least;
    return least >= tick;
}

bool area_may_go(struct area *area)
{
    return area->block == NULL || area->state != AREA_READY || area_all_done(area, area->reserved);
}

void area_group_closed(struct shared *shared, uint64_t identity)
{
    struct list *item;

    list_for_each (item, &shared->areas) {
        struct area *area = list_entry(item, struct area, link);

        if (area->identity != identity || area->closing)
            continue;
        area->closing = true;
        shared_poll_later(area); /* which drops it, not in the middle of a look at it */
    }
}

int shared_attach(struct context *context)
{
    struct shared *shared = calloc(1, sizeof(*shared));

    if (shared == NULL)
        return -ENOMEM;
    shared->context = context;
    shared->buffer_bytes = option_bytes(OPT_COLL_SHARED_BUFFER);
    shared->area_bytes = option_bytes(OPT_COLL_SHARED_BYTES);
    list_init(&shared->areas);
    list_init(&shared->offers);
    shared_machines_init(shared);
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
    while (!list_empty(&shared->areas)) {
        struct area *area = list_entry(shared->areas.next, struct area, link);

        while ((item = list_pop_front(&area->machines)) != NULL)
            list_init(item);
        /* Neighbours may still read: the pages go with the client. */
        if (!area_may_go(area))
            area->block = NULL;
        area_drop(area);
    }
    while ((item = list_pop_front(&shared->offers)) != NULL)
        free(list_entry(item, struct area_offer, link));
    free(shared->scratch[0]);
    free(shared->scratch[1]);
    free(shared);
    context->shared = NULL;
}
