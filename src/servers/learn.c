/*
 * Does forwarding pay? The answer is different for each kind and size of request, for each machine,
 * and for what the program does meanwhile, so it is measured on the program's own requests.
 *
 * Most of the time a learner rests: what it has found holds, and where that is the client, calls
 * go by as if there were no servers. A trial is a series of windows, some requests each. Some go
 * by the client, as many by servers, and as many by both, who share them; what counts is the time
 * per request, with everything that the program does in between, and the best window of each sort,
 * which leaves out those that the system disturbed. A window measures how requests end, not how
 * fast they can be queued: so it is longer than what is outstanding, and as many go unmeasured
 * before it.
 *
 * What a trial may cost is bounded: a way that turns out to be clearly worse is left out, and
 * another trial begins when all that trials have cost is a hundredth of the time. Where tasks take
 * all processors, one begins only while a processor is idle. A finding for servers is watched: once
 * they are slower than the client was, there is another trial.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "servers/servers.h"

#define WINDOW 16u /* requests, and some for each that is outstanding */
#define WINDOW_MOST 4096u
#define ROUNDS 3u       /* windows of each sort */
#define REST 1024u      /* requests between two looks at the clock */
#define RESTS 256u      /* looks that a finding for servers lasts */
#define DOUBTS 2u       /* looks at servers that are slower, in a row, until that ends */
#define MARGIN 0.97     /* servers take at most this part of the client's time */
#define HOPELESS 1.25   /* a way that takes so many times as long is left out */
#define HELPLESS 2.0    /* and if servers do, the client gains nothing by sharing with them */
#define COST_PARTS 100u /* of the time, for trials */
#define PROBE_US 10000  /* between two questions whether a processor is idle, at least */

enum {
    CLIENT,
    SERVERS,
    SHARED,
    SORTS
};

/* Phases of a trial, over and over: one sort settles and is measured, then the next one. */
enum {
    PHASE_REST, /* 0: learn_rests */
    PHASE_CLIENT_SETTLES,
    PHASE_CLIENT,
    PHASE_SERVERS_SETTLE,
    PHASE_SERVERS,
    PHASE_SHARED_SETTLES,
    PHASE_SHARED,
};

static unsigned sort_of(unsigned phase)
{
    return (phase - PHASE_CLIENT_SETTLES) / 2;
}

struct learner *learn_of(struct lane *lane, enum request_kind kind, size_t bytes)
{
    unsigned class = bytes == 0 ? 0 : 64u - (unsigned)__builtin_clzll(bytes);
    unsigned row = kind == REQUEST_IMMEDIATE ? (unsigned)REQUEST_SEND
                   : kind == REQUEST_FETCH   ? LEARN_KINDS - 1
                                             : (unsigned)kind;

    return &lane->learners[row][class < LEARN_CLASSES ? class : LEARN_CLASSES - 1];
}

