/*
 * Rows that are compositions of other rows: an allreduce as reduce and broadcast, whole or segment
 * by segment, and a broadcast as scatter and allgather.
 *
 * The parts are whatever row the selection likes for them, over messages. A composed machine passes
 * everything on to the chain or pipeline inside; its reset deals the arguments out to the parts.
 */
#include "coll/composed.h"

#include <errno.h>
#include <stdlib.h>

#include "coll/coll.h"
#include "coll/collective.h"
#include "coll/compose.h"
#include "coll/flow.h"
#include "coll/select.h"
#include "util/error.h"
#include "util/option.h"

#define PARTS 2
#define STAGES 3 /* segments in flight */

struct composed;

/* How the arguments of the whole become those of one part. */
typedef int part_function(const struct composed *composed, uint32_t part, uint64_t offset,
                          uint64_t bytes, struct collective *to);

struct composed {
    struct machine machine;
    struct machine *inner;
    part_function *part;
    struct collective whole;
    struct machine *parts[STAGES][PARTS];
    uint32_t stages;
    uint64_t segment; /* bytes; 0: all */
};

static struct composed *composed_of(struct machine *machine)
{
    return container_of(machine, struct composed, machine);
}

/* ---- parts ---- */

/* Part 0: reduce to rank 0; part 1: broadcast from there. */
static int reduce_broadcast_part(const struct composed *composed, uint32_t part, uint64_t offset,
                                 uint64_t bytes, struct collective *to)
{
    const struct collective *whole = &composed->whole;

    *to = (struct collective){.bytes = bytes, .element = 1, .receives = true, .in_place = true};
    to->agreed = collective_digest(whole);
    to->lists = malloc(2 * sizeof(uint64_t));
    if (to->lists == NULL)
        return -ENOMEM;
    to->recv = area_from(&whole->recv, &to->lists[0], offset);
    to->recv = area_ref(&to->recv);
    if (part == 1) {
        to->type = PAMI_XFER_BROADCAST;
        to->send = area_ref(&to->recv);
        return 0;
    }
    to->type = PAMI_XFER_REDUCE;
    to->send = area_from(&whole->send, &to->lists[1], offset);
    to->send = area_ref(&to->send);
    to->receives = composed->machine.group->rank == 0;
    to->in_place = whole->in_place && to->receives;
    to->op = whole->op;
    to->op_cookie = whole->op_cookie;
    to->kind = whole->kind;
    to->element = whole->element;
    to->commutative = whole->commutative;
    return 0;
}

/* Part 0: scatter pieces of the message; part 1: gather them everywhere, at the root in memory that
 * comes with the lists: its buffer is only read, and may be read-only. */
static int scatter_allgather_part(const struct composed *composed, uint32_t part, uint64_t offset,
                                  uint64_t bytes, struct collective *to)
{
    const struct collective *whole = &composed->whole;
    const struct group *group = composed->machine.group;
    uint64_t piece = (bytes + group->size - 1) / group->size;
    bool is_root = group->rank == whole->root;
    bool aside = is_root && part == 1;
    size_t numbers = 2 * (size_t)group->size + 1;
    struct area_map all, own;
    uint64_t *starts;

    (void)offset;
    *to = (struct collective){.element = 1, .receives = true, .agreed = collective_digest(whole)};
    to->lists = malloc(numbers * sizeof(uint64_t) + (aside ? bytes : 0));
    if (to->lists == NULL)
        return -ENOMEM;
    starts = to->lists + group->size;
    for (uint32_t i = 0; i <= group->size; i++)
        starts[i] = piece * i < bytes ? piece * i : bytes;
    for (uint32_t i = 0; i < group->size; i++)
        to->lists[i] = starts[i + 1] - starts[i];
    all = area_ref(&whole->recv);
    all.blocks = BLOCKS_PACKED;
    all.starts = starts;
    own = area_ref(&all);
    own.starts = &starts[group->rank];
    to->own_bytes = to->lists[group->rank];
    to->root = whole->root;
    if (part == 0) {
        to->type = PAMI_XFER_SCATTERV;
        to->send = all;
        to->recv = own;
        to->send_bytes = is_root ? to->lists : NULL;
        to->in_place = is_root;
        return 0;
    }
    to->type = PAMI_XFER_ALLGATHERV;
    to->send = own;
    to->recv = all;
    to->recv_bytes = to->lists;
    to->in_place = !aside;
    if (aside) {
        type_unref(all.type);
        to->recv.base = (char *)(to->lists + numbers);
        to->recv.type = NULL;
    }
    return 0;
}

