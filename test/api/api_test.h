/*
 * What the programs of test/api share: checks, deadlines, a client with its contexts, a barrier.
 *
 * These programs know the library from its public headers only. A check that fails prints task,
 * file and line and ends the task with status 1; the launcher then ends the job. Every wait has a
 * deadline (test_limit) and says what it waited for. Each program is one translation unit, so the
 * few variables here are its own.
 *
 * Callbacks call CHECK_CALLBACK(): nothing of the user's may run outside advance, or inside a call
 * that starts an operation. job_advance and TEST_CALL keep the books for that.
 */
#ifndef LIBPAMI_API_API_TEST_H
#define LIBPAMI_API_API_TEST_H

#include <pami.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "basics.h"

enum {
    TEST_CONTEXTS_MAX = 64,
    TEST_BARRIER_ID = 200 /* dispatch id of job_barrier, on context 0 */
};

/* Seconds that a wait may take, before TEST_FACTOR; a program that moves much defines its own. */
#ifndef TEST_LIMIT
#define TEST_LIMIT 20
#endif

/* A client, its contexts, and who I am. */
struct job {
    pami_client_t client;
    pami_context_t context[TEST_CONTEXTS_MAX];
    size_t contexts;
    size_t driven;             /* job_advance advances context[0 .. driven-1] */
    void (*advance_too)(void); /* what else waiting must advance, if anything */
    size_t task, tasks;
    size_t barriers, arrived, released; /* job_barrier: begun, messages seen */
};

static long test_task = -1;              /* for messages */
static _Thread_local int test_advancing; /* depth of advances on this thread */
static _Thread_local int test_calling;   /* depth of TEST_CALL within the latest callback */

/* ---------------------------------------------------------------------------------- failing -- */

__attribute__((noreturn, format(printf, 3, 4))) static inline void
test_fail(const char *file, int line, const char *format, ...)
{
    char text[768];
    va_list arguments;
    int length = snprintf(text, sizeof text, "task %ld: %s:%d: ", test_task, file, line);

    va_start(arguments, format);
    vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
    va_end(arguments);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    fflush(stdout);
    fprintf(stderr, "%s\n", text);
    _exit(1);
}

__attribute__((noreturn)) static inline void test_skip(const char *reason)
{
    printf("SKIP: %s\n", reason);
    fflush(stdout);
    _exit(77);
}

#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            FAIL("not true: %s", #condition);                                                      \
    } while (0)

