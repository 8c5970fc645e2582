/*
 * Large data: pulled by the receiver straight from the sender's memory, or, where that does not
 * work, pushed by the sender once the receiver has said where it goes.
 *
 * The user's function has been called already, so there is always a destination. A pull that the
 * device refuses turns into a push without anybody noticing.
 */
#include <errno.h>
#include <stdlib.h>

#include "p2p/mover.h"
#include "p2p/p2p.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/log.h"
#include "util/minmax.h"
#include "util/option.h"
#include "util/race.h"

/* Data that is not simply copied to one place is pulled through a buffer of this size. */
#define BOUNCE_BYTES ((size_t)128 << 10)

/* Of messages from this size on the sender hears while they are fetched, so often, ns, at most. */
#define LONG_BYTES ((size_t)1 << 20)
#define SAY_NS UINT64_C(10000000)

/* An advance must come back. */
#define OWN_STEP_BYTES ((size_t)4 << 20)

/* What was to be the lead is pushed as well. */
static void forget_lead(struct receive *receive)
{
    if (receive->lead == 0)
        return;
    if (receive->peer->incoming == receive) {
        receive->peer->incoming = NULL;
        receive->peer->lead_unwanted = true;
    }
    receive->lead = receive->lead_got = receive->data_got = 0;
}

static void push_instead(struct p2p *p2p, struct receive *receive)
{
    list_remove(&receive->queue);
    forget_lead(receive);
    receive->pushing = true;
    receive->handle = handle_new(&p2p->handles, receive);
    if (receive->handle == 0 || !p2p_clear(p2p, receive))
        receive_finish(p2p, receive, error_set(PAMI_ENOMEM, "receive: out of memory"));
}

static pami_result_t fault(struct receive *receive, int error)
{
    struct peer *peer = receive->peer;

    if (error == -EPIPE) {
        peer->ended = true;
        return error_set(PAMI_ERROR, "receive: endpoint %u of task %u has gone", peer->endpoint,
                         endpoint_task(peer->endpoint));
    }
    return error_set(PAMI_ERROR,
                     "receive: memory of endpoint %u, or of this task, is not accessible",
                     peer->endpoint);
}

/* Where the next bytes go, and how many fit there. */
static char *landing(struct receive *receive, size_t *room)
{
    *room = receive->data_bytes - receive->data_got;
    if (receive->target != NULL)
        return receive->target + receive->data_got;
    if (receive->bounce == NULL)
        receive->bounce = malloc(BOUNCE_BYTES);
    if (*room > BOUNCE_BYTES)
        *room = BOUNCE_BYTES;
    return receive->bounce;
}

/* `moved` more bytes are where landing said. True when the message is complete. */
static bool landed(struct receive *receive, size_t moved)
{
    if (receive->target == NULL && receive->sinking) {
        p2p_distrust(receive->context->p2p);
        type_sink_write(&receive->sink, receive->bounce, moved);
    }
    receive->data_got += moved;
    return receive->data_got == receive->data_bytes && receive->lead_got == receive->lead;
}

void rendezvous_lead(struct p2p *p2p, struct receive *receive, const char *bytes, size_t count)
{
    if (likely(!receive->discard))
        memcpy(receive->target + receive->lead_got, bytes, count);
    receive->lead_got += count;
    if (receive->lead_got != receive->lead)
        return;
    receive->peer->incoming = NULL;
    if (receive->data_got == receive->data_bytes)
        receive_finish(p2p, receive, PAMI_SUCCESS);
}

/* The sender's context has ended meanwhile, without waiting any longer: its memory is its program's
 * again, and whatever was read there may be something else. Where that is known already, there is
 * nobody to answer any more. */
static bool is_given_up(const struct receive *receive)
{
    return receive->answer == 0 || (!receive->peer->gone && path_is_stale(receive->peer->path));
}

/* A sender that waits for no answer any more has gone, whoever has its place now. */
static void get_done(struct transfer *transfer, int error)
{
    struct receive *receive = container_of(transfer, struct receive, transfer);
    struct p2p *p2p = receive->context->p2p;

    receive->fetching = false;
    if (error == 0 && unlikely(is_given_up(receive)))
        error = -EPIPE;
    if (error == 0) {
        if (landed(receive, receive->bounce_bytes))
            receive_finish(p2p, receive, PAMI_SUCCESS);
    } else if (receive->answer == 0 || error == -EPIPE) {
        receive_finish(p2p, receive, fault(receive, -EPIPE));
    } else {
        push_instead(p2p, receive);
    }
}

