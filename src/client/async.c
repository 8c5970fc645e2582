/*
 * The threads of asynchronous progress (async.h).
 *
 * A thread goes round its contexts: each that is due gets a turn (context/share.h). Then it sleeps
 * on its own bell, which control and the program ring, and on the doorbells of the contexts that it
 * left with nothing to do. One that was turned away is tried again after a nap that grows, so that
 * a program that advances a context by itself, or keeps it locked, is hardly disturbed.
 *
 *   serving   events a context is enabled for; set and cleared by any thread. A0: a slot's fields
 *             are written before serving is released, and read after it was acquired.
 *   running   the thread is inside the context. Disabling clears serving, then waits for running
 *             to be false; the thread sets running, then looks at serving (A1: both seq_cst).
 *   waits_for a thread that disables another's context in a callback waits for that thread unless
 *             it waits for this one, perhaps by way of others, of whatever clients (waits_lock).
 */
#include "client/async.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "client/async_pool.h"
#include "client/client.h"
#include "context/advance.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/option.h"
#include "util/yield.h"

/* Naps of a context that was not to be had, us: they double from the first to the longest. */
#define NAP_FIRST_US 20u
#define NAP_LONGEST_SPARE_US 50u /* with a core to spare, so that leaving is noticed soon */
#define NAP_LONGEST_US 1000u
#define NAP_LOCKED_US 20000u /* the lock is never given up: who does so rings */
/* While something is to be tried again, or a posted function or a device asks for it, maybe for
 * ever. */
#define NAP_RETRY_US 50u
#define NAP_RETRY_LONGEST_US 200u
#define NAP_AGAIN_US 1000u
/* The longest sleep: house-keeping goes on. */
#define SLEEP_LONGEST_US 100000u

#define SPINS_SPARE 400u /* idle passes before a sleep: about 10 us */
#define SPINS_SHARED 32u /* also with a core to spare, where nobody has rung */
#define SPINS_AGAIN 16u

/* Turns, with a core to spare, in which nothing happens but something is to be tried again, as in a
 * collective whose other members are about to come: some 100 us. Between them nobody is kept out of
 * the context, and others may have the core. */
#define PATIENCE 200u

/* With a core to spare: a thread that was woken so soon after it had fallen asleep stays awake for
 * as long after each event, until that has been in vain. To wake it costs the program about a
 * hundredth of that. Others may have the core, as above. */
#define AWAKE_NS 1000000u

/* Calls of a user's function in one turn. */
#define USER_CALLS 64

/* A yield that takes longer: somebody works on this processor, who needs it. Those who wait there
 * give it up as well, after some 20 us. */
#define YIELD_LONG_NS 600000u
/* Then a thread is modest for so long, twice as long each time. */
#define CROWDED_NS 4000000u
#define CROWDED_MOST_NS 1024000000u

/* A processor that nobody else needs: told so by the places, or found out (give_way). */
static bool has_spare(const struct async_thread *thread)
{
    return !thread->realtime && (atomic_load_explicit(&thread->pool->spare, memory_order_relaxed) ||
                                 (thread->clear && thread->crowded_until == 0));
}

/* The one that is running; NULL: it is none of the library's. */
static _Thread_local struct async_thread *self __attribute__((tls_model("initial-exec")));

static pthread_mutex_t waits_lock = PTHREAD_MUTEX_INITIALIZER; /* waits_for of all threads */

/* ---- one context's turn ---- */

static bool is_serving(const struct async_slot *slot)
{
    return atomic_load_explicit(&slot->serving, memory_order_seq_cst) != 0; /* A0, A1 */
}

static enum share_turn user_turn(struct async_slot *slot, const struct share_rules *rules)
{
    async_function *progress = slot->progress;
    enum share_turn turn = SHARE_RETRY;

    for (int i = 0; i < USER_CALLS; i++) {
        progress(slot->context, slot->cookie);
        if (!is_serving(slot) || atomic_load_explicit(rules->stopping, memory_order_relaxed) ||
            slot->progress != progress)
            return SHARE_ENDED;
        turn = share_rest(slot->context, rules->light);
        if (turn != SHARE_YIELDED)
            break;
    }
    return turn;
}

static uint32_t next_nap(uint32_t nap, uint32_t first, uint32_t longest)
{
    if (nap < first)
        return first;
    return nap >= longest / 2 ? longest : 2 * nap;
}

