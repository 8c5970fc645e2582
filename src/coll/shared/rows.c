/*
 * What the collectives of an arena post and take; see shared.h.
 *
 * Segment `index` of a collective is the bytes from index * segment on, of the message or of each
 * block. A slot holds a segment; in rows with parts it holds one for each member, `part` bytes
 * apart.
 */
#include <string.h>

#include "coll/shared/shared.h"
#include "util/minmax.h"
#include "util/stream.h"

/* What is not plain is gathered in pieces that stay in the cache. */
#define GATHER_BYTES 16384u

/* ---- data ---- */

static void read_map(const struct area_map *map, uint32_t block, uint64_t offset, uint64_t bytes,
                     char *to)
{
    struct message_place place;
    struct type_cursor cursor;

    if (bytes == 0)
        return;
    if (shared_is_plain(map)) {
        memcpy(to, shared_data_at(map, block, offset), bytes);
        return;
    }
    place = area_place(map, block, offset);
    type_cursor_init(&cursor, place.type, place.address, place.offset);
    type_pack(to, &cursor, bytes, PAMI_DATA_COPY, NULL);
}

void shared_write_map(const struct area_map *map, uint32_t block, uint64_t offset, uint64_t bytes,
                      const char *from)
{
    struct message_place place;
    struct type_cursor cursor;

    if (bytes == 0)
        return;
    if (shared_is_plain(map)) {
        memcpy(shared_data_at(map, block, offset), from, bytes);
        return;
    }
    place = area_place(map, block, offset);
    type_cursor_init(&cursor, place.type, place.address, place.offset);
    type_unpack(&cursor, from, bytes);
}

/* From the source's block `from` to the destination's block `to`, without a slot. */
void shared_copy_own(const struct shared_machine *machine, uint32_t from, uint32_t to,
                     uint64_t offset, uint64_t bytes)
{
    struct message_place source, target;

    if (machine->call.in_place || bytes == 0)
        return;
    source = area_place(&machine->call.send, from, offset);
    target = area_place(&machine->call.recv, to, offset);
    place_copy(&target, &source, bytes);
}

static uint64_t start_of(const struct shared_machine *machine, uint64_t index)
{
    return index * machine->segment;
}

/* Bytes of this segment in block `rank`. */
static uint64_t bytes_of(const struct shared_machine *machine, uint32_t rank, uint64_t index)
{
    const struct shared_call *call = &machine->call;

    return shared_piece(shared_block_bytes(call, rank), start_of(machine, index), machine->segment);
}

/* ---- combining ---- */

/* Operands as an operator sees them: aligned when it is the user's. */
static const char *operand(const struct shared_machine *machine, const char *data, uint64_t bytes)
{
    char *copy = machine->arena->shared->scratch[1];

    if (!operator_is_user(machine->call.op) || (uintptr_t)data % 16 == 0)
        return data;
    memcpy(copy, data, bytes);
    return copy;
}

void shared_combine(const struct shared_machine *machine, char *into, const char *lower,
                    uint64_t bytes)
{
    const struct shared_call *call = &machine->call;

    if (bytes == 0)
        return;
    if (operator_is_user(call->op))
        call->op(into, (void *)(uintptr_t)operand(machine, lower, bytes), bytes, call->op_cookie);
    else
        operator_apply(call->op, call->element, into, lower, bytes);
}

/* The own operand, `offset` data bytes into the source's block `block`. */
static const char *own_operand(const struct shared_machine *machine, uint32_t block,
                               uint64_t offset, uint64_t bytes)
{
    const struct area_map *send = &machine->call.send;

    if (shared_is_plain(send))
        return shared_data_at(send, block, offset);
    read_map(send, block, offset, bytes, machine->arena->shared->scratch[1]);
    return machine->arena->shared->scratch[1];
}

void shared_read_own(const struct shared_machine *machine, uint64_t offset, uint64_t bytes,
                     char *to)
{
    read_map(&machine->call.send, 0, offset, bytes, to);
}

