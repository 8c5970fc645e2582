/*
 * Invitations to joint copies that are read late: a task computes while another one reads from it
 * so often that everything by which copies are told apart begins anew. What it then reads as an
 * invitation belongs to gets that are long complete; the bytes of the one that is under way arrive,
 * and nothing is written where the others were.
 *
 * Run: tasks=2 env="PAMI_SHM_JOINT_COPY=on" timeout=60
 */
#include "turns.h"

enum {
    BYTES = 65536,
    UNREAD = 2448, /* gets until an inbox is full of invitations */
    READ = 140,    /* of those, before the last get: any number from 90 to 200 */
    GETS = UNREAD + 65536 - READ
};

static struct job job;
static unsigned char *windows[2], *source;

static void start(struct rma *op, void *to)
{
    pami_get_simple_t get = {
        .rma = {.dest = job_endpoint(&job, 1, 0),
                .bytes = BYTES,
                .cookie = op,
                .done_fn = rma_on_done},
        .addr = {.local = to, .remote = windows[1]},
    };

    *op = (struct rma){.context = job.context[0]};
    rma_pending++;
    CHECK_OK(TEST_CALL(PAMI_Get(job.context[0], &get)));
}

static void read_often(void)
{
    unsigned char *old = test_alloc(BYTES), *new = test_alloc(BYTES);
    struct rma op;

    for (size_t i = 0; i < GETS; i++) {
        start(&op, old);
        WAIT(&job, op.done == 1);
    }
    turns_give();
    turns_wait();
    memset(old, 0xee, BYTES);
    memset(new, 0xee, BYTES);
    start(&op, new);
    turns_give();
    turns_wait();
    WAIT(&job, op.done == 1);
    CHECK_SIZE(test_differs(new, BYTES, 1, 0), BYTES);
    CHECK(test_all(old, BYTES, 0xee));
    free(old);
    free(new);
}

static void compute(void)
{
    turns_wait();
    turns_look(job.context[0], 6);
    turns_give();
    turns_wait();
    turns_look(job.context[0], 2000);
    turns_give();
}

int main(void)
{
    job_start(&job, "joint_late", 1);
    rma_open(&job);
    source = test_alloc(BYTES);
    test_fill(source, BYTES, job.task, 0);
    turns_open(&job);
    rma_share(&job, &source, sizeof source, windows);
    if (job.task == 0)
        read_often();
    else
        compute();
    job_barrier(&job);
    job_destroy(&job);
    free(source);
    free(rma_board.table[0]);
    free(rma_board.table[1]);
    return 0;
}
