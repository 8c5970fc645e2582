/*
 * Joint copies, see joint.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "device/shm/shm.h"
#include "util/clock.h"
#include "util/minmax.h"
#include "util/yield.h"

/* How long the end of a context waits for a guest that has a piece in hand: it may be stopped. */
#define CLOSE_SECONDS 1.0

/* Invitations that nobody takes up become rare: one in 4, 8, 16 copies. */
#define SHY_MOST 4u

#define COUNT_BITS 16
#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1)
#define USE_SHIFT (2 * COUNT_BITS)

#define NOBODY UINT32_MAX

/* What a guest reads in a berth. */
struct offer {
    uint32_t guest;
    bool put;
    uint64_t here, there, bytes;
};

struct joint_guest {
    struct list link;
    struct joint_berth *berth;
    uint32_t member; /* the owner */
};

static size_t piece_bytes(size_t bytes)
{
    size_t piece = bytes / 8 & ~(JOINT_PIECE_LEAST - 1);

    return piece < JOINT_PIECE_LEAST ? JOINT_PIECE_LEAST : smaller(piece, JOINT_PIECE_MOST);
}

static uint32_t pieces_of(size_t bytes)
{
    size_t piece = piece_bytes(bytes);

    return (uint32_t)((bytes + piece - 1) / piece);
}

/* The size of piece `index`. */
static size_t piece_at(size_t bytes, int64_t index)
{
    size_t piece = piece_bytes(bytes);

    return smaller(piece, bytes - (size_t)index * piece);
}

static inline uint32_t taken_front(uint64_t word)
{
    return (uint32_t)(word & COUNT_MASK);
}

static inline uint32_t taken_back(uint64_t word)
{
    return (uint32_t)(word >> COUNT_BITS & COUNT_MASK);
}

static inline bool is_taken(uint64_t word, uint64_t bytes)
{
    return taken_front(word) + taken_back(word) >= pieces_of(bytes);
}

/* A copy as one of the two tasks sees it. */
struct areas {
    uint32_t member; /* the other one */
    bool put;
    bool told; /* it says where this one's memory is */
    uint64_t local, remote, bytes;
};

/* Piece `index`. 0 or negative errno. */
static int copy_indexed(const struct shm_device *device, const struct areas *areas, int64_t index)
{
    size_t at = (size_t)index * piece_bytes(areas->bytes);
    size_t end = at + piece_at(areas->bytes, index);

    while (at != end) {
        struct iovec near = {(char *)(uintptr_t)areas->local + at, end - at};
        struct iovec far = {(char *)(uintptr_t)areas->remote + at, end - at};
        const struct copy_pieces pieces = {&near, &far, 1, 1, areas->told};
        ssize_t count = shm_copy_memory(device, areas->member, areas->put, &pieces);

        if (count <= 0)
            return count == 0 ? -EFAULT : errno == ESRCH ? -EPIPE : -errno;
        at += (size_t)count;
    }
    return 0;
}

/* ---- the owner ---- */

static struct joint_berth *berth_of(const struct shm_port *port, size_t index)
{
    const struct segment *segment = port->device->segment;

    return segment_berths(segment, segment->self, port->port.params.offset) + index;
}

/* A guest of a context that was here before may have a piece in hand. */
static bool is_free(const struct joint_berth *berth)
{
    uint64_t word = atomic_load_explicit(&berth->word, memory_order_relaxed);

    return atomic_load_explicit(&berth->returned, memory_order_acquire) ==
           taken_back(word); /* J2 */
}

/* Nobody has taken a piece yet. */
static void open_berth(struct joint_berth *berth, const struct joint_copy *copy, uint32_t guest)
{
    uint64_t use = (atomic_load_explicit(&berth->word, memory_order_relaxed) >> USE_SHIFT) + 1;

    atomic_store_explicit(&berth->guest, guest, memory_order_release); /* J5 */
    atomic_store_explicit(&berth->put, copy->put, memory_order_release);
    atomic_store_explicit(&berth->here, (uint64_t)(uintptr_t)copy->local, memory_order_release);
    atomic_store_explicit(&berth->there, copy->remote, memory_order_release);
    atomic_store_explicit(&berth->bytes, copy->bytes, memory_order_release);
    atomic_store_explicit(&berth->returned, 0, memory_order_relaxed);
    atomic_store_explicit(&berth->failed, 0, memory_order_relaxed);
    atomic_store_explicit(&berth->word, use << USE_SHIFT, memory_order_release); /* J3 */
}

