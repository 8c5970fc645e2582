/*
 * Rabenseifner's reduce for large messages: recursive halving, then the same steps backwards, but
 * towards the root only (a binomial gather). See halving.h for members, order and memory.
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/halving.h"
#include "coll/tree.h"

enum {
    STATE_KEEPS
};

/*
 * Backwards in step k, of the numbers that agree with the root's in all bits above k, those that
 * differ from it in bit k hand on what they have. A member receives until it does so.
 */
static uint32_t gather_phases(const struct halving_place *place, uint32_t root_number)
{
    uint32_t differ = place->number ^ root_number;

    return differ == 0 ? place->steps : place->steps - exponent_of(power_of_two(differ));
}

/* The root's number; the root itself takes part always. */
static uint32_t number_of_root(const struct shape *shape, const struct halving_place *place)
{
    return shape->root >= 2 * place->beyond ? shape->root - place->beyond : shape->root / 2;
}

static uint32_t reduce_prepare(struct shape *shape)
{
    struct halving_place place;
    uint32_t phases;

    if (halving_trivial(shape, &phases))
        return phases;
    place = halving_place(shape, shape->root);
    phases = halving_prepare(shape, &place);
    return place.number == HALVING_OUTSIDE
               ? 1
               : phases + gather_phases(&place, number_of_root(shape, &place));
}

static void reduce_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    enum area keeps = (enum area)shape->state[STATE_KEEPS];
    struct halving_place place;
    uint32_t halvings, step, peer, root;

    if (shape->size == 1) {
        halving_trivial_phase(shape, phase);
        return;
    }
    place = halving_place(shape, shape->root);
    halvings = place.steps + (place.peer != NOBODY);
    if (place.number == HALVING_OUTSIDE || index < halvings) {
        halving_phase(shape, &place, index, phase);
        return;
    }
    step = place.steps - 1 - (index - halvings);
    peer = place.number ^ UINT32_C(1) << step;
    root = number_of_root(shape, &place);
    if ((place.number ^ root) >> step & 1)
        phase_send(phase, halving_rank(&place, peer),
                   halving_held(shape, place.number, step + 1, keeps));
    else
        phase_receive(phase, halving_rank(&place, peer),
                      halving_held(shape, peer, step + 1, keeps));
}

const struct schedule_ops reduce_rabenseifner = {reduce_prepare, reduce_phase};
