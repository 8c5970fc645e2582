/*
 * Contexts: every count that a client can have, refused counts and second calls, destruction with
 * the right and with wrong arrays, new contexts after old ones, messages between all of them; those
 * that nobody uses take next to no shared memory.
 *
 * Run: tasks=1,2,3
 * Run: tasks=8 nodes=1,2
 * Run: tasks=2 env="PAMI_NUM_CONTEXTS=64"
 * Run: tasks=2 env="PAMI_NUM_CONTEXTS=2"
 * Run: tasks=3 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 */
#include "api_test.h"

enum {
    ID = 1,
    UNUSED_KIB = 16 /* a page or two where pages are small */
};

static size_t received[TEST_CONTEXTS_MAX];

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    struct job *job = cookie;
    uint32_t to;

    CHECK_CALLBACK();
    (void)data, (void)origin, (void)recv;
    CHECK(header_bytes == sizeof to && bytes == 0);
    memcpy(&to, header, sizeof to);
    CHECK(to < job->contexts && job->context[to] == context);
    received[to]++;
}

/* From each context of mine to each of the next task. */
static void use_contexts(struct job *job)
{
    size_t from;
    uint32_t to;

    for (from = 0; from < job->contexts; from++)
        test_dispatch(job->context[from], ID, on_message, job, test_ordered());
    for (from = 0; from < job->contexts; from++)
        for (to = 0; to < job->contexts; to++)
            test_send_immediate(job->context[from],
                                job_endpoint(job, (job->task + 1) % job->tasks, to), ID, &to,
                                sizeof to, NULL, 0);
    for (to = 0; to < job->contexts; to++)
        WAIT(job, received[to] == job->contexts);
    memset(received, 0, sizeof received);
    job_barrier(job);
}

static void refused_create(struct job *job, size_t limit)
{
    pami_context_t contexts[TEST_CONTEXTS_MAX + 1];

    memset(contexts, 0xa5, sizeof contexts);
    CHECK_REFUSED(PAMI_Context_createv(job->client, NULL, 0, contexts, limit + 1), PAMI_INVAL,
                  "ncontexts");
    CHECK_REFUSED(PAMI_Context_createv(job->client, NULL, 0, contexts, (size_t)-1), PAMI_INVAL,
                  "ncontexts");
    CHECK_REFUSED(PAMI_Context_createv(job->client, NULL, 0, contexts, 0), PAMI_INVAL, "ncontexts");
    CHECK_REFUSED(PAMI_Context_createv(job->client, NULL, 0, NULL, 1), PAMI_INVAL, "context");
    CHECK_REFUSED(PAMI_Context_createv(PAMI_CLIENT_NULL, NULL, 0, contexts, 1), PAMI_INVAL,
                  "client");
}

static void refused_destroy(struct job *job)
{
    pami_context_t copy[TEST_CONTEXTS_MAX], wrong[TEST_CONTEXTS_MAX];
    size_t i;

    memcpy(copy, job->context, sizeof copy);
    CHECK_RESULT(PAMI_Context_destroyv(NULL, 1), PAMI_INVAL);
    CHECK_RESULT(PAMI_Context_destroyv(job->context, 0), PAMI_INVAL);
    memset(wrong, 0, sizeof wrong);
    CHECK_REFUSED(PAMI_Context_destroyv(wrong, job->contexts), PAMI_INVAL, "context");
    for (i = 0; i < TEST_CONTEXTS_MAX; i++)
        wrong[i] = &wrong[i];
    CHECK_REFUSED(PAMI_Context_destroyv(wrong, job->contexts), PAMI_INVAL, "context");
    CHECK_REFUSED(PAMI_Context_destroyv(&job->client, 1), PAMI_INVAL, "context");
    if (job->contexts > 1) {
        CHECK_RESULT(PAMI_Context_destroyv(job->context, job->contexts - 1), PAMI_INVAL);
        memcpy(wrong, copy, sizeof wrong);
        wrong[0] = copy[1];
        CHECK_RESULT(PAMI_Context_destroyv(wrong, job->contexts), PAMI_INVAL);
    }
    CHECK(memcmp(copy, job->context, sizeof copy) == 0);
    use_contexts(job); /* nothing happened to them */
}

/* Shared memory that this process has touched, KiB. */
static size_t shared_kib(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    size_t kib = 0;

    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        sscanf(line, "RssShmem: %zu", &kib);
    fclose(file);
    return kib;
}

static void unused(struct job *job, size_t count)
{
    size_t before = shared_kib();

    job_create_contexts(job, count);
    job_linger(job, 0.05);
    if (sysconf(_SC_PAGESIZE) == 4096 && shared_kib() - before > count * UNUSED_KIB)
        FAIL("%zu contexts take %zu KiB", count, shared_kib() - before);
    job_destroy_contexts(job);
}

int main(void)
{
    struct job job, control;
    pami_context_t copy[TEST_CONTEXTS_MAX];
    pami_configuration_t configuration = {.name = PAMI_CLIENT_CONST_CONTEXTS};
    size_t count, limit;

    job_start(&control, "control", 1);
    job_create_client(&job, "context_create");
    limit = client_attribute(job.client, PAMI_CLIENT_NUM_CONTEXTS);
    refused_create(&job, limit);
    unused(&job, limit);
    job_barrier(&control);

    for (count = 1; count <= limit; count = count < 4 ? count + 1 : count * 2) {
        job_create_contexts(&job, count);
        job_barrier(&control); /* nor to contexts that are yet to come */
        CHECK_RESULT(PAMI_Context_createv(job.client, NULL, 0, copy, 1), PAMI_ERROR);
        use_contexts(&job);
        if (count <= 4)
            refused_destroy(&job);
        memcpy(copy, job.context, sizeof copy);
        job_destroy_contexts(&job);
        CHECK_RESULT(PAMI_Context_destroyv(job.context, count), PAMI_INVAL);
        CHECK_RESULT(PAMI_Context_destroyv(copy, count), PAMI_INVAL);
        job_barrier(&control); /* nobody talks to old contexts of the others */
    }

    /* A configuration is accepted and makes no difference. */
    configuration.value.intval = 1;
    CHECK_OK(PAMI_Context_createv(job.client, &configuration, 1, job.context, 2));
    CHECK_OK(PAMI_Context_destroyv(job.context, 2));
    job_destroy(&job);
    job_finish(&control);
    return 0;
}
