/*
 * The root of a gather or scatter copies a large block of its own while the context goes on: what
 * is posted runs, and messages come, before the collective is over. All blocks are whole when it
 * is, with one type and with another that has gaps, whatever their size, and with several under way
 * at once. Who leaves in the middle leaves in peace.
 *
 * Run: tasks=1,2,5 timeout=120
 * Run: tasks=3 nodes=3 timeout=120
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi" timeout=120
 */
#include "coll.h"

enum {
    LARGE = 8 << 20,
    AT_ONCE = 3,
    ID = 7
};

static struct job job;
static int asked, ran;

static unsigned char byte_of(size_t block, size_t i)
{
    return (unsigned char)(i * 7 + (i >> 16) + block * 31);
}

struct blocks {
    struct told told;
    unsigned char *whole, *own; /* of the root one for each task, with gaps; and one without */
    size_t bytes;               /* of a block */
    pami_type_t type;           /* of the root's; `width` data bytes in 2 * width, or all */
    size_t width, count;
    bool gaps;
};

static size_t place_of(const struct blocks *b, size_t block, size_t i)
{
    size_t at = block * b->bytes + i;

    return b->gaps ? at / b->width * 2 * b->width + at % b->width : at;
}

static void make(struct blocks *b, size_t width, size_t count, bool gaps)
{
    *b = (struct blocks){.bytes = width * count, .width = width, .count = count, .gaps = gaps};
    b->whole = test_zalloc(2 * b->bytes * job.tasks);
    b->own = test_zalloc(b->bytes);
    b->type = PAMI_TYPE_BYTE;
    if (!gaps)
        return;
    CHECK_OK(PAMI_Type_create(&b->type));
    CHECK_OK(PAMI_Type_add_simple(b->type, width, 0, 1, 2 * width));
    CHECK_OK(PAMI_Type_complete(b->type, 1));
}

static void free_blocks(struct blocks *b)
{
    if (b->gaps)
        CHECK_OK(PAMI_Type_destroy(&b->type));
    free(b->whole);
    free(b->own);
}

static void start(struct blocks *b, pami_xfer_type_t type, size_t root)
{
    pami_xfer_t xfer = coll_xfer(algorithm_named(world_of(&job), type, "Flat"), &b->told);
    pami_endpoint_t to = job_endpoint(&job, root, 0);
    size_t count = b->gaps ? b->count : b->bytes;
    char *whole = job.task == root ? (char *)b->whole : NULL;

    if (type == PAMI_XFER_GATHER)
        xfer.cmd.xfer_gather = (pami_gather_t){.root = to,
                                               .sndbuf = (char *)b->own,
                                               .stype = PAMI_TYPE_BYTE,
                                               .stypecount = b->bytes,
                                               .rcvbuf = whole,
                                               .rtype = b->type,
                                               .rtypecount = count};
    else
        xfer.cmd.xfer_scatter = (pami_scatter_t){.root = to,
                                                 .sndbuf = whole,
                                                 .stype = b->type,
                                                 .stypecount = count,
                                                 .rcvbuf = (char *)b->own,
                                                 .rtype = PAMI_TYPE_BYTE,
                                                 .rtypecount = b->bytes};
    if (type == PAMI_XFER_GATHER)
        for (size_t i = 0; i < b->bytes; i++)
            b->own[i] = byte_of(job.task, i);
    else if (job.task == root)
        for (size_t block = 0; block < job.tasks; block++)
            for (size_t i = 0; i < b->bytes; i++)
                b->whole[place_of(b, block, i)] = byte_of(block, i);
    coll_start(job.context[0], &xfer);
}

static void check(const struct blocks *b, size_t root)
{
    for (size_t block = 0; block < job.tasks && job.task == root; block++)
        for (size_t i = 0; i < b->bytes; i++)
            if (b->whole[place_of(b, block, i)] != byte_of(block, i))
                FAIL("byte %zu of block %zu of the root is wrong", i, block);
    for (size_t i = 0; i < b->bytes; i++)
        if (b->own[i] != byte_of(job.task, i))
            FAIL("byte %zu of the own block is wrong", i);
}

/* Gaps as they were: nobody wrote to them. */
static void check_gaps(const struct blocks *b)
{
    for (size_t at = 0; b->gaps && at < 2 * b->bytes * job.tasks; at++)
        if (at / b->width % 2 != 0 && b->whole[at] != 0)
            FAIL("byte %zu lies in a gap and was written", at);
}

static void run(pami_xfer_type_t type, size_t width, size_t count, bool gaps)
{
    struct blocks b[AT_ONCE];

    for (size_t i = 0; i < AT_ONCE; i++) {
        make(&b[i], width, count, gaps);
        start(&b[i], type, i % job.tasks);
    }
    for (size_t i = 0; i < AT_ONCE; i++) {
        WAIT(&job, b[i].told.count != 0);
        CHECK_OK(b[i].told.result);
        check(&b[i], i % job.tasks);
        check_gaps(&b[i]);
        free_blocks(&b[i]);
    }
}

static pami_result_t on_work(pami_context_t context, void *cookie)
{
    (void)context;
    ran = 1 + ((struct told *)cookie)->count;
    return PAMI_SUCCESS;
}

static void on_ask(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                   const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin, (void)recv;
    asked++;
}

static void ask(size_t task)
{
    pami_send_immediate_t message = {.dispatch = ID, .dest = job_endpoint(&job, task, 0)};

    CHECK_OK(PAMI_Send_immediate(job.context[0], &message));
}

/*
 * While task 0 copies, the last task talks to it, and joins in when it has an answer: before, the
 * collective cannot be over, however slow that task is. Who is alone talks to itself.
 */
static void run_beside(pami_xfer_type_t type)
{
    pami_work_t work;
    struct blocks b;
    size_t last = job.tasks - 1;

    asked = ran = 0;
    job_barrier(&job);
    make(&b, LARGE, 1, false);
    if (job.task == last)
        ask(0);
    if (job.task == last && last != 0)
        WAIT(&job, asked != 0);
    start(&b, type, 0);
    if (job.task == 0) {
        CHECK_OK(PAMI_Context_post(job.context[0], &work, on_work, &b.told));
        WAIT(&job, ran != 0 && asked != 0);
        if (ran != 1 || b.told.count != 0)
            FAIL("the collective was over before anything else was done");
        if (last != 0)
            ask(last);
    }
    WAIT(&job, b.told.count != 0);
    CHECK_OK(b.told.result);
    check(&b, 0);
    free_blocks(&b);
}

static void leave_in_the_middle(void)
{
    struct blocks b;

    job_barrier(&job);
    make(&b, LARGE, 1, false);
    start(&b, PAMI_XFER_GATHER, 0);
    job_advance(&job);
    job_finish(&job);
    free_blocks(&b);
}

int main(void)
{
    static const pami_xfer_type_t types[] = {PAMI_XFER_GATHER, PAMI_XFER_SCATTER};

    job_start(&job, "coll-aside", 1);
    test_dispatch(job.context[0], ID, on_ask, NULL, test_ordered());
    for (size_t i = 0; i < 2; i++) {
        run(types[i], 128 << 10, 1, false);
        run(types[i], (128 << 10) + 1, 1, false);
        run(types[i], 1000003, 1, false);
        run(types[i], 24, 20011, true);
        run(types[i], 1000, 393, true);
        run_beside(types[i]);
    }
    leave_in_the_middle();
    return 0;
}
