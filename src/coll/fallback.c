/*
 * Runs over messages in place of others; see fallback.h.
 */
#include "coll/fallback.h"

#include <string.h>

#include "coll/coll.h"
#include "coll/collective.h"
#include "coll/select.h"
#include "type/type.h"
#include "util/error.h"

static void machine_done(struct machine *machine, pami_result_t result)
{
    struct fallback *fallback = machine->cookie;

    fallback_release(fallback);
    fallback->done(fallback, result);
}

const struct fallback *fallback_of(const struct machine *machine)
{
    return machine->done == machine_done ? machine->cookie : NULL;
}

/* Maps are shared by the run and its fall-back; so are the types behind them. */
static struct collective take(struct collective *collective, const struct area_map *kept)
{
    struct collective taken = *collective;

    memset(collective, 0, sizeof(*collective));
    taken.first = NULL;
    if (kept != NULL) {
        type_unref(taken.send.type);
        taken.send = *kept;
    }
    return taken;
}

static struct machine *make(struct group *group, struct collective *collective)
{
    const struct algorithm *row =
        select_row_of_messages(&group->context->coll->rows->select, group, collective);
    struct machine *machine;

    return machine_make(group, row, collective, &machine) == 0 ? machine : NULL;
}

void fallback_start(struct fallback *fallback, struct machine *run, struct collective *collective,
                    const struct area_map *kept)
{
    struct collective taken = take(collective, kept);
    struct machine *machine = make(run->group, &taken);
    uint32_t number = machine_number(run);

    if (machine == NULL) {
        coll_failed(run->group, number, PAMI_ENOMEM);
        fallback->done(fallback, error_set(PAMI_ENOMEM, "PAMI_Collective: out of memory"));
        return;
    }
    fallback->machine = machine;
    machine->done = machine_done;
    machine->cookie = fallback;
    machine->sequence = number;
    machine->numbers = 1;
    list_push_back(&run->group->state->reserved, &machine->reserved);
    machine->ops->start(machine);
}

void fallback_give_up(struct fallback *fallback, pami_result_t result)
{
    if (fallback->machine != NULL)
        fallback->machine->ops->give_up(fallback->machine, result);
}

void fallback_release(struct fallback *fallback)
{
    struct machine *machine = fallback->machine;

    fallback->machine = NULL;
    if (machine != NULL)
        machine->ops->release(machine);
}
