/*
 * PAMI_Error_text: the latest failure of this thread, cut to fit; nothing in a new thread, nothing
 * from successes and from EAGAIN.
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
    job_finish(&job);
    return 0;
}
