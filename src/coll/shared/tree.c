/*
 * Barriers, broadcasts, reduces and all-reduces along a tree of an arena's members.
 *
 * Member 0 is on top, whoever is the root: a root elsewhere hands its data to it, or takes the
 * result from it. Below each member are consecutive ranks, so operands are combined in the order of
 * ranks, and the result is the same for all roots.
 *
 * Up: when its children have posted a segment, a member combines what they have with its own, and
 * posts that. Down: when its parent has the segment, a member takes it, and has it for its
 * children: of a broadcast as what it posts, of an all-reduce, whose slot the parent is done with,
 * by its STAGE stamp. So each member looks at lines of its neighbours only: its parent, its
 * children, and sometimes a guest. Only they read what it has written (A4). What comes down in a
 * barrier or an all-reduce says that all members have come, and so that all ticks before are over.
 *
 * A member that fails says so in both lines, and its neighbours fail as well.
 */
#include <string.h>

#include "coll/shared/tick.h"

/* Long all-reduces are faster in parts, and the root of a broadcast had better write for all at
 * once: a tree moves the data once for each level. Bytes for each member; at 32 of them, 4 KiB. */
#define EACH_BYTES 128u

/* ---- the tree ---- */

/* The first member below child i of a member, which has the ranks from `first` below it. */
static uint32_t child_at(uint32_t first, uint32_t end, uint32_t children, uint32_t i)
{
    return first + (uint32_t)((uint64_t)(end - first) * i / children);
}

void arena_make_tree(struct arena *arena)
{
    struct arena_tree *tree = &arena->tree;
    uint32_t at = 0, end = arena->size, children, child;

    for (;;) {
        children = end - at - 1 < tree->radix ? end - at - 1 : tree->radix;
        if (at == arena->rank)
            break;
        child = children - 1;
        while (child_at(at + 1, end, children, child) > arena->rank)
            child--;
        tree->parent = at;
        at = child_at(tree->parent + 1, end, children, child);
        end = child_at(tree->parent + 1, end, children, child + 1);
    }
    tree->children = children;
    for (child = 0; child < children; child++)
        tree->child[child] = child_at(at + 1, end, children, child);
}

bool shared_suits_tree(enum shared_kind kind, uint64_t bytes, uint32_t members)
{
    bool is_short = bytes <= (uint64_t)members * EACH_BYTES;

    return kind == SHARED_BARRIER || kind == SHARED_REDUCE ||
           ((kind == SHARED_BROADCAST || kind == SHARED_ALLREDUCE) && is_short);
}

bool shared_takes_tree(const struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;
    const struct arena *arena = machine->arena;

    if (arena->size <= 2 || (arena->crowded && !call->tree))
        return false;
    return shared_suits_tree(call->kind, call->tree ? 0 : call->bytes, arena->size);
}

/* ---- who reads what ---- */

static bool look_near(struct arena *arena, struct arena_position position)
{
    const struct arena_tree *tree = &arena->tree;
    struct arena_position least = {UINT64_MAX, 0};

    for (uint32_t i = arena->rank == 0; i <= tree->children; i++) {
        uint32_t member = i == 0 ? tree->parent : tree->child[i - 1];
        struct arena_position done = arena_done_of(arena, member, position);

        if (arena_is_behind(done, least))
            least = done;
    }
    arena->near_done = least;
    return !arena_is_behind(least, position);
}

bool arena_look_read(struct arena *arena, struct arena_position position,
                     const struct arena_readers *readers)
{
    /* Lines are used up to a tick, buffers in it. */
    if (readers->tick != position.tick + (position.segments != 0))
        return arena_look_done(arena, position);
    if (arena_is_behind(arena->near_done, position) && !look_near(arena, position))
        return false;
    return readers->guest == arena->rank ||
           !arena_is_behind(arena_done_of(arena, readers->guest, position), position);
}

static bool is_top(const struct shared_machine *machine)
{
    return machine->arena->rank == 0;
}

/* A root that is not on top. */
static bool is_guest(const struct shared_machine *machine)
{
    return machine->arena->rank == machine->call.root && !is_top(machine);
}

static uint32_t guest_of(const struct shared_machine *machine)
{
    enum shared_kind kind = machine->call.kind;

    if (kind == SHARED_BROADCAST && is_guest(machine))
        return 0;
    return kind == SHARED_REDUCE && is_top(machine) ? machine->call.root : machine->arena->rank;
}

/* Does anybody read what this member has? */
static bool is_read(const struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;

    if (call->kind == SHARED_BROADCAST)
        return machine->arena->rank == call->root || machine->arena->tree.children != 0;
    return call->kind != SHARED_REDUCE || !is_top(machine) || call->root != 0;
}

/* Whose segment comes down to this member? False: nobody's. */
static bool has_source(const struct shared_machine *machine, uint32_t *member)
{
    const struct shared_call *call = &machine->call;

    *member = machine->arena->tree.parent;
    switch (call->kind) {
    case SHARED_REDUCE:
        *member = 0;
        return is_guest(machine);
    case SHARED_BROADCAST:
        if (is_top(machine))
            *member = call->root;
        return machine->arena->rank != call->root;
    default:
        return !is_top(machine);
    }
}

static bool goes_both_ways(const struct shared_machine *machine)
{
    return machine->call.kind == SHARED_BARRIER || machine->call.kind == SHARED_ALLREDUCE;
}

static enum arena_kind line_down(const struct shared_machine *machine)
{
    return goes_both_ways(machine) ? LINE_STAGE : LINE_POST;
}

/* Where a segment lies that goes down. */
static char *slot_down(const struct shared_machine *machine, uint64_t index, uint32_t member)
{
    if (machine->is_inline)
        return (char *)arena_line(machine->arena, line_down(machine), machine->tick, member)->data;
    return shared_slot(machine, index, member);
}

