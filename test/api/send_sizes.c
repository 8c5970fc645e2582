/*
 * PAMI_Send from 0 bytes to many: all small sizes, the limits of the immediate receive and of the
 * rendezvous protocol, and, with the argument "large", up to 64 MiB.
 *
 * Run: tasks=1,2,3,8
 * Run: tasks=2 args="large" timeout=120
 * Run: tasks=3 nodes=3 args="large" timeout=120
 * Run: tasks=2 args="large" env="PAMI_SHM_SINGLE_COPY=off" timeout=120
 * Run: tasks=2 args="large" env="PAMI_SHM_SINGLE_COPY=on" timeout=120
 * Run: tasks=4 nodes=2
 * Run: tasks=2,5 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2 PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=3 env="PAMI_RNDV_BYTES=0"
 * Run: tasks=3 env="PAMI_RNDV_BYTES=0 PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=1000"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=1G" args="large" timeout=120
 * Run: tasks=3 env="PAMI_YIELD=always"
 * Run: tasks=2 env="PAMI_RECV_IMMEDIATE_MAX=0"
 * Run: tasks=2 env="PAMI_RECV_IMMEDIATE_MAX=64K"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_OFI_INTERFACE=lo"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_OFI_INTERFACE=lo PAMI_OFI_PACKET_BYTES=1K"
 */
#include "exchange.h"

enum {
    MESSAGES = 1,
    NEVER_IMMEDIATE = 2,
    ROWS_MAX = 8192
};

static struct exchange_row rows[ROWS_MAX];
static size_t row_count;

static void add(size_t header, size_t data)
{
    CHECK(row_count < ROWS_MAX);
    rows[row_count] = (struct exchange_row){EXCHANGE_SEND, header, data};
    if (row_count % 4 == 3)
        rows[row_count].kind = EXCHANGE_REMOTE;
    if (row_count % 16 == 14)
        rows[row_count].kind = EXCHANGE_QUIET;
    row_count++;
}

static void add_around(size_t header, size_t data, size_t step)
{
    size_t i;

    for (i = 0; i < 3; i++)
        if (data + i * step >= step)
            add(header, data + i * step - step);
}

static void make_rows(void)
{
    static const size_t middle[] = {1024,  2048,  4096,  8192,   12345,  16384,
                                    20000, 32768, 65536, 100000, 131072, 262144};
    size_t i;

    for (i = 0; i <= 600; i++)
        add(i % 3 * 8, i);
    for (i = 0; i <= 512; i += 64)
        add_around(i, 512 - i, 1);
    for (i = 0; i < sizeof middle / sizeof middle[0]; i++) {
        add_around(0, middle[i], 1);
        add_around(0, middle[i], 16);
        add_around(0, middle[i], 64);
        add_around(24, middle[i], 24);
        add_around(500, middle[i], 1);
    }
    add_around(0, 1 << 20, 1);
}

int main(int argc, char **argv)
{
    struct job job;
    pami_dispatch_hint_t hints = {0};

    job_start(&job, "send_sizes", 1);
    make_rows();
    exchange_run(&job, MESSAGES, rows, row_count, hints);
    hints.recv_immediate = PAMI_HINT_DISABLE;
    exchange_run(&job, NEVER_IMMEDIATE, rows, row_count / 2, hints);
    if (argc > 1 && strcmp(argv[1], "large") == 0) {
        hints.recv_immediate = PAMI_HINT_DEFAULT;
        row_count = 0;
        add(8, 4u << 20);
        add(0, (8u << 20) + 1);
        add(700, (16u << 20) - 1);
        add(16, 64u << 20);
        exchange_run(&job, MESSAGES, rows, row_count, hints);
    }
    job_finish(&job);
    return 0;
}
