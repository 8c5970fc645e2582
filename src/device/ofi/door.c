/*
 * The reception's door: what contexts ask of it, and its start and end.
 *
 * Requests go over a list under device->lock and a bell (an eventfd), so that nobody waits for the
 * thread, whatever it does.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "device/ofi/reception.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/minmax.h"
#include "util/option.h"

#define STACK_BYTES ((size_t)256 << 10)
/* Connections that may wait to be let in, at least. */
#define WAITING_LEAST 1024u

/* ---- cards ---- */

static uint32_t packet_bytes(void)
{
    return (uint32_t)option_bytes(OPT_OFI_PACKET_BYTES);
}

/* The provider's name with + for ; which some launchers take for an end. */
static void provider_name(const struct ofi_device *device, char *name, size_t size)
{
    snprintf(name, size, "%s", device->provider.info->fabric_attr->prov_name);
    for (char *c = name; *c != '\0'; c++)
        if (*c == ';')
            *c = '+';
}

/* 3/provider/bytes of a packet/contexts/address/closed port/port */
void reception_card_write(const struct ofi_device *device, uint16_t port, uint16_t closed,
                          char *card, size_t size)
{
    char address[INET6_ADDRSTRLEN];
    char provider[64];

    ofi_address_format(&device->interface, address, sizeof(address));
    provider_name(device, provider, sizeof(provider));
    snprintf(card, size, "3/%s/%u/%u/%s/%u/%u", provider, packet_bytes(), device->contexts, address,
             closed, port);
}

static bool place_read(const char *address, unsigned closed, unsigned port, struct place *place)
{
    memset(place, 0, sizeof(*place));
    place->closed = htons((uint16_t)closed);
    if (port > UINT16_MAX || closed > UINT16_MAX)
        return false;
    if (inet_pton(AF_INET, address, &place->door.v4.sin_addr) == 1) {
        place->door.v4.sin_family = AF_INET;
        place->door.v4.sin_port = htons((uint16_t)port);
        return true;
    }
    place->door.v6.sin6_family = AF_INET6;
    place->door.v6.sin6_port = htons((uint16_t)port);
    return inet_pton(AF_INET6, address, &place->door.v6.sin6_addr) == 1;
}

bool reception_card_read(const struct ofi_device *device, const char *card, struct place *place,
                         char *why, size_t size)
{
    char provider[64], address[64], ours[64];
    unsigned bytes, contexts, port, closed;

    provider_name(device, ours, sizeof(ours));
    if (sscanf(card, "3/%63[^/]/%u/%u/%63[^/]/%u/%u", provider, &bytes, &contexts, address, &closed,
               &port) != 6 ||
        !place_read(address, closed, port, place))
        snprintf(why, size, "its card is %.100s", card);
    else if (strcmp(provider, ours) != 0)
        snprintf(why, size, "it uses the provider %s and this task %s (PAMI_OFI_PROVIDER)",
                 provider, ours);
    else if (bytes != packet_bytes())
        snprintf(why, size, "its PAMI_OFI_PACKET_BYTES is %u, and this task's %u", bytes,
                 packet_bytes());
    else if (contexts != device->contexts)
        snprintf(why, size, "its PAMI_NUM_CONTEXTS is %u, and this task's %u", contexts,
                 device->contexts);
    else
        return true;
    return false;
}

/* ---- what contexts call ---- */

/* No cancellation point, as contexts may have to tell something at any time. */
static void ring(struct reception *reception)
{
    const uint64_t once = 1;

    if (syscall(SYS_write, reception->bell, &once, sizeof(once)) < 0)
        log_debug("ofi: the bell is ringing already");
}

static int request(struct reception *reception, const struct message *message)
{
    struct request *request = malloc(sizeof(*request));

    if (request == NULL)
        return -ENOMEM;
    request->message = *message;
    request->errand.farewell = false;
    pthread_mutex_lock(&reception->device->lock);
    list_push_back(&reception->errands, &request->errand.link);
    reception->unheard += message->kind == MESSAGE_BACK;
    pthread_mutex_unlock(&reception->device->lock);
    ring(reception);
    return 0;
}

static int send_name(struct reception *reception, uint32_t from, uint32_t to,
                     enum message_kind kind, uint32_t count)
{
    const struct message message = {
        .kind = kind,
        .from = from,
        .to = to,
        .count = count,
        .ended = reception->device->slots[endpoint_offset(from)]->ended,
        .name = reception->device->slots[endpoint_offset(from)]->name,
    };

    return request(reception, &message);
}

