/*
 * Task 0 reads memory of task 1, more than the provider takes at a time, until that is lost: then
 * all reads end with an error. Prints "streaming" when one has ended well, and at last "gone after"
 * how long. For cut.sh.
 */
#include "api/api_test.h"

enum {
    ID = 10,
    READS = 3000,
    BYTES = 1 << 20
};

static struct job job;
static pami_memregion_t own, theirs;
static bool came;
static char memory[BYTES], got[BYTES];
static pami_memregion_t target;
static size_t open_reads, good, bad;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)data, (void)bytes, (void)origin, (void)recv;
    CHECK_SIZE(header_bytes, sizeof theirs);
    memcpy(&theirs, header, header_bytes);
    came = true;
}

static void read_more(void);

static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    open_reads--;
    if (result != PAMI_SUCCESS) {
        bad++;
        return;
    }
    if (good++ == 0) {
        puts("streaming");
        fflush(stdout);
    }
    if (bad == 0)
        read_more();
}

static void read_more(void)
{
    pami_rget_simple_t get = {
        .rma = {.dest = job_endpoint(&job, 1, 0), .bytes = BYTES, .done_fn = on_end},
        .rdma = {.local = {&target, 0}, .remote = {&theirs, 0}},
    };

    CHECK_OK(TEST_CALL(PAMI_Rget(job.context[0], &get)));
    open_reads++;
}

int main(void)
{
    size_t bytes, before = 0;
    double last = test_now();

    job_create_client(&job, "cut_reads");
    if (job.tasks == 1)
        test_skip("cut.sh runs it");
    job_create_contexts(&job, 1);
    CHECK_OK(PAMI_Memregion_create(job.context[0], memory, BYTES, &bytes, &own));
    CHECK_OK(PAMI_Memregion_create(job.context[0], got, BYTES, &bytes, &target));
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    if (job.task == 1) {
        test_send_immediate(job.context[0], job_endpoint(&job, 0, 0), ID, &own, sizeof own, NULL,
                            0);
        WAIT(&job, false); /* until the launcher ends it */
    }
    WAIT(&job, came);
    for (size_t i = 0; i < READS; i++)
        read_more();
    while (open_reads != 0) {
        test_advance(job.context[0], 10);
        if (good != before)
            last = test_now();
        before = good;
    }
    printf("task %zu: gone after %.1f s\n", job.task, test_now() - last);
    fflush(stdout);
    _exit(0);
}
