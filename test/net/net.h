/*
 * What the programs of test/net share.
 */
#ifndef LIBPAMI_NET_NET_H
#define LIBPAMI_NET_NET_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline bool is_mapped(const char *name)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    bool found = false;

    while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL)
        found = strstr(line, name) != NULL;
    if (maps != NULL)
        fclose(maps);
    return found;
}

/* After the client was created, where PAMI_NETWORK=ofi may have asked for it: skips the test. */
static inline void need_module(void)
{
    const char *network = getenv("PAMI_NETWORK");

    if (network == NULL || strcmp(network, "ofi") != 0 || is_mapped("pami-ofi.so"))
        return;
    puts("SKIP: this build has no network module (libfabric is missing)");
    exit(77);
}

#endif
