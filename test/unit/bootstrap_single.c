/*
 * Without a launcher: a job of one task whose cards work; keys, values and their limits; the proof
 * of the host.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/bootstrap.h"

static struct bootstrap *bootstrap;

static int set_up(void **state)
{
    (void)state;
    unsetenv("PMI_FD");
    return bootstrap_open(&bootstrap);
}

static int tear_down(void **state)
{
    (void)state;
    bootstrap_close(bootstrap);
    return 0;
}

static void test_identity(void **state)
{
    uint32_t node = 9;

    (void)state;
    assert_int_equal(bootstrap->task, 0);
    assert_int_equal(bootstrap->tasks, 1);
    assert_int_equal(bootstrap->node, 0);
    assert_int_equal(bootstrap->nodes, 1);
    assert_int_equal(bootstrap->local_count, 1);
    assert_int_equal(bootstrap->local_index, 0);
    assert_int_equal(bootstrap->local_tasks[0], 0);
    assert_int_equal(bootstrap_node_of(bootstrap, 0, &node), 0);
    assert_int_equal(node, 0);
    assert_int_equal(bootstrap_node_of(bootstrap, 1, &node), -EINVAL);
    assert_true(strlen(bootstrap->job) > 16);
    assert_int_equal(strspn(bootstrap->job, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789._-"),
                     strlen(bootstrap->job));
}

static void test_same_object(void **state)
{
    struct bootstrap *again;

    (void)state;
    assert_int_equal(bootstrap_open(&again), 0);
    assert_ptr_equal(again, bootstrap);
    bootstrap_close(again);
    bootstrap_close(again);
    bootstrap_close(again); /* too often: harmless */
    assert_int_equal(bootstrap_open(&again), 0);
    assert_ptr_equal(again, bootstrap);
    bootstrap_close(NULL);
}

static void test_cards(void **state)
{
    char *longest = malloc(BOOTSTRAP_VALUE_MAX + 2), *back = malloc(BOOTSTRAP_VALUE_MAX + 1);
    char small[8];

    (void)state;
    assert_non_null(longest);
    assert_non_null(back);
    assert_int_equal(bootstrap_put(bootstrap, "card", "value=~1"), 0);
    assert_int_equal(bootstrap_put(bootstrap, "card", "other"), -EEXIST);
    assert_int_equal(bootstrap_put(bootstrap, "empty", ""), 0);
    assert_int_equal(bootstrap_fence(bootstrap), 0);
    assert_int_equal(bootstrap_get(bootstrap, "card", small, sizeof small), -ENOBUFS);
    assert_int_equal(bootstrap_get(bootstrap, "card", back, 9), 0);
    assert_string_equal(back, "value=~1");
    assert_int_equal(bootstrap_get(bootstrap, "empty", small, 1), 0);
    assert_string_equal(small, "");
    assert_int_equal(bootstrap_get(bootstrap, "absent", small, sizeof small), -ENOENT);
    memset(longest, 'x', BOOTSTRAP_VALUE_MAX + 1);
    longest[BOOTSTRAP_VALUE_MAX + 1] = '\0';
    assert_int_equal(bootstrap_put(bootstrap, "long", longest), -E2BIG);
    longest[BOOTSTRAP_VALUE_MAX] = '\0';
    assert_int_equal(bootstrap_put(bootstrap, "long", longest), 0);
    assert_int_equal(bootstrap_get(bootstrap, "long", back, BOOTSTRAP_VALUE_MAX + 1), 0);
    assert_string_equal(back, longest);
    free(longest);
    free(back);
}

static void test_refused(void **state)
{
    static const char *const keys[] = {"", "a b", "a=b", "a~1", "a\n", "\xc3\xa4", "a/b"};
    static const char *const values[] = {"a b", "a\n", "\x7f", "\xc3\xa4", "\t"};
    char key[BOOTSTRAP_KEY_MAX + 2], value[8];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_int_equal(bootstrap_put(bootstrap, keys[i], "v"), -EINVAL);
        assert_int_equal(bootstrap_get(bootstrap, keys[i], value, sizeof value), -EINVAL);
    }
    for (i = 0; i < sizeof values / sizeof values[0]; i++)
        assert_int_equal(bootstrap_put(bootstrap, "refused", values[i]), -EINVAL);
    memset(key, 'k', sizeof key);
    key[sizeof key - 1] = '\0';
    assert_int_equal(bootstrap_put(bootstrap, key, "v"), -ENAMETOOLONG);
    key[BOOTSTRAP_KEY_MAX] = '\0';
    assert_int_equal(bootstrap_put(bootstrap, key, "v"), 0);
}

static void test_abort(void **state)
{
    (void)state;
    bootstrap_abort(bootstrap, 3, "only a test"); /* nobody to ask: returns */
}

static void test_fork(void **state)
{
    int status;
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        struct bootstrap *mine;

        _exit(bootstrap_open(&mine) == -ECHILD ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_host_proof(void **state)
{
    char proof[BOOTSTRAP_PROOF_MAX], again[BOOTSTRAP_PROOF_MAX];

    (void)state;
    assert_int_equal(bootstrap_host_proof(proof, sizeof proof), 0);
    assert_int_equal(bootstrap_host_proof(again, sizeof again), 0);
    assert_string_equal(proof, again);
    assert_int_equal(strlen(proof), 32);
    assert_int_equal(bootstrap_host_proof(again, 32), -ENOBUFS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity),   cmocka_unit_test(test_same_object),
        cmocka_unit_test(test_cards),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_abort),      cmocka_unit_test(test_fork),
        cmocka_unit_test(test_host_proof),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
