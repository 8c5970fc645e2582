/*
 * The initiator's side of active-message collectives; see am.h.
 *
 * One message to every other member; the initiator's own part is run from the next advance, like
 * everybody's. A broadcast is over when its buffers may be used again, the others when also all
 * contributions have been received: the initiator's own local_fn tells the user so, hence it is
 * called last. A reduction combines strictly in rank order, from the last member to the first, as
 * far as contributions have come.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/am.h"
#include "coll/arguments.h"
#include "coll/coll.h"
#include "type/type.h"
#include "util/error.h"

/* What is known of one member's contribution. */
struct am_block {
    struct am_operation *operation;
    uint32_t rank;
    bool begun; /* the answer is on its way in */
    bool there;
    char *data; /* reduce: packed, owned */
};

struct am_operation {
    struct list link;
    struct am *am;
    struct group *group;
    enum am_kind kind;
    uint32_t number;
    size_t waiting;           /* buffers in use, contributions to come, own part */
    pami_result_t result;     /* the first failure, ... */
    char *text;               /* ... from error_copy */
    pami_event_function done; /* broadcast */
    void *cookie;
    char *buffer; /* of the user: source or destination */
    struct type *type;
    size_t count;
    uint64_t bytes;          /* of a block */
    struct am_part *own;     /* NULL: broadcast */
    struct am_block *blocks; /* gather and reduce: one per member */
    uint32_t next;           /* reduce: members that are not combined yet, the last of them next */
    bool dispatched;         /* reduce: operator and element kind are known */
    enum type_kind element;
    void *data_cookie;
};

/* The four argument structures in one. */
struct am_arguments {
    size_t dispatch;
    const char *headers;
    size_t header_bytes;
    size_t header_step; /* 0: one header for everybody */
    char *buffer;
    pami_type_t type;
    size_t count;
    void *data_cookie;
    const char *names[3]; /* of headers, buffer and type, for error texts */
};

static void fill_arguments(struct am_arguments *a, enum am_kind kind, const pami_collective_t *cmd)
{
    const pami_ambroadcast_t *broadcast = &cmd->xfer_ambroadcast;
    const pami_amscatter_t *scatter = &cmd->xfer_amscatter;
    const pami_amgather_t *gather = &cmd->xfer_amgather;
    const pami_amreduce_t *reduce = &cmd->xfer_amreduce;

    switch (kind) {
    case AM_BROADCAST:
        *a = (struct am_arguments){
            .dispatch = broadcast->dispatch,
            .headers = broadcast->user_header,
            .header_bytes = broadcast->headerlen,
            .buffer = broadcast->sndbuf,
            .type = broadcast->stype,
            .count = broadcast->stypecount,
            .names = {"user_header", "sndbuf", "stype"},
        };
        break;
    case AM_SCATTER:
        *a = (struct am_arguments){
            .dispatch = scatter->dispatch,
            .headers = scatter->headers,
            .header_bytes = scatter->headerlen,
            .header_step = scatter->headerlen,
            .buffer = scatter->sndbuf,
            .type = scatter->stype,
            .count = scatter->stypecount,
            .names = {"headers", "sndbuf", "stype"},
        };
        break;
    case AM_GATHER:
        *a = (struct am_arguments){
            .dispatch = gather->dispatch,
            .headers = gather->headers,
            .header_bytes = gather->headerlen,
            .header_step = gather->headerlen,
            .buffer = gather->rcvbuf,
            .type = gather->rtype,
            .count = gather->rtypecount,
            .names = {"headers", "rcvbuf", "rtype"},
        };
        break;
    default:
        *a = (struct am_arguments){
            .dispatch = reduce->dispatch,
            .headers = reduce->user_header,
            .header_bytes = reduce->headerlen,
            .buffer = reduce->rcvbuf,
            .type = reduce->rtype,
            .count = reduce->rtypecount,
            .data_cookie = reduce->data_cookie,
            .names = {"user_header", "rcvbuf", "rtype"},
        };
    }
    if (a->count == 0 && type_complete_from_handle(a->type) == NULL)
        a->type = PAMI_TYPE_BYTE;
}

