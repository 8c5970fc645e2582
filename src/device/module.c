/*
 * Finding and opening modules; the row of the ofi device, which stands in for its module.
 *
 * Where a module is looked for: PAMI_MODULE_DIR if set and nowhere else; beside the object that
 * this code is part of; in the lib directory next to a program's bin; where the library is to be
 * installed, as a program that libpami.a was linked into may be anywhere; and, as it may have been
 * installed elsewhere, where the system looks (LD_LIBRARY_PATH, a program's own list).
 *
 * Some libraries take over signals when they are opened (the PSM libraries behind Debian's
 * libfabric). Whatever happens to signal dispositions while a module is opened is undone.
 */
#include "device/module.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/network.h"
#include "util/linkage.h"

static const struct module_host host = {
    .stamp = MODULE_STAMP,
    .version = PAMI_VERSION_TEXT,
    .log_threshold = &log_threshold,
    .log_write = log_write,
    .option_int = option_int,
    .option_bytes = option_bytes,
    .option_seconds = option_seconds,
    .option_bool = option_bool,
    .option_choice = option_choice,
    .option_string = option_string,
    .put = bootstrap_put,
    .fence = bootstrap_fence,
    .get = bootstrap_get,
    .node_of = bootstrap_node_of,
};

/* ---- opening ---- */

/* Directory of the object this code was linked into; false when that cannot be told. */
static bool own_directory(char *directory, size_t size)
{
    Dl_info info;
    char *path, *slash;
    bool found = false;

    if (dladdr(&host, &info) == 0 || info.dli_fname == NULL)
        return false;
    /* A program's own name may be relative, or what its user typed. */
    path = strchr(info.dli_fname, '/') != NULL ? realpath(info.dli_fname, NULL) : NULL;
    if (path == NULL)
        path = realpath("/proc/thread-self/exe", NULL);
    if (path == NULL)
        return false;
    slash = strrchr(path, '/');
    if (slash != NULL && (size_t)(slash - path) < size) {
        *slash = '\0';
        snprintf(directory, size, "%s", path);
        found = true;
    }
    free(path);
    return found;
}

static void *open_in(const char *directory, const char *between, const char *name, char *why,
                     size_t size)
{
    char path[PATH_MAX];
    void *module;

    if (snprintf(path, sizeof(path), "%s/%spami-%s.so", directory, between, name) >=
        (int)sizeof(path))
        return NULL;
    module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL)
        snprintf(why, size, "%s", dlerror());
    else
        log_debug("module %s: %s", name, path);
    return module;
}

static void *open_by_name(const char *name)
{
    char file[NAME_MAX];
    void *module;

    snprintf(file, sizeof(file), "pami-%s.so", name);
    module = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (module != NULL)
        log_debug("module %s: %s, where the system has found it", name, file);
    return module;
}

static void *open_module(const char *name, char *why, size_t size)
{
    const char *wanted = option_string(OPT_MODULE_DIR);
    char directory[PATH_MAX];
    char second[256] = "";
    void *module;

    if (!linkage_opens_libraries()) {
        snprintf(why, size, LINKAGE_STATIC);
        return NULL;
    }
    if (*wanted != '\0')
        return open_in(wanted, "", name, why, size);
    if (!own_directory(directory, sizeof(directory))) {
        snprintf(why, size, "cannot tell where the library is; set PAMI_MODULE_DIR");
        return NULL;
    }
    module = open_in(directory, "", name, why, size);
    if (module == NULL)
        module = open_in(directory, "../lib/", name, second, sizeof(second));
    if (module == NULL)
        module = open_in(PAMI_LIBDIR, "", name, second, sizeof(second));
    if (module == NULL)
        module = open_by_name(name);
    if (module == NULL && strlen(why) < size)
        snprintf(why + strlen(why), size - strlen(why),
                 "; nor is it in %s or where the system looks for libraries (PAMI_MODULE_DIR says "
                 "where it is)",
                 PAMI_LIBDIR);
    return module;
}

struct signals {
    struct sigaction action[NSIG];
    bool known[NSIG];
};