/* Not more at a time than the scratch memory has room for. */
void shared_combine_own(const struct shared_machine *machine, uint64_t offset, uint64_t bytes,
                        char *into)
{
    uint64_t most = machine->arena->shared->wide_most;

    most -= most % machine->call.unit;
    for (uint64_t at = 0; at < bytes; at += most) {
        uint64_t piece = shared_piece(bytes, at, most);

        shared_combine(machine, into + at, own_operand(machine, 0, offset + at, piece), piece);
    }
}

/* Instead of a block of the source: the own operand is in the own slot, as those of the others. */
#define POSTED UINT32_MAX

/*
 * The operands of the members 0..count-1 in their slots, `shift` bytes into them, combined `into`
 * memory; the own one may be in the source. Strictly from the last to the first.
 */
static void combine_slots(const struct shared_machine *machine, uint64_t index, uint32_t count,
                          uint64_t shift, uint32_t own_block, uint64_t own_offset, uint64_t bytes,
                          char *into)
{
    uint32_t rank = machine->arena->rank;

    for (uint32_t i = bytes != 0 ? count : 0; i-- > 0;) {
        const char *data = i == rank && own_block != POSTED
                               ? own_operand(machine, own_block, own_offset, bytes)
                               : shared_slot(machine, index, i) + shift;

        if (i == count - 1)
            memcpy(into, data, bytes);
        else
            shared_combine(machine, into, data, bytes);
    }
}

/*
 * The same, and to byte `start` of the destination; `start` is also where the own operand begins.
 * Returns where they were combined: in the destination itself if that is possible, which saves a
 * copy. The own operand must not be there, and a user's operator sees aligned data.
 */
static const char *take_operands(const struct shared_machine *machine, uint64_t index,
                                 uint32_t count, uint64_t shift, uint32_t own_block, uint64_t start,
                                 uint64_t bytes)
{
    const struct shared_call *call = &machine->call;
    bool direct = bytes != 0 && shared_is_plain(&call->recv) && !operator_is_user(call->op) &&
                  !call->in_place;
    char *into =
        direct ? shared_data_at(&call->recv, 0, start) : machine->arena->shared->scratch[0];

    combine_slots(machine, index, count, shift, own_block, start, bytes, into);
    if (!direct)
        shared_write_map(&call->recv, 0, start, bytes, into);
    return into;
}

/* ---- who posts, whom one waits for ---- */

static bool everybody(const struct shared_machine *machine)
{
    (void)machine;
    return true;
}

static bool is_root(const struct shared_machine *machine)
{
    return machine->arena->rank == machine->call.root;
}

static bool is_not_root(const struct shared_machine *machine)
{
    return !is_root(machine);
}

/* Members that believe in relays may wait for a root that does not, and read its stamp. */
static bool posts_reduce(const struct shared_machine *machine)
{
    return is_not_root(machine) || machine->arena->relay_bytes != 0;
}

static void all(const struct shared_machine *machine, uint32_t *from, uint32_t *to)
{
    *from = 0;
    *to = machine->arena->size;
}

static void from_root(const struct shared_machine *machine, uint32_t *from, uint32_t *to)
{
    *from = machine->call.root;
    *to = is_root(machine) ? *from : *from + 1;
}

static void to_root(const struct shared_machine *machine, uint32_t *from, uint32_t *to)
{
    *from = 0;
    *to = is_root(machine) ? machine->arena->size : 0;
}

static void lower(const struct shared_machine *machine, uint32_t *from, uint32_t *to)
{
    *from = 0;
    *to = machine->arena->rank;
}

/* ---- posting ---- */

/*
 * Much data into the own slot: past the cache where the lines of its readers are dear. 4 tasks on 2
 * processors, 64 KiB, us where lines are dear, always in the cache and now: scatter 61 and 39,
 * allgather 120 and 50, allreduce 80 and 52, reduce_scatter 157 and 71. Where they are not, two
 * tasks on an Intel Xeon, always past the cache and now: broadcast 10.3 and 6.1, reduce 11.7 and
 * 6.3, gather 11.6 and 6.4, broadcast of 1 MiB 110 and 80, gather 157 and 106.
 */
