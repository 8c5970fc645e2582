/*
 * Calls that are kept, in a table by a hash of their arguments; see repeat.h.
 */
#include <stdbool.h>
#include <string.h>

#include "coll/coll.h"
#include "coll/collective.h"
#include "coll/handle.h"
#include "coll/machine.h"
#include "coll/repeat.h"

#define COUNTS_WORD 5
#define PLACES_WORD 6

static const struct repeat_layout layouts[PAMI_XFER_COUNT] = {
    [PAMI_XFER_BARRIER] = {.kept = true},
    [PAMI_XFER_BROADCAST] = {.kept = true, .rooted = true, .words = 3},
    [PAMI_XFER_ALLREDUCE] = {.kept = true, .flagged = true, .words = 8},
    [PAMI_XFER_REDUCE] = {.kept = true, .rooted = true, .flagged = true, .words = 8},
    [PAMI_XFER_SCAN] = {.kept = true, .flagged = true, .words = 8},
    [PAMI_XFER_REDUCE_SCATTER] =
        {.kept = true, .flagged = true, .counted = true, .words = 8, .unit = 1},
    [PAMI_XFER_ALLGATHER] = {.kept = true, .words = 6},
    [PAMI_XFER_ALLGATHERV] = {.kept = true, .counted = true, .placed = true, .words = 7, .unit = 4},
    [PAMI_XFER_ALLTOALL] = {.kept = true, .words = 6},
    [PAMI_XFER_GATHER] = {.kept = true, .rooted = true, .words = 6},
    [PAMI_XFER_SCATTER] = {.kept = true, .rooted = true, .words = 6},
};

