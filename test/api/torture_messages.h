/*
 * The messages of test/api/torture.c: memory is overwritten when it is the program's again, data
 * lands anywhere and is compared with all around it, answers follow.
 */
#ifndef LIBPAMI_API_TORTURE_MESSAGES_H
#define LIBPAMI_API_TORTURE_MESSAGES_H

#include "torture_plan.h"

/* -------------------------------------------------------------------------------- sending -- */

struct sending {
    struct actor *actor;
    unsigned events, seen;
    unsigned char *data;
    size_t bytes;
    pami_memregion_t region; /* OFFER */
    struct sending *next;    /* of those that nobody waits for */
};

static inline void on_sent(pami_context_t context, void *cookie, pami_result_t result,
                           unsigned which)
{
    struct sending *sending = cookie;
    struct actor *actor = sending->actor;

    CHECK_CALLBACK();
    CHECK(context == actor->context && result == PAMI_SUCCESS);
    CHECK((sending->events & which) && sending->seen == (sending->events & (which - 1)));
    sending->seen |= which;
    memset(sending->data, 0xee, sending->bytes);
    if (sending->seen != sending->events)
        return;
    free(sending->data);
    free(sending);
    actor->ended++;
    meddle(actor);
}

static inline void on_local(pami_context_t context, void *cookie, pami_result_t result)
{
    on_sent(context, cookie, result, 1);
}

static inline void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    on_sent(context, cookie, result, 2);
}

static inline struct sending *sending_new(struct actor *actor, size_t bytes, size_t pattern)
{
    struct sending *sending = test_zalloc(sizeof *sending);

    sending->actor = actor;
    sending->data = test_alloc(bytes);
    sending->bytes = bytes;
    test_fill(sending->data, bytes, pattern, 0);
    actor->begun++;
    return sending;
}

static inline void on_message(pami_context_t context, void *cookie, const void *header,
                              size_t header_bytes, const void *data, size_t bytes,
                              pami_endpoint_t origin, pami_recv_t *recv);

static inline void register_id(struct actor *actor, enum id id)
{
    pami_dispatch_hint_t hints = test_ordered();
    if (id == ID_NEVER_IMMEDIATE)
        hints.recv_immediate = PAMI_HINT_DISABLE;
    if (id == ID_CONTIGUOUS)
        hints.recv_contiguous = PAMI_HINT_ENABLE;
    if (id == ID_COPIED)
        hints.recv_copy = PAMI_HINT_ENABLE;
    actor->late = actor->late || id == ID_LATE;
    test_dispatch(actor->context, id, on_message, actor, hints);
}

/* The header's memory is the program's when the call returns, the data's when a callback says so;
 * without one, at the end of the round. */
static inline void submit(struct actor *actor, const struct message *m, size_t to,
                          const char *header, struct sending *sending)
{
    pami_send_event_t events = {sending, m->events & 1 ? on_local : NULL,
                                m->events & 2 ? on_remote : NULL};
    pami_send_typed_t typed = {
        .send = test_message(endpoint_of(actor->client, to), m->id, header, m->header,
                             sending->data, m->bytes),
        .events = events,
        .typed.type = PAMI_TYPE_BYTE,
    };

    sending->events = m->way == 0 ? 0 : m->events;
    if (m->way == 0)
        CHECK_OK(TEST_CALL(PAMI_Send_immediate(actor->context, &typed.send)));
    else if (m->way == 1)
        CHECK_OK(TEST_CALL(PAMI_Send(actor->context, (pami_send_t *)&typed)));
    else
        CHECK_OK(TEST_CALL(PAMI_Send_typed(actor->context, &typed)));
    if (sending->events != 0)
        return;
    actor->ended++;
    if (m->way == 0)
        memset(sending->data, 0xee, sending->bytes);
    sending->next = actor->silent;
    actor->silent = sending;
}

static inline void start_message(struct actor *actor, size_t origin, size_t index, size_t depth)
{
    struct plan plan = plan_of(actor->client, origin, index);
    struct message m = message_of(&plan, depth);
    size_t to = receiver(&plan, origin, depth);
    struct sending *sending, *offer;
    char header[4096];
    struct head head = {plan.key, actor->sent[m.id == ID_LATE][to]++, (uint32_t)origin,
                        (uint32_t)index, (uint32_t)depth};

    if (m.id == ID_LATE && !actor->late)
        register_id(actor, ID_LATE);
    sending = sending_new(actor, m.bytes, plan.key + depth);
    if (plan.kind == OFFER && depth == 0) {
        offer = sending_new(actor, plan.bytes, plan.key);
        rma_region(actor->context, offer->data, plan.bytes, &offer->region);
        memcpy(sending->data, offer->region, sizeof offer->region);
        actor->offers[index] = offer;
    }
    memcpy(header, &head, sizeof head);
    test_fill(header + sizeof head, m.header - sizeof head, plan.key, depth);
    submit(actor, &m, to, header, sending);
    memset(header, 0x5a, sizeof header);
}

