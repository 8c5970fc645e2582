/*
 * The module's door: what it needs of the library, under the names the library has for it.
 *
 * The module is linked with nothing of libpami (see device/module.h), so the functions of log.h,
 * option.h and bootstrap.h that it uses are defined here and ask the host.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "device/module.h"
#include "device/ofi/ofi.h"

/* Longest text of a log line; the host cuts as well. */
#define TEXT_MAX 768

static const struct module_host *host;

/* Kept open: the host's own threshold decides. */
int log_threshold = LOG_LEVEL_DEBUG;

int log_threshold_init(void)
{
    return LOG_LEVEL_DEBUG;
}

void log_write(enum log_level level, const char *format, ...)
{
    char text[TEXT_MAX];
    va_list arguments;

    if ((int)level > __atomic_load_n(host->log_threshold, __ATOMIC_RELAXED))
        return;
    va_start(arguments, format);
    if (vsnprintf(text, sizeof(text), format, arguments) < 0)
        text[0] = '\0';
    va_end(arguments);
    host->log_write(level, "%s", text);
}

int64_t option_int(enum option_id id)
{
    return host->option_int(id);
}

size_t option_bytes(enum option_id id)
{
    return host->option_bytes(id);
}

double option_seconds(enum option_id id)
{
    return host->option_seconds(id);
}

bool option_bool(enum option_id id)
{
    return host->option_bool(id);
}

int option_choice(enum option_id id)
{
    return host->option_choice(id);
}

const char *option_string(enum option_id id)
{
    return host->option_string(id);
}

int bootstrap_put(struct bootstrap *bootstrap, const char *key, const char *value)
{
    return host->put(bootstrap, key, value);
}

int bootstrap_fence(struct bootstrap *bootstrap)
{
    return host->fence(bootstrap);
}

int bootstrap_get(struct bootstrap *bootstrap, const char *key, char *value, size_t size)
{
    return host->get(bootstrap, key, value, size);
}

int bootstrap_node_of(struct bootstrap *bootstrap, uint32_t task, uint32_t *node)
{
    return host->node_of(bootstrap, task, node);
}

__attribute__((visibility("default"))) module_entry_function pami_module_entry;

const struct device_ops *pami_module_entry(const struct module_host *the_host)
{
    if (the_host->stamp != MODULE_STAMP || strcmp(the_host->version, PAMI_VERSION_TEXT) != 0)
        return NULL;
    host = the_host;
    return &ofi_device_ops;
}
