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
 * before it. It is also longer than it takes to wake somebody.
 *
 * What all trials of a context cost is bounded by a hundredth of the time and some milliseconds. A
 * way that turns out to be clearly worse is left out, so that what a trial may cost can be told
 * from its first windows, which the client carries; where that is too much, as it is for many large
 * requests at a time, it ends there and waits. After trials in vain, one after the other, the pause
 * until the next one doubles. Where tasks take all processors, a trial begins only
 * while one is idle. A finding for servers is watched: once they are slower than the client was,
 * there is another trial, or, if there may be none, the client it is.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "servers/servers.h"
#include "util/clock.h"

#define WINDOW 16u /* requests, and some for each that is outstanding */
#define WINDOW_MOST 4096u
#define ROUNDS 3u       /* windows of each sort */
#define WINDOW_US 100u  /* it is to take at least */
#define REST 1024u      /* requests between two looks at the clock ... */
#define REST_MOST 8192u /* ... or as many as take REST_US, while the client carries them ... */
#define REST_US 100u
#define REST_WINDOWS 4u /* ... or so many windows at most, while servers are used */
#define RESTS 262144u   /* requests that a finding for servers lasts */
#define DOUBTS 2u       /* looks at servers that are slower, in a row, until that ends */
#define MARGIN 0.95     /* servers take at most this part of the client's time */
#define HOPELESS 1.25   /* a way that takes so many times as long is left out */
#define HELPLESS 2.0    /* and if servers do, the client gains nothing by sharing with them */
#define COST_PARTS 100u /* of the time, for trials, and ... */
#define COST_US 2000u   /* ... before the first one of a learner */
#define PAUSE_US 10000u /* after a trial in vain, doubled for each one before it ... */
#define PAUSES 9u       /* ... so often at most */
#define WAKE_US 1000u   /* a bad window that is shorter may be that of somebody who slept */
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

/* No descriptor is kept, which the program may close, and its number be another file's. Nor is this
 * a cancellation point. Returns the bytes, 0: none. */
static size_t read_load(char *text, size_t size)
{
    ssize_t got = -1;
    int fd, state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        got = read(fd, text, size);
        close(fd);
    }
    pthread_setcancelstate(state, NULL);
    return got > 0 ? (size_t)got : 0;
}

