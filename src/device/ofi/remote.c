/*
 * Remote reads and writes: a message's large data, which its receiver reads out of the sender's
 * memory, and one-sided transfers between memory that both sides have exposed.
 *
 * Every slot's owner was told the other's key for its whole address space (slot.c), or, where a
 * provider has no such thing, that of the exposure (expose.c). An access is made in pieces, some at
 * a time, in turn through the endpoints that the slot has for that. With most providers the other
 * end must advance meanwhile.
 *
 * A write is complete when the provider says that it has been delivered: the data is in the other
 * task's memory, not just on its way. Nothing is concluded from the order of accesses.
 *
 * What describes an access is used again for later ones.
 *
 * When the other end dies and the provider does not give an access back in time, or the context
 * goes, whoever waits for it is told, or forgotten; the access itself stays an orphan until it is
 * given back. Where endpoints are for reads and writes alone, they are closed when a context leaves
 * orphans: the provider has nothing any more that would touch memory of the program.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "device/ofi/errors.h"
#include "device/ofi/first.h"
#include "util/clock.h"
#include "util/cpu.h"
#include "util/log.h"
#include "util/race.h"

#define PIECE_LEAST ((size_t)64 << 10)
/* Over sockets the two ends of an access in small pieces copy at the same time, which takes more of
 * their processors, and longer where there is just one access: that has large pieces. Else either
 * kind can be much faster, see RESULTS.md, so the two race (util/race.h). */
#define PIECE_SMALL ((size_t)256 << 10)
#define PIECE_LARGE ((size_t)1 << 20)
#define PIECES 16u
/* Races of a destination for reads, and as many for writes: below 1 MiB, below 4, and above. */
#define RACE_BYTES ((size_t)1 << 20)
#define RACE_SIZES 3u
/* So many that are over are kept for later ones: as many as a busy program has under way. */
#define SPARE_MOST 64u

struct piece {
    struct ofi_operation operation;
    struct remote *remote;
    uint32_t rail; /* that has it */
    bool busy;
    bool seen; /* by ofi_remotes_expect */
};

struct remote {
    struct list link; /* in slot->remotes, slot->orphans or slot->spare */
    struct ofi_link *to;
    struct transfer *transfer; /* NULL: an orphan */
    bool put;
    char *local;
    struct ofi_region own; /* of `local`, if it had to be registered for this */
    void *descriptor;
    uint64_t address, key; /* what the provider wants to hear of the other side */
    size_t bytes, issued;
    size_t piece_bytes;
    struct race *race; /* NULL: none */
    uint32_t race_ticket;
    uint32_t open; /* pieces the provider has */
    int error;
    struct piece pieces[PIECES]; /* none is busy in a new one */
};

static void piece_done(struct ofi_slot *slot, struct ofi_operation *operation, int error);

/* All of it zero, but for pieces that are not busy. NULL: no memory. */
static struct remote *remote_new(struct ofi_slot *slot)
{
    struct list *item = list_pop_front(&slot->spare);
    struct remote *remote;

    if (item == NULL)
        return calloc(1, sizeof(*remote));
    slot->spare_count--;
    remote = list_entry(item, struct remote, link);
    memset(remote, 0, offsetof(struct remote, pieces));
    return remote;
}

/* Its time says nothing. */
static void leave_race(struct remote *remote)
{
    if (remote->race != NULL)
        race_cancel(remote->race, remote->race_ticket);
    remote->race = NULL;
}

/* It is in no list, and the provider has nothing of it. */
static void remote_free(struct ofi_slot *slot, struct remote *remote)
{
    leave_race(remote);
    ofi_region_release(&remote->own);
    if (slot->spare_count == SPARE_MOST) {
        free(remote);
        return;
    }
    slot->spare_count++;
    list_push_front(&slot->spare, &remote->link);
}

