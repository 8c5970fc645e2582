/*
 * Random programs over the send calls.
 *
 * Every context sends messages of all kinds, ids and sizes to everybody, from posted work, from
 * dispatch functions and from completion callbacks; some register their ids only after a while.
 * What becomes of the messages is checked by oracle.h.
 */
#ifndef LIBPAMI_SIM_TRAFFIC_H
#define LIBPAMI_SIM_TRAFFIC_H

#include "oracle.h"

/* ---- sending ---- */

/* Often close to where a protocol changes. */
static size_t choose_size(struct traffic *traffic, size_t most)
{
    static const size_t edges[] = {0, 1, 104, 128, 512, 4096, 8192, 16384, 32768, 65528};
    struct dice *dice = &traffic->dice;
    size_t size = dice_size(dice, most);

    if (dice_one_in(dice, 4))
        size = edges[dice_below(dice, sizeof(edges) / sizeof(edges[0]))] + dice_below(dice, 49) -
               (size_t)24;
    return size > most ? dice_size(dice, most < 200 ? most : 200) : size;
}

static void choose_message(struct message *message)
{
    struct traffic *traffic = message->traffic;
    struct dice *dice = &traffic->dice;

    message->id = (enum traffic_id)dice_below(dice, ID_COUNT);
    message->kind = (enum traffic_kind)dice_below(dice, KIND_COUNT);
    if (message->id == ID_NO_QUEUE && dice_one_in(dice, 2))
        message->kind = KIND_IMMEDIATE;
    message->to = dice_one_in(dice, 8) ? message->from : (uint32_t)dice_below(dice, traffic->count);
    message->header = dice_one_in(dice, 2) ? 0 : choose_size(traffic, traffic->limits.header);
    message->data = dice_one_in(dice, 8) ? 0 : choose_size(traffic, traffic->limits.data);
    message->key = dice_next(dice);
    if (message->kind == KIND_IMMEDIATE) {
        message->header %= traffic->send_max / 2 + 1;
        message->data %= traffic->send_max / 2 + 1;
    }
    if (message->id == ID_ALWAYS_IMMEDIATE || message->id == ID_SHORT_HEADER)
        message->header %= traffic->recv_max / 2 + 1;
    if (message->id == ID_ALWAYS_IMMEDIATE)
        message->data %= traffic->recv_max / 2 + 1;
}

static void fill_memory(struct message *message)
{
    char *data;
    size_t room = message->data;

    if (message->kind == KIND_TYPED)
        room = OFFSET * 2 + sparse_room(message->data + OFFSET);
    message->memory_bytes = message->header + room;
    message->memory = malloc(message->memory_bytes + 1);
    CHECK(message->memory != NULL);
    pattern_fill(message->memory, message->header, ~message->key);
    data = message->memory + message->header;
    if (message->kind == KIND_TYPED) {
        /* Data offset SPARSE_BYTES is where the second repetition of the type begins. */
        char *plain = malloc(message->data + 1);

        CHECK(plain != NULL);
        pattern_fill(plain, message->data, message->key);
        sparse_spread(data + SPARSE_EXTENT, plain, message->data);
        free(plain);
    } else {
        pattern_fill(data, message->data, message->key);
    }
}

static pami_result_t call_send(struct message *message)
{
    struct traffic *traffic = message->traffic;
    pami_context_t context = traffic->job.context[message->from];
    size_t contexts = traffic->job.contexts;
    enum traffic_kind kind = message->kind;
    pami_send_t send = {
        .send = {.header = {.iov_base = message->memory, .iov_len = message->header},
                 .data = {.iov_base = message->memory + message->header, .iov_len = message->data},
                 .dispatch = message->id,
                 .dest =
                     job_endpoint(&traffic->job, message->to / contexts, message->to % contexts)},
        .events = {.cookie = message},
    };
    pami_send_typed_t typed;
    pami_result_t result;

    if (kind == KIND_BOTH || kind == KIND_LOCAL || kind == KIND_TYPED)
        send.events.local_fn = on_local;
    if (kind == KIND_BOTH || kind == KIND_REMOTE || kind == KIND_TYPED)
        send.events.remote_fn = on_remote;
    if (kind == KIND_IMMEDIATE) {
        result = PAMI_Send_immediate(context, &send.send);
        spoil(message);
    } else if (kind == KIND_TYPED) {
        typed = (pami_send_typed_t){
            .send = send.send,
            .events = send.events,
            .typed = {.type = traffic->sparse, .offset = SPARSE_BYTES, .data_fn = PAMI_DATA_COPY},
        };
        result = PAMI_Send_typed(context, &typed);
        memset(&typed, 0xee, sizeof(typed));
    } else {
        result = PAMI_Send(context, &send);
    }
    memset(&send, 0xee, sizeof(send));
    return result;
}