static void copy_far(const struct shared_machine *machine, char *slot, const char *from,
                     uint64_t bytes)
{
    struct gauge *gauge = &machine->arena->shared->gauges[bytes >= SHARED_MUCH];
    uint64_t start;

    if (gauge_pays(gauge)) {
        stream_copy(slot, from, bytes);
        return;
    }
    start = clock_ticks();
    memcpy(slot, from, bytes);
    if (gauge_measures(gauge))
        gauge_note(gauge, clock_ticks() - start, bytes);
}

/*
 * The same for data that are not plain. They are gathered beside the slot: that stores more than
 * the data, and all of it would wait behind the stores that fetch lines of the slot.
 */
static void gather_far(const struct shared_machine *machine, char *slot,
                       const struct message_place *place, uint64_t bytes)
{
    char *gathered = machine->arena->shared->scratch[1];
    struct type_cursor cursor;
    const char *whole;

    type_cursor_init(&cursor, place->type, place->address, place->offset);
    whole = type_cursor_whole(&cursor, bytes);
    if (whole != NULL) {
        copy_far(machine, slot, whole, bytes);
        return;
    }
    while (bytes != 0) {
        uint64_t step = smaller(bytes, GATHER_BYTES);

        type_pack(gathered, &cursor, step, PAMI_DATA_COPY, NULL);
        copy_far(machine, slot, gathered, step);
        slot += step;
        bytes -= step;
    }
}

/* From the source into the own slot. */
void shared_fill_slot(const struct shared_machine *machine, uint32_t block, uint64_t offset,
                      uint64_t bytes, char *slot)
{
    const struct area_map *send = &machine->call.send;
    struct message_place place;

    if (bytes < machine->arena->shared->stream_bytes) {
        read_map(send, block, offset, bytes, slot);
    } else if (shared_is_plain(send)) {
        copy_far(machine, slot, shared_data_at(send, block, offset), bytes);
    } else {
        place = area_place(send, block, offset);
        gather_far(machine, slot, &place, bytes);
    }
}

static void post_nothing(struct shared_machine *machine, uint64_t index)
{
    (void)machine, (void)index;
}

/* The own data: the only block of the source. */
static void post_own(struct shared_machine *machine, uint64_t index)
{
    uint32_t rank = machine->arena->rank;
    uint64_t bytes =
        machine->call.kind == SHARED_ALLGATHER
            ? bytes_of(machine, rank, index)
            : shared_piece(machine->call.bytes, start_of(machine, index), machine->segment);

    shared_fill_slot(machine, 0, start_of(machine, index), bytes,
                     shared_slot(machine, index, rank));
}

static void post_reduce(struct shared_machine *machine, uint64_t index)
{
    if (is_not_root(machine))
        post_own(machine, index);
}

/* A block for each of the others. */
static void post_parts(struct shared_machine *machine, uint64_t index)
{
    const struct arena *arena = machine->arena;
    char *slot = shared_slot(machine, index, arena->rank);

    for (uint32_t i = 0; i < arena->size; i++)
        if (i != arena->rank)
            shared_fill_slot(machine, i, start_of(machine, index), bytes_of(machine, i, index),
                             slot + i * machine->part);
}

/* ---- taking ---- */

static void take_nothing(struct shared_machine *machine, uint64_t index)
{
    (void)machine, (void)index;
}

static void take_broadcast(struct shared_machine *machine, uint64_t index)
{
    if (!is_root(machine))
        shared_write_map(&machine->call.recv, 0, start_of(machine, index),
                         bytes_of(machine, 0, index),
                         shared_slot(machine, index, machine->call.root));
}

static void take_combined(struct shared_machine *machine, uint64_t index)
{
    take_operands(machine, index, machine->arena->size, 0, 0, start_of(machine, index),
                  bytes_of(machine, 0, index));
}

