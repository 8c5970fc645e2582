/*
 * The table of flights, and messages that come early; see flight.h.
 */
#include "coll/flight.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/ask.h"
#include "coll/coll.h"
#include "coll/engine.h"
#include "coll/gone.h"
#include "coll/shared/shared.h"

#define BUCKETS_AT_FIRST 64u

/* ---- table ---- */

static size_t bucket_of(const struct flight_table *table, uint64_t identity, uint32_t sequence,
                        uint32_t channel)
{
    uint64_t hash =
        (identity + sequence + ((uint64_t)channel << 32)) * UINT64_C(0x9e3779b97f4a7c15);

    return (size_t)(hash >> 32) & table->mask;
}

static bool is(const struct flight *flight, const struct flight_head *head)
{
    return flight->identity == head->identity && flight->sequence == head->sequence &&
           flight->channel == (head->word & FLIGHT_CHANNEL_MASK);
}

int flight_table_init(struct flight_table *table, struct context *context)
{
    *table = (struct flight_table){.context = context, .mask = BUCKETS_AT_FIRST - 1};
    table->buckets = calloc(BUCKETS_AT_FIRST, sizeof(struct flight *));
    pool_init(&table->flights, sizeof(struct flight), 0);
    return table->buckets != NULL ? 0 : -ENOMEM;
}

static void free_early_quietly(struct flight *flight)
{
    struct list *item;

    while ((item = list_pop_front(&flight->early)) != NULL)
        free(list_entry(item, struct early, link));
}

void flight_table_finish(struct flight_table *table)
{
    for (size_t i = 0; table->buckets != NULL && i <= table->mask; i++)
        for (struct flight *flight = table->buckets[i]; flight != NULL; flight = flight->next)
            free_early_quietly(flight);
    free(table->buckets);
    table->buckets = NULL;
    table->recent = NULL;
    pool_finish(&table->flights);
}

/* Twice the buckets; without memory the chains just get longer. */
static void grow(struct flight_table *table)
{
    struct flight **old = table->buckets;
    size_t old_mask = table->mask;
    struct flight **buckets = calloc(2 * (old_mask + 1), sizeof(struct flight *));

    if (buckets == NULL)
        return;
    table->buckets = buckets;
    table->mask = 2 * old_mask + 1;
    for (size_t i = 0; i <= old_mask; i++) {
        struct flight *flight = old[i];

        while (flight != NULL) {
            struct flight *next = flight->next;
            size_t to = bucket_of(table, flight->identity, flight->sequence, flight->channel);

            flight->next = buckets[to];
            buckets[to] = flight;
            flight = next;
        }
    }
    free(old);
}

static struct flight **find(struct flight_table *table, const struct flight_head *head)
{
    struct flight **link = &table->buckets[bucket_of(table, head->identity, head->sequence,
                                                     head->word & FLIGHT_CHANNEL_MASK)];

    while (*link != NULL && !is(*link, head))
        link = &(*link)->next;
    return link;
}

static void insert(struct flight_table *table, struct flight *flight)
{
    size_t to;

    if (unlikely(table->count > table->mask))
        grow(table);
    to = bucket_of(table, flight->identity, flight->sequence, flight->channel);
    flight->next = table->buckets[to];
    table->buckets[to] = flight;
    table->count++;
}

static void take_out(struct flight_table *table, struct flight **link)
{
    struct flight *flight = *link;

    *link = flight->next;
    table->count--;
    if (table->recent == flight)
        table->recent = NULL;
}

static struct flight **find_same(struct flight_table *table, const struct flight *flight)
{
    const struct flight_head head = {flight->identity, flight->sequence, flight->channel};

    return find(table, &head);
}

