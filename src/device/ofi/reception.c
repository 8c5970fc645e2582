/*
 * The reception: one thread of the process that knows the tasks of other nodes.
 *
 * It finds out where a task is (the card, read from the bootstrap at the first need), exchanges
 * names of endpoints and good-byes with it over a connection (connection.c, messages.c), and
 * learns of its death by the end of that. Of slots it uses what device->lock guards, and the
 * descriptors of their queues, which it watches for contexts that sleep. Libfabric objects it
 * touches only of those whose context has closed, under the lock.
 *
 * All memory is per known task, nothing here is proportional to the size of the job.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "device/ofi/reception.h"
#include "util/clock.h"
#include "util/cpu.h"
#include "util/log.h"

#define EVENTS 32
/* Connections of strangers at a time. Others wait at the door, for they may all be tasks of the job
 * that want to become acquainted; who is a stranger for so long then makes room. */
#define STRANGERS_MAX 64u
#define STRANGER_NS UINT64_C(2000000000)
/* Before the next attempt to let somebody in, where the system refuses. */
#define ACCEPT_PAUSE_NS 10000000
/* ... to get memory. */
#define MEMORY_PAUSE_NS 10000000
/* How long the end waits for what is still to be said. */
#define STOP_NS UINT64_C(1000000000)

/* ---- memory ---- */

/*
 * Somebody waits for ever for a message or a notice that is dropped. Nobody waits for this thread,
 * but for the end, which does not need them any more: false. So without memory it waits. Not under
 * device->lock.
 */
static bool wait_for_memory(struct reception *reception)
{
    static const struct timespec pause = {.tv_nsec = MEMORY_PAUSE_NS};
    bool stopping;

    if (!reception->starved)
        log_warn("ofi: out of memory: what other tasks say has to wait");
    reception->starved = true;
    nanosleep(&pause, NULL);
    pthread_mutex_lock(&reception->device->lock);
    stopping = reception->stopping;
    pthread_mutex_unlock(&reception->device->lock);
    return !stopping;
}

void *reception_memory(struct reception *reception, size_t bytes)
{
    void *memory;

    do
        memory = calloc(1, bytes);
    while (unlikely(memory == NULL) && wait_for_memory(reception));
    return memory;
}

/* ---- telling slots ---- */

/* Under device->lock. */
void reception_tell_slot(struct ofi_slot *slot, struct ofi_notice *notice)
{
    list_push_back(&slot->notices, &notice->link);
    atomic_store_explicit(&slot->news, 1, memory_order_relaxed);
    if (slot->armed && slot->open)
        slot->port->port.params.wake(slot->port->port.params.context);
}

void reception_tell(struct reception *reception, uint32_t offset, const struct ofi_notice *what)
{
    struct ofi_device *device = reception->device;
    struct ofi_notice *notice = reception_memory(reception, sizeof(*notice));

    if (notice == NULL)
        return;
    *notice = *what;
    pthread_mutex_lock(&device->lock);
    if (device->slots[offset] != NULL && device->slots[offset]->open) {
        reception_tell_slot(device->slots[offset], notice);
        notice = NULL;
    }
    pthread_mutex_unlock(&device->lock);
    free(notice);
}

static void tell_dead(struct reception *reception, uint32_t task, uint32_t life)
{
    const struct ofi_notice dead = {.kind = NOTICE_DEAD, .endpoint = task, .life = life};

    for (uint32_t i = 0; i < reception->device->contexts; i++)
        reception_tell(reception, i, &dead);
}

/* ---- peers ---- */

static bool is_stranger(enum connection_state state)
{
    return state == CONNECTION_GREETED || state == CONNECTION_CHECKING;
}

/* Look at the state afterwards. */
static void watch_connection(struct reception *reception, struct connection *connection, int how)
{
    struct epoll_event event = {
        .events = EPOLLIN | (connection_has_output(connection) ? EPOLLOUT : 0u),
        .data.u64 = source_of(SOURCE_CONNECTION, connection),
    };

    connection->epoll = reception->epoll;
    if (epoll_ctl(reception->epoll, how, connection->fd, &event) != 0)
        connection->state = CONNECTION_FAILED;
    reception->failed = reception->failed || connection->state == CONNECTION_FAILED;
}

