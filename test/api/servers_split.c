/*
 * Puts and gets that servers carry in pieces: the right bytes and no others, whatever the size and
 * the alignment, also side by side; where both sides are parts of the same memory; and with one
 * error, in one callback of each kind, where a single piece cannot be moved, be it the first, one
 * in the middle, or the last. What is larger than anything is refused at once, as are messages.
 *
 * Run: tasks=1,2,3 args="2"
 * Run: tasks=2,4 nodes=2 args="1"
 * Run: tasks=2 args="3" env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 servers=2 args="0"
 */
#include "servers.h"

#include <sys/mman.h>

enum {
    PAGE = 4096,
    PAGES = 48, /* of what others read and write */
    BYTES = PAGES * PAGE,
    SPLIT = 2048,
    GUARD_BYTE = 0x3c,
    SIDE = 9 /* transfers side by side */
};

static struct job job;
static size_t servers_count, next;
static pamix_servers_t servers;
static unsigned char *heap, **heaps;   /* of all tasks, in the shared heap */
static unsigned char *plain, **plains; /* ordinary memory */
static unsigned char *local;

static void move(struct rma *op, bool is_put, size_t task, void *from_or_to, void *remote,
                 size_t bytes)
{
    pami_rma_t head = rma_head(op, is_put, job.context[0], job_endpoint(&job, task, 0), bytes);
    pami_put_simple_t put = {.addr = {from_or_to, remote}, .put = rma_tail(op)};
    pami_get_simple_t get = {.addr = {from_or_to, remote}};

    head.hints = (pami_send_hint_t){0}; /* packets do not know what lies over itself */
    put.rma = get.rma = head;
    SERVERS_REQUEST(job_advance(&job), is_put
                                           ? PAMIX_Servers_put(servers, job.context[0], &put, 0)
                                           : PAMIX_Servers_get(servers, job.context[0], &get, 0));
    memset(&put, 0x5a, sizeof put);
    memset(&get, 0x5a, sizeof get);
}

static void move_one(bool is_put, size_t task, void *from_or_to, void *remote, size_t bytes,
                     enum rma_expect expect)
{
    struct rma op = {.expect = expect};

    move(&op, is_put, task, from_or_to, remote, bytes);
    WAIT(&job, rma_pending == 0);
}

/* ---- neighbours: pieces of many transfers, one behind the other ---- */

/* Cuts that pieces do not know of; the last one is the end. */
static size_t cut(size_t i)
{
    return i == SIDE ? BYTES : i * (BYTES / SIDE) + i * i * 61 % 777;
}

static void side_by_side(bool is_put, unsigned char *remote, size_t seed)
{
    struct rma op[SIDE] = {{.expect = RMA_GOOD}};

    test_fill(local, BYTES, seed, job.task);
    if (!is_put) {
        move_one(true, next, local, remote, BYTES, RMA_GOOD);
        memset(local, GUARD_BYTE, BYTES);
    }
    for (size_t i = 0; i < SIDE; i++)
        move(&op[i], is_put, next, local + cut(i), remote + cut(i), cut(i + 1) - cut(i));
    WAIT(&job, rma_pending == 0);
    if (is_put) {
        memset(local, GUARD_BYTE, BYTES);
        move_one(false, next, local, remote, BYTES, RMA_GOOD);
    }
    CHECK_SIZE(test_differs(local, BYTES, seed, job.task), BYTES);
}

/* Nothing around the bytes that are meant. */
static void odd_sizes(bool is_put, unsigned char *remote)
{
    static const size_t sizes[] = {2 * SPLIT - 1,  2 * SPLIT,     2 * SPLIT + 1, 3 * SPLIT - 63,
                                   3 * SPLIT + 65, 9 * SPLIT + 7, 50001};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = sizes[i], at = 1 + i * 13;

        memset(local, GUARD_BYTE, BYTES);
        move_one(true, next, local, remote, BYTES, RMA_GOOD);
        if (is_put) {
            test_fill(local + at, bytes, i, 0);
            move_one(true, next, local + at, remote + 2 * at, bytes, RMA_GOOD);
            memset(local, 0, BYTES);
            move_one(false, next, local, remote, BYTES, RMA_GOOD);
            at *= 2;
        } else {
            test_fill(local, bytes, i, 0);
            move_one(true, next, local, remote + 3, bytes, RMA_GOOD);
            memset(local, GUARD_BYTE, BYTES);
            move_one(false, next, local + at, remote + 3, bytes, RMA_GOOD);
        }
        CHECK(test_all(local, at, GUARD_BYTE));
        CHECK_SIZE(test_differs(local + at, bytes, i, 0), bytes);
        CHECK(test_all(local + at + bytes, BYTES - at - bytes, GUARD_BYTE));
    }
}

/* ---- both sides in the same memory ---- */