static pami_result_t check_arguments(const struct am *am, const struct group *group,
                                     const struct am_arguments *a)
{
    const struct am_row *row = am_row_find(am, group->identity, a->dispatch);
    const struct type *type = type_complete_from_handle(a->type);
    size_t bytes;

    if (row == NULL || !row->set)
        return error_set(PAMI_INVAL,
                         "PAMI_Collective: dispatch: %zu is not set on this context and geometry",
                         a->dispatch);
    if (a->headers == NULL && a->header_bytes != 0)
        return error_set(PAMI_INVAL, "PAMI_Collective: %s: NULL with %zu bytes", a->names[0],
                         a->header_bytes);
    if (a->header_bytes > UINT32_MAX / 2)
        return error_set(PAMI_INVAL, "PAMI_Collective: headerlen: %zu bytes are too many",
                         a->header_bytes);
    if (type == NULL)
        return error_set(PAMI_INVAL, "PAMI_Collective: %s: not a complete type", a->names[2]);
    if (__builtin_mul_overflow(type_data_size(type), a->count, &bytes) ||
        bytes > BYTES_MAX / group->size)
        return error_set(PAMI_INVAL, "PAMI_Collective: %scount: %zu instances are too many",
                         a->names[2], a->count);
    if (a->buffer == NULL && bytes != 0 && type_is_contiguous(type))
        return error_set(PAMI_INVAL, "PAMI_Collective: %s: NULL with %zu bytes", a->names[1],
                         bytes);
    return PAMI_SUCCESS;
}

/* The buffer may be NULL, as in area_at. */
static char *block_of(const struct am_operation *operation, uint32_t rank)
{
    size_t step = operation->count * type_extent(operation->type);

    if (operation->kind == AM_SCATTER || operation->kind == AM_GATHER)
        return (char *)((uintptr_t)operation->buffer + rank * step);
    return operation->buffer;
}

/* ---- the end ---- */

static void operation_free(struct am_operation *operation)
{
    coll_ends(operation->group);
    if (operation->blocks != NULL)
        u64map_remove(&operation->am->asking, operation->number);
    for (uint32_t i = 0; operation->blocks != NULL && i < operation->group->size; i++)
        free(operation->blocks[i].data);
    free(operation->blocks);
    if (operation->own != NULL)
        am_part_free(operation->own);
    type_unref(operation->type);
    list_remove(&operation->link);
    free(operation->text);
    free(operation);
}

static void operation_end(pami_context_t context, void *cookie, pami_result_t result)
{
    struct am_operation *operation = cookie;
    pami_event_function done = operation->done;
    void *user = operation->cookie;

    if (operation->result != PAMI_SUCCESS) {
        result = operation->result;
        error_recall(operation->text);
        operation->text = NULL;
    }
    if (operation->own != NULL) {
        done = operation->own->recv.local_fn;
        user = operation->own->recv.cookie;
    }
    operation_free(operation);
    if (done != NULL)
        done(context, user, result);
}

/* With this thread's text. */
static void operation_fail(struct am_operation *operation, pami_result_t result)
{
    if (operation->result != PAMI_SUCCESS)
        return;
    operation->result = result;
    operation->text = error_copy();
}

/* One of the things that the operation waits for has come about. */
static void operation_less(struct am_operation *operation, pami_result_t result)
{
    if (result != PAMI_SUCCESS)
        operation_fail(operation, result);
    if (--operation->waiting != 0)
        return;
    if (context_complete(operation->am->context, operation_end, operation, PAMI_SUCCESS) != 0)
        operation_end(operation->am->context, operation,
                      error_set(PAMI_ENOMEM, "PAMI_Collective: out of memory"));
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    operation_less(cookie, result);
}

/* ---- contributions ---- */

static void combine_one(const struct am_operation *operation, char *into, const char *lower)
{
    pami_data_function op = operation->own->op;

    if (operator_is_user(op))
        op(into, (void *)(uintptr_t)lower, operation->bytes, operation->data_cookie);
    else
        operator_apply(op, operation->element, into, lower, operation->bytes);
}

/* Combine what has come, in order, and write the result when it is complete. */
static void combine(struct am_operation *operation)
{
    uint32_t last = operation->group->size - 1;
    struct am_block *all = operation->blocks;
    struct type_cursor cursor;

    while (operation->dispatched && operation->next > 0 && all[operation->next - 1].there) {
        struct am_block *block = &all[--operation->next];

        if (block->data == NULL && operation->bytes != 0)
            continue; /* it will not come; the operation has failed */
        if (block->rank != last && operation->bytes != 0 && operation->result == PAMI_SUCCESS) {
            combine_one(operation, all[last].data, block->data);
            free(block->data);
            block->data = NULL;
        }
        if (operation->next == 0 && operation->bytes != 0 && operation->result == PAMI_SUCCESS) {
            type_cursor_init(&cursor, operation->type, operation->buffer, 0);
            type_unpack(&cursor, all[last].data, operation->bytes);
        }
    }
}

