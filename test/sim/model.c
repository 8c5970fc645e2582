/*
 * What virtual time a message takes, what clients of a simulation answer, how runs end, and that a
 * task's heap stays for its neighbours when its client has gone.
 *
 * Run:
 */
#include <math.h>

#include "sim_test.h"

#define DISPATCH 7

static bool is_close(double a, double b)
{
    return fabs(a - b) < 1e-12;
}

static size_t arrived;
static double arrived_at;
static pami_client_t arrived_client;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t data_bytes,
                       pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context;
    (void)cookie;
    (void)header;
    (void)header_bytes;
    (void)data;
    (void)data_bytes;
    (void)origin;
    (void)recv;
    arrived++;
    arrived_at = PAMI_Wtime(arrived_client);
}

static void send_one(const struct sim_job *job, size_t from, size_t to, size_t bytes)
{
    char data[1024] = {0};
    pami_send_immediate_t send = {
        .data = {.iov_base = data, .iov_len = bytes},
        .dispatch = DISPATCH,
        .dest = job_endpoint(job, to, 0),
    };

    CALL(PAMI_Send_immediate(job_context(job, from, 0), &send));
    arrived_client = job->client[to];
}

static pamix_sim_config_t plain_config(void)
{
    pamix_sim_config_t config;

    PAMIX_Sim_default(&config);
    config.contexts = 2;
    config.tasks_per_core = 2;
    config.tasks_per_node = 4;
    config.nodes_per_switch = 2;
    for (int i = 0; i < PAMIX_SIM_LEVELS; i++) {
        config.level[i].latency = 1e-6 * pow(10, i);
        config.level[i].overhead = 3e-9 * (i + 1);
        config.level[i].gap = 5e-9;
        config.level[i].gap_per_byte = 0.25e-9 * (i + 1);
    }
    return config;
}

/* o + L + G * bytes + o on every level, to the picosecond. */
static void test_times(void)
{
    static const size_t to[PAMIX_SIM_LEVELS] = {1, 2, 4, 8};
    pamix_sim_config_t config = plain_config();

    for (int level = 0; level < PAMIX_SIM_LEVELS; level++) {
        const pamix_sim_level_t *l = &config.level[level];
        struct sim_job job;

        job_create(&job, &config, 16, 1);
        job_dispatch(&job, DISPATCH, on_message, NULL, (pami_dispatch_hint_t){0});
        arrived = 0;
        send_one(&job, 0, to[level], 100);
        job_settle(&job);
        CHECK(arrived == 1);
        CHECK(is_close(arrived_at, l->latency + 2 * l->overhead + (100 + 16) * l->gap_per_byte));
        job_destroy(&job);
    }
}

/* Packets of one port leave one after the other, and so do those that one port receives. */
static void test_bandwidth(bool incast)
{
    const size_t count = 50;
    pamix_sim_config_t config = plain_config();
    const pamix_sim_level_t *l = &config.level[PAMIX_SIM_SYSTEM];
    struct sim_job job;
    double expected = l->latency + 2 * l->overhead + count * (512 + 16) * l->gap_per_byte;

    config.node_ports = 0;
    job_create(&job, &config, 8 + count, 1);
    job_dispatch(&job, DISPATCH, on_message, NULL, (pami_dispatch_hint_t){0});
    arrived = 0;
    for (size_t i = 0; i < count; i++)
        send_one(&job, incast ? 8 + i : 0, incast ? 0 : 8, 512);
    job_settle(&job);
    CHECK(arrived == count);
    CHECK(is_close(arrived_at, expected));
    job_destroy(&job);
}

