/*
 * Extensions: one table of them, and of the symbols of each.
 *
 * Symbols are constant, or belong to a client and live as long as it does: they stay usable when
 * the extension has been closed. An extension of the whole process has one handle for good, which a
 * program may ask for a symbol after closing it; another one that has been closed is refused.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bootstrap/bootstrap.h"
#include "client/async.h"
#include "client/client.h"
#include "client/torus.h"
#include "context/registry.h"
#include "util/error.h"

/* Either a function that is the same for everybody, or what `find` says of a client. */
struct symbol {
    const char *name;
    void (*function)(void);
    void *(*find)(const struct client *client);
};

#define FUNCTION(f) .function = (void (*)(void))(f)

/* Of the whole process or, with prepare, of a client. */
struct extension_row {
    const char *name;                /* with its prefix, which programs may leave out */
    int (*prepare)(struct client *); /* 0 or negative errno */
    const struct symbol *symbols;    /* up to a NULL name */
};

#define EXTENSION_MAGIC UINT64_C(0x70616d6965787465)

struct extension {
    uint64_t magic;
    const struct extension_row *row;
    struct client *client;
};

/* ---- EXT_is_local_task: a table of one byte per task, 1 on this node ---- */

static int prepare_local(struct client *client)
{
    const struct bootstrap *bootstrap = client->core.bootstrap;

    if (client->is_local != NULL)
        return 0;
    client->is_local = calloc(client->core.tasks, 1);
    if (client->is_local == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < bootstrap->local_count; i++)
        client->is_local[bootstrap->local_tasks[i]] = 1;
    return 0;
}

static void *local_base(const struct client *client)
{
    return client->is_local;
}

/* Stride and mask are integers in a pointer's clothes. */
static void *local_one(const struct client *client)
{
    (void)client;
    return (void *)(uintptr_t)1;
}

static const struct symbol local_symbols[] = {
    {"base", .find = local_base},
    {"stride", .find = local_one},
    {"bitmask", .find = local_one},
    {.name = NULL},
};

/* ---- EXT_async_progress ---- */

static const struct symbol async_symbols[] = {
    {"register", FUNCTION(async_register)},
    {"enable", FUNCTION(async_enable)},
    {"disable", FUNCTION(async_disable)},
    {.name = NULL},
};

/* ---- EXT_torus_network ---- */

static const struct symbol torus_symbols[] = {
    {"information", FUNCTION(torus_information)},
    {"task2torus", FUNCTION(torus_of_task)},
    {"torus2task", FUNCTION(torus_to_task)},
    {.name = NULL},
};

/* ---- EXT_test_extension ---- */

struct test_record {
    size_t line;
    char func[128];
};

static void test_foo(void)
{
    printf("test extension: foo\n");
    fflush(stdout);
}

static void test_bar(struct test_record *record)
{
    record->line = __LINE__;
    snprintf(record->func, sizeof(record->func), "%s", __func__);
}

static const struct symbol test_symbols[] = {
    {"foo", FUNCTION(test_foo)},
    {"bar", FUNCTION(test_bar)},
    {.name = NULL},
};

/* ---- the table ---- */

/* One that is of the whole process has its handle in `common` as well. */
enum {
    IS_LOCAL_TASK,
    ASYNC_PROGRESS,
    TEST_EXTENSION,
    TORUS_NETWORK,
    EXTENSIONS
};

static const struct extension_row extension_table[EXTENSIONS] = {
    [IS_LOCAL_TASK] =
        {
            .name = "EXT_is_local_task",
            .prepare = prepare_local,
            .symbols = local_symbols,
        },
    [ASYNC_PROGRESS] =
        {
            .name = "EXT_async_progress",
            .symbols = async_symbols,
        },
    [TEST_EXTENSION] =
        {
            .name = "EXT_test_extension",
            .symbols = test_symbols,
        },
    [TORUS_NETWORK] =
        {
            .name = "EXT_torus_network",
            .prepare = torus_prepare,
            .symbols = torus_symbols,
        },
};