int reception_ask(struct reception *reception, uint32_t from, uint32_t to, uint32_t as)
{
    return send_name(reception, from, to, MESSAGE_ASK, as);
}

/* A context is there again, and those who knew it took it for gone. */
int reception_announce(struct reception *reception, uint32_t from, uint32_t to)
{
    return send_name(reception, from, to, MESSAGE_BACK, 0);
}

/*
 * Whoever hears of a new context by another way may send to it at once. So that he does not take it
 * for the last one his reception has heard of both by then, which takes no advance of his. One that
 * does not get a processor is waited for as one that does not take messages.
 */
void reception_await(struct reception *reception)
{
    uint64_t end = clock_now_ns() + (uint64_t)(1e9 * option_seconds(OPT_DRAIN_TIMEOUT));
    const struct timespec until = {.tv_sec = (time_t)(end / 1000000000),
                                   .tv_nsec = (long)(end % 1000000000)};
    int cancel = ofi_enter(), error = 0;

    pthread_mutex_lock(&reception->device->lock);
    while (reception->unheard != 0 && error == 0)
        error = pthread_cond_timedwait(&reception->heard, &reception->device->lock, &until);
    pthread_mutex_unlock(&reception->device->lock);
    ofi_leave(cancel);
    if (error != 0)
        log_info("ofi: some tasks have not heard yet of contexts that were created again");
}

/* In place of an earlier one to the same endpoint that has not been sent yet. */
void reception_leave(struct reception *reception, struct ofi_farewell *farewell, uint32_t count)
{
    pthread_mutex_lock(&reception->device->lock);
    farewell->count = count;
    farewell->ended = reception->device->slots[endpoint_offset(farewell->from)]->ended;
    list_remove(&farewell->errand.link);
    list_push_back(&reception->errands, &farewell->errand.link);
    pthread_mutex_unlock(&reception->device->lock);
    ring(reception);
}

int reception_pulse(struct reception *reception, uint32_t from, uint32_t to, bool answer,
                    const struct ofi_ports *ports)
{
    struct message message = {.kind = answer ? MESSAGE_BEAT : MESSAGE_PULSE,
                              .from = from,
                              .to = to,
                              .count = ports != NULL};

    if (ports != NULL) {
        message.name.bytes = ports->count * (uint32_t)sizeof(ports->port[0]);
        memcpy(message.name.name, ports->port, message.name.bytes);
    }
    return request(reception, &message);
}

/* Nobody is told when there is no memory: the next silence will be noticed as well. */
void reception_cut(struct reception *reception, uint32_t to, uint32_t life)
{
    const struct message message = {.kind = MESSAGE_CUT, .to = to, .count = life};

    request(reception, &message);
}

uint32_t reception_life(struct reception *reception, uint32_t task)
{
    const struct peer *peer;
    uint32_t life;

    pthread_mutex_lock(&reception->device->lock);
    peer = u64map_get(&reception->peers, task);
    life = peer != NULL ? peer->life : 0;
    pthread_mutex_unlock(&reception->device->lock);
    return life;
}

/* Begins a new life when the task counts as dead; the present one. */
uint32_t reception_revive(struct reception *reception, uint32_t task)
{
    struct peer *peer;
    uint32_t life;

    pthread_mutex_lock(&reception->device->lock);
    peer = u64map_get(&reception->peers, task);
    if (peer != NULL && peer->dead) {
        peer->dead = false;
        peer->life++;
    }
    life = peer != NULL ? peer->life : 0;
    pthread_mutex_unlock(&reception->device->lock);
    return life;
}

void reception_look_again(struct reception *reception)
{
    pthread_mutex_lock(&reception->device->lock);
    reception->look_again = true;
    pthread_mutex_unlock(&reception->device->lock);
    ring(reception);
}

void reception_watch(struct reception *reception, struct ofi_slot *slot, bool on)
{
    struct epoll_event event = {
        .events = on ? EPOLLIN | EPOLLONESHOT : 0,
        .data.u64 = source_of(SOURCE_SLOT, slot),
    };

    if (!on && !slot->watched)
        return;
    if (epoll_ctl(reception->epoll, slot->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, slot->cq_fd,
                  &event) == 0)
        slot->watched = true;
    else
        log_warn("ofi: a queue cannot be watched: %s", strerror(errno));
}

/* ---- start and stop ---- */

