/*
 * Messages that are owed; see debt.h.
 */
#include "coll/debt.h"

#include <errno.h>

#include "p2p/message.h"

/* Each once: what finds no memory again stays. */
static int pay(struct retry *retry, struct context *context)
{
    struct debts *debts = container_of(retry, struct debts, retry);
    const struct message_place nowhere = {NULL, NULL, 0};
    uint32_t left = 0;

    for (uint32_t i = 0; i < debts->count; i++) {
        const struct debt debt = debts->kept[i];

        if (message_send(context, debt.endpoint, MESSAGE_COLLECTIVE, &debt.head, sizeof(debt.head),
                         &nowhere, 0, NULL, NULL) == -ENOMEM)
            debts->kept[left++] = debt;
    }
    debts->count = left;
    if (left == 0)
        list_remove(&retry->link);
    return 1;
}

void debts_init(struct debts *debts)
{
    list_init(&debts->retry.link);
    debts->retry.run = pay;
    debts->count = 0;
}

void debts_finish(struct debts *debts)
{
    list_remove(&debts->retry.link);
}

void debts_add(struct debts *debts, struct context *context, const struct flight_head *head,
               uint32_t endpoint)
{
    if (debts->count == DEBTS)
        return;
    debts->kept[debts->count++] = (struct debt){.head = *head, .endpoint = endpoint};
    if (list_empty(&debts->retry.link))
        list_push_back(&context->retries, &debts->retry.link);
}