void flight_begin(struct flight_table *table, struct flight *flight)
{
    struct flight **link = find_same(table, flight);
    struct flight *waiting = *link;

    list_init(&flight->early);
    flight->aborted = flight->disagrees = false;
    if (unlikely(waiting != NULL)) {
        take_out(table, link);
        table->waiting--;
        list_splice_back(&flight->early, &waiting->early);
        flight->aborted = waiting->aborted;
        flight->disagrees = waiting->disagrees;
        pool_put(&table->flights, waiting);
    }
    insert(table, flight);
    table->recent = flight;
}

/* ---- early messages ---- */

static void lost(pami_context_t context, void *cookie, pami_result_t result)
{
    struct early *early = cookie;

    (void)context;
    (void)result;
    early->receive = NULL;
    early->lost = true;
}

/* Nobody will want the data, so its sender need not keep it. */
static void let_go(struct early *early)
{
    const struct message_place nowhere = {NULL, NULL, 0};
    struct receive *receive = early->receive;

    early->receive = NULL;
    early->lost = true;
    if (receive != NULL)
        message_resume(receive, &nowhere, NULL, NULL);
}

void early_free(struct early *early)
{
    free(early);
}

static size_t drop_early(struct flight *flight)
{
    struct list *item;
    size_t count = 0;

    while ((item = list_pop_front(&flight->early)) != NULL) {
        struct early *early = list_entry(item, struct early, link);

        let_go(early);
        free(early);
        count++;
    }
    return count;
}

size_t flight_end(struct flight_table *table, struct flight *flight)
{
    take_out(table, find_same(table, flight));
    return likely(list_empty(&flight->early)) ? 0 : drop_early(flight);
}

void flight_drop(struct flight_table *table, struct flight *flight)
{
    take_out(table, find_same(table, flight));
    free_early_quietly(flight);
}

struct early *flight_take(struct flight *flight, uint32_t origin)
{
    struct list *item;

    list_for_each (item, &flight->early) {
        struct early *early = list_entry(item, struct early, link);

        if (step_source(flight->instance, early->origin) == origin) {
            list_remove(item);
            return early;
        }
    }
    return NULL;
}

/* One that has not begun. */
static void discard(struct flight_table *table, struct flight **link)
{
    struct flight *flight = *link;

    take_out(table, link);
    table->waiting--;
    drop_early(flight);
    pool_put(&table->flights, flight);
}

void flight_forget(struct flight_table *table, uint64_t identity)
{
    for (size_t i = 0; i <= table->mask; i++) {
        struct flight **link = &table->buckets[i];

        while (*link != NULL) {
            struct flight *flight = *link;

            if (flight->identity != identity || flight->instance != NULL) {
                link = &flight->next;
                continue;
            }
            discard(table, link);
        }
    }
}

static struct flight *flight_new(struct flight_table *table, const struct flight_head *head)
{
    struct flight *flight = pool_get(&table->flights);

    if (flight == NULL)
        return NULL;
    *flight = (struct flight){
        .identity = head->identity,
        .sequence = head->sequence,
        .channel = head->word & FLIGHT_CHANNEL_MASK,
    };
    list_init(&flight->early);
    insert(table, flight);
    table->waiting++;
    return flight;
}

static void keep(struct flight_table *table, struct flight *flight, const struct flight_head *head,
                 const void *data, size_t bytes, uint32_t origin, pami_recv_t *recv)
{
    struct early *early = malloc(sizeof(*early) + (recv == NULL ? bytes : 0));

    if (early == NULL) {
        message_put_back(table->context, recv);
        return;
    }
    table->arrived_early++;
    early->origin = origin;
    early->word = head->word;
    early->bytes = bytes;
    early->receive = NULL;
    early->lost = recv != NULL && flight->aborted;
    if (recv != NULL && !flight->aborted)
        early->receive = message_defer(recv, lost, early);
    else if (recv == NULL && bytes != 0)
        memcpy(early->data, data, bytes);
    list_push_back(&flight->early, &early->link);
}

