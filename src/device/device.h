/*
 * Devices: what moves packets and bytes between tasks.
 *
 * A device belongs to a client. A port is one context's share of it, and a path is what a port
 * knows of one destination endpoint. Ports and paths belong to the thread that owns the context:
 * nothing here takes a lock. Devices know nothing of protocols; arriving packets go up through the
 * deliver function that the context handed down when it opened the port.
 *
 * Adding a device: one folder under src/device, one row in src/device/table.c.
 */
#ifndef LIBPAMI_DEVICE_DEVICE_H
#define LIBPAMI_DEVICE_DEVICE_H

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "device/packet.h"
#include "util/cpu.h"

/* Largest body a header can describe part by part, and the body that needs no buffer anywhere. */
#define PACKET_BODY_MAX 65528u
#define PACKET_SMALL 104u

/* Largest alignment of a block of a shared heap. */
#define HEAP_ALIGNMENT_MOST ((size_t)2 << 20)

struct bootstrap;
struct device;
struct port;
struct path;

/* What a device is told when a client opens it. */
struct device_params {
    struct bootstrap *bootstrap; /* identity, peers, exchange of cards */
    const char *client;          /* key of the client: equal on all its tasks, unlike any other's */
    uint32_t contexts;           /* contexts a task can have at most, equal on all tasks */
    bool servers;                /* the job's server processes have this client too */
    struct device *heap;         /* the one with this task's shared heap; NULL: none yet */
    const void *private_params;  /* the sim device's own; NULL for all others */
};

/*
 * Called by a port's advance for each packet that arrived. `head` and `body` may be read and
 * written until the function returns, and `body` is aligned to 8 bytes. The device has checked
 * that body really holds packet_body_bytes(head).
 */
typedef void device_deliver_function(void *context, const struct packet_header *head, void *body);

/* Given lines of text that explain something to a person. */
typedef void device_explain_function(void *cookie, const char *line);

struct port_params {
    uint32_t endpoint; /* of the context that opens the port */
    uint32_t offset;   /* of that context within its client */
    void *context;     /* first argument of deliver */
    device_deliver_function *deliver;
    /* For ports that cannot be slept on by themselves: ends the context's sleep. Any thread. */
    void (*wake)(void *context);
    uint64_t *counters; /* indexed by enum device_counter */
};

/* What a device counts; shown by PAMI_STATS. */
enum device_counter {
    DEVICE_SENT,       /* packets accepted */
    DEVICE_SENT_BYTES, /* body bytes of those; not by shm, whose short ones leave no time for it */
    DEVICE_RECEIVED,   /* packets delivered */
    DEVICE_REFUSED,    /* -EAGAIN answers */
    DEVICE_COPIED,     /* bytes moved by single copy */
    DEVICE_HELPED,     /* ... for the other task, which had asked for it */
    DEVICE_DROPPED,    /* malformed packets */
    DEVICE_STALE,      /* packets for a context that was destroyed */
    DEVICE_COUNTERS
};

struct device {
    const struct device_ops *ops;
    atomic_int thread; /* id of the thread that it runs in this process, 0: none */
};

struct port {
    const struct device_ops *ops;
    uint32_t rest;       /* passes that leave this port out; fewer where the other ports are busy */
    uint32_t others;     /* events of theirs meanwhile */
    uint64_t rest_until; /* clock_ticks when that ends at the latest */
    struct device *device;
    struct port_params params;
    uint32_t life;     /* what paths to this endpoint have as theirs, where they are told */
    uint32_t sleep_us; /* longest sleep while armed that loses nothing, us; 0: any */
    /* The word of a shared futex that arm sets to 1 and wake to 0, for who sleeps for several ports
     * at once, or rings when the port may be gone; it stays where it is while the device is open.
     * NULL: sleep and wake are the only ways. */
    atomic_uint *doorbell;
    bool unsent;    /* packets wait for more to go with: flush is due at the end of a pass */
    bool tend_soon; /* house-keeping is due before its time */
    bool unused;    /* closed before its context was: another one is to find what has come */
};

/*
 * One destination as seen by one port. `am` and the limits are here, so that the send path touches
 * one structure only.
 */
