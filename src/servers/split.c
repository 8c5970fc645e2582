/*
 * A large put or get in pieces, which servers carry at the same time, and the client one as well,
 * if it takes turns: one copy of some hundred kilobytes keeps one processor busy for as long as
 * several could share it.
 *
 * Each piece is a request like any other, so fences, stops, throttles and dying servers know of
 * nothing new. What joins them is a record that only the context's owner touches, for callbacks of
 * requests run there. Pieces do not depend on each other's order; ordered requests are not cut.
 */
#include <stdlib.h>

#include "servers/servers.h"

#define PIECE_ALIGNMENT 64u

struct whole {
    struct lane_record record;
    unsigned left[2]; /* pieces whose first, second callback has not come */
    pami_result_t result;
    void *cookie;
    pami_event_function function[2];
};

/* Do the pieces of one side lie where other pieces are to go? Then one piece moves them all. */
static bool overlaps(const struct request_call *call, const pami_rma_addr_t *addr)
{
    struct client_core *core = call->servers->core;
    const char *local = addr->local, *remote = addr->remote;
    pami_task_t task;
    size_t offset;

    if (PAMI_Endpoint_query(call->dest, &task, &offset) != PAMI_SUCCESS)
        return true;
    if (task != core->task)
        remote = PAMIX_Mem_local_address(core->client, task, addr->remote, call->bytes);
    return remote != NULL && (local < remote ? (size_t)(remote - local) < call->bytes
                                             : (size_t)(local - remote) < call->bytes);
}

unsigned split_pieces(const struct request_call *call, const pami_rma_addr_t *addr)
{
    size_t least = SERVERS_LOAD(call->servers->split);

    if (call->members < 2 || least == 0 || call->bytes / 2 < least ||
        call->bytes / call->members < 2 * PIECE_ALIGNMENT || overlaps(call, addr))
        return 1;
    return call->bytes / least < call->members ? (unsigned)(call->bytes / least) : call->members;
}

static void whole_free(struct whole *whole)
{
    if (whole == NULL)
        return;
    lane_record_remove(&whole->record);
    free(whole);
}

static void piece_came(pami_context_t context, struct whole *whole, unsigned which,
                       pami_result_t result)
{
    struct whole copy;

    if (result != PAMI_SUCCESS)
        whole->result = result;
    if (--whole->left[which] != 0)
        return;
    copy = *whole;
    if (which == 1 || copy.function[1] == NULL)
        whole_free(whole);
    copy.function[which](context, copy.cookie, copy.result);
}

static void on_first(pami_context_t context, void *cookie, pami_result_t result)
{
    piece_came(context, cookie, 0, result);
}

static void on_second(pami_context_t context, void *cookie, pami_result_t result)
{
    piece_came(context, cookie, 1, result);
}

/* NULL: out of memory. */
static struct whole *whole_new(struct lane *lane, const pami_rma_t *rma, pami_event_function second,
                               unsigned pieces)
{
    struct whole *whole = malloc(sizeof(*whole));

    if (whole == NULL)
        return NULL;
    *whole = (struct whole){
        .left = {pieces, pieces},
        .result = PAMI_SUCCESS,
        .cookie = rma->cookie,
        .function = {rma->done_fn, second},
    };
    lane_record_add(lane, &whole->record);
    return whole;
}

/* A piece that could not be handed out, while others are under way: their ends are yet to come. */
static void piece_failed(const struct request_call *call, struct whole *whole, pami_result_t result)
{
    if (whole == NULL)
        lane_lost(call->lane, call->lane->next_fence);
    for (unsigned which = 0; which < 2; which++)
        if (whole != NULL && whole->function[which] != NULL)
            piece_came(call->lane->context, whole, which, result);
}

/* The server whose piece is number `i`; NULL: the client, who comes last. */
static struct server *server_of(const struct request_call *call, unsigned i, unsigned pieces)
{
    struct servers *servers = call->servers;
    struct server *server = &servers->server[(call->lane->next + i) % call->used];

    if ((call->shared && i + 1 == pieces) || SERVERS_LOAD(server->dead) != 0)
        return NULL;
    return server;
}

static pami_result_t hand_piece(const struct request_call *call, const pami_put_simple_t *put,
                                const pami_get_simple_t *get, size_t at, size_t bytes,
                                struct whole *whole, struct server *server)
{
    struct request *request = request_new(call->lane, call->kind);
    bool first = whole != NULL && whole->function[0] != NULL;
    bool second = whole != NULL && whole->function[1] != NULL;
    pami_rma_addr_t *addr;

    if (request == NULL)
        return request_no_memory(call);
    if (put != NULL)
        request->call.put = *put;
    else
        request->call.get = *get;
    request->call.get.rma.bytes = bytes;
    addr = &request->call.get.addr;
    addr->local = (char *)addr->local + at;
    addr->remote = (char *)addr->remote + at;
    request_events(request, whole, first ? on_first : NULL, second ? on_second : NULL);
    return request_hand(call, request, server);
}

pami_result_t split_hand(const struct request_call *whole_call, const pami_put_simple_t *put,
                         const pami_get_simple_t *get, unsigned pieces)
{
    struct request_call call = *whole_call;
    const pami_rma_t *rma = put != NULL ? &put->rma : &get->rma;
    pami_event_function second = put != NULL ? put->put.rdone_fn : NULL;
    size_t each = call.bytes / pieces & ~(size_t)(PIECE_ALIGNMENT - 1);
    struct whole *whole = NULL;

    if (rma->done_fn != NULL || second != NULL) {
        whole = whole_new(call.lane, rma, second, pieces);
        if (whole == NULL)
            return request_no_memory(&call);
    }
    for (unsigned i = 0; i < pieces; i++) {
        size_t at = i * each, bytes = i + 1 < pieces ? each : call.bytes - at;
        pami_result_t result =
            hand_piece(&call, put, get, at, bytes, whole, server_of(whole_call, i, pieces));

        if (result != PAMI_SUCCESS && i == 0) {
            whole_free(whole);
            return result;
        }
        if (result != PAMI_SUCCESS)
            piece_failed(&call, whole, result);
        call.shared = true; /* what has begun goes on: the client carries what has no room */
    }
    return PAMI_SUCCESS;
}
