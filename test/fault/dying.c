/*
 * One task of a job comes to its end in one of many ways; the others check what they see of it.
 *
 *     dying --way NAME [--seed N] [--slow US] [--victim-first]
 *     dying --list                  a line per way: name, status of the victim, flags
 *
 * The victim is the last task, or the first. The seed chooses when it happens and what the traffic
 * looks like until then. --slow makes everybody advance no more than once in so many microseconds.
 * A task that got through says "done". A failed check ends its task with status 255.
 *
 * The shell tests beside this file go through all ways; on its own it checks that nothing happens
 * when nobody dies.
 *
 * Run: tasks=1,3 args="--way nobody" timeout=30
 */
#include "fault/dying/dying.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* A task that has not ended by now hangs. */
#define HANG_SECONDS 12

static const struct way ways[] = {
    {"nobody", 0, RETURNS, POINT_NONE, NULL, NULL},
    {"endless", 0, ENDLESS, POINT_NONE, NULL, NULL},

    {"exit-idle", 0, 0, POINT_ADVANCED, act_exit, NULL},
    {"exit-farewell", 0, FAREWELL, POINT_NONE, NULL, farewell_exit},
    {"exit-farewell-unread", 0, FAREWELL | QUIET, POINT_NONE, NULL, few_exit},
    {"quick-exit-sending", 0, FLOOD, POINT_SENT, act_quick_exit, NULL},
    {"exit-in-dispatch", 3, 0, POINT_DISPATCH, act_exit_3, NULL},
    {"exit-in-work", 0, 0, POINT_WORK, act_exit, NULL},
    {"exit-in-local", 0, 0, POINT_LOCAL, act_exit, NULL},
    {"exit-in-fill", 3, 0, POINT_FILL, act_exit_3, NULL},
    {"exit-in-advance", 0, 0, POINT_NONE, NULL, exit_in_advance},
    {"exit-locked", 0, 0, POINT_NONE, NULL, exit_locked},
    {"exit-waiting-for-lock", 0, 0, POINT_NONE, NULL, exit_waiting_for_lock},
    {"exit-sending", 0, 0, POINT_NONE, NULL, exit_sending},
    {"exit-unread", 0, DEAF, POINT_NONE, NULL, leave_unread_and_exit},

    {"abort", 134, 0, POINT_ADVANCED, act_abort, NULL},
    {"abort-in-dispatch", 134, 0, POINT_DISPATCH, act_abort, NULL},
    {"fault-in-dispatch", 139, 0, POINT_DISPATCH, act_fault, NULL},
    {"fault-in-landed", 139, 0, POINT_LANDED, act_fault, NULL},
    {"term-in-remote", 143, 0, POINT_REMOTE, act_term, NULL},
    {"kill-in-dispatch", 137, 0, POINT_DISPATCH, act_kill, NULL},
    {"kill-in-local", 137, 0, POINT_LOCAL, act_kill, NULL},
    {"kill-in-remote", 137, 0, POINT_REMOTE, act_kill, NULL},
    {"kill-in-landed", 137, 0, POINT_LANDED, act_kill, NULL},
    {"kill-in-work", 137, 0, POINT_WORK, act_kill, NULL},
    {"kill-in-fill", 137, 0, POINT_FILL, act_kill, NULL},
    {"kill-in-flood", 137, FLOOD | IMMEDIATES, POINT_SENT, act_kill, NULL},
    {"kill-between-sends", 137, FLOOD, POINT_SENT, act_kill, NULL},
    {"kill-anywhere", 137, 0, POINT_NONE, NULL, kill_by_thread},
    {"kill-unread", 137, DEAF, POINT_NONE, NULL, late_kill},
    {"kill-after-farewell", 137, FAREWELL | QUIET, POINT_NONE, NULL, few_kill},
    {"kill-before-contact", 137, LATE, POINT_NONE, NULL, late_kill},

    {"leave", 0, LEAVES, POINT_ADVANCED, act_leave, NULL},
    {"leave-sending", 0, LEAVES | FLOOD, POINT_SENT, act_leave, NULL},
    {"leave-unread", 0, LEAVES | DEAF, POINT_NONE, NULL, leave_unread},
    {"leave-farewell", 0, LEAVES | FAREWELL, POINT_NONE, NULL, farewell_destroy},
    {"leave-farewell-unread", 0, FAREWELL | QUIET, POINT_NONE, NULL, few_destroy},
    {"leave-before-contact", 0, FAREWELL | QUIET | LATE, POINT_NONE, NULL, few_destroy},

    {"stop", 0, RETURNS, POINT_ADVANCED, act_stop, NULL},
    {"stop-in-dispatch", 0, RETURNS, POINT_DISPATCH, act_stop, NULL},
    {"stop-in-fill", 0, RETURNS | ALONE_IN_CALL, POINT_FILL, act_stop, NULL},

    {"before-client", 0, START, POINT_NONE, act_quick_exit, NULL},
    {"before-client-killed", 137, START, POINT_NONE, act_kill, NULL},
    {"in-client", 137, START, POINT_NONE, NULL, kill_by_thread},
    {"before-contexts", 137, UNKNOWN, POINT_NONE, act_kill, NULL},
    {"before-contexts-exit", 0, UNKNOWN, POINT_NONE, act_exit, NULL},

    {"all-destroy", 0, EVERYBODY, POINT_NONE, NULL, all_destroy},
    {"all-destroy-client", 0, EVERYBODY, POINT_NONE, NULL, all_destroy_client},
    {"all-destroy-rendezvous", 0, EVERYBODY, POINT_NONE, NULL, all_destroy_rendezvous},
    {"all-exit", 0, EVERYBODY, POINT_NONE, NULL, all_exit},
    {"all-quick-exit", 0, EVERYBODY, POINT_NONE, NULL, all_quick_exit},
};