/* Nobody takes a piece any more. Returns how many the guest has had. */
static uint32_t close_berth(struct joint_berth *berth)
{
    return taken_back(atomic_fetch_or_explicit(&berth->word, COUNT_MASK, memory_order_acq_rel));
}

/* The same, unless somebody has begun, who was led here by an earlier invitation. */
static bool withdraw(struct joint_berth *berth)
{
    uint64_t word = atomic_load_explicit(&berth->word, memory_order_relaxed);

    return taken_back(word) == 0 &&
           atomic_compare_exchange_strong_explicit(&berth->word, &word, word | COUNT_MASK,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

/* The next piece from the front, -1: there is none left. */
static int64_t take_front(struct joint_berth *berth, uint64_t bytes)
{
    uint64_t word = atomic_load_explicit(&berth->word, memory_order_relaxed);

    do {
        if (is_taken(word, bytes))
            return -1;
    } while (!atomic_compare_exchange_weak_explicit(&berth->word, &word, word + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return taken_front(word);
}

static int invite(struct shm_path *path, size_t index)
{
    const struct packet packet = {
        .head = {.protocol = PROTOCOL_JOINT,
                 .origin = path->path.port->params.endpoint,
                 .aux = (uint32_t)index},
    };

    return shm_am(&path->path, &packet);
}

/* False: there was none. */
static bool leave_guests(struct joint *joint)
{
    struct list *item;
    bool any = false;

    while ((item = list_pop_front(&joint->guests)) != NULL) {
        free(list_entry(item, struct joint_guest, link));
        any = true;
    }
    return any;
}

bool joint_begin(struct shm_path *path, const struct joint_copy *what)
{
    struct shm_port *port = shm_port_of(path->path.port);
    struct joint *joint = &port->joint;
    size_t index = 0;
    struct joint_berth *berth;

    if (path->filling || path->member == port->device->segment->self ||
        joint->count == JOINT_BERTHS || what->bytes / JOINT_PIECE_MOST >= COUNT_MASK)
        return false;
    if (leave_guests(joint))
        return false; /* both are busy, see joint.h */
    if (path->alone != 0) {
        path->alone--;
        return false;
    }
    while (index < JOINT_BERTHS &&
           (joint->copies[index].path != NULL || !is_free(berth_of(port, index))))
        index++;
    if (index == JOINT_BERTHS)
        return false;
    berth = berth_of(port, index);
    open_berth(berth, what, path->path.endpoint);
    if (invite(path, index) != 0 && withdraw(berth))
        return false;
    joint->copies[index] = *what;
    joint->copies[index].path = path;
    joint->count++;
    return true;
}

static void ended(struct joint_copy *copy, struct joint_berth *berth, int error)
{
    copy->ended = true;
    copy->back = close_berth(berth);
    copy->error = error;
}

static void finish(struct shm_port *port, struct joint_copy *copy)
{
    struct shm_path *path = copy->path;
    struct transfer *transfer = copy->transfer;
    int error = copy->error;

    path->shy = copy->back != 0 ? 0 : path->shy < SHY_MOST ? path->shy + 1 : SHY_MOST;
    path->alone = path->shy < 2 ? 0 : 1u << path->shy;
    if (error == 0)
        port->port.params.counters[DEVICE_COPIED] += copy->bytes;
    copy->path = NULL;
    port->joint.count--;
    transfer->done(transfer, error);
}

static int copy_own(const struct joint_copy *copy, int64_t index)
{
    const struct areas areas = {
        .member = copy->path->member,
        .put = copy->put,
        .local = (uintptr_t)copy->local,
        .remote = copy->remote,
        .bytes = copy->bytes,
    };

    return copy_indexed(shm_port_of(copy->path->path.port)->device, &areas, index);
}

/* One piece, or the end. True when something has happened. The copy may be another one then. */
static bool step(struct shm_port *port, struct joint_copy *copy)
{
    struct joint_berth *berth = berth_of(port, (size_t)(copy - port->joint.copies));

    if (!copy->ended) {
        int64_t index = take_front(berth, copy->bytes);
        int error = index < 0 ? 0 : copy_own(copy, index);

        if (index >= 0 && error == 0)
            return true;
        ended(copy, berth, error);
    }
    if (atomic_load_explicit(&berth->returned, memory_order_acquire) != copy->back) { /* J2 */
        if (!shm_member_is_dead(port, copy->path->member))
            return false;
        copy->error = -EPIPE;
        atomic_store_explicit(&berth->returned, copy->back, memory_order_relaxed);
    }
    if (copy->error == 0 && atomic_load_explicit(&berth->failed, memory_order_relaxed) != 0) {
        /* What the guest could not copy may work from here, else this task learns why. */
        open_berth(berth, copy, NOBODY);
        copy->ended = false;
        return true;
    }
    finish(port, copy);
    return true;
}

/* ---- the guest ---- */

static bool is_guest(const struct joint *joint, const struct joint_berth *berth)
{
    struct list *item;

    list_for_each (item, &joint->guests)
        if (list_entry(item, struct joint_guest, link)->berth == berth)
            return true;
    return false;
}

void joint_invited(struct shm_port *port, const struct packet_header *head)
{
    struct shm_device *device = port->device;
    uint32_t offset = endpoint_offset(head->origin);
    int64_t member = shm_member_of(device, endpoint_task(head->origin));
    struct joint_berth *berth;
    struct joint_guest *guest;

    if (member < 0 || offset >= device->segment->layout.contexts || head->aux >= JOINT_BERTHS) {
        port->port.params.counters[DEVICE_DROPPED]++;
        return;
    }
    berth = segment_berths(device->segment, (uint32_t)member, offset) + head->aux;
    if (port->joint.count != 0 || is_guest(&port->joint, berth))
        return; /* both are busy, see joint.h; or it will be seen */
    guest = shm_copy_probe(device, (uint32_t)member) ? malloc(sizeof(*guest)) : NULL;
    if (guest == NULL)
        return;
    *guest = (struct joint_guest){
        .berth = berth,
        .member = (uint32_t)member,
    };
    list_push_back(&port->joint.guests, &guest->link);
}

static struct offer read_offer(const struct joint_berth *berth)
{
    return (struct offer){
        .guest = atomic_load_explicit(&berth->guest, memory_order_acquire), /* J6 */
        .put = atomic_load_explicit(&berth->put, memory_order_acquire) != 0,
        .here = atomic_load_explicit(&berth->here, memory_order_acquire),
        .there = atomic_load_explicit(&berth->there, memory_order_acquire),
        .bytes = atomic_load_explicit(&berth->bytes, memory_order_acquire),
    };
}

/* The next piece from the back of what `self` is invited to, -1: there is none. */
static int64_t take_back(struct joint_berth *berth, uint32_t self, struct offer *offer)
{
    uint64_t word = atomic_load_explicit(&berth->word, memory_order_acquire); /* J4 */

    do {
        *offer = read_offer(berth);
        if (offer->guest != self || is_taken(word, offer->bytes))
            return -1;
    } while (!atomic_compare_exchange_weak_explicit(&berth->word, &word,
                                                    word + (UINT64_C(1) << COUNT_BITS),
                                                    memory_order_acq_rel, memory_order_acquire));
    return (int64_t)pieces_of(offer->bytes) - 1 - taken_back(word);
}

static void help(struct shm_port *port, struct joint_guest *guest)
{
    struct offer offer;
    int64_t index = take_back(guest->berth, port->port.params.endpoint, &offer);
    struct areas areas;

    if (index < 0) {
        list_remove(&guest->link);
        free(guest);
        return;
    }
    areas = (struct areas){
        .member = guest->member,
        .put = !offer.put,
        .told = true,
        .local = offer.there,
        .remote = offer.here,
        .bytes = offer.bytes,
    };
    if (copy_indexed(port->device, &areas, index) == 0)
        port->port.params.counters[DEVICE_HELPED] += piece_at(offer.bytes, index);
    else
        atomic_store_explicit(&guest->berth->failed, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&guest->berth->returned, 1, memory_order_release); /* J1 */
}

/* ---- both ---- */

int joint_advance(struct shm_port *port)
{
    struct joint *joint = &port->joint;
    struct list *first = list_first(&joint->guests);
    int events = 0;

    for (size_t i = 0; joint->count != 0 && i < JOINT_BERTHS; i++)
        if (joint->copies[i].path != NULL && step(port, &joint->copies[i]))
            events++;
    if (first != NULL) {
        help(port, list_entry(first, struct joint_guest, link));
        events++;
    }
    return events;
}

void joint_close(struct shm_port *port)
{
    double end = clock_now() + CLOSE_SECONDS;
    uint32_t tries = 0;

    leave_guests(&port->joint);
    for (size_t i = 0; i < JOINT_BERTHS; i++) {
        struct joint_copy *copy = &port->joint.copies[i];
        struct joint_berth *berth = berth_of(port, i);

        if (copy->path == NULL)
            continue;
        if (!copy->ended)
            ended(copy, berth, 0);
        while (atomic_load_explicit(&berth->returned, memory_order_acquire) != copy->back &&
               !shm_member_is_dead(port, copy->path->member) && clock_now() < end)
            yield_again(tries++);
    }
}
