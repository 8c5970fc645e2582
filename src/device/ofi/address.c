/*
 * Addresses of sockets, see address.h.
 */
#include "device/ofi/address.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

socklen_t ofi_address_bytes(const union ofi_address *address)
{
    return address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
}

in_port_t ofi_address_port(const union ofi_address *address)
{
    return address->any.sa_family == AF_INET ? address->v4.sin_port : address->v6.sin6_port;
}

bool ofi_address_same_host(const union ofi_address *a, const union ofi_address *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    return a->any.sa_family == AF_INET
               ? a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr
               : memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr)) == 0;
}

void ofi_address_format(const union ofi_address *address, char *text, size_t size)
{
    if (getnameinfo(&address->any, ofi_address_bytes(address), text, (socklen_t)size, NULL, 0,
                    NI_NUMERICHOST) != 0)
        snprintf(text, size, "?");
}
