/*
 * Which network interface a task uses, for packets and for its listening socket alike.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "device/ofi/ofi.h"

static bool is_usable(const struct ifaddrs *entry)
{
    return entry->ifa_addr != NULL && (entry->ifa_flags & IFF_UP) != 0 &&
           (entry->ifa_addr->sa_family == AF_INET || entry->ifa_addr->sa_family == AF_INET6);
}

static void take(const struct ifaddrs *entry, union ofi_address *address)
{
    memset(address, 0, sizeof(*address));
    address->any.sa_family = entry->ifa_addr->sa_family;
    memcpy(address, entry->ifa_addr, ofi_address_bytes(address));
}

/* 169.254.0.0/16: what a host has with its own controller is the same on all hosts. */
static bool is_self_assigned(const union ofi_address *address)
{
    return address->any.sa_family == AF_INET && ntohl(address->v4.sin_addr.s_addr) >> 16 == 0xa9fe;
}

/* IPv4 before IPv6, but last what has no cable, or nobody at its other end, and what has given
 * itself an address. Link-local IPv6 addresses need a scope, and are left out. */
static int rank(const struct ifaddrs *entry, const char *wanted, bool host_only)
{
    union ofi_address address;
    bool loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    int base = entry->ifa_addr->sa_family == AF_INET ? 2 : 1;
    char text[INET6_ADDRSTRLEN];

    take(entry, &address);
    if (address.any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address.v6.sin6_addr))
        return 0;
    ofi_address_format(&address, text, sizeof(text));
    if (*wanted != '\0')
        return strcmp(wanted, entry->ifa_name) == 0 || strcmp(wanted, text) == 0 ? base : 0;
    if (loopback != host_only)
        return 0;
    return (entry->ifa_flags & IFF_RUNNING) != 0 && !is_self_assigned(&address) ? base + 2 : base;
}

int ofi_interface(const char *wanted, bool host_only, union ofi_address *address, char *why,
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
