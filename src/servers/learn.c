/*
 * Does forwarding pay? The answer is different for each kind and size of request, for each machine,
 * and for what the program does meanwhile, so it is measured on the program's own requests.
 *
 * A window is a number of requests of one kind and size class; what counts is the time per request,
 * with everything that the program does in between. Some windows go by the client, and as many by
 * servers, in turn; the best of each count, which leaves out those that the system disturbed. What
 * a window measures is the way its requests end, not how fast they can be queued: so it is longer
 * than what is outstanding, and as many requests go unmeasured before it. Servers must be better by
 * some per cent. What was found holds for many requests, and is then measured again.
 */
#include "servers/servers.h"
#include "util/clock.h"

#define WINDOW 32u  /* requests, and some for each that is outstanding */
#define ROUNDS 4u   /* windows of each sort */
#define HOLDS 1024u /* windows that a decision lasts */
#define MARGIN 0.97 /* servers take at most this part of the client's time */

/* Phases 1 .. 4 * ROUNDS: the client settles, the client is measured, servers settle, servers are
 * measured. Then what was found holds. */
#define PHASES (4u * ROUNDS)

struct learner *learn_of(struct lane *lane, enum request_kind kind, size_t bytes)
{
    unsigned class = bytes == 0 ? 0 : 64u - (unsigned)__builtin_clzll(bytes);

    if (kind == REQUEST_IMMEDIATE)
        kind = REQUEST_SEND;
    return &lane->learners[kind][class < LEARN_CLASSES ? class : LEARN_CLASSES - 1];
}

static void next_phase(struct learner *learner, size_t outstanding)
{
    uint64_t now = clock_ticks();

    if (learner->phase == 0 || learner->phase > PHASES) {
        learner->phase = 0;
        learner->best[0] = learner->best[1] = 0;
    } else if (learner->phase % 2 == 0) {
        double each = (double)(now - learner->begun) / learner->window;
        double *best = &learner->best[learner->forward];

        if (*best == 0 || each < *best)
            *best = each;
    }
    learner->begun = now;
    learner->window = WINDOW + 2 * (unsigned)outstanding;
    learner->left = learner->window;
    if (++learner->phase <= PHASES) {
        learner->forward = (learner->phase - 1) / 2 % 2 != 0;
    } else {
        learner->forward = learner->best[1] < MARGIN * learner->best[0];
        learner->left *= HOLDS;
    }
}

bool learn_choice(struct learner *learner, size_t outstanding)
{
    if (learner->left == 0)
        next_phase(learner, outstanding);
    learner->left--;
    return learner->forward;
}
