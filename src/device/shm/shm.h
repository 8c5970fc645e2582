/*
 * The shm device's objects, shared by its files: shm.c (device), port.c (ports: packets out),
 * receive.c (packets in), life.c (the end of a port), path.c (destinations), lanes.c (ways there),
 * copy.c (single copy), joint.c (one that two tasks make), heap.c (the shared heap, as the device
 * has it), watch.c (who has died), sleep.c (waiting and waking).
 */
#ifndef LIBPAMI_DEVICE_SHM_SHM_H
#define LIBPAMI_DEVICE_SHM_SHM_H

#include <poll.h>
#include <stdatomic.h>

#include "device/device.h"
#include "device/shm/chunk.h"
#include "device/shm/inbox.h"
#include "device/shm/joint.h"
#include "device/shm/lane.h"
#include "device/shm/pacing.h"
#include "device/shm/segment.h"
#include "device/shm/shared_heap.h"
#include "util/gauge.h"
#include "util/hash.h"
#include "util/list.h"

struct shm_device {
    struct device device;
    struct bootstrap *bootstrap;
    struct segment *segment;
    struct shared_heap *heap;
    uint32_t *members; /* tasks of this host, ascending */
    uint32_t member_count;
    uint32_t tasks_here;         /* on all pretended nodes, where a network joins them; else 0 */
    uint64_t open;               /* bit for each context of this task that there is, */
    uint64_t used, ever;         /* ... that has ended while others live, and that ever has */
    bool pretended;              /* the launcher pretends nodes: some members are "remote" */
    bool can_barrier;            /* membarrier reaches all: sleepers may rely on it */
    _Atomic int32_t *watched;    /* per member: pidfd + 1, 0 not opened, negative: see watch.c */
    _Atomic uint8_t *copy_works; /* per member: enum copy_state */
    uint8_t joint;               /* PAMI_SHM_JOINT_COPY */
};

enum copy_state {
    COPY_UNTRIED,
    COPY_WORKS,
    COPY_FAILS,
};

struct shm_port {
    struct port port;
    struct shm_device *device;
    struct inbox_reader reader;
    uint64_t life;             /* the mark that packets for this context carry */
    uint64_t stale;            /* in the ring, below this: for the contexts before */
    uint32_t ended;            /* the task's contexts before this one, see path.c */
    struct lane_reader *lanes; /* those in use, lane_count of them */
    uint32_t lane_count;
    struct lane_reader *delivering; /* a packet of this lane, ... */
    struct shuttle *shuttling;      /* ... of this shuttle, or ... */
    bool delivering_ring;           /* ... of the ring, is with the user, ... */
    bool put_back;                  /* ... or whoever was to take it could not */
    struct pacing pacing;
    struct gauge chunk_gauge;
    struct chunk_pool chunks;
    struct joint joint;
    uint32_t was_closed; /* the inbox, before */
    struct list paths;
    struct u64map by_endpoint; /* of these, those that are no faces of others */
    struct pollfd *watch;      /* of distinct members that paths lead to */
    uint32_t *watch_member;
    uint32_t *watch_place; /* per member: 1 + where it is in these, 0: nowhere */
    uint32_t watch_count;
    bool deaths; /* one of them is dead, as of the last look */
};

struct shm_path {
    struct path path;
    struct lane_sender lane;
    struct shuttle shuttle;
    struct inbox_sender sender;
    struct inbox *inbox;
    uint64_t mark;      /* of the life that the path leads to */
    uint64_t patience;  /* clock_now_ns: how long it waits for a task that is behind */
    uint32_t countdown; /* packets before the next try to get a lane */
    uint32_t starved;   /* packets until the pool, which gave no chunk, is looked through again */
    uint32_t lane_life; /* of the destination, when it was taken */
    bool shuttled;      /* there is a shuttle, or was one */
    bool filling;       /* a packet's fill writes where the next packet goes: none may be sent */
    uint32_t shy;       /* invitations to joint copies that nobody took up, in a row */
    uint32_t alone;     /* copies before the next one */
    struct list link;   /* in the port's paths */
    uint32_t member;
    struct shm_path *main; /* of a path for packets only: the one whose way its packets take, ... */
    struct shm_path *face; /* ... which knows that one here, if there is one */
    bool leaving;          /* closed or dead was seen; reported when our inbox has been read up */
    uint64_t leave_head;   /* ... which is true at the latest when the reader's head is here */
};

static inline struct shm_port *shm_port_of(struct port *port)
{
    return container_of(port, struct shm_port, port);
}

/* A packet of the device itself: the sender goes on in lane `aux`. */
#define PROTOCOL_LANE 0xff

/* The life that a packet is for: two bits above the origin's endpoint, in the header's word 1. */
#define LIFE_SHIFT 30
#define LIFE_BITS 3u

static inline uint64_t life_mark(uint32_t life)
{
    const struct packet_header head = {.origin = (life & LIFE_BITS) << LIFE_SHIFT};

    return head.words[1];
}

static inline void shm_head_write(struct slot *slot, const struct packet_header *head,
                                  uint64_t mark)
{
    __atomic_store_n(&slot->head.words[0], __atomic_load_n(&head->words[0], __ATOMIC_RELAXED),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&slot->head.words[1],
                     __atomic_load_n(&head->words[1], __ATOMIC_RELAXED) | mark, __ATOMIC_RELAXED);
}