static int add(struct reception *reception, int fd, enum source source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = source_of(source, NULL)};

    return epoll_ctl(reception->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

/* On the interface that is used, and no other. */
static int take_port(const struct ofi_device *device, int *fd, uint16_t *port)
{
    union ofi_address address = device->interface;
    socklen_t bytes = ofi_address_bytes(&address);

    *fd = socket_new(address.any.sa_family);
    if (*fd < 0)
        return *fd;
    if (bind(*fd, &address.any, bytes) != 0 || getsockname(*fd, &address.any, &bytes) != 0)
        return -errno;
    *port = ntohs(ofi_address_port(&address));
    return 0;
}

/* All tasks of the job may come at the same time; the system has its own idea of how many may wait
 * before the door. */
static int start_listening(struct reception *reception, uint16_t *port, uint16_t *closed)
{
    const struct bootstrap *job = reception->device->bootstrap;
    int waiting = (int)larger(WAITING_LEAST, job->tasks + job->servers);
    int error = take_port(reception->device, &reception->closed, closed);

    if (error == 0)
        error = take_port(reception->device, &reception->listener, port);
    if (error == 0 && listen(reception->listener, waiting) != 0)
        error = -errno;
    return error == 0 ? add(reception, reception->listener, SOURCE_LISTENER) : error;
}

static int count_tls(struct dl_phdr_info *info, size_t size, void *total)
{
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS)
            *(size_t *)total += info->dlpi_phdr[i].p_memsz + info->dlpi_phdr[i].p_align;
    return 0;
}

/* The C library cuts the program's thread-local variables out of the stack of every thread. */
static size_t stack_bytes(void)
{
    size_t bytes = STACK_BYTES;

    dl_iterate_phdr(count_tls, &bytes);
    return bytes;
}

/* Signals are for the program's own threads. */
int reception_start(struct reception *reception)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes());
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&reception->thread, &attributes, reception_run, reception);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error != 0)
        return -error;
    reception->running = true;
    pthread_setname_np(reception->thread, "pami-ofi");
    return 0;
}

static void release(struct reception *reception)
{
    struct peer *peer;
    size_t cursor = 0;
    struct list *item;

    while ((item = list_pop_front(&reception->connections)) != NULL)
        connection_free(list_entry(item, struct connection, link));
    while ((item = list_pop_front(&reception->waiting)) != NULL)
        free(list_entry(item, struct request, errand.link));
    while ((item = list_pop_front(&reception->errands)) != NULL)
        if (!list_entry(item, struct ofi_errand, link)->farewell)
            free(list_entry(item, struct request, errand.link));
    while ((peer = u64map_next(&reception->peers, &cursor)) != NULL)
        free(peer);
    u64map_finish(&reception->peers);
    socket_close(reception->listener);
    socket_close(reception->closed);
    if (reception->bell >= 0)
        close(reception->bell);
    if (reception->epoll >= 0)
        close(reception->epoll);
    pthread_cond_destroy(&reception->heard);
    free(reception);
}

int reception_open(struct ofi_device *device, char *card, size_t size, char *why, size_t why_size)
{
    struct reception *reception = calloc(1, sizeof(*reception));
    pthread_condattr_t by_clock;
    uint16_t port = 0, closed = 0;
    int error;

    if (reception == NULL) {
        snprintf(why, why_size, "out of memory");
        return -ENOMEM;
    }
    reception->device = device;
    reception->pid = getpid();
    reception->listener = reception->closed = -1;
    list_init(&reception->errands);
    list_init(&reception->waiting);
    list_init(&reception->connections);
    pthread_condattr_init(&by_clock);
    pthread_condattr_setclock(&by_clock, CLOCK_MONOTONIC);
    pthread_cond_init(&reception->heard, &by_clock);
    pthread_condattr_destroy(&by_clock);
    reception->epoll = epoll_create1(EPOLL_CLOEXEC);
    reception->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    error = reception->epoll < 0 || reception->bell < 0 ? -errno : 0;
    if (error == 0)
        error = add(reception, reception->bell, SOURCE_BELL);
    if (error == 0)
        error = start_listening(reception, &port, &closed);
    if (error != 0) {
        snprintf(why, why_size, "cannot listen for other tasks: %s", strerror(-error));
        release(reception);
        return error;
    }
    device->reception = reception;
    reception_card_write(device, port, closed, card, size);
    return 0;
}

/* In a forked child there is no thread, and nothing of the connection is ours. */
void reception_close(struct reception *reception)
{
    if (reception->pid != getpid())
        return;
    if (reception->running) {
        pthread_mutex_lock(&reception->device->lock);
        reception->stopping = true;
        pthread_mutex_unlock(&reception->device->lock);
        ring(reception);
        pthread_join(reception->thread, NULL);
    }
    release(reception);
}
