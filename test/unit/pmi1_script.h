/*
 * A launcher that answers a PMI-1 client by a script.
 */
#ifndef LIBPAMI_TEST_UNIT_PMI1_SCRIPT_H
#define LIBPAMI_TEST_UNIT_PMI1_SCRIPT_H

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* What the launcher does when it has read the next line, which must begin with `expected`. */
struct step {
    const char *expected;
    const char *answer; /* NULL: closes the connection; "": none; "...": 9000 bytes, no newline */
};

#define INIT                                                                                       \
    {                                                                                              \
        "cmd=init pmi_version=1 ", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"    \
    }
#define MAXES                                                                                      \
    {                                                                                              \
        "cmd=get_maxes\n", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"             \
    }
#define NAME                                                                                       \
    {                                                                                              \
        "cmd=get_my_kvsname\n", "cmd=my_kvsname kvsname=kvs_1\n"                                   \
    }
#define MAP                                                                                        \
    {                                                                                              \
        "cmd=get kvsname=kvs_1 key=PMI_process_mapping\n",                                         \
            "cmd=get_result rc=0 msg=success value=(vector,(0,1,2),(1,1,1))\n"                     \
    }
#define GREETING INIT, MAXES, NAME, MAP
#define FINALIZE                                                                                   \
    {                                                                                              \
        "cmd=finalize\n", "cmd=finalize_ack\n"                                                     \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }

/* In the client: where a check failed becomes the exit status. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* Reads a line, at most 5 s; length 0 at the end of the connection. */
static size_t read_line(int fd, char line[4096])
{
    size_t length = 0;

    while (length == 0 || line[length - 1] != '\n') {
        struct pollfd poller = {.fd = fd, .events = POLLIN};

        assert_true(length < 4095);
        assert_int_equal(poll(&poller, 1, 5000), 1);
        if (read(fd, line + length, 1) <= 0)
            break;
        length++;
    }
    line[length] = '\0';
    return length;
}

static void send_answer(int fd, const char *answer, bool dribble)
{
    size_t length = strlen(answer), i;
    char many[9000];

    if (strcmp(answer, "...") == 0) {
        memset(many, 'x', sizeof many);
        answer = many;
        length = sizeof many;
    }
    for (i = 0; dribble && i < length; i++) {
        (void)!send(fd, answer + i, 1, MSG_NOSIGNAL);
        usleep(200);
    }
    if (!dribble)
        (void)!send(fd, answer, length, MSG_NOSIGNAL);
}

static bool dribble;

/* Plays the steps; afterwards the client must have nothing more to say. */
static void play(int fd, const struct step *step)
{
    char line[4096];

    for (; step->expected != NULL; step++) {
        assert_true(read_line(fd, line) < 1024);
        if (strncmp(line, step->expected, strlen(step->expected)) != 0)
            fail_msg("expected %s, got %s", step->expected, line);
        if (step->answer == NULL) {
            close(fd);
            return;
        }
        send_answer(fd, step->answer, dribble);
    }
    if (read_line(fd, line) != 0)
        fail_msg("unexpected: %s", line);
    close(fd);
}

#endif
