/*
 * Flows over segments; see flow.h.
 *
 * All runs of one level go through one arena or one sequence of numbers, in the order in which they
 * were reserved. That order is 0in 1in 0out 2in 1out ...: whoever has to wait for the result of a
 * segment has put the next ones in before. At least LOOKAHEAD segments are let go at once, or the
 * last one that was put in would wait for one that is behind it.
 */
#include "coll/flow.h"

#include <stdlib.h>
#include <string.h>

#include "coll/aggregate/aggregate.h"
#include "coll/coll.h"
#include "coll/collective.h"
#include "coll/compose.h"
#include "coll/shared/shared.h"

#define LOOKAHEAD 2u
#define WINDOW 3u

/* What a context keeps: so many, and not with more memory than that each. */
#define KEEP_FLOWS 16u
#define KEEP_BYTES (UINT64_C(256) << 10)

_Static_assert(WINDOW >= LOOKAHEAD, "what is reserved in front is started in front");

struct flow {
    struct machine machine;
    struct list kept; /* in coll.flows */
    const struct algorithm *row;
    bool may_keep;         /* it has ended well */
    struct machine *inner; /* the chain of the only segment, or a pipeline of chains */
    struct machine *chains[FLOW_SEGMENTS_MAX];
    uint32_t count;
    struct flow_memory *memory;
    struct collective whole;
    struct flow_links segments[];
};

static struct flow *flow_of(struct machine *machine)
{
    return container_of(machine, struct flow, machine);
}

static void reserve_links(const struct flow_links *links, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to && i < links->count; i++)
        links->machine[i]->ops->reserve(links->machine[i], 1);
}

static void reserve(struct machine *machine, uint32_t runs)
{
    struct flow *flow = flow_of(machine);

    for (uint32_t i = 0; i < flow->count + LOOKAHEAD; i++) {
        if (i < flow->count)
            reserve_links(&flow->segments[i], 0, flow->segments[i].ahead);
        if (i >= LOOKAHEAD)
            reserve_links(&flow->segments[i - LOOKAHEAD], flow->segments[i - LOOKAHEAD].ahead,
                          FLOW_LINKS);
    }
    for (uint32_t i = 0; i < flow->count; i++)
        flow->chains[i]->numbers = 1;
    flow->inner->numbers = 1;
    machine->numbers = runs; /* 1 */
}

static void number(struct flow *flow)
{
    if (flow->machine.numbers == 0 && group_block_begin(flow->machine.group)) {
        reserve(&flow->machine, 1);
        group_block_end(flow->machine.group);
    }
    flow->machine.numbers--;
}

static void start(struct machine *machine)
{
    struct flow *flow = flow_of(machine);

    number(flow);
    flow->inner->ops->start(flow->inner);
}

static void give_up(struct machine *machine, pami_result_t result)
{
    struct flow *flow = flow_of(machine);

    if (!compose_is_running(flow->inner))
        number(flow);
    flow->inner->ops->give_up(flow->inner, result);
}

void flow_memory_free(struct stash *stash, struct flow_memory *memory)
{
    while (memory != NULL) {
        struct flow_memory *next = memory->next;

        stash_put(stash, memory);
        memory = next;
    }
}

/* When a link has failed, p2p may still send from there. */
static void memory_let_go(struct coll *coll, struct flow_memory *memory)
{
    struct flow_memory *last = memory;

    if (memory == NULL || list_empty(&coll->lingering)) {
        flow_memory_free(&coll->context->stash, memory);
        return;
    }
    while (last->next != NULL)
        last = last->next;
    last->next = coll->kept;
    coll->kept = memory;
}

static void flow_free(struct flow *flow)
{
    flow->inner->ops->release(flow->inner);
    collective_release(&flow->whole);
    memory_let_go(flow->machine.group->context->coll, flow->memory);
    free(flow);
}

/* ---- keeping ---- */

static const struct machine_ops flow_ops;

/* A link that ran by another algorithm than it was made for, or a link of what it is made of. */
static bool fell_back(const struct machine *machine)
{
    const struct flow *flow =
        (const struct flow *)((const char *)machine - offsetof(struct flow, machine));

    if (machine->ops != &flow_ops)
        return shared_run_fell_back(machine) || aggregate_run_fell_back(machine);
    for (uint32_t i = 0; i < flow->count; i++)
        for (uint32_t k = 0; k < flow->segments[i].count; k++)
            if (fell_back(flow->segments[i].machine[k]))
                return true;
    return false;
}

/* Nothing that the user may change under the same arguments, as displacements that were not copied,
 * and everything as it was made. A link of another flow is kept as a part of that one or not at
 * all: what it was made of lies in the memory of that one. */
static bool may_keep(const struct flow *flow, uint64_t most)
{
    const struct collective *whole = &flow->whole;
    bool copied = whole->type != PAMI_XFER_ALLTOALLV;
    uint64_t bytes = 0;

    if (!flow->may_keep || flow->machine.group->channel != COLL_CHANNEL_ALL ||
        whole->send.blocks >= BLOCKS_LISTED ||
        whole->recv.blocks >= (copied ? BLOCKS_LISTED_INT : BLOCKS_LISTED))
        return false;
    for (const struct flow_memory *memory = flow->memory; memory != NULL; memory = memory->next)
        bytes += memory->bytes;
    for (uint32_t i = 0; i < flow->count; i++)
        for (uint32_t k = 0; k < flow->segments[i].count; k++)
            if (fell_back(flow->segments[i].machine[k]))
                return false;
    return bytes <= most;
}

/* Leaders with aggregation nodes have something to prepare before each run. */
static bool repeats(const struct machine *machine)
{
    const struct flow *flow =
        (const struct flow *)((const char *)machine - offsetof(struct flow, machine));

    return !flow->row->aggregated && may_keep(flow, REPEAT_BYTES);
}

