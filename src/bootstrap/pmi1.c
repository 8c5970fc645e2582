/*
 * The back end for PMI-1: our own client of the wire protocol, over PMI_FD or to PMI_PORT.
 *
 * Works under pamirun, mpiexec.hydra, also with -pmi-port, and srun --mpi=pmi2.  No vendor library:
 * some of those answer with made-up data under a launcher of another make.
 *
 * Launchers hold values of 1023 characters at most, and some (Slurm 22.05) read no line above 1023
 * characters, whatever they promise.  A longer value, or one that starts with '~', is stored in
 * pieces: under the key "~<n>~<piece 0>", under key~1 ... key~<n-1> the rest.
 * Invariant: `lock` is held for a whole question and answer, with cancellation off.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bootstrap/backend.h"
#include "bootstrap/pmi1_channel.h"
#include "bootstrap/pmi1_map.h"
#include "util/error.h"
#include "util/log.h"
#include "util/option.h"

/* Endpoint numbers and the arrays by task end here. */
#define TASKS_MAX (1L << 24)
#define PIECE_HEAD 8 /* room for "~65535~" */
#define PIECE_MIN 16
/* Longest request with its newline; what a put needs beside name, key and value. */
#define REQUEST_MAX 1000
#define PUT_WORDS 32
/* At process exit, for the lock and for the answer to finalize. */
#define LEAVE_SECONDS 2.0
/* The card of a task that has met the servers. */
#define CARD_MET "pami-started.%u"

struct pmi1 {
    struct bootstrap base;
    pthread_mutex_t lock; /* of channel */
    struct pmi1_channel channel;
    pid_t owner;               /* the process that connected */
    bool dialled;              /* ... to PMI_PORT */
    bool unmet;                /* servers wait for this task's first fence */
    size_t value_max, key_max; /* longest the launcher takes */
    char space[PMI1_KVSNAME_MAX];
    struct pmi1_map map; /* without base.node_map */
};

static struct pmi1 *pmi1_of(struct bootstrap *bootstrap)
{
    return (struct pmi1 *)bootstrap; /* base is the first member */
}

/* Fails with -ECHILD in a forked child, whose lines would mix with its parent's. */
static int pmi1_enter(struct pmi1 *pmi1, int *cancel_state)
{
    if (getpid() != pmi1->owner) {
        error_set(PAMI_ERROR, "launcher: this process was forked from task %u", pmi1->base.task);
        return -ECHILD;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, cancel_state);
    pthread_mutex_lock(&pmi1->lock);
    return 0;
}

static void pmi1_leave(struct pmi1 *pmi1, int cancel_state)
{
    pthread_mutex_unlock(&pmi1->lock);
    pthread_setcancelstate(cancel_state, NULL);
}

static int ask(struct pmi1 *pmi1, const char *request, const char *expected,
               struct pmi1_line *answer)
{
    return pmi1_channel_ask(&pmi1->channel, request, expected, answer);
}

/* 0 when the answer says so or says nothing; its text is `msg` or `reason`. */
static long answer_code(const struct pmi1_line *answer, char *why, size_t size)
{
    long code = 0;

    if (pmi1_line_number(answer, "rc", -999999, 999999, &code) == -EINVAL)
        code = -1;
    if (pmi1_line_text(answer, "msg", why, size) != 0 &&
        pmi1_line_text(answer, "reason", why, size) != 0)
        snprintf(why, size, "no reason given");
    return code;
}

static int put_piece(struct pmi1 *pmi1, const char *key, const char *value)
{
    char request[PMI1_LINE_MAX];
    char why[128];
    struct pmi1_line answer;
    int err;

    snprintf(request, sizeof request, "cmd=put kvsname=%s key=%s value=%s\n", pmi1->space, key,
             value);
    err = ask(pmi1, request, "put_result", &answer);
    if (err != 0)
        return err;
    if (answer_code(&answer, why, sizeof why) == 0)
        return 0;
    if (strstr(why, "dup") != NULL)
        return -EEXIST;
    return bootstrap_fail(-EREMOTEIO, "the launcher refused the key %s: %s", key, why);
}

/* Value of up to PMI1_VALUE_MAX - 1 characters; -ENOENT. */
static int get_piece(struct pmi1 *pmi1, const char *key, char value[PMI1_VALUE_MAX])
{
    char request[PMI1_KVSNAME_MAX + PMI1_KEY_MAX + 64];
    char why[128];
    struct pmi1_line answer;
    int err;

    snprintf(request, sizeof request, "cmd=get kvsname=%s key=%s\n", pmi1->space, key);
    err = ask(pmi1, request, "get_result", &answer);
    if (err != 0)
        return err;
    if (answer_code(&answer, why, sizeof why) != 0)
        return -ENOENT;
    if (pmi1_line_text(&answer, "value", value, PMI1_VALUE_MAX) != 0)
        return bootstrap_fail(-EPROTO, "the launcher's value of %s is missing or too long", key);
    return 0;
}

