/*
 * Messages for dispatch ids that are not registered yet: they wait in their row, in order, without
 * blocking other ids, and are delivered from an advance after the id has been registered.
 *
 * All that waits for the program is counted, also what floors above keep. When it is too much the
 * context's ports are not read, so what else comes waits at its senders.
 */
#include "p2p/p2p.h"

#include "p2p/message.h"
#include "util/log.h"

void message_held(struct context *context, size_t bytes)
{
    struct p2p *p2p = context->p2p;

    p2p->held_bytes += bytes;
    if (p2p->held_bytes <= p2p->hold_limit || context->paused)
        return;
    log_warn("PAMI_HOLD_BYTES: %zu bytes wait for dispatch ids that are not registered; "
             "receiving stops until one is",
             p2p->held_bytes);
    context->paused = true;
}

void message_held_less(struct context *context, size_t bytes)
{
    struct p2p *p2p = context->p2p;

    p2p->held_bytes -= bytes;
    if (context->paused && p2p->held_bytes <= p2p->hold_limit / 2)
        context->paused = false;
}

void receive_held_more(struct p2p *p2p, struct receive *receive, size_t bytes)
{
    receive->counted += bytes;
    message_held(p2p->context, bytes);
}

void receive_held_less(struct p2p *p2p, struct receive *receive)
{
    if (receive->counted != 0)
        message_held_less(p2p->context, receive->counted);
    receive->counted = 0;
}

/* NULL: no memory. */
static struct dispatch *row_of(struct p2p *p2p, const struct receive *receive)
{
    struct dispatch_table *table = &p2p->context->dispatch;
    struct dispatch *row = dispatch_arrival(table, receive->dispatch);

    if (row == NULL)
        row = dispatch_row(table, receive->dispatch);
    if (row != NULL && row->held.next == NULL) {
        list_init(&row->held);
        list_init(&row->release);
    }
    return row;
}

bool p2p_hold(struct p2p *p2p, struct receive *receive)
{
    struct dispatch *row = row_of(p2p, receive);

    if (row == NULL)
        return false;
    receive->held = true;
    receive_held_more(p2p, receive, sizeof(*receive) + receive->header_bytes);
    p2p->context->counters[COUNTER_HELD]++;
    list_push_back(&row->held, &receive->queue);
    /* Registered since, but older messages are still on their way out of the list. */
    if (row->function != NULL && list_empty(&row->release))
        p2p_release(p2p, row);
    return true;
}

/* Its handler, which has none, asks for memory: the first of its row, from the next pass on. */
void p2p_hold_again(struct p2p *p2p, struct receive *receive)
{
    struct dispatch *row = row_of(p2p, receive);

    receive->put_back = receive->dispatched = receive->deferred = false;
    receive->held = true;
    list_push_front(&row->held, &receive->queue);
    p2p_release(p2p, row);
}

/* Held messages of this row may be delivered from the next pass on. */
void p2p_release(struct p2p *p2p, struct dispatch *row)
{
    if (!list_empty(&row->release))
        return;
    list_push_back(&p2p->released, &row->release);
    p2p_retry_later(p2p);
}

static int deliver_row(struct p2p *p2p, struct dispatch *row)
{
    size_t left = 0;
    struct list *item;
    int count = 0;

    list_for_each (item, &row->held)
        left++;
    while (left-- > 0 && (item = list_pop_front(&row->held)) != NULL) {
        struct receive *receive = list_entry(item, struct receive, queue);

        receive->held = false;
        receive_held_less(p2p, receive);
        count++;
        if (receive->header_got == receive->header_bytes)
            receive_deliver(p2p, receive);
        if (unlikely(list_first(&row->held) == item))
            break; /* there is no memory for it */
    }
    return count;
}

/* Deliver what was held for ids that are registered now. */
int p2p_deliver_held(struct p2p *p2p)
{
    struct list rows = LIST_INITIALIZER(rows);
    struct list *item;
    int count = 0;

    list_splice_back(&rows, &p2p->released);
    while ((item = list_pop_front(&rows)) != NULL)
        count += deliver_row(p2p, list_entry(item, struct dispatch, release));
    return count;
}
