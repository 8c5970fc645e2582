/*
 * A task that does not advance while all others flood it: its memory stays small, before it
 * advances and while it takes the messages in; the senders keep them until there is room.
 *
 * Run: tasks=2,4,8
 * Run: tasks=4 nodes=2
 * Run: tasks=4 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=3 env="PAMI_RNDV_BYTES=1G"
 */
#include "api_test.h"

enum {
    ID = 1,
    IMMEDIATES = 3000, /* all senders together; of 8000 bytes */
    EAGER = 600,       /* of 30000 bytes */
    LARGE = 120,       /* of 400000 bytes */
    ALLOWED_KB = 40000 /* of 90 MB in all */
};

static struct job job;
static size_t received;
static unsigned char *sink, *source;

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    received++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin;
    CHECK_CALLBACK();
    if (recv == NULL) {
        received++;
        return;
    }
    recv->addr = sink; /* all into the same place */
    recv->local_fn = on_landed;
}

static size_t status_kb(const char *name)
{
    char line[256];
    size_t value = 0, length = strlen(name);
    FILE *file = fopen("/proc/self/status", "r");

    if (file == NULL)
        test_skip("/proc/self/status cannot be read");
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, length) == 0 && line[length] == ':')
            value = strtoul(line + length + 1, NULL, 10);
    fclose(file);
    CHECK(value != 0);
    return value;
}

static size_t share(size_t count)
{
    return count / (job.tasks - 1);
}

static void flood(void)
{
    pami_endpoint_t dest = job_endpoint(&job, 0, 0);
    pami_send_event_t none = {0};
    size_t i;

    for (i = 0; i < share(IMMEDIATES); i++) {
        test_send_immediate(job.context[0], dest, ID, "h", 1, source, 8000);
        if (i < share(EAGER))
            test_send(job.context[0], dest, ID, "h", 1, source, 30000, none);
        if (i < share(LARGE))
            test_send(job.context[0], dest, ID, "h", 1, source, 400000, none);
        job_advance(&job);
    }
}

int main(void)
{
    size_t before, idle, peak, expected;

    source = test_zalloc(400000);
    sink = test_zalloc(400000);
    memset(source, 1, 400000);
    memset(sink, 1, 400000);
    job_start(&job, "slow_receiver", 1);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    job_barrier(&job);
    expected = (share(IMMEDIATES) + share(EAGER) + share(LARGE)) * (job.tasks - 1);
    if (job.task != 0) {
        flood();
        job_finish(&job);
        return 0;
    }
    before = status_kb("VmRSS");
    test_sleep(0.3);
    idle = status_kb("VmRSS");
    WAIT(&job, received == expected);
    peak = status_kb("VmHWM");
    printf("receiver: %zu kB before, %zu kB after the flood, peak %zu kB\n", before, idle, peak);
    CHECK(idle < before + ALLOWED_KB);
    CHECK(peak < before + ALLOWED_KB);
    job_finish(&job);
    return 0;
}
