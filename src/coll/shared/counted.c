/*
 * Short collectives in crowded arenas, where tasks share processors.
 *
 * All but the last to arrive have to wait for one line only, and give their processor up: so each
 * collective needs one turn of each member, as a central counter does.
 */
#include "coll/shared/tick.h"
#include "util/tsan.h"

/* Beside the number of arrivals: somebody came who had failed, which nobody else may know. */
#define ARRIVED_ERROR UINT64_C(0x4000) /* ... for want of memory, or as somebody has gone */
#define ARRIVED_DISAGREE UINT64_C(0x8000)
#define ARRIVED_FAILED (ARRIVED_ERROR | ARRIVED_DISAGREE)

_Static_assert(ARENA_MEMBERS < ARRIVED_ERROR, "all can be counted");

/* 0: it has not failed. */
static uint64_t failure_of(const struct shared_machine *machine)
{
    if (likely(machine->failure == PAMI_SUCCESS))
        return 0;
    return shared_has_error(machine) ? ARRIVED_ERROR : ARRIVED_DISAGREE;
}

/* 0: all slots hold operands of this collective. Who gave it up after it came says so there. */
static uint64_t failures_in_slots(const struct shared_machine *machine)
{
    const struct arena *arena = machine->arena;
    uint64_t failures = 0;

    if (machine->call.kind == SHARED_BARRIER)
        return 0;
    for (uint32_t i = 0; i < arena->size; i++) {
        uint64_t stamp = atomic_load_explicit(
            &arena_line(arena, LINE_POST, machine->tick, i)->count, memory_order_relaxed);

        if (likely(stamp == machine->stamp))
            continue;
        failures |= stamp == shared_failed(machine->stamp, true) ? ARRIVED_ERROR : ARRIVED_DISAGREE;
    }
    return failures;
}

/* Arrivals are counted below the tick: what is left of one in which not all came does not count.
 * `failures`: of this member; then of all. */
static bool is_last(struct arena_slice *slice, uint64_t tick, uint32_t size, uint64_t *failures)
{
    const uint64_t none = (tick + 1) << ARENA_CHECK_BITS;
    uint64_t count, seen;

    cpu_prefetch_write(&slice->arrived);
    seen = atomic_load_explicit(&slice->arrived.count, memory_order_relaxed);
    do {
        count = ((seen < none ? none : seen) | *failures) + 1;
        if (unlikely((count ^ none) >> ARENA_CHECK_BITS != 0)) /* of a later one */
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&slice->arrived.count, &seen, count,
                                                    memory_order_acq_rel, memory_order_relaxed));
    *failures = count & ARRIVED_FAILED;
    return (count & ~ARRIVED_FAILED) == none + size;
}

HOT void shared_arrive(struct shared_machine *machine, uint64_t tick)
{
    struct arena_slice *slice = arena_slice(machine->arena, tick);
    uint64_t stamp = machine->stamp, failures = failure_of(machine);

    TSAN_RELEASE(slice); /* the last one may be another process */
    if (!is_last(slice, tick, machine->arena->size, &failures))
        return;
    if (likely(failures == 0))
        failures = failures_in_slots(machine);
    if (unlikely(failures != 0))
        stamp = shared_failed(stamp, (failures & ARRIVED_ERROR) != 0);
    else
        shared_combine_all(machine, (char *)slice->release.data);
    atomic_store_explicit(&slice->release.count, stamp, memory_order_release);
}

HOT bool shared_run_counted(struct shared_machine *machine)
{
    struct arena *arena = machine->arena;
    struct arena_slice *slice = arena_slice(arena, machine->tick);

    if (machine->posted == 0) {
        if (!shared_may_write(machine))
            return false;
        arena->line_used[arena_place(arena, machine->tick)] = machine->tick + 1;
        if (machine->call.kind != SHARED_BARRIER) {
            machine->row->post(machine, 0);
            shared_publish(machine, LINE_POST, 1);
        }
        machine->posted = 1;
        shared_sit_down(machine);
        shared_arrive(machine, machine->tick);
    }
    if (!shared_has_come(machine,
                         atomic_load_explicit(&slice->release.count, memory_order_acquire))) {
        arena->stranded = arena->lost; /* who left after the release had seen it */
        arena->shared->context->patient = shared_keeps_processor(machine);
        return machine->failure != PAMI_SUCCESS;
    }
    TSAN_ACQUIRE(slice);
    if (arena->known_done.tick < machine->tick)
        arena->known_done = (struct arena_position){machine->tick, 0};
    shared_take_result(machine, (const char *)slice->release.data);
    shared_publish_done(machine, 1);
    return true;
}

HOT bool shared_is_counted(const struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;

    return machine->arena->crowded && machine->arena->size > 2 && call->bytes <= ARENA_INLINE &&
           !call->tree && (call->kind == SHARED_BARRIER || call->kind == SHARED_ALLREDUCE);
}
