/*
 * Sleeping contexts. A context sleeps on its first port, which is shared memory; while it does, the
 * reception watches the descriptor of the slot's completion queue, and wakes the context when
 * something comes. Where a queue has no descriptor, or one that always says yes, sleeps are short
 * instead.
 */
#include <sys/epoll.h>

#include "device/ofi/door.h"

/* Longest sleep of a context whose port cannot be waited for, us. */
#define BLIND_SLEEP_US 500u
/* Sleeps that the descriptor ended with nothing having come, since something came: it is not worth
 * listening to. */
#define FALSE_ALARMS_MAX 100u

static struct ofi_slot *slot_of(struct port *port)
{
    return container_of(port, struct ofi_port, port)->slot;
}

/* Its descriptor can be waited for from now on. False: there is something already. */
static bool is_quiet(struct ofi_slot *slot)
{
    struct fid *queue = &slot->cq->fid;
    struct epoll_event event;
    int cancel = ofi_enter();
    bool quiet = fi_trywait(slot->device->provider.fabric, &queue, 1) == 0;

    /* The last look at the queue comes after this. */
    if (quiet && slot->edges)
        epoll_wait(slot->cq_fd, &event, 1, 0);
    ofi_leave(cancel);
    return quiet;
}

void ofi_arm(struct port *base, bool light)
{
    struct ofi_slot *slot = slot_of(base);

    (void)light;
    ofi_links_flush(slot);
    ofi_slot_edges(slot);
    pthread_mutex_lock(&slot->device->lock);
    slot->false_alarms += slot->rung;
    slot->rung = false;
    slot->armed = true;
    pthread_mutex_unlock(&slot->device->lock);
    base->sleep_us = slot->cq_fd < 0 || slot->false_alarms > FALSE_ALARMS_MAX ? BLIND_SLEEP_US : 0;
    if (base->sleep_us != 0)
        return;
    if (!is_quiet(slot)) {
        slot->false_alarms++;
        base->params.wake(base->params.context);
        return;
    }
    reception_watch(slot->device->reception, slot, true);
}

void ofi_disarm(struct port *base)
{
    struct ofi_slot *slot = slot_of(base);

    pthread_mutex_lock(&slot->device->lock);
    slot->armed = false;
    pthread_mutex_unlock(&slot->device->lock);
    ofi_slot_rouse(slot);
    if (base->sleep_us == 0)
        reception_watch(slot->device->reception, slot, false);
}