/* ---- the machine around them ---- */

/* Make part `part` of a stage, or bind it anew when it is there. */
static int bind_part(struct composed *composed, uint32_t stage, uint32_t part, uint64_t offset,
                     uint64_t bytes)
{
    struct group *group = composed->machine.group;
    struct machine **machine = &composed->parts[stage][part];
    const struct algorithm *row;
    struct collective to;
    int error = composed->part(composed, part, offset, bytes, &to);

    if (error != 0)
        return error;
    if (*machine != NULL)
        return (*machine)->ops->reset(*machine, &to);
    row = select_row_of_messages(&group->context->coll->rows->select, group, &to);
    return machine_make(group, row, &to, machine);
}

static int bind_stage(struct composed *composed, uint32_t stage, uint64_t offset, uint64_t bytes)
{
    int error = bind_part(composed, stage, 0, offset, bytes);

    return error != 0 ? error : bind_part(composed, stage, 1, offset, bytes);
}

static uint32_t segments_of(const struct composed *composed)
{
    uint64_t bytes = composed->whole.bytes;

    if (composed->segment == 0 || bytes == 0)
        return 1;
    return (uint32_t)((bytes + composed->segment - 1) / composed->segment);
}

static int bind_segment(struct composed *composed, uint32_t index)
{
    uint64_t offset = composed->segment * index;
    uint64_t left = composed->whole.bytes - offset;

    if (composed->segment == 0 || left < composed->segment)
        return bind_stage(composed, index % composed->stages, offset, left);
    return bind_stage(composed, index % composed->stages, offset, composed->segment);
}

static pami_result_t bind_next(void *cookie, struct machine *stage, uint32_t index)
{
    (void)stage;
    if (likely(bind_segment(cookie, index) == 0))
        return PAMI_SUCCESS;
    return error_set(PAMI_ENOMEM, "PAMI_Collective: out of memory");
}

static void inner_done(struct machine *inner, pami_result_t result)
{
    struct composed *composed = inner->cookie;

    composed->machine.done(&composed->machine, result);
}

/* All parts have their numbers in one block. */
static void reserve(struct machine *machine, uint32_t runs)
{
    struct composed *composed = composed_of(machine);
    bool begun = group_block_begin(machine->group);

    composed->inner->ops->reserve(composed->inner, runs);
    if (begun)
        group_block_end(machine->group);
}

static void number(struct composed *composed)
{
    if (composed->inner->numbers == 0)
        reserve(&composed->machine, 1);
}

static void start(struct machine *machine)
{
    struct composed *composed = composed_of(machine);

    number(composed);
    composed->inner->ops->start(composed->inner);
}

static void give_up(struct machine *machine, pami_result_t result)
{
    struct composed *composed = composed_of(machine);

    if (!compose_is_running(composed->inner))
        number(composed);
    composed->inner->ops->give_up(composed->inner, result);
}

static void release(struct machine *machine)
{
    struct composed *composed = composed_of(machine);

    if (composed->inner != NULL)
        composed->inner->ops->release(composed->inner);
    collective_release(&composed->whole);
    free(composed);
}

