/*
 * The first words of all tasks cross: each sends to all others at the same moment, and again when
 * it has heard from all. None may be lost, whoever connects to whom for that. Each round has
 * endpoints of its own.
 *
 *     crossing [--rounds N] [--seed N]
 *
 * Run: tasks=3,6 nodes=3,6 env="PAMI_NETWORK=ofi" timeout=120
 */
#include "net/net.h"
#include "net/stage.h"

#include <sched.h>

enum {
    ID = 10,
    TASKS_MAX = 16,
    WORDS = 3
};

static struct job job;
static size_t heard[TASKS_MAX];
static uint64_t state;

static void on_word(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    size_t task = test_origin(origin);

    (void)context, (void)cookie, (void)data, (void)bytes, (void)recv;
    CHECK(header_bytes == sizeof(size_t));
    CHECK(*(const size_t *)header == heard[task]);
    heard[task]++;
}

/* All begin within a microsecond or so where they have processors. */
static void line_up(unsigned round)
{
    unsigned all = (unsigned)job.tasks * (round + 1);

    atomic_fetch_add(stage, 1);
    while (atomic_load(stage) < all)
        sched_yield();
}

static void pause_some(void)
{
    uint64_t random = test_random(&state);

    if (random % 4 == 0)
        test_sleep(1e-6 * (double)(random / 4 % 300));
}

static bool all_heard(size_t word)
{
    for (size_t task = 0; task < job.tasks; task++)
        if (task != job.task && heard[task] <= word)
            return false;
    return true;
}

static void exchange(size_t word)
{
    double until = test_now() + 10 * test_factor();

    for (size_t i = 1; i < job.tasks; i++) {
        test_send_immediate(job.context[0], job_endpoint(&job, (job.task + i) % job.tasks, 0), ID,
                            &word, sizeof word, NULL, 0);
        pause_some();
    }
    while (!all_heard(word)) {
        test_advance(job.context[0], 1);
        if (test_now() < until)
            continue;
        for (size_t task = 0; task < job.tasks; task++)
            fprintf(stderr, "%zu words from task %zu\n", heard[task], task);
        FAIL("word %zu has not come from all", word);
    }
}

int main(int argc, char **argv)
{
    unsigned rounds = 20;
    uint64_t seed = 1;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--rounds") == 0)
            rounds = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
    }
    for (unsigned round = 0; round < rounds; round++) {
        job_start(&job, "crossing", 1);
        if (round == 0) {
            need_module();
            CHECK(job.tasks <= TASKS_MAX);
            stage = share_open("crossing", sizeof *stage);
            state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + job.task;
        }
        memset(heard, 0, sizeof heard);
        test_dispatch(job.context[0], ID, on_word, NULL, test_ordered());
        line_up(round);
        if (round == 0)
            share_forget("crossing");
        for (size_t word = 0; word < WORDS; word++)
            exchange(word);
        job_finish(&job);
    }
    return 0;
}