/* Into `to`, of what all the sender's memory is, or of what was exposed for this message alone. */
static int fetch(struct receive *receive, char *to, size_t bytes, size_t *moved)
{
    struct path *path = receive->peer->path;
    const struct remote_access access = {
        .local = to,
        .remote = receive->address + receive->data_got,
        .base = receive->address,
        .far = receive->exposure,
        .bytes = bytes,
    };

    receive->transfer.done = get_done;
    receive->transfer.joint = p2p_has_processors(receive->context->p2p);
    if (receive->exposure.id == 0)
        return path->port->ops->get(path, to, access.remote, bytes, moved, &receive->transfer);
    return path->port->ops->remote(path, &access, &receive->transfer);
}

/* The data are in the sender's shared heap, which can be reached here. */
static bool is_in_heap(const struct receive *receive)
{
    return path_map(receive->peer->path, receive->address, receive->data_bytes) != NULL;
}

/* Exposed data goes straight to its place only: each piece of a bounce buffer might have to be made
 * known to the fabric. */
static bool can_fetch(const struct receive *receive)
{
    const struct path *path = receive->peer->path;

    if (receive->exposure.id != 0)
        return path->port->ops->remote != NULL && receive->target != NULL;
    return path->port->ops->get != NULL && (path->single_copy || is_in_heap(receive));
}

/* What this context sends to itself, and not only somebody's packet that says so. */
static bool is_own(const struct receive *receive)
{
    const struct context *context = receive->context;
    const struct operation *operation;
    const struct send *send;

    if (likely(!receive->peer->path->own))
        return false;
    operation = handle_find(&context->p2p->handles, receive->answer);
    if (operation == NULL || operation->kind != OPERATION_OUTGOING ||
        operation->peer != receive->peer || !send_is(operation))
        return false;
    send = container_of(operation, const struct send, op);
    return send->mode == MESSAGE_PULL && (uintptr_t)send->data == receive->address &&
           send->data_bytes == receive->data_bytes;
}

/* The data are there, and go to their place from there. */
static int take_own(struct p2p *p2p, struct receive *receive)
{
    const char *from = (const char *)(uintptr_t)receive->address + receive->data_got;

    p2p_distrust(p2p); /* the data function */
    receive_take(receive, from, smaller(receive->data_bytes - receive->data_got, OWN_STEP_BYTES));
    if (receive->data_got == receive->data_bytes)
        receive_finish(p2p, receive, PAMI_SUCCESS);
    return 1;
}

/* A context that ends waits for who fetches its data as long as something moves, and sees nothing
 * of that: it is told, often enough for its patience. */
static void say_it_moves(struct p2p *p2p, struct receive *receive)
{
    uint64_t moved = receive->data_got + receive->transfer.steps;
    uint64_t now;

    if (receive->data_bytes < LONG_BYTES || moved == receive->moved_said ||
        p2p->context->core->simulated || receive->answer == 0)
        return;
    now = clock_now_ns();
    if (now < receive->say_at)
        return;
    if (receive->say_at != 0)
        p2p_answer(p2p, receive->peer, receive->answer, PAMI_EAGAIN);
    receive->moved_said = moved;
    receive->say_at = now + larger((uint64_t)(1e9 / 4 * option_seconds(OPT_DRAIN_TIMEOUT)), SAY_NS);
}

/* One step of a pull: 1 when something moved, 0 when not. The receive may be gone afterwards. */
static int pull(struct p2p *p2p, struct receive *receive)
{
    struct path *path = receive->peer->path;
    size_t moved = 0;
    size_t room;
    char *to;
    int error;

    say_it_moves(p2p, receive);
    if (receive->fetching || receive->data_got == receive->data_bytes)
        return 0; /* ... or the lead has not come */
    if (receive->discard) {
        receive->data_got = receive->data_bytes;
        receive_finish(p2p, receive, PAMI_SUCCESS);
        return 1;
    }
    if (is_own(receive))
        return take_own(p2p, receive);
    to = can_fetch(receive) ? landing(receive, &room) : NULL;
    if (to == NULL) {
        push_instead(p2p, receive);
        return 1;
    }
    error = fetch(receive, to, room, &moved);
    if (error == -EINPROGRESS) {
        receive->fetching = true;
        receive->bounce_bytes = room;
        return 1;
    }
    if (error == -EAGAIN)
        return 0;
    if (error == 0 && unlikely(is_given_up(receive)))
        error = -EPIPE;
    if (error == 0) {
        if (landed(receive, moved))
            receive_finish(p2p, receive, PAMI_SUCCESS);
    } else if (error == -EPIPE || error == -EFAULT) {
        receive_finish(p2p, receive, fault(receive, error));
    } else {
        log_info("single copy from endpoint %u failed (errno %d): packets instead", path->endpoint,
                 -error);
        path->single_copy = path->single_copy && device_copy_may_work(error);
        push_instead(p2p, receive);
    }
    return 1;
}

