/*
 * The launcher connection inside a real job: who is who, cards of all lengths, fences, errors that
 * must not hurt.  Also used by the tests in test/launch/ with these arguments:
 *
 *     --print      one line about each task's place
 *     --fences N   that many fences, and their time
 *     --stamp      the time of day in nanoseconds when the first fence was done
 *     --linger     after a fence prints "pid N" and sleeps for half a minute
 *     --die N      the last task kills itself with signal N; the others meet in a fence, then wait
 *                  to be killed, or end when JOB_GOES_ON is set
 *     --abort N    the last task ends the job with status N; the others wait for it in a fence
 *     --signals    connecting changes no signal dispositions
 *
 * Run: tasks=1,2,5,13 nodes=1,2,3 timeout=30
 * Run: tasks=64 nodes=1,64 timeout=60
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "util/clock.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "task %s: %s:%d: %s\n", getenv("PMI_RANK"), __FILE__, __LINE__,        \
                    #condition);                                                                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void check_place(const struct bootstrap *b)
{
    uint32_t i, node, locals = 0, last = 0;

    CHECK(b->task < b->tasks && b->nodes >= 1 && b->nodes <= b->tasks && b->node < b->nodes);
    CHECK(b->local_index < b->local_count && b->local_tasks[b->local_index] == b->task);
    for (i = 0; i < b->tasks; i++) {
        CHECK(bootstrap_node_of((struct bootstrap *)b, i, &node) == 0);
        CHECK(node < b->nodes && node <= last + 1);
        last = node > last ? node : last;
        if (node == b->node)
            CHECK(b->local_tasks[locals++] == i);
    }
    CHECK(locals == b->local_count && last + 1 == b->nodes);
    CHECK(bootstrap_node_of((struct bootstrap *)b, b->tasks, &node) == -EINVAL);
    if (strcmp(b->ops->name, "pmi1") != 0)
        return;
    if (getenv("PMI_RANK") != NULL)
        CHECK(b->task == (uint32_t)atoi(getenv("PMI_RANK")) &&
              b->tasks == (uint32_t)atoi(getenv("PMI_SIZE")));
    if (getenv("MPI_LOCALNRANKS") != NULL)
        CHECK(b->local_count == (uint32_t)atoi(getenv("MPI_LOCALNRANKS")) &&
              b->local_index == (uint32_t)atoi(getenv("MPI_LOCALRANKID")));
    if (getenv("PMI_FD") != NULL)
        CHECK((fcntl(atoi(getenv("PMI_FD")), F_GETFD) & FD_CLOEXEC) != 0);
}

/* A value that its task, length and first character determine. */
static char *make_value(uint32_t task, size_t length, char first)
{
    char *value = malloc(length + 1);
    size_t i;

    CHECK(value != NULL);
    for (i = 0; i < length; i++)
        value[i] = (char)('!' + (task * 31 + i * 7) % 94);
    if (length > 0 && first != '\0')
        value[0] = first;
    value[length] = '\0';
    return value;
}

static const struct {
    size_t length;
    char first;
} cards[] = {{0, 0}, {1, '~'}, {700, 0}, {1015, '~'}, {1023, 0}, {1024, 0}, {5000, '='}};

#define CARDS (sizeof cards / sizeof cards[0])

static void put_cards(struct bootstrap *b)
{
    char key[BOOTSTRAP_KEY_MAX];
    size_t i;

    for (i = 0; i < CARDS; i++) {
        char *value = make_value(b->task, cards[i].length, cards[i].first);

        snprintf(key, sizeof key, "card.%zu-%u", i, b->task);
        CHECK(bootstrap_put(b, key, value) == 0);
        free(value);
    }
    snprintf(key, sizeof key, "job_%u", b->task);
    CHECK(bootstrap_put(b, key, b->job) == 0);
}

static void get_cards(struct bootstrap *b, uint32_t task)
{
    static char got[BOOTSTRAP_VALUE_MAX + 1];
    char key[BOOTSTRAP_KEY_MAX];
    size_t i;

    for (i = 0; i < CARDS; i++) {
        char *value = make_value(task, cards[i].length, cards[i].first);

        snprintf(key, sizeof key, "card.%zu-%u", i, task);
        CHECK(bootstrap_get(b, key, got, cards[i].length) == -ENOBUFS);
        CHECK(bootstrap_get(b, key, got, cards[i].length + 1) == 0);
        CHECK(strcmp(got, value) == 0);
        free(value);
    }
    snprintf(key, sizeof key, "job_%u", task);
    CHECK(bootstrap_get(b, key, got, sizeof got) == 0 && strcmp(got, b->job) == 0);
    snprintf(key, sizeof key, "nobody_%u", task);
    CHECK(bootstrap_get(b, key, got, sizeof got) == -ENOENT);
}