static void release(struct machine *machine)
{
    struct flow *flow = flow_of(machine);
    struct coll *coll = machine->group->context->coll;

    if (!may_keep(flow, KEEP_BYTES)) {
        flow_free(flow);
        return;
    }
    list_push_front(&coll->flows, &flow->kept);
    if (++coll->flows_count <= KEEP_FLOWS)
        return;
    flow = list_entry(coll->flows.prev, struct flow, kept);
    list_remove(&flow->kept);
    coll->flows_count--;
    flow_free(flow);
}

static bool same_sizes(const uint64_t *a, const uint64_t *b, uint32_t count)
{
    if (a == NULL || b == NULL)
        return a == b;
    return memcmp(a, b, count * sizeof(*a)) == 0;
}

static bool same_map(const struct area_map *a, const struct area_map *b, uint32_t count)
{
    return a->base == b->base && a->type == b->type && a->extent == b->extent &&
           a->blocks == b->blocks && a->distance == b->distance &&
           (a->blocks != BLOCKS_PACKED || same_sizes(a->starts, b->starts, count)) &&
           (a->blocks != BLOCKS_LISTED || same_sizes(a->displacements, b->displacements, count));
}

static bool same(const struct collective *a, const struct collective *b, uint32_t count)
{
    return a->root == b->root && a->bytes == b->bytes && a->own_bytes == b->own_bytes &&
           a->in_place == b->in_place && a->receives == b->receives &&
           a->commutative == b->commutative && a->exclusive == b->exclusive &&
           a->agreed == b->agreed && a->op == b->op && a->op_cookie == b->op_cookie &&
           a->kind == b->kind && a->element == b->element && a->first == b->first &&
           same_map(&a->send, &b->send, count) && same_map(&a->recv, &b->recv, count) &&
           same_sizes(a->send_bytes, b->send_bytes, count) &&
           same_sizes(a->recv_bytes, b->recv_bytes, count);
}

/* `whole` becomes the kept one, but for the types that the caller named it by. */
struct machine *flow_kept(struct group *group, const struct algorithm *row,
                          struct collective *whole)
{
    struct coll *coll = group->context->coll;
    bool lasting = whole->lasting;
    struct list *item;

    list_for_each (item, &coll->flows) {
        struct flow *flow = list_entry(item, struct flow, kept);

        if (flow->row != row || flow->machine.group != group ||
            !same(&flow->whole, whole, group->size))
            continue;
        list_remove(item);
        coll->flows_count--;
        flow->may_keep = false;
        collective_release(whole);
        *whole = flow->whole;
        whole->lasting = lasting;
        return &flow->machine;
    }
    return NULL;
}

static struct flow *find_kept(const struct coll *coll, uint64_t identity, bool all)
{
    struct list *item;

    list_for_each (item, &coll->flows) {
        struct flow *flow = list_entry(item, struct flow, kept);

        if (all || flow->machine.group->identity == identity)
            return flow;
    }
    return NULL;
}

/* What is freed may keep its parts: look again from the start. */
void flow_forget(struct coll *coll, uint64_t identity, bool all)
{
    struct flow *flow;

    while ((flow = find_kept(coll, identity, all)) != NULL) {
        list_remove(&flow->kept);
        coll->flows_count--;
        flow_free(flow);
    }
}

static const struct machine_ops flow_ops = {
    .reserve = reserve,
    .start = start,
    .release = release,
    .give_up = give_up,
    .repeats = repeats,
};

static void inner_done(struct machine *inner, pami_result_t result)
{
    struct flow *flow = inner->cookie;

    flow->may_keep = result == PAMI_SUCCESS;
    flow->machine.done(&flow->machine, result);
}

/* Segments are bound when they are made. */
static pami_result_t bind_nothing(void *cookie, struct machine *stage, uint32_t index)
{
    (void)cookie, (void)stage, (void)index;
    return PAMI_SUCCESS;
}

/* Chains around all links, and what runs them. The links are taken over when all has worked. */
static struct machine *make_inner(struct flow *flow, struct group *group)
{
    struct machine *inner = NULL;
    uint32_t made = 0;

    while (made < flow->count) {
        const struct flow_links *links = &flow->segments[made];

        flow->chains[made] = chain_make(group, links->machine, links->count);
        if (flow->chains[made] == NULL)
            break;
        made++;
    }
    if (made == flow->count)
        inner = made == 1 ? flow->chains[0]
                          : pipeline_make(group, flow->chains, made, made, bind_nothing, NULL);
    for (uint32_t i = 0; i < made && inner == NULL; i++)
        chain_unmake(flow->chains[i]);
    if (inner != NULL && made > 1)
        pipeline_set_window(inner, WINDOW);
    return inner;
}

struct machine *flow_make(struct group *group, const struct algorithm *row,
                          const struct flow_links *segments, uint32_t count,
                          const struct collective *whole, struct flow_memory *memory)
{
    struct flow *flow = calloc(1, sizeof(*flow) + count * sizeof(flow->segments[0]));

    if (flow == NULL)
        return NULL;
    machine_init(&flow->machine, &flow_ops, group);
    list_init(&flow->kept);
    flow->row = row;
    flow->count = count;
    flow->memory = memory;
    memcpy(flow->segments, segments, count * sizeof(flow->segments[0]));
    flow->inner = make_inner(flow, group);
    if (flow->inner == NULL) {
        free(flow);
        return NULL;
    }
    flow->whole = *whole;
    flow->inner->done = inner_done;
    flow->inner->cookie = flow;
    return &flow->machine;
}
