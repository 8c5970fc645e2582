/*
 * Does forwarding pay? The answer is different for each kind and size of request, for each machine,
 * and for what the program does meanwhile, so it is measured on the program's own requests.
 *
 * A window is a number of requests of one kind and size class; what counts is the time from its
 * first request to the first of the next window, with everything that the program does in between.
 * Some windows go by the client, and as many by servers, in turn; the shortest of each count, which
 * leaves out those that the system disturbed. Servers must be better by some per cent. What was
 * found holds for many requests, and is then measured again.
 */
#include "servers/servers.h"
#include "util/clock.h"

#define WINDOW 32u    /* requests */
#define ROUNDS 4u     /* windows of each sort */
#define HOLDS 16384u  /* requests that a decision lasts */
#define MARGIN_32 31u /* servers take at most 31/32 of the client's time */

struct learner *learn_of(struct lane *lane, enum request_kind kind, size_t bytes)
{
    unsigned class = bytes == 0 ? 0 : 64u - (unsigned)__builtin_clzll(bytes);

    if (kind == REQUEST_IMMEDIATE)
        kind = REQUEST_SEND;
    return &lane->learners[kind][class < LEARN_CLASSES ? class : LEARN_CLASSES - 1];
}

/* A phase has ended. Phases 1 .. 2 * ROUNDS are windows, odd ones the client's; then what was found
 * holds. */
static void next_phase(struct learner *learner)
{
    uint64_t now = clock_ticks();
    unsigned by = (learner->phase & 1) == 0; /* servers */

    if (learner->phase >= 1 && learner->phase <= 2 * ROUNDS) {
        uint64_t took = now - learner->begun;

        if (took < learner->best[by])
            learner->best[by] = took;
    }
    if (learner->phase == 0 || learner->phase > 2 * ROUNDS) {
        learner->phase = 0;
        learner->best[0] = learner->best[1] = UINT64_MAX;
    }
    learner->begun = now;
    if (++learner->phase <= 2 * ROUNDS) {
        learner->forward = (learner->phase & 1) == 0;
        learner->left = WINDOW;
    } else {
        learner->forward = learner->best[1] / MARGIN_32 < learner->best[0] / 32;
        learner->left = HOLDS;
    }
}

bool learn_choice(struct learner *learner)
{
    if (learner->left == 0)
        next_phase(learner);
    learner->left--;
    return learner->forward;
}
