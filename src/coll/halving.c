/*
 * Recursive halving (halving.h).
 */
#include "coll/halving.h"

#include "coll/build.h"
#include "coll/tree.h"

enum {
    STATE_KEEPS
};

/* The first of a pair takes part, but for the root's. NOBODY: all members receive. */
uint32_t halving_rank(const struct halving_place *place, uint32_t number)
{
    if (number >= place->beyond)
        return number + place->beyond;
    return 2 * number + (place->root == 2 * number + 1);
}

struct halving_place halving_place(const struct shape *shape, uint32_t root)
{
    uint32_t power = power_of_two(shape->size), rank = shape->rank;
    struct halving_place place = {.peer = NOBODY, .root = root};

    place.steps = exponent_of(power);
    place.beyond = shape->size - power;
    if (rank >= 2 * place.beyond) {
        place.number = rank - place.beyond;
        return place;
    }
    place.peer = rank ^ 1;
    place.number = halving_rank(&place, rank / 2) == rank ? rank / 2 : HALVING_OUTSIDE;
    return place;
}

/* What a number holds after the first `steps` halvings. */
struct span halving_held(const struct shape *shape, uint32_t number, uint32_t steps, enum area area)
{
    uint64_t element = larger(shape->element, 1), first = 0, count = shape->bytes / element, half;

    for (uint32_t i = 0; i < steps; i++) {
        half = count / 2;
        if (number >> i & 1) {
            first += half;
            count -= half;
        } else {
            count = half;
        }
    }
    return span_at(area, first * element, count * element);
}

static struct span scratch_for(const struct shape *shape, struct span span)
{
    span.area = AREA_TEMP;
    span.offset = shape->state[STATE_KEEPS] == AREA_TEMP ? shape->bytes : 0;
    return span;
}

/*
 * Receives operands and combines them with the own ones that lie at `own`, into the same place of
 * the partial result. The first time, and not in place, the own ones are the source's.
 */
static void combine_phase(const struct shape *shape, struct phase *phase, uint32_t from,
                          struct span own, bool first)
{
    struct span target = own;
    bool higher = from > shape->rank;

    target.area = (enum area)shape->state[STATE_KEEPS];
    if (first && !shape->in_place && (higher || shape->commutative)) {
        own.area = AREA_SEND;
        phase_receive(phase, from, target);
        phase->after[0] = local_combine(own, target);
        return;
    }
    if (first && !shape->in_place) {
        own.area = AREA_SEND;
        phase->before[0] = local_copy(own, target);
    }
    phase_receive(phase, from, scratch_for(shape, target));
    phase_accumulate(phase, phase->recv, target, higher && !shape->commutative);
}

/* Pairs come together, then halvings: phases 0 .. steps (or steps - 1 without a pair). */
void halving_phase(const struct shape *shape, const struct halving_place *place, uint32_t index,
                   struct phase *phase)
{
    enum area keeps = (enum area)shape->state[STATE_KEEPS];
    uint32_t step = index - (place->peer != NOBODY), peer;

    if (place->peer != NOBODY && index == 0) {
        if (place->number == HALVING_OUTSIDE)
            phase_send(phase, place->peer, span_at(AREA_SEND, 0, shape->bytes));
        else
            combine_phase(shape, phase, place->peer, span_at(keeps, 0, shape->bytes), true);
        return;
    }
    peer = place->number ^ UINT32_C(1) << step;
    phase_send(phase, halving_rank(place, peer),
               halving_held(shape, peer, step + 1, index == 0 ? AREA_SEND : keeps));
    combine_phase(shape, phase, halving_rank(place, peer),
                  halving_held(shape, place->number, step + 1, keeps), index == 0);
}

uint32_t halving_prepare(struct shape *shape, const struct halving_place *place)
{
    shape->state[STATE_KEEPS] = shape->receives ? AREA_RECV : AREA_TEMP;
    shape->temp_bytes = 0;
    if (place->number == HALVING_OUTSIDE)
        return 2;
    /* A half is the larger one when the elements are odd. */
    shape->temp_bytes = shape->bytes;
    if (place->peer == NOBODY || !shape->in_place)
        shape->temp_bytes = piece_start(shape->bytes, shape->element, 2, 1);
    if (place->peer != NOBODY && place->peer < shape->rank && !shape->commutative)
        shape->temp_bytes = shape->bytes;
    if (!shape->receives)
        shape->temp_bytes += shape->bytes;
    return (place->peer != NOBODY) + place->steps;
}

/* Of reduce and allreduce alone: without operands or with one member. */
bool halving_trivial(struct shape *shape, uint32_t *phases)
{
    shape->temp_bytes = 0;
    *phases = shape->size == 1 && shape->bytes && !shape->in_place;
    return shape->size == 1 || shape->bytes == 0;
}

void halving_trivial_phase(const struct shape *shape, struct phase *phase)
{
    phase->after[0] =
        local_copy(span_at(AREA_SEND, 0, shape->bytes), span_at(AREA_RECV, 0, shape->bytes));
}
