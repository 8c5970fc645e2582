/*
 * Messages of many sizes between tasks, everything about each of them checked.
 *
 * A program makes a list of rows (which call, how many bytes of header and of data); every task
 * sends the whole list, in order, to its successor and to itself, and receives the same from its
 * predecessor. The receiver knows from the position in the list what must come: lengths, contents,
 * immediate or asynchronous. The sender checks that local_fn and remote_fn each come once, in this
 * order, with the right context, cookie and result, that memory given for good (headers, the
 * structure) may be overwritten, and that nothing is written outside a receive buffer.
 */
#ifndef LIBPAMI_API_EXCHANGE_H
#define LIBPAMI_API_EXCHANGE_H

#include "api_test.h"

enum exchange_kind {
    EXCHANGE_IMMEDIATE, /* PAMI_Send_immediate */
    EXCHANGE_SEND,      /* PAMI_Send with both events */
    EXCHANGE_REMOTE,    /* PAMI_Send with remote_fn only */
    EXCHANGE_QUIET      /* PAMI_Send without events */
};

struct exchange_row {
    enum exchange_kind kind;
    size_t header, data;
};

enum {
    EXCHANGE_SPREAD = 4096, /* rows start at different places of the source */
    EXCHANGE_GUARD = 64,
    EXCHANGE_GUARD_BYTE = 0xd7,
    EXCHANGE_WINDOW = 160 << 20 /* bytes sent and not yet acknowledged */
};

struct exchange {
    struct job *job;
    size_t id;
    const struct exchange_row *rows;
    size_t count;
    size_t recv_max; /* PAMI_DISPATCH_RECV_IMMEDIATE_MAX */
    bool never_immediate;
    unsigned char *source, *scratch; /* pattern of this task; headers that get lost */
    size_t *dispatched, *landed;     /* per origin task: messages */
    size_t in_flight;                /* bytes */
    size_t expected, done;           /* events of this task's sends */
};

struct exchange_sent {
    struct exchange *exchange;
    const struct exchange_row *row;
    bool local, remote;
};

struct exchange_landing {
    struct exchange *exchange;
    size_t origin, index;
    unsigned char *block;
};

/* Where in the source the header and the data of row number `index` start. */
static inline size_t exchange_header_at(size_t index)
{
    return index * 53 % EXCHANGE_SPREAD;
}

static inline size_t exchange_data_at(size_t index)
{
    return index * 37 % EXCHANGE_SPREAD;
}

static inline void exchange_on_local(pami_context_t context, void *cookie, pami_result_t result)
{
    struct exchange_sent *sent = cookie;

    CHECK_CALLBACK();
    CHECK(context == sent->exchange->job->context[0] && result == PAMI_SUCCESS);
    CHECK(!sent->local && !sent->remote);
    sent->local = true;
    sent->exchange->done++;
}

static inline void exchange_on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    struct exchange_sent *sent = cookie;

    CHECK_CALLBACK();
    CHECK(context == sent->exchange->job->context[0] && result == PAMI_SUCCESS);
    CHECK(!sent->remote && (sent->local || sent->row->kind == EXCHANGE_REMOTE));
    sent->remote = true;
    sent->exchange->done++;
    sent->exchange->in_flight -= sent->row->data;
}

static inline void exchange_verify(const struct exchange *x, size_t origin, size_t index,
                                   const void *data, size_t bytes)
{
    size_t at = test_differs(data, bytes, origin, exchange_data_at(index));

    if (at != bytes)
        FAIL("row %zu from task %zu (header %zu, data %zu bytes): wrong at data byte %zu", index,
             origin, x->rows[index].header, x->rows[index].data, at);
}

static inline void exchange_on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    struct exchange_landing *landing = cookie;
    struct exchange *x = landing->exchange;
    size_t bytes = x->rows[landing->index].data;

    CHECK_CALLBACK();
    CHECK(context == x->job->context[0] && result == PAMI_SUCCESS);
    exchange_verify(x, landing->origin, landing->index, landing->block + EXCHANGE_GUARD, bytes);
    CHECK(test_all(landing->block, EXCHANGE_GUARD, EXCHANGE_GUARD_BYTE));
    CHECK(test_all(landing->block + EXCHANGE_GUARD + bytes, EXCHANGE_GUARD, EXCHANGE_GUARD_BYTE));
    x->landed[landing->origin]++;
    free(landing->block);
    free(landing);
}

static inline void exchange_land(struct exchange *x, size_t origin, size_t index, pami_recv_t *recv)
{
    struct exchange_landing *landing = test_alloc(sizeof *landing);
    size_t bytes = x->rows[index].data;
    unsigned char *block = test_alloc(bytes + 2 * EXCHANGE_GUARD);

    CHECK(recv->cookie == NULL && recv->local_fn == NULL && recv->addr == NULL);
    CHECK(recv->type == PAMI_TYPE_BYTE && recv->offset == 0 && recv->data_cookie == NULL);
    CHECK(recv->data_fn == PAMI_DATA_COPY || recv->data_fn == NULL);
    memset(block, EXCHANGE_GUARD_BYTE, EXCHANGE_GUARD);
    memset(block + EXCHANGE_GUARD + bytes, EXCHANGE_GUARD_BYTE, EXCHANGE_GUARD);
    *landing = (struct exchange_landing){x, origin, index, block};
    recv->addr = block + EXCHANGE_GUARD;
    recv->cookie = landing;
    recv->local_fn = exchange_on_landed;
}