static void test_queries(void)
{
    pamix_sim_config_t config = plain_config();
    struct sim_job job;

    job_create(&job, &config, 11, 2);
    for (size_t task = 0; task < job.tasks; task++) {
        pami_configuration_t query[] = {
            {.name = PAMI_CLIENT_TASK_ID},         {.name = PAMI_CLIENT_NUM_TASKS},
            {.name = PAMI_CLIENT_NUM_LOCAL_TASKS}, {.name = PAMI_CLIENT_LOCAL_TASKS},
            {.name = PAMI_CLIENT_NUM_CONTEXTS},
        };
        size_t first = task / 4 * 4;
        size_t local = task < 8 ? 4 : 3;

        CALL(PAMI_Client_query(job.client[task], query, 5));
        CHECK(query[0].value.intval == task && query[1].value.intval == 11);
        CHECK(query[2].value.intval == local && query[4].value.intval == 2);
        for (size_t i = 0; i < local; i++)
            CHECK(query[3].value.intarray[i] == first + i);
    }
    job_destroy(&job);
}

static void expect_refused(const pamix_sim_config_t *config, size_t tasks, const char *word)
{
    pami_client_t clients[4] = {NULL};

    CHECK(PAMIX_Sim_create(config, tasks, clients) == PAMI_INVAL);
    if (strstr(test_text(), word) == NULL)
        FAIL("\"%s\" does not name %s", test_text(), word);
    CHECK(clients[0] == NULL);
}