/* When the slot is to be looked at next, and whether it has armed its port. */
static void plan(struct async_slot *slot, enum share_turn turn)
{
    uint32_t longest = has_spare(slot->thread) ? NAP_LONGEST_SPARE_US : NAP_LONGEST_US;
    uint64_t sleep = slot->light ? CONTEXT_LIGHT_SLEEP_US : SLEEP_LONGEST_US;

    slot->armed = turn == SHARE_ASLEEP || turn == SHARE_RETRY || turn == SHARE_AGAIN;
    slot->starving = false;
    slot->turn = turn;
    slot->locked_us = turn == SHARE_LOCKED ? slot->locked_us : 0;
    switch (turn) {
    case SHARE_ASLEEP:
        slot->nap_us = 0;
        slot->wake_at = clock_now_ns() + 1000 * context_sleep_limit(slot->context, sleep);
        return;
    case SHARE_ENDED:
        slot->nap_us = 0;
        slot->wake_at = UINT64_MAX;
        return;
    case SHARE_EAGER:
        slot->patience -= slot->patience != 0;
        slot->wake_at = 0;
        return;
    case SHARE_RETRY:
        slot->nap_us = next_nap(slot->nap_us, NAP_RETRY_US, NAP_RETRY_LONGEST_US);
        break;
    case SHARE_AGAIN:
        slot->nap_us = next_nap(slot->nap_us, NAP_RETRY_US, NAP_AGAIN_US);
        break;
    case SHARE_LOCKED:
        if (slot->locked_us >= NAP_LONGEST_US) {
            longest = NAP_LOCKED_US;
            slot->starving = true;
            share_starve(slot->context);
        }
        slot->nap_us = next_nap(slot->nap_us, NAP_FIRST_US, longest);
        slot->locked_us += slot->locked_us < NAP_LONGEST_US ? slot->nap_us : 0;
        break;
    default:
        slot->nap_us = next_nap(slot->nap_us, NAP_FIRST_US, longest);
        break;
    }
    slot->wake_at = clock_now_ns() + UINT64_C(1000) * slot->nap_us;
}

/* The program has rung, which it does once. */
static bool was_called(const struct async_slot *slot)
{
    return !atomic_load_explicit(&slot->context->share.asleep, memory_order_relaxed);
}

static bool was_rung(const struct async_slot *slot)
{
    return slot->armed && (async_bell_rung(context_doorbell(slot->context)) || was_called(slot));
}

/* Somebody rang, or it is time. */
static bool is_due(struct async_slot *slot)
{
    if (slot->starving && was_called(slot)) {
        slot->nap_us = slot->locked_us = 0; /* who locks it again does not ring every time */
        return true;
    }
    return atomic_exchange_explicit(&slot->fresh, false, memory_order_relaxed) ||
           clock_now_ns() >= slot->wake_at || was_rung(slot);
}

/* Events that the thread has handled: none but this thread changes their number. */
static uint64_t helped(const struct async_slot *slot)
{
    return atomic_load_explicit(&slot->context->share.helped, memory_order_relaxed);
}

/* Something has happened in a turn; slot->turn is what the one before came to. */
static void note_event(struct async_slot *slot)
{
    uint64_t now = clock_now_ns();

    slot->nap_us = 0;
    if (!has_spare(slot->thread))
        return;
    slot->patience = PATIENCE;
    if (slot->turn == SHARE_ASLEEP || slot->turn == SHARE_EAGER)
        slot->awake_until = slot->event_at + AWAKE_NS >= now ? now + AWAKE_NS : 0;
    slot->event_at = now;
}

static void take_turn(struct async_slot *slot)
{
    struct async_thread *thread = slot->thread;
    struct share_rules rules = {
        .stopping = &thread->stopping,
        .serving = &slot->serving,
    };
    uint64_t before = helped(slot), now = clock_now_ns();
    enum share_turn turn;

    async_place_apart(thread, slot->context, now);
    if (thread->crowded_until <= now)
        thread->crowded_until = 0;
    rules.spins = rules.glances = has_spare(thread) ? SPINS_SPARE : SPINS_SHARED;
    if (slot->turn != SHARE_EAGER && slot->turn != SHARE_RETRY)
        slot->patience = has_spare(thread) ? PATIENCE : 0;
    rules.eager = slot->patience != 0;
    rules.awake = now < slot->awake_until;
    /*
     * A light sleep in which nothing has come is followed by a deep one. Not for threads that are
     * not bound, nor clear of the program: timers of an idle processor go off on a busy one, and
     * take the thread there.
     */
    slot->light =
        (thread->clear || atomic_load_explicit(&thread->pool->bound, memory_order_relaxed)) &&
        !(slot->turn == SHARE_ASLEEP && slot->light && now >= slot->wake_at);
    rules.light = slot->light;
    if (slot->turn == SHARE_AGAIN || slot->turn == SHARE_EAGER)
        rules.spins = rules.glances = SPINS_AGAIN;
    else if (slot->turn == SHARE_ASLEEP && !was_rung(slot))
        rules.glances = SPINS_SHARED;
    turn = slot->progress != NULL ? user_turn(slot, &rules) : share_turn(slot->context, &rules);
    if (helped(slot) != before)
        note_event(slot);
    plan(slot, turn);
}

