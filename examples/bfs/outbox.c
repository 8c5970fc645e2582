/*
 * outbox.c - coalescing of pairs into messages, and the end of an exchange by counting.
 *
 * A message is a header of 4 bytes (the tag) and an array of pairs.
 *
 * An exchange has ended when as many pairs were applied as were sent, over all tasks. After its
 * flush a task sends nothing more, so the sum of what was sent is final in the first all-reduce;
 * the tasks repeat the all-reduce until the sum of what was received has caught up.
 */
#include "outbox.h"

#include <stdlib.h>
#include <string.h>

enum {
    LIMIT = 64
}; /* parcels beyond one for each task */

struct parcel {
    struct outbox *box;
    struct parcel *next; /* among the spare ones */
    uint32_t tag;        /* the header must live as long as the data */
    size_t count;
    struct pair pairs[];
};

/* A message on its way in, asynchronously. */
struct arrival {
    struct outbox *box;
    uint32_t tag;
    size_t count;
    struct pair pairs[];
};

static void deliver(struct outbox *box, uint32_t tag, const struct pair *pairs, size_t count)
{
    box->apply(box->cookie, tag, pairs, count);
    box->received += count;
}

static void on_arrived(pami_context_t context, void *cookie, pami_result_t result)
{
    struct arrival *arrival = cookie;

    (void)context;
    team_check(arrival->box->team, result, "receive");
    deliver(arrival->box, arrival->tag, arrival->pairs, arrival->count);
    free(arrival);
}

static void on_parcel(pami_context_t context, void *cookie, const void *header, size_t header_size,
                      const void *data, size_t size, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct outbox *box = cookie;
    size_t count = size / sizeof(struct pair);
    struct arrival *arrival;
    uint32_t tag;

    (void)context, (void)origin;
    if (header_size != sizeof(tag) || size % sizeof(struct pair) != 0)
        team_die(box->team, "malformed message: header %zu bytes, data %zu", header_size, size);
    memcpy(&tag, header, sizeof(tag));
    if (recv == NULL && (uintptr_t)data % _Alignof(struct pair) == 0) {
        deliver(box, tag, data, count);
        return;
    }
    arrival = team_alloc(box->team, NULL, sizeof(*arrival) + size);
    *arrival = (struct arrival){.box = box, .tag = tag, .count = count};
    if (recv == NULL) {
        memcpy(arrival->pairs, data, size);
        on_arrived(context, arrival, PAMI_SUCCESS);
    } else {
        recv->addr = arrival->pairs;
        recv->type = PAMI_TYPE_BYTE;
        recv->cookie = arrival;
        recv->local_fn = on_arrived;
    }
}

/* local_fn of a send: the parcel is ours again. */
static void on_returned(pami_context_t context, void *cookie, pami_result_t result)
{
    struct parcel *parcel = cookie;
    struct outbox *box = parcel->box;

    (void)context;
    team_check(box->team, result, "send");
    parcel->next = box->spare;
    box->spare = parcel;
    box->out--;
}

void outbox_open(struct outbox *box, struct team *team, size_t dispatch, size_t buffer,
                 outbox_apply *apply, void *cookie)
{
    pami_dispatch_hint_t hints = {.multicontext = PAMI_HINT_DISABLE};
    pami_configuration_t limit = {.name = PAMI_DISPATCH_SEND_IMMEDIATE_MAX};
    size_t capacity = buffer / sizeof(struct pair);

    *box = (struct outbox){.team = team, .dispatch = dispatch, .apply = apply, .cookie = cookie};
    box->capacity = capacity > 0 ? capacity : 1;
    box->open = team_alloc(team, NULL, team->tasks * sizeof(*box->open));
    memset(box->open, 0, team->tasks * sizeof(*box->open));
    team_dispatch(team, dispatch, on_parcel, box, hints);
    team_check(team, PAMI_Dispatch_query(team->context, dispatch, &limit, 1),
               "PAMI_Dispatch_query");
    box->immediate_max = limit.value.intval;
}

void outbox_close(struct outbox *box)
{
    while (box->out > 0)
        team_advance(box->team);
    while (box->spare != NULL) {
        struct parcel *parcel = box->spare;

        box->spare = parcel->next;
        free(parcel);
    }
    free(box->open);
}

static struct parcel *parcel_get(struct outbox *box)
{
    struct parcel *parcel;

    while (box->spare == NULL && box->parcels >= (size_t)box->team->tasks + LIMIT)
        team_advance(box->team);
    parcel = box->spare;
    if (parcel != NULL) {
        box->spare = parcel->next;
    } else {
        parcel = team_alloc(box->team, NULL, sizeof(*parcel) + box->capacity * sizeof(struct pair));
        parcel->box = box;
        box->parcels++;
    }
    parcel->count = 0;
    return parcel;
}

static void post(struct outbox *box, uint32_t task)
{
    struct parcel *parcel = box->open[task];
    pami_send_t message = {
        .send = {.header = {.iov_base = &parcel->tag, .iov_len = sizeof(parcel->tag)},
                 .data = {.iov_base = parcel->pairs,
                          .iov_len = parcel->count * sizeof(struct pair)},
                 .dispatch = box->dispatch,
                 .dest = team_endpoint(box->team, task)},
        .events = {.cookie = parcel, .local_fn = on_returned},
    };

    parcel->tag = box->tag;
    box->open[task] = NULL;
    box->sent += parcel->count;
    box->messages++;
    box->out++;
    if (message.send.header.iov_len + message.send.data.iov_len <= box->immediate_max) {
        team_check(box->team, PAMI_Send_immediate(box->team->context, &message.send),
                   "PAMI_Send_immediate");
        on_returned(box->team->context, parcel, PAMI_SUCCESS);
    } else {
        team_check(box->team, PAMI_Send(box->team->context, &message), "PAMI_Send");
    }
    /* A task that only sends would let its own inbox fill up. */
    team_advance(box->team);
}

void outbox_push(struct outbox *box, uint32_t task, struct pair pair)
{
    struct parcel *parcel = box->open[task];

    if (task == box->team->task) {
        box->apply(box->cookie, box->tag, &pair, 1);
        return;
    }
    if (parcel == NULL)
        parcel = box->open[task] = parcel_get(box);
    parcel->pairs[parcel->count++] = pair;
    if (parcel->count == box->capacity)
        post(box, task);
}

void outbox_flush(struct outbox *box)
{
    uint32_t tasks = box->team->tasks;

    /* Each task begins with its successor, so that they do not all send to the same one. */
    for (uint32_t i = 1; i < tasks; i++) {
        uint32_t task = (uint32_t)(((uint64_t)box->team->task + i) % tasks);

        if (box->open[task] != NULL)
            post(box, task);
    }
}

uint64_t outbox_settle(struct outbox *box, const uint64_t *watch, uint64_t *local)
{
    enum {
        SENT,
        RECEIVED,
        WATCH
    };
    uint64_t words[3], mine;

    outbox_flush(box);
    do {
        mine = watch != NULL ? *watch : 0;
        words[SENT] = box->sent;
        words[RECEIVED] = box->received;
        words[WATCH] = mine;
        team_reduce(box->team, TEAM_SUM, words, 3);
    } while (words[SENT] != words[RECEIVED]);
    if (local != NULL)
        *local = mine;
    return words[WATCH];
}