static void block_there(struct am_block *block, pami_result_t result)
{
    struct am_operation *operation = block->operation;

    if (result != PAMI_SUCCESS)
        operation_fail(operation, result);
    block->there = true;
    if (operation->kind == AM_REDUCE)
        combine(operation);
    operation_less(operation, result);
}

static void on_block(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    block_there(cookie, result);
}

/* The block that an answer belongs to, NULL: none that waits for it. */
static struct am_block *block_find(struct am *am, const struct am_wire *wire, uint32_t origin)
{
    struct am_operation *operation = u64map_get(&am->asking, wire->number);
    uint32_t rank;

    if (operation == NULL || operation->bytes != wire->bytes ||
        operation->group->identity != wire->identity)
        return NULL;
    rank = topology_rank(operation->group->topology, origin);
    if (rank == TOPOLOGY_NO_RANK || operation->blocks[rank].begun)
        return NULL;
    return &operation->blocks[rank];
}

void am_answer(struct am *am, const struct am_wire *wire, uint32_t origin, const void *data,
               pami_recv_t *recv)
{
    struct am_block *block = block_find(am, wire, origin);
    struct message_place place = {.address = NULL};
    struct am_operation *operation;
    struct type_cursor cursor;

    if (block != NULL)
        block->begun = true;
    if (block == NULL || wire->kind == AM_REFUSAL) {
        if (recv != NULL)
            message_accept(recv, &place, NULL, NULL);
        if (block != NULL)
            block_there(block, error_set(PAMI_ERROR,
                                         "PAMI_Collective: rank %u has nothing that it "
                                         "could contribute",
                                         block->rank));
        return;
    }
    operation = block->operation;
    if (operation->kind == AM_GATHER)
        place = (struct message_place){.address = block_of(operation, block->rank),
                                       .type = operation->type};
    else
        place.address = block->data = malloc(wire->bytes + 1);
    if (operation->kind == AM_REDUCE && block->data == NULL)
        operation_fail(operation, error_set(PAMI_ENOMEM, "PAMI_Collective: out of memory"));
    if (recv != NULL) {
        message_accept(recv, &place, on_block, block);
        return;
    }
    if (wire->bytes != 0 && operation->kind == AM_GATHER) {
        type_cursor_init(&cursor, operation->type, place.address, 0);
        type_unpack(&cursor, data, wire->bytes);
    } else if (wire->bytes != 0 && block->data != NULL) {
        memcpy(block->data, data, wire->bytes);
    }
    block_there(block, PAMI_SUCCESS);
}

/* ---- the initiator's own part ---- */

/* What it has named combines blocks of so many bytes. */
static pami_result_t check_operator(const struct am_operation *operation)
{
    pami_data_function op = operation->own->op;
    enum type_kind kind = type_kind(operation->own->type);

    if (op == PAMI_DATA_COPY || op == PAMI_DATA_NOOP)
        return error_set(PAMI_INVAL, "PAMI_Collective: op: the dispatch function named none, or "
                                     "copying, which is no reduction");
    if (operator_check(op, kind) != 0)
        return error_set(PAMI_INVAL, "PAMI_Collective: op: means nothing for the elements of the "
                                     "contribution's type");
    if (!operator_is_user(op) && operation->bytes % type_kind_size(kind) != 0)
        return error_set(PAMI_INVAL,
                         "PAMI_Collective: rtypecount: %llu bytes are no whole elements of %zu "
                         "bytes, which the contribution has",
                         (unsigned long long)operation->bytes, type_kind_size(kind));
    return PAMI_SUCCESS;
}