static size_t piece_length(const struct pmi1 *pmi1)
{
    return pmi1->value_max - PIECE_HEAD;
}

static int put_pieces(struct pmi1 *pmi1, const char *key, const char *value)
{
    size_t length = strlen(value), each = piece_length(pmi1);
    size_t count = length == 0 ? 1 : (length + each - 1) / each;
    char name[PMI1_KEY_MAX];
    char piece[PMI1_VALUE_MAX];
    size_t i;
    int err = 0;

    snprintf(piece, sizeof piece, "~%zu~%.*s", count, (int)each, value);
    err = put_piece(pmi1, key, piece);
    for (i = 1; i < count && err == 0; i++) {
        snprintf(name, sizeof name, "%s~%zu", key, i);
        snprintf(piece, sizeof piece, "%.*s", (int)each, value + i * each);
        err = put_piece(pmi1, name, piece);
    }
    return err;
}

static int pmi1_put(struct bootstrap *bootstrap, const char *key, const char *value)
{
    struct pmi1 *pmi1 = pmi1_of(bootstrap);
    size_t length = strlen(value);
    int cancel_state, err;

    if (strlen(key) > pmi1->key_max)
        return -ENAMETOOLONG;
    err = pmi1_enter(pmi1, &cancel_state);
    if (err != 0)
        return err;
    if (length == 0 || length > pmi1->value_max || value[0] == '~')
        err = put_pieces(pmi1, key, value);
    else
        err = put_piece(pmi1, key, value);
    pmi1_leave(pmi1, cancel_state);
    return err;
}

/* The rest of a value whose first piece is in `piece`. */
static int get_pieces(struct pmi1 *pmi1, const char *key, char piece[PMI1_VALUE_MAX], char *value,
                      size_t size)
{
    char *text = strchr(piece + 1, '~');
    char name[PMI1_KEY_MAX];
    size_t length, done = 0;
    long count, i;
    int err;

    if (text == NULL ||
        pmi1_number(piece + 1, (size_t)(text - piece - 1), 1, BOOTSTRAP_VALUE_MAX, &count) != 0)
        return bootstrap_fail(-EPROTO, "the value of %s is not in the form we store", key);
    text++;
    for (i = 0;; text = piece) {
        length = strlen(text);
        if (length >= size - done)
            return -ENOBUFS;
        memcpy(value + done, text, length + 1);
        done += length;
        if (++i == count)
            return 0;
        snprintf(name, sizeof name, "%s~%ld", key, i);
        err = get_piece(pmi1, name, piece);
        if (err != 0)
            return err;
    }
}

static int pmi1_get(struct bootstrap *bootstrap, const char *key, char *value, size_t size)
{
    struct pmi1 *pmi1 = pmi1_of(bootstrap);
    char piece[PMI1_VALUE_MAX];
    int cancel_state, err;

    err = pmi1_enter(pmi1, &cancel_state);
    if (err != 0)
        return err;
    err = get_piece(pmi1, key, piece);
    if (err == 0 && piece[0] == '~')
        err = get_pieces(pmi1, key, piece, value, size);
    else if (err == 0 && strlen(piece) >= size)
        err = -ENOBUFS;
    else if (err == 0)
        memcpy(value, piece, strlen(piece) + 1);
    pmi1_leave(pmi1, cancel_state);
    return err;
}

/* Servers take part in the fences of one program of the tasks, the first that makes any; what a
 * task runs after it has none. */
static int note_servers_met(struct pmi1 *pmi1)
{
    char key[PMI1_KEY_MAX];
    int err;

    snprintf(key, sizeof key, CARD_MET, pmi1->base.task);
    err = put_piece(pmi1, key, "yes");
    pmi1->unmet = err != 0;
    return err;
}

static int pmi1_fence(struct bootstrap *bootstrap)
{
    struct pmi1 *pmi1 = pmi1_of(bootstrap);
    struct pmi1_line answer;
    char why[128];
    int cancel_state, err;

    err = pmi1_enter(pmi1, &cancel_state);
    if (err != 0)
        return err;
    if (pmi1->unmet)
        err = note_servers_met(pmi1);
    if (err == 0)
        err = ask(pmi1, "cmd=barrier_in\n", "barrier_out", &answer);
    if (err == 0 && answer_code(&answer, why, sizeof why) != 0)
        err = bootstrap_fail(-ECONNABORTED, "the fence cannot complete: %s", why);
    pmi1_leave(pmi1, cancel_state);
    return err;
}