/* As memmove does. `base` is where this task sees the memory of `task` at `remote`. */
static void over_itself(bool is_put, size_t task, unsigned char *base, unsigned char *remote)
{
    static const size_t shifts[] = {1, 64, 1000, 5 * SPLIT, 20000};

    for (size_t i = 0; i < 2 * sizeof shifts / sizeof *shifts; i++) {
        size_t shift = shifts[i / 2], bytes = 30000;
        size_t from = i % 2 == 0 ? 0 : shift, to = shift - from;

        test_fill(base, bytes + shift, i, 0);
        if (is_put)
            move_one(true, task, base + from, remote + to, bytes, RMA_GOOD);
        else
            move_one(false, task, base + to, remote + from, bytes, RMA_GOOD);
        CHECK_SIZE(test_differs(base + to, bytes, i, from), bytes);
    }
}

static void shared_memory(void)
{
    unsigned char *seen =
        PAMIX_Mem_local_address(job.client, (pami_task_t)next, heaps[next], BYTES);

    for (int is_put = 0; is_put < 2; is_put++) {
        over_itself(is_put != 0, job.task, heap, heap);
        over_itself(is_put != 0, job.task, local, local);
        job_barrier(&job);
        if (seen != NULL)
            over_itself(is_put != 0, next, seen, heaps[next]);
        job_barrier(&job);
    }
}

/* ---- one piece fails ---- */

/* The hole is a page of the next task's memory; all else is there. */
static void hole_at(size_t page)
{
    unsigned char *mine = plain + page * PAGE, *remote = plains[next];

    job_barrier(&job);
    CHECK(mprotect(mine, PAGE, PROT_NONE) == 0);
    job_barrier(&job);
    for (int is_put = 0; is_put < 2; is_put++) {
        struct rma bad = {.expect = RMA_BAD}, good = {.expect = RMA_GOOD};
        size_t half = page < PAGES / 2 ? BYTES / 2 : 0;

        test_fill(local, BYTES, page, job.task);
        move(&bad, is_put != 0, next, local, remote, BYTES);
        WAIT(&job, rma_has_ended(&bad));
        CHECK(bad.done == 1 && bad.rdone == (unsigned)is_put);
        /* The half that is whole. */
        test_fill(local, BYTES, page + 1, job.task);
        move(&good, true, next, local + half, remote + half, BYTES / 2);
        WAIT(&job, rma_pending == 0);
        memset(local, 0, BYTES);
        move_one(false, next, local + half, remote + half, BYTES / 2, RMA_GOOD);
        CHECK_SIZE(test_differs(local + half, BYTES / 2, page + 1, job.task + half), BYTES / 2);
    }
    job_barrier(&job);
    CHECK(mprotect(mine, PAGE, PROT_READ | PROT_WRITE) == 0);
    job_barrier(&job);
}

/* ---- */

static void all(void)
{
    for (int is_put = 0; is_put < 2; is_put++) {
        side_by_side(is_put != 0, heaps[next], 10);
        side_by_side(is_put != 0, plains[next], 20);
        odd_sizes(is_put != 0, heaps[next]);
        odd_sizes(is_put != 0, plains[next]);
    }
    job_barrier(&job);
    shared_memory();
    if (job.tasks > 1) { /* what is this task's own is touched directly */
        hole_at(0);
        hole_at(PAGES / 2 + 3);
        hole_at(PAGES - 1);
    }
    job_barrier(&job);
}

/* Header and data have a small sum. */
static void impossible(void)
{
    pami_endpoint_t dest = job_endpoint(&job, next, 0);
    pami_put_simple_t put = {.rma = {.dest = dest}, .addr = {local, heaps[next]}};

    for (size_t bytes = SIZE_MAX; bytes != 0; bytes -= SIZE_MAX / 3) {
        pami_send_t message = {.send = test_message(dest, 0, local, bytes, local, 8)};

        put.rma.bytes = bytes;
        CHECK_REFUSED(PAMIX_Servers_put(servers, job.context[0], &put, PAMIX_SERVERS_ORDERED),
                      PAMI_INVAL, "bytes");
        CHECK_REFUSED(PAMIX_Servers_send(servers, job.context[0], &message, 0), PAMI_INVAL,
                      "header");
    }
}

int main(int argc, char **argv)
{
    pamix_servers_policy_t policy;
    pamix_servers_status_t status;

    servers_count = argc > 1 ? strtoul(argv[1], NULL, 10) : 2;
    job_start(&job, "servers split", 1 + servers_count);
    rma_open(&job);
    job.driven = 1;
    next = (job.task + 1) % job.tasks;
    heap = servers_memory(&job, BYTES);
    local = servers_memory(&job, BYTES);
    plain = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(plain != MAP_FAILED);
    heaps = test_alloc(job.tasks * sizeof *heaps), plains = test_alloc(job.tasks * sizeof *plains);
    rma_share(&job, &heap, sizeof heap, heaps);
    rma_share(&job, &plain, sizeof plain, plains);
    servers = servers_make(&job, 1, servers_count, NULL);
    policy = servers_policy(servers);
    policy.split = SPLIT;
    CHECK_OK(PAMIX_Servers_start(servers));
    for (policy.active = 0; policy.active < 2; policy.active++) {
        CHECK_OK(PAMIX_Servers_set_policy(servers, &policy));
        all();
    }
    impossible();
    status = servers_status(servers);
    CHECK(status.puts > 0 && status.gets > 0);
    servers_end(&job, &servers);
    rma_close(&job);
    CHECK(munmap(plain, BYTES) == 0);
    free(heaps), free(plains);
    return 0;
}
