/*
 * Addresses of sockets, of IPv4 or IPv6.
 */
#ifndef LIBPAMI_DEVICE_OFI_ADDRESS_H
#define LIBPAMI_DEVICE_OFI_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

union ofi_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Of its family. */
socklen_t ofi_address_bytes(const union ofi_address *address);

/* In the network's order of bytes. */
in_port_t ofi_address_port(const union ofi_address *address);

/* Whatever the ports are. */
bool ofi_address_same_host(const union ofi_address *a, const union ofi_address *b);

/* The host, as a number. */
void ofi_address_format(const union ofi_address *address, char *text, size_t size);

#endif
