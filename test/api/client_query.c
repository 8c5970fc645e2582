/*
 * Client attributes: all of them answer before any context exists, with sensible values that agree
 * between tasks; unknown ones are refused while the others are filled; nothing can be changed.
 *
 * Run:
 * Run: tasks=1,2,3,8
 * Run: tasks=2,5 nodes=2
 * Run: tasks=6 nodes=3
 * Run: tasks=2 env="PAMI_NUM_CONTEXTS=4 PAMI_HWTHREADS=3"
 * Run: tasks=3 servers=2
 * Run: tasks=4 nodes=2 servers=1
 * Run: tasks=1 env="PAMI_NUM_CONTEXTS=64"
 * Run: tasks=1 env="PAMI_NUM_CONTEXTS=2"
 */
#define _GNU_SOURCE 1
#include "api_test.h"

#include <sched.h>

enum {
    NAME = 1,
    NAME_MAX_BYTES = 128, /* with the NUL */
    TASKS_MAX = 64
};

struct card {
    size_t task, contexts, local_tasks, first_local;
    char name[NAME_MAX_BYTES];
};

static struct card cards[TASKS_MAX];
static size_t cards_seen;

static void on_card(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct card card;

    (void)context, (void)cookie, (void)data, (void)recv;
    CHECK(header_bytes == sizeof card && bytes == 0);
    memcpy(&card, header, sizeof card);
    CHECK(card.task == test_origin(origin) && cards[card.task].contexts == 0);
    cards[card.task] = card;
    cards_seen++;
}

static void all_at_once(struct job *job)
{
    static const pami_attribute_name_t names[] = {
        PAMI_CLIENT_CLOCK_MHZ,       PAMI_CLIENT_CONST_CONTEXTS, PAMI_CLIENT_HWTHREADS_AVAILABLE,
        PAMI_CLIENT_MEMREGION_SIZE,  PAMI_CLIENT_MEM_SIZE,       PAMI_CLIENT_NUM_TASKS,
        PAMI_CLIENT_NUM_LOCAL_TASKS, PAMI_CLIENT_LOCAL_TASKS,    PAMI_CLIENT_NUM_CONTEXTS,
        PAMI_CLIENT_PROCESSOR_NAME,  PAMI_CLIENT_TASK_ID,        PAMI_CLIENT_WTIMEBASE_MHZ,
        PAMI_CLIENT_WTICK,           PAMI_CLIENT_NONCONTIG,      PAMI_CLIENT_MEMORY_OPTIMIZE};
    enum {
        COUNT = sizeof names / sizeof names[0]
    };
    pami_configuration_t query[COUNT], again[COUNT];
    const char *setting = getenv("PAMI_NUM_CONTEXTS");
    cpu_set_t set;
    size_t i;

    memset(query, 0xa5, sizeof query);
    for (i = 0; i < COUNT; i++)
        query[i].name = names[i];
    CHECK_OK(PAMI_Client_query(job->client, query, COUNT));
    for (i = 0; i < COUNT; i++)
        CHECK(query[i].name == names[i]);
    memcpy(again, query, sizeof again);
    CHECK_OK(PAMI_Client_query(job->client, again, COUNT));
    CHECK(memcmp(query, again, sizeof query) == 0);

    CHECK(query[0].value.intval >= 1 && query[0].value.intval < 100000); /* MHz */
    CHECK(query[1].value.intval != 0);
    sched_getaffinity(0, sizeof set, &set);
    if (getenv("PAMI_HWTHREADS"))
        CHECK_SIZE(query[2].value.intval, strtoul(getenv("PAMI_HWTHREADS"), NULL, 10));
    else
        CHECK(query[2].value.intval >= 1 && query[2].value.intval <= (size_t)CPU_COUNT(&set));
    CHECK(query[3].value.intval >= 1 && query[3].value.intval <= sizeof(pami_memregion_t));
    CHECK(query[4].value.intval >= 16 && query[4].value.intval < ((size_t)1 << 32)); /* MiB */
    CHECK(query[6].value.intval >= 1 && query[6].value.intval <= query[5].value.intval);
    CHECK(query[8].value.intval >= 2 && query[8].value.intval <= 64);
    CHECK((query[8].value.intval & (query[8].value.intval - 1)) == 0);
    if (setting != NULL)
        CHECK_SIZE(query[8].value.intval, strtoul(setting, NULL, 10));
    CHECK(strlen(query[9].value.chararray) >= 1);
    CHECK(strlen(query[9].value.chararray) < NAME_MAX_BYTES);
    CHECK(query[10].value.intval < query[5].value.intval);
    CHECK(query[11].value.intval >= 1);
    CHECK(query[12].value.doubleval > 0 && query[12].value.doubleval < 0.01);
}

