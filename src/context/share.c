/*
 * The gate of share.h, and the helper's turns.
 *
 * A turn holds the lock and the gate, and gives both up when the program waits for either, when
 * serving ends, or when nothing is left to do. In that case it has armed the port before it lets
 * go: from then on senders, posters and a program that leaves work behind ring.
 */
#include "context/share.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "context/advance.h"
#include "context/context.h"
#include "util/clock.h"

/* A program that left an advance less than this long ago is polling, us. */
#define POLLS_WITHIN_US 10.0

static _Thread_local bool is_helper __attribute__((tls_model("initial-exec")));

void share_helper_begin(void)
{
    is_helper = true;
}

/* sched_getcpu takes 2 to 16 ns. */
void share_note_place(struct context *context)
{
    int place;

    if (!atomic_load_explicit(&context->share.apart, memory_order_relaxed) || is_helper)
        return;
    place = 1 + sched_getcpu();
    if (place > 0 && atomic_load_explicit(&context->share.place, memory_order_relaxed) != place)
        atomic_store_explicit(&context->share.place, place, memory_order_relaxed);
}

void share_barrier(void)
{
    static const struct timespec moment = {.tv_nsec = 1000000};

    if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0 ||
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0)
        return;
    /* No such call here: no store stays in a processor's buffer for that long. */
    syscall(SYS_nanosleep, &moment, NULL);
}

void share_begin(struct context *context, void (*ring)(void *cookie), void *cookie)
{
    context->share.ring = ring;
    context->share.cookie = cookie;
    atomic_fetch_or_explicit(&context->guard, GUARD_SHARED, memory_order_seq_cst);
    share_barrier();
}

void share_end(struct context *context)
{
    atomic_store_explicit(&context->share.asleep, false, memory_order_relaxed);
}

bool share_enter(struct context *context)
{
    uintptr_t nobody = 0;

    return atomic_compare_exchange_strong_explicit(&context->share.owner, &nobody,
                                                   context_lock_self(), memory_order_acquire,
                                                   memory_order_relaxed); /* S2 */
}

void share_leave(struct context *context)
{
    atomic_store_explicit(&context->share.owner, 0, memory_order_release); /* S2 */
}

bool share_owned(const struct context *context)
{
    return atomic_load_explicit(&context->share.owner, memory_order_relaxed) == context_lock_self();
}

bool share_nested(const struct context *context)
{
    if (!context_shared(context))
        return true;
    return share_owned(context) || context_lock_held(&context->lock) ||
           !atomic_load_explicit(&context->share.ready, memory_order_relaxed);
}

bool share_calls(const struct context *context)
{
    uintptr_t inside = atomic_load_explicit(&context->advancing, memory_order_acquire); /* E1 */

    if (share_owned(context))
        return true;
    return inside == context_lock_self() &&
           !(context_shared(context) &&
             atomic_load_explicit(&context->share.ready, memory_order_relaxed));
}

bool share_left_work(struct context *context)
{
    if (!atomic_load_explicit(&context->share.asleep, memory_order_relaxed))
        return false;
    context_flush(context);
    return atomic_load_explicit(&context->share.starving, memory_order_relaxed) ||
           !completion_queue_empty(&context->completions) || context_has_retries(context);
}

/* S3: whom to ring, and for what, was stored before `asleep`. */
void share_ring(struct context *context)
{
    if (atomic_exchange_explicit(&context->share.asleep, false, memory_order_acquire))
        context->share.ring(context->share.cookie);
}

/* By the context's helper, or a function of the user's that it calls. */
static void note_help(struct context *context, int events)
{
    uint64_t helped;

    if (events == 0 || !is_helper)
        return;
    helped = atomic_load_explicit(&context->share.helped, memory_order_relaxed);
    atomic_store_explicit(&context->share.helped, helped + (uint64_t)events, memory_order_relaxed);
}

static int owned_pass(struct context *context)
{
    int events;

    misuse_enter(context, "PAMI_Context_advance");
    context_enter(context);
    events = context_pass(context);
    context_leave(context);
    misuse_leave(context);
    note_help(context, events);
    return events;
}

int share_pass(struct context *context)
{
    bool left_work;
    int events;

    if (atomic_load_explicit(&context->guard, memory_order_relaxed) & GUARD_CLOSING)
        return -1;
    if (!share_enter(context)) {
        atomic_store_explicit(&context->share.wanted, true, memory_order_relaxed);
        return 0;
    }
    events = owned_pass(context);
    atomic_store_explicit(&context->share.visited, clock_ticks(), memory_order_relaxed);
    share_note_place(context);
    left_work = share_left_work(context);
    share_leave(context);
    if (unlikely(left_work))
        share_ring(context);
    return events;
}

