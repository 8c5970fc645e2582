/*
 * Messages of aggregation: sending, and whom what arrives is for. Everything is checked against
 * what is known here; what contradicts it is counted and dropped.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/aggregate/internal.h"
#include "p2p/message.h"
#include "util/log.h"
#include "util/option.h"

#define SHORT_BYTES 512u

/* ---- what is owed ---- */

int aggregate_may_owe(struct aggregate *aggregate)
{
    if (aggregate->owed == NULL)
        aggregate->owed = malloc(AGGREGATE_DEBTS * sizeof(*aggregate->owed));
    return aggregate->owed != NULL ? 0 : -ENOMEM;
}

void aggregate_retry_later(struct aggregate *aggregate)
{
    if (list_empty(&aggregate->retry.link))
        list_push_back(&aggregate->context->retries, &aggregate->retry.link);
}

/* The last one that is repeated when somebody asks; NULL: all are LEAVE. */
static struct aggregate_debt *least_needed(struct aggregate *aggregate)
{
    for (uint32_t i = aggregate->owes; i-- != 0;)
        if (aggregate->owed[i].wire.kind != AGGREGATE_LEAVE)
            return &aggregate->owed[i];
    return NULL;
}

static void owe(struct aggregate *aggregate, uint32_t endpoint, const struct aggregate_wire *wire)
{
    struct aggregate_debt *debt = NULL;

    if (aggregate->owed != NULL && aggregate->owes < AGGREGATE_DEBTS)
        debt = &aggregate->owed[aggregate->owes++];
    else if (aggregate->owed != NULL && wire->kind == AGGREGATE_LEAVE)
        debt = least_needed(aggregate);
    if (debt != NULL)
        *debt = (struct aggregate_debt){endpoint, *wire};
    else if (wire->kind == AGGREGATE_LEAVE)
        log_error("out of memory: aggregation slots at endpoint %u stay taken", endpoint);
    aggregate_retry_later(aggregate);
}

/* In their order: what finds no memory keeps those behind it. */
static void pay(struct aggregate *aggregate)
{
    const struct message_place nowhere = {NULL, NULL, 0};
    uint32_t paid = 0;

    while (paid < aggregate->owes &&
           message_send(aggregate->context, aggregate->owed[paid].endpoint, MESSAGE_AGGREGATE,
                        &aggregate->owed[paid].wire, sizeof(struct aggregate_wire), &nowhere, 0,
                        NULL, NULL) != -ENOMEM)
        paid++;
    aggregate->owes -= paid;
    if (paid != 0 && aggregate->owes != 0)
        memmove(aggregate->owed, aggregate->owed + paid,
                aggregate->owes * sizeof(*aggregate->owed));
}

static int try_again(struct retry *retry, struct context *context)
{
    struct aggregate *aggregate = container_of(retry, struct aggregate, retry);

    (void)context;
    list_remove(&retry->link);
    aggregate_enter(aggregate);
    pay(aggregate);
    if (aggregate->owes != 0)
        aggregate_retry_later(aggregate);
    aggregate->unsettled = true;
    aggregate_exit(aggregate);
    return 1;
}

/* ---- sending ---- */

/* A contribution that overtook the word of an earlier run's failure would say that members disagree
 * about which there are. */
static bool owes_still(struct aggregate *aggregate)
{
    pay(aggregate);
    return aggregate->owes != 0;
}

static int no_memory(struct aggregate *aggregate, uint32_t endpoint,
                     const struct aggregate_wire *wire)
{
    if (wire->kind == AGGREGATE_DATA || wire->kind == AGGREGATE_RESULT)
        return -ENOMEM;
    owe(aggregate, endpoint, wire);
    return 0;
}

int aggregate_send(struct aggregate *aggregate, uint32_t endpoint,
                   const struct aggregate_wire *wire, const void *data, size_t bytes)
{
    const struct message_place nowhere = {NULL, NULL, 0};
    char small[sizeof(*wire) + SHORT_BYTES], *message = small;
    int error;

    if (unlikely(aggregate->owes != 0) && owes_still(aggregate))
        return no_memory(aggregate, endpoint, wire);
    if (bytes > SHORT_BYTES)
        message = malloc(sizeof(*wire) + bytes);
    if (message == NULL)
        return -ENOMEM;
    memcpy(message, wire, sizeof(*wire));
    if (bytes != 0)
        memcpy(message + sizeof(*wire), data, bytes);
    error = message_send(aggregate->context, endpoint, MESSAGE_AGGREGATE, message,
                         sizeof(*wire) + bytes, &nowhere, 0, NULL, NULL);
    if (message != small)
        free(message);
    if (error != -ENOMEM) /* of who has gone p2p tells */
        return 0;
    return no_memory(aggregate, endpoint, wire);
}

