/*
 * Short messages that find no room: their packets, in the peer's queue.
 *
 * One packet holds them and nobody waits for them, so nothing else is remembered. They lie in the
 * memory of a struct send and leave by the device's short way, as if they had found room at once.
 */
#include <errno.h>

#include "p2p/p2p.h"

struct later {
    struct operation op;
    uint64_t words[2]; /* the packet's header */
    char bytes[SEND_LATER_BYTES];
};

_Static_assert(sizeof(struct later) <= sizeof(struct send), "one is made of the other");
_Static_assert(SEND_LATER_BYTES <= PACKET_SMALL, "devices may refuse more for good");

static struct later *later_of(struct operation *operation)
{
    return container_of(operation, struct later, op);
}

static void later_free(struct p2p *p2p, struct operation *operation)
{
    list_remove(&operation->link);
    pool_put(&p2p->sends, later_of(operation));
}

static void later_finish(struct p2p *p2p, struct operation *operation, pami_result_t result)
{
    (void)result;
    later_free(p2p, operation);
}

/* The short way does not find out that there is room again: this one does. */
static int send_usual(const struct later *later, const struct iovec *header,
                      const struct iovec *data)
{
    const struct packet packet = {
        .head = {.words = {later->words[0], later->words[1]}},
        .header = header->iov_base,
        .payload = data->iov_base,
    };

    return later->op.path->am(later->op.path, &packet);
}

static int later_progress(struct p2p *p2p, struct operation *operation)
{
    struct later *later = later_of(operation);
    struct path *path = operation->path;
    const struct packet_header head = {.words = {later->words[0], later->words[1]}};
    const struct iovec header = {later->bytes, head.header_bytes};
    const struct iovec data = {later->bytes + head.header_bytes, head.payload_bytes};
    int error = -EAGAIN;

    if (likely(path->am_short != NULL))
        error = path->am_short(path, head.words[0], head.words[1], &header, &data);
    if (unlikely(error != 0))
        error = send_usual(later, &header, &data);
    if (likely(error == 0))
        later_free(p2p, operation);
    return error;
}

static const struct operation_ops later_ops = {
    .progress = later_progress,
    .finish = later_finish,
    .free = later_free,
};

int send_later(struct p2p *p2p, struct peer *peer, struct path *path,
               const pami_send_immediate_t *send)
{
    struct packet_header head =
        packet_header_short(PROTOCOL_IMMEDIATE, send->dispatch, send->header.iov_len,
                            send->data.iov_len, p2p->context->endpoint, 0);
    struct later *later = pool_get(&p2p->sends);

    if (unlikely(later == NULL))
        return -ENOMEM;
    operation_init(&later->op, &later_ops, peer);
    if (unlikely(later->op.next_life))
        fence_turn(peer);
    peer->unfenced = true;
    later->op.path = path;
    later->words[0] = head.words[0];
    later->words[1] = head.words[1];
    packet_copy(later->bytes, send->header.iov_base, send->header.iov_len);
    packet_copy(later->bytes + send->header.iov_len, send->data.iov_base, send->data.iov_len);
    operation_launch(p2p, &later->op);
    return 0;
}

bool send_behind(struct context *context, struct peer *peer, const struct dispatch *row,
                 const pami_send_immediate_t *send)
{
    if ((row->flags & DISPATCH_NO_QUEUE) || !send_fits_later(peer->path, send) ||
        send_later(context->p2p, peer, peer->path, send) != 0)
        return false;
    context->counters[COUNTER_SEND_IMMEDIATE]++;
    context->counters[COUNTER_SEND_BYTES] += send->data.iov_len;
    return true;
}
