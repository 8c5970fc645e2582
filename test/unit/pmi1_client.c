/*
 * The PMI-1 client against launchers that answer by a script: well, wrongly, late, or not at all.
 *
 * The client runs in a child process, so that its exit and its signals can be seen; the test plays
 * the launcher on the other end of the socket.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <pami/pami.h>

#include "basics.h"
#include "bootstrap/bootstrap.h"
#include "pmi1_script.h"

/* Runs `client` as task 1 of 3 with the launcher of the script; it must exit with status 0. */
static void run(const struct step *steps, void (*client)(void), const char *size)
{
    int ends[2], status;
    char fd[16];
    pid_t child;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[0]);
        snprintf(fd, sizeof fd, "%d", ends[1]);
        setenv("PMI_FD", fd, 1);
        setenv("PMI_RANK", size[0] == '1' ? "0" : "1", 1);
        setenv("PMI_SIZE", size, 1);
        client();
        exit(0);
    }
    close(ends[1]);
    play(ends[0], steps);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        fail_msg("the client ended with wait status 0x%x", status);
}

/* ---- a good launcher ---- */

static void client_identity(void)
{
    struct bootstrap *bootstrap, *again;
    uint32_t node;

    CHECK(bootstrap_open(&bootstrap) == 0);
    CHECK(bootstrap_open(&again) == 0 && again == bootstrap);
    CHECK(bootstrap->task == 1 && bootstrap->tasks == 3);
    CHECK(bootstrap->node == 0 && bootstrap->nodes == 2);
    CHECK(bootstrap->local_count == 2 && bootstrap->local_index == 1);
    CHECK(bootstrap->local_tasks[0] == 0 && bootstrap->local_tasks[1] == 1);
    CHECK(bootstrap_node_of(bootstrap, 2, &node) == 0 && node == 1);
    CHECK(strncmp(bootstrap->job, "kvs_1-", 6) == 0);
    CHECK((fcntl(atoi(getenv("PMI_FD")), F_GETFD) & FD_CLOEXEC) != 0);
    bootstrap_close(bootstrap);
    bootstrap_close(bootstrap);
}

static void test_identity(void **state)
{
    static const struct step steps[] = {GREETING, FINALIZE, END};

    (void)state;
    run(steps, client_identity, "3");
    dribble = true;
    run(steps, client_identity, "3");
    dribble = false;
}

