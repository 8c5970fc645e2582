/*
 * The public face of the simulation: making clients on a simulated network, and driving them.
 *
 * The network (src/device/sim) says whose turn it is; this file advances that client's context and
 * tells the network what is left to do there. Contexts that were given something from outside of
 * any turn (by the program before a run) are found by looking at all of them: at the start of a run
 * and before saying that nothing can happen any more.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pami/pamix.h>

#include "client/client.h"
#include "coll/ask.h"
#include "context/advance.h"
#include "device/sim/network.h"
#include "p2p/p2p.h"
#include "util/error.h"

/* Passes in one turn at most. */
#define TURN_PASSES 4

/* Waiting contexts that a text names. */
#define NAMED_MOST 4

/* ---- making and unmaking ---- */

/* All or none. The number of contexts is the simulation's, whatever the option says. */
static int create_clients(struct sim_network *network, pami_client_t clients[])
{
    for (uint32_t i = 0; i < network->task_count; i++) {
        struct sim_task *task = &network->tasks[i];
        struct client *client;
        int error = client_create_with("sim", &task->bootstrap, &sim_device_ops, task, sim_task_now,
                                       task, &client);

        if (error != 0) {
            while (i-- > 0)
                client_destroy(clients[i]);
            return error;
        }
        client->core.contexts_max = network->rules.contexts;
        clients[i] = client;
    }
    return 0;
}

pami_result_t PAMIX_Sim_create(const pamix_sim_config_t *given, size_t ntasks,
                               pami_client_t clients[])
{
    pamix_sim_config_t config;
    struct sim_rules rules;
    struct sim_network *network;
    pami_client_t *made;
    pami_result_t result = sim_rules_read(given, ntasks, &config, &rules);
    int error;

    if (result == PAMI_SUCCESS && clients == NULL)
        result = error_set(PAMI_INVAL, "PAMIX_Sim_create: clients: NULL");
    if (result != PAMI_SUCCESS)
        return result;
    made = calloc(ntasks, sizeof(*made));
    error =
        made != NULL ? sim_network_create(&rules, &config, (uint32_t)ntasks, &network) : -ENOMEM;
    if (error == 0) {
        error = create_clients(network, made);
        sim_network_release(network); /* the clients' devices hold it */
    }
    if (error == 0)
        memcpy(clients, made, ntasks * sizeof(*made));
    free(made);
    if (error != 0)
        return error_set(error_from_errno(error), "PAMIX_Sim_create: clients cannot be made: %s",
                         strerror(-error));
    return PAMI_SUCCESS;
}

/* NULL for anything that is not a client of a simulation. */
static struct sim_task *task_of_client(pami_client_t handle)
{
    const struct client *client = client_from_handle(handle);

    if (client == NULL || client->core.device_count == 0)
        return NULL;
    return sim_task_of(client->core.devices[0]);
}

/* The same for public functions: says so in the error text. */
static struct sim_network *network_of(const char *function, pami_client_t handle)
{
    struct sim_task *task = task_of_client(handle);

    if (task != NULL)
        return task->network;
    error_set(PAMI_INVAL, "%s: client: not a client of a simulation", function);
    return NULL;
}

/* Nobody will be left to receive anything. */
static bool is_whole(const pami_client_t clients[], size_t ntasks)
{
    const struct sim_task *first = ntasks != 0 ? task_of_client(clients[0]) : NULL;
    size_t count = 0;

    for (size_t i = 0; i < ntasks && first != NULL; i++)
        if (clients[i] != NULL && task_of_client(clients[i])->network == first->network)
            count++;
    return first != NULL && count == first->network->references;
}

pami_result_t PAMIX_Sim_destroy(pami_client_t clients[], size_t ntasks)
{
    if (clients == NULL && ntasks != 0)
        return error_set(PAMI_INVAL, "PAMIX_Sim_destroy: clients: NULL");
    for (size_t i = 0; i < ntasks; i++)
        if (clients[i] != NULL && network_of("PAMIX_Sim_destroy", clients[i]) == NULL)
            return PAMI_INVAL;
    if (is_whole(clients, ntasks))
        task_of_client(clients[0])->network->is_ending = true;
    for (size_t i = 0; i < ntasks; i++) {
        if (clients[i] != NULL)
            client_destroy(clients[i]);
        clients[i] = NULL;
    }
    return PAMI_SUCCESS;
}

/* ---- what contexts wait for ---- */

static bool has_work(const struct context *context)
{
    return !workqueue_idle(&context->work) && context->work.again.first == NULL;
}

/* A pass would do something. */
static bool wants_more(const struct context *context, struct port *port, int events)
{
    return !completion_queue_empty(&context->completions) || has_work(context) ||
           (!context->paused && sim_pending(port)) ||
           (events != 0 && !list_empty(&context->retries));
}

/* Only another pass can tell whether it would do something. */
static bool wants_looks(const struct context *context)
{
    return !list_empty(&context->retries) || !workqueue_idle(&context->work);
}

