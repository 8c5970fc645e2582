/*
 * What the reception has to tell a slot: names of endpoints, who has closed, who has died, and who
 * is there again in a new life (reception.h).
 */
#include <stdlib.h>

#include "bootstrap/bootstrap.h"
#include "device/ofi/ofi.h"

static void peer_dead(struct ofi_slot *slot, uint32_t task, uint32_t life)
{
    struct list *item;

    list_for_each (item, &slot->links) {
        struct ofi_link *link = list_entry(item, struct ofi_link, link);

        if (endpoint_task(link->path.endpoint) == task && !link->dead && link->life <= life) {
            link->dead = true;
            link->served_since = 0;
            ofi_link_leaves(link);
        }
    }
}

static bool is_name(enum notice_kind kind)
{
    return kind == NOTICE_NAME || kind == NOTICE_ANSWER || kind == NOTICE_BACK;
}

/* An answer may be to a context that had the place of this one. Who is behind is sent nothing until
 * it was asked, and answers when it has caught up; servers have one life. */
static bool is_for_us(struct ofi_link *link, const struct ofi_notice *notice)
{
    if (notice->kind == NOTICE_ANSWER)
        return link->state == LINK_ASKED && notice->count == link->asked_as;
    if (notice->ended >= link->slot->ended ||
        endpoint_task(notice->endpoint) >= link->slot->device->bootstrap->tasks)
        return true;
    link->told = false;
    return false;
}

/* Who is behind may send to us: it is told how much is read, and when we leave. What comes from it
 * does not end with its last life, which may still be leaving. */
static int take_sender(struct ofi_link *link, const struct ofi_notice *notice)
{
    if (notice->kind != NOTICE_ANSWER && link->leaving) {
        link->back = link->behind = true;
        link->ended_back = notice->ended;
    }
    if (notice->kind != NOTICE_NAME)
        return -EINVAL;
    link->announced = true;
    return ofi_link_address(link, &notice->name);
}

/* False: it cannot be taken yet. */
static bool take_notice(struct ofi_slot *slot, const struct ofi_notice *notice)
{
    struct ofi_link *link;

    if (notice->kind == NOTICE_DEAD) {
        peer_dead(slot, notice->endpoint, notice->life);
        return true;
    }
    if (notice->kind == NOTICE_PULSE || notice->kind == NOTICE_BEAT) {
        ofi_pulse_take(slot, notice);
        return true;
    }
    if (notice->kind == NOTICE_CONCEAL) {
        ofi_conceal_own(slot, notice->endpoint);
        return true;
    }
    link = ofi_link_get(slot, notice->endpoint);
    if (link == NULL)
        return false; /* no memory */
    if (notice->life < link->life)
        return true;
    if (!ofi_link_live(link, notice->life))
        return false;
    if (is_name(notice->kind)) {
        int error =
            is_for_us(link, notice) ? ofi_link_named(link, notice) : take_sender(link, notice);

        if (error == 0 && notice->asks)
            ofi_link_announce(link);
        return error != -ENOMEM;
    }
    /* Left before it got our question, whose answer says how things are now, or has said so. */
    if (notice->counted && (link->state == LINK_ASKED || notice->ended < ofi_link_ended(link)))
        return true;
    /* An answer that it has closed, to a question of the context that had the place of this one. */
    if (!notice->counted && notice->count != link->asked_as)
        return true;
    if (link->path.closed) {
        /* We asked whether it is back. */
        link->state = link->dead ? LINK_DEAD : LINK_CLOSED;
        return true;
    }
    ofi_link_leaves(link);
    link->back = false;
    if (notice->counted) {
        link->leave_known = true;
        link->leave_count = notice->count;
    }
    return true;
}

void ofi_listen(struct port *port)
{
    ofi_slot_listen(container_of(port, struct ofi_port, port)->slot);
}

void ofi_news(struct ofi_slot *slot)
{
    struct list notices, later;
    struct list *item;

    list_init(&notices);
    list_init(&later);
    pthread_mutex_lock(&slot->device->lock);
    atomic_store_explicit(&slot->news, 0, memory_order_relaxed);
    list_splice_back(&notices, &slot->notices);
    pthread_mutex_unlock(&slot->device->lock);
    while ((item = list_pop_front(&notices)) != NULL) {
        struct ofi_notice *notice = list_entry(item, struct ofi_notice, link);

        if (take_notice(slot, notice))
            free(notice);
        else
            list_push_back(&later, &notice->link);
    }
    if (list_empty(&later))
        return;
    pthread_mutex_lock(&slot->device->lock);
    list_splice_back(&later, &slot->notices);
    list_splice_back(&slot->notices, &later);
    atomic_store_explicit(&slot->news, 1, memory_order_relaxed);
    pthread_mutex_unlock(&slot->device->lock);
}
