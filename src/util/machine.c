/*
 * Loading hwloc's picture of the machine; see machine.h.
 */
#include "util/machine.h"

#include <pthread.h>
#include <stddef.h>

#if HWLOC_API_VERSION < 0x00020100
#define HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED HWLOC_TOPOLOGY_FLAG_WHOLE_SYSTEM
#endif

static hwloc_topology_t load(void)
{
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) != 0)
        return NULL;
    /* It would bind this thread to every processor in turn, which takes most of the time. */
    hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    if (hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) == 0 &&
        hwloc_topology_load(topology) == 0)
        return topology;
    hwloc_topology_destroy(topology);
    return NULL;
}

/* Files are read, and collectives ask as well, under a mutex. */
hwloc_topology_t machine_topology(void)
{
    hwloc_topology_t topology;
    int state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    topology = load();
    pthread_setcancelstate(state, NULL);
    return topology;
}
