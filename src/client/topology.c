/*
 * How many processors there are for how many tasks, and what follows for waiting.
 *
 * The devices know which tasks compete for this one's processors. When their load is above what
 * this process may use, somebody who waits keeps somebody who works from running.
 */

#include <sched.h>

#include "bootstrap/bootstrap.h"
#include "client/client.h"
#include "util/cpu.h"
#include "util/option.h"

enum {
    YIELD_CHOICE_AUTO,
    YIELD_CHOICE_ALWAYS,
    YIELD_CHOICE_NEVER
};

/* Idle passes before a yield when every task has a core; about 30 us. */
#define SPIN_WITH_CORE 2048u
/* The same where passes look at a network, which takes 0.2 to 0.5 us. Where strangers want the two
 * processors, 90 threads of them, a barrier of two tasks takes 6 ms; after 2048 passes 30 ms. */
#define SPIN_NETWORK 128u
/* The same when it has not: look again once or twice, then let others run. */
#define SPIN_WITHOUT_CORE 2u
/* Up to so many tasks for each processor spread. Without and with, us: 4 on 2, barrier 3.8 and 2.9;
 * 8 on 2, barrier 6.3 and 3.6, all-to-all of 64 KiB alike; 32 on 2, barrier 29.2 and 30.0. */
#define SPREAD_LOAD 4.0

unsigned client_hwthreads(void)
{
    int64_t option = option_int(OPT_HWTHREADS);

    return option != 0 ? (unsigned)option : cpu_available();
}

/* Tasks for each processor that this one may use. */
static double load_of(const struct client *client)
{
    double load = 0;

    for (size_t i = 0; i < client->core.device_count; i++) {
        struct device *device = client->core.devices[i];

        if (device->ops->load != NULL)
            load = device->ops->load(device);
    }
    return load / cpu_available();
}

enum yield_policy client_yield_policy(const struct client *client)
{
    switch (option_choice(OPT_YIELD)) {
    case YIELD_CHOICE_ALWAYS:
        return YIELD_SOON;
    case YIELD_CHOICE_NEVER:
        return YIELD_NEVER;
    default:
        return load_of(client) > 1 + 0.01 / cpu_available() ? YIELD_SOON : YIELD_SELDOM;
    }
}

uint32_t client_spin_passes(const struct client_core *core)
{
    if (option_int(OPT_SPIN) != 0)
        return (uint32_t)option_int(OPT_SPIN);
    if (core->yield == YIELD_SOON)
        return SPIN_WITHOUT_CORE;
    return core->network ? SPIN_NETWORK : SPIN_WITH_CORE;
}

/* The processors a task may use, as it said when it began; false: not known. */
static bool processors_of(const struct client_core *core, uint32_t task, cpu_set_t *cpus)
{
    CPU_ZERO(cpus);
    for (size_t i = 0; i < core->device_count; i++) {
        struct device *device = core->devices[i];

        if (device->ops->bound != NULL)
            device->ops->bound(device, task, cpus);
    }
    return CPU_COUNT(cpus) != 0;
}

bool client_spreads(const struct client *client)
{
    return client->core.yield == YIELD_SOON && load_of(client) <= SPREAD_LOAD;
}

void client_spread(const struct client_core *core, uint32_t offset)
{
    const struct bootstrap *bootstrap = core->bootstrap;
    cpu_set_t now, mine, others, one;
    unsigned before = offset * bootstrap->local_count;
    int cpu = 0;

    if (sched_getaffinity(0, sizeof now, &now) != 0 ||
        !processors_of(core, bootstrap->task, &mine) || !CPU_EQUAL(&now, &mine))
        return;
    for (uint32_t i = 0; i < bootstrap->local_index; i++)
        before +=
            processors_of(core, bootstrap->local_tasks[i], &others) && CPU_EQUAL(&others, &mine);
    before %= (unsigned)CPU_COUNT(&mine);
    while (!CPU_ISSET(cpu, &mine) || before-- > 0)
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0)
        sched_setaffinity(0, sizeof now, &now);
}
