/*
 * Creating and destroying clients: arguments, handles, free names, again and again.
 *
 * Run: tasks=1,2,3,8
 * Run: tasks=4 nodes=2
 * Run:
 */
#include "api_test.h"

static void refused(void)
{
    pami_client_t client = &client;
    pami_configuration_t of_a_type = {.name = PAMI_TYPE_DATA_SIZE};
    pami_configuration_t unknown = {.name = (pami_attribute_name_t)777};

    CHECK_REFUSED(PAMI_Client_create(NULL, &client, NULL, 0), PAMI_INVAL, "name");
    CHECK_REFUSED(PAMI_Client_create("refused", NULL, NULL, 0), PAMI_INVAL, "client");
    CHECK_REFUSED(PAMI_Client_create("refused", &client, &of_a_type, 1), PAMI_INVAL, "");
    CHECK_REFUSED(PAMI_Client_create("refused", &client, &unknown, 1), PAMI_INVAL, "");
    CHECK_REFUSED(PAMI_Client_create("refused", &client, NULL, 1), PAMI_INVAL, "");
}

/* These two are the only attributes a client may be created with. */
static void accepted_attributes(void)
{
    pami_client_t client;
    pami_configuration_t configuration[2];

    configuration[0].name = PAMI_CLIENT_NONCONTIG;
    configuration[0].value.intval = 0;
    configuration[1].name = PAMI_CLIENT_MEMORY_OPTIMIZE;
    configuration[1].value.intval = 1;
    CHECK_OK(PAMI_Client_create("attributes", &client, configuration, 2));
    CHECK_OK(PAMI_Client_destroy(&client));
}

static void destroy_refused(void)
{
    pami_client_t client, copy, none = PAMI_CLIENT_NULL;
    static size_t zeros[512];
    size_t garbage[64];
    pami_client_t wrong[] = {NULL, zeros, garbage, (void *)-1L, (void *)1L, &zeros[1]};
    size_t i;

    memset(garbage, 0xa5, sizeof garbage);
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        client = wrong[i];
        CHECK_REFUSED(PAMI_Client_destroy(&client), PAMI_INVAL, "client");
    }
    CHECK_RESULT(PAMI_Client_destroy(NULL), PAMI_INVAL);
    CHECK_RESULT(PAMI_Client_destroy(&none), PAMI_INVAL);

    CHECK_OK(PAMI_Client_create("once", &client, NULL, 0));
    copy = client;
    CHECK_OK(PAMI_Client_destroy(&client));
    CHECK(client == PAMI_CLIENT_NULL);
    CHECK_RESULT(PAMI_Client_destroy(&client), PAMI_INVAL);
    CHECK_RESULT(PAMI_Client_destroy(&copy), PAMI_INVAL);
}

/* Names are free strings; the caller's copy may vanish. */
static void names(void)
{
    static char longest[301];
    const char *const all[] = {
        "MPI", "", " blanks and = ; signs \n %s%d", "../\\\"'$HOME", "\xc3\xa9\xff", longest};
    char name[sizeof longest];
    struct job job;
    size_t i;

    memset(longest, 'n', sizeof longest - 1);
    for (i = 0; i < sizeof all / sizeof all[0]; i++) {
        memcpy(name, all[i], strlen(all[i]) + 1);
        job_create_client(&job, name);
        memset(name, 'x', sizeof name - 1);
        job_create_contexts(&job, 1);
        job_finish(&job);
    }
}

static void again_and_again(void)
{
    struct job job;
    size_t i, task = 0;

    for (i = 0; i < 10; i++) {
        job_start(&job, "again", i % 3 + 1);
        CHECK(i == 0 || job.task == task);
        task = job.task;
        job_barrier(&job);
        job_finish(&job);
    }
}

int main(void)
{
    CHECK(PAMI_CLIENT_NULL == NULL && PAMI_CONTEXT_NULL == NULL);
    CHECK(PAMI_ENDPOINT_NULL == (pami_endpoint_t)-1);
    refused();
    accepted_attributes();
    destroy_refused();
    names();
    again_and_again();
    return 0;
}
