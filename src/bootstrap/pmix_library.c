/*
 * Finding and opening libpmix, which is not linked: most jobs need none.
 *
 * It is looked for where PAMI_PMIX_LIBRARY says, where the dynamic linker looks, and below the
 * directory of the C library, as Debian keeps it in a directory of its own. Never closed: it has
 * threads.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "bootstrap/pmix_abi.h"
#include "util/linkage.h"
#include "util/option.h"

/* The last binary interface that is known to differ was that of version 1. */
static const char soname[] = "libpmix.so.2";

/* Beside the C library: <directory>/pmix2/lib/libpmix.so.2 */
static bool beside_libc(char *path, size_t size)
{
    Dl_info info;
    const char *end;

    if (dladdr((void *)(uintptr_t)&snprintf, &info) == 0 || info.dli_fname == NULL)
        return false;
    end = strrchr(info.dli_fname, '/');
    return end != NULL && snprintf(path, size, "%.*s/pmix2/lib/%s", (int)(end - info.dli_fname),
                                   info.dli_fname, soname) < (int)size;
}

static void *open_any(char *why, size_t size)
{
    const char *told = option_string(OPT_PMIX_LIBRARY);
    const char *reason;
    char path[PATH_MAX];
    void *handle;

    if (!linkage_opens_libraries()) {
        snprintf(why, size, LINKAGE_STATIC);
        return NULL;
    }
    handle = dlopen(told[0] != '\0' ? told : soname, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        reason = dlerror();
        snprintf(why, size, "%s", reason != NULL ? reason : "no reason given");
        if (told[0] == '\0' && beside_libc(path, sizeof path))
            handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return handle;
}

#define FIND(member, symbol, result, parameters) {#symbol, offsetof(struct pmix_library, member)},

int pmix_library_open(struct pmix_library *library, char *why, size_t size)
{
    static const struct {
        const char *symbol;
        size_t offset;
    } rows[] = {PMIX_ABI_CALLS(FIND)};
    void *handle = open_any(why, size);

    if (handle == NULL)
        return -ENOENT;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *function = dlsym(handle, rows[i].symbol);

        if (function == NULL) {
            snprintf(why, size, "%s has no %s", soname, rows[i].symbol);
            return -ENOENT;
        }
        memcpy((char *)library + rows[i].offset, &function, sizeof function);
    }
    return 0;
}