/* Between the user's buffer and what the own dispatch function named. */
static pami_result_t own_data(struct am_operation *operation)
{
    struct am_part *part = operation->own;
    const pami_recv_t *recv = &part->recv;
    const struct type *type = part->type;
    struct type *bytes = type_complete_from_handle(PAMI_TYPE_BYTE);
    struct am_block *block = operation->blocks + operation->group->rank;
    char *mine = block_of(operation, operation->group->rank);
    pami_result_t result;
    int error = 0;

    if (type == NULL || (operation->bytes != 0 && type_data_size(type) == 0))
        return error_set(PAMI_INVAL, "PAMI_Collective: type: the dispatch function named none");
    if (operation->bytes == 0)
        return PAMI_SUCCESS;
    if (operation->kind >= AM_GATHER && recv->addr == NULL && type_is_contiguous(type))
        return error_set(PAMI_INVAL, "PAMI_Collective: addr: the dispatch function named none");
    if (operation->kind == AM_SCATTER) {
        if (recv->addr != NULL && recv->data_fn != PAMI_DATA_NOOP)
            error = type_transform(mine, operation->type, 0, recv->addr, type, recv->offset,
                                   operation->bytes, recv->data_fn, recv->data_cookie);
    } else if (operation->kind == AM_GATHER) {
        if (recv->addr != mine || recv->offset != 0 || type != operation->type)
            error = type_transform(recv->addr, type, recv->offset, mine, operation->type, 0,
                                   operation->bytes, PAMI_DATA_COPY, NULL);
    } else {
        result = check_operator(operation);
        if (result != PAMI_SUCCESS)
            return result;
        block->data = malloc(operation->bytes);
        error = block->data == NULL
                    ? -ENOMEM
                    : type_transform(recv->addr, type, recv->offset, block->data, bytes, 0,
                                     operation->bytes, PAMI_DATA_COPY, NULL);
    }
    if (error == -ENOMEM)
        return error_set(PAMI_ENOMEM, "PAMI_Collective: out of memory");
    return error == 0 ? PAMI_SUCCESS
                      : error_set(PAMI_INVAL, "PAMI_Collective: type, offset or data_fn: the "
                                              "dispatch function named some that do not fit");
}

static void own_run(pami_context_t context, void *cookie, pami_result_t result)
{
    struct am_operation *operation = cookie;
    struct am_part *part = operation->own;
    const struct am_row *row = am_row_find(operation->am, part->wire.identity, part->wire.id);

    (void)context;
    if (row == NULL || !row->set) {
        operation_less(operation, error_set(PAMI_INVAL,
                                            "PAMI_Collective: dispatch: %llu is not set "
                                            "on this context and geometry any more",
                                            (unsigned long long)part->wire.id));
        return;
    }
    am_part_dispatch(part, operation->group, row);
    result = own_data(operation);
    if (operation->blocks == NULL) {
        operation_less(operation, result);
        return;
    }
    operation->dispatched = true;
    operation->element = part->type != NULL ? type_kind(part->type) : TYPE_KIND_NONE;
    operation->blocks[operation->group->rank].begun = true;
    block_there(&operation->blocks[operation->group->rank], result);
}

/* ---- the beginning ---- */

static struct am_operation *operation_new(struct am *am, struct group *group, enum am_kind kind,
                                          const struct am_arguments *a, const pami_xfer_t *xfer)
{
    struct am_operation *operation = calloc(1, sizeof(*operation));

    if (operation == NULL)
        return NULL;
    list_init(&operation->link);
    operation->am = am;
    operation->group = group;
    coll_runs(group);
    operation->kind = kind;
    operation->number = ++am->numbers;
    operation->done = kind == AM_BROADCAST ? xfer->cb_done : NULL;
    operation->cookie = xfer->cookie;
    operation->buffer = a->buffer;
    operation->type = type_ref(type_complete_from_handle(a->type));
    operation->count = a->count;
    operation->bytes = type_data_size(operation->type) * a->count;
    operation->data_cookie = a->data_cookie;
    operation->next = group->size;
    operation->waiting = 1;
    if (kind < AM_GATHER)
        return operation;
    operation->blocks = calloc(group->size, sizeof(*operation->blocks));
    if (operation->blocks == NULL || u64map_put(&am->asking, operation->number, operation) != 0) {
        operation_free(operation);
        return NULL;
    }
    for (uint32_t i = 0; i < group->size; i++)
        operation->blocks[i] = (struct am_block){.operation = operation, .rank = i};
    return operation;
}