/* Takes no lock: another thread may be waiting for a fence that will never complete. */
static void pmi1_abort(struct bootstrap *bootstrap, int code, const char *why)
{
    struct pmi1 *pmi1 = pmi1_of(bootstrap);
    char request[48];

    (void)why; /* has been logged; PMI-1 has no room for it */
    if (getpid() != pmi1->owner)
        return;
    snprintf(request, sizeof request, "cmd=abort exitcode=%d\n", code);
    pmi1_channel_tell(&pmi1->channel, request);
}

/* At process exit.  The object stays: other threads may still be inside. */
static void pmi1_close(struct bootstrap *bootstrap)
{
    struct pmi1 *pmi1 = pmi1_of(bootstrap);
    struct pmi1_line answer;
    struct timespec limit;

    if (getpid() != pmi1->owner || pmi1->channel.failed != 0 ||
        !pmi1_channel_is_open(&pmi1->channel))
        return;
    clock_gettime(CLOCK_REALTIME, &limit); /* as end_of_process */
    limit.tv_sec += (time_t)LEAVE_SECONDS;
    if (pthread_mutex_timedlock(&pmi1->lock, &limit) != 0) {
        pmi1_channel_tell(&pmi1->channel, "cmd=finalize\n");
        return;
    }
    /* Waiting matters: some launchers fail when they cannot deliver this answer. */
    pmi1->channel.seconds = LEAVE_SECONDS;
    pmi1->channel.limit = "the end of the process";
    if (ask(pmi1, "cmd=finalize\n", "finalize_ack", &answer) == 0)
        pmi1->channel.failed = -ESHUTDOWN;
    close(pmi1->channel.fd);
    pthread_mutex_unlock(&pmi1->lock);
}

static int pmi1_node_of(struct bootstrap *bootstrap, uint32_t task, uint32_t *node)
{
    *node = pmi1_map_node(&pmi1_of(bootstrap)->map, task);
    return 0;
}

static const struct bootstrap_ops pmi1_ops = {
    .name = "pmi1",
    .node_of = pmi1_node_of,
    .put = pmi1_put,
    .fence = pmi1_fence,
    .get = pmi1_get,
    .abort = pmi1_abort,
    .close = pmi1_close,
};

/* What `present`, which is set, needs beside it. */
static int environment_number(const char *present, const char *name, long lowest, long highest,
                              long *number)
{
    const char *text = getenv(name);

    if (text == NULL)
        return bootstrap_fail(-EINVAL, "%s is set, but %s is not", present, name);
    if (pmi1_number(text, strlen(text), lowest, highest, number) != 0)
        return bootstrap_fail(-EINVAL, "%s='%.40s' is not a number from %ld to %ld", name, text,
                              lowest, highest);
    return 0;
}

/* PMI_FD, PMI_RANK, PMI_SIZE and, from pamirun, PMI_SERVERS, checked as far as possible now. */
static int read_environment(struct pmi1 *pmi1)
{
    static const char *const advice = "; to run alone, unset PMI_FD or set PAMI_BOOTSTRAP=single";
    struct stat status;
    long fd, task, tasks, servers = 0;
    int err;

    if ((err = environment_number("PMI_FD", "PMI_FD", 0, 1L << 30, &fd)) != 0 ||
        (err = environment_number("PMI_FD", "PMI_SIZE", 1, TASKS_MAX, &tasks)) != 0 ||
        (err = environment_number("PMI_FD", "PMI_RANK", 0, TASKS_MAX, &task)) != 0)
        return err;
    /* Of those that PMI_SIZE counts, the last may be servers. */
    if (getenv("PMI_SERVERS") != NULL &&
        (err = environment_number("PMI_FD", "PMI_SERVERS", 1, tasks - 1, &servers)) != 0)
        return err;
    if (task >= tasks)
        return bootstrap_fail(-EINVAL, "PMI_RANK is %ld, but PMI_SIZE is %ld", task, tasks);
    if (fstat((int)fd, &status) != 0)
        return bootstrap_fail(-EINVAL, "PMI_FD is %ld, which is not open here%s", fd, advice);
    if (!S_ISSOCK(status.st_mode))
        return bootstrap_fail(-EINVAL, "PMI_FD is %ld, which is not a socket%s", fd, advice);
    pmi1->channel.fd = (int)fd;
    pmi1->channel.device = status.st_dev;
    pmi1->channel.inode = status.st_ino;
    pmi1->base.task = (uint32_t)task;
    pmi1->base.tasks = (uint32_t)(tasks - servers);
    pmi1->base.servers = (uint32_t)servers;
    /* Programs started by this one are no part of the job's conversation. */
    fcntl(pmi1->channel.fd, F_SETFD, FD_CLOEXEC);
    return 0;
}