static ssize_t issue_piece(struct ofi_slot *slot, struct remote *remote, struct piece *piece,
                           size_t bytes)
{
    uint32_t number = slot->rail_next % slot->rail_count;
    struct fid_ep *rail = slot->rails[number];
    char *local = remote->local + remote->issued;
    struct iovec vector = {.iov_base = local, .iov_len = bytes};
    struct fi_rma_iov there = {
        .addr = remote->address + remote->issued, .len = bytes, .key = remote->key};
    struct fi_msg_rma message = {
        .msg_iov = &vector,
        .desc = &remote->descriptor,
        .iov_count = 1,
        .addr = remote->to->address,
        .rma_iov = &there,
        .rma_iov_count = 1,
        .context = &piece->operation.context,
    };
    int cancel = ofi_enter();
    ssize_t error;

    ofi_slot_rouse(slot);
    if (remote->put)
        error = fi_writemsg(rail, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
    else
        error = fi_readmsg(rail, &message, FI_COMPLETION);
    ofi_leave(cancel);
    piece->rail = number;
    piece->seen = false;
    slot->rail_next += error == 0;
    return error;
}

/* As many pieces as there is room for. -EAGAIN when the provider took none. -EPIPE: the other end
 * counts as dead, and a provider would connect to it anew. */
static int issue(struct ofi_slot *slot, struct remote *remote)
{
    ssize_t error = remote->to->dead ? -EPIPE : 0;

    for (uint32_t i = 0; i < PIECES && remote->issued < remote->bytes && error == 0; i++) {
        struct piece *piece = &remote->pieces[i];
        size_t bytes = remote->bytes - remote->issued;

        if (piece->busy)
            continue;
        if (bytes > remote->piece_bytes)
            bytes = remote->piece_bytes;
        piece->operation.done = piece_done;
        piece->operation.to = remote->to;
        piece->remote = remote;
        error = issue_piece(slot, remote, piece, bytes);
        if (error == 0) {
            piece->busy = true;
            remote->open++;
            remote->to->taken++;
            remote->issued += bytes;
        }
    }
    slot->remotes_wait = slot->remotes_wait || remote->issued < remote->bytes;
    if (error != -FI_EAGAIN && !ofi_is_no_way((int)-error))
        return (int)error;
    remote->to->pulse.refused = true;
    return remote->open == 0 ? -EAGAIN : 0;
}

static void finish(struct ofi_slot *slot, struct remote *remote)
{
    struct transfer *transfer = remote->transfer;
    int error = remote->error;

    list_remove(&remote->link);
    if (transfer != NULL)
        slot->remotes_open--;
    if (remote->race != NULL && error == 0) {
        race_end(remote->race, remote->race_ticket, clock_ticks(), remote->bytes);
        remote->race = NULL;
    }
    if (transfer != NULL && error == 0)
        slot->port->port.params.counters[DEVICE_COPIED] += remote->bytes;
    remote_free(slot, remote);
    if (transfer == NULL)
        return;
    slot->completed++;
    transfer->done(transfer, error);
}

static void piece_done(struct ofi_slot *slot, struct ofi_operation *operation, int error)
{
    struct piece *piece = (struct piece *)(void *)operation;
    struct remote *remote = piece->remote;

    piece->busy = false;
    remote->open--;
    remote->to->pieces++;
    remote->to->pulse.heard = remote->to->pulse.heard || error == 0;
    if (error == 0)
        remote->to->pulse.rails_heard |= (uint8_t)(1u << piece->rail);
    if (remote->transfer != NULL)
        remote->transfer->steps++;
    if (error != 0 && remote->error == 0) {
        log_info("ofi: a remote %s, endpoint %u, failed: %s", remote->put ? "write" : "read",
                 remote->to->path.endpoint, fi_strerror(error));
        remote->error = -EIO;
    }
    if (remote->error == 0 && remote->transfer != NULL && remote->issued < remote->bytes) {
        int again = issue(slot, remote);

        if (again != 0 && again != -EAGAIN)
            remote->error = -EIO;
    }
    if (remote->open == 0 &&
        (remote->error != 0 || remote->issued == remote->bytes || remote->transfer == NULL))
        finish(slot, remote);
}

/* Providers that want to know local memory are told of it, for so long. */
static int know_local(struct ofi_slot *slot, struct remote *remote, const struct exposure *near)
{
    uint64_t key; /* of no use, but each needs one of its own */

    if ((slot->device->provider.info->domain_attr->mr_mode & FI_MR_LOCAL) == 0)
        return 0;
    remote->descriptor = ofi_exposure_descriptor(slot, near);
    if (remote->descriptor != NULL)
        return 0;
    if (ofi_region_expose(slot, remote->local, remote->bytes, remote->put ? FI_WRITE : FI_READ,
                          &remote->own, &key) != 0)
        return -EOPNOTSUPP;
    remote->descriptor = remote->own.descriptor;
    return 0;
}

/* NULL: there is no memory for it. */
static struct race *race_of(struct ofi_link *link, const struct remote_access *access)
{
    if (link->races == NULL)
        link->races = calloc(2 * RACE_SIZES, sizeof(*link->races));
    if (link->races == NULL)
        return NULL;
    return race_in(&link->races[access->put ? RACE_SIZES : 0], RACE_SIZES,
                   race_size(access->bytes, RACE_BYTES, RACE_SIZES));
}

/* Every rail has a part of a large access. */
static void set_piece_bytes(struct remote *remote, const struct remote_access *access, bool alone)
{
    struct ofi_link *link = remote->to;
    size_t part = (access->bytes / link->slot->rail_count + 4095) & ~(size_t)4095;
    size_t most;
    bool large = alone;

    if (!alone && part > PIECE_SMALL)
        remote->race = race_of(link, access);
    if (remote->race != NULL) {
        remote->race_ticket = race_begin(remote->race, clock_ticks());
        large = race_way(remote->race_ticket) == RACE_OTHER;
    }
    most = large ? PIECE_LARGE : PIECE_SMALL;
    remote->piece_bytes = part < PIECE_LEAST ? PIECE_LEAST : part > most ? most : part;
}

/* The address is what the provider calls it. */
static int start(struct ofi_link *link, const struct remote_access *access, uint64_t key,
                 struct transfer *transfer)
{
    struct ofi_slot *slot = link->slot;
    struct remote *remote;
    int error;

    if (unlikely(slot->rail_count == 0) && !ofi_rails_open(slot))
        return -EOPNOTSUPP;
    remote = remote_new(slot);
    if (remote == NULL)
        return -EAGAIN;
    remote->to = link;
    remote->transfer = transfer;
    remote->put = access->put;
    remote->local = access->local;
    remote->address = access->remote;
    remote->key = key;
    remote->bytes = access->bytes;
    set_piece_bytes(remote, access, transfer->alone);
    error = know_local(slot, remote, &access->near);
    if (error == 0)
        error = issue(slot, remote);
    if (error != 0 && remote->open == 0) {
        remote_free(slot, remote);
        return error == -EAGAIN && !link->pulse.hopeless ? -EAGAIN : -EOPNOTSUPP;
    }
    remote->error = error == 0 ? 0 : -EIO;
    slot->remotes_open++;
    list_push_back(&slot->remotes, &remote->link);
    return -EINPROGRESS;
}

/* Memory belongs to the task, not to a life of its context. Where endpoints are for accesses alone
 * nobody connects to them. */
static bool may_access(struct ofi_link *link)
{
    if (link->dead)
        return false;
    if (unlikely(link->state == LINK_MUTE))
        return ofi_rails_are_apart(link->slot) || ofi_may_speak(link);
    return link->state == LINK_UP || link->state == LINK_ENDED;
}

int ofi_get(struct path *path, void *local, uint64_t remote, size_t bytes, size_t *moved,
            struct transfer *transfer)
{
    struct ofi_link *link = container_of(path, struct ofi_link, path);
    const struct remote_access access = {.local = local, .remote = remote, .bytes = bytes};

    *moved = 0;
    if (path->closed)
        return -EPIPE;
    if (!may_access(link))
        return -EAGAIN;
    if (!link->readable)
        return -EOPNOTSUPP;
    return start(link, &access, link->key, transfer);
}

int ofi_remote(struct path *path, const struct remote_access *access, struct transfer *transfer)
{
    struct ofi_link *link = container_of(path, struct ofi_link, path);
    struct ofi_slot *slot = link->slot;
    struct remote_access there = *access;
    bool all = access->far.id == EXPOSURE_ALL;

    if (path->closed)
        return -EPIPE;
    if (!may_access(link))
        return -EAGAIN;
    if (!slot->device->provider.remote || (all && !link->readable))
        return -EOPNOTSUPP;
    if (!all && (slot->device->provider.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) == 0)
        there.remote -= access->base;
    return start(link, &there, all ? link->key : access->far.key, transfer);
}

/* Those that the provider had no room for. */
int ofi_remotes_progress(struct ofi_slot *slot)
{
    struct list *item, *following;
    int count = 0;

    if (likely(!slot->remotes_wait))
        return 0;
    slot->remotes_wait = slot->remotes_refused = false;
    list_for_each_safe (item, following, &slot->remotes) {
        struct remote *remote = list_entry(item, struct remote, link);
        size_t before = remote->issued;
        int error;

        if (remote->error != 0 || remote->issued == remote->bytes)
            continue;
        error = issue(slot, remote);
        count += remote->issued != before;
        slot->remotes_refused = slot->remotes_refused || error == -EAGAIN;
        if (error == 0 || error == -EAGAIN)
            continue;
        remote->error = -EIO;
        if (remote->open == 0)
            finish(slot, remote);
    }
    return count;
}

/* Whose links must not be silent, and which rails of theirs. */
void ofi_remotes_expect(struct ofi_slot *slot)
{
    struct list *item;

    list_for_each (item, &slot->remotes) {
        struct remote *remote = list_entry(item, struct remote, link);
        struct ofi_pulse *pulse = &remote->to->pulse;

        pulse->expects = true;
        for (uint32_t i = 0; i < PIECES; i++) {
            struct piece *piece = &remote->pieces[i];

            if (piece->busy && piece->seen && slot->rails[piece->rail] != slot->ep)
                pulse->rails_waiting |= (uint8_t)(1u << piece->rail);
            piece->seen = true;
        }
    }
}

bool ofi_remotes_under_way(const struct ofi_link *link)
{
    struct list *item;

    list_for_each (item, &link->slot->remotes)
        if (list_entry(item, struct remote, link)->to == link)
            return true;
    return false;
}

/* `error` 0: without a word. */
void ofi_remotes_give_up(struct ofi_slot *slot, struct ofi_link *link, int error)
{
    struct list *item, *following;

    list_for_each_safe (item, following, &slot->remotes) {
        struct remote *remote = list_entry(item, struct remote, link);
        struct transfer *transfer = remote->transfer;

        if (link != NULL && remote->to != link)
            continue;
        list_remove(&remote->link);
        leave_race(remote);
        remote->transfer = NULL;
        slot->remotes_open--;
        if (remote->open == 0)
            remote_free(slot, remote); /* the provider had no room for it */
        else
            list_push_back(&slot->orphans, &remote->link);
        if (error != 0)
            transfer->done(transfer, error);
    }
}

void ofi_remotes_finish(struct ofi_slot *slot)
{
    struct list *item;

    while ((item = list_pop_front(&slot->orphans)) != NULL)
        remote_free(slot, list_entry(item, struct remote, link));
    while ((item = list_pop_front(&slot->spare)) != NULL)
        free(list_entry(item, struct remote, link));
}
