/*
 * spread.h - messages spread over contexts by hashing their destination and source.
 *
 * A program's thread produces messages and never touches a context: each is posted to the context
 * that (destination, source) hashes to, which a thread of the library or of the program advances.
 * So messages of one pair of tasks stay in order, while different pairs are injected by different
 * threads. A pair has the same context number on both sides, hence pairs do not share contexts
 * more than they must.
 *
 * Completion is counted, per context and without locks: what was posted is the producer's number;
 * what has been injected and what has arrived are the context's. spread_wait_all has two phases:
 * first until this task's messages have left, then, after telling every destination how many there
 * were, until all that is due here has come. It may be called again and again, and is a barrier:
 * a neighbour is at most one round ahead, so counters of two rounds are enough.
 *
 * One thread of each task produces and waits. Every call ends the program when it fails.
 */
#ifndef EXAMPLES_SPREAD_H
#define EXAMPLES_SPREAD_H

#include <pami.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPREAD_CONTEXTS = 8,
    SPREAD_FLIGHT = 1024, /* messages between the producer and the contexts at most */
    SPREAD_BYTES = 48     /* of one message at most */
};

/* What comes with a message, and what arrives; on whichever thread advances the context. */
typedef void spread_function(void *cookie, size_t context, size_t source, const void *data,
                             size_t bytes);

struct spread;

/* A message on its way: the post's storage, and what it carries. */
struct spread_record {
    pami_work_t work;
    struct spread *in;
    atomic_bool busy;
    pami_endpoint_t dest;
    size_t lane, dispatch, bytes;
    struct spread_note {
        uint32_t source, round;
    } note;
    unsigned char data[SPREAD_BYTES];
};

/* One context's counters; those of rounds with even and odd numbers. */
struct spread_lane {
    _Alignas(64) struct spread *in;
    atomic_ullong injected;
    atomic_ullong arrived[2], due[2], totals[2];
};

struct spread {
    pami_client_t client;
    pami_context_t *context;
    size_t contexts, task, tasks, dispatch; /* and the next id as well */
    spread_function *deliver;
    void *cookie;
    uint32_t round;
    size_t next; /* record */
    uint64_t posted[SPREAD_CONTEXTS];
    uint64_t *sent; /* to each task in this round */
    struct spread_lane lane[SPREAD_CONTEXTS];
    struct spread_record record[SPREAD_FLIGHT];
};

static inline void spread_check(pami_result_t result, const char *call)
{
    char text[256];

    if (result == PAMI_SUCCESS)
        return;
    PAMI_Error_text(text, sizeof(text));
    fprintf(stderr, "spread: %s failed with result %d: %s\n", call, (int)result, text);
    exit(EXIT_FAILURE);
}
#define SPREAD_CHECK(call) spread_check(call, #call)

/* The context, on both sides, of a pair of tasks. */
static inline size_t spread_lane_of(const struct spread *s, uint64_t destination, uint64_t source)
{
    uint64_t x = (destination << 32 | source) * UINT64_C(0x9e3779b97f4a7c15);

    return (x >> 40) % s->contexts;
}

/* ---- arrivals ---- */

static void spread_on_data(pami_context_t on, void *cookie, const void *header, size_t header_bytes,
                           const void *data, size_t bytes, pami_endpoint_t origin,
                           pami_recv_t *recv)
{
    struct spread_lane *lane = cookie;
    struct spread_note note;

    (void)on, (void)header_bytes, (void)origin, (void)recv;
    memcpy(&note, header, sizeof(note));
    lane->in->deliver(lane->in->cookie, (size_t)(lane - lane->in->lane), note.source, data, bytes);
    atomic_fetch_add_explicit(&lane->arrived[note.round % 2], 1, memory_order_release);
}

static void spread_on_total(pami_context_t on, void *cookie, const void *header,
                            size_t header_bytes, const void *data, size_t bytes,
                            pami_endpoint_t origin, pami_recv_t *recv)
{
    struct spread_lane *lane = cookie;
    struct spread_note note;
    uint64_t total;

    (void)on, (void)header_bytes, (void)bytes, (void)origin, (void)recv;
    memcpy(&note, header, sizeof(note));
    memcpy(&total, data, sizeof(total));
    atomic_fetch_add_explicit(&lane->due[note.round % 2], total, memory_order_relaxed);
    atomic_fetch_add_explicit(&lane->totals[note.round % 2], 1, memory_order_release);
}

/* ---- injection ---- */

/* Posted: runs on the thread that advances the context. */
static pami_result_t spread_inject(pami_context_t on, void *cookie)
{
    struct spread_record *record = cookie;
    struct spread_lane *lane = &record->in->lane[record->lane];
    pami_send_immediate_t send = {
        .header = {.iov_base = &record->note, .iov_len = sizeof(record->note)},
        .data = {.iov_base = record->data, .iov_len = record->bytes},
        .dispatch = record->dispatch,
        .dest = record->dest,
    };

    SPREAD_CHECK(PAMI_Send_immediate(on, &send));
    atomic_store_explicit(&record->busy, false, memory_order_release);
    atomic_fetch_add_explicit(&lane->injected, 1, memory_order_release);
    return PAMI_SUCCESS;
}

