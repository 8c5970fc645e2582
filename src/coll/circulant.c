/*
 * Reduce-scatter over a circulant graph, see circulant.h.
 */
#include "coll/circulant.h"

#include "coll/build.h"

uint32_t circulant_steps(uint32_t size)
{
    uint32_t steps = 0;

    while ((size - 1) >> steps != 0)
        steps++;
    return steps;
}

uint32_t circulant_distance(uint32_t size, uint32_t step)
{
    return ((size - 1) >> step) + 1;
}

/* How many blocks a member sends and gets in a step. */
static uint32_t count_of(const struct circulant *circulant, uint32_t step)
{
    uint32_t size = circulant->shape->size;

    return circulant_distance(size, step) - circulant_distance(size, step + 1);
}

struct span circulant_part(const struct circulant *circulant, uint32_t first, uint32_t count,
                           uint32_t part, enum area area)
{
    const struct shape *shape = circulant->shape;
    uint32_t room = shape->size - first, end = count < room ? first + count : shape->size;
    uint64_t start;

    if (part == 1) {
        first = 0;
        end = count < room ? 0 : count - room;
    }
    start = circulant->start(shape, first);
    return span_at(area, start, circulant->start(shape, end) - start);
}

/* Bytes that a member gets in a step. */
static uint64_t bytes_of(const struct circulant *circulant, uint32_t step)
{
    uint32_t count = count_of(circulant, step), rank = circulant->shape->rank;

    return circulant_part(circulant, rank, count, 0, AREA_TEMP).bytes +
           circulant_part(circulant, rank, count, 1, AREA_TEMP).bytes;
}

/* The first step that receives into temporary memory: from there on there are fewer and fewer. */
static uint32_t first_of(const struct circulant *circulant)
{
    return circulant->in_place ? 0 : 1;
}

uint64_t circulant_temp_bytes(const struct circulant *circulant)
{
    uint32_t first = first_of(circulant);
    uint64_t bytes = 0;

    for (uint32_t step = first; step < circulant->steps && step < first + 2; step++)
        bytes += bytes_of(circulant, step);
    return bytes;
}

/* Where part `part` of what comes in a step is received. */
static struct span received_of(const struct circulant *circulant, uint32_t step, uint32_t part,
                               struct span target)
{
    uint32_t first = first_of(circulant), rank = circulant->shape->rank;
    struct span received = span_at(AREA_TEMP, circulant->temp, target.bytes);

    if ((step - first) % 2 == 1)
        received.offset += bytes_of(circulant, first);
    if (part == 1)
        received.offset +=
            circulant_part(circulant, rank, count_of(circulant, step), 0, AREA_TEMP).bytes;
    return received;
}

/* For the one block that is worked on and that nothing has come for. */
static struct local copy_of_middle(const struct circulant *circulant)
{
    const struct shape *shape = circulant->shape;
    uint32_t block = rank_after(shape->rank, shape->size / 2, shape->size);

    return local_copy(circulant_part(circulant, block, 1, 0, AREA_SEND),
                      circulant_part(circulant, block, 1, 0, circulant->sum));
}

void circulant_phase(const struct circulant *circulant, uint32_t index, struct phase *phase)
{
    const struct shape *shape = circulant->shape;
    uint32_t rank = shape->rank, size = shape->size, step = index / 2, part = index % 2;
    uint32_t distance = circulant_distance(size, step + 1), count = count_of(circulant, step);
    bool early = step < first_of(circulant);
    struct span target = circulant_part(circulant, rank, count, part, circulant->sum);
    struct span received = target, source = target;

    phase_send(phase, rank_after(rank, distance, size),
               circulant_part(circulant, rank_after(rank, distance, size), count, part,
                              step == 0 ? AREA_SEND : circulant->sum));
    phase->send_needs = 2 * step;
    phase->sum = shape->bytes / size * count;
    if (early)
        source.area = AREA_SEND;
    else
        source = received = received_of(circulant, step, part, target);
    phase_receive(phase, rank_before(rank, distance, size), received);
    phase->recv_needs = step < first_of(circulant) + 2 ? 0 : 2 * (step - 1);
    phase->after[0] = local_combine(source, target);
    if (early && part == 0 && size % 2 == 1)
        phase->after[1] = copy_of_middle(circulant);
}
