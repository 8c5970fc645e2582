/*
 * Which network interface a task uses, for packets and for its listening socket alike.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "device/ofi/ofi.h"

static bool is_usable(const struct ifaddrs *entry)
{
    return entry->ifa_addr != NULL && (entry->ifa_flags & IFF_UP) != 0 &&
           (entry->ifa_addr->sa_family == AF_INET || entry->ifa_addr->sa_family == AF_INET6);
}

static void take(const struct ifaddrs *entry, struct sockaddr_storage *address)
{
    memset(address, 0, sizeof(*address));
    memcpy(address, entry->ifa_addr,
           entry->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                 : sizeof(struct sockaddr_in6));
}

void ofi_address_format(const struct sockaddr_storage *address, char *text, size_t size)
{
    socklen_t bytes =
        address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

    if (getnameinfo((const struct sockaddr *)(const void *)address, bytes, text, (socklen_t)size,
                    NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(text, size, "?");
}

/* 169.254.0.0/16: what a host has with its own controller is the same on all hosts. */
static bool is_self_assigned(const struct sockaddr_storage *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;

    return v4->sin_family == AF_INET && ntohl(v4->sin_addr.s_addr) >> 16 == 0xa9fe;
}

/* IPv4 before IPv6, but last what has no cable, or nobody at its other end, and what has given
 * itself an address. Link-local IPv6 addresses need a scope, and are left out. */
static int rank(const struct ifaddrs *entry, const char *wanted, bool host_only)
{
    struct sockaddr_storage address;
    bool loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    int base = entry->ifa_addr->sa_family == AF_INET ? 2 : 1;
    char text[INET6_ADDRSTRLEN];

    take(entry, &address);
    if (address.ss_family == AF_INET6 &&
        IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)(void *)&address)->sin6_addr))
        return 0;
    ofi_address_format(&address, text, sizeof(text));
    if (*wanted != '\0')
        return strcmp(wanted, entry->ifa_name) == 0 || strcmp(wanted, text) == 0 ? base : 0;
    if (loopback != host_only)
        return 0;
    return (entry->ifa_flags & IFF_RUNNING) != 0 && !is_self_assigned(&address) ? base + 2 : base;
}

int ofi_interface(const char *wanted, bool host_only, struct sockaddr_storage *address, char *why,
                  size_t size)
{
    struct ifaddrs *all;
    int best = 0;

    if (getifaddrs(&all) != 0) {
        snprintf(why, size, "cannot list network interfaces: %s", strerror(errno));
        return -ENODEV;
    }
    for (const struct ifaddrs *entry = all; entry != NULL; entry = entry->ifa_next) {
        int value = is_usable(entry) ? rank(entry, wanted, host_only) : 0;

        if (value > best) {
            best = value;
            take(entry, address);
        }
    }
    freeifaddrs(all);
    if (best != 0)
        return 0;
    if (*wanted != '\0')
        snprintf(why, size,
                 "PAMI_OFI_INTERFACE: no interface that is up has the name or address "
                 "'%.64s'",
                 wanted);
    else
        snprintf(why, size, "no network interface is up");
    return -ENODEV;
}
