/*
 * The back end for PMIx: mpirun of Open MPI, prterun of PRRTE, srun --mpi=pmix of Slurm.
 *
 * libpmix is opened when the environment speaks of a PMIx launcher (pmix_library.c). Cards are PMIx
 * values that a collecting fence brings to every node; PMIx files them by who put them, so keys are
 * best made to end with that task's number: ".7" or "-7".
 *
 * What launchers do beside the standard, each found out the hard way (Open MPI 4.1, PMIx 4.2, Slurm
 * 22.05): the universe's size is the number of slots, not of tasks; the list of local peers is
 * wrong when two nodes have one name; numbers of nodes are known for local tasks only; a string may
 * be NULL in a value that was found; a fence may wait for ever for a task that has died, so we give
 * it a time limit, or succeed without it, which then shows only when its cards are missing;
 * announcing an event of one's own breaks the server, so we never do; the only event that arrives
 * is the loss of the local server, and then nobody else ends our process.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/backend.h"
#include "bootstrap/pmix_abi.h"
#include "util/error.h"
#include "util/log.h"
#include "util/option.h"

#define TASKS_MAX (1u << 24)
/* In front of all keys of ours: others of the job may use PMIx, too. */
#define KEY_PREFIX "pami."
#define KEY_ROOM (sizeof KEY_PREFIX + BOOTSTRAP_KEY_MAX)

/* Own keys, since the standard lets a second put replace the first. */
struct card {
    struct card *next;
    char key[BOOTSTRAP_KEY_MAX + 1];
};

struct pmix {
    struct bootstrap base;
    struct pmix_library library;
    struct pmix_abi_proc self;
    pid_t owner;    /* the process that connected */
    double timeout; /* seconds for a fence */
    pthread_mutex_t lock;
    struct card *cards; /* lock */
    bool uncommitted;   /* lock: put, but not yet committed */
    atomic_bool leaving;
    atomic_bool lost; /* the local server has gone */
};

/* The event handler has no room for a cookie on all versions. */
static struct pmix *connected;

static struct pmix *pmix_of(struct bootstrap *bootstrap)
{
    return (struct pmix *)bootstrap; /* base is the first member */
}

static int check_owner(const struct pmix *pmix)
{
    if (getpid() != pmix->owner) {
        error_set(PAMI_ERROR, "launcher: this process was forked from task %u", pmix->base.task);
        return -ECHILD;
    }
    if (atomic_load(&pmix->lost))
        return bootstrap_fail(-ECONNRESET, "the PMIx server of this node has gone");
    return 0;
}

static int fail(const struct pmix *pmix, const char *call, int status)
{
    int error = status == PMIX_ABI_ERR_TIMEOUT ? -ETIMEDOUT
                : status == PMIX_ABI_ERR_UNREACH || status == PMIX_ABI_ERR_LOST_CONNECTION ||
                        status == PMIX_ABI_ERR_LOST_CONNECTION_TO_SERVER
                    ? -ECONNRESET
                    : -EREMOTEIO;

    return bootstrap_fail(error, "%s: %s (%d)", call, pmix->library.error_string(status), status);
}

/* ---- values ---- */

static void value_free(struct pmix_abi_value *value)
{
    if (value != NULL && value->type == PMIX_ABI_STRING)
        free(value->data.string);
    free(value);
}

/* An integer of any width, false: it is none. */
static bool value_number(const struct pmix_abi_value *value, uint64_t *number)
{
    switch (value->type) {
    case PMIX_ABI_SIZE:
    case PMIX_ABI_UINT64:
        *number = value->data.uint64;
        return true;
    case PMIX_ABI_INT64:
        *number = (uint64_t)value->data.int64;
        return value->data.int64 >= 0;
    case PMIX_ABI_UINT:
    case PMIX_ABI_UINT32:
    case PMIX_ABI_PROC_RANK:
        *number = value->data.uint32;
        return true;
    case PMIX_ABI_INT:
    case PMIX_ABI_INT32:
        *number = (uint64_t)value->data.int32;
        return value->data.int32 >= 0;
    case PMIX_ABI_UINT16:
        *number = value->data.uint16;
        return true;
    default:
        return false;
    }
}

/* What somebody has put or the launcher says of him; `how` limits where it is looked for. */
static struct pmix_abi_value *ask(struct pmix *pmix, uint32_t rank, const char *key,
                                  const char *how, int *status)
{
    struct pmix_abi_info info = pmix_flag(how != NULL ? how : "");
    struct pmix_abi_proc proc = pmix->self;
    struct pmix_abi_value *value = NULL;

    proc.rank = rank;
    *status = pmix->library.get(&proc, key, how != NULL ? &info : NULL, how != NULL, &value);
    if (*status == PMIX_ABI_SUCCESS && value != NULL)
        return value;
    if (*status == PMIX_ABI_SUCCESS)
        *status = PMIX_ABI_ERR_NOT_FOUND;
    return NULL;
}

