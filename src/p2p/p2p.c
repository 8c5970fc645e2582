/*
 * Attaching the protocols to a context, peers that come and go, and draining at the end.
 */
#include "p2p/p2p.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "context/advance.h"
#include "p2p/message.h"
#include "p2p/rma.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/log.h"
#include "util/option.h"
#include "util/yield.h"

/* ---- what arrives ---- */

static void set_protocols(struct context *context)
{
    context->protocols[PROTOCOL_IMMEDIATE] = p2p_handle_immediate;
    context->protocols[PROTOCOL_MESSAGE] = p2p_handle_message;
    context->protocols[PROTOCOL_STREAM] = p2p_handle_stream;
    context->protocols[PROTOCOL_CLEAR] = p2p_handle_clear;
    context->protocols[PROTOCOL_DATA] = p2p_handle_data;
    context->protocols[PROTOCOL_ACK] = p2p_handle_ack;
    context->protocols[PROTOCOL_RESET] = p2p_handle_reset;
    context->protocols[PROTOCOL_PUT] = rma_handle_put;
    context->protocols[PROTOCOL_GET] = rma_handle_get;
    context->protocols[PROTOCOL_REPLY] = rma_handle_reply;
    context->protocols[PROTOCOL_ASK] = rma_handle_ask;
    context->protocols[PROTOCOL_FENCE] = fence_handle;
    context->protocols[PROTOCOL_RMW] = rmw_handle;
    context->protocols[PROTOCOL_RMW_REPLY] = rmw_handle_reply;
}

static void handle_later(struct context *context, const struct packet_header *head, void *body)
{
    if (head->protocol == PROTOCOL_IMMEDIATE && head->aux == 0)
        p2p_handle_immediate(context, head, body);
    else
        context_put_back(context);
}

void p2p_stop(struct p2p *p2p)
{
    static const enum packet_protocol asking[] = {
        PROTOCOL_IMMEDIATE, PROTOCOL_MESSAGE, PROTOCOL_PUT, PROTOCOL_GET,
        PROTOCOL_ASK,       PROTOCOL_FENCE,   PROTOCOL_RMW,
    };

    if (p2p->draining)
        return;
    for (size_t i = 0; i < sizeof(asking) / sizeof(asking[0]); i++)
        p2p->context->protocols[asking[i]] = handle_later;
    p2p_retry_later(p2p);
}

static void go_on(struct p2p *p2p)
{
    p2p->spare = pool_get(&p2p->sends);
    if (p2p->spare != NULL)
        set_protocols(p2p->context);
}

/* ---- what is to be tried again ---- */

static int retry_all(struct retry *retry, struct context *context)
{
    struct p2p *p2p = context->p2p;
    struct list *item, *following;
    int events = 0;

    context->busy = false;
    if (!list_empty(&p2p->released))
        events += p2p_deliver_held(p2p);
    events += rendezvous_progress(p2p);
    if (!list_empty(&p2p->copies))
        events += rma_progress(p2p);
    list_for_each_safe (item, following, &p2p->blocked) {
        events += peer_progress(p2p, list_entry(item, struct peer, blocked));
    }
    if (unlikely(p2p->spare == NULL) && !p2p->draining)
        go_on(p2p);
    if (p2p->spare != NULL && list_empty(&p2p->released) && list_empty(&p2p->pulls) &&
        list_empty(&p2p->blocked) && list_empty(&p2p->copies))
        list_remove(&retry->link);
    return events;
}

void p2p_retry_later(struct p2p *p2p)
{
    if (list_empty(&p2p->retry.link))
        list_push_back(&p2p->context->retries, &p2p->retry.link);
}

/* ---- peers ---- */

/* The cheapest device that reaches the task opens the path. */
static int open_path(struct p2p *p2p, uint32_t endpoint, unsigned how, struct path **path)
{
    struct context *context = p2p->context;
    struct port *best = NULL;
    int best_cost = 0;

    for (size_t i = 0; i < context->port_count; i++) {
        struct port *port = context->ports[i];
        int cost = port->ops->reach(port->device, endpoint_task(endpoint));

        if (cost != 0 && (best == NULL || cost < best_cost)) {
            best = port;
            best_cost = cost;
        }
    }
    if (best == NULL)
        return -EHOSTUNREACH;
    return best->ops->path_open(best, endpoint, how, path);
}

