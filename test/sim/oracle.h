/*
 * The oracle of random programs (traffic.h): what was sent, and what must become of it.
 *
 * For each ordered pair of contexts there is the list of what was sent: the n-th dispatch must be
 * the n-th message, with its sizes and bytes. Each message must be dispatched, received and
 * completed exactly once, local_fn before remote_fn. Memory is overwritten as soon as the rules
 * allow it.
 *
 * Tasks that may die are *mortal*. What has to do with one may stay undone or fail, but what waits
 * for it must end, once; whoever is not mortal notices nothing else.
 */
#ifndef LIBPAMI_SIM_ORACLE_H
#define LIBPAMI_SIM_ORACLE_H

#include "sim_test.h"

/* What an id's hard hints are. */
enum traffic_id {
    ID_PLAIN,
    ID_NEVER_IMMEDIATE,
    ID_SHORT_HEADER,
    ID_ALWAYS_IMMEDIATE,
    ID_NO_QUEUE,
    ID_NO_SHMEM,
    ID_NO_RDMA,
    ID_CONTIGUOUS_COPY,
    ID_SHMEM_ONLY,
    ID_COUNT
};

enum traffic_kind {
    KIND_IMMEDIATE,
    KIND_BOTH,
    KIND_LOCAL,
    KIND_REMOTE,
    KIND_NEITHER,
    KIND_TYPED,
    KIND_COUNT
};

enum traffic_receive {
    RECEIVE_PLAIN,
    RECEIVE_OFFSET,
    RECEIVE_SPARSE,
    RECEIVE_NOWHERE,
    RECEIVE_NOOP,
    RECEIVE_MODES
};

/* The sparse type is 3 bytes of every 5. */
#define SPARSE_BYTES 3u
#define SPARSE_EXTENT 5u
#define GUARD 16u
#define GUARD_BYTE 0x5a
#define OFFSET 7u

struct traffic_limits {
    size_t messages; /* of the whole program, about */
    size_t header, data;
    size_t burst;      /* messages that one function starts */
    unsigned reply_in; /* one of so many callbacks answers; 0: none */
};

struct message {
    struct message *next; /* of the same pair */
    struct message *list; /* of all */
    struct traffic *traffic;
    uint32_t from, to; /* indices of contexts */
    enum traffic_id id;
    enum traffic_kind kind;
    enum traffic_receive receive;
    size_t header, data;
    uint64_t key;
    char *memory; /* the sender's: header, then data as its layout wants it */
    size_t memory_bytes;
    char *buffer; /* the receiver's */
    size_t buffer_bytes;
    bool is_async;
    unsigned dispatched, received, local, remote;
    pami_result_t remote_result;
};

struct pair {
    struct message *first, *last; /* sent and not yet dispatched */
};

struct handler {
    struct traffic *traffic;
    uint32_t self; /* index of the context */
    enum traffic_id id;
};

struct starter {
    pami_work_t work, late;
    struct traffic *traffic;
    uint32_t self;
    unsigned bursts;
    double late_at;
};

struct traffic {
    void (*send)(struct traffic *traffic, uint32_t from); /* one more message */
    struct sim_job job;
    struct dice dice;
    struct traffic_limits limits;
    size_t tasks_per_node;
    const bool *mortal; /* [task], NULL: none */
    size_t count;       /* contexts */
    struct pair *pairs; /* [from * count + to] */
    struct handler *handlers;
    struct starter *starters;
    struct message *messages;
    size_t sent;
    uint64_t bytes; /* of headers and data */
    size_t send_max, recv_max;
    pami_type_t sparse;
    bool is_inside; /* of a callback: none nests in another, or in a call */
};

static inline size_t task_of_index(const struct traffic *traffic, uint32_t index)
{
    return index / traffic->job.contexts;
}

static inline bool is_mortal(const struct traffic *traffic, uint32_t index)
{
    return traffic->mortal != NULL && traffic->mortal[task_of_index(traffic, index)];
}

static inline struct pair *pair_of(struct traffic *traffic, uint32_t from, uint32_t to)
{
    return &traffic->pairs[from * traffic->count + to];
}

/* ---- layouts ---- */

