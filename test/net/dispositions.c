/*
 * What the network device costs who does not need it: nothing. A job on one node never opens
 * libfabric; and whether it is opened or not, signals are handled as before.
 *
 * Run: tasks=1,2
 * Run: tasks=2 nodes=2
 * Run: tasks=2 nodes=2 args="network" env="PAMI_NETWORK=ofi"
 */
#include <pami.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/net.h"

/* Set by the C library as it likes. */
#define RESTORER 0x04000000

static void remember(struct sigaction actions[NSIG])
{
    memset(actions, 0, NSIG * sizeof actions[0]);
    for (int i = 1; i < NSIG; i++)
        sigaction(i, NULL, &actions[i]);
}

static int changed(struct sigaction before[NSIG])
{
    static struct sigaction now[NSIG];

    remember(now);
    for (int i = 1; i < NSIG; i++)
        if (now[i].sa_handler != before[i].sa_handler ||
            ((now[i].sa_flags ^ before[i].sa_flags) & ~RESTORER) != 0)
            return i;
    return 0;
}

static void on_user_signal(int number)
{
    (void)number;
}

int main(int argc, char **argv)
{
    static struct sigaction before[NSIG];
    bool network = argc > 1 && strcmp(argv[1], "network") == 0;
    pami_client_t client;
    pami_context_t context;
    int number;

    signal(SIGTERM, on_user_signal);
    remember(before);
    if (PAMI_Client_create("dispositions", &client, NULL, 0) != PAMI_SUCCESS ||
        PAMI_Context_createv(client, NULL, 0, &context, 1) != PAMI_SUCCESS)
        return 2;
    number = changed(before);
    if (number != 0) {
        printf("signal %d is handled differently\n", number);
        return 1;
    }
    need_module();
    if (!network && (is_mapped("libfabric") || is_mapped("pami-ofi.so"))) {
        puts("libfabric was opened without need");
        return 1;
    }
    PAMI_Context_destroyv(&context, 1);
    PAMI_Client_destroy(&client);
    return 0;
}