static struct peer *peer_new(struct p2p *p2p, uint32_t endpoint, unsigned how, int *error)
{
    struct peer *peer = calloc(1, sizeof(*peer));

    *error = -ENOMEM;
    if (peer == NULL)
        return NULL;
    peer->endpoint = endpoint;
    list_init(&peer->queue);
    list_init(&peer->blocked);
    list_init(&peer->receives);
    list_init(&peer->fences);
    list_init(&peer->puts_abreast);
    list_init(&peer->puts_sent);
    list_init(&peer->puts_waiting);
    *error = open_path(p2p, endpoint, how, &peer->path);
    if (*error == 0)
        *error = u64map_put(&p2p->peers, endpoint, peer);
    if (*error != 0) {
        free(peer);
        return NULL;
    }
    /* What a context that was here before has begun to send will not be completed. */
    if (unlikely(p2p->handles.first != 0))
        p2p_reset(p2p, peer);
    return peer;
}

bool p2p_is_valid(const struct client_core *core, uint32_t endpoint)
{
    return endpoint_task(endpoint) < core->tasks + core->servers &&
           endpoint_offset(endpoint) < core->contexts_max;
}

/* One that has gone: if there is a path again, it leads to a new incarnation. */
static int peer_reopen(struct p2p *p2p, struct peer *peer, unsigned how)
{
    int error = open_path(p2p, peer->endpoint, how, &peer->path);

    if (error != 0)
        return error;
    peer->packet_path = NULL;
    peer->gone = peer->ended = peer->turned = false;
    p2p_reset(p2p, peer);
    return 0;
}

struct peer *peer_open(struct p2p *p2p, uint32_t endpoint, unsigned how, int *error)
{
    struct peer *peer = u64map_get(&p2p->peers, endpoint);

    if (peer == NULL) {
        *error = -EINVAL;
        if (!p2p_is_valid(p2p->context->core, endpoint))
            return NULL;
        peer = peer_new(p2p, endpoint, how, error);
    } else if (peer->gone) {
        *error = peer_reopen(p2p, peer, how);
        if (*error != 0)
            return NULL;
    }
    if (peer != NULL)
        p2p->last = peer;
    return peer;
}

struct peer *peer_of_origin(struct p2p *p2p, uint32_t endpoint, int *error)
{
    struct peer *peer = u64map_get(&p2p->peers, endpoint);

    if (peer != NULL && !peer->gone)
        return peer;
    if (peer == NULL)
        return peer_new(p2p, endpoint, PATH_EVEN_CLOSED | PATH_HEARD, error);
    *error = peer_reopen(p2p, peer, PATH_EVEN_CLOSED | PATH_HEARD);
    return *error == 0 ? peer : NULL;
}

pami_result_t p2p_no_peer(const char *function, uint32_t endpoint, const struct p2p *p2p, int error)
{
    if (error == -EPIPE)
        return error_set(PAMI_ERROR, "%s: dest: endpoint %u of task %u has gone", function,
                         endpoint, endpoint_task(endpoint));
    if (error == -ENOMEM)
        return error_set(PAMI_ENOMEM, "%s: out of memory", function);
    if (error == -EHOSTUNREACH)
        return error_set(PAMI_INVAL, "%s: dest: no device reaches task %u", function,
                         endpoint_task(endpoint));
    return error_set(PAMI_INVAL,
                     "%s: dest: endpoint %u (task %u, context %u) is outside the job of %u tasks "
                     "with up to %u contexts",
                     function, endpoint, endpoint_task(endpoint), endpoint_offset(endpoint),
                     p2p->context->core->tasks, p2p->context->core->contexts_max);
}

int peer_packet_path(struct p2p *p2p, struct peer *peer, struct path **path)
{
    int error = 0;

    if (peer->packet_path == NULL)
        error = open_path(p2p, peer->endpoint, PATH_PACKETS_ONLY, &peer->packet_path);
    *path = peer->packet_path;
    return error;
}

/* Messages that the sender can no longer complete. Whole ones that are held stay, without their
 * answers: these would go to the context in the sender's place. What is called at the end of one
 * may end others. */