/* Somebody else has to do something. */
static bool waits(const struct context *context)
{
    return wants_looks(context) || context->paused || context->p2p->handles.used != 0;
}

/* Calls `visit` for each endpoint that exists, until it returns false. */
static void for_each_endpoint(struct sim_network *network,
                              bool (*visit)(struct sim_endpoint *endpoint, void *cookie),
                              void *cookie)
{
    size_t count = (size_t)network->task_count * network->rules.contexts;

    for (size_t i = 0; i < count; i++)
        if (network->endpoints[i] != NULL && !visit(network->endpoints[i], cookie))
            return;
}

struct roused {
    bool all;     /* also those whom something will call later */
    size_t count; /* turns given */
};

static bool rouse(struct sim_endpoint *endpoint, void *cookie)
{
    struct roused *roused = cookie;
    const struct context *context;
    bool is_expected = endpoint->turn_at != SIM_NEVER || endpoint->waiting != 0 ||
                       !list_empty(&endpoint->transfers);

    if (endpoint->port == NULL || endpoint->task->dead || (is_expected && !roused->all))
        return true;
    context = endpoint->port->params.context;
    if (!completion_queue_empty(&context->completions) || wants_looks(context) ||
        (roused->all && !list_empty(&endpoint->gone))) {
        sim_schedule(endpoint, endpoint->network->now, false);
        roused->count++;
    }
    return true;
}

/* Gives a turn to each context that has something to do and that nothing else will call. */
static void rouse_forgotten(struct sim_network *network)
{
    struct roused roused = {.all = false};

    for_each_endpoint(network, rouse, &roused);
}

/* Gives a turn to each context that has, or may have, something to do. Returns how many. */
static size_t rouse_all(struct sim_network *network)
{
    struct roused roused = {.all = true};

    for_each_endpoint(network, rouse, &roused);
    return roused.count + sim_wake_waiters(network);
}

/* ---- nothing happens any more ---- */

struct questions {
    uint64_t mark; /* of all contexts, up to now */
    bool ask;
    size_t asked;
};

static bool question(struct sim_endpoint *endpoint, void *cookie)
{
    struct questions *questions = cookie;
    struct context *context;

    if (endpoint->port == NULL || endpoint->task->dead)
        return true;
    context = endpoint->port->params.context;
    if (!questions->ask) {
        questions->mark += ask_mark(context);
    } else if (ask_now(context) != 0) {
        sim_schedule(endpoint, endpoint->network->now, false);
        questions->asked++;
    }
    return true;
}

/* Collectives may wait for what will not come: they ask, once until that may have other answers, as
 * if time had passed. Returns whether any did. */
static bool ask_all(struct sim_network *network, uint64_t *mark)
{
    struct questions questions = {.ask = false};

    for_each_endpoint(network, question, &questions);
    if (questions.mark == *mark)
        return false;
    *mark = questions.mark;
    questions.ask = true;
    for_each_endpoint(network, question, &questions);
    return questions.asked != 0;
}

struct explanation {
    char text[ERROR_TEXT_MAX];
    size_t used;
    size_t count; /* of those who wait */
};

/* Appends, as far as there is room. */
static void say(struct explanation *said, const char *text)
{
    int length = snprintf(said->text + said->used, sizeof(said->text) - said->used, "%s", text);

    if (length > 0)
        said->used += (size_t)length;
    if (said->used >= sizeof(said->text))
        said->used = sizeof(said->text) - 1;
}

static void explain_context(struct explanation *said, const struct sim_endpoint *endpoint,
                            const struct context *context)
{
    char text[160];

    snprintf(text, sizeof(text), "%stask %u context %u waits for", said->count == 0 ? ": " : ", ",
             endpoint->task->bootstrap.task, context->offset);
    say(said, text);
    if (context->p2p->handles.used != 0) {
        snprintf(text, sizeof(text), " %u answers", context->p2p->handles.used);
        say(said, text);
    }
    if (endpoint->waiting != 0)
        say(said, " room at a peer");
    if (context->work.again.first != NULL)
        say(said, " a posted function");
    if (context->paused)
        say(said, " a dispatch id to be registered");
    if (context->p2p->handles.used == 0 && endpoint->waiting == 0 &&
        context->work.again.first == NULL && !context->paused)
        say(said, " something to try again");
}

/* Visits endpoints: those that wait are counted, the first few named. The dead do not wait. */
static bool explain(struct sim_endpoint *endpoint, void *cookie)
{
    struct explanation *said = cookie;
    const struct context *context;
    char text[160];

    if (endpoint->task->dead)
        return true;
    if (endpoint->port == NULL) {
        if (endpoint->held == 0)
            return true;
        if (said->count < NAMED_MOST) {
            snprintf(text, sizeof(text), "%s%u packets wait for a context %u of task %u",
                     said->count == 0 ? ": " : ", ", endpoint->held,
                     endpoint_offset(endpoint->endpoint), endpoint->task->bootstrap.task);
            say(said, text);
        }
        said->count++;
        return true;
    }
    context = endpoint->port->params.context;
    if (!waits(context))
        return true;
    if (said->count < NAMED_MOST)
        explain_context(said, endpoint, context);
    said->count++;
    return true;
}