/* Who connects says which process of the launcher's it is, and is told its place in the job in
 * three lines, each of a name and a number. */
static int introduce(struct pmi1 *pmi1)
{
    long id, task = -1, tasks = -1;
    struct pmi1_line line;
    char request[40];
    int i, err;

    if (getenv("PMI_ID") == NULL)
        return bootstrap_fail(-EINVAL, "PMI_PORT is set, but PMI_ID is not, as in what a task "
                                       "executes; to run alone, unset PMI_PORT or set "
                                       "PAMI_BOOTSTRAP=single");
    err = environment_number("PMI_PORT", "PMI_ID", 0, LONG_MAX, &id);
    if (err == 0)
        err = pmi1_channel_dial(&pmi1->channel, getenv("PMI_PORT"));
    if (err != 0)
        return err;
    snprintf(request, sizeof request, "cmd=initack pmiid=%ld\n", id);
    err = ask(pmi1, request, "initack", &line);
    for (i = 0; i < 3 && err == 0; i++) {
        err = pmi1_channel_next(&pmi1->channel, request, "set", &line);
        if (err == 0) {
            pmi1_line_number(&line, "size", 1, TASKS_MAX, &tasks);
            pmi1_line_number(&line, "rank", 0, TASKS_MAX, &task);
        }
    }
    if (err == 0 && (task < 0 || task >= tasks))
        err = bootstrap_fail(-EPROTO, "the launcher at PMI_PORT names no place in the job");
    if (err != 0) {
        close(pmi1->channel.fd);
        return err;
    }
    pmi1->base.task = (uint32_t)task;
    pmi1->base.tasks = (uint32_t)tasks;
    return 0;
}