static void local_tasks(struct job *job)
{
    pami_configuration_t query = {.name = PAMI_CLIENT_LOCAL_TASKS};
    size_t i, count = client_attribute(job->client, PAMI_CLIENT_NUM_LOCAL_TASKS), self = 0;

    CHECK_OK(PAMI_Client_query(job->client, &query, 1));
    for (i = 0; i < count; i++) {
        size_t task = query.value.intarray[i];

        CHECK(task < job->tasks);
        CHECK(i == 0 || task > query.value.intarray[i - 1]);
        self += task == job->task;
    }
    CHECK_SIZE(self, 1);
}

static void refused(struct job *job)
{
    pami_configuration_t mixed[5];
    pami_configuration_t update;
    int name;

    memset(mixed, 0, sizeof mixed);
    mixed[0].name = PAMI_CLIENT_NUM_TASKS;
    mixed[1].name = PAMI_CONTEXT_DISPATCH_ID_MAX;
    mixed[2].name = PAMI_CLIENT_TASK_ID;
    mixed[3].name = (pami_attribute_name_t)99;
    mixed[4].name = PAMI_CLIENT_NUM_CONTEXTS;
    mixed[2].value.intval = (size_t)-1;
    CHECK_REFUSED(PAMI_Client_query(job->client, mixed, 5), PAMI_INVAL, "");
    CHECK_SIZE(mixed[0].value.intval, job->tasks);
    CHECK_SIZE(mixed[2].value.intval, job->task);
    CHECK_SIZE(mixed[4].value.intval, client_attribute(job->client, PAMI_CLIENT_NUM_CONTEXTS));

    CHECK_OK(PAMI_Client_query(job->client, mixed, 0));
    CHECK_OK(PAMI_Client_query(job->client, NULL, 0));
    CHECK_OK(PAMI_Client_update(job->client, NULL, 0));
    CHECK_RESULT(PAMI_Client_query(job->client, NULL, 1), PAMI_INVAL);
    CHECK_RESULT(PAMI_Client_query(PAMI_CLIENT_NULL, mixed, 1), PAMI_INVAL);
    CHECK_RESULT(PAMI_Client_update(PAMI_CLIENT_NULL, mixed, 1), PAMI_INVAL);

    for (name = PAMI_CLIENT_CLOCK_MHZ; name <= PAMI_CLIENT_WTICK; name++) {
        update.name = (pami_attribute_name_t)name;
        update.value.intval = 1;
        CHECK_REFUSED(PAMI_Client_update(job->client, &update, 1), PAMI_INVAL, "");
    }
    CHECK_SIZE(client_attribute(job->client, PAMI_CLIENT_NUM_TASKS), job->tasks);
    update.name = PAMI_CLIENT_NONCONTIG;
    CHECK_OK(PAMI_Client_update(job->client, &update, 1));
    update.name = PAMI_CLIENT_MEMORY_OPTIMIZE;
    CHECK_OK(PAMI_Client_update(job->client, &update, 1));
}

/* Everybody's values side by side: equal where they must be, different where they must be. */
static void compare(struct job *job)
{
    pami_configuration_t name = {.name = PAMI_CLIENT_PROCESSOR_NAME};
    pami_configuration_t local = {.name = PAMI_CLIENT_LOCAL_TASKS};
    struct card card = {.task = job->task};
    size_t i, j, locals = 0;

    CHECK(job->tasks <= TASKS_MAX);
    CHECK_OK(PAMI_Client_query(job->client, &name, 1));
    CHECK_OK(PAMI_Client_query(job->client, &local, 1));
    memcpy(card.name, name.value.chararray, strlen(name.value.chararray) + 1);
    card.contexts = client_attribute(job->client, PAMI_CLIENT_NUM_CONTEXTS);
    card.local_tasks = client_attribute(job->client, PAMI_CLIENT_NUM_LOCAL_TASKS);
    card.first_local = local.value.intarray[0];
    for (i = 0; i < job->tasks; i++)
        test_send_immediate(job->context[0], job_endpoint(job, i, 0), NAME, &card, sizeof card,
                            NULL, 0);
    WAIT(job, cards_seen == job->tasks);
    for (i = 0; i < job->tasks; i++) {
        CHECK(cards[i].contexts == card.contexts);
        for (j = 0; j < i; j++)
            CHECK(strcmp(cards[i].name, cards[j].name) != 0);
        if (cards[i].first_local == card.first_local) {
            CHECK(cards[i].local_tasks == card.local_tasks);
            CHECK(local.value.intarray[locals++] == i);
        }
    }
    CHECK_SIZE(locals, card.local_tasks);
}

int main(void)
{
    struct job job;
    pami_client_t other;

    job_create_client(&job, "client_query");
    all_at_once(&job);
    local_tasks(&job);
    refused(&job);
    CHECK_OK(PAMI_Client_create("other", &other, NULL, 0));
    CHECK_SIZE(client_attribute(other, PAMI_CLIENT_TASK_ID), job.task);
    CHECK_OK(PAMI_Client_destroy(&other));

    job_create_contexts(&job, 1);
    test_dispatch(job.context[0], NAME, on_card, NULL, test_ordered());
    all_at_once(&job);
    compare(&job);
    job_finish(&job);
    return 0;
}