static void list(void)
{
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        printf("%s %d %u\n", ways[i].name, ways[i].status, ways[i].flags);
}

static void usage(void)
{
    fputs("usage: dying --list | --way NAME [--seed N] [--slow US] [--victim-first]\n", stderr);
    exit(2);
}

static void read_options(int argc, char **argv)
{
    const char *factor = getenv("TEST_FACTOR");
    const char *name = "nobody";

    dying.factor = factor != NULL && strtod(factor, NULL) > 0 ? strtod(factor, NULL) : 1.0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list") == 0)
            list(), exit(0);
        else if (strcmp(argv[i], "--victim-first") == 0)
            dying.victim_first = true;
        else if (i + 1 == argc)
            usage();
        else if (strcmp(argv[i], "--way") == 0)
            name = argv[++i];
        else if (strcmp(argv[i], "--seed") == 0)
            dying.seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--slow") == 0)
            dying.slow_us = (unsigned)strtoul(argv[++i], NULL, 10);
        else
            usage();
    }
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (strcmp(ways[i].name, name) == 0)
            dying.way = &ways[i];
    if (dying.way == NULL)
        usage();
}

static size_t attribute(pami_attribute_name_t name)
{
    pami_configuration_t query = {.name = name};

    CHECK_OK(PAMI_Client_query(dying.client, &query, 1));
    return query.value.intval;
}

/* Before there is a client only the launcher's environment says who we are. */
static void who_am_i(void)
{
    const char *rank = getenv("PMI_RANK");
    const char *size = getenv("PMI_SIZE");

    dying.task = rank != NULL ? strtoul(rank, NULL, 10) : 0;
    dying.tasks = size != NULL ? strtoul(size, NULL, 10) : 1;
    CHECK(dying.tasks <= TASKS_MAX);
    dying.victim = dying.victim_first ? 0 : dying.tasks - 1;
}

static void *kill_while_starting(void *argument)
{
    test_sleep(1e-6 * (double)*(size_t *)argument);
    act_kill();
    return NULL;
}

/* Creating a client fails in time and says why, or it works. */
static void start_up(void)
{
    const char *limit = getenv("PAMI_BOOTSTRAP_TIMEOUT");
    double most = (limit != NULL ? strtod(limit, NULL) : 60) + 1.0 * dying.factor;
    static size_t delay_us;
    pami_result_t result;
    char text[256];
    double begin;

    if (is_victim() && dying.way->act != NULL)
        dying.way->act();
    if (is_victim()) {
        pthread_t thread;

        delay_us = random_below(dying.seed % 2 ? 30000 : 5000);
        CHECK(pthread_create(&thread, NULL, kill_while_starting, &delay_us) == 0);
    }
    begin = test_now();
    result = PAMI_Client_create("dying", &dying.client, NULL, 0);
    if (test_now() - begin > most)
        fail("creating a client took %.2f s", test_now() - begin);
    if (result == PAMI_SUCCESS) {
        while (is_victim())
            pause();
        CHECK_OK(PAMI_Client_destroy(&dying.client));
        return;
    }
    CHECK(dying.client == PAMI_CLIENT_NULL);
    CHECK(PAMI_Error_text(text, sizeof text) > 0);
    fprintf(stderr, "task %zu: %s\n", dying.task, text);
}

static void open_contexts(void)
{
    CHECK_OK(PAMI_Context_createv(dying.client, NULL, 0, dying.context, CONTEXTS));
    for (size_t i = 0; i < CONTEXTS; i++)
        incoming_open(dying.context[i]);
    for (size_t task = 0; task < dying.tasks; task++)
        CHECK_OK(PAMI_Endpoint_create(dying.client, (pami_task_t)task, 0, &dying.endpoint[task]));
    traffic_open();
}