static const struct extension common[EXTENSIONS] = {
    [ASYNC_PROGRESS] = {EXTENSION_MAGIC, &extension_table[ASYNC_PROGRESS], NULL},
    [TEST_EXTENSION] = {EXTENSION_MAGIC, &extension_table[TEST_EXTENSION], NULL},
};

static const struct extension_row *row_of(const char *name)
{
    for (size_t i = 0; i < EXTENSIONS; i++)
        if (strcmp(name, extension_table[i].name) == 0 ||
            strcmp(name, extension_table[i].name + strlen("EXT_")) == 0)
            return &extension_table[i];
    return NULL;
}

pami_result_t PAMI_Extension_open(pami_client_t handle, const char *name, pami_extension_t *out)
{
    struct client *client = handle != NULL ? client_from_handle(handle) : NULL;
    const struct extension_row *row;
    struct extension *extension;
    int error;

    if (out == NULL)
        return error_set(PAMI_INVAL, "PAMI_Extension_open: extension: NULL");
    *out = NULL;
    if (name == NULL)
        return error_set(PAMI_INVAL, "PAMI_Extension_open: name: NULL");
    if (handle != NULL && client == NULL)
        return error_set(PAMI_INVAL, "PAMI_Extension_open: client: not a client");
    row = row_of(name);
    if (row == NULL)
        return error_set(PAMI_UNIMPL, "PAMI_Extension_open: name: there is no extension '%s'",
                         name);
    if (row->prepare == NULL) {
        *out = (void *)(uintptr_t)&common[row - extension_table];
        return PAMI_SUCCESS;
    }
    if (client == NULL)
        return error_set(PAMI_ERROR, "PAMI_Extension_open: client: %s needs one", row->name);
    error = row->prepare(client);
    extension = error == 0 ? malloc(sizeof(*extension)) : NULL;
    if (error == -ENOTSUP)
        return error_set(PAMI_ERROR, "PAMI_Extension_open: client: it has no %s", row->name);
    if (extension == NULL)
        return error_set(PAMI_ENOMEM, "PAMI_Extension_open: out of memory");
    *extension = (struct extension){.magic = EXTENSION_MAGIC, .row = row, .client = client};
    if (registry_add(extension, &client->core) != 0) {
        free(extension);
        return error_set(PAMI_ENOMEM, "PAMI_Extension_open: out of memory");
    }
    *out = extension;
    return PAMI_SUCCESS;
}

/* NULL unless it is open, or of the whole process. */
static const struct extension *extension_from_handle(pami_extension_t handle)
{
    const struct extension *extension = handle;
    bool known = registry_find(handle) != NULL;

    for (size_t i = 0; i < EXTENSIONS; i++)
        known = known || extension == &common[i];
    return known && extension->magic == EXTENSION_MAGIC ? extension : NULL;
}

void *PAMI_Extension_symbol(pami_extension_t handle, const char *name)
{
    const struct extension *extension = extension_from_handle(handle);

    if (extension == NULL || name == NULL) {
        error_set(PAMI_INVAL, "PAMI_Extension_symbol: extension or name: NULL or not open");
        return NULL;
    }
    for (const struct symbol *symbol = extension->row->symbols; symbol->name != NULL; symbol++)
        if (strcasecmp(symbol->name, name) == 0)
            return symbol->find != NULL ? symbol->find(extension->client)
                                        : (void *)(uintptr_t)symbol->function;
    error_set(PAMI_INVAL, "PAMI_Extension_symbol: name: %s has no '%s'", extension->row->name,
              name);
    return NULL;
}

pami_result_t PAMI_Extension_close(pami_extension_t handle)
{
    const struct extension *extension = extension_from_handle(handle);

    if (extension == NULL)
        return error_set(PAMI_INVAL, "PAMI_Extension_close: extension: not open");
    if (extension->client == NULL)
        return PAMI_SUCCESS;
    registry_remove(handle);
    free(handle);
    return PAMI_SUCCESS;
}