struct path {
    /*
     * One packet, all or nothing. Packets of one path arrive in the order in which they were
     * accepted; so do packets of two paths of one port to one endpoint.
     */
    int (*am)(struct path *, const struct packet *);
    /*
     * The same for a short packet without protocol data, whose header is in two words, with few
     * stores: what a sender writes besides the packet keeps the packets before it in its store
     * buffer. Anything but 0 means: not this way, use am.
     */
    int (*am_short)(struct path *, uint64_t word0, uint64_t word1, const struct iovec *header,
                    const struct iovec *data);
    struct port *port;
    uint32_t endpoint;
    uint32_t packet_max; /* largest packet body of what goes in one packet */
    bool local;          /* the destination shares this node's memory */
    bool single_copy;    /* get and put reach any memory of the destination's task */
    bool unwatched;      /* ... and no tool here minds if others write to this task's memory */
    bool may_push;       /* ... but packets may be faster */
    bool own;            /* the destination is the port's context itself: nothing need be moved */
    bool closed;         /* the destination has left for good; am answers -EPIPE */
    /*
     * The destination's number of lives, and as of when the path was opened; NULL: not told. When
     * they differ am answers -EAGAIN until the port's tend has reported the destination as gone;
     * opening the path again leads to the new life.
     */
    const _Atomic uint32_t *lives;
    uint32_t life;
    /* Data up to this is better sent than fetched, unless PAMI_RNDV_BYTES says otherwise; 0: the
     * device has no opinion. */
    uint32_t eager_bytes;
    /* What a message is longer than a packet had better go in a short packet before that, if it is
     * no more than this: `more`. 0: the device does not send several as one. */
    uint32_t ahead_bytes;
    /* Of what is to be fetched, so much may go along meanwhile. */
    uint32_t lead_bytes;
    /* Largest packet body of what goes in several, see path_piece; less than packet_max: that. */
    uint32_t bulk_max;
    /*
     * The destination task's shared heap: its address there, and where it is mapped here. A mapping
     * lives as long as the device, whatever becomes of the destination. heap_bytes 0: not known
     * (yet), or none; see device_ops.map.
     */
    uint64_t heap_remote;
    size_t heap_bytes;
    char *heap_local;
    /* The same heap where it cannot be mapped, but read by `remote`, at any time and without a
     * question. open_bytes 0: not known (yet), or none. */
    uint64_t open_remote;
    size_t open_bytes;
};

/* The destination has been destroyed, and perhaps made again, since the path was opened. */
static inline bool path_is_stale(const struct path *path)
{
    return path->lives != NULL &&
           atomic_load_explicit(path->lives, memory_order_acquire) != path->life;
}

/* The body of each of the packets that so many bytes take. A quarter of them: a long packet costs
 * less for each byte, but what is in one is read while the next is written. */
static inline uint32_t path_piece(const struct path *path, uint64_t bytes)
{
    uint32_t piece = bytes / 4 < path->bulk_max ? (uint32_t)(bytes / 4) : path->bulk_max;

    return piece > path->packet_max ? piece & ~(CACHE_LINE - 1u) : path->packet_max;
}

/* Where `bytes` at the destination's address `remote` are mapped here; NULL: not that we know. */
static inline void *path_address(const struct path *path, uint64_t remote, size_t bytes)
{
    uint64_t offset = remote - path->heap_remote;

    if (offset >= path->heap_bytes || bytes > path->heap_bytes - offset)
        return NULL;
    return path->heap_local + offset;
}

/* A task's shared heap: its address there, where it is mapped here. */
struct heap_view {
    uint64_t remote;
    size_t bytes;
    char *local;
};

/*
 * Memory that other tasks may read and write without asking, by way of the context that has exposed
 * it. They are told all of this.
 */
struct exposure {
    uint64_t key; /* cannot be guessed */
    uint32_t id;  /* 0: not exposed */
    uint32_t offset;
};

/* This task's whole memory is exposed, by all of its contexts. */
#define EXPOSURE_ALL UINT32_MAX

/* A read or write of what the destination of a path has exposed. */
struct remote_access {
    bool put;
    void *local;
    struct exposure near;  /* that holds `local`, if any does */
    uint64_t remote, base; /* address there; where its exposure begins */
    struct exposure far;
    size_t bytes;
};

