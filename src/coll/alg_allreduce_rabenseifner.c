/*
 * Rabenseifner's allreduce for large messages: recursive halving, then the same steps backwards,
 * exchanging what one has got of the result. See halving.h for members, order and memory.
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/halving.h"

static uint32_t allreduce_prepare(struct shape *shape)
{
    struct halving_place place;
    uint32_t phases;

    if (halving_trivial(shape, &phases))
        return phases;
    place = halving_place(shape, NOBODY);
    phases = halving_prepare(shape, &place);
    return place.number == HALVING_OUTSIDE ? phases : phases + place.steps + (place.peer != NOBODY);
}

static void allreduce_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct halving_place place;
    uint32_t halvings, step, peer;

    if (shape->size == 1) {
        halving_trivial_phase(shape, phase);
        return;
    }
    place = halving_place(shape, NOBODY);
    halvings = place.steps + (place.peer != NOBODY);
    if (place.number == HALVING_OUTSIDE && index == 1) {
        phase_receive(phase, place.peer, span_at(AREA_RECV, 0, shape->bytes));
        if (!shape->in_place)
            phase->recv_needs = 0;
    } else if (index < halvings) {
        halving_phase(shape, &place, index, phase);
    } else if (index < halvings + place.steps) {
        step = place.steps - 1 - (index - halvings);
        peer = place.number ^ UINT32_C(1) << step;
        phase_send(phase, halving_rank(&place, peer),
                   halving_held(shape, place.number, step + 1, AREA_RECV));
        phase_receive(phase, halving_rank(&place, peer),
                      halving_held(shape, peer, step + 1, AREA_RECV));
    } else {
        phase_send(phase, place.peer, span_at(AREA_RECV, 0, shape->bytes));
    }
}

const struct schedule_ops allreduce_rabenseifner = {allreduce_prepare, allreduce_phase};
