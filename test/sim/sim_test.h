/*
 * What the simulated tests share: arguments, checks that name the seed, jobs, patterns.
 *
 * Every program takes `--seed N` (the first or only seed), `--seeds N` (how many) and `--tasks N`
 * (instead of what the seed chooses), so a failure is repeated with the line that it prints. All
 * randomness comes from struct dice.
 */
#ifndef LIBPAMI_SIM_TEST_H
#define LIBPAMI_SIM_TEST_H

#include <pami.h>
#include <pamix.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "basics.h"

/* The seed that runs now, for messages. */
static uint64_t test_seed;
static const char *test_program = "?";

#define FAIL(...)                                                                                  \
    do {                                                                                           \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                            \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fprintf(stderr, "\nrepeat with: %s --seed %" PRIu64 "\n", test_program, test_seed);        \
        exit(1);                                                                                   \
    } while (0)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            FAIL("not true: %s", #condition);                                                      \
    } while (0)

/* The call succeeds, or its text is shown. */
#define CALL(call)                                                                                 \
    do {                                                                                           \
        pami_result_t call_result = (call);                                                        \
        if (call_result != PAMI_SUCCESS)                                                           \
            FAIL("%s: result %d: %s", #call, (int)call_result, test_text());                       \
    } while (0)

/* ---- arguments ---- */

struct test_arguments {
    uint64_t seed;
    uint64_t seeds;
    size_t tasks; /* 0: the test chooses */
};

static inline struct test_arguments test_arguments(int argc, char **argv, uint64_t seeds)
{
    struct test_arguments arguments = {.seed = 1, .seeds = seeds};

    bool has_seeds = false;

    test_program = argv[0];
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;

        if (strcmp(argv[i], "--seed") == 0 && has_value) {
            arguments.seed = strtoull(argv[++i], NULL, 0);
            arguments.seeds = has_seeds ? arguments.seeds : 1;
        } else if (strcmp(argv[i], "--seeds") == 0 && has_value) {
            arguments.seeds = strtoull(argv[++i], NULL, 0);
            has_seeds = true;
        } else if (strcmp(argv[i], "--tasks") == 0 && has_value) {
            arguments.tasks = strtoull(argv[++i], NULL, 0);
        } else {
            fprintf(stderr, "usage: %s [--seed N] [--seeds N] [--tasks N]\n", argv[0]);
            exit(2);
        }
    }
    return arguments;
}

static inline void test_each_seed(const struct test_arguments *arguments,
                                  void (*run)(uint64_t seed, size_t tasks))
{
    for (uint64_t i = 0; i < arguments->seeds; i++) {
        test_seed = arguments->seed + i;
        run(test_seed, arguments->tasks);
    }
}

/* ---- dice ---- */

struct dice {
    uint64_t state;
};

static inline uint64_t dice_next(struct dice *dice)
{
    return test_random(&dice->state);
}

/* 0 .. below - 1 */
static inline size_t dice_below(struct dice *dice, size_t below)
{
    return (size_t)(dice_next(dice) % below);
}

static inline bool dice_one_in(struct dice *dice, size_t count)
{
    return dice_below(dice, count) == 0;
}

static inline double dice_unit(struct dice *dice)
{
    return (double)(dice_next(dice) >> 11) * 0x1p-53;
}

/* Small sizes are likely, large ones happen: about as many per power of two. */
static inline size_t dice_size(struct dice *dice, size_t most)
{
    size_t bits = 0;

    while (most >> bits != 0)
        bits++;
    most++;
    return dice_below(dice, ((size_t)1 << dice_below(dice, bits + 1)) + 1) % most;
}

/* ---- patterns ---- */

/* Byte `at` of the pattern with this key. */
static inline void pattern_fill(void *to, size_t bytes, uint64_t key)
{
    struct dice dice = {key};
    char *at = to;

    for (; bytes >= 8; bytes -= 8, at += 8) {
        uint64_t word = dice_next(&dice);

        memcpy(at, &word, 8);
    }
    if (bytes != 0) {
        uint64_t word = dice_next(&dice);

        memcpy(at, &word, bytes);
    }
}