static void visit(struct async_slot *slot)
{
    atomic_store_explicit(&slot->running, true, memory_order_seq_cst); /* A1 */
    if (is_serving(slot)) {
        if (is_due(slot))
            take_turn(slot);
    } else {
        plan(slot, SHARE_ENDED);
    }
    atomic_store_explicit(&slot->running, false, memory_order_release); /* A1 */
}

/* ---- the thread ---- */

static bool is_mine(const struct async_thread *thread, struct async_slot *slot)
{
    return atomic_load_explicit(&slot->serving, memory_order_acquire) != 0 /* A0 */ &&
           slot->thread == thread;
}

/* Others may have the processor. Who works there gets it for some ms, and a thread that sleeps when
 * it is needed is sooner back than one that waits for its turn. */
static void give_way(struct async_thread *thread)
{
    uint64_t before = clock_now_ns(), after;

    sched_yield();
    after = clock_now_ns();
    if (after - before < YIELD_LONG_NS) {
        thread->crowded_for -= thread->crowded_for / 64;
        return;
    }
    thread->crowded_for = 2 * thread->crowded_for;
    if (thread->crowded_for < CROWDED_NS)
        thread->crowded_for = CROWDED_NS;
    if (thread->crowded_for > CROWDED_MOST_NS)
        thread->crowded_for = CROWDED_MOST_NS;
    thread->crowded_until = after + thread->crowded_for;
}

/* What the thread waits for until its next round. */
static void rest(struct async_thread *thread, uint32_t heard)
{
    struct async_sleep sleep;
    uint64_t until = UINT64_MAX;

    async_sleep_begin(&sleep, &thread->bell, heard);
    for (size_t i = 0; i < ENDPOINT_OFFSETS_MAX; i++) {
        struct async_slot *slot = &thread->pool->slots[i];

        if (!is_mine(thread, slot))
            continue;
        if (slot->wake_at < until)
            until = slot->wake_at;
        if (slot->armed)
            async_sleep_add(&sleep, context_doorbell(slot->context));
    }
    if (until != 0)
        async_sleep(&sleep, until);
    else
        give_way(thread);
}

void *async_thread_main(void *argument)
{
    struct async_thread *thread = argument;
    char name[16];

    snprintf(name, sizeof(name), "pami-async/%u", thread->index % 1000);
    pthread_setname_np(pthread_self(), name);
    atomic_store(&thread->id, gettid());
    share_helper_begin();
    self = thread;
    prctl(PR_SET_TIMERSLACK, 1000ul); /* ns: naps are short */
    for (;;) {
        uint32_t heard = async_bell_hear(&thread->bell); /* before it looks at what rings mean */

        if (atomic_load_explicit(&thread->stopping, memory_order_acquire))
            return NULL;
        for (size_t i = 0; i < ENDPOINT_OFFSETS_MAX; i++)
            if (is_mine(thread, &thread->pool->slots[i]))
                visit(&thread->pool->slots[i]);
        rest(thread, heard);
    }
}

static void ring(void *cookie)
{
    async_bell_ring(cookie);
}

/* ---- control ---- */

/* NULL, with the error text set: it is not a context that a thread could advance. */
static struct client *find_client(const char *function, pami_context_t handle)
{
    struct client *client = client_of_context(handle);
    const struct context *context = handle;

    if (client == NULL)
        error_set(PAMI_INVAL, "%s: context: not a context", function);
    else if (!client->core.simulated && context->ports[0]->doorbell != NULL)
        return client;
    else
        error_set(PAMI_INVAL, "%s: context: is a simulated one", function);
    return NULL;
}

