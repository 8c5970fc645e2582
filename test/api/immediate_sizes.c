/*
 * PAMI_Send_immediate: every total size that may be a boundary, split between header and data in
 * many ways, up to the limit; one byte more is refused and leaves no trace.
 *
 * Run: tasks=1,2,3
 * Run: tasks=3 nodes=1,3 env="PAMI_YIELD=always"
 * Run: tasks=2,5 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 env="PAMI_SHM_CHUNK_BYTES=1K"
 * Run: tasks=2 env="PAMI_RECV_IMMEDIATE_MAX=0"
 * Run: tasks=2 env="PAMI_SEND_IMMEDIATE_MAX=64K"
 * Run: tasks=2 env="PAMI_SEND_IMMEDIATE_MAX=256"
 */
#include "exchange.h"

enum {
    MESSAGES = 1,
    OVERSIZE = 2,
    DENSE = 700, /* all totals up to here */
    ROWS_MAX = 32768
};

static struct exchange_row rows[ROWS_MAX];
static size_t row_count;
static size_t oversized;

static void add(size_t header, size_t data)
{
    CHECK(row_count < ROWS_MAX);
    rows[row_count++] = (struct exchange_row){EXCHANGE_IMMEDIATE, header, data};
}

static void add_splits(size_t total)
{
    add(0, total);
    if (total == 0)
        return;
    add(total, 0);
    if (total < 3)
        return;
    add(1, total - 1);
    add(total / 2, total - total / 2);
    add(total - 1, 1);
    if (total > 600)
        add(512, total - 512);
}

static void make_rows(size_t limit)
{
    size_t total, power;

    for (total = 0; total <= DENSE && total <= limit; total++)
        add_splits(total);
    for (total = DENSE; total <= limit; total += 61)
        add_splits(total);
    for (power = 1024; power <= limit; power *= 2) {
        for (total = power - 33; total <= power + 33 && total <= limit; total++)
            add_splits(total);
    }
    add_splits(limit - 1);
    add_splits(limit);
}

static void on_oversize(pami_context_t context, void *cookie, const void *header,
                        size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                        pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    oversized++;
}

static void refuse(struct job *job, size_t header, size_t data)
{
    static char memory[1 << 17];
    pami_send_immediate_t message =
        test_message(job_endpoint(job, job->task, 0), OVERSIZE, memory, header, memory, data);

    CHECK_REFUSED(PAMI_Send_immediate(job->context[0], &message), PAMI_INVAL, "");
}

int main(void)
{
    struct job job;
    pami_dispatch_hint_t hints = {0};
    const char *setting = getenv("PAMI_SEND_IMMEDIATE_MAX");
    size_t limit;

    job_start(&job, "immediate_sizes", 1);
    test_dispatch(job.context[0], OVERSIZE, on_oversize, NULL, hints);
    limit = dispatch_attribute(job.context[0], OVERSIZE, PAMI_DISPATCH_SEND_IMMEDIATE_MAX);
    CHECK_SIZE(limit, setting == NULL ? 8192 : strcmp(setting, "64K") == 0 ? 65536 : 256);

    make_rows(limit);
    exchange_run(&job, MESSAGES, rows, row_count, hints);

    refuse(&job, 0, limit + 1);
    refuse(&job, limit + 1, 0);
    refuse(&job, limit, 1);
    refuse(&job, 1, limit);
    job_linger(&job, 0.01);
    CHECK(oversized == 0);
    job_finish(&job);
    return 0;
}
