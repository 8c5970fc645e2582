/*
 * Allreduce by recursive doubling, for small messages and any number of members: in step k members
 * whose numbers differ in bit k exchange what they have combined so far.
 *
 * The results of both are the same expression in rank order, so all members get the same bits. The
 * combination arises where the higher ranks' operands lie: what is received from above stays where
 * it was received, what is received from below is combined into what is there. So a member knows
 * beforehand where to start for the last result to arise in the destination: nothing is copied, but
 * at the start where the first operands come from below, or in place.
 *
 * The members beyond the largest power of two, the second of the first pairs of ranks, hand their
 * operands to the first one before and get the result from it.
 *
 * Temporary memory: one message.
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/tree.h"

struct plan {
    uint32_t number, beyond, steps; /* steps: with that of the pair */
    bool pair, second;
};

static struct plan plan_of(const struct shape *shape)
{
    uint32_t power = power_of_two(shape->size), rank = shape->rank;
    struct plan plan = {.beyond = shape->size - power, .steps = exponent_of(power)};

    plan.pair = rank < 2 * plan.beyond;
    plan.second = plan.pair && rank % 2;
    plan.number = plan.pair ? rank / 2 : rank - plan.beyond;
    plan.steps += plan.pair;
    return plan;
}

/* Whether a step's operands are those of higher ranks. */
static bool from_above(const struct plan *plan, uint32_t step)
{
    if (plan->pair)
        return step == 0 || !(plan->number >> (step - 1) & 1);
    return !(plan->number >> step & 1);
}

/* Where the operands lie before a step, so that after the last they are in the destination. */
static enum area area_before(const struct plan *plan, uint32_t step)
{
    bool elsewhere = false;

    for (uint32_t i = step; i < plan->steps; i++)
        elsewhere ^= from_above(plan, i);
    return elsewhere ? AREA_TEMP : AREA_RECV;
}

static uint32_t doubling_prepare(struct shape *shape)
{
    struct plan plan = plan_of(shape);

    shape->temp_bytes = 0;
    if (shape->size == 1 || shape->bytes == 0)
        return shape->bytes && !shape->in_place;
    if (plan.second)
        return 2;
    shape->temp_bytes = shape->bytes;
    /* Where the operand must start elsewhere, phase 0 moves it. */
    shape->state[0] = shape->in_place && area_before(&plan, 0) == AREA_TEMP;
    return (uint32_t)shape->state[0] + plan.steps + plan.pair;
}

static void step_phase(const struct shape *shape, const struct plan *plan, uint32_t step,
                       struct phase *phase)
{
    uint32_t number = plan->number, peer;
    struct span here = span_at(area_before(plan, step), 0, shape->bytes), there = here, own = here;

    if (plan->pair && step == 0) {
        peer = shape->rank + 1;
    } else {
        number ^= UINT32_C(1) << (step - plan->pair);
        peer = number < plan->beyond ? 2 * number : number + plan->beyond;
    }
    if (step == 0 && !shape->in_place)
        own.area = AREA_SEND;
    there.area = here.area == AREA_RECV ? AREA_TEMP : AREA_RECV;
    if (!(plan->pair && step == 0))
        phase_send(phase, peer, own);
    phase_receive(phase, peer, there);
    if (from_above(plan, step)) {
        phase->after[0] = local_combine(own, there);
    } else {
        if (own.area == AREA_SEND)
            phase->before[0] = local_copy(own, here);
        phase->after[0] = local_combine(there, here);
    }
}

static void doubling_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct plan plan = plan_of(shape);
    struct span source = span_at(AREA_SEND, 0, shape->bytes);
    struct span result = span_at(AREA_RECV, 0, shape->bytes);
    uint32_t copies = (uint32_t)shape->state[0];

    if (shape->size == 1) {
        phase->after[0] = local_copy(source, result);
    } else if (plan.second && index == 0) {
        phase_send(phase, shape->rank - 1, source);
    } else if (plan.second) {
        phase_receive(phase, shape->rank - 1, result);
        if (!shape->in_place)
            phase->recv_needs = 0;
    } else if (index < copies) {
        phase->after[0] = local_copy(source, span_at(AREA_TEMP, 0, shape->bytes));
    } else if (index < copies + plan.steps) {
        step_phase(shape, &plan, index - copies, phase);
    } else {
        phase_send(phase, shape->rank + 1, result);
    }
}

const struct schedule_ops allreduce_doubling = {doubling_prepare, doubling_phase};