/* The slot of a context, with its client's lock held; NULL with the error text set. */
static struct async_slot *slot_take(const char *function, pami_context_t handle,
                                    const pamix_context_async_t *how, struct client **out,
                                    pami_result_t *result)
{
    struct client *client = find_client(function, handle);
    bool by_option = how == NULL || how->cpus == NULL;
    const char *cpus = by_option ? option_string(OPT_ASYNC_CPUS) : how->cpus;
    int error = 0;

    if (client == NULL) {
        *result = PAMI_INVAL;
        return NULL;
    }
    pthread_mutex_lock(&client->async_lock);
    if (client->async == NULL)
        error = async_pool_make(client, how != NULL ? how->threads : 0, cpus);
    if (error == 0) {
        *out = client;
        return &client->async->slots[((const struct context *)handle)->offset];
    }
    pthread_mutex_unlock(&client->async_lock);
    if (error == -EINVAL)
        *result = error_set(PAMI_INVAL, "%s: %s: " ASYNC_NO_LIST, function,
                            by_option ? "PAMI_ASYNC_CPUS" : "cpus", cpus);
    else
        *result = error_set(error == -ENOMEM ? PAMI_ENOMEM : PAMI_ERROR,
                            "%s: no thread can be started: %s", function, strerror(-error));
    return NULL;
}

static pami_result_t enable(const char *function, pami_context_t handle, unsigned events,
                            const pamix_context_async_t *how)
{
    struct client *client;
    struct async_pool *pool;
    pami_result_t result;
    struct async_slot *slot = slot_take(function, handle, how, &client, &result);

    if (slot == NULL)
        return result;
    pool = client->async;
    if (slot->thread == NULL) {
        slot->thread = &pool->threads[slot->context->offset % pool->thread_count];
        share_begin(slot->context, ring, &slot->thread->bell);
    }
    atomic_store_explicit(&slot->fresh, true, memory_order_relaxed);
    atomic_fetch_or_explicit(&slot->serving, events, memory_order_seq_cst); /* A0 */
    async_bell_ring(&slot->thread->bell);
    pthread_mutex_unlock(&client->async_lock);
    return PAMI_SUCCESS;
}

/* The thread is inside the context, and it is not the caller, nor one that a child of fork does not
 * have. */
static bool is_visited(const struct async_slot *slot)
{
    return atomic_load_explicit(&slot->running, memory_order_seq_cst) /* A1 */ &&
           !pthread_equal(slot->thread->thread, pthread_self()) &&
           slot->thread->pool->pid == getpid();
}

/* Nobody waits for a function of the user's that wants a lock he holds. */
static bool can_wait(const struct async_slot *slot)
{
    return slot->progress == NULL || !context_lock_held(&slot->context->lock);
}

/* NULL: this thread does not wait any more. False: the other one waits for it, and its own callback
 * has to return first. Threads that are waited for stay, as their contexts do. */
static bool set_waits_for(struct async_thread *thread)
{
    const struct async_thread *last = thread;

    pthread_mutex_lock(&waits_lock);
    while (last != NULL && last != self)
        last = last->waits_for;
    if (last == NULL)
        self->waits_for = thread;
    pthread_mutex_unlock(&waits_lock);
    return last == NULL;
}

/* Until the context's thread is outside; not for one that stays in a callback for the caller's. */
static void wait_until_left(const struct async_slot *slot)
{
    uint32_t tries = 0;

    if (!is_visited(slot) || (self != NULL && !set_waits_for(slot->thread)))
        return;
    while (is_visited(slot) && !is_serving(slot) && can_wait(slot))
        yield_again(tries++);
    if (self != NULL)
        set_waits_for(NULL);
}

static pami_result_t disable(const char *function, pami_context_t handle, unsigned events)
{
    struct client *client = client_of_context(handle);
    struct async_slot *slot;
    unsigned before;

    if (client == NULL)
        return error_set(PAMI_INVAL, "%s: context: not a context", function);
    pthread_mutex_lock(&client->async_lock);
    slot = client->async != NULL ? &client->async->slots[((const struct context *)handle)->offset]
                                 : NULL;
    if (slot == NULL || slot->thread == NULL) {
        pthread_mutex_unlock(&client->async_lock);
        return PAMI_SUCCESS;
    }
    before = atomic_fetch_and_explicit(&slot->serving, ~events, memory_order_seq_cst); /* A1 */
    pthread_mutex_unlock(&client->async_lock);
    if ((before & ~events) != 0)
        return PAMI_SUCCESS;
    if (before != 0)
        async_bell_ring(&slot->thread->bell);
    /* It may still be inside when it was disabled before, in a callback. */
    wait_until_left(slot);
    return PAMI_SUCCESS;
}