/* The answer to an offer has come. */
static inline void withdraw(struct actor *actor, size_t index)
{
    struct sending *offer = actor->offers[index];

    CHECK_OK(TEST_CALL(PAMI_Memregion_destroy(actor->context, &offer->region)));
    memset(offer->data, 0xee, offer->bytes);
    free(offer->data);
    free(offer);
    actor->offers[index] = NULL;
    actor->ended++;
}

/* ------------------------------------------------------------------------------ receiving -- */

struct landing {
    struct actor *actor;
    struct head head;
    struct rma_layout layout;
    size_t bytes, offset;
    bool offer, typed, exclusive;
    unsigned char *memory;
};

static inline void exclusive_or(void *target, void *source, size_t bytes, void *cookie)
{
    unsigned char *to = target, *from = source;

    CHECK(cookie == actors);
    for (size_t i = 0; i < bytes; i++)
        to[i] ^= from[i];
}

/* What was offered has been read. */
static inline void on_fetched(struct rma *op)
{
    struct landing *l = op->of;
    struct plan plan = plan_of(l->actor->client, l->head.origin, l->head.index);
    pami_memregion_t region;

    memcpy(&region, l->memory + plan.bytes, sizeof region);
    CHECK_SIZE(test_differs(l->memory, plan.bytes, plan.key, 0), plan.bytes);
    CHECK_OK(TEST_CALL(PAMI_Memregion_destroy(l->actor->context, &region)));
    start_message(l->actor, l->head.origin, l->head.index, 1);
    l->actor->ended++;
    meddle(l->actor);
    free(l->memory);
    free(l);
    free(op);
}

static inline void fetch(struct actor *actor, const struct head *head, const struct plan *plan,
                         const void *data)
{
    struct landing *l = test_zalloc(sizeof *l);
    struct rma *op = test_zalloc(sizeof *op);
    pami_memregion_t here, there;

    *l = (struct landing){.actor = actor, .head = *head};
    l->memory = test_zalloc(plan->bytes + sizeof here);
    memcpy(there, data, sizeof there);
    rma_region(actor->context, l->memory, plan->bytes, &here);
    memcpy(l->memory + plan->bytes, here, sizeof here);
    op->of = l;
    op->then = on_fetched;
    actor->begun++;
    rma_rget(op, actor->context, endpoint_of(actor->client, head->origin),
             (pami_rma_mr_t){&here, 0}, (pami_rma_mr_t){&there, 0}, plan->bytes);
}

/* All of the message is here. */
static inline void take(struct actor *actor, const struct head *head, const void *data)
{
    struct plan plan = plan_of(actor->client, head->origin, head->index);

    actor->arrived++;
    if (plan.kind == OFFER && head->depth == 0)
        fetch(actor, head, &plan, data);
    else if (head->depth < plan.answers)
        start_message(actor, head->origin, head->index, head->depth + 1);
    if (plan.kind == OFFER && head->depth == 1)
        withdraw(actor, head->index);
    meddle(actor);
}

static inline void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    struct landing *l = cookie;
    size_t room = l->layout.room, pattern = l->head.key + l->head.depth;
    unsigned char *want = test_alloc(room);

    CHECK_CALLBACK();
    CHECK(context == l->actor->context && result == PAMI_SUCCESS);
    memset(want, RMA_GUARD_BYTE, room);
    for (size_t x = 0; x < l->bytes; x++) {
        size_t at = l->typed ? rma_layout_at(&l->layout, l->offset + x) : RMA_GUARD + x;

        want[at] = test_byte(pattern, x) ^ (l->exclusive ? RMA_GUARD_BYTE : 0);
        if (l->offer)
            want[at] = l->memory[at]; /* it is a region */
    }
    for (size_t x = 0; x < room; x++)
        if (want[x] != l->memory[x])
            FAIL("%zu bytes received: byte %zu of %zu is %02x instead of %02x", l->bytes, x, room,
                 l->memory[x], want[x]);
    free(want);
    take(l->actor, &l->head, l->memory + RMA_GUARD);
    if (l->layout.type != PAMI_TYPE_NULL)
        CHECK_OK(PAMI_Type_destroy(&l->layout.type));
    free(l->memory);
    free(l);
}

