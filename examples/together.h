/*
 * together.h - what the examples of one-sided communication share: joining the job, progress, and
 * one word of every task for every task.
 *
 * together_words is also a barrier: nobody leaves it before all have come. It sends a message to
 * everybody, which is good enough for starting and ending; bfs/team.c has a better one.
 */
#ifndef EXAMPLES_TOGETHER_H
#define EXAMPLES_TOGETHER_H

#include <pami.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOGETHER_DISPATCH 250

struct together {
    pami_client_t client;
    pami_context_t context;
    pami_endpoint_t *endpoint; /* of every task */
    size_t task, tasks;
    size_t turn;       /* exchanges begun */
    uint64_t *word[2]; /* of even and odd exchanges: a task may be one ahead of another one */
    size_t arrived[2];
    const char *name; /* of the program, for messages */
};

static inline void together_check(const struct together *t, pami_result_t result, const char *call)
{
    char text[256];

    if (result == PAMI_SUCCESS)
        return;
    PAMI_Error_text(text, sizeof(text));
    fprintf(stderr, "%s: %s failed with result %d: %s\n", t->name, call, (int)result, text);
    exit(EXIT_FAILURE);
}

/* The call succeeds, or the program ends and says why. */
#define TOGETHER(t, call) together_check(t, call, #call)

static inline void together_advance(struct together *t)
{
    pami_result_t result = PAMI_Context_advance(t->context, 100);

    if (result != PAMI_EAGAIN)
        together_check(t, result, "PAMI_Context_advance");
}

static inline void *together_memory(const struct together *t, size_t count, size_t bytes)
{
    void *memory = calloc(count > 0 ? count : 1, bytes);

    if (memory == NULL) {
        fprintf(stderr, "%s: no memory for %zu times %zu bytes\n", t->name, count, bytes);
        exit(EXIT_FAILURE);
    }
    return memory;
}

static inline void together_on_word(pami_context_t context, void *cookie, const void *header,
                                    size_t header_size, const void *data, size_t data_size,
                                    pami_endpoint_t origin, pami_recv_t *recv)
{
    struct together *t = cookie;
    uint64_t message[2]; /* number of the exchange, and the word */
    pami_task_t task;
    size_t offset;

    (void)context, (void)header, (void)header_size, (void)recv;
    if (data_size != sizeof(message))
        exit(EXIT_FAILURE);
    memcpy(message, data, sizeof(message));
    TOGETHER(t, PAMI_Endpoint_query(origin, &task, &offset));
    t->word[message[0] % 2][task] = message[1];
    t->arrived[message[0] % 2]++;
}

/* Gives away a word; words[i], when it returns, is that of task i. words may be NULL. */
static inline void together_words(struct together *t, uint64_t word, uint64_t *words)
{
    uint64_t message[2] = {t->turn++, word};
    size_t which = message[0] % 2;

    for (size_t i = 0; i < t->tasks; i++) {
        pami_send_immediate_t send = {
            .data = {.iov_base = message, .iov_len = sizeof(message)},
            .dispatch = TOGETHER_DISPATCH,
            .dest = t->endpoint[i],
        };

        TOGETHER(t, PAMI_Send_immediate(t->context, &send));
    }
    while (t->arrived[which] < t->tasks)
        together_advance(t);
    t->arrived[which] = 0;
    if (words != NULL)
        memcpy(words, t->word[which], t->tasks * sizeof(*words));
}

static inline uint64_t together_sum(struct together *t, uint64_t word)
{
    uint64_t sum = 0, *words = together_memory(t, t->tasks, sizeof(*words));

    together_words(t, word, words);
    for (size_t i = 0; i < t->tasks; i++)
        sum += words[i];
    free(words);
    return sum;
}

static inline void together_barrier(struct together *t)
{
    together_words(t, 0, NULL);
}

static inline void together_start(struct together *t, const char *name)
{
    pami_configuration_t query[] = {{.name = PAMI_CLIENT_TASK_ID}, {.name = PAMI_CLIENT_NUM_TASKS}};
    pami_dispatch_callback_function fn = {.p2p = together_on_word};
    pami_dispatch_hint_t hints = {.recv_immediate = PAMI_HINT_ENABLE};

    *t = (struct together){.name = name};
    TOGETHER(t, PAMI_Client_create(name, &t->client, NULL, 0));
    TOGETHER(t, PAMI_Client_query(t->client, query, 2));
    t->task = query[0].value.intval;
    t->tasks = query[1].value.intval;
    TOGETHER(t, PAMI_Context_createv(t->client, NULL, 0, &t->context, 1));
    TOGETHER(t, PAMI_Dispatch_set(t->context, TOGETHER_DISPATCH, fn, t, hints));
    t->endpoint = together_memory(t, t->tasks, sizeof(*t->endpoint));
    for (size_t i = 0; i < t->tasks; i++)
        TOGETHER(t, PAMI_Endpoint_create(t->client, (pami_task_t)i, 0, &t->endpoint[i]));
    for (size_t i = 0; i < 2; i++)
        t->word[i] = together_memory(t, t->tasks, sizeof(uint64_t));
}

static inline void together_finish(struct together *t)
{
    together_barrier(t);
    TOGETHER(t, PAMI_Context_destroyv(&t->context, 1));
    TOGETHER(t, PAMI_Client_destroy(&t->client));
    free(t->endpoint);
    free(t->word[0]);
    free(t->word[1]);
}

/* Cuts `tasks` into three factors that are as equal as possible: blocks of a cube. */
static inline void together_cut(size_t tasks, size_t grid[3])
{
    size_t best = (size_t)-1;

    for (size_t x = 1; x <= tasks; x++)
        for (size_t y = 1; tasks % x == 0 && y <= tasks / x; y++) {
            size_t z = tasks / x / y, sum = x + y + z;

            if (tasks / x % y != 0 || sum >= best)
                continue;
            best = sum;
            grid[0] = z; /* the longest lines stay whole as long as possible */
            grid[1] = y;
            grid[2] = x;
        }
}

/* The number behind "--name" on the command line, or `otherwise`. Sets *bad if it is none. */
static inline size_t together_option(int argc, char **argv, const char *name, size_t otherwise,
                                     int *bad)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0) {
            char *end;
            size_t value = strtoull(argv[i + 1], &end, 10);

            *bad |= *end != '\0' || end == argv[i + 1] || argv[i + 1][0] == '-';
            return value;
        }
    return otherwise;
}

/* Every word of the command line is one of these options or an option's value. */
static inline int together_knows(int argc, char **argv, const char *const *names)
{
    for (int i = 1; i < argc; i += 2) {
        size_t n = 0;

        while (names[n] != NULL && strcmp(argv[i], names[n]) != 0)
            n++;
        if (names[n] == NULL || i + 1 == argc)
            return 0;
    }
    return 1;
}

#endif
