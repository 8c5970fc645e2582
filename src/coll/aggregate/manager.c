/*
 * Accounting of slots and buffers; see manager.h.
 */
#include "coll/aggregate/manager.h"

struct aggregate_grant aggregate_take(struct aggregate_manager *manager, uint32_t wanted,
                                      uint64_t bytes)
{
    struct aggregate_grant grant = {wanted, bytes};

    if (grant.slots > manager->slots)
        grant.slots = manager->slots;
    if (bytes != 0 && grant.slots > manager->bytes / bytes)
        grant.slots = (uint32_t)(manager->bytes / bytes);
    manager->slots -= grant.slots;
    manager->bytes -= grant.slots * bytes;
    return grant;
}

void aggregate_give_back(struct aggregate_manager *manager, struct aggregate_grant *grant,
                         uint32_t keep)
{
    uint32_t back = grant->slots > keep ? grant->slots - keep : 0;

    manager->slots += back;
    manager->bytes += back * grant->bytes;
    grant->slots -= back;
}
