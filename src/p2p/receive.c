/*
 * The receive object: a message on its way in that its first packet does not complete.
 */
#include <stdlib.h>

#include "p2p/p2p.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/race.h"

struct receive *receive_new(struct p2p *p2p, struct peer *peer, const struct packet_header *head,
                            const struct message_meta *meta, bool keep_header)
{
    struct receive *receive = pool_get(&p2p->receives);

    if (receive == NULL)
        return NULL;
    memset(receive, 0, offsetof(struct receive, sink));
    receive->transfer = (struct transfer){0};
    receive->bounce = NULL;
    receive->race = NULL;
    receive->kind = OPERATION_RECEIVE;
    receive->context = p2p->context;
    receive->peer = peer;
    receive->mode = meta->mode;
    receive->immediate = meta->immediate != 0;
    receive->dispatch = head->dispatch;
    receive->answer = head->aux;
    receive->header_bytes = meta->header_bytes;
    receive->data_bytes = meta->data_bytes;
    receive->address = meta->address;
    receive->exposure = meta->exposure;
    list_init(&receive->queue);
    list_push_back(&peer->receives, &receive->link);
    if (!keep_header) {
        receive->header_got = receive->header_bytes;
    } else if (receive->header_bytes != 0) {
        receive->header = malloc(receive->header_bytes);
        if (receive->header == NULL) {
            receive_free(p2p, receive);
            return NULL;
        }
    }
    return receive;
}

void receive_free(struct p2p *p2p, struct receive *receive)
{
    handle_drop(&p2p->handles, receive->handle);
    if (receive->race != NULL)
        race_end(receive->race, receive->race_ticket, clock_ticks(), receive->data_bytes);
    if (receive->sinking)
        type_sink_finish(&receive->sink);
    receive_held_less(p2p, receive);
    if (receive->type != NULL)
        type_unref(receive->type);
    if (receive->peer->incoming == receive) {
        receive->peer->incoming = NULL;
        receive->peer->lead_unwanted = true;
    }
    free(receive->header);
    free(receive->text);
    stash_put(&p2p->context->stash, receive->buffer);
    free(receive->bounce);
    list_remove(&receive->link);
    list_remove(&receive->queue);
    pool_put(&p2p->receives, receive);
}

void receive_tell(struct p2p *p2p, struct peer *peer, const pami_recv_t *recv, uint32_t answer,
                  pami_result_t result)
{
    uint64_t begin = unlikely(p2p->context->trace != NULL) ? clock_now_ns() : 0;

    if (recv->local_fn == NULL)
        return;
    p2p_distrust(p2p);
    p2p_owe(p2p, peer, result == PAMI_SUCCESS ? answer : 0);
    recv->local_fn(p2p->context, recv->cookie, result);
    p2p->owed = 0;
    if (unlikely(begin != 0))
        trace_callback(p2p->context, "receive", begin);
}

void receive_finish(struct p2p *p2p, struct receive *receive, pami_result_t result)
{
    pami_recv_t recv = receive->recv;
    struct peer *peer = receive->peer;
    uint32_t answer = receive->answer;
    bool tell = receive->dispatched && !receive->immediate;

    if (unlikely(receive->result != PAMI_SUCCESS)) {
        result = receive->result;
        error_recall(receive->text);
        receive->text = NULL;
    }
    receive_free(p2p, receive);
    if (tell)
        receive_tell(p2p, peer, &recv, answer, result);
    if (answer != 0)
        p2p_answer(p2p, peer, answer, result);
    fence_receives_left(p2p, peer);
}
