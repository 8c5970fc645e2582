/*
 * Ending the provider's connections to a task that counts as dead.
 *
 * A provider over sockets goes on where it was when a network that was cut is mended: what it was
 * reading for us comes at last, into memory whose owner has long heard of an error, and what the
 * other side was writing too. libfabric has no call against that (fi_av_remove of net and
 * tcp;ofi_rxm 1.17 leaves connections alone), so the sockets are looked up and shut down, and
 * what the kernel has received is thrown away; the provider then gives back what is under way.
 *
 * A connection that we made leads to the very address of the other endpoint. One that we accepted
 * shows our own port and the other's host, and a port that tells nothing: it is shut down when
 * nobody lives at that host, or when the other one has named the port as one of its own, as those
 * do whose link has fallen silent while they live (pulse.c). Who has been asked for its name may
 * have connected to us before the answer comes, from any host: that is waited for. Of providers
 * without sockets nothing is found.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device/ofi/ofi.h"
#include "util/clock.h"
#include "util/log.h"

static bool is_internet(const union ofi_address *name)
{
    return name->any.sa_family == AF_INET || name->any.sa_family == AF_INET6;
}

static bool name_of(const struct ofi_link *link, union ofi_address *name)
{
    size_t bytes = sizeof(*name);

    memset(name, 0, sizeof(*name));
    return link->address != FI_ADDR_UNSPEC &&
           fi_av_lookup(link->slot->av, link->address, name, &bytes) == 0 &&
           bytes <= sizeof(*name) && is_internet(name);
}

/* Somebody may live there who has to do with us. */
static bool is_inhabited(struct ofi_slot *slot, const union ofi_address *host)
{
    struct list *item;

    list_for_each (item, &slot->links) {
        struct ofi_link *link = list_entry(item, struct ofi_link, link);
        union ofi_address name;

        if (link->dead)
            continue;
        if (name_of(link, &name) ? ofi_address_same_host(&name, host) : link->received != 0)
            return true;
    }
    return false;
}

/* Of somebody it is not known yet where he lives. */
static bool is_asking(struct ofi_slot *slot)
{
    struct list *item;

    if (atomic_load_explicit(&slot->news, memory_order_relaxed) != 0) /* among which may be names */
        return true;
    list_for_each (item, &slot->links) {
        struct ofi_link *link = list_entry(item, struct ofi_link, link);

        if (link->state == LINK_ASKED && !link->dead && link->address == FI_ADDR_UNSPEC)
            return true;
    }
    return false;
}

static in_port_t own_port(int fd)
{
    union ofi_address here = {0};
    socklen_t bytes = sizeof(here);

    return getsockname(fd, &here.any, &bytes) == 0 && is_internet(&here) ? ofi_address_port(&here)
                                                                         : 0;
}

/* Where the other end is, when it is on that host. A connection that the other end has reset has no
 * peer for getpeername, but what had come before is still to be read. More bytes than an address
 * has are refused. */
static bool is_from(int fd, const union ofi_address *host, in_port_t *port)
{
    union ofi_address there = {0};
    socklen_t bytes = ofi_address_bytes(host);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERNAME, &there, &bytes) != 0 ||
        !ofi_address_same_host(&there, host))
        return false;
    *port = ofi_address_port(&there);
    return true;
}

/* The other one has said so, not long ago: others get the port some day. */
static bool is_named(const struct ofi_link *link, in_port_t port)
{
    const struct ofi_ports *ports = &link->ports;
    uint64_t most = link->slot->device->peer_timeout_ms * UINT64_C(1000000);

    if (ports->count == 0 || clock_now_ns() - ports->known_at > most)
        return false;
    for (uint32_t i = 0; i < ports->count; i++)
        if (ports->port[i] == port)
            return true;
    return false;
}

/* -1: there are no more. */
static int next_descriptor(DIR *directory)
{
    struct dirent *entry;

    while (directory != NULL && (entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.')
            return atoi(entry->d_name);
    return -1;
}

/* More than there is room for are left out. */
void ofi_ports_find(struct ofi_link *link, struct ofi_ports *ports)
{
    union ofi_address theirs;
    DIR *directory;
    in_port_t port;
    int fd;

    *ports = (struct ofi_ports){0};
    if (!name_of(link, &theirs))
        return;
    directory = opendir("/proc/thread-self/fd");
    while (ports->count < OFI_PORTS_MAX && (fd = next_descriptor(directory)) >= 0)
        if (is_from(fd, &theirs, &port) && port == ofi_address_port(&theirs))
            ports->port[ports->count++] = own_port(fd);
    if (directory != NULL)
        closedir(directory);
}

/* Whose connections are to be ended. */
struct lost {
    const struct ofi_link *link;
    union ofi_address mine, theirs;
    bool whole_host;
};

static bool leads_to(int fd, const struct lost *lost)
{
    in_port_t port;

    return is_from(fd, &lost->theirs, &port) &&
           (port == ofi_address_port(&lost->theirs) ||
            ((lost->whole_host || is_named(lost->link, port)) &&
             own_port(fd) == ofi_address_port(&lost->mine)));
}

/* What the kernel has received goes, too; the provider finds the end. Another thread, inside the
 * provider, may close the descriptor at any time, and the program get its number: what is looked at
 * again, and ended, is a copy, unless there are no descriptors for one. */
static bool end(int fd, const struct lost *lost)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    bool ends = copy < 0 || leads_to(copy, lost);
    char nowhere[1024];

    fd = copy < 0 ? fd : copy;
    if (ends) {
        shutdown(fd, SHUT_RDWR); /* fails where the other end did it */
        while (recv(fd, nowhere, sizeof(nowhere), MSG_DONTWAIT) > 0)
            continue;
    }
    if (copy >= 0)
        close(copy);
    return ends;
}

bool ofi_sever(struct ofi_link *link, bool again)
{
    struct ofi_slot *slot = link->slot;
    struct lost lost = {.link = link};
    DIR *directory;
    bool asking = is_asking(slot);
    int fd, count = 0, cancel;

    if (!name_of(link, &lost.theirs))
        return true;
    if (again && asking)
        return false;
    cancel = ofi_enter();
    memcpy(&lost.mine, slot->name.name,
           slot->name.bytes < sizeof(lost.mine) ? slot->name.bytes : sizeof(lost.mine));
    lost.whole_host = is_internet(&lost.mine) && !asking && !is_inhabited(slot, &lost.theirs);
    directory = opendir("/proc/thread-self/fd");
    while ((fd = next_descriptor(directory)) >= 0)
        if (leads_to(fd, &lost))
            count += end(fd, &lost);
    if (directory != NULL)
        closedir(directory);
    ofi_leave(cancel);
    log_debug("ofi: %d connections to endpoint %u ended", count, link->path.endpoint);
    return !asking;
}