/* The bit of an event, 0: unknown. All events mean the same service. */
static unsigned event_bit(int event)
{
    switch (event) {
    case ASYNC_ALL:
    case ASYNC_RECV_INTERRUPT:
    case ASYNC_TIMER:
        return 1u << event;
    default:
        return 0;
    }
}

pami_result_t async_register(pami_context_t handle, async_function *progress,
                             async_function *suspend, async_function *resume, void *cookie)
{
    static const char function[] = "EXT_async_progress: register";
    struct client *client;
    struct async_slot *slot;
    pami_result_t result;

    /* The service is never suspended, so neither is called. */
    if ((suspend == NULL) != (resume == NULL))
        return error_set(PAMI_INVAL, "%s: suspend_fn, resume_fn: both or none", function);
    slot = slot_take(function, handle, NULL, &client, &result);
    if (slot == NULL)
        return result;
    if (atomic_load(&slot->serving) != 0) {
        result = error_set(PAMI_ERROR, "%s: context: is enabled", function);
    } else if (is_visited(slot)) {
        result = error_set(PAMI_EAGAIN, "%s: context: its thread has not left it yet", function);
    } else {
        slot->progress = progress;
        slot->cookie = cookie;
        result = PAMI_SUCCESS;
    }
    pthread_mutex_unlock(&client->async_lock);
    return result;
}

pami_result_t async_enable(pami_context_t handle, int event)
{
    static const char function[] = "EXT_async_progress: enable";

    if (event_bit(event) == 0)
        return error_set(PAMI_UNIMPL, "%s: event_type: there is no event %d", function, event);
    return enable(function, handle, event_bit(event), NULL);
}

pami_result_t async_disable(pami_context_t handle, int event)
{
    static const char function[] = "EXT_async_progress: disable";

    if (event_bit(event) == 0)
        return error_set(PAMI_UNIMPL, "%s: event_type: there is no event %d", function, event);
    return disable(function, handle, event == ASYNC_ALL ? ~0u : event_bit(event));
}

pami_result_t PAMIX_Context_async_enable(pami_context_t contexts[], size_t count,
                                         const pamix_context_async_t *how)
{
    pami_result_t result = PAMI_SUCCESS;

    if (contexts == NULL && count != 0)
        return error_set(PAMI_INVAL, "PAMIX_Context_async_enable: contexts: NULL");
    for (size_t i = 0; i < count; i++)
        if (find_client("PAMIX_Context_async_enable", contexts[i]) == NULL)
            return PAMI_INVAL;
    for (size_t i = 0; i < count && result == PAMI_SUCCESS; i++)
        result = enable("PAMIX_Context_async_enable", contexts[i], 1u << ASYNC_ALL, how);
    return result;
}

pami_result_t PAMIX_Context_async_disable(pami_context_t contexts[], size_t count)
{
    pami_result_t result = PAMI_SUCCESS;

    if (contexts == NULL && count != 0)
        return error_set(PAMI_INVAL, "PAMIX_Context_async_disable: contexts: NULL");
    for (size_t i = 0; i < count; i++)
        if (client_of_context(contexts[i]) == NULL)
            return error_set(
                PAMI_INVAL, "PAMIX_Context_async_disable: contexts: entry %zu is not a context", i);
    for (size_t i = 0; i < count && result == PAMI_SUCCESS; i++)
        result = disable("PAMIX_Context_async_disable", contexts[i], ~0u);
    return result;
}

pami_result_t PAMIX_Context_async_query(pami_context_t handle, pamix_context_async_status_t *status)
{
    struct client *client = client_of_context(handle);
    const struct async_slot *slot;

    if (client == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Context_async_query: context: not a context");
    if (status == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Context_async_query: status: NULL");
    *status = (pamix_context_async_status_t){.thread = -1, .cpu = -1};
    pthread_mutex_lock(&client->async_lock);
    if (client->async != NULL) {
        const struct async_pool *pool = client->async;

        slot = &pool->slots[((const struct context *)handle)->offset];
        status->threads = pool->thread_count;
        status->enabled = atomic_load(&slot->serving) != 0;
        if (slot->thread != NULL) {
            status->thread = (int)slot->thread->index;
            status->events = atomic_load(&slot->context->share.helped);
            if (pool->places.bound)
                status->cpu = pool->places.cpu[slot->thread->index % pool->places.count];
        }
    }
    pthread_mutex_unlock(&client->async_lock);
    return PAMI_SUCCESS;
}