/* The race for such messages; NULL: there is no memory for it. */
static struct race *race_of(const struct receive *receive)
{
    struct peer *peer = receive->peer;
    size_t size = race_size(receive->data_bytes, RACE_BYTES, RACE_SIZES);
    bool heap = is_in_heap(receive), is_new;
    struct race *race;

    if (peer->races == NULL)
        peer->races = calloc((size_t)2 * RACE_SIZES, sizeof(*peer->races));
    if (peer->races == NULL)
        return NULL;
    race = peer->races + (heap ? RACE_SIZES : 0);
    is_new = !race_is_known(&race[size]);
    race = race_in(race, RACE_SIZES, size);
    if (heap && is_new)
        race_warms_up(race);
    return race;
}

/*
 * A read by the kernel is one copy, a push two, but of two processors at a time; where lines are
 * slow, a sender that copies past the cache has them neither fetched out of it one by one nor back
 * when it writes there again. Where tasks share processors, the sender may not be running.
 */
static bool push_pays(struct p2p *p2p, struct receive *receive)
{
    if (!receive->peer->path->may_push || !p2p_has_processors(p2p))
        return false;
    receive->race = race_of(receive);
    if (receive->race == NULL)
        return false;
    receive->race_ticket = race_begin(receive->race, clock_ticks());
    return race_way(receive->race_ticket) == RACE_OTHER;
}

static void move_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct receive *receive = cookie;

    (void)context;
    receive->context->p2p->moved--;
    get_done(&receive->transfer, result == PAMI_SUCCESS ? 0 : -EIO);
}

/* A mover fetches it, if it wants to. */
static bool moved_by_others(struct p2p *p2p, struct receive *receive)
{
    const struct path *path = receive->peer->path;
    struct mover_fetch fetch = {
        .context = p2p->context,
        .endpoint = receive->peer->endpoint,
        .remote = receive->address + receive->data_got,
        .bytes = receive->data_bytes - receive->data_got,
        .done = move_done,
        .cookie = receive,
    };

    if (fetch.bytes < MOVER_BYTES || receive->target == NULL || receive->discard ||
        path->port->ops->get == NULL || !path->single_copy)
        return false;
    fetch.local = receive->target + receive->data_got;
    if (mover_fetch(&fetch) != 0)
        return false;
    p2p->moved++;
    receive->fetching = true;
    receive->bounce_bytes = fetch.bytes;
    return true;
}

/* A message with a lead, where large ones come and go by turns, has the wire to itself. */
void rendezvous_begin(struct p2p *p2p, struct receive *receive)
{
    struct peer *peer = receive->peer;

    if (!receive->discard && (receive->mode == MESSAGE_PUSH || push_pays(p2p, receive))) {
        push_instead(p2p, receive);
        return;
    }
    if (moved_by_others(p2p, receive))
        return;
    receive->transfer.alone = receive->lead != 0 && peer->replied && peer->pulled == 0;
    peer->replied = false;
    list_push_back(&p2p->pulls, &receive->queue);
    p2p_retry_later(p2p);
    pull(p2p, receive);
}

/* One step of every pull. */
int rendezvous_progress(struct p2p *p2p)
{
    struct list *item, *following;
    int events = 0;

    list_for_each_safe (item, following, &p2p->pulls) {
        events += pull(p2p, list_entry(item, struct receive, queue));
    }
    return events;
}

void p2p_handle_data(struct context *context, const struct packet_header *head, void *body)
{
    struct p2p *p2p = context->p2p;
    struct receive *receive = handle_find(&p2p->handles, head->aux);

    if (receive == NULL || receive->kind != OPERATION_RECEIVE || !receive->pushing ||
        receive->peer->endpoint != head->origin || head->meta_words != 0 ||
        head->header_bytes != 0 || head->payload_bytes > receive->data_bytes - receive->data_got) {
        context->counters[COUNTER_FOREIGN]++;
        return;
    }
    receive_feed(p2p, receive, body, head->payload_bytes);
}
