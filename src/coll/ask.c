/*
 * Asking who waits for what will not come; see ask.h. Arenas' part of it is in shared/doubt.c.
 */
#include "coll/ask.h"

#include "coll/aggregate/aggregate.h"
#include "coll/am.h"
#include "coll/coll.h"
#include "coll/engine.h"
#include "coll/gone.h"
#include "coll/shared/shared.h"
#include "util/clock.h"
#include "util/error.h"

/* After so many looks, as often. */
#define LOOKS_MOST 256u

bool doubt_grows(struct doubt *doubt, uint64_t mark, bool now)
{
    if (doubt->mark != mark) {
        *doubt = (struct doubt){mark, 0};
        return now;
    }
    doubt->looks++;
    return now || (doubt->looks & (doubt->looks - 1)) == 0 || doubt->looks % LOOKS_MOST == 0;
}

static void ask(const struct instance *instance, uint32_t endpoint)
{
    const struct flight_head head = {
        .identity = instance->flight.identity,
        .sequence = instance->flight.sequence,
        .word = instance->check | instance->flight.channel,
    };

    flight_tell(instance->coll->context, &head, endpoint, FLIGHT_ASK);
}

/* What has failed, and waits for others to let go of its buffers. */
static size_t remind(struct context *context, bool now)
{
    struct list *item;
    size_t reminded = 0;

    list_for_each (item, &context->coll->lingering) {
        struct instance *instance = list_entry(item, struct instance, link);

        if (!instance->ending ||
            !doubt_grows(&instance->doubt, ((uint64_t)instance->held << 32) + 1, now))
            continue;
        step_remind(instance);
        reminded++;
    }
    return reminded;
}

static size_t look(struct context *context, bool now)
{
    struct list *item;
    size_t asked = 0;

    flight_reap(&context->coll->flights);
    list_for_each (item, &context->coll->running) {
        struct instance *instance = list_entry(item, struct instance, link);

        if (!doubt_grows(&instance->doubt, (uint64_t)instance->complete + 1, now))
            continue;
        step_doubts(instance, ask);
        if (++asked == ASK_MOST && !now)
            break;
    }
    return asked + remind(context, now) + am_sweep(context) + shared_ask(context->shared, now) +
           aggregate_ask(context->coll->aggregate, now);
}

void ask_tended(struct context *context)
{
    uint64_t now = clock_now_ns();

    if (now < context->coll->ask_at)
        return;
    context->coll->ask_at = now + context->coll->ask_ns;
    look(context, false);
}

size_t ask_now(struct context *context)
{
    return look(context, true);
}

uint64_t ask_mark(const struct context *context)
{
    return context->coll->news + aggregate_count(context->coll->aggregate)->refused;
}

/* ---- answers ---- */

/* Is it legitimate to wait in an arena for a run that goes by messages here? */
static bool may_have_no_arena(const struct group *group)
{
    const struct arena *arena = group->state->arena;

    return arena != NULL && (arena->state == ARENA_FAILED || arena->state == ARENA_LOST);
}

static void asked_running(struct instance *instance, const struct flight_head *head,
                          uint32_t origin)
{
    struct flight_head answer = *head;
    bool agrees = ((head->word ^ instance->check) & FLIGHT_CHECK_MASK) == 0;

    if (head->word & FLIGHT_OVER && shared_rest_agrees(&instance->machine, head->word))
        return;
    if (head->word & FLIGHT_OVER)
        agrees = may_have_no_arena(instance->machine.group);
    if (!agrees)
        engine_disagree(instance,
                        error_set(PAMI_INVAL, "%s: endpoint %u called it with other arguments",
                                  instance->algorithm->name, origin));
    if (!agrees || !step_is_silent(instance, origin))
        return;
    answer.word = FLIGHT_OVER | (head->word & FLIGHT_CHANNEL_MASK) |
                  gone_word(instance->coll->context, head->identity);
    flight_tell(instance->coll->context, &answer, origin, 0);
}