static void receives_gone(struct p2p *p2p, struct peer *peer)
{
    struct list all = LIST_INITIALIZER(all);
    struct list *item;

    fence_receives_drop(p2p, peer);
    list_splice_back(&all, &peer->receives);
    while ((item = list_pop_front(&all)) != NULL) {
        struct receive *receive = list_entry(item, struct receive, link);

        list_push_back(&peer->receives, item);
        receive->answer = 0;
        if (receive->fetching ||
            ((receive->held || receive->deferred) && receive->header_got == receive->header_bytes &&
             receive->data_got == receive->data_bytes))
            continue;
        receive_finish(p2p, receive,
                       error_set(PAMI_ERROR, "receive: endpoint %u of task %u has gone",
                                 peer->endpoint, endpoint_task(peer->endpoint)));
    }
}

static void operation_gone(struct p2p *p2p, struct operation *operation)
{
    operation->ops->finish(p2p, operation,
                           error_set(PAMI_ERROR, "endpoint %u of task %u has gone",
                                     operation->peer->endpoint,
                                     endpoint_task(operation->peer->endpoint)));
}

/* It is there again, and these operations have been waiting for that. */
static void operations_resume(struct p2p *p2p, struct peer *peer, struct list *operations)
{
    struct list *item;
    int error = list_empty(operations) ? -EPIPE : peer_reopen(p2p, peer, 0);

    if (error != 0)
        fence_messages_lost(peer);
    while ((item = list_pop_front(operations)) != NULL) {
        struct operation *operation = list_entry(item, struct operation, link);

        operation->next_life = false;
        if (error == 0)
            operation_enqueue(p2p, operation);
        else
            operation_gone(p2p, operation);
    }
}

/* Everything that waits for this peer, as it was, ends with an error. */
void p2p_endpoint_gone(struct context *context, uint32_t endpoint)
{
    struct p2p *p2p = context->p2p;
    struct peer *peer = u64map_get(&p2p->peers, endpoint);
    struct list *item, *following;
    struct list later = LIST_INITIALIZER(later);
    uint32_t cursor = 0;
    void *object;

    if (peer == NULL || peer->gone)
        return;
    log_debug("endpoint %u of task %u has gone", endpoint, endpoint_task(endpoint));
    peer->gone = true;
    fence_turn(peer);
    while ((item = list_pop_front(&peer->queue)) != NULL) {
        struct operation *operation = list_entry(item, struct operation, link);

        if (operation->next_life)
            list_push_back(&later, item);
        else
            operation_gone(p2p, operation);
    }
    list_remove(&peer->blocked);
    while ((object = handle_next(&p2p->handles, &cursor)) != NULL) {
        struct operation *operation = object;

        if (operation->kind == OPERATION_OUTGOING && operation->peer == peer &&
            !operation->next_life)
            operation_gone(p2p, operation);
    }
    rma_peer_gone(p2p, peer);
    operations_resume(p2p, peer, &later);
    receives_gone(p2p, peer);
    list_for_each_safe (item, following, &p2p->watches) {
        struct message_watch *watch = list_entry(item, struct message_watch, link);

        watch->gone(watch, context, endpoint);
    }
}

/* ---- attach, detach ---- */

/* What a server process answers to a context that was here before. */
static void answer_to_nobody(pami_context_t context, void *cookie, const void *header,
                             size_t header_size, const void *data, size_t bytes,
                             pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_size;
    (void)data, (void)bytes, (void)origin, (void)recv;
}