/* NULL: the end has come. */
static struct peer *peer_of(struct reception *reception, uint32_t task)
{
    struct peer *peer = u64map_get(&reception->peers, task);
    int error;

    if (peer != NULL)
        return peer;
    peer = reception_memory(reception, sizeof(*peer));
    if (peer == NULL)
        return NULL;
    peer->task = task;
    do {
        pthread_mutex_lock(&reception->device->lock);
        error = u64map_put(&reception->peers, task, peer);
        pthread_mutex_unlock(&reception->device->lock);
    } while (unlikely(error != 0) && wait_for_memory(reception));
    if (error == 0)
        return peer;
    free(peer);
    return NULL;
}

static struct connection *connect_to(struct reception *reception, const struct peer *peer)
{
    struct ofi_device *device = reception->device;
    struct connection *connection;
    struct place place;
    char key[BOOTSTRAP_KEY_MAX + 1];
    char card[OFI_CARD_MAX];
    char why[256];
    uint32_t task = peer->task;
    int error;

    snprintf(key, sizeof(key), "ofi.%s.%u", device->client, task);
    error = bootstrap_get(device->bootstrap, key, card, sizeof(card));
    if (error != 0) {
        log_error("ofi: task %u has no card: %s", task, strerror(-error));
        return NULL;
    }
    if (!reception_card_read(device, card, &place, why, sizeof(why))) {
        log_error("ofi: task %u cannot be talked to: %s", task, why);
        return NULL;
    }
    if (place.door.any.sa_family != device->interface.any.sa_family)
        log_warn("ofi: task %u has an address of another family than this one: %s "
                 "(PAMI_OFI_INTERFACE)",
                 task, card);
    do
        connection = connection_to(device, task, peer->life, &place);
    while (connection == NULL && errno == ENOMEM && wait_for_memory(reception));
    if (connection == NULL)
        return NULL;
    list_push_back(&reception->connections, &connection->link);
    if (connection->state != CONNECTION_PAUSED)
        watch_connection(reception, connection, EPOLL_CTL_ADD);
    return connection->state == CONNECTION_FAILED ? NULL : connection;
}

/* So many announcements have been heard of, or never will be. */
static void count_heard(struct reception *reception, struct peer *peer, uint32_t count)
{
    peer->unheard -= count;
    pthread_mutex_lock(&reception->device->lock);
    reception->unheard -= count;
    if (reception->unheard == 0)
        pthread_cond_broadcast(&reception->heard);
    pthread_mutex_unlock(&reception->device->lock);
}

void reception_heard(struct reception *reception, uint32_t task)
{
    struct peer *peer = u64map_get(&reception->peers, task);

    if (peer != NULL && peer->unheard != 0)
        count_heard(reception, peer, 1);
}

static void peer_died(struct reception *reception, struct peer *peer, const char *why)
{
    struct list *item;
    uint32_t life;

    if (peer->dead)
        return;
    log_debug("ofi: task %u: %s", peer->task, why);
    /* From now on a context that has heard of an earlier death may begin the next life. */
    pthread_mutex_lock(&reception->device->lock);
    peer->dead = true;
    life = peer->life;
    pthread_mutex_unlock(&reception->device->lock);
    peer->connection = NULL;
    count_heard(reception, peer, peer->unheard);
    list_for_each (item, &reception->connections) {
        struct connection *connection = list_entry(item, struct connection, link);

        if (!is_stranger(connection->state) && connection->task == peer->task)
            connection->state = CONNECTION_FAILED;
    }
    reception->failed = true;
    tell_dead(reception, peer->task, life);
}

