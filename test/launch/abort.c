/*
 * The last task ends the job by PAMIX_Client_abort, with the status that is its argument, and the
 * others wait for it; status.sh looks at how the job ends. Without an argument: what is refused,
 * and that a task without a launcher lives on.
 */
#include <pami.h>
#include <pamix.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "FAILED: %s\n", what);
        _exit(99);
    }
}

static void refuse(pami_client_t client)
{
    pami_client_t simulated;

    check(PAMIX_Client_abort(NULL, 1, NULL) == PAMI_INVAL, "no client");
    check(PAMIX_Client_abort(client, 0, NULL) == PAMI_INVAL, "status 0");
    check(PAMIX_Client_abort(client, 256, NULL) == PAMI_INVAL, "status 256");
    check(PAMIX_Sim_create(NULL, 1, &simulated) == PAMI_SUCCESS, "PAMIX_Sim_create");
    check(PAMIX_Client_abort(simulated, 1, NULL) == PAMI_INVAL, "a simulation");
    check(PAMIX_Sim_destroy(&simulated, 1) == PAMI_SUCCESS, "PAMIX_Sim_destroy");
}

int main(int argc, char **argv)
{
    pami_configuration_t query[] = {{.name = PAMI_CLIENT_TASK_ID}, {.name = PAMI_CLIENT_NUM_TASKS}};
    pami_client_t client;

    check(PAMI_Client_create("abort", &client, NULL, 0) == PAMI_SUCCESS, "PAMI_Client_create");
    check(PAMI_Client_query(client, query, 2) == PAMI_SUCCESS, "PAMI_Client_query");
    if (argc == 1)
        refuse(client);
    if (query[0].value.intval == query[1].value.intval - 1)
        check(PAMIX_Client_abort(client, argc == 1 ? 3 : atoi(argv[1]), "told to") == PAMI_SUCCESS,
              "PAMIX_Client_abort");
    if (argc != 1)
        sleep(100);
    check(PAMI_Client_destroy(&client) == PAMI_SUCCESS, "PAMI_Client_destroy");
    return 0;
}