/* How a path is opened. */
#define PATH_PACKETS_ONLY 1u /* share no memory with the destination, for programs that forbid it */
#define PATH_EVEN_CLOSED 2u  /* though the destination has left: to read what it sent before */
#define PATH_HEARD 4u        /* to answer: the destination has sent a packet to this port */
#define PATH_SAME_LIFE 8u    /* contexts that its task has created anew count as gone */

/* Completion of a get or put that could not finish inside the call. */
struct transfer {
    void (*done)(struct transfer *, int error);
    uint32_t steps; /* another one when some of it has been moved */
    bool alone;     /* the other end waits for it, and does nothing else meanwhile */
    bool joint;     /* the other end may do a part of it: it has a processor */
};

/* After an error of get, put or copyv the next one may work: something was lacking, or it was said
 * (-EOPNOTSUPP) to be about this time only. Else a system call is forbidden, or does not exist. */
static inline bool device_copy_may_work(int error)
{
    return error == -EOPNOTSUPP || error == -ENOMEM || error == -EMFILE || error == -ENFILE;
}

/*
 * Results are 0 or a negative errno; those that matter:
 *   -EAGAIN       no room now, ask again after an advance (never blocks)
 *   -ENOBUFS      am: no buffer for a body of this size now, a body of PACKET_SMALL may go through
 *   -EINPROGRESS  get and put: started, transfer->done will be called from advance
 *   -EPIPE        the destination has closed its context or its task is dead
 *   -ENODEV       open: unusable here, `why` says why
 */
struct device_ops {
    const char *name;
    const char *description;

    int (*open)(const struct device_params *params, struct device **device, char *why, size_t size);
    void (*close)(struct device *device);

    /* 0: cannot reach the task; else a relative cost, the cheapest device wins. */
    int (*reach)(struct device *device, uint32_t task);

    int (*port_open)(struct device *device, const struct port_params *params, struct port **port);
    void (*port_close)(struct port *port);

    /* `how` is a sum of PATH_*. Paths live as long as their port. */
    int (*path_open)(struct port *port, uint32_t endpoint, unsigned how, struct path **path);

    /*
     * Read or write `bytes` of the destination task's memory: of any if single_copy is set, else of
     * its shared heap, as far as `map` knows it. NULL where the device has none.
     * Bounded work: a device may move less than asked; *moved says how much. Of other errors than
     * those above device_copy_may_work tells which are about this time only.
     */
    int (*get)(struct path *path, void *local, uint64_t remote, size_t bytes, size_t *moved,
               struct transfer *transfer);
    int (*put)(struct path *path, const void *local, uint64_t remote, size_t bytes, size_t *moved,
               struct transfer *transfer);

    /*
     * The same between pieces: as many bytes on both sides, at most 1024 pieces on each. Ends
     * inside the call. NULL: piece by piece, then.
     */
    int (*copyv)(struct path *path, bool put, const struct iovec *local, size_t local_count,
                 const struct iovec *remote, size_t remote_count, size_t *moved);

    /*
     * Memory that is read and written by the network itself. NULL: the device has no such thing.
     * expose: to be read, or `written` as well. -EOPNOTSUPP: not here, or not this memory. The
     * port's owner calls.
     * conceal: of the context `offset`, which need not be the port's. Soon nobody reaches it.
     * remote: -EINPROGRESS, or -EAGAIN, -EPIPE, -EOPNOTSUPP: not this way. What has been put is
     * visible at the destination when transfer->done is called; another error than -EPIPE there:
     * it may be done in another way.
     */
    int (*expose)(struct port *port, void *address, size_t bytes, bool written,
                  struct exposure *exposure);
    void (*conceal)(struct port *port, const struct exposure *exposure);
    int (*remote)(struct path *path, const struct remote_access *access, struct transfer *transfer);

    /*
     * When path_address does not know: maps the destination's heap, fills in the path's fields and
     * *local. -ENOENT: the address is not in a heap that can be mapped here, which may change as
     * long as path->heap_bytes is 0; or other errors of mapping. Never for PATH_PACKETS_ONLY. Takes
     * no system call unless it maps. NULL: the device shares no memory.
     */
    int (*map)(struct path *path, uint64_t remote, size_t bytes, void **local);

