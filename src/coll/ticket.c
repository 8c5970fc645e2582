/*
 * Numbers that compositions have reserved; see ticket.h.
 */
#include "coll/ticket.h"

#include <errno.h>
#include <stdlib.h>

#include "coll/coll.h"
#include "coll/shared/shared.h"

void tickets_init(struct tickets *tickets, struct machine *machine, struct group *group)
{
    *tickets = (struct tickets){.machine = machine, .group = group, .width = 1};
    list_init(&tickets->link);
}

static struct tickets_stretch *new_stretch(struct tickets *tickets)
{
    size_t room = tickets->room != 0 ? 2 * tickets->room : 1;
    struct tickets_stretch *stretches;

    if (tickets->count == tickets->room) {
        stretches = realloc(tickets->stretches, room * sizeof(*stretches));
        if (stretches == NULL)
            return NULL;
        tickets->stretches = stretches;
        tickets->room = room;
    }
    return &tickets->stretches[tickets->count++];
}

int tickets_add(struct tickets *tickets)
{
    struct tickets_stretch *last =
        tickets->count != 0 ? &tickets->stretches[tickets->count - 1] : NULL;
    uint64_t number = tickets->group->sequence;

    if (last != NULL && last->count == 1)
        last->step = number - last->first;
    if (last == NULL || last->first + last->count * last->step != number) {
        last = new_stretch(tickets);
        if (last == NULL)
            return -ENOMEM;
        *last = (struct tickets_stretch){.first = number, .step = tickets->width};
    }
    last->count++;
    tickets->group->sequence += tickets->width;
    return 0;
}

/* The arena is held for the next one, if there is one. */
static void hold_next(struct tickets *tickets)
{
    if (tickets->next == tickets->count) {
        shared_let_go(&tickets->hold);
        list_remove(&tickets->link);
        tickets->next = tickets->count = 0;
    } else if (tickets->holds) {
        shared_hold(tickets->group, &tickets->hold, tickets->stretches[tickets->next].first);
    }
}

void tickets_publish(struct tickets *tickets)
{
    if (tickets->count == 0 || !list_empty(&tickets->link))
        return;
    list_push_back(&tickets->group->state->tickets, &tickets->link);
    hold_next(tickets);
}

bool tickets_use(struct tickets *tickets, struct machine *runs, uint64_t *number)
{
    struct tickets_stretch *stretch;

    if (tickets->next == tickets->count)
        return false;
    stretch = &tickets->stretches[tickets->next];
    *number = stretch->first;
    stretch->first += stretch->step;
    if (--stretch->count == 0)
        tickets->next++;
    if (runs != NULL)
        machine_reserve_at(runs, *number);
    hold_next(tickets); /* when the run has its place before what is held */
    return true;
}

void tickets_drop(struct tickets *tickets)
{
    tickets->next = tickets->count;
    hold_next(tickets);
}

void tickets_free(struct tickets *tickets)
{
    free(tickets->stretches);
    tickets->stretches = NULL;
}

static bool has(const struct tickets *tickets, uint32_t sequence)
{
    for (size_t i = tickets->next; i < tickets->count; i++) {
        const struct tickets_stretch *stretch = &tickets->stretches[i];
        uint32_t ahead = sequence - (uint32_t)stretch->first;

        if (ahead % stretch->step < tickets->width && ahead / stretch->step < stretch->count)
            return true;
    }
    return false;
}

struct machine *tickets_find(const struct list *all, uint32_t sequence)
{
    struct list *item;

    list_for_each (item, all) {
        const struct tickets *tickets = list_entry(item, struct tickets, link);

        if (has(tickets, sequence))
            return tickets->machine;
    }
    return NULL;
}