void flight_tell(struct context *context, const struct flight_head *head, uint32_t endpoint,
                 uint32_t what)
{
    const struct message_place nowhere = {NULL, NULL, 0};
    struct flight_head answer = *head;

    if (what & FLIGHT_ABORT)
        answer.word = (answer.word & ~FLIGHT_CHECK_MASK) | gone_word(context, head->identity);
    answer.word |= what;
    if (message_send(context, endpoint, MESSAGE_COLLECTIVE, &answer, sizeof(answer), &nowhere, 0,
                     NULL, NULL) == -ENOMEM &&
        context->coll->rows != NULL)
        debts_add(&context->coll->rows->debts, context, &answer, endpoint);
}

static uint32_t abort_for(pami_result_t why)
{
    return FLIGHT_ABORT | (why == PAMI_INVAL ? FLIGHT_DISAGREE : 0);
}

void flight_abort_all(const struct group *group, uint32_t sequence, pami_result_t why)
{
    const struct flight_head head = {group->identity, sequence, group->channel};

    for (uint32_t i = 0; i < group->size; i++)
        if (i != group->rank)
            flight_tell(group->context, &head, topology_endpoint(group->topology, i),
                        abort_for(why));
}

/* The group that has this run behind it already, or NULL. */
static struct group *group_behind(const struct flight_table *table, const struct flight_head *head)
{
    uint32_t channel = head->word & FLIGHT_CHANNEL_MASK;
    struct group *group = coll_group_at(table->context, head->identity, channel, head->sequence);

    return group != NULL && coll_reserved(group, channel, head->sequence) == NULL ? group : NULL;
}

/*
 * A message for a run that is over. Its sender may wait for this member. When the run ended well
 * here, or was never a part of the collective, nobody should have sent this: members run different
 * things, and who waits for whom is not known.
 */
static void answer_stale(struct flight_table *table, struct group *group,
                         const struct flight_head *head, uint32_t origin)
{
    pami_result_t why = coll_why_over(group, head->sequence);

    table->stale++;
    if (head->word & FLIGHT_ABORT) {
        if (head->word & FLIGHT_DISAGREE)
            coll_give_up(group, head->sequence, PAMI_INVAL);
        return;
    }
    if (why != PAMI_SUCCESS) {
        flight_tell(table->context, head, origin, abort_for(why));
        return;
    }
    flight_abort_all(group, head->sequence, PAMI_INVAL);
    coll_give_up(group, head->sequence, PAMI_INVAL);
}

/* A message for a run that is in an arena here, and so it is on all members that run the same: the
 * sender does not, or says that others do not. */
static bool is_in_arena(struct flight_table *table, const struct flight_head *head)
{
    uint32_t channel = head->word & FLIGHT_CHANNEL_MASK;
    struct group *group = coll_group_at(table->context, head->identity, channel, head->sequence);
    const struct machine *machine =
        group != NULL ? coll_reserved(group, channel, head->sequence) : NULL;

    if (machine == NULL || !shared_run_is(machine))
        return false;
    if (head->word & FLIGHT_ABORT ? !(head->word & FLIGHT_DISAGREE) : !shared_run_is_there(machine))
        return false;
    return coll_give_up(group, head->sequence, PAMI_INVAL);
}

/* The run will fail as soon as it begins. */
static void abort_early(struct flight *flight, bool disagrees)
{
    struct list *item;

    flight->aborted = true;
    flight->disagrees = disagrees;
    list_for_each (item, &flight->early)
        let_go(list_entry(item, struct early, link));
}

static void arrive_early(struct flight_table *table, struct flight *flight,
                         const struct flight_head *head, const void *data, size_t bytes,
                         uint32_t origin, pami_recv_t *recv)
{
    if (flight == NULL) {
        struct group *group = group_behind(table, head);

        if (group != NULL) {
            answer_stale(table, group, head, origin);
            return;
        }
        if (is_in_arena(table, head))
            return;
        flight = flight_new(table, head);
        if (flight == NULL) {
            message_put_back(table->context, recv);
            return;
        }
    }
    if (head->word & FLIGHT_ABORT)
        abort_early(flight, (head->word & FLIGHT_DISAGREE) != 0);
    else
        keep(table, flight, head, data, bytes, origin, recv);
}