static inline bool pattern_is(const void *from, size_t bytes, uint64_t key)
{
    struct dice dice = {key};
    const char *at = from;
    uint64_t word;

    for (; bytes >= 8; bytes -= 8, at += 8) {
        word = dice_next(&dice);
        if (memcmp(at, &word, 8) != 0)
            return false;
    }
    word = dice_next(&dice);
    return bytes == 0 || memcmp(at, &word, bytes) == 0;
}

/* ---- jobs ---- */

struct sim_job {
    size_t tasks, contexts; /* contexts per task */
    pami_client_t *client;
    pami_context_t *context; /* [task * contexts + offset] */
};

static inline pami_context_t job_context(const struct sim_job *job, size_t task, size_t offset)
{
    return job->context[task * job->contexts + offset];
}

static inline pami_endpoint_t job_endpoint(const struct sim_job *job, size_t task, size_t offset)
{
    pami_endpoint_t endpoint;

    CALL(PAMI_Endpoint_create(job->client[0], (pami_task_t)task, offset, &endpoint));
    return endpoint;
}

/* Clients, and `contexts` contexts each. */
static inline void job_create(struct sim_job *job, const pamix_sim_config_t *config, size_t tasks,
                              size_t contexts)
{
    job->tasks = tasks;
    job->contexts = contexts;
    job->client = calloc(tasks, sizeof(*job->client));
    job->context = calloc(tasks * contexts, sizeof(*job->context));
    CHECK(job->client != NULL && job->context != NULL);
    CALL(PAMIX_Sim_create(config, tasks, job->client));
    for (size_t i = 0; i < tasks; i++)
        CALL(PAMI_Context_createv(job->client[i], NULL, 0, &job->context[i * contexts], contexts));
}

static inline void job_destroy(struct sim_job *job)
{
    for (size_t i = 0; i < job->tasks; i++)
        CALL(PAMI_Context_destroyv(&job->context[i * job->contexts], job->contexts));
    CALL(PAMIX_Sim_destroy(job->client, job->tasks));
    free(job->client);
    free(job->context);
}

static inline void job_dispatch(const struct sim_job *job, size_t id,
                                pami_dispatch_p2p_function function, void *cookie,
                                pami_dispatch_hint_t hints)
{
    pami_dispatch_callback_function callback = {.p2p = function};

    for (size_t i = 0; i < job->tasks * job->contexts; i++)
        CALL(PAMI_Dispatch_set(job->context[i], id, callback, cookie, hints));
}

/* Runs until nothing can happen; nobody may be left waiting. */
static inline void job_settle(const struct sim_job *job)
{
    CALL(PAMIX_Sim_run(job->client[0], NULL, NULL, 0, 0));
}

static inline pamix_sim_counters_t job_counters(const struct sim_job *job)
{
    pamix_sim_counters_t counters;

    CALL(PAMIX_Sim_counters(job->client[0], &counters));
    return counters;
}

/* The algorithm with this in its name, such as ":Shared:". PAMI_ALGORITHM_NULL: there is none. */
static inline pami_algorithm_t sim_algorithm(pami_geometry_t geometry, pami_xfer_type_t type,
                                             const char *part)
{
    enum {
        MOST = 64
    };
    pami_algorithm_t handles[2][MOST];
    pami_metadata_t metadata[2][MOST];
    size_t lengths[2];

    CALL(PAMI_Geometry_algorithms_num(geometry, type, lengths));
    CALL(PAMI_Geometry_algorithms_query(geometry, type, handles[0], metadata[0], MOST, handles[1],
                                        metadata[1], MOST));
    for (size_t list = 0; list < 2; list++)
        for (size_t i = 0; i < lengths[list]; i++)
            if (strstr(metadata[list][i].name, part) != NULL)
                return handles[list][i];
    return PAMI_ALGORITHM_NULL;
}

#endif
