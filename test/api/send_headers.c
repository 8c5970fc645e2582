/*
 * Headers from 0 bytes to 1 MiB, on memory that is overwritten after the call, with no data, small
 * data and large data. Without data a message arrives immediately, however long its header.
 *
 * Run: tasks=1,2,5
 * Run: tasks=4 nodes=2
 * Run: tasks=2,5 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=0"
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off PAMI_SHM_CHUNK_BYTES=1K"
 * Run: tasks=3 env="PAMI_RNDV_BYTES=1G PAMI_YIELD=always"
 */
#include "exchange.h"

enum {
    MESSAGES = 1,
    NEVER_IMMEDIATE = 2,
    ROWS_MAX = 8192
};

static struct exchange_row rows[ROWS_MAX];
static size_t row_count;

static void add(enum exchange_kind kind, size_t header, size_t data)
{
    CHECK(row_count < ROWS_MAX);
    rows[row_count++] = (struct exchange_row){kind, header, data};
}

static void add_header(size_t header)
{
    static const size_t data[] = {0, 1, 7, 64, 511, 600, 4000, 32768, 32769, 150000};
    size_t i;

    for (i = 0; i < sizeof data / sizeof data[0]; i++)
        add(EXCHANGE_SEND, header, data[i]);
    add(EXCHANGE_REMOTE, header, 0);
    add(EXCHANGE_QUIET, header, 9);
    if (header < 512) {
        add(EXCHANGE_SEND, header, 512 - header);
        add(EXCHANGE_SEND, header, 513 - header);
    }
    if (header <= 8192) {
        add(EXCHANGE_IMMEDIATE, header, 0);
        add(EXCHANGE_IMMEDIATE, header, 8192 - header);
    }
}

int main(void)
{
    static const size_t headers[] = {0,    1,    2,    7,     8,     9,     16,    31,    40,
                                     48,   63,   64,   65,    104,   127,   128,   200,   256,
                                     511,  512,  513,  1000,  1024,  1025,  4096,  8000,  8191,
                                     8192, 8193, 9999, 10240, 16360, 16384, 16385, 32768, 65536};
    struct job job;
    pami_dispatch_hint_t hints = {0};
    size_t i;

    job_start(&job, "send_headers", 1);
    for (i = 0; i < sizeof headers / sizeof headers[0]; i++)
        add_header(headers[i]);
    for (i = 0; i < 3; i++) { /* of any length */
        add(EXCHANGE_SEND, 65537, i * 20000);
        add(EXCHANGE_SEND, 200000, i * 20000);
        add(EXCHANGE_REMOTE, (1 << 20) + 3, i * 20000);
    }
    exchange_run(&job, MESSAGES, rows, row_count, hints);
    hints.long_header = PAMI_HINT_ENABLE;
    hints.recv_immediate = PAMI_HINT_DISABLE;
    exchange_run(&job, NEVER_IMMEDIATE, rows, row_count, hints);
    job_finish(&job);
    return 0;
}
