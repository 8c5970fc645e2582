/*
 * Active-message collectives on a member: messages and dispatch; see am.h.
 *
 * A message becomes a struct am_part. Its dispatch function is called as soon as geometry and id
 * are known; parts of one geometry and id stay in order, as a part waits behind the one before.
 */
#include "coll/am.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "type/type.h"
#include "util/error.h"
#include "util/log.h"

/* ---- a member's part ---- */

struct am_part *am_part_new(struct am *am, const struct am_wire *wire, uint32_t origin,
                            const void *header, size_t header_bytes)
{
    struct am_part *part = calloc(1, sizeof(*part));

    if (part == NULL)
        return NULL;
    part->header = malloc(header_bytes + 8);
    if (part->header == NULL) {
        free(part);
        return NULL;
    }
    part->am = am;
    part->wire = *wire;
    part->origin = origin;
    part->header_bytes = header_bytes;
    if (header_bytes != 0)
        memcpy(part->header, header, header_bytes);
    list_init(&part->link);
    return part;
}

void am_part_free(struct am_part *part)
{
    am_part_wait_no_more(part);
    list_remove(&part->link);
    type_unref(part->type);
    free(part->header);
    free(part->data);
    free(part->text);
    free(part);
}

/* What it will end with, and this thread's text. */
static void part_fail(struct am_part *part, pami_result_t result)
{
    free(part->text);
    part->result = result;
    part->text = error_copy();
}

/* Writes part->data where the dispatch function wanted the data. 0 or negative errno. */
static int unpack(struct am_part *part)
{
    const pami_recv_t *recv = &part->recv;

    if (recv->addr == NULL || part->wire.bytes == 0 || recv->data_fn == PAMI_DATA_NOOP)
        return 0;
    if (part->type == NULL)
        return -EINVAL;
    return type_transform(part->data, type_complete_from_handle(PAMI_TYPE_BYTE), 0, recv->addr,
                          part->type, recv->offset, part->wire.bytes, recv->data_fn,
                          recv->data_cookie);
}

/* The data is where it was wanted, or will never be; also the end of a contribution. */
static void part_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct am_part *part = cookie;
    pami_recv_t recv;

    if (result == PAMI_SUCCESS && part->result != PAMI_SUCCESS) {
        result = part->result;
        error_recall(part->text);
        part->text = NULL;
    }
    if (part->data != NULL && result == PAMI_SUCCESS && part->wire.kind <= AM_SCATTER &&
        unpack(part) != 0)
        result = error_set(PAMI_INVAL, "receive: type or data_fn: cannot take the data");
    recv = part->recv;
    am_part_free(part);
    if (recv.local_fn != NULL)
        recv.local_fn(context, recv.cookie, result);
}

/* Data that is still to come goes straight to its place, or through memory of ours when a function
 * of the user is to see it. */
static void receive_data(struct am_part *part)
{
    struct receive *deferred = part->deferred;
    struct message_place place = {.address = part->recv.addr, .offset = part->recv.offset};

    part->deferred = NULL;
    if (part->recv.data_fn == PAMI_DATA_COPY) {
        place.type = place.address != NULL ? part->type : NULL;
        if (place.type == NULL && place.address != NULL)
            part_fail(part, error_set(PAMI_INVAL, "receive: type: not a complete type"));
    } else {
        part->data = malloc(part->wire.bytes);
        if (part->data == NULL)
            part_fail(part, error_set(PAMI_ENOMEM, "receive: out of memory"));
        place = (struct message_place){.address = part->data};
    }
    if (part->result != PAMI_SUCCESS)
        place = (struct message_place){.address = NULL};
    message_resume(deferred, &place, part_done, part);
}

/* What the dispatch function has named can be sent. */
static bool has_contribution(const struct am_part *part)
{
    const struct type *type = part->type;

    return part->wire.bytes == 0 || (type != NULL && type_data_size(type) != 0 &&
                                     (part->recv.addr != NULL || !type_is_contiguous(type)));
}

/* The initiator must not wait for a contribution that there is not. False: no memory to say so. */
static bool refuse(struct context *context, uint32_t origin, const struct am_wire *asked)
{
    const struct message_place nothing = {.address = NULL};
    struct am_wire wire = *asked;

    wire.kind = AM_REFUSAL;
    return message_send(context, origin, MESSAGE_AMCOLLECTIVE, &wire, sizeof(wire), &nothing, 0,
                        NULL, NULL) != -ENOMEM;
}

pami_result_t am_not_sent(int error, uint32_t endpoint)
{
    if (error == -ENOMEM)
        return error_set(PAMI_ENOMEM, "PAMI_Collective: out of memory");
    if (error == -EINVAL)
        return error_set(PAMI_INVAL, "PAMI_Collective: type or addr: the dispatch function has "
                                     "named nothing that could be sent");
    return error_set(PAMI_ERROR, "PAMI_Collective: endpoint %u of task %u has gone", endpoint,
                     endpoint_task(endpoint));
}