static void append(struct traffic *traffic, struct message *message)
{
    struct pair *pair = pair_of(traffic, message->from, message->to);

    if (pair->last != NULL)
        pair->last->next = message;
    else
        pair->first = message;
    pair->last = message;
    message->list = traffic->messages;
    traffic->messages = message;
    traffic->sent++;
    traffic->bytes += message->header + message->data;
}

static bool is_far(const struct message *message)
{
    const struct traffic *traffic = message->traffic;

    return task_of_index(traffic, message->from) / traffic->tasks_per_node !=
           task_of_index(traffic, message->to) / traffic->tasks_per_node;
}

/* One more message from this context, unless there were enough. */
static void traffic_send(struct traffic *traffic, uint32_t from)
{
    struct message *message;
    pami_result_t result;

    if (traffic->sent >= traffic->limits.messages)
        return;
    message = calloc(1, sizeof(*message));
    CHECK(message != NULL);
    message->traffic = traffic;
    message->from = from;
    choose_message(message);
    fill_memory(message);
    enter(traffic); /* no callback runs inside the call */
    result = call_send(message);
    traffic->is_inside = false;
    if (result == PAMI_SUCCESS) {
        CHECK(message->id != ID_SHMEM_ONLY || !is_far(message) || may_fail(message));
        append(traffic, message);
        return;
    }
    if (result == PAMI_EAGAIN)
        CHECK(message->kind == KIND_IMMEDIATE && message->id == ID_NO_QUEUE);
    else if (result == PAMI_INVAL && message->id == ID_SHMEM_ONLY)
        CHECK(is_far(message));
    else if (!may_fail(message))
        FAIL("result %d: %s", (int)result, test_text());
    free(message->memory);
    free(message);
}

/* ---- starting ---- */

static pami_result_t start(pami_context_t context, void *cookie)
{
    struct starter *starter = cookie;
    struct traffic *traffic = starter->traffic;

    enter(traffic);
    CHECK(context == traffic->job.context[starter->self]);
    traffic->is_inside = false;
    for (size_t i = dice_below(&traffic->dice, traffic->limits.burst) + 1; i != 0; i--)
        traffic_send(traffic, starter->self);
    return --starter->bursts == 0 ? PAMI_SUCCESS : PAMI_EAGAIN;
}

static void set_dispatch(struct traffic *traffic, uint32_t self, enum traffic_id id)
{
    static const pami_dispatch_hint_t hints[ID_COUNT] = {
        [ID_NEVER_IMMEDIATE] = {.recv_immediate = PAMI_HINT_DISABLE},
        [ID_SHORT_HEADER] = {.long_header = PAMI_HINT_DISABLE},
        [ID_ALWAYS_IMMEDIATE] = {.recv_immediate = PAMI_HINT_ENABLE},
        [ID_NO_QUEUE] = {.queue_immediate = PAMI_HINT_DISABLE},
        [ID_NO_SHMEM] = {.use_shmem = PAMI_HINT_DISABLE, .consistency = PAMI_HINT_ENABLE},
        [ID_NO_RDMA] = {.use_rdma = PAMI_HINT_DISABLE},
        [ID_CONTIGUOUS_COPY] = {.recv_contiguous = PAMI_HINT_ENABLE, .recv_copy = PAMI_HINT_ENABLE},
        [ID_SHMEM_ONLY] = {.use_shmem = PAMI_HINT_ENABLE, .multicontext = PAMI_HINT_DISABLE},
    };
    struct handler *handler = &traffic->handlers[self * ID_COUNT + id];
    pami_dispatch_callback_function callback = {.p2p = on_dispatch};

    *handler = (struct handler){.traffic = traffic, .self = self, .id = id};
    CALL(PAMI_Dispatch_set(traffic->job.context[self], id, callback, handler, hints[id]));
}

/* A late context registers its ids, and sends, after a while only. */
static pami_result_t register_late(pami_context_t context, void *cookie)
{
    struct starter *starter = cookie;
    struct traffic *traffic = starter->traffic;
    size_t task = task_of_index(traffic, starter->self);

    CHECK(context == traffic->job.context[starter->self]);
    if (PAMI_Wtime(traffic->job.client[task]) < starter->late_at)
        return PAMI_EAGAIN;
    for (int id = 0; id < ID_COUNT; id++)
        set_dispatch(traffic, starter->self, (enum traffic_id)id);
    CALL(PAMI_Context_post(context, &starter->work, start, starter));
    return PAMI_SUCCESS;
}