#define IS_LAID_OUT(type, first, last, before, count)                                              \
    _Static_assert(offsetof(type, first) == (before) &&                                            \
                       offsetof(type, last) == (before) + 8 * (count),                             \
                   #type)
IS_LAID_OUT(pami_broadcast_t, buf, typecount, 8, 2);
IS_LAID_OUT(pami_allreduce_t, sndbuf, commutative, 0, 8);
IS_LAID_OUT(pami_reduce_t, sndbuf, commutative, 8, 8);
IS_LAID_OUT(pami_scan_t, sndbuf, exclusive, 0, 8);
IS_LAID_OUT(pami_reduce_scatter_t, sndbuf, commutative, 0, 8);
IS_LAID_OUT(pami_reduce_scatter_t, sndbuf, stype, 0, 1);
IS_LAID_OUT(pami_reduce_scatter_t, sndbuf, rcounts, 0, COUNTS_WORD);
IS_LAID_OUT(pami_allgather_t, sndbuf, rtypecount, 0, 5);
IS_LAID_OUT(pami_allgatherv_t, sndbuf, rtype, 0, 4);
IS_LAID_OUT(pami_allgatherv_t, sndbuf, rtypecounts, 0, COUNTS_WORD);
IS_LAID_OUT(pami_allgatherv_t, sndbuf, rdispls, 0, PLACES_WORD);
IS_LAID_OUT(pami_alltoall_t, sndbuf, rtypecount, 0, 5);
IS_LAID_OUT(pami_gather_t, sndbuf, rtypecount, 8, 5);
IS_LAID_OUT(pami_scatter_t, sndbuf, rtypecount, 8, 5);

static inline uint64_t word_at(const char *from)
{
    uint64_t word;

    memcpy(&word, from, sizeof(word));
    return word;
}

static inline uint32_t half_at(const char *from)
{
    uint32_t half;

    memcpy(&half, from, sizeof(half));
    return half;
}

/* Slots go by the upper bits: the same call with root after root, added below, has slots far from
 * one another (multiples of the golden section), up to 32 of them without a collision. */
static inline uint32_t print_of(const pami_xfer_t *cmd, const struct repeat_layout *layout)
{
    const char *from = (const char *)&cmd->cmd;
    uint64_t hash = cmd->algorithm;

    if (layout->words != 0)
        hash ^= word_at(from + (layout->rooted ? 8 : 0));
    if (layout->rooted)
        hash += half_at(from);
    return (uint32_t)(hash * UINT64_C(0x9e3779b97f4a7c15) >> 32) | 1;
}

static inline uint32_t slot_of(uint32_t print)
{
    return print / (UINT32_MAX / REPEAT_SLOTS + 1);
}

/* The pointers are those of the key. */
static bool has_lists(const struct repeat_key *key)
{
    const size_t *counts = (const void *)(uintptr_t)key->words[COUNTS_WORD];

    for (uint32_t i = 0; i < key->members; i++)
        if (counts[i] * key->unit != key->blocks[i] || counts[i] > key->blocks[i])
            return false;
    return key->places == NULL || memcmp((const void *)(uintptr_t)key->words[PLACES_WORD],
                                         key->places, key->members * sizeof(size_t)) == 0;
}

/* Word by word: that is how the caller has just written them. */
static inline bool is_same(const struct repeat_key *key, const pami_xfer_t *cmd)
{
    const struct repeat_layout *layout = &key->layout;
    const char *from = (const char *)&cmd->cmd;

    if (key->algorithm != cmd->algorithm)
        return false;
    if (layout->rooted) {
        if (key->root != half_at(from))
            return false;
        from += 8;
    }
    for (unsigned i = 0; i < layout->words; i++)
        if (key->words[i] != word_at(from + 8 * i))
            return false;
    if (layout->flagged && key->flag != half_at(from + 8 * layout->words))
        return false;
    return !layout->counted || has_lists(key);
}

/* It is not in the slot that was used last. */
HOT static struct coll_operation *find(struct coll *coll, const pami_xfer_t *cmd, uint32_t *print)
{
    pami_xfer_type_t type = algorithm_handle_type(cmd->algorithm);
    struct repeats *repeats;
    struct coll_operation *operation;
    uint32_t own, slot;

    *print = 0;
    if (unlikely(coll->rows == NULL || type >= PAMI_XFER_COUNT || !layouts[type].kept))
        return NULL;
    repeats = &coll->rows->repeats;
    own = print_of(cmd, &layouts[type]);
    slot = slot_of(own);
    operation = repeats->kept[slot];
    if (operation != NULL && is_same(&operation->key, cmd)) {
        repeats->kept[slot] = NULL;
        return operation;
    }
    if (repeats->seen[slot] == own)
        *print = own;
    else
        repeats->seen[slot] = own;
    return NULL;
}

HOT struct coll_operation *repeat_take(struct coll *coll, const pami_xfer_t *cmd, uint32_t *print)
{
    struct coll_operation **slot = coll->last_kept, *operation;

    if (unlikely(slot == NULL) || (operation = *slot) == NULL || !is_same(&operation->key, cmd))
        return find(coll, cmd, print);
    *slot = NULL;
    return operation;
}

void repeat_note(struct coll_operation *operation, const pami_xfer_t *cmd,
                 const struct collective *collective, uint32_t print)
{
    struct repeat_key *key = &operation->key;
    const struct repeat_layout *layout = &layouts[collective->type];
    const char *from = (const char *)&cmd->cmd;

    key->print = 0;
    if (print == 0 || !collective->lasting || operation->machine->ops->repeats == NULL)
        return;
    key->print = print;
    key->algorithm = cmd->algorithm;
    key->layout = *layout;
    if (layout->rooted) {
        key->root = half_at(from);
        from += 8;
    }
    for (unsigned i = 0; i < layout->words; i++)
        key->words[i] = word_at(from + 8 * i);
    if (layout->flagged)
        key->flag = half_at(from + 8 * layout->words);
    if (layout->counted) {
        key->blocks = collective->recv_bytes;
        key->places = layout->placed ? collective->recv.displacements : NULL;
        key->unit = 1;
        if (!layout->placed || key->places != NULL) /* else there is nothing, of whatever type */
            key->unit =
                type_data_size(type_complete_from_handle((pami_type_t)key->words[layout->unit]));
        key->members = operation->machine->group->size;
    }
}

static void drop(struct coll *coll, struct coll_operation *operation)
{
    operation->machine->ops->release(operation->machine);
    pool_put(&coll->operations, operation);
}

HOT bool repeat_keep(struct coll *coll, struct coll_operation *operation)
{
    struct coll_operation **slot;

    if (operation->key.print == 0 || !operation->machine->ops->repeats(operation->machine))
        return false;
    slot = &coll->rows->repeats.kept[slot_of(operation->key.print)];
    if (*slot != NULL)
        drop(coll, *slot);
    *slot = operation;
    coll->last_kept = slot;
    return true;
}

void repeat_forget(struct coll *coll, const struct group *group)
{
    for (unsigned i = 0; coll->rows != NULL && i < REPEAT_SLOTS; i++) {
        struct coll_operation **slot = &coll->rows->repeats.kept[i];

        if (*slot == NULL || (*slot)->machine->group != group)
            continue;
        drop(coll, *slot);
        *slot = NULL;
    }
}