/* The contribution, or word that there is none: as message_send. */
static int answer(struct am_part *part)
{
    struct context *context = part->am->context;
    struct am_wire wire = part->wire;
    const struct message_place place = {
        .address = part->recv.addr, .type = part->type, .offset = part->recv.offset};
    int sent = -EINVAL;

    wire.kind = AM_ANSWER;
    if (has_contribution(part))
        sent = message_send(context, part->origin, MESSAGE_AMCOLLECTIVE, &wire, sizeof(wire),
                            &place, wire.bytes, part_done, part);
    if (sent >= 0 || sent == -ENOMEM)
        return sent;
    part_fail(part, am_not_sent(sent, part->origin));
    return refuse(context, part->origin, &part->wire) ? MESSAGE_SENT : -ENOMEM;
}

/* To the initiator; without memory in a later pass. */
static void contribute(struct am_part *part)
{
    struct am *am = part->am;
    int sent = answer(part);

    if (sent == -ENOMEM) {
        list_remove(&part->link);
        list_push_back(&am->owing, &part->link);
        if (list_empty(&am->retry.link))
            list_push_back(&am->context->retries, &am->retry.link);
        return;
    }
    if (sent != 0 && context_complete(am->context, part_done, part, PAMI_SUCCESS) != 0)
        part_done(am->context, part, PAMI_ENOMEM);
}

static int contribute_owed(struct retry *retry, struct context *context)
{
    struct am *am = container_of(retry, struct am, retry);
    struct list *item, owing;

    (void)context;
    list_remove(&retry->link);
    list_init(&owing);
    list_splice_back(&owing, &am->owing);
    while ((item = list_pop_front(&owing)) != NULL) {
        list_push_back(&am->parts, item);
        contribute(list_entry(item, struct am_part, link));
    }
    return 1;
}

void am_part_dispatch(struct am_part *part, struct group *group, const struct am_row *row)
{
    struct context *context = part->am->context;
    pami_geometry_t geometry = group->geometry;
    pami_recv_t *recv = &part->recv;

    am_part_wait_no_more(part);
    list_push_back(&part->am->parts, &part->link);
    *recv = (pami_recv_t){.type = PAMI_TYPE_BYTE, .data_fn = PAMI_DATA_COPY};
    switch (part->wire.kind) {
    case AM_BROADCAST:
        row->function.ambroadcast(context, row->cookie, part->header, part->header_bytes, NULL,
                                  part->wire.bytes, part->origin, geometry, recv);
        break;
    case AM_SCATTER:
        row->function.amscatter(context, row->cookie, part->header, part->header_bytes, NULL,
                                part->wire.bytes, part->origin, geometry, recv);
        break;
    case AM_GATHER:
        row->function.amgather(context, row->cookie, part->header, part->header_bytes,
                               part->wire.bytes, part->origin, geometry, recv);
        break;
    default:
        row->function.amreduce(context, row->cookie, part->header, part->header_bytes,
                               part->wire.bytes, part->origin, geometry, &part->op, recv);
    }
    if (recv->type == PAMI_TYPE_NULL) /* the program has zeroed the whole structure first */
        recv->type = PAMI_TYPE_BYTE;
    part->type = type_complete_from_handle(recv->type);
    if (part->type != NULL)
        type_ref(part->type);
}

/* The dispatch function may be called now. */
static void part_run(struct am_part *part, struct group *group, const struct am_row *row)
{
    am_part_dispatch(part, group, row);
    if (part->wire.kind >= AM_GATHER)
        contribute(part);
    else if (part->deferred != NULL)
        receive_data(part);
    else
        part_done(part->am->context, part, PAMI_SUCCESS);
}

/* The message's sender, or this process, has gone before its data was fetched; the dispatch
 * function may be at it. */
static void part_lost(pami_context_t context, void *cookie, pami_result_t result)
{
    struct am_part *part = cookie;
    struct am_ids *ids;

    (void)context;
    if (part->row == NULL) {
        part->deferred = NULL;
        part_fail(part, result);
        return;
    }
    ids = part->row->ids;
    am_part_free(part);
    am_ids_reap(ids);
}

/* No dispatch function will ever see it. False: no memory, it stays. */
static bool part_drop(struct am_part *part)
{
    const struct message_place nothing = {.address = NULL};
    struct receive *deferred = part->deferred;

    if (part->wire.kind >= AM_GATHER && !refuse(part->am->context, part->origin, &part->wire))
        return false;
    if (deferred == NULL) {
        am_part_free(part);
        return true;
    }
    am_part_wait_no_more(part);
    list_push_back(&part->am->parts, &part->link);
    part->deferred = NULL;
    part->result = PAMI_ERROR;
    message_resume(deferred, &nothing, part_done, part);
    return true;
}

