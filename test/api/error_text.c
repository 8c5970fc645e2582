/*
 * PAMI_Error_text: the latest failure of this thread, cut to fit; nothing in a new thread, nothing
 * from successes and from EAGAIN. A callback finds why its operation failed, whatever another one
 * has done wrong meanwhile.
 *
 * Run:
 * Run: tasks=2
 */
#include "api_test.h"

#include <pthread.h>

static struct job job;

static void *other_thread(void *cookie)
{
    char text[100] = "x";

    (void)cookie;
    CHECK_SIZE(PAMI_Error_text(text, sizeof text), 0);
    CHECK(text[0] == '\0');
    CHECK_RESULT(PAMI_Context_unlock(PAMI_CONTEXT_NULL), PAMI_INVAL);
    CHECK(PAMI_Error_text(text, sizeof text) > 0);
    CHECK(strstr(text, "PAMI_Context_unlock") == text);
    return NULL;
}

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    char *text = cookie;

    (void)context;
    if (result == PAMI_SUCCESS) /* the data had gone when the target found that it has no place */
        return;
    strcpy(text, test_text());
    CHECK(strstr(text, "put: ") == text);
    CHECK_RESULT(PAMI_Context_unlock(PAMI_CONTEXT_NULL), PAMI_INVAL);
}

static bool put_ended;

static void on_rdone(pami_context_t context, void *cookie, pami_result_t result)
{
    const char *text = cookie;

    (void)context;
    CHECK(result != PAMI_SUCCESS);
    CHECK(strstr(test_text(), "put: ") == test_text());
    CHECK(text[0] == '\0' || strcmp(test_text(), text) == 0);
    put_ended = true;
}

/* To where no process has memory. */
static void put_nowhere(void)
{
    static char bytes[64], text[512];
    pami_put_simple_t put = {
        .rma = {.dest = job_endpoint(&job, 1, 0), .bytes = sizeof bytes, .done_fn = on_done},
        .addr = {bytes, (void *)(uintptr_t)0xffff800000000000u},
        .put = {.rdone_fn = on_rdone},
    };

    put.rma.cookie = text;
    CHECK_OK(PAMI_Put(job.context[0], &put));
    WAIT(&job, put_ended);
}

int main(void)
{
    char text[512], shorter[16], untouched = 'u', one = 'o';
    size_t length, i;
    pami_endpoint_t endpoint;
    pthread_t thread;

    /* Works before any client. */
    CHECK_SIZE(PAMI_Error_text(text, sizeof text), 0);
    CHECK(text[0] == '\0');
    CHECK_RESULT(PAMI_Client_create(NULL, NULL, NULL, 0), PAMI_INVAL);
    CHECK(PAMI_Error_text(text, sizeof text) > 0);
    CHECK(strstr(text, "PAMI_Client_create") == text);

    job_start(&job, "error_text", 1);
    CHECK_RESULT(PAMI_Endpoint_create(job.client, 4711, 0, &endpoint), PAMI_INVAL);
    length = PAMI_Error_text(text, sizeof text);
    CHECK(length == strlen(text) && length > 10 && length < sizeof text);
    CHECK(strstr(text, "PAMI_Endpoint_create") == text && strstr(text, "4711") != NULL);
    for (i = 0; i < length; i++)
        CHECK(text[i] >= ' ' && text[i] <= '~'); /* one line */

    memset(shorter, 'x', sizeof shorter);
    CHECK_SIZE(PAMI_Error_text(shorter, 8), 7);
    CHECK(memcmp(shorter, text, 7) == 0 && shorter[7] == '\0' && shorter[8] == 'x');
    CHECK_SIZE(PAMI_Error_text(&one, 1), 0);
    CHECK(one == '\0');
    CHECK_SIZE(PAMI_Error_text(&untouched, 0), 0);
    CHECK(untouched == 'u');
    CHECK_SIZE(PAMI_Error_text(NULL, 0), 0);

    /* Successes, and EAGAIN, change nothing; nor do other threads. */
    CHECK_OK(PAMI_Endpoint_create(job.client, 0, 0, &endpoint));
    test_advance(job.context[0], 1);
    job_barrier(&job);
    CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
    pthread_join(thread, NULL);
    CHECK_SIZE(PAMI_Error_text(text, sizeof text), length);
    CHECK(strstr(text, "PAMI_Endpoint_create") == text);
    if (job.task == 0 && job.tasks > 1)
        put_nowhere();
    job_barrier(&job);
    job_finish(&job);
    return 0;
}
