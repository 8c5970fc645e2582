/*
 * Control packets: one packet each, sent at once or queued behind the peer's operations.
 */
#include "p2p/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "p2p/p2p.h"

struct control {
    struct operation op;
    enum packet_protocol protocol;
    uint32_t words;
    uint64_t meta[CONTROL_WORDS_MAX];
};

static int control_packet(struct p2p *p2p, struct path *path, enum packet_protocol protocol,
                          const void *meta, uint32_t words)
{
    const struct packet packet = {
        .head = {.protocol = (uint8_t)protocol,
                 .meta_words = (uint8_t)words,
                 .origin = p2p->context->endpoint},
        .meta = meta,
    };
    int error = path->am(path, &packet);

    return error == -ENOBUFS ? -EAGAIN : error;
}

static int control_progress(struct p2p *p2p, struct operation *operation)
{
    struct control *control = container_of(operation, struct control, op);
    int error =
        control_packet(p2p, operation->path, control->protocol, control->meta, control->words);

    if (error != 0)
        return error;
    p2p->packets++;
    list_remove(&operation->link);
    free(control);
    return 0;
}

static void control_free(struct p2p *p2p, struct operation *operation)
{
    (void)p2p;
    list_remove(&operation->link);
    free(container_of(operation, struct control, op));
}

/* Whoever waits for the effect hears of the destination's end by on_gone. */
static void control_finish(struct p2p *p2p, struct operation *operation, pami_result_t result)
{
    (void)result;
    control_free(p2p, operation);
}

static const struct operation_ops control_ops = {
    .progress = control_progress,
    .finish = control_finish,
    .free = control_free,
};

int control_send(struct context *context, uint32_t endpoint, enum packet_protocol protocol,
                 const void *meta, uint32_t words)
{
    struct p2p *p2p = context->p2p;
    struct control *control;
    int error = 0;
    struct peer *peer = peer_get(p2p, endpoint, &error);

    if (peer == NULL)
        return error;
    if (list_empty(&peer->queue)) {
        error = control_packet(p2p, peer->path, protocol, meta, words);
        if (error != -EAGAIN)
            return error;
    }
    control = calloc(1, sizeof(*control));
    if (control == NULL)
        return -ENOMEM;
    operation_init(&control->op, &control_ops, peer);
    control->protocol = protocol;
    control->words = words;
    memcpy(control->meta, meta, words * sizeof(control->meta[0]));
    operation_enqueue(p2p, &control->op);
    return 0;
}

int control_watch(struct context *context, uint32_t endpoint)
{
    int error = 0;

    return peer_get(context->p2p, endpoint, &error) != NULL ? 0 : error;
}