static void query_limits(struct traffic *traffic)
{
    pami_configuration_t query[] = {
        {.name = PAMI_DISPATCH_SEND_IMMEDIATE_MAX},
        {.name = PAMI_DISPATCH_RECV_IMMEDIATE_MAX},
    };

    CALL(PAMI_Dispatch_query(traffic->job.context[0], ID_PLAIN, query, 2));
    traffic->send_max = query[0].value.intval;
    traffic->recv_max = query[1].value.intval;
}

/* Makes the job; nothing has been sent yet. */
static inline void traffic_create(struct traffic *traffic, const pamix_sim_config_t *config,
                                  size_t tasks, size_t contexts, const bool *mortal,
                                  const struct traffic_limits *limits, uint64_t seed)
{
    *traffic = (struct traffic){
        .send = traffic_send,
        .dice = {.state = seed * UINT64_C(0x2545f4914f6cdd1d)},
        .limits = *limits,
        .tasks_per_node = config->tasks_per_node,
        .mortal = mortal,
        .count = tasks * contexts,
    };
    job_create(&traffic->job, config, tasks, contexts);
    CALL(PAMI_Type_create(&traffic->sparse));
    CALL(PAMI_Type_add_simple(traffic->sparse, SPARSE_BYTES, 0, 1, SPARSE_EXTENT));
    CALL(PAMI_Type_complete(traffic->sparse, 1));
    traffic->pairs = calloc(traffic->count * traffic->count, sizeof(*traffic->pairs));
    traffic->handlers = calloc(traffic->count * ID_COUNT, sizeof(*traffic->handlers));
    traffic->starters = calloc(traffic->count, sizeof(*traffic->starters));
    CHECK(traffic->pairs != NULL && traffic->handlers != NULL && traffic->starters != NULL);
}

/* Every context sends; some register their ids only after a while. */
static inline void traffic_start(struct traffic *traffic)
{
    bool knows = false;

    for (uint32_t i = 0; i < traffic->count; i++) {
        struct starter *starter = &traffic->starters[i];
        bool is_late = i != 0 && dice_one_in(&traffic->dice, 8);

        *starter = (struct starter){.traffic = traffic, .self = i};
        starter->bursts = 1 + (unsigned)dice_below(&traffic->dice, 3);
        starter->late_at = is_late ? dice_unit(&traffic->dice) * 100e-6 : 0;
        if (is_late) {
            CALL(
                PAMI_Context_post(traffic->job.context[i], &starter->late, register_late, starter));
            continue;
        }
        for (int id = 0; id < ID_COUNT; id++)
            set_dispatch(traffic, i, (enum traffic_id)id);
        if (!knows)
            query_limits(traffic);
        knows = true;
        if (dice_one_in(&traffic->dice, 2))
            CALL(PAMI_Context_post(traffic->job.context[i], &starter->work, start, starter));
        else
            start(traffic->job.context[i], starter);
    }
}

/* ---- the end ---- */

static void check_message(const struct message *message)
{
    const struct traffic *traffic = message->traffic;
    bool from_dies = is_mortal(traffic, message->from);
    bool to_dies = is_mortal(traffic, message->to);
    bool has_local =
        message->kind == KIND_BOTH || message->kind == KIND_LOCAL || message->kind == KIND_TYPED;
    bool has_remote =
        message->kind == KIND_BOTH || message->kind == KIND_REMOTE || message->kind == KIND_TYPED;

    CHECK(from_dies || message->local == has_local);
    CHECK(from_dies || message->remote == has_remote);
    CHECK(from_dies || to_dies || message->dispatched == 1);
    CHECK(to_dies || message->dispatched == 0 || message->received == message->is_async);
    if (message->remote == 1 && message->dispatched == 0)
        CHECK(message->remote_result != PAMI_SUCCESS);
}

/* Checks that all is as it must be, and frees everything. */
static inline void traffic_finish(struct traffic *traffic)
{
    struct message *message;

    for (message = traffic->messages; message != NULL; message = message->list)
        check_message(message);
    CALL(PAMI_Type_destroy(&traffic->sparse));
    job_destroy(&traffic->job);
    while ((message = traffic->messages) != NULL) {
        traffic->messages = message->list;
        free(message->memory);
        free(message->buffer);
        free(message);
    }
    free(traffic->pairs);
    free(traffic->handlers);
    free(traffic->starters);
}

#endif