/* Counts a message that has to come, and in this order. */
static inline struct message expect(struct actor *actor, const struct head *head,
                                    pami_endpoint_t origin)
{
    struct plan plan = plan_of(actor->client, head->origin, head->index);
    struct message m = message_of(&plan, head->depth);
    size_t from = receiver(&plan, head->origin, head->depth + 1);
    bool *seen = &actor->seen[head->origin][head->index][head->depth];

    CHECK(head->key == plan.key && head->depth <= plan.answers && !*seen);
    CHECK(receiver(&plan, head->origin, head->depth) == actor->number);
    CHECK(origin == endpoint_of(actor->client, from));
    CHECK_SIZE(head->sequence, actor->got[m.id == ID_LATE][from]);
    actor->got[m.id == ID_LATE][from]++;
    *seen = true;
    return m;
}

/* To some place, as the id allows; of an offer, plainly. */
static inline void choose_landing(struct landing *l, const struct message *m, pami_recv_t *recv)
{
    struct actor *actor = l->actor;

    l->offset = dice(actor) % 2 * (dice(actor) % 50);
    l->typed = !l->offer && m->id != ID_CONTIGUOUS && dice(actor) % 2;
    l->exclusive = !l->offer && dice(actor) % 3 == 0;
    l->layout.room = m->bytes + 2 * RMA_GUARD;
    if (l->typed)
        l->layout = rma_layout_random(&actor->random, false, m->bytes + l->offset);
    l->memory = test_alloc(l->layout.room);
    memset(l->memory, RMA_GUARD_BYTE, l->layout.room);
    *recv = (pami_recv_t){.cookie = l, .local_fn = on_landed, .addr = l->memory + RMA_GUARD};
    if (l->typed) {
        recv->addr = l->memory + l->layout.base;
        recv->type = l->layout.type;
        recv->offset = l->offset;
    } else if (m->id == ID_CONTIGUOUS) {
        recv->offset = 77; /* is not looked at, nor is this */
        recv->type = (pami_type_t)actor;
    }
    if (l->exclusive || m->id == ID_COPIED) {
        recv->data_fn = exclusive_or;
        recv->data_cookie = actors;
    }
    l->exclusive = l->exclusive && m->id != ID_COPIED;
    if (l->exclusive && l->typed && l->layout.shape.atom != 1) { /* it would want whole atoms */
        recv->data_fn = PAMI_DATA_COPY;
        l->exclusive = false;
    }
}

static inline void on_message(pami_context_t context, void *cookie, const void *header,
                              size_t header_bytes, const void *data, size_t bytes,
                              pami_endpoint_t origin, pami_recv_t *recv)
{
    struct actor *actor = cookie;
    struct landing *l;
    struct message m;
    struct head head;
    struct plan plan;
    bool offer;

    CHECK_CALLBACK();
    CHECK(context == actor->context && (data == NULL) != (recv == NULL));
    CHECK(header_bytes >= sizeof head);
    memcpy(&head, header, sizeof head);
    CHECK(head.origin < actors_of(actor->client) && head.index < PLANS && head.depth < DEPTHS);
    m = expect(actor, &head, origin);
    CHECK(m.header == header_bytes && m.bytes == bytes);
    CHECK_SIZE(test_differs((const char *)header + sizeof head, header_bytes - sizeof head,
                            head.key, head.depth),
               header_bytes - sizeof head);
    plan = plan_of(actor->client, head.origin, head.index);
    offer = plan.kind == OFFER && head.depth == 0;
    if (m.id == ID_NEVER_IMMEDIATE || (m.way != 0 && bytes != 0 && header_bytes + bytes > 512))
        CHECK(recv != NULL);
    else
        CHECK(recv == NULL);
    if (dice(actor) % 8 == 0)
        register_id(actor, m.id);
    if (recv == NULL) {
        if (!offer)
            CHECK_SIZE(test_differs(data, bytes, head.key + head.depth, 0), bytes);
        take(actor, &head, data);
        return;
    }
    l = test_zalloc(sizeof *l);
    l->actor = actor;
    l->head = head;
    l->bytes = bytes;
    l->offer = offer;
    choose_landing(l, &m, recv);
    meddle(actor);
}

#endif /* LIBPAMI_API_TORTURE_MESSAGES_H */
