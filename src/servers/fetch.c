/*
 * Servers fetch the data of large messages for contexts of the program, those of collectives among
 * them: what p2p asks its mover for (p2p/mover.h) becomes a get like any other, in pieces where
 * that is the policy, with learning of its own.
 *
 * The context carries by itself what learning or the policy leaves to it, and then there is no
 * request at all.
 */
#include <errno.h>

#include "servers/servers.h"

int servers_fetch(struct mover *mover, const struct mover_fetch *wanted)
{
    struct servers *servers = container_of(mover, struct servers, mover);
    struct request_call call = {
        .function = "PAMIX_SERVERS_FETCH",
        .servers = servers,
        .kind = REQUEST_FETCH,
        .bytes = wanted->bytes,
        .dest = wanted->endpoint,
    };
    pami_get_simple_t get = {
        .rma = {.dest = wanted->endpoint,
                .bytes = wanted->bytes,
                .cookie = wanted->cookie,
                .done_fn = wanted->done},
        .addr = {wanted->local, (void *)(uintptr_t)wanted->remote},
    };
    struct request *request;
    struct server *server;
    pami_result_t result;
    unsigned pieces;

    if ((SERVERS_LOAD(servers->operations) & PAMIX_SERVERS_FETCH) == 0)
        return -ENOTSUP;
    call.lane = request_lane(servers, wanted->context);
    if (call.lane == NULL || !request_choose(&call, &server))
        return -ENOTSUP;
    call.kind = REQUEST_GET;
    pieces = split_pieces(&call, &get.addr);
    if (pieces > 1)
        return split_hand(&call, NULL, &get, pieces) == PAMI_SUCCESS ? 0 : -ENOMEM;
    if (server == NULL)
        return -ENOTSUP;
    request = request_new(call.lane, call.kind);
    if (request == NULL)
        return -ENOMEM;
    request->call.get = get;
    request_events(request, wanted->cookie, wanted->done, NULL);
    result = request_hand(&call, request, server);
    return result == PAMI_SUCCESS ? 0 : -EAGAIN;
}