/* A fork's exit is silent, its calls fail, and the parent's good-bye is still said. */
static void client_fork(void)
{
    struct bootstrap *bootstrap, *mine;
    int status;
    pid_t child;

    CHECK(bootstrap_open(&bootstrap) == 0);
    child = fork();
    if (child == 0) {
        CHECK(bootstrap_open(&mine) == -ECHILD);
        CHECK(bootstrap_put(bootstrap, "k", "v") == -ECHILD);
        CHECK(bootstrap_fence(bootstrap) == -ECHILD);
        bootstrap_abort(bootstrap, 1, "fork");
        bootstrap_close(bootstrap);
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void test_fork(void **state)
{
    static const struct step steps[] = {GREETING, FINALIZE, END};

    (void)state;
    run(steps, client_fork, "3");
}

static void *abort_soon(void *argument)
{
    usleep(50000);
    bootstrap_abort(argument, -7, "test");
    return NULL;
}

static void client_abort_in_fence(void)
{
    struct bootstrap *bootstrap;
    pthread_t thread;

    CHECK(bootstrap_open(&bootstrap) == 0);
    CHECK(pthread_create(&thread, NULL, abort_soon, bootstrap) == 0);
    CHECK(bootstrap_fence(bootstrap) == 0);
    pthread_join(thread, NULL);
}

static void test_abort_in_fence(void **state)
{
    static const struct step steps[] = {GREETING,
                                        {"cmd=barrier_in\n", ""},
                                        {"cmd=abort exitcode=-7\n", "cmd=barrier_out\n"},
                                        FINALIZE,
                                        END};

    (void)state;
    run(steps, client_abort_in_fence, "3");
}

/* ---- cards ---- */

static void client_pieces(void)
{
    struct bootstrap *bootstrap;
    char value[64];

    CHECK(bootstrap_open(&bootstrap) == 0);
    memset(value, 'a', 50);
    value[50] = '\0';
    value[31] = 'z';
    CHECK(bootstrap_put(bootstrap, "long", value) == 0);
    CHECK(bootstrap_put(bootstrap, "tilde", "~x") == 0);
    CHECK(bootstrap_put(bootstrap, "empty", "") == 0);
    CHECK(bootstrap_put(bootstrap, "twice", "x") == -EEXIST);
    CHECK(bootstrap_put(bootstrap, "worse", "x") == -EREMOTEIO);
    CHECK(bootstrap_get(bootstrap, "long", value, 9) == 0 && strcmp(value, "abcdefgh") == 0);
    CHECK(bootstrap_get(bootstrap, "long", value, 8) == -ENOBUFS);
    CHECK(bootstrap_get(bootstrap, "odd", value, sizeof value) == -EPROTO);
    CHECK(bootstrap_get(bootstrap, "odd", value, sizeof value) == -EPROTO);
    CHECK(bootstrap_get(bootstrap, "torn", value, sizeof value) == -ENOENT);
    CHECK(bootstrap_get(bootstrap, "none", value, sizeof value) == -ENOENT);
}

static void client_big(void)
{
    static char value[2001];
    struct bootstrap *bootstrap;

    CHECK(bootstrap_open(&bootstrap) == 0);
    memset(value, 'b', 2000);
    CHECK(bootstrap_put(bootstrap, "big", value) == 0);
}

/* Some launchers read no more than 1023 characters at once; play looks at all lines. */
static void test_line_length(void **state)
{
    static const struct step steps[] = {
        GREETING,
        {"cmd=put kvsname=kvs_1 key=big value=~3~b", "cmd=put_result rc=0\n"},
        {"cmd=put kvsname=kvs_1 key=big~1 value=b", "cmd=put_result rc=0\n"},
        {"cmd=put kvsname=kvs_1 key=big~2 value=b", "cmd=put_result rc=0\n"},
        FINALIZE,
        END,
    };

    (void)state;
    run(steps, client_big, "3");
}

static void test_pieces(void **state)
{
    static const struct step steps[] = {
        INIT,
        {"cmd=get_maxes\n", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=40\n"},
        NAME,
        MAP,
        {"cmd=put kvsname=kvs_1 key=long value=~2~aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
         "cmd=put_result rc=0\n"},
        {"cmd=put kvsname=kvs_1 key=long~1 value=zaaaaaaaaaaaaaaaaaa\n", "cmd=put_result rc=0\n"},
        {"cmd=put kvsname=kvs_1 key=tilde value=~1~~x\n", "cmd=put_result rc=0\n"},
        {"cmd=put kvsname=kvs_1 key=empty value=~1~\n", "cmd=put_result rc=0\n"},
        {"cmd=put kvsname=kvs_1 key=twice value=x\n", "cmd=put_result rc=-1 msg=duplicate_key\n"},
        {"cmd=put kvsname=kvs_1 key=worse value=x\n", "cmd=put_result rc=-1 msg=no_room\n"},
        {"cmd=get kvsname=kvs_1 key=long\n", "cmd=get_result rc=0 value=~2~abcd\n"},
        {"cmd=get kvsname=kvs_1 key=long~1\n", "cmd=get_result rc=0 value=efgh\n"},
        {"cmd=get kvsname=kvs_1 key=long\n", "cmd=get_result rc=0 value=~2~abcd\n"},
        {"cmd=get kvsname=kvs_1 key=long~1\n", "cmd=get_result rc=0 value=efgh\n"},
        {"cmd=get kvsname=kvs_1 key=odd\n", "cmd=get_result rc=0 value=~nonsense\n"},
        {"cmd=get kvsname=kvs_1 key=odd\n", "cmd=get_result rc=0 value=~-1~nonsense\n"},
        {"cmd=get kvsname=kvs_1 key=torn\n", "cmd=get_result rc=0 value=~3~a\n"},
        {"cmd=get kvsname=kvs_1 key=torn~1\n", "cmd=get_result rc=-1 msg=x value=unknown\n"},
        {"cmd=get kvsname=kvs_1 key=none\n", "cmd=get_result rc=-1 msg=x value=unknown\n"},
        FINALIZE,
        END,
    };

    (void)state;
    run(steps, client_pieces, "3");
}

static void client_alone(void)
{
    struct bootstrap *bootstrap;

    CHECK(bootstrap_open(&bootstrap) == 0);
    CHECK(bootstrap->nodes == 1 && bootstrap->local_count == 1);
}

/* A launcher without a map of nodes: the tasks compare hosts. */
static void test_no_map(void **state)
{
    char proof[BOOTSTRAP_PROOF_MAX], answer[128];
    const struct step steps[] = {
        INIT,
        MAXES,
        NAME,
        {"cmd=get ", "cmd=get_result rc=-1 msg=key_not_found value=unknown\n"},
        {"cmd=put kvsname=kvs_1 key=pami-host-0 value=", "cmd=put_result rc=0\n"},
        {"cmd=barrier_in\n", "cmd=barrier_out rc=0\n"},
        {"cmd=get kvsname=kvs_1 key=pami-host-0\n", answer},
        FINALIZE,
        END,
    };

    (void)state;
    assert_int_equal(bootstrap_host_proof(proof, sizeof proof), 0);
    snprintf(answer, sizeof answer, "cmd=get_result rc=0 value=%s\n", proof);
    run(steps, client_alone, "1");
}

static void client_hosts(void)
{
    struct bootstrap *bootstrap;
    uint32_t node;

    CHECK(bootstrap_open(&bootstrap) == 0);
    CHECK(bootstrap->nodes == 2 && bootstrap->node == 1);
    CHECK(bootstrap->local_count == 2 && bootstrap->local_tasks[1] == 2);
    CHECK(bootstrap_node_of(bootstrap, 0, &node) == 0 && node == 0);
}

static void test_hosts_differ(void **state)
{
    static const struct step steps[] = {
        INIT,
        MAXES,
        NAME,
        {"cmd=get ", "cmd=get_result rc=-1 msg=key_not_found value=unknown\n"},
        {"cmd=put kvsname=kvs_1 key=pami-host-1 value=", "cmd=put_result rc=0\n"},
        {"cmd=barrier_in\n", "cmd=barrier_out rc=0\n"},
        {"cmd=get kvsname=kvs_1 key=pami-host-0\n", "cmd=get_result rc=0 value=a\n"},
        {"cmd=get kvsname=kvs_1 key=pami-host-1\n", "cmd=get_result rc=0 value=b\n"},
        {"cmd=get kvsname=kvs_1 key=pami-host-2\n", "cmd=get_result rc=0 value=b\n"},
        FINALIZE,
        END,
    };

    (void)state;
    run(steps, client_hosts, "3");
}

/* ---- bad launchers ---- */

static int expected_error;

static void client_open_fails(void)
{
    struct bootstrap *bootstrap;
    char text[512];
    double start = test_now();
    int err = bootstrap_open(&bootstrap);

    if (err != expected_error)
        fprintf(stderr, "got %d\n", err);
    CHECK(err == expected_error);
    CHECK(test_now() - start < 3.0);
    CHECK(PAMI_Error_text(text, sizeof text) > 10 && strncmp(text, "launcher: ", 10) == 0);
}

/* The greeting up to step `bad`, which gets the answer. */
static void run_greeting(size_t bad, const char *answer, int error)
{
    static const struct step good[] = {GREETING};
    struct step steps[6] = {END, END, END, END, END, END};

    memcpy(steps, good, (bad + 1) * sizeof *steps);
    steps[bad].answer = answer;
    expected_error = error;
    run(steps, client_open_fails, "3");
}

static void test_closed(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < 4; i++)
        run_greeting(i, NULL, -ECONNRESET);
}

static void test_silent(void **state)
{
    size_t i;

    (void)state;
    setenv("PAMI_BOOTSTRAP_TIMEOUT", "0.2", 1);
    for (i = 0; i < 4; i++)
        run_greeting(i, "", -ETIMEDOUT);
    run_greeting(0, "cmd=response_to_init ...", -ETIMEDOUT);
    unsetenv("PAMI_BOOTSTRAP_TIMEOUT");
}

static void test_nonsense(void **state)
{
    static const char *const nonsense[] = {
        "\n", "hello\n", "=\n", "cmd=other\n", "cmd\n", "cmd=\n", "\x01\x02\x03\n", "...",
    };
    static const char *const maxes[] = {
        "cmd=maxes\n",
        "cmd=maxes keylen_max=64\n",
        "cmd=maxes keylen_max=x vallen_max=1024\n",
        "cmd=maxes keylen_max=64 vallen_max=0\n",
        "cmd=maxes keylen_max=-5 vallen_max=1024\n",
    };
    static const char *const maps[] = {
        "cmd=get_result rc=0\n",
        "cmd=get_result rc=0 value=\n",
        "cmd=get_result rc=0 value=(vector,(0,0,0))\n",
        "cmd=get_result rc=0 value=(vector\n",
    };
    size_t i, step;

    (void)state;
    for (i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++)
        for (step = 0; step < 4; step++)
            run_greeting(step, nonsense[i], -EPROTO);
    run_greeting(0, "cmd=response_to_init rc=-1 msg=no\n", -EPROTO);
    for (i = 0; i < sizeof maxes / sizeof maxes[0]; i++)
        run_greeting(1, maxes[i], -EPROTO);
    run_greeting(2, "cmd=my_kvsname\n", -EPROTO);
    for (i = 0; i < sizeof maps / sizeof maps[0]; i++)
        run_greeting(3, maps[i], -EPROTO);
}

static void client_fence_fails(void)
{
    struct bootstrap *bootstrap;
    char text[512], value[8];

    CHECK(bootstrap_open(&bootstrap) == 0);
    CHECK(bootstrap_fence(bootstrap) == -ECONNABORTED);
    CHECK(PAMI_Error_text(text, sizeof text) > 0 && strstr(text, "task_0_has_left") != NULL);
    CHECK(bootstrap_fence(bootstrap) == -ECONNRESET);
    /* From now on everything fails at once, and so does the good-bye. */
    CHECK(bootstrap_put(bootstrap, "k", "v") == -ECONNRESET);
    CHECK(bootstrap_get(bootstrap, "k", value, sizeof value) == -ECONNRESET);
    CHECK(bootstrap_fence(bootstrap) == -ECONNRESET);
    bootstrap_abort(bootstrap, 1, "nobody listens");
}

static void test_fence_fails(void **state)
{
    static const struct step steps[] = {
        GREETING,
        {"cmd=barrier_in\n", "cmd=barrier_out rc=-1 msg=task_0_has_left_the_job\n"},
        {"cmd=barrier_in\n", NULL},
        END};

    (void)state;
    run(steps, client_fence_fails, "3");
}

static void client_opens(void)
{
    struct bootstrap *bootstrap;

    CHECK(bootstrap_open(&bootstrap) == 0);
}

static FILE *said;

static void client_is_heard(void)
{
    CHECK(dup2(fileno(said), STDERR_FILENO) >= 0);
    client_opens();
}

/* A launcher that dies before the good-bye, or never answers it, does not keep the process. */
static void test_finalize_fails(void **state)
{
    static const struct step closes[] = {GREETING, {"cmd=finalize\n", NULL}, END};
    static const struct step silent[] = {GREETING, {"cmd=finalize\n", ""}, END};
    double start = test_now();
    char text[512];

    (void)state;
    run(closes, client_opens, "3");
    said = tmpfile();
    assert_non_null(said);
    run(silent, client_is_heard, "3");
    assert_true(test_now() - start < 4.5);
    rewind(said);
    assert_non_null(fgets(text, sizeof text, said));
    fclose(said);
    /* The time for that is no option's. */
    assert_non_null(strstr(text, "no answer to 'cmd=finalize' within 2 s"));
    assert_null(strstr(text, "PAMI_BOOTSTRAP_TIMEOUT"));
}

static int others[2];

/* Behind the library's own end. */
__attribute__((destructor(101))) static void check_others(void)
{
    char byte;

    if (others[1] == 0)
        return;
    CHECK(recv(others[1], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
    CHECK(fcntl(atoi(getenv("PMI_FD")), F_GETFD) >= 0);
    CHECK(lseek(STDERR_FILENO, 0, SEEK_END) == 0);
}

static void client_loses(void)
{
    struct bootstrap *bootstrap;

    CHECK(dup2(fileno(tmpfile()), STDERR_FILENO) >= 0);
    CHECK(bootstrap_open(&bootstrap) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, others) == 0);
    CHECK(dup2(others[0], atoi(getenv("PMI_FD"))) >= 0);
}

/* An MPI library in the same process has said good-bye and closed the socket, and its number is
 * somebody else's now, who is not bothered. */
static void test_taken_away(void **state)
{
    static const struct step steps[] = {GREETING, END};

    (void)state;
    run(steps, client_loses, "3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity),       cmocka_unit_test(test_fork),
        cmocka_unit_test(test_abort_in_fence), cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_line_length),    cmocka_unit_test(test_no_map),
        cmocka_unit_test(test_hosts_differ),   cmocka_unit_test(test_closed),
        cmocka_unit_test(test_silent),         cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_fence_fails),    cmocka_unit_test(test_finalize_fails),
        cmocka_unit_test(test_taken_away),
    };

    unsetenv("PAMI_BOOTSTRAP");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