/* The kernel's count of threads that run or want to, of all on the machine, us among them. */
bool learn_processor_idle(struct lane *lane)
{
    uint64_t now = clock_ticks();
    char text[64], *slash;
    size_t got;

    if (now < lane->probe_at)
        return false;
    lane->probe_at = now + (uint64_t)(PROBE_US * clock_ticks_per_us());
    got = read_load(text, sizeof(text) - 1);
    text[got] = '\0';
    slash = strchr(text, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    slash = strrchr(text, ' ');
    return slash != NULL && strtoul(slash, NULL, 10) < SERVERS_LOAD(lane->servers->processors);
}

static double ticks(unsigned us)
{
    return us * clock_ticks_per_us();
}

/* Until the next look of a rest. `each`: ticks that a request takes by now; 0: nobody knows. */
static void rest_on(struct learner *learner, double each)
{
    unsigned windows = REST_WINDOWS * learner->length;

    learner->window = REST;
    if (learner->found != LEARN_PLAIN && windows < REST)
        learner->window = windows;
    else if (learner->found == LEARN_PLAIN && each > 0 && each * REST < ticks(REST_US))
        learner->window =
            each * REST_MOST < ticks(REST_US) ? REST_MOST : (unsigned)(ticks(REST_US) / each);
    learner->left = learner->window;
}

static void rest(struct learner *learner, double each)
{
    learner->phase = PHASE_REST;
    learner->way = learner->found;
    learner->rests = learner->doubts = 0;
    rest_on(learner, each);
}

/* `each`: ticks that a request takes by now; 0: nobody knows. */
static void window_open(struct learner *learner, unsigned phase, size_t outstanding, double each)
{
    size_t length = WINDOW + 2 * outstanding;

    if (phase % 2 == 0 && each > 0 && (double)length * each < ticks(WINDOW_US))
        length = (size_t)(ticks(WINDOW_US) / each) + 1;
    if (length > WINDOW_MOST)
        length = WINDOW_MOST;
    if (phase % 2 == 0)
        learner->length = (unsigned)length;
    learner->again = phase == learner->phase;
    learner->phase = (uint8_t)phase;
    learner->way = (uint8_t)(LEARN_CLIENT + sort_of(phase));
    learner->window = learner->left = (unsigned)length;
}

/* May a trial begin, or go on? */
static bool affordable(const struct learner *learner, const struct learn_budget *budget,
                       uint64_t now)
{
    double ahead = learner->tried ? 0 : ticks(COST_US);

    return budget->spent + learner->price <= (double)(now - budget->since) / COST_PARTS + ahead;
}

static void trial_begin(struct learner *learner, const struct learn_budget *budget,
                        size_t outstanding)
{
    learner->before = budget->spent;
    learner->round = learner->hopeless = 0;
    learner->best[CLIENT] = learner->best[SERVERS] = learner->best[SHARED] = 0;
    window_open(learner, PHASE_CLIENT_SETTLES, outstanding, 0);
}

/* The part of a window that the best other way would not have taken. */
static void charge(const struct learner *learner, struct learn_budget *budget, unsigned sort,
                   double each)
{
    double better = learner->plain;

    for (unsigned other = CLIENT; other < SORTS; other++)
        if (other != sort && learner->best[other] != 0 &&
            (better == 0 || learner->best[other] < better))
            better = learner->best[other];
    if (better != 0 && each > better)
        budget->spent += (each - better) * learner->window;
}

/* Between two looks of a rest. True: it is time for a trial. */
static bool rest_over(struct learner *learner, struct learn_budget *budget, uint64_t now,
                      double each)
{
    if (learner->found == LEARN_PLAIN) {
        learner->plain = each;
    } else {
        learner->doubts = each > learner->best[CLIENT] ? learner->doubts + 1 : 0;
        charge(learner, budget, (unsigned)learner->found - LEARN_CLIENT, each);
        learner->rests += learner->window;
        if (learner->doubts < DOUBTS && learner->rests < RESTS)
            return false;
        if (learner->doubts >= DOUBTS)
            learner->found = LEARN_PLAIN;
    }
    return now >= learner->pause && affordable(learner, budget, now);
}

static bool is_hopeless(const struct learner *learner, unsigned sort)
{
    return (learner->hopeless >> sort & 1) != 0;
}

static bool nothing_helps(const struct learner *learner)
{
    return is_hopeless(learner, SERVERS) && is_hopeless(learner, SHARED);
}

static void trial_end(struct learner *learner, const struct learn_budget *budget, uint64_t now)
{
    double best = MARGIN * learner->best[CLIENT], cost = budget->spent - learner->before;

    learner->tried = true;
    if (cost > learner->price)
        learner->price = cost;
    learner->found = LEARN_PLAIN;
    for (unsigned sort = SERVERS; sort < SORTS; sort++) {
        if (is_hopeless(learner, sort) || learner->best[sort] == 0 || learner->best[sort] >= best)
            continue;
        best = learner->best[sort];
        learner->found = (uint8_t)(LEARN_CLIENT + sort);
    }
    if (learner->found == LEARN_PLAIN) {
        learner->pause = now + (uint64_t)(ticks(PAUSE_US) * (double)(1u << learner->vain));
        learner->vain += nothing_helps(learner) ? 2 : 1;
        if (learner->vain > PAUSES)
            learner->vain = PAUSES;
    } else {
        learner->vain = 0;
        learner->plain = 0;
    }
    rest(learner, learner->best[CLIENT]);
}

/* The next sort, or the next round, or the end. */
static void trial_next(struct learner *learner, const struct learn_budget *budget, unsigned sort,
                       size_t outstanding, uint64_t now)
{
    do
        sort++;
    while (sort < SORTS && is_hopeless(learner, sort));
    if (sort < SORTS && !nothing_helps(learner))
        window_open(learner, PHASE_CLIENT_SETTLES + 2 * sort, outstanding, 0);
    else if (++learner->round < ROUNDS && !nothing_helps(learner))
        window_open(learner, PHASE_CLIENT_SETTLES, outstanding, 0);
    else
        trial_end(learner, budget, now);
}

/* A window of a trial has ended that took `each` per request. */
static void trial_window(struct learner *learner, struct learn_budget *budget, double each,
                         size_t outstanding, uint64_t now)
{
    unsigned sort = sort_of(learner->phase);

    charge(learner, budget, sort, each);
    if (sort != CLIENT && each > HOPELESS * learner->best[CLIENT]) {
        if (!learner->again && each * learner->window < ticks(WAKE_US)) {
            window_open(learner, learner->phase, outstanding, learner->best[CLIENT]);
            return;
        }
        learner->hopeless |= (uint8_t)(1u << sort);
        if (sort == SERVERS && each > HELPLESS * learner->best[CLIENT])
            learner->hopeless |= 1u << SHARED;
        trial_next(learner, budget, sort, outstanding, now);
    } else if (learner->phase % 2 != 0) {
        window_open(learner, learner->phase + 1u, outstanding,
                    sort == CLIENT ? each : learner->best[CLIENT]);
    } else {
        if (learner->best[sort] == 0 || each < learner->best[sort])
            learner->best[sort] = each;
        if (sort == CLIENT && learner->round == 0) {
            learner->price = each * (double)(WINDOW + 2 * outstanding);
            if (!affordable(learner, budget, now)) {
                rest(learner, each);
                return;
            }
        }
        trial_next(learner, budget, sort, outstanding, now);
    }
}

void learn_look(struct learner *learner, struct learn_budget *budget, bool worthwhile,
                size_t outstanding, uint64_t now)
{
    double each = learner->window != 0 ? (double)(now - learner->begun) / learner->window : 0;

    learner->begun = now;
    if (budget->since == 0)
        budget->since = now;
    switch (learner->phase) {
    case PHASE_REST:
        if (worthwhile && rest_over(learner, budget, now, each))
            trial_begin(learner, budget, outstanding);
        else if (worthwhile && learner->found != LEARN_PLAIN)
            rest_on(learner, each);
        else
            rest(learner, each);
        return;
    case PHASE_CLIENT_SETTLES:
        if (!worthwhile) {
            learner->pause = now + (now - budget->since);
            learner->found = LEARN_PLAIN;
            rest(learner, each);
            return;
        }
        /* Those that went by before were not counted: until the number stands, it settles. */
        window_open(learner,
                    2 * outstanding > learner->window ? PHASE_CLIENT_SETTLES : PHASE_CLIENT,
                    outstanding, each);
        return;
    default:
        trial_window(learner, budget, each, outstanding, now);
    }
}