static bool has_socket(const char *text)
{
    struct stat status;
    long fd;

    return text != NULL && pmi1_number(text, strlen(text), 0, 1L << 30, &fd) == 0 &&
           fstat((int)fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

/* Where both are there launchers have started one another, and one is told of by its name only:
 * launchers do not clear others' out of the environment. */
static int take_connection(struct pmi1 *pmi1)
{
    const char *fd = getenv("PMI_FD");

    pmi1->dialled = getenv("PMI_PORT") != NULL && !has_socket(fd);
    if (pmi1->dialled)
        return introduce(pmi1);
    if (fd != NULL)
        return read_environment(pmi1);
    return bootstrap_fail(-EINVAL, "PAMI_BOOTSTRAP=pmi1, but neither PMI_FD is set nor PMI_PORT");
}

/* As if it had not been taken. Who has inherited one leaves it to its launcher's other clients. */
static void leave_connection(const struct pmi1 *pmi1)
{
    if (pmi1->dialled)
        close(pmi1->channel.fd);
}

/* The three opening questions. */
static int greet(struct pmi1 *pmi1)
{
    struct pmi1_line answer;
    char why[128];
    long key_max, value_max;
    size_t fitting;
    int err;

    err = ask(pmi1, "cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", &answer);
    if (err != 0)
        return err;
    if (answer_code(&answer, why, sizeof why) != 0)
        return bootstrap_fail(-EPROTO, "the launcher does not speak PMI 1.1: %s", why);
    err = ask(pmi1, "cmd=get_maxes\n", "maxes", &answer);
    if (err != 0)
        return err;
    if (pmi1_line_number(&answer, "keylen_max", PIECE_MIN, 1L << 30, &key_max) != 0 ||
        pmi1_line_number(&answer, "vallen_max", PIECE_HEAD + PIECE_MIN, 1L << 30, &value_max) != 0)
        return bootstrap_fail(-EPROTO, "the launcher's limits for keys and values make no sense");
    pmi1->key_max = (size_t)(key_max < PMI1_KEY_MAX ? key_max : PMI1_KEY_MAX) - PIECE_HEAD;
    pmi1->value_max = (size_t)(value_max < PMI1_VALUE_MAX ? value_max : PMI1_VALUE_MAX) - 1;
    err = ask(pmi1, "cmd=get_my_kvsname\n", "my_kvsname", &answer);
    if (err != 0)
        return err;
    if (pmi1_line_text(&answer, "kvsname", pmi1->space, sizeof pmi1->space) != 0)
        return bootstrap_fail(-EPROTO, "the launcher's name of the job is missing or too long");
    fitting = REQUEST_MAX - PUT_WORDS - PMI1_KEY_MAX - strlen(pmi1->space);
    if (pmi1->value_max > fitting)
        pmi1->value_max = fitting;
    return 0;
}

/* A server may wait for the tasks' first fence as long as it takes, as it ends with pamirun. */
static int look_for_servers(struct pmi1 *pmi1)
{
    char key[PMI1_KEY_MAX], value[PMI1_VALUE_MAX];
    int err;

    if (pmi1->base.servers == 0)
        return 0;
    if (pmi1->base.task >= pmi1->base.tasks) {
        pmi1->channel.seconds = HUGE_VAL;
        return 0;
    }
    snprintf(key, sizeof key, CARD_MET, pmi1->base.task);
    err = get_piece(pmi1, key, value);
    if (err == 0)
        pmi1->base.servers = 0;
    pmi1->unmet = err == -ENOENT;
    return pmi1->unmet ? 0 : err;
}

/* Without a table of all tasks. */
static int nodes_by_map(struct bootstrap *base, const struct pmi1_map *map)
{
    uint32_t last = pmi1_map_node(map, base->tasks - 1);

    base->node = pmi1_map_node(map, base->task);
    base->nodes = base->tasks < map->round ? last + 1 : map->nodes;
    base->run = pmi1_map_run(map);
    base->local_count = pmi1_map_local(map, base->node, base->tasks, NULL);
    base->local_tasks = malloc(base->local_count * sizeof *base->local_tasks);
    if (base->local_tasks == NULL)
        return -ENOMEM;
    pmi1_map_local(map, base->node, base->tasks, base->local_tasks);
    while (base->local_tasks[base->local_index] != base->task)
        base->local_index++;
    return 0;
}

static int find_nodes(struct pmi1 *pmi1)
{
    uint32_t all = pmi1->base.tasks + pmi1->base.servers;
    char map[PMI1_VALUE_MAX];
    uint32_t *ids;
    int err = get_piece(pmi1, "PMI_process_mapping", map);

    if (err == 0 && pmi1->base.servers == 0 && pmi1_map_read(map, &pmi1->map))
        return nodes_by_map(&pmi1->base, &pmi1->map);
    ids = calloc(all, sizeof *ids);
    if (ids == NULL)
        return -ENOMEM;
    if (err == 0) {
        err = pmi1_map_parse(map, all, ids);
        if (err != 0)
            bootstrap_fail(err, "PMI_process_mapping is not a map of nodes: '%.200s'", map);
    } else if (err == -ENOENT) {
        log_info("bootstrap: pmi1: no PMI_process_mapping, comparing hosts instead");
        err = bootstrap_compare_hosts(&pmi1->base, ids);
    }
    if (err == 0)
        return bootstrap_set_nodes(&pmi1->base, ids);
    free(ids);
    return err;
}

static bool pmi1_present(void)
{
    return getenv("PMI_FD") != NULL || getenv("PMI_PORT") != NULL;
}

static int pmi1_connect(struct bootstrap **out)
{
    struct pmi1 *pmi1 = calloc(1, sizeof *pmi1);
    bool taken;
    int err;

    if (pmi1 == NULL)
        return -ENOMEM;
    pmi1->base.ops = &pmi1_ops;
    pmi1->channel.seconds = option_seconds(OPT_BOOTSTRAP_TIMEOUT);
    pmi1->channel.limit = "PAMI_BOOTSTRAP_TIMEOUT";
    pmi1->owner = getpid();
    pthread_mutex_init(&pmi1->lock, NULL);
    err = take_connection(pmi1);
    taken = err == 0;
    if (taken)
        err = greet(pmi1);
    if (err == 0)
        err = look_for_servers(pmi1);
    if (err == 0)
        err = find_nodes(pmi1);
    if (err != 0) {
        if (taken)
            leave_connection(pmi1);
        pthread_mutex_destroy(&pmi1->lock);
        free(pmi1);
        return err;
    }
    bootstrap_set_job(&pmi1->base, pmi1->space);
    /* What this task executes would take its place: the launcher talks to who was last to come. */
    unsetenv("PMI_ID");
    *out = &pmi1->base;
    return 0;
}

const struct bootstrap_backend bootstrap_pmi1 = {
    .name = "pmi1",
    .present = pmi1_present,
    .connect = pmi1_connect,
};