#define CHECK_SIZE(got, expected)                                                                  \
    do {                                                                                           \
        size_t got_ = (got), expected_ = (expected);                                               \
        if (got_ != expected_)                                                                     \
            FAIL("%s is %zu, expected %zu", #got, got_, expected_);                                \
    } while (0)

#define CHECK_RESULT(call, expected)                                                               \
    do {                                                                                           \
        pami_result_t result_ = (call);                                                            \
        if (result_ != (expected))                                                                 \
            FAIL("%s gave %d, expected %s; text: %s", #call, (int)result_, #expected,              \
                 test_text());                                                                     \
    } while (0)

#define CHECK_OK(call) CHECK_RESULT(call, PAMI_SUCCESS)

/* The call is refused with this result, and its text starts with the function's name and holds
 * the given word (the argument at fault). */
#define CHECK_REFUSED(call, expected, word)                                                        \
    do {                                                                                           \
        CHECK_RESULT(call, expected);                                                              \
        test_check_text(__FILE__, __LINE__, #call, word);                                          \
    } while (0)

static inline void test_check_text(const char *file, int line, const char *call, const char *word)
{
    const char *text = test_text();
    size_t name = strcspn(call, "(");

    if (strncmp(text, call, name) != 0)
        test_fail(file, line, "text of %s does not name the function: \"%s\"", call, text);
    if (strstr(text, word) == NULL)
        test_fail(file, line, "text of %s does not say \"%s\": \"%s\"", call, word, text);
}

/* User code is called from advance only, never from inside a call that starts something. */
#define CHECK_CALLBACK()                                                                           \
    do {                                                                                           \
        if (test_advancing == 0)                                                                   \
            FAIL("a callback runs outside advance");                                               \
        if (test_calling != 0)                                                                     \
            FAIL("a callback runs inside a call that starts an operation");                        \
    } while (0)

/* A call that starts an operation. */
#define TEST_CALL(call) (test_calling++, test_leave_call(call))

static inline pami_result_t test_leave_call(pami_result_t result)
{
    test_calling--;
    return result;
}

/* ------------------------------------------------------------------------------------- time -- */

static inline double test_factor(void)
{
    const char *text = getenv("TEST_FACTOR");
    double factor = text ? strtod(text, NULL) : 1.0;

    return factor > 0 ? factor : 1.0;
}

static inline double test_limit(void)
{
    static _Thread_local double limit;

    if (limit == 0)
        limit = TEST_LIMIT * test_factor();
    return limit;
}

/* Run `step` again and again until the condition holds. */
#define WAIT_WITH(step, condition)                                                                 \
    do {                                                                                           \
        double until_ = test_now() + test_limit();                                                 \
        while (!(condition)) {                                                                     \
            step;                                                                                  \
            if (test_now() > until_ && !(condition))                                               \
                FAIL("waited in vain for: %s", #condition);                                        \
        }                                                                                          \
    } while (0)

#define WAIT(job, condition) WAIT_WITH(job_advance(job), condition)

/* ---------------------------------------------------------------------------------- patterns -- */

/* Byte number x of pattern number seed. */
static inline unsigned char test_byte(size_t seed, size_t x)
{
    return (unsigned char)(x + (x >> 8) * 7 + (x >> 16) * 11 + seed * 31 + 1);
}

static inline void test_fill(void *memory, size_t bytes, size_t seed, size_t first)
{
    unsigned char *p = memory;
    size_t i;

    for (i = 0; i < bytes; i++)
        p[i] = test_byte(seed, first + i);
}

/* Position of the first byte that differs from the pattern; `bytes` when none does. */
static inline size_t test_differs(const void *memory, size_t bytes, size_t seed, size_t first)
{
    const unsigned char *p = memory;
    size_t i;

    for (i = 0; i < bytes; i++)
        if (p[i] != test_byte(seed, first + i))
            return i;
    return bytes;
}

static inline bool test_all(const void *memory, size_t bytes, unsigned char value)
{
    const unsigned char *p = memory;
    size_t i;

    for (i = 0; i < bytes; i++)
        if (p[i] != value)
            return false;
    return true;
}

/* --- client and contexts -- */

static inline size_t client_attribute(pami_client_t client, pami_attribute_name_t name)
{
    pami_configuration_t query = {.name = name};

    CHECK_OK(PAMI_Client_query(client, &query, 1));
    return query.value.intval;
}

/* A value of PAMI_DISPATCH_*; the id must be registered. */
static inline size_t dispatch_attribute(pami_context_t context, size_t id,
                                        pami_attribute_name_t name)
{
    pami_configuration_t query = {.name = name};

    CHECK_OK(PAMI_Dispatch_query(context, id, &query, 1));
    return query.value.intval;
}

static inline void test_dispatch(pami_context_t context, size_t id, pami_dispatch_p2p_function fn,
                                 void *cookie, pami_dispatch_hint_t hints)
{
    pami_dispatch_callback_function function = {.p2p = fn};

    CHECK_OK(TEST_CALL(PAMI_Dispatch_set(context, id, function, cookie, hints)));
}

/* Most tests rely on the order of messages between two endpoints. */
static inline pami_dispatch_hint_t test_ordered(void)
{
    pami_dispatch_hint_t hints = {.consistency = PAMI_HINT_ENABLE};

    return hints;
}

static inline pami_endpoint_t job_endpoint(struct job *job, size_t task, size_t offset)
{
    pami_endpoint_t endpoint;

    CHECK_OK(PAMI_Endpoint_create(job->client, (pami_task_t)task, offset, &endpoint));
    return endpoint;
}

/* Task number of an endpoint. */
static inline size_t test_origin(pami_endpoint_t endpoint)
{
    pami_task_t task;
    size_t offset;

    CHECK_OK(PAMI_Endpoint_query(endpoint, &task, &offset));
    return task;
}

/* Soft hints hold whatever was there before in careless programs. */
static inline pami_send_hint_t test_garbage_hints(void)
{
    static _Thread_local uint64_t state;
    uint64_t garbage = test_random(&state);
    pami_send_hint_t hints;

    memcpy(&hints, &garbage, sizeof hints);
    return hints;
}

static inline pami_send_immediate_t test_message(pami_endpoint_t dest, size_t id,
                                                 const void *header, size_t header_bytes,
                                                 const void *data, size_t data_bytes)
{
    pami_send_immediate_t message = {
        .header = {.iov_base = (void *)header, .iov_len = header_bytes},
        .data = {.iov_base = (void *)data, .iov_len = data_bytes},
        .dispatch = id,
        .hints = test_garbage_hints(),
        .dest = dest,
    };

    return message;
}

static inline void test_send_immediate(pami_context_t context, pami_endpoint_t dest, size_t id,
                                       const void *header, size_t header_bytes, const void *data,
                                       size_t data_bytes)
{
    pami_send_immediate_t message = test_message(dest, id, header, header_bytes, data, data_bytes);

    CHECK_OK(TEST_CALL(PAMI_Send_immediate(context, &message)));
    memset(&message, 0x5a, sizeof message);
}

static inline void test_send(pami_context_t context, pami_endpoint_t dest, size_t id,
                             const void *header, size_t header_bytes, const void *data,
                             size_t data_bytes, pami_send_event_t events)
{
    pami_send_t message = {
        .send = test_message(dest, id, header, header_bytes, data, data_bytes),
        .events = events,
    };

    CHECK_OK(TEST_CALL(PAMI_Send(context, &message)));
    memset(&message, 0x5a, sizeof message);
}

/* One advance of a context, on the books of CHECK_CALLBACK. */
static inline pami_result_t test_advance(pami_context_t context, size_t maximum)
{
    pami_result_t result;
    int calling = test_calling;

    test_calling = 0;
    test_advancing++;
    result = PAMI_Context_advance(context, maximum);
    test_advancing--;
    test_calling = calling;
    if (result != PAMI_SUCCESS && result != PAMI_EAGAIN)
        FAIL("PAMI_Context_advance gave %d; text: %s", (int)result, test_text());
    return result;
}

static inline void job_advance_alone(struct job *job)
{
    pami_result_t result;

    test_advancing++;
    result = PAMI_Context_advancev(job->context, job->driven, 16);
    test_advancing--;
    if (result != PAMI_SUCCESS && result != PAMI_EAGAIN)
        FAIL("PAMI_Context_advancev gave %d; text: %s", (int)result, test_text());
}

static inline pami_result_t test_trylock_advance(pami_context_t *contexts, size_t count,
                                                 size_t maximum)
{
    pami_result_t result;

    test_advancing++;
    result = PAMI_Context_trylock_advancev(contexts, count, maximum);
    test_advancing--;
    if (result != PAMI_SUCCESS && result != PAMI_EAGAIN)
        FAIL("PAMI_Context_trylock_advancev gave %d; text: %s", (int)result, test_text());
    return result;
}

static inline void job_advance(struct job *job)
{
    job_advance_alone(job);
    if (job->advance_too != NULL)
        job->advance_too();
}

/* Advance for some time, to see whether anything comes that must not. */
static inline void job_linger(struct job *job, double seconds)
{
    double until = test_now() + seconds;

    while (test_now() < until)
        job_advance(job);
}

static inline void job_on_barrier(pami_context_t context, void *cookie, const void *header,
                                  size_t header_bytes, const void *data, size_t bytes,
                                  pami_endpoint_t origin, pami_recv_t *recv)
{
    struct job *job = cookie;

    (void)data, (void)origin;
    CHECK_CALLBACK();
    CHECK(context == job->context[0] && header_bytes == 1 && bytes == 0 && recv == NULL);
    if (*(const char *)header == 'a')
        job->arrived++;
    else
        job->released++;
}

static inline void job_create_contexts(struct job *job, size_t contexts)
{
    CHECK_OK(PAMI_Context_createv(job->client, NULL, 0, job->context, contexts));
    job->contexts = job->driven = contexts;
    test_dispatch(job->context[0], TEST_BARRIER_ID, job_on_barrier, job, test_ordered());
}

static inline void job_create_client(struct job *job, const char *name)
{
    memset(job, 0, sizeof *job);
    CHECK_OK(PAMI_Client_create(name, &job->client, NULL, 0));
    CHECK(job->client != PAMI_CLIENT_NULL);
    job->task = client_attribute(job->client, PAMI_CLIENT_TASK_ID);
    job->tasks = client_attribute(job->client, PAMI_CLIENT_NUM_TASKS);
    test_task = (long)job->task;
    CHECK(job->task < job->tasks);
}

static inline void job_start(struct job *job, const char *name, size_t contexts)
{
    job_create_client(job, name);
    job_create_contexts(job, contexts);
}

/* All tasks have come here. Messages through task 0; advances the driven contexts meanwhile. */
static inline void job_barrier(struct job *job)
{
    size_t i, generation = ++job->barriers;

    if (job->task != 0) {
        test_send_immediate(job->context[0], job_endpoint(job, 0, 0), TEST_BARRIER_ID, "a", 1, NULL,
                            0);
        WAIT(job, job->released == generation);
        return;
    }
    WAIT(job, job->arrived == generation * (job->tasks - 1));
    for (i = 1; i < job->tasks; i++)
        test_send_immediate(job->context[0], job_endpoint(job, i, 0), TEST_BARRIER_ID, "r", 1, NULL,
                            0);
}

static inline void job_destroy_contexts(struct job *job)
{
    size_t i;

    CHECK_OK(PAMI_Context_destroyv(job->context, job->contexts));
    for (i = 0; i < job->contexts; i++)
        CHECK(job->context[i] == PAMI_CONTEXT_NULL);
    job->contexts = job->driven = 0;
    job->barriers = job->arrived = job->released = 0;
}

static inline void job_destroy(struct job *job)
{
    if (job->contexts != 0)
        job_destroy_contexts(job);
    CHECK_OK(PAMI_Client_destroy(&job->client));
    CHECK(job->client == PAMI_CLIENT_NULL);
}

static inline void job_finish(struct job *job)
{
    job_barrier(job);
    job_destroy(job);
}

#endif /* LIBPAMI_API_API_TEST_H */
