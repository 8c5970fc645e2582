/*
 * The process's one launcher connection, and the operations that dispatch to a back end.
 *
 * Invariants: `process.lock` guards everything in `process`; `process.bootstrap` is set once and
 * lives until the process exits, because PMI-1 knows no second init after a finalize.  Only the
 * process that connected (`process.owner`) uses it or says good-bye: a forked child must not.
 * Does not know any launcher: those are rows in other files.
 */
#include "bootstrap/bootstrap.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/backend.h"
#include "util/error.h"
#include "util/log.h"
#include "util/option.h"

/* In order of preference.  The last one is always present. */
static const struct bootstrap_backend *const backends[] = {
    &bootstrap_pmix,
    &bootstrap_pmi1,
    &bootstrap_single,
};

static struct {
    pthread_mutex_t lock;
    struct bootstrap *bootstrap;
    unsigned references;
    void *self;          /* the object that this is part of, if that can be unloaded */
    _Atomic pid_t owner; /* 0 until connected; read without the lock */
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The first one that is meant and there. What the environment speaks of need not be there: it may
 * have been left by a launcher that started the one that started us. Where there is no other one,
 * this may be a task of a job, such as a container that cannot reach it. */
static int backend_connect(const struct bootstrap_backend **backend, struct bootstrap **bootstrap)
{
    const char *wanted = option_string(OPT_BOOTSTRAP);
    bool any = strcmp(wanted, "auto") == 0;
    char text[ERROR_TEXT_MAX] = "";

    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        int err;

        if (any ? !backends[i]->present() : strcmp(wanted, backends[i]->name) != 0)
            continue;
        *backend = backends[i];
        if (backends[i] == &bootstrap_single && text[0] != '\0')
            log_warn("%s; running as one task", text);
        err = backends[i]->connect(bootstrap);
        if (err != -ENODEV)
            return err;
        PAMI_Error_text(text, sizeof text);
        if (!any) {
            log_error("%s", text);
            return err;
        }
        log_info("bootstrap: %s: %s", backends[i]->name, text);
    }
    return bootstrap_fail(-EINVAL, "PAMI_BOOTSTRAP: no back end of that name");
}

/* A program that has closed its standard streams may print all the same. None of what the library
 * opens may get their numbers: a shared-memory file or a socket would take in what is printed. */
static void streams_fill(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* What a process has once it keeps for good, and threads have functions of ours to call when they
 * end. The shared library is linked never to be unloaded; a plug-in with libpami.a in it need not
 * be. The program itself has no name. */
static void stay_loaded(void)
{
    void *found = NULL;
    const char *name;
    Dl_info info;

    if (dladdr1(&process, &info, &found, RTLD_DL_LINKMAP) == 0 || found == NULL)
        return;
    name = ((const struct link_map *)found)->l_name;
    if (*name == '\0')
        return;
    process.self = dlopen(name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (process.self == NULL)
        log_warn("%s cannot be kept loaded: %s", name, dlerror());
}

static int process_connect(void)
{
    const struct bootstrap_backend *backend;
    struct bootstrap *bootstrap;
    int err;

    streams_fill();
    err = backend_connect(&backend, &bootstrap);
    if (err != 0)
        return err;
    stay_loaded();
    log_set_task(bootstrap->task);
    log_info("bootstrap: %s: task %u of %u, node %u of %u, %u local, job %s", backend->name,
             bootstrap->task, bootstrap->tasks, bootstrap->node, bootstrap->nodes,
             bootstrap->local_count, bootstrap->job);
    process.bootstrap = bootstrap;
    atomic_store_explicit(&process.owner, getpid(), memory_order_release);
    return 0;
}

/* True in a child forked from the connected process. */
static bool process_is_fork(void)
{
    pid_t owner = atomic_load_explicit(&process.owner, memory_order_acquire);

    return owner != 0 && owner != getpid();
}

int bootstrap_open(struct bootstrap **out)
{
    int err = 0, cancel_state;

    if (process_is_fork()) {
        error_set(PAMI_ERROR, "launcher: this process was forked from the one that is connected");
        return -ECHILD;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    pthread_mutex_lock(&process.lock);
    if (process.bootstrap == NULL)
        err = process_connect();
    if (err == 0) {
        process.references++;
        *out = process.bootstrap;
    }
    pthread_mutex_unlock(&process.lock);
    pthread_setcancelstate(cancel_state, NULL);
    return err;
}

void bootstrap_close(struct bootstrap *bootstrap)
{
    bool ours;

    if (bootstrap == NULL || process_is_fork())
        return;
    pthread_mutex_lock(&process.lock);
    ours = bootstrap == process.bootstrap;
    if (ours && process.references > 0)
        process.references--;
    pthread_mutex_unlock(&process.lock);
    if (!ours && bootstrap->ops->close != NULL)
        bootstrap->ops->close(bootstrap);
}

/*
 * Launchers take an exit without a good-bye for a crash.  At process exit other threads may still
 * be inside the library: the back end must cope, and nothing is freed that they could be using.
 */
__attribute__((destructor)) static void process_leave(void)
{
    struct bootstrap *bootstrap;

    if (atomic_load_explicit(&process.owner, memory_order_acquire) != getpid())
        return;
    if (pthread_mutex_trylock(&process.lock) != 0)
        return;
    bootstrap = process.bootstrap;
    atomic_store_explicit(&process.owner, 0, memory_order_release);
    pthread_mutex_unlock(&process.lock);
    if (bootstrap != NULL && bootstrap->ops->close != NULL)
        bootstrap->ops->close(bootstrap);
}

int bootstrap_put(struct bootstrap *bootstrap, const char *key, const char *value)
{
    int err = bootstrap_check_key(key);

    if (err == 0)
        err = bootstrap_check_value(value);
    if (err != 0)
        return err;
    if (bootstrap->ops->put == NULL)
        return -ENOTSUP;
    return bootstrap->ops->put(bootstrap, key, value);
}

int bootstrap_fence(struct bootstrap *bootstrap)
{
    return bootstrap->ops->fence == NULL ? 0 : bootstrap->ops->fence(bootstrap);
}

int bootstrap_get(struct bootstrap *bootstrap, const char *key, char *value, size_t size)
{
    int err = bootstrap_check_key(key);

    if (err != 0)
        return err;
    if (bootstrap->ops->get == NULL)
        return -ENOTSUP;
    return bootstrap->ops->get(bootstrap, key, value, size);
}

int bootstrap_node_of(struct bootstrap *bootstrap, uint32_t task, uint32_t *node)
{
    if (task >= bootstrap->tasks + bootstrap->servers)
        return -EINVAL;
    if (bootstrap->node_map != NULL)
        *node = bootstrap->node_map[task];
    else if (bootstrap->ops->node_of != NULL)
        return bootstrap->ops->node_of(bootstrap, task, node);
    else if (bootstrap->nodes == 1)
        *node = 0;
    else
        return -ENOTSUP;
    return 0;
}

void bootstrap_abort(struct bootstrap *bootstrap, int code, const char *why)
{
    log_error("ending the job with status %d: %s", code, why == NULL ? "no reason given" : why);
    if (bootstrap->ops->abort != NULL)
        bootstrap->ops->abort(bootstrap, code, why == NULL ? "" : why);
}
