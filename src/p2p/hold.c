/*
 * Messages for dispatch ids that are not registered yet: they wait in their row, in order, without
 * blocking other ids, and are delivered from an advance after the id has been registered.
 */
#include "p2p/p2p.h"

bool p2p_hold(struct p2p *p2p, struct receive *receive)
{
    struct dispatch *row = dispatch_row(&p2p->context->dispatch, receive->dispatch);

    if (row == NULL)
        return false;
    if (row->held.next == NULL) {
        list_init(&row->held);
        list_init(&row->release);
    }
    receive->held = true;
    p2p->context->counters[COUNTER_HELD]++;
    list_push_back(&row->held, &receive->queue);
    /* Registered since, but older messages are still on their way out of the list. */
    if (row->function != NULL && list_empty(&row->release))
        p2p_release(p2p, row);
    return true;
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
    }
    return count;
}

/* Deliver what was held for ids that are registered now. */
int p2p_deliver_held(struct p2p *p2p)
{
    struct list *item;
    int count = 0;

    while ((item = list_pop_front(&p2p->released)) != NULL)
        count += deliver_row(p2p, list_entry(item, struct dispatch, release));
    return count;
}
