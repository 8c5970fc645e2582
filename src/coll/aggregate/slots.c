/*
 * Operations under way at a node; see aggregate.h.
 *
 * Contributions lie in the slot, one behind the other, until those of the children before have been
 * combined: the order is fixed, so the bits of the result are.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/aggregate/internal.h"
#include "coll/coll.h"
#include "p2p/message.h"
#include "type/operator.h"

int aggregate_slots_make(struct aggregate_node *node)
{
    node->slots = calloc(node->grant.slots, sizeof(*node->slots));
    node->memory = malloc(node->grant.slots * node->grant.bytes);
    if (node->slots == NULL || node->memory == NULL) {
        aggregate_slots_free(node);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < node->grant.slots; i++)
        node->slots[i].data = node->memory + i * node->grant.bytes;
    return 0;
}

void aggregate_slots_free(struct aggregate_node *node)
{
    free(node->slots);
    free(node->memory);
    node->slots = NULL;
    node->memory = NULL;
}

/* Those of others than this node's window have been given back. */
static uint32_t slots_of(const struct aggregate_node *node)
{
    return node->slots != NULL ? node->grant.slots : 0;
}

const struct aggregate_slot *aggregate_slots_find(const struct aggregate_node *node,
                                                  uint64_t number)
{
    for (uint32_t i = 0; i < slots_of(node); i++)
        if (node->slots[i].used && node->slots[i].number == number)
            return &node->slots[i];
    return NULL;
}

bool aggregate_slots_drop(struct aggregate_node *node, uint64_t number)
{
    bool had = false;

    for (uint32_t i = 0; i < slots_of(node); i++) {
        struct aggregate_slot *slot = &node->slots[i];

        had = had || (slot->used && slot->number == number);
        slot->used = slot->used && slot->number != number;
    }
    return had;
}

void aggregate_slots_give_up(struct aggregate_node *node, const struct aggregate_child *child,
                             uint32_t mark, bool passed)
{
    for (uint32_t i = 0; i < slots_of(node); i++) {
        const struct aggregate_slot *slot = &node->slots[i];
        const struct aggregate_failure failure = {
            .number = slot->number, .mark = mark, .disagrees = passed};

        if (!slot->used || (child != NULL && slot->came >> (child - node->child) & 1))
            continue;
        if (!passed || aggregate_child_passed(child, slot->number))
            aggregate_node_fail(node, &failure, NULL, true);
    }
}

/* ---- a contribution ---- */

static bool is_sound(const struct aggregate_node *node, const struct aggregate_wire *wire,
                     size_t bytes)
{
    pami_data_function op = (pami_data_function)(uintptr_t)wire->op;

    if (bytes == 0)
        return true;
    return bytes <= node->room && wire->element < TYPE_KIND_COUNT && !operator_is_user(op) &&
           operator_check(op, (enum type_kind)wire->element) == 0 &&
           bytes % type_kind_size((enum type_kind)wire->element) == 0;
}

static struct aggregate_slot *find(const struct aggregate_node *node, uint64_t number,
                                   uint32_t segment)
{
    for (uint32_t i = 0; i < slots_of(node); i++) {
        struct aggregate_slot *slot = &node->slots[i];

        if (slot->used && slot->number == number && slot->segment == segment)
            return slot;
    }
    return NULL;
}

/* Why an operation that begins cannot end well: a child has gone past it. */
static bool is_in_vain(struct aggregate_node *node, struct aggregate_failure *failure)
{
    struct context *context = node->aggregate->context;
    bool look = context->coll->gone != 0;

    for (uint32_t i = 0; i < node->count; i++) {
        struct aggregate_child *child = &node->child[i];

        if (unlikely(look) && message_has_gone(context, child->endpoint))
            child->gone = true;
        if (!aggregate_child_passed(child, failure->number))
            continue;
        if (child->gone)
            failure->mark = endpoint_task(child->endpoint) + 1;
        failure->disagrees = !child->gone && !child->left;
        return true;
    }
    if (unlikely(look) && !node->is_root && message_has_gone(context, node->parent.endpoint)) {
        failure->mark = endpoint_task(node->parent.endpoint) + 1;
        failure->disagrees = false;
        return true;
    }
    return false;
}

/* It may have failed, of which there was no memory to make a note. */
static bool may_have_failed(const struct aggregate_node *node, struct aggregate_failure *failure)
{
    if (likely(failure->number >= node->forgotten))
        return false;
    failure->disagrees = false;
    return true;
}

static struct aggregate_slot *begin(struct aggregate_node *node, const struct aggregate_wire *wire,
                                    size_t bytes)
{
    for (uint32_t i = 0; i < slots_of(node); i++) {
        struct aggregate_slot *slot = &node->slots[i];
        char *data = slot->data;

        if (slot->used)
            continue;
        *slot = (struct aggregate_slot){.used = true,
                                        .number = wire->number,
                                        .segment = wire->segment,
                                        .check = wire->check,
                                        .op = wire->op,
                                        .element = wire->element,
                                        .bytes = bytes,
                                        .data = data};
        return slot;
    }
    return NULL;
}