/* The result of a run that came to an end by itself. */
static pami_result_t quiet(struct sim_network *network, bool wanted_more)
{
    struct explanation said = {.used = 0};

    for_each_endpoint(network, explain, &said);
    if (said.count == 0 && !wanted_more)
        return PAMI_SUCCESS;
    if (said.count == 0)
        say(&said, ", and no context waits for anything");
    else if (said.count > NAMED_MOST)
        say(&said, " and more");
    return error_set(PAMI_EAGAIN, "PAMIX_Sim_run: nothing can happen any more%s", said.text);
}

/* ---- running ---- */

/*
 * Advances a context whose turn it is: a few passes, as what one does is often work for the next (a
 * delivery makes a callback due). More must wait for another turn, so that nobody is kept from
 * running for long. Returns whether anything happened.
 */
static int take_turn(struct sim_endpoint *endpoint)
{
    struct context *context = endpoint->port->params.context;
    struct sim_turn turn = {.wants_more = true};

    for (int pass = 0; pass < TURN_PASSES && turn.wants_more; pass++) {
        int events = PAMI_Context_advance(context, 1) == PAMI_SUCCESS;

        if (!list_empty(&endpoint->gone))
            context_tend(context);
        turn.events += events;
        turn.wants_more = wants_more(context, endpoint->port, events);
    }
    turn.is_deaf = context->paused;
    turn.looks = wants_looks(context);
    sim_turn_end(endpoint, &turn);
    return turn.events + endpoint->active;
}

/* Until somebody's turn has come to an end that `done` likes, a limit, or the end of all. */
static pami_result_t run(struct sim_network *network, int (*done)(void *), void *cookie,
                         uint64_t events, uint64_t until)
{
    uint64_t mark = UINT64_MAX;

    rouse_forgotten(network);
    while (done == NULL || !done(cookie)) {
        struct sim_endpoint *endpoint;
        enum sim_next next = sim_next(network, until, events, &endpoint);

        while (next == SIM_NEXT_QUIET && !network->is_roused) {
            network->is_roused = true;
            if (rouse_all(network) != 0)
                next = sim_next(network, until, events, &endpoint);
        }
        if (next == SIM_NEXT_QUIET && ask_all(network, &mark)) {
            network->is_roused = false;
            next = sim_next(network, until, events, &endpoint);
        }
        if (next == SIM_NEXT_QUIET)
            return quiet(network, done != NULL);
        if (next == SIM_NEXT_LIMIT)
            return error_set(PAMI_OTHER, "PAMIX_Sim_run: the limit of %s was reached",
                             network->counters.events >= events ? "events" : "seconds");
        if (take_turn(endpoint) != 0)
            network->is_roused = false;
    }
    return PAMI_SUCCESS;
}

pami_result_t PAMIX_Sim_run(pami_client_t client, int (*done)(void *cookie), void *cookie,
                            size_t maximum_events, double maximum_seconds)
{
    struct sim_network *network = network_of("PAMIX_Sim_run", client);
    uint64_t events = UINT64_MAX;
    uint64_t until = SIM_NEVER - 1;
    pami_result_t result;

    if (network == NULL)
        return PAMI_INVAL;
    if (network->is_inside)
        return error_set(PAMI_INVAL, "PAMIX_Sim_run: called from inside a callback");
    if (!(maximum_seconds >= 0))
        return error_set(PAMI_INVAL, "PAMIX_Sim_run: maximum_seconds: %g is not 0 or more",
                         maximum_seconds);
    if (maximum_events != 0 && maximum_events < UINT64_MAX - network->counters.events)
        events = network->counters.events + maximum_events;
    if (maximum_seconds > 0 && maximum_seconds < 1e6)
        until = network->now + sim_picoseconds(maximum_seconds);
    network->is_inside = true;
    result = run(network, done, cookie, events, until);
    network->is_inside = false;
    return result;
}

double PAMIX_Sim_time(pami_client_t client)
{
    const struct sim_network *network = network_of("PAMIX_Sim_time", client);

    return network != NULL ? (double)network->now * 1e-12 : -1;
}

uint64_t PAMIX_Sim_digest(pami_client_t client)
{
    const struct sim_network *network = network_of("PAMIX_Sim_digest", client);

    return network != NULL ? network->digest : 0;
}

pami_result_t PAMIX_Sim_counters(pami_client_t client, pamix_sim_counters_t *counters)
{
    const struct sim_network *network = network_of("PAMIX_Sim_counters", client);

    if (network == NULL)
        return PAMI_INVAL;
    if (counters == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Sim_counters: counters: NULL");
    *counters = network->counters;
    return PAMI_SUCCESS;
}

pami_result_t PAMIX_Sim_kill(pami_client_t client)
{
    struct sim_task *task = task_of_client(client);

    if (task == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Sim_kill: client: not a client of a simulation");
    sim_kill(task);
    return PAMI_SUCCESS;
}
