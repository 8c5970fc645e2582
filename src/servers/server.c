/*
 * A server's side: requests leave the ring and become operations of the server's context.
 *
 * Runs as callbacks and posted work of that context, hence on the thread that advances it, and
 * never waits. Whoever may go on with the ring next has the turn, of which there is exactly one:
 *   idle     producers: who puts a request and takes `idle` away posts the kick
 *   kick     the kick is posted, or is running
 *   stalled  as much is in flight as may be: the next end of a request goes on, or another policy
 *
 * Memory order: server_rest sets `idle` and then looks at the ring, a producer fills a slot and
 * then looks at `idle`; all four are in the total order of sequentially consistent operations, so
 * one of the two sees the other.
 */
#include <stdlib.h>

#include "servers/servers.h"
#include "util/error.h"

/* Requests of one turn: the context must be advanced in between. */
#define SERVER_TURN 64

static pami_result_t kicked(pami_context_t context, void *cookie);

static void kick(struct server *server)
{
    PAMI_Context_post(server->context, &server->kick, kicked, server);
}

void server_wake(struct server *server)
{
    if (likely(atomic_load(&server->idle) == 0) || atomic_exchange(&server->idle, 0) == 0)
        return;
    kick(server);
}

/* The ring is empty. False: it is not, after all, and the turn is still ours. */
static bool server_rest(struct server *server)
{
    atomic_store(&server->idle, 1);
    return !ring_ready(&server->ring) || atomic_exchange(&server->idle, 0) == 0;
}

static void count(struct server *server, const struct request *request)
{
    size_t bytes = request->call.get.rma.bytes;

    if (request->kind == REQUEST_PUT) {
        servers_count(&server->puts, 1);
    } else if (request->kind == REQUEST_GET) {
        servers_count(&server->gets, 1);
    } else {
        servers_count(&server->sends, 1);
        bytes = request->call.send.send.data.iov_len;
    }
    servers_count(&server->bytes, bytes);
}

/* False: it must be tried again. */
static bool serve(struct server *server, struct request *request)
{
    pami_result_t result = request_start(request, server->context);

    if (unlikely(result == PAMI_EAGAIN))
        return false;
    count(server, request);
    if (unlikely(result != PAMI_SUCCESS)) {
        servers_count(&server->failed, 1);
        if (!request->wanted)
            lane_lost(request->lane, request->fence);
        free(request->more);
        request->more = error_copy();
        request->refused = true;
        request_fail(request, result);
    } else if (request->kind == REQUEST_IMMEDIATE) {
        request_return(request);
    } else if (request_counts(request) && ++server->in_flight > SERVERS_LOAD(server->most)) {
        atomic_store_explicit(&server->most, server->in_flight, memory_order_relaxed);
    }
    return true;
}

static bool full(const struct server *server)
{
    unsigned limit = SERVERS_LOAD(server->servers->in_flight);

    return limit != 0 && server->in_flight >= limit;
}

/* Has the turn, and gives it to somebody. */
static void go_on(struct server *server)
{
    for (int i = 0; i < SERVER_TURN; i++) {
        struct request *request = server->held;

        if (full(server)) {
            server->stalled = true;
            server_fences(server);
            return;
        }
        if (request == NULL)
            request = ring_get(&server->ring);
        if (request == NULL) {
            server_fences(server);
            if (server_rest(server))
                return;
            continue;
        }
        server->held = serve(server, request) ? NULL : request;
        if (server->held != NULL)
            break;
    }
    server_fences(server);
    kick(server);
}

static pami_result_t kicked(pami_context_t context, void *cookie)
{
    struct server *server = cookie;

    (void)context;
    servers_count(&server->wakes, 1);
    go_on(server);
    return PAMI_SUCCESS;
}

static void resume(struct server *server)
{
    if (!server->stalled)
        return;
    server->stalled = false;
    go_on(server);
}

void server_less(struct server *server)
{
    server->in_flight--;
    resume(server);
}

static pami_result_t retuned(pami_context_t context, void *cookie)
{
    struct server *server = cookie;

    (void)context;
    atomic_store(&server->retuning, 0);
    resume(server);
    return PAMI_SUCCESS;
}

void server_retune(struct server *server)
{
    if (atomic_exchange(&server->retuning, 1) == 0)
        PAMI_Context_post(server->context, &server->retune, retuned, server);
}
