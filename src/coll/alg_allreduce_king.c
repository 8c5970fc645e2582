/*
 * Allreduce by k-ing, recursive doubling of radix k, for small messages and any number of members:
 * in round t the k members whose numbers differ in digit t only exchange what they have combined,
 * everyone with everyone at once. log_k(n) rounds instead of log_2(n), each of k - 1 messages.
 *
 * p, the largest power of k, numbers take part; each stands for a run of neighbouring ranks (fewer
 * than k), whose first one combines the others' operands before and sends them the result. All
 * members combine the same expression in rank order, digit after digit, so all get the same bits.
 *
 * Temporary memory: k messages, as slots; the own partial result is in slot `own`, and the slot of
 * that number holds what belongs into slot `own`.
 */
#include "coll/algorithm.h"
#include "coll/build.h"

#define STEPS (2 * PHASE_LOCALS) /* combinations in one phase */

struct plan {
    uint32_t radix, rounds, per_round;
    uint32_t wide, narrow; /* the first `wide` numbers stand for narrow + 1 ranks each */
    uint32_t number, first, others;
};

static struct plan plan_of(const struct shape *shape)
{
    struct plan plan = {.radix = shape->radix < 2 ? 2 : shape->radix};
    uint64_t power = 1;
    uint32_t edge;

    for (; power * plan.radix <= shape->size; power *= plan.radix)
        plan.rounds++;
    plan.per_round = plan.radix - 1 + (plan.radix - 1 + STEPS - 1) / STEPS;
    plan.narrow = (uint32_t)(shape->size / power);
    plan.wide = (uint32_t)(shape->size % power);
    edge = plan.wide * (plan.narrow + 1);
    plan.number = shape->rank < edge ? shape->rank / (plan.narrow + 1)
                                     : plan.wide + (shape->rank - edge) / plan.narrow;
    plan.first = plan.number * plan.narrow + (uint32_t)smaller(plan.number, plan.wide);
    plan.others = plan.narrow - 1 + (plan.number < plan.wide);
    return plan;
}

static uint32_t swapped(uint32_t index, uint32_t first, uint32_t second)
{
    return index == first ? second : index == second ? first : index;
}

/* The digit of this round, and the slot of the partial result before it. */
static uint32_t digit_of(const struct plan *plan, uint32_t round, uint32_t *own, uint32_t *place)
{
    uint32_t rest = plan->number, digit = rest % plan->radix;

    *own = plan->others;
    *place = 1;
    for (uint32_t i = 0; i < round; i++) {
        *own = swapped(plan->radix - 1, digit, *own);
        rest /= plan->radix;
        digit = rest % plan->radix;
        *place *= plan->radix;
    }
    return digit;
}

static struct span slot(const struct shape *shape, uint32_t index)
{
    return span_at(AREA_TEMP, index * shape->bytes, shape->bytes);
}

static uint32_t king_prepare(struct shape *shape)
{
    struct plan plan = plan_of(shape);

    shape->temp_bytes = 0;
    if (shape->bytes == 0)
        return 0;
    if (shape->rank != plan.first)
        return 2;
    shape->temp_bytes = plan.radix * shape->bytes;
    return 2 + 2 * plan.others + plan.rounds * plan.per_round;
}

static void round_phase(const struct shape *shape, const struct plan *plan, uint32_t round,
                        uint32_t index, struct phase *phase)
{
    uint32_t own, place, digit = digit_of(plan, round, &own, &place), other, peer;

    if (index < plan->radix - 1) {
        other = index < digit ? index : index + 1;
        peer = plan->number + other * place - digit * place;
        peer = peer * plan->narrow + (uint32_t)smaller(peer, plan->wide);
        phase_send(phase, peer, slot(shape, own));
        phase_receive(phase, peer, slot(shape, swapped(other, digit, own)));
        phase->send_needs -= index;
        phase->recv_needs -= index;
        return;
    }
    other = 1 + (index - (plan->radix - 1)) * STEPS;
    for (uint32_t i = 0; i < STEPS && other < plan->radix; i++, other++) {
        struct local *local =
            i < PHASE_LOCALS ? &phase->before[i] : &phase->after[i - PHASE_LOCALS];

        *local = local_combine(slot(shape, swapped(other - 1, digit, own)),
                               slot(shape, swapped(other, digit, own)));
    }
}

static void king_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct plan plan = plan_of(shape);
    struct span source = span_at(AREA_SEND, 0, shape->bytes);
    struct span result = span_at(AREA_RECV, 0, shape->bytes);
    uint32_t end = 1 + plan.others + plan.rounds * plan.per_round, own, place;

    if (shape->rank != plan.first) {
        if (index == 0)
            phase_send(phase, plan.first, source);
        else
            phase_receive(phase, plan.first, result);
    } else if (index == 0) {
        phase->after[0] = local_copy(source, slot(shape, 0));
    } else if (index <= plan.others) {
        phase_receive(phase, plan.first + index, slot(shape, index));
        phase->recv_needs = 0;
        phase->after[0] = local_combine(slot(shape, index - 1), slot(shape, index));
    } else if (index < end) {
        index -= 1 + plan.others;
        round_phase(shape, &plan, index / plan.per_round, index % plan.per_round, phase);
    } else {
        digit_of(&plan, plan.rounds, &own, &place);
        if (index == end)
            phase->after[0] = local_copy(slot(shape, own), result);
        else
            phase_send(phase, plan.first + index - end, slot(shape, own));
        phase->send_needs = end;
    }
}

const struct schedule_ops allreduce_king = {king_prepare, king_phase};