/* The victim will be killed, and is joined with us by a network. */
static bool is_lossy(void)
{
    const char *network = getenv("PAMI_NETWORK");
    pami_extension_t extension;
    const uint8_t *local;
    bool far;

    if (dying.way->status != 137 || network == NULL || strcmp(network, "ofi") != 0)
        return false;
    CHECK_OK(PAMI_Extension_open(dying.client, "EXT_is_local_task", &extension));
    local = PAMI_Extension_symbol(extension, "base");
    far = local[dying.victim] == 0;
    CHECK_OK(PAMI_Extension_close(extension));
    return far;
}

static bool knows(size_t task)
{
    unsigned flags = dying.way->flags;

    if (task == dying.victim && ((flags & UNKNOWN) || (dying.lossy && (flags & LATE))))
        return true;
    return dying.pid[task] != 0 || (is_victim() && (flags & LATE));
}

static void on_heard(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)result;
    --*(size_t *)cookie;
}

/* What is accepted from a victim may still be in its memory when it dies. */
static void send_hello_to_be_heard(size_t task, size_t *waiting)
{
    static uint64_t pid; /* stays there until it has been sent */
    pami_send_t message = {
        .send = {.header = {.iov_base = &pid, .iov_len = sizeof pid},
                 .dispatch = ID_HELLO,
                 .dest = dying.endpoint[task]},
        .events = {.cookie = waiting, .remote_fn = on_heard},
    };

    pid = (uint64_t)getpid();
    if (PAMI_Send(dying.context[0], &message) == PAMI_SUCCESS)
        ++*waiting;
}

/* Everybody learns everybody's process, and that it is ready. */
static void greet(void)
{
    bool contact = !(dying.way->flags & (LATE | UNKNOWN));
    size_t known = 0, waiting = 0;

    for (size_t task = 0; task < dying.tasks; task++)
        if (is_victim() && contact)
            send_hello_to_be_heard(task, &waiting);
        else if (task != dying.victim || contact)
            send_control(task, ID_HELLO, (uint64_t)getpid());
    while (known < dying.tasks || waiting != 0) {
        advance();
        for (known = 0; known < dying.tasks && knows(known);)
            known++;
    }
}

static void be_victim(void)
{
    unsigned flags = dying.way->flags;

    if (dying.way->victim != NULL)
        dying.way->victim();
    dying.countdown = 1 + random_below(flags & IMMEDIATES ? 3000 : flags & FLOOD ? 300 : 60);
    for (size_t after = 0; after < 20; after += dying.countdown == 0) {
        if (flags & FLOOD)
            for (size_t task = 0; task < dying.tasks; task++)
                send_one(task,
                         flags & IMMEDIATES ? KIND_IMMEDIATE : (enum kind)random_below(KINDS));
        else
            step();
    }
    CHECK(flags & RETURNS);
    exchange_and_part();
}

static void live(void)
{
    if (dying.way->flags & START) {
        start_up();
        return;
    }
    /* Where all leave, the others may be gone while this one still greets. */
    dying.orderly = (dying.way->flags & EVERYBODY) != 0;
    CHECK_OK(PAMI_Client_create("dying", &dying.client, NULL, 0));
    CHECK(attribute(PAMI_CLIENT_TASK_ID) == dying.task);
    CHECK(attribute(PAMI_CLIENT_NUM_TASKS) == dying.tasks);
    if (is_victim() && (dying.way->flags & UNKNOWN))
        dying.way->act();
    open_contexts();
    dying.lossy = is_lossy();
    greet();
    while (dying.way->flags & ENDLESS)
        step();
    if (dying.way->flags & EVERYBODY)
        dying.way->victim();
    else if (dying.way->act == NULL && dying.way->victim == NULL)
        exchange_and_part();
    else if (is_victim())
        be_victim();
    else
        survive();
}

static void on_alarm(int signal)
{
    (void)signal;
    fail("hangs");
}

int main(int argc, char **argv)
{
    static const struct rlimit no_core;

    read_options(argc, argv);
    who_am_i();
    setrlimit(RLIMIT_CORE, &no_core);
    sigemptyset(&dying.noticed);
    sigaddset(&dying.noticed, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &dying.noticed, NULL);
    signal(SIGALRM, on_alarm);
    alarm((unsigned)(HANG_SECONDS * dying.factor));
    live();
    printf("task %zu done\n", dying.task);
    fflush(stdout);
    if (dying.way->victim == all_quick_exit)
        _exit(0);
    return 0;
}
