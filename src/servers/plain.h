/*
 * Plain calls: those that the context makes as if there were no servers, without a question who is
 * to carry them. Learning has found that small operations of a kind are best made so, or servers
 * are stopped. Such a call pays three comparisons and is counted; now and then one is asked again.
 *
 * The context knows the servers that it last used, and where it looks here: so its plain calls
 * touch one line of memory that the same call without servers does not.
 *
 * Some calls never go to servers where learning decides: immediate messages, and transfers of a few
 * bytes of the shared heap, which are over inside the call. To hand one over takes longer than to
 * make it. These short calls pay one comparison, which takes the place of that with the context's
 * magic number, and one of flags; a change of the policy ends that, nothing else is asked, and they
 * are not counted.
 *
 * Sizes that have not been tried follow the next larger one that was: the less an operation moves,
 * the less there is to win. What is larger than all that were tried is always asked. A size that is
 * on trial, or goes to servers, ends the range.
 *
 * The owner of a context allows, anybody forbids: who allows looks again whether it still may, so
 * that of two at the same time the one who forbids wins.
 */
#ifndef LIBPAMI_SERVERS_PLAIN_H
#define LIBPAMI_SERVERS_PLAIN_H

#include "servers/servers.h"

/* Of a transfer of the shared heap that is a short call. */
#define PLAIN_SHORT_BYTES ((size_t)512)

static inline bool plain_is_short(size_t bytes)
{
    return bytes - 1 < PLAIN_SHORT_BYTES;
}

_Static_assert(offsetof(struct context, short_of) == sizeof(uint64_t), "behind the magic number");

/* True: the handle is a context, and a short call is plain. Reads two words, of which the second is
 * NULL in no object of the library, as servers may be. */
static inline bool plain_short(const struct servers *servers, pami_context_t handle, unsigned flags)
{
    const _Atomic(const void *) *words = handle;

    return likely(words != NULL && flags == 0 &&
                  atomic_load_explicit(&words[1], memory_order_relaxed) == servers);
}

/* True: the call is plain, and has been counted. `kind` is a constant, and no immediate message. */
static inline bool plain_take(const struct servers *servers, const struct context *context,
                              enum request_kind kind, size_t bytes)
{
    struct plain *plain = context->plain;
    unsigned left;

    if (unlikely(atomic_load_explicit(&context->plain_of, memory_order_relaxed) != servers ||
                 bytes >= SERVERS_LOAD(plain->below[kind]) ||
                 __builtin_sub_overflow(SERVERS_LOAD(plain->left), 1u, &left)))
        return false;
    atomic_store_explicit(&plain->left, left, memory_order_relaxed);
    return true;
}

/* The same of any kind where that, or plain_short, says no: the context may have used other servers
 * last, and a size of which learning has a finding is plain although a larger one is not. */
bool plain_otherwise(struct servers *servers, struct context *context, enum request_kind kind,
                     size_t bytes);

/* The owner of the lane's context: learning decides. */
void plain_learns(struct lane *lane);

/* The same: it has just been asked about a call of `kind`. */
void plain_learned(struct lane *lane, enum request_kind kind, struct learner *learner);

/* The same: servers are stopped. */
void plain_stopped(struct lane *lane);

/* The same: the lane goes. */
void plain_end(struct lane *lane);

/* Any thread: whatever it was that allowed plain calls has changed. */
void plain_forbid(struct servers *servers);

#endif
