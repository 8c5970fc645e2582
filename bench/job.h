/*
 * What the benchmark programs over libpami share: joining the job, progress, a meeting of all
 * tasks, and sums. Only the public API, used as a run-time developer would use it.
 *
 * Meetings and sums are plain active messages through task 0, outside of every timed interval. A
 * task that waits advances all contexts of the job, as the API asks for.
 */
#ifndef LIBPAMI_BENCH_JOB_H
#define LIBPAMI_BENCH_JOB_H

#include "bench.h"

#include <pami/pami.h>
#include <pami/pamix.h>

#define JOB_CONTEXTS 8
/* Passes of one PAMI_Context_advance; it returns after the first that did something. */
#define JOB_PASSES 32

enum job_dispatch {
    JOB_MEET = 1,
    JOB_RELEASE,
    JOB_SUM,
    JOB_USER
};

struct job {
    pami_client_t client;
    pami_context_t contexts[JOB_CONTEXTS];
    size_t ncontexts;
    int task, tasks;
    size_t immediate_max;
    uint64_t met, arrived, released; /* meetings so far; arrivals, releases seen */
    uint64_t summed, addends;
    double sum;
    bool asleep; /* between messages, instead of polling */
    bool heap;   /* job_alloc takes memory from the shared heap */
};

#define PAMI_OK(call) job_ok((call), #call)

static inline void job_ok(pami_result_t result, const char *what)
{
    if (result != PAMI_SUCCESS) {
        char text[256] = "";
        PAMI_Error_text(text, sizeof(text));
        bench_die("%.60s: result %d: %s", what, (int)result, text);
    }
}

static inline void job_poll_one(pami_context_t context)
{
    pami_result_t result = PAMI_Context_advance(context, JOB_PASSES);

    if (result != PAMI_SUCCESS && result != PAMI_EAGAIN) {
        job_ok(result, "PAMI_Context_advance");
    }
}

static inline void job_poll(struct job *j)
{
    if (j->asleep) {
        PAMIX_Context_wait(j->contexts[0], 100000);
    }
    for (size_t i = 0; i < j->ncontexts; i++) {
        job_poll_one(j->contexts[i]);
    }
}

static inline size_t job_query(struct job *j, pami_attribute_name_t name)
{
    pami_configuration_t c = {.name = name};

    PAMI_OK(PAMI_Client_query(j->client, &c, 1));
    return c.value.intval;
}

static inline pami_endpoint_t job_endpoint(struct job *j, int task, size_t offset)
{
    pami_endpoint_t endpoint;

    PAMI_OK(PAMI_Endpoint_create(j->client, (pami_task_t)task, offset, &endpoint));
    return endpoint;
}

/* Small messages; the data may be re-used at once. */
static inline void job_send(struct job *j, size_t offset, size_t dispatch, pami_endpoint_t dest,
                            const void *data, size_t bytes)
{
    pami_send_immediate_t message = {.dispatch = dispatch, .dest = dest};

    message.data.iov_base = (void *)(uintptr_t)data;
    message.data.iov_len = bytes;
    PAMI_OK(PAMI_Send_immediate(j->contexts[offset], &message));
}

static inline void job_dispatch_one(pami_context_t context, size_t id,
                                    pami_dispatch_p2p_function function, void *cookie)
{
    pami_dispatch_callback_function f = {.p2p = function};
    pami_dispatch_hint_t hints;

    memset(&hints, 0, sizeof(hints));
    PAMI_OK(PAMI_Dispatch_set(context, id, f, cookie, hints));
}

/* On every context, with the same cookie. */
static inline void job_dispatch(struct job *j, size_t id, pami_dispatch_p2p_function function,
                                void *cookie)
{
    for (size_t i = 0; i < j->ncontexts; i++) {
        job_dispatch_one(j->contexts[i], id, function, cookie);
    }
}

#define JOB_UNUSED_DISPATCH_ARGUMENTS                                                              \
    (void)context, (void)cookie, (void)header, (void)header_size, (void)data, (void)bytes,         \
        (void)origin, (void)recv