static void test_configuration(void)
{
    pamix_sim_config_t config;
    const uint32_t dead[] = {9};
    pami_client_t client;

#define REFUSED(member, wrong)                                                                     \
    PAMIX_Sim_default(&config);                                                                    \
    config.member = (wrong);                                                                       \
    expect_refused(&config, 4, #member)
    REFUSED(size, 3);
    REFUSED(size, sizeof(config) + 1);
    REFUSED(contexts, 0);
    REFUSED(contexts, 65);
    REFUSED(tasks_per_node, 0);
    REFUSED(packet_bytes, 127);
    REFUSED(packet_bytes, 65529);
    REFUSED(jitter, -1);
    REFUSED(reorder, 1.5);
    REFUSED(refuse, 1);
    REFUSED(retry, NAN);
    REFUSED(copy, 3);
    REFUSED(dead_count, 5);
    PAMIX_Sim_default(&config);
    config.tasks_per_core = 3;
    expect_refused(&config, 4, "tasks_per_node");
    PAMIX_Sim_default(&config);
    config.level[2].gap_per_byte = -1;
    expect_refused(&config, 4, "level[2]");
    PAMIX_Sim_default(&config);
    config.dead = dead;
    config.dead_count = 1;
    expect_refused(&config, 4, "dead");
    expect_refused(NULL, 0, "ntasks");
    expect_refused(NULL, ((size_t)1 << 24) + 1, "ntasks");
    CHECK(PAMIX_Sim_create(NULL, 1, NULL) == PAMI_INVAL);
    PAMIX_Sim_default(NULL);
    CALL(PAMIX_Sim_create(NULL, 1, &client));
    CALL(PAMIX_Sim_destroy(&client, 1));
    CHECK(client == NULL);
    CALL(PAMIX_Sim_destroy(&client, 1));
    CHECK(PAMIX_Sim_run(&config, NULL, NULL, 0, 0) == PAMI_INVAL);
    CHECK(PAMIX_Sim_counters(NULL, NULL) == PAMI_INVAL);
    CHECK(PAMIX_Sim_kill(NULL) == PAMI_INVAL);
    CHECK(PAMIX_Sim_digest(NULL) == 0 && PAMIX_Sim_time(NULL) < 0);
}

static int is_done(void *cookie)
{
    return *(bool *)cookie;
}

static int when_arrived(void *cookie)
{
    return arrived >= *(size_t *)cookie;
}

static pami_result_t work_once(pami_context_t context, void *cookie)
{
    (void)context;
    *(bool *)cookie = true;
    return PAMI_SUCCESS;
}

struct alarm {
    pami_client_t client;
    double time;
    size_t calls;
    bool rung;
};

/* Waits for a time of day by asking to be called again. */
static pami_result_t work_until(pami_context_t context, void *cookie)
{
    struct alarm *alarm = cookie;

    (void)context;
    alarm->calls++;
    if (PAMI_Wtime(alarm->client) < alarm->time)
        return PAMI_EAGAIN;
    alarm->rung = true;
    return PAMI_SUCCESS;
}

static void test_work(void)
{
    struct sim_job job;
    pami_work_t work, again;
    bool called = false;
    struct alarm alarm = {.time = 0.01};

    job_create(&job, NULL, 3, 1);
    CALL(PAMI_Context_post(job_context(&job, 1, 0), &work, work_once, &called));
    CHECK(!called);
    CALL(PAMIX_Sim_run(job.client[0], is_done, &called, 0, 0));
    CHECK(called);
    alarm.client = job.client[2];
    CALL(PAMI_Context_post(job_context(&job, 2, 0), &again, work_until, &alarm));
    CALL(PAMIX_Sim_run(job.client[0], is_done, &alarm.rung, 0, 0));
    CHECK(PAMIX_Sim_time(job.client[0]) >= 0.01 && PAMIX_Sim_time(job.client[0]) < 0.011);
    CHECK(alarm.calls < 1000);
    alarm = (struct alarm){.client = job.client[2], .time = 1e9};
    CALL(PAMI_Context_post(job_context(&job, 2, 0), &again, work_until, &alarm));
    CHECK(PAMIX_Sim_run(job.client[0], NULL, NULL, 0, 0) == PAMI_EAGAIN);
    CHECK(strstr(test_text(), "task 2 context 0 waits for a posted function") != NULL);
    CHECK(alarm.calls < 10000);
    job_destroy(&job);
}

static void test_limits(void)
{
    pamix_sim_config_t config = plain_config();
    struct sim_job job;
    size_t two = 2;

    job_create(&job, &config, 9, 1);
    job_dispatch(&job, DISPATCH, on_message, NULL, (pami_dispatch_hint_t){0});
    arrived = 0;
    send_one(&job, 0, 8, 8);
    CHECK(PAMIX_Sim_run(job.client[0], NULL, NULL, 0, 500e-6) == PAMI_OTHER);
    CHECK(arrived == 0 && is_close(PAMIX_Sim_time(job.client[0]), 500e-6));
    CHECK(PAMIX_Sim_run(job.client[0], NULL, NULL, 0, 400e-6) == PAMI_OTHER);
    CHECK(arrived == 0 && is_close(PAMIX_Sim_time(job.client[0]), 900e-6));
    CHECK(PAMIX_Sim_run(job.client[0], NULL, NULL, 1, 0) == PAMI_OTHER);
    CHECK(PAMIX_Sim_run(job.client[0], when_arrived, &two, 0, 0) == PAMI_EAGAIN);
    CHECK(strstr(test_text(), "no context waits for anything") != NULL);
    CHECK(arrived == 1);
    send_one(&job, 0, 8, 8);
    CALL(PAMIX_Sim_run(job.client[5], when_arrived, &two, 0, 0));
    CHECK(PAMIX_Sim_run(job.client[0], NULL, NULL, 0, -1) == PAMI_INVAL);
    CHECK(PAMIX_Sim_time(job.client[0]) == PAMIX_Sim_time(job.client[8]));
    job_destroy(&job);
}

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    *(pami_result_t *)cookie = result;
}

/* A send to somebody who has gone fails in the call, or calls back with an error. */
static void check_fails(pami_client_t client, pami_context_t context, pami_send_t *send,
                        pami_result_t *result)
{
    *result = PAMI_OTHER;
    if (PAMI_Send(context, send) != PAMI_SUCCESS)
        return;
    CALL(PAMIX_Sim_run(client, NULL, NULL, 0, 0));
    CHECK(*result != PAMI_SUCCESS && *result != PAMI_OTHER);
}