static inline size_t sparse_room(size_t bytes)
{
    return (bytes + SPARSE_BYTES - 1) / SPARSE_BYTES * SPARSE_EXTENT;
}

static inline void sparse_spread(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i / SPARSE_BYTES * SPARSE_EXTENT + i % SPARSE_BYTES] = from[i];
}

static inline void sparse_gather(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = from[i / SPARSE_BYTES * SPARSE_EXTENT + i % SPARSE_BYTES];
}

/* ---- completions ---- */

static inline void enter(struct traffic *traffic)
{
    CHECK(!traffic->is_inside);
    traffic->is_inside = true;
}

static inline void leave_callback(struct traffic *traffic, uint32_t self)
{
    unsigned in = traffic->limits.reply_in;

    traffic->is_inside = false;
    if (in != 0 && dice_one_in(&traffic->dice, in))
        for (size_t i = dice_below(&traffic->dice, traffic->limits.burst) + 1; i != 0; i--)
            traffic->send(traffic, self);
}

static inline void spoil(struct message *message)
{
    memset(message->memory, 0xee, message->memory_bytes);
}

/* May the message's end be other than a success? */
static inline bool may_fail(const struct message *message)
{
    return is_mortal(message->traffic, message->to);
}

static inline void on_local(pami_context_t context, void *cookie, pami_result_t result)
{
    struct message *message = cookie;
    struct traffic *traffic = message->traffic;

    enter(traffic);
    CHECK(context == traffic->job.context[message->from]);
    CHECK(result == PAMI_SUCCESS || may_fail(message));
    CHECK(message->local == 0 && message->remote == 0);
    message->local++;
    spoil(message);
    leave_callback(traffic, message->from);
}

static inline void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    struct message *message = cookie;
    struct traffic *traffic = message->traffic;

    enter(traffic);
    CHECK(context == traffic->job.context[message->from]);
    CHECK(message->remote == 0);
    CHECK(message->local == (message->kind != KIND_REMOTE));
    if (result == PAMI_SUCCESS)
        CHECK(message->dispatched == 1 && (!message->is_async || message->received == 1));
    else
        CHECK(may_fail(message));
    message->remote++;
    message->remote_result = result;
    spoil(message);
    leave_callback(traffic, message->from);
}

/* ---- receiving ---- */

static void check_buffer(const struct message *message)
{
    const char *buffer = message->buffer;
    size_t bytes = message->data;
    char *gathered;

    for (size_t i = 0; i < GUARD; i++)
        CHECK(buffer[message->buffer_bytes + i] == GUARD_BYTE);
    if (message->id == ID_CONTIGUOUS_COPY || message->receive == RECEIVE_PLAIN) {
        CHECK(pattern_is(buffer, bytes, message->key));
    } else if (message->receive == RECEIVE_OFFSET) {
        CHECK(pattern_is(buffer + OFFSET, bytes, message->key));
    } else if (message->receive == RECEIVE_SPARSE) {
        gathered = malloc(bytes + 1);
        CHECK(gathered != NULL);
        sparse_gather(gathered, buffer, bytes);
        CHECK(pattern_is(gathered, bytes, message->key));
        free(gathered);
    } else {
        for (size_t i = 0; i < message->buffer_bytes; i++)
            CHECK(buffer[i] == GUARD_BYTE);
    }
}

static void on_received(pami_context_t context, void *cookie, pami_result_t result)
{
    struct message *message = cookie;
    struct traffic *traffic = message->traffic;

    enter(traffic);
    CHECK(context == traffic->job.context[message->to]);
    CHECK(message->dispatched == 1 && message->received == 0);
    CHECK(result == PAMI_SUCCESS || is_mortal(traffic, message->from));
    message->received++;
    if (result == PAMI_SUCCESS)
        check_buffer(message);
    free(message->buffer);
    message->buffer = NULL;
    leave_callback(traffic, message->to);
}