static void take_reduce(struct shared_machine *machine, uint64_t index)
{
    if (is_root(machine))
        take_combined(machine, index);
}

static void take_scan(struct shared_machine *machine, uint64_t index)
{
    uint32_t count = machine->arena->rank + !machine->call.exclusive;

    if (count > 0)
        take_operands(machine, index, count, 0, 0, start_of(machine, index),
                      bytes_of(machine, 0, index));
}

static void take_others(struct shared_machine *machine, uint64_t index)
{
    const struct arena *arena = machine->arena;

    for (uint32_t i = 0; i < arena->size; i++)
        if (i != arena->rank)
            shared_write_map(&machine->call.recv, i, start_of(machine, index),
                             bytes_of(machine, i, index), shared_slot(machine, index, i));
}

static void take_allgather(struct shared_machine *machine, uint64_t index)
{
    uint32_t rank = machine->arena->rank;

    take_others(machine, index);
    shared_copy_own(machine, 0, rank, start_of(machine, index), bytes_of(machine, rank, index));
}

static void take_gather(struct shared_machine *machine, uint64_t index)
{
    uint32_t rank = machine->arena->rank;

    if (!is_root(machine))
        return;
    take_others(machine, index);
    shared_copy_own(machine, 0, rank, start_of(machine, index), bytes_of(machine, rank, index));
}

static void take_scatter(struct shared_machine *machine, uint64_t index)
{
    const struct arena *arena = machine->arena;
    uint64_t start = start_of(machine, index), bytes = bytes_of(machine, arena->rank, index);

    if (is_root(machine))
        shared_copy_own(machine, arena->rank, 0, start, bytes);
    else
        shared_write_map(&machine->call.recv, 0, start, bytes,
                         shared_slot(machine, index, machine->call.root) +
                             arena->rank * machine->part);
}

static void take_alltoall(struct shared_machine *machine, uint64_t index)
{
    const struct arena *arena = machine->arena;
    uint64_t start = start_of(machine, index);

    for (uint32_t i = 0; i < arena->size; i++)
        if (i != arena->rank)
            shared_write_map(&machine->call.recv, i, start, bytes_of(machine, i, index),
                             shared_slot(machine, index, i) + arena->rank * machine->part);
    shared_copy_own(machine, arena->rank, arena->rank, start,
                    bytes_of(machine, arena->rank, index));
}

static void take_reduce_scatter(struct shared_machine *machine, uint64_t index)
{
    const struct arena *arena = machine->arena;
    uint64_t start = start_of(machine, index), bytes = bytes_of(machine, arena->rank, index);

    take_operands(machine, index, arena->size, arena->rank * machine->part, arena->rank, start,
                  bytes);
}

/* ---- an all-reduce in parts: member r combines part r of every segment ---- */

static uint64_t part_bytes(const struct shared_machine *machine, uint64_t index, uint32_t rank)
{
    return shared_piece(machine->call.bytes, start_of(machine, index) + rank * machine->part,
                        machine->part);
}

static void post_split(struct shared_machine *machine, uint64_t index)
{
    const struct arena *arena = machine->arena;
    char *slot = shared_slot(machine, index, arena->rank);

    for (uint32_t i = 0; i < arena->size; i++)
        if (i != arena->rank)
            shared_fill_slot(machine, 0, start_of(machine, index) + i * machine->part,
                             part_bytes(machine, index, i), slot + i * machine->part);
}

static void take_split(struct shared_machine *machine, uint64_t index)
{
    const struct arena *arena = machine->arena;
    uint64_t shift = arena->rank * machine->part, start = start_of(machine, index) + shift;
    uint64_t bytes = part_bytes(machine, index, arena->rank);
    const char *result;
    char *slot = shared_slot(machine, index, arena->rank) + shift;

    if (bytes == 0)
        return;
    result = take_operands(machine, index, arena->size, shift, 0, start, bytes);
    if (bytes >= machine->arena->shared->stream_bytes)
        copy_far(machine, slot, result, bytes);
    else
        memcpy(slot, result, bytes);
}

