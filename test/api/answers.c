/*
 * Tasks that answer one another, now and then in a burst, out of the dispatch function and before
 * it has looked at what it was given: the order of messages holds and their data stay as they are.
 * So they do with new contexts of all, and when only task 1 has new ones.
 *
 * Run: tasks=2 args="1" timeout=60
 * Run: tasks=2 args="2" env="PAMI_SHM_RING_SLOTS=4" timeout=60
 * Run: tasks=2 args="3" env="PAMI_SHM_LANES=0" timeout=60
 * Run: tasks=3,8 args="4" timeout=60
 * Run: tasks=7 args="5" env="PAMI_SHM_LANES=2" timeout=60
 * Run: tasks=4 nodes=2 args="6" timeout=60
 */
#include "api_test.h"

enum {
    ID = 3,
    CONTEXTS = 2,
    TASKS_MAX = 16,
    MESSAGES = 4000, /* from each context to the same one of each other task */
    LIVES = 3,
    LONGEST = 120 /* some need more than a slot */
};

struct head {
    size_t number;
    uint64_t seed;
};

struct pair {
    size_t sent, received;
};

static struct job job;
static struct pair pairs[CONTEXTS][TASKS_MAX];
static uint64_t dice;
static size_t farewells;

static void fill(unsigned char *data, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(seed * 7 + i * 13 + (seed >> 8));
}

static void send_next(size_t context, size_t task)
{
    static const size_t limits[] = {9, 17, 41, 105, LONGEST + 1};
    struct pair *pair = &pairs[context][task];
    size_t bytes = test_random(&dice) % limits[test_random(&dice) % 5];
    struct head head = {pair->sent, test_random(&dice)};
    unsigned char data[LONGEST];

    if (pair->sent == MESSAGES)
        return;
    pair->sent++;
    fill(data, bytes, head.seed);
    test_send_immediate(job.context[context], job_endpoint(&job, task, context), ID, &head,
                        sizeof head, data, bytes);
}

static void on_message(pami_context_t handle, void *cookie, const void *header, size_t header_bytes,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    size_t context = handle == job.context[1], offset;
    unsigned char want[LONGEST];
    struct head head;
    pami_task_t task;

    (void)cookie;
    CHECK(recv == NULL && bytes <= LONGEST && header_bytes == sizeof head);
    CHECK_OK(PAMI_Endpoint_query(origin, &task, &offset));
    CHECK(offset == context);
    if (test_random(&dice) % 4 != 0)
        send_next(context, task);
    memcpy(&head, header, sizeof head);
    if (head.number != pairs[context][task].received)
        FAIL("from task %u: message %zu comes instead of %zu", task, head.number,
             pairs[context][task].received);
    pairs[context][task].received++;
    fill(want, bytes, head.seed);
    CHECK(bytes == 0 || memcmp(want, data, bytes) == 0);
}

/* How many of all pairs are to be sent yet, or received. */
static struct pair missing(void)
{
    struct pair sum = {0, 0};

    for (size_t c = 0; c < CONTEXTS; c++)
        for (size_t task = 0; task < job.tasks; task++)
            if (task != job.task) {
                sum.sent += MESSAGES - pairs[c][task].sent;
                sum.received += MESSAGES - pairs[c][task].received;
            }
    return sum;
}

static void on_farewell(pami_context_t context, void *cookie, const void *header,
                        size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                        pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes,
        (void)origin, (void)recv;
    farewells++;
}

/* Task 0 says farewell, task 1 answers and begins a new life, task 0 goes on with that. */
static void one_restarts(void)
{
    pami_endpoint_t gone[CONTEXTS] = {job_endpoint(&job, 1, 0), job_endpoint(&job, 1, 1)};

    test_dispatch(job.context[0], ID + 1, on_farewell, NULL, test_ordered());
    job_barrier(&job);
    if (job.task == 1)
        WAIT(&job, farewells == 1);
    test_send_immediate(job.context[0], job_endpoint(&job, !job.task, 0), ID + 1, NULL, 0, NULL, 0);
    WAIT(&job, farewells == 1);
    if (job.task == 1) {
        job_destroy_contexts(&job);
        job_create_contexts(&job, CONTEXTS);
        for (size_t c = 0; c < CONTEXTS; c++)
            test_dispatch(job.context[c], ID, on_message, NULL, test_ordered());
    } else {
        test_sleep(0.5);
        for (size_t c = 0; c < CONTEXTS; c++) {
            CHECK_OK(PAMI_Purge(job.context[c], gone, CONTEXTS));
            CHECK_OK(PAMI_Resume(job.context[c], gone, CONTEXTS));
        }
    }
}

static void exchange(void)
{
    static const size_t bursts[] = {1, 1, 1, 2, 5, 40};

    while (missing().sent != 0) {
        size_t task = test_random(&dice) % job.tasks, context = test_random(&dice) % CONTEXTS;
        size_t burst = bursts[test_random(&dice) % 6];

        for (size_t i = 0; i < burst && task != job.task; i++)
            send_next(context, task);
        for (size_t i = test_random(&dice) % 8; i-- > 0;)
            job_advance(&job);
    }
    WAIT(&job, missing().received == 0);
}

int main(int argc, char **argv)
{
    job_start(&job, "answers", CONTEXTS);
    CHECK(job.tasks <= TASKS_MAX);
    dice = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1) + job.task * 1000;
    for (size_t life = 0; life < LIVES; life++) {
        if (life != 0) {
            job_barrier(&job);
            job_destroy_contexts(&job);
            job_create_contexts(&job, CONTEXTS);
        }
        memset(pairs, 0, sizeof pairs);
        for (size_t c = 0; c < CONTEXTS; c++)
            test_dispatch(job.context[c], ID, on_message, NULL, test_ordered());
        job_barrier(&job);
        exchange();
    }
    if (job.tasks == 2) {
        one_restarts();
        memset(pairs, 0, sizeof pairs);
        if (job.task == 1)
            WAIT(&job, pairs[0][0].received != 0 && pairs[1][0].received != 0);
        exchange();
    }
    job_destroy(&job);
    return 0;
}
