/*
 * What the tests of communication servers share: making and ending them, requests that wait while
 * queues are full, memory that server processes see.
 */
#ifndef LIBPAMI_API_SERVERS_H
#define LIBPAMI_API_SERVERS_H

#include "rma.h"

#include <pamix.h>

/* Runs `step` as long as there is no room for the request. */
#define SERVERS_REQUEST(step, call)                                                                \
    do {                                                                                           \
        pami_result_t made_;                                                                       \
                                                                                                   \
        while ((made_ = TEST_CALL(call)) == PAMI_EAGAIN)                                           \
            step;                                                                                  \
        CHECK_OK(made_);                                                                           \
    } while (0)

/* `threads` of them, whose contexts are those from `first` on; without any the processes that the
 * launcher has started. */
static inline pamix_servers_t servers_make(struct job *job, size_t first, size_t threads,
                                           const pamix_servers_config_t *config)
{
    pamix_servers_t servers = NULL;

    if (threads == 0)
        CHECK_OK(PAMIX_Servers_attach(job->client, config, &servers));
    else
        CHECK_OK(PAMIX_Servers_create(&job->context[first], threads, config, &servers));
    CHECK(servers != NULL);
    return servers;
}

static inline pamix_servers_policy_t servers_policy(pamix_servers_t servers)
{
    pamix_servers_policy_t policy;

    CHECK_OK(PAMIX_Servers_get_policy(servers, &policy));
    return policy;
}

static inline void servers_start(pamix_servers_t servers, const pamix_servers_policy_t *policy)
{
    CHECK_OK(PAMIX_Servers_set_policy(servers, policy));
    CHECK_OK(PAMIX_Servers_start(servers));
}

static inline pamix_servers_status_t servers_status(pamix_servers_t servers)
{
    pamix_servers_status_t status;

    CHECK_OK(PAMIX_Servers_query(servers, PAMIX_SERVERS_ALL, &status));
    return status;
}

static inline void servers_end(struct job *job, pamix_servers_t *servers)
{
    bool stopped = false;

    CHECK_OK(TEST_CALL(PAMIX_Servers_stop(*servers, job->context[0], rma_on_fence, &stopped)));
    WAIT(job, stopped);
    CHECK_OK(PAMIX_Servers_destroy(servers));
    CHECK(*servers == NULL);
}

/* Zeroes, in the shared heap. */
static inline void *servers_memory(struct job *job, size_t bytes)
{
    void *memory;

    CHECK_OK(PAMIX_Mem_alloc(job->client, bytes, 64, PAMIX_MEM_ANY, &memory));
    memset(memory, 0, bytes);
    return memory;
}

#endif