/* What the launcher knows without asking others. -ENOENT. */
static int ask_number(struct pmix *pmix, uint32_t rank, const char *key, uint64_t *number)
{
    int status;
    struct pmix_abi_value *value = ask(pmix, rank, key, "pmix.immediate", &status);
    bool good = value != NULL && value_number(value, number);

    value_free(value);
    return good ? 0 : -ENOENT;
}

/* ---- cards ---- */

static int remember(struct pmix *pmix, const char *key)
{
    struct card *card;

    for (card = pmix->cards; card != NULL; card = card->next)
        if (strcmp(card->key, key) == 0)
            return -EEXIST;
    card = calloc(1, sizeof *card);
    if (card == NULL)
        return -ENOMEM;
    snprintf(card->key, sizeof card->key, "%s", key);
    card->next = pmix->cards;
    pmix->cards = card;
    return 0;
}

static int pmix_put(struct bootstrap *bootstrap, const char *key, const char *value)
{
    struct pmix *pmix = pmix_of(bootstrap);
    struct pmix_abi_value card = {.type = PMIX_ABI_STRING};
    char name[KEY_ROOM];
    int status, error = check_owner(pmix);

    if (error != 0)
        return error;
    pthread_mutex_lock(&pmix->lock);
    error = remember(pmix, key);
    pthread_mutex_unlock(&pmix->lock);
    if (error != 0)
        return error;
    snprintf(name, sizeof name, KEY_PREFIX "%s", key);
    card.data.string = strdup(value);
    if (card.data.string == NULL)
        return -ENOMEM;
    status = pmix->library.put(PMIX_ABI_GLOBAL, name, &card);
    free(card.data.string);
    if (status != PMIX_ABI_SUCCESS)
        return fail(pmix, "PMIx_Put", status);
    pthread_mutex_lock(&pmix->lock); /* only now: another thread's fence may have come between */
    pmix->uncommitted = true;
    pthread_mutex_unlock(&pmix->lock);
    return 0;
}

/* The number that ends the key: by our habit who has put it. */
static bool key_owner(const struct pmix *pmix, const char *key, uint32_t *rank)
{
    size_t length = strlen(key), digits = 0;
    uint64_t number = 0;

    while (digits < length && key[length - 1 - digits] >= '0' && key[length - 1 - digits] <= '9')
        digits++;
    if (digits == 0 || digits > 8 || digits == length)
        return false;
    for (const char *c = key + length - digits; *c != '\0'; c++)
        number = 10 * number + (uint64_t)(*c - '0');
    *rank = (uint32_t)number;
    return number < pmix->base.tasks;
}

/* NULL: nobody has put it, or it is not to be had. */
static struct pmix_abi_value *find(struct pmix *pmix, const char *key, int *status)
{
    char name[KEY_ROOM];
    uint32_t rank;

    snprintf(name, sizeof name, KEY_PREFIX "%s", key);
    if (key_owner(pmix, key, &rank))
        return ask(pmix, rank, name, "pmix.immediate", status);
    /* The first task has put it, or nobody. The fence has brought it here: the server is spared. */
    return ask(pmix, 0, name, "pmix.optional", status);
}

static int pmix_get(struct bootstrap *bootstrap, const char *key, char *text, size_t size)
{
    struct pmix *pmix = pmix_of(bootstrap);
    struct pmix_abi_value *value;
    int status, cancel_state, error = check_owner(pmix);

    if (error != 0)
        return error;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    value = find(pmix, key, &status);
    pthread_setcancelstate(cancel_state, NULL);
    if (value == NULL && (status == PMIX_ABI_ERR_UNREACH || atomic_load(&pmix->lost)))
        return fail(pmix, "PMIx_Get", status);
    if (value == NULL || value->type != PMIX_ABI_STRING)
        error = -ENOENT;
    else if (value->data.string == NULL) /* some send an empty text so */
        error = size == 0 ? -ENOBUFS : (text[0] = '\0', 0);
    else if (strlen(value->data.string) >= size)
        error = -ENOBUFS;
    else
        snprintf(text, size, "%s", value->data.string);
    value_free(value);
    return error;
}

/* ---- fences ---- */

static int commit(struct pmix *pmix)
{
    bool needed;
    int status;

    pthread_mutex_lock(&pmix->lock);
    needed = pmix->uncommitted;
    pmix->uncommitted = false;
    pthread_mutex_unlock(&pmix->lock);
    status = needed ? pmix->library.commit() : PMIX_ABI_SUCCESS;
    return status == PMIX_ABI_SUCCESS ? 0 : fail(pmix, "PMIx_Commit", status);
}