static inline void exchange_on_message(pami_context_t context, void *cookie, const void *header,
                                       size_t header_bytes, const void *data, size_t bytes,
                                       pami_endpoint_t endpoint, pami_recv_t *recv)
{
    struct exchange *x = cookie;
    size_t at, origin = test_origin(endpoint), index = x->dispatched[origin]++;
    const struct exchange_row *row = &x->rows[index];
    bool immediate;

    CHECK_CALLBACK();
    CHECK(context == x->job->context[0] && index < x->count);
    if (header_bytes != row->header || bytes != row->data)
        FAIL("row %zu from task %zu: header %zu, data %zu bytes; expected %zu, %zu", index, origin,
             header_bytes, bytes, row->header, row->data);
    at = test_differs(header, header_bytes, origin, exchange_header_at(index));
    if (at != header_bytes)
        FAIL("row %zu from task %zu: header wrong at byte %zu", index, origin, at);
    CHECK((uintptr_t)header % 8 == 0);
    if (header_bytes != 0) /* private to this call */
        memset((void *)header, 0xee, header_bytes);

    immediate = !x->never_immediate && (row->kind == EXCHANGE_IMMEDIATE || row->data == 0 ||
                                        row->header + row->data <= x->recv_max);
    if (immediate != (recv == NULL) || immediate != (data != NULL))
        FAIL("row %zu from task %zu (call %d, header %zu, data %zu bytes): recv %p, pipe_addr %p",
             index, origin, (int)row->kind, row->header, row->data, (void *)recv, data);
    if (recv != NULL) {
        exchange_land(x, origin, index, recv);
        return;
    }
    exchange_verify(x, origin, index, data, bytes);
    x->landed[origin]++;
}

static inline void exchange_send(struct exchange *x, size_t index, pami_endpoint_t dest,
                                 struct exchange_sent *sent)
{
    const struct exchange_row *row = &x->rows[index];
    pami_context_t context = x->job->context[0];
    const unsigned char *data = x->source + exchange_data_at(index);
    pami_send_event_t events = {.cookie = sent};

    /* Empty parts may come with any base. */
    static unsigned char *const odd_bases[] = {NULL, (unsigned char *)1L};
    const void *header = row->header == 0 ? odd_bases[index % 2] : x->scratch;
    if (row->data == 0)
        data = odd_bases[index / 2 % 2];
    *sent = (struct exchange_sent){.exchange = x, .row = row};
    memcpy(x->scratch, x->source + exchange_header_at(index), row->header);

    if (row->kind == EXCHANGE_IMMEDIATE) {
        test_send_immediate(context, dest, x->id, header, row->header, data, row->data);
    } else {
        if (row->kind == EXCHANGE_SEND) {
            events.local_fn = exchange_on_local;
            x->expected++;
        }
        if (row->kind != EXCHANGE_QUIET) {
            events.remote_fn = exchange_on_remote;
            x->expected++;
            x->in_flight += row->data;
        }
        test_send(context, dest, x->id, header, row->header, data, row->data, events);
    }
    /* The header was copied during the call. */
    memset(x->scratch, 0xbb, row->header);
}

/* Send and receive all rows; a collective call. The id is registered here on context 0. */
static inline void exchange_run(struct job *job, size_t id, const struct exchange_row *rows,
                                size_t count, pami_dispatch_hint_t hints)
{
    struct exchange x = {.job = job, .id = id, .rows = rows, .count = count};
    size_t next = (job->task + 1) % job->tasks,
           previous = (job->task + job->tasks - 1) % job->tasks;
    struct exchange_sent *sent = test_alloc(2 * (count + 1) * sizeof *sent);
    size_t i, header_max = 0, data_max = 0;

    for (i = 0; i < count; i++) {
        header_max = rows[i].header > header_max ? rows[i].header : header_max;
        data_max = rows[i].data > data_max ? rows[i].data : data_max;
    }
    x.source = test_alloc((header_max > data_max ? header_max : data_max) + EXCHANGE_SPREAD);
    test_fill(x.source, (header_max > data_max ? header_max : data_max) + EXCHANGE_SPREAD,
              job->task, 0);
    x.scratch = test_alloc(header_max);
    x.dispatched = test_zalloc(job->tasks * sizeof(size_t));
    x.landed = test_zalloc(job->tasks * sizeof(size_t));
    hints.consistency = PAMI_HINT_ENABLE;
    x.never_immediate = hints.recv_immediate == PAMI_HINT_DISABLE;
    test_dispatch(job->context[0], id, exchange_on_message, &x, hints);
    x.recv_max = dispatch_attribute(job->context[0], id, PAMI_DISPATCH_RECV_IMMEDIATE_MAX);

    for (i = 0; i < count; i++) {
        WAIT(job, x.in_flight <= EXCHANGE_WINDOW);
        exchange_send(&x, i, job_endpoint(job, next, 0), &sent[2 * i]);
        if (next != job->task)
            exchange_send(&x, i, job_endpoint(job, job->task, 0), &sent[2 * i + 1]);
        if (i % 64 == 63)
            job_advance(job);
    }
    WAIT(job, x.landed[previous] == count && x.landed[job->task] == count);
    WAIT(job, x.done == x.expected);
    job_barrier(job);
    CHECK(x.done == x.expected && x.in_flight == 0);
    for (i = 0; i < job->tasks; i++)
        CHECK_SIZE(x.dispatched[i], i == previous || i == job->task ? count : 0);
    free(x.source), free(x.scratch), free(x.dispatched), free(x.landed), free(sent);
}

#endif /* LIBPAMI_API_EXCHANGE_H */