/* The proofs are through, in a life of our acquaintance with the task. False: that is over. */
static bool acquaint(struct reception *reception, struct peer *peer, struct connection *connection)
{
    enum connection_state state = connection->state;
    uint32_t life = connection->hello.life;

    if (life <= peer->life)
        return life == peer->life && !peer->dead;
    peer_died(reception, peer, "begins anew");
    connection->state = state;
    pthread_mutex_lock(&reception->device->lock);
    peer->life = life;
    peer->dead = false;
    pthread_mutex_unlock(&reception->device->lock);
    return true;
}

/* Contexts may begin the next life of our acquaintance at any time. */
static bool is_dead(struct reception *reception, const struct peer *peer, uint32_t *life)
{
    bool dead;

    pthread_mutex_lock(&reception->device->lock);
    dead = peer->dead;
    *life = peer->life;
    pthread_mutex_unlock(&reception->device->lock);
    return dead;
}

bool reception_is_over(struct reception *reception, uint32_t task, uint32_t life)
{
    const struct peer *peer = u64map_get(&reception->peers, task);
    uint32_t present;

    return peer == NULL || is_dead(reception, peer, &present) || present != life;
}

/* To the task of message->to. */
void reception_send(struct reception *reception, const struct message *message)
{
    struct peer *peer = peer_of(reception, endpoint_task(message->to));
    uint32_t life;
    int error;

    if (peer == NULL)
        return;
    if (message->kind == MESSAGE_CUT) {
        if (message->count == peer->life)
            peer_died(reception, peer, "is cut off");
        return;
    }
    peer->unheard += message->kind == MESSAGE_BACK;
    if (is_dead(reception, peer, &life)) {
        if (message->kind == MESSAGE_ASK)
            tell_dead(reception, peer->task, life);
        count_heard(reception, peer, peer->unheard);
        return;
    }
    /* Of no interest to whom we do not know. */
    if (peer->connection == NULL &&
        (message->kind == MESSAGE_LEAVE || message->kind == MESSAGE_BACK)) {
        count_heard(reception, peer, peer->unheard);
        return;
    }
    if (peer->connection == NULL)
        peer->connection = connect_to(reception, peer);
    if (peer->connection == NULL) {
        peer_died(reception, peer, "cannot be reached");
        return;
    }
    do
        error = connection_send(peer->connection, message);
    while (unlikely(error != 0) && wait_for_memory(reception));
    if (error != 0)
        log_error("ofi: out of memory: a message to task %u is lost", peer->task);
    else if (peer->connection->state == CONNECTION_OPEN)
        watch_connection(reception, peer->connection, EPOLL_CTL_MOD);
    if (peer->connection->state == CONNECTION_FAILED)
        peer_died(reception, peer, "cannot be talked to any more");
}

/* ---- connections ---- */

/* Lets strangers in, or leaves them at the door. */
static void open_door(struct reception *reception, bool open)
{
    struct epoll_event event = {
        .events = open ? EPOLLIN : 0,
        .data.u64 = source_of(SOURCE_LISTENER, NULL),
    };

    if (epoll_ctl(reception->epoll, EPOLL_CTL_MOD, reception->listener, &event) == 0)
        reception->full = !open;
}

/* Without descriptors who waits at the door is heard of again at once: hence the pause. */
static void accept_all(struct reception *reception)
{
    static const struct timespec pause = {.tv_nsec = ACCEPT_PAUSE_NS};

    while (reception->strangers < STRANGERS_MAX) {
        int fd = socket_accept(reception->listener);
        struct connection *connection;

        if (fd < 0) {
            if (fd != -EAGAIN && fd != -EINTR && fd != -ECONNABORTED)
                nanosleep(&pause, NULL);
            return;
        }
        do
            connection = connection_from(reception->device, fd);
        while (connection == NULL && wait_for_memory(reception));
        if (connection == NULL) {
            socket_close(fd);
            return;
        }
        list_push_back(&reception->connections, &connection->link);
        watch_connection(reception, connection, EPOLL_CTL_ADD);
        reception->strangers += connection->state != CONNECTION_FAILED;
    }
    open_door(reception, false);
}