/* packet_write_body; while `fill` runs nothing may be sent by the path. */
static inline void shm_body_write(struct shm_path *path, struct slot *slot,
                                  const struct packet *packet)
{
    char *to = packet_write_front(slot->body, packet);

    if (packet->head.payload_bytes == 0)
        return;
    if (likely(packet->fill == NULL)) {
        packet_copy(to, packet->payload, packet->head.payload_bytes);
        return;
    }
    path->filling = true;
    packet->fill(to, packet);
    path->filling = false;
}

/* Index of a task among the members, -1 when it is not one. */
int64_t shm_member_of(const struct shm_device *device, uint32_t task);

int shm_port_open(struct device *device, const struct port_params *params, struct port **port);
void shm_port_close(struct port *port);
int shm_path_open(struct port *port, uint32_t endpoint, unsigned how, struct path **path);
void shm_paths_free(struct shm_port *port);
struct shm_path *shm_path_find(struct shm_port *port, uint32_t endpoint);

/* There is no context, nor one to be waited for. */
bool shm_path_has_left(struct shm_port *port, const struct shm_path *path);

/* The path waits for a task that is behind, see path.c; false: no more, or it never did. */
bool shm_path_waits(struct shm_path *path);
int shm_am(struct path *path, const struct packet *packet);
int shm_am_short(struct path *path, uint64_t word0, uint64_t word1, const struct iovec *header,
                 const struct iovec *data);

/* receive.c */
int shm_advance(struct port *port);
void shm_interrupt(struct port *port);
bool shm_put_back(struct port *port);
bool shm_pending(struct port *port);
void shm_purge(struct shm_port *port);

/* life.c */
/* The context's life is over, and what it could read has been read. */
void shm_life_end(struct shm_port *port);

/* lanes.c */
/* Lanes that were in use when the context was destroyed the last time still are. */
int shm_lanes_init(struct shm_port *port);
void shm_lane_close(struct shm_port *port, uint32_t index);
/* The ring has been used for a while: go on in a lane, if one is free and the marker fits. */
void shm_lane_ask(struct shm_path *path);
/* A marker has come: from now on its sender uses a lane. `stale`: it is for the context before.
 * 0 or -EINVAL. */
int shm_lane_begin(struct shm_port *port, const struct packet_header *head, bool stale);

/* copy.c */
void shm_copy_init(struct shm_device *device);
bool shm_copy_probe(struct shm_device *device, uint32_t member);
bool shm_copy_may_push(const struct shm_device *device, uint32_t member);

/* As the system call: how much was copied, 0, or -1 and errno, which is ESRCH where the process has
 * ended. What is in the member's heap can be reached after that as well. */
struct copy_pieces {
    const struct iovec *local, *remote;
    size_t local_count, remote_count;
    bool told; /* another task says where the local ones are: a wrong address is an error */
};
ssize_t shm_copy_memory(const struct shm_device *device, uint32_t member, bool put,
                        const struct copy_pieces *pieces);

/* No tool here minds if other tasks write to this one's memory. */
bool shm_copy_is_unwatched(const struct shm_device *device);
int shm_get(struct path *path, void *local, uint64_t remote, size_t bytes, size_t *moved,
            struct transfer *transfer);
int shm_put(struct path *path, const void *local, uint64_t remote, size_t bytes, size_t *moved,
            struct transfer *transfer);
int shm_copyv(struct path *path, bool put, const struct iovec *local, size_t local_count,
              const struct iovec *remote, size_t remote_count, size_t *moved);

/* heap.c */
/* Where memory in the heap of a member of this node is mapped here, NULL: it is not there, or
 * cannot be mapped. */
char *shm_heap_address(const struct shm_device *device, uint32_t member, uint64_t remote,
                       size_t bytes);
int shm_map(struct path *path, uint64_t remote, size_t bytes, void **local);
int shm_heap_alloc(struct device *device, size_t bytes, size_t alignment, int node, void **address);
int shm_heap_free(struct device *device, void *address);
int shm_heap_view(struct device *device, uint32_t task, struct heap_view *view);

/* watch.c */
/* The device goes: what it has opened is closed, but nothing that has its number now. */
void shm_watch_end(struct shm_device *device);
int shm_watch_member(struct shm_port *port, uint32_t member);
bool shm_member_is_dead(struct shm_port *port, uint32_t member);
void shm_tend(struct port *port, void (*gone)(void *context, uint32_t endpoint));

/* sleep.c */
bool shm_sleep_init(void);
void shm_sleep_open(struct shm_port *port); /* its reader is there */
void shm_arm(struct port *port, bool light);
void shm_disarm(struct port *port);
void shm_sleep(struct port *port, uint64_t microseconds);
void shm_wake(struct port *port);
void shm_wake_inbox(struct inbox *inbox);

/* What a sender pays for sleepers: one load of a line that rarely changes. */
static inline void shm_wake_if_asleep(struct inbox *inbox)
{
    /* Published before, looked at after: the sleeper's membarrier orders the two (see sleep.c). */
    atomic_signal_fence(memory_order_seq_cst);
    if (unlikely(atomic_load_explicit(&inbox->sleeping, memory_order_relaxed) != 0))
        shm_wake_inbox(inbox);
}

#endif