static inline void job_on_meet(pami_context_t context, void *cookie, const void *header,
                               size_t header_size, const void *data, size_t bytes,
                               pami_endpoint_t origin, pami_recv_t *recv)
{
    struct job *j = cookie;

    JOB_UNUSED_DISPATCH_ARGUMENTS;
    j->arrived++;
}

static inline void job_on_release(pami_context_t context, void *cookie, const void *header,
                                  size_t header_size, const void *data, size_t bytes,
                                  pami_endpoint_t origin, pami_recv_t *recv)
{
    struct job *j = cookie;

    JOB_UNUSED_DISPATCH_ARGUMENTS;
    j->released++;
}

static inline void job_on_sum(pami_context_t context, void *cookie, const void *header,
                              size_t header_size, const void *data, size_t bytes,
                              pami_endpoint_t origin, pami_recv_t *recv)
{
    struct job *j = cookie;
    double value;

    JOB_UNUSED_DISPATCH_ARGUMENTS;
    memcpy(&value, data, sizeof(value));
    j->sum += value;
    j->addends++;
}

/* Every task comes here before any leaves. */
static inline void job_meet(struct job *j)
{
    uint64_t others = (uint64_t)(j->tasks - 1);

    j->met++;
    if (j->task != 0) {
        job_send(j, 0, JOB_MEET, job_endpoint(j, 0, 0), NULL, 0);
        while (j->released < j->met) {
            job_poll(j);
        }
        return;
    }
    while (j->arrived < others * j->met) {
        job_poll(j);
    }
    for (int t = 1; t < j->tasks; t++) {
        job_send(j, 0, JOB_RELEASE, job_endpoint(j, t, 0), NULL, 0);
    }
}

/* The sum over all tasks, on task 0; also a meeting. */
static inline double job_sum(struct job *j, double value)
{
    double sum = 0;

    if (j->task != 0) {
        job_send(j, 0, JOB_SUM, job_endpoint(j, 0, 0), &value, sizeof(value));
    } else {
        j->summed++;
        while (j->addends < (uint64_t)(j->tasks - 1) * j->summed) {
            job_poll(j);
        }
        sum = j->sum + value;
        j->sum = 0;
    }
    job_meet(j);
    return sum;
}

/* Pins the process if asked to, before the library looks where it is, and joins. */
static inline void job_open(struct job *j, size_t ncontexts)
{
    pami_configuration_t c = {.name = PAMI_DISPATCH_SEND_IMMEDIATE_MAX};

    memset(j, 0, sizeof(*j));
    bench_pin(bench_launcher_rank());
    PAMI_OK(PAMI_Client_create("bench", &j->client, NULL, 0));
    j->ncontexts = ncontexts;
    PAMI_OK(PAMI_Context_createv(j->client, NULL, 0, j->contexts, ncontexts));
    j->task = (int)job_query(j, PAMI_CLIENT_TASK_ID);
    j->tasks = (int)job_query(j, PAMI_CLIENT_NUM_TASKS);
    job_dispatch(j, JOB_MEET, job_on_meet, j);
    job_dispatch(j, JOB_RELEASE, job_on_release, j);
    job_dispatch(j, JOB_SUM, job_on_sum, j);
    PAMI_OK(PAMI_Dispatch_query(j->contexts[0], JOB_SUM, &c, 1));
    j->immediate_max = c.value.intval;
}

/* Page-aligned, zeroed, touched by the caller. */
static inline void *job_alloc(const struct job *j, size_t bytes)
{
    void *memory;

    if (!j->heap) {
        return bench_alloc(bytes);
    }
    PAMI_OK(PAMIX_Mem_alloc(j->client, bytes, 4096, PAMIX_MEM_LOCAL, &memory));
    memset(memory, 0, bytes);
    return memory;
}

static inline void job_need_tasks(struct job *j, int tasks)
{
    if (j->tasks < tasks) {
        bench_die("start me with at least %d tasks: pamirun -n %d ...", tasks, tasks);
    }
}

static inline void job_close(struct job *j)
{
    job_meet(j);
    PAMI_OK(PAMI_Context_destroyv(j->contexts, j->ncontexts));
    PAMI_OK(PAMI_Client_destroy(&j->client));
}

#endif
