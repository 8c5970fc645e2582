/*
 * Large data by remote reads: the receiver of a message reads it out of its sender's memory.
 *
 * Every slot's owner was told the other's key for its whole address space (slot.c), so no address
 * needs a registration of its own. A read is made in pieces, some at a time. The owner of the
 * memory must advance meanwhile, which the sender of a message does that waits for its completion.
 *
 * When the other end dies or the context goes, whoever waits for a read is told, or forgotten; the
 * read itself stays an orphan until the provider has given it back.
 */
#include <errno.h>
#include <stdlib.h>

#include "device/ofi/ofi.h"
#include "util/log.h"

#define PIECE_BYTES ((size_t)1 << 20)
#define PIECES 4u

struct piece {
    struct ofi_operation operation;
    struct remote_read *read;
    bool busy;
};

struct remote_read {
    struct list link; /* in slot->reads or slot->orphans */
    struct ofi_link *from;
    struct transfer *transfer; /* NULL: an orphan */
    char *local;
    uint64_t remote;
    size_t bytes, issued;
    uint32_t open; /* pieces the provider has */
    int error;
    struct piece pieces[PIECES];
};

static void piece_done(struct ofi_slot *slot, struct ofi_operation *operation, int error);

/* As many pieces as there is room for. -EAGAIN when the provider took none. */
static int issue(struct ofi_slot *slot, struct remote_read *read)
{
    struct ofi_link *link = read->from;
    ssize_t error = 0;

    for (uint32_t i = 0; i < PIECES && read->issued < read->bytes && error == 0; i++) {
        struct piece *piece = &read->pieces[i];
        size_t bytes = read->bytes - read->issued;
        int cancel;

        if (piece->busy)
            continue;
        if (bytes > PIECE_BYTES)
            bytes = PIECE_BYTES;
        piece->operation.done = piece_done;
        piece->operation.to = link;
        piece->read = read;
        cancel = ofi_enter();
        error = fi_read(slot->ep, read->local + read->issued, bytes, NULL, link->address,
                        read->remote + read->issued, link->key, &piece->operation.context);
        ofi_leave(cancel);
        if (error == 0) {
            piece->busy = true;
            read->open++;
            read->issued += bytes;
        }
    }
    if (error == -FI_EAGAIN)
        return read->open == 0 ? -EAGAIN : 0;
    return (int)error;
}

static void finish(struct ofi_slot *slot, struct remote_read *read)
{
    struct transfer *transfer = read->transfer;
    int error = read->error;

    list_remove(&read->link);
    if (transfer != NULL)
        slot->reads_open--;
    free(read);
    if (transfer == NULL)
        return;
    slot->completed++;
    transfer->done(transfer, error);
}

static void piece_done(struct ofi_slot *slot, struct ofi_operation *operation, int error)
{
    struct piece *piece = (struct piece *)(void *)operation;
    struct remote_read *read = piece->read;

    piece->busy = false;
    read->open--;
    read->from->pulse.heard = read->from->pulse.heard || error == 0;
    if (error != 0 && read->error == 0) {
        log_info("ofi: a remote read from endpoint %u failed: %s", read->from->path.endpoint,
                 fi_strerror(error));
        read->error = -EIO;
    }
    if (read->error == 0 && read->transfer != NULL && read->issued < read->bytes) {
        int again = issue(slot, read);

        if (again != 0 && again != -EAGAIN)
            read->error = -EIO;
    }
    if (read->open == 0 && (read->error != 0 || read->issued == read->bytes || !read->transfer))
        finish(slot, read);
}

int ofi_get(struct path *path, void *local, uint64_t remote, size_t bytes, size_t *moved,
            struct transfer *transfer)
{
    struct ofi_link *link = container_of(path, struct ofi_link, path);
    struct ofi_slot *slot = link->slot;
    struct remote_read *read;
    int error;

    *moved = 0;
    if (path->closed)
        return -EPIPE;
    if (link->state != LINK_UP)
        return -EAGAIN;
    if (!link->readable)
        return -EOPNOTSUPP;
    read = calloc(1, sizeof(*read));
    if (read == NULL)
        return -EAGAIN;
    read->from = link;
    read->transfer = transfer;
    read->local = local;
    read->remote = remote;
    read->bytes = bytes;
    error = issue(slot, read);
    if (error != 0) {
        free(read);
        return error == -EAGAIN ? -EAGAIN : -EIO;
    }
    slot->reads_open++;
    list_push_back(&slot->reads, &read->link);
    slot->port->port.params.counters[DEVICE_COPIED] += bytes;
    return -EINPROGRESS;
}

/* Those that the provider had no room for. */
int ofi_reads_progress(struct ofi_slot *slot)
{
    struct list *item;
    int count = 0;

    list_for_each (item, &slot->reads) {
        struct remote_read *read = list_entry(item, struct remote_read, link);
        size_t before = read->issued;

        if (read->error == 0 && read->issued < read->bytes)
            issue(slot, read);
        count += read->issued != before;
    }
    return count;
}

/* Whose links must not be silent. */
void ofi_reads_expect(struct ofi_slot *slot)
{
    struct list *item;

    list_for_each (item, &slot->reads)
        list_entry(item, struct remote_read, link)->from->pulse.expects = true;
}

/* `error` 0: without a word. */
void ofi_reads_give_up(struct ofi_slot *slot, struct ofi_link *link, int error)
{
    struct list *item, *following;

    list_for_each_safe (item, following, &slot->reads) {
        struct remote_read *read = list_entry(item, struct remote_read, link);
        struct transfer *transfer = read->transfer;

        if (link != NULL && read->from != link)
            continue;
        list_remove(&read->link);
        list_push_back(&slot->orphans, &read->link);
        read->transfer = NULL;
        slot->reads_open--;
        if (error != 0)
            transfer->done(transfer, error);
    }
}

void ofi_reads_finish(struct ofi_slot *slot)
{
    struct list *item;

    while ((item = list_pop_front(&slot->orphans)) != NULL)
        free(list_entry(item, struct remote_read, link));
}
