/*
 * Reductions by domains without leaders; see hierarchy_voices.h. Domains are combined in their
 * order, by every member, so all of them get the same bits.
 *
 *   allreduce        what the domain has combined
 *   reduce_scatter   the same, to each member its block
 *   scan             the same, to the domains behind
 */
#include "coll/hierarchy_voices.h"

#include <string.h>

static void combine(const struct collective *whole, char *into, const char *lower, uint64_t bytes)
{
    if (operator_is_user(whole->op))
        whole->op(into, (void *)(uintptr_t)lower, bytes, whole->op_cookie);
    else
        operator_apply(whole->op, whole->kind, into, lower, bytes);
}

/* Operands 0..count-1, one behind the other, in front of what `result` has; `begins`: it has
 * nothing. The users' operators see aligned memory. */
static void accumulate(const struct voices *voices, bool begins, const char *operands,
                       uint32_t count, uint64_t bytes)
{
    for (uint32_t i = count; i-- > 0; begins = false) {
        const char *operand = operands + i * bytes;

        if (begins) {
            memcpy(voices->result, operand, bytes);
            continue;
        }
        if (operator_is_user(voices->whole.op))
            operand = memcpy(voices->operand, operand, bytes);
        combine(&voices->whole, voices->result, operand, bytes);
    }
}

static void store_result(const struct voices *voices, uint64_t bytes)
{
    const struct message_place from = {.address = voices->result};
    const struct message_place to = area_place(&voices->whole.recv, 0, 0);

    place_copy(&to, &from, bytes);
}

/* Of `bytes` each: one of each domain, and room to combine them. */
static void make_operands(struct build *build, struct voices *voices, uint64_t bytes)
{
    voices->outside = hierarchy_memory(build, voices->levels->domains * bytes);
    voices->result = hierarchy_memory(build, bytes);
    voices->operand = hierarchy_memory(build, bytes);
    for (uint32_t i = 0; i < voices->levels->domains; i++)
        voices_hear(voices, i, i * bytes, bytes);
}

/* What the own domain has, among those of the others. */
static char *own_operand(const struct voices *voices, uint64_t bytes)
{
    return voices->outside + voices->levels->own * bytes;
}

static void say_combined(void *cookie)
{
    struct voices *voices = cookie;

    for (uint32_t rank = 0; rank < levels_size(voices->levels); rank++)
        voices_say(voices, rank, voices->levels->own * voices->whole.bytes, voices->whole.bytes);
}

static void finish_allreduce(void *cookie)
{
    struct voices *voices = cookie;
    uint64_t bytes = voices->whole.bytes;

    accumulate(voices, true, voices->outside, voices->levels->domains, bytes);
    store_result(voices, bytes);
}

void voices_allreduce(struct build *build, struct voices *voices)
{
    struct area_map own;

    make_operands(build, voices, voices->whole.bytes);
    own = hierarchy_plain(own_operand(voices, voices->whole.bytes));
    voices->said = voices->heard = hierarchy_plain(voices->outside);
    voices_inside(build, voices, PAMI_XFER_ALLREDUCE, &voices->whole.send, &own,
                  voices->whole.bytes);
    hierarchy_act(build, say_combined, voices);
    voices_between(build, voices);
    hierarchy_act(build, finish_allreduce, voices);
}

/* Where the block of a rank begins in what the domain has combined. */
static uint64_t block_start(const struct voices *voices, uint32_t rank)
{
    uint64_t start = 0;

    for (uint32_t i = 0; i < rank; i++)
        start += voices->whole.send_bytes[i];
    return start;
}

static void say_blocks(void *cookie)
{
    struct voices *voices = cookie;
    uint64_t start = 0;

    for (uint32_t rank = 0; rank < levels_size(voices->levels); rank++) {
        voices_say(voices, rank, start, voices->whole.send_bytes[rank]);
        start += voices->whole.send_bytes[rank];
    }
}

static void finish_reduce_scatter(void *cookie)
{
    struct voices *voices = cookie;
    const struct levels *levels = voices->levels;
    uint32_t rank = levels_rank(levels, levels->own, levels->local->rank);
    uint64_t bytes = voices->whole.own_bytes;

    memcpy(own_operand(voices, bytes), voices->inside + block_start(voices, rank), bytes);
    accumulate(voices, true, voices->outside, levels->domains, bytes);
    store_result(voices, bytes);
}

void voices_reduce_scatter(struct build *build, struct voices *voices)
{
    const struct area_map send = hierarchy_as_one(&voices->whole.send);
    struct area_map inside;

    make_operands(build, voices, voices->whole.own_bytes);
    voices->inside = hierarchy_memory(build, voices->whole.bytes);
    inside = hierarchy_plain(voices->inside);
    voices->said = inside;
    voices->heard = hierarchy_plain(voices->outside);
    voices_inside(build, voices, PAMI_XFER_ALLREDUCE, &send, &inside, voices->whole.bytes);
    hierarchy_act(build, say_blocks, voices);
    voices_between(build, voices);
    hierarchy_act(build, finish_reduce_scatter, voices);
}

static void say_total(void *cookie)
{
    struct voices *voices = cookie;
    const struct levels *levels = voices->levels;
    uint64_t bytes = voices->whole.bytes;

    memset(voices->sends, 0, levels_size(levels) * sizeof(voices->sends[0]));
    if (!voices->first || bytes == 0)
        return;
    accumulate(voices, true, voices->inside, levels->local->size, bytes);
    memcpy(own_operand(voices, bytes), voices->result, bytes);
    for (uint32_t domain = levels->own + 1; domain < levels->domains; domain++)
        for (uint32_t i = 0; i < levels_count(levels, domain); i++)
            voices_say(voices, levels_rank(levels, domain, i), levels->own * bytes, bytes);
}

static void finish_scan(void *cookie)
{
    struct voices *voices = cookie;
    const struct levels *levels = voices->levels;
    uint32_t count = levels->local->rank + !voices->whole.exclusive;
    uint64_t bytes = voices->whole.bytes;

    accumulate(voices, true, voices->inside, count, bytes);
    accumulate(voices, count == 0, voices->outside, levels->own, bytes);
    if (count != 0 || levels->own != 0)
        store_result(voices, bytes);
}

void voices_scan(struct build *build, struct voices *voices)
{
    struct area_map inside;

    make_operands(build, voices, voices->whole.bytes);
    voices->inside = hierarchy_memory(build, build_locals(build) * voices->whole.bytes);
    inside = hierarchy_equal(voices->inside, voices->whole.bytes);
    for (uint32_t i = voices->levels->own + 1; i < voices->levels->domains; i++)
        voices_hear(voices, i, 0, 0);
    voices->said = voices->heard = hierarchy_plain(voices->outside);
    voices_inside(build, voices, PAMI_XFER_ALLGATHER, &voices->whole.send, &inside,
                  voices->whole.bytes);
    hierarchy_act(build, say_total, voices);
    voices_between(build, voices);
    hierarchy_act(build, finish_scan, voices);
}
