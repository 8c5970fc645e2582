/*
 * Extensions: opening by name, symbols in either case, use after closing, unknown names; what
 * EXT_is_local_task, EXT_torus_network and EXT_test_extension offer.
 *
 * Run:
 * Run: tasks=1,3
 * Run: tasks=5 nodes=2
 */
#include "api_test.h"

#include <stddef.h>
#include <sys/wait.h>

struct bar {
    size_t line;
    char func[128];
};

static struct job job;

static void unknown(pami_client_t client)
{
    static const char *const names[] = {"EXT_nothing_of_the_kind", "", "ext_is_local_task",
                                        "EXT_hfi_extension_", "EXT_is_local_tas"};
    pami_extension_t extension;
    size_t i;

    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        extension = &job;
        CHECK_REFUSED(PAMI_Extension_open(client, names[i], &extension), PAMI_UNIMPL, "");
        CHECK(extension == NULL);
    }
    extension = &job;
    CHECK_RESULT(PAMI_Extension_open(client, NULL, &extension), PAMI_INVAL);
    CHECK_RESULT(PAMI_Extension_open(client, "EXT_is_local_task", NULL), PAMI_INVAL);
    PAMI_Extension_close(NULL);
    CHECK(PAMI_Extension_symbol(NULL, "base") == NULL);
}

/* The table of the extension says what the attribute says. */
static void check_table(const uint8_t *base, size_t stride, size_t bitmask)
{
    pami_configuration_t query = {.name = PAMI_CLIENT_LOCAL_TASKS};
    size_t i, next = 0, count = client_attribute(job.client, PAMI_CLIENT_NUM_LOCAL_TASKS);

    CHECK_OK(PAMI_Client_query(job.client, &query, 1));
    CHECK(base != NULL && stride >= 1 && bitmask != 0);
    for (i = 0; i < job.tasks; i++) {
        bool local = next < count && query.value.intarray[next] == i;

        CHECK(((base[i * stride] & bitmask) != 0) == local);
        next += local;
    }
    CHECK_SIZE(next, count);
}

static void local_task(const char *name)
{
    pami_extension_t first, second;
    const uint8_t *base;
    size_t stride, bitmask;

    CHECK_OK(PAMI_Extension_open(job.client, name, &first));
    CHECK_OK(PAMI_Extension_open(job.client, name, &second));
    CHECK(first != NULL && second != NULL);
    base = PAMI_Extension_symbol(first, "base");
    stride = (size_t)(uintptr_t)PAMI_Extension_symbol(first, "stride");
    bitmask = (size_t)(uintptr_t)PAMI_Extension_symbol(first, "bitmask");
    check_table(base, stride, bitmask);
    CHECK(PAMI_Extension_symbol(second, "BASE") == base);
    CHECK((size_t)(uintptr_t)PAMI_Extension_symbol(second, "Stride") == stride);
    CHECK(PAMI_Extension_symbol(first, "nothing") == NULL);
    CHECK(PAMI_Extension_symbol(first, "") == NULL);
    CHECK(PAMI_Extension_symbol(first, NULL) == NULL);
    CHECK_OK(PAMI_Extension_close(first));
    CHECK_RESULT(PAMI_Extension_close(first), PAMI_INVAL);
    CHECK(PAMI_Extension_symbol(first, "base") == NULL);
    CHECK_RESULT(PAMI_Extension_close(job.client), PAMI_INVAL); /* no extension at all */
    check_table(PAMI_Extension_symbol(second, "base"), stride, bitmask);
    CHECK_OK(PAMI_Extension_close(second));
    check_table(base, stride, bitmask); /* symbols stay usable */
}

static void test_extension(pami_client_t client)
{
    pami_extension_t extension;
    void (*foo)(void);
    void (*bar)(struct bar *);
    void *symbol;
    struct bar result;

    CHECK_OK(PAMI_Extension_open(client, "EXT_test_extension", &extension));
    symbol = PAMI_Extension_symbol(extension, "foo");
    CHECK(symbol != NULL);
    memcpy(&foo, &symbol, sizeof foo);
    symbol = PAMI_Extension_symbol(extension, "bar");
    CHECK(symbol != NULL);
    memcpy(&bar, &symbol, sizeof bar);
    CHECK_OK(PAMI_Extension_close(extension));
    CHECK(PAMI_Extension_symbol(extension, "BAR") == symbol); /* as a careless program asks */
    PAMI_Extension_close(extension);
    foo();
    memset(&result, 0xff, sizeof result);
    bar(&result);
    CHECK(result.line != (size_t)-1 && result.line != 0);
    CHECK(memchr(result.func, '\0', sizeof result.func) != NULL && result.func[0] != '\0');
}