/* The proofs are through. */
static void welcome(struct reception *reception, struct connection *connection)
{
    struct peer *peer = peer_of(reception, connection->task);

    connection_open(reception->device, connection,
                    peer != NULL && acquaint(reception, peer, connection));
    if (connection->state == CONNECTION_OPEN && peer->connection == NULL)
        peer->connection = connection;
    log_debug("ofi: connected with task %u", connection->task);
}

static void progress(struct reception *reception, struct connection *connection)
{
    enum connection_state before = connection->state;
    bool known = !is_stranger(before);
    struct peer *peer;

    if (before == CONNECTION_FAILED)
        return;
    connection_progress(reception->device, connection, reception_take, reception);
    if (connection->state == CONNECTION_PROVEN ||
        (connection->state == CONNECTION_OPEN && before != CONNECTION_OPEN))
        welcome(reception, connection);
    known = known || connection->state == CONNECTION_OPEN;
    if (connection->state != CONNECTION_FAILED && connection->fd >= 0)
        watch_connection(reception, connection, EPOLL_CTL_MOD);
    if (is_stranger(before) && !is_stranger(connection->state))
        reception->strangers--;
    if (connection->state != CONNECTION_FAILED)
        return;
    reception->failed = true;
    /* The end of a conversation with one of us is the end of that task; strangers come and go. */
    if (known) {
        peer = peer_of(reception, connection->task);
        if (peer != NULL)
            peer_died(reception, peer, "its connection has ended");
    } else {
        log_info("ofi: sent a stranger away");
    }
}

/* Meanwhile the other task has come to us: what we have to say to it goes that way. False: it has
 * not, or there is no memory. */
static bool goes_by_theirs(struct reception *reception, struct connection *connection)
{
    struct peer *peer = peer_of(reception, connection->task);
    struct list *item;

    list_for_each (item, &reception->connections) {
        struct connection *theirs = list_entry(item, struct connection, link);

        if (theirs->state != CONNECTION_OPEN || theirs->task != connection->task || peer == NULL ||
            connection_hand_over(connection, theirs) != 0)
            continue;
        watch_connection(reception, theirs, EPOLL_CTL_MOD);
        log_info("ofi: task %u has come to us meanwhile", peer->task);
        peer->connection = theirs;
        connection->state = CONNECTION_FAILED;
        reception->failed = true;
        return true;
    }
    return false;
}

/* A greeting, with another attempt. */
static bool goes_on(struct reception *reception, struct connection *connection)
{
    if (connection->state == CONNECTION_PAUSED && goes_by_theirs(reception, connection))
        return true;
    greeting_late(reception->device, connection);
    if (connection->state == CONNECTION_CONNECTING || connection->state == CONNECTION_KNOCKING)
        watch_connection(reception, connection, EPOLL_CTL_ADD);
    return connection->state != CONNECTION_FAILED;
}

/* Those that take too long. */
static void look_at_deadlines(struct reception *reception, uint64_t now)
{
    struct list *item;

    list_for_each (item, &reception->connections) {
        struct connection *connection = list_entry(item, struct connection, link);
        bool stranger = is_stranger(connection->state);
        struct peer *peer;

        if (connection->state == CONNECTION_FAILED || connection->deadline == 0)
            continue;
        if (now < connection->deadline &&
            !(stranger && reception->full && now - connection->since > STRANGER_NS))
            continue;
        if (!stranger && goes_on(reception, connection))
            continue;
        connection->state = CONNECTION_FAILED;
        reception->failed = true;
        peer = stranger ? NULL : peer_of(reception, connection->task);
        if (stranger)
            reception->strangers--;
        else if (peer != NULL)
            peer_died(reception, peer, "does not answer");
    }
    reception->sweep_at = now + LOOK_MS * UINT64_C(1000000);
}

static void free_failed(struct reception *reception)
{
    struct list *item, *following;

    reception->failed = false;
    list_for_each_safe (item, following, &reception->connections) {
        struct connection *connection = list_entry(item, struct connection, link);

        if (connection->state == CONNECTION_FAILED)
            connection_free(connection);
    }
}