/* A child without exec must not disturb the session, and one with exec must not have it. */
static void check_children(struct bootstrap *b)
{
    struct bootstrap *mine;
    char command[64];
    int status;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        bool refused = bootstrap_open(&mine) == -ECHILD;

        exit(refused && bootstrap_fence(b) == (b->ops->fence == NULL ? 0 : -ECHILD) ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    if (getenv("PMI_FD") != NULL) {
        snprintf(command, sizeof command, "test ! -e /proc/self/fd/%s", getenv("PMI_FD"));
        CHECK(system(command) == 0);
    }
}

static void print_place(const struct bootstrap *b)
{
    uint32_t i;
    char line[4096];
    int used = snprintf(line, sizeof line, "task %u/%u node %u/%u local", b->task, b->tasks,
                        b->node, b->nodes);

    for (i = 0; i < b->local_count && used < (int)sizeof line - 16; i++)
        used += snprintf(line + used, sizeof line - (size_t)used, " %u", b->local_tasks[i]);
    printf("%s\n", line);
}

static void time_fences(struct bootstrap *b, int count)
{
    double start = clock_now();
    int i;

    for (i = 0; i < count; i++)
        CHECK(bootstrap_fence(b) == 0);
    if (b->task == 0)
        printf("%d fences of %u tasks: %.1f us each\n", count, b->tasks,
               (clock_now() - start) * 1e6 / count);
}

/* Modes that end in an unusual way; false: none of them. */
static bool unusual_end(struct bootstrap *b, const char *mode, int number)
{
    bool last = b->task == b->tasks - 1;

    if (strcmp(mode, "--linger") != 0 && strcmp(mode, "--die") != 0 && strcmp(mode, "--abort") != 0)
        return false;
    CHECK(bootstrap_fence(b) == 0);
    if (strcmp(mode, "--linger") == 0) {
        printf("pid %ld\n", (long)getpid());
        fflush(stdout);
        sleep(30);
    } else if (last && strcmp(mode, "--die") == 0) {
        kill(getpid(), number);
        sleep(30);
    } else if (last) {
        bootstrap_abort(b, number, "told to");
        sleep(30);
    } else {
        int error = bootstrap_fence(b);

        printf("task %u survives: %s\n", b->task, strerror(-error));
        fflush(stdout);
        if (getenv("JOB_GOES_ON") == NULL)
            sleep(30);
    }
    return true;
}

/*
 * Nobody leaves before all have come: PMIx (4.2, below mpirun 4.1) loses who connects while another
 * task of the job leaves, and PMIx_Init never ends then. Clients of libpami make a fence when they
 * are created.
 */
static void meet(struct bootstrap *b)
{
    CHECK(bootstrap_fence(b) == 0);
}

static void check_signals(void)
{
    struct sigaction before[32], after;
    struct bootstrap *b;

    for (int i = 1; i < 32; i++)
        sigaction(i, NULL, &before[i]);
    CHECK(bootstrap_open(&b) == 0);
    for (int i = 1; i < 32; i++) {
        sigaction(i, NULL, &after);
        if (after.sa_handler != before[i].sa_handler) {
            fprintf(stderr, "signal %d has another disposition\n", i);
            exit(1);
        }
    }
    meet(b);
}

int main(int argc, char **argv)
{
    struct bootstrap *b, *again;
    struct timespec time;
    uint32_t i;

    if (argc > 1 && strcmp(argv[1], "--signals") == 0) {
        check_signals();
        return 0;
    }
    CHECK(bootstrap_open(&b) == 0);
    CHECK(bootstrap_open(&again) == 0 && again == b);
    bootstrap_close(again);
    if (argc > 1 && strcmp(argv[1], "--stamp") == 0) {
        CHECK(bootstrap_fence(b) == 0);
        clock_gettime(CLOCK_REALTIME, &time);
        printf("%ld%09ld\n", (long)time.tv_sec, time.tv_nsec);
        return 0;
    }
    if (argc > 2 && strcmp(argv[1], "--fences") == 0) {
        time_fences(b, atoi(argv[2]));
        return 0;
    }
    if (argc > 1 && unusual_end(b, argv[1], argc > 2 ? atoi(argv[2]) : 0))
        return 0;
    check_place(b);
    if (argc > 1 && strcmp(argv[1], "--print") == 0) {
        print_place(b);
        meet(b);
        return 0;
    }
    put_cards(b);
    CHECK(bootstrap_fence(b) == 0);
    /* Everybody's cards in small jobs, the neighbours' in large ones. */
    for (i = 0; i < (b->tasks < 16 ? b->tasks : 4); i++)
        get_cards(b, (b->task + i) % b->tasks);
    check_children(b);
    for (i = 0; i < 10; i++)
        CHECK(bootstrap_fence(b) == 0);
    bootstrap_close(b);
    return 0; /* without a good-bye of the program's: the library says it */
}