/* Messages are sent before the receiver has a context; an answer that cannot come is named. */
static void test_early(void)
{
    pami_client_t clients[2];
    pami_context_t contexts[2];
    pami_dispatch_callback_function callback = {.p2p = on_message};
    pami_result_t result = PAMI_OTHER;
    pami_send_t send = {
        .send = {.dispatch = DISPATCH, .dest = 1},
        .events = {.cookie = &result, .remote_fn = on_done},
    };

    CALL(PAMIX_Sim_create(NULL, 2, clients));
    CALL(PAMI_Context_createv(clients[0], NULL, 0, &contexts[0], 1));
    CALL(PAMI_Dispatch_set(contexts[0], DISPATCH, callback, NULL, (pami_dispatch_hint_t){0}));
    arrived = 0;
    arrived_client = clients[1];
    CALL(PAMI_Send(contexts[0], &send));
    CHECK(PAMIX_Sim_run(clients[0], NULL, NULL, 0, 0) == PAMI_EAGAIN);
    CHECK(strstr(test_text(), "task 0 context 0 waits for 1 answers") != NULL);
    CHECK(strstr(test_text(), "1 packets wait for a context 0 of task 1") != NULL);
    CALL(PAMI_Context_createv(clients[1], NULL, 0, &contexts[1], 1));
    CHECK(PAMIX_Sim_run(clients[0], NULL, NULL, 0, 0) == PAMI_EAGAIN);
    CHECK(arrived == 0);
    CALL(PAMI_Dispatch_set(contexts[1], DISPATCH, callback, NULL, (pami_dispatch_hint_t){0}));
    CALL(PAMIX_Sim_run(clients[0], NULL, NULL, 0, 0));
    CHECK(arrived == 1 && result == PAMI_SUCCESS);
    CALL(PAMI_Context_destroyv(&contexts[1], 1));
    result = PAMI_SUCCESS;
    CALL(PAMI_Send(contexts[0], &send));
    CALL(PAMIX_Sim_run(clients[0], NULL, NULL, 0, 0));
    CHECK(result != PAMI_SUCCESS && arrived == 1);
    CALL(PAMI_Client_destroy(&clients[1]));
    check_fails(clients[0], contexts[0], &send, &result);
    CALL(PAMIX_Sim_destroy(clients, 2));
}

/* A task that destroyed its contexts and made new ones can be reached again. */
static void test_again(void)
{
    struct sim_job job;
    pami_result_t result = PAMI_OTHER;
    pami_send_t send = {
        .send = {.dispatch = DISPATCH, .dest = 1},
        .events = {.cookie = &result, .remote_fn = on_done},
    };

    job_create(&job, NULL, 2, 1);
    job_dispatch(&job, DISPATCH, on_message, NULL, (pami_dispatch_hint_t){0});
    arrived = 0;
    for (size_t i = 1; i <= 3; i++) {
        arrived_client = job.client[1];
        CALL(PAMI_Send(job.context[0], &send));
        job_settle(&job);
        CHECK(arrived == i && result == PAMI_SUCCESS);
        CALL(PAMI_Context_destroyv(&job.context[1], 1));
        job_settle(&job);
        check_fails(job.client[0], job.context[0], &send, &result);
        CHECK(arrived == i);
        CALL(PAMI_Context_createv(job.client[1], NULL, 0, &job.context[1], 1));
        job_dispatch(&job, DISPATCH, on_message, NULL, (pami_dispatch_hint_t){0});
    }
    job_destroy(&job);
}

static pami_client_t victim;

static pami_result_t work_kill(pami_context_t context, void *cookie)
{
    (void)context;
    CALL(PAMIX_Sim_kill(victim));
    CHECK(PAMIX_Sim_run(victim, NULL, NULL, 0, 0) == PAMI_INVAL);
    CHECK(strstr(test_text(), "inside a callback") != NULL);
    *(bool *)cookie = true;
    return PAMI_SUCCESS;
}