int p2p_attach(struct context *context)
{
    struct p2p *p2p = calloc(1, sizeof(*p2p));

    if (p2p == NULL)
        return -ENOMEM;
    p2p->context = context;
    p2p->handles.first = context->core->generations[context->offset];
    p2p->rendezvous_bytes = option_bytes(OPT_RNDV_BYTES);
    p2p->rendezvous_chosen = option_source(OPT_RNDV_BYTES) != OPTION_FROM_DEFAULT;
    p2p->hold_limit = option_bytes(OPT_HOLD_BYTES);
    p2p->retry.run = retry_all;
    list_init(&p2p->retry.link);
    list_init(&p2p->blocked);
    list_init(&p2p->pulls);
    list_init(&p2p->released);
    list_init(&p2p->watches);
    list_init(&p2p->copies);
    list_init(&p2p->moving);
    p2p->pid = getpid();
    pool_init(&p2p->rmas, sizeof(struct rma), 0);
    rma_target_init(p2p);
    pool_init(&p2p->sends, sizeof(struct send), 0);
    pool_init(&p2p->receives, sizeof(struct receive), _Alignof(struct receive));
    p2p->spare = pool_get(&p2p->sends);
    if (p2p->spare == NULL) {
        free(p2p);
        return -ENOMEM;
    }
    context->p2p = p2p;
    set_protocols(context);
    if (context->core->servers != 0)
        message_register(context, MESSAGE_SERVERS, answer_to_nobody, NULL);
    rmw_attach(p2p);
    return 0;
}

static void peer_free(struct p2p *p2p, struct peer *peer)
{
    struct list *item;

    while ((item = list_pop_front(&peer->queue)) != NULL) {
        struct operation *operation = list_entry(item, struct operation, link);

        operation->ops->free(p2p, operation);
    }
    while ((item = list_pop_front(&peer->receives)) != NULL)
        receive_free(p2p, list_entry(item, struct receive, link));
    rma_peer_free(p2p, peer);
    fences_free(peer);
    free(peer->races);
    free(peer);
}

void p2p_detach(struct context *context)
{
    struct p2p *p2p = context->p2p;
    struct peer *peer;
    size_t cursor = 0;
    uint32_t row = 0;
    struct list *item;
    void *object;

    while ((item = list_pop_front(&p2p->watches)) != NULL) {
        struct message_watch *watch = list_entry(item, struct message_watch, link);

        if (watch->ended != NULL)
            watch->ended(watch);
    }
    /* Sends that wait for an answer are known by their handle only. */
    while ((object = handle_next(&p2p->handles, &row)) != NULL) {
        struct operation *operation = object;

        if (operation->kind == OPERATION_OUTGOING)
            operation->ops->free(p2p, operation);
    }
    rma_drop_begun(p2p); /* they may be in lists of peers */
    while ((peer = u64map_next(&p2p->peers, &cursor)) != NULL)
        peer_free(p2p, peer);
    u64map_finish(&p2p->peers);
    /* Answers to this context's messages may still come when another has its place. */
    context->core->generations[context->offset] = p2p->handles.first + p2p->handles.most + 1;
    handle_table_finish(&p2p->handles);
    pool_finish(&p2p->sends);
    pool_finish(&p2p->rmws);
    pool_finish(&p2p->receives);
    rma_finish(p2p);
    list_remove(&p2p->retry.link);
    free(p2p);
    context->p2p = NULL;
}

/* ---- draining ---- */

/* The context ends: nobody looks at messages any more, but senders get an answer. */
static void abandon_receives(struct p2p *p2p)
{
    struct peer *peer;
    size_t cursor = 0;

    while ((peer = u64map_next(&p2p->peers, &cursor)) != NULL) {
        struct list *item, *following;

        list_for_each_safe (item, following, &peer->receives) {
            struct receive *receive = list_entry(item, struct receive, link);
            uint32_t answer = receive->answer;
            pami_recv_t recv = receive->recv;
            bool deferred = receive->deferred;

            if (receive->fetching)
                continue;
            if (receive->dispatch <= DISPATCH_ID_MAX)
                peer->refused = true;
            receive_free(p2p, receive);
            if (deferred) /* whoever keeps it must not resume it */
                recv.local_fn(p2p->context, recv.cookie, PAMI_SHUTDOWN);
            if (answer != 0)
                p2p_answer(p2p, peer, answer, PAMI_SHUTDOWN);
        }
    }
}

/* Peers that go on sending make more and more refusals: nobody waits for these. */
static bool is_blocked(const struct p2p *p2p)
{
    struct list *peers, *item;

    list_for_each (peers, &p2p->blocked) {
        const struct peer *peer = list_entry(peers, struct peer, blocked);

        list_for_each (item, &peer->queue)
            if (!send_is_refusal(list_entry(item, struct operation, link)))
                return true;
    }
    return false;
}

