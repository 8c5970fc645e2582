/*
 * Which calls are plain.
 */
#include "servers/plain.h"

#define CLASSES 17    /* up to 64 KiB: beyond, a question costs nothing to speak of */
#define STOPPED 1024u /* calls until the next look whether servers are still stopped */

/* Calls until the next question, all counted by now. */
static void set_left(struct lane *lane, struct plain *plain, unsigned left)
{
    servers_count(&lane->direct, (unsigned long long)left - SERVERS_LOAD(plain->left));
    atomic_store_explicit(&plain->left, left, memory_order_relaxed);
}

static void forbid_short(struct context *context, const struct servers *servers)
{
    const void *own = servers;

    atomic_compare_exchange_strong(&context->short_of, &own, &context->short_of);
}

/* The owner: `plain` is what its next calls look at. */
static void use(struct context *context, const struct servers *servers, struct plain *plain)
{
    context->plain = plain;
    atomic_store_explicit(&context->plain_of, servers, memory_order_relaxed);
    atomic_store(&context->short_of, servers);
    if (atomic_load(&servers->by_learning) == 0 && atomic_load(&servers->state) != SERVERS_STOPPED)
        forbid_short(context, servers);
}

static void forbid(const struct servers *servers, struct plain *plain)
{
    struct context *context = atomic_load(&plain->context);

    for (unsigned kind = 0; kind < PLAIN_KINDS; kind++)
        atomic_store(&plain->below[kind], 0);
    if (context != NULL)
        forbid_short(context, servers);
}

static struct plain *plain_of(struct lane *lane)
{
    struct context *context = lane->context;
    struct plain *plain = &lane->servers->plain[context->offset];

    if (atomic_load_explicit(&plain->context, memory_order_relaxed) != context)
        atomic_store(&plain->context, context);
    use(context, lane->servers, plain);
    return plain;
}

static size_t plain_below(const struct learner *learners)
{
    size_t below = 0;

    for (unsigned class = 0; class < CLASSES; class ++) {
        const struct learner *learner = &learners[class];

        if (learner->begun == 0)
            continue;
        if (!learn_rests(learner) || learner->found != LEARN_PLAIN)
            break;
        below = (size_t)1 << class;
    }
    return below;
}

bool plain_otherwise(struct servers *servers, struct context *context, enum request_kind kind,
                     size_t bytes)
{
    struct plain *plain = &servers->plain[context->offset];
    struct learner *learner;
    struct lane *lane;

    if (atomic_load_explicit(&plain->context, memory_order_relaxed) == context &&
        atomic_load_explicit(&context->plain_of, memory_order_relaxed) != servers) {
        use(context, servers, plain);
        if (kind != REQUEST_IMMEDIATE && plain_take(servers, context, kind, bytes))
            return true;
    }
    if (kind == REQUEST_IMMEDIATE && plain_short(servers, context, 0))
        return true;
    if (kind == REQUEST_IMMEDIATE || SERVERS_LOAD(servers->by_learning) == 0)
        return false;
    lane = atomic_load_explicit(&servers->lanes[context->offset], memory_order_relaxed);
    if (lane == NULL || lane->context != context)
        return false;
    learner = learn_of(lane, kind, bytes);
    if (learner->way != LEARN_PLAIN || learner->left == 0)
        return false;
    learner->left--;
    servers_count(&lane->direct, 1);
    return true;
}

void plain_learns(struct lane *lane)
{
    plain_of(lane);
}

void plain_learned(struct lane *lane, enum request_kind kind, struct learner *learner)
{
    const struct learner *learners = lane->learners[kind];
    struct plain *plain = plain_of(lane);
    atomic_size_t *below = &plain->below[kind];

    atomic_store(below, plain_below(learners));
    if (learner < learners + CLASSES &&
        ((size_t)1 << (learner - learners)) <= SERVERS_LOAD(*below)) {
        set_left(lane, plain, learner->left);
        learner->left = 0;
    }
    if (atomic_load(&lane->servers->by_learning) == 0)
        atomic_store(below, 0);
}

void plain_stopped(struct lane *lane)
{
    struct plain *plain = plain_of(lane);

    for (unsigned kind = 0; kind < PLAIN_KINDS; kind++)
        atomic_store(&plain->below[kind], SIZE_MAX);
    set_left(lane, plain, STOPPED);
    if (atomic_load(&lane->servers->state) != SERVERS_STOPPED)
        forbid(lane->servers, plain);
}

void plain_end(struct lane *lane)
{
    struct context *context = lane->context;
    struct plain *plain = &lane->servers->plain[lane->offset];
    const void *here = lane->servers;

    atomic_store(&plain->context, NULL);
    if (context != NULL) {
        forbid_short(context, lane->servers);
        atomic_compare_exchange_strong(&context->plain_of, &here, &context->plain_of);
    }
    atomic_store_explicit(&plain->left, 0, memory_order_relaxed);
}

void plain_forbid(struct servers *servers)
{
    for (size_t i = 0; i < ENDPOINT_OFFSETS_MAX; i++)
        forbid(servers, &servers->plain[i]);
}