/* ---- steps ---- */

static bool has_come(struct shared_machine *machine, enum arena_kind kind, uint64_t index,
                     uint32_t member)
{
    struct arena *arena = machine->arena;

    if (shared_member_has_come(machine, kind, index, member))
        return true;
    if (unlikely(arena->lost) && arena->left[member] &&
        !shared_member_has_come(machine, kind, index, member))
        arena->stranded = true;
    return false;
}

static bool children_have_come(struct shared_machine *machine)
{
    const struct arena_tree *tree = &machine->arena->tree;
    uint32_t *next = &machine->waiting[LINE_POST];

    for (; *next < tree->children; ++*next)
        if (!has_come(machine, LINE_POST, machine->posted, tree->child[*next])) {
            for (uint32_t i = *next + 1; unlikely(machine->arena->lost) && i < tree->children; i++)
                (void)has_come(machine, LINE_POST, machine->posted, tree->child[i]);
            return false;
        }
    *next = 0;
    return true;
}

static void all_have_come(const struct shared_machine *machine)
{
    struct arena *arena = machine->arena;

    if (arena->known_done.tick < machine->tick)
        arena->known_done = (struct arena_position){machine->tick, 0};
}

static void publish(struct shared_machine *machine, enum arena_kind kind, uint64_t index)
{
    struct arena *arena = machine->arena;
    const struct arena_readers readers = {machine->tick + 1, guest_of(machine)};
    uint32_t place = arena_buffer_place(arena, machine->slice + index);

    arena->line_readers[arena_place(arena, machine->tick)] = readers;
    if (!machine->is_inline) {
        arena->used[place] = (struct arena_position){machine->tick, index + 1};
        arena->readers[place] = readers;
    }
    shared_publish(machine, kind, index + 1);
}

/* The neighbours look at the line meanwhile, and a user's operator sees aligned data. */
static void combine(const struct shared_machine *machine, uint64_t index)
{
    bool ends = is_top(machine) && !is_read(machine);
    bool aside = ends || machine->is_inline || operator_is_user(machine->call.op);
    uint64_t bytes = shared_segment_bytes(machine, index);
    char *slot = is_top(machine) ? slot_down(machine, index, 0)
                                 : shared_slot(machine, index, machine->arena->rank);
    char *into = aside ? machine->arena->shared->scratch[0] : slot;

    shared_combine_below(machine, index, into);
    if (ends)
        shared_write(machine, index, into);
    else if (aside && bytes != 0)
        memcpy(slot, into, bytes);
}

/* The next segment of a broadcast may be written; or it is combined with what comes from below. */
static bool go_up(struct shared_machine *machine)
{
    const struct arena *arena = machine->arena;
    uint64_t index = machine->posted;

    if (index == machine->segments || index - machine->staged > arena->buffer_mask)
        return false;
    if (is_read(machine) && !shared_may_write(machine))
        return false;
    if (machine->call.kind != SHARED_BROADCAST) {
        if (!children_have_come(machine))
            return false;
        if (is_top(machine))
            all_have_come(machine);
        if (arena->tree.children != 0)
            combine(machine, index);
        else
            shared_fill(machine, index, shared_slot(machine, index, arena->rank));
        if (is_read(machine))
            publish(machine, LINE_POST, index);
    }
    machine->posted++;
    return true;
}

/* To the children, before it goes to the destination. */
static void hand_down(struct shared_machine *machine, uint64_t index, uint32_t source)
{
    uint32_t rank = machine->arena->rank;
    char *own = slot_down(machine, index, rank);

    if (source == rank && machine->call.kind == SHARED_BROADCAST)
        shared_fill(machine, index, own);
    else if (source != rank && shared_segment_bytes(machine, index) != 0)
        memcpy(own, slot_down(machine, index, source), shared_segment_bytes(machine, index));
    publish(machine, line_down(machine), index);
}

static bool go_down(struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;
    const struct arena *arena = machine->arena;
    uint64_t index = machine->staged;
    uint32_t source;

    if (index == machine->posted)
        return false;
    if (!has_source(machine, &source))
        source = arena->rank;
    else if (!has_come(machine, line_down(machine), index, source))
        return false;
    if (call->kind != SHARED_BROADCAST && source != arena->rank)
        all_have_come(machine);
    if (call->kind != SHARED_REDUCE && (arena->tree.children != 0 || arena->rank == call->root))
        hand_down(machine, index, source);
    if (source != arena->rank || goes_both_ways(machine))
        shared_write(machine, index, slot_down(machine, index, source));
    machine->staged++;
    shared_publish_done(machine, machine->staged);
    return true;
}

bool shared_run_tree(struct shared_machine *machine)
{
    bool moved = true;

    while (moved && machine->failure == PAMI_SUCCESS && machine->staged != machine->segments) {
        moved = go_up(machine);
        moved = go_down(machine) || moved;
    }
    return machine->failure != PAMI_SUCCESS || machine->staged == machine->segments;
}

/* ---- failures ---- */

void shared_fail_tree(struct shared_machine *machine)
{
    if (is_read(machine))
        shared_fail_lines(machine);
}

bool shared_tree_misses(const struct shared_machine *machine, uint32_t member)
{
    const struct arena_tree *tree = &machine->arena->tree;
    uint32_t source;

    if (machine->staged < machine->posted && has_source(machine, &source) && source == member &&
        shared_has_not_come(machine, line_down(machine), machine->staged, member))
        return true;
    if (machine->call.kind == SHARED_BROADCAST || machine->posted == machine->segments)
        return false;
    for (uint32_t i = 0; i < tree->children; i++)
        if (tree->child[i] == member)
            return shared_has_not_come(machine, LINE_POST, machine->posted, member);
    return false;
}
