/*
 * The queue of a peer: operations that have packets to send, first come first served.
 */
#include "p2p/operation.h"

#include <errno.h>

#include "p2p/p2p.h"
#include "util/error.h"

/* Whoever knows of the destination's next life, by whatever way, means that one. */
static bool is_stale(struct path *path)
{
    struct port *port = path->port;

    if (port->ops->listen != NULL)
        port->ops->listen(port);
    return path_is_stale(path);
}

void operation_init(struct operation *operation, const struct operation_ops *ops, struct peer *peer)
{
    *operation = (struct operation){
        .kind = OPERATION_OUTGOING,
        .ops = ops,
        .peer = peer,
        .path = peer->path,
        .next_life = is_stale(peer->path),
    };
    list_init(&operation->link);
}

static void wait_for_room(struct p2p *p2p, struct peer *peer)
{
    if (!list_empty(&peer->blocked))
        return;
    list_push_back(&p2p->blocked, &peer->blocked);
    p2p_retry_later(p2p);
}

void operation_enqueue(struct p2p *p2p, struct operation *operation)
{
    list_push_back(&operation->peer->queue, &operation->link);
    wait_for_room(p2p, operation->peer);
    p2p->context->counters[COUNTER_SEND_QUEUED]++;
}

void operation_launch(struct p2p *p2p, struct operation *operation)
{
    struct peer *peer = operation->peer;
    bool alone = list_empty(&peer->queue);

    list_push_back(&peer->queue, &operation->link);
    if (unlikely(operation->next_life))
        p2p->context->tend_at = 0; /* soon */
    if (alone)
        peer_progress(p2p, peer);
    if (list_empty(&peer->queue) || !list_empty(&peer->blocked))
        return;
    p2p->context->counters[COUNTER_SEND_QUEUED]++;
    wait_for_room(p2p, peer);
}

/* Returns how many operations moved. */
int peer_progress(struct p2p *p2p, struct peer *peer)
{
    struct list *item;
    int count = 0;

    while ((item = list_first(&peer->queue)) != NULL) {
        struct operation *operation = list_entry(item, struct operation, link);
        uint64_t before = p2p->packets;
        int error = operation->ops->progress(p2p, operation);

        if (error == -EAGAIN) {
            count += p2p->packets != before;
            break;
        }
        if (error != 0)
            operation->ops->finish(p2p, operation,
                                   error_set(PAMI_ERROR, "endpoint %u of task %u has gone",
                                             peer->endpoint, endpoint_task(peer->endpoint)));
        count++;
    }
    if (list_empty(&peer->queue))
        list_remove(&peer->blocked);
    return count;
}