static inline void spread_post(struct spread *s, size_t dispatch, size_t destination,
                               const void *data, size_t bytes)
{
    struct spread_record *record = &s->record[s->next++ % SPREAD_FLIGHT];

    while (atomic_load_explicit(&record->busy, memory_order_acquire))
        sched_yield();
    atomic_store_explicit(&record->busy, true, memory_order_relaxed);
    record->in = s;
    record->lane = spread_lane_of(s, destination, s->task);
    record->dispatch = dispatch;
    record->note = (struct spread_note){(uint32_t)s->task, s->round};
    record->bytes = bytes;
    memcpy(record->data, data, bytes);
    SPREAD_CHECK(
        PAMI_Endpoint_create(s->client, (pami_task_t)destination, record->lane, &record->dest));
    s->posted[record->lane]++;
    SPREAD_CHECK(PAMI_Context_post(s->context[record->lane], &record->work, spread_inject, record));
}

/* ---- what a program calls ---- */

/* Uses two dispatch ids of the contexts, `dispatch` and the next one. *s does not move. */
static inline void spread_open(struct spread *s, pami_client_t client, pami_context_t *context,
                               size_t contexts, size_t dispatch, spread_function *deliver,
                               void *cookie)
{
    pami_configuration_t query[] = {{.name = PAMI_CLIENT_TASK_ID}, {.name = PAMI_CLIENT_NUM_TASKS}};
    pami_dispatch_callback_function data = {.p2p = spread_on_data},
                                    total = {.p2p = spread_on_total};
    pami_dispatch_hint_t hints = {.recv_immediate = PAMI_HINT_ENABLE,
                                  .consistency = PAMI_HINT_ENABLE};

    memset(s, 0, sizeof(*s));
    SPREAD_CHECK(PAMI_Client_query(client, query, 2));
    s->client = client;
    s->context = context;
    s->contexts = contexts;
    s->task = query[0].value.intval;
    s->tasks = query[1].value.intval;
    s->dispatch = dispatch;
    s->deliver = deliver;
    s->cookie = cookie;
    s->sent = calloc(s->tasks, sizeof(*s->sent));
    if (s->sent == NULL || contexts == 0 || contexts > SPREAD_CONTEXTS) {
        fputs("spread: no memory, or too many contexts\n", stderr);
        exit(EXIT_FAILURE);
    }
    for (size_t i = 0; i < contexts; i++) {
        s->lane[i].in = s;
        SPREAD_CHECK(PAMI_Dispatch_set(context[i], dispatch, data, &s->lane[i], hints));
        SPREAD_CHECK(PAMI_Dispatch_set(context[i], dispatch + 1, total, &s->lane[i], hints));
    }
}

/* Copies the data, at most SPREAD_BYTES. */
static inline void spread_send(struct spread *s, size_t destination, const void *data, size_t bytes)
{
    s->sent[destination]++;
    spread_post(s, s->dispatch, destination, data, bytes);
}

/* Everything posted has been injected. */
static inline void spread_wait_injected(struct spread *s)
{
    for (size_t i = 0; i < s->contexts; i++)
        while (atomic_load_explicit(&s->lane[i].injected, memory_order_acquire) != s->posted[i])
            sched_yield();
}

/* Until all that this and all other tasks have sent before they call it has arrived; returns how
 * many messages came here since the last time. */
static inline uint64_t spread_wait_all(struct spread *s)
{
    uint64_t totals = 0, due = 0, arrived = 0;
    uint32_t side = s->round % 2;

    spread_wait_injected(s);
    for (size_t i = 0; i < s->tasks; i++) {
        spread_post(s, s->dispatch + 1, i, &s->sent[i], sizeof(s->sent[i]));
        s->sent[i] = 0;
    }
    while (totals != s->tasks || arrived != due) {
        sched_yield();
        totals = due = arrived = 0;
        for (size_t i = 0; i < s->contexts; i++)
            totals += atomic_load_explicit(&s->lane[i].totals[side], memory_order_acquire);
        for (size_t i = 0; i < s->contexts; i++) {
            due += atomic_load_explicit(&s->lane[i].due[side], memory_order_acquire);
            arrived += atomic_load_explicit(&s->lane[i].arrived[side], memory_order_acquire);
        }
    }
    for (size_t i = 0; i < s->contexts; i++) /* nobody else looks before the round after next */
        s->lane[i].totals[side] = s->lane[i].due[side] = s->lane[i].arrived[side] = 0;
    spread_wait_injected(s);
    s->round++;
    return arrived;
}

/* After the contexts' threads have ended, or before they are destroyed. */
static inline void spread_close(struct spread *s)
{
    free(s->sent);
}

#endif