/* In at most so many segments: their numbers are all in one block. */
static uint64_t segment_for(const struct collective *whole)
{
    uint64_t segment = option_bytes(OPT_COLL_SEGMENT);
    uint64_t least = (whole->bytes + FLOW_SEGMENTS_MAX - 1) / FLOW_SEGMENTS_MAX;

    if (segment < least)
        segment = least + whole->element - 1;
    /* What has to be read at the call is in one piece: later segments start after it. */
    if (whole->bytes <= COLLECTIVE_KEEP_BYTES && segment < whole->bytes)
        segment = whole->bytes;
    return segment < whole->element ? whole->element : segment - segment % whole->element;
}

/* Also the first segments are bound here, though the pipeline does it again: one that has failed
 * may have parts with something under way, and they say so. */
static int reset(struct machine *machine, struct collective *given)
{
    struct composed *composed = composed_of(machine);
    uint32_t segments;
    int error = 0;

    if (compose_is_running(composed->inner)) {
        collective_release(given);
        return -EBUSY;
    }
    collective_release(&composed->whole);
    composed->whole = *given;
    if (composed->segment == 0)
        return bind_stage(composed, 0, 0, composed->whole.bytes);
    composed->segment = segment_for(&composed->whole);
    segments = segments_of(composed);
    pipeline_set_segments(composed->inner, segments);
    for (uint32_t i = 0; i < composed->stages && i < segments && error == 0; i++)
        error = bind_segment(composed, i);
    return error;
}

static const struct machine_ops composed_ops = {
    .reset = reset,
    .reserve = reserve,
    .start = start,
    .release = release,
    .give_up = give_up,
};

/* Parts that no chain has taken over, from a stage on. */
static void drop_parts(struct composed *composed, uint32_t first)
{
    for (uint32_t stage = first; stage < STAGES; stage++)
        for (uint32_t part = 0; part < PARTS; part++)
            if (composed->parts[stage][part] != NULL)
                composed->parts[stage][part]->ops->release(composed->parts[stage][part]);
}

static void drop_chains(struct machine *const chains[], uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        chains[i]->ops->release(chains[i]);
}

/* The chain of one stage, or the pipeline over all. NULL: out of memory. */
static struct machine *make_inner(struct composed *composed)
{
    struct group *group = composed->machine.group;
    uint32_t segments = segments_of(composed);
    struct machine *chains[STAGES];
    struct machine *inner;

    composed->stages = composed->segment == 0 ? 1 : segments < STAGES ? segments : STAGES;
    for (uint32_t i = 0; i < composed->stages; i++) {
        chains[i] = NULL;
        if (bind_segment(composed, i) == 0)
            chains[i] = chain_make(group, composed->parts[i], PARTS);
        if (chains[i] == NULL) {
            drop_parts(composed, i);
            drop_chains(chains, i);
            return NULL;
        }
    }
    if (composed->segment == 0)
        return chains[0];
    inner = pipeline_make(group, chains, composed->stages, segments, bind_next, composed);
    if (inner == NULL)
        drop_chains(chains, composed->stages);
    return inner;
}

static int composed_make(struct group *group, const struct algorithm *row,
                         struct collective *collective, part_function *part,
                         struct machine **machine)
{
    struct composed *composed = calloc(1, sizeof(*composed));

    if (composed == NULL) {
        collective_release(collective);
        return -ENOMEM;
    }
    machine_init(&composed->machine, &composed_ops, group);
    composed->whole = *collective;
    composed->part = part;
    composed->segment = row->segment == SEGMENT_WHOLE ? 0 : segment_for(collective);
    composed->inner = make_inner(composed);
    if (composed->inner == NULL) {
        release(&composed->machine);
        return -ENOMEM;
    }
    composed->inner->done = inner_done;
    composed->inner->cookie = composed;
    *machine = &composed->machine;
    return 0;
}

int composed_reduce_broadcast(struct group *group, const struct algorithm *row,
                              struct collective *collective, struct machine **machine)
{
    return composed_make(group, row, collective, reduce_broadcast_part, machine);
}

int composed_scatter_allgather(struct group *group, const struct algorithm *row,
                               struct collective *collective, struct machine **machine)
{
    return composed_make(group, row, collective, scatter_allgather_part, machine);
}