void shared_take_stage(struct shared_machine *machine, uint64_t index)
{
    const struct arena *arena = machine->arena;

    for (uint32_t i = 0; i < arena->size; i++)
        if (i != arena->rank)
            shared_write_map(&machine->call.recv, 0, start_of(machine, index) + i * machine->part,
                             part_bytes(machine, index, i),
                             shared_slot(machine, index, i) + i * machine->part);
}

/* ---- crowded arenas ---- */

HOT void shared_combine_all(struct shared_machine *machine, char *result)
{
    char *scratch = machine->arena->shared->scratch[0];
    bool aligned = operator_is_user(machine->call.op);
    uint64_t bytes = machine->call.bytes;

    combine_slots(machine, 0, machine->arena->size, 0, POSTED, 0, bytes,
                  aligned ? scratch : result);
    if (aligned)
        memcpy(result, scratch, bytes);
}

HOT void shared_take_result(struct shared_machine *machine, const char *result)
{
    shared_write_map(&machine->call.recv, 0, 0, machine->call.bytes, result);
}

/* ---- trees ---- */

uint64_t shared_segment_bytes(const struct shared_machine *machine, uint64_t index)
{
    return bytes_of(machine, 0, index);
}

void shared_fill(const struct shared_machine *machine, uint64_t index, char *slot)
{
    uint64_t bytes = bytes_of(machine, 0, index);

    if (bytes != 0)
        shared_fill_slot(machine, 0, start_of(machine, index), bytes, slot);
}

/* From the last child's to the own one. */
void shared_combine_below(const struct shared_machine *machine, uint64_t index, char *into)
{
    const struct arena_tree *tree = &machine->arena->tree;
    uint64_t bytes = bytes_of(machine, 0, index);

    if (bytes == 0)
        return;
    memcpy(into, shared_slot(machine, index, tree->child[tree->children - 1]), bytes);
    for (uint32_t i = tree->children - 1; i-- > 0;)
        shared_combine(machine, into, shared_slot(machine, index, tree->child[i]), bytes);
    shared_combine(machine, into, own_operand(machine, 0, start_of(machine, index), bytes), bytes);
}

void shared_write(const struct shared_machine *machine, uint64_t index, const char *from)
{
    shared_write_map(&machine->call.recv, 0, start_of(machine, index), bytes_of(machine, 0, index),
                     from);
}

/* ---- the table ---- */

const struct shared_row shared_rows[SHARED_KINDS] = {
    [SHARED_BARRIER] = {"barrier", everybody, post_nothing, all, take_nothing},
    [SHARED_BROADCAST] = {"broadcast", is_root, post_own, from_root, take_broadcast},
    [SHARED_REDUCE] = {"reduce", posts_reduce, post_reduce, to_root, take_reduce},
    [SHARED_ALLREDUCE] = {"allreduce", everybody, post_own, all, take_combined},
    [SHARED_GATHER] = {"gather", is_not_root, post_own, to_root, take_gather},
    [SHARED_SCATTER] = {"scatter", is_root, post_parts, from_root, take_scatter},
    [SHARED_ALLGATHER] = {"allgather", everybody, post_own, all, take_allgather},
    [SHARED_ALLTOALL] = {"alltoall", everybody, post_parts, all, take_alltoall},
    [SHARED_GATHERV] = {"gatherv", is_not_root, shared_post_vector, to_root, shared_take_vector},
    [SHARED_SCATTERV] = {"scatterv", is_root, shared_post_vector, from_root, shared_take_vector},
    [SHARED_ALLTOALLV] = {"alltoallv", everybody, shared_post_vector, all, shared_take_vector},
    [SHARED_SCAN] = {"scan", everybody, post_own, lower, take_scan},
    [SHARED_REDUCE_SCATTER] = {"reduce_scatter", everybody, post_parts, all, take_reduce_scatter},
};

const struct shared_row shared_row_split = {"allreduce in parts", everybody, post_split, all,
                                            take_split};
