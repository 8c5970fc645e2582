/*
 * Tagged output to a terminal: one that is not read does not keep pamirun from ending, one that is
 * read slowly gets everything, and others who write to it find it as it was.
 *
 * Run: timeout=60
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINES 20000

static int failures;

static void check(int good, const char *what)
{
    if (good)
        return;
    printf("FAILED: %s\n", what);
    failures++;
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* A terminal; what is written to *writing comes out of *reading. */
static void terminal_open(int *reading, int *writing)
{
    *reading = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*reading < 0 || grantpt(*reading) != 0 || unlockpt(*reading) != 0 ||
        (*writing = open(ptsname(*reading), O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0) {
        printf("SKIP: no pseudo-terminal: %s\n", strerror(errno));
        exit(77);
    }
}

/* pamirun with these arguments. */
static pid_t start(int writing, const char *arguments)
{
    const char *pamirun = getenv("PAMIRUN");
    char command[512];
    pid_t pid;

    snprintf(command, sizeof(command), "exec '%s' --tag %s",
             pamirun != NULL ? pamirun : "build/bin/pamirun", arguments);
    pid = fork();
    if (pid != 0)
        return pid;
    if (dup2(writing, STDOUT_FILENO) >= 0 && dup2(writing, STDERR_FILENO) >= 0)
        execl("/bin/sh", "sh", "-c", command, NULL);
    _exit(99);
}

/* The status of one that ends in time; -1: it had to be killed. */
static int end_of(pid_t pid, double seconds)
{
    const char *factor = getenv("TEST_FACTOR");
    double until = now() + seconds * (factor != NULL ? atof(factor) : 1);
    int status;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now() < until) {
            usleep(10000);
            continue;
        }
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void test_unread(void)
{
    int reading, writing;
    pid_t job;

    terminal_open(&reading, &writing);
    check(end_of(start(writing, "-n 2 --timeout 0.5 yes"), 10) == 124,
          "a time limit, and nobody reads");
    close(reading);
    close(writing);
    terminal_open(&reading, &writing);
    job = start(writing, "-n 2 yes");
    for (int i = 0; i < 3; i++) {
        usleep(500000);
        kill(job, SIGINT);
    }
    check(end_of(job, 10) == 130, "interrupts, and nobody reads");
    close(reading);
    close(writing);
}

/* What is written to the other end is the terminal's input. */
static void test_other_end(void)
{
    struct pollfd poller = {.events = POLLIN};
    char line[64] = "";
    int reading, writing;

    terminal_open(&reading, &writing);
    check(end_of(start(reading, "echo x"), 10) == 0, "the other end: the job ends well");
    poller.fd = writing;
    if (poll(&poller, 1, 5000) == 1)
        (void)!read(writing, line, sizeof(line) - 1);
    check(strcmp(line, "[0] x\n") == 0, "the other end: what was written comes");
    close(reading);
    close(writing);
}

static void test_slow(void)
{
    char bytes[3000], wanted[32], line[32];
    int reading, writing, flags, same = 1, good = 1;
    long lines = 0, used = 0;
    pid_t job;

    terminal_open(&reading, &writing);
    flags = fcntl(writing, F_GETFL);
    job = start(writing, "seq 1 20000");
    while (lines < LINES && good) {
        ssize_t count = read(reading, bytes, sizeof(bytes)), i;

        good = count > 0;
        for (i = 0; i < count && good; i++) {
            if (bytes[i] == '\r')
                continue;
            if (bytes[i] != '\n') {
                line[used++] = bytes[i];
                good = used < (long)sizeof(line);
                continue;
            }
            line[used] = '\0';
            used = 0;
            snprintf(wanted, sizeof(wanted), "[0] %ld", ++lines);
            good = strcmp(line, wanted) == 0;
        }
        same = same && fcntl(writing, F_GETFL) == flags;
        usleep(3000);
    }
    check(good && lines == LINES, "what was written comes, whole and in order");
    check(end_of(job, 10) == 0, "the job ends well");
    check(same && fcntl(writing, F_GETFL) == flags, "others that write see the flags as they were");
    close(reading);
    close(writing);
}

int main(void)
{
    /* A shell's background jobs ignore it, and what they start would. */
    signal(SIGINT, SIG_DFL);
    test_unread();
    test_other_end();
    test_slow();
    return failures != 0;
}
