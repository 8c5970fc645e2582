/*
 * How many processors there are for how many tasks, and what follows for waiting.
 *
 * The devices know which tasks compete for this one's processors. When their load is above what
 * this process may use, somebody who waits keeps somebody who works from running.
 */

#include "client/client.h"
#include "util/cpu.h"
#include "util/option.h"

enum {
    YIELD_CHOICE_AUTO,
    YIELD_CHOICE_ALWAYS,
    YIELD_CHOICE_NEVER
};

/* Idle passes before a yield when every task has a core; about 20 us. */
#define SPIN_WITH_CORE 2048u
/* The same when it has not: look again once or twice, then let others run. */
#define SPIN_WITHOUT_CORE 2u

unsigned client_hwthreads(void)
{
    int64_t option = option_int(OPT_HWTHREADS);

    return option != 0 ? (unsigned)option : cpu_available();
}

static bool is_oversubscribed(const struct client *client)
{
    unsigned available = cpu_available();
    double load = 0;

    for (size_t i = 0; i < client->core.device_count; i++) {
        struct device *device = client->core.devices[i];

        if (device->ops->load != NULL)
            load = device->ops->load(device);
    }
    return load > (double)available + 0.01;
}

enum yield_policy client_yield_policy(const struct client *client)
{
    switch (option_choice(OPT_YIELD)) {
    case YIELD_CHOICE_ALWAYS:
        return YIELD_SOON;
    case YIELD_CHOICE_NEVER:
        return YIELD_NEVER;
    default:
        return is_oversubscribed(client) ? YIELD_SOON : YIELD_SELDOM;
    }
}

uint32_t client_spin_passes(enum yield_policy policy)
{
    if (option_int(OPT_SPIN) != 0)
        return (uint32_t)option_int(OPT_SPIN);
    return policy == YIELD_SOON ? SPIN_WITHOUT_CORE : SPIN_WITH_CORE;
}
