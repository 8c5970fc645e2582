/*
 * Who carries a request: the policy, and what learning has found.
 */
#include "servers/model.h"
#include "servers/plain.h"
#include "util/clock.h"
#include "util/hash.h"

static unsigned operation_bit(enum request_kind kind)
{
    return kind == REQUEST_PUT     ? PAMIX_SERVERS_PUT
           : kind == REQUEST_GET   ? PAMIX_SERVERS_GET
           : kind == REQUEST_FETCH ? PAMIX_SERVERS_FETCH
                                   : PAMIX_SERVERS_SEND;
}

/* All requests for one destination go to one server, so that their order stays. */
static unsigned server_of(const struct servers *servers, pami_endpoint_t dest)
{
    return hash_of(dest) % servers->count;
}

/* The server whose turn it is; behind them comes the client itself. */
static unsigned next_server(struct lane *lane, unsigned members)
{
    if (lane->batched >= SERVERS_LOAD(lane->servers->batch) || lane->next >= members) {
        lane->next = (lane->next + 1) % members;
        lane->batched = 0;
    }
    lane->batched++;
    return lane->next;
}

/* Is there any point in a trial, or in going on with one? */
static bool worthwhile(const struct request_call *call, const struct learner *learner)
{
    const struct servers *servers = call->servers;
    bool rests = learn_rests(learner);

    if (servers->model != NULL &&
        !model_pays(servers->model, call->kind, call->bytes,
                    rests ? MODEL_ANY : SERVERS_LOAD(call->lane->outstanding), call->used))
        return false;
    return SERVERS_LOAD(servers->spare) || !rests || learner->found != LEARN_PLAIN ||
           learn_processor_idle(call->lane);
}

/* How many are outstanding the learner finds out at the beginning of a trial. */
static enum learn_way learned(const struct request_call *call)
{
    struct learner *learner;

    if (call->kind != REQUEST_FETCH)
        plain_learns(call->lane);
    if (call->kind == REQUEST_IMMEDIATE)
        return LEARN_PLAIN;
    learner = learn_of(call->lane, call->kind, call->bytes);
    if (unlikely(learner->left == 0))
        learn_look(learner, &call->lane->budget, worthwhile(call, learner),
                   SERVERS_LOAD(call->lane->outstanding), clock_ticks());
    learner->left--;
    if (call->kind != REQUEST_FETCH)
        plain_learned(call->lane, call->kind, learner);
    return (enum learn_way)learner->way;
}

bool request_choose(struct request_call *call, struct server **server)
{
    struct servers *servers = call->servers;
    enum learn_way way = LEARN_SERVERS;
    unsigned number;

    *server = NULL;
    call->used = SERVERS_LOAD(servers->used);
    call->shared = SERVERS_LOAD(servers->active) != 0;
    if (atomic_load_explicit(&servers->state, memory_order_acquire) == SERVERS_STOPPED) {
        plain_stopped(call->lane);
        return false;
    }
    if (call->ordered) {
        *server = &servers->server[server_of(servers, call->dest)];
        return SERVERS_LOAD((*server)->dead) == 0;
    }
    if ((SERVERS_LOAD(servers->operations) & operation_bit(call->kind)) == 0 ||
        call->bytes < SERVERS_LOAD(servers->bytes_least) ||
        call->bytes > SERVERS_LOAD(servers->bytes_most))
        return SERVERS_LOAD(servers->few) != 0;
    if (SERVERS_LOAD(servers->few) != 0) {
        lane_collect(call->lane);
        if (SERVERS_LOAD(call->lane->outstanding) < SERVERS_LOAD(servers->few))
            return true;
    }
    if (SERVERS_LOAD(servers->learn) != 0 ||
        (call->kind == REQUEST_FETCH && servers->fetch_learns)) {
        way = learned(call);
        call->shared = way == LEARN_SHARED;
    }
    if (way < LEARN_SERVERS)
        return way == LEARN_CLIENT || SERVERS_LOAD(servers->few) != 0;
    call->members = call->used + call->shared;
    number = next_server(call->lane, call->members);
    if (number == call->used)
        return true;
    *server = &servers->server[number];
    return SERVERS_LOAD((*server)->dead) == 0;
}