static void fill_recv(struct message *message, pami_recv_t *recv)
{
    struct traffic *traffic = message->traffic;
    size_t room = sparse_room(message->data) + OFFSET;

    message->receive = (enum traffic_receive)dice_below(&traffic->dice, RECEIVE_MODES);
    message->buffer_bytes = room;
    message->buffer = malloc(room + GUARD);
    CHECK(message->buffer != NULL);
    memset(message->buffer, GUARD_BYTE, room + GUARD);
    recv->cookie = message;
    recv->local_fn = on_received;
    recv->addr = message->buffer;
    if (message->receive == RECEIVE_NOWHERE && message->id != ID_CONTIGUOUS_COPY)
        recv->addr = NULL;
    if (message->receive == RECEIVE_OFFSET)
        recv->offset = OFFSET;
    if (message->receive == RECEIVE_SPARSE)
        recv->type = traffic->sparse;
    if (message->receive == RECEIVE_NOOP)
        recv->data_fn = PAMI_DATA_NOOP;
}

/* What a dispatch function was given. */
struct arrival {
    const struct handler *handler;
    const void *header, *data;
    size_t header_bytes, data_bytes;
    pami_endpoint_t origin;
};

static bool is_of(const struct message *message, const struct arrival *arrival)
{
    return message->id == arrival->handler->id && message->header == arrival->header_bytes &&
           message->data == arrival->data_bytes &&
           pattern_is(arrival->header, arrival->header_bytes, ~message->key) &&
           (arrival->data == NULL || pattern_is(arrival->data, arrival->data_bytes, message->key));
}

/*
 * Where the message that must be the next one is in its pair's list. What was held for ids that
 * were not registered comes in the order of each id only, and when its sender has died meanwhile,
 * without what was not whole.
 */
static struct message **place_of_next(struct traffic *traffic, struct pair *pair,
                                      const struct arrival *arrival)
{
    struct message **place = &pair->first;

    if (traffic->starters[arrival->handler->self].late_at == 0)
        return place;
    while (*place != NULL && ((*place)->id != arrival->handler->id ||
                              (is_mortal(traffic, (*place)->from) && !is_of(*place, arrival))))
        place = &(*place)->next;
    return place;
}

static struct message *next_message(struct traffic *traffic, const struct arrival *arrival)
{
    pami_task_t task;
    size_t offset;
    struct pair *pair;
    struct message **place;
    struct message *message;

    CALL(PAMI_Endpoint_query(arrival->origin, &task, &offset));
    CHECK(task < traffic->job.tasks && offset < traffic->job.contexts);
    pair =
        pair_of(traffic, (uint32_t)(task * traffic->job.contexts + offset), arrival->handler->self);
    place = place_of_next(traffic, pair, arrival);
    message = *place;
    if (message == NULL)
        FAIL("context %u: a dispatch from task %u, which has sent nothing more",
             arrival->handler->self, task);
    *place = message->next;
    if (pair->last == message)
        pair->last = NULL;
    for (struct message *last = pair->first; pair->last == NULL && last != NULL; last = last->next)
        if (last->next == NULL)
            pair->last = last;
    CHECK(is_of(message, arrival));
    return message;
}

static inline void on_dispatch(pami_context_t context, void *cookie, const void *header,
                               size_t header_bytes, const void *data, size_t data_bytes,
                               pami_endpoint_t origin, pami_recv_t *recv)
{
    const struct handler *handler = cookie;
    struct traffic *traffic = handler->traffic;
    const struct arrival arrival = {handler, header, data, header_bytes, data_bytes, origin};
    struct message *message = next_message(traffic, &arrival);
    size_t total = header_bytes + data_bytes;

    enter(traffic);
    CHECK(context == traffic->job.context[handler->self]);
    CHECK(message->dispatched == 0);
    message->dispatched++;
    CHECK((data == NULL) != (recv == NULL));
    message->is_async = recv != NULL;
    if (recv == NULL) {
        CHECK(handler->id != ID_NEVER_IMMEDIATE);
        CHECK(data_bytes == 0 || total <= traffic->recv_max || message->kind == KIND_IMMEDIATE);
    } else {
        CHECK(handler->id == ID_NEVER_IMMEDIATE ||
              (data_bytes != 0 && total > traffic->recv_max && message->kind != KIND_IMMEDIATE));
        CHECK(recv->addr == NULL && recv->local_fn == NULL && recv->cookie == NULL);
        CHECK(recv->type == PAMI_TYPE_BYTE && recv->offset == 0);
        fill_recv(message, recv);
    }
    leave_callback(traffic, handler->self);
}

#endif