/* Something of ours is still needed by others: queued packets, puts, data that they pull. */
static bool is_outstanding(const struct p2p *p2p)
{
    uint32_t cursor = 0;
    void *object;

    if (is_blocked(p2p) || !list_empty(&p2p->copies) || !list_empty(&p2p->moving) ||
        p2p->moved != 0)
        return true;
    while ((object = handle_next(&p2p->handles, &cursor)) != NULL) {
        const struct operation *operation = object;

        if (operation->kind == OPERATION_OUTGOING && operation->ops->is_needed != NULL &&
            operation->ops->is_needed(operation) && !operation->peer->gone &&
            endpoint_task(operation->peer->endpoint) != p2p->context->core->task)
            return true;
    }
    return rma_puts_wait(p2p);
}

/* What the devices have taken is safe. */
static bool ports_settled(const struct context *context)
{
    bool settled = true;

    for (size_t i = 0; i < context->port_count; i++) {
        struct port *port = context->ports[i];

        if (port->ops->settled != NULL && !port->ops->settled(port))
            settled = false;
    }
    return settled;
}

/* A mover writes to memory that is about to go. */
static bool are_moving(struct context **contexts, size_t count)
{
    bool moving = false;

    for (size_t i = 0; i < count; i++)
        moving = moving || contexts[i]->p2p->moved != 0;
    return moving;
}

static int drain_step(struct context *context, bool moving)
{
    struct p2p *p2p = context->p2p;
    uint64_t before = rma_steps(p2p);
    int events = 0;

    /* A mover's word comes as any callback does, and so does its work, where that is done here. */
    if (unlikely(moving && (p2p->moved != 0 || atomic_load(&context->serves))))
        return context_pass(context);
    for (size_t i = 0; i < context->port_count; i++)
        events += context->ports[i]->ops->advance(context->ports[i]);
    if (!list_empty(&p2p->retry.link))
        events += retry_all(&p2p->retry, context);
    return events + (rma_steps(p2p) != before);
}

bool p2p_owe_origin(struct p2p *p2p, const struct packet_header *head)
{
    struct peer *peer = p2p_origin(p2p, head);

    if (peer == NULL)
        return false;
    p2p_owe(p2p, peer, head->aux);
    return true;
}

void p2p_answer_origin(struct p2p *p2p, const struct packet_header *head)
{
    struct peer *peer = p2p_origin(p2p, head);

    p2p->owed = 0;
    if (peer != NULL)
        p2p_answer(p2p, peer, head->aux, PAMI_SUCCESS);
}

/* What a callback, which ends the process, keeps its context from. */
static void interrupt(struct context *context)
{
    struct p2p *p2p = context->p2p;

    if (p2p->owed != 0)
        p2p_answer(p2p, p2p->owed_peer, p2p->owed, PAMI_SUCCESS);
    for (size_t i = 0; i < context->port_count; i++)
        if (context->ports[i]->ops->interrupt != NULL)
            context->ports[i]->ops->interrupt(context->ports[i]);
}

void p2p_drain(struct context **contexts, size_t count, double seconds)
{
    double end = clock_now() + seconds;
    uint32_t tries = 0;

    for (size_t i = 0; i < count; i++) {
        contexts[i]->p2p->draining = true;
        abandon_receives(contexts[i]->p2p);
        contexts[i]->paused = false;
        set_protocols(contexts[i]);
        if (context_calls(contexts[i]))
            interrupt(contexts[i]);
    }
    for (;;) {
        int events = 0;
        bool outstanding = false, moving = are_moving(contexts, count);
        struct context *context = contexts[0];

        for (size_t i = 0; i < count; i++) {
            events += drain_step(contexts[i], moving);
            outstanding =
                outstanding || is_outstanding(contexts[i]->p2p) || !ports_settled(contexts[i]);
        }
        if (!outstanding)
            return;
        if (events != 0) {
            end = clock_now() + seconds;
            tries = 0;
            continue;
        }
        if (clock_now() > end) {
            log_info("context %u: gave up on messages that nobody takes", context->offset);
            return;
        }
        if (++context->passes % 256 == 0)
            for (size_t i = 0; i < count; i++)
                context_tend(contexts[i]);
        yield_again(tries++);
    }
}