static void asked(struct context *context, struct group *group, const struct flight_head *head,
                  uint32_t origin)
{
    uint32_t channel = head->word & FLIGHT_CHANNEL_MASK;
    const struct machine *machine = coll_reserved(group, channel, head->sequence);
    uint64_t next = group->state->top->sequence;
    struct flight_head answer = *head;

    if (head->word & FLIGHT_OVER) {
        shared_asked(context->shared, head,
                     next - (uint32_t)((uint32_t)next - head->sequence) + (machine == NULL));
        if (machine != NULL && shared_run_disagrees(machine, head->word))
            coll_give_up(group, head->sequence, PAMI_INVAL);
    } else if (machine != NULL && shared_run_is_there(machine))
        coll_give_up(group, head->sequence, PAMI_INVAL);
    if (machine != NULL)
        return;
    answer.word = FLIGHT_OVER | channel;
    flight_tell(context, &answer, origin,
                coll_why_over(group, head->sequence) == PAMI_ERROR ? FLIGHT_ABORT
                                                                   : FLIGHT_DISAGREE);
}

/* It may never begin here: programs stop at the first error. When a member has gone, nobody need
 * wait for another. */
static void asked_early(struct context *context, const struct flight_head *head, uint32_t origin)
{
    struct flight_head answer = *head;

    if (!gone_any_of(context, head->identity))
        return;
    answer.word = FLIGHT_OVER | (head->word & FLIGHT_CHANNEL_MASK);
    flight_tell(context, &answer, origin, FLIGHT_ABORT);
}

/* A member that has destroyed the geometry has all of its runs behind it. */
static void asked_outside(struct context *context, const struct flight_head *head, uint32_t origin)
{
    struct flight_head answer = *head;

    if (!geometry_is_over(context, head->identity))
        return;
    flight_forget(&context->coll->flights, head->identity);
    answer.word =
        FLIGHT_OVER | (head->word & FLIGHT_CHANNEL_MASK) | gone_word(context, head->identity);
    flight_tell(context, &answer, origin, 0);
}

/* ---- what comes of them ---- */

static void over(struct flight *flight, struct group *group, const struct flight_head *head,
                 uint32_t origin)
{
    struct instance *instance = flight != NULL ? flight->instance : NULL;
    bool disagrees = (head->word & FLIGHT_DISAGREE) != 0;
    const struct machine *machine;

    if (!disagrees)
        gone_heard(group->context, head->identity, head->word);
    if (instance != NULL) {
        /* Who has nothing to say any more fetches what it is sent all the same, unless there was
         * an error. */
        if (!step_misses(instance, origin) &&
            !((head->word & FLIGHT_ABORT) != 0 && step_owes(instance, origin)))
            return;
        /* Who would have spoken for its domain may have died, and the others have ended well. */
        if (disagrees && !(group->channel == COLL_CHANNEL_NODES && gone_any(group)))
            engine_disagree(instance, engine_aborted(group, true));
        else
            engine_fail(instance, engine_aborted(group, false));
        return;
    }
    machine = coll_reserved(group, head->word & FLIGHT_CHANNEL_MASK, head->sequence);
    if (machine != NULL && shared_run_misses(machine, origin))
        coll_give_up(group, head->sequence, disagrees ? PAMI_INVAL : PAMI_ERROR);
}

void ask_arrive(struct context *context, struct flight *flight, const struct flight_head *head,
                uint32_t origin)
{
    struct group *group =
        coll_group_at(context, head->identity, head->word & FLIGHT_CHANNEL_MASK, head->sequence);

    if (group == NULL) { /* not begun here, or destroyed */
        if (head->word & FLIGHT_ASK) {
            asked_early(context, head, origin);
            asked_outside(context, head, origin);
        }
        return;
    }
    if (!(head->word & FLIGHT_ASK))
        over(flight, group, head, origin);
    else if (flight != NULL && flight->instance != NULL)
        asked_running(flight->instance, head, origin);
    else
        asked(context, group, head, origin);
}