/* Nobody is inside who came before the guard was set. */
static bool is_ready(struct context *context)
{
    struct context_share *share = &context->share;

    if (atomic_load_explicit(&share->ready, memory_order_relaxed))
        return true;
    if (atomic_load_explicit(&context->advancing, memory_order_acquire)) /* S1 */
        return false;
    atomic_store_explicit(&share->ready, true, memory_order_relaxed);
    return true;
}

static bool is_polled(const struct context *context)
{
    uint64_t visited = atomic_load_explicit(&context->share.visited, memory_order_relaxed);

    return visited != 0 &&
           (double)(int64_t)(clock_ticks() - visited) < POLLS_WITHIN_US * clock_ticks_per_us();
}

static bool is_wanted(struct context *context)
{
    struct context_share *share = &context->share;

    if (atomic_load_explicit(&context->lock.waiters, memory_order_relaxed) != 0)
        return true;
    if (likely(!atomic_load_explicit(&share->wanted, memory_order_relaxed)))
        return false;
    atomic_store_explicit(&share->wanted, false, memory_order_relaxed);
    return true;
}

static bool is_over(const struct context *context, const struct share_rules *rules)
{
    return atomic_load_explicit(rules->serving, memory_order_relaxed) == 0 ||
           atomic_load_explicit(rules->stopping, memory_order_relaxed) ||
           (atomic_load_explicit(&context->guard, memory_order_relaxed) & GUARD_CLOSING) != 0;
}

/* Lock and gate, or neither. */
static bool take(struct context *context)
{
    if (!is_ready(context) || !context_lock_try(&context->lock))
        return false;
    if (share_enter(context))
        return true;
    context_lock_release(&context->lock);
    return false;
}

static void let_go(struct context *context)
{
    share_leave(context);
    context_lock_release(&context->lock);
}

static void get_up(struct context *context)
{
    atomic_store_explicit(&context->share.asleep, false, memory_order_relaxed);
    atomic_store_explicit(&context->share.starving, false, memory_order_relaxed);
    context_disarm(context);
}

/* Lying down, how deep will the sleep be? A post that is half done may have found nobody asleep. */
static enum share_turn depth(const struct context *context)
{
    if (!list_empty(&context->retries))
        return SHARE_RETRY;
    return context_has_retries(context) || workqueue_entered(&context->work) ? SHARE_AGAIN
                                                                             : SHARE_ASLEEP;
}

/* From now on everybody rings; false when there is something to do after all. */
static bool lie_down(struct context *context, bool light)
{
    enum share_turn how = depth(context);

    context_arm(context, how == SHARE_RETRY || (how == SHARE_ASLEEP && light));
    if (context_has_events(context)) {
        context_disarm(context);
        return false;
    }
    context->counters[COUNTER_SLEEPS]++;
    atomic_store_explicit(&context->share.asleep, true, memory_order_relaxed);
    return true;
}

static enum share_turn passes(struct context *context, const struct share_rules *rules)
{
    unsigned idle = 0, spins = rules->glances;

    for (;;) {
        int events = owned_pass(context);

        if (is_over(context, rules))
            return SHARE_ENDED;
        if (is_wanted(context))
            return SHARE_YIELDED;
        idle = events != 0 ? 0 : idle + 1;
        if (events != 0)
            spins = rules->spins;
        if (idle < spins)
            continue;
        if (rules->awake || (rules->eager && !list_empty(&context->retries)))
            return SHARE_EAGER;
        if (lie_down(context, rules->light))
            return depth(context);
        idle = 0;
    }
}

void share_starve(struct context *context)
{
    atomic_store_explicit(&context->share.starving, true, memory_order_relaxed);
    atomic_store_explicit(&context->share.asleep, true, memory_order_release); /* S3 */
}

enum share_turn share_turn(struct context *context, const struct share_rules *rules)
{
    enum share_turn turn;

    if (is_over(context, rules))
        return SHARE_ENDED;
    if (is_polled(context))
        return SHARE_POLLED;
    if (!take(context))
        return SHARE_LOCKED;
    get_up(context);
    turn = passes(context, rules);
    let_go(context);
    return turn;
}

enum share_turn share_rest(struct context *context, bool light)
{
    enum share_turn turn;

    if (!take(context))
        return SHARE_LOCKED;
    get_up(context);
    turn = lie_down(context, light) ? depth(context) : SHARE_YIELDED;
    let_go(context);
    return turn;
}