    /*
     * The shared heap of this task, and those of others as far as they can be mapped here, from any
     * thread. Addresses are aligned to `alignment`, a power of two up to HEAP_ALIGNMENT_MOST; node
     * is a NUMA node or NUMA_* of util/numa.h.
     * alloc: -ENOSPC: the heap is full, -ENOMEM. free: -EINVAL: not the address of a live block.
     * view: -ENOENT: no heap, or not one that can be mapped; or other errors of mapping.
     */
    int (*heap_alloc)(struct device *device, size_t bytes, size_t alignment, int node,
                      void **address);
    int (*heap_free)(struct device *device, void *address);
    int (*heap_view)(struct device *device, uint32_t task, struct heap_view *view);

    /* Deliver what has arrived, a bounded number of packets. Returns how many events. */
    int (*advance)(struct port *port);

    /* The packet that is being delivered never will be: its callback ends the process. The next
     * advance goes on behind it. NULL: it does so anyway. */
    void (*interrupt)(struct port *port);

    /*
     * The packet that is being delivered cannot be taken now, for want of memory, and nothing has
     * come of it yet: it stays before all others of its sender, and is delivered again, by this
     * advance or the next. False: this port is delivering none. NULL: never.
     */
    bool (*put_back)(struct port *port);

    /* Send what `unsent` speaks of. NULL where that is never set. */
    void (*flush)(struct port *port);

    /* Cheap when idle: true when the last advance might have left something to deliver. */
    bool (*pending)(struct port *port);

    /* Something was accepted that could not be passed on; nobody rings when it can be, so advance
     * has to try again. NULL: never. */
    bool (*stalled)(struct port *port);

    /*
     * Sleeping, in this order: arm (from now on a sender wakes the port), a last look by the
     * caller at everything it waits for, then sleep or disarm. wake may be called by any thread of
     * this process. A context sleeps on its first port; the others are armed, and call params.wake
     * when something has come or say by sleep_us how long a sleep may be. Devices whose ports are
     * never the first have no sleep and no wake.
     *   light  a sender that is just sending may miss it: for sleeps that are short. Else arm has
     *          made everybody see it, which disturbs those that compute.
     */
    void (*arm)(struct port *port, bool light);
    void (*disarm)(struct port *port);
    void (*sleep)(struct port *port, uint64_t microseconds);
    void (*wake)(struct port *port);

    /* Tasks of this host that compete for the processors of this one, itself included; a task that
     * may run on other processors too counts in part. NULL: does not know. */
    double (*load)(struct device *device);

    /* Add the processors to which other tasks of this host are bound, if they are to a part of
     * what they might use. NULL: does not know. */
    void (*occupied)(struct device *device, cpu_set_t *cpus);

    /* Where another task of this host, or this one, may run. Left alone when it is not known. NULL:
     * never known. */
    void (*bound)(struct device *device, uint32_t task, cpu_set_t *cpus);

    /* Look whether destinations have ended: paths that do not know yet become stale. Cheap. NULL:
     * they know at once. */
    void (*listen)(struct port *port);

    /* Slow house-keeping, called now and then: report each path whose destination has gone, once,
     * after everything that it sent has been delivered. */
    void (*tend)(struct port *port, void (*gone)(void *context, uint32_t endpoint));

    /* All contexts of the client have been made, and the program is about to have them. May wait
     * until others know of them. NULL: nothing to be done. */
    void (*made)(struct device *device);

    /* No more contexts will be made: destinations that never were are gone, too. NULL: nothing to
     * be done. */
    void (*leave)(struct device *device);

    /* The destination, which was reported as gone, may be reached again: find out. What was under
     * way before is lost. NULL: gone is gone. */
    int (*revive)(struct port *port, uint32_t endpoint);

    /* False while packets that were accepted would be lost if the process ended now; asks for what
     * it takes to become true, which needs advances. NULL: always true. */
    bool (*settled)(struct port *port);

    /* What the device finds here, for a person. Opens nothing for good. NULL: nothing to say. */
    void (*explain)(struct bootstrap *bootstrap, device_explain_function *say, void *cookie);
};

/* The same as path_address, which the device is asked for when it is not known. */
static inline void *path_map(struct path *path, uint64_t remote, size_t bytes)
{
    void *local = path_address(path, remote, bytes);

    if (local == NULL && path->heap_bytes == 0 && path->port->ops->map != NULL &&
        path->port->ops->map(path, remote, bytes, &local) != 0)
        return NULL;
    return local;
}

/* The devices that this library was built with, cheapest first, NULL at the end. */
extern const struct device_ops *const device_table[];

#endif
