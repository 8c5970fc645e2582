/*
 * Reads of task 1's memory, during which it destroys its contexts: what ends with an error leaves
 * memory alone from then on.
 */
#ifndef LIBPAMI_NET_READS_H
#define LIBPAMI_NET_READS_H

#include "api/api_test.h"

enum {
    BYTES = 2 << 20,
    READS = 4
};

static char source[BYTES];
static char got[READS][BYTES];
static size_t ended;

/* From here on the memory is the program's. */
static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    char *memory = cookie;

    (void)context;
    CHECK_CALLBACK();
    ended++;
    if (result == PAMI_SUCCESS)
        CHECK_SIZE(test_differs(memory, BYTES, 7, 0), BYTES);
    else
        memset(memory, 0x77, BYTES);
}

static void begin_reads(struct job *job, char *remote)
{
    memset(got, 0, sizeof got);
    ended = 0;
    for (size_t i = 0; i < READS; i++) {
        pami_get_simple_t get = {
            .rma = {.dest = job_endpoint(job, 1, 0),
                    .bytes = BYTES,
                    .cookie = got[i],
                    .done_fn = on_done},
            .addr = {.local = got[i], .remote = remote},
        };

        CHECK_OK(TEST_CALL(PAMI_Get(job->context[0], &get)));
    }
}

static void finish_reads(struct job *job)
{
    WAIT(job, ended == READS);
    job_linger(job, 0.1);
    for (size_t i = 0; i < READS; i++)
        CHECK(test_all(got[i], BYTES, 0x77) || test_differs(got[i], BYTES, 7, 0) == BYTES);
}

#endif
