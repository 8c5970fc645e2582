/*
 * What other tasks say to the reception: questions for contexts, which it answers, and news, which
 * it tells the slots.
 */
#include <stdlib.h>

#include "bootstrap/bootstrap.h"
#include "device/ofi/reception.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/option.h"

/* Who asks is waiting for a later life of ours: the next one, or one that follows on that which we
 * still have. Servers have one life. Under device->lock. */
static bool has_to_wait(const struct ofi_device *device, const struct ofi_slot *slot,
                        const struct request *ask)
{
    if (slot == NULL)
        return true;
    if (device->bootstrap->task >= device->bootstrap->tasks ||
        endpoint_task(ask->message.from) >= device->bootstrap->tasks)
        return false;
    if (!slot->open)
        return device->ended <= ask->message.count;
    return device->ended < ask->message.count &&
           (double)(clock_now_ns() - ask->since) < 1e9 * option_seconds(OPT_BEHIND_TIMEOUT);
}

/*
 * Somebody asks for a context: its name, or that it has closed; false: it does not exist yet. In a
 * second life of our acquaintance the context itself answers, when it is done with the first. Who
 * has died meanwhile needs no answer.
 */
static bool answer(struct reception *reception, const struct request *request)
{
    struct ofi_device *device = reception->device;
    const struct message *ask = &request->message;
    struct message reply = {.from = ask->to, .to = ask->from, .count = ask->count};
    struct ofi_notice *notice = reception_memory(reception, sizeof(*notice));
    uint32_t life = request->life;
    struct ofi_slot *slot;
    bool waits;

    if (notice == NULL)
        return true;
    if (reception_is_over(reception, endpoint_task(ask->from), life)) {
        free(notice);
        return true;
    }
    *notice = (struct ofi_notice){.kind = NOTICE_NAME,
                                  .endpoint = ask->from,
                                  .life = life,
                                  .ended = ask->ended,
                                  .asks = life != 0,
                                  .name = ask->name};
    pthread_mutex_lock(&device->lock);
    slot = device->slots[endpoint_offset(ask->to)];
    waits = has_to_wait(device, slot, request);
    if (waits) {
        reply.kind = 0;
    } else if (slot->open) {
        reception_tell_slot(slot, notice);
        notice = NULL;
        reply.kind = life != 0 ? 0 : MESSAGE_NAME;
        reply.ended = slot->ended;
        reply.name = slot->name;
    } else {
        reply.kind = MESSAGE_CLOSED;
    }
    pthread_mutex_unlock(&device->lock);
    free(notice);
    if (reply.kind != 0)
        reception_send(reception, &reply);
    return !waits;
}

static void answer_or_wait(struct reception *reception, const struct message *ask, uint32_t life)
{
    struct request *request = reception_memory(reception, sizeof(*request));

    if (request == NULL)
        return;
    *request = (struct request){.message = *ask, .life = life, .since = clock_now_ns()};
    if (answer(reception, request))
        free(request);
    else
        list_push_back(&reception->waiting, &request->errand.link);
}

void reception_look_at_waiting(struct reception *reception)
{
    struct list again = LIST_INITIALIZER(again);
    struct list *item;

    list_splice_back(&again, &reception->waiting);
    while ((item = list_pop_front(&again)) != NULL) {
        struct request *request = list_entry(item, struct request, errand.link);

        if (answer(reception, request))
            free(request);
        else
            list_push_back(&reception->waiting, item);
    }
    reception->look_at = clock_now_ns() + LOOK_MS * UINT64_C(1000000);
}

/* The context that waits for an answer has closed: the next one in its place asks for itself. */
static void forget_question(struct reception *reception, const struct message *leave)
{
    struct list *item, *following;

    list_for_each_safe (item, following, &reception->waiting) {
        struct request *request = list_entry(item, struct request, errand.link);
        const struct message *ask = &request->message;

        if (ask->from != leave->from || ask->to != leave->to || ask->ended > leave->ended)
            continue;
        list_remove(item);
        free(request);
    }
}

/* Who reads or writes through a context that has closed asks it for signs of life until that is
 * over, and nobody else looks after it. */
static bool serve_closed(struct reception *reception, const struct message *message)
{
    struct ofi_device *device = reception->device;
    const struct message reply = {.kind = MESSAGE_BEAT, .from = message->to, .to = message->from};
    const struct ofi_slot *slot;
    bool closed;

    pthread_mutex_lock(&device->lock);
    slot = device->slots[endpoint_offset(message->to)];
    closed = slot != NULL && slot->port == NULL && !slot->open;
    if (closed)
        fi_cq_read(slot->cq, NULL, 0);
    pthread_mutex_unlock(&device->lock);
    if (closed)
        reception_send(reception, &reply);
    return closed;
}

void reception_take(void *cookie, struct connection *connection, const struct message *message)
{
    struct reception *reception = cookie;
    const struct ofi_device *device = reception->device;
    uint32_t life = connection->hello.life;
    struct ofi_notice notice = {
        .endpoint = message->from,
        .life = life,
        .count = message->count,
        .ended = message->ended,
        .name = message->name,
    };

    if (endpoint_task(message->from) != connection->task ||
        endpoint_task(message->to) != device->bootstrap->task ||
        endpoint_offset(message->from) >= device->contexts ||
        endpoint_offset(message->to) >= device->contexts || message->name.bytes > OFI_NAME_MAX) {
        log_warn("ofi: task %u sends nonsense", connection->task);
        connection->state = CONNECTION_FAILED;
        return;
    }
    switch (message->kind) {
    case MESSAGE_ASK:
        answer_or_wait(reception, message, life);
        return;
    case MESSAGE_NAME:
        notice.kind = NOTICE_ANSWER;
        break;
    case MESSAGE_BACK:
        notice.kind = NOTICE_BACK;
        break;
    case MESSAGE_HEARD:
        reception_heard(reception, connection->task);
        return;
    case MESSAGE_PULSE:
        if (serve_closed(reception, message))
            return;
        notice.kind = NOTICE_PULSE;
        break;
    case MESSAGE_BEAT:
        notice.kind = NOTICE_BEAT;
        break;
    case MESSAGE_LEAVE:
        forget_question(reception, message);
        notice.counted = true;
        notice.kind = NOTICE_CLOSED;
        break;
    default:
        notice.kind = NOTICE_CLOSED;
        break;
    }
    reception_tell(reception, endpoint_offset(message->to), &notice);
    if (message->kind == MESSAGE_BACK)
        reception_send(
            reception,
            &(struct message){.kind = MESSAGE_HEARD, .from = message->to, .to = message->from});
}