/* Drop what waits for a run that will not be; its senders are told. */
static void refuse(struct flight_table *table, struct flight **link, pami_result_t why)
{
    const struct flight *flight = *link;
    const struct flight_head head = {flight->identity, flight->sequence, flight->channel};
    struct list *item;

    list_for_each (item, &flight->early)
        flight_tell(table->context, &head, list_entry(item, struct early, link)->origin,
                    abort_for(why));
    discard(table, link);
}

void flight_sweep(struct flight_table *table, uint64_t identity)
{
    for (size_t i = 0; i <= table->mask; i++) {
        struct flight **link = &table->buckets[i];

        while (*link != NULL) {
            struct flight *flight = *link;
            const struct flight_head head = {identity, flight->sequence, flight->channel};
            const struct group *group = NULL;

            if (flight->identity == identity && flight->instance == NULL)
                group = group_behind(table, &head);
            if (group == NULL) {
                link = &flight->next;
                continue;
            }
            refuse(table, link,
                   coll_why_over(group, head.sequence) == PAMI_ERROR ? PAMI_ERROR : PAMI_INVAL);
        }
    }
}

/* What waits for a geometry that is over here, and came when its group had been closed. */
void flight_reap(struct flight_table *table)
{
    uint64_t last = 0; /* no geometry */
    bool over = false;

    for (size_t i = 0; i <= table->mask && table->waiting != 0; i++) {
        struct flight **link = &table->buckets[i];

        while (*link != NULL) {
            struct flight *flight = *link;

            if (flight->instance == NULL && flight->identity != last) {
                last = flight->identity;
                over = geometry_is_over(table->context, last);
            }
            if (flight->instance == NULL && over)
                discard(table, link);
            else
                link = &flight->next;
        }
    }
}

void flight_look(struct flight_table *table, struct group *group, uint32_t sequence)
{
    const struct flight_head head = {group->identity, sequence, group->channel};
    struct flight **link = find(table, &head);
    struct flight *flight = *link;
    const struct machine *machine = coll_reserved(group, group->channel, sequence);

    if (flight == NULL || flight->instance != NULL)
        return;
    /* One that is still to begin looks by itself. */
    if (machine != NULL &&
        (!shared_run_is(machine) ||
         !(flight->disagrees || (!list_empty(&flight->early) && shared_run_is_there(machine)))))
        return;
    refuse(table, link, PAMI_INVAL);
    coll_give_up(group, sequence, PAMI_INVAL);
}

void flight_arrive(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                   const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct flight_table *table = cookie;
    const struct flight_head *head = header;
    struct flight *flight = table->recent;

    (void)context;
    if (unlikely(header_bytes != sizeof(*head))) {
        table->context->counters[COUNTER_FOREIGN]++;
        return;
    }
    if (unlikely(flight == NULL || !is(flight, head)))
        flight = *find(table, head);
    if (unlikely(head->word & (FLIGHT_ABORT | FLIGHT_ASK | FLIGHT_OVER))) {
        if ((head->word & (FLIGHT_ABORT | FLIGHT_DISAGREE)) == FLIGHT_ABORT)
            gone_heard(table->context, head->identity, head->word);
        if (head->word & (FLIGHT_ASK | FLIGHT_OVER)) {
            ask_arrive(table->context, flight, head, origin);
            return;
        }
    }
    if (likely(flight != NULL && flight->instance != NULL)) {
        table->recent = flight;
        if (engine_arrive(flight->instance, head->word, data, bytes, origin, recv))
            return;
    }
    arrive_early(table, flight, head, data, bytes, origin, recv);
}