/* A child made by fork has no launcher that could tell where tasks are. */
static void torus_of_child(pami_result_t (*task2torus)(pami_task_t, size_t *))
{
    size_t address[2];
    int status;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        CHECK_REFUSED(task2torus(0, address), PAMI_ERROR, "forked");
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

struct torus {
    size_t dims, *coord, *size, *torus;
};

/* Every address of the grid names one task or none, and every task has one. */
static void torus(const char *name)
{
    pami_extension_t extension;
    const struct torus *(*information)(void);
    pami_result_t (*task2torus)(pami_task_t, size_t *);
    pami_result_t (*torus2task)(size_t *, pami_task_t *);
    const struct torus *grid;
    size_t address[2] = {0, 0}, found = 0;
    pami_task_t task;

    CHECK_OK(PAMI_Extension_open(job.client, name, &extension));
    *(void **)&information = PAMI_Extension_symbol(extension, "information");
    *(void **)&task2torus = PAMI_Extension_symbol(extension, "task2torus");
    *(void **)&torus2task = PAMI_Extension_symbol(extension, "torus2task");
    CHECK_OK(PAMI_Extension_close(extension));
    grid = information();
    CHECK_SIZE(grid->dims, 2);
    CHECK(grid->torus[0] == 0 && grid->torus[1] == 0);
    for (task = 0; task < job.tasks; task++) {
        pami_task_t back = PAMI_ENDPOINT_NULL;

        CHECK_OK(task2torus(task, address));
        CHECK(address[0] < grid->size[0] && address[1] < grid->size[1]);
        CHECK_OK(torus2task(address, &back));
        CHECK_SIZE(back, task);
        if (task == job.task)
            CHECK(memcmp(address, grid->coord, sizeof address) == 0);
    }
    CHECK_REFUSED(task2torus(task, address), PAMI_INVAL, "task:");
    CHECK_REFUSED(task2torus(0, NULL), PAMI_INVAL, "address:");
    CHECK_REFUSED(torus2task(NULL, &task), PAMI_INVAL, "address:");
    CHECK_REFUSED(torus2task(address, NULL), PAMI_INVAL, "task:");
    torus_of_child(task2torus);
    for (address[0] = 0; address[0] <= grid->size[0]; address[0]++)
        for (address[1] = 0; address[1] <= grid->size[1]; address[1]++)
            found += torus2task(address, &task) == PAMI_SUCCESS;
    CHECK_SIZE(found, job.tasks);
}

/* Known or not: an answer, and a handle exactly when it is SUCCESS. */
static void others(void)
{
    static const char *const names[] = {"EXT_collsel",       "EXT_pe_extension",
                                        "EXT_hfi_extension", "EXT_bgq_l2atomic",
                                        "PE_dyn_task",       "EXT_async_progress"};
    pami_extension_t extension;
    size_t i;

    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        pami_result_t result = PAMI_Extension_open(job.client, names[i], &extension);

        CHECK((result == PAMI_SUCCESS) == (extension != NULL));
        CHECK(result == PAMI_SUCCESS || result == PAMI_UNIMPL || result == PAMI_ERROR);
        if (result == PAMI_SUCCESS)
            CHECK_OK(PAMI_Extension_close(extension));
    }
}

int main(void)
{
    unknown(PAMI_VOID_CLIENT);
    job_create_client(&job, "extension");
    unknown(job.client);
    local_task("EXT_is_local_task");
    local_task("is_local_task");
    test_extension(job.client);
    test_extension(PAMI_VOID_CLIENT);
    torus("EXT_torus_network");
    torus("torus_network");
    others();
    job_create_contexts(&job, 1);
    local_task("EXT_is_local_task");
    job_finish(&job);
    return 0;
}
