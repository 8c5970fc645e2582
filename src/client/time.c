/*
 * Time as the user sees it. Clients of a simulation have a time of their own; any other value of
 * the client argument, also an invalid one, means the system's clock.
 */
#include "client/client.h"
#include "util/clock.h"

atomic_uint client_own_clocks;

static const struct client_clock *clock_of(pami_client_t handle)
{
    const struct client *client;

    if (atomic_load_explicit(&client_own_clocks, memory_order_relaxed) == 0)
        return NULL;
    client = client_from_handle(handle);
    return client != NULL && client->clock.now != NULL ? &client->clock : NULL;
}

double PAMI_Wtime(pami_client_t client)
{
    const struct client_clock *own = clock_of(client);

    return own != NULL ? own->now(own->cookie) : clock_now();
}

unsigned long long PAMI_Wtimebase(pami_client_t client)
{
    const struct client_clock *own = clock_of(client);

    if (own != NULL)
        return (unsigned long long)(own->now(own->cookie) * 1e6 * clock_ticks_per_us());
    return clock_ticks();
}
