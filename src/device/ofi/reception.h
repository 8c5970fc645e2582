/*
 * The reception's own: what its files (reception.c, messages.c, door.c) share. Contexts use what
 * door.h declares.
 */
#ifndef LIBPAMI_DEVICE_OFI_RECEPTION_H
#define LIBPAMI_DEVICE_OFI_RECEPTION_H

#include <sys/types.h>

#include "device/ofi/connection.h"
#include "device/ofi/door.h"

/* Between two looks at connections that are not through, and at questions that wait, ms. */
#define LOOK_MS 100

/*
 * Tasks that took each other for dead, because the network between them was cut, may become
 * acquainted again when the program asks for it: that begins a new life of their acquaintance.
 * Lives are numbered from 0, and a greeting says which one is meant; a higher number than one's own
 * ends the present life. Numbers of packets begin anew with each, and what was sent in an earlier
 * one is not taken any more.
 */
struct peer {
    uint32_t task;
    atomic_bool dead;              /* written under device->lock */
    atomic_uint life;              /* likewise */
    struct connection *connection; /* that we send on; NULL: none yet, or dead */
    uint32_t unheard;              /* announcements that it has not heard of */
};

struct reception {
    struct ofi_device *device;
    pthread_t thread;
    pid_t pid;
    bool running;
    int epoll, listener, bell;
    int closed;          /* a port that nobody listens at, see greeting.c */
    struct list errands; /* under device->lock */
    bool stopping;       /* under device->lock */
    bool look_again;     /* under device->lock: at those that wait */
    struct list waiting; /* asks for contexts that do not exist yet */
    uint64_t look_at;    /* ns: at those that wait for a limited time */
    struct list connections;
    bool failed;       /* some of those are over */
    uint64_t sweep_at; /* ns: at those that take too long */
    uint32_t strangers;
    bool full;            /* of them: the listener is not watched */
    bool starved;         /* memory has been short, and that was said */
    struct u64map peers;  /* under device->lock, which the thread needs for writing only */
    uint32_t unheard;     /* under device->lock: announcements that are to be heard of; ... */
    pthread_cond_t heard; /* ... there is none left */
};

/* What contexts want to be sent, or an ask that waits for a context to be created. */
struct request {
    struct ofi_errand errand;
    struct message message;
    uint32_t life;  /* of who asks */
    uint64_t since; /* ns */
};

/* What an event of the epoll set is about: the low bits of a pointer. */
enum source {
    SOURCE_CONNECTION,
    SOURCE_SLOT,
    SOURCE_LISTENER,
    SOURCE_BELL,
};

static inline uint64_t source_of(enum source source, const void *object)
{
    return (uint64_t)(uintptr_t)object | (uint64_t)source;
}

/* The thread. */
void *reception_run(void *reception);

/* For it: zeroed, NULL: the end has come. */
void *reception_memory(struct reception *reception, size_t bytes);
void reception_tell_slot(struct ofi_slot *slot, struct ofi_notice *notice); /* under device->lock */
void reception_tell(struct reception *reception, uint32_t offset, const struct ofi_notice *what);
void reception_send(struct reception *reception, const struct message *message);
void reception_heard(struct reception *reception, uint32_t task); /* of one announcement */
/* That life of our acquaintance with the task. */
bool reception_is_over(struct reception *reception, uint32_t task, uint32_t life);

/* messages.c, by the thread: what has come; those whose questions wait for a context. */
void reception_take(void *reception, struct connection *connection, const struct message *message);
void reception_look_at_waiting(struct reception *reception);

/* With the port of the listener and the closed one. */
void reception_card_write(const struct ofi_device *device, uint16_t port, uint16_t closed,
                          char *card, size_t size);

/* False: it makes no sense, or tells of a task that cannot be talked to. */
bool reception_card_read(const struct ofi_device *device, const char *card, struct place *place,
                         char *why, size_t size);

#endif
