/*
 * The decision of network.h.
 */
#include "device/network.h"

#include "bootstrap/bootstrap.h"
#include "util/option.h"

/* Put by pamirun when it was asked for several nodes. */
#define PRETENDED_KEY "pamirun-pretended-nodes"

bool network_is_pretended(struct bootstrap *bootstrap)
{
    char value[16];

    return bootstrap->nodes > 1 &&
           bootstrap_get(bootstrap, PRETENDED_KEY, value, sizeof(value)) == 0;
}

bool network_by_segment(struct bootstrap *bootstrap)
{
    return option_choice(OPT_NETWORK) != NETWORK_OFI && network_is_pretended(bootstrap);
}
