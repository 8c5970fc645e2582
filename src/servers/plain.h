/*
 * Plain calls: those that the context makes as if there were no servers, without a question who is
 * to carry them. Learning has found that small operations of a kind are best made so, or servers
 * are stopped. Such a call pays three comparisons and is counted; now and then one is asked again.
 *
 * The context knows the servers that it last used, and where it looks here: so its plain calls
 * touch one line of memory that the same call without servers does not.
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

static inline unsigned plain_kind(enum request_kind kind)
{
    return kind == REQUEST_IMMEDIATE ? (unsigned)REQUEST_SEND : (unsigned)kind;
}

/* True: the call is plain, and has been counted. `kind` is a constant. */
static inline bool plain_take(const struct servers *servers, const struct context *context,
                              enum request_kind kind, size_t bytes)
{
    struct plain *plain = context->plain;
    unsigned left;

    if (unlikely(atomic_load_explicit(&context->plain_of, memory_order_relaxed) != servers ||
                 bytes >= SERVERS_LOAD(plain->below[plain_kind(kind)]) ||
                 __builtin_sub_overflow(SERVERS_LOAD(plain->left), 1u, &left)))
        return false;
    atomic_store_explicit(&plain->left, left, memory_order_relaxed);
    return true;
}

/* The same where that says no: the context may have used other servers last, and a size of which
 * learning has a finding is plain although a larger one is not. */
bool plain_otherwise(struct servers *servers, struct context *context, enum request_kind kind,
                     size_t bytes);

/* The owner of the lane's context: learning has just been asked about a call of `kind`. */
void plain_learned(struct lane *lane, enum request_kind kind, struct learner *learner);

/* The same: servers are stopped. */
void plain_stopped(struct lane *lane);

/* The same: the lane goes. */
void plain_end(struct lane *lane);

/* Any thread: whatever it was that allowed plain calls has changed. */
void plain_forbid(struct servers *servers);

#endif
