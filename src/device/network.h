/*
 * Which device joins the nodes of a job, decided alike on all its tasks.
 *
 * Nodes that a launcher only pretends (pamirun --nodes) lie on one host. They are joined by the
 * packet path of the node segment, as if it were a network, or by a real network device when the
 * option PAMI_NETWORK asks for one.
 */
#ifndef LIBPAMI_DEVICE_NETWORK_H
#define LIBPAMI_DEVICE_NETWORK_H

#include <stdbool.h>

struct bootstrap;

/* In the order of the choices of PAMI_NETWORK. */
enum network_choice {
    NETWORK_AUTO,
    NETWORK_OFI,
    NETWORK_SHM,
};

/* The launcher pretends that this host is several nodes. */
bool network_is_pretended(struct bootstrap *bootstrap);

/* Tasks of other pretended nodes are reached through shared memory. */
bool network_by_segment(struct bootstrap *bootstrap);

#endif