/* What was sent to a task that is killed completes with an error, after the time of detection. */
static void test_kill(bool by_itself)
{
    pamix_sim_config_t config = plain_config();
    struct sim_job job;
    pami_work_t work;
    bool killed = false;
    pami_result_t result = PAMI_OTHER;
    pami_send_t send = {
        .send = {.dispatch = DISPATCH, .dest = 3},
        .events = {.cookie = &result, .remote_fn = on_done},
    };

    config.dead_detect = 1e-3;
    job_create(&job, &config, 4, 1);
    job_dispatch(&job, DISPATCH, on_message, NULL, (pami_dispatch_hint_t){0});
    victim = job.client[3];
    arrived = 0;
    CALL(PAMI_Send(job.context[0], &send));
    CALL(PAMI_Context_post(job.context[by_itself ? 3 : 1], &work, work_kill, &killed));
    CALL(PAMIX_Sim_run(job.client[0], is_done, &killed, 0, 0));
    CHECK(result == PAMI_OTHER);
    job_settle(&job);
    CHECK(result != PAMI_SUCCESS && result != PAMI_OTHER && arrived == 0);
    CHECK(PAMIX_Sim_time(job.client[0]) >= 1e-3 && PAMIX_Sim_time(job.client[0]) < 2.1e-3);
    CHECK(job_counters(&job).deaths == 1);
    check_fails(job.client[0], job.context[0], &send, &result);
    check_fails(job.client[0], job.context[2], &send, &result); /* has not heard of it yet */
    CHECK(arrived == 0);
    job_destroy(&job);
}

/* Those who die by seed are as many as asked for, and die when they are to. */
static void test_deaths(void)
{
    pamix_sim_config_t config;
    struct sim_job job;

    PAMIX_Sim_default(&config);
    config.dead_count = 6;
    config.dead_time = 1e-3;
    config.dead_spread = 1e-3;
    job_create(&job, &config, 8, 1);
    CHECK(PAMIX_Sim_run(job.client[0], NULL, NULL, 0, 0.999e-3) == PAMI_OTHER);
    CHECK(job_counters(&job).deaths == 0);
    /* Nothing can happen after the last one. */
    CHECK(PAMIX_Sim_run(job.client[0], NULL, NULL, 0, 1.002e-3) == PAMI_SUCCESS);
    CHECK(job_counters(&job).deaths == 6);
    job_destroy(&job);
}

static void on_complete(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK(result == PAMI_SUCCESS);
    ++*(size_t *)cookie;
}

/* Clients go with their contexts, whose arena is in the heap of the first, in any order. */
static void test_heap(size_t first)
{
    struct sim_job job;
    unsigned *word;
    size_t complete = 0;

    job_create(&job, NULL, 3, 1);
    for (size_t i = 0; i < job.tasks; i++) {
        pami_xfer_t xfer = {.cb_done = on_complete, .cookie = &complete};
        pami_geometry_t world;

        CALL(PAMI_Geometry_world(job.client[i], &world));
        xfer.algorithm = sim_algorithm(world, PAMI_XFER_BARRIER, ":Shared:");
        CHECK(xfer.algorithm != PAMI_ALGORITHM_NULL);
        CALL(PAMI_Collective(job.context[i], &xfer));
    }
    job_settle(&job);
    CHECK(complete == job.tasks);
    CALL(PAMIX_Mem_alloc(job.client[first], sizeof(*word), 0, PAMIX_MEM_LOCAL, (void **)&word));
    word = PAMIX_Mem_local_address(job.client[2], (pami_task_t)first, word, sizeof(*word));
    CHECK(word != NULL);
    *word = 0x5eed;
    CALL(PAMI_Client_destroy(&job.client[first]));
    CHECK(*word == 0x5eed);
    CALL(PAMIX_Sim_destroy(job.client, job.tasks));
    free(job.client);
    free(job.context);
}

int main(int argc, char **argv)
{
    test_arguments(argc, argv, 1);
    test_times();
    test_bandwidth(false);
    test_bandwidth(true);
    test_queries();
    test_configuration();
    test_work();
    test_limits();
    test_early();
    test_again();
    test_kill(false);
    test_kill(true);
    test_deaths();
    test_heap(0);
    test_heap(1);
    return 0;
}
