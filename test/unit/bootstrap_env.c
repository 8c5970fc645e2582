/*
 * A launcher's environment that is broken or incomplete: a clear text and an error, nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <pami/pami.h>

#include "bootstrap/bootstrap.h"
#include "util/option.h"

static void set(const char *name, const char *value)
{
    if (value == NULL)
        unsetenv(name);
    else
        setenv(name, value, 1);
}

/* Opens with these three variables; the error text must hold `word`. */
static void expect_invalid(const char *fd, const char *rank, const char *size, const char *word)
{
    struct bootstrap *bootstrap = (struct bootstrap *)(void *)&word;
    char text[512];
    int err;

    set("PMI_FD", fd);
    set("PMI_RANK", rank);
    set("PMI_SIZE", size);
    err = bootstrap_open(&bootstrap);
    PAMI_Error_text(text, sizeof text);
    if (err != -EINVAL || strstr(text, word) == NULL)
        fail_msg("%s %s %s: %d, %s", fd, rank, size, err, text);
    assert_ptr_equal(bootstrap, &word); /* set on success only */
}

static void test_numbers(void **state)
{
    int ends[2];
    char fd[16];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    snprintf(fd, sizeof fd, "%d", ends[0]);
    expect_invalid(fd, NULL, "2", "PMI_RANK");
    expect_invalid(fd, "0", NULL, "PMI_SIZE");
    expect_invalid(fd, NULL, NULL, "PMI_");
    expect_invalid(fd, "", "2", "PMI_RANK");
    expect_invalid(fd, "x", "2", "PMI_RANK");
    expect_invalid(fd, "1x", "2", "PMI_RANK");
    expect_invalid(fd, "-1", "2", "PMI_RANK");
    expect_invalid(fd, " 1", "2", "PMI_RANK");
    expect_invalid(fd, "1.5", "2", "PMI_RANK");
    expect_invalid(fd, "99999999999999999999999", "2", "PMI_RANK");
    expect_invalid(fd, "2", "2", "PMI_SIZE is 2");
    expect_invalid(fd, "7", "2", "PMI_RANK is 7");
    expect_invalid(fd, "0", "0", "PMI_SIZE");
    expect_invalid(fd, "0", "-3", "PMI_SIZE");
    expect_invalid(fd, "0", "2147483647", "PMI_SIZE");
    expect_invalid(fd, "0", "two", "PMI_SIZE");
    expect_invalid("", "0", "1", "PMI_FD");
    expect_invalid("x", "0", "1", "PMI_FD");
    expect_invalid("-1", "0", "1", "PMI_FD");
    expect_invalid("4294967296", "0", "1", "PMI_FD");
    close(ends[0]);
    close(ends[1]);
}

static void test_descriptor(void **state)
{
    int file = open("/dev/null", O_RDWR), pipes[2];
    char fd[16];

    (void)state;
    assert_true(file >= 0);
    expect_invalid("987654", "0", "1", "not open");
    snprintf(fd, sizeof fd, "%d", file);
    expect_invalid(fd, "0", "1", "not a socket");
    assert_int_equal(pipe(pipes), 0);
    snprintf(fd, sizeof fd, "%d", pipes[0]);
    expect_invalid(fd, "0", "1", "not a socket");
    close(pipes[0]);
    close(pipes[1]);
    snprintf(fd, sizeof fd, "%d", file);
    close(file);
    expect_invalid(fd, "0", "1", "not open");
}

/* Sockets that are no connection at all. */
static void test_dead_socket(void **state)
{
    struct bootstrap *bootstrap;
    char fd[16];
    int ends[2], lone = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    close(ends[1]);
    set("PMI_RANK", "0");
    set("PMI_SIZE", "1");
    snprintf(fd, sizeof fd, "%d", ends[0]);
    set("PMI_FD", fd);
    assert_int_equal(bootstrap_open(&bootstrap), -ECONNRESET);
    snprintf(fd, sizeof fd, "%d", lone);
    set("PMI_FD", fd);
    assert_int_equal(bootstrap_open(&bootstrap), -ECONNRESET);
    close(ends[0]);
    close(lone);
}

static void test_choice(void **state)
{
    struct bootstrap *bootstrap;
    char text[512];

    (void)state;
    set("PMI_FD", NULL);
    assert_int_equal(option_set(OPT_BOOTSTRAP, "pmi1"), 0);
    assert_int_equal(bootstrap_open(&bootstrap), -EINVAL);
    PAMI_Error_text(text, sizeof text);
    assert_non_null(strstr(text, "PMI_FD"));
    /* Last, as it succeeds: a broken environment is no matter when it is not asked. */
    set("PMI_FD", "broken");
    assert_int_equal(option_set(OPT_BOOTSTRAP, "single"), 0);
    assert_int_equal(bootstrap_open(&bootstrap), 0);
    assert_int_equal(bootstrap->tasks, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_descriptor),
        cmocka_unit_test(test_dead_socket),
        cmocka_unit_test(test_choice),
    };

    set("PAMI_LOG", "error");
    set("PAMI_BOOTSTRAP", NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