static void signals_save(struct signals *signals)
{
    for (int i = 1; i < NSIG; i++)
        signals->known[i] = sigaction(i, NULL, &signals->action[i]) == 0;
}

static bool has_changed(int signal, const struct sigaction *before)
{
    struct sigaction now;

    return sigaction(signal, NULL, &now) == 0 &&
           (now.sa_handler != before->sa_handler || now.sa_flags != before->sa_flags);
}

static void signals_restore(const struct signals *signals)
{
    for (int i = 1; i < NSIG; i++)
        if (signals->known[i] && has_changed(i, &signals->action[i]))
            sigaction(i, &signals->action[i], NULL);
}

/* These libraries install handlers, and waste 0.1 s each, unless they are told not to. */
static const char *const quiet[] = {"IPATH_NO_BACKTRACE", "HFI_NO_BACKTRACE"};

static const struct device_ops *load(const char *name, char *why, size_t size)
{
    struct signals *signals = malloc(sizeof(*signals));
    module_entry_function *entry = NULL;
    const struct device_ops *ops = NULL;
    void *module;
    void *symbol;

    if (signals == NULL) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++)
        setenv(quiet[i], "1", 0);
    signals_save(signals);
    module = open_module(name, why, size);
    symbol = module != NULL ? dlsym(module, MODULE_ENTRY) : NULL;
    if (symbol != NULL) {
        memcpy(&entry, &symbol, sizeof(entry));
        ops = entry(&host);
    }
    signals_restore(signals);
    free(signals);
    if (module != NULL && ops == NULL)
        snprintf(why, size, "pami-%s.so was not built together with this library", name);
    return ops;
}

/* Opens the module NAME (file pami-NAME.so) once. NULL: `why` has the reason. */
static const struct device_ops *module_load(const char *name, char *why, size_t size)
{
    /* One module: one row is all the memory this needs. */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const struct device_ops *loaded;
    const struct device_ops *ops;

    pthread_mutex_lock(&lock);
    if (loaded == NULL)
        loaded = load(name, why, size);
    ops = loaded;
    pthread_mutex_unlock(&lock);
    return ops;
}

/* ---- the row of the ofi device ---- */

/* Why the job does without a network, or NULL. Alike on all tasks. */
static const char *not_needed(struct bootstrap *bootstrap)
{
    if (bootstrap->nodes < 2)
        return "not needed: all tasks are on one node";
    if (option_choice(OPT_NETWORK) == NETWORK_SHM)
        return "not wanted: PAMI_NETWORK=shm";
    if (network_by_segment(bootstrap))
        return "not needed: the nodes are pretended and joined by shared memory (PAMI_NETWORK=ofi "
               "would join them by this device)";
    return NULL;
}

static int ofi_open(const struct device_params *params, struct device **device, char *why,
                    size_t size)
{
    const char *reason = not_needed(params->bootstrap);
    const struct device_ops *ops;
    int error;

    if (reason != NULL) {
        snprintf(why, size, "%s", reason);
        return -ENODEV;
    }
    ops = module_load("ofi", why, size);
    error = ops != NULL ? ops->open(params, device, why, size) : -ENODEV;
    if (error == -ENODEV)
        log_warn("the job spans %u nodes, but the network device cannot be opened: %s",
                 params->bootstrap->nodes, why);
    if (ops != NULL)
        return error;
    /* Others may have it; all tasks make the same number of fences. */
    error = bootstrap_fence(params->bootstrap);
    return error != 0 ? error : -ENODEV;
}

static void ofi_explain(struct bootstrap *bootstrap, device_explain_function *say, void *cookie)
{
    char why[256] = "no reason given";
    const struct device_ops *ops = module_load("ofi", why, sizeof(why));

    if (ops == NULL)
        say(cookie, why);
    else
        ops->explain(bootstrap, say, cookie);
}

/* Only what is done before the module is there; an open device has the module's table. */
const struct device_ops ofi_module_ops = {
    .name = "ofi",
    .description = "libfabric, between nodes: a module that is opened when a job needs it",
    .open = ofi_open,
    .explain = ofi_explain,
};
