/*
 * Does forwarding pay? The answer is different for each kind and size of request, for each machine,
 * and for what the program does meanwhile, so it is measured on the program's own requests.
 *
 * Most of the time a learner rests: what it has found holds, and where that is the client, calls
 * go by as if there were no servers. A trial is a series of windows, some requests each. Some go
 * by the client, and as many by servers, in turn; what counts is the time per request, with
 * everything that the program does in between, and the best window of each sort, which leaves out
 * those that the system disturbed. A window measures how requests end, not how fast they can be
 * queued: so it is longer than what is outstanding, and as many go unmeasured before it.
 *
 * What a trial may cost is bounded: where servers turn out to be clearly worse it ends at once, and
 * another one begins when all that trials have cost is a hundredth of the time. Where no processor
 * is left for servers there is none at all. A finding for servers is watched: once they are slower
 * than the client was, there is another trial.
 */
#include "servers/servers.h"

#define WINDOW 16u /* requests, and some for each that is outstanding */
#define WINDOW_MOST 4096u
#define ROUNDS 3u       /* windows of each sort */
#define REST 1024u      /* requests between two looks at the clock */
#define RESTS 256u      /* looks that a finding for servers lasts */
#define DOUBTS 2u       /* looks at servers that are slower, in a row, until that ends */
#define MARGIN 0.97     /* servers take at most this part of the client's time */
#define HOPELESS 1.25   /* a trial ends when they take so many times as long */
#define COST_PARTS 100u /* of the time, for trials */

enum {
    CLIENT,
    SERVERS
};

/* Phases of a trial, over and over: one sort settles and is measured, then the other one. */
enum {
    PHASE_REST, /* 0: learn_rests */
    PHASE_CLIENT_SETTLES,
    PHASE_CLIENT,
    PHASE_SERVERS_SETTLE,
    PHASE_SERVERS,
};

struct learner *learn_of(struct lane *lane, enum request_kind kind, size_t bytes)
{
    unsigned class = bytes == 0 ? 0 : 64u - (unsigned)__builtin_clzll(bytes);

    if (kind == REQUEST_IMMEDIATE)
        kind = REQUEST_SEND;
    return &lane->learners[kind][class < LEARN_CLASSES ? class : LEARN_CLASSES - 1];
}

static void rest(struct learner *learner)
{
    learner->phase = PHASE_REST;
    learner->way = learner->forward ? LEARN_SERVERS : LEARN_PLAIN;
    learner->window = learner->left = REST;
    learner->rests = learner->doubts = 0;
}

static void window_open(struct learner *learner, unsigned phase, size_t outstanding)
{
    size_t length = WINDOW + 2 * outstanding;

    learner->phase = phase;
    learner->way = phase >= PHASE_SERVERS_SETTLE ? LEARN_SERVERS : LEARN_CLIENT;
    learner->window = learner->left = length < WINDOW_MOST ? (unsigned)length : WINDOW_MOST;
}

static void trial_begin(struct learner *learner, size_t outstanding)
{
    learner->round = 0;
    learner->best[CLIENT] = learner->best[SERVERS] = 0;
    window_open(learner, PHASE_CLIENT_SETTLES, outstanding);
}

/* The part of a window that the better sort would not have taken. */
static void charge(struct learner *learner, unsigned sort, double each)
{
    double better = learner->best[!sort];

    if (better != 0 && each > better)
        learner->spent += (uint64_t)((each - better) * learner->window);
}

/* Between two looks of a rest. True: it is time for a trial. */
static bool rest_over(struct learner *learner, bool worthwhile, uint64_t now, double each)
{
    if (!worthwhile)
        return false;
    if (learner->forward) {
        learner->doubts = each > learner->best[CLIENT] ? learner->doubts + 1 : 0;
        charge(learner, SERVERS, each);
        if (learner->doubts >= DOUBTS)
            return true;
        if (++learner->rests < RESTS)
            return false;
    }
    return learner->spent * COST_PARTS <= now - learner->since;
}

void learn_look(struct learner *learner, bool worthwhile, size_t outstanding, uint64_t now)
{
    double each = learner->window != 0 ? (double)(now - learner->begun) / learner->window : 0;
    unsigned sort = learner->phase >= PHASE_SERVERS_SETTLE ? SERVERS : CLIENT;

    learner->begun = now;
    if (learner->since == 0)
        learner->since = now;
    switch (learner->phase) {
    case PHASE_REST:
        if (rest_over(learner, worthwhile, now, each))
            trial_begin(learner, outstanding);
        else if (worthwhile && learner->forward)
            learner->window = learner->left = REST;
        else
            rest(learner);
        return;
    case PHASE_CLIENT_SETTLES:
        if (!worthwhile) {
            learner->spent += (now - learner->since) / COST_PARTS; /* as if: not again soon */
            learner->forward = false;
            rest(learner);
            return;
        }
        /* Those that went by before were not counted: until the number stands, it settles. */
        window_open(learner,
                    2 * outstanding > learner->window ? PHASE_CLIENT_SETTLES : PHASE_CLIENT,
                    outstanding);
        return;
    default:
        break;
    }
    charge(learner, sort, each);
    if (sort == SERVERS && each > HOPELESS * learner->best[CLIENT]) {
        learner->forward = false;
        rest(learner);
    } else if (learner->phase == PHASE_SERVERS_SETTLE) {
        window_open(learner, PHASE_SERVERS, outstanding);
    } else {
        if (learner->best[sort] == 0 || each < learner->best[sort])
            learner->best[sort] = each;
        if (sort == CLIENT) {
            window_open(learner, PHASE_SERVERS_SETTLE, outstanding);
        } else if (++learner->round < ROUNDS) {
            window_open(learner, PHASE_CLIENT_SETTLES, outstanding);
        } else {
            learner->forward = learner->best[SERVERS] < MARGIN * learner->best[CLIENT];
            rest(learner);
        }
    }
}