/* There may be as many connections as tasks, so they are not all looked at after each event. */
static void sweep(struct reception *reception)
{
    uint64_t now = clock_now_ns();

    if (now >= reception->sweep_at)
        look_at_deadlines(reception, now);
    if (reception->failed)
        free_failed(reception);
    if (reception->full && reception->strangers < STRANGERS_MAX)
        open_door(reception, true);
}

/* ---- the thread ---- */

/* The next message that a context wants to be sent. A farewell may be used again as soon as it is
 * out of the list. */
static bool next_errand(struct reception *reception, struct message *message)
{
    struct list *item;
    struct request *request = NULL;

    pthread_mutex_lock(&reception->device->lock);
    item = list_pop_front(&reception->errands);
    if (item != NULL && list_entry(item, struct ofi_errand, link)->farewell) {
        const struct ofi_farewell *farewell = list_entry(item, struct ofi_farewell, errand.link);

        *message = (struct message){
            .kind = MESSAGE_LEAVE,
            .from = farewell->from,
            .to = farewell->to,
            .count = farewell->count,
            .ended = farewell->ended,
        };
    } else if (item != NULL) {
        request = list_entry(item, struct request, errand.link);
        *message = request->message;
    }
    pthread_mutex_unlock(&reception->device->lock);
    free(request);
    return item != NULL;
}

static void take_errands(struct reception *reception, bool *stopping)
{
    struct ofi_device *device = reception->device;
    struct message message;
    uint64_t rings;
    bool look_again;

    if (read(reception->bell, &rings, sizeof(rings)) < 0)
        rings = 0;
    pthread_mutex_lock(&device->lock);
    *stopping = reception->stopping;
    look_again = reception->look_again;
    reception->look_again = false;
    pthread_mutex_unlock(&device->lock);
    while (next_errand(reception, &message))
        reception_send(reception, &message);
    if (look_again)
        reception_look_at_waiting(reception);
}

/* A queue that a sleeping context waits for has something. */
static void wake_slot(struct reception *reception, struct ofi_slot *slot)
{
    pthread_mutex_lock(&reception->device->lock);
    if (slot->armed && slot->open) {
        slot->rung = true;
        slot->port->port.params.wake(slot->port->port.params.context);
    }
    pthread_mutex_unlock(&reception->device->lock);
}

static void take_event(struct reception *reception, uint64_t data, bool *stopping)
{
    void *object = (void *)(uintptr_t)(data & ~UINT64_C(3));

    switch ((enum source)(data & 3)) {
    case SOURCE_CONNECTION:
        progress(reception, object);
        break;
    case SOURCE_SLOT:
        wake_slot(reception, object);
        break;
    case SOURCE_LISTENER:
        accept_all(reception);
        break;
    case SOURCE_BELL:
        take_errands(reception, stopping);
        break;
    }
}

static bool has_something_to_say(const struct reception *reception)
{
    const struct list *item;

    list_for_each (item, &reception->connections) {
        const struct connection *connection =
            list_entry((struct list *)(uintptr_t)item, struct connection, link);

        if (connection->state != CONNECTION_FAILED && connection->out_bytes != 0)
            return true;
    }
    return false;
}

void *reception_run(void *cookie)
{
    struct reception *reception = cookie;
    struct epoll_event events[EVENTS];
    uint64_t end = 0;
    bool stopping = false;

    atomic_store(&reception->device->device.thread, gettid());
    while (!stopping || (has_something_to_say(reception) && clock_now_ns() < end)) {
        int count = epoll_wait(reception->epoll, events, EVENTS,
                               list_empty(&reception->connections) ? -1 : LOOK_MS);

        for (int i = 0; i < count; i++)
            take_event(reception, events[i].data.u64, &stopping);
        if (!list_empty(&reception->waiting) && clock_now_ns() >= reception->look_at)
            reception_look_at_waiting(reception);
        if (stopping && end == 0)
            end = clock_now_ns() + STOP_NS;
        sweep(reception);
    }
    return NULL;
}
