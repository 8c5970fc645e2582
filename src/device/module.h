/*
 * Devices that live in modules of their own, because the libraries behind them cost too much for
 * programs that do not need them.
 *
 * A module is a shared object beside the library, opened at the first need and never closed. It is
 * linked with nothing of the library: what it needs of it comes in a struct module_host, what it
 * offers is its table of operations.
 */
#ifndef LIBPAMI_DEVICE_MODULE_H
#define LIBPAMI_DEVICE_MODULE_H

#include <stddef.h>
#include <stdint.h>

#include "bootstrap/bootstrap.h"
#include "device/device.h"
#include "util/log.h"
#include "util/option.h"

/* What tells a module and a library that were not built together apart. */
#define MODULE_STAMP                                                                               \
    ((uint64_t)sizeof(struct device_ops) << 52 | (uint64_t)sizeof(struct path) << 40 |             \
     (uint64_t)sizeof(struct port_params) << 28 | (uint64_t)sizeof(struct module_host) << 16 |     \
     (uint64_t)OPTION_COUNT)

/* The library, as a module sees it. */
struct module_host {
    uint64_t stamp; /* MODULE_STAMP; also the first thing a module checks */
    const char *version;
    int *log_threshold;
    void (*log_write)(enum log_level level, const char *format, ...);
    int64_t (*option_int)(enum option_id id);
    size_t (*option_bytes)(enum option_id id);
    double (*option_seconds)(enum option_id id);
    bool (*option_bool)(enum option_id id);
    int (*option_choice)(enum option_id id);
    const char *(*option_string)(enum option_id id);
    int (*put)(struct bootstrap *bootstrap, const char *key, const char *value);
    int (*fence)(struct bootstrap *bootstrap);
    int (*get)(struct bootstrap *bootstrap, const char *key, char *value, size_t size);
    int (*node_of)(struct bootstrap *bootstrap, uint32_t task, uint32_t *node);
};

/* The one symbol of a module. NULL: it was built for another library. The host stays valid. */
#define MODULE_ENTRY "pami_module_entry"
typedef const struct device_ops *module_entry_function(const struct module_host *host);

#endif