/* How many; without memory some stay. */
static size_t drop_parts(struct am_ids *ids)
{
    size_t count = 0, cursor = 0;
    struct am_row *row;
    struct list *item;

    while ((row = u64map_next(&ids->rows, &cursor)) != NULL)
        for (; (item = list_first(&row->held)) != NULL; count++)
            if (!part_drop(list_entry(item, struct am_part, link)))
                return count;
    ids->over = false;
    list_remove(&ids->link);
    am_ids_reap(ids);
    return count;
}

size_t am_drop_over(struct am *am)
{
    struct list *item, *following;
    size_t count = 0;

    list_for_each_safe (item, following, &am->over) {
        count += drop_parts(list_entry(item, struct am_ids, link));
    }
    return count;
}

/* A dispatch function may set ids and destroy geometries. */
void am_run_ready(struct am *am)
{
    struct list *item;

    while ((item = list_first(&am->ready)) != NULL) {
        struct am_row *row = list_entry(item, struct am_row, ready);

        part_run(list_entry(list_first(&row->held), struct am_part, link), row->ids->group, row);
    }
}

static bool take_data(struct am_part *part, const void *data, pami_recv_t *recv)
{
    if (recv != NULL) {
        part->deferred = message_defer(recv, part_lost, part);
        return true;
    }
    if (part->wire.kind > AM_SCATTER || part->wire.bytes == 0)
        return true;
    part->data = malloc(part->wire.bytes);
    if (part->data != NULL)
        memcpy(part->data, data, part->wire.bytes);
    return part->data != NULL;
}

static void on_message(pami_context_t handle, void *cookie, const void *header, size_t header_bytes,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct context *context = handle;
    struct am *am = cookie;
    struct am_row *row;
    struct am_wire wire;
    struct am_part *part;

    if (header_bytes < sizeof(wire)) {
        log_warn("refused an active-message collective without its description");
        return;
    }
    memcpy(&wire, header, sizeof(wire));
    if (wire.kind >= AM_KINDS ||
        bytes != (wire.kind <= AM_SCATTER || wire.kind == AM_ANSWER ? wire.bytes : 0)) {
        log_warn("refused an active-message collective whose sizes contradict each other");
        return;
    }
    if (wire.kind >= AM_ANSWER) {
        am_answer(am, &wire, origin, data, recv);
        return;
    }
    row = am_row_find(am, wire.identity, wire.id);
    if (unlikely(row == NULL || !row->set) && am_is_over(am, wire.identity)) {
        if (wire.kind >= AM_GATHER && !refuse(context, origin, &wire))
            message_put_back(context, recv);
        else if (recv != NULL)
            message_accept(recv, &(const struct message_place){.address = NULL}, NULL, NULL);
        return;
    }
    part = am_part_new(am, &wire, origin, (const char *)header + sizeof(wire),
                       header_bytes - sizeof(wire));
    if (part != NULL && row == NULL)
        row = am_row_get(am, wire.identity, wire.id);
    if (part == NULL || row == NULL || !take_data(part, data, recv)) {
        if (wire.kind < AM_GATHER || !refuse(context, origin, &wire))
            message_put_back(context, recv);
        if (row != NULL)
            am_ids_reap(row->ids);
        if (part != NULL)
            am_part_free(part);
        return;
    }
    /* What was deferred is resumed when its handler has returned. */
    if (row->set && list_empty(&row->held) && recv == NULL)
        part_run(part, row->ids->group, row);
    else
        am_part_wait(part, row);
}

/* ---- contexts ---- */

static void parts_free(struct list *parts)
{
    struct list *item;

    while ((item = list_pop_front(parts)) != NULL) {
        list_init(item);
        am_part_free(list_entry(item, struct am_part, link));
    }
}

int am_attach(struct context *context)
{
    struct am *am = calloc(1, sizeof(*am));

    if (am == NULL)
        return -ENOMEM;
    am->context = context;
    am_ids_init(am);
    list_init(&am->parts);
    list_init(&am->owing);
    list_init(&am->retry.link);
    am->retry.run = contribute_owed;
    am_start_init(am);
    context->am = am;
    message_register(context, MESSAGE_AMCOLLECTIVE, on_message, am);
    return 0;
}

void am_detach(struct context *context)
{
    struct am *am = context->am;

    if (am == NULL)
        return;
    am_start_finish(am);
    am_ids_finish(am);
    parts_free(&am->parts);
    parts_free(&am->owing);
    list_remove(&am->retry.link);
    free(am);
    context->am = NULL;
}