static int run_fence(struct pmix *pmix)
{
    int status = pmix_library_fence(&pmix->library, pmix->timeout);

    if (status == PMIX_ABI_ERR_TIMEOUT)
        return bootstrap_fail(-ETIMEDOUT,
                              "a fence has not completed within %g s (PAMI_BOOTSTRAP_TIMEOUT)",
                              pmix->timeout);
    return status == PMIX_ABI_SUCCESS ? 0 : fail(pmix, "PMIx_Fence", status);
}

static int pmix_fence(struct bootstrap *bootstrap)
{
    struct pmix *pmix = pmix_of(bootstrap);
    int cancel_state, error = check_owner(pmix);

    if (error != 0)
        return error;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    error = commit(pmix);
    if (error == 0)
        error = run_fence(pmix);
    pthread_setcancelstate(cancel_state, NULL);
    return error;
}

/* ---- the end ---- */

/* The first process of a namespace, as a task that is alone in a container, has to end by itself
 * where a signal ends any other one. */
static void end_by(int signal)
{
    struct sigaction action;

    kill(getpid(), signal);
    if (getpid() == 1 && sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_DFL)
        _exit(128 + signal);
}

/* Nobody else ends a process whose server has gone. */
static void lose_server(struct pmix *pmix)
{
    if (atomic_load(&pmix->leaving) || atomic_exchange(&pmix->lost, true))
        return;
    if (!option_bool(OPT_END_WITH_LAUNCHER)) {
        log_warn("the PMIx server of this node has gone");
        return;
    }
    log_error("the PMIx server of this node has gone: ending by SIGTERM (PAMI_END_WITH_LAUNCHER)");
    end_by(SIGTERM);
}

static void on_event(size_t id, int status, const struct pmix_abi_proc *source,
                     struct pmix_abi_info *infos, size_t count, struct pmix_abi_info *results,
                     size_t result_count, pmix_abi_event_done_fn *done, void *cookie)
{
    struct pmix *pmix = connected;

    (void)id, (void)source, (void)infos, (void)count, (void)results, (void)result_count;
    if (pmix != NULL && getpid() == pmix->owner &&
        (status == PMIX_ABI_ERR_LOST_CONNECTION ||
         status == PMIX_ABI_ERR_LOST_CONNECTION_TO_SERVER))
        lose_server(pmix);
    if (done != NULL)
        done(PMIX_ABI_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cookie);
}

static void pmix_abort(struct bootstrap *bootstrap, int code, const char *why)
{
    struct pmix *pmix = pmix_of(bootstrap);

    if (getpid() == pmix->owner && !atomic_load(&pmix->lost))
        pmix->library.abort(code, why, NULL, 0);
}

/* At process exit.  The object stays: other threads may still be inside. */
static void pmix_close(struct bootstrap *bootstrap)
{
    struct pmix *pmix = pmix_of(bootstrap);

    if (getpid() != pmix->owner || atomic_load(&pmix->lost) ||
        atomic_exchange(&pmix->leaving, true))
        return;
    pmix->library.finalize(NULL, 0);
}

static const struct bootstrap_ops pmix_ops = {
    .name = "pmix",
    .put = pmix_put,
    .fence = pmix_fence,
    .get = pmix_get,
    .abort = pmix_abort,
    .close = pmix_close,
};

/* ---- connecting ---- */

static int find_size(struct pmix *pmix)
{
    uint64_t tasks;

    if (ask_number(pmix, PMIX_ABI_RANK_WILDCARD, "pmix.job.size", &tasks) != 0)
        return bootstrap_fail(-EPROTO, "PMIx does not say how many tasks there are");
    if (tasks == 0 || tasks > TASKS_MAX || pmix->self.rank >= tasks)
        return bootstrap_fail(-EPROTO, "PMIx says this is task %u of %llu", pmix->self.rank,
                              (unsigned long long)tasks);
    pmix->base.task = pmix->self.rank;
    pmix->base.tasks = (uint32_t)tasks;
    return 0;
}