/* The kernel's count of threads that run or want to, of all on the machine, us among them. */
bool learn_processor_idle(struct lane *lane)
{
    uint64_t now = clock_ticks();
    char text[64], *slash = text;
    ssize_t got;

    if (now < lane->probe_at)
        return false;
    lane->probe_at = now + (uint64_t)(PROBE_US * clock_ticks_per_us());
    got = pread(lane->servers->load_fd, text, sizeof(text) - 1, 0);
    if (got <= 0)
        return false;
    text[got] = '\0';
    slash = strchr(text, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    slash = strrchr(text, ' ');
    return slash != NULL && strtoul(slash, NULL, 10) < lane->servers->processors;
}

static void rest(struct learner *learner)
{
    learner->phase = PHASE_REST;
    learner->way = learner->found;
    learner->window = learner->left = REST;
    learner->rests = learner->doubts = 0;
}

static void window_open(struct learner *learner, unsigned phase, size_t outstanding)
{
    size_t length = WINDOW + 2 * outstanding;

    learner->phase = phase;
    learner->way = (uint8_t)(LEARN_CLIENT + sort_of(phase));
    learner->window = learner->left = length < WINDOW_MOST ? (unsigned)length : WINDOW_MOST;
}

static void trial_begin(struct learner *learner, size_t outstanding)
{
    learner->round = learner->hopeless = 0;
    learner->best[CLIENT] = learner->best[SERVERS] = learner->best[SHARED] = 0;
    window_open(learner, PHASE_CLIENT_SETTLES, outstanding);
}

/* The part of a window that the best of the other sorts would not have taken. */
static void charge(struct learner *learner, unsigned sort, double each)
{
    double better = 0;

    for (unsigned other = CLIENT; other < SORTS; other++)
        if (other != sort && learner->best[other] != 0 &&
            (better == 0 || learner->best[other] < better))
            better = learner->best[other];
    if (better != 0 && each > better)
        learner->spent += (uint64_t)((each - better) * learner->window);
}

/* Between two looks of a rest. True: it is time for a trial. */
static bool rest_over(struct learner *learner, bool worthwhile, uint64_t now, double each)
{
    if (!worthwhile)
        return false;
    if (learner->found != LEARN_PLAIN) {
        learner->doubts = each > learner->best[CLIENT] ? learner->doubts + 1 : 0;
        charge(learner, (unsigned)learner->found - LEARN_CLIENT, each);
        if (learner->doubts >= DOUBTS)
            return true;
        if (++learner->rests < RESTS)
            return false;
    }
    return learner->spent * COST_PARTS <= now - learner->since;
}

static bool is_hopeless(const struct learner *learner, unsigned sort)
{
    return (learner->hopeless >> sort & 1) != 0;
}

static void trial_end(struct learner *learner)
{
    double best = MARGIN * learner->best[CLIENT];

    learner->found = LEARN_PLAIN;
    for (unsigned sort = SERVERS; sort < SORTS; sort++) {
        if (is_hopeless(learner, sort) || learner->best[sort] == 0 || learner->best[sort] >= best)
            continue;
        best = learner->best[sort];
        learner->found = (uint8_t)(LEARN_CLIENT + sort);
    }
    rest(learner);
}

/* The next sort, or the next round, or the end. */
static void trial_next(struct learner *learner, unsigned sort, size_t outstanding)
{
    do
        sort++;
    while (sort < SORTS && is_hopeless(learner, sort));
    if (sort < SORTS && learner->hopeless != (1u << SERVERS | 1u << SHARED))
        window_open(learner, PHASE_CLIENT_SETTLES + 2 * sort, outstanding);
    else if (++learner->round < ROUNDS && learner->hopeless != (1u << SERVERS | 1u << SHARED))
        window_open(learner, PHASE_CLIENT_SETTLES, outstanding);
    else
        trial_end(learner);
}

/* A window of a trial has ended that took `each` per request. */
static void trial_window(struct learner *learner, double each, size_t outstanding)
{
    unsigned sort = sort_of(learner->phase);

    charge(learner, sort, each);
    if (sort != CLIENT && each > HOPELESS * learner->best[CLIENT]) {
        learner->hopeless |= (uint8_t)(1u << sort);
        if (sort == SERVERS && each > HELPLESS * learner->best[CLIENT])
            learner->hopeless |= 1u << SHARED;
        trial_next(learner, sort, outstanding);
    } else if (learner->phase % 2 != 0) {
        window_open(learner, learner->phase + 1u, outstanding);
    } else {
        if (learner->best[sort] == 0 || each < learner->best[sort])
            learner->best[sort] = each;
        trial_next(learner, sort, outstanding);
    }
}

void learn_look(struct learner *learner, bool worthwhile, size_t outstanding, uint64_t now)
{
    double each = learner->window != 0 ? (double)(now - learner->begun) / learner->window : 0;

    learner->begun = now;
    if (learner->since == 0)
        learner->since = now;
    switch (learner->phase) {
    case PHASE_REST:
        if (rest_over(learner, worthwhile, now, each))
            trial_begin(learner, outstanding);
        else if (worthwhile && learner->found != LEARN_PLAIN)
            learner->window = learner->left = REST;
        else
            rest(learner);
        return;
    case PHASE_CLIENT_SETTLES:
        if (!worthwhile) {
            learner->spent += (now - learner->since) / COST_PARTS; /* as if: not again soon */
            learner->found = LEARN_PLAIN;
            rest(learner);
            return;
        }
        /* Those that went by before were not counted: until the number stands, it settles. */
        window_open(learner,
                    2 * outstanding > learner->window ? PHASE_CLIENT_SETTLES : PHASE_CLIENT,
                    outstanding);
        return;
    default:
        trial_window(learner, each, outstanding);
    }
}