static void result_down(struct aggregate_node *node, struct aggregate_slot *slot, const void *data)
{
    const struct aggregate_failure failure = {.number = slot->number};
    bool lost = false;

    for (uint32_t i = 0; i < node->count; i++) {
        const struct aggregate_child *child = &node->child[i];
        struct aggregate_wire wire = aggregate_wire_down(node, child, AGGREGATE_RESULT);

        wire.number = slot->number;
        wire.segment = slot->segment;
        if (aggregate_send(node->aggregate, child->endpoint, &wire, data,
                           slot->wants >> i & 1 ? slot->bytes : 0) != 0)
            lost = true;
    }
    if (unlikely(lost)) /* who has it already takes no notice */
        aggregate_node_fail(node, &failure, NULL, true);
    slot->used = false;
}

static void combine(const struct aggregate_node *node, struct aggregate_slot *slot)
{
    for (; slot->next < node->count && slot->came >> slot->next & 1; slot->next++)
        if (slot->next != 0 && slot->bytes != 0)
            operator_apply((pami_data_function)(uintptr_t)slot->op, (enum type_kind)slot->element,
                           slot->data, slot->data + (size_t)slot->next * node->room, slot->bytes);
}

static void pass_on(struct aggregate_node *node, struct aggregate_slot *slot, uint8_t last)
{
    const struct aggregate_failure failure = {.number = slot->number};
    struct aggregate_wire wire = aggregate_wire_up(node, AGGREGATE_DATA);

    node->aggregate->counts.combined++;
    if (node->is_root) {
        result_down(node, slot, slot->data);
        return;
    }
    wire.number = slot->number;
    wire.segment = slot->segment;
    wire.check = slot->check;
    wire.op = slot->op;
    wire.element = slot->element;
    wire.flags = (uint8_t)((slot->wants != 0 ? AGGREGATE_WANTS : 0) | last);
    if (aggregate_send(node->aggregate, node->parent.endpoint, &wire, slot->data, slot->bytes) != 0)
        aggregate_node_fail(node, &failure, NULL, true);
}

static void take(struct aggregate_node *node, struct aggregate_slot *slot, uint32_t place,
                 const struct aggregate_wire *wire, const void *data)
{
    const uint64_t bit = UINT64_C(1) << place;

    slot->came |= bit;
    slot->wants |= wire->flags & AGGREGATE_WANTS ? bit : 0;
    if (slot->bytes != 0)
        memcpy(slot->data + (size_t)place * node->room, data, slot->bytes);
    combine(node, slot);
    if (slot->next == node->count)
        pass_on(node, slot, wire->flags & AGGREGATE_LAST);
}

/* The child has come as far as this: runs before that wait for it do so in vain. */
static void note(struct aggregate_node *node, struct aggregate_child *child, uint64_t number)
{
    child->gone = false;
    child->begun = true;
    child->whole = false;
    child->last = number;
    aggregate_slots_give_up(node, child, 0, true);
}

void aggregate_slots_data(struct aggregate_node *node, struct aggregate_child *child,
                          const struct aggregate_wire *wire, const void *data, size_t bytes)
{
    struct aggregate_failure failure = {.number = wire->number, .disagrees = true};
    const struct aggregate_failure *before;
    uint32_t place = (uint32_t)(child - node->child);
    struct aggregate_slot *slot;

    if (!is_sound(node, wire, bytes) ||
        (!child->gone && aggregate_child_passed(child, wire->number))) {
        node->aggregate->context->counters[COUNTER_FOREIGN]++;
        return;
    }
    note(node, child, wire->number);
    slot = find(node, wire->number, wire->segment);
    before = aggregate_node_failure(node, wire->number);
    if (slot == NULL && before == NULL && !may_have_failed(node, &failure) &&
        !is_in_vain(node, &failure))
        slot = begin(node, wire, bytes);
    if (unlikely(before != NULL)) {
        aggregate_node_tell(node, child, before);
    } else if (slot == NULL || slot->came >> place & 1 || slot->check != wire->check ||
               slot->bytes != bytes || slot->op != wire->op || slot->element != wire->element) {
        aggregate_node_fail(node, &failure, NULL, true);
    } else {
        take(node, slot, place, wire, data);
    }
    child->whole = (wire->flags & AGGREGATE_LAST) != 0;
    if (unlikely(!list_empty(&node->failures)))
        aggregate_node_prune(node);
}

void aggregate_slots_result(struct aggregate_node *node, const struct aggregate_wire *wire,
                            const void *data, size_t bytes)
{
    struct aggregate_slot *slot = find(node, wire->number, wire->segment);

    if (slot == NULL || slot->next != node->count ||
        bytes != (slot->wants != 0 ? slot->bytes : 0)) {
        node->aggregate->context->counters[COUNTER_FOREIGN] += slot != NULL;
        return;
    }
    result_down(node, slot, data);
}