/* The message to one member, whose `wire` lies in front of room for the header. */
static void send_to(struct am_operation *operation, const struct am_arguments *a, uint32_t rank,
                    char *message)
{
    struct context *context = operation->am->context;
    uint32_t endpoint = topology_endpoint(operation->group->topology, rank);
    struct message_place place = {.address = block_of(operation, rank), .type = operation->type};
    bool asks = operation->kind >= AM_GATHER;
    pami_result_t result = PAMI_SUCCESS;
    int sent;

    if (a->header_bytes != 0)
        memcpy(message + sizeof(struct am_wire), a->headers + rank * a->header_step,
               a->header_bytes);
    operation->waiting += asks ? 2 : 1;
    sent = message_send(context, endpoint, MESSAGE_AMCOLLECTIVE, message,
                        sizeof(struct am_wire) + a->header_bytes, &place,
                        asks ? 0 : operation->bytes, on_sent, operation);
    if (sent < 0)
        result = am_not_sent(sent, endpoint);
    if (sent < 0 && asks) {
        operation->blocks[rank].begun = true;
        block_there(&operation->blocks[rank], result);
    }
    if (sent != 0)
        operation_less(operation, result);
}

static bool add_own(struct am_operation *operation, const struct am_arguments *a,
                    const struct am_wire *wire)
{
    const char *header = a->headers;

    if (operation->kind == AM_BROADCAST)
        return true;
    if (header != NULL)
        header += operation->group->rank * a->header_step;
    operation->own =
        am_part_new(operation->am, wire, operation->am->context->endpoint, header, a->header_bytes);
    if (operation->own == NULL)
        return false;
    operation->waiting++;
    return context_complete(operation->am->context, own_run, operation, PAMI_SUCCESS) == 0;
}

pami_result_t am_collective(struct group *group, pami_xfer_type_t type, const pami_xfer_t *xfer)
{
    enum am_kind kind = (enum am_kind)(type - PAMI_XFER_AMBROADCAST);
    struct am *am = group->context->am;
    struct am_operation *operation;
    struct am_arguments a;
    struct am_wire wire;
    pami_result_t result;
    char *message;

    fill_arguments(&a, kind, &xfer->cmd);
    result = check_arguments(am, group, &a);
    if (result != PAMI_SUCCESS)
        return result;
    message = malloc(sizeof(wire) + a.header_bytes);
    operation = message != NULL ? operation_new(am, group, kind, &a, xfer) : NULL;
    if (operation == NULL) {
        free(message);
        return error_set(PAMI_ENOMEM, "PAMI_Collective: out of memory");
    }
    wire = (struct am_wire){.identity = group->identity,
                            .id = a.dispatch,
                            .bytes = operation->bytes,
                            .kind = kind,
                            .number = operation->number};
    if (!add_own(operation, &a, &wire)) {
        free(message);
        operation_free(operation);
        return error_set(PAMI_ENOMEM, "PAMI_Collective: out of memory");
    }
    list_push_back(&am->operations, &operation->link);
    memcpy(message, &wire, sizeof(wire));
    for (uint32_t i = 1; i < group->size; i++)
        send_to(operation, &a, (group->rank + i) % group->size, message);
    free(message);
    operation_less(operation, PAMI_SUCCESS);
    return PAMI_SUCCESS;
}

/* ---- contexts ---- */

/* A member has gone: nobody waits for its contribution any more. */
static void on_gone(struct message_watch *watch, struct context *context, uint32_t endpoint)
{
    struct am *am = container_of(watch, struct am, watch);
    struct list *item, *following;

    (void)context;
    list_for_each_safe (item, following, &am->operations) {
        struct am_operation *operation = list_entry(item, struct am_operation, link);
        uint32_t rank = topology_rank(operation->group->topology, endpoint);

        if (rank == TOPOLOGY_NO_RANK || operation->blocks == NULL || operation->blocks[rank].begun)
            continue;
        operation->blocks[rank].begun = true;
        block_there(&operation->blocks[rank], am_not_sent(-EPIPE, endpoint));
    }
}

void am_start_init(struct am *am)
{
    list_init(&am->operations);
    am->watch.gone = on_gone;
    message_watch(am->context, &am->watch);
}

void am_start_group_closed(struct am *am, const struct group *group)
{
    struct list *item, *following;

    list_for_each_safe (item, following, &am->operations) {
        struct am_operation *operation = list_entry(item, struct am_operation, link);

        if (operation->group == group)
            operation_free(operation);
    }
}

void am_start_finish(struct am *am)
{
    list_remove(&am->watch.link);
    u64map_finish(&am->asking);
}
