/*
 * Cards of the PMIx back end and its fences, by several threads: what has been put is committed by
 * the next fence of who has put it, whatever others do meanwhile.
 *
 * libpmix is played by this file.
 *
 * Run: timeout=60
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "bootstrap/backend.h"
#include "bootstrap/pmix_abi.h"

/* ---- the library ---- */

static atomic_bool slow; /* a put takes until it is no longer */
static atomic_bool inside;
static atomic_uint put, committed; /* cards */

static int fake_init(struct pmix_abi_proc *self, struct pmix_abi_info *infos, size_t count)
{
    (void)infos, (void)count;
    *self = (struct pmix_abi_proc){.nspace = "test"};
    return PMIX_ABI_SUCCESS;
}

static int fake_finalize(const struct pmix_abi_info *infos, size_t count)
{
    (void)infos, (void)count;
    return PMIX_ABI_SUCCESS;
}

static void pause_shortly(void)
{
    nanosleep(&(const struct timespec){.tv_nsec = 1000000}, NULL);
}

static int fake_put(uint8_t scope, const char *key, struct pmix_abi_value *value)
{
    (void)scope, (void)key, (void)value;
    atomic_store(&inside, true);
    while (atomic_load(&slow))
        pause_shortly();
    atomic_fetch_add(&put, 1);
    return PMIX_ABI_SUCCESS;
}

static int fake_commit(void)
{
    atomic_store(&committed, atomic_load(&put));
    return PMIX_ABI_SUCCESS;
}

static int fake_get(const struct pmix_abi_proc *proc, const char *key,
                    const struct pmix_abi_info *infos, size_t count, struct pmix_abi_value **value)
{
    struct pmix_abi_value answer = {.type = PMIX_ABI_STRING};

    (void)proc, (void)infos, (void)count;
    if (strcmp(key, "pmix.job.size") == 0)
        answer = (struct pmix_abi_value){.type = PMIX_ABI_UINT32, .data.uint32 = 1};
    else
        answer.data.string = strdup(strcmp(key, "pmix.nlist") == 0 ? "here" : "0");
    *value = malloc(sizeof(**value));
    assert_non_null(*value);
    **value = answer;
    return PMIX_ABI_SUCCESS;
}

static int fake_listen(int *codes, size_t code_count, struct pmix_abi_info *infos, size_t count,
                       pmix_abi_event_fn *handler, void (*registered)(int, size_t, void *),
                       void *cookie)
{
    (void)codes, (void)code_count, (void)infos, (void)count;
    (void)handler, (void)registered, (void)cookie;
    return PMIX_ABI_SUCCESS;
}

static const char *fake_text(void)
{
    return "played";
}

int pmix_library_open(struct pmix_library *library, char *why, size_t size)
{
    (void)why, (void)size;
    *library = (struct pmix_library){
        .init = fake_init,
        .finalize = fake_finalize,
        .put = fake_put,
        .commit = fake_commit,
        .get = fake_get,
        .listen = fake_listen,
        .version = fake_text,
    };
    return 0;
}

int pmix_library_fence(const struct pmix_library *library, double seconds)
{
    (void)library, (void)seconds;
    return PMIX_ABI_SUCCESS;
}

/* ---- the test ---- */

static void *put_slowly(void *bootstrap)
{
    if (bootstrap_put(bootstrap, "card.0", "value") != 0 || bootstrap_fence(bootstrap) != 0)
        abort();
    return NULL;
}

static void fence_during_put(void **state)
{
    struct bootstrap *bootstrap = NULL;
    pthread_t thread;

    (void)state;
    assert_int_equal(bootstrap_pmix.connect(&bootstrap), 0);
    assert_int_equal(bootstrap->tasks, 1);
    atomic_store(&slow, true);
    assert_int_equal(pthread_create(&thread, NULL, put_slowly, bootstrap), 0);
    while (!atomic_load(&inside))
        pause_shortly();
    assert_int_equal(bootstrap_fence(bootstrap), 0);
    atomic_store(&slow, false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&committed), 1);
    bootstrap_close(bootstrap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fence_during_put),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
