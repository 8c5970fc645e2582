/*
 * What the tasks of test/api/torture.c know of one another: who starts what in a round, drawn from
 * a seed, and the books of each context. A plan is one operation of one context; a receiver finds
 * the plan of a message by its header, and compares all that has come with it.
 */
#ifndef LIBPAMI_API_TORTURE_PLAN_H
#define LIBPAMI_API_TORTURE_PLAN_H

#include "rma_layouts.h"

#include <stdatomic.h>

enum {
    CLIENTS = 2,
    CONTEXTS = 3,
    ACTORS_MAX = 8 * CONTEXTS, /* contexts of one client in all tasks */
    ROUNDS = 4,
    PLANS = 40, /* of one context in one round */
    DEPTHS = 3, /* a message, its answer, the answer to that */
    ROOM = 4096,
    SOURCE = 300000,
    LARGE = 100000,
    WORDS = 2
};

enum kind {
    MESSAGE,
    OFFER, /* a message with a region, which the receiver reads before it answers */
    PUT,
    GET,
    ADD,
    COMPARE,
    FENCE,
    KINDS
};

enum id {
    ID_PLAIN = 1,
    ID_NEVER_IMMEDIATE,
    ID_CONTIGUOUS,
    ID_COPIED,
    ID_LATE, /* registered when some of it may have come */
    ID_END
};

/* One operation of one context. */
struct plan {
    uint64_t key;
    enum kind kind;
    size_t to; /* which of the client's contexts, those of all tasks counted */
    size_t answers;
    size_t bytes; /* OFFER, plain GET */
};

/* The beginning of each header. */
struct head {
    uint64_t key;
    uint32_t sequence, origin, index, depth;
};

struct message {
    enum id id;
    unsigned way, events; /* events: 1: local_fn, 2: remote_fn */
    size_t header, bytes;
};

/* A context with its books. */
struct actor {
    pami_context_t context;
    size_t client, number;
    uint64_t random;
    size_t next, begun, ended, posted, ran; /* plans; operations; posted functions */
    size_t expected, arrived;
    uint32_t sent[2][ACTORS_MAX], got[2][ACTORS_MAX]; /* with other ids, with ID_LATE */
    bool seen[ACTORS_MAX][PLANS][DEPTHS];
    struct sending *offers[PLANS], *silent; /* silent: those that nobody waits for */
    bool late, fencing;
    atomic_bool done;
};

/* What others have to know of a client of a task. */
struct place {
    unsigned char *area, *source;
    uint64_t *words;
    pami_memregion_t source_region;
};

static struct job control, jobs[CLIENTS];
static struct actor actors[CLIENTS][CONTEXTS];
static struct place places[CLIENTS][ACTORS_MAX];
static uint64_t seed;
static size_t number_of_round, contexts[CLIENTS];
static atomic_bool over;

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t state = a * 0x9e3779b97f4a7c15u + b;

    return test_random(&state);
}

static inline uint64_t dice(struct actor *actor)
{
    return test_random(&actor->random);
}

static inline size_t actors_of(size_t client)
{
    return control.tasks * contexts[client];
}

static inline size_t draw_bytes(uint64_t random)
{
    static const size_t most[] = {1, 9, 110, 520, 700, 3000, 9000, 40000, LARGE};

    return random / 16 % most[random % (random / 8 % 2 ? 9 : 6)];
}

static inline struct plan plan_of(size_t client, size_t origin, size_t index)
{
    static const enum kind often[] = {MESSAGE, MESSAGE, MESSAGE, OFFER,   PUT,
                                      PUT,     GET,     ADD,     COMPARE, FENCE};
    uint64_t random =
        mix(mix(seed, number_of_round), (client * ACTORS_MAX + origin) * PLANS + index);
    struct plan plan = {.key = test_random(&random)};

    plan.kind = often[test_random(&random) % (sizeof often / sizeof often[0])];
    plan.to = test_random(&random) % actors_of(client);
    plan.bytes = 1 + draw_bytes(test_random(&random));
    if (plan.kind == MESSAGE && test_random(&random) % 3 == 0)
        plan.answers = test_random(&random) % DEPTHS;
    if (plan.kind == OFFER)
        plan.answers = 1;
    return plan;
}

static inline struct message message_of(const struct plan *plan, size_t depth)
{
    uint64_t random = mix(plan->key, depth);
    struct message m = {.way = test_random(&random) % 3};

    m.id = (enum id)(1 + test_random(&random) % (ID_END - 1));
    m.events = test_random(&random) % 4;
    m.header = sizeof(struct head);
    if (test_random(&random) % 4 == 0)
        m.header += test_random(&random) % 3000;
    m.bytes = draw_bytes(test_random(&random));
    if (plan->kind == OFFER && depth == 0)
        m.bytes = sizeof(pami_memregion_t);
    if (m.way == 0 && m.header + m.bytes > 8192)
        m.way = 1;
    return m;
}

/* Depth 0 goes from the plan's origin, its answer comes back. */
static inline size_t receiver(const struct plan *plan, size_t origin, size_t depth)
{
    return depth % 2 ? origin : plan->to;
}

static inline struct place *place_of(size_t client, size_t actor)
{
    return &places[client][actor / contexts[client]];
}

static inline pami_endpoint_t endpoint_of(size_t client, size_t actor)
{
    return job_endpoint(&jobs[client], actor / contexts[client], actor % contexts[client]);
}

/* Starts the next of the context's plans, if there is one. */
static void (*start_next)(struct actor *actor);

/* What a callback may do besides. */
static inline void meddle(struct actor *actor)
{
    if (dice(actor) % 3 == 0)
        start_next(actor);
}

#endif /* LIBPAMI_API_TORTURE_PLAN_H */
