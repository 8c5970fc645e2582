/*
 * Allreduce over a circulant graph, for large messages, operators that commute and any number of
 * members: a reduce-scatter, and its steps backwards to tell the pieces. No member sends more than
 * twice the message, in 2 log(n) steps rounded up; Rabenseifner's takes twice that where the number
 * is no power of two. See circulant.h for memory.
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/circulant.h"
#include "coll/halving.h"
#include "coll/tree.h"

static uint64_t piece_of(const struct shape *shape, uint32_t block)
{
    return piece_start(shape->bytes, shape->element, shape->size, block);
}

static struct circulant circulant_of(const struct shape *shape)
{
    return (struct circulant){
        .shape = shape,
        .start = piece_of,
        .sum = AREA_RECV,
        .in_place = shape->in_place,
        .steps = circulant_steps(shape->size),
    };
}

static uint32_t circulant_prepare(struct shape *shape)
{
    struct circulant circulant = circulant_of(shape);
    uint32_t phases;

    if (halving_trivial(shape, &phases))
        return phases;
    shape->temp_bytes = circulant_temp_bytes(&circulant);
    return 4 * circulant.steps;
}

/* The first blocks are known, and go to the member for which they are the later ones. */
static void tell_phase(const struct circulant *circulant, uint32_t index, struct phase *phase)
{
    const struct shape *shape = circulant->shape;
    uint32_t rank = shape->rank, size = shape->size;
    uint32_t step = circulant->steps - 1 - index / 2, part = index % 2;
    uint32_t distance = circulant_distance(size, step + 1);
    uint32_t count = circulant_distance(size, step) - distance;
    uint32_t after = rank_after(rank, distance, size);

    phase_send(phase, rank_before(rank, distance, size),
               circulant_part(circulant, rank, count, part, AREA_RECV));
    phase->send_needs = 2 * circulant->steps + index / 2 * 2;
    phase->sum = shape->bytes / size * count;
    phase_receive(phase, after, circulant_part(circulant, after, count, part, AREA_RECV));
    /* What is overwritten was sent in the same step of the reduce-scatter, if it was there. */
    phase->recv_needs = step == 0 && !circulant->in_place ? 0 : 2 * (step + 1);
}

static void allreduce_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct circulant circulant = circulant_of(shape);

    if (shape->size == 1)
        halving_trivial_phase(shape, phase);
    else if (index < 2 * circulant.steps)
        circulant_phase(&circulant, index, phase);
    else
        tell_phase(&circulant, index - 2 * circulant.steps, phase);
}

const struct schedule_ops allreduce_circulant = {circulant_prepare, allreduce_phase};
