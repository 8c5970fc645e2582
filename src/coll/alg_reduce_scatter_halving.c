/*
 * Reduce-scatter by recursive halving, for operators that commute and any number of members; blocks
 * may differ. In each step a member sends half of what it still works on to the one half the group
 * away, and works on the other half.
 *
 * A power of two of numbers take part. The members beyond, the second ones of the first pairs of
 * ranks, hand their operands to the first one, which works for both blocks and sends them theirs.
 *
 * Temporary memory: the message, and half of it (the operands of a pair: none more).
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/tree.h"

struct plan {
    uint32_t power, beyond, number, steps;
    bool pair, second;
};

static struct plan plan_of(const struct shape *shape)
{
    uint32_t power = power_of_two(shape->size);
    struct plan plan = {.power = power, .beyond = shape->size - power, .steps = exponent_of(power)};

    plan.pair = shape->rank < 2 * plan.beyond;
    plan.second = plan.pair && shape->rank % 2;
    plan.number = plan.pair ? shape->rank / 2 : shape->rank - plan.beyond;
    return plan;
}

/* The first rank, and so block, that a number stands for. */
static uint32_t rank_of(const struct plan *plan, uint32_t number)
{
    return number < plan->beyond ? 2 * number : number + plan->beyond;
}

/* The blocks of `count` numbers in an area. */
static struct span blocks_span(const struct shape *shape, const struct plan *plan, uint32_t first,
                               uint32_t count, enum area area)
{
    uint64_t equal = shape->bytes / shape->size;
    uint32_t block = rank_of(plan, first), end = rank_of(plan, first + count);
    uint64_t start = blocks_bytes(shape->send_bytes, equal, 0, block);

    return span_at(area, start, blocks_bytes(shape->send_bytes, equal, block, end - block));
}

static uint32_t halving_prepare(struct shape *shape)
{
    struct plan plan = plan_of(shape);
    uint64_t most = 0;

    shape->temp_bytes = 0;
    if (shape->bytes == 0)
        return 0;
    if (shape->size == 1)
        return !shape->in_place;
    if (plan.second)
        return 2;
    for (uint32_t first = 0; first < plan.power; first += plan.power / 2)
        most = larger(most, blocks_span(shape, &plan, first, plan.power / 2, AREA_TEMP).bytes);
    shape->temp_bytes = shape->bytes + most;
    return plan.pair + plan.steps + 1;
}

/*
 * The first operands are received into temporary memory and combined with the source there, later
 * ones beside it and combined into it.
 */
static void halving_step(const struct shape *shape, const struct plan *plan, uint32_t step,
                         struct phase *phase)
{
    uint32_t half = plan->power >> (step + 1), peer = plan->number ^ half;
    uint32_t group = plan->number & ~(half - 1);
    bool first = step == 0 && !plan->pair;
    struct span kept = blocks_span(shape, plan, group, half, AREA_TEMP), received = kept,
                own = kept;

    phase_send(phase, rank_of(plan, peer),
               blocks_span(shape, plan, peer & ~(half - 1), half, first ? AREA_SEND : AREA_TEMP));
    if (first) {
        own.area = AREA_SEND;
        phase->after[0] = local_combine(own, received);
    } else {
        received.offset = shape->bytes;
        phase->after[0] = local_combine(received, kept);
    }
    phase_receive(phase, rank_of(plan, peer), received);
}

static void halving_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct plan plan = plan_of(shape);
    struct span all = span_at(AREA_SEND, 0, shape->bytes), other = all, result, own;

    if (shape->size == 1) {
        phase->after[0] = local_copy(all, span_at(AREA_RECV, 0, shape->bytes));
        return;
    }
    other.area = AREA_TEMP;
    own = blocks_span(shape, &plan, plan.number, 1, AREA_TEMP);
    result = span_at(AREA_RECV, 0,
                     block_bytes(shape->send_bytes, shape->bytes / shape->size, shape->rank));
    if (plan.second && index == 0) {
        phase_send(phase, shape->rank - 1, all);
    } else if (plan.second) {
        phase_receive(phase, shape->rank - 1, result);
    } else if (plan.pair && index == 0) {
        phase_receive(phase, shape->rank + 1, other);
        phase->after[0] = local_combine(all, other);
    } else if (index < plan.pair + plan.steps) {
        halving_step(shape, &plan, index - plan.pair, phase);
    } else {
        other = own;
        own.bytes = result.bytes;
        other.offset += own.bytes;
        other.bytes -= own.bytes;
        if (plan.pair)
            phase_send(phase, shape->rank + 1, other);
        phase->after[0] = local_copy(own, result);
    }
}

const struct schedule_ops reduce_scatter_halving = {halving_prepare, halving_phase};
