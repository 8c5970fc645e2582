/*
 * Long reduces and all-reduces in crowded arenas, where tasks share processors.
 *
 * The members with equal ranks modulo the number of relays are a relay. It has one slot, that of
 * its first member, which copies its operand there; the others, one after the other, combine theirs
 * with what they find. The last ones of all relays then combine a part of the slots each, and
 * everybody, or the root, takes the parts. So an operand is read once, by its own member, and the
 * slot stays in the cache of a processor if the relay does: there are as many as processors, and
 * tasks spread over these in the same way (client_spread). A member needs two turns, one in each
 * stage, and in the first one more for each member before it that had none yet.
 *
 * The order in which operands are combined depends on ranks only, though it is not theirs.
 */
#include "coll/shared/tick.h"
#include "util/tsan.h"

static uint32_t relay_of(const struct arena *arena, uint32_t member)
{
    return member % arena->relays;
}

static char *relay_slot(const struct shared_machine *machine, uint64_t index, uint32_t relay)
{
    return shared_slot(machine, index, relay);
}

/* The bytes of a part of a segment; where it begins in the message. */
static uint64_t part_of(const struct shared_machine *machine, uint64_t index, uint32_t part,
                        uint64_t *start)
{
    *start = index * machine->segment + part * machine->part;
    return shared_piece(machine->call.bytes, *start, machine->part);
}

bool shared_is_relayed(const struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;
    uint64_t least = machine->arena->relay_bytes;

    return least != 0 && call->bytes >= least && call->bytes > ARENA_INLINE &&
           (call->kind == SHARED_ALLREDUCE || call->kind == SHARED_REDUCE) &&
           !operator_is_user(call->op) && !operator_is_copy(call->op);
}

bool shared_relay_is_here(struct shared_machine *machine)
{
    struct arena *arena = machine->arena;
    uint32_t before;

    if (arena->rank < arena->relays)
        return true;
    before = arena->rank - arena->relays;
    if (shared_member_has_come(machine, LINE_POST, machine->posted, before))
        return true;
    if (unlikely(arena->lost) && arena->left[before] &&
        !shared_member_has_come(machine, LINE_POST, machine->posted, before))
        arena->stranded = true;
    return false;
}

bool shared_relay_misses(const struct shared_machine *machine, uint32_t member)
{
    return machine->posted != machine->segments &&
           member + machine->arena->relays == machine->arena->rank &&
           shared_has_not_come(machine, LINE_POST, machine->posted, member);
}

bool shared_takes_relays(const struct shared_machine *machine)
{
    return machine->call.kind == SHARED_ALLREDUCE || machine->arena->rank == machine->call.root;
}

void shared_take_relays(struct shared_machine *machine, uint64_t index)
{
    for (uint32_t i = 0; i < machine->arena->relays; i++) {
        uint64_t start, bytes = part_of(machine, index, i, &start);
        char *slot = relay_slot(machine, index, i);

        TSAN_ACQUIRE(slot);
        shared_write_map(&machine->call.recv, 0, start, bytes, slot + i * machine->part);
    }
}

/* ---- the row ---- */

static bool everybody(const struct shared_machine *machine)
{
    (void)machine;
    return true;
}

static void post(struct shared_machine *machine, uint64_t index)
{
    const struct arena *arena = machine->arena;
    uint64_t start = index * machine->segment;
    uint64_t bytes = shared_piece(machine->call.bytes, start, machine->segment);
    char *slot = relay_slot(machine, index, relay_of(arena, arena->rank));

    TSAN_ACQUIRE(slot); /* the one before may be another process, those before that threads here */
    if (arena->rank < arena->relays)
        shared_read_own(machine, start, bytes, slot);
    else
        shared_combine_own(machine, start, bytes, slot);
    TSAN_RELEASE(slot);
}

/* The last ones of all relays. Who takes nothing of a reduce waits for nobody. */
static void wants(const struct shared_machine *machine, uint32_t *from, uint32_t *to)
{
    const struct arena *arena = machine->arena;
    bool last = arena->rank >= arena->size - arena->relays;

    *from = arena->size - arena->relays;
    *to = last || shared_takes_relays(machine) ? arena->size : *from;
}

static void take(struct shared_machine *machine, uint64_t index)
{
    const struct arena *arena = machine->arena;
    uint32_t own = relay_of(arena, arena->rank);
    uint64_t start, shift = own * machine->part, bytes = part_of(machine, index, own, &start);

    if (arena->rank < arena->size - arena->relays)
        return;
    for (uint32_t i = 0; i < arena->relays; i++) {
        TSAN_ACQUIRE(relay_slot(machine, index, i));
        if (i != own)
            shared_combine(machine, relay_slot(machine, index, own) + shift,
                           relay_slot(machine, index, i) + shift, bytes);
    }
    TSAN_RELEASE(relay_slot(machine, index, own));
}

const struct shared_row shared_row_relayed = {"relayed reduction", everybody, post, wants, take};