/* ---- arriving ---- */

/* 0, or -ENOMEM: nothing has been done. */
static int sort_out(struct aggregate *aggregate, const struct aggregate_wire *wire, uint32_t origin,
                    const void *data, size_t bytes)
{
    switch (wire->kind) {
    case AGGREGATE_JOIN:
        return aggregate_node_join(aggregate, wire, origin);
    case AGGREGATE_DATA:
    case AGGREGATE_WAITING:
    case AGGREGATE_LEAVE:
        aggregate_node_up(aggregate, wire, origin, data, bytes);
        break;
    case AGGREGATE_FAIL:
        if (wire->flags & AGGREGATE_UP) {
            aggregate_node_up(aggregate, wire, origin, data, bytes);
            break;
        }
        /* fall through */
    case AGGREGATE_GRANT:
    case AGGREGATE_RESULT:
    case AGGREGATE_ASK:
        if (wire->vertex != AGGREGATE_NONE && wire->kind != AGGREGATE_ASK)
            aggregate_node_down(aggregate, wire, origin, data, bytes);
        else
            aggregate_member_down(aggregate, wire, origin, data, bytes);
        break;
    default:
        aggregate->context->counters[COUNTER_FOREIGN]++;
    }
    return 0;
}

static void arrive(pami_context_t handle, void *cookie, const void *header, size_t header_bytes,
                   const void *nothing, size_t no_bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct aggregate *aggregate = cookie;
    const char *data = (const char *)header + sizeof(struct aggregate_wire);
    struct aggregate_wire wire;

    (void)nothing;
    if (header_bytes < sizeof(wire) || no_bytes != 0) {
        aggregate->context->counters[COUNTER_FOREIGN]++;
        return;
    }
    memcpy(&wire, header, sizeof(wire));
    aggregate_enter(aggregate);
    if (sort_out(aggregate, &wire, origin, data, header_bytes - sizeof(wire)) != 0)
        message_put_back(handle, recv);
    aggregate_exit(aggregate);
}

struct aggregate *aggregate_attach(struct context *context)
{
    struct aggregate *aggregate = calloc(1, sizeof(*aggregate));

    if (aggregate == NULL)
        return NULL;
    aggregate->context = context;
    aggregate->manager = (struct aggregate_manager){
        .slots = (uint32_t)option_int(OPT_COLL_AGGREGATE_SLOTS),
        .bytes = option_bytes(OPT_COLL_AGGREGATE_BYTES),
    };
    list_init(&aggregate->nodes);
    list_init(&aggregate->members);
    list_init(&aggregate->retry.link);
    aggregate->retry.run = try_again;
    message_register(context, MESSAGE_AGGREGATE, arrive, aggregate);
    return aggregate;
}

/* Groups have been closed. */
void aggregate_detach(struct aggregate *aggregate)
{
    struct list *item, *following;

    if (aggregate == NULL)
        return;
    list_for_each_safe (item, following, &aggregate->nodes)
        aggregate_node_free(list_entry(item, struct aggregate_node, link));
    u64map_finish(&aggregate->first);
    list_remove(&aggregate->retry.link);
    free(aggregate->owed);
    free(aggregate);
}

void aggregate_gone(struct aggregate *aggregate, uint32_t endpoint)
{
    struct list *item, *following;

    aggregate_enter(aggregate);
    list_for_each_safe (item, following, &aggregate->nodes)
        aggregate_node_gone(list_entry(item, struct aggregate_node, link), endpoint);
    list_for_each (item, &aggregate->members)
        aggregate_member_gone(list_entry(item, struct aggregate_member, link), endpoint);
    aggregate_exit(aggregate);
}

const struct aggregate_counts *aggregate_count(const struct aggregate *aggregate)
{
    return &aggregate->counts;
}