/* Gives all tasks of the node of that name the id. */
static int mark_node(struct pmix *pmix, const char *name, size_t length, uint32_t id, uint32_t *ids)
{
    struct pmix_abi_info how[3] = {pmix_flag("pmix.optional"), pmix_flag("pmix.node.info"),
                                   pmix_flag("pmix.hname")};
    struct pmix_abi_proc job = pmix->self;
    struct pmix_abi_value *value = NULL;
    char host[256];
    int status, error = -ENOENT;

    if (length >= sizeof host)
        return -ENOENT;
    snprintf(host, sizeof host, "%.*s", (int)length, name);
    job.rank = PMIX_ABI_RANK_WILDCARD;
    how[2].value.type = PMIX_ABI_STRING;
    how[2].value.data.string = host;
    status = pmix->library.get(&job, "pmix.lpeers", how, 3, &value);
    if (status == PMIX_ABI_SUCCESS && value != NULL && value->type == PMIX_ABI_STRING &&
        value->data.string != NULL)
        error = bootstrap_mark_node(value->data.string, id, ids, pmix->base.tasks);
    if (status == PMIX_ABI_SUCCESS)
        value_free(value);
    return error;
}

/* By the launcher's list of nodes, and its lists of their tasks. All of it is known on this node:
 * asking the server for what it does not know takes seconds with some, and with Slurm the job. */
static int find_by_lists(struct pmix *pmix, uint32_t *ids)
{
    int status, error = 0;
    uint32_t id = 0;
    struct pmix_abi_value *list =
        ask(pmix, PMIX_ABI_RANK_WILDCARD, "pmix.nlist", "pmix.optional", &status);
    const char *name;

    memset(ids, 0xff, pmix->base.tasks * sizeof *ids);
    name = list != NULL && list->type == PMIX_ABI_STRING ? list->data.string : NULL;
    if (name == NULL)
        error = -ENOENT;
    while (error == 0 && *name != '\0') {
        size_t length = strcspn(name, ",");

        error = mark_node(pmix, name, length, id++, ids);
        name += length + (name[length] == ',');
    }
    value_free(list);
    for (uint32_t i = 0; i < pmix->base.tasks && error == 0; i++)
        error = ids[i] == UINT32_MAX ? -EPROTO : 0;
    return error;
}

/* By the launcher's lists; who sees the same host, where it has none that make sense. */
static int find_nodes(struct pmix *pmix)
{
    uint32_t *ids = calloc(pmix->base.tasks, sizeof *ids);
    int error;

    if (ids == NULL)
        return -ENOMEM;
    error = find_by_lists(pmix, ids);
    if (error != 0) {
        log_info("bootstrap: pmix: no lists of the tasks of nodes, comparing hosts instead");
        error = bootstrap_compare_hosts(&pmix->base, ids);
    }
    if (error == 0)
        return bootstrap_set_nodes(&pmix->base, ids);
    free(ids);
    return error;
}

/* Changes the signal dispositions of nobody: libpmix may have its own ideas. */
static int init_quietly(struct pmix *pmix)
{
    static const int signals[] = {SIGPIPE, SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    struct sigaction before[sizeof signals / sizeof signals[0]];
    int status;

    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], NULL, &before[i]);
    status = pmix->library.init(&pmix->self, NULL, 0);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &before[i], NULL);
    return status;
}

static bool pmix_present(void)
{
    return getenv("PMIX_NAMESPACE") != NULL;
}

static int attach(struct pmix *pmix)
{
    char why[512];
    int status, error = pmix_library_open(&pmix->library, why, sizeof why);

    if (error != 0) {
        error_set(PAMI_ERROR,
                  "launcher: this seems to be a PMIx job, but libpmix cannot be opened: %s", why);
        return -ENODEV;
    }
    status = init_quietly(pmix);
    if (status != PMIX_ABI_SUCCESS) {
        error_set(PAMI_ERROR,
                  "launcher: this seems to be a PMIx job, but its server cannot be reached: "
                  "PMIx_Init: %s (%d)",
                  pmix->library.error_string(status), status);
        return -ENODEV;
    }
    log_info("bootstrap: %s", pmix->library.version());
    return 0;
}

static int pmix_connect(struct bootstrap **out)
{
    struct pmix *pmix = calloc(1, sizeof *pmix);
    int error;

    if (pmix == NULL)
        return -ENOMEM;
    pmix->base.ops = &pmix_ops;
    pmix->timeout = option_seconds(OPT_BOOTSTRAP_TIMEOUT);
    pmix->owner = getpid();
    pthread_mutex_init(&pmix->lock, NULL);
    error = attach(pmix);
    if (error != 0) {
        free(pmix);
        return error;
    }
    error = find_size(pmix);
    if (error == 0)
        error = find_nodes(pmix);
    if (error != 0)
        return error; /* the library has the connection from now on */
    connected = pmix;
    pmix->library.listen(NULL, 0, NULL, 0, on_event, NULL, NULL);
    bootstrap_set_job(&pmix->base, pmix->self.nspace);
    *out = &pmix->base;
    return 0;
}

const struct bootstrap_backend bootstrap_pmix = {
    .name = "pmix",
    .present = pmix_present,
    .connect = pmix_connect,
};
